"""The structure of a nested value, without its leaves."""

import functools
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

KINDS = ("leaf", "static", "ref", "list", "tuple", "namedtuple", "dict", "node")


class DictMeta(NamedTuple):
    """What a `dict` structure keeps besides its keys."""

    cls: type
    default_factory: Any = None


class NodeMeta(NamedTuple):
    """What the structure of a class keeps besides its keys: the class, what its `__tree_flatten__`
    gave as meta, and whether it gave its children as a mapping."""

    cls: type
    meta: Any
    keyed: bool


class Opened(NamedTuple):
    """One level of a node: its kind, keys and children, and what a TreeDef keeps of it."""

    kind: str
    keys: tuple
    children: list
    meta: Any


def same(a: Any, b: Any) -> bool:
    """Whether two static values are equal; an answer that raises or is no single bool is a no."""
    if a is b:
        return True
    try:
        return bool(a == b)
    except Exception:  # noqa: BLE001: comparisons of foreign classes may raise anything
        return False


def where(path: str) -> str:
    """A path as errors name it."""
    return path if path else "<root>"


def extend_path(path: str, key: Any) -> str:
    """The path of the child `key` of the node at `path`: `extend_path("layers", 3)` is `layers.3`."""
    return f"{path}.{key}" if path else str(key)


def is_namedtuple(cls: type) -> bool:
    return issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def is_node(value: Any) -> bool:
    """Whether `value` has children: a list, tuple, namedtuple, dict, defaultdict, OrderedDict, or an
    object whose class has `__tree_flatten__`. Other subclasses of these types are leaves."""
    cls = type(value)
    if cls in (list, tuple, dict, defaultdict, OrderedDict):
        return True
    return hasattr(cls, "__tree_flatten__") or is_namedtuple(cls)


def sorted_keys(value: dict, path: str) -> tuple:
    try:
        return tuple(sorted(value))
    except TypeError:
        types = sorted({type(key).__name__ for key in value})
        raise TypeError(
            f"dict keys must be mutually sortable to flatten a dict, but the dict at {where(path)} has keys of the "
            f"types {', '.join(types)}. Use keys of one type, or an OrderedDict, which keeps its own order."
        ) from None


def bounded(walk: Function) -> Function:
    """The walk, which says so when a value is nested more deeply than Python can follow."""

    @functools.wraps(walk)
    def function(*args: Any, **kwargs: Any) -> Any:
        try:
            return walk(*args, **kwargs)
        except RecursionError:
            raise RecursionError(
                f"{walk.__name__}: the value is nested more deeply than Python's recursion limit of "
                f"{sys.getrecursionlimit()} calls lets a walk follow. Nest it less, or raise the limit with "
                "sys.setrecursionlimit."
            ) from None

    return function  # type: ignore[return-value]


def open_node(value: Any, path: str) -> Opened | None:
    """One level of `value`, or None when it has no children. `path` is for errors."""
    cls = type(value)
    if cls is list or cls is tuple:
        return Opened(cls.__name__, (), list(value), None)
    if hasattr(cls, "__tree_flatten__"):
        parts = value.__tree_flatten__()
        if not (isinstance(parts, tuple | list) and len(parts) == 2 and isinstance(parts[0], Iterable)):
            raise TypeError(
                f"{cls.__name__}.__tree_flatten__ must return (children, meta), where the children are a mapping or a "
                f"sequence, but at {where(path)} it returned an object of type "
                f"{type(parts).__name__}."
            )
        children, meta = parts
        if isinstance(children, Mapping):
            return Opened("node", tuple(children), list(children.values()), NodeMeta(cls, meta, True))
        return Opened("node", (), list(children), NodeMeta(cls, meta, False))
    if cls is dict or cls is defaultdict:
        keys = sorted_keys(value, path)
        return Opened("dict", keys, [value[k] for k in keys], DictMeta(cls, getattr(value, "default_factory", None)))
    if cls is OrderedDict:
        return Opened("dict", tuple(value), list(value.values()), DictMeta(cls))
    if is_namedtuple(cls):
        return Opened("namedtuple", (), list(value), cls)
    return None


def key_of(keys: tuple, index: int, kind: str, meta: Any) -> Any:
    if keys:
        return keys[index]
    return meta._fields[index] if kind == "namedtuple" else index


def can_start_empty(value: Any) -> bool:
    """Whether such a node can be made before its children."""
    return isinstance(value, list | dict) or hasattr(type(value), "__tree_empty__")


def _a(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _shown(keys: Any) -> str:
    return f"[{', '.join(map(repr, keys))}]"


class TreeDef:
    """The structure of a nested value. Immutable; equal structures are equal and have equal hashes.

    `kind` is one of `leaf`, `static` (`meta` is the value), `ref` (`meta` is the position, in the order of the walk,
    of the leaf or node that is meant), `list`, `tuple`, `namedtuple` (`meta` is the class), `dict` (`meta` is a
    `DictMeta`) and `node` (a class with `__tree_flatten__`; `meta` is a `NodeMeta`). `children` are the structures
    inside, `keys` their keys in dicts and in nodes that name their children.

    >>> from kiln import tree
    >>> leaves, structure = tree.flatten({"b": [1, 2], "a": 3})
    >>> leaves, structure
    ([3, 1, 2], TreeDef({'a': *, 'b': [*, *]}))
    >>> structure.leaf_paths
    ('a', 'b.0', 'b.1')
    """

    __slots__ = ("_hash", "children", "keys", "kind", "meta", "num_leaves", "size")

    kind: str
    children: tuple["TreeDef", ...]
    keys: tuple[Any, ...]
    meta: Any
    num_leaves: int

    def __init__(self, kind: str, children: Any = (), keys: Any = (), meta: Any = None) -> None:
        children, keys = tuple(children), tuple(keys)
        if kind not in KINDS:
            raise ValueError(f"TreeDef: the kind {kind!r} is unknown; the kinds are {', '.join(KINDS)}.")
        for child in children:
            if not isinstance(child, TreeDef):
                raise TypeError(f"TreeDef: the children must be TreeDefs, but one is of type {type(child).__name__}.")
        if children and kind in ("leaf", "static", "ref"):
            raise ValueError(f"TreeDef: a structure of kind {kind!r} has no children, but {len(children)} were given.")
        keyed = kind == "dict" or (kind == "node" and keys)
        if len(keys) != (len(children) if keyed else 0):
            raise ValueError(f"TreeDef: {len(keys)} keys were given for the {len(children)} children of a {kind}.")
        expected = {"dict": DictMeta, "node": NodeMeta, "ref": int}.get(kind)
        if expected and not isinstance(meta, expected):
            raise TypeError(f"TreeDef: the meta of a {kind} is a {expected.__name__}, not {type(meta).__name__}.")
        if kind == "namedtuple" and not (
            isinstance(meta, type) and is_namedtuple(meta) and len(meta._fields) == len(children)
        ):
            raise TypeError(f"TreeDef: the meta of a namedtuple is its class of {len(children)} fields, not {meta!r}.")
        put = object.__setattr__
        put(self, "kind", kind)
        put(self, "children", children)
        put(self, "keys", keys)
        put(self, "meta", meta)
        put(self, "num_leaves", (kind == "leaf") + sum(child.num_leaves for child in children))
        put(self, "size", 1 + sum(child.size for child in children))
        put(self, "_hash", hash((kind, keys, children)))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"A TreeDef cannot be changed; '{name}' is read-only.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"A TreeDef cannot be changed; '{name}' is read-only.")

    @property
    def child_keys(self) -> tuple[Any, ...]:
        """The key of each child: positions in lists and tuples, field names, keys of dicts."""
        return tuple(key_of(self.keys, i, self.kind, self.meta) for i in range(len(self.children)))

    @property
    def leaf_paths(self) -> tuple[str, ...]:
        """The dotted path of each leaf, in order; empty for a structure that is one leaf."""
        return tuple(self._leaf_paths(""))

    def _leaf_paths(self, path: str) -> Iterator[str]:
        if self.kind == "leaf":
            yield path
        for key, child in zip(self.child_keys, self.children):
            yield from child._leaf_paths(extend_path(path, key))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeDef):
            return NotImplemented
        if self is other:
            return True
        return (
            self._hash == other._hash
            and self.kind == other.kind
            and self.keys == other.keys
            and self._same_meta(other.meta)
            and self.children == other.children
        )

    def _same_meta(self, other: Any) -> bool:
        if self.kind != "node":
            return same(self.meta, other)
        return (
            self.meta.cls is other.cls and self.meta.keyed == other.keyed and same(self.meta.meta, other.meta)
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return TreeDef, (self.kind, self.children, self.keys, self.meta)

    def __repr__(self) -> str:
        return f"TreeDef({self._text()})"

    def _text(self) -> str:
        match self.kind:
            case "leaf":
                return "*"
            case "static":
                return repr(self.meta)
            case "ref":
                return f"@{self.meta}"
        texts = [child._text() for child in self.children]
        match self.kind:
            case "list":
                return f"[{', '.join(texts)}]"
            case "tuple":
                return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"
            case "dict":
                inside = f"{{{', '.join(f'{k!r}: {t}' for k, t in zip(self.keys, texts))}}}"
                return inside if self.meta.cls is dict else f"{self.meta.cls.__name__}({inside})"
        name = self.meta.__name__ if self.kind == "namedtuple" else self.meta.cls.__name__
        return f"{name}({', '.join(f'{k}={t}' for k, t in zip(self.child_keys, texts))})"

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """What `tree` holds at each leaf of this structure, nested values included.

        A part of another structure, or a static value that differs, is a ValueError that says where.
        """
        found: list[Any] = []
        self._match(tree, "", found, [])
        return found

    def _match(self, value: Any, path: str, found: list[Any], met: list[Any]) -> None:
        if self.kind == "ref":
            if met[self.meta] is not value:
                raise ValueError(f"{where(path)}: expected the object of another place again, got another one")
            met.append(value)
            return
        met.append(value)
        if self.kind == "leaf":
            found.append(value)
        elif self.kind == "static":
            if not same(self.meta, value):
                raise ValueError(f"{where(path)}: expected {self.meta!r}, got {value!r}")
        else:
            self._match_node(value, path, found, met)

    def _match_node(self, value: Any, path: str, found: list[Any], met: list[Any]) -> None:
        expected = self.meta.cls if self.kind in ("dict", "node") else self.meta if self.kind == "namedtuple" else None
        name = expected.__name__ if expected else self.kind
        opened = open_node(value, path) if is_node(value) else None
        if opened is None or opened.kind != self.kind or (expected and type(value) is not expected):
            raise ValueError(f"{where(path)}: expected {_a(name)}, got {type(value).__name__}")
        keys = self.child_keys
        inside = {key_of(opened.keys, i, opened.kind, opened.meta): child for i, child in enumerate(opened.children)}
        if len(keys) != len(inside) or not all(key in inside for key in keys):
            raise ValueError(f"{where(path)}: expected keys {_shown(keys)}, got {_shown(inside)}")
        if self.kind == "node" and not self._same_meta(opened.meta):
            raise ValueError(f"{where(path)}: expected {self.meta.meta!r}, got {opened.meta.meta!r}")
        for key, child in zip(keys, self.children):
            child._match(inside[key], extend_path(path, key), found, met)
