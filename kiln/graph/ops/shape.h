#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kiln/graph/value.h"

namespace kiln::graph::ops {

// Shape without moving data; operands of strong kinds.

/// Row-major order kept; one dim may be -1. Other numbers of elements: ValueError.
TensorValue reshape(const TensorValueLike& x, const Shape& shape);
/// Merges the axes `start_dim` to `end_dim`. Axis out of range: IndexError.
TensorValue flatten(const TensorValueLike& x, int start_dim = 0, int end_dim = -1);

/// Options of `rebind`.
struct RebindOptions {
  /// Part of the error when the check fails.
  std::string message = "";
  std::optional<FilterLayout> layout = std::nullopt;
};
/// Asserts at run that `x` has `shape` and goes on with the new dims.
TensorValue rebind(const TensorValueLike& x, const Shape& shape, const RebindOptions& options = {});

namespace detail {
/// What an op that is made of others asks of sizes: a failure at run has its own sentence.
struct SizeCheck {
  std::string sentence;  // {0}, {1}, … are the numbers of `shown`
  Shape given, expected;
  Shape shown;
};
/// `x`, once each size of `given` is that of `expected`.
TensorValue checked(const TensorValue& x, const SizeCheck& check);
/// `rebind` of a vector to one size; `sentence` has that as {0} and the vector's as {1}.
TensorValue rebind_vector(const TensorValue& x, const Dim& size, const std::string& sentence);
}  // namespace detail

/// NumPy broadcasting to the shape.
TensorValue broadcast_to(const TensorValueLike& x, const Shape& shape);
/// To a shape that is a CPU int64 vector; `out_dims` name the result's dims, compared at run.
TensorValue broadcast_to(const TensorValueLike& x, const TensorValue& shape,
                         const std::optional<Shape>& out_dims = std::nullopt);

/// Removes an axis of static size 1.
TensorValue squeeze(const TensorValueLike& x, int axis);
/// Inserts an axis of size 1; `axis` in [-rank - 1, rank].
TensorValue unsqueeze(const TensorValueLike& x, int axis);
/// Swaps two axes. Out of range: IndexError.
TensorValue transpose(const TensorValueLike& x, int axis_1, int axis_2);
/// Result axis i is input axis `dims[i]`.
TensorValue permute(const TensorValueLike& x, const std::vector<std::int64_t>& dims);

}  // namespace kiln::graph::ops
