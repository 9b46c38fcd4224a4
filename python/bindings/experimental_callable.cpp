// The short way through a CompiledCallable: arguments whose structure, types and sizes are as they
// were staged. Whatever is not takes the long way in Python, which says what is wrong.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <vector>

#include "bindings.h"
#include "driver_casters.h"
#include "engine_casters.h"
#include "experimental_call.h"
#include "kiln/engine/compiled_model.h"
#include "kiln/engine/model.h"
#include "kiln/experimental/compilation.h"
#include "kiln/experimental/recording.h"

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

  /// A value of this structure, with what `leaf` gives at each leaf.
  template <typename Leaf>
  nb::object build(Leaf& leaf) const {
    switch (kind) {
      case Kind::leaf:
        return make_tensor(leaf());
      case Kind::list: {
        nb::object list = nb::steal(PyList_New(size()));
        for (Py_ssize_t i = 0; i < size(); ++i)
          PyList_SetItem(list.ptr(), i, child(i).build(leaf).release().ptr());
        return list;
      }
      case Kind::tuple: {
        nb::object tuple = nb::steal(PyTuple_New(size()));
        for (Py_ssize_t i = 0; i < size(); ++i)
          PyTuple_SetItem(tuple.ptr(), i, child(i).build(leaf).release().ptr());
        return tuple;
      }
      case Kind::dict: {
        nb::dict dict;
        for (std::size_t i = 0; i < children.size(); ++i) dict[keys[i]] = children[i].build(leaf);
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
  driver::Device device;            // of one
  std::uint64_t mapping_id = 0;     // of several; 0: one
  std::vector<std::int64_t> shape;  // -1: any
  std::vector<int> symbols;         // the number of the one that an axis has, or -1

  bool fits(const Buffer& buffer) const {
    if (buffer.dtype() != dtype || !buffer.is_contiguous()) return false;
    return is_buffer || (buffer.device() == device && has_shape(buffer.shape()));
  }
  template <typename Shape>
  bool has_shape(const Shape& given) const {
    if (given.size() != shape.size()) return false;
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
      if (shape[axis] >= 0 && shape[axis] != given[axis]) return false;
    return true;
  }
};

struct FastCall {
  engine::Model model;
  Structure arguments, results;
  std::vector<Expected> expected;
  bool is_distributed = false;
  std::size_t num_symbols = 0;
  std::vector<std::optional<experimental::DeviceMapping>> spreads;  // of results on several devices

  FastCall(engine::Model model, nb::handle in_tree, nb::handle out_tree,
           const std::vector<experimental::TensorLayout>& in,
           const std::vector<experimental::TensorLayout>& out)
      : model(std::move(model)), arguments(in_tree), results(out_tree) {
    std::map<std::string, int> numbers;
    for (const experimental::TensorLayout& layout : in) {
      const bool is_single = layout.mesh().is_single();
      Expected argument{layout.is_buffer(),
                        layout.dtype(),
                        layout.mesh().devices()[0],
                        is_single ? 0 : experimental::detail::id_of(layout.mapping()),
                        {},
                        {}};
      for (const graph::Dim& dim : layout.shape()) {
        argument.shape.push_back(dim.is_static() ? dim.value() : -1);
        argument.symbols.push_back(
            dim.is_symbolic()
                ? numbers.try_emplace(dim.name(), static_cast<int>(numbers.size())).first->second
                : -1);
      }
      is_distributed = is_distributed || !is_single;
      expected.push_back(std::move(argument));
    }
    num_symbols = numbers.size();
    for (const experimental::TensorLayout& layout : out) {
      spreads.push_back(layout.mesh().is_single() ? std::nullopt : std::optional(layout.mapping()));
      is_distributed = is_distributed || spreads.back();
    }
  }
};

const Buffer* buffer_at(PyObject* object) {
  if (is_tensor(object)) {
    const Tensor& tensor = tensor_of(object);
    return tensor.real() && !tensor.is_distributed() ? &tensor.driver_tensor() : nullptr;
  }
  return is_buffer(object) ? &buffer_of(object) : nullptr;
}

/// The memory of arguments of which some are on several devices; false for the long way.
class SpreadInputs {
 public:
  explicit SpreadInputs(const FastCall& call) : sizes_(call.num_symbols, -1) {}

  bool add(const Expected& expected, PyObject* object) {
    if (expected.mapping_id == 0) {
      const Buffer* buffer = buffer_at(object);
      if (!buffer || !expected.fits(*buffer)) return false;
      buffers.push_back(*buffer);
      return notes(expected, buffer->shape());
    }
    if (!is_tensor(object)) return false;
    const auto& state = *tensor_of(object).state();
    if (!state.placed || state.placed->mapping_id != expected.mapping_id || !state.real())
      return false;
    const std::vector<std::int64_t> shape = state.placed->shape.static_dims();
    if (!expected.is_buffer && !expected.has_shape(shape)) return false;
    for (const experimental::detail::StatePtr& shard : state.placed->shards) {
      if (shard->buffer.dtype() != expected.dtype || !shard->buffer.is_contiguous()) return false;
      buffers.push_back(shard->buffer);
    }
    return notes(expected, shape);
  }

  std::vector<Buffer> buffers;

 private:
  /// The model knows the sizes of parts alone.
  template <typename Shape>
  bool notes(const Expected& expected, const Shape& shape) {
    if (shape.size() != expected.symbols.size()) return false;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (expected.symbols[axis] < 0) continue;
      std::int64_t& size = sizes_[static_cast<std::size_t>(expected.symbols[axis])];
      if (size >= 0 && size != shape[axis]) return false;
      size = shape[axis];
    }
    return true;
  }

  std::vector<std::int64_t> sizes_;
};

nb::object run(const FastCall& self, std::span<const Buffer> inputs) {
  std::int64_t elements = 0;
  for (const Buffer& buffer : inputs) elements += buffer.num_elements();
  engine::Model::Outputs outputs;
  // With the GIL the call may not wait: what it waits for might need the GIL.
  if (elements > kSmallCall || !self.model.try_execute(inputs, outputs)) {
    ReleaseGil release;
    outputs = self.model.execute(inputs);
  }
  std::size_t next = 0, result = 0;
  const auto leaf = [&] {
    const auto& spread = self.spreads[result++];
    if (!spread) return Tensor(std::move(outputs[next++]));
    std::vector<Tensor> shards;
    for (int i = 0; i < spread->mesh().num_devices(); ++i)
      shards.emplace_back(std::move(outputs[next++]));
    return Tensor::from_shards(shards, *spread);
  };
  return self.results.build(leaf);
}

nb::object call(const FastCall& self, nb::handle arguments, nb::handle keywords) {
  const nb::object refused = nb::borrow(Py_NotImplemented);
  std::vector<PyObject*> leaves;
  leaves.reserve(self.expected.size());
  if (!self.arguments.children[0].match(arguments.ptr(), leaves) ||
      !self.arguments.children[1].match(keywords.ptr(), leaves))
    return refused;
  if (self.is_distributed) {
    SpreadInputs inputs(self);
    for (std::size_t i = 0; i < leaves.size(); ++i)
      if (!inputs.add(self.expected[i], leaves[i])) return refused;
    return run(self, inputs.buffers);
  }
  constexpr std::size_t kFew = 8;
  Buffer few[kFew];
  std::vector<Buffer> many(leaves.size() > kFew ? leaves.size() : 0);
  Buffer* buffers = leaves.size() > kFew ? many.data() : few;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const Buffer* buffer = buffer_at(leaves[i]);
    if (!buffer || !self.expected[i].fits(*buffer)) return refused;
    buffers[i] = *buffer;
  }
  return run(self, {buffers, leaves.size()});
}

std::vector<experimental::TensorLayout> layouts_of(nb::handle list) {
  std::vector<experimental::TensorLayout> layouts;
  for (nb::handle layout : nb::iter(list))
    layouts.push_back(*nb::inst_ptr<experimental::TensorLayout>(layout));
  return layouts;
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
        for (experimental::TensorLayout& layout : layouts_of(layouts))
          arguments.push_back({routes.at(arguments.size()), std::move(layout)});
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
      [](nb::handle model, nb::handle in_tree, nb::handle out_tree, nb::handle in_layouts,
         nb::handle out_layouts) -> nb::object {
        FastCall made(model_of(model), in_tree, out_tree, layouts_of(in_layouts),
                      layouts_of(out_layouts));
        const bool is_known = made.arguments.is_plain() && made.results.is_plain() &&
                              made.arguments.children.size() == 2;
        return is_known ? nb::cast(std::move(made)) : nb::none();
      },
      nb::arg("model"), nb::arg("in_tree"), nb::arg("out_tree"), nb::arg("in_layouts"),
      nb::arg("out_layouts"), "The short way, or None for structures with classes.");
}

}  // namespace kiln::python
