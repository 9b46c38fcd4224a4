"""Compiled functions over tensors.

>>> from kiln.driver import CPU
>>> from kiln.dtype import DType
>>> from kiln.experimental.sharding import TensorLayout
>>> from kiln.experimental.tensor import Tensor
>>> def scale(x: Tensor, by: float) -> Tensor:
...     return x * by
>>> run = compile(scale)(TensorLayout(DType.float32, ["n"], CPU()), 2.0)
>>> run(Tensor([1, 2, 3]), 2.0)
Tensor([2 4 6], dtype=DType.float32, device=Device(type=cpu,id=0))
"""

import io
import os
import pickle
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, Generic, ParamSpec, TypeVar

from kiln import tree
from kiln._core.experimental import _check_part_names, _fast_call, _is_made_from, default_session
from kiln.driver import Buffer, Device, DLPackArray
from kiln.dtype import DType
from kiln.engine import CompiledModel, InferenceSession, Model, read
from kiln.experimental._subgraphs import (
    as_subgraph,
    input_tensors,
    name_of,
    output_values,
    route_of,
    routes_of,
    take_apart,
    tracing,
)
from kiln.experimental.sharding import BufferLayout, DeviceMapping, TensorLayout, as_layout
from kiln.experimental.tensor import Tensor
from kiln.graph import BufferType, Graph, StaticDim, SymbolicDim, TensorType
from kiln.tree import TreeDef

__all__ = ["CompiledCallable", "StagedGraph", "as_subgraph", "compile", "stage"]

P = ParamSpec("P")
R = TypeVar("R")
Layout = TensorLayout | BufferLayout

_NO_MODEL = "this callable has no initialized model; initialize its artifact and use from_engine_model"
_LAYOUTS = (TensorLayout, BufferLayout, TensorType, BufferType, Tensor)


class _Signature:
    """The layouts and structures of a function's arguments and results."""

    def _set_signature(
        self, in_layouts: Sequence[Layout], in_tree: TreeDef, out_layouts: Sequence[Layout], out_tree: TreeDef
    ) -> None:
        self._in_layouts, self._in_tree = list(in_layouts), in_tree
        self._out_layouts, self._out_tree = list(out_layouts), out_tree

    @property
    def in_layouts(self) -> list[Layout]:
        """The layout of each tensor argument, in graph order."""
        return list(self._in_layouts)

    @property
    def in_tree(self) -> TreeDef:
        """The structure of `(args, kwargs)`, static values included."""
        return self._in_tree

    @property
    def out_layouts(self) -> list[Layout]:
        """The layout of each tensor result, in graph order."""
        return list(self._out_layouts)

    @property
    def out_tree(self) -> TreeDef:
        """The structure of the result, static values included."""
        return self._out_tree


class StagedGraph(_Signature, Generic[P, R]):
    """A function over tensors that was recorded as a graph for arguments of certain layouts; `stage` makes it."""

    def __init__(
        self,
        graph: Graph,
        in_layouts: Sequence[Layout],
        in_tree: TreeDef,
        out_layouts: Sequence[Layout],
        out_tree: TreeDef,
    ) -> None:
        self._graph = graph
        self._set_signature(in_layouts, in_tree, out_layouts, out_tree)

    @property
    def graph(self) -> Graph:
        """The recorded graph."""
        return self._graph

    def __repr__(self) -> str:
        return str(self._graph.module)


def stage(
    fn: Callable[P, R],
    *,
    name: str | None = None,
    custom_extensions: Iterable[str | os.PathLike[str]] = (),
    allow_subgraphs: bool = True,
    signal_devices: Iterable[Device] = (),
    signal_buffer_index: int | None = None,
    is_device_graph: bool = False,
) -> Callable[..., StagedGraph[P, R]]:
    """Records `fn` as a graph. Returns a function that takes the layouts of its tensor arguments, nested as the
    arguments are; everything else that it is given is static and becomes a part of the graph.

    >>> from kiln.driver import CPU
    >>> from kiln.dtype import DType
    >>> staged = stage(lambda x, n: x * n, name="times")(TensorLayout(DType.float32, [2], CPU()), 3)
    >>> staged.in_tree, staged.out_layouts[0].shape
    (TreeDef(((*, 3), {})), [Dim(2)])
    """

    for device in signal_devices:  # they matter to several accelerators
        if not isinstance(device, Device):
            raise TypeError(f"signal_devices holds devices, but one is of type {type(device).__name__}.")

    def record(*args: Any, **kwargs: Any) -> StagedGraph[P, R]:
        given, in_tree = tree.flatten((args, kwargs), leaf=_LAYOUTS)
        in_layouts = [as_layout(layout) for layout in given]
        if signal_buffer_index is not None and not 0 <= signal_buffer_index <= len(in_layouts):
            raise ValueError(
                f"signal_buffer_index is {signal_buffer_index}, but must be between 0 and the {len(in_layouts)} inputs "
                "of the graph."
            )
        _check_part_names(in_layouts, routes_of(in_tree))
        graph = Graph(
            name_of(fn, name),
            input_types=[type for layout in in_layouts for type in layout.local_types],
            custom_extensions=list(custom_extensions),
            is_device_graph=is_device_graph,
        )
        with graph, tracing(graph if allow_subgraphs else None):
            inputs = input_tensors(graph.inputs, [layout.mapping for layout in in_layouts])
            for tensor, layout, route in zip(inputs, in_layouts, routes_of(in_tree), strict=True):
                if not isinstance(layout, BufferLayout):
                    tensor._name_argument(route)
            staged_args, staged_kwargs = tree.unflatten(in_tree, inputs)
            found, out_tree = take_apart(fn(*staged_args, **staged_kwargs))
            outputs = output_values(found)
            graph.output(*outputs)
        rest = iter(outputs)
        out_layouts = [
            tensor.layout if tensor.is_distributed else as_layout(part.type)
            for tensor in found
            for part in list(islice(rest, tensor.num_shards))[:1]
        ]
        return StagedGraph(graph, in_layouts, in_tree, out_layouts, out_tree)

    return record


def compile(  # noqa: A001: the name of the specification
    fn: Callable[P, R],
    *,
    weights: Mapping[str, DLPackArray] | None = None,
    session: InferenceSession | None = None,
    name: str | None = None,
    custom_extensions: Iterable[str | os.PathLike[str]] = (),
    allow_subgraphs: bool = True,
    signal_devices: Iterable[Device] = (),
    signal_buffer_index: int | None = None,
    is_device_graph: bool = False,
) -> Callable[..., "CompiledCallable[P, R]"]:
    """As `stage`, and makes a `CompiledCallable` of the graph."""
    record = stage(
        fn,
        name=name,
        custom_extensions=custom_extensions,
        allow_subgraphs=allow_subgraphs,
        signal_devices=signal_devices,
        signal_buffer_index=signal_buffer_index,
        is_device_graph=is_device_graph,
    )

    def make(*args: Any, **kwargs: Any) -> CompiledCallable[P, R]:
        return CompiledCallable(record(*args, **kwargs), weights, session=session)

    return make


def _shape_text(dims: Iterable[Any]) -> str:
    return f"[{', '.join(str(dim) for dim in dims)}]"


def _place(mapping: DeviceMapping) -> str:
    devices = ", ".join(f"{device.label}:{device.id}" for device in mapping.mesh.devices)
    return f"[{devices}]" if mapping.mesh.is_single else f"[{devices}] as {list(mapping.placements)}"


def _specs_of(layouts: Iterable[Layout]) -> list[tuple[Any, ...]]:
    """The inputs of a model for arguments of these layouts, symbols aside."""
    return [
        (type.dtype, [int(dim) if isinstance(dim, StaticDim) else None for dim in type.shape], type.device)
        for layout in layouts
        for type in layout.local_types
    ]


class _Argument:
    """How one argument is checked."""

    def __init__(self, layout: Layout, route: str) -> None:
        self.route = route
        self.is_buffer = isinstance(layout, BufferLayout)
        self.dtype = layout.dtype
        self.shape = list(layout.shape)
        self.rank = layout.rank
        self.extents = [(axis, int(dim)) for axis, dim in enumerate(self.shape) if isinstance(dim, StaticDim)]
        self.mapping = layout.mapping
        self.device = layout.mesh.devices[0]
        self.count = layout.mesh.num_devices

    def buffers(self, value: Any) -> list[Buffer]:
        """The memory of the argument, that of each shard."""
        if isinstance(value, Buffer):
            value = Tensor.from_dlpack(value)
        elif not isinstance(value, Tensor):
            raise TypeError(f"argument {self.route}: expected a Tensor or Buffer, got {type(value).__name__}")
        if not value.real:
            _ = value.realize
        if self.is_buffer and (value.dtype is not self.dtype or value.num_shards != self.count):
            raise ValueError(
                f"argument {self.route}: expected {self.dtype.name} across {self.count} device(s), got "
                f"{value.dtype.name} across {value.num_shards}"
            )
        is_elsewhere = self.count > 1 and value.mapping != self.mapping
        if is_elsewhere if self.is_buffer else not self._fits(value):
            raise ValueError(
                f"argument {self.route}: expected {self.dtype.name} shape {_shape_text(self.shape)} on "
                f"{_place(self.mapping)}, got {value.dtype.name} shape {_shape_text(value.shape)} on "
                f"{_place(value.mapping)}"
            )
        return value.buffers

    def _fits(self, value: Tensor) -> bool:
        shape = value.shape
        if self.count == 1:
            is_there = not value.is_distributed and value.device is self.device
        else:
            is_there = value.mapping == self.mapping
        return (
            is_there
            and value.dtype is self.dtype
            and len(shape) == self.rank
            and all(shape[axis] == extent for axis, extent in self.extents)
        )


class CompiledCallable(_Signature, Generic[P, R]):
    """A compiled function that runs on tensors; `compile` makes it. It is called as the function was, with a Tensor for
    each layout, and every other argument as it was staged.

    `weights` holds the data of each weight that the graph declares, by its name. `session` compiles and initialises
    the graph; by default one that the whole process shares.
    """

    def __init__(
        self,
        staged: StagedGraph[P, R],
        weights: Mapping[str, DLPackArray] | None = None,
        *,
        session: InferenceSession | None = None,
    ) -> None:
        session = default_session() if session is None else session
        artifact = session.compile_reusing_mefs(staged.graph)
        model = session.init(artifact, weights_registry=dict(weights or {}))
        self._set(artifact, model, staged.in_layouts, staged.in_tree, staged.out_layouts, staged.out_tree, weights)

    def _set(
        self,
        artifact: CompiledModel,
        model: Model | None,
        in_layouts: Sequence[Layout],
        in_tree: TreeDef,
        out_layouts: Sequence[Layout],
        out_tree: TreeDef,
        weights: Mapping[str, DLPackArray] | None,
    ) -> None:
        self._artifact, self._model = artifact, model
        self._set_signature(in_layouts, in_tree, out_layouts, out_tree)
        self._weights = MappingProxyType(dict(weights or {}))
        routes = routes_of(in_tree)
        self._arguments = [_Argument(layout, route) for layout, route in zip(self._in_layouts, routes, strict=True)]
        self._fast = _fast_call(model, in_tree, out_tree, self._in_layouts, self._out_layouts) if model else None

    @classmethod
    def from_engine_model(
        cls,
        staged: StagedGraph[P, R],
        artifact: CompiledModel,
        engine_model: Model,
        weights: Mapping[str, DLPackArray] | None = None,
    ) -> "CompiledCallable[P, R]":
        """Wraps a staged graph that the caller compiled and initialised, for example together with others; `weights` is
        the registry that `engine_model` was initialised with. A model of another artifact, or one whose inputs are
        others than those of `staged`: ValueError."""
        if not isinstance(engine_model, Model):
            raise TypeError(f"engine_model must be a Model, not an object of type {type(engine_model).__name__}.")
        if not _is_made_from(engine_model, artifact):
            raise ValueError(
                f"The model '{engine_model.name}' was not made from this artifact, which holds "
                f"{', '.join(artifact.names)}: initialise the artifact itself."
            )
        if staged.graph.name not in artifact.names or engine_model.name != staged.graph.name:
            raise ValueError(
                f"The model '{engine_model.name}' is not the graph '{staged.graph.name}' of the artifact, which holds "
                f"{', '.join(artifact.names)}."
            )
        layouts, specs = staged.in_layouts, engine_model.input_metadata
        if _specs_of(layouts) != [(spec.dtype, spec.shape, spec.device) for spec in specs]:
            types = [str(type) for layout in layouts for type in layout.local_types]
            raise ValueError(
                f"The inputs of the model, [{', '.join(map(str, specs))}], are not those of the staged graph, "
                f"[{', '.join(types)}]."
            )
        made: CompiledCallable[P, R] = cls.__new__(cls)
        made._set(
            artifact, engine_model, staged.in_layouts, staged.in_tree, staged.out_layouts, staged.out_tree, weights
        )
        return made

    @classmethod
    def from_compiled(
        cls,
        artifact: CompiledModel,
        engine_model: Model | None,
        in_layouts: Sequence[Layout],
        in_tree: TreeDef,
        out_layouts: Sequence[Layout],
        out_tree: TreeDef,
        weights: Mapping[str, DLPackArray] | None = None,
    ) -> "CompiledCallable[..., Any]":
        """Wraps a graph that was traced without `stage`, given its signature; None as the model makes a description
        that cannot run. An artifact of other than one graph, or layouts that are not as many as the leaves of their
        tree: ValueError."""
        if len(artifact) != 1:
            raise ValueError(f"from_compiled takes an artifact of one graph, but this one holds {len(artifact)}.")
        for what, layouts, structure in (("in", in_layouts, in_tree), ("out", out_layouts, out_tree)):
            if len(layouts) != structure.num_leaves:
                raise ValueError(
                    f"from_compiled: {what}_tree has {structure.num_leaves} leaves, but {what}_layouts has "
                    f"{len(layouts)} layouts."
                )
        made: CompiledCallable[..., Any] = cls.__new__(cls)
        made._set(artifact, engine_model, in_layouts, in_tree, out_layouts, out_tree, weights)
        return made

    def run(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Checks the arguments, runs the graph and rebuilds the result."""
        if self._fast is not None:
            try:
                result = self._fast(args, kwargs)
            except (ValueError, TypeError) as error:
                raise self._named(error) from None
            if result is not NotImplemented:
                return result
        return self._run(args, kwargs)

    __call__ = run

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R:
        """The long way, for what the short one does not know, and for errors."""
        model = self.engine_model
        try:
            values = self._in_tree.flatten_up_to((args, kwargs))
        except ValueError as error:
            path, _, reason = str(error).partition(": ")
            raise ValueError(f"tree structure mismatch at {route_of(path)}: {reason}") from None
        parts = [argument.buffers(value) for argument, value in zip(self._arguments, values, strict=True)]
        if any(argument.count > 1 for argument in self._arguments):
            self._check_dims(values)
        buffers = list(chain.from_iterable(parts))
        try:
            results = model.execute(*buffers)
        except (ValueError, TypeError) as error:
            raise self._named(error) from None
        rest = map(Tensor.from_dlpack, results)
        return tree.unflatten(self._out_tree, [_joined(rest, layout.mapping) for layout in self._out_layouts])

    def _check_dims(self, values: Sequence[Any]) -> None:
        """Whether symbols of whole tensors agree, of which the model knows only those of shards."""
        sizes: dict[str, int] = {}
        for argument, value in zip(self._arguments, values, strict=True):
            for dim, size in zip(argument.shape, value.shape, strict=True):
                if isinstance(dim, SymbolicDim) and sizes.setdefault(dim.name, int(size)) != int(size):
                    raise ValueError(
                        f"symbolic dimension '{dim.name}' for argument {argument.route} does not match prior uses of "
                        "that dimension"
                    )

    def _named(self, error: Exception) -> Exception:
        """The error with positions of inputs as routes of arguments."""
        owners = [argument for argument in self._arguments for _ in range(argument.count)]

        def name(match: re.Match[str]) -> str:
            index = int(match[2])
            return f"{match[1]}argument {owners[index].route}" if index < len(owners) else match[0]

        text = re.sub(r"()\b[Ii]nput (?:at position )?(\d+)", name, str(error))
        return type(error)(text)

    def execute_raw(self, *buffers: Buffer) -> list[Buffer]:
        """Runs the graph on one buffer for each of its inputs, without checks of arguments; one buffer for each
        result."""
        return self.engine_model.execute(*buffers)

    def export_mef(self, path: str | os.PathLike[str], *, include_weights: bool = False) -> None:
        """Writes the compiled graph to a MEF, on request with the weights."""
        self._artifact.export_mef(path, weights_registry=dict(self._weights) if include_weights else None)

    def explain(self, path: str | os.PathLike[str] | None = None) -> str:
        """An HTML page that shows the graph's ops, the kernels that they became, with bytes and flops, and the memory
        plan over time; on request it is written, too."""
        return self._artifact.explain(path)

    @property
    def engine_model(self) -> Model:
        """The model that runs. RuntimeError for a callable that was made without one."""
        if self._model is None:
            raise RuntimeError(_NO_MODEL)
        return self._model

    @property
    def signal_buffers(self) -> list[Buffer]:
        """The signal buffers for collectives over several accelerators; none on one device."""
        return []

    @property
    def weights(self) -> Mapping[str, DLPackArray]:
        """The registry that it was made with, which cannot be changed."""
        return self._weights

    def __repr__(self) -> str:
        arguments = ", ".join(f"{argument.route}: {layout!r}" for argument, layout in
                              zip(self._arguments, self._in_layouts, strict=True))
        return f"CompiledCallable({arguments})"

    def __reduce__(self) -> tuple[Any, ...]:
        for what, structure in (("argument", self._in_tree), ("result", self._out_tree)):
            for path, value in _statics(structure, ""):
                try:
                    pickle.dumps(value)
                except Exception as error:  # noqa: BLE001: a class of the user's may raise anything
                    where = route_of(path) if what == "argument" else path or "<root>"
                    raise TypeError(
                        f"A CompiledCallable is serialised with its static values, but that of {what} {where}, of type "
                        f"{type(value).__name__}, cannot be: {error}"
                    ) from None
        return _restore, (
            _bytes_of(self._artifact), self._in_layouts, self._in_tree, self._out_layouts, self._out_tree
        )


def _joined(parts: Iterator[Tensor], mapping: DeviceMapping) -> Tensor:
    count = mapping.mesh.num_devices
    return next(parts) if count == 1 else Tensor._from_shards(list(islice(parts, count)), mapping)


def _statics(structure: TreeDef, path: str) -> Iterator[tuple[str, Any]]:
    if structure.kind == "static":
        yield path, structure.meta
    for key, child in zip(structure.child_keys, structure.children, strict=True):
        yield from _statics(child, tree.extend_path(path, key))


def _bytes_of(artifact: CompiledModel) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "artifact.mef")
        artifact.export_mef(path)
        with open(path, "rb") as file:
            return file.read()


def _restore(content: bytes, *signature: Any) -> CompiledCallable[..., Any]:
    return CompiledCallable.from_compiled(read(io.BytesIO(content)), None, *signature)
