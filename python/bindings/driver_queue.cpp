#include <nanobind/stl/string.h>

#include "bindings.h"
#include "driver_casters.h"
#include "kiln/driver/backend.h"
#include "kiln/driver/completion_flag.h"
#include "kiln/driver/event.h"
#include "kiln/driver/queue.h"
#include "kiln/gpu/device_stream.h"
#include "kiln/support/trace.h"
#include "python_function.h"

namespace kiln::python {
namespace {

using driver::Device;
using driver::DeviceEvent;
using driver::DeviceQueue;

template <typename Class, typename T>
void def_identity(Class& cls) {
  cls.def("__eq__",
          [](const T& a, Any b) -> nb::object {
            if (!nb::isinstance<T>(b)) return nb::borrow(Py_NotImplemented);
            return nb::bool_(a == *nb::inst_ptr<T>(b));
          })
      .def("__hash__", [](const T& a) { return static_cast<Py_ssize_t>(std::hash<T>()(a) >> 4); })
      .def("__repr__", [](const T& a) { return a.to_string(); });
}

/// What a trace calls a Python function.
std::string name_of(nb::handle function) {
  nb::object name = nb::getattr(function, "__qualname__", nb::none());
  return PyUnicode_Check(name.ptr()) ? str_of(name) : str_of(function.type().attr("__name__"));
}

}  // namespace

namespace {

void require_cuda(const Device& device, const std::string& variant) {
  if (!device.is_host()) (void)device.default_queue();  // a virtual device says what it is
  if (device.api() == "cuda") return;
  throw RuntimeError("__unsafe_enqueue_" + variant +
                     "py_host_func needs a CUDA device, but the api of " + device.to_string() +
                     " is '" + std::string(device.api()) + "'.");
}

/// Calls a function and prints what it raises; any thread may run and drop it.
std::function<void()> printing(nb::callable function) {
  return [callback = callback_of(function)] {
    try {
      callback();
    } catch (const FunctionError& error) {
      nb::gil_scoped_acquire gil;
      error.restore();
      PyErr_Print();
    }
  };
}

/// Runs `function` once on a thread of the driver, behind the queue's present work.
void enqueue_on_driver(const DeviceQueue& queue, std::function<void()> function) {
  auto held = std::make_unique<std::function<void()>>(std::move(function));
  ReleaseGil release;
  gpu::DeviceStream(queue).enqueue_host_func(
      [](void* data) {
        const std::unique_ptr<std::function<void()>> call(
            static_cast<std::function<void()>*>(data));
        (*call)();
      },
      held.get());
  (void)held.release();
}

}  // namespace

void refuse_host_function(const Device& device) { require_cuda(device, "async_"); }

void enqueue_host_function(const Device& device, nb::handle function) {
  require_cuda(device, "");
  enqueue_on_driver(device.default_queue(), printing(nb::cast<nb::callable>(function)));
}

void enqueue_host_function(const DeviceQueue& queue, nb::handle function, nb::handle flag,
                           nb::handle value, nb::handle cpu) {
  require_cuda(queue.device(), "async_");
  if (!nb::isinstance<driver::CompletionFlag>(flag))
    throw TypeError("__unsafe_enqueue_async_py_host_func expects a CompletionFlag, got " +
                    type_text(flag) + ".");
  if (!is_device(cpu) || !nb::cast<Device>(cpu).is_host())
    throw TypeError("__unsafe_enqueue_async_py_host_func expects the CPU for `cpu`, got " +
                    repr_of(cpu) + ".");
  const auto number = checked_integer<std::uint64_t>(
      integer_of(value), "__unsafe_enqueue_async_py_host_func: the value");
  const DeviceQueue workers = nb::cast<Device>(cpu).default_queue();
  enqueue_on_driver(queue, [workers, run = printing(nb::cast<nb::callable>(function)),
                            cell = *nb::inst_ptr<driver::CompletionFlag>(flag), number] {
    workers.enqueue_foreign_function(
        [run, cell, number] {
          run();
          cell.signal(number);
        },
        "__unsafe_enqueue_async_py_host_func");
  });
}

void bind_driver_queue(nb::module_& m) {
  nb::class_<DeviceEvent> event(m, "DeviceEvent", nb::is_weak_referenceable(),
                                "A mark in the work of a queue.");
  nb::class_<DeviceQueue> queue(m, "DeviceQueue", nb::is_weak_referenceable(), R"(
An in-order queue of work on one device.

>>> from kiln.driver import CPU, DeviceQueue
>>> queue = DeviceQueue(CPU())
>>> done = []
>>> queue.enqueue_cpu_function(lambda: done.append("on the queue"))
>>> queue.synchronize()
>>> done
['on the queue'])");

  event.def(nb::init<const Device&, bool>(), nb::arg("device"), nb::arg("enable_timing") = false)
      .def_prop_ro("device", &DeviceEvent::device, "The device it was made for.")
      .def("synchronize", &DeviceEvent::synchronize, nb::call_guard<ReleaseGil>(),
           "Blocks for the recorded point; at once when never recorded.")
      .def("is_ready", &DeviceEvent::is_ready, "Whether the recorded point has been reached.")
      .def("elapsed_time", &DeviceEvent::elapsed_time, nb::arg("end"),
           "Milliseconds from this event to `end`.");
  def_identity<nb::class_<DeviceEvent>, DeviceEvent>(event);

  queue.def(nb::init<const Device&>(), nb::arg("device"))
      .def_prop_ro("device", &DeviceQueue::device, "The device that runs its work.")
      .def_prop_ro("native_stream_handle", &DeviceQueue::native_stream_handle,
                   "The vendor's stream; 0 on the CPU.")
      .def("synchronize", &DeviceQueue::synchronize, nb::call_guard<ReleaseGil>(),
           "Blocks until everything enqueued so far has run; raises what failed.")
      .def("record_event", nb::overload_cast<>(&DeviceQueue::record_event, nb::const_),
           "A new event that marks the queue's present end.")
      .def("record_event",
           nb::overload_cast<const DeviceEvent&>(&DeviceQueue::record_event, nb::const_),
           nb::arg("event"), "Moves the event's mark to the queue's present end.")
      .def("wait_for", nb::overload_cast<const DeviceQueue&>(&DeviceQueue::wait_for, nb::const_),
           nb::arg("queue"), nb::call_guard<ReleaseGil>(),
           "Later work here starts after the other queue's present work.")
      .def("wait_for", nb::overload_cast<const Device&>(&DeviceQueue::wait_for, nb::const_),
           nb::arg("device"), nb::call_guard<ReleaseGil>(),
           "Later work here starts after the default queue's present work.")
      .def("wait_for", nb::overload_cast<const DeviceEvent&>(&DeviceQueue::wait_for, nb::const_),
           nb::arg("event"), nb::call_guard<ReleaseGil>(),
           "Later work here starts after the event's present mark.")
      .def(
          "wait_for_host_value",
          [](const DeviceQueue& q, Any flag, const Integer& value) {
            // A queue that has no such wait says so whatever it is given.
            if (!nb::isinstance<driver::CompletionFlag>(flag)) {
              if (q.device().api() != "cuda") q.backend()->wait_for_host_value(0, 0);
              throw TypeError("wait_for_host_value expects a CompletionFlag, got " +
                              type_text(flag) + ".");
            }
            q.wait_for_host_value(*nb::inst_ptr<driver::CompletionFlag>(flag),
                                  value.get<std::uint64_t>("wait_for_host_value: the value"));
          },
          nb::arg("flag"), nb::arg("value"),
          "Later work here starts once the flag holds `value`; CUDA queues only.")
      .def(
          "__unsafe_enqueue_async_py_host_func",
          [](const DeviceQueue& q, Any fn, Any flag, Any value, Any cpu) {
            enqueue_host_function(q, fn, flag, value, cpu);
          },
          nb::arg("fn"), nb::arg("flag"), nb::arg("value"), nb::arg("cpu"),
          "Starts `fn` on the host's workers without stalling the queue; CUDA queues only.")
      .def(
          "enqueue_cpu_function",
          [](const DeviceQueue& q, nb::callable fn) {
            auto callback = callback_of(fn);
            std::string name = tracing() ? name_of(fn) : std::string();
            ReleaseGil release;  // a full queue waits for room
            q.enqueue_foreign_function(std::move(callback), std::move(name));
          },
          nb::arg("fn"),
          "Runs `fn()` on the queue's worker after earlier work; its exception fails the "
          "queue.");
  def_identity<nb::class_<DeviceQueue>, DeviceQueue>(queue);
}

}  // namespace kiln::python
