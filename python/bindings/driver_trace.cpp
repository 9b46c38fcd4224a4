#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "driver_casters.h"
#include "kiln/driver/completion_flag.h"
#include "kiln/driver/launch_trace.h"
#include "kiln/driver/trace.h"

namespace kiln::python {
namespace {

using driver::CompletionFlag;
using driver::LaunchTraceEntry;
using driver::MemcpyKind;
using driver::OperationKind;

void bind_launch_trace(nb::module_& m) {
  nb::enum_<OperationKind>(m, "OperationKind", nb::is_arithmetic(), "What a queue was given.")
      .value("KERNEL_LAUNCH", OperationKind::KERNEL_LAUNCH)
      .value("MEMCPY", OperationKind::MEMCPY)
      .value("MEMSET", OperationKind::MEMSET);
  nb::enum_<MemcpyKind>(m, "MemcpyKind", nb::is_arithmetic(), "Between what a copy went.")
      .value("NONE", MemcpyKind::NONE)
      .value("HTOD", MemcpyKind::HTOD)
      .value("DTOH", MemcpyKind::DTOH)
      .value("DTOD", MemcpyKind::DTOD);
  using E = LaunchTraceEntry;
  nb::class_<E>(m, "LaunchTraceEntry",
                "What a CUDA or HIP queue was given; fields of other kinds are zero.")
      .def_ro("kind", &E::kind, "Launch, copy or fill.")
      .def_ro("name", &E::name, "The kernel, or the driver call for copies and fills.")
      .def_ro("stream_index", &E::stream_index, "The queue, in order of first appearance.")
      .def_ro("semantic_hash", &E::semantic_hash, "Of the parameters without addresses.")
      .def_ro("grid_x", &E::grid_x, "Blocks.")
      .def_ro("grid_y", &E::grid_y, "Blocks.")
      .def_ro("grid_z", &E::grid_z, "Blocks.")
      .def_ro("block_x", &E::block_x, "Threads of a block.")
      .def_ro("block_y", &E::block_y, "Threads of a block.")
      .def_ro("block_z", &E::block_z, "Threads of a block.")
      .def_ro("shared_mem_bytes", &E::shared_mem_bytes, "Dynamic shared memory.")
      .def_ro("memcpy_kind", &E::memcpy_kind, "Between what a copy went.")
      .def_ro("memcpy_byte_size", &E::memcpy_byte_size, "Bytes of a copy.")
      .def_ro("memset_byte_size", &E::memset_byte_size, "Bytes of a fill.")
      .def_ro("memset_value", &E::memset_value, "Pattern of a fill.")
      .def_ro("memset_value_size", &E::memset_value_size, "Bytes of the pattern.");
  m.def("begin_launch_trace", &driver::begin_launch_trace,
        "Starts the one recording of what CUDA and HIP queues are given.");
  m.def("take_launch_trace", &driver::take_launch_trace,
        "Stops the recording and returns its entries once, in the order of enqueueing.");
}

void bind_completion_flag(nb::module_& m) {
  nb::class_<CompletionFlag>(m, "CompletionFlag",
                             "A 64-bit cell in page-locked host memory that a CUDA device sees.")
      .def(nb::init<const driver::Device&>(), nb::arg("device"))
      .def_prop_ro("device_ptr", &CompletionFlag::device_ptr, "The address as kernels know it.")
      .def("reset", &CompletionFlag::reset, "Stores 0.")
      .def(
          "signal",
          [](const CompletionFlag& flag, const Integer& v) {
            flag.signal(v.get<std::uint64_t>("CompletionFlag.signal: the value"));
          },
          nb::arg("v"), "Stores with release order.")
      .def("load", &CompletionFlag::load, "Reads with acquire order.");
}

}  // namespace

void bind_driver_trace(nb::module_& m) {
  bind_launch_trace(m);
  bind_completion_flag(m);
  m.def(
      "start_trace", [](Any path) { driver::start_trace(path_of(path)); }, nb::arg("path"),
      "Records what runs on every device, for the file `path`.");
  m.def(
      "stop_trace",
      [] {
        ReleaseGil release;
        driver::stop_trace();
      },
      "Stops, and writes trace-event JSON that Perfetto opens.");
}

}  // namespace kiln::python
