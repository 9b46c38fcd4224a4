#include <nanobind/stl/optional.h>

#include "bindings.h"
#include "graph_values.h"
#include "kiln/graph/ops/quantized.h"

namespace kiln::python {

namespace ops = graph::ops;
using graph::QuantizationConfig;
using graph::QuantizationEncoding;

void bind_ops_quantized(nb::module_& m) {
  m.def(
      "dequantize",
      [](QuantizationEncoding encoding, ValueLike quantized) {
        return ops::dequantize(encoding, quantized.get());
      },
      nb::arg("encoding"), nb::arg("quantized"), "The float32 elements of quantised blocks.");
  m.def(
      "qmatmul",
      [](QuantizationEncoding encoding, const std::optional<QuantizationConfig>& config,
         ValueLike lhs,
         nb::args rhs) { return ops::qmatmul(encoding, config, lhs.get(), to_value_likes(rhs)); },
      nb::arg("encoding"), nb::arg("config").none(), nb::arg("lhs"), nb::arg("rhs"),
      R"(`lhs @ dequantize(rhs[0]).T`, float32; the weights stay quantised in memory.

`lhs` is `[..., K]`, `rhs[0]` a matrix whose rows are blocks of K elements.)");
  nb::module_ quantized = m.def_submodule("quantized", "Preparing quantised weights.");
  quantized.def(
      "repack_gguf_quantized_weights",
      [](ValueLike weight, QuantizationEncoding encoding) {
        return ops::quantized::repack_gguf_quantized_weights(weight.get(), encoding);
      },
      nb::arg("weight"), nb::arg("encoding"),
      "The blocks of a GGUF weight in the order that qmatmul reads best; the shape stays.");
}

}  // namespace kiln::python
