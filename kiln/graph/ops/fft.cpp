#include "kiln/graph/ops/fft.h"

#include "kiln/graph/graph_state.h"
#include "kiln/graph/ops/axis.h"
#include "kiln/graph/promotion.h"

namespace kiln::graph::ops {

TensorValue irfft(const TensorValueLike& input_tensor, const IrfftOptions& options) {
  LocationScope at(input_tensor.location());
  const TensorValue x = strong(input_tensor);
  const Shape shape = x.shape();
  const int rank = shape.rank() - (options.input_is_complex ? 1 : 0);
  const std::int64_t axis = normalized_axis(options.axis, rank);
  std::int64_t n = options.n.value_or(1);
  // Where there is no such size, inference says why.
  if (!options.n && axis >= 0 && axis < rank && shape[static_cast<std::size_t>(axis)].is_static())
    n = 2 * (shape[static_cast<std::size_t>(axis)].value() - 1);
  return graph::detail::add_tensor_op(OpKind::irfft, {x},
                                      {{"n", n},
                                       {"axis", axis},
                                       {"normalization", options.normalization},
                                       {"input_is_complex", options.input_is_complex}});
}

}  // namespace kiln::graph::ops
