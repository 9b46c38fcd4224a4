"""Tensors: the same results at once, lazily, in one graph a function, and compiled. NumPy gives what is expected."""

import asyncio
import copy
import inspect
import operator
import re
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kiln.driver import CPU, Buffer, DeviceQueue
from kiln.dtype import DType
from kiln.engine import InferenceSession
from kiln.experimental import functional as F
from kiln.experimental.tensor import Tensor, default_device, default_dtype, defaults, defaults_like
from kiln.graph import DeviceRef, Graph, TensorType, ops

pytestmark = pytest.mark.experimental
F32 = DType.float32
X = np.linspace(-2, 3, 12, dtype=np.float32).reshape(3, 4)
Y = np.linspace(0.5, 2, 12, dtype=np.float32).reshape(3, 4)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# One function of tensors and the same of arrays.
CASES = {
    "add": (lambda x, y: x + y, None),
    "numbers on both sides": (lambda x, y: 2 - x * 3 + y / 4 - 1.5, None),
    "floor and remainder": (lambda x, y: x // y + x % y, None),
    "power": (lambda x, y: y**2 + y**0.5, None),
    "comparison": (lambda x, y: (x > y) | (x <= -1) & (x != 0), None),
    "negative": (lambda x, y: -x + abs(y), None),
    "product": (lambda x, y: x @ y.T, None),
    "softmax": (lambda x, y: F.softmax(x * y), lambda x, y: softmax(x * y)),
    "where": (lambda x, y: F.where(x > 0, x, y), lambda x, y: np.where(x > 0, x, y)),
    "reductions": (lambda x, y: x.sum(0) - y.max(0), lambda x, y: x.sum(0, keepdims=True) - y.max(0, keepdims=True)),
    "all elements": (lambda x, y: x.mean(None) * y.prod(None), lambda x, y: np.array([x.mean() * y.prod()])),
    "clip": (lambda x, y: x.clip(min=-1, max=1.5) + y.clip(max=1), lambda x, y: x.clip(-1, 1.5) + y.clip(None, 1)),
    "shapes": (lambda x, y: x.reshape([2, 6]).T.unsqueeze(0), lambda x, y: x.reshape(2, 6).T[None]),
    "index": (lambda x, y: x[1:, ::2] + y[0, 1], None),
    "concat": (lambda x, y: F.concat([x, y, x], 1), lambda x, y: np.concatenate([x, y, x], 1)),
    "split": (lambda x, y: F.concat(x.split(3, axis=1)[::-1], 1), lambda x, y: np.concatenate([x[:, 3:], x[:, :3]], 1)),
    "cast": (lambda x, y: x.cast(DType.int32).cast(F32), lambda x, y: x.astype(np.int32)),
    "norm": (
        lambda x, y: F.layer_norm(x, y[0], y[1], 1e-5),
        lambda x, y: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * y[0] + y[1],
    ),
    "cond": (
        lambda x, y: F.cond(x[0, 0] < 0, [x.type], lambda: x * 2, lambda: y)[0],
        lambda x, y: x * 2,
    ),
    "loop": (
        lambda x, y: F.while_loop([x, F.constant(0, DType.int32)], lambda a, i: i < 3, lambda a, i: (a + y, i + 1))[0],
        lambda x, y: x + 3 * y,
    ),
}


def lazily(function):
    def run(*args):
        with F.lazy():
            result = function(*args)
            assert not result.real
        return result

    return run


def compiled(function):
    def run(*args):
        graph = Graph("g", lambda *v: function(*map(Tensor.from_graph_value, v)), [x.type for x in args])
        return Tensor(InferenceSession().load(graph).execute(*(x.driver_tensor for x in args))[0])

    return run


MODES = {"eager": lambda f: f, "lazy": lazily, "functional": F.functional, "compiled": compiled}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES)
def test_functions(case, mode):
    function, reference = CASES[case]
    reference = reference or function
    run = MODES[mode](function)
    for x, y in ((X, Y), (X + 1, Y * 2), (X, Y)):
        got = run(Tensor(x), Tensor(y)).to_numpy()
        want = reference(x.astype(np.float64), y.astype(np.float64))
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)


OPERATORS = [operator.add, operator.sub, operator.mul, np.maximum, np.minimum]
TENSOR_OPERATORS = {np.maximum: F.max, np.minimum: F.min}


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 9), st.one_of(st.integers(0, 9), st.floats(-3, 3, width=16))),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(sorted(MODES)),
)
@settings(max_examples=60, deadline=None)
def test_random_programs(steps, mode):
    def program(values, table):
        values = list(values)
        for op, left, right in steps:
            # A small int names an earlier value, a float is a number.
            other = values[right % len(values)] if isinstance(right, int) else right
            function = OPERATORS[op]
            values.append(table.get(function, function)(values[left % len(values)], other))
        return values[-1]

    got = MODES[mode](lambda x, y: program((x, y), TENSOR_OPERATORS))(Tensor(X), Tensor(Y)).to_numpy()
    want = program((X.astype(np.float64), Y.astype(np.float64)), {})
    scale = max(1, np.abs(want).max())
    np.testing.assert_allclose(got / scale, want / scale, atol=1e-5)


def test_every_op_is_a_function_of_tensors():
    hidden = {"buffer_create", "buffer_load", "call"}
    hidden |= {name for name in ops.__all__ if inspect.ismodule(getattr(ops, name))}
    assert {name for name in ops.__all__ if name not in hidden} <= set(F.__all__)
    for name in F.__all__:
        assert callable(getattr(F, name)), name


def test_numpy_takes_tensors():
    x = Tensor([[1, 2], [3, 4]])
    array = np.asarray(x)
    assert array.dtype == np.float32 and array.tolist() == [[1, 2], [3, 4]]
    assert np.asarray(x, dtype=np.int64).dtype == np.int64
    assert np.array(x).ctypes.data != array.ctypes.data == x.driver_tensor.to_numpy().ctypes.data


def test_many_results():
    x = Tensor(np.arange(300, dtype=np.float32))
    for _ in range(2):
        assert [part.item() for part in F.split(x, 1)] == list(range(300))


def test_a_number_may_change_where_it_stands_for_a_tensor():
    x = Tensor([1, 2, 3])
    for number in (0, 1, 2.5, -1, np.inf):
        assert (x * number + number).to_numpy().tolist() == [number * v + number for v in (1, 2, 3)]
    for exponent in (0, 1, 2, 3):
        assert (x**exponent).to_numpy().tolist() == [v**exponent for v in (1, 2, 3)]
    for axis in (0, 0, -1):
        assert F.sum(x, axis).to_numpy().tolist() == [6]
    # One object for both bounds, and for a bound and an axis.
    assert F.clip(x, 2, 2).to_numpy().tolist() == [2, 2, 2]
    assert F.clip(x, 2, 3).to_numpy().tolist() == [2, 2, 3]
    assert F.clip(x, 1, 2).to_numpy().tolist() == [1, 2, 2]


@pytest.mark.parametrize("number", [200, -129, 0.5, 2**70])
def test_a_number_that_the_dtype_does_not_hold(number):
    x = Tensor([1, 2], dtype=DType.int8)
    for _ in range(2):
        assert (x + 100).to_numpy().tolist() == [101, 102]
        with pytest.raises(ValueError, match="Unsafe cast"):
            x + number


def test_arrays_are_weak_operands():
    x = Tensor([1, 2])
    assert (x + np.array([1.0, 2.0])).dtype == F32
    assert (np.array([1, 2]) * x).to_numpy().tolist() == [1, 4]
    with pytest.raises(TypeError):
        x + "a"


def test_parts_are_read_and_stored_as_numpy_does():
    x, a = Tensor(X.copy()), X.copy()
    shared = Buffer.from_dlpack(x)
    for key, value in (((1, slice(0, 2)), [7, 8]), ((slice(None), 3), [1, 2, 3]), (0, [5, 5, 5, 5]), (..., X + 1),
                       ((slice(0, 3, 2),), X[:2])):
        x[key] = Tensor(np.asarray(value, np.float32))
        a[key] = value
        assert np.array_equal(x.to_numpy(), a)
        assert np.array_equal(shared.to_numpy(), a)
    assert np.array_equal(x[-1, ::-1].to_numpy(), a[-1, ::-1])
    with pytest.raises(TypeError, match=re.escape("__setitem__ requires a Tensor value; use Buffer indexing")):
        x[0] = 1


def test_a_store_of_a_part_of_the_same_memory():
    for _ in range(2):
        array = np.arange(6, dtype=np.float32)
        Tensor(array)[1:5] = Tensor(array[:4])
        assert array.tolist() == [0, 0, 1, 2, 3, 5]


def test_strided_memory_is_written_in_place():
    array = np.zeros((4, 6), np.float32)
    part = Tensor.from_dlpack(Buffer.from_numpy(array)[::2, 1::2])
    for _ in range(2):
        part[1] = Tensor([1, 2, 3])
    assert (part * 2).to_numpy().tolist() == [[0, 0, 0], [2, 4, 6]]
    want = np.zeros((4, 6))
    want[2, 1::2] = [1, 2, 3]
    assert np.array_equal(array, want)


def test_a_store_between_lazy_values():
    x = Tensor([1, 2])
    with F.lazy():
        before = x * 10
        x[0] = Tensor(7)
        after = x * 10
    x[1] = Tensor(9)
    assert before.to_numpy().tolist() == [10, 20]
    assert after.to_numpy().tolist() == [70, 20]
    assert x.to_numpy().tolist() == [7, 9]


def test_realize_is_awaited():
    async def run():
        with F.lazy():
            x = Tensor([1, 2]) * 2
            assert not x.real
            same = await x.realize
            assert x.real
        return same is x

    assert asyncio.run(run())


def test_stores_in_a_function_of_one_graph():
    @F.functional
    def step(state, x):
        before = state + 0
        state[0] = x[1]
        state[1] = (state * 2)[0]
        return before, state + x

    state, x = Tensor([1, 2]), Tensor([10, 20])
    for _ in range(2):
        old = state.to_numpy().tolist()
        before, total = step(state, x)
        assert before.to_numpy().tolist() == old
        assert state.to_numpy().tolist() == [20, 40]
        assert total.to_numpy().tolist() == [30, 60]


def test_functions_of_one_graph_inside_of_each_other():
    inner = F.functional(lambda state: state * 2)

    @F.functional
    def outer(state, x):
        state[0] = x[1]
        return inner(state)

    state = Tensor([1, 2])
    assert outer(state, Tensor([10, 20])).to_numpy().tolist() == [40, 4]


def test_a_function_of_one_graph_sees_its_stores_and_makes_each_once():
    values = []

    @F.functional
    def step(state):
        before = state * 10
        state[...] = state + 1
        values.extend([before, state * 2])
        return state.item(), before.item(), values[-1].item()

    state = Tensor([1])
    for i in (1, 2):
        assert step(state) == (i + 1, 10 * i, 2 * (i + 1))
        assert state.item() == i + 1
    assert [value.item() for value in values] == [10, 4, 20, 6]


def test_in_a_graph_a_tensor_becomes_a_buffer_when_it_is_written():
    real = Tensor([1, 2])

    def forward(x):
        t = Tensor.from_graph_value(x) * 2
        assert F.in_graph_context()
        t[0] = Tensor.from_graph_value(x)[1]
        with pytest.raises(TypeError, match=r"item\(\) asks for the value of a tensor of graph 'g'"):
            t.item()
        with pytest.raises(TypeError, match="cannot be written while a graph is built"):
            real[0] = t[0]
        return t

    model = InferenceSession().load(Graph("g", forward, [TensorType(F32, [2], CPU())]))
    assert model.execute(np.array([1, 2], np.float32))[0].to_numpy().tolist() == [2, 4]
    assert not F.in_graph_context()


def test_the_types_that_differ_are_told_apart():
    for dtype in (F32, DType.int32, DType.float64, DType.int8, DType.uint64):
        for shape in ([2], [1, 2], [2, 1], []):
            x = Tensor.full(shape, 3, dtype=dtype)
            y = x + x
            assert (y.dtype, y.shape) == (dtype, shape)
            assert np.all(y.to_numpy() == 6)


def test_the_same_tensor_is_kept_where_nothing_changes():
    x = Tensor([1, 2])
    for _ in range(2):
        assert hash(x.cast(F32)) == hash(x)
        assert hash(x.to(CPU())) == hash(x)
    assert copy.deepcopy(x) is x
    assert hash(Tensor.from_dlpack(x)) == hash(x)


def test_what_it_is():
    x = Tensor([[1, 2], [3, 4]])
    assert (x.shape, x.rank, x.dtype, x.device, x.real, x.num_elements()) == ([2, 2], 2, F32, CPU(), True, 4)
    assert x.type == TensorType(F32, [2, 2], DeviceRef.CPU())
    assert x.external_name is None
    assert repr(x.layout).startswith("TensorLayout(DType.float32, [2, 2], DeviceMapping(")
    assert x[0, 0].item() == 1.0 and bool(x[0, 0]) and not Tensor(0)
    with F.lazy():
        y = x + 1
        with pytest.raises(TypeError, match="^Can't get driver tensor for symbolic tensor$"):
            _ = y.driver_tensor
        assert repr(y) == "Tensor(<unrealized>, shape=[2, 2], dtype=DType.float32, device=Device(type=cpu,id=0))"
        assert y.shape == [2, 2] and y.dtype == F32
    for call in (x.item, lambda: bool(x), lambda: iter(x), lambda: 1 in x, lambda: x.to("cpu")):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(TypeError, match=r"^to\(\) expects Device, DeviceMesh, or DeviceMapping, got str$"):
        x.to("cpu")


def test_construction():
    assert Tensor(3).shape == [] and Tensor([]).shape == [0]
    assert Tensor(np.arange(3)).dtype == DType.int64
    assert Tensor([1, 2], dtype=DType.int32).to_numpy().dtype == np.int32
    array = np.zeros(3, np.float32)
    Tensor.from_dlpack(array)[0] = Tensor(5)
    assert array[0] == 5
    message = "^'dtype' and 'device' are only valid when 'data' is provided.$"
    for keywords in ({"dtype": F32}, {"device": CPU()}):
        with pytest.raises(TypeError, match=message):
            Tensor(**keywords)
    with pytest.raises(ValueError, match="DType must match input dtype"):
        Tensor(np.zeros(2, np.float32), dtype=DType.int32)
    for data in ("a", {1: 2}, object()):
        with pytest.raises(TypeError, match="A Tensor is made of a number"):
            Tensor(data)
    with pytest.raises(ValueError, match="rectangular"):
        Tensor([[1, 2], [3]])


def test_makers():
    like = Tensor([[1, 2], [3, 4]], dtype=DType.int16)
    assert Tensor.zeros([2, 3]).to_numpy().tolist() == [[0] * 3] * 2
    assert Tensor.ones_like(like).to_numpy().dtype == np.int16
    assert Tensor.full_like(like.type, 7).to_numpy().tolist() == [[7, 7], [7, 7]]
    for bounds in ((4,), (1, 7), (1, 7, 2), (7, 1, -2), (0, 1, 0.25)):
        assert Tensor.arange(*bounds).to_numpy().tolist() == np.arange(*bounds).tolist()
    assert Tensor.range_like(like).to_numpy().tolist() == [[0, 1], [0, 1]]
    assert Tensor.from_dim(5).to_numpy().tolist() == 5 and Tensor.from_dim(5).dtype == DType.int64
    with pytest.raises(ValueError, match=r"^Tensor.from_dim\(n\): a symbolic dimension has no value in eager mode"):
        Tensor.from_dim("n")
    with pytest.raises(ValueError, match="symbolic dimension n has no value"):
        Tensor.zeros(["n"])
    with pytest.raises(TypeError, match="takes a TensorValue or a BufferValue"):
        Tensor.from_graph_value(3)


def test_defaults_are_of_the_thread():
    assert defaults() == (F32, CPU())
    with default_dtype(DType.int32), default_device(CPU()):
        assert Tensor([1]).dtype == DType.int32
        with defaults_like(Tensor(1.5, dtype=DType.float64)):
            assert defaults() == (DType.float64, CPU())
        seen = []
        thread = threading.Thread(target=lambda: seen.append(defaults()[0]))
        thread.start()
        thread.join()
        assert seen == [F32]
    assert defaults() == (F32, CPU()) and defaults(DType.int8)[0] == DType.int8


TEXTS = {
    "Tensor([1.235   2.5   100], ": [1.23456, 2.5, 100],
    "Tensor([1 2 | 5 6\n 3 4 | 7 8], ": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]],
    "Tensor([], ": [],
    "Tensor(3, ": 3,
    "Tensor([1 2\n 3 4], ": [[1, 2], [3, 4]],
    "Tensor([nan inf -inf], ".replace("nan inf", " nan  inf"): [float("nan"), float("inf"), -float("inf")],
}


@pytest.mark.parametrize("text", TEXTS)
def test_repr(text):
    assert repr(Tensor(TEXTS[text])) == text + "dtype=DType.float32, device=Device(type=cpu,id=0))"


def test_repr_of_much():
    text = repr(Tensor.arange(5000).reshape([50, 100]))
    assert text.startswith("Tensor([   0    1    2 ...   97   98   99\n  100  101  102 ...")
    assert "\n ...\n 4700 4701 4702 ... 4797 4798 4799\n" in text
    blocks = repr(Tensor.arange(16).reshape([2, 2, 2, 2]))
    assert blocks.startswith("Tensor([ 0  1 |  4  5\n  2  3 |  6  7\n\n  8  9 | 12 13\n 10 11 | 14 15],")


def test_errors_name_the_op_and_leave_everything_usable():
    x = Tensor([1, 2])
    for _ in range(2):
        with pytest.raises(ValueError, match="Failed to create op 'add'"):
            x + Tensor([1, 2, 3])
        with pytest.raises(ValueError, match=r"test_tensor.py:\d+(.|\n)*gather: index 7 is out of bounds"):
            F.gather(x, Tensor([7], dtype=DType.int64), 0)
        assert (x + 1).to_numpy().tolist() == [2, 3]
    assert not F.in_graph_context()


def test_errors_name_the_line_of_their_call():
    x, far = Tensor([1, 2]), Tensor([7], dtype=DType.int64)

    @F.functional
    def picked(x, i):
        return F.gather(x * 2, i, 0) + 1

    def line_of(call):
        with pytest.raises(ValueError, match="index 7 is out of bounds") as error:
            call()
        return int(re.search(r"test_tensor\.py:(\d+)\)", str(error.value))[1])

    for call in (
        lambda: F.gather(x, far, 0),
        lambda: F.gather(x, far, 0),
        lambda: x + F.gather(x, far, 0),
    ):
        for _ in range(3):  # the program is known from the second time on
            assert line_of(call) == call.__code__.co_firstlineno
    for _ in range(3):
        assert line_of(lambda: picked(x, far)) == picked.__wrapped__.__code__.co_firstlineno + 2


def test_settings_reach_what_was_computed_before():
    x = Tensor([-1, 4])
    assert np.isnan(F.sqrt(x).to_numpy()[0])
    InferenceSession.debug.nan_check = True
    try:
        with pytest.raises(RuntimeError, match="NaN"):
            F.sqrt(x)
    finally:
        InferenceSession.debug.reset()
    assert np.isnan(F.sqrt(x).to_numpy()[0])


def test_work_of_a_queue_is_waited_for():
    queue, gate = DeviceQueue(CPU()), threading.Event()
    buffer = Buffer(F32, (4,), queue)
    queue.enqueue_cpu_function(lambda: gate.wait(10) and None)
    buffer.memset(0)
    threading.Timer(0.05, gate.set).start()
    assert (Tensor(buffer) + 1).to_numpy().tolist() == [1] * 4


def test_threads():
    def work(k):
        for i in range(200):
            x = Tensor([k, i])
            if (x * i + k).to_numpy().tolist() != [k * i + k, i * i + k]:
                failures.append((k, i))

    failures = []
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
