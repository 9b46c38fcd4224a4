"""Devices, queues and buffers."""

from collections.abc import Callable, Iterator, Sequence
import enum
from typing import Any, SupportsFloat, SupportsIndex, overload

import kiln._core.dtype


class Device:
    """
    The host or an accelerator: the base of CPU and Accelerator, which open one.

    >>> from kiln.driver import CPU
    >>> CPU(), CPU().is_host, CPU() is CPU(0)
    (Device(type=cpu,id=0), True, True)
    """

    def __init__(self, *args, **kwargs) -> None: ...

    @property
    def label(self) -> str:
        """'cpu' or 'gpu'."""

    @property
    def api(self) -> str:
        """'cpu', 'cuda', 'hip' or 'metal'."""

    @property
    def id(self) -> int:
        """Zero-based on this host."""

    @property
    def architecture_name(self) -> str:
        """Such as 'sm_90'; RuntimeError on the CPU."""

    @property
    def model_name(self) -> str:
        """The processor's or product's name."""

    @property
    def is_host(self) -> bool:
        """Whether this is the CPU."""

    @property
    def is_host_unified(self) -> bool:
        """Whether device and host share one physical memory."""

    @property
    def is_compatible(self) -> bool:
        """Whether kiln can run code on it."""

    @property
    def stats(self) -> dict[str, int]:
        """'free_memory' and 'total_memory' in bytes, on accelerators more."""

    @property
    def max_single_alloc_size(self) -> int:
        """Bytes of the largest allocation."""

    @property
    def default_queue(self) -> DeviceQueue:
        """The queue of every buffer made without a queue."""

    def synchronize(self) -> None:
        """Waits for the default queue and raises what it failed with."""

    def __unsafe_enqueue_py_host_func(self, fn: object | None) -> None:
        """Runs `fn` on the default queue after earlier work; CUDA devices only."""

    def __unsafe_enqueue_async_py_host_func(self, fn: object | None, flag: object | None, value: object | None, cpu: object | None) -> None:
        """
        Starts `fn` on the host's workers without stalling the queue; CUDA devices only.
        """

    def trim(self) -> int:
        """
        Gives pooled memory that nobody uses back to the system; returns the bytes.
        """

    def can_access(self, other: Device) -> bool:
        """Whether this device can read memory of the other; False for CPUs."""

    def __repr__(self) -> str: ...

    def __eq__(self, arg: object | None, /) -> object: ...

    def __hash__(self) -> int: ...

    def __reduce__(self) -> tuple: ...

    @staticmethod
    def cpu(id: int = -1) -> Device:
        """The host device, whatever the id."""

class CPU(Device):
    """The host device."""

    def __init__(self, id: int = -1) -> None: ...

class Accelerator(Device):
    """
    An accelerator, -1 for the first. ValueError starting 'failed to create device:' otherwise.
    """

    def __init__(self, id: int = -1) -> None: ...

class DeviceSpec:
    """Names a device without opening it."""

    def __init__(self, id: int, device_type: str = 'cpu') -> None: ...

    @staticmethod
    def cpu(id: int = -1) -> DeviceSpec:
        """The host."""

    @staticmethod
    def accelerator(id: int = 0) -> DeviceSpec:
        """An accelerator."""

    @property
    def id(self) -> int:
        """Zero-based on this host."""

    @property
    def device_type(self) -> str:
        """'cpu' or 'gpu'."""

    def __eq__(self, arg: object | None, /) -> object: ...

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

    def __reduce__(self) -> tuple: ...

def accelerator_count() -> int:
    """
    Number of accelerators; a missing or unusable vendor driver counts as 0.
    """

def accelerator_api() -> str:
    """`api` of accelerator 0, else 'cpu'."""

def accelerator_architecture_name() -> str:
    """Of accelerator 0; RuntimeError without one."""

def load_devices(specs: Sequence[DeviceSpec]) -> list[Device]:
    """Opens each spec, in order."""

def scan_available_devices() -> list[DeviceSpec]:
    """One spec per accelerator; one CPU spec when there is none."""

def devices_exist(specs: Sequence[DeviceSpec]) -> bool:
    """Whether every spec that is no CPU is in the scan."""

def enable_all_peer_access() -> None:
    """
    Lets accelerators read each other's memory; RuntimeError when a pair cannot.
    """

class DeviceEvent:
    """A mark in the work of a queue."""

    def __init__(self, device: Device, enable_timing: bool = False) -> None: ...

    @property
    def device(self) -> Device:
        """The device it was made for."""

    def synchronize(self) -> None:
        """Blocks for the recorded point; at once when never recorded."""

    def is_ready(self) -> bool:
        """Whether the recorded point has been reached."""

    def elapsed_time(self, end: DeviceEvent) -> float:
        """Milliseconds from this event to `end`."""

    def __eq__(self, arg: object | None, /) -> object: ...

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

class DeviceQueue:
    """
    An in-order queue of work on one device.

    >>> from kiln.driver import CPU, DeviceQueue
    >>> queue = DeviceQueue(CPU())
    >>> done = []
    >>> queue.enqueue_cpu_function(lambda: done.append("on the queue"))
    >>> queue.synchronize()
    >>> done
    ['on the queue']
    """

    def __init__(self, device: Device) -> None: ...

    @property
    def device(self) -> Device:
        """The device that runs its work."""

    @property
    def native_stream_handle(self) -> int:
        """The vendor's stream; 0 on the CPU."""

    def synchronize(self) -> None:
        """Blocks until everything enqueued so far has run; raises what failed."""

    @overload
    def record_event(self) -> DeviceEvent:
        """A new event that marks the queue's present end."""

    @overload
    def record_event(self, event: DeviceEvent) -> None:
        """Moves the event's mark to the queue's present end."""

    @overload
    def wait_for(self, queue: DeviceQueue) -> None:
        """Later work here starts after the other queue's present work."""

    @overload
    def wait_for(self, device: Device) -> None:
        """Later work here starts after the default queue's present work."""

    @overload
    def wait_for(self, event: DeviceEvent) -> None:
        """Later work here starts after the event's present mark."""

    def wait_for_host_value(self, flag: object | None, value: int) -> None:
        """Later work here starts once the flag holds `value`; CUDA queues only."""

    def __unsafe_enqueue_async_py_host_func(self, fn: object | None, flag: object | None, value: object | None, cpu: object | None) -> None:
        """
        Starts `fn` on the host's workers without stalling the queue; CUDA queues only.
        """

    def enqueue_cpu_function(self, fn: Callable) -> None:
        """
        Runs `fn()` on the queue's worker after earlier work; its exception fails the queue.
        """

    def __eq__(self, arg: object | None, /) -> object: ...

    def __hash__(self) -> int: ...

    def __repr__(self) -> str: ...

class Usage(enum.Flag):
    """What memory is meant for; a set of flags."""

    DEFAULT = 0
    """No special intent."""

    STAGING = 1
    """Host memory meant for transfers."""

    UNTRACKED = 2
    """No automatic waits, together with STAGING."""

class Buffer:
    """
    A strided, typed window onto memory of one device.

    >>> from kiln.driver import Buffer
    >>> from kiln.dtype import DType
    >>> buffer = Buffer(DType.float32, (2, 3))
    >>> for index in buffer._iterate_indices(): buffer[index] = sum(index)
    >>> buffer[1, 2].item(), buffer[:, 1].to_numpy().tolist()
    (3.0, [1.0, 2.0])
    """

    @overload
    def __init__(self, dtype: kiln._core.dtype.DType, shape: Sequence[int], device: Device | None = None, usage: Usage = Usage.DEFAULT) -> None: ...

    @overload
    def __init__(self, dtype: kiln._core.dtype.DType, shape: Sequence[int], stream: DeviceQueue, usage: Usage = Usage.DEFAULT) -> None: ...

    @overload
    def __init__(self, shape: object, device: Device | None = None) -> None: ...

    @staticmethod
    def zeros(shape: Sequence[int], dtype: kiln._core.dtype.DType, device: Device | None = None, usage: Usage = Usage.DEFAULT) -> Buffer:
        """
        A buffer with every byte cleared.

        >>> from kiln.driver import Buffer
        >>> from kiln.dtype import DType
        >>> Buffer.zeros((2, 3), DType.int32).to_numpy().tolist()
        [[0, 0, 0], [0, 0, 0]]
        """

    @staticmethod
    def scalar(value: SupportsFloat | SupportsIndex, dtype: kiln._core.dtype.DType, device: Device | None = None) -> Buffer:
        """A buffer of rank 0 that holds the converted value."""

    @staticmethod
    def from_numpy(arr: object | None) -> Buffer:
        """
        A CPU buffer that aliases a C-contiguous, writable array; other arrays are copied.

        >>> import numpy as np
        >>> from kiln.driver import Buffer
        >>> array = np.arange(4)
        >>> buffer = Buffer.from_numpy(array)
        >>> array[0] = 7
        >>> buffer[0].item()
        7
        """

    @staticmethod
    def from_dlpack(array: object, *, copy: bool | None = None) -> Buffer:
        """
        A buffer on the memory of any DLPack producer; `copy` as in the array API.
        """

    @staticmethod
    def mmap(filename: object | None, dtype: kiln._core.dtype.DType, shape: object | None, mode: str = 'copyonwrite', offset: int = 0) -> Buffer:
        """A CPU buffer over a binary file, with the modes of numpy.memmap."""

    @property
    def dtype(self) -> kiln._core.dtype.DType:
        """Element type."""

    @property
    def device(self) -> Device:
        """Where the memory lies."""

    @property
    def stream(self) -> DeviceQueue:
        """The queue it is bound to."""

    @property
    def shape(self) -> tuple:
        """Extents."""

    @property
    def rank(self) -> int:
        """Number of axes."""

    @property
    def num_elements(self) -> int:
        """Product of the extents."""

    @property
    def element_size(self) -> int:
        """Bytes of one element."""

    @property
    def strides(self) -> tuple:
        """Steps in elements."""

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements lie in row-major order without gaps."""

    @property
    def is_host(self) -> bool:
        """Whether it lies on the CPU."""

    @property
    def pinned(self) -> bool:
        """Whether it is host memory of an accelerator."""

    @property
    def usage(self) -> Usage:
        """The intent that was asked for."""

    def _data_ptr(self) -> int:
        """Address of the first element."""

    def _aligned(self, n: int | None = None) -> bool:
        """Whether the start is a multiple of `n` bytes."""

    def _record_use(self, queue: DeviceQueue, write: bool = True) -> None:
        """Says that work enqueued on `queue` so far uses this memory."""

    def _iterate_indices(self) -> Iterator:
        """Every index tuple, in row-major order."""

    def __repr__(self) -> str: ...

    def __str__(self) -> str: ...

    def __getitem__(self, index: object | None) -> Buffer: ...

    def __setitem__(self, index: object, value: SupportsFloat | SupportsIndex) -> None: ...

    def item(self) -> bool | int | float:
        """The one element as bool, int or float; waits for pending work."""

    def view(self, dtype: kiln._core.dtype.DType, shape: object | None = None) -> Buffer:
        """
        The same memory as another element type; without `shape` the last axis is resized.

        >>> from kiln.driver import Buffer
        >>> from kiln.dtype import DType
        >>> Buffer.zeros((2, 4), DType.int16).view(DType.int8).shape
        (2, 8)
        """

    def contiguous(self) -> Buffer:
        """A row-major copy on the same device and queue."""

    def copy(self, device: Device | None = None) -> Buffer:
        """New row-major memory with equal elements."""

    @overload
    def to(self, device: Device, *, after: DeviceEvent | None = None) -> Buffer:
        """
        This buffer on a device, or on each of a list of devices; no copy when it is there.
        """

    @overload
    def to(self, device: Sequence[Device], *, after: DeviceEvent | None = None) -> list[Buffer]: ...

    @overload
    def to(self, *, devices: Sequence[Device], after: DeviceEvent | None = None) -> list[Buffer]: ...

    @property
    def _host_hazard_tracked(self) -> bool:
        """Whether host access waits for stamped tokens."""

    def _stamp_write(self, token: HostHazardCompletion) -> None:
        """Says that the token's work writes it; no effect when not tracked."""

    def _stamp_read(self, token: HostHazardCompletion) -> None:
        """Says that the token's work reads it; no effect when not tracked."""

    def inplace_copy_from(self, src: Buffer) -> None:
        """Copies the elements of `src` here; enqueued on this buffer's queue."""

    def memset(self, value: int) -> None:
        """Writes `value` into every byte; enqueued on the buffer's queue."""

    def to_numpy(self) -> Any:
        """
        The elements as a writable NumPy array: an alias of host memory, a copy of other memory.

        >>> import numpy as np
        >>> from kiln.driver import Buffer
        >>> Buffer.from_numpy(np.eye(2)).to_numpy()
        array([[1., 0.],
               [0., 1.]])
        """

    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        """A DLPack capsule of this memory."""

    def __array__(self, dtype: object | None = None, copy: bool | None = None) -> Any:
        """
        As `to_numpy`, for `numpy.asarray`; `copy` and `dtype` as NumPy has them.
        """

    def __dlpack_device__(self) -> tuple[int, int]:
        """Device type and id of DLPack."""

def load_max_buffer(path: object | None) -> Buffer:
    """Reads one tensor that the binary-checkpoint debug print wrote."""

def batch_inplace_copy(dsts: Sequence[Buffer], srcs: Sequence[Buffer]) -> None:
    """Copies pair by pair in as few submissions as possible."""

def copy_pinned_to_destinations(source: Buffer, destinations: Sequence[Buffer]) -> None:
    """Copies `source` into each destination."""

class HostHazardError(RuntimeError):
    """
    The work that a host access had to wait for failed; carries that work's text.
    """

class HostHazardCompletion:
    """A token for device work that uses host memory."""

    @staticmethod
    def record_on(queue: DeviceQueue) -> HostHazardCompletion:
        """A token for the present work of the queue."""

    @staticmethod
    def poisoned(queue: DeviceQueue, msg: str) -> HostHazardCompletion:
        """A token for work that was refused."""

    def poison(self, msg: str) -> None:
        """Marks the work as failed."""

    def wait(self) -> None:
        """Blocks until the work is over; HostHazardError when it failed."""

    def is_ready(self) -> bool:
        """Whether `wait` would return at once."""

def set_virtual_device_count(n: int) -> None:
    """
    Above 0: accelerators opened from then on are virtual, for compiling without hardware.
    """

def get_virtual_device_count() -> int:
    """The number of virtual devices; 0 when the mode is off."""

def is_virtual_device_mode() -> bool:
    """Whether accelerators are virtual."""

def set_virtual_device_api(api: str) -> None:
    """'cuda', 'hip' or 'metal'; set before the count."""

def get_virtual_device_api() -> str:
    """'' when unset."""

def set_virtual_device_target_arch(arch: str) -> None:
    """Such as 'sm_90'; set before the count."""

def get_virtual_device_target_arch() -> str:
    """'' when unset."""

def set_virtual_cpu_target(cpu: str) -> None:
    """
    What later compiles are made for: a processor's name, 'generic', or '' for this host.
    """

def get_virtual_cpu_target() -> str:
    """'' for this host."""

def calculate_virtual_device_count(*spec_lists) -> int:
    """The highest accelerator id in any list + 1, at least 1."""

def calculate_virtual_device_count_from_cli(*inputs) -> int:
    """
    The same from unparsed input.

    >>> from kiln.driver import calculate_virtual_device_count_from_cli
    >>> calculate_virtual_device_count_from_cli("gpu:0,3", [1])
    4
    """

class OperationKind(enum.IntEnum):
    """What a queue was given."""

    KERNEL_LAUNCH = 0

    MEMCPY = 1

    MEMSET = 2

class MemcpyKind(enum.IntEnum):
    """Between what a copy went."""

    NONE = 0

    HTOD = 1

    DTOH = 2

    DTOD = 3

class LaunchTraceEntry:
    """What a CUDA or HIP queue was given; fields of other kinds are zero."""

    @property
    def kind(self) -> OperationKind:
        """Launch, copy or fill."""

    @property
    def name(self) -> str:
        """The kernel, or the driver call for copies and fills."""

    @property
    def stream_index(self) -> int:
        """The queue, in order of first appearance."""

    @property
    def semantic_hash(self) -> int:
        """Of the parameters without addresses."""

    @property
    def grid_x(self) -> int:
        """Blocks."""

    @property
    def grid_y(self) -> int:
        """Blocks."""

    @property
    def grid_z(self) -> int:
        """Blocks."""

    @property
    def block_x(self) -> int:
        """Threads of a block."""

    @property
    def block_y(self) -> int:
        """Threads of a block."""

    @property
    def block_z(self) -> int:
        """Threads of a block."""

    @property
    def shared_mem_bytes(self) -> int:
        """Dynamic shared memory."""

    @property
    def memcpy_kind(self) -> MemcpyKind:
        """Between what a copy went."""

    @property
    def memcpy_byte_size(self) -> int:
        """Bytes of a copy."""

    @property
    def memset_byte_size(self) -> int:
        """Bytes of a fill."""

    @property
    def memset_value(self) -> int:
        """Pattern of a fill."""

    @property
    def memset_value_size(self) -> int:
        """Bytes of the pattern."""

def begin_launch_trace() -> None:
    """Starts the one recording of what CUDA and HIP queues are given."""

def take_launch_trace() -> list[LaunchTraceEntry]:
    """
    Stops the recording and returns its entries once, in the order of enqueueing.
    """

class CompletionFlag:
    """A 64-bit cell in page-locked host memory that a CUDA device sees."""

    def __init__(self, device: Device) -> None: ...

    @property
    def device_ptr(self) -> int:
        """The address as kernels know it."""

    def reset(self) -> None:
        """Stores 0."""

    def signal(self, v: int) -> None:
        """Stores with release order."""

    def load(self) -> int:
        """Reads with acquire order."""

def start_trace(path: object | None) -> None:
    """Records what runs on every device, for the file `path`."""

def stop_trace() -> None:
    """Stops, and writes trace-event JSON that Perfetto opens."""

class SymmetricPool:
    """
    One block of memory on each device of a set, mapped as the device's own memory and as an address
    that the switch multicasts to. The driver keeps one pool for each set until the process ends.

    >>> from kiln.driver import CPU, SymmetricPool
    >>> devices = [CPU()]
    >>> pool = SymmetricPool.lookup(devices)
    >>> if pool is None and SymmetricPool.is_supported(devices):
    ...     pool = SymmetricPool.allocate(devices, 1 << 20)
    >>> pool is None
    True
    """

    def __init__(self, *args, **kwargs) -> None: ...

    @staticmethod
    def allocate(devices: object | None, byte_size: int) -> SymmetricPool:
        """
        Reserves at least `byte_size` bytes on each device and registers the pool.
        """

    @staticmethod
    def lookup(devices: object | None) -> SymmetricPool | None:
        """The pool of these devices in any order, or None."""

    @staticmethod
    def is_supported(devices: object | None) -> bool:
        """Whether every one of at least two devices can multicast."""

    @property
    def byte_size(self) -> int:
        """As it was asked for."""

    def unicast_view(self, device: Device) -> Buffer:
        """The device's own memory as a flat buffer of uint8."""

    def multicast_view(self, device: Device) -> Buffer:
        """
        The same bytes of all devices, for kernels that use multicast instructions alone.
        """
