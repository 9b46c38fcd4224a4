#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>

#include "bindings.h"
#include "engine_casters.h"
#include "kiln/support/error.h"
#include "kiln/weights/safetensors.h"

namespace kiln::python {
namespace {

using weights::Safetensors;

/// A list of `part(name, buffer)` over all tensors.
template <typename Part>
nb::list list_of(const Safetensors& tensors, Part part) {
  nb::list list;
  for (const auto& [name, buffer] : tensors) list.append(part(name, buffer));
  return list;
}

nb::list names(const Safetensors& tensors) {
  return list_of(tensors, [](const std::string& name, const driver::Buffer&) { return name; });
}

Safetensors load(Any paths) {
  std::vector<std::string> files;
  if (auto path = to_path(paths)) {
    files.push_back(*path);
  } else if (PyBytes_Check(paths.ptr()) || PyObject_HasAttrString(paths.ptr(), "__iter__") == 0) {
    throw TypeError("load_safetensors expects a path or paths, got " + type_text(paths) + ".");
  } else {
    for (nb::handle item : nb::iter(paths)) {
      auto file = to_path(item);
      if (!file) throw TypeError("Expected paths, got " + type_text(item) + ".");
      files.push_back(*file);
    }
  }
  ReleaseGil release;
  return weights::load_safetensors(files);
}

}  // namespace

void bind_weights(nb::module_& m) {
  nb::class_<Safetensors>(m, "Safetensors",
                          "The tensors of safetensors files by name, mapped, not copied.")
      .def("__init__", refuse_call<Safetensors>("load_safetensors gives Safetensors objects."))
      .def("__len__", &Safetensors::size)
      .def("__contains__",
           [](const Safetensors& t, Any name) {
             return PyUnicode_Check(name.ptr()) && t.contains(nb::cast<std::string>(name));
           })
      .def("__getitem__", [](const Safetensors& t, const std::string& name) { return t[name]; })
      .def("__iter__", [](const Safetensors& t) { return nb::iter(names(t)); })
      .def("keys", &names, "The names, in file order.")
      .def(
          "values",
          [](const Safetensors& t) {
            return list_of(t, [](const auto&, const driver::Buffer& b) { return b; });
          },
          "The buffers, in file order.")
      .def(
          "items",
          [](const Safetensors& t) {
            return list_of(t, [](const std::string& name, const driver::Buffer& b) {
              return nb::make_tuple(name, b);
            });
          },
          "Pairs of name and buffer, in file order.")
      .def(
          "get",
          [](const Safetensors& t, const std::string& name, Any fallback) {
            return t.contains(name) ? nb::cast(t[name]) : nb::borrow(fallback);
          },
          nb::arg("name"), nb::arg("default") = nb::none(), "The buffer, or the default.")
      .def_prop_ro("metadata", &Safetensors::metadata, "The strings of `__metadata__`.")
      .def("__repr__", [](const Safetensors& t) {
        return "<kiln weights Safetensors of " + std::to_string(t.size()) + " tensors>";
      });
  m.def("load_safetensors", &load, nb::arg("paths"),
        "Maps files; a folder stands for its *.safetensors files, sorted by name.");
}

}  // namespace kiln::python
