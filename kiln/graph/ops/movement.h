#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kiln/graph/slice_index.h"
#include "kiln/graph/value.h"

namespace kiln::graph::ops {

/// Joins along an axis; dtypes promote from the left. Axis out of range: IndexError.
TensorValue concat(const std::vector<TensorValueLike>& original_vals, int axis = 0);
/// A new axis of size `values.size()`.
TensorValue stack(const std::vector<TensorValueLike>& values, int axis = 0);
/// One tensor per size; sizes static, their sum the axis.
std::vector<TensorValue> split(const TensorValueLike& x, const std::vector<Dim>& split_sizes,
                               int axis = 0);
/// Equal parts.
std::vector<TensorValue> chunk(const TensorValueLike& x, int chunks, int axis = 0);
/// NumPy indexing with range checks instead of clamping; one entry per axis.
TensorValue slice_tensor(const TensorValueLike& x, const std::vector<SliceIndex>& indices);

/// Options of `pad`.
struct PadOptions {
  /// "constant", "reflect" or "edge".
  std::string mode = "constant";
  TensorValueLike value = 0;
};
/// `paddings`: before and after each axis, in turn.
TensorValue pad(const TensorValueLike& input, const std::vector<std::int64_t>& paddings,
                const PadOptions& options = {});
/// As `numpy.tile`; runs on the CPU.
TensorValue tile(const TensorValueLike& x, const Shape& repeats);

/// As `numpy.take`.
TensorValue gather(const TensorValueLike& input, const TensorValueLike& indices, int axis);
/// Rows of `indices` are positions in `input`.
TensorValue gather_nd(const TensorValueLike& input, const TensorValueLike& indices,
                      int batch_dims = 0);
/// A copy of `input` with updates along `axis`; runs on the CPU.
TensorValue scatter(const TensorValueLike& input, const TensorValueLike& updates,
                    const TensorValueLike& indices, int axis = -1);

/// As `numpy.repeat` with one count for all elements; without `axis` of the flattened tensor. On an
/// accelerator, or a count below 1: ValueError.
TensorValue repeat_interleave(const TensorValueLike& x, std::int64_t repeats,
                              std::optional<int> axis = std::nullopt);

/// Options of `band_part`.
struct BandPartOptions {
  /// How many diagonals to keep; none: all.
  std::optional<std::int64_t> num_lower = std::nullopt;
  std::optional<std::int64_t> num_upper = std::nullopt;
  /// Keeps what lies outside of the band.
  bool exclude = false;
};
/// Zeros what lies outside of a band around the diagonal of the last two axes.
TensorValue band_part(const TensorValueLike& x, const BandPartOptions& options = {});

}  // namespace kiln::graph::ops
