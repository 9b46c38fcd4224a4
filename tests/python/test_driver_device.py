import copy
import gc
import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import threading
import weakref

import numpy as np
import pytest
from processes import start

from kiln.driver import (
    CPU,
    Accelerator,
    Buffer,
    Device,
    DeviceEvent,
    DeviceQueue,
    DeviceSpec,
    accelerator_api,
    accelerator_count,
    devices_exist,
    load_devices,
    load_max_buffer,
    scan_available_devices,
    set_virtual_device_count,
)
from kiln.dtype import DType

pytestmark = pytest.mark.driver
no_accelerator = pytest.mark.skipif(accelerator_count() > 0, reason="this machine has accelerators")


def test_cpu_facts():
    cpu = CPU()
    assert isinstance(cpu, CPU) and isinstance(cpu, Device) and not isinstance(cpu, Accelerator)
    assert (cpu.label, cpu.api, cpu.id, cpu.is_host) == ("cpu", "cpu", 0, True)
    assert cpu.is_host_unified and cpu.is_compatible
    assert str(cpu) == repr(cpu) == "Device(type=cpu,id=0)"
    assert isinstance(cpu.model_name, str) and cpu.model_name
    stats = cpu.stats
    assert 0 <= stats["free_memory"] <= stats["total_memory"]
    assert cpu.max_single_alloc_size > 0
    assert cpu.can_access(cpu) is False
    assert cpu.trim() >= 0
    cpu.synchronize()
    with pytest.raises(RuntimeError, match="failed to get device architecture name"):
        cpu.architecture_name


def test_cpu_is_one_object():
    assert CPU() is CPU(0) is CPU(7) is Device.cpu() is Device.cpu(id=3)
    assert {CPU(): 1}[CPU()] == 1
    assert Buffer(DType.int8, (1,)).device is CPU()
    assert CPU() != "cpu"


def test_device_has_no_constructor():
    with pytest.raises(TypeError):
        Device()


@no_accelerator
def test_no_accelerator():
    assert accelerator_api() == "cpu"
    with pytest.raises(ValueError, match="^failed to create device:"):
        Accelerator()
    assert scan_available_devices() == [DeviceSpec.cpu()]
    assert not devices_exist([DeviceSpec.accelerator(0)])
    with pytest.raises(ValueError, match="Device 3 was requested but"):
        load_devices([DeviceSpec.accelerator(3)])


def test_specs():
    assert DeviceSpec.cpu() == DeviceSpec(-1, "cpu")
    assert DeviceSpec(1, "gpu") == DeviceSpec.accelerator(1) != DeviceSpec.accelerator(2)
    assert hash(DeviceSpec(1, "gpu")) == hash(DeviceSpec.accelerator(1))
    assert pickle.loads(pickle.dumps(DeviceSpec(1, "gpu"))) == DeviceSpec(1, "gpu")
    assert load_devices([DeviceSpec.cpu()]) == [CPU()]
    assert devices_exist([DeviceSpec.cpu(), DeviceSpec.cpu(5)])
    with pytest.raises(ValueError):
        DeviceSpec(-1, "gpu")
    with pytest.raises(AttributeError):
        DeviceSpec.cpu().id = 3


def test_names_of_parameters():
    DeviceQueue(CPU()).enqueue_cpu_function(fn=lambda: None)
    set_virtual_device_count(n=0)


def test_queue_runs_functions_in_order():
    queue, seen = DeviceQueue(CPU()), []
    for i in range(100):
        queue.enqueue_cpu_function(lambda i=i: seen.append((i, threading.get_ident())))
    queue.synchronize()
    assert [i for i, _ in seen] == list(range(100))
    assert threading.get_ident() not in {thread for _, thread in seen}


def test_queue_identity():
    a, b = DeviceQueue(CPU()), DeviceQueue(CPU())
    assert a != b and a == a and len({a, b}) == 2
    assert CPU().default_queue == CPU().default_queue
    assert a.device is CPU() and a.native_stream_handle == 0
    assert str(a) == repr(a) and str(a).startswith("cpu[0]:queue@0x")


def test_function_error_is_rethrown_unchanged_to_every_waiter():
    class Special(Exception):
        pass

    first, second = DeviceQueue(CPU()), DeviceQueue(CPU())

    def fail():
        raise Special("from the function", 3)

    skipped = []
    first.enqueue_cpu_function(fail)
    first.enqueue_cpu_function(lambda: skipped.append(1))
    second.wait_for(first)
    second.enqueue_cpu_function(lambda: skipped.append(2))
    for queue in (first, second):
        with pytest.raises(Special) as error:
            queue.synchronize()
        assert error.value.args == ("from the function", 3)
        queue.synchronize()
    assert skipped == []
    first.enqueue_cpu_function(lambda: skipped.append(3))
    first.synchronize()
    assert skipped == [3]


def test_functions_are_released():
    class Marker:
        pass

    marker, queue = Marker(), DeviceQueue(CPU())
    gone = weakref.ref(marker)
    queue.enqueue_cpu_function(lambda m=marker: None)
    del marker
    queue.synchronize()
    for _ in range(100):
        gc.collect()
        if gone() is None:
            break
        threading.Event().wait(0.01)
    assert gone() is None


def test_events_order_queues():
    slow, fast, seen = DeviceQueue(CPU()), DeviceQueue(CPU()), []
    release = threading.Event()
    slow.enqueue_cpu_function(release.wait)
    slow.enqueue_cpu_function(lambda: seen.append("slow"))
    event = slow.record_event()
    fast.wait_for(event)
    fast.enqueue_cpu_function(lambda: seen.append("fast"))
    assert not event.is_ready()
    release.set()
    fast.synchronize()
    event.synchronize()
    assert seen == ["slow", "fast"] and event.is_ready()


def test_events():
    event = DeviceEvent(CPU())
    assert event.is_ready()
    event.synchronize()
    assert event.device is CPU()
    assert event == event and event != DeviceEvent(CPU())
    assert str(event).startswith("cpu[0]:event@0x")
    with pytest.raises(RuntimeError):
        event.elapsed_time(event)
    start, end = DeviceEvent(CPU(), enable_timing=True), DeviceEvent(CPU(), enable_timing=True)
    queue = DeviceQueue(CPU())
    queue.record_event(start)
    queue.enqueue_cpu_function(lambda: threading.Event().wait(0.005))
    queue.record_event(end)
    queue.synchronize()
    assert start.elapsed_time(end) >= 0


def test_calling_back_from_a_function_is_refused():
    queue = DeviceQueue(CPU())
    queue.enqueue_cpu_function(lambda: Buffer(DType.int8, (4,)))
    with pytest.raises(RuntimeError):
        queue.synchronize()


def test_a_refusal_inside_of_work_names_the_call(tmp_path):
    buffer, array, cpu = Buffer.zeros((4,), DType.int8), np.zeros(3), CPU()
    calls = {
        "Buffer.to_numpy": buffer.to_numpy,
        "Buffer.zeros": lambda: Buffer.zeros((1,), DType.int8),
        "Buffer.scalar": lambda: Buffer.scalar(1, DType.int8),
        "Buffer": lambda: Buffer(array, cpu),
        "Buffer.from_numpy": lambda: Buffer.from_numpy(array),
        "Buffer.from_dlpack": lambda: Buffer.from_dlpack(array),
        "Buffer.copy": lambda: buffer.copy(cpu),
        "load_max_buffer": lambda: load_max_buffer(tmp_path / "x"),
        "Device.synchronize": cpu.synchronize,
        "DeviceQueue.record_event": DeviceQueue(cpu).record_event,
    }
    for name, call in calls.items():
        queue = DeviceQueue(cpu)
        queue.enqueue_cpu_function(call)
        with pytest.raises(RuntimeError, match=rf"^{name} was called from inside a function"):
            queue.synchronize()
    seen = []
    queue = DeviceQueue(cpu)
    queue.enqueue_cpu_function(lambda: seen.append((buffer.view(DType.uint8), buffer[:2])))
    queue.synchronize()
    assert len(seen) == 1


def run(program, timeout=30):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True,
                          text=True, timeout=timeout)


def test_end_of_process_with_pending_functions():
    done = run("""
        import sys, time
        from kiln.driver import CPU, DeviceQueue
        queue = DeviceQueue(CPU())
        queue.enqueue_cpu_function(lambda: time.sleep(0.2))
        for _ in range(50):
            queue.enqueue_cpu_function(lambda: print("late"))
        sys.exit(3)
    """)
    assert done.returncode == 3, done.stderr


def test_end_of_process_with_a_function_that_never_ends():
    done = run("""
        import sys, time
        from kiln.driver import CPU, DeviceQueue
        queue = DeviceQueue(CPU())
        queue.enqueue_cpu_function(lambda: time.sleep(60))
        time.sleep(0.1)
        sys.exit(4)
    """)
    assert done.returncode == 4, done.stderr


def test_fork_is_refused():
    done = run("""
        import os
        from kiln.driver import CPU, Buffer, DeviceQueue, batch_inplace_copy
        from kiln.dtype import DType
        cpu, queue, buffer = CPU(), DeviceQueue(CPU()), Buffer.zeros((1,), DType.int8)
        queue.enqueue_cpu_function(lambda: None)
        queue.synchronize()
        calls = [queue.synchronize, buffer.item, buffer.to_numpy, lambda: buffer.to(cpu), lambda: str(buffer),
                 lambda: batch_inplace_copy([buffer], [buffer]), lambda: cpu.stats, lambda: cpu.default_queue,
                 lambda: cpu.max_single_alloc_size, cpu.synchronize, lambda: buffer.__setitem__(0, 1)]
        child = os.fork()
        if child == 0:
            refused = 0
            for call in calls:
                try:
                    call()
                except RuntimeError as error:
                    refused += "kiln was in use before fork()" in str(error)
            assert repr(cpu) and repr(buffer) and repr(queue)  # facts need no device
            os._exit(refused)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) - len(calls))
    """)
    assert done.stdout.strip() == "0", done.stderr


def test_copies_of_handles():
    for handle in (DeviceQueue(CPU()), DeviceEvent(CPU())):
        with pytest.raises(TypeError):
            copy.copy(handle)


@pytest.mark.parametrize("imports", ["", "import kiln.graph"])
def test_queue_order_names_the_lines(imports):
    program = textwrap.dedent(f"""
        {imports}
        from kiln.driver import CPU, Buffer, DeviceQueue
        from kiln.dtype import DType

        first, second = DeviceQueue(CPU()), DeviceQueue(CPU())
        buffer = Buffer(DType.float32, [4], first)
        buffer._record_use(second)
        try:
            buffer.inplace_copy_from(Buffer.zeros([4], DType.float32))
        except RuntimeError as error:
            print(error)
        first.wait_for(second)
        buffer.inplace_copy_from(Buffer.zeros([4], DType.float32))
        print(buffer[0].item())
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          env={**os.environ, "KILN_DEBUG": "queue-order"})
    assert done.stderr == ""
    error, value = done.stdout.splitlines()
    assert error.startswith("Two uses of kiln.driver.Buffer(DType.float32, (4,), ")
    assert re.search(r": a copy on \S+, called at <string>:10, writes it, and before that "
                     r"Buffer\.record_use on \S+, called at <string>:8, writes it\. ", error)
    assert value == "0.0"


@pytest.mark.parametrize("wait", ["queue.synchronize()", "event.synchronize()", "CPU().synchronize()", "buffer.item()",
                                  "buffer.to_numpy()", "token.wait()",
                                  "queue.enqueue_cpu_function(int)"])
def test_a_wait_ends_with_ctrl_c(wait):
    fill = "for _ in range(65536): queue.enqueue_cpu_function(int)" if "enqueue" in wait else ""
    process = start(f"""
        import threading
        import numpy  # else an import is what the signal ends
        from kiln._core.driver import HostHazardCompletion
        from kiln.driver import CPU, Buffer, DeviceQueue
        from kiln.dtype import DType

        queue = CPU().default_queue
        buffer = Buffer.zeros((1,), DType.int8)
        gate, runs = threading.Event(), threading.Event()

        def function():
            runs.set()
            gate.wait()

        queue.enqueue_cpu_function(function)
        runs.wait()
        event, token = queue.record_event(), HostHazardCompletion.record_on(queue)
        {fill}
        try:
            print("waits", flush=True)
            {wait}
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        gate.set()
        {wait}
        print(buffer.item())
    """)
    assert process.stdout.readline() == "waits\n"
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert (output, errors, process.returncode) == ("interrupted\n0\n", "", 0)


def test_devices_travel():
    assert pickle.loads(pickle.dumps(CPU())) is CPU()
    assert copy.deepcopy([CPU()])[0] is CPU()
