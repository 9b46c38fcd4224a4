"""Settings of sessions and of the process, pending results, and stores of precompiled MEFs."""

import asyncio
import json
import signal
import threading
from concurrent.futures import Future

import numpy as np
import pytest
from processes import run, start

from kiln.driver import CPU, DeviceQueue
from kiln.dtype import DType
from kiln.engine import (
    AssertLevel,
    AsyncValue,
    InferenceSession,
    LogLevel,
    SplitKReductionPrecision,
)
from kiln.graph import Graph, TensorType, ops

F32 = DType.float32


@pytest.fixture
def debug():
    yield InferenceSession.debug
    InferenceSession.debug.reset()


def scaled(name="scaled", factor=2.0):
    return Graph(name, lambda x: ops.exp(x) * factor, [TensorType(F32, ["n"], CPU())])


def check(model, factor=2.0):
    x = np.array([0, 1], np.float32)
    np.testing.assert_allclose(model(x)[0].to_numpy(), factor * np.exp(x.astype(np.float64)), rtol=1e-6)


# KILN_DEBUG


def errors_of(program, **variables):
    process = start(program, KILN_CACHE="0", **variables)
    output, errors = process.communicate(timeout=120)
    return process.returncode, output, errors


def test_the_variable_is_read_once():
    settings = """
        import os
        from kiln.engine import InferenceSession
        from kiln.graph import Graph

        os.environ["KILN_DEBUG"] = "device-sync-mode"
        d = InferenceSession.debug
        print(d.nan_check, d.device_sync_mode, d.source_tracebacks, Graph.debug.source_tracebacks, d.assert_level,
              d.print_style.name, d.ir_output_dir)
        d.reset()
        print(d.nan_check, d.source_tracebacks, Graph.debug.source_tracebacks)
    """
    assert run(settings, KILN_DEBUG="nan-check, source-tracebacks=on,assert-level=safe,print-style=full") == \
        ["True False True True safe FULL ", "False False False"]
    assert run(settings, KILN_DEBUG="sensible,nan-check=off")[0] == "False True True True all NONE "


def test_what_the_variable_names_wrongly_is_a_warning():
    status, output, errors = errors_of("""
        from kiln.engine import InferenceSession
        d = InferenceSession.debug
        print(d.nan_check, d.uninitialized_read_check)
    """, KILN_DEBUG="nonsense,assert-level=loud,uninitialized-read-check,nan-check")
    assert (status, output) == (0, "True False\n")
    lines = errors.splitlines()
    assert len(lines) == 3 and all(line.startswith("kiln: warning: KILN_DEBUG: ") for line in lines)
    assert "'nonsense'" in lines[0] and "'assert-level' cannot be 'loud'" in lines[1]
    assert "'uninitialized-read-check'" in lines[2] and "CPU only" in lines[2]


NAN = """
    import numpy as np
    from kiln.driver import CPU
    from kiln.dtype import DType
    from kiln.engine import InferenceSession
    from kiln.graph import Graph, TensorType, ops

    def forward(x):
        return ops.log(x)

    graph = Graph("g", forward, [TensorType(DType.float32, ["n"], CPU())])
    InferenceSession().load(graph)(np.array([-1, 0, 1], np.float32))
"""


def test_nan_check_and_tracebacks_by_the_variable():
    assert errors_of(NAN)[0] == 0
    status, _, errors = errors_of(NAN, KILN_DEBUG="nan-check")
    assert status == 1 and "RuntimeError" in errors and "log" in errors and "Source Traceback:" not in errors
    _, _, errors = errors_of(NAN, KILN_DEBUG="nan-check,source-tracebacks")
    assert "Source Traceback:" in errors and '<string>:9' in errors and '<string>:11' in errors


def test_stack_traces_of_errors(debug):
    with pytest.raises(ValueError) as error:
        InferenceSession(num_threads=-1)
    assert "Native stack" not in str(error.value)
    debug.stack_trace_on_error = True
    with pytest.raises(ValueError) as error:
        InferenceSession(num_threads=-1)
    first, *rest = str(error.value).splitlines()
    assert first == "num_threads must not be negative, but it is -1."
    assert rest[0] == "Native stack, innermost first:"
    assert any("InferenceSession" in line and "libkiln.so" in line for line in rest)


def test_stack_traces_of_crashes():
    program = """
        import os, signal, kiln.engine
        os.kill(os.getpid(), signal.SIGSEGV)
    """
    status, _, errors = errors_of(program, KILN_DEBUG="stack-trace-on-crash")
    assert "the process crashed; its native stack" in errors
    # A sanitizer reports the signal and ends the process itself.
    sanitized = "Sanitizer:DEADLYSIGNAL" in errors
    assert status == -signal.SIGSEGV or (sanitized and status != 0)
    status, _, errors = errors_of(program)
    assert sanitized or (status == -signal.SIGSEGV and errors == "")
    assert "native stack" not in errors


def test_sync_mode_raises_at_the_call(debug):
    queue = DeviceQueue(CPU())

    def fail():
        raise KeyError("on the queue")

    queue.enqueue_cpu_function(fail)
    with pytest.raises(KeyError):
        queue.synchronize()
    debug.device_sync_mode = True
    with pytest.raises(KeyError, match="on the queue"):
        queue.enqueue_cpu_function(fail)
    seen = []
    queue.enqueue_cpu_function(lambda: seen.append(1))
    assert seen == [1]
    queue.synchronize()


def test_a_check_that_needs_an_accelerator_is_refused(debug):
    with pytest.raises(NotImplementedError, match="CPU only"):
        debug.uninitialized_read_check = True
    assert debug.uninitialized_read_check is False
    debug.uninitialized_read_check = False


def test_an_invalid_assert_level_shows_when_a_session_is_made(debug):
    debug.assert_level = "loud"
    with pytest.raises(TypeError, match=r"Invalid assert level \(loud\)\. Please use one of: NONE, WARN, SAFE, ALL"):
        InferenceSession()
    debug.assert_level = "SAFE"
    InferenceSession()


def test_stages_of_a_compile(debug, tmp_path):
    debug.ir_output_dir = str(tmp_path / "a" / "b")
    check(InferenceSession().load(scaled()))
    names = sorted(p.name for p in (tmp_path / "a" / "b").iterdir())
    assert [n[4:] for n in names[:3]] == ["module.txt", "scaled.inlined.txt", "scaled.expanded.txt"]
    assert names[-1].endswith("_plan.json") and all(n[:3].isdigit() and n[3] == "_" for n in names)
    text = {n[4:]: (tmp_path / "a" / "b" / n).read_text() for n in names}
    assert text["module.txt"].startswith("kiln.module version 1") and "kiln.exp" in text["module.txt"]
    assert "define" in text["host.ll"] and "define" in text["host.optimized.ll"]
    assert json.loads(text["plan.json"])["kernels"][0]["ops"]
    (tmp_path / "file").write_text("")
    debug.ir_output_dir = str(tmp_path / "file")
    with pytest.raises(RuntimeError, match="ir-output-dir"):
        InferenceSession().load(scaled())


# Sessions


def test_settings_of_kernels(debug):
    session = InferenceSession()
    for level in ("NOTSET", "TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"):
        session.set_kernel_log_level(level)
        assert debug.op_log_level == level.lower()
        session.set_kernel_log_level(LogLevel[level])
    for level in ("NONE", "WARN", "SAFE", "ALL"):
        session.set_kernel_assert_level(level)
        assert debug.assert_level == level.lower()
        session.set_kernel_assert_level(AssertLevel[level])
    session.set_split_k_reduction_precision("ACCUM")
    session.set_split_k_reduction_precision(SplitKReductionPrecision.OUTPUT)
    for mode in ("off", "on", "detailed"):
        session.gpu_profiling(mode)
    for method, text in [
        ("set_kernel_log_level", r"Invalid log level \({}\)\. Please use one of: NOTSET, TRACE, DEBUG, INFO, WARNING, "
                                 "ERROR, CRITICAL"),
        ("set_kernel_assert_level", r"Invalid assert level \({}\)\. Please use one of: NONE, WARN, SAFE, ALL"),
        ("set_split_k_reduction_precision", r"Invalid precision \({}\)\. Please use one of: ACCUM, OUTPUT"),
        ("gpu_profiling", r"Invalid profiling mode \({}\)\. Please use one of: off, on, detailed"),
    ]:
        for value in ("loud", 3, None):
            with pytest.raises(TypeError, match=text.format(value)):
                getattr(session, method)(value)
    check(session.load(scaled()))


def test_keywords(tmp_path):
    with pytest.raises(TypeError):
        InferenceSession(colour="red")
    with pytest.raises(ValueError, match="not both"):
        InferenceSession(precompiled_mefs=tmp_path, export_mefs=tmp_path)
    with pytest.raises(TypeError, match="path"):
        InferenceSession(export_mefs=3)
    session = InferenceSession(custom_extensions=[])
    for call in (lambda: InferenceSession(custom_extensions="kernels"),
                 lambda: session.compile(scaled(), custom_extensions=["kernels"]),
                 lambda: session.compile_async(scaled(), custom_extensions=["kernels"]),
                 lambda: session.load(scaled(), custom_extensions=["kernels"]),
                 lambda: session.load_all(scaled(), custom_extensions=["kernels"])):
        with pytest.raises(NotImplementedError, match="custom_extensions"):
            call()
    check(session.load(scaled(), custom_extensions=None, tile_based_fusion=True))


def test_precompiled_mefs(tmp_path):
    exporting = InferenceSession(export_mefs=tmp_path / "store")
    check(exporting.init(exporting.compile_reusing_mefs(scaled())))
    check(exporting.init(exporting.compile_reusing_mefs(scaled("other", 3))), 3)
    with pytest.raises(RuntimeError, match="a different graph named 'other' was already exported with the same input "
                                           "and output types"):
        exporting.compile_reusing_mefs(scaled("other", 4))
    manifest = json.loads((tmp_path / "store" / "manifest.json").read_text())
    assert [g["name"] for g in manifest["graphs"]] == ["other", "scaled"]
    assert sorted(p.name for p in (tmp_path / "store").iterdir()) == \
        ["manifest.json"] + [g["key"] + ".mef" for g in manifest["graphs"]]
    session = InferenceSession(precompiled_mefs=str(tmp_path / "store"))
    check(session.init(session.compile_reusing_mefs(scaled())))
    with pytest.raises(RuntimeError, match="no precompiled artifact for graph 'third' with signature"):
        session.compile_reusing_mefs(scaled("third"))
    with pytest.raises(FileNotFoundError, match="has no manifest.json, so it was not written by a session exporting"):
        InferenceSession(precompiled_mefs=tmp_path)
    plain = InferenceSession()
    check(plain.init(plain.compile_reusing_mefs(scaled())))


def test_precompiled_mefs_need_no_compiler(tmp_path):
    program = """
        import sys
        import numpy as np
        from kiln.driver import CPU
        from kiln.dtype import DType
        from kiln.engine import InferenceSession
        from kiln.graph import Graph, TensorType, ops

        graph = Graph("scaled", lambda x: ops.exp(x), [TensorType(DType.float32, ["n"], CPU())])
        session = InferenceSession(**{sys.argv[1]: sys.argv[2]})
        print(session.init(session.compile_reusing_mefs(graph))(np.zeros(2, np.float32))[0].to_numpy().tolist())
        print("libkiln_compiler" in open("/proc/self/maps").read())
    """
    assert run(program, "export_mefs", tmp_path, KILN_CACHE="0") == ["[1.0, 1.0]", "True"]
    assert run(program, "precompiled_mefs", tmp_path, KILN_CACHE="0") == ["[1.0, 1.0]", "False"]


# Pending results


def test_compile_async(tmp_path):
    session = InferenceSession()
    session.compile(scaled()).export_mef(tmp_path / "m.mef")
    for model in (scaled(), session.compile(scaled()), tmp_path / "m.mef", str(tmp_path / "m.mef")):
        check(session.init(session.compile_async(model)))
    missing = session.compile_async(tmp_path / "none.mef")  # fails at first use only
    with pytest.raises(RuntimeError, match="cannot read"):
        session.init(missing)
    with pytest.raises(RuntimeError, match="cannot read"):
        asyncio.run(wait_for(missing))
    with pytest.raises(RuntimeError, match="The model is not a valid path or module."):
        session.compile_async(3)
    check(session.init(asyncio.run(wait_for(session.compile_async(scaled())))))


async def wait_for(awaitable):
    await awaitable
    return awaitable


def test_async_value():
    value = AsyncValue()
    seen = []
    value.add_done_callback(lambda v: seen.append(v.result()))
    value.add_done_callback(lambda v: 1 / 0)
    double = value.and_then(lambda x: 2 * x)
    failed = value.and_then(lambda x: x / 0)
    assert not value.done() and not value.is_error() and not double.done()
    assert repr(value) == "<kiln engine AsyncValue (pending)>"
    for get in (value.result, value.exception):
        with pytest.raises(asyncio.InvalidStateError):
            get()
    thread = threading.Thread(target=lambda: value.set_result(21))
    thread.start()
    value.wait()
    thread.join()
    assert value.done() and value.result() == 21 and value.exception() is None
    value.add_done_callback(lambda v: seen.append(-v.result()))
    assert seen == [21, -21]
    assert double.result() == 42 and failed.is_error()
    with pytest.raises(ZeroDivisionError):
        failed.result()
    assert isinstance(failed.and_then(str).exception(), ZeroDivisionError)
    for refused in (value, double):
        with pytest.raises(asyncio.InvalidStateError):
            refused.set_result(1)
    with pytest.raises(TypeError):
        AsyncValue().set_exception("text")


def test_async_value_and_asyncio():
    async def follow():
        value = AsyncValue()
        threading.Timer(0.05, value.set_result, ["from a thread"]).start()
        assert await value == "from a thread"
        assert await value == "from a thread"
        failing = AsyncValue()
        asyncio.get_running_loop().call_later(0.01, failing.set_exception, KeyError("gone"))
        with pytest.raises(KeyError):
            await failing
        future = asyncio.get_running_loop().create_future()
        taken = AsyncValue.from_future(future)
        future.set_result(5)
        assert await taken == 5
        with pytest.raises(asyncio.InvalidStateError):
            taken.set_result(6)

    asyncio.run(follow())
    future = Future()
    taken = AsyncValue.from_future(future)
    future.set_exception(KeyError("gone"))
    assert taken.is_error() and isinstance(taken.exception(), KeyError)


def test_accelerators_of_an_artifact():
    assert InferenceSession().compile(scaled()).info.accelerators == []


def test_threads_from_the_environment(monkeypatch, recwarn):
    for value in ("3", "0", ""):
        monkeypatch.setenv("KILN_NUM_THREADS", value)
        InferenceSession()
    assert not recwarn.list
    for value in ("99999999999", "-1", "many", "2.5"):
        monkeypatch.setenv("KILN_NUM_THREADS", value)
        with pytest.warns(UserWarning, match=f"The environment variable KILN_NUM_THREADS is '?{value}"):
            InferenceSession()
