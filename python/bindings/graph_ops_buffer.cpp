#include "bindings.h"
#include "graph_values.h"
#include "kiln/graph/ops/buffer.h"

namespace kiln::python {

namespace ops = graph::ops;

namespace {

/// What is written: a tensor that can be a buffer becomes one.
graph::Value to_destination(nb::handle object) {
  return nb::hasattr(object, "__buffervalue__") ? to_buffer_value(object) : to_value(object);
}

}  // namespace

void bind_ops_buffer(nb::module_& m) {
  m.def(
      "buffer_load", [](Any x) { return ops::buffer_load(to_value(x)); }, nb::arg("x"),
      "A copy of the whole buffer at this point of its device's order.");
  m.def(
      "buffer_store",
      [](Any destination, Any source) {
        const graph::Value value = to_value(source);  // before the destination becomes a buffer
        ops::buffer_store(to_destination(destination), value);
      },
      nb::arg("destination"), nb::arg("source"), R"(
Overwrites a buffer.

>>> from kiln.driver import CPU
>>> from kiln.dtype import DType
>>> from kiln.graph import BufferType, Graph, ops
>>> with Graph("counter", input_types=[BufferType(DType.float32, [4], CPU())]) as graph:
...     state = graph.inputs[0].buffer
...     current = ops.buffer_load(state)
...     ops.buffer_store(state, current + 1)
...     graph.output(current)
>>> print(state.shape, state.dtype)
[Dim(4)] DType.float32)");
  m.def(
      "buffer_store_slice",
      [](Any destination, Any source, Any indices) {
        const nb::object key = PyList_Check(indices.ptr())
                                   ? nb::steal(PyList_AsTuple(indices.ptr()))
                                   : nb::borrow(indices);
        const graph::Value value = to_value(source);  // before the destination becomes a buffer
        const graph::Value target = to_destination(destination);
        const graph::Type type = target.type();
        const bool shaped = type.is_tensor() || type.is_buffer();
        const graph::Shape shape = shaped ? type.shaped().shape : graph::Shape();
        ops::buffer_store_slice(target, value, to_indices(key, shape));
      },
      nb::arg("destination"), nb::arg("source"), nb::arg("indices"),
      "Writes a region of a buffer; entries as in slice_tensor, positive steps only.");
  m.def(
      "buffer_create",
      [](const BufferTypeObject& type) { return ops::buffer_create(type.type.buffer()); },
      nb::arg("type"), "Fresh memory for each execution, contents undefined until stored.");
}

}  // namespace kiln::python
