#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "compiler/diagnostics.h"
#include "compiler/kernels/op_traits.h"
#include "compiler/passes/passes.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::compiler {

namespace ir = graph::ir;
using graph::OpKind;

namespace {

using Ints = std::vector<std::int64_t>;
// Kernels of their own that a transposed convolution may have.
constexpr std::int64_t kMostPhases = 64;

using Renamed = std::unordered_map<const ir::Value*, ir::Value*>;

/// Rebuilds a block op by op; ops that are to be expanded are written anew at its end.
class Expander {
 public:
  /// `outside`: what has become of the values of the blocks around this one.
  explicit Expander(ir::Block& block, const Renamed& outside = {})
      : block_(block), renamed_(outside) {}

  void run() {
    std::vector<std::unique_ptr<ir::Op>> ops = std::move(block_.ops);
    block_.ops.clear();
    std::vector<std::unique_ptr<ir::Op>> retired;
    for (auto& op : ops) {
      for (ir::Value*& operand : op->operands)
        if (auto it = renamed_.find(operand); it != renamed_.end()) operand = it->second;
      for (auto& region : op->regions) Expander(*region, renamed_).run();
      origin_ = op.get();
      ir::Value* result = working_on(*op, [&] { return expand(*op); });
      if (!result) {
        block_.ops.push_back(std::move(op));
        continue;
      }
      mark_result(result);
      renamed_[op->result()] = result;
      retired.push_back(std::move(op));
    }
  }

 private:
  ir::Value* expand(const ir::Op& op) {
    if (op.has_attribute(kInsideAttention) || op.has_attribute(kAttention)) return nullptr;
    switch (op.kind) {
      case OpKind::softmax:
        return softmax(op, /*logarithm=*/false);
      case OpKind::logsoftmax:
        return softmax(op, /*logarithm=*/true);
      case OpKind::layer_norm:
        return layer_norm(op);
      case OpKind::rms_norm:
        return rms_norm(op);
      case OpKind::matmul:
        return matmul(op);
      case OpKind::cumsum:
        return cumsum(op);
      case OpKind::conv2d:
      case OpKind::conv3d:
        return convolution(op);
      case OpKind::conv2d_transpose:
        return transposed_convolution(op);
      default:
        return is_scatter(op.kind) ? scatter(op) : nullptr;
    }
  }

  ir::Value* add(OpKind kind, std::vector<ir::Value*> operands, ir::Attributes attributes = {}) {
    ir::Op* op = ir::append_op(block_, kind, std::move(operands), std::move(attributes), {},
                               origin_->location);
    op->attributes[std::string(kExpandedFrom)] = std::string(graph::to_string(origin_->kind));
    return op->result();
  }

  static void mark_result(const ir::Value* value) {
    while (value->producer && value->producer->has_attribute(kExpandedFrom)) {
      ir::Op& op = *value->producer;
      if (op.kind != OpKind::reshape && op.kind != OpKind::permute && op.kind != OpKind::squeeze &&
          op.kind != OpKind::unsqueeze) {
        op.attributes[std::string(kExpansionResult)] = true;
        return;
      }
      value = op.operand(0);
    }
  }

  ir::Value* number(double value, DType dtype) {
    auto data = std::make_shared<ir::ConstantData>();
    auto put = [&](auto v) {
      const auto* bytes = reinterpret_cast<const std::byte*>(&v);
      data->bytes.assign(bytes, bytes + sizeof v);
    };
    dtype == DType::float64 ? put(value) : put(static_cast<float>(value));
    ir::Attributes attributes;
    attributes["value"] = std::shared_ptr<const ir::ConstantData>(data);
    return ir::append_op(block_, OpKind::constant, {}, std::move(attributes),
                         {graph::TensorType(dtype, {}, device_)}, origin_->location)
        ->result();
  }

  ir::Value* cast(ir::Value* x, DType dtype) {
    if (x->type.tensor().dtype == dtype) return x;
    return add(OpKind::cast, {x}, {{"dtype", dtype}});
  }

  /// The type that sums are made in: float32 for everything narrower.
  static DType wide(const ir::Value* x) {
    DType dtype = x->type.tensor().dtype;
    return dtype == DType::float64 ? dtype : DType(DType::float32);
  }

  ir::Value* reduce(OpKind kind, ir::Value* x, std::int64_t axis) {
    return add(kind, {x}, {{"axis", axis}});
  }

  ir::Value* softmax(const ir::Op& op, bool logarithm) {
    ir::Value* x = op.operand(0);
    auto axis = op.attribute<std::int64_t>("axis");
    // Nothing has no largest element, but the softmax of nothing is nothing.
    if (x->type.tensor().shape[static_cast<std::size_t>(axis)] == graph::Dim(0)) return x;
    device_ = x->type.tensor().device;
    DType dtype = x->type.tensor().dtype;
    DType sum_dtype = wide(x);
    x = cast(x, sum_dtype);
    ir::Value* shifted = add(OpKind::sub, {x, reduce(OpKind::reduce_max, x, axis)});
    ir::Value* exps = add(OpKind::exp, {shifted});
    ir::Value* sum = reduce(OpKind::reduce_sum, exps, axis);
    // The sum is at least 1, so its reciprocal is safe, and it is one division a line.
    ir::Value* result =
        logarithm ? add(OpKind::sub, {shifted, add(OpKind::log, {sum})})
                  : add(OpKind::mul, {exps, add(OpKind::div, {number(1, sum_dtype), sum})});
    return cast(result, dtype);
  }

  ir::Value* layer_norm(const ir::Op& op) {
    ir::Value* x = op.operand(0);
    device_ = x->type.tensor().device;
    DType dtype = x->type.tensor().dtype;
    DType sum_dtype = wide(x);
    const std::int64_t axis = x->type.tensor().rank() - 1;
    x = cast(x, sum_dtype);
    ir::Value* centred = add(OpKind::sub, {x, reduce(OpKind::reduce_mean, x, axis)});
    ir::Value* variance = reduce(OpKind::reduce_mean, add(OpKind::mul, {centred, centred}), axis);
    ir::Value* scale =
        add(OpKind::rsqrt,
            {add(OpKind::add, {variance, number(op.attribute<double>("epsilon"), sum_dtype)})});
    ir::Value* normal = add(OpKind::mul, {centred, scale});
    ir::Value* result = add(OpKind::mul, {normal, cast(op.operand(1), sum_dtype)});
    return cast(add(OpKind::add, {result, cast(op.operand(2), sum_dtype)}), dtype);
  }

  ir::Value* rms_norm(const ir::Op& op) {
    ir::Value* x = op.operand(0);
    device_ = x->type.tensor().device;
    DType dtype = x->type.tensor().dtype;
    DType sum_dtype = wide(x);
    const std::int64_t axis = x->type.tensor().rank() - 1;
    x = cast(x, sum_dtype);
    ir::Value* square = reduce(OpKind::reduce_mean, add(OpKind::mul, {x, x}), axis);
    ir::Value* scale =
        add(OpKind::rsqrt,
            {add(OpKind::add, {square, number(op.attribute<double>("epsilon"), sum_dtype)})});
    ir::Value* normal = add(OpKind::mul, {x, scale});
    const double offset = op.attribute<double>("weight_offset");
    const bool before_cast = op.attribute<bool>("multiply_before_cast");
    DType weight_dtype = before_cast ? sum_dtype : dtype;
    ir::Value* weight = cast(op.operand(1), weight_dtype);
    if (offset != 0)
      weight = add(OpKind::add, {weight, cast(number(offset, sum_dtype), weight_dtype)});
    return cast(add(OpKind::mul, {cast(normal, weight_dtype), weight}), dtype);
  }

  /// Halves are multiplied in float32 and rounded once. A product with one column is a sum of each
  /// row: tiles would leave most of their lanes empty. With one row it is a sum of each column,
  /// unless the matrix is packed before the call: to pack it takes longer than to read it.
  ir::Value* matmul(const ir::Op& op) {
    const graph::TensorType& type = op.result()->type.tensor();
    const DType dtype = type.dtype;
    const DType product = dtype.is_float() ? wide(op.result()) : dtype;
    const bool is_column = type.shape.back() == graph::Dim(1);
    const bool is_row =
        type.shape[type.shape.size() - 2] == graph::Dim(1) && !is_prepared(op.operand(1));
    if (product == dtype && !is_column && !is_row) return nullptr;
    device_ = type.device;
    ir::Value* lhs = cast(op.operand(0), product);
    ir::Value* rhs = cast(op.operand(1), product);
    if (!is_column && !is_row) return cast(add(OpKind::matmul, {lhs, rhs}), dtype);
    (is_column ? rhs : lhs) = transposed(is_column ? rhs : lhs);
    return cast(
        reduce(OpKind::reduce_sum, add(OpKind::mul, {lhs, rhs}), type.rank() - (is_column ? 1 : 2)),
        dtype);
  }

  /// Halves are summed in float32 and rounded once.
  ir::Value* cumsum(const ir::Op& op) {
    const DType dtype = op.result()->type.tensor().dtype;
    if (!dtype.is_float() || wide(op.result()) == dtype) return nullptr;
    return cast(add(op.kind, {cast(op.operand(0), wide(op.result()))}, op.attributes), dtype);
  }

  ir::Value* scatter(const ir::Op& op) {
    const graph::TensorType& input = op.operand(0)->type.tensor();
    const graph::Shape& updates = op.operand(1)->type.tensor().shape;
    const auto is = [](std::int64_t size) {
      return [size](const graph::Dim& dim) { return dim == graph::Dim(size); };
    };
    if (std::any_of(updates.begin(), updates.end(), is(0))) return op.operand(0);
    const std::optional<OpKind> combiner = combiner_of(op.kind);
    if (!combiner) return nullptr;
    // Duplicates of halves are combined in float32 and rounded once.
    const bool is_sum = *combiner == OpKind::add || *combiner == OpKind::mul;
    const DType work = is_sum && input.dtype.is_float() ? wide(op.result()) : input.dtype;
    const bool is_one = std::all_of(input.shape.begin(), input.shape.end(), is(1));
    if (is_one && !op.has_attribute("axis") &&
        op.operand(2)->type.tensor().shape.back() == graph::Dim(0)) {
      // All go to one element: no index says which.
      const graph::Dim count = updates.num_elements();
      ir::Value* all =
          add(OpKind::concat,
              {add(OpKind::reshape, {cast(op.operand(0), work)}, {{"shape", graph::Shape{1}}}),
               add(OpKind::reshape, {cast(op.operand(1), work)}, {{"shape", graph::Shape{count}}})},
              {{"axis", std::int64_t{0}}});
      const OpKind reduction = *combiner == OpKind::add   ? OpKind::reduce_sum
                               : *combiner == OpKind::mul ? OpKind::reduce_prod
                               : *combiner == OpKind::max ? OpKind::reduce_max
                                                          : OpKind::reduce_min;
      ir::Value* one = add(OpKind::reshape, {reduce(reduction, all, 0)}, {{"shape", input.shape}});
      return cast(one, input.dtype);
    }
    if (work == input.dtype) return nullptr;
    return cast(add(op.kind, {cast(op.operand(0), work), cast(op.operand(1), work), op.operand(2)},
                    op.attributes),
                input.dtype);
  }

  /// A convolution or its transpose of halves, in float32.
  ir::Value* in_wide(const ir::Op& op) {
    const DType dtype = op.result()->type.tensor().dtype;
    if (!dtype.is_half()) return nullptr;
    ir::Value* y =
        add(op.kind, {cast(op.operand(0), DType::float32), cast(op.operand(1), DType::float32)},
            op.attributes);
    return cast(y, dtype);
  }

  /// One tap that is always inside is a product of the channels.
  ir::Value* convolution(const ir::Op& op) {
    ir::Value* x = op.operand(0);
    const graph::Shape in = x->type.tensor().shape, taps = op.operand(1)->type.tensor().shape;
    const std::size_t dims = in.size() - 2;
    const auto &stride = op.attribute<Ints>("stride"), &padding = op.attribute<Ints>("padding");
    bool one_tap = op.attribute<std::int64_t>("groups") == 1;
    bool every_position = true;
    for (std::size_t i = 0; i < dims; ++i) {
      one_tap = one_tap && taps[i] == graph::Dim(1) && padding[2 * i] == 0 &&
                padding[2 * i + 1] == 0 && in[1 + i].is_static();
      every_position = every_position && stride[i] == 1;
    }
    if (!one_tap) return in_wide(op);
    const DType dtype = op.result()->type.tensor().dtype;
    const DType product = dtype.is_half() ? DType(DType::float32) : dtype;
    if (!every_position) {
      Ints steps(in.size(), 1);
      std::copy(stride.begin(), stride.end(), steps.begin() + 1);
      x = add(OpKind::slice, {x},
              {{"starts", graph::Shape(in.size(), graph::Dim(0))},
               {"stops", in},
               {"steps", std::move(steps)}});
    }
    ir::Value* w =
        add(OpKind::reshape, {op.operand(1)}, {{"shape", graph::Shape{in.back(), taps.back()}}});
    return cast(add(OpKind::matmul, {cast(x, product), cast(w, product)}), dtype);
  }

  /// Transposes with many phases (see build_windows.cpp) as the convolution of an input with zeros
  /// between its elements.
  ir::Value* transposed_convolution(const ir::Op& op) {
    const graph::Shape in = op.operand(0)->type.tensor().shape;
    const graph::Shape taps = op.operand(1)->type.tensor().shape;
    std::int64_t phases = 1;
    for (std::size_t i = 0; i < 2; ++i) {
      const std::int64_t every = phases_of_transposed(op, i);
      const std::int64_t most = taps[i].is_static() ? std::min(every, taps[i].value()) : every;
      phases = std::min(phases, kMostPhases + 1) * std::min(most, kMostPhases + 1);
    }
    if (phases <= kMostPhases) return in_wide(op);
    if (!taps[0].is_static() || !taps[1].is_static())
      throw NotImplementedError(format(
          "A 2-D deconvolution with stride {} takes a filter of static height and width, got shape "
          "{}. Give the filter static dims, for example with ops.rebind.",
          join(op.attribute<Ints>("stride"), ", "), taps.repr()));
    const DType dtype = op.result()->type.tensor().dtype;
    const DType product = dtype.is_half() ? DType(DType::float32) : dtype;
    const auto &stride = op.attribute<Ints>("stride"), &dilation = op.attribute<Ints>("dilation"),
               &padding = op.attribute<Ints>("padding"),
               &more = op.attribute<Ints>("output_paddings");
    ir::Value* x = add(OpKind::reshape, {op.operand(0)},
                       {{"shape", graph::Shape{in[0], in[1], 1, in[2], 1, in[3]}}});
    x = add(OpKind::pad, {x},
            {{"paddings", Ints{0, 0, 0, 0, 0, stride[0] - 1, 0, 0, 0, stride[1] - 1, 0, 0}},
             {"mode", std::string("constant")}});
    graph::Shape spread = in, starts(4, graph::Dim(0));
    for (std::size_t i = 0; i < 2; ++i) spread[1 + i] = in[1 + i] * stride[i];
    x = add(OpKind::reshape, {x}, {{"shape", spread}});
    Ints around(4, 0);
    for (std::size_t i = 0; i < 2; ++i) {
      const std::int64_t reach = dilation[i] * (taps[i].value() - 1);
      const std::int64_t before = reach - padding[2 * i];
      const std::int64_t after = reach + 1 + more[i] - padding[2 * i + 1] - stride[i];
      around[2 * i] = std::max<std::int64_t>(before, 0);
      around[2 * i + 1] = std::max<std::int64_t>(after, 0);
      starts[1 + i] = std::max<std::int64_t>(-before, 0);
      spread[1 + i] = spread[1 + i] - graph::Dim(std::max<std::int64_t>(-after, 0));
    }
    x = add(OpKind::slice, {x}, {{"starts", starts}, {"stops", spread}, {"steps", Ints(4, 1)}});
    ir::Value* w = transposed(op.operand(1));
    w = add(OpKind::slice, {w},
            {{"starts", graph::Shape{taps[0] - 1, taps[1] - 1, 0, 0}},
             {"stops", graph::Shape{-1, -1, taps[3], taps[2]}},
             {"steps", Ints{-1, -1, 1, 1}}});
    return cast(add(OpKind::conv2d, {cast(x, product), cast(w, product)},
                    {{"stride", Ints{1, 1}},
                     {"dilation", dilation},
                     {"padding", around},
                     {"groups", std::int64_t{1}}}),
                dtype);
  }

  ir::Value* transposed(ir::Value* x) {
    std::vector<std::int64_t> dims(static_cast<std::size_t>(x->type.tensor().rank()));
    std::iota(dims.begin(), dims.end(), 0);
    std::swap(dims.back(), dims[dims.size() - 2]);
    return add(OpKind::permute, {x}, {{"dims", std::move(dims)}});
  }

  /// Whether a value is known before a call: a weight or constant, or a form of one.
  static bool is_prepared(const ir::Value* value) {
    while (const ir::Op* op = value->producer) {
      if (op->kind == OpKind::constant || op->kind == OpKind::constant_external) return true;
      if (op->operands.size() != 1 || !op->regions.empty()) return false;
      value = op->operands[0];
    }
    return false;
  }

  ir::Block& block_;
  Renamed renamed_;
  const ir::Op* origin_ = nullptr;
  graph::DeviceRef device_;
};

bool has_side_effect(const ir::Op& op) {
  switch (op.kind) {
    case OpKind::output:
    case OpKind::yield:
    case OpKind::condition:
    case OpKind::buffer_store:
    case OpKind::buffer_store_slice:
    case OpKind::print:
    case OpKind::rebind:
    case OpKind::call:
    case OpKind::while_loop:
      return true;
    default:
      return !op.regions.empty();
  }
}

/// Whether a call checks or defines sizes for an op, be its values read or not: its shape may be.
bool settles_sizes(const ir::Op& op) {
  switch (op.kind) {
    case OpKind::slice:
    case OpKind::range:
    case OpKind::broadcast_to:
    case OpKind::top_k:
    case OpKind::bottom_k:
    case OpKind::pad:
    case OpKind::reduce_max:
    case OpKind::reduce_min:
    case OpKind::argmax:
    case OpKind::argmin:
    case OpKind::random_uniform:
    case OpKind::random_normal:
    case OpKind::conv2d:
    case OpKind::conv3d:
    case OpKind::conv2d_transpose:
    case OpKind::max_pool2d:
    case OpKind::avg_pool2d:
      break;
    default:
      return false;
  }
  if (op.has_attribute(kExpandedFrom)) return false;
  const auto is_open = [](const ir::Value* value) {
    return value->type.is_tensor() &&
           std::any_of(value->type.tensor().shape.begin(), value->type.tensor().shape.end(),
                       [](const graph::Dim& dim) { return !dim.is_static(); });
  };
  return op.operands.size() > 1 || std::any_of(op.operands.begin(), op.operands.end(), is_open) ||
         std::any_of(op.results.begin(), op.results.end(),
                     [&](const auto& result) { return is_open(result.get()); });
}

/// Whether a call refuses values of the op's operands, be its own values read or not.
bool checks_values(const ir::Op& op) {
  return op.kind == OpKind::gather || op.kind == OpKind::gather_nd || op.kind == OpKind::nonzero ||
         op.kind == OpKind::repeat_interleave || op.kind == OpKind::roi_align ||
         op.kind == OpKind::non_maximum_suppression || is_scatter(op.kind);
}

}  // namespace

std::string_view user_name(const ir::Op& op) {
  return op.has_attribute(kExpandedFrom)
             ? std::string_view(op.attribute<std::string>(kExpandedFrom))
             : graph::to_string(op.kind);
}

void expand(ir::Graph& graph) { Expander(*graph.body).run(); }

void remove_dead_ops(ir::Graph& graph) {
  std::vector<std::unique_ptr<ir::Op>>& ops = graph.body->ops;
  std::unordered_map<const ir::Value*, int> uses;
  auto count = [&](const auto& self, const ir::Op& op, int by) -> void {
    for (const ir::Value* operand : op.operands) uses[operand] += by;
    for (const auto& region : op.regions)
      for (const auto& inner : region->ops) self(self, *inner, by);
  };
  for (const auto& op : ops) count(count, *op, 1);
  for (std::size_t i = ops.size(); i-- > 0;) {
    const ir::Op& op = *ops[i];
    if (has_side_effect(op) || settles_sizes(op) || checks_values(op)) continue;
    bool used = false;
    for (const auto& result : op.results)
      used = used || (uses[result.get()] > 0 && !result->type.is_chain());
    if (used) continue;
    // A load also passes its chain on, which nothing of ours reads.
    if (op.kind == OpKind::chain_create || op.kind == OpKind::buffer_load) continue;
    count(count, op, -1);
    ops.erase(ops.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

}  // namespace kiln::compiler
