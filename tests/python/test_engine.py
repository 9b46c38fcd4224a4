import asyncio
import inspect
import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading

import ml_dtypes
import numpy as np
import pytest
from processes import run

from kiln.driver import CPU, Buffer, DeviceQueue, trace
from kiln.dtype import DType
from kiln.engine import CompiledModel, InferenceSession, Model, PrintStyle, TensorSpec, query_mef, read
from kiln.graph import BufferType, DeviceRef, Graph, Module, TensorType, Weight, ops

pytestmark = pytest.mark.engine
F32 = DType.float32


def tensor(*shape, dtype=F32):
    return TensorType(dtype, shape, CPU())


def axpy(name="axpy", **arguments):
    return Graph(name, lambda x, y: 2 * x + y, [tensor("n", 3), tensor("n", 3)], **arguments)


@pytest.fixture(scope="module")
def session():
    return InferenceSession()


@pytest.fixture(scope="module")
def model(session):
    return session.load(axpy())


def ones(*shape):
    return np.ones(shape, np.float32)


# Sessions


def test_sessions():
    assert repr(InferenceSession()) == "<kiln engine InferenceSession>"
    assert repr(InferenceSession(num_threads=4)) == "<kiln engine InferenceSession(num_threads=4)>"
    assert InferenceSession([CPU(), CPU()]).devices == [CPU()] == InferenceSession().devices
    with pytest.raises(ValueError):
        InferenceSession(num_threads=-1)
    with pytest.raises(TypeError):
        InferenceSession(nothing=1)


def test_bad_models(session):
    for bad in (3, None, [axpy()], np.zeros(2)):
        with pytest.raises(RuntimeError, match="The model is not a valid path or module."):
            session.compile(bad)
    with pytest.raises(RuntimeError, match="cannot read 'missing.mef'"):
        session.compile("missing.mef")
    with Graph("g", input_types=[tensor(2)]) as unfinished:
        pass
    with pytest.raises(RuntimeError, match="was never terminated by a call to output"):
        session.compile(unfinished)


def test_compile_and_init(session):
    compiled = session.compile(axpy())
    assert isinstance(compiled, CompiledModel) and compiled.names == ["axpy"] and len(compiled) == 1
    assert session.compile(compiled).names == ["axpy"] and repr(compiled) == "CompiledModel()"
    (metadata,) = compiled
    assert metadata.name == "axpy" and metadata.input_metadata[0].shape == [None, 3]
    models = [session.init(compiled) for _ in range(2)]
    assert all(m(ones(1, 3), ones(1, 3))[0].to_numpy().tolist() == [[3, 3, 3]] for m in models)
    assert list(session.init_all(compiled)) == ["axpy"]
    assert not hasattr(compiled, "execute")


def test_a_compiled_model_is_compiled_already(session):
    compiled = session.compile(axpy())
    assert session.compile(compiled) is compiled and session.compile_async(compiled) is compiled


def test_modules_of_graphs(session):
    module = Module()
    axpy("first", module=module), axpy("second", module=module)
    compiled = session.compile(module)
    assert compiled.names == ["first", "second"]
    with pytest.raises(ValueError, match=r"Expected exactly one model in the compiled artifact, but got 2. Use "
                                         r"init_all\(\) to initialize multi-model artifacts."):
        session.init(compiled)
    with pytest.raises(ValueError, match=r"load_all\(\)"):
        session.load(module)
    assert list(session.load_all(module)) == ["first", "second"]
    axpy("first", module=module)
    with pytest.raises(RuntimeError, match="Two graphs of the module are named 'first'"):
        session.compile(module)


def test_compile_async(session):
    compiled = session.compile_async(axpy("async"))
    compiled.wait()
    assert compiled.done()

    async def wait():
        await session.compile_async(axpy("awaited"))

    asyncio.run(wait())
    with Graph("g", input_types=[tensor(2)]) as unfinished:
        pass
    failing = session.compile_async(unfinished)
    with pytest.raises(RuntimeError):
        session.init(failing)


# Files


def test_mef(session, model, tmp_path):
    path = tmp_path / "axpy.mef"
    session.compile(axpy()).export_mef(path)
    arguments = ones(2, 3), ones(2, 3)
    for source in (path, str(path), io.BytesIO(path.read_bytes())):
        loaded = session.init(read(source))
        assert loaded(*arguments)[0].to_numpy().tolist() == model(*arguments)[0].to_numpy().tolist()
    assert session.load(path).name == "axpy"
    info = query_mef(path)
    assert info.readable and info.compatible and info.reasons == [] and info.graphs[0].name == "axpy"
    assert session.compile(path).info.graphs[0].name == "axpy" and info.targets[0].triple.startswith("x86_64")
    program = f"""
        import numpy as np
        from kiln.engine import InferenceSession
        x = np.ones((2, 3), np.float32)
        print(InferenceSession().load({str(path)!r})(x, x)[0].to_numpy().tolist())
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[[3.0, 3.0, 3.0], [3.0, 3.0, 3.0]]"


def test_damaged_mefs(session, tmp_path):
    path = tmp_path / "x.mef"
    session.compile(axpy()).export_mef(path)
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(RuntimeError, match="is truncated"):
        read(path)
    path.write_bytes(b"something else")
    with pytest.raises(RuntimeError, match="is not a MEF file"):
        read(path)
    with pytest.raises(RuntimeError, match="cannot read"):
        query_mef(tmp_path / "missing")
    with pytest.raises(TypeError):
        read(3)
    with pytest.raises(TypeError):
        read(io.StringIO("text"))


# Weights


def linear():
    w, b = Weight("w", F32, [3, 2], CPU()), Weight("b", DType.bfloat16, [2], CPU())
    return Graph("linear", lambda x: x @ w + b.cast(F32), [tensor("n", 3)])


def test_weights(session):
    w = np.arange(6, dtype=np.float32).reshape(3, 2)
    b = np.ones(2, ml_dtypes.bfloat16)
    frozen = w.copy()
    frozen.flags.writeable = False
    compiled = session.compile(linear())
    expected = (ones(1, 3) @ w + 1).tolist()
    for registry in ({"w": w, "b": b}, {"w": Buffer.from_numpy(w), "b": Buffer.from_numpy(b)},
                     {"w": frozen, "b": b, "extra": np.zeros(3)}):
        model = session.init(compiled, weights_registry=registry)
        assert model(ones(1, 3))[0].to_numpy().tolist() == expected
    model.reload({"w": w * 0, "b": b})
    assert model(ones(1, 3))[0].to_numpy().tolist() == [[1, 1]]
    assert session.load(linear(), weights_registry={"w": w, "b": b}).name == "linear"
    for registry, error, text in [
        ({"w": w}, ValueError, "Weight 'b' is not in the weights registry."),
        (None, ValueError, "is not in the weights registry."),
        ({"w": w.T.copy().T, "b": b}, ValueError, "Weight 'w' is not contiguous: kiln does not currently support"),
        ({"w": w.astype(np.float64), "b": b}, ValueError, r"Weight 'w' has type \[\(3, 2\), f64\] but the graph "
                                                          r"declares \[\(3, 2\), f32\]"),
        ({"w": w[:2], "b": b}, ValueError, r"Weight 'w' has type \[\(2, 2\), f32\]"),
        ({"w": "text", "b": b}, TypeError, "Weight 'w'"),
        (3, TypeError, "mapping"),
    ]:
        with pytest.raises(error, match=text):
            session.init(compiled, weights_registry=registry)


def test_exported_weights(session, tmp_path):
    registry = {"w": ones(3, 2), "b": np.zeros(2, ml_dtypes.bfloat16)}
    session.compile(linear()).export_mef(tmp_path / "x.mef", weights_registry=registry)
    assert session.load(tmp_path / "x.mef")(ones(1, 3))[0].to_numpy().tolist() == [[3, 3]]
    assert all(w.carried for w in query_mef(tmp_path / "x.mef").weights)


# Calls


def test_inputs_of_every_kind(session, model):
    expected = [[3, 3, 3]]

    class Producer:
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **arguments):
            return self.array.__dlpack__(**arguments)

        def __dlpack_device__(self):
            return (1, 0)

    frozen = ones(1, 3)
    frozen.flags.writeable = False
    for x in (ones(1, 3), Buffer.from_numpy(ones(1, 3)), Producer(ones(1, 3)), frozen):
        assert model.execute(x, x)[0].to_numpy().tolist() == expected
    unaligned = np.zeros(13, np.uint8)[1:].view(np.float32).reshape(1, 3) + 0
    raw = np.zeros(13, np.uint8)
    raw[1:] = ones(1, 3).view(np.uint8).ravel()
    unaligned = raw[1:].view(np.float32).reshape(1, 3)
    assert model.execute(unaligned, unaligned)[0].to_numpy().tolist() == expected
    scalars = session.load(Graph("s", lambda a, b, c: [a + 1, b, c], [
        tensor(), tensor(dtype=DType.int32), tensor(dtype=DType.bool)]))
    assert [r.item() for r in scalars.execute(1.5, np.int64(3), True)] == [2.5, 3, True]
    assert [r.item() for r in scalars.execute(np.float32(1), 2, np.True_)] == [2.0, 2, True]


@pytest.mark.parametrize("arguments, error, text", [
    ((ones(1, 3),), ValueError, r"Number of inputs \(1\) does not match expected number \(2\) for model"),
    ((1, 2, 3), ValueError, r"Number of inputs \(3\) does not match expected number \(2\) for model"),
    ((ones(3, 2).T, ones(2, 3)), ValueError, "kiln does not currently support executing non-contiguous tensors."),
    ((Buffer.from_numpy(ones(2, 6))[:, ::2], ones(2, 3)), ValueError, "non-contiguous tensors."),
    ((ones(2, 3).astype(np.float64), ones(2, 3)), ValueError,
     r"Input at position 0: Buffer of type \[\(2, 3\), f64\] does not match expected type \[\(n, 3\), f32\]"),
    ((ones(2, 3), ones(2, 4)), ValueError,
     r"Input at position 1: Buffer of type \[\(2, 4\), f32\] does not match expected type \[\(n, 3\), f32\]"),
    ((ones(3), ones(2, 3)), ValueError, r"Input at position 0: Buffer of type \[\(3\), f32\]"),
    ((ones(2, 3), ones(4, 3)), ValueError,
     "symbolic dimension 'n' for input 1 does not match prior uses of that dimension"),
    (("text", ones(2, 3)), ValueError, "All positional arguments must be of the type `kiln.driver.Buffer` or a tensor "
     "type implementing the dlpack protocol. We do not currently support inputs of the type <class 'str'>."),
    ((None, ones(2, 3)), ValueError, "inputs of the type <class 'NoneType'>."),
    ((ones(3), ones(2, 3).astype("c8")), ValueError, "Input at position 1: unsupported NumPy dtype: complex64"),
    ((np.array(["2020-01-01"], "M8[D]"), ones(2, 3)), ValueError,
     r"Input at position 0: unsupported NumPy dtype: datetime64\[D\]"),
])
def test_refused_inputs(model, arguments, error, text):
    with pytest.raises(error, match=text):
        model.execute(*arguments)
    assert model.execute(ones(1, 3), ones(1, 3))[0].to_numpy().tolist() == [[3, 3, 3]]


def test_names(model):
    x, y = ones(1, 3), ones(1, 3) * 2
    assert model(x, input1=y)[0].to_numpy().tolist() == [[4, 4, 4]]
    assert model(input1=y, input0=x)[0].to_numpy().tolist() == [[4, 4, 4]]
    for arguments, names in (((x,), {}), ((x, y, x), {}), ((x, y), {"input0": x}), ((x, y), {"other": x})):
        with pytest.raises(TypeError):
            model(*arguments, **names)


def test_zero_sized_and_rank_0(session, model):
    assert model(ones(0, 3), ones(0, 3))[0].shape == (0, 3)
    assert session.load(Graph("none", lambda: []))() == []
    assert session.load(Graph("c", lambda: ops.constant(3, F32, CPU())))()[0].item() == 3


def test_state(session):
    with Graph("counter", input_types=[BufferType(F32, [4], CPU())]) as graph:
        current = ops.buffer_load(graph.inputs[0])
        ops.buffer_store(graph.inputs[0], current + 1)
        graph.output(current)
    counter = session.load(graph)
    state = Buffer.zeros((4,), F32)
    assert [counter(state)[0][0].item() for _ in range(3)] == [0, 1, 2] and state[3].item() == 3
    array = np.zeros(4, np.float32)
    counter(array)
    assert array.tolist() == [1] * 4
    frozen = np.zeros(4, np.float32)
    frozen.flags.writeable = False
    raw = np.zeros(17, np.uint8)[1:].view(np.float32)
    for bad in (1.0, frozen, raw):
        with pytest.raises(ValueError, match="input 0 is a buffer that the graph may write; it needs writable, "
                                             "aligned memory"):
            counter(bad)


def test_shared_buffers(session):
    graph = Graph("two", lambda a, b: a.__setitem__(..., b[...]), [BufferType(F32, [2], CPU())] * 2)
    two = session.load(graph)
    b = Buffer.zeros((2,), F32)
    with pytest.raises(ValueError, match="inputs 0 and 1 share memory that the graph writes"):
        two(b, b)
    two(b, Buffer.zeros((2,), F32))


def test_buffers_that_are_only_read_may_be_shared(session):
    graph = Graph("sum", lambda a, b, c: c.__setitem__(..., b) or a[...] + b[...], [BufferType(F32, [2], CPU())] * 3)
    model = session.load(graph)
    x, y = Buffer.from_numpy(np.array([1, 2], "f4")), Buffer.zeros((2,), F32)
    np.testing.assert_array_equal(model(x, x, y)[0].to_numpy(), [2, 4])
    np.testing.assert_array_equal(y.to_numpy(), [1, 2])
    with pytest.raises(ValueError, match="inputs 1 and 2 share memory that the graph writes"):
        model(x, y, y)


def test_results_outlive_everything(session):
    model = session.load(Graph("id", lambda x: [x, x + 1], [tensor("n")]))
    same, more = model(np.arange(5, dtype=np.float32))
    del model
    assert same.to_numpy().tolist() == [0, 1, 2, 3, 4] and more.to_numpy().tolist() == [1, 2, 3, 4, 5]


def test_run_time_errors_quote_the_line(session):
    types = [tensor("n"), tensor("m", dtype=DType.int64)]
    model = session.load(Graph("g", lambda x, i: ops.gather(x, i, 0), types))
    line = inspect.currentframe().f_lineno - 1
    for _ in range(2):
        with pytest.raises(ValueError) as error:
            model(np.zeros(3, np.float32), np.array([5]))
        text = str(error.value)
        assert text.startswith('An error occurred in kernel entry point named "')
        assert f"{os.path.basename(__file__)}:{line}" in text
        assert "error: gather: index 5 is out of bounds for axis 0 with size 3" in text
    assert model(np.zeros(3, np.float32), np.array([2]))[0].shape == (1,)


def test_facts(model):
    assert isinstance(model, Model) and model.name == "axpy" and model.devices == [CPU()]
    assert model.input_devices == [CPU(), CPU()] and model.output_devices == [CPU()]
    spec = model.input_metadata[0]
    assert isinstance(spec, TensorSpec) and (spec.name, spec.dtype, spec.shape) == ("input0", F32, [None, 3])
    assert str(spec) == "-1x3xfloat32"
    assert repr(spec) == "TensorSpec(shape=[None, 3], dtype=DType.float32, name=input0)"
    assert repr(model) == f"Model(inputs=[{spec!r}, {model.input_metadata[1]!r}])"
    assert model.output_metadata[0].name == "output0"
    assert str(model.signature) == "(input0, input1)" and isinstance(model.signature, inspect.Signature)
    summaries = model.kernel_summaries
    assert any("mul" in s for s in summaries) and any("add" in s for s in summaries)


# Threads, signals, queues


def test_calls_in_parallel(model):
    failures = []

    def call(k):
        x = ones(k + 1, 3) * k
        for _ in range(200):
            if model.execute(x, x)[0].to_numpy().tolist() != (3 * x).tolist():
                failures.append(k)

    threads = [threading.Thread(target=call, args=(k,)) for k in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert failures == []


def test_long_calls_release_the_gil(session):
    model = session.load(Graph("big", lambda x: x @ x, [tensor(512, 512)]))
    x, ticks, stop = Buffer.from_numpy(ones(512, 512)), [], threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(1)
            stop.wait(0.0005)

    thread = threading.Thread(target=tick)
    thread.start()
    for _ in range(20):
        model.execute(x)
    stop.set()
    thread.join()
    assert len(ticks) > 3


def test_calls_wait_for_functions_on_the_queue(model):
    """The function needs the GIL, so a call that waits for it must not hold it."""
    x = ones(1, 3)
    for _ in range(5):
        model.execute(x, x)  # now known to be short
    seen = []
    CPU().default_queue.enqueue_cpu_function(lambda: seen.append(sum(range(1000))))
    assert model.execute(x, x)[0].to_numpy().tolist() == [[3, 3, 3]]
    assert seen
    other = DeviceQueue(CPU())
    b = Buffer(F32, (1, 3), other)
    other.enqueue_cpu_function(lambda: seen.append(sum(range(100000))))
    b.inplace_copy_from(Buffer.from_numpy(ones(1, 3)))
    assert model.execute(b, b)[0].to_numpy().tolist() == [[3, 3, 3]] and len(seen) == 2


def test_a_failed_queue_fails_the_call(model):
    x = ones(1, 3)
    model.execute(x, x)

    def fail():
        raise KeyError("on the queue")

    CPU().default_queue.enqueue_cpu_function(fail)
    with pytest.raises(KeyError, match="on the queue"):
        model.execute(x, x)
    assert model.execute(x, x)[0].to_numpy().tolist() == [[3, 3, 3]]


def test_no_fill_starts_under_a_call(session):
    size = 1 << 20
    model = session.load(Graph("same", lambda x: x + 0, [TensorType(DType.uint8, [size], CPU())]))
    buffers = [Buffer.zeros((size,), DType.uint8), Buffer(DType.uint8, (size,), DeviceQueue(CPU()))]
    for buffer in buffers:
        buffer.memset(0)
        stop = threading.Event()

        def fill():
            value = 0
            while not stop.is_set():
                value = (value + 1) % 250
                buffer.memset(value)
                if value % 4 == 0:
                    buffer.stream.synchronize()

        thread = threading.Thread(target=fill)
        thread.start()
        results = [model.execute(buffer)[0].to_numpy() for _ in range(60)]
        stop.set()
        thread.join()
        assert all((result == result[0]).all() for result in results)


def test_control_c_ends_a_compile():
    program = """
        import os, signal, threading
        from kiln.driver import CPU
        from kiln.dtype import DType
        from kiln.engine import InferenceSession
        from kiln.graph import Graph, TensorType, ops

        def forward(x):
            for i in range(60):
                x = ops.softmax(x @ x.T + i) @ ops.exp(x * i)
            return x

        graph = Graph("long", forward, [TensorType(DType.float32, ["n", 32], CPU())])
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            InferenceSession().compile(graph)
            print("compiled")
        except KeyboardInterrupt:
            print("interrupted")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True,
                          timeout=120, env={**os.environ, "KILN_CACHE": "0"})
    assert done.stdout.strip() == "interrupted", done.stderr
    assert signal.SIGINT


# Debug settings


def test_debug_settings():
    debug = InferenceSession.debug
    debug.reset()
    try:
        assert debug.nan_check is False and debug.op_log_level == ""
        debug.nan_check = True
        assert debug.nan_check is True
        debug.sensible_mode = True
        assert debug.source_tracebacks and debug.assert_level == "all"
        assert Graph.debug.source_tracebacks
        debug.print_style = "FULL"
        assert debug.print_style is PrintStyle.FULL
        debug.print_style = PrintStyle.NONE
    finally:
        debug.reset()
    assert debug.nan_check is False and debug.source_tracebacks is False


def test_nan_check(session):
    InferenceSession.debug.nan_check = True
    try:
        model = session.load(Graph("g", lambda x: ops.log(x), [tensor("n")]))
    finally:
        InferenceSession.debug.reset()
    assert model(ones(3))[0].to_numpy().tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="log"):
        model(-ones(3))


@pytest.mark.parametrize("row, counts", [([-np.inf, 0, 1], None), ([-np.inf] * 3, "3 NaN and 0 Inf")])
def test_nan_check_asks_what_an_op_gives_and_not_what_it_is_made_of(session, row, counts):
    InferenceSession.debug.nan_check = True
    try:
        model = session.load(Graph("g", lambda x: ops.softmax(x.tensor), [tensor(1, 3)]))
    finally:
        InferenceSession.debug.reset()
    x = np.array([row], np.float32)
    if counts is None:
        expected = np.exp(x[0, 1:]) / np.exp(x[0, 1:]).sum()
        assert np.allclose(model(x)[0].to_numpy(), [[0, *expected]])
    else:
        with pytest.raises(RuntimeError, match=f"'softmax' has {counts}"):
            model(x)


def test_reload_beside_calls():
    # The weights that reload drops are freed with the GIL, which calls have while they wait.
    program = """
        import threading
        import numpy as np
        from kiln.driver import CPU
        from kiln.dtype import DType
        from kiln.engine import InferenceSession
        from kiln.graph import Graph, Weight
        with Graph("g") as g:
            g.output(Weight("w", DType.float32, [1000], CPU()) * 1.0)
        weights = lambda i: {"w": np.full(1000, i, np.float32)}
        model = InferenceSession().load(g, weights_registry=weights(0))
        seen, stop = set(), False
        def run():
            while not stop:
                seen.add(tuple(np.unique(model.execute()[0].to_numpy())))
        threads = [threading.Thread(target=run) for _ in range(3)]
        for t in threads: t.start()
        for i in range(2000): model.reload(weights(i))
        stop = True
        for t in threads: t.join()
        print(all(len(values) == 1 for values in seen), model.execute()[0].to_numpy()[0])
    """
    assert run(program) == ["True 1999.0"]


def test_a_device_graph_names_the_first_op_elsewhere(session):
    graph = Graph("d", lambda x: ops.exp(x.tensor) + 1, [tensor(2)], is_device_graph=True)
    with pytest.raises(RuntimeError, match="'d' was made with is_device_graph, .* op 'exp' works on cpu:0"):
        session.compile(graph)


def test_await_gives_the_compiled_model(session):
    compiled = session.compile_async(Graph("g", lambda x: x.tensor + 1, [tensor(2)]))

    async def wait():
        return await compiled

    assert asyncio.run(wait()) is compiled


def test_print(session, capfd):
    graph = Graph("p", lambda x: x.print("x"), [tensor(2)])
    model = session.load(graph)
    model(np.array([1, 2], np.float32))
    assert "x = tensor([[1.0000, 2.0000]], dtype=f32, shape=[2])" in capfd.readouterr().out
    own = InferenceSession()
    own.set_debug_print_options("NONE")
    own.load(graph)(np.array([1, 2], np.float32))
    assert capfd.readouterr().out == ""
    for arguments, error in [(("nothing",), TypeError), (("FULL", "six"), TypeError), (("FULL", 6, 3), TypeError),
                             (("BINARY",), ValueError)]:
        with pytest.raises(error):
            own.set_debug_print_options(*arguments)


def test_places_stay_usable_by_name():
    assert DeviceRef.CPU().to_device() is CPU()


def test_query_mef_takes_a_stream(tmp_path):
    InferenceSession().compile(Graph("g", lambda x: x + 1, [TensorType(DType.float32, [2], CPU())])).export_mef(
        tmp_path / "m.mef")
    data = (tmp_path / "m.mef").read_bytes()
    assert repr(query_mef(io.BytesIO(data))) == repr(query_mef(tmp_path / "m.mef"))
    assert not query_mef(io.BytesIO(data[:100])).readable
    for wrong in (5, io.StringIO("text")):
        with pytest.raises(TypeError, match=r"query_mef\(\) expects a "):
            query_mef(wrong)


def test_a_negative_print_precision_is_refused():
    with pytest.raises(ValueError, match="must not be negative, but it is -1"):
        InferenceSession().set_debug_print_options("FULL", -1)


def test_calls_of_models_are_spans(tmp_path):
    model = InferenceSession().load(Graph("doubled", lambda x: x * 2, [TensorType(F32, ["n"], CPU())]))
    x = Buffer.zeros((1 << 20,), F32)
    with trace(tmp_path / "trace.json"):
        model(x)
        with pytest.raises(ValueError):
            model(Buffer.zeros((4,), DType.int8))
        model(x)
    spans = [e for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if e.get("cat") == "model"]
    assert [e["name"] for e in spans] == ["doubled", "doubled"]
    assert all(e["ph"] == "X" and e["dur"] > 0 for e in spans)
    assert spans[0]["ts"] + spans[0]["dur"] <= spans[1]["ts"]
