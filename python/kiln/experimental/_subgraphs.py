"""Functions over tensors that are recorded once in a trace and called from then on."""

import contextlib
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from types import CellType, FunctionType
from typing import Any, NamedTuple, ParamSpec, TypeVar, overload

from kiln import tree
from kiln.experimental import functional as F
from kiln.experimental.sharding import DeviceMapping
from kiln.experimental.tensor import Tensor
from kiln.graph import BufferType, BufferValue, Graph, Value, ops
from kiln.tree import TreeDef

P = ParamSpec("P")
R = TypeVar("R")


def route_of(path: str) -> str:
    """The place of a leaf of `(args, kwargs)` as the caller names it: a position or keyword, and the path inside."""
    return path.partition(".")[2] or "<root>"


def routes_of(structure: TreeDef) -> list[str]:
    return [route_of(path) for path in structure.leaf_paths]


class _Body(NamedTuple):
    """A function that was recorded as a subgraph."""

    graph: Graph
    structure: TreeDef
    types: tuple[Any, ...]  # for each tensor of the arguments its mapping and the types of its shards
    out_tree: TreeDef
    # For each result the number of the argument that it is, or its mapping.
    outputs: list[int | DeviceMapping]


class _Trace(threading.local):
    """The graph that `stage` records on this thread, and the bodies of its subgraphs."""

    graph: Graph | None = None
    bodies: dict[Any, _Body]
    kept: list[Any]  # functions that keys name by their address


_trace = _Trace()


@contextlib.contextmanager
def tracing(graph: Graph | None) -> Iterator[None]:
    outer = dict(vars(_trace))
    vars(_trace).update(graph=graph, bodies={}, kept=[])
    try:
        yield
    finally:
        vars(_trace).clear()
        vars(_trace).update(outer)


def values_of(tensor: Tensor) -> list[Value]:
    """What each shard of the tensor is in the graph: a buffer stays one."""
    return [shard.__tensorvalue__() if shard.real else shard.graph_values[0] for shard in tensor.local_shards]


def output_values(tensors: Iterable[Tensor]) -> list[Value]:
    return [shard.__tensorvalue__() for tensor in tensors for shard in tensor.local_shards]


def input_tensors(values: Iterable[Value], mappings: Iterable[DeviceMapping]) -> list[Tensor]:
    """The tensors of these mappings whose shards are the inputs of a graph."""
    rest = iter(values)
    return [Tensor.from_shard_values(islice(rest, mapping.mesh.num_devices), mapping) for mapping in mappings]


def take_apart(result: Any) -> tuple[list[Tensor], TreeDef]:
    """The tensors of what a staged function returned."""
    found, structure = tree.flatten(result, leaf=lambda value: isinstance(value, Tensor | Value))
    if any(isinstance(value, Value) for value in found):
        raise TypeError("a staged callable must return Tensors")
    return found, structure


@overload
def as_subgraph(
    fn: None = None, *, name: str | None = None, prefix: str | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


@overload
def as_subgraph(
    fn: Callable[P, R], *, name: str | None = None, prefix: str | None = None
) -> Callable[P, R]: ...


def as_subgraph(fn: Any = None, *, name: str | None = None, prefix: str | None = None) -> Any:
    """Has a function be recorded once in a trace and called from then on; also a decorator.

    A call is of the same body when the function is the same, and the structure, static values and types of its
    arguments are. With a name and a prefix that is not empty the name counts instead of the function, so that layers
    that differ in their weights alone share one body: `prefix` stands before the names of the weights that the body
    declares. Without one it is the place in the model that the names of the weights tell which a module, or a function
    through its closure, holds. Outside of a trace, and inside of another subgraph, the function is simply called.
    """
    if fn is None:
        return lambda function: as_subgraph(function, name=name, prefix=prefix)

    def call(*args: Any, **kwargs: Any) -> Any:
        if _trace.graph is None or not F.in_graph_context() or Graph.current != _trace.graph:
            return fn(*args, **kwargs)
        return _call_subgraph(fn, name, prefix, args, kwargs)

    call.__name__ = call.__qualname__ = getattr(fn, "__name__", type(fn).__name__)
    call.__doc__ = getattr(fn, "__doc__", None)
    call.__wrapped__ = fn  # type: ignore[attr-defined]
    return call


def _held(fn: Any) -> Iterator[tuple[str, Tensor]]:
    """The tensors that a module, or a function through its closure, holds, by their paths in it."""
    if hasattr(fn, "parameters"):
        yield from fn.parameters
    for name, value in _closure(fn).items():
        if hasattr(value, "parameters"):
            yield from ((f"{name}.{path}", tensor) for path, tensor in value.parameters)
        else:
            yield from (
                (tree.extend_path(name, path) if path else name, leaf)
                for path, leaf in _leaves(value).items()
                if isinstance(leaf, Tensor)
            )


def _leaves(value: Any) -> dict[str, Any]:
    """The leaves of a value by their paths; none of one that is no tree."""
    try:
        return tree.paths(value, leaf=Tensor)
    except (TypeError, ValueError):
        return {}


def _closure(fn: Any) -> dict[str, Any]:
    """What a function's names from around it are bound to."""
    if not isinstance(fn, FunctionType):
        return {}
    values = {}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # a name that is not bound yet
            values[name] = cell.cell_contents
    return values


def _prefix_of(fn: Any) -> str:
    """The place of a callable in its model, as the names of the weights that it holds tell it."""
    prefix = ""
    for path, tensor in _held(fn):
        weight = tensor.external_name
        if weight is None:
            continue
        if not (weight == path or weight.endswith(f".{path}")):
            raise TypeError(
                f"weight '{weight}' is stored at '{path}' in this callable, but its name does not end with that path."
            )
        prefix = weight[: len(weight) - len(path)]
    return prefix


def _with_own_weights(fn: Any) -> Any:
    """The callable with weights of the graph that is being built in the place of those of the caller's graph."""
    if hasattr(fn, "_with_weights"):
        return fn._with_weights()
    held = _closure(fn)
    own: dict[str, Any] = {}
    for name, value in held.items():
        if hasattr(value, "_with_weights"):
            own[name] = value._with_weights(name)
            continue

        def declared(path: str, leaf: Any, name: str = name) -> Any:
            if not isinstance(leaf, Tensor) or leaf.external_name is None:
                return leaf
            return F.constant_external(tree.extend_path(name, path) if path else name, leaf.layout)

        leaves = _leaves(value)
        if any(isinstance(leaf, Tensor) and leaf.external_name is not None for leaf in leaves.values()):
            structure = tree.flatten(value, leaf=Tensor)[1]
            own[name] = tree.unflatten(structure, [declared(path, leaf) for path, leaf in leaves.items()])
    if not own:
        return fn
    cells = tuple(CellType(own[name]) if name in own else cell
                  for name, cell in zip(fn.__code__.co_freevars, fn.__closure__, strict=True))
    return FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, cells)


def _call_subgraph(fn: Any, name: str | None, prefix: str | None, args: Any, kwargs: Any) -> Any:
    leaves, structure = tree.flatten((args, kwargs), leaf=Tensor)
    prefix = _prefix_of(fn) if prefix is None else prefix
    values = [values_of(leaf) for leaf in leaves]
    types = tuple(
        (leaf.mapping, *(value.type for value in parts)) for leaf, parts in zip(leaves, values, strict=True)
    )
    symbol = name_of(fn, name)
    if name is not None and prefix:
        body = _trace.bodies.get(name)
        if body is not None:
            _check_call(symbol, body, args, kwargs, types)
        key: Any = name
    else:
        key = (id(fn), structure, tuple(map(str, types)))
        body = _trace.bodies.get(key)
    if body is None:
        body = _trace.bodies[key] = _record_body(fn, symbol, structure, types)
        _trace.kept.append(fn)
    results = ops.call(body.graph, *chain.from_iterable(values), prefix=prefix)
    made = iter(input_tensors(results, [output for output in body.outputs if isinstance(output, DeviceMapping)]))
    outputs = [leaves[output] if isinstance(output, int) else next(made) for output in body.outputs]
    return tree.unflatten(body.out_tree, outputs)


def _check_call(symbol: str, body: _Body, args: Any, kwargs: Any, types: tuple[Any, ...]) -> None:
    try:
        found = body.structure.flatten_up_to((args, kwargs))
    except ValueError as error:
        path, _, reason = str(error).partition(": ")
        raise ValueError(f"{symbol} tree structure mismatch at {route_of(path)}: {reason}") from None
    routes = routes_of(body.structure)
    for route, value in zip(routes, found, strict=True):
        if not isinstance(value, Tensor):
            raise TypeError(f"{symbol} argument {route}: expected a Tensor, got {type(value).__name__}")
    for route, expected, given in zip(routes, body.types, types, strict=True):
        if expected != given:
            raise ValueError(f"{symbol} argument {route}: expected {_type_text(expected)}, got {_type_text(given)}")


def _type_text(parts: tuple[Any, ...]) -> str:
    mapping, *types = parts
    return str(types[0]) if len(types) == 1 else f"{mapping} of {', '.join(map(str, types))}"


def _record_body(fn: Any, symbol: str, structure: TreeDef, types: tuple[Any, ...]) -> _Body:
    graph: Any = _trace.graph
    names = {body.graph.name for body in _trace.bodies.values()} | {graph.name}
    unique, number = symbol, 0
    while unique in names:
        number += 1
        unique = f"{symbol}_{number}"
    body = graph.add_subgraph(unique, input_types=[type for _, *parts in types for type in parts])
    with body:
        inputs = input_tensors(body.inputs, [mapping for mapping, *_ in types])
        for tensor, (_, *parts), route in zip(inputs, types, routes_of(structure), strict=True):
            if not isinstance(parts[0], BufferType):
                tensor._name_argument(route)
        args, kwargs = tree.unflatten(structure, inputs)
        found, out_tree = take_apart(_with_own_weights(fn)(*args, **kwargs))
        outputs: list[int | DeviceMapping] = []
        values = []
        for tensor in found:
            is_buffer = not tensor.real and isinstance(tensor.graph_values[0], BufferValue)
            argument = next((i for i, own in enumerate(inputs) if own is tensor or hash(own) == hash(tensor)), None)
            if is_buffer and argument is None:
                raise ValueError(
                    f"The subgraph '{unique}' returns a buffer that it created: each call would create new buffer "
                    "memory that its caller does not know. Return a tensor, such as `t + 0`."
                )
            if is_buffer and argument is not None:
                outputs.append(argument)
            else:
                outputs.append(tensor.mapping)
                values += output_values([tensor])
        body.output(*values)
    return _Body(body, structure, types, out_tree, outputs)


def name_of(function: Callable[..., Any], name: str | None) -> str:
    if name is not None:
        return name
    return re.sub(r"\W", "_", getattr(function, "__name__", type(function).__name__)) or "fn"
