#include <nanobind/stl/string.h>

#include "bindings.h"
#include "graph_values.h"
#include "kiln/graph/ops/control_flow.h"
#include "kiln/support/error.h"

namespace kiln::python {
namespace {

namespace ops = graph::ops;
using graph::Value;

/// A Python function that records a region; it runs at once, inside the call it is given to.
ops::RegionFunction region(nb::handle function) {
  return [function](const std::vector<Value>& values) {
    nb::list arguments = make_values(values);
    nb::object result = nb::steal(PyObject_CallObject(function.ptr(), nb::tuple(arguments).ptr()));
    if (!result.is_valid()) throw nb::python_error();
    try {
      return to_results(result);
    } catch (const TypeError& error) {
      throw TypeError("Results don't match expected types: " + std::string(error.what()));
    }
  };
}

std::vector<graph::TensorValueLike> to_loop_values(nb::handle iterable) {
  if (!nb::hasattr(iterable, "__iter__") || nb::isinstance<Value>(iterable))
    throw TypeError("The initial values of ops.while_loop are a sequence of tensors, not " +
                    type_text(iterable) + ".");
  nb::list values(nb::borrow(iterable));
  for (nb::handle value : values)
    if (nb::isinstance<graph::BufferValue>(value) ||
        (nb::hasattr(value, "__buffervalue__") && !nb::hasattr(value, "__tensorvalue__")))
      throw NotImplementedError("Buffer operations are currently not supported in while loops");
  return to_value_likes(values);
}

}  // namespace

void bind_ops_control_flow(nb::module_& m) {
  m.def(
      "cond",
      [](ValueLike pred, Any out_types, nb::callable then_fn, nb::callable else_fn) {
        const auto types = out_types.is_none() ? std::vector<graph::Type>() : to_types(out_types);
        return make_values(ops::cond(pred.get(), types, region(then_fn), region(else_fn)));
      },
      nb::arg("pred"), nb::arg("out_types"), nb::arg("then_fn"), nb::arg("else_fn"),
      "Runs one of two functions' regions; each returns values of `out_types`.");
  m.def(
      "while_loop",
      [](Any initial_values, nb::callable predicate, nb::callable body) {
        return make_values(
            ops::while_loop(to_loop_values(initial_values), region(predicate), region(body)));
      },
      nb::arg("initial_values"), nb::arg("predicate"), nb::arg("body"), R"(
Runs `body` while `predicate` gives true; both get the loop's values.

>>> from kiln.driver import CPU
>>> from kiln.dtype import DType
>>> from kiln.graph import Graph, TensorType, ops
>>> with Graph("g", input_types=[TensorType(DType.int32, [], CPU())]) as graph:
...     ops.while_loop(graph.inputs, lambda x: x < 100, lambda x: x * 2)
[TensorValue(dtype=int32, shape=[], device=cpu:0)])");
  m.def(
      "call",
      [](const graph::Graph& graph, nb::args args, const std::string& prefix) {
        return make_values(ops::call(graph, to_values(args), {.prefix = prefix}));
      },
      nb::arg("graph"), nb::arg("args"), nb::arg("prefix") = "",
      "The outputs of a subgraph; `prefix` stands before the names of its placeholder weights.");
}

}  // namespace kiln::python
