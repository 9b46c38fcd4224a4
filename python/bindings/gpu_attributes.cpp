// Attributes of devices, kernels and launches.

#include <nanobind/stl/string.h>

#include "bindings.h"
#include "driver_casters.h"
#include "gpu_casters.h"
#include "kiln/gpu/attributes.h"

namespace kiln::python {

using gpu::Attribute;
using gpu::DeviceAttribute;
using gpu::Dim;
using gpu::FuncAttribute;
using gpu::LaunchAttribute;

Dim to_dim(nb::handle object, const char* name) {
  const auto component = [&](nb::handle item) {
    const nb::object number = integer_of(item);
    if (!number.is_valid())
      throw TypeError(std::string(name) + " is an int or a tuple of up to three ints, got " +
                      repr_of(object) + ".");
    return checked_integer<std::int64_t>(number, name);
  };
  if (!PyTuple_Check(object.ptr()) && !PyList_Check(object.ptr())) return Dim(component(object));
  std::vector<std::int64_t> values;
  for (nb::handle item : nb::iter(object)) values.push_back(component(item));
  switch (values.size()) {
    case 1:
      return Dim(values[0]);
    case 2:
      return Dim(values[0], values[1]);
    case 3:
      return Dim(values[0], values[1], values[2]);
    default:
      throw TypeError(std::string(name) + " is an int or a tuple of one to three ints, got " +
                      std::to_string(values.size()) + ".");
  }
}

void bind_gpu_attributes(nb::module_& m) {
  nb::enum_<DeviceAttribute> attribute(m, "DeviceAttribute", nb::is_arithmetic(),
                                       "What a device can do.");
#define KILN_VALUE(name) attribute.value(#name, DeviceAttribute::name)
  KILN_VALUE(MAX_THREADS_PER_BLOCK);
  KILN_VALUE(MAX_BLOCK_DIM_X);
  KILN_VALUE(MAX_BLOCK_DIM_Y);
  KILN_VALUE(MAX_BLOCK_DIM_Z);
  KILN_VALUE(MAX_GRID_DIM_X);
  KILN_VALUE(MAX_GRID_DIM_Y);
  KILN_VALUE(MAX_GRID_DIM_Z);
  KILN_VALUE(MAX_SHARED_MEMORY_PER_BLOCK);
  KILN_VALUE(WARP_SIZE);
  KILN_VALUE(MAX_REGISTERS_PER_BLOCK);
  KILN_VALUE(CLOCK_RATE);
  KILN_VALUE(MULTIPROCESSOR_COUNT);
  KILN_VALUE(MAX_THREADS_PER_MULTIPROCESSOR);
  KILN_VALUE(COMPUTE_CAPABILITY_MAJOR);
  KILN_VALUE(COMPUTE_CAPABILITY_MINOR);
  KILN_VALUE(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  KILN_VALUE(MAX_REGISTERS_PER_MULTIPROCESSOR);
  KILN_VALUE(COOPERATIVE_LAUNCH);
  KILN_VALUE(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  KILN_VALUE(MAX_BLOCKS_PER_MULTIPROCESSOR);
  KILN_VALUE(MAX_ACCESS_POLICY_WINDOW_SIZE);
  KILN_VALUE(PARALLELISM_LEVEL);
#undef KILN_VALUE
  nb::enum_<Attribute> kernel(m, "Attribute", nb::is_arithmetic(),
                              "What a compiled kernel needs and how it is configured.");
#define KILN_VALUE(name) kernel.value(#name, Attribute::name)
  KILN_VALUE(MAX_THREADS_PER_BLOCK);
  KILN_VALUE(SHARED_SIZE_BYTES);
  KILN_VALUE(CONST_SIZE_BYTES);
  KILN_VALUE(LOCAL_SIZE_BYTES);
  KILN_VALUE(NUM_REGS);
  KILN_VALUE(PTX_VERSION);
  KILN_VALUE(BINARY_VERSION);
  KILN_VALUE(CACHE_MODE_CA);
  KILN_VALUE(MAX_DYNAMIC_SHARED_SIZE_BYTES);
  KILN_VALUE(PREFERRED_SHARED_MEMORY_CARVEOUT);
  KILN_VALUE(CLUSTER_SIZE_MUST_BE_SET);
  KILN_VALUE(REQUIRED_CLUSTER_WIDTH);
  KILN_VALUE(REQUIRED_CLUSTER_HEIGHT);
  KILN_VALUE(REQUIRED_CLUSTER_DEPTH);
  KILN_VALUE(NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
  KILN_VALUE(CLUSTER_SCHEDULING_POLICY_PREFERENCE);
#undef KILN_VALUE

  nb::class_<FuncAttribute>(m, "FuncAttribute", "A setting of one kernel.")
      .def(nb::init<std::int32_t, std::int32_t>(), nb::arg("attribute") = -1, nb::arg("value") = -1)
      .def_static("CACHE_MODE_CA", &FuncAttribute::CACHE_MODE_CA, nb::arg("value"),
                  "Whether global loads are cached in L1.")
      .def_static("MAX_DYNAMIC_SHARED_SIZE_BYTES", &FuncAttribute::MAX_DYNAMIC_SHARED_SIZE_BYTES,
                  nb::arg("bytes"), "The most dynamic shared memory of a launch.")
      .def_static("PREFERRED_SHARED_MEMORY_CARVEOUT",
                  &FuncAttribute::PREFERRED_SHARED_MEMORY_CARVEOUT, nb::arg("percent"),
                  "The part of L1 that is shared memory.")
      .def_ro("attribute", &FuncAttribute::attribute, "Its code.")
      .def_ro("value", &FuncAttribute::value, "What it is set to.")
      .def("__eq__",
           [](const FuncAttribute& a, Any b) -> nb::object {
             if (!nb::isinstance<FuncAttribute>(b)) return nb::borrow(Py_NotImplemented);
             return nb::bool_(a == *nb::inst_ptr<FuncAttribute>(b));
           })
      .def("__hash__",
           [](const FuncAttribute& a) { return (Py_ssize_t{a.attribute} << 32) ^ a.value; });
  m.attr("FuncAttribute").attr("NULL_ATTRIBUTE") = nb::cast(FuncAttribute::NULL_ATTRIBUTE);

  nb::class_<LaunchAttribute> launch_attribute(m, "LaunchAttribute", "A setting of one launch.");
  nb::enum_<LaunchAttribute::Id>(launch_attribute, "Id", nb::is_arithmetic(), "Which setting.")
      .value("IGNORE", LaunchAttribute::IGNORE)
      .value("ACCESS_POLICY_WINDOW", LaunchAttribute::ACCESS_POLICY_WINDOW)
      .value("COOPERATIVE", LaunchAttribute::COOPERATIVE)
      .value("SYNCHRONIZATION_POLICY", LaunchAttribute::SYNCHRONIZATION_POLICY)
      .value("CLUSTER_DIMENSION", LaunchAttribute::CLUSTER_DIMENSION)
      .value("CLUSTER_SCHEDULING_POLICY_PREFERENCE",
             LaunchAttribute::CLUSTER_SCHEDULING_POLICY_PREFERENCE)
      .value("PROGRAMMATIC_STREAM_SERIALIZATION",
             LaunchAttribute::PROGRAMMATIC_STREAM_SERIALIZATION)
      .value("PROGRAMMATIC_EVENT", LaunchAttribute::PROGRAMMATIC_EVENT)
      .value("PRIORITY", LaunchAttribute::PRIORITY)
      .value("MEM_SYNC_DOMAIN_MAP", LaunchAttribute::MEM_SYNC_DOMAIN_MAP)
      .value("MEM_SYNC_DOMAIN", LaunchAttribute::MEM_SYNC_DOMAIN)
      .value("LAUNCH_COMPLETION_EVENT", LaunchAttribute::LAUNCH_COMPLETION_EVENT)
      .value("DEVICE_UPDATABLE_KERNEL_NODE", LaunchAttribute::DEVICE_UPDATABLE_KERNEL_NODE)
      .value("PREFERRED_SHARED_MEMORY_CARVEOUT", LaunchAttribute::PREFERRED_SHARED_MEMORY_CARVEOUT)
      .export_values();
  launch_attribute
      .def(
          "__init__",
          [](LaunchAttribute* self, LaunchAttribute::Id id, Any value) {
            new (self) LaunchAttribute{
                id, PyBool_Check(value.ptr()) ? LaunchAttribute::Value(value.ptr() == Py_True)
                    : value.is_none()         ? LaunchAttribute::Value()
                                              : LaunchAttribute::Value(to_dim(value, "value"))};
          },
          nb::arg("id") = LaunchAttribute::IGNORE, nb::arg("value") = nb::none())
      .def_static(
          "from_cluster_dim",
          [](Any dim) { return LaunchAttribute::from_cluster_dim(to_dim(dim, "dim")); },
          nb::arg("dim"), "Blocks that run together.")
      .def_ro("id", &LaunchAttribute::id, "Which setting.");
}

}  // namespace kiln::python
