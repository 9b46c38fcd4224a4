#include "kiln/graph/ops/shape.h"

#include "kiln/graph/graph_state.h"
#include "kiln/graph/promotion.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph::ops {

using graph::detail::add_tensor_op;

TensorValue reshape(const TensorValueLike& x, const Shape& shape) {
  LocationScope at(x.location());
  TensorValue value = strong(x);
  Shape target = shape;
  std::optional<std::size_t> open;
  bool has_zero = false;
  Dim others = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == Dim(-1)) {
      if (open) throw ValueError("reshape(): at most one -1 dimension is allowed");
      open = i;
      continue;
    }
    if (shape[i] == Dim(0)) has_zero = true;
    others = others * shape[i];
  }
  if (open) {
    if (has_zero)
      throw ValueError("reshape(): cannot infer -1 dimension when another dimension is 0");
    const Dim total = value.shape().num_elements();
    const Dim size = total.floor_div(others);
    if (total.is_static() && others.is_static() && size * others != total)
      throw ValueError(
          format("[reshape] input and output number of elements must match: the input shape {} has "
                 "{} elements, which the other dims of the output shape {} do not divide.",
                 value.shape().repr(), total.to_string(), shape.repr()));
    target[*open] = size;
  }
  return add_tensor_op(OpKind::reshape, {value}, {{"shape", target}});
}

TensorValue flatten(const TensorValueLike& x, int start_dim, int end_dim) {
  LocationScope at(x.location());
  TensorValue value = strong(x);
  const Shape shape = value.shape();
  const int rank = std::max(shape.rank(), 1);
  for (auto [name, dim] : {std::pair{"start_dim", start_dim}, {"end_dim", end_dim}})
    if (dim < -rank || dim >= rank)
      throw IndexError(format("{} must be be between {} and {} (inclusive), but was {}", name,
                              -rank, rank - 1, dim));
  if (start_dim < 0) start_dim += rank;
  if (end_dim < 0) end_dim += rank;
  if (start_dim > end_dim) throw ValueError("start_dim cannot come after end_dim");
  if (shape.empty()) return reshape(value, {1});
  Shape merged(shape.begin(), shape.begin() + start_dim);
  merged.push_back(Shape(std::vector<Dim>(shape.begin() + start_dim, shape.begin() + end_dim + 1))
                       .num_elements());
  merged.insert(merged.end(), shape.begin() + end_dim + 1, shape.end());
  return reshape(value, merged);
}

namespace {

/// `dim` as `c * s + d` with constants and one symbol.
std::optional<std::string> lone_symbol(const Dim& dim) {
  std::optional<std::string> symbol;
  for (const DimTerm& term : dim.terms()) {
    if (term.atoms.empty()) continue;
    if (symbol || term.atoms.size() != 1 || !term.atoms[0].is_symbol() || term.coefficient < 1)
      return std::nullopt;
    symbol = term.atoms[0].symbol;
  }
  return symbol;
}

/// Every symbol must be known or be defined by some dim of its own.
void check_definitions(const Shape& shape) {
  std::set<std::string> known = graph::detail::current_graph()->symbols;
  for (const Dim& dim : shape)
    if (auto symbol = lone_symbol(dim)) known.insert(*symbol);
  for (const Dim& dim : shape)
    for (const std::string& symbol : dim.parameters())
      if (!known.count(symbol))
        throw ValueError(
            format("rebind cannot solve for the new symbol '{}' in dim {}: a new symbol "
                   "must appear alone or as c * {} + d with constants.",
                   symbol, dim.to_string(), symbol));
}

}  // namespace

TensorValue rebind(const TensorValueLike& x, const Shape& shape, const RebindOptions& options) {
  LocationScope at(x.location());
  TensorValue value = strong(x);
  check_definitions(shape);
  ir::Attributes attributes{{"shape", shape}, {"message", options.message}};
  if (options.layout) attributes["layout"] = *options.layout;
  return add_tensor_op(OpKind::rebind, {value}, std::move(attributes));
}

TensorValue detail::checked(const TensorValue& x, const SizeCheck& check) {
  return add_tensor_op(OpKind::rebind, {x},
                       {{"shape", x.shape()},
                        {"message", std::string()},
                        {"sentence", check.sentence},
                        {"given", check.given},
                        {"expected", check.expected},
                        {"shown", check.shown}});
}

TensorValue detail::rebind_vector(const TensorValue& x, const Dim& size,
                                  const std::string& sentence) {
  check_definitions({size});
  return add_tensor_op(
      OpKind::rebind, {x},
      {{"shape", Shape{size}}, {"message", std::string()}, {"sentence", sentence}});
}

TensorValue broadcast_to(const TensorValueLike& x, const Shape& shape) {
  LocationScope at(x.location());
  return add_tensor_op(OpKind::broadcast_to, {strong(x)}, {{"shape", shape}});
}

TensorValue broadcast_to(const TensorValueLike& x, const TensorValue& shape,
                         const std::optional<Shape>& out_dims) {
  LocationScope at(x.location());
  if (!out_dims)
    throw ValueError(format("must pass out_dims with tensor value shape {}", shape.repr()));
  return add_tensor_op(OpKind::broadcast_to, {strong(x), shape}, {{"shape", *out_dims}});
}

TensorValue squeeze(const TensorValueLike& x, int axis) {
  LocationScope at(x.location());
  TensorValue value = strong(x);
  const int rank = value.rank();
  if (axis < -rank || axis >= rank)
    throw IndexError(format("squeeze axis out of range: axis={}, rank={}", axis, rank));
  const std::int64_t from_start = axis < 0 ? axis + rank : axis;
  return add_tensor_op(OpKind::squeeze, {value}, {{"axis", from_start}});
}

TensorValue unsqueeze(const TensorValueLike& x, int axis) {
  LocationScope at(x.location());
  TensorValue value = strong(x);
  const int rank = value.rank();
  if (axis < -rank - 1 || axis > rank)
    throw ValueError(format("unsqueeze axis out of bounds: axis={}, rank={}", axis, rank));
  const std::int64_t from_start = axis < 0 ? axis + rank + 1 : axis;
  return add_tensor_op(OpKind::unsqueeze, {value}, {{"axis", from_start}});
}

TensorValue transpose(const TensorValueLike& x, int axis_1, int axis_2) {
  LocationScope at(x.location());
  TensorValue value = strong(x);
  const int rank = value.rank();
  const int low = std::min(-rank, -1), high = std::max(rank - 1, 0);
  for (auto [name, axis] : {std::pair{"axis_1", axis_1}, {"axis_2", axis_2}})
    if (axis < low || axis > high)
      throw IndexError(
          format("Axis {} out of range (expected to be in range of [{}, {}], but got {})", name,
                 low, high, axis));
  if (rank == 0) return value;
  std::vector<std::int64_t> dims(static_cast<std::size_t>(rank));
  for (int i = 0; i < rank; ++i) dims[i] = i;
  std::swap(dims[(axis_1 + rank) % rank], dims[(axis_2 + rank) % rank]);
  return add_tensor_op(OpKind::permute, {value}, {{"dims", dims}});
}

TensorValue permute(const TensorValueLike& x, const std::vector<std::int64_t>& dims) {
  LocationScope at(x.location());
  TensorValue value = strong(x);
  const int rank = value.rank();
  std::vector<std::int64_t> order = dims;
  if (static_cast<int>(dims.size()) == rank)
    for (std::int64_t& dim : order) {
      if (dim < -rank || dim >= rank)
        throw IndexError(
            format("All dimensions in the ordering must be be between {} and {} "
                   "(inclusive), but was {}",
                   -rank, rank - 1, dim));
      if (dim < 0) dim += rank;
    }
  return add_tensor_op(OpKind::permute, {value}, {{"dims", order}});
}

}  // namespace kiln::graph::ops
