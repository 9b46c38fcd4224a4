#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <unordered_map>

#include "bindings.h"
#include "driver_casters.h"
#include "kiln/driver/device.h"
#include "kiln/driver/queue.h"

namespace kiln::python {
namespace {

using driver::Device;
using driver::DeviceSpec;

// One object a device for the life of the process, as devices themselves. Guarded by the GIL.
std::unordered_map<Device, PyObject*>& device_objects() {
  static auto* objects = new std::unordered_map<Device, PyObject*>;
  return *objects;
}

void bind_device_class(nb::module_& m) {
  nb::class_<DeviceObject> device(m, "Device", nb::is_weak_referenceable(), R"(
The host or an accelerator: the base of CPU and Accelerator, which open one.

>>> from kiln.driver import CPU
>>> CPU(), CPU().is_host, CPU() is CPU(0)
(Device(type=cpu,id=0), True, True))");
  device.def("__init__", refuse_call<DeviceObject>("CPU() and Accelerator() open devices."));
  const auto property = [&](const char* name, auto getter, const char* doc) {
    device.def_prop_ro(name, [getter](const DeviceObject& d) { return getter(d.device); }, doc);
  };
  property("label", [](const Device& d) { return d.label(); }, "'cpu' or 'gpu'.");
  property("api", [](const Device& d) { return d.api(); }, "'cpu', 'cuda', 'hip' or 'metal'.");
  property("id", [](const Device& d) { return d.id(); }, "Zero-based on this host.");
  property(
      "architecture_name", [](const Device& d) { return d.architecture_name(); },
      "Such as 'sm_90'; RuntimeError on the CPU.");
  property(
      "model_name", [](const Device& d) { return d.model_name(); },
      "The processor's or product's name.");
  property("is_host", [](const Device& d) { return d.is_host(); }, "Whether this is the CPU.");
  property(
      "is_host_unified", [](const Device& d) { return d.is_host_unified(); },
      "Whether device and host share one physical memory.");
  property(
      "is_compatible", [](const Device& d) { return d.is_compatible(); },
      "Whether kiln can run code on it.");
  property(
      "stats", [](const Device& d) { return d.stats(); },
      "'free_memory' and 'total_memory' in bytes, on accelerators more.");
  property(
      "max_single_alloc_size", [](const Device& d) { return d.max_single_alloc_size(); },
      "Bytes of the largest allocation.");
  property(
      "default_queue", [](const Device& d) { return d.default_queue(); },
      "The queue of every buffer made without a queue.");
  device
      .def(
          "synchronize",
          [](const DeviceObject& d) {
            ReleaseGil release;
            d.device.synchronize();
          },
          "Waits for the default queue and raises what it failed with.")
      .def(
          "__unsafe_enqueue_py_host_func",
          [](const DeviceObject& d, Any fn) { enqueue_host_function(d.device, fn); }, nb::arg("fn"),
          "Runs `fn` on the default queue after earlier work; CUDA devices only.")
      .def(
          "__unsafe_enqueue_async_py_host_func",
          [](const DeviceObject& d, Any fn, Any flag, Any value, Any cpu) {
            if (d.device.is_host() || d.device.api() != "cuda") refuse_host_function(d.device);
            enqueue_host_function(d.device.default_queue(), fn, flag, value, cpu);
          },
          nb::arg("fn"), nb::arg("flag"), nb::arg("value"), nb::arg("cpu"),
          "Starts `fn` on the host's workers without stalling the queue; CUDA devices only.")
      .def(
          "trim", [](const DeviceObject& d) { return d.device.trim(); },
          "Gives pooled memory that nobody uses back to the system; returns the bytes.")
      .def(
          "can_access",
          [](const DeviceObject& d, const Device& other) { return d.device.can_access(other); },
          nb::arg("other"), "Whether this device can read memory of the other; False for CPUs.")
      .def("__repr__", [](const DeviceObject& d) { return d.device.to_string(); })
      .def("__eq__",
           [](const DeviceObject& d, Any other) -> nb::object {
             if (!is_device(other)) return nb::borrow(Py_NotImplemented);
             return nb::bool_(d.device == nb::inst_ptr<DeviceObject>(other)->device);
           })
      .def("__hash__",
           [](const DeviceObject& d) {
             return static_cast<Py_ssize_t>(std::hash<Device>()(d.device) >> 4);
           })
      .def("__reduce__",  // opened again where it arrives
           [](nb::handle self) {
             return nb::make_tuple(self.type(), nb::make_tuple(self.attr("id")));
           });

  nb::class_<CPUObject, DeviceObject>(m, "CPU", "The host device.")
      .def(nb::new_([](const Integer&) { return nb::borrow(device_object(driver::CPU())); }),
           nb::arg("id") = -1);
  nb::class_<AcceleratorObject, DeviceObject>(
      m, "Accelerator",
      "An accelerator, -1 for the first. ValueError starting 'failed to create device:' otherwise.")
      .def(nb::new_([](const Integer& id) {
             return nb::borrow(device_object(
                 driver::Accelerator(id.get<int>("failed to create device: the accelerator id"))));
           }),
           nb::arg("id") = -1);
  device.def_static(
      "cpu", [](const Integer&) { return driver::CPU(); }, nb::arg("id") = -1,
      "The host device, whatever the id.");
}

int spec_id(const Integer& id) { return id.get<int>("DeviceSpec: the id"); }

void bind_specs(nb::module_& m) {
  nb::class_<DeviceSpec>(m, "DeviceSpec", "Names a device without opening it.")
      .def(
          "__init__",
          [](DeviceSpec* self, const Integer& id, std::string device_type) {
            new (self) DeviceSpec(spec_id(id), std::move(device_type));
          },
          nb::arg("id"), nb::arg("device_type") = "cpu")
      .def_static(
          "cpu", [](const Integer& id) { return DeviceSpec::cpu(spec_id(id)); }, nb::arg("id") = -1,
          "The host.")
      .def_static(
          "accelerator", [](const Integer& id) { return DeviceSpec::accelerator(spec_id(id)); },
          nb::arg("id") = 0, "An accelerator.")
      .def_prop_ro("id", &DeviceSpec::id, "Zero-based on this host.")
      .def_prop_ro("device_type", &DeviceSpec::device_type, "'cpu' or 'gpu'.")
      .def("__eq__",
           [](const DeviceSpec& a, Any b) -> nb::object {
             if (!nb::isinstance<DeviceSpec>(b)) return nb::borrow(Py_NotImplemented);
             return nb::bool_(a == *nb::inst_ptr<DeviceSpec>(b));
           })
      .def("__hash__",
           [](const DeviceSpec& s) { return nb::hash(nb::make_tuple(s.id(), s.device_type())); })
      .def("__repr__",
           [](const DeviceSpec& s) {
             return "DeviceSpec(id=" + std::to_string(s.id()) + ", device_type='" +
                    s.device_type() + "')";
           })
      .def("__reduce__", [](nb::handle_t<DeviceSpec> self) {
        const DeviceSpec& s = *nb::inst_ptr<DeviceSpec>(self);
        return nb::make_tuple(self.type(), nb::make_tuple(s.id(), s.device_type()));
      });
}

}  // namespace

bool is_device(nb::handle object) {
  return nb::isinstance<DeviceObject>(object) && nb::inst_ready(object);
}

PyObject* device_object(const Device& device) {
  auto& objects = device_objects();
  if (auto found = objects.find(device); found != objects.end()) return found->second;
  nb::object object =
      device.is_host() ? nb::cast(CPUObject{{device}}) : nb::cast(AcceleratorObject{{device}});
  return objects.emplace(device, object.release().ptr()).first->second;
}

void bind_driver_device(nb::module_& m) {
  bind_device_class(m);
  bind_specs(m);
  m.def("accelerator_count", &driver::accelerator_count,
        "Number of accelerators; a missing or unusable vendor driver counts as 0.");
  m.def("accelerator_api", &driver::accelerator_api, "`api` of accelerator 0, else 'cpu'.");
  m.def("accelerator_architecture_name", &driver::accelerator_architecture_name,
        "Of accelerator 0; RuntimeError without one.");
  m.def(
      "load_devices",
      [](const std::vector<DeviceSpec>& specs) { return driver::load_devices(specs); },
      nb::arg("specs"), "Opens each spec, in order.");
  m.def("scan_available_devices", &driver::scan_available_devices,
        "One spec per accelerator; one CPU spec when there is none.");
  m.def(
      "devices_exist",
      [](const std::vector<DeviceSpec>& specs) { return driver::devices_exist(specs); },
      nb::arg("specs"), "Whether every spec that is no CPU is in the scan.");
  m.def("enable_all_peer_access", &driver::enable_all_peer_access,
        "Lets accelerators read each other's memory; RuntimeError when a pair cannot.");
}

}  // namespace kiln::python
