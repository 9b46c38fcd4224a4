"""Functions of cond and while_loop that store, read what they store, and ask for values. Expected values are those of
the same program with Python's own `if` over NumPy."""

import numpy as np
import pytest

from kiln.driver import CPU
from kiln.dtype import DType
from kiln.experimental import functional as F
from kiln.experimental.compilation import compile
from kiln.experimental.sharding import BufferLayout, DeviceMapping, DeviceMesh, Replicated, Sharded, TensorLayout
from kiln.experimental.tensor import Tensor
from kiln.graph import DeviceRef, TensorType

pytestmark = pytest.mark.experimental
F32, BOOL = DType.float32, DType.bool
VECTOR = [TensorType(F32, [3], DeviceRef.CPU())]


def flag(value):
    return Tensor(np.array(value))


def eager(function, *arguments):
    return function(*arguments)


def lazily(function, *arguments):
    with F.lazy():
        return function(*arguments)


def as_one_graph(function, *arguments):
    return F.functional(function)(*arguments)


def compiled(function, *arguments):
    layouts = [
        TensorLayout(BOOL, [], CPU()) if argument.dtype == BOOL else BufferLayout(F32, list(argument.shape), CPU())
        for argument in arguments
    ]
    return compile(function)(*layouts)(*arguments)


MODES = pytest.mark.parametrize("mode", [eager, lazily, as_one_graph, compiled])


def put(t, index, value):
    t[index] = Tensor(value) if isinstance(t, Tensor) and isinstance(value, float) else value


def set_first(t, value):
    put(t, 0, value)


# A function of a flag and a tensor that it may write, and the same of arrays: (result, tensor afterwards).
PROGRAMS = {
    "one branch stores": (
        lambda p, t: (F.cond(p, None, lambda: set_first(t, 5.0), lambda: None), t + 1)[1],
        lambda p, t: set_first(t, 5) if p else None,
        lambda t: t + 1,
    ),
    "both branches store": (
        lambda p, t: (F.cond(p, None, lambda: set_first(t, 5.0), lambda: put(t, 1, 7.0)), t + 1)[1],
        lambda p, t: set_first(t, 5) if p else t.__setitem__(1, 7),
        lambda t: t + 1,
    ),
    "a store of what was read in the branch": (
        lambda p, t: (F.cond(p, None, lambda: t.__setitem__(..., t * 2), lambda: F.buffer_store(t, t - 1)), t)[1],
        lambda p, t: t.__setitem__(..., t * 2) if p else t.__setitem__(..., t - 1),
        lambda t: t,
    ),
    "read before, stored in the branch": (
        lambda p, t: (lambda y: (F.cond(p, None, lambda: set_first(t, y[1] * 10), lambda: None), y + t)[1])(t * 3),
        lambda p, t: set_first(t, t[1] * 30) if p else None,
        None,
    ),
    "two in a row": (
        lambda p, t: (
            F.cond(p, None, lambda: set_first(t, t[0] + 1), lambda: None),
            F.cond(t[0] > 1.5, None, lambda: put(t, 2, 9.0), lambda: put(t, 2, -9.0)),
            t * 1,
        )[2],
        lambda p, t: (set_first(t, t[0] + 1) if p else None, t.__setitem__(2, 9 if t[0] > 1.5 else -9)),
        lambda t: t,
    ),
    "one inside the other": (
        lambda p, t: (
            F.cond(
                p,
                None,
                lambda: F.cond(t[1] > 0, None, lambda: set_first(t, t[2] * 4), lambda: set_first(t, 1.0)) and None,
                lambda: None,
            ),
            t + 0,
        )[1],
        lambda p, t: set_first(t, t[2] * 4 if t[1] > 0 else 1) if p else None,
        lambda t: t,
    ),
}


@MODES
@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("name", PROGRAMS)
def test_only_one_branch_stores(name, value, mode):
    function, effect, result = PROGRAMS[name]
    start = np.array([1, 2, 3], np.float32)
    expected = start.copy()
    effect(value, expected)
    t = Tensor(start.copy())
    got = mode(function, flag(value), t)
    wanted = result(expected) if result else start * 3 + expected
    np.testing.assert_array_equal(got.to_numpy(), wanted)
    np.testing.assert_array_equal(t.to_numpy(), expected)


@MODES
@pytest.mark.parametrize("value", [True, False])
def test_a_branch_writes_its_own_predicate(value, mode):
    def function(p, t):
        mine = p & flag(True)
        return F.cond(mine, VECTOR, lambda: (F.buffer_store(mine, flag(False)), t * 2)[1], lambda: t + 1)[0]

    t = Tensor([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(mode(function, flag(value), t).to_numpy(), [2, 4, 6] if value else [2, 3, 4])


@pytest.mark.parametrize("mode", [eager, lazily, as_one_graph])
def test_loops_refuse_stores(mode):
    t = Tensor.zeros([3])

    def function(n):
        return F.while_loop([n], lambda k: k > 0, lambda k: (F.buffer_store(t, Tensor([1.0, 2, 3])), k - 1)[1])[0]

    with pytest.raises(NotImplementedError):
        mode(function, Tensor(np.array(0))).to_numpy()
    np.testing.assert_array_equal(t.to_numpy(), [0, 0, 0])


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("placement", [Sharded(0), Replicated()])
def test_branches_store_to_a_mesh(placement, value):
    mapping = DeviceMapping(DeviceMesh([CPU()] * 2, (2,), ("x",)), [placement])
    t = Tensor.zeros([4, 3]).to(mapping)
    F.cond(
        flag(value), None, lambda: t.__setitem__(0, Tensor.ones([3])), lambda: t.__setitem__(3, Tensor.ones([3]) * 2)
    )
    expected = np.zeros((4, 3), np.float32)
    expected[0 if value else 3] = 1 if value else 2
    np.testing.assert_array_equal(t.to_numpy(), expected)


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: x.sum(axis=None).item(),
        lambda x: (x * 2).to_numpy(),
        lambda x: x[0].to_numpy(),
        lambda x: bool(x[0] > 0),
        lambda x: np.from_dlpack(x * 2),
        lambda x: (x * 2).materialize(),
        lambda x: F.uniform([2]).to_numpy(),
    ],
)
def test_no_value_while_a_branch_is_recorded(ask):
    x = Tensor.ones([3])
    with pytest.raises(TypeError, match="the value of a tensor that a function of cond or while_loop computes"):
        F.cond(flag(True), VECTOR, lambda: (ask(x), x * 2)[1], lambda: x)
    np.testing.assert_array_equal((x + 1).to_numpy(), [2, 2, 2])


def test_a_tensor_that_left_its_branch():
    kept = []
    x = Tensor.ones([3])
    F.cond(flag(True), VECTOR, lambda: (kept.append(x * 3), x * 2)[1], lambda: x)
    with pytest.raises(TypeError, match="a function of cond or while_loop computes"):
        _ = kept[0] + 1
