// Python frames as the source locations of ops.

#include "bindings.h"
#include "driver_casters.h"
#include "kiln/graph/location.h"
#include "kiln/support/call_site.h"
#include "kiln/support/warning.h"

namespace kiln::python {
namespace {

std::string& package_folder() {
  static auto* folder = new std::string;  // ends with a separator; leaked, read until the end
  return *folder;
}

graph::ir::SourceFrame source_frame(nb::handle frame, const std::string& file, bool with_text) {
  graph::ir::SourceFrame result{file, PyFrame_GetLineNumber((PyFrameObject*)frame.ptr()), {}};
  if (with_text) {
    nb::object line = nb::module_::import_("linecache").attr("getline")(result.file, result.line);
    result.text = nb::cast<std::string>(line.attr("strip")());
  }
  return result;
}

/// The innermost frame outside of the package, or all of them.
std::vector<graph::ir::SourceFrame> user_frames(bool full) {
  std::vector<graph::ir::SourceFrame> frames;
  nb::object frame = nb::borrow(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame.is_valid() && !frame.is_none()) {
    const auto file = nb::cast<std::string>(frame.attr("f_code").attr("co_filename"));
    // Without kiln.graph no Python code of the package stands between the user and the driver.
    if (package_folder().empty() || !file.starts_with(package_folder())) {
      frames.push_back(source_frame(frame, file, full));
      if (!full) break;
    }
    frame = frame.attr("f_back");
  }
  return frames;
}

graph::ir::SourceLocation provide(bool full) {
  if (!PyGILState_Check()) return nullptr;
  try {
    auto frames = user_frames(full);
    if (frames.empty()) return nullptr;
    return std::make_shared<const std::vector<graph::ir::SourceFrame>>(std::move(frames));
  } catch (...) {
    PyErr_Clear();
    return nullptr;
  }
}

std::string call_site_in_python() {
  nb::gil_scoped_acquire gil;  // calls that wait have released it
  const graph::ir::SourceLocation frames = provide(/*full=*/false);
  if (!frames) return {};
  return frames->front().file + ":" + std::to_string(frames->front().line);
}

void warn_in_python(std::string_view text) {
  nb::gil_scoped_acquire gil;
  if (!gil) return;
  if (PyErr_WarnEx(PyExc_UserWarning, std::string(text).c_str(), 1) != 0) throw nb::python_error();
}

}  // namespace

void bind_graph_location(nb::module_& m) {
  m.def(
      "_set_package_folder", [](std::string folder) { package_folder() = std::move(folder); },
      nb::arg("folder"));
  graph::set_location_provider(&provide);
  set_call_site_provider(&call_site_in_python);
  set_warning_handler(&warn_in_python);
}

}  // namespace kiln::python
