// Extents that only a call knows: checks, symbols that ops define, bounds read from tensors.

#include <algorithm>
#include <bit>
#include <functional>
#include <set>
#include <utility>

#include "compiler/kernels/builder_state.h"
#include "compiler/kernels/constants.h"
#include "compiler/passes/passes.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::compiler {

void Builder::check(const ir::Op& op, const Dim& left, Check::Relation relation, const Dim& right,
                    std::string sentence, std::vector<Dim> values) {
  if (left.is_static() && right.is_static()) {
    bool holds = relation == Check::Relation::equal       ? left == right
                 : relation == Check::Relation::different ? left != right
                 : relation == Check::Relation::at_least  ? left.value() >= right.value()
                 : relation == Check::Relation::at_most   ? left.value() <= right.value()
                 : relation == Check::Relation::divides   ? right.value() % left.value() == 0
                                                          : true;
    if (holds) return;
  }
  if (left == right &&
      (relation == Check::Relation::equal || relation == Check::Relation::at_least ||
       relation == Check::Relation::at_most))
    return;
  Step step;
  step.check = std::make_unique<Check>(
      Check{left, relation, right, std::move(sentence), std::move(values), &op});
  steps_->push_back(std::move(step));
}

void Builder::define(const std::string& symbol, const Dim& value, bool size) {
  if (!known_symbols_.insert(symbol).second) return;
  Step step;
  step.define = std::make_unique<Define>(Define{symbol, value, size});
  steps_->push_back(std::move(step));
}

bool Builder::is_known(const Dim& dim) {
  for (const std::string& symbol : dim.parameters())
    if (!known_symbols_.count(symbol)) return false;
  return true;
}

Dim Builder::read_scalar(const ir::Value* value) { return read_scalar(stored(value)); }

Dim Builder::read_scalar(int tensor) {
  std::string symbol = format("kiln_scalar_{}", scalars_++);
  known_symbols_.insert(symbol);
  Step step;
  step.read = std::make_unique<ReadScalar>(ReadScalar{symbol, tensor});
  steps_->push_back(std::move(step));
  return Dim(symbol);
}

Builder::ReadIndex Builder::read_index(const ir::Value* value, const Dim& size) {
  Dim given = read_scalar(value);
  // What an unsigned number of 64 bits loses its sign to stays negative, and so out of range.
  if (!value->type.tensor().dtype.is_signed_integral()) return {given, given, "{0u}"};
  std::string symbol = format("kiln_scalar_{}", scalars_++);
  known_symbols_.insert(symbol);
  Step step;
  step.wrap = std::make_unique<WrapIndex>(WrapIndex{symbol, given, size});
  steps_->push_back(std::move(step));
  return {given, Dim(symbol), "{0}"};
}

bool Builder::picks(const ir::Op& slice, std::size_t axis) {
  if (slice.kind != OpKind::slice) return false;
  // Dropped axes are squeezed from the last one on.
  for (const ir::Value* value = slice.result();;) {
    auto users = users_.find(value);
    if (users == users_.end() || users->second.size() != 1) return false;
    const ir::Op& user = *users->second.front();
    if (user.kind != OpKind::squeeze) return false;
    auto dropped = static_cast<std::size_t>(user.attribute<std::int64_t>("axis"));
    if (dropped <= axis) return dropped == axis;
    value = user.result();
  }
}

int Builder::stored(const ir::Value* value) {
  if (auto it = tensor_of_.find(value); it != tensor_of_.end()) return it->second;
  int id = new_tensor(Tensor::Storage::temporary, value->type.shaped());
  if (value->producer) tensor(id).origin = value->producer;
  store_value(value, id);
  tensor_of_[value] = id;
  return id;
}

void Builder::settle(const ir::Op& op, const Dim& declared, const Dim& actual,
                     const std::string& sentence, std::vector<Dim> values) {
  if (declared == actual) return;
  if (is_known(declared)) {
    check(op, actual, Check::Relation::equal, declared, sentence, std::move(values));
    return;
  }
  // A new symbol, alone or as c·s + d.
  Dim coefficient = 0, rest = 0;
  std::string symbol;
  for (const graph::DimTerm& term : declared.terms()) {
    if (term.atoms.size() == 1 && term.atoms[0].is_symbol() &&
        !known_symbols_.count(term.atoms[0].symbol)) {
      symbol = term.atoms[0].symbol;
      coefficient = term.coefficient;
    } else if (term.atoms.empty()) {
      rest = term.coefficient;
    }
  }
  Dim numerator = actual - rest;
  if (rest != Dim(0)) check(op, numerator, Check::Relation::at_least, 0, sentence, values);
  if (coefficient != Dim(1))
    check(op, coefficient, Check::Relation::divides, numerator, sentence, values);
  define(symbol, numerator.floor_div(coefficient));
}

void Builder::check_divisors(const ir::Op& op, const Dim& dim) {
  if (dim.is_static()) return;
  for (const graph::DimTerm& term : dim.terms())
    for (const graph::DimAtom& atom : term.atoms) {
      if (atom.is_symbol()) continue;
      check_divisors(op, atom.numerator);
      check_divisors(op, atom.denominator);
      // What an op defines is settled with it; nothing can have divided by it before.
      if (atom.denominator.is_static() || !is_known(atom.denominator)) continue;
      if (!checked_divisors_.insert(atom.denominator.to_string()).second) continue;
      check(op, atom.denominator, Check::Relation::different, 0,
            format("The dim {} divides by {}, which is 0.", dim.to_string(),
                   atom.denominator.to_string()),
            {});
    }
}

void Builder::check_extents(const ir::Op& op) {
  for (const auto& result : op.results)
    if (result->type.is_tensor() || result->type.is_buffer())
      for (const Dim& dim : result->type.shaped().shape) check_divisors(op, dim);
  for (const auto& [name, attribute] : op.attributes) {
    if (const auto* dim = std::get_if<Dim>(&attribute)) check_divisors(op, *dim);
    if (const auto* shape = std::get_if<graph::Shape>(&attribute))
      for (const Dim& dim : *shape) check_divisors(op, dim);
  }
  switch (op.kind) {
    case OpKind::pad: {
      if (op.attribute<std::string>("mode") == "constant") break;
      const graph::Shape& shape = op.operand(0)->type.tensor().shape;
      const auto& paddings = op.attribute<std::vector<std::int64_t>>("paddings");
      for (std::size_t i = 0; i < shape.size(); ++i)
        if (paddings[2 * i] + paddings[2 * i + 1] > 0)
          check(op, shape[i], Check::Relation::at_least, 1,
                format("pad: mode '{}' cannot extend the empty axis {}.",
                       op.attribute<std::string>("mode"), i),
                {});
      break;
    }
    case OpKind::scatter:
    case OpKind::scatter_add:
    case OpKind::scatter_max:
    case OpKind::scatter_min:
    case OpKind::scatter_mul: {
      const graph::Shape& shape = op.operand(0)->type.tensor().shape;
      const graph::Shape& indices = op.operand(2)->type.tensor().shape;
      const auto axis = static_cast<std::size_t>(op.attribute<std::int64_t>("axis"));
      for (std::size_t i = 0; i < shape.size(); ++i)
        if (i != axis)
          check(op, indices[i], Check::Relation::at_most, shape[i],
                format("{}: axis {} of indices has size {{0}}, more than {{1}} of the input.",
                       user_name(op), i),
                {indices[i], shape[i]});
      break;
    }
    case OpKind::shape_to_tensor:
      for (const Dim& dim : op.attribute<graph::Shape>("shape"))
        if (!dim.is_static() && !dim.is_symbolic())
          check(op, dim, Check::Relation::fits, dim,
                format("{}: {} does not fit 64 bits", user_name(op), dim.to_string()), {});
      break;
    case OpKind::reduce_max:
    case OpKind::reduce_min:
    case OpKind::argmax:
    case OpKind::argmin: {
      const graph::Shape& shape = op.operand(0)->type.tensor().shape;
      const auto axis = static_cast<std::size_t>(op.attribute<std::int64_t>("axis"));
      if (!shape[axis].is_static() && !op.has_attribute(kExpandedFrom))
        check(op, shape[axis], Check::Relation::at_least, 1,
              format("{}: the reduced axis {} is empty", graph::to_string(op.kind), axis), {});
      break;
    }
    case OpKind::conv2d:
    case OpKind::conv3d:
    case OpKind::conv2d_transpose: {
      const graph::Shape& shape = op.result()->type.tensor().shape;
      for (std::size_t i = 1; i + 1 < shape.size(); ++i)
        check(op, shape[i], Check::Relation::at_least, 1,
              format("[{}] output spatial dim must be positive",
                     op.kind == OpKind::conv2d_transpose ? "conv_transpose" : "convolution"),
              {});
      break;
    }
    case OpKind::rebind:
      check_rebind(op);
      break;
    case OpKind::slice:
    case OpKind::buffer_store_slice:
      check_slice(op);
      break;
    case OpKind::broadcast_to:
      if (op.operands.size() == 2) check_broadcast(op);
      break;
    case OpKind::range:
      if (!op.operands.empty())
        check_range(op);
      else
        define_length(op);
      break;
    case OpKind::random_uniform:
    case OpKind::random_normal:
      check_random(op);
      break;
    default:
      break;
  }
}

void Builder::check_rebind(const ir::Op& op) {
  const bool is_check = op.has_attribute("given");
  const graph::Shape& from =
      is_check ? op.attribute<graph::Shape>("given") : op.operand(0)->type.tensor().shape;
  const graph::Shape& to =
      is_check ? op.attribute<graph::Shape>("expected") : op.result()->type.tensor().shape;
  if (op.has_attribute("sentence")) {
    for (std::size_t i = 0; i < from.size(); ++i)
      settle(op, to[i], from[i], op.attribute<std::string>("sentence"),
             is_check ? op.attribute<graph::Shape>("shown")
                      : graph::Shape{is_known(to[i]) ? to[i] : from[i], from[i]});
    return;
  }
  const std::string message =
      op.has_attribute("message") ? op.attribute<std::string>("message") : "";
  for (std::size_t i = 0; i < from.size(); ++i) {
    // A symbol that an axis before this one has defined has its number by now.
    std::vector<Dim> values;
    auto shown = [&](const graph::Shape& shape) -> std::string {
      std::vector<std::string> dims;
      for (const Dim& dim : shape) {
        dims.push_back(dim.to_string());
        if (dim.is_static() || !is_known(dim)) continue;
        dims.back() += format(" = {{{}}}", values.size());
        values.push_back(dim);
      }
      return format("{}", kiln::join(dims, ", "));
    };
    const std::string expected = shown(to), actual = shown(from);
    settle(op, to[i], from[i],
           format("rebind shape check failed: {}\nexpected shape: [{}]\nactual shape: [{}]",
                  message, expected, actual),
           std::move(values));
  }
}

void Builder::check_sizes(const ir::Op& op) {
  for (const auto& result : op.results) {
    if (!result->type.is_tensor() && !result->type.is_buffer()) continue;
    const graph::Shape& shape = result->type.shaped().shape;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const Dim& dim = shape[i];
      if (dim.is_static() || !is_known(dim) || !sizes_.insert(dim.to_string()).second) continue;
      // The bounds of a slice have been checked.
      if (dim.is_symbolic() || op.kind == OpKind::slice) continue;
      const std::string what = format("{}: axis {} of the result would have {} elements, which",
                                      user_name(op), i, dim.to_string());
      check(op, dim, Check::Relation::fits, dim, what + " does not fit 64 bits", {});
      if (!is_never_negative(dim))
        check(op, dim, Check::Relation::at_least, 0, what + " is {0}", {dim});
    }
  }
}

void Builder::check_slice(const ir::Op& op) {
  const graph::Shape& shape = op.operand(0)->type.shaped().shape;
  Bounds bounds{op.attribute<graph::Shape>("starts"), op.attribute<graph::Shape>("stops"), {}};
  const auto& steps = op.attribute<std::vector<std::int64_t>>("steps");
  for (std::int64_t step : steps) bounds.steps.push_back(Dim(step));
  auto axes = [&](std::string_view name) {
    return op.has_attribute(name) ? op.attribute<std::vector<std::int64_t>>(name)
                                  : std::vector<std::int64_t>();
  };
  std::size_t operand = op.kind == OpKind::slice ? 1 : 2;
  // What the user gave, by axis, where it is not the bound itself.
  std::map<std::size_t, ReadIndex> starts, stops;
  for (std::int64_t axis : axes("dynamic_starts")) {
    auto i = static_cast<std::size_t>(axis);
    starts[i] = read_index(op.operand(operand++), shape[i]);
    bounds.starts[i] = starts[i].from_start;
  }
  for (std::int64_t axis : axes("dynamic_stops")) {
    auto i = static_cast<std::size_t>(axis);
    stops[i] = read_index(op.operand(operand++), shape[i]);
    bounds.stops[i] = stops[i].from_start;
  }
  auto check_index = [&](std::size_t i, const ReadIndex& index) {
    std::string sentence = format("Index {} out of range of dim {{1}}", index.shown);
    const std::vector<Dim> values = {index.given, shape[i]};
    check(op, index.from_start, Check::Relation::at_least, 0, sentence, values);
    check(op, index.from_start, Check::Relation::at_most, shape[i] - 1, sentence, values);
  };
  std::set<std::size_t> picked;
  for (std::int64_t axis : axes("dynamic_indices")) {
    auto i = static_cast<std::size_t>(axis);
    const ReadIndex index = read_index(op.operand(operand++), shape[i]);
    check_index(i, index);
    picked.insert(i);
    bounds.starts[i] = index.from_start;
    bounds.stops[i] = index.from_start + 1;
  }
  for (std::int64_t axis : axes("dynamic_steps")) {
    Dim& step = bounds.steps[static_cast<std::size_t>(axis)];
    const ir::Value* tensor = op.operand(operand++);
    step = read_scalar(tensor);
    check(op, step, Check::Relation::at_least, 1,
          format("expected positive integer step but got {}",
                 tensor->type.tensor().dtype.is_signed_integral() ? "{0}" : "{0u}"),
          {step});
  }
  // A bound that was given as a negative number is algebra by now.
  auto as_given = [&](const Dim& bound, const Dim& n) -> ReadIndex {
    const Dim from_end = bound - n;
    const bool negative = !n.is_static() && from_end.is_static() && from_end.value() < 0;
    return {negative ? from_end : bound, bound, "{0}"};
  };
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const Dim &start = bounds.starts[i], &stop = bounds.stops[i], &n = shape[i];
    if (picked.count(i) || (start.is_static() && stop.is_static() && n.is_static())) continue;
    const ReadIndex first = starts.count(i) ? starts[i] : as_given(start, n);
    const ReadIndex last = stops.count(i) ? stops[i] : as_given(stop, n);
    if (bounds.steps[i] == Dim(1) && stop == start + 1 && picks(op, i)) {
      check_index(i, first);
      continue;
    }
    bool forward = steps[i] > 0;
    auto in_range = [&](const ReadIndex& index, std::string_view which) {
      const Dim& bound = index.from_start;
      std::string sentence =
          format("slice {} index {} out of range for dimension size {{1}}", which, index.shown);
      const std::vector<Dim> values = {index.given, n};
      if (!bound.is_static() || bound.value() > 0)
        if (bound != n) check(op, bound, Check::Relation::at_most, n, sentence, values);
      Dim lowest = forward ? 0 : -1;
      if (!bound.is_static() && bound != n)
        check(op, bound, Check::Relation::at_least, lowest, sentence, values);
    };
    in_range(first, "start");
    in_range(last, "stop");
    if (start == Dim(0) && forward) continue;
    check(op, start, forward ? Check::Relation::at_most : Check::Relation::at_least, stop,
          "start and stop should be increasing for positive step and decreasing for negative step, "
          "but got start {0}, stop {1} for step {2}",
          {first.given, last.given, bounds.steps[i]});
  }
  // Result dims that the user named.
  if (op.has_attribute("out_dims")) {
    const auto& out = op.attribute<graph::Shape>("out_dims");
    for (std::size_t i = 0; i < out.size(); ++i) {
      const Dim& step = bounds.steps[i];
      const Dim span = bounds.stops[i] - bounds.starts[i];
      // A step that only running tells may be as large as a number can be.
      const Dim size = step.is_static() ? (span + step - (steps[i] > 0 ? 1 : -1)).floor_div(step)
                                        : (span - 1).floor_div(step) + 1;
      settle(op, out[i], size,
             format("{}: out_dim is {{0}} but the slice has {{1}} elements on axis {}",
                    user_name(op), i),
             {is_known(out[i]) ? out[i] : size, size});
    }
  }
  bounds_[&op] = std::move(bounds);
}

void Builder::check_broadcast(const ir::Op& op) {
  const graph::Shape& from = op.operand(0)->type.tensor().shape;
  const graph::Shape& to = op.result()->type.tensor().shape;
  // The target shape is a vector in memory; its elements are read one by one.
  const ir::Value* target = op.operand(1);
  for (std::size_t j = 0; j < to.size(); ++j) {
    Dim wanted = read_element(op, target, j);
    check(op, wanted, Check::Relation::at_least, 0,
          format("broadcast_to: the target's extent {{0}} on axis {} is negative", j), {wanted});
    settle(
        op, to[j], wanted,
        format("broadcast_to: out_dim {{0}} differs from the target's extent {{1}} on axis {}", j),
        {is_known(to[j]) ? to[j] : wanted, wanted});
  }
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t j = to.size() - from.size() + i;
    if (from[i] == Dim(1)) continue;
    check(op, from[i], Check::Relation::equal, to[j],
          format("[broadcast_to] input dimension at index {} ({{0}}) must be either 1 or equal to "
                 "corresponding output dimension at index {} ({{1}})",
                 i, j),
          {from[i], to[j]});
  }
}

Dim Builder::read_element(const ir::Op& op, const ir::Value* vector, std::size_t i) {
  const int id = new_cell(op, vector->type.tensor().dtype);
  auto kernel = new_kernel(Kernel::Kind::loops);
  Position position = {Index(Dim(static_cast<std::int64_t>(i)))};
  kernel->stores.push_back({id, Index(0), at(*kernel->arena, vector, position)});
  note(op);
  emit(std::move(kernel));
  return read_scalar(id);
}

void Builder::define_length(const ir::Op& op) {
  const Dim& size = op.result()->type.tensor().shape[0];
  const Dim& length = op.attribute<Dim>("out_dim");
  if (size == length) return;
  check(op, length, Check::Relation::fits, length,
        format("range: its length, {}, does not fit 64 bits", length.to_string()), {});
  define(size.name(), length, /*size=*/true);
}

void Builder::check_range(const ir::Op& op) {
  const Dim& declared = op.result()->type.tensor().shape[0];
  DType dtype = op.operand(0)->type.tensor().dtype;
  // The number of elements is worked out by a kernel of one point, for floats too.
  const int id = new_cell(op, DType::int64);
  auto kernel = new_kernel(Kernel::Kind::loops);
  Arena& arena = *kernel->arena;
  DType wide = dtype.is_float() ? DType(DType::float64) : dtype;
  auto bound = [&](std::size_t k) {
    const ir::Value* value = op.operand(k);
    return arena.cast(at(arena, value, Position(value->type.tensor().shape.size(), Index(0))),
                      wide);
  };
  const Expr *start = bound(0), *stop = bound(1), *step = bound(2);
  auto zero = [&] { return dtype.is_float() ? arena.constant(wide, 0) : arena.integer(wide, 0); };
  auto both = [&](const Expr* a, const Expr* b, const Expr* c, const Expr* d) {
    return arena.binary(OpKind::logical_and, arena.binary(OpKind::greater, a, b, DType::bool_),
                        arena.binary(OpKind::greater, c, d, DType::bool_), DType::bool_);
  };
  const Expr* too_many = nullptr;
  const Expr* count = nullptr;
  if (wide.is_float()) {
    const Expr* span = arena.binary(OpKind::sub, stop, start, wide);
    const Expr* quotient = arena.binary(OpKind::div, span, step, wide);
    too_many = arena.binary(OpKind::greater, quotient, arena.constant(wide, 0x1p62), DType::bool_);
    count = arena.cast(
        arena.unary(OpKind::ceil, arena.select(too_many, arena.constant(wide, 0), quotient), wide),
        DType::int64);
  } else {
    // The distance may need all 64 bits; in unsigned numbers it is exact whatever the ends are.
    const DType bits = DType::uint64;
    auto unsigned_of = [&](const Expr* e) { return arena.cast(e, bits); };
    const Expr* rising = arena.binary(OpKind::greater, step, zero(), DType::bool_);
    const Expr* up = arena.binary(OpKind::sub, unsigned_of(stop), unsigned_of(start), bits);
    const Expr* down = arena.binary(OpKind::sub, unsigned_of(start), unsigned_of(stop), bits);
    const Expr* distance = arena.select(rising, up, down);
    const Expr* none = arena.integer(bits, 0);
    const Expr* one = arena.integer(bits, 1);
    const Expr* size = arena.select(rising, unsigned_of(step),
                                    arena.binary(OpKind::sub, none, unsigned_of(step), bits));
    size = arena.select(arena.binary(OpKind::equal, size, none, DType::bool_), one, size);
    const Expr* before_last = arena.binary(OpKind::sub, distance, one, bits);
    const Expr* n =
        arena.select(arena.binary(OpKind::equal, distance, none, DType::bool_), none,
                     arena.binary(OpKind::add, arena.truncating_div(before_last, size), one, bits));
    too_many = arena.binary(OpKind::greater, n, arena.integer(bits, INT64_MAX), DType::bool_);
    count = arena.cast(arena.select(too_many, none, n), DType::int64);
  }
  count = arena.binary(OpKind::max, count, arena.integer(DType::int64, 0), DType::int64);
  // A count of -1 stands for a step of 0, -2 and -3 for a wrong direction, -4 for too many.
  count = arena.select(too_many, arena.integer(DType::int64, -4), count);
  const Expr* flat = arena.binary(OpKind::equal, step, zero(), DType::bool_);
  if (!dtype.is_float()) {
    count = arena.select(both(step, zero(), start, stop), arena.integer(DType::int64, -2), count);
    count = arena.select(both(zero(), step, stop, start), arena.integer(DType::int64, -3), count);
  }
  count = arena.select(flat, arena.integer(DType::int64, -1), count);
  kernel->stores.push_back({id, Index(0), count});
  note(op);
  emit(std::move(kernel));
  Dim n = read_scalar(id);
  check(op, n, Check::Relation::different, -4,
        "range: the elements from start to stop are more than a dim can count", {});
  check(op, n + 1, Check::Relation::at_least, -1,
        "range: requires (start <= stop) for positive step and (start >= stop) for negative step",
        {});
  check(op, n, Check::Relation::at_least, -1, "range: requires (start <= stop) for positive step",
        {});
  check(op, n, Check::Relation::at_least, 0, "range: step must be non-zero", {});
  settle(op, declared, n, "range: out_dim is {0} but the range has {1} elements",
         {is_known(declared) ? declared : n, n});
}

void Builder::check_numbers(const ir::Op& op, const ir::Value* value) {
  DType dtype = value->type.tensor().dtype;
  if (!dtype.is_float() || dtype == DType::float4_e2m1fn) return;
  const int id = tensor_of_.at(value);
  const Dim elements = tensor(id).num_elements();
  std::vector<Dim> counts;
  for (OpKind kind : {OpKind::is_nan, OpKind::is_inf}) {
    const int count = new_cell(op, DType::int64);
    auto kernel = new_kernel(Kernel::Kind::loops);
    Arena& arena = *kernel->arena;
    const int axis = arena.new_axis(elements);
    const Expr* odd =
        arena.unary(kind, arena.load(dtype, id, arena.axis_index(axis)), DType::bool_);
    kernel->stores.push_back(
        {count, Index(0),
         arena.reduce(Reduction::sum, arena.cast(odd, DType::int64), axis, DType::int64)});
    note(op);
    emit(std::move(kernel));
    counts.push_back(read_scalar(count));
  }
  std::string_view name = user_name(op);
  check(op, counts[0] + counts[1], Check::Relation::equal, 0,
        format("nan-check: the output of op '{}' has {{0}} NaN and {{1}} Inf elements", name),
        counts);
  steps_->back().check->is_runtime_error = true;
}

}  // namespace kiln::compiler
