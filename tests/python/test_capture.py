"""Recorded executions of a model."""

import gc
import threading
import weakref

import numpy as np
import pytest

from kiln.driver import CPU, Buffer
from kiln.dtype import DType
from kiln.engine import InferenceSession
from kiln.experimental.compilation import compile
from kiln.experimental.sharding import BufferLayout, TensorLayout
from kiln.experimental.tensor import Tensor
from kiln.graph import BufferType, Graph, TensorType, Weight, ops

F32, BOOL = DType.float32, DType.bool


def load(build, *types, **options):
    graph = Graph("model", input_types=list(types))
    with graph:
        graph.output(*build(*graph.inputs))
    return InferenceSession().load(graph, **options)


def tensor(*shape, dtype=F32):
    return TensorType(dtype, shape, CPU())


def buffer(values, dtype=np.float32):
    return Buffer.from_numpy(np.array(values, dtype))


@pytest.fixture(scope="module")
def scaled():
    return load(lambda x, y: [x * 2 + y, ops.sum(x)], tensor("n"), tensor("n"))


def test_replays_write_the_captured_results(scaled):
    x, y = buffer([1, 2, 3]), buffer([10, 20, 30])
    results = scaled.capture(5, x, y)
    assert [r.to_numpy().tolist() for r in results] == [[12, 24, 36], [6]]
    memory = [r.to_numpy().ctypes.data for r in results]
    for i in range(3):
        x.to_numpy()[...] = [i, 0, 1]
        assert scaled.replay(5, x, y) is None
        assert [r.to_numpy().tolist() for r in results] == [[10 + 2 * i, 20, 32], [i + 1]]
        assert [r.to_numpy().ctypes.data for r in results] == memory
    scaled.execute(buffer([9]), buffer([9]))  # other calls leave it alone
    assert results[1].to_numpy().tolist() == [3]
    scaled.release_captured_graph([5, 77])
    scaled.release_captured_graph(5)
    with pytest.raises(RuntimeError, match="No captured graph under key 5"):
        scaled.replay(5, x, y)
    again = scaled.capture([5], x, y)  # the key is free
    scaled.replay(5, x, y)
    assert again[1].to_numpy().tolist() == [3]
    scaled.release_captured_graph(5)


def test_keys_are_apart(scaled):
    pairs = [(buffer(np.arange(n)), buffer(np.ones(n))) for n in (1, 2, 3)]
    results = {2**64 - 1 - i: scaled.capture(2**64 - 1 - i, x, y) for i, (x, y) in enumerate(pairs)}
    for i, (x, y) in enumerate(pairs):
        x.to_numpy()[...] += 1
        scaled.replay(2**64 - 1 - i, x, y)
        np.testing.assert_array_equal(results[2**64 - 1 - i][0].to_numpy(), (np.arange(i + 1) + 1) * 2 + 1)
    scaled.release_captured_graph(list(results))


@pytest.mark.parametrize(("keys", "error", "text"), [
    (True, TypeError, "graph_key must be an int."),
    ([1, False], TypeError, "graph_key must be an int."),
    (["a"], TypeError, "graph_key must be an int."),
    ("a", TypeError, "graph_keys must be an int or sequence of ints."),
    (b"a", TypeError, "graph_keys must be an int or sequence of ints."),
    (1.0, TypeError, "graph_keys must be an int or sequence of ints."),
    (None, TypeError, "graph_keys must be an int or sequence of ints."),
    (-1, ValueError, "graph_key must be in range [0, 2^64 - 1]."),
    (2**64, ValueError, "graph_key must be in range [0, 2^64 - 1]."),
    ([], ValueError, "graph_keys must not be empty."),
    ([1, 2], ValueError, "graph_keys holds 2 keys, but the model runs on one device."),
])
def test_keys_that_are_none(scaled, keys, error, text):
    x = buffer([1])
    for call in (scaled.capture, scaled.replay, scaled.debug_verify_replay):
        with pytest.raises(error) as caught:
            call(keys, x, x)
        assert str(caught.value) == text
    if keys != [1, 2]:
        with pytest.raises(error):
            scaled.release_captured_graph(keys)


def test_misuse(scaled):
    x, y = buffer([1, 2]), buffer([3, 4])
    for name in ("capture", "replay", "debug_verify_replay"):
        with pytest.raises(ValueError) as error:
            getattr(scaled, name)(1)
        assert str(error.value) == f"Model.{name} requires input buffers."
        with pytest.raises(TypeError, match="needs the graph keys"):
            getattr(scaled, name)()
    with pytest.raises(ValueError, match="Number of inputs"):
        scaled.capture(1, x)
    with pytest.raises(ValueError, match="does not match prior uses"):
        scaled.capture(1, x, buffer([1]))
    scaled.capture(1, x, y)
    with pytest.raises(RuntimeError, match="Graph keys already captured: 1"):
        scaled.capture(1, x, y)
    for other, reason in [
        ((x, buffer([3, 4])), "input 1 is not the buffer that key 1 was captured with, for it lies elsewhere"),
        ((buffer([1]), y), "input 0 is not the buffer that key 1 was captured with, for its shape is another one"),
        ((x, buffer([3, 4], np.int32)), "for its dtype is another one"),
    ]:
        with pytest.raises(RuntimeError, match="Unsafe graph key reuse") as error:
            scaled.replay(1, *other)
        assert reason in str(error.value)
    scaled.replay(1, x[:], y)  # another view of the same memory
    scaled.release_captured_graph(1)


def test_buffers_are_written_in_place():
    def step(state, x):
        state[...] = state[...] + x
        return [state[...] * 1]

    model = load(step, BufferType(F32, [2], CPU()), tensor(2))
    state, x = buffer([0, 0]), buffer([1, 2])
    result, = model.capture(1, state, x)
    for i in range(2, 5):
        model.replay(1, state, x)
        assert state.to_numpy().tolist() == result.to_numpy().tolist() == [i, 2 * i]


def branching(flag, x):
    kept = ops.cond(flag, [tensor("n")], lambda: ops.exp(x) @ ops.exp(x).reshape((-1, 1)) + x, lambda: x * 2)[0]
    return [kept]


def test_conditions_are_decided_anew_and_told_apart():
    model = load(branching, tensor(dtype=BOOL), tensor("n"))
    flag, x = buffer(False, np.bool_), buffer([1, 2])
    result, = model.capture(1, flag, x)
    assert result.to_numpy().tolist() == [2, 4]
    model.debug_verify_replay(1, buffer(False, np.bool_), buffer([3, 4]))
    flag.to_numpy()[...] = True
    model.replay(1, flag, x)
    expected = (np.exp([1.0, 2]) ** 2).sum() + np.array([1, 2])
    np.testing.assert_allclose(result.to_numpy(), expected, rtol=1e-6)
    with pytest.raises(RuntimeError, match=r"The launches of 'model' differ from those captured under key 1, first at "
                                           r"'.*': decision 0 led to '.*mul.*' before"):
        model.debug_verify_replay(1, buffer(True, np.bool_), x)
    with pytest.raises(RuntimeError, match="'n' was 2 and is 3"):
        model.debug_verify_replay(1, flag, buffer([1, 2, 3]))
    with pytest.raises(RuntimeError, match="No captured graph under key 2"):
        model.debug_verify_replay(2, flag, x)


def test_loops_are_told_apart_by_their_iterations():
    def count(n, x):
        result = ops.while_loop(
            [n, x], lambda i, _: i > 0, lambda i, v: [i - 1, v * 2]
        )
        return [result[1]]

    model = load(count, tensor(dtype=DType.int64), tensor(1))
    n, x = buffer(3, np.int64), buffer([1])
    result, = model.capture(1, n, x)
    assert result.to_numpy().tolist() == [8]
    model.debug_verify_replay(1, buffer(3, np.int64), x)
    n.to_numpy()[...] = 5
    model.replay(1, n, x)
    assert result.to_numpy().tolist() == [32]
    with pytest.raises(RuntimeError, match="first at 'the end of a loop': decision 2 led to"):
        model.debug_verify_replay(1, buffer(2, np.int64), x)


def test_sizes_that_data_tells_cannot_be_captured():
    model = load(lambda x: [ops.nonzero(x, "found")], tensor(4))
    with pytest.raises(RuntimeError) as error:
        model.capture(1, buffer([1, 0, 1, 0]))
    assert str(error.value) == (
        "The model 'model' cannot be captured: the size of what its op 'nonzero' makes depends on data."
    )
    with pytest.raises(RuntimeError, match="No captured graph"):
        model.replay(1, buffer([1, 0, 1, 0]))


def test_a_failing_capture_keeps_nothing():
    model = load(lambda x, i: [ops.gather(x, i, 0)], tensor(3), tensor(1, dtype=DType.int64))
    x, i = buffer([1, 2, 3]), buffer([7], np.int64)
    with pytest.raises(ValueError, match="index 7 is out of bounds"):
        model.capture(1, x, i)
    i.to_numpy()[...] = 2
    result, = model.capture(1, x, i)
    i.to_numpy()[...] = 9
    with pytest.raises(ValueError, match="index 9 is out of bounds"):
        model.replay(1, x, i)
    i.to_numpy()[...] = 0
    model.replay(1, x, i)
    assert result.to_numpy().tolist() == [1]


def test_new_weights_count():
    with Graph("model", input_types=[tensor(2)]) as graph:
        graph.output(graph.inputs[0] * graph.add_weight(Weight("w", F32, [2], CPU())))
    model = InferenceSession().load(graph, weights_registry={"w": np.array([1, 2], np.float32)})
    x = buffer([1, 1])
    result, = model.capture(1, x)
    model.reload({"w": np.array([3, 4], np.float32)})
    model.replay(1, x)
    assert result.to_numpy().tolist() == [3, 4]


def test_misaligned_inputs_count_as_they_are():
    model = load(lambda x: [x + 1], tensor(2))
    raw = np.zeros(9, np.uint8)
    values = raw[1:].view(np.float32)
    x = Buffer.from_dlpack(values)
    result, = model.capture(1, x)
    values[...] = [4, 5]
    model.replay(1, x)
    assert result.to_numpy().tolist() == [5, 6]


def test_memory_returns_with_the_release():
    class Array(np.ndarray):  # which can be referred to weakly
        pass

    model = load(lambda x: [x * 2], tensor(3))
    array = np.array([1, 2, 3], np.float32).view(Array)
    memory = weakref.ref(array)
    x = Buffer.from_dlpack(array)
    result = model.capture(1, x)[0]
    del x, array
    gc.collect()
    assert memory() is not None  # the capture's until the release
    model.release_captured_graph([1])
    gc.collect()
    assert memory() is None
    assert result.to_numpy().tolist() == [2, 4, 6]


def test_threads_replay_in_turn(scaled):
    x, y = buffer(np.arange(100)), buffer(np.ones(100))
    result = scaled.capture(9, x, y)[0]
    failures = []

    def work():
        try:
            for _ in range(200):
                scaled.replay(9, x, y)
                scaled.execute(x, y)
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    np.testing.assert_array_equal(result.to_numpy(), np.arange(100) * 2 + 1)
    scaled.release_captured_graph(9)


def test_the_example_of_the_specification():
    def step(cache, x):
        cache[...] = cache + x
        return cache * 2

    run = compile(step)(BufferLayout(F32, [2], CPU()), TensorLayout(F32, [2], CPU()))
    cache, x = Tensor.zeros([2]), Tensor([1, 2])
    inputs = (cache.driver_tensor, x.driver_tensor, *run.signal_buffers)
    result, = run.engine_model.capture(1, *inputs)
    run.engine_model.replay(1, *inputs)
    assert result.to_numpy().tolist() == [4, 8]
    run.engine_model.debug_verify_replay(1, *inputs)
