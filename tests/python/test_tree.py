import copy
import dataclasses
import pickle
from collections import Counter, OrderedDict, defaultdict, namedtuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiln import tree
from kiln.tree import TreeDef

Point = namedtuple("Point", "x y")


class Pair:
    """A node that gives a sequence of children and is rebuilt with them."""

    def __init__(self, left, right, name="pair"):
        self.left, self.right, self.name = left, right, name

    def __tree_flatten__(self):
        return (self.left, self.right), self.name

    @classmethod
    def __tree_unflatten__(cls, meta, children):
        return cls(*children, name=meta)

    def __eq__(self, other):
        return isinstance(other, Pair) and (self.left, self.right, self.name) == (other.left, other.right, other.name)


class Box:
    """A node that names its children and is made empty."""

    def __tree_flatten__(self):
        return dict(vars(self)), None

    @classmethod
    def __tree_empty__(cls, meta):
        return cls()


@tree.dataclass
class Linear:
    weight: object
    bias: object = None


def nested(inner):
    named = st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, max_size=3)
    few, two = st.lists(inner, max_size=3), st.tuples(inner, inner)
    return st.one_of(
        few, named, few.map(tuple), named.map(OrderedDict), two.map(lambda t: Point(*t)), two.map(lambda t: Pair(*t)),
        two.map(lambda t: Linear(*t)),
    )


simple = st.integers() | st.text(max_size=3) | st.floats(allow_nan=False) | st.none()
values = st.deferred(lambda: st.recursive(simple, nested, max_leaves=12))


def count(value):
    """The leaves of a value, by another way through it."""
    if isinstance(value, dict):
        return sum(count(v) for v in value.values())
    if isinstance(value, list | tuple):
        return sum(count(v) for v in value)
    if isinstance(value, Pair):
        return count(value.left) + count(value.right)
    if isinstance(value, Linear):
        return sum(count(v) for v in (value.weight, value.bias) if v is not None)
    return 1


# Laws


@given(values)
def test_unflatten_undoes_flatten(value):
    leaves, structure = tree.flatten(value)
    assert len(leaves) == structure.num_leaves == len(structure.leaf_paths) == count(value)
    again = tree.unflatten(structure, leaves)
    assert again == value and type(again) is type(value)
    assert tree.flatten(again)[1] == structure and hash(tree.flatten(again)[1]) == hash(structure)
    assert structure.flatten_up_to(value) == leaves


@given(values)
def test_map_keeps_the_structure(value):
    assert tree.map(lambda x: x, value) == value
    counted = iter(range(10**6))
    numbered = tree.map(lambda x: next(counted), value)
    assert tree.leaves(numbered) == list(range(count(value)))
    pairs = tree.map(lambda x, y: (x, y), value, numbered)
    is_pair = lambda v: type(v) is tuple and len(v) == 2 and type(v[1]) is int  # noqa: E731
    assert tree.leaves(pairs, leaf=is_pair) == list(zip(tree.leaves(value), range(count(value))))


@given(values)
def test_structures_travel(value):
    structure = tree.flatten(value)[1]
    assert pickle.loads(pickle.dumps(structure)) == structure
    assert copy.deepcopy(structure) == structure


@given(values, st.integers(0, 11))
def test_the_number_of_leaves_is_checked(value, given_leaves):
    structure = tree.flatten(value)[1]
    n = structure.num_leaves
    if given_leaves < n:
        with pytest.raises(ValueError, match=f"ran out of leaves: the structure has {n} leaf slots."):
            tree.unflatten(structure, range(given_leaves))
    elif given_leaves > n:
        with pytest.raises(ValueError, match=f"too many leaves: the structure has {n} leaf slots"):
            tree.unflatten(structure, range(given_leaves))
        tree.unflatten(structure, range(given_leaves), exact=False)


@given(values)
def test_update_writes_what_paths_reads(value):
    value = [value]
    try:
        named = tree.paths(value)
    except ValueError as error:
        assert "two leaves share a path" in str(error)
        return
    writable = {}
    for path in named:
        try:
            tree.update(value, {path: path})
            writable[path] = path
        except ValueError as error:
            assert "lie in no list or dict and are no attributes" in str(error)
    found = tree.paths(value)
    assert found == {path: writable.get(path, leaf) for path, leaf in named.items()}


# The order of children, static values, kinds


def test_order_and_paths():
    value = {"b": [1, (2, 3)], "a": Point(4, OrderedDict(z=5, c=6)), "l": Linear(7), "p": Pair(8, 9)}
    assert tree.paths(value) == {
        "a.x": 4, "a.y.z": 5, "a.y.c": 6, "b.0": 1, "b.1.0": 2, "b.1.1": 3, "l.weight": 7, "p.0": 8, "p.1": 9,
    }
    assert list(tree.paths(value)) == list(tree.flatten(value)[1].leaf_paths)
    assert tree.paths(5) == {"": 5}


def test_leaves_by_type_leave_others_static():
    value = {"x": np.ones(2), "gain": 3.0, "names": ["a", np.zeros(1)]}
    leaves, structure = tree.flatten(value, leaf=np.ndarray)
    assert [leaf.shape for leaf in leaves] == [(1,), (2,)]
    assert repr(structure) == "TreeDef({'gain': 3.0, 'names': ['a', *], 'x': *})"
    assert tree.unflatten(structure, ["p", "q"]) == {"gain": 3.0, "names": ["a", "p"], "x": "q"}
    assert tree.leaves([1, "a", 2.0, (3,)], leaf=(int, tuple)) == [1, (3,)]
    assert tree.leaves([[1], [2, 3]], leaf=lambda v: v == [1]) == [[1]]
    with pytest.raises(TypeError, match="leaf must be a type, a tuple of types or a predicate, but holds 3."):
        tree.leaves([], leaf=3)


def test_default_dicts_keep_their_factory():
    value = defaultdict(list, b=1, a=2)
    leaves, structure = tree.flatten(value)
    made = tree.unflatten(structure, leaves)
    assert leaves == [2, 1] and type(made) is defaultdict and made["new"] == []


def test_subclasses_of_containers_are_leaves():
    assert tree.leaves([Counter("ab")]) == [Counter("ab")]
    assert not tree.is_node(Counter()) and not tree.is_node("text") and not tree.is_node(np.ones(3))
    assert all(tree.is_node(v) for v in ([], (), {}, Point(1, 2), OrderedDict(), defaultdict(int), Pair(1, 2), Box()))


def test_dataclasses():
    @tree.dataclass(frozen=True)
    class Cache:
        blocks: object
        scale: object = None

    value = Cache([1, 2])
    leaves, structure = tree.flatten(value)
    assert leaves == [1, 2] and structure.leaf_paths == ("blocks.0", "blocks.1")
    assert tree.unflatten(structure, [3, 4]) == Cache([3, 4])
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.scale = 1
    with pytest.raises(ValueError, match=r"^<root>: expected keys \['blocks'\], got \['blocks', 'scale'\]$"):
        structure.flatten_up_to(Cache([1, 2], 3))


def test_helpers():
    assert tree.extend_path("", 3) == "3" and tree.extend_path("a.b", "c") == "a.b.c"
    assert tree.flatten_one_level({"b": [1], "a": 2})[0] == {"a": 2, "b": [1]}
    assert tree.flatten_one_level(Pair(1, 2))[0] == {0: 1, 1: 2}
    with pytest.raises(TypeError, match="^float is not a tree node.$"):
        tree.flatten_one_level(2.0)
    assert tree.as_predicate(None) is None and tree.as_predicate(int)(3) and not tree.as_predicate((int, str))(2.0)
    inner = Linear(1)
    outer = Linear(inner, [inner, Linear(2)])
    assert tree.nodes(outer, Linear) == [outer, inner, outer.bias[1]]


# Shared values and cycles


def test_shared_values():
    leaf, part = object(), [1.5]
    value = {"a": leaf, "b": [leaf, part], "c": part}
    leaves, structure = tree.flatten(value, shared=True)
    assert leaves == [leaf, 1.5]
    made = tree.unflatten(structure, ["x", "y"])
    assert made == {"a": "x", "b": ["x", ["y"]], "c": ["y"]}
    assert made["b"][1] is made["c"]
    assert structure.flatten_up_to(value) == leaves
    with pytest.raises(ValueError, match="^b.0: expected the object of another place again"):
        structure.flatten_up_to({"a": leaf, "b": [object(), part], "c": part})


def test_cycles():
    ring = [1]
    ring.append({"back": ring})
    with pytest.raises(ValueError, match="^cycle at 1.back: the value contains itself, "):
        tree.flatten(ring)
    leaves, structure = tree.flatten(ring, shared=True)
    made = tree.unflatten(structure, [2])
    assert leaves == [1] and made[0] == 2 and made[1]["back"] is made

    box = Box()
    box.me, box.items = box, (box, 3)
    leaves, structure = tree.flatten(box, shared=True)
    made = tree.unflatten(structure, [4])
    assert leaves == [3] and made.me is made and made.items == (made, 4)

    pair = Pair(1, 2)
    pair.left = [pair]
    with pytest.raises(ValueError, match="^cycle at 0.0: .* Give Pair a __tree_empty__"):
        tree.flatten(pair, shared=True)

    inner = []
    through = (inner,)
    inner.append(through)
    made = tree.unflatten(tree.flatten(through, shared=True)[1], [])
    assert made[0][0][0] is made[0]


# Errors


@pytest.mark.parametrize(("expected", "got", "text"), [
    ([1, 2], (1, 2), "<root>: expected a list, got tuple"),
    ([1, [2]], [1, {"a": 2}], "1: expected a list, got dict"),
    ([1, [2]], [1, 5], "1: expected a list, got int"),
    ({"a": 1, "b": [1]}, {"a": 1, "c": [1]}, "<root>: expected keys ['a', 'b'], got ['a', 'c']"),
    ({"a": [1, 2]}, {"a": [1]}, "a: expected keys [0, 1], got [0]"),
    ({"a": 1}, OrderedDict(a=1), "<root>: expected a dict, got OrderedDict"),
    (OrderedDict(a=1), {"a": 1}, "<root>: expected an OrderedDict, got dict"),
    ([Point(1, 2)], [(1, 2)], "0: expected a Point, got tuple"),
    ([Pair(1, 2)], [Linear(1, 2)], "0: expected a Pair, got Linear"),
    ([Pair(1, 2, "a")], [Pair(1, 2, "b")], "0: expected 'a', got 'b'"),
])
def test_mismatches(expected, got, text):
    structure = tree.flatten(expected)[1]
    with pytest.raises(ValueError) as error:
        structure.flatten_up_to(got)
    assert str(error.value) == text
    with pytest.raises(ValueError) as error:
        tree.map(lambda *x: x, expected, expected, got)
    assert str(error.value) == (
        f"tree structure mismatch: tree argument 3 does not match the structure of tree argument 1, at {text}"
    )


def test_static_values_are_compared():
    structure = tree.flatten(["x", 3.0, np.ones(2)], leaf=str)[1]
    assert structure.flatten_up_to(["y", 3.0, structure.children[2].meta]) == ["y"]
    with pytest.raises(ValueError, match=r"^1: expected 3\.0, got 4\.0$"):
        structure.flatten_up_to(["y", 4.0, structure.children[2].meta])
    with pytest.raises(ValueError, match=r"^2: expected array"):  # == of arrays is no single bool
        structure.flatten_up_to(["y", 3.0, np.ones(2)])

    class Touchy:
        def __eq__(self, other):
            raise RuntimeError("no")

        __hash__ = None

    structure = tree.flatten([Touchy()], leaf=str)[1]
    with pytest.raises(ValueError, match="^0: expected"):
        structure.flatten_up_to([Touchy()])


def test_keys_that_cannot_be_sorted():
    with pytest.raises(TypeError, match="^dict keys must be mutually sortable to flatten a dict, but the dict at 0.a "
                                        "has keys of the types int, str"):
        tree.flatten([{"a": {1: 2, "b": 3}}])


def test_paths_that_meet():
    with pytest.raises(ValueError, match=r"^two leaves share a path, so it names neither: a\.b\."):
        tree.paths({"a": {"b": 1}, "a.b": 2})


def test_update_refuses_before_it_writes():
    value = {"a": 1, "b": (2, 3)}
    with pytest.raises(ValueError, match=r"^update: no leaf at \['c'\], so these values were not written\. The leaves"):
        tree.update(value, {"a": 5, "c": 6})
    with pytest.raises(ValueError, match=r"^update: the leaves at \['b\.1'\] lie in no list or dict"):
        tree.update(value, {"a": 5, "b.1": 6})
    assert value == {"a": 1, "b": (2, 3)}
    linear = Linear([1, 2])
    tree.update(linear, {"weight.1": 7})
    tree.update([linear], {"0.weight.0": 6})
    assert linear.weight == [6, 7]


def test_update_replaces_frozen_dataclasses():
    @tree.dataclass(frozen=True)
    class Scale:
        gain: float
        more: object = None

        def __post_init__(self):
            made.append(self)

    @dataclasses.dataclass(frozen=True)
    class Bare:  # a node by its own method
        gain: float
        doubled: float = dataclasses.field(init=False, default=0.0)

        def __tree_flatten__(self):
            return {"gain": self.gain, "doubled": self.doubled}, None

    made = []
    inner, bare = Scale(1.0), Bare(2.0)
    outer = Scale(3.0, [inner, bare])
    value = {"a": outer, "b": inner}
    made.clear()
    tree.update(value, {"a.gain": 4.0, "a.more.0.gain": 5.0, "a.more.1.gain": 6.0})
    assert value["a"] == Scale(4.0, [Scale(5.0), Bare(6.0)]) and value["b"] is inner
    assert (inner.gain, bare.gain, outer.gain) == (1.0, 2.0, 3.0)
    held = Scale(1.0, Scale(2.0, Scale(3.0)))
    value, made[:] = [held], []
    tree.update(value, {"0.gain": 4.0, "0.more.gain": 5.0, "0.more.more.gain": 6.0})
    assert value == [Scale(4.0, Scale(5.0, Scale(6.0)))]
    assert held == Scale(1.0, Scale(2.0, Scale(3.0)))
    # A list in a frozen class is written in place; what nothing can hold anew is refused before a write.
    held = Scale(1.0, [2.0])
    tree.update(held, {"more.0": 3.0})
    assert held == Scale(1.0, [3.0])
    for fixed, path in ((held, "gain"), ((held,), "0.gain"), ([bare], "0.doubled")):
        with pytest.raises(ValueError, match="lie in no list or dict and are no attributes that can be set"):
            tree.update(fixed, {path: 7.0})
    assert held == Scale(1.0, [3.0]) and bare == Bare(2.0)


def test_classes_without_a_way_back():
    class OneWay:
        def __tree_flatten__(self):
            return [1], None

    leaves, structure = tree.flatten(OneWay())
    with pytest.raises(TypeError, match="^OneWay has __tree_flatten__ but neither __tree_unflatten__ nor"):
        tree.unflatten(structure, leaves)


@pytest.mark.parametrize("parts", [3, (1, 2, 3), (5, None), "ab"])
def test_a_node_gives_children_and_meta(parts):
    class Odd:
        def __tree_flatten__(self):
            return parts

    text = f"^Odd.__tree_flatten__ must return .* but at x it returned an object of type {type(parts).__name__}.$"
    with pytest.raises(TypeError, match=text):
        tree.flatten({"x": Odd()})


def test_deep_values():
    deep = []
    for _ in range(20_000):
        deep = [deep]
    for walk in (tree.flatten, lambda value: tree.update(value, {}), lambda value: tree.nodes(value, int)):
        with pytest.raises(RecursionError, match="(flatten|update|nodes): the value is nested more deeply than Python"):
            walk(deep)


def test_structures_are_values():
    leaf = TreeDef("leaf")
    assert TreeDef("list", [leaf, leaf]) == tree.flatten([1, 2])[1]
    assert TreeDef("dict", [leaf], ["a"], tree.DictMeta(dict)) == tree.flatten({"a": 1})[1]
    assert tree.flatten([1])[1] != tree.flatten((1,))[1] and tree.flatten([1])[1] != 5
    assert len({tree.flatten(v, leaf=str)[1] for v in ([3.0], [4.0])}) == 2  # equal hashes, unequal values
    assert hash(tree.flatten([3.0], leaf=str)[1]) == hash(tree.flatten([4.0], leaf=str)[1])
    assert tree.flatten({"a": (1, Point(2, 3))})[1].child_keys == ("a",)
    with pytest.raises(AttributeError, match="'kind' is read-only"):
        leaf.kind = "static"
    for arguments, kind, text in [
        (("set",), ValueError, "the kind 'set' is unknown"),
        (("list", [3]), TypeError, "the children must be TreeDefs, but one is of type int"),
        (("leaf", [leaf]), ValueError, "a structure of kind 'leaf' has no children"),
        (("dict", [leaf], []), ValueError, "0 keys were given for the 1 children of a dict"),
        (("list", [leaf], ["a"]), ValueError, "1 keys were given for the 1 children of a list"),
        (("dict", [leaf], ["a"]), TypeError, "the meta of a dict is a DictMeta, not NoneType"),
        (("namedtuple", [leaf], (), Point), TypeError, "the meta of a namedtuple is its class of 1 fields"),
    ]:
        with pytest.raises(kind, match=text):
            TreeDef(*arguments)
