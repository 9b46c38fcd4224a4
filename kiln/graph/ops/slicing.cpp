#include "kiln/graph/ops/slicing.h"

#include "kiln/graph/graph_state.h"
#include "kiln/graph/ops/movement.h"
#include "kiln/graph/ops/shape.h"
#include "kiln/graph/promotion.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

// An index is resolved axis by axis into starts, stops and steps. Static axes are checked at once
// and their bounds become offsets from the start; bounds of symbolic axes stay algebra that is
// checked when the graph runs; tensors become operands. Integers cut a piece of size 1 whose axis
// is squeezed afterwards.

namespace kiln::graph::ops {
namespace {

using Ints = std::vector<std::int64_t>;

class Resolver {
 public:
  Resolver(const Shape& shape, const std::vector<SliceIndex>& indices) : shape_(shape) {
    int axes = 0, ellipses = 0;
    for (const SliceIndex& index : indices) {
      axes += !std::holds_alternative<Ellipsis>(index) && !std::holds_alternative<NewAxis>(index);
      ellipses += std::holds_alternative<Ellipsis>(index);
      if (is_run_time(index)) any_run_time_ = true;
    }
    if (ellipses > 1) throw ValueError("Slicing takes at most one ellipsis ('...').");
    if (shape.empty() && axes > 0) throw ValueError("Slicing does not support scalar inputs");
    if (axes > shape.rank())
      throw ValueError(format("Too many indices supplied to slice for shape {}", shape.repr()));
    int position = 0;  // of the next axis in the final result
    auto take_whole = [&](int count) {
      for (int i = 0; i < count; ++i) add_whole(), ++position;
    };
    for (const SliceIndex& index : indices) {
      if (std::holds_alternative<NewAxis>(index)) {
        result_.new_axes.push_back(position++);
      } else if (std::holds_alternative<Ellipsis>(index)) {
        take_whole(shape.rank() - axes);
      } else if (const auto* dim = std::get_if<Dim>(&index)) {
        add_integer(*dim);
      } else if (const auto* tensor = std::get_if<TensorValue>(&index)) {
        add_index_tensor(*tensor);
      } else {
        add_slice(std::get<Slice>(index));
        ++position;
      }
    }
    take_whole(shape.rank() - axis());
  }

  ResolvedSlice finish() {
    result_.whole = whole_;
    result_.out_shape = out_dims_;
    auto& a = result_.attributes;
    a["starts"] = std::move(starts_);
    a["stops"] = std::move(stops_);
    a["steps"] = std::move(steps_);
    if (!dynamic_starts_.empty()) a["dynamic_starts"] = std::move(dynamic_starts_);
    if (!dynamic_stops_.empty()) a["dynamic_stops"] = std::move(dynamic_stops_);
    if (!dynamic_indices_.empty()) a["dynamic_indices"] = std::move(dynamic_indices_);
    if (!dynamic_steps_.empty()) a["dynamic_steps"] = std::move(dynamic_steps_);
    if (has_out_dims_ || any_tensor_) a["out_dims"] = std::move(out_dims_);
    for (auto* list : {&start_tensors_, &stop_tensors_, &index_tensors_, &step_tensors_})
      for (Value& value : *list) result_.tensors.push_back(std::move(value));
    return std::move(result_);
  }

 private:
  static bool is_run_time(const SliceIndex& index) {
    if (std::holds_alternative<TensorValue>(index)) return true;
    const auto* slice = std::get_if<Slice>(&index);
    return slice && (slice->out_dim || std::holds_alternative<TensorValue>(slice->start) ||
                     std::holds_alternative<TensorValue>(slice->stop) || slice->step.is_tensor());
  }

  int axis() const { return static_cast<int>(steps_.size()); }
  const Dim& size() const { return shape_[steps_.size()]; }

  void add(Dim start, Dim stop, std::int64_t step, Dim out) {
    starts_.push_back(std::move(start));
    stops_.push_back(std::move(stop));
    out_dims_.push_back(std::move(out));
    steps_.push_back(step);
  }

  void add_whole() { add(0, size(), 1, size()); }

  void add_integer(const Dim& index) {
    whole_ = false;
    const Dim n = size();
    Dim start = index;
    if (index.is_static()) {
      const std::int64_t i = index.value();
      if (n.is_static() && (i < -n.value() || i >= n.value()))
        throw IndexError(format("Index {} out of range of dim {}", i, n.to_string()));
      if (i < 0) start = compute([&] { return n + index; });
    }
    result_.dropped.push_back(axis());
    add(start, compute([&] { return start + 1; }), 1, 1);
  }

  void check_scalar(const TensorValue& value) {
    if (!value.device().is_cpu())
      throw ValueError(
          format("Input value must be on the host device, got {}", value.type().repr()));
    if (value.shape().num_elements() != Dim(1))
      throw ValueError(
          format("Slice index value must be a scalar, had shape {}", value.shape().repr()));
    if (!value.dtype().is_integral())
      throw ValueError(
          format("Slice index value must be an integer, had dtype {}", value.dtype().to_string()));
  }

  /// A tensor that stands for a number of this axis.
  void add_operand(const TensorValue& value, Ints& axes, std::vector<Value>& tensors) {
    any_tensor_ = true;
    check_scalar(value);
    axes.push_back(axis());
    tensors.push_back(value);
  }

  void add_index_tensor(const TensorValue& value) {
    whole_ = false;
    add_operand(value, dynamic_indices_, index_tensors_);
    result_.dropped.push_back(axis());
    add(0, 0, 1, 1);
  }

  /// Bounds near the ends of 64 bits may leave them.
  template <typename F>
  static Dim compute(F&& f) {
    try {
      return f();
    } catch (const ValueError&) {
      throw ValueError("slice index computation overflow");
    }
  }

  /// The offset from the start that a bound stands for; for a tensor a placeholder.
  Dim resolve(const SliceBound& bound, std::string_view which, std::int64_t step, const Dim& open,
              Ints& dynamic, std::vector<Value>& tensors) {
    const Dim& n = size();
    if (bound.is_open()) return open;
    if (const auto* tensor = std::get_if<TensorValue>(&bound)) {
      add_operand(*tensor, dynamic, tensors);
      return 0;
    }
    const Dim& given = std::get<Dim>(bound);
    if (!given.is_static()) return given;
    const std::int64_t v = given.value();
    if (!n.is_static()) return v < 0 ? compute([&] { return n + given; }) : given;
    if (v < -n.value() || v > n.value())
      throw ValueError(
          format("slice {} index {} out of range for dimension size {}", which, v, n.value()));
    const std::int64_t from_start = v < 0 ? v + n.value() : v;
    // As NumPy: going down starts at the last element at most.
    return step < 0 ? std::min(from_start, n.value() - 1) : from_start;
  }

  static std::string as_given(const SliceBound& bound, const Dim& resolved) {
    const auto* given = std::get_if<Dim>(&bound);
    return (given ? *given : resolved).to_string();
  }

  void add_slice(const Slice& slice) {
    const Dim n = size();
    const std::int64_t step = slice.step.number();
    if (step == 0) throw ValueError("slice step must not be 0");
    const bool open = slice.start.is_open() && slice.stop.is_open();
    if (open && step == 1 && !slice.step.is_tensor() && !slice.out_dim) return add_whole();
    if (step < 0 && !n.is_static())
      throw ValueError(format("expected positive integer step but got {}", step));
    const bool tensors = std::holds_alternative<TensorValue>(slice.start) ||
                         std::holds_alternative<TensorValue>(slice.stop) || slice.step.is_tensor();
    if ((tensors && !slice.out_dim) || (any_run_time_ && !n.is_static() && !slice.out_dim))
      throw NotImplementedError(
          "Can't yet support slicing with calculated output size for dynamic dims. Please use a "
          "tuple "
          "like (slice(0, 10), \"out_dim\") to specify the output dimensions.");
    whole_ = false;
    const Dim first = step < 0 ? n - 1 : Dim(0), last = step < 0 ? Dim(-1) : n;
    Dim start = resolve(slice.start, "start", step, first, dynamic_starts_, start_tensors_);
    Dim stop = resolve(slice.stop, "stop", step, last, dynamic_stops_, stop_tensors_);
    if (const auto* tensor = std::get_if<TensorValue>(&slice.step)) {
      add_operand(*tensor, dynamic_steps_, step_tensors_);
    }
    Dim out = 0;
    if (slice.out_dim) {
      has_out_dims_ = true;
      out = *slice.out_dim;
    } else {
      const Dim span = compute([&] { return stop - start; });
      if (span.is_static() && (step > 0 ? span.value() < 0 : span.value() > 0))
        throw ValueError(
            format("start and stop should be increasing for positive step and decreasing "
                   "for negative step, but got start {}, stop {} for step {}",
                   as_given(slice.start, start), as_given(slice.stop, stop), step));
      out =
          compute([&] { return (span + Dim(step) - Dim(step > 0 ? 1 : -1)).floor_div(Dim(step)); });
    }
    add(std::move(start), std::move(stop), step, std::move(out));
  }

  const Shape& shape_;
  ResolvedSlice result_;
  Shape starts_, stops_, out_dims_;
  Ints steps_, dynamic_starts_, dynamic_stops_, dynamic_indices_, dynamic_steps_;
  std::vector<Value> start_tensors_, stop_tensors_, index_tensors_, step_tensors_;
  bool any_run_time_ = false, any_tensor_ = false, has_out_dims_ = false, whole_ = true;
};

}  // namespace

ResolvedSlice resolve_slice(const Shape& shape, const std::vector<SliceIndex>& indices) {
  return Resolver(shape, indices).finish();
}

TensorValue slice_tensor(const TensorValueLike& x, const std::vector<SliceIndex>& indices) {
  LocationScope at(x.location());
  TensorValue value = strong(x);
  ResolvedSlice slice = resolve_slice(value.shape(), indices);
  if (!slice.whole) {
    std::vector<Value> operands = {value};
    operands.insert(operands.end(), slice.tensors.begin(), slice.tensors.end());
    value = graph::detail::add_tensor_op(OpKind::slice, operands, std::move(slice.attributes));
    for (std::size_t i = slice.dropped.size(); i-- > 0;) value = squeeze(value, slice.dropped[i]);
  }
  for (int axis : slice.new_axes) value = unsqueeze(value, axis);
  return value;
}

}  // namespace kiln::graph::ops
