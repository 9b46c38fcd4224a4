"""Models as trees of modules, whose tensors are parameters.

>>> from kiln.experimental.tensor import Tensor
>>> class Linear(Module):
...     def __init__(self, size_in: int, size_out: int) -> None:
...         self.weight = Tensor.ones([size_in, size_out])
...         self.bias = Tensor.zeros([size_out])
...     def forward(self, x: Tensor) -> Tensor:
...         return x @ self.weight + self.bias
>>> model = Linear(2, 3)
>>> [name for name, _ in model.parameters]
['weight', 'bias']
>>> model(Tensor([[1, 2]]))
Tensor([3 3 3], dtype=DType.float32, device=Device(type=cpu,id=0))
"""

import copy
import dataclasses
import logging
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar, dataclass_transform

from kiln import tree
from kiln.driver import CPU, Device, DLPackArray
from kiln.dtype import DType
from kiln.engine import InferenceSession
from kiln.experimental import functional as F
from kiln.experimental.compilation import CompiledCallable, as_subgraph, stage
from kiln.experimental.sharding import DeviceMapping, DeviceMesh
from kiln.experimental.tensor import Tensor
from kiln.graph import DeviceRef, Graph

__all__ = ["Module", "module_dataclass", "subgraphable"]

T = TypeVar("T")
M = TypeVar("M", bound="Module")
_log = logging.getLogger("kiln.experimental.nn")


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    """What lies in a list, tuple or dict, by its place."""
    if isinstance(value, list | tuple):
        yield from ((str(index), item) for index, item in enumerate(value))
    elif isinstance(value, dict):
        yield from ((str(key), item) for key, item in value.items())


def _find(name: str, value: Any, kind: type[T]) -> Iterator[tuple[str, T]]:
    """Objects of a class that an attribute is or holds in lists and dicts."""
    if isinstance(value, kind):
        yield name, value
    elif not isinstance(value, Module):
        for key, item in _items(value):
            yield from _find(f"{name}.{key}", item, kind)


def _put(holder: Any, path: list[str], value: Any) -> None:
    """Sets what lies at a path of attributes, keys and positions."""
    for key in path[:-1]:
        holder = getattr(holder, key) if isinstance(holder, Module) else holder[_key(holder, key)]
    if isinstance(holder, Module):
        setattr(holder, path[-1], value)
    else:
        holder[_key(holder, path[-1])] = value


def _key(holder: Any, key: str) -> Any:
    if isinstance(holder, list | tuple):
        return int(key)
    return next(own for own in holder if str(own) == key)


class Module:
    """A part of a model. Attributes that are tensors are its parameters, attributes that are modules its children, also
    inside lists and dicts; their names are the paths of attributes, such as `layers.0.weight`."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; each class writes its own."""
        raise NotImplementedError(f"{type(self).__name__} must implement forward() to be called.")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    @property
    def local_parameters(self) -> Iterable[tuple[str, Tensor]]:
        """Names and tensors of the module itself."""
        return [found for name, value in vars(self).items() for found in _find(name, value, Tensor)]

    @property
    def parameters(self) -> Iterable[tuple[str, Tensor]]:
        """Names and tensors, the module's own before those of its children, depth first."""
        return [
            *self.local_parameters,
            *((f"{name}.{inner}", tensor) for name, child in self.children for inner, tensor in child.parameters),
        ]

    @property
    def children(self) -> Iterable[tuple[str, "Module"]]:
        """Names and modules of the next level."""
        return [found for name, value in vars(self).items() for found in _find(name, value, Module)]

    @property
    def descendants(self) -> Iterable[tuple[str, "Module"]]:
        """Names and modules of all levels below, depth first."""
        found = []
        for name, child in self.children:
            found.append((name, child))
            found += [(f"{name}.{inner}", module) for inner, module in child.descendants]
        return found

    def apply_to_local_parameters(self, f: Callable[[str, Tensor], Tensor]) -> None:
        """Puts `f(name, tensor)` in the place of each tensor of the module itself."""
        for name, tensor in list(self.local_parameters):
            _put(self, name.split("."), f(name, tensor))

    def apply_to_parameters(self, f: Callable[[str, Tensor], Tensor]) -> None:
        """Puts `f(name, tensor)` in the place of each tensor, also of modules below."""
        self.apply_to_local_parameters(f)
        for name, child in list(self.children):
            child.apply_to_parameters(lambda inner, tensor, name=name: f(f"{name}.{inner}", tensor))

    def map_parameters(self: T, f: Callable[[str, Tensor], Tensor]) -> T:
        """As `apply_to_parameters`, on a copy; the module itself stays as it is."""
        copied = copy.deepcopy(self)
        copied.apply_to_parameters(f)  # type: ignore[attr-defined]
        return copied

    def load_state(self, lookup: Callable[[str, Tensor], Tensor]) -> None:
        """Puts `lookup(name, tensor)` in the place of each parameter."""
        self.apply_to_parameters(lookup)

    def load_state_dict(
        self, state: Mapping[str, DLPackArray], strict: bool = True, *, auto_cast: bool = False
    ) -> None:
        """Takes each parameter from `state` by its name, moved to the device of the old one.

        A missing name: KeyError; names that nobody took: ValueError unless `strict` is off; another shape or dtype:
        ValueError, but `auto_cast` converts between float32 and bfloat16.
        """
        _check_state("load_state_dict", state)
        used, widened, narrowed = set(), 0, 0

        def look_up(name: str, old: Tensor) -> Tensor:
            nonlocal widened, narrowed
            if name not in state:
                raise KeyError(f"load_state_dict: there is no weight '{name}' for the parameter of that name.")
            used.add(name)
            given: Any = state[name]
            if not hasattr(given, "__dlpack__") and not hasattr(given, "__array__"):
                raise TypeError(
                    f"load_state_dict: the weight '{name}' must be an array (something with __dlpack__ or __array__), "
                    f"but it is an object of type {type(given).__name__}."
                )
            # Numbers of NumPy are arrays of rank 0 that do not say so.
            new = Tensor.from_dlpack(given if hasattr(given, "__dlpack__") else given.__array__())
            if list(new.shape) != list(old.shape):
                raise ValueError(
                    f"load_state_dict: the weight '{name}' has shape {list(map(int, new.shape))}, but the parameter "
                    f"has shape {list(map(int, old.shape))}."
                )
            if new.dtype != old.dtype:
                if not (auto_cast and {new.dtype, old.dtype} == {DType.float32, DType.bfloat16}):
                    raise ValueError(
                        f"load_state_dict: the weight '{name}' is {new.dtype.name}, but the parameter is "
                        f"{old.dtype.name}. Convert it, or give auto_cast=True for float32 and bfloat16."
                    )
                narrowed += old.dtype == DType.bfloat16
                widened += old.dtype == DType.float32
                new = new.cast(old.dtype)
            return new.to(old.mapping)

        # Everything is looked up before anything is replaced.
        found = {name: look_up(name, old) for name, old in self.parameters}
        if strict and (unused := sorted(set(state) - used)):
            raise ValueError(f"load_state_dict did not use some weights: {{{', '.join(map(repr, unused))}}}")
        self.apply_to_parameters(lambda name, old: found[name])
        if narrowed:
            _log.warning("load_state_dict cast %d weights from float32 to bfloat16 (precision loss).", narrowed)
        if widened:
            _log.warning("load_state_dict cast %d weights from bfloat16 to float32.", widened)

    @property
    def device(self) -> Device:
        """Where its parameters are; the CPU for a module without any."""
        for _, tensor in self.parameters:
            return tensor.device
        return CPU()

    def to(self: T, target: Device | DeviceRef | DeviceMesh | DeviceMapping) -> T:
        """Moves its parameters; returns the module."""
        self.apply_to_parameters(lambda name, tensor: tensor.to(target))  # type: ignore[attr-defined]
        return self

    def _with_weights(self, path: str = "") -> "Module":
        """A copy whose parameters are weights of the graph that is being built, with `path` before their names."""
        return self.map_parameters(
            lambda name, tensor: F.constant_external(tree.extend_path(path, name) if path else name, tensor.layout)
        )

    def _function(self) -> Callable[..., Any]:
        def function(*args: Any, **kwargs: Any) -> Any:
            return self._with_weights()(*args, **kwargs)

        function.__name__ = type(self).__name__
        return function

    def trace(self, *types: Any, custom_extensions: Iterable[str] = ()) -> Graph:
        """The graph of `forward` for layouts of its arguments; parameters are weights under their names."""
        return stage(self._function(), custom_extensions=custom_extensions)(*types).graph

    def compile(
        self,
        *types: Any,
        weights: Mapping[str, DLPackArray] | None = None,
        custom_extensions: Iterable[str] = (),
        auto_cast: bool = False,
        allow_subgraphs: bool = True,
        session: InferenceSession | None = None,
    ) -> CompiledCallable[..., Any]:
        """Compiles `forward` for layouts of its arguments. Parameters are weights under their names; `weights` gives
        others for some of them, by the rules of `load_state_dict`."""
        module = self
        if weights is not None:
            _check_state("compile", weights)
        if weights:
            module = copy.deepcopy(self)
            own = {name: tensor.driver_tensor for name, tensor in module.parameters}
            module.load_state_dict({**own, **weights}, auto_cast=auto_cast)
        staged = stage(
            module._function(), custom_extensions=custom_extensions, allow_subgraphs=allow_subgraphs
        )(*types)
        registry = {}
        for name, tensor in module.parameters:
            if tensor.is_distributed:
                shards = enumerate(tensor.local_shards)
                registry |= {f"{name}._shard.{i}": shard.driver_tensor for i, shard in shards}
            else:
                registry[name] = tensor.materialize().driver_tensor
        return CompiledCallable(staged, registry, session=session)

    def __repr__(self) -> str:
        lines = [f"{name}: {tensor.dtype.name} {[int(dim) for dim in tensor.shape]}" for name, tensor in
                 self.local_parameters]
        lines += [f"{name}: {child!r}" for name, child in self.children]
        inside = "".join("\n" + textwrap.indent(line, "  ") for line in lines)
        return f"{type(self).__name__}({inside}\n)" if lines else f"{type(self).__name__}()"


def _check_state(function: str, state: Any) -> None:
    if not isinstance(state, Mapping):
        raise TypeError(
            f"{function} takes weights as a mapping from names to arrays, but got an object of type "
            f"{type(state).__name__}."
        )


@dataclass_transform()
def module_dataclass(cls: type[T]) -> type[T]:
    """Makes a class a dataclass and a Module: fields that are tensors are parameters.

    >>> from kiln.experimental.tensor import Tensor
    >>> @module_dataclass
    ... class Scale(Module):
    ...     by: Tensor
    ...     def forward(self, x):
    ...         return x * self.by
    >>> Scale(Tensor(2))(Tensor([1, 2]))
    Tensor([2 4], dtype=DType.float32, device=Device(type=cpu,id=0))
    """
    if not issubclass(cls, Module):
        raise TypeError(f"{cls.__name__} must be a subclass of Module to be a module_dataclass.")
    return dataclasses.dataclass(eq=False, repr=False)(cls)


def subgraphable(cls: type[M]) -> type[M]:
    """Has each call of the class's modules in a trace be one of a subgraph that all of them share: repeated layers are
    recorded once. They must differ in their parameters alone."""
    call = cls.__call__

    def shared(self: M, *args: Any, **kwargs: Any) -> Any:
        return as_subgraph(_Layer(self, call), name=cls.__name__)(*args, **kwargs)

    cls.__call__ = shared  # type: ignore[method-assign]
    return cls


class _Layer:
    """A module as the function that `as_subgraph` records."""

    def __init__(self, module: Module, call: Callable[..., Any]) -> None:
        self._module, self._call = module, call

    @property
    def parameters(self) -> Iterable[tuple[str, Tensor]]:
        return self._module.parameters

    def _with_weights(self) -> "_Layer":
        return _Layer(self._module._with_weights(), self._call)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(self._module, *args, **kwargs)
