"""Types, values and graphs."""

from collections.abc import Callable, Iterable, Sequence
import enum
from typing import Final

import kiln._core.driver
import kiln._core.dtype
from kiln._core.graph import ops as ops
import kiln.graph


class Dim:
    """
    One extent of a shape: a number, a symbol, or integer arithmetic over symbols in canonical form.

    >>> from kiln.graph import Dim
    >>> Dim(4) * 2, Dim("x") + 1 + 1 == Dim("x") + 2, (Dim("n") * "m") // "m"
    (Dim(8), True, Dim('n'))
    """

    def __init__(self, value: object | None) -> None: ...

    def __add__(self, arg: object | None, /) -> object: ...

    def __radd__(self, arg: object | None, /) -> object: ...

    def __sub__(self, arg: object | None, /) -> object: ...

    def __rsub__(self, arg: object | None, /) -> object: ...

    def __mul__(self, arg: object | None, /) -> object: ...

    def __rmul__(self, arg: object | None, /) -> object: ...

    def __floordiv__(self, arg: object | None, /) -> object: ...

    def __rfloordiv__(self, arg: object | None, /) -> object: ...

    def __neg__(self) -> object: ...

    def __eq__(self, arg: object | None, /) -> object: ...

    def __lt__(self, arg: object | None, /) -> object: ...

    def __le__(self, arg: object | None, /) -> object: ...

    def __gt__(self, arg: object | None, /) -> object: ...

    def __ge__(self, arg: object | None, /) -> object: ...

    def __hash__(self) -> int: ...

    def __int__(self) -> int: ...

    def __index__(self) -> int: ...

    def __array__(self, *args, **kwargs) -> object: ...

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

    def __copy__(self) -> object: ...

    def __deepcopy__(self, arg: object, /) -> object: ...

    @property
    def parameters(self) -> list:
        """The symbols this dim uses, in order of first use."""

class StaticDim(Dim):
    """A known extent."""

    def __init__(self, dim: object | None) -> None: ...

    @property
    def dim(self) -> int:
        """The extent."""

    def __reduce__(self) -> tuple: ...

    __match_args__: tuple = ('dim')

class SymbolicDim(Dim):
    """An extent with a name."""

    def __init__(self, name: object | None) -> None: ...

    @property
    def name(self) -> str:
        """The name."""

    def __reduce__(self) -> tuple: ...

    __match_args__: tuple = ('name')

class AlgebraicDim(Dim):
    """Arithmetic over symbols; made by operators on dims."""

    def __init__(self, dim: object | None) -> None: ...

    def __reduce__(self) -> tuple: ...

class DeviceKind(enum.StrEnum):
    """The kinds of devices."""

    CPU = 'cpu'

    GPU = 'gpu'

    @staticmethod
    def from_string(txt: str) -> DeviceKind:
        """The kind of this name; ValueError for an unknown one."""

class DeviceRef:
    """
    Names a device without touching it.

    >>> from kiln.graph import DeviceRef
    >>> DeviceRef.CPU(), DeviceRef("gpu", 1), DeviceRef.GPU().is_gpu()
    (cpu:0, gpu:1, True)
    """

    def __init__(self, device_type: str, id: int = 0) -> None: ...

    @staticmethod
    def CPU(id: int = 0) -> DeviceRef:
        """The host."""

    @staticmethod
    def GPU(id: int = 0) -> DeviceRef:
        """An accelerator."""

    @staticmethod
    def from_device(device: DeviceRef | kiln._core.driver.Device) -> DeviceRef:
        """The name of a driver device; a DeviceRef is returned unchanged."""

    @property
    def device_type(self) -> DeviceKind:
        """The kind."""

    @property
    def id(self) -> int:
        """Zero-based."""

    def is_cpu(self) -> bool:
        """Whether this is a host."""

    def is_gpu(self) -> bool:
        """Whether this is an accelerator."""

    def to_device(self) -> kiln._core.driver.Device:
        """Opens the device; errors of the driver pass through."""

    def __repr__(self) -> str: ...

    def __eq__(self, arg: object | None, /) -> object: ...

    def __hash__(self) -> int: ...

    def __reduce__(self) -> tuple: ...

class FilterLayout(enum.Enum):
    """Order of the axes of a convolution filter."""

    RSCF = 0

    QRSCF = 1

    FCRS = 2

    FCQRS = 3

    CFRS = 4

class ConvInputLayout(enum.Enum):
    """Order of the axes of a convolution's input."""

    NHWC = 0

    NCHW = 1

class Type:
    """The type of a graph value."""

    def __init__(self, *args, **kwargs) -> None: ...

    def __repr__(self) -> str: ...

    def __eq__(self, arg: object | None, /) -> object: ...

    def __hash__(self) -> int: ...

class TensorType(Type):
    """
    The type of a value-semantic tensor.

    >>> from kiln.dtype import DType
    >>> from kiln.graph import DeviceRef, TensorType
    >>> TensorType(DType.float32, ["batch", 4], DeviceRef.CPU())
    TensorType(dtype=float32, shape=[Dim('batch'), Dim(4)], device=cpu:0)
    """

    def __init__(self, dtype: kiln._core.dtype.DType, shape: Iterable[Dim | int | str], device: DeviceRef | kiln._core.driver.Device) -> None: ...

    @property
    def dtype(self) -> kiln._core.dtype.DType:
        """Element type."""

    @property
    def shape(self) -> kiln.graph.Shape:
        """Dims."""

    @property
    def device(self) -> DeviceRef:
        """Where values of this type lie."""

    @property
    def rank(self) -> int:
        """Number of dims."""

    @property
    def parameters(self) -> list:
        """The symbols of the shape."""

    def num_elements(self) -> int:
        """Product of the dims; RuntimeError when one is symbolic."""

    def cast(self, dtype: kiln._core.dtype.DType) -> TensorType:
        """The same shape and device with another dtype."""

    def __reduce__(self) -> tuple: ...

    def as_buffer(self) -> BufferType:
        """The buffer type with the same fields."""

class BufferType(Type):
    """The type of a mutable memory region."""

    def __init__(self, dtype: kiln._core.dtype.DType, shape: Iterable[Dim | int | str], device: DeviceRef | kiln._core.driver.Device) -> None: ...

    @property
    def dtype(self) -> kiln._core.dtype.DType:
        """Element type."""

    @property
    def shape(self) -> kiln.graph.Shape:
        """Dims."""

    @property
    def device(self) -> DeviceRef:
        """Where values of this type lie."""

    @property
    def rank(self) -> int:
        """Number of dims."""

    @property
    def parameters(self) -> list:
        """The symbols of the shape."""

    def num_elements(self) -> int:
        """Product of the dims; RuntimeError when one is symbolic."""

    def cast(self, dtype: kiln._core.dtype.DType) -> BufferType:
        """The same shape and device with another dtype."""

    def __reduce__(self) -> tuple: ...

    def as_tensor(self) -> TensorType:
        """The tensor type with the same fields."""

class _OpaqueType(Type):
    """A value that only custom kernels understand."""

    def __init__(self, name: str, parameters: dict = {}) -> None: ...

    @property
    def name(self) -> str:
        """The kernel's name of the type."""

    @property
    def parameters(self) -> dict[str, bool | int | str | kiln._core.dtype.DType]:
        """Parameters by name."""

class _ChainType(Type):
    """Orders side effects."""

    def __init__(self) -> None: ...

class Value:
    """A value of a graph, of any type."""

    def __init__(self, *args, **kwargs) -> None: ...

    @property
    def type(self) -> Type:
        """Its type."""

    @property
    def tensor(self) -> TensorValue:
        """Itself as a TensorValue; TypeError for another type."""

    @property
    def buffer(self) -> BufferValue:
        """Itself as a BufferValue; TypeError for another type."""

    @property
    def opaque(self) -> _OpaqueValue:
        """Itself as an opaque value; TypeError for another type."""

    def __repr__(self) -> str: ...

class _OpaqueValue(Value):
    """A value only custom kernels understand."""

class TensorValue(Value):
    """
    A value-semantic tensor of a graph. Operators promote and broadcast.

    >>> from kiln.driver import CPU
    >>> from kiln.dtype import DType
    >>> from kiln.graph import Graph, TensorType
    >>> with Graph("g", input_types=[TensorType(DType.float32, ["n", 3], CPU())]) as graph:
    ...     x = graph.inputs[0]
    ...     print((x * 2 + 1)[:, 0])
    TensorValue(dtype=float32, shape=[Dim('n')], device=cpu:0)
    """

    def __init__(self, value: object | None) -> None: ...

    @property
    def type(self) -> TensorType:
        """Its type."""

    @property
    def shape(self) -> kiln.graph.Shape:
        """Its dims."""

    @property
    def dtype(self) -> kiln._core.dtype.DType:
        """Element type."""

    @property
    def device(self) -> DeviceRef:
        """Where it lies."""

    @property
    def rank(self) -> int:
        """Number of dims."""

    def reshape(self, shape: Iterable[Dim | int | str]) -> TensorValue:
        """As ops.reshape."""

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> TensorValue:
        """As ops.flatten."""

    def broadcast_to(self, shape: Iterable[Dim | int | str]) -> TensorValue:
        """As ops.broadcast_to."""

    def permute(self, dims: Sequence[int]) -> TensorValue:
        """As ops.permute."""

    def transpose(self, dim_1: int, dim_2: int) -> TensorValue:
        """As ops.transpose."""

    @property
    def T(self) -> TensorValue:
        """The last two axes swapped."""

    def rebind(self, shape: Iterable[Dim | int | str], message: str = '') -> TensorValue:
        """As ops.rebind."""

    def cast(self, dtype: kiln._core.dtype.DType) -> TensorValue:
        """As ops.cast."""

    def to(self, device: DeviceRef | kiln._core.driver.Device) -> TensorValue:
        """As ops.transfer_to."""

    def print(self, label: str = 'debug_tensor') -> None:
        """Prints it when the graph runs."""

    def argmax(self, axis: int = -1) -> TensorValue:
        """As ops.argmax."""

    def max(self, axis: int = -1) -> TensorValue:
        """The maximum of an axis."""

    def mean(self, axis: int = -1) -> TensorValue:
        """As ops.mean."""

    def min(self, axis: int = -1) -> TensorValue:
        """The minimum of an axis."""

    def stdev(self, axis: int = -1) -> TensorValue:
        """The root of `var`."""

    def var(self, axis: int = -1) -> TensorValue:
        """The mean of squared deviations."""

    def __add__(self, arg: object | None, /) -> TensorValue: ...

    def __radd__(self, arg: object | None, /) -> TensorValue: ...

    def __sub__(self, arg: object | None, /) -> TensorValue: ...

    def __rsub__(self, arg: object | None, /) -> TensorValue: ...

    def __mul__(self, arg: object | None, /) -> TensorValue: ...

    def __rmul__(self, arg: object | None, /) -> TensorValue: ...

    def __truediv__(self, arg: object | None, /) -> TensorValue: ...

    def __rtruediv__(self, arg: object | None, /) -> TensorValue: ...

    def __mod__(self, arg: object | None, /) -> TensorValue: ...

    def __rmod__(self, arg: object | None, /) -> TensorValue: ...

    def __pow__(self, arg: object | None, /) -> TensorValue: ...

    def __rpow__(self, arg: object | None, /) -> TensorValue: ...

    def __matmul__(self, arg: object | None, /) -> TensorValue: ...

    def __rmatmul__(self, arg: object | None, /) -> TensorValue: ...

    def __floordiv__(self, arg: object | None, /) -> TensorValue: ...

    def __rfloordiv__(self, arg: object | None, /) -> TensorValue: ...

    def __and__(self, arg: object | None, /) -> TensorValue: ...

    def __rand__(self, arg: object | None, /) -> TensorValue: ...

    def __or__(self, arg: object | None, /) -> TensorValue: ...

    def __ror__(self, arg: object | None, /) -> TensorValue: ...

    def __xor__(self, arg: object | None, /) -> TensorValue: ...

    def __rxor__(self, arg: object | None, /) -> TensorValue: ...

    def __divmod__(self, arg: kiln.graph.TensorValueLike, /) -> tuple: ...

    def __rdivmod__(self, arg: kiln.graph.TensorValueLike, /) -> tuple: ...

    def __eq__(self, arg: object | None, /) -> TensorValue: ...

    def __ne__(self, arg: object | None, /) -> TensorValue: ...

    def __gt__(self, arg: object | None, /) -> TensorValue: ...

    def __ge__(self, arg: object | None, /) -> TensorValue: ...

    def __lt__(self, arg: object | None, /) -> TensorValue: ...

    def __le__(self, arg: object | None, /) -> TensorValue: ...

    def __hash__(self) -> int: ...

    def __neg__(self) -> TensorValue: ...

    def __invert__(self) -> TensorValue: ...

    def __abs__(self) -> TensorValue: ...

    def __round__(self) -> TensorValue: ...

    def __getitem__(self, arg: object | None, /) -> TensorValue: ...

    def __iter__(self, *args) -> bool: ...

    def __contains__(self, *args) -> bool: ...

    def __bool__(self, *args) -> bool: ...

    __array_ufunc__: None = None

class BufferValue(Value):
    """Memory that a graph reads and updates in place."""

    def __init__(self, value: object | None) -> None: ...

    @staticmethod
    def from_mlir(value: object | None) -> BufferValue:
        """The checked way in for a raw graph value."""

    @staticmethod
    def from_value(value: object | None) -> BufferValue:
        """As `from_mlir`."""

    @property
    def type(self) -> BufferType:
        """Its type."""

    @property
    def shape(self) -> kiln.graph.Shape:
        """Its dims."""

    @property
    def dtype(self) -> kiln._core.dtype.DType:
        """Element type."""

    @property
    def device(self) -> DeviceRef:
        """Where it lies."""

    @property
    def rank(self) -> int:
        """Number of dims."""

    def print(self, label: str = 'debug_buffer') -> None:
        """Loads the buffer and prints it when the graph runs."""

    def __getitem__(self, arg: object | None, /) -> TensorValue: ...

    def __setitem__(self, key: object, value: kiln.graph.StrongTensorValueLike | BufferValue, /) -> None: ...

    def __iter__(self) -> bool: ...

    def __contains__(self, arg: object | None, /) -> bool: ...

class BlockParameters:
    """The size of one block of an encoding."""

    @property
    def elements_per_block(self) -> int:
        """Elements."""

    @property
    def block_size(self) -> int:
        """Bytes."""

    def __eq__(self, arg: BlockParameters, /) -> bool: ...

    def __repr__(self) -> str: ...

class QuantizationEncoding(enum.StrEnum):
    """How the bytes of a quantised weight are organised."""

    Q4_0 = 'Q4_0'

    Q4_K = 'Q4_K'

    Q5_K = 'Q5_K'

    Q6_K = 'Q6_K'

    Q8_0 = 'Q8_0'

    GPTQ = 'GPTQ'

    @property
    def name(self) -> str:
        """Its name in lower case, such as 'q4_k'."""

    @property
    def block_parameters(self) -> BlockParameters:
        """Elements and bytes of a block; KeyError for GPTQ."""

    @property
    def elements_per_block(self) -> int:
        """Elements of a block."""

    @property
    def block_size(self) -> int:
        """Bytes of a block."""

    @property
    def is_gguf(self) -> bool:
        """Whether GGUF files use it."""

class QuantizationConfig:
    """What a checkpoint says about its quantisation."""

    def __init__(self, quant_method: str, bits: int, group_size: int, desc_act: bool = False, sym: bool = False) -> None: ...

    @property
    def quant_method(self) -> str:
        """Such as 'gptq'."""

    @property
    def bits(self) -> int:
        """Bits of an element."""

    @property
    def group_size(self) -> int:
        """Elements that share a scale."""

    @property
    def desc_act(self) -> bool:
        """Whether columns are reordered."""

    @property
    def sym(self) -> bool:
        """Whether it is symmetric."""

    def __eq__(self, arg: QuantizationConfig, /) -> bool: ...

class Segment:
    """A part of the axis of a segmented strategy."""

    @staticmethod
    def even(size: int) -> Segment:
        """Split like any range."""

    @staticmethod
    def head_aware(num_heads: int, head_dim: int) -> Segment:
        """Split by whole heads."""

    @property
    def size(self) -> int:
        """Elements of the axis."""

class ShardingStrategy:
    """How the parts of a weight are cut for several devices."""

    def __init__(self, num_devices: int, shard: Callable) -> None: ...

    def __call__(self, weight: Weight, i: int) -> TensorValue:
        """The tensor of part `i`, in the current graph."""

    @property
    def num_devices(self) -> int:
        """Number of parts."""

    @staticmethod
    def rowwise(num_devices: int) -> ShardingStrategy:
        """Ranges of axis 0."""

    @staticmethod
    def columnwise(num_devices: int) -> ShardingStrategy:
        """Ranges of axis 1."""

    @staticmethod
    def axiswise(axis: int, num_devices: int) -> ShardingStrategy:
        """Ranges of an axis."""

    @staticmethod
    def replicate(num_devices: int) -> ShardingStrategy:
        """The whole weight on each device."""

    @staticmethod
    def head_aware_columnwise(num_devices: int, num_heads: int, head_dim: int) -> ShardingStrategy:
        """Columns of whole heads."""

    @staticmethod
    def stacked_qkv(num_devices: int, num_heads: int, head_dim: int) -> ShardingStrategy:
        """Heads of stacked Q, K and V rows."""

    @staticmethod
    def gate_up(num_devices: int, axis: int = 2) -> ShardingStrategy:
        """Both halves of an axis split evenly."""

    @staticmethod
    def segmented(num_devices: int, axis: int, segments: Sequence[Segment]) -> ShardingStrategy:
        """Every segment split on its own."""

    @staticmethod
    def tensor_parallel(num_devices: int) -> ShardingStrategy:
        """A placeholder for modules that shard themselves."""

    @staticmethod
    def expert_parallel(num_devices: int) -> ShardingStrategy:
        """A placeholder for modules that shard themselves."""

    @property
    def is_rowwise(self) -> bool:
        """Whether it is of this kind."""

    @property
    def is_colwise(self) -> bool:
        """Whether it is of this kind."""

    @property
    def is_axiswise(self) -> bool:
        """Whether it is of this kind."""

    @property
    def is_replicate(self) -> bool:
        """Whether it is of this kind."""

    @property
    def is_head_aware_colwise(self) -> bool:
        """Whether it is of this kind."""

    @property
    def is_stacked_qkv(self) -> bool:
        """Whether it is of this kind."""

    @property
    def is_gate_up(self) -> bool:
        """Whether it is of this kind."""

    @property
    def is_segmented(self) -> bool:
        """Whether it is of this kind."""

    @property
    def is_tensor_parallel(self) -> bool:
        """Whether it is of this kind."""

    @property
    def is_expert_parallel(self) -> bool:
        """Whether it is of this kind."""

    @property
    def sharded_axis(self) -> int | None:
        """The axis that is cut, or None."""

class Weight(TensorValue):
    """
    A named tensor whose data is supplied when a model is made.

    >>> from kiln.driver import CPU
    >>> from kiln.dtype import DType
    >>> from kiln.graph import Weight
    >>> Weight("w", DType.float32, [3, 2], CPU())
    Weight(w, DType.float32, [Dim(3), Dim(2)], cpu:0)
    """

    def __init__(self, name: str, dtype: kiln._core.dtype.DType, shape: Iterable[Dim | int | str], device: DeviceRef | kiln._core.driver.Device, quantization_encoding: QuantizationEncoding | None = None, align: int | None = None, sharding_strategy: ShardingStrategy | None = None) -> None: ...

    @property
    def name(self) -> str:
        """Its name in the registry."""

    @property
    def align(self) -> int:
        """Bytes."""

    @property
    def quantization_encoding(self) -> QuantizationEncoding | None:
        """How its bytes are organised, or None."""

    @property
    def original_dtype_and_shape(self) -> tuple:
        """As declared, also when an encoding stores the weight as uint8."""

    @property
    def sharding_strategy(self) -> ShardingStrategy | None:
        """How parts are cut; setting it moves the host weight to cpu:0."""

    @sharding_strategy.setter
    def sharding_strategy(self, arg: ShardingStrategy, /) -> None: ...

    @property
    def shard_index(self) -> int | None:
        """Which shard it is, or None."""

    def shard(self, devices: Iterable) -> list[Weight]:
        """One weight per device."""

    def __repr__(self) -> str: ...

class DevicePlacementPolicy(enum.Enum):
    """What ops that run on the CPU only do with inputs elsewhere."""

    Ignore = 0
    """Move them silently."""

    Warn = 1
    """Move them with a UserWarning."""

    Error = 2
    """Raise ValueError."""

class Module:
    """Several graphs that are compiled together."""

    def __init__(self) -> None: ...

    def top_level_graph_names(self) -> list[str]:
        """The graphs that are no subgraphs, in the order they were added."""

    def __eq__(self, arg: object | None, /) -> object: ...

    def __hash__(self) -> int: ...

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

class _GraphDebug:
    """Debug switches of all graphs."""

    @property
    def source_tracebacks(self) -> bool:
        """Whether every op records the full call stack."""

    @source_tracebacks.setter
    def source_tracebacks(self, arg: bool, /) -> None: ...

class _DeviceChains:
    """Chains of a graph by device."""

    def __getitem__(self, arg: DeviceRef | kiln._core.driver.Device, /) -> object: ...

class Graph:
    """
    A computation that is described before any data exists.

    >>> from kiln.driver import CPU
    >>> from kiln.dtype import DType
    >>> from kiln.graph import Graph, TensorType
    >>> graph = Graph("double", lambda x: x * 2, [TensorType(DType.float32, ["n"], CPU())])
    >>> graph.output_types
    [TensorType(dtype=float32, shape=[Dim('n')], device=cpu:0)]
    """

    def __init__(self, name: str, forward: object | None = None, input_types: object | None = (), path: object | None = None, *args, custom_extensions: object | None = (), module: Module | None = None, strict_device_placement: DevicePlacementPolicy = DevicePlacementPolicy.Warn, is_device_graph: bool = False, **kwargs) -> None: ...

    def __enter__(self) -> Graph: ...

    def __exit__(self, *args) -> None: ...

    def add_subgraph(self, name: str, forward: object | None = None, input_types: object | None = (), path: object | None = None, custom_extensions: object | None = (), devices: object | None = ()) -> Graph:
        """Builds a named callee in the same module; see ops.call."""

    @property
    def name(self) -> str:
        """The name it was given."""

    @property
    def module(self) -> Module:
        """The module that owns it."""

    @property
    def inputs(self) -> tuple:
        """Its inputs, in the order of the input types."""

    def output(self, *values) -> None:
        """Sets the results and verifies the graph."""

    @property
    def output_types(self) -> list:
        """Types of the results; TypeError before `output`."""

    def add_weight(self, weight: Weight, force_initial_weight_on_host: bool = True) -> TensorValue:
        """The value of a weight in this graph."""

    def copy(self) -> Graph:
        """A deep copy in a module of its own."""

    def __copy__(self) -> Graph: ...

    def __deepcopy__(self, arg: object, /) -> Graph: ...

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

    def to_text(self, source_locations: bool = False, elide_constants_above: int | None = None) -> str:
        """The IR text."""

    @property
    def device_chains(self) -> _DeviceChains:
        """The last side effect of each device."""

    @property
    def always_ready_chain(self) -> object:
        """A chain every graph starts with."""

    @property
    def kernel_libraries_paths(self) -> list[str]:
        """Paths of the extra kernel libraries in use."""

    @property
    def strict_device_placement(self) -> DevicePlacementPolicy:
        """What ops of the CPU do with inputs elsewhere."""

    @property
    def is_subgraph(self) -> bool:
        """Whether it is a callee."""

    def __eq__(self, arg: object | None, /) -> object: ...

    def __hash__(self) -> int: ...

    current: Final[Graph] = ...
    """The innermost active graph; LookupError when there is none."""

    debug: _GraphDebug = ...

def _set_package_folder(folder: str) -> None: ...
