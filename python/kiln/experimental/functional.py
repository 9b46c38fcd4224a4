"""Functions over tensors: each op of `kiln.graph.ops`, and what only tensors have.

They compute at once. In a `lazy` block they wait until a value is asked for, in a function marked `functional` until it
returns, and while a graph is built they add to it.

>>> from kiln.experimental.tensor import Tensor
>>> softmax(Tensor([0, 0]))
Tensor([0.5 0.5], dtype=DType.float32, device=Device(type=cpu,id=0))
"""

import builtins as _builtins
import contextlib
import functools
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar

from kiln import tree
from kiln._core.experimental import (
    UnsupportedGraphError,
    _default_executor,
    _FunctionCall,
    _has_graph,
    _Lazy,
    _set_default_executor,
    defaults,
)
from kiln._core.experimental import in_graph_context as _in_graph_context
from kiln._core.experimental import functional as _functions
from kiln._core.experimental.functional import *  # noqa: F403
from kiln.driver import Device
from kiln.dtype import DType
from kiln.experimental.random import gaussian, gaussian_like, normal, normal_like, uniform, uniform_like
from kiln.experimental.sharding import DeviceMapping, DeviceMesh, TensorLayout, as_layout
from kiln.experimental.tensor import Tensor
from kiln.graph import DeviceRef, Dim, TensorType, Type, Value

P = ParamSpec("P")
R = TypeVar("R")
_lifted: Any = _functions


def functional(function: Callable[P, R]) -> Callable[P, R]:
    """Has each call of the function run as one graph.

    >>> @functional
    ... def scaled(x):
    ...     return x * 2 + 1
    >>> scaled(Tensor([1, 2]))
    Tensor([3 5], dtype=DType.float32, device=Device(type=cpu,id=0))
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if _has_graph():  # a function that another one calls is a part of its graph
            return function(*args, **kwargs)
        with _FunctionCall(function.__name__) as recording:
            results = function(*args, **kwargs)
        recording.finish([leaf for leaf in tree.leaves(results) if isinstance(leaf, Tensor)])
        return results

    return call


def in_graph_context() -> bool:
    """Whether a graph is being built, whose values nobody has while it is."""
    return _in_graph_context()


def lazy() -> AbstractContextManager[None]:
    """Has functions over tensors wait in a block until a value is asked for; what is never asked for is never computed.

    A store takes effect at once.
    """
    return _Lazy()


class set_default_executor:  # noqa: N801: a function that may be a block
    """Says how the graphs of `functional` functions and `lazy` blocks run, in the whole process. As a `with` block it
    ends with the block.

    "composite": the first time a graph of at most `KILN_INTERPRETER_MAX_OPS` ops (1024) is met, its ops run one by one;
    others, and graphs that come again, are compiled. "interpreter": ops always run one by one; a graph that cannot is
    an `UnsupportedGraphError`. "compile": graphs are compiled. "jit": as the interpreter until a compilation in the
    background is there. `KILN_EAGER_EXECUTOR` sets what a process starts with.

    >>> with set_default_executor("compile"):
    ...     softmax(Tensor([0, 0]))
    Tensor([0.5 0.5], dtype=DType.float32, device=Device(type=cpu,id=0))
    """

    def __init__(self, executor: str) -> None:
        self._outer = _default_executor()
        _set_default_executor(executor)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        _set_default_executor(self._outer)


def _to_tensors(values: Any) -> Any:
    return tree.map(lambda v: Tensor.from_graph_value(v) if isinstance(v, Value) else v, values)


def map_tensors(function: Callable[[Tensor], Any], values: Any) -> Any:
    """The tree of `values` with `function` applied to each tensor in it."""
    return tree.map(lambda v: function(v) if isinstance(v, Tensor) else v, values)


def to_tensors(values: Any) -> Any:
    """The tree of `values` with graph values and arrays as tensors."""

    def convert(value: Any) -> Any:
        if isinstance(value, Value):
            return Tensor.from_graph_value(value)
        return Tensor.from_dlpack(value) if hasattr(value, "__dlpack__") else value

    return tree.map(convert, values)


def any_distributed(*values: Any) -> bool:
    """Whether there is a tensor on several devices in the trees of `values`.

    >>> any_distributed([Tensor(1)], 2)
    False
    """
    return any(isinstance(leaf, Tensor) and leaf.is_distributed for leaf in tree.leaves(values))


def tensor_to_layout(values: Any) -> Any:
    """The tree of `values` with the layout of each tensor in its place."""
    return map_tensors(lambda tensor: tensor.layout, values)


def per_shard_dispatch(
    function: Callable[..., Any], *args: Any, mapping: DeviceMapping | None = None, **kwargs: Any
) -> Any:
    """Calls a function for each device, with what it holds of distributed tensors and everything else as it is. Tensors
    in the result become distributed by `mapping`, or like the first distributed argument. Without one: a plain call.

    >>> from kiln.driver import CPU
    >>> from kiln.experimental.sharding import Sharded
    >>> x = Tensor([[1, 2], [3, 4]]).to(DeviceMapping(DeviceMesh([CPU()] * 2, (2,), ("x",)), [Sharded(0)]))
    >>> per_shard_dispatch(lambda part: part * 10, x).local_shards[1]
    Tensor([30 40], dtype=DType.float32, device=Device(type=cpu,id=0))
    """
    leaves = [leaf for leaf in tree.leaves((args, kwargs)) if isinstance(leaf, Tensor) and leaf.is_distributed]
    if not leaves:
        return function(*args, **kwargs)
    mapping = leaves[0].mapping if mapping is None else mapping
    for leaf in leaves:
        if leaf.mesh != mapping.mesh:
            raise ValueError(
                f"per_shard_dispatch: an argument lives on {leaf.mesh!r}, but {mapping.mesh!r} was expected. Bring it "
                "there with F.transfer_to first."
            )
    results = []
    for i in _builtins.range(mapping.mesh.num_devices):
        def local(tensor: Tensor, i: int = i) -> Tensor:
            return tensor.local_shards[i] if tensor.is_distributed else tensor

        local_args, local_kwargs = map_tensors(local, (args, kwargs))
        results.append(function(*local_args, **local_kwargs))
    return tree.map(
        lambda *parts: Tensor._from_shards(list(parts), mapping) if isinstance(parts[0], Tensor) else parts[0],
        *results,
    )


def ensure_context() -> AbstractContextManager[Any]:
    """A block in which functions over tensors add to a graph: to the one that is being built, or as in a `lazy` block.
    """
    return contextlib.nullcontext() if _has_graph() else _Lazy()


def arange(
    start: Any = 0,
    stop: Any = None,
    step: Any = 1,
    out_dim: Any = None,
    *,
    dtype: DType | None = None,
    device: Device | DeviceRef | DeviceMesh | DeviceMapping | None = None,
) -> Tensor:
    """`start + i * step` up to but without `stop`; one argument is the stop."""
    return Tensor.arange(start, stop, step, out_dim, dtype=dtype, device=device)


def range(  # noqa: A001: the op's name
    start: Any,
    stop: Any,
    step: Any = 1,
    out_dim: Any = None,
    *,
    dtype: DType | None = None,
    device: Device | DeviceRef | None = None,
) -> Tensor:
    """`start + i * step` up to but without `stop`."""
    dtype, device = defaults(dtype, device)
    return _lifted.range(start, stop, step, out_dim, dtype=dtype, device=device)


def constant(
    value: Any, dtype: DType | None = None, device: Device | DeviceRef | DeviceMesh | DeviceMapping | None = None
) -> Tensor:
    """A tensor that holds numbers or the elements of an array."""
    return Tensor(value, dtype=dtype, device=device)


def constant_external(
    name: str,
    layout: TensorLayout | TensorType,
    device: Device | DeviceRef | None = None,
    align: int | None = None,
    is_placeholder: bool | None = None,
) -> Tensor:
    """A weight of the graph that is being built, whose data comes when the model is initialised."""
    whole = as_layout(layout)
    types = whole.local_types
    if device is not None:
        if len(types) > 1:
            raise ValueError(
                f"The weight '{name}' is spread over {len(types)} devices by its layout; leave out the device."
            )
        types = [TensorType(types[0].dtype, types[0].shape, device)]
    names = [name] if len(types) == 1 else [f"{name}._shard.{i}" for i in _builtins.range(len(types))]
    values = []
    for shard_name, type in zip(names, types, strict=True):
        values.append(_lifted.constant_external(shard_name, type, align, is_placeholder).graph_values[0])
    weight = Tensor.from_shard_values(values, None if device is not None else whole.mapping)
    weight._name_weight(name)
    return weight


def transfer_to(t: Any, target: Device | DeviceRef | DeviceMesh | DeviceMapping) -> Tensor:
    """As `Tensor.to`."""
    if isinstance(t, Tensor) and (t.is_distributed or isinstance(target, DeviceMesh | DeviceMapping)):
        return t.to(target)
    return _lifted.transfer_to(t, target)


def allgather(t: Tensor, tensor_axis: int = 0, mesh_axis: str | int = 0) -> Tensor:
    """From Sharded along `tensor_axis` to copies, over one axis of the tensor's mesh. Another placement there:
    ShardingError."""
    return _lifted.allgather(t, tensor_axis, mesh_axis)


def allreduce_sum(t: Tensor, mesh_axis: str | int = 0) -> Tensor:
    """From Partial to copies, over one axis of the tensor's mesh. Another placement there: ShardingError."""
    return _lifted.allreduce_sum(t, mesh_axis)


def reduce_scatter(t: Tensor, scatter_axis: int = 0, mesh_axis: str | int = 0) -> Tensor:
    """From Partial to slices along `scatter_axis`, over one axis of the tensor's mesh. Another placement there:
    ShardingError."""
    return _lifted.reduce_scatter(t, scatter_axis, mesh_axis)


Size = Iterable[Dim | int | str]
Number = bool | int | float
Place = Device | DeviceRef | DeviceMesh | DeviceMapping
Like = Tensor | TensorType | TensorLayout


def full(shape: Size, value: Number, *, dtype: DType | None = None, device: Place | None = None) -> Tensor:
    """One number everywhere."""
    return Tensor.full(shape, value, dtype=dtype, device=device)


def zeros(shape: Size, *, dtype: DType | None = None, device: Place | None = None) -> Tensor:
    """0 everywhere."""
    return Tensor.zeros(shape, dtype=dtype, device=device)


def ones(shape: Size, *, dtype: DType | None = None, device: Place | None = None) -> Tensor:
    """1 everywhere."""
    return Tensor.ones(shape, dtype=dtype, device=device)


def full_like(like: Like, value: Number) -> Tensor:
    """One number, with the type of a tensor or a type."""
    return Tensor.full_like(like, value)


def zeros_like(like: Like) -> Tensor:
    """0, with the type of a tensor or a type."""
    return Tensor.zeros_like(like)


def ones_like(like: Like) -> Tensor:
    """1, with the type of a tensor or a type."""
    return Tensor.ones_like(like)


def hann_window(
    window_length: int,
    device: Device | DeviceRef | None = None,
    periodic: bool = True,
    dtype: DType | None = None,
) -> Tensor:
    """`0.5 - 0.5 * cos(2 * pi * i / M)`."""
    dtype, device = defaults(dtype, device)
    return _lifted.hann_window(window_length, device, periodic, dtype)


def _all_elements(name: str) -> Callable[..., Tensor]:
    """A reduction that takes all elements when it is given no axis."""
    reduce = getattr(_lifted, name)

    @functools.wraps(reduce, assigned=("__name__", "__doc__"))
    def function(x: Any, axis: int | None = -1) -> Tensor:
        return reduce(x, axis) if axis is not None else reduce(_lifted.reshape(x, [-1]), 0)

    return function


argmax, argmin = _all_elements("argmax"), _all_elements("argmin")
mean, prod, sum = _all_elements("mean"), _all_elements("prod"), _all_elements("sum")  # noqa: A001
_AXIS = object()


def _extremum(name: str) -> Callable[..., Tensor]:
    lifted = getattr(_lifted, name)

    @functools.wraps(lifted, assigned=("__name__", "__doc__"))
    def function(x: Any, y: Any = None, /, axis: Any = _AXIS) -> Tensor:
        if y is not None or axis is not None:
            return lifted(x, y, None if axis is _AXIS else axis)
        return lifted(_lifted.reshape(x, [-1]), None, 0)

    return function


max, min = _extremum("max"), _extremum("min")  # noqa: A001
elementwise_max, elementwise_min = max, min


def clamp(x: Any, lower_bound: Any, upper_bound: Any) -> Tensor:
    """As `clip` with both bounds."""
    return _lifted.clip(x, lower_bound, upper_bound)


def split(x: Any, size_or_sections: int | Iterable[int], axis: int = 0) -> list[Tensor]:
    """As `Tensor.split`."""
    return Tensor.from_dlpack(x).split(size_or_sections, axis)


def _region(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function on tensors as a region of control flow, which has graph values."""
    return lambda *values: function(*_to_tensors(values))


def cond(
    pred: Any, out_types: Iterable[Type] | None, then_fn: Callable[[], Any], else_fn: Callable[[], Any]
) -> list[Tensor]:
    """Runs one of two functions."""
    return _lifted.cond(pred, out_types, _region(then_fn), _region(else_fn))


def while_loop(initial_values: Any, predicate: Callable[..., Any], body: Callable[..., Any]) -> list[Tensor]:
    """Runs `body` while `predicate` gives true."""
    return _lifted.while_loop(initial_values, _region(predicate), _region(body))


_OWN = (
    "UnsupportedGraphError any_distributed arange clamp clip cond constant constant_external elementwise_max "
    "elementwise_min ensure_context full full_like functional gaussian gaussian_like in_graph_context lazy map_tensors "
    "normal normal_like ones ones_like per_shard_dispatch set_default_executor split tensor_to_layout to_tensors "
    "transfer_to uniform uniform_like while_loop zeros zeros_like"
).split()
# What tensors have operators for, and what belongs to graphs alone.
_HIDDEN = {"Function", "buffer_create", "buffer_load", "call", "getitem", "setitem"}
__all__ = sorted({name for name in vars(_lifted) if not name.startswith("_") and name not in _HIDDEN} | {*_OWN})
