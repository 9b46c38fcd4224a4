#pragma once

// Graph values between Python and C++.

#include <nanobind/nanobind.h>

#include <optional>
#include <vector>

#include "graph_casters.h"
#include "kiln/graph/ops/constant.h"
#include "kiln/graph/slice_index.h"
#include "kiln/graph/value.h"

namespace kiln::python {

/// A Python object of the class for the value's type.
nb::object make_value(const graph::Value& value);
using TensorObject = nb::typed<nb::object, graph::TensorValue>;
inline TensorObject make_value(const graph::TensorValue& value) {
  return TensorObject(make_value(static_cast<const graph::Value&>(value)));
}
/// `argument` itself where the op on it gave its value back, else an object for the result.
TensorObject same_or_new(nb::handle argument, const graph::TensorValue& result);
/// A list of them.
nb::list make_values(const std::vector<graph::Value>& values);
nb::list make_values(const std::vector<graph::TensorValue>& values);

/// Numbers that an op is called with and that are more to the caller than their values.
class NumberArguments {
 public:
  /// What the op shall take for the number; none: the number itself.
  virtual std::optional<graph::TensorValueLike> find(PyObject* number) = 0;

  /// Has `to_value_like` ask for numbers on this thread.
  class Scope {
   public:
    explicit Scope(NumberArguments* arguments);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    NumberArguments* outer_;
  };

 protected:
  ~NumberArguments() = default;
};

/// Whether `to_value_like` would take it.
bool is_value_like(nb::handle object);
/// Whether it is a graph value or stands for one, as tensors do.
bool stands_for_value(nb::handle object);
/// A tensor, dim, shape, number or array; objects with `__tensorvalue__`. Others: TypeError.
graph::TensorValueLike to_value_like(nb::handle object);
/// The strong kinds only, as the constructor of TensorValue.
graph::TensorValue to_tensor(nb::handle object);
/// As the constructor of BufferValue.
graph::BufferValue to_buffer_value(nb::handle object);
/// A value of any type: tensors and what makes one, buffers, opaque values.
graph::Value to_value(nb::handle object);
std::vector<graph::Value> to_values(nb::handle iterable);
std::vector<graph::TensorValueLike> to_value_likes(nb::handle iterable);
/// Values from what a function returned: None, one value, or an iterable of them.
std::vector<graph::Value> to_results(nb::handle result);
std::vector<graph::Type> to_types(nb::handle iterable);
/// The parts of `x[...]`, where `x` has this shape.
std::vector<graph::SliceIndex> to_indices(nb::handle key, const graph::Shape& shape);
/// A number or a nested list of numbers; `depth` lists are around it. Others: TypeError.
graph::ops::Literal to_literal(nb::handle object, int depth = 0);
/// A host copy of a NumPy array or another DLPack array.
graph::Array to_array(nb::handle object);

/// An argument of an op, converted by `to_value_like`.
struct ValueLike {
  nb::handle object;
  graph::TensorValueLike get() const { return to_value_like(object); }
};
/// An argument that must be strong.
struct StrongValue {
  nb::handle object;
  graph::TensorValue get() const { return to_tensor(object); }
};
struct BufferArgument {
  nb::handle object;
  graph::BufferValue get() const { return to_buffer_value(object); }
};

}  // namespace kiln::python

namespace nanobind::detail {

KILN_ANY_OBJECT_CASTER(kiln::python::ValueLike, "kiln.graph.TensorValueLike")
KILN_ANY_OBJECT_CASTER(kiln::python::StrongValue, "kiln.graph.StrongTensorValueLike")
KILN_ANY_OBJECT_CASTER(kiln::python::BufferArgument, "kiln._core.graph.BufferValue")

}  // namespace nanobind::detail
