"""Device contexts and kernels."""

from collections.abc import Callable, Sequence
import enum

import kiln._core
import kiln._core.driver


class DeviceAttribute(enum.IntEnum):
    """What a device can do."""

    MAX_THREADS_PER_BLOCK = 1

    MAX_BLOCK_DIM_X = 2

    MAX_BLOCK_DIM_Y = 3

    MAX_BLOCK_DIM_Z = 4

    MAX_GRID_DIM_X = 5

    MAX_GRID_DIM_Y = 6

    MAX_GRID_DIM_Z = 7

    MAX_SHARED_MEMORY_PER_BLOCK = 8

    WARP_SIZE = 10

    MAX_REGISTERS_PER_BLOCK = 12

    CLOCK_RATE = 13

    MULTIPROCESSOR_COUNT = 16

    MAX_THREADS_PER_MULTIPROCESSOR = 39

    COMPUTE_CAPABILITY_MAJOR = 75

    COMPUTE_CAPABILITY_MINOR = 76

    MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81

    MAX_REGISTERS_PER_MULTIPROCESSOR = 82

    COOPERATIVE_LAUNCH = 95

    MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97

    MAX_BLOCKS_PER_MULTIPROCESSOR = 106

    MAX_ACCESS_POLICY_WINDOW_SIZE = 109

    PARALLELISM_LEVEL = 1000

class Attribute(enum.IntEnum):
    """What a compiled kernel needs and how it is configured."""

    MAX_THREADS_PER_BLOCK = 0

    SHARED_SIZE_BYTES = 1

    CONST_SIZE_BYTES = 2

    LOCAL_SIZE_BYTES = 3

    NUM_REGS = 4

    PTX_VERSION = 5

    BINARY_VERSION = 6

    CACHE_MODE_CA = 7

    MAX_DYNAMIC_SHARED_SIZE_BYTES = 8

    PREFERRED_SHARED_MEMORY_CARVEOUT = 9

    CLUSTER_SIZE_MUST_BE_SET = 10

    REQUIRED_CLUSTER_WIDTH = 11

    REQUIRED_CLUSTER_HEIGHT = 12

    REQUIRED_CLUSTER_DEPTH = 13

    NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14

    CLUSTER_SCHEDULING_POLICY_PREFERENCE = 15

class FuncAttribute:
    """A setting of one kernel."""

    def __init__(self, attribute: int = -1, value: int = -1) -> None: ...

    @staticmethod
    def CACHE_MODE_CA(value: bool) -> FuncAttribute:
        """Whether global loads are cached in L1."""

    @staticmethod
    def MAX_DYNAMIC_SHARED_SIZE_BYTES(bytes: int) -> FuncAttribute:
        """The most dynamic shared memory of a launch."""

    @staticmethod
    def PREFERRED_SHARED_MEMORY_CARVEOUT(percent: int) -> FuncAttribute:
        """The part of L1 that is shared memory."""

    @property
    def attribute(self) -> int:
        """Its code."""

    @property
    def value(self) -> int:
        """What it is set to."""

    def __eq__(self, arg: object | None, /) -> object: ...

    def __hash__(self) -> int: ...

    NULL_ATTRIBUTE: FuncAttribute = ...

class LaunchAttribute:
    """A setting of one launch."""

    def __init__(self, id: LaunchAttribute.Id = Id.IGNORE, value: object | None = None) -> None: ...

    class Id(enum.IntEnum):
        """Which setting."""

        IGNORE = 0

        ACCESS_POLICY_WINDOW = 1

        COOPERATIVE = 2

        SYNCHRONIZATION_POLICY = 3

        CLUSTER_DIMENSION = 4

        CLUSTER_SCHEDULING_POLICY_PREFERENCE = 5

        PROGRAMMATIC_STREAM_SERIALIZATION = 6

        PROGRAMMATIC_EVENT = 7

        PRIORITY = 8

        MEM_SYNC_DOMAIN_MAP = 9

        MEM_SYNC_DOMAIN = 10

        LAUNCH_COMPLETION_EVENT = 12

        DEVICE_UPDATABLE_KERNEL_NODE = 13

        PREFERRED_SHARED_MEMORY_CARVEOUT = 14

    IGNORE: LaunchAttribute.Id = Id.IGNORE

    ACCESS_POLICY_WINDOW: LaunchAttribute.Id = Id.ACCESS_POLICY_WINDOW

    COOPERATIVE: LaunchAttribute.Id = Id.COOPERATIVE

    SYNCHRONIZATION_POLICY: LaunchAttribute.Id = Id.SYNCHRONIZATION_POLICY

    CLUSTER_DIMENSION: LaunchAttribute.Id = Id.CLUSTER_DIMENSION

    CLUSTER_SCHEDULING_POLICY_PREFERENCE: LaunchAttribute.Id = Id.CLUSTER_SCHEDULING_POLICY_PREFERENCE

    PROGRAMMATIC_STREAM_SERIALIZATION: LaunchAttribute.Id = Id.PROGRAMMATIC_STREAM_SERIALIZATION

    PROGRAMMATIC_EVENT: LaunchAttribute.Id = Id.PROGRAMMATIC_EVENT

    PRIORITY: LaunchAttribute.Id = Id.PRIORITY

    MEM_SYNC_DOMAIN_MAP: LaunchAttribute.Id = Id.MEM_SYNC_DOMAIN_MAP

    MEM_SYNC_DOMAIN: LaunchAttribute.Id = Id.MEM_SYNC_DOMAIN

    LAUNCH_COMPLETION_EVENT: LaunchAttribute.Id = Id.LAUNCH_COMPLETION_EVENT

    DEVICE_UPDATABLE_KERNEL_NODE: LaunchAttribute.Id = Id.DEVICE_UPDATABLE_KERNEL_NODE

    PREFERRED_SHARED_MEMORY_CARVEOUT: LaunchAttribute.Id = Id.PREFERRED_SHARED_MEMORY_CARVEOUT

    @staticmethod
    def from_cluster_dim(dim: object | None) -> LaunchAttribute:
        """Blocks that run together."""

    @property
    def id(self) -> LaunchAttribute.Id:
        """Which setting."""

class DeviceStream:
    """An in-order stream of one device, with launches."""

    def __init__(self, queue: kiln._core.driver.DeviceQueue) -> None: ...

    @property
    def queue(self) -> kiln._core.driver.DeviceQueue:
        """The driver's queue."""

    def synchronize(self) -> None:
        """Blocks until the stream is empty; raises what its work failed with."""

    def record_event(self, event: kiln._core.driver.DeviceEvent) -> None:
        """Marks the present end; a new mark replaces the old one."""

    def enqueue_wait_for(self, event: kiln._core.driver.DeviceEvent) -> None:
        """Later work here waits for the event's present mark."""

    def wait_for_host_value(self, flag: kiln._core.driver.CompletionFlag, value: int) -> None:
        """Stalls until the flag holds `value`; CUDA only."""

    def enqueue_function(self, f: DeviceFunction, *args, grid_dim: object | None, block_dim: object | None, cluster_dim: object | None = None, shared_mem_bytes: object | None = None, attributes: Sequence[LaunchAttribute] = []) -> None:
        """Launches a function on this stream."""

    def __eq__(self, arg: object | None, /) -> object: ...

    def __hash__(self) -> int: ...

class DeviceFunction:
    """A compiled or loaded kernel of one device."""

    def __init__(self, *args, **kwargs) -> None: ...

    @property
    def name(self) -> str:
        """The kernel's name."""

    def get_attribute(self, attribute: Attribute) -> int:
        """One attribute; ValueError when the backend does not know it."""

    def occupancy_max_active_blocks_per_multiprocessor(self, block_size: int, dynamic_shared_mem_size: int) -> int:
        """Resident blocks of a multiprocessor."""

    def dump_rep(self, *, dump_asm: object | None = False, dump_llvm: object | None = False, dump_sass: object | None = False) -> None:
        """Writes the text of the kernel."""

    def __repr__(self) -> str: ...

class DeviceContext:
    """
    One ordered stream of work on one device: buffers, copies, kernels, waits.

    >>> import numpy as np
    >>> from kiln.dtype import DType
    >>> from kiln.gpu import DeviceContext
    >>> with DeviceContext(api="cpu") as ctx:
    ...     x = ctx.enqueue_create_buffer(DType.float32, 4)
    ...     ctx.enqueue_memset(x, 1.5)
    ...     ctx.synchronize()
    >>> x.to_numpy()
    array([1.5, 1.5, 1.5, 1.5], dtype=float32)
    """

    def __init__(self, device_id: object | None = 0, *, api: str | None = None) -> None: ...

    def __enter__(self) -> object: ...

    def __exit__(self, *args) -> bool: ...

    @staticmethod
    def default_device_info() -> dict:
        """What is known about the default device."""

    def name(self) -> str:
        """The vendor's device name."""

    def api(self) -> str:
        """'cpu', 'cuda', 'hip' or 'metal'."""

    def id(self) -> int:
        """Device number of this api."""

    def get_api_version(self) -> int:
        """The installed driver's version as the vendor numbers it; 0 on the CPU."""

    def get_attribute(self, attribute: int) -> int:
        """One attribute, by its member of DeviceAttribute or its number."""

    def is_compatible(self) -> bool:
        """Whether kiln can compile for and run on the device."""

    def run_healthcheck(self) -> None:
        """RuntimeError that says what is wrong when the device is unhealthy."""

    def get_memory_info(self) -> tuple[int, int]:
        """Free and total bytes."""

    def max_single_alloc_size(self) -> int:
        """Bytes of the largest block."""

    def supports_multicast(self) -> bool:
        """As SymmetricPool asks."""

    @staticmethod
    def number_of_devices(*, api: str | None = None) -> int:
        """Devices of that api; never raises."""

    def enqueue_create_buffer(self, dtype: kiln._core.DType, size: int) -> kiln._core.driver.Buffer:
        """`size` elements of device memory, uninitialised."""

    def create_buffer_sync(self, dtype: kiln._core.DType, size: int) -> kiln._core.driver.Buffer:
        """The same, then synchronizes."""

    def enqueue_create_host_buffer(self, dtype: kiln._core.DType, size: int) -> kiln._core.driver.Buffer:
        """Page-locked host memory."""

    def enqueue_copy(self, dst: object | None, src: object | None) -> None:
        """
        Copies as many elements as `dst` has, in stream order; each a Buffer or an array.
        """

    def enqueue_memset(self, dst: object | None, value: bool | int | float) -> None:
        """Every element becomes `value`."""

    def compile_function(self, name: str, source: str, *, compile_options: str = '', link_options: str = '', dump_asm: object | None = False, dump_llvm: object | None = False, dump_sass: object | None = False, ptxas_info_verbose: bool = False, func_attribute: object | None = None) -> DeviceFunction:
        """Compiles a kernel of CUDA-dialect C++."""

    def load_function(self, *, function_name: str, asm: object | None, func_attribute: object | None = None) -> DeviceFunction:
        """Takes a kernel out of PTX text or a binary image."""

    def enqueue_function(self, f: DeviceFunction, *args, grid_dim: object | None, block_dim: object | None, cluster_dim: object | None = None, shared_mem_bytes: object | None = None, attributes: Sequence[LaunchAttribute] = []) -> None:
        """Launches a function with Buffers and numbers as arguments."""

    def enqueue_cpu_function(self, func: Callable) -> None:
        """Runs `func()` on a worker of the host; CPU contexts only."""

    def enqueue_cpu_range(self, func: Callable, count: int) -> None:
        """Runs `func(i)` for each i in [0, count); CPU contexts only."""

    def execution_time(self, func: Callable, num_iters: int) -> int:
        """
        Nanoseconds that the work of `num_iters` calls of `func(ctx)` takes in all.
        """

    def execution_time_iter(self, func: Callable, num_iters: int) -> int:
        """The same with `func(ctx, i)`."""

    def stream(self) -> DeviceStream:
        """The stream that this context submits to."""

    def create_stream(self, *, priority: int = 0) -> DeviceStream:
        """A new stream; a lower number is more urgent."""

    def stream_priority_range(self) -> tuple[int, int]:
        """The least and the greatest priority."""

    def create_external_stream(self, stream: int) -> DeviceStream:
        """Wraps a stream of the vendor by its address, without owning it."""

    def set_as_current(self) -> None:
        """Makes the device's vendor context the present one of this thread."""

    def create_event(self, *, blocking_sync: bool = False, disable_timing: bool = True, interprocess: bool = False) -> kiln._core.driver.DeviceEvent:
        """An event of this device."""

    def synchronize(self) -> None:
        """Blocks until the stream is empty; raises what its work failed with."""

    def enqueue_wait_for(self, other: DeviceContext) -> None:
        """Later work here starts after the present work of `other`."""

    def num_streams(self) -> int:
        """Streams that select_stream reaches."""

    def select_stream(self, stream_id: int) -> DeviceContext:
        """This context on stream `stream_id` of 0 to 63."""

    def can_access(self, peer: DeviceContext) -> bool:
        """The hardware's answer for peer reads and writes."""

    def enable_peer_access(self, peer: DeviceContext) -> None:
        """Lets this device use `peer`'s memory."""

    @staticmethod
    def enable_all_peer_access() -> None:
        """Every pair in both directions."""

    @staticmethod
    def all_peer_access_enabled() -> bool:
        """Whether every pair is on and there are at least two accelerators."""

    @property
    def device(self) -> kiln._core.driver.Device:
        """The driver's device."""

    def __eq__(self, arg: object | None, /) -> object: ...

    def __hash__(self) -> int: ...
