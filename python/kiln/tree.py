"""Taking nested values apart and putting them together again.

A *node* has children: lists, tuples, namedtuples, dicts (plain dicts and `defaultdict` by sorted keys, `OrderedDict`
in its order) and classes with `__tree_flatten__()`, which returns `(children, meta)`; the children are a mapping of
keys or a sequence. Everything else is a leaf.

A class is rebuilt by `__tree_unflatten__(meta, children)`, or made by `__tree_empty__(meta)` and filled by
`__tree_setattr__(key, value)`, by `setattr` where it has none; all but the last are called on the class. `dataclass`
writes these for a dataclass.

>>> from kiln import tree
>>> leaves, structure = tree.flatten({"weight": 1.5, "layers": [1, 2]})
>>> leaves
[1, 2, 1.5]
>>> tree.unflatten(structure, [x * 10 for x in leaves])
{'layers': [10, 20], 'weight': 15.0}
>>> tree.paths({"weight": 1.5, "layers": [1, 2]})
{'layers.0': 1, 'layers.1': 2, 'weight': 1.5}
"""

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar, overload

from kiln._tree_def import (
    DictMeta,
    NodeMeta,
    TreeDef,
    bounded,
    can_start_empty,
    extend_path,
    is_node,
    key_of,
    open_node,
    where,
)

__all__ = [
    "DictMeta",
    "NodeMeta",
    "TreeDef",
    "as_predicate",
    "dataclass",
    "extend_path",
    "flatten",
    "flatten_one_level",
    "is_node",
    "leaves",
    "map",
    "nodes",
    "paths",
    "unflatten",
    "update",
]

T = TypeVar("T")
Leaf = type | tuple[type, ...] | Callable[[Any], bool] | None


def as_predicate(leaf: Leaf) -> Callable[[Any], bool] | None:
    """What a `leaf` argument means, as a function of one value: a type or a tuple of types asks `isinstance`, a
    function is asked itself, None stays None."""
    if leaf is None or (callable(leaf) and not isinstance(leaf, type)):
        return leaf
    types = leaf if isinstance(leaf, tuple) else (leaf,)
    for entry in types:
        if not isinstance(entry, type):
            raise TypeError(f"leaf must be a type, a tuple of types or a predicate, but holds {entry!r}.")
    return lambda value: isinstance(value, types)


class _Walk:
    """One walk over a value, which makes its TreeDef and its list of leaves."""

    def __init__(self, leaf: Leaf, shared: bool) -> None:
        self.is_leaf = as_predicate(leaf)
        self.shared = shared
        self.leaves: list[Any] = []
        self.positions = 0
        self.seen: dict[int, int] = {}  # positions of shared objects
        self.inside: set[int] = set()  # nodes that the walk is in
        self.kept: list[Any] = []  # what `seen` names by its address must not go away

    def walk(self, value: Any, path: str) -> TreeDef:
        if self.is_leaf is not None and self.is_leaf(value):
            return self.leaf(value)
        if not is_node(value):
            if self.is_leaf is None:
                return self.leaf(value)
            self.positions += 1
            return TreeDef("static", meta=value)
        return self.node(value, path)

    def reference(self, value: Any) -> TreeDef | None:
        """The reference to a shared object that was met before; else it is noted as met here."""
        if self.shared:
            if (position := self.seen.get(id(value))) is not None:
                self.positions += 1
                return TreeDef("ref", meta=position)
            self.seen[id(value)] = self.positions
            self.kept.append(value)
        return None

    def leaf(self, value: Any) -> TreeDef:
        if reference := self.reference(value):
            return reference
        self.positions += 1
        self.leaves.append(value)
        return TreeDef("leaf")

    def node(self, value: Any, path: str) -> TreeDef:
        # A tuple cannot be made before its children and is the same whenever they are; the walk goes into it again.
        is_tuple = isinstance(value, tuple)
        if id(value) in self.inside and not (self.shared and (is_tuple or can_start_empty(value))):
            raise ValueError(
                f"cycle at {where(path)}: the value contains itself, so its structure has no end. "
                + (
                    f"Give {type(value).__name__} a __tree_empty__, so that it can be made before its children."
                    if self.shared
                    else "shared=True allows this for lists, dicts and classes with __tree_empty__."
                )
            )
        if not is_tuple and (reference := self.reference(value)):
            return reference
        self.positions += 1
        opened = open_node(value, path)
        fresh = id(value) not in self.inside
        self.inside.add(id(value))
        children = [
            self.walk(child, extend_path(path, key_of(opened.keys, i, opened.kind, opened.meta)))
            for i, child in enumerate(opened.children)
        ]
        if fresh:
            self.inside.discard(id(value))
        return TreeDef(opened.kind, children, opened.keys, opened.meta)


@bounded
def flatten(tree: Any, *, leaf: Leaf = None, shared: bool = False) -> tuple[list[Any], TreeDef]:
    """The leaves of `tree` in order, and its structure.

    `leaf` is a type, a tuple of types or a predicate: values it holds for are leaves, and so the walk stops there;
    what then is neither leaf nor node is *static* and kept in the structure. With `shared` an object that is reached
    twice is one leaf, and values may contain themselves.
    Raises TypeError for dict keys that cannot be sorted and ValueError for a value that contains itself.
    """
    walk = _Walk(leaf, shared)
    structure = walk.walk(tree, "")
    return walk.leaves, structure


class _Rebuild:
    def __init__(self, values: Iterator[Any], total: int) -> None:
        self.values, self.total = values, total
        self.made: list[Any] = []  # by position

    def build(self, structure: TreeDef) -> Any:
        at = len(self.made)
        self.made.append(None)
        value = self.made[at] = self.value(structure, at)
        return value

    def value(self, structure: TreeDef, at: int) -> Any:
        kind, meta = structure.kind, structure.meta
        match kind:
            case "leaf":
                for value in self.values:
                    return value
                raise ValueError(f"ran out of leaves: the structure has {self.total} leaf slots.")
            case "static":
                return meta
            case "ref":
                return self.made[meta]
            case "list":
                self.made[at] = made = []
                for child in structure.children:
                    made.append(self.build(child))
                return made
            case "dict":
                self.made[at] = made = (
                    defaultdict(meta.default_factory) if meta.cls is defaultdict else meta.cls()
                )
                for key, child in zip(structure.keys, structure.children):
                    made[key] = self.build(child)
                return made
            case "tuple":
                return tuple([self.build(child) for child in structure.children])
            case "namedtuple":
                return meta._make([self.build(child) for child in structure.children])
        return self.object(structure, at)

    def object(self, structure: TreeDef, at: int) -> Any:
        cls, meta, keyed = structure.meta
        if hasattr(cls, "__tree_empty__"):
            self.made[at] = made = cls.__tree_empty__(meta)
            put = getattr(made, "__tree_setattr__", None)
            for key, child in zip(structure.child_keys, structure.children):
                value = self.build(child)
                if put is not None:
                    put(key, value)
                else:
                    setattr(made, key, value)
            return made
        if not hasattr(cls, "__tree_unflatten__"):
            raise TypeError(
                f"{cls.__name__} has __tree_flatten__ but neither __tree_unflatten__ nor __tree_empty__, so it cannot "
                "be put together again."
            )
        children = [self.build(child) for child in structure.children]
        return cls.__tree_unflatten__(meta, dict(zip(structure.keys, children)) if keyed else children)


@bounded
def unflatten(treedef: TreeDef, leaves: Iterable[Any], *, exact: bool = True) -> Any:
    """A fresh value of the structure `treedef` with `leaves` in their order.

    Too few leaves are a ValueError, too many as well unless `exact` is False.
    """
    values = iter(leaves)
    made = _Rebuild(values, treedef.num_leaves).build(treedef)
    if exact and (more := sum(1 for _ in values)):
        raise ValueError(
            f"too many leaves: the structure has {treedef.num_leaves} leaf slots, but {treedef.num_leaves + more} "
            "leaves were given."
        )
    return made


def leaves(tree: Any, *, leaf: Leaf = None, shared: bool = False) -> list[Any]:
    """The leaves of `tree` in order; the arguments are those of `flatten`."""
    return flatten(tree, leaf=leaf, shared=shared)[0]


def _named(names: Iterable[str], values: Iterable[T]) -> dict[str, T]:
    found: dict[str, T] = {}
    for name, value in zip(names, values):
        if name in found:
            raise ValueError(
                f"two leaves share a path, so it names neither: {where(name)}. Keys that hold dots, or are equal as "
                "text, do that; rename one of them."
            )
        found[name] = value
    return found


def paths(tree: Any, *, leaf: Leaf = None) -> dict[str, Any]:
    """The leaves of `tree` by their dotted paths, such as `layers.0.weight`; the path of a lone leaf is empty."""
    found, structure = flatten(tree, leaf=leaf)
    return _named(structure.leaf_paths, found)


@bounded
def nodes(tree: Any, type: Leaf) -> list[Any]:
    """The values in `tree`, itself included, that are of `type` (a type, a tuple of types or a predicate), each object
    once, outer ones before those inside them."""
    wanted = as_predicate(type)
    if wanted is None:
        raise TypeError("nodes wants a type, a tuple of types or a predicate, but got None.")
    found: list[Any] = []
    seen: set[int] = set()
    kept: list[Any] = []

    def visit(value: Any, path: str) -> None:
        if wanted(value) and id(value) not in seen:
            found.append(value)
        if id(value) in seen:
            return
        seen.add(id(value))
        kept.append(value)
        if (opened := open_node(value, path)) is not None:
            for i, child in enumerate(opened.children):
                visit(child, extend_path(path, key_of(opened.keys, i, opened.kind, opened.meta)))

    visit(tree, "")
    return found


def map(f: Callable[..., Any], tree: Any, *rest: Any, leaf: Leaf = None) -> Any:
    """A fresh tree of the structure of `tree` that holds `f(x, *others)` for each leaf `x`, where `others` are what
    the trees of `rest` hold at its place. Another structure in one of them is a ValueError that says where.

    >>> map(lambda x, y: x + y, {"a": 1, "b": (2, 3)}, {"a": 10, "b": (20, 30)})
    {'a': 11, 'b': (22, 33)}
    """
    first, structure = flatten(tree, leaf=leaf)
    others = []
    for index, other in enumerate(rest, 2):
        try:
            others.append(structure.flatten_up_to(other))
        except ValueError as error:
            raise ValueError(
                f"tree structure mismatch: tree argument {index} does not match the structure of tree argument 1, "
                f"at {error}"
            ) from None
    return unflatten(structure, [f(*values) for values in zip(first, *others)])


@bounded
def update(tree: Any, values: Mapping[str, Any], *, leaf: Leaf = None) -> None:
    """Writes `values`, which are named by dotted paths, over leaves of `tree`, in place.

    A frozen dataclass is replaced by a changed copy where it lies. A path without a leaf is a ValueError, and so is a
    leaf in a tuple, one that is the whole tree, or one of a frozen dataclass that is or lies in such a place; then
    nothing is written.
    """
    slots: list[tuple[str, Put | None]] = []
    frozen: list[_Frozen] = []  # outer ones first
    is_leaf = as_predicate(leaf)
    inside: set[int] = set()

    def visit(value: Any, path: str, put: Put | None) -> None:
        if not is_node(value) or (is_leaf is not None and is_leaf(value)):
            if is_leaf is None or is_leaf(value):
                slots.append((path, put))
            return
        if id(value) in inside:
            raise ValueError(f"cycle at {where(path)}: the value contains itself, so its leaves have no end of paths.")
        inside.add(id(value))
        opened = open_node(value, path)
        if is_frozen := _is_frozen(value):
            frozen.append(_Frozen(value, put))
        writer = frozen[-1].writer if is_frozen else functools.partial(_writer, value)
        for i, child in enumerate(opened.children):
            key = key_of(opened.keys, i, opened.kind, opened.meta)
            visit(child, extend_path(path, key), writer(key))
        inside.discard(id(value))

    visit(tree, "", None)
    writers = _named((path for path, _ in slots), (put for _, put in slots))
    if missing := [path for path in values if path not in writers]:
        raise ValueError(
            f"update: no leaf at {missing}, so these values were not written. "
            f"The leaves are at {_shortened(list(writers))}."
        )
    if fixed := [path for path in values if writers[path] is None]:
        raise ValueError(
            f"update: the leaves at {[where(path) for path in fixed]} lie in no list or dict and are no attributes "
            "that can be set, so they cannot be written in place. Use tree.map, which makes a new tree."
        )
    for path, value in values.items():
        writers[path](value)
    for node in reversed(frozen):
        node.replace()


Put = Callable[[Any], None]


class _Frozen:
    """A frozen dataclass in a tree that is updated: its changes are collected, then a changed copy takes its place."""

    def __init__(self, node: Any, put: Put | None) -> None:
        self.node, self.put = node, put
        self.fields = {field.name for field in dataclasses.fields(node) if field.init}
        self.changes: dict[str, Any] = {}

    def writer(self, key: Any) -> Put | None:
        if self.put is None or key not in self.fields:
            return None
        return functools.partial(self.changes.__setitem__, key)

    def replace(self) -> None:
        if self.put is not None and self.changes:
            self.put(dataclasses.replace(self.node, **self.changes))


def _is_frozen(node: Any) -> bool:
    """Whether no attribute of the node can be set, by a method of its own neither."""
    parameters = getattr(type(node), "__dataclass_params__", None)
    return (
        parameters is not None
        and parameters.frozen
        and getattr(type(node), "__tree_setattr__", _set_field) is _set_field
    )


def _writer(node: Any, key: Any) -> Put | None:
    if isinstance(node, tuple):
        return None
    if isinstance(node, list | dict):
        return functools.partial(node.__setitem__, key)
    if hasattr(type(node), "__tree_setattr__"):
        return functools.partial(node.__tree_setattr__, key)
    return functools.partial(setattr, node, key) if isinstance(key, str) else None


def _set_field(self: Any, key: str, value: Any) -> None:
    """Of frozen dataclasses, too, which are written once, when they are made."""
    object.__setattr__(self, key, value)


def _shortened(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:8])
    return f"[{shown}{', …' if len(names) > 8 else ''}]"


def flatten_one_level(value: Any) -> tuple[dict[Any, Any], Any]:
    """The children of a node by their keys, and what else makes the node: the meta of its TreeDef. A leaf is a
    TypeError."""
    opened = open_node(value, "")
    if opened is None:
        raise TypeError(f"{type(value).__name__} is not a tree node.")
    keys = (key_of(opened.keys, i, opened.kind, opened.meta) for i in range(len(opened.children)))
    return dict(zip(keys, opened.children)), opened.meta


@overload
def dataclass(cls: type[T], /) -> type[T]: ...
@overload
def dataclass(cls: None = None, /, **options: Any) -> Callable[[type[T]], type[T]]: ...
def dataclass(cls: Any = None, /, **options: Any) -> Any:
    """Makes a dataclass a node whose children are the fields that are not None. `options` are those of
    `dataclasses.dataclass`, which is applied to a class that is no dataclass yet.

    >>> @dataclass
    ... class Linear:
    ...     weight: object
    ...     bias: object = None
    >>> paths([Linear(1.0), Linear(2.0, 3.0)])
    {'0.weight': 1.0, '1.weight': 2.0, '1.bias': 3.0}
    """

    def wrap(cls: Any) -> Any:
        if "__dataclass_fields__" not in cls.__dict__ or options:
            cls = dataclasses.dataclass(cls, **options)

        def tree_flatten(self: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
            values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
            children = {name: value for name, value in values.items() if value is not None}
            return children, tuple(name for name in values if name not in children)

        def tree_empty(cls: Any, meta: tuple[str, ...]) -> Any:
            made = cls.__new__(cls)
            for name in meta:
                object.__setattr__(made, name, None)
            return made

        cls.__tree_flatten__ = tree_flatten
        cls.__tree_empty__ = classmethod(tree_empty)
        cls.__tree_setattr__ = _set_field
        return cls

    return wrap if cls is None else wrap(cls)
