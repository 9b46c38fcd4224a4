"""Tensors and their placement."""

from collections.abc import Awaitable, Iterable, Sequence
import enum
from typing import Any, TypeAlias

import kiln._core.driver
import kiln._core.dtype
import kiln._core.engine
from kiln._core.experimental import functional as functional
import kiln._core.graph
import kiln.graph


class ShardingError(RuntimeError):
    """A placement that is not possible, or none that an op accepts."""

class ConversionError(ValueError):
    """A named mapping that no placements express."""

class DeviceMesh:
    """
    An immutable grid of devices in row-major order, with a name for each axis. The devices are all
    different, or all the same: such a simulated mesh runs everything that several devices would do
    on one.

    >>> from kiln.driver import CPU
    >>> from kiln.experimental.sharding import DeviceMesh
    >>> mesh = DeviceMesh([CPU()] * 8, (2, 4), ("dp", "tp"))
    >>> mesh, mesh.axis_size("tp"), mesh.device_coord(5, "tp"), mesh.is_simulated
    (DeviceMesh(dp=2, tp=4), 4, 1, True)
    """

    def __init__(self, devices: Sequence[kiln._core.driver.Device], mesh_shape: Sequence[int], axis_names: Sequence[str]) -> None: ...

    @staticmethod
    def single(device: kiln._core.driver.Device) -> DeviceMesh:
        """One device; the axis is named `_`."""

    @staticmethod
    def default() -> DeviceMesh:
        """The CPU alone."""

    @property
    def devices(self) -> tuple[kiln._core.driver.Device, ...]:
        """The devices in row-major order."""

    @property
    def mesh_shape(self) -> tuple[int, ...]:
        """Devices along each axis."""

    @property
    def axis_names(self) -> tuple[str, ...]:
        """A name for each axis."""

    @property
    def ndim(self) -> int:
        """Number of axes."""

    @property
    def num_devices(self) -> int:
        """Number of devices."""

    def axis_size(self, axis: str | int) -> int:
        """
        Devices along an axis. An unknown name is a ValueError, a number outside an IndexError.
        """

    def device_coord(self, i: int, axis: str | int) -> int:
        """The place of device `i` along an axis."""

    @property
    def is_single(self) -> bool:
        """Whether there is one device."""

    @property
    def is_simulated(self) -> bool:
        """Whether one device stands for several."""

    def __repr__(self) -> str: ...

    def __eq__(self, arg: object | None, /) -> object: ...

    def __hash__(self) -> int: ...

    def __reduce__(self) -> tuple: ...

def get_active_mesh() -> DeviceMesh | None:
    """
    The mesh that the innermost mesh_context of this thread publishes, or None.
    """

class mesh_context:
    """
    Publishes a mesh for a `with` block; blocks nest, and each thread has its own.
    """

    def __init__(self, mesh: DeviceMesh) -> None: ...

    def __enter__(self) -> DeviceMesh: ...

    def __exit__(self, *exception: object) -> None: ...

class ReduceOp(enum.Enum):
    """How the terms of a Partial are combined."""

    SUM = 0

    AVG = 1

    MIN = 2

    MAX = 3

class Replicated:
    """Each device holds the same copy."""

    def __init__(self) -> None: ...

    def __repr__(self) -> str: ...

    def __eq__(self, arg: object | None, /) -> object: ...

    def __hash__(self) -> int: ...

    def __reduce__(self) -> tuple: ...

class Sharded:
    """
    Each device holds a slice along an axis of the tensor. Sizes differ by at most one, larger ones first.
    """

    def __init__(self, axis: int) -> None: ...

    def __repr__(self) -> str: ...

    def __eq__(self, arg: object | None, /) -> object: ...

    def __hash__(self) -> int: ...

    @property
    def axis(self) -> int:
        """The axis of the tensor."""

    def __reduce__(self) -> tuple: ...

class Partial:
    """
    Each device holds a term of a reduction that is still to be done. SUM and AVG can be resolved.
    """

    def __init__(self, reduce_op: ReduceOp = ReduceOp.SUM) -> None: ...

    def __repr__(self) -> str: ...

    def __eq__(self, arg: object | None, /) -> object: ...

    def __hash__(self) -> int: ...

    @property
    def reduce_op(self) -> ReduceOp:
        """How the terms are combined."""

    def __reduce__(self) -> tuple: ...

class Unknown:
    """The devices hold values without a known relation."""

    def __init__(self) -> None: ...

    def __repr__(self) -> str: ...

    def __eq__(self, arg: object | None, /) -> object: ...

    def __hash__(self) -> int: ...

    def __reduce__(self) -> tuple: ...

class DeviceMapping:
    """
    Where a tensor lives: a mesh and one placement for each of its axes. Immutable.

    >>> from kiln.driver import CPU
    >>> from kiln.experimental.sharding import DeviceMapping, DeviceMesh, Sharded
    >>> DeviceMapping(DeviceMesh([CPU()] * 2, (2,), ("x",)), [Sharded(0)])
    DeviceMapping(DeviceMesh(x=2), [Sharded(axis=0)])
    """

    def __init__(self, mesh: DeviceMesh, placements: Sequence[Replicated | Sharded | Partial | Unknown]) -> None: ...

    @staticmethod
    def replicated(mesh: DeviceMesh) -> DeviceMapping:
        """A copy on each device."""

    @property
    def mesh(self) -> DeviceMesh:
        """The devices."""

    @property
    def placements(self) -> tuple[Replicated | Sharded | Partial | Unknown, ...]:
        """What each device along each mesh axis holds."""

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds a copy."""

    def check_shape(self, shape: Iterable[kiln._core.graph.Dim | int | str]) -> None:
        """ValueError when an axis is sharded that a tensor of this shape lacks."""

    def __repr__(self) -> str: ...

    def __eq__(self, arg: object | None, /) -> object: ...

    def __hash__(self) -> int: ...

    def __reduce__(self) -> tuple: ...

PlacementMapping: TypeAlias = DeviceMapping

class NamedMapping(DeviceMapping):
    """
    A mapping in the words of the tensor: `spec` has for each of its axes the name of the mesh axis
    that splits it, a tuple of names, or None. Mesh axes that are not named hold copies, those in
    `unreduced` terms of a sum. Without a mesh the active one is meant.

    >>> from kiln.driver import CPU
    >>> from kiln.experimental.sharding import DeviceMesh, NamedMapping
    >>> NamedMapping(DeviceMesh([CPU()] * 4, (2, 2), ("dp", "tp")), (None, "tp"))
    DeviceMapping(DeviceMesh(dp=2, tp=2), [Replicated(), Sharded(axis=1)])
    """

    def __init__(self, mesh: DeviceMesh | None = None, spec: Iterable = (), *, unreduced: Sequence[str] = ()) -> None: ...

    @property
    def spec(self) -> tuple:
        """The mesh axes of each tensor axis."""

    @property
    def unreduced(self) -> tuple[str, ...]:
        """The mesh axes that hold terms of a sum."""

    def __reduce__(self) -> tuple: ...

class TensorLayout:
    """
    What a function over tensors is told of an argument: element type, global shape and placement.
    `device` is a Device, a DeviceRef, a DeviceMesh, each of whose devices holds a copy, or a
    DeviceMapping. Immutable.

    >>> from kiln.driver import CPU
    >>> from kiln.dtype import DType
    >>> from kiln.experimental.sharding import DeviceMapping, DeviceMesh, Sharded, TensorLayout
    >>> mapping = DeviceMapping(DeviceMesh([CPU()] * 2, (2,), ("x",)), [Sharded(0)])
    >>> TensorLayout(DType.float32, ["batch", 2], mapping).local_types[1]
    TensorType(dtype=float32, shape=[Dim('batch_x_1'), Dim(2)], device=cpu:0)
    """

    def __init__(self, dtype: kiln._core.dtype.DType, shape: Iterable[kiln._core.graph.Dim | int | str], device: kiln._core.driver.Device | kiln._core.graph.DeviceRef | DeviceMesh | DeviceMapping) -> None: ...

    @property
    def dtype(self) -> kiln._core.dtype.DType:
        """Element type."""

    @property
    def shape(self) -> kiln.graph.Shape:
        """Of the whole tensor, over all devices."""

    @property
    def rank(self) -> int:
        """Number of dims."""

    @property
    def mapping(self) -> DeviceMapping:
        """Where it lives."""

    @property
    def mesh(self) -> DeviceMesh:
        """The devices."""

    @property
    def placements(self) -> tuple[Replicated | Sharded | Partial | Unknown, ...]:
        """What each device along each mesh axis holds."""

    @property
    def device(self) -> kiln._core.driver.Device:
        """The one device; several are a ValueError."""

    @property
    def local_types(self) -> list:
        """One TensorType or BufferType for each device, in mesh order."""

    def as_buffer(self) -> BufferLayout:
        """The layout of an argument that may be written."""

    def as_tensor(self) -> TensorLayout:
        """The layout of an argument that is only read."""

    def __repr__(self) -> str: ...

    def __eq__(self, arg: object | None, /) -> object: ...

    def __hash__(self) -> int: ...

    def __reduce__(self) -> tuple: ...

class BufferLayout(TensorLayout):
    """The layout of an argument that the function may write."""

    def __init__(self, dtype: kiln._core.dtype.DType, shape: Iterable[kiln._core.graph.Dim | int | str], device: kiln._core.driver.Device | kiln._core.graph.DeviceRef | DeviceMesh | DeviceMapping) -> None: ...

def as_layout(x: object | None) -> TensorLayout:
    """
    Layouts pass; a TensorType or BufferType becomes the layout of one device; others are a TypeError.
    """

class _AutoReshard:
    def __init__(self, arg0: Sequence[tuple[int, int]], arg1: int, /) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *args) -> None: ...

_all_transitions: list = [(0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]

_default_transitions: list = [(0, 1), (1, 0), (1, 1), (2, 0)]

class Tensor:
    """
    An array that computes at once.

    >>> from kiln.experimental.tensor import Tensor
    >>> x = Tensor([[1, 2], [3, 4]])
    >>> x * 2 + 1
    Tensor([3 5
     7 9], dtype=DType.float32, device=Device(type=cpu,id=0))
    """

    def __init__(self, data: object | None = None, *, dtype: object | None = None, device: object | None = None) -> None: ...

    @staticmethod
    def from_dlpack(array: object | None) -> Tensor:
        """An array's elements, which are shared; a Tensor gives itself."""

    @staticmethod
    def full(shape: Iterable[kiln._core.graph.Dim | int | str], value: bool | int | float, *, dtype: object | None = None, device: object | None = None) -> Tensor:
        """One number everywhere."""

    @staticmethod
    def zeros(shape: Iterable[kiln._core.graph.Dim | int | str], *, dtype: object | None = None, device: object | None = None) -> Tensor:
        """0 everywhere."""

    @staticmethod
    def ones(shape: Iterable[kiln._core.graph.Dim | int | str], *, dtype: object | None = None, device: object | None = None) -> Tensor:
        """1 everywhere."""

    @staticmethod
    def full_like(like: object | None, value: bool | int | float) -> Tensor:
        """One number, with the type of a tensor or a type."""

    @staticmethod
    def zeros_like(like: object | None) -> Tensor:
        """0, with the type of a tensor or a type."""

    @staticmethod
    def ones_like(like: object | None) -> Tensor:
        """1, with the type of a tensor or a type."""

    @staticmethod
    def arange(start: object | None = 0, stop: object | None = None, step: object | None = 1, out_dim: object | None = None, *, dtype: object | None = None, device: object | None = None) -> object:
        """`start + i * step` up to but without `stop`; one argument is the stop."""

    @staticmethod
    def range_like(type: object | None) -> Tensor:
        """0 … n-1 along the last axis, broadcast to the type."""

    @staticmethod
    def from_dim(dim: kiln._core.graph.Dim | int | str) -> Tensor:
        """The size as an int64 scalar on the CPU."""

    @staticmethod
    def from_graph_value(value: object | None) -> Tensor:
        """A value of the current graph."""

    @staticmethod
    def from_shard_values(values: Iterable, mapping: DeviceMapping | None = None) -> Tensor:
        """One value of the current graph for each device of a mapping."""

    @staticmethod
    def _from_shards(shards: Sequence[Tensor], mapping: DeviceMapping) -> Tensor:
        """Tensors on one device each as one."""

    @staticmethod
    def constant(value: object | None, *, dtype: object | None = None, device: object | None = None) -> Tensor:
        """As the constructor, which is to be preferred."""

    @property
    def shape(self) -> kiln.graph.Shape:
        """Its dims."""

    @property
    def rank(self) -> int:
        """Number of dims."""

    @property
    def dtype(self) -> kiln._core.dtype.DType:
        """Element type."""

    @property
    def device(self) -> kiln._core.driver.Device:
        """Where it lies."""

    @property
    def type(self) -> kiln._core.graph.TensorType:
        """Its graph type."""

    @property
    def layout(self) -> TensorLayout:
        """Its dtype, shape and placement."""

    @property
    def mapping(self) -> DeviceMapping:
        """Where it lives."""

    @property
    def mesh(self) -> DeviceMesh:
        """The devices that it lives on."""

    @property
    def placements(self) -> tuple[Replicated | Sharded | Partial | Unknown, ...]:
        """What each device along each mesh axis holds."""

    @property
    def num_shards(self) -> int:
        """On how many devices it lives."""

    @property
    def is_distributed(self) -> bool:
        """Whether these are several."""

    @property
    def local_shards(self) -> list[Tensor]:
        """What each device holds, in mesh order; memory is shared."""

    @property
    def buffers(self) -> list[kiln._core.driver.Buffer]:
        """The memory of each shard. Unrealised: TypeError."""

    @property
    def real(self) -> bool:
        """Whether its elements are in memory."""

    @property
    def driver_tensor(self) -> kiln._core.driver.Buffer:
        """Its memory. Unrealised: TypeError."""

    @property
    def external_name(self) -> str | None:
        """The name of the weight that it stands for, or None."""

    def num_elements(self) -> int:
        """How many elements it has."""

    def item(self) -> Any:
        """The one element as a number; several or none: TypeError."""

    def __bool__(self) -> bool: ...

    def to(self, target: kiln._core.driver.Device | kiln._core.graph.DeviceRef | DeviceMesh | DeviceMapping) -> Tensor:
        """
        On a device, a mesh, each of whose devices gets a copy, or as a mapping says; where it is already: itself.
        """

    def rebind_mapping(self, mapping: DeviceMapping) -> Tensor:
        """The same shards under another relation, for which no data moves."""

    def materialize(self) -> Tensor:
        """Real, whole and on the CPU."""

    def to_numpy(self) -> Any:
        """
        A NumPy array of the elements, which are shared when they are on the CPU.
        """

    @property
    def realize(self) -> Awaitable[Tensor]:
        """Computes it; `await t.realize` gives the tensor."""

    def __array__(self, dtype: object | None = None, copy: bool | None = None) -> Any:
        """
        As `to_numpy`, for `numpy.asarray`; `copy` and `dtype` as NumPy has them.
        """

    def __dlpack__(self, **kwargs) -> object: ...

    def __dlpack_device__(self) -> object: ...

    @property
    def graph_values(self) -> list[kiln._core.graph.Value]:
        """
        Its value in the graph that it is a part of, one for each device. Real: TypeError.
        """

    def _name_weight(self, name: str) -> None:
        """Says which weight it stands for."""

    def _name_argument(self, route: str) -> None:
        """Has a write say that the argument at `route` was staged as a tensor."""

    def __tensorvalue__(self) -> kiln._core.graph.TensorValue: ...

    def __buffervalue__(self) -> object: ...

    def __hash__(self) -> int: ...

    def __deepcopy__(self, arg: object | None, /) -> object: ...

    def __repr__(self) -> str: ...

    def sum(self, axis: int | None = -1) -> Tensor:
        """
        The sum along an axis, which stays with size 1; `None`: of everything, `[1]`.
        """

    def mean(self, axis: int | None = -1) -> Tensor:
        """The mean along an axis, as `sum`."""

    def prod(self, axis: int | None = -1) -> Tensor:
        """The product along an axis, as `sum`."""

    def argmax(self, axis: int | None = -1) -> Tensor:
        """The index of the first maximum along an axis, as `sum`."""

    def max(self, axis: int | None = -1) -> Tensor:
        """The extremum along an axis, as `sum`; NaN wins."""

    def min(self, axis: int | None = -1) -> Tensor:
        """The extremum along an axis, as `sum`; NaN wins."""

    def cast(self, dtype: kiln._core.dtype.DType) -> Tensor:
        """Conversion; to its own dtype: itself."""

    def reshape(self, shape: Iterable[kiln._core.graph.Dim | int | str]) -> Tensor:
        """As `F.reshape`."""

    def broadcast_to(self, shape: Iterable[kiln._core.graph.Dim | int | str]) -> Tensor:
        """As `F.broadcast_to`."""

    def permute(self, dims: Sequence[int]) -> Tensor:
        """As `F.permute`."""

    def squeeze(self, axis: int) -> Tensor:
        """As `F.squeeze`."""

    def unsqueeze(self, axis: int) -> Tensor:
        """As `F.unsqueeze`."""

    def transpose(self, dim_1: int, dim_2: int) -> Tensor:
        """As `F.transpose`."""

    @property
    def T(self) -> Tensor:
        """The last two axes swapped."""

    def clip(self, *, min: object | None = None, max: object | None = None) -> object:
        """As `F.clip`."""

    def split(self, size_or_sections: int | Sequence[int], axis: int = 0) -> list[Tensor]:
        """
        Pieces of one size, the last of which may be smaller, or of the sizes that are listed.
        """

    def __getitem__(self, arg: object | None, /) -> Tensor: ...

    def __setitem__(self, key: object, value: Tensor, /) -> None: ...

    def __iter__(self, *args) -> bool: ...

    def __contains__(self, *args) -> bool: ...

    def __add__(self, arg: object | None, /) -> Tensor: ...

    def __radd__(self, arg: object | None, /) -> Tensor: ...

    def __sub__(self, arg: object | None, /) -> Tensor: ...

    def __rsub__(self, arg: object | None, /) -> Tensor: ...

    def __mul__(self, arg: object | None, /) -> Tensor: ...

    def __rmul__(self, arg: object | None, /) -> Tensor: ...

    def __truediv__(self, arg: object | None, /) -> Tensor: ...

    def __rtruediv__(self, arg: object | None, /) -> Tensor: ...

    def __floordiv__(self, arg: object | None, /) -> Tensor: ...

    def __rfloordiv__(self, arg: object | None, /) -> Tensor: ...

    def __mod__(self, arg: object | None, /) -> Tensor: ...

    def __rmod__(self, arg: object | None, /) -> Tensor: ...

    def __pow__(self, arg: object | None, /) -> Tensor: ...

    def __rpow__(self, arg: object | None, /) -> Tensor: ...

    def __matmul__(self, arg: object | None, /) -> Tensor: ...

    def __rmatmul__(self, arg: object | None, /) -> Tensor: ...

    def __and__(self, arg: object | None, /) -> Tensor: ...

    def __rand__(self, arg: object | None, /) -> Tensor: ...

    def __or__(self, arg: object | None, /) -> Tensor: ...

    def __ror__(self, arg: object | None, /) -> Tensor: ...

    def __xor__(self, arg: object | None, /) -> Tensor: ...

    def __rxor__(self, arg: object | None, /) -> Tensor: ...

    def __eq__(self, arg: object | None, /) -> Tensor: ...

    def __ne__(self, arg: object | None, /) -> Tensor: ...

    def __gt__(self, arg: object | None, /) -> Tensor: ...

    def __ge__(self, arg: object | None, /) -> Tensor: ...

    def __lt__(self, arg: object | None, /) -> Tensor: ...

    def __le__(self, arg: object | None, /) -> Tensor: ...

    def __neg__(self) -> Tensor: ...

    def __invert__(self) -> Tensor: ...

    def __abs__(self) -> Tensor: ...

    def __round__(self) -> Tensor: ...

    __array_ufunc__: None = None

class UnsupportedGraphError(RuntimeError):
    """A graph that an executor cannot run."""

class _Defaults:
    def __init__(self, arg0: object | None, arg1: object | None, /) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *args) -> None: ...

class _Lazy:
    def __init__(self) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *args) -> None: ...

def defaults(dtype: kiln._core.dtype.DType | None = None, device: kiln._core.driver.Device | None = None) -> tuple[kiln._core.dtype.DType, kiln._core.driver.Device]:
    """
    The dtype and device that new tensors get, with what is given in the place of its part.
    """

def _default_executor() -> str:
    """The name of the executor in force."""

def _set_default_executor(name: str) -> None:
    """Changes it for the process."""

def _has_graph() -> bool:
    """Whether what functions over tensors do is added to a graph at present."""

def default_session() -> kiln._core.engine.InferenceSession:
    """The session of eager tensors and of callables that are given none."""

def in_graph_context() -> bool:
    """Whether a graph is being built, whose values nobody has while it is."""

class _FunctionCall:
    def __init__(self, arg: str, /) -> None: ...

    def __enter__(self) -> object: ...

    def __exit__(self, *args) -> None: ...

    def finish(self, results: Sequence[Tensor]) -> None:
        """Runs what was recorded and makes the results real."""

def _uniform(shape: Iterable[kiln._core.graph.Dim | int | str], a: Tensor | bool | int | float, b: Tensor | bool | int | float, dtype: object | None, device: object | None) -> Tensor: ...

def _gaussian(shape: Iterable[kiln._core.graph.Dim | int | str], a: Tensor | bool | int | float, b: Tensor | bool | int | float, dtype: object | None, device: object | None) -> Tensor: ...

def _set_seed(seed: bool | int | float) -> None: ...

class _FastCall:
    def __call__(self, arguments: object, keywords: object) -> object:
        """
        The result, or NotImplemented for arguments that are not as they were staged.
        """

def _check_part_names(layouts: object, routes: Sequence[str]) -> None:
    """
    Whether parts of split sizes have names that mean one thing in all arguments, else a ValueError.
    """

def _is_made_from(model: object, artifact: kiln._core.engine.CompiledModel) -> bool:
    """Whether the model runs the code of the artifact."""

def _fast_call(model: object, in_tree: object, out_tree: object, in_layouts: object, out_layouts: object) -> object:
    """The short way, or None for structures with classes."""
