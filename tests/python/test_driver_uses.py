"""What host access waits for, whose failure it raises, and when memory is used again."""

import gc
import threading
import time
import traceback
import weakref

import numpy as np
import pytest
from processes import start

from kiln.driver import CPU, Buffer, DeviceEvent, DeviceQueue, batch_inplace_copy
from kiln.dtype import DType
from kiln.engine import InferenceSession

pytestmark = pytest.mark.driver
I32 = DType.int32


class Boom(Exception):
    pass


def boom():
    raise Boom("the work failed")


@pytest.fixture
def queue():
    return DeviceQueue(CPU())


@pytest.fixture
def gate():
    """An event that the test sets, and that is set after it in any case."""
    event = threading.Event()
    yield event
    event.set()


def settle(*queues):
    for queue in queues:
        try:
            queue.synchronize()
        except Boom:
            pass


def view_on_default_queue(buffer):
    return buffer.to(CPU(), after=buffer.stream.record_event())


def filled(queue, count=4):
    buffer = Buffer(I32, (count,), queue)
    buffer.memset(0)
    queue.synchronize()
    return buffer


def later(array, value):
    """A function that fills the array after a while."""
    def fill():
        time.sleep(0.05)
        array[:] = value

    return fill


@pytest.mark.parametrize("read", [lambda b: b.to_numpy().tolist(), lambda b: [int(b[i].item()) for i in range(4)],
                                  lambda b: np.from_dlpack(b).tolist()])
def test_a_view_belongs_to_its_own_queue(queue, read):
    buffer = filled(queue)
    view, array = view_on_default_queue(buffer), buffer.to_numpy()
    default = CPU().default_queue
    default.enqueue_cpu_function(later(array, 7))
    assert read(view) == [7] * 4
    default.enqueue_cpu_function(later(array, 8))
    view[0] = 3
    assert view.to_numpy().tolist() == [3, 8, 8, 8]
    default.enqueue_cpu_function(boom)
    with pytest.raises(Boom):
        view.to_numpy()
    settle(default)


@pytest.mark.parametrize("through_view", [True, False])
def test_memory_is_kept_for_the_queue_of_each_view(queue, gate, through_view):
    size = 1 << 19
    buffer = Buffer(DType.uint8, (size,), queue)
    address, view = buffer._data_ptr(), view_on_default_queue(buffer)
    busy = view.stream if through_view else queue
    busy.enqueue_cpu_function(gate.wait)
    del buffer, view
    others = [Buffer(DType.uint8, (size,)) for _ in range(4)]
    assert all(other._data_ptr() != address for other in others)
    gate.set()
    busy.synchronize()


def test_a_read_waits_for_every_writer_of_its_bytes(queue, gate):
    buffer = filled(queue)
    view, slow = view_on_default_queue(buffer), DeviceQueue(CPU())
    source = Buffer.from_numpy(np.full(2, 5, np.int32))
    slow.enqueue_cpu_function(gate.wait)
    queue.wait_for(slow)
    low, high = buffer[0:2], view[2:4]
    low.inplace_copy_from(source)
    high.memset(1)
    threading.Timer(0.1, gate.set).start()
    assert low.to_numpy().tolist() == [5, 5]
    assert buffer.to_numpy().tolist() == [5, 5, 0x01010101, 0x01010101]


@pytest.mark.parametrize("show", [str, lambda b: str(b[::-1]), lambda b: str(np.from_dlpack(b, copy=True))])
def test_texts_and_copies_for_the_host_wait_for_other_queues(queue, show):
    buffer = filled(CPU().default_queue)
    array = buffer.to_numpy()
    queue.enqueue_cpu_function(later(array, 7))
    buffer._record_use(queue, True)
    assert "7 7 7 7" in show(buffer)


def test_a_failure_belongs_to_the_bytes_that_were_to_be_written(queue):
    broken = DeviceQueue(CPU())
    broken.enqueue_cpu_function(boom)
    buffer = filled(queue)
    queue.wait_for(broken)
    low, high = buffer[0:2], buffer[2:4]
    low.memset(9)
    settle(queue, broken)
    assert high.to_numpy().tolist() == [0, 0]
    for failed in (low, buffer, buffer[1]):
        with pytest.raises(Boom):
            failed.to_numpy()
    high.memset(1)  # elsewhere
    with pytest.raises(Boom):
        buffer.to_numpy()
    buffer[0] = 4  # the host writes one half
    assert buffer[0].item() == 4
    with pytest.raises(Boom):
        buffer.to_numpy()
    buffer[1:2].memset(0)  # work writes the other
    queue.synchronize()
    assert buffer.to_numpy().tolist() == [4, 0, 0x01010101, 0x01010101]


def test_a_failed_write_does_not_hide_behind_a_later_one_elsewhere(queue):
    buffer, other, broken = filled(queue), DeviceQueue(CPU()), DeviceQueue(CPU())
    broken.enqueue_cpu_function(boom)
    buffer[0:2]._record_use(broken, True)
    other.enqueue_cpu_function(lambda: None)
    buffer[2:4]._record_use(other, True)
    other.synchronize()
    settle(broken)
    with pytest.raises(Boom):
        buffer.to_numpy()
    assert buffer[2:4].to_numpy().tolist() == [0, 0]


def test_batch_copies_of_half_bytes():
    source = Buffer(DType.float4_e2m1fn, (4,))
    for i, value in enumerate((0.5, 1.0, 2.0, 3.0)):
        source[i] = value
    target = Buffer.zeros((4,), DType.float4_e2m1fn)
    batch_inplace_copy([target[i : i + 1] for i in range(4)], [source[i : i + 1] for i in range(4)])
    assert [target[i].item() for i in range(4)] == [0.5, 1.0, 2.0, 3.0]


def test_events_of_one_queue_are_in_order(queue):
    for _ in range(300):
        a, b = DeviceEvent(CPU(), True), DeviceEvent(CPU(), True)
        queue.enqueue_cpu_function(lambda: None)
        queue.record_event(a)
        queue.record_event(b)
        b.synchronize()
        assert a.elapsed_time(b) >= 0


@pytest.mark.parametrize("call", ["queue.wait_for(DeviceQueue(CPU()))", "queue.wait_for(CPU())",
                                  "queue.wait_for(DeviceEvent(CPU()))", "Buffer.zeros((4,), DType.int8)"])
def test_a_full_queue_lets_other_threads_run(call):
    process = start(f"""
        import threading
        from kiln.driver import CPU, Buffer, DeviceEvent, DeviceQueue
        from kiln.dtype import DType

        queue = CPU().default_queue if "zeros" in {call!r} else DeviceQueue(CPU())
        gate = threading.Event()
        queue.enqueue_cpu_function(gate.wait)
        for _ in range(65536):
            queue.enqueue_cpu_function(int)
        threading.Timer(0.2, gate.set).start()
        {call}
        print("went on")
    """)
    output, errors = process.communicate(timeout=60)
    assert (output, errors, process.returncode) == ("went on\n", "", 0)


@pytest.mark.parametrize("body", ["while True: time.sleep(0.01)", "while True: pass", "time.sleep(600)"])
def test_a_function_that_runs_on_does_not_hold_up_the_end(body):
    process = start(f"""
        import sys, time
        from kiln.driver import CPU, DeviceQueue

        def function():
            {body}

        queue = DeviceQueue(CPU())
        queue.enqueue_cpu_function(function)
        time.sleep(0.1)
        sys.exit(7)
    """)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (7, "")


def test_a_daemon_thread_that_drives_a_queue_ends_with_the_process():
    for _ in range(3):
        process = start("""
            import sys, threading, time
            from kiln.driver import CPU, DeviceQueue

            queue = DeviceQueue(CPU())

            def drive():
                while True:
                    queue.synchronize()
                    queue.enqueue_cpu_function(int)

            threading.Thread(target=drive, daemon=True).start()
            time.sleep(0.1)
            sys.exit(6)
        """)
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (6, "")


def test_first_calls_of_several_threads_import_numpy_without_a_deadlock():
    process = start("""
        import threading
        from kiln.driver import Buffer
        from kiln.dtype import DType

        buffer = Buffer.zeros([4], DType.float32)
        threads = [threading.Thread(target=buffer.to_numpy) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    """)
    try:
        assert process.wait(timeout=60) == 0, process.stderr.read()
    finally:
        process.kill()


def test_a_queue_forgets_the_exceptions_that_it_has_delivered(queue):
    live = weakref.WeakSet()

    def fail():
        error = Boom("the work failed")
        live.add(error)
        try:
            raise error
        finally:
            del error

    events = []
    for _ in range(20):
        queue.enqueue_cpu_function(fail)
        events.append(queue.record_event())
        with pytest.raises(Boom):
            queue.synchronize()
    gc.collect()
    assert len(live) <= 1
    # The places are failed as before, and that they are asked for keeps nothing alive.
    for event in events[:2] + events[-1:]:
        with pytest.raises(Boom, match="the work failed"):
            event.synchronize()
    gc.collect()
    assert len(live) <= 1


class Detailed(OSError):
    def __init__(self, place, *, code):
        super().__init__(code, f"at {place}")
        self.place = place


@pytest.mark.parametrize(
    "error", [KeyError("one"), Detailed("here", code=5), SystemExit(3), UnicodeDecodeError("utf8", b"x", 0, 1, "bad")]
)
def test_an_earlier_failure_keeps_its_class_when_the_queue_fails_again(queue, error):
    def fail():
        raise error

    buffer = Buffer(DType.uint8, (4,), queue)
    queue.enqueue_cpu_function(fail)
    buffer.memset(1)
    with pytest.raises(type(error)):
        queue.synchronize()
    queue.enqueue_cpu_function(boom)
    with pytest.raises(Boom):
        queue.synchronize()
    for _ in range(2):
        with pytest.raises(type(error)) as caught:
            buffer.to_numpy()
        assert caught.value.args == error.args and str(caught.value) == str(error)
        assert getattr(caught.value, "place", None) == getattr(error, "place", None)


def test_a_refused_copy_leaves_nothing_behind():
    first, second, third = (DeviceQueue(CPU()) for _ in range(3))
    target, source = (Buffer(DType.uint8, (8,), first) for _ in range(2))
    InferenceSession.debug.queue_order = True
    try:
        second.enqueue_cpu_function(int)
        target._record_use(second, False)
        with pytest.raises(RuntimeError, match="have no order between them"):
            target.inplace_copy_from(source)
        third.enqueue_cpu_function(int)
        source._record_use(third, True)
    finally:
        InferenceSession.debug.reset()
    for queue in (first, second, third):
        queue.synchronize()


def test_polling_a_failed_event_does_not_lengthen_its_traceback(queue):
    def length(error):
        return len(traceback.extract_tb(error.__traceback__))

    queue.enqueue_cpu_function(boom)
    event = queue.record_event()
    lengths = []
    for _ in range(5):
        with pytest.raises(Boom) as caught:
            event.synchronize()
        lengths.append(length(caught.value))
    assert lengths == lengths[:1] * 5
    settle(queue)
