"""Traces, and the parts of the driver that only accelerators fill."""

import functools
import json
import threading

import pytest

from kiln._core.driver import HostHazardCompletion
from kiln.driver import (
    CPU,
    Buffer,
    CompletionFlag,
    DeviceQueue,
    MemcpyKind,
    OperationKind,
    begin_launch_trace,
    launch_trace,
    start_trace,
    stop_trace,
    take_launch_trace,
    trace,
)
from kiln.dtype import DType

pytestmark = pytest.mark.driver
I32 = DType.int32


def test_what_only_cuda_has():
    cpu = CPU()
    queue = DeviceQueue(cpu)
    for call, name in ((lambda: CompletionFlag(cpu), "CompletionFlag needs a CUDA device"),
                       (lambda: queue.wait_for_host_value(None, 1), "wait_for_host_value is only supported on CUDA"),
                       (lambda: getattr(cpu, "__unsafe_enqueue_py_host_func")(print), "needs a CUDA device"),
                       (lambda: getattr(cpu, "__unsafe_enqueue_async_py_host_func")(print, 0, 1, cpu), "needs a CUDA"),
                       (lambda: getattr(queue, "__unsafe_enqueue_async_py_host_func")(print, 0, 1, cpu), "needs a")):
        with pytest.raises(RuntimeError, match=name):
            call()


def test_stamps_have_no_effect_on_host_memory():
    buffer = Buffer.zeros((2,), I32)
    token = HostHazardCompletion.poisoned(buffer.stream, "bad")
    assert buffer._host_hazard_tracked is False
    buffer._stamp_write(token), buffer._stamp_read(token)
    assert buffer.to_numpy().tolist() == [0, 0]


def test_launch_traces_of_the_host_are_empty():
    begin_launch_trace()
    Buffer.zeros((4,), I32).copy()
    assert take_launch_trace() == [] == take_launch_trace()
    with pytest.raises(ValueError), launch_trace() as entries:
        raise ValueError
    assert entries == []
    assert (int(OperationKind.KERNEL_LAUNCH), int(OperationKind.MEMCPY), int(OperationKind.MEMSET)) == (0, 1, 2)
    assert [int(k) for k in (MemcpyKind.NONE, MemcpyKind.HTOD, MemcpyKind.DTOH, MemcpyKind.DTOD)] == [0, 1, 2, 3]


def step():
    pass


def test_time_lines(tmp_path):
    queue = DeviceQueue(CPU())
    with pytest.raises(TypeError, match="PathLike"):
        start_trace(3)
    with trace(tmp_path / "a.json"):
        queue.enqueue_cpu_function(step)
        queue.enqueue_cpu_function(threading.Event().set)
        queue.enqueue_cpu_function(functools.partial(int))
        queue.synchronize()
        with pytest.raises(RuntimeError):
            start_trace("b.json")
    with pytest.raises(RuntimeError):
        stop_trace()
    events = json.loads((tmp_path / "a.json").read_text())["traceEvents"]
    tracks = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    ran = [event["name"] for event in events if event["ph"] == "X" and tracks[event["tid"]] == str(queue)]
    assert ran == ["step", "Event.set", "partial"]
    waits = [event["name"] for event in events if event["ph"] == "X" and event["cat"] == "wait"]
    assert waits == ["DeviceQueue.synchronize"]


def test_each_thread_has_a_track(tmp_path):
    ids = []

    def work():
        Buffer.zeros((4,), I32)
        ids.append(threading.get_native_id())

    with trace(tmp_path / "a.json"):
        for _ in range(3):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
    events = json.loads((tmp_path / "a.json").read_text())["traceEvents"]
    names = {e["args"]["name"] for e in events if e.get("name") == "thread_name"}
    assert {f"thread {number}" for number in ids} <= names


def test_lists_of_devices_by_name():
    buffer = Buffer.zeros((2,), I32)
    assert buffer.to(devices=[CPU()])[0] is buffer


def test_a_function_that_runs_when_the_recording_ends(tmp_path):
    queue, gate, runs = DeviceQueue(CPU()), threading.Event(), threading.Event()

    def held():
        runs.set()
        gate.wait()

    with trace(tmp_path / "a.json"):
        queue.enqueue_cpu_function(held)
        runs.wait()
    gate.set()
    queue.synchronize()
    events = json.loads((tmp_path / "a.json").read_text())["traceEvents"]
    spans = [e for e in events if e["ph"] == "X" and e["cat"] == "work"]
    assert [e["name"] for e in spans] == [held.__qualname__] and spans[0]["dur"] > 0


def test_a_name_that_utf8_cannot_have(tmp_path):
    queue, done = DeviceQueue(CPU()), []

    def named():
        done.append(1)

    named.__qualname__ = "odd \ud800"
    with trace(tmp_path / "a.json"):
        queue.enqueue_cpu_function(named)
        queue.synchronize()
    assert done == [1] and "odd" in (tmp_path / "a.json").read_text()
