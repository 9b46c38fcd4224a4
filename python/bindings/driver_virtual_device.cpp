#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "driver_casters.h"
#include "kiln/driver/virtual_device.h"
#include "kiln/support/error.h"

namespace kiln::python {
namespace {

using driver::DeviceInput;
using driver::DeviceSpec;

constexpr const char* kFromCli = "calculate_virtual_device_count_from_cli";

/// Unparsed device choices: a text, or a list of ids.
DeviceInput to_device_input(nb::handle object) {
  if (PyUnicode_Check(object.ptr())) return nb::cast<std::string>(object);
  if (!PySequence_Check(object.ptr()))
    throw TypeError("Devices are chosen by a text or a list of ints, not by " + type_text(object) +
                    ".");
  std::vector<int> ids;
  for (nb::handle id : nb::iter(object)) {
    nb::object number = integer_of(id);
    if (!number.is_valid())
      throw ValueError(std::string(kFromCli) + ": a list of accelerators holds ints, but " +
                       repr_of(id) + " is none. Write [0, 3] or 'gpu:0,3'.");
    ids.push_back(checked_integer<int>(number, std::string(kFromCli) + ": the accelerator id"));
  }
  return ids;
}

}  // namespace

void bind_driver_virtual_device(nb::module_& m) {
  m.def(
      "set_virtual_device_count",
      [](const Integer& n) {
        driver::set_virtual_device_count(n.get<int>("set_virtual_device_count: the count"));
      },
      nb::arg("n"),
      "Above 0: accelerators opened from then on are virtual, for compiling without hardware.");
  m.def("get_virtual_device_count", &driver::get_virtual_device_count,
        "The number of virtual devices; 0 when the mode is off.");
  m.def("is_virtual_device_mode", &driver::is_virtual_device_mode,
        "Whether accelerators are virtual.");
  m.def("set_virtual_device_api", &driver::set_virtual_device_api, nb::arg("api"),
        "'cuda', 'hip' or 'metal'; set before the count.");
  m.def("get_virtual_device_api", &driver::get_virtual_device_api, "'' when unset.");
  m.def("set_virtual_device_target_arch", &driver::set_virtual_device_target_arch, nb::arg("arch"),
        "Such as 'sm_90'; set before the count.");
  m.def("get_virtual_device_target_arch", &driver::get_virtual_device_target_arch,
        "'' when unset.");
  m.def("set_virtual_cpu_target", &driver::set_virtual_cpu_target, nb::arg("cpu"),
        "What later compiles are made for: a processor's name, 'generic', or '' for this host.");
  m.def("get_virtual_cpu_target", &driver::get_virtual_cpu_target, "'' for this host.");
  m.def(
      "calculate_virtual_device_count",
      [](nb::args spec_lists) {
        std::vector<std::vector<DeviceSpec>> lists;
        for (nb::handle list : spec_lists) lists.push_back(nb::cast<std::vector<DeviceSpec>>(list));
        return driver::calculate_virtual_device_count(lists);
      },
      nb::arg("spec_lists"), "The highest accelerator id in any list + 1, at least 1.");
  m.def(
      kFromCli,
      [](nb::args inputs) {
        std::vector<DeviceInput> parsed;
        for (nb::handle input : inputs) parsed.push_back(to_device_input(input));
        return driver::calculate_virtual_device_count_from_cli(parsed);
      },
      nb::arg("inputs"), R"(
The same from unparsed input.

>>> from kiln.driver import calculate_virtual_device_count_from_cli
>>> calculate_virtual_device_count_from_cli("gpu:0,3", [1])
4)");
}

}  // namespace kiln::python
