#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "driver_casters.h"
#include "kiln/driver/symmetric_pool.h"

namespace kiln::python {
namespace {

using driver::Device;
using driver::SymmetricPool;

/// A sequence of devices, looked at one by one.
std::vector<Device> devices_of(nb::handle sequence) {
  std::vector<Device> devices;
  for (nb::handle item : nb::iter(sequence)) {
    if (!is_device(item))
      throw TypeError("SymmetricPool: expected devices, got " + repr_of(item) + " of " +
                      type_text(item) + ".");
    devices.push_back(nb::cast<Device>(item));
  }
  return devices;
}

}  // namespace

void bind_driver_symmetric_pool(nb::module_& m) {
  nb::class_<SymmetricPool> pool(m, "SymmetricPool", R"(
One block of memory on each device of a set, mapped as the device's own memory and as an address
that the switch multicasts to. The driver keeps one pool for each set until the process ends.

>>> from kiln.driver import CPU, SymmetricPool
>>> devices = [CPU()]
>>> pool = SymmetricPool.lookup(devices)
>>> if pool is None and SymmetricPool.is_supported(devices):
...     pool = SymmetricPool.allocate(devices, 1 << 20)
>>> pool is None
True)");
  pool.def("__init__", refuse_call<SymmetricPool>(
                           "SymmetricPool.allocate makes a pool, SymmetricPool.lookup finds one."))
      .def_static(
          "allocate",
          [](Any devices, const Integer& byte_size) {
            const auto list = devices_of(devices);
            const auto bytes = byte_size.get<std::int64_t>("SymmetricPool.allocate: byte_size");
            ReleaseGil release;
            return SymmetricPool::allocate(list, bytes);
          },
          nb::arg("devices"), nb::arg("byte_size"),
          "Reserves at least `byte_size` bytes on each device and registers the pool.")
      .def_static(
          "lookup", [](Any devices) { return SymmetricPool::lookup(devices_of(devices)); },
          nb::arg("devices"), "The pool of these devices in any order, or None.")
      .def_static(
          "is_supported",
          [](Any devices) { return SymmetricPool::is_supported(devices_of(devices)); },
          nb::arg("devices"), "Whether every one of at least two devices can multicast.")
      .def_prop_ro("byte_size", &SymmetricPool::byte_size, "As it was asked for.")
      .def(
          "unicast_view",
          [](const SymmetricPool& p, const Device& d) { return make_buffer(p.unicast_view(d)); },
          nb::arg("device"), nb::sig("def unicast_view(self, device: Device) -> Buffer"),
          "The device's own memory as a flat buffer of uint8.")
      .def(
          "multicast_view",
          [](const SymmetricPool& p, const Device& d) { return make_buffer(p.multicast_view(d)); },
          nb::arg("device"), nb::sig("def multicast_view(self, device: Device) -> Buffer"),
          "The same bytes of all devices, for kernels that use multicast instructions alone.");
}

}  // namespace kiln::python
