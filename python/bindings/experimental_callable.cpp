// The short way through a CompiledCallable: arguments whose structure, types and sizes are as they
// were staged. Whatever is not takes the long way in Python, which says what is wrong.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <vector>

#include "bindings.h"
#include "driver_casters.h"
#include "engine_casters.h"
#include "experimental_call.h"
#include "kiln/engine/compiled_model.h"
#include "kiln/engine/model.h"
#include "kiln/experimental/compilation.h"

namespace kiln::python {
namespace {

using driver::Buffer;
using experimental::Tensor;

/// A kiln.tree.TreeDef as calls read it.
struct Structure {
  enum class Kind : std::uint8_t { leaf, constant, list, tuple, dict, other };

  Kind kind = Kind::other;
  std::vector<Structure> children;
  std::vector<nb::object> keys;  // of a dict
  nb::object value;              // of a constant; of a namedtuple its class

  explicit Structure(nb::handle structure) {
    const auto name = nb::cast<std::string>(structure.attr("kind"));
    for (nb::handle child : nb::iter(structure.attr("children"))) children.emplace_back(child);
    nb::object meta = structure.attr("meta");
    if (name == "leaf") {
      kind = Kind::leaf;
    } else if (name == "static") {
      kind = Kind::constant;
      value = std::move(meta);
    } else if (name == "list") {
      kind = Kind::list;
    } else if (name == "tuple") {
      kind = Kind::tuple;
    } else if (name == "dict" &&
               nb::object(meta.attr("cls")).is(nb::handle((PyObject*)&PyDict_Type))) {
      kind = Kind::dict;
      for (nb::handle key : nb::iter(structure.attr("keys"))) keys.push_back(nb::borrow(key));
    }
  }

  /// Whether it is made of what this file knows.
  bool is_plain() const {
    if (kind == Kind::other) return false;
    return std::all_of(children.begin(), children.end(),
                       [](const Structure& child) { return child.is_plain(); });
  }

  /// Adds what `object` holds at the leaves; false when it is not known to be of this structure.
  bool match(PyObject* object, std::vector<PyObject*>& leaves) const {
    switch (kind) {
      case Kind::leaf:
        leaves.push_back(object);
        return true;
      case Kind::constant:
        return is_same(object);
      case Kind::list:
        if (!PyList_CheckExact(object) || PyList_Size(object) != size()) return false;
        for (Py_ssize_t i = 0; i < size(); ++i)
          if (!child(i).match(PyList_GetItem(object, i), leaves)) return false;
        return true;
      case Kind::tuple:
        if (!PyTuple_CheckExact(object) || PyTuple_Size(object) != size()) return false;
        for (Py_ssize_t i = 0; i < size(); ++i)
          if (!child(i).match(PyTuple_GetItem(object, i), leaves)) return false;
        return true;
      case Kind::dict:
        if (!PyDict_CheckExact(object) || PyDict_Size(object) != size()) return false;
        for (Py_ssize_t i = 0; i < size(); ++i) {
          PyObject* item = PyDict_GetItemWithError(object, keys[static_cast<std::size_t>(i)].ptr());
          if (!item) return PyErr_Clear(), false;
          if (!child(i).match(item, leaves)) return false;
        }
        return true;
      case Kind::other:
        return false;
    }
    return false;
  }

  /// A value of this structure, with the next of `leaves` at each leaf.
  nb::object build(engine::Model::Outputs& leaves, std::size_t& next) const {
    switch (kind) {
      case Kind::leaf:
        return make_tensor(Tensor(std::move(leaves[next++])));
      case Kind::list: {
        nb::object list = nb::steal(PyList_New(size()));
        for (Py_ssize_t i = 0; i < size(); ++i)
          PyList_SetItem(list.ptr(), i, child(i).build(leaves, next).release().ptr());
        return list;
      }
      case Kind::tuple: {
        nb::object tuple = nb::steal(PyTuple_New(size()));
        for (Py_ssize_t i = 0; i < size(); ++i)
          PyTuple_SetItem(tuple.ptr(), i, child(i).build(leaves, next).release().ptr());
        return tuple;
      }
      case Kind::dict: {
        nb::dict dict;
        for (std::size_t i = 0; i < children.size(); ++i)
          dict[keys[i]] = children[i].build(leaves, next);
        return std::move(dict);
      }
      default:
        return value;
    }
  }

 private:
  Py_ssize_t size() const { return static_cast<Py_ssize_t>(children.size()); }
  const Structure& child(Py_ssize_t i) const { return children[static_cast<std::size_t>(i)]; }

  bool is_same(PyObject* object) const {
    PyObject* own = value.ptr();
    if (object == own) return true;
    // Only of Python's own numbers and texts is it known that to compare them runs no other code.
    if (Py_TYPE(object) != Py_TYPE(own) ||
        !(PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyUnicode_CheckExact(object)))
      return false;
    return PyObject_RichCompareBool(object, own, Py_EQ) == 1;
  }
};

/// What an argument must be.
struct Expected {
  bool is_buffer;
  DType dtype;
  driver::Device device;
  std::vector<std::int64_t> shape;  // -1: any

  bool fits(const Buffer& buffer) const {
    if (buffer.dtype() != dtype || !buffer.is_contiguous()) return false;
    if (is_buffer) return true;
    if (buffer.device() != device || static_cast<std::size_t>(buffer.rank()) != shape.size())
      return false;
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
      if (shape[axis] >= 0 && shape[axis] != buffer.shape()[axis]) return false;
    return true;
  }
};

struct FastCall {
  engine::Model model;
  Structure arguments, results;
  std::vector<Expected> expected;
};

const Buffer* buffer_at(PyObject* object) {
  if (is_tensor(object)) {
    const Tensor& tensor = tensor_of(object);
    return tensor.real() && !tensor.is_distributed() ? &tensor.driver_tensor() : nullptr;
  }
  return is_buffer(object) ? &buffer_of(object) : nullptr;
}

nb::object call(const FastCall& self, nb::handle arguments, nb::handle keywords) {
  const nb::object refused = nb::borrow(Py_NotImplemented);
  std::vector<PyObject*> leaves;
  leaves.reserve(self.expected.size());
  if (!self.arguments.children[0].match(arguments.ptr(), leaves) ||
      !self.arguments.children[1].match(keywords.ptr(), leaves))
    return refused;
  constexpr std::size_t kFew = 8;
  Buffer few[kFew];
  std::vector<Buffer> many(leaves.size() > kFew ? leaves.size() : 0);
  Buffer* buffers = leaves.size() > kFew ? many.data() : few;
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const Buffer* buffer = buffer_at(leaves[i]);
    if (!buffer || !self.expected[i].fits(*buffer)) return refused;
    elements += buffer->num_elements();
    buffers[i] = *buffer;
  }
  const std::span<const Buffer> inputs(buffers, leaves.size());
  engine::Model::Outputs outputs;
  // With the GIL the call may not wait: what it waits for might need the GIL.
  if (elements > kSmallCall || !self.model.try_execute(inputs, outputs)) {
    ReleaseGil release;
    outputs = self.model.execute(inputs);
  }
  std::size_t next = 0;
  return self.results.build(outputs, next);
}

}  // namespace

void bind_experimental_callable(nb::module_& m) {
  nb::class_<FastCall>(m, "_FastCall")
      .def("__call__", &call, nb::arg("arguments"), nb::arg("keywords"),
           "The result, or NotImplemented for arguments that are not as they were staged.");
  m.def(
      "_check_part_names",
      [](nb::handle layouts, const std::vector<std::string>& routes) {
        std::vector<experimental::detail::Argument> arguments;
        std::size_t next = 0;
        for (nb::handle layout : nb::iter(layouts))
          arguments.push_back(
              {routes.at(next++), *nb::inst_ptr<experimental::TensorLayout>(layout)});
        experimental::detail::check_part_names(arguments);
      },
      nb::arg("layouts"), nb::arg("routes"),
      "Whether parts of split sizes have names that mean one thing in all arguments, else a "
      "ValueError.");
  m.def(
      "_is_made_from",
      [](nb::handle model, const engine::CompiledModel& compiled) {
        return model_of(model).is_made_from(compiled);
      },
      nb::arg("model"), nb::arg("artifact"), "Whether the model runs the code of the artifact.");
  m.def(
      "_fast_call",
      [](nb::handle model, nb::handle in_tree, nb::handle out_tree,
         nb::handle arguments) -> nb::object {
        Structure in(in_tree), out(out_tree);
        if (!in.is_plain() || !out.is_plain() || in.children.size() != 2) return nb::none();
        std::vector<Expected> expected;
        for (nb::handle argument : nb::iter(arguments))
          expected.push_back({nb::cast<bool>(argument[0]), nb::cast<DType>(argument[1]),
                              nb::cast<driver::Device>(argument[2]),
                              nb::cast<std::vector<std::int64_t>>(argument[3])});
        return nb::cast(
            FastCall{model_of(model), std::move(in), std::move(out), std::move(expected)});
      },
      nb::arg("model"), nb::arg("in_tree"), nb::arg("out_tree"), nb::arg("arguments"),
      "The short way, or None for structures with classes; an argument is whether it is a buffer, "
      "its dtype, device and sizes, -1 for any.");
}

}  // namespace kiln::python
