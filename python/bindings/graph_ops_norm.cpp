#include "bindings.h"
#include "graph_values.h"
#include "kiln/graph/ops/norm.h"

namespace kiln::python {

namespace ops = graph::ops;

void bind_ops_norm(nb::module_& m) {
  m.def(
      "softmax", [](ValueLike value, int axis) { return ops::softmax(value.get(), axis); },
      nb::arg("value"), nb::arg("axis") = -1, "`exp(x - m) / sum(exp(x - m))` along an axis.");
  m.def(
      "logsoftmax", [](ValueLike value, int axis) { return ops::logsoftmax(value.get(), axis); },
      nb::arg("value"), nb::arg("axis") = -1, "`x - m - log(sum(exp(x - m)))` along an axis.");
  m.def(
      "layer_norm",
      [](ValueLike input, ValueLike gamma, ValueLike beta, double epsilon) {
        return ops::layer_norm(input.get(), gamma.get(), beta.get(), epsilon);
      },
      nb::arg("input"), nb::arg("gamma"), nb::arg("beta"), nb::arg("epsilon"),
      "`gamma * (x - mean) / sqrt(var + epsilon) + beta` over the last axis.");
  m.def(
      "rms_norm",
      [](ValueLike input, ValueLike weight, double epsilon, double weight_offset,
         bool multiply_before_cast) {
        return ops::rms_norm(
            input.get(), weight.get(), epsilon,
            {.weight_offset = weight_offset, .multiply_before_cast = multiply_before_cast});
      },
      nb::arg("input"), nb::arg("weight"), nb::arg("epsilon"), nb::arg("weight_offset") = 0.0,
      nb::arg("multiply_before_cast") = false,
      "`x / sqrt(mean(x ** 2) + epsilon) * (weight + weight_offset)` over the last axis.");
  m.def(
      "group_norm",
      [](ValueLike input, ValueLike gamma, ValueLike beta, std::int64_t num_groups,
         double epsilon) {
        return ops::group_norm(input.get(), gamma.get(), beta.get(), num_groups, epsilon);
      },
      nb::arg("input"), nb::arg("gamma"), nb::arg("beta"), nb::arg("num_groups"),
      nb::arg("epsilon"), "Normalises groups of channels of `[N, C, ...]`.");
}

}  // namespace kiln::python
