#include "kiln/experimental/placement_rules.h"

#include <algorithm>

#include "kiln/support/error.h"

namespace kiln::experimental {
namespace {

using graph::Dim;
using graph::OpKind;
using graph::Shape;

using MaybeAxis = std::optional<int>;
using MaybePlacement = std::optional<Placement>;

bool is_partial(const Placement& placement) { return std::holds_alternative<Partial>(placement); }
bool is_replicated(const Placement& placement) {
  return std::holds_alternative<Replicated>(placement);
}
MaybeAxis sharded_axis(const Placement& placement) {
  const auto* sharded = std::get_if<Sharded>(&placement);
  return sharded ? MaybeAxis(sharded->axis) : std::nullopt;
}
MaybePlacement sharded(MaybeAxis axis) {
  return axis ? MaybePlacement(Sharded{*axis}) : std::nullopt;
}

bool splits_evenly(const Dim& dim, int devices) {
  return dim.is_static() && dim.value() % devices == 0;
}

Dim elements_before(const Shape& shape, int axis) {
  Dim count = 1;
  for (int i = 0; i < axis; ++i) count = count * shape[static_cast<std::size_t>(i)];
  return count;
}

/// The rule of one op whose operands are not all copies.
class Rule {
 public:
  Rule(const graph::ir::Op& op, std::span<const Placement> operands, int devices)
      : op_(op), operands_(operands), devices_(devices) {}

  MaybePlacement result() const {
    for (const Placement& operand : operands_)
      if (std::holds_alternative<Unknown>(operand)) return std::nullopt;
    if (op_.kind >= OpKind::add && op_.kind <= OpKind::where) return elementwise();
    switch (op_.kind) {
      case OpKind::broadcast_to:
        return operands_.size() == 1 ? elementwise() : std::nullopt;
      case OpKind::reshape:
        return moved([this](int axis) { return reshaped(axis); });
      case OpKind::rebind:
        return moved([](int axis) { return MaybeAxis(axis); });
      case OpKind::permute:
        return moved([this](int axis) { return permuted(axis); });
      case OpKind::squeeze:
        return moved([this](int axis) {
          const int gone = attribute_axis();
          return axis == gone ? std::nullopt : MaybeAxis(axis > gone ? axis - 1 : axis);
        });
      case OpKind::unsqueeze:
        return moved(
            [this](int axis) { return MaybeAxis(axis >= attribute_axis() ? axis + 1 : axis); });
      case OpKind::slice:
        return rest_replicated(1) ? moved([this](int axis) { return sliced(axis); }) : std::nullopt;
      case OpKind::pad:
        return pad();
      case OpKind::tile:
        return moved([this](int axis) { return tiled(axis); });
      case OpKind::concat:
        return concat();
      case OpKind::gather:
        return gather();
      case OpKind::gather_nd:
        return gather_nd();
      case OpKind::scatter:
      case OpKind::scatter_add:
      case OpKind::scatter_max:
      case OpKind::scatter_min:
      case OpKind::scatter_mul:
        return scatter();
      case OpKind::conv2d:
      case OpKind::conv3d:
      case OpKind::conv2d_transpose:
        return convolution();
      case OpKind::irfft: {
        // The last axis of complex numbers holds their parts.
        const MaybeAxis split = sharded_axis(operands_[0]);
        return split && *split < out_shape().rank() ? beside(attribute_axis()) : std::nullopt;
      }
      case OpKind::max_pool2d:
        return is_partial(operands_[0]) ? std::nullopt : pool();
      case OpKind::avg_pool2d:
        return pool();
      case OpKind::matmul:
        return matmul();
      case OpKind::reduce_sum:
      case OpKind::reduce_mean:
        return reduced();
      case OpKind::reduce_max:
      case OpKind::reduce_min:
      case OpKind::reduce_prod:
      case OpKind::argmax:
      case OpKind::argmin:
      case OpKind::cumsum:
      case OpKind::softmax:
      case OpKind::logsoftmax:
      case OpKind::top_k:
      case OpKind::bottom_k:
        return beside(attribute_axis());
      case OpKind::layer_norm:
      case OpKind::rms_norm:
        return rest_replicated(1) ? beside(shape(0).rank() - 1) : std::nullopt;
      default:
        return std::nullopt;
    }
  }

 private:
  const Shape& shape(std::size_t i) const { return op_.operands[i]->type.shaped().shape; }
  const Shape& out_shape() const { return op_.result()->type.shaped().shape; }
  static const Dim& dim(const Shape& shape, int axis) {
    return shape[static_cast<std::size_t>(axis)];
  }
  int attribute_axis() const { return static_cast<int>(op_.attribute<std::int64_t>("axis")); }
  bool rest_replicated(std::size_t first) const {
    return std::all_of(operands_.begin() + static_cast<std::ptrdiff_t>(first), operands_.end(),
                       is_replicated);
  }

  /// Operand 0 goes elsewhere as it is; every such move is linear.
  template <typename Move>
  MaybePlacement moved(const Move& move) const {
    const MaybeAxis axis = sharded_axis(operands_[0]);
    return axis ? sharded(move(*axis)) : operands_[0];
  }

  /// Operand 0 is worked on along `axis`, and each line for itself.
  MaybePlacement beside(int axis) const {
    const MaybeAxis split = sharded_axis(operands_[0]);
    return split && *split != axis ? sharded(split) : std::nullopt;
  }

  MaybePlacement elementwise() const {
    const Shape& out = out_shape();
    MaybeAxis split;
    bool has_partial = false;
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      has_partial = has_partial || is_partial(operands_[i]);
      const MaybeAxis axis = sharded_axis(operands_[i]);
      if (!axis) continue;
      const int at = *axis + out.rank() - shape(i).rank();
      if ((split && *split != at) || !(dim(shape(i), *axis) == dim(out, at))) return std::nullopt;
      split = at;
    }
    if (!split) return linear();
    if (has_partial) return std::nullopt;
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      const int axis = *split - (out.rank() - shape(i).rank());
      if (is_replicated(operands_[i]) && axis >= 0 && !(dim(shape(i), axis) == Dim(1)))
        return std::nullopt;
    }
    return sharded(split);
  }

  /// Terms of a sum that pass an elementwise op.
  MaybePlacement linear() const {
    const auto terms = std::find_if(operands_.begin(), operands_.end(), is_partial);
    if (terms == operands_.end()) return std::nullopt;
    const bool all_equal = std::all_of(operands_.begin(), operands_.end(),
                                       [&](const Placement& other) { return other == *terms; });
    const auto count = std::count_if(operands_.begin(), operands_.end(), is_partial);
    bool fits = false;
    switch (op_.kind) {
      case OpKind::add:
      case OpKind::sub:
      case OpKind::negate:
      case OpKind::broadcast_to:
        fits = all_equal;
        break;
      case OpKind::mul:
        fits = count == 1;
        break;
      case OpKind::div:
        fits = count == 1 && is_partial(operands_[0]);
        break;
      case OpKind::where:
        fits = is_replicated(operands_[0]) && count == 2 && operands_[1] == operands_[2];
        break;
      default:
        break;
    }
    return fits ? MaybePlacement(*terms) : std::nullopt;
  }

  MaybeAxis reshaped(int axis) const {
    const Shape& from = shape(0);
    const Shape& to = out_shape();
    const Dim before = elements_before(from, axis);
    if (before == Dim(0)) return std::nullopt;
    for (int at = 0; at < to.rank(); ++at)
      if (dim(from, axis) == dim(to, at) && elements_before(to, at) == before) return at;
    // The outermost of the axes that are joined or cut.
    for (int at = 0; at < to.rank(); ++at)
      if (elements_before(to, at) == before && !(dim(to, at) == Dim(1)) &&
          splits_evenly(dim(from, axis), devices_) && splits_evenly(dim(to, at), devices_))
        return at;
    return std::nullopt;
  }

  MaybeAxis permuted(int axis) const {
    const auto& dims = op_.attribute<std::vector<std::int64_t>>("dims");
    return static_cast<int>(std::find(dims.begin(), dims.end(), axis) - dims.begin());
  }

  MaybeAxis sliced(int axis) const {
    const auto at = static_cast<std::size_t>(axis);
    for (const char* name : {"dynamic_starts", "dynamic_stops", "dynamic_indices", "dynamic_steps"})
      if (op_.has_attribute(name)) {
        const auto& axes = op_.attribute<std::vector<std::int64_t>>(name);
        if (std::find(axes.begin(), axes.end(), axis) != axes.end()) return std::nullopt;
      }
    const bool whole = op_.attribute<Shape>("starts")[at] == Dim(0) &&
                       op_.attribute<Shape>("stops")[at] == shape(0)[at] &&
                       op_.attribute<std::vector<std::int64_t>>("steps")[at] == 1;
    return whole ? MaybeAxis(axis) : std::nullopt;
  }

  MaybePlacement pad() const {
    if (!rest_replicated(1) || (operands_.size() > 1 && is_partial(operands_[0])))
      return std::nullopt;
    return moved([this](int axis) {
      const auto& paddings = op_.attribute<std::vector<std::int64_t>>("paddings");
      const auto at = static_cast<std::size_t>(axis) * 2;
      return paddings[at] == 0 && paddings[at + 1] == 0 ? MaybeAxis(axis) : std::nullopt;
    });
  }

  MaybeAxis tiled(int axis) const {
    return op_.attribute<Shape>("repeats")[static_cast<std::size_t>(axis)] == Dim(1)
               ? MaybeAxis(axis)
               : std::nullopt;
  }

  MaybePlacement concat() const {
    for (const Placement& operand : operands_)
      if (!(operand == operands_[0])) return std::nullopt;
    return moved(
        [this](int axis) { return axis == attribute_axis() ? std::nullopt : MaybeAxis(axis); });
  }

  MaybePlacement gather() const {
    const int axis = attribute_axis(), rank = shape(1).rank();
    if (is_replicated(operands_[1]))
      return moved([&](int split) {
        if (split == axis) return MaybeAxis();
        return MaybeAxis(split < axis ? split : split - 1 + rank);
      });
    const MaybeAxis split = sharded_axis(operands_[1]);
    if (!split || !is_replicated(operands_[0])) return std::nullopt;
    return sharded(axis + *split);
  }

  MaybePlacement gather_nd() const {
    const auto batch = static_cast<int>(op_.attribute<std::int64_t>("batch_dims"));
    const int rank = shape(1).rank();
    const Dim& count = dim(shape(1), rank - 1);
    const MaybeAxis of_input = sharded_axis(operands_[0]), of_indices = sharded_axis(operands_[1]);
    if (of_input && of_indices)
      return *of_input == *of_indices && *of_input < batch ? sharded(of_input) : std::nullopt;
    if (of_indices)
      return is_replicated(operands_[0]) && *of_indices >= batch && *of_indices < rank - 1
                 ? sharded(of_indices)
                 : std::nullopt;
    if (!is_replicated(operands_[1])) return std::nullopt;
    return moved([&](int split) {
      const int first = batch + static_cast<int>(count.value());
      return split >= first ? MaybeAxis(rank - 1 + split - first) : std::nullopt;
    });
  }

  MaybePlacement scatter() const {
    const MaybeAxis split = sharded_axis(operands_[0]);
    if (!split || *split == attribute_axis()) return std::nullopt;
    for (std::size_t i = 1; i < operands_.size(); ++i)
      if (!(operands_[i] == operands_[0]) || !(dim(shape(i), *split) == dim(shape(0), *split)))
        return std::nullopt;
    return sharded(split);
  }

  MaybePlacement matmul() const {
    const Shape& out = out_shape();
    const int rank = out.rank();
    const MaybeAxis left = sharded_axis(operands_[0]), right = sharded_axis(operands_[1]);
    const int left_rank = shape(0).rank(), right_rank = shape(1).rank();
    if (!left && !right) {  // terms on one side
      if (is_partial(operands_[0]) == is_partial(operands_[1])) return std::nullopt;
      return is_partial(operands_[0]) ? operands_[0] : operands_[1];
    }
    if (is_partial(operands_[0]) || is_partial(operands_[1])) return std::nullopt;
    if (left == left_rank - 1 && right == right_rank - 2) return Partial{};
    if (!right && left == left_rank - 2) return sharded(rank - 2);
    if (!left && right == right_rank - 1) return sharded(rank - 1);
    // Batch axes, which broadcast.
    const MaybeAxis batch = left ? *left + rank - left_rank : *right + rank - right_rank;
    if (*batch >= rank - 2 || (left && right && *right + rank - right_rank != *batch))
      return std::nullopt;
    for (std::size_t i = 0; i < 2; ++i) {
      const int axis = *batch - (rank - shape(i).rank());
      const bool split = (i == 0 ? left : right).has_value();
      if (axis < 0) continue;
      if (split ? !(dim(shape(i), axis) == dim(out, *batch)) : !(dim(shape(i), axis) == Dim(1)))
        return std::nullopt;
    }
    return sharded(batch);
  }

  /// Images of a batch, and output channels, are for themselves; input channels are summed.
  MaybePlacement convolution() const {
    const MaybeAxis in = sharded_axis(operands_[0]), taps = sharded_axis(operands_[1]);
    const int channels = shape(0).rank() - 1, taps_rank = shape(1).rank();
    if (!in && !taps) {
      if (is_partial(operands_[0]) == is_partial(operands_[1])) return std::nullopt;
      return is_partial(operands_[0]) ? operands_[0] : operands_[1];
    }
    if (is_partial(operands_[0]) || is_partial(operands_[1])) return std::nullopt;
    if (in == 0 && !taps) return sharded(0);
    // The filter of a transposed one has the output channels before those of the input.
    const bool is_transposed = op_.kind == OpKind::conv2d_transpose;
    if (!is_transposed && op_.attribute<std::int64_t>("groups") != 1) return std::nullopt;
    if (!in && taps == taps_rank - (is_transposed ? 2 : 1)) return sharded(channels);
    if (in == channels && taps == taps_rank - (is_transposed ? 1 : 2)) return Partial{};
    return std::nullopt;
  }

  /// Windows are over height and width.
  MaybePlacement pool() const {
    return moved([](int axis) { return axis == 0 || axis == 3 ? MaybeAxis(axis) : std::nullopt; });
  }

  MaybePlacement reduced() const {
    if (is_partial(operands_[0])) return operands_[0];
    const int axis = attribute_axis();
    if (sharded_axis(operands_[0]) != axis) return operands_[0];
    if (op_.kind == OpKind::reduce_sum) return Partial{};
    // The mean of means is the mean where all parts have one size.
    const bool is_float = op_.operands[0]->type.shaped().dtype.is_float();
    if (is_float && splits_evenly(dim(shape(0), axis), devices_)) return Partial{ReduceOp::avg};
    return std::nullopt;
  }

  const graph::ir::Op& op_;
  std::span<const Placement> operands_;
  int devices_;
};

}  // namespace

std::optional<std::vector<Placement>> result_placements(const graph::ir::Op& op,
                                                        std::span<const Placement> operands,
                                                        int devices) {
  const bool all_copies = std::all_of(operands.begin(), operands.end(), is_replicated);
  MaybePlacement placement = Replicated{};
  if (!all_copies) placement = Rule(op, operands, devices).result();
  if (!placement) return std::nullopt;
  return std::vector<Placement>(op.results.size(), *placement);
}

}  // namespace kiln::experimental
