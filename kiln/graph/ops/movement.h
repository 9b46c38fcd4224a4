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

/// As `scatter`, but each update is combined with what is there; duplicates combine all.
TensorValue scatter_add(const TensorValueLike& input, const TensorValueLike& updates,
                        const TensorValueLike& indices, int axis = -1);
TensorValue scatter_max(const TensorValueLike& input, const TensorValueLike& updates,
                        const TensorValueLike& indices, int axis = -1);
TensorValue scatter_min(const TensorValueLike& input, const TensorValueLike& updates,
                        const TensorValueLike& indices, int axis = -1);
TensorValue scatter_mul(const TensorValueLike& input, const TensorValueLike& updates,
                        const TensorValueLike& indices, int axis = -1);
/// A copy of `input` with slices of updates at the positions that rows of `indices` name; the last
/// of equal rows wins.
TensorValue scatter_nd(const TensorValueLike& input, const TensorValueLike& updates,
                       const TensorValueLike& indices);
/// As `scatter_nd`, but each update is combined with what is there; duplicates combine all.
TensorValue scatter_nd_add(const TensorValueLike& input, const TensorValueLike& updates,
                           const TensorValueLike& indices);
TensorValue scatter_nd_max(const TensorValueLike& input, const TensorValueLike& updates,
                           const TensorValueLike& indices);
TensorValue scatter_nd_min(const TensorValueLike& input, const TensorValueLike& updates,
                           const TensorValueLike& indices);
TensorValue scatter_nd_mul(const TensorValueLike& input, const TensorValueLike& updates,
                           const TensorValueLike& indices);
/// A copy of `input` in which the elements where `mask` is true, in row-major order, are those of
/// `updates`. The mask broadcasts to the input; `out_dim` is the number of its true elements and of
/// the updates, checked at run.
TensorValue masked_scatter(const TensorValueLike& input, const TensorValueLike& mask,
                           const TensorValueLike& updates, const Dim& out_dim);
/// The int64 positions of the elements that are not 0, one a row, in row-major order; runs on the
/// CPU. `out_dim` is their number, checked at run. A scalar: ValueError.
TensorValue nonzero(const TensorValueLike& x, const Dim& out_dim);

/// As `numpy.repeat` with one count for all elements; without `axis` of the flattened tensor. On an
/// accelerator, or a count below 1: ValueError.
TensorValue repeat_interleave(const TensorValueLike& x, std::int64_t repeats,
                              std::optional<int> axis = std::nullopt);
/// The same with counts that are an integer tensor on the CPU: a scalar, one element, or one count
/// for each element of the axis. `out_dim` is their sum, checked at run.
TensorValue repeat_interleave(const TensorValueLike& x, const TensorValue& repeats,
                              std::optional<int> axis, const std::optional<Dim>& out_dim);

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
