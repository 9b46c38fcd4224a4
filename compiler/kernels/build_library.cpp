// Ops that functions of the runtime work out, since loops over independent elements cannot: they
// sort, scan, or make results whose size the data decides.

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "compiler/kernels/builder_state.h"
#include "compiler/passes/passes.h"
#include "kiln/graph/quantization.h"
#include "kiln/runtime/abi.h"
#include "kiln/support/format.h"

namespace kiln::compiler {

namespace {

using Argument = LibraryCall::Argument;

/// What comes before and behind an axis, as the extents of a tensor of rank 3.
struct Lines {
  Dim outer, length, inner;

  Lines(const graph::Shape& shape, std::size_t axis)
      : outer(graph::Shape(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis))
                  .num_elements()),
        length(shape[axis]),
        inner(graph::Shape(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape.end())
                  .num_elements()) {}
};

}  // namespace

int Builder::new_result(const ir::Value* value) {
  const int id = new_tensor(Tensor::Storage::temporary, value->type.tensor());
  tensor_of_[value] = id;
  return id;
}

int Builder::new_cell(const ir::Op& op, DType dtype) {
  Tensor cell;
  cell.origin = &op;
  cell.dtype = dtype;
  program_.tensors.push_back(std::move(cell));
  return static_cast<int>(program_.tensors.size()) - 1;
}

int Builder::stored_as(const ir::Value* value, DType dtype) {
  const graph::Type type = value->type.tensor().cast(dtype);
  const int id = new_tensor(Tensor::Storage::temporary, type.tensor());
  auto kernel = new_kernel(Kernel::Kind::loops);
  if (value->producer) note(*value->producer);
  Arena& arena = *kernel->arena;
  const Position position = add_axes(*kernel, type.tensor().shape);
  kernel->stores.push_back(
      {id, linear(arena, id, position), arena.cast(at(arena, value, position), dtype)});
  emit(std::move(kernel));
  return id;
}

void Builder::call(const ir::Op& op, std::size_t function, std::vector<Argument> arguments,
                   std::set<int> writes, bool may_run_once) {
  // What depends on weights and constants alone is worked out once.
  const bool once = steps_ == &program_.run &&
                    std::all_of(arguments.begin(), arguments.end(), [&](const Argument& argument) {
                      if (argument.kind == Argument::Kind::size) return argument.size.is_static();
                      if (argument.kind != Argument::Kind::tensor) return true;
                      return writes.count(argument.tensor)
                                 ? tensor(argument.tensor).num_elements().is_static()
                                 : is_constant(argument.tensor);
                    });
  if (once)
    for (const int id : writes) {
      tensor(id).storage = Tensor::Storage::prepared;
      tensor(id).number = program_.prepared_slots++;
    }
  Step step;
  step.call = std::make_unique<LibraryCall>(LibraryCall{.function = function,
                                                        .arguments = std::move(arguments),
                                                        .writes = std::move(writes),
                                                        .origin = &op});
  (once ? program_.init : *steps_).push_back(std::move(step));
}

void Builder::build_top_k(const ir::Op& op) {
  const ir::Value* x = op.operand(0);
  const graph::Shape& shape = x->type.tensor().shape;
  const auto axis = static_cast<std::size_t>(op.attribute<std::int64_t>("axis"));
  const Dim& k = op.attribute<Dim>("k");
  check(op, k, Check::Relation::at_most, shape[axis],
        format("k ({{0}}) cannot be larger than dimension size along axis {}", axis), {k});
  const Lines lines(shape, axis);
  const int source = stored(x), values = new_result(op.result(0)),
            indices = new_result(op.result(1));
  call(op, offsetof(KilnRuntime, top_k),
       {Argument::of_number(x->type.tensor().dtype.code()), Argument::of(source),
        Argument::of(values), Argument::of(indices), Argument::of(lines.outer),
        Argument::of(lines.length), Argument::of(lines.inner), Argument::of(k),
        Argument::of_number(op.kind == OpKind::top_k ? 1 : 0)},
       {values, indices}, /*may_run_once=*/true);
}

void Builder::build_cumsum(const ir::Op& op) {
  const ir::Value* x = op.operand(0);
  const Lines lines(x->type.tensor().shape,
                    static_cast<std::size_t>(op.attribute<std::int64_t>("axis")));
  const int source = stored(x), sums = new_result(op.result());
  call(op, offsetof(KilnRuntime, cumsum),
       {Argument::of_number(x->type.tensor().dtype.code()), Argument::of(source),
        Argument::of(sums), Argument::of(lines.outer), Argument::of(lines.length),
        Argument::of(lines.inner), Argument::of_number(op.attribute<bool>("exclusive") ? 1 : 0),
        Argument::of_number(op.attribute<bool>("reverse") ? 1 : 0)},
       {sums}, /*may_run_once=*/true);
  if (checks_numbers(op)) check_numbers(op, op.result());
}

void Builder::build_nonzero(const ir::Op& op) {
  const ir::Value* x = op.operand(0);
  const Dim& out_dim = op.attribute<Dim>("out_dim");
  const int mask = stored_as(x, DType::bool_);
  const int cell = new_cell(op, DType::int64);
  call(
      op, offsetof(KilnRuntime, count_true),
      {Argument::of(mask), Argument::of(x->type.tensor().shape.num_elements()), Argument::of(cell)},
      {cell});
  const Dim count = read_scalar(cell);
  const std::string what = op.has_attribute("label")
                               ? op.attribute<std::string>("label") +
                                     ": out_dim is {0} but the mask has {1} true elements"
                               : "nonzero: out_dim is {0} but {1} elements are not zero";
  settle(op, out_dim, count, what, {is_known(out_dim) ? out_dim : count, count});
  const int rows = new_result(op.result());
  call(op, offsetof(KilnRuntime, true_positions),
       {Argument::of(mask), Argument::of_number(x->type.tensor().rank()),
        Argument::extents_of(mask), Argument::of(rows)},
       {rows});
}

void Builder::build_dequantize(const ir::Op& op) {
  const auto encoding =
      graph::quantization_encoding_from_string(op.attribute<std::string>("encoding"));
  const int blocks = stored(op.operand(0)), elements = new_result(op.result());
  const Dim bytes = op.operand(0)->type.tensor().shape.num_elements();
  call(op, offsetof(KilnRuntime, dequantize),
       {Argument::of_number(static_cast<std::int32_t>(encoding)), Argument::of(blocks),
        Argument::of(bytes.floor_div(graph::block_size(encoding))), Argument::of(elements)},
       {elements}, /*may_run_once=*/true);
  if (checks_numbers(op)) check_numbers(op, op.result());
}

void Builder::build_qmatmul(const ir::Op& op) {
  const auto encoding =
      graph::quantization_encoding_from_string(op.attribute<std::string>("encoding"));
  const graph::Shape& shape = op.operand(0)->type.tensor().shape;
  const Lines rows(shape, shape.size() - 1);
  const int lhs = stored(op.operand(0)), rhs = stored(op.operand(1)),
            result = new_result(op.result());
  call(op, offsetof(KilnRuntime, qmatmul),
       {Argument::of_number(static_cast<std::int32_t>(encoding)), Argument::of(lhs),
        Argument::of(rhs), Argument::of(result), Argument::of(rows.outer),
        Argument::of(rows.length), Argument::of(op.result()->type.tensor().shape.back())},
       {result}, /*may_run_once=*/true);
  if (checks_numbers(op)) check_numbers(op, op.result());
}

void Builder::build_irfft(const ir::Op& op) {
  const ir::Value* x = op.operand(0);
  const bool is_complex = op.attribute<bool>("input_is_complex");
  graph::Shape shape = x->type.tensor().shape;
  if (is_complex) shape.pop_back();
  const Lines lines(shape, static_cast<std::size_t>(op.attribute<std::int64_t>("axis")));
  const std::int64_t n = op.attribute<std::int64_t>("n");
  const auto& normalization = op.attribute<std::string>("normalization");
  const auto size = static_cast<double>(n);
  const double scale = normalization == "backward" ? 1 / size
                       : normalization == "ortho"  ? 1 / std::sqrt(size)
                                                   : 1;
  const int source = stored(x), result = new_result(op.result());
  call(op, offsetof(KilnRuntime, irfft),
       {Argument::of(source), Argument::of(result), Argument::of(lines.outer),
        Argument::of(lines.length), Argument::of(lines.inner), Argument::of(Dim(n)),
        Argument::of_number(is_complex ? 1 : 0), Argument::of_real(scale)},
       {result}, /*may_run_once=*/true);
  if (checks_numbers(op)) check_numbers(op, op.result());
}

void Builder::build_roi_align(const ir::Op& op) {
  const int input = stored(op.operand(0)), rois = stored(op.operand(1));
  const int result = new_result(op.result());
  const graph::Shape& shape = op.result()->type.tensor().shape;
  call(op, offsetof(KilnRuntime, roi_align),
       {Argument::of(input), Argument::extents_of(input), Argument::of(rois),
        Argument::of(shape[0]), Argument::of(result), Argument::of(shape[1]),
        Argument::of(shape[2]), Argument::of_real(op.attribute<double>("spatial_scale")),
        Argument::of_real(op.attribute<double>("sampling_ratio")),
        Argument::of_number(op.attribute<bool>("aligned") ? 1 : 0),
        Argument::of_number(op.attribute<std::string>("mode") == "MAX" ? 1 : 0),
        Argument::failure("roi_align: batch index {0} is outside of [0, {1})")},
       {result});
  if (checks_numbers(op)) check_numbers(op, op.result());
}

void Builder::build_suppression(const ir::Op& op) {
  const ir::Value *boxes = op.operand(0), *scores = op.operand(1);
  const graph::Shape& shape = scores->type.tensor().shape;
  const Dim& out_dim = op.attribute<Dim>("out_dim");
  const Dim most = read_scalar(stored_as(op.operand(2), DType::int64));
  const int where = stored(boxes), how_good = stored(scores), overlap = stored(op.operand(3)),
            least = stored(op.operand(4));
  const int kept =
      new_tensor(Tensor::Storage::temporary,
                 graph::TensorType(DType::int64, shape, op.result()->type.tensor().device));
  const int total = new_cell(op, DType::int64);
  call(op, offsetof(KilnRuntime, suppress_boxes),
       {Argument::of_number(boxes->type.tensor().dtype.code()), Argument::of(where),
        Argument::of(how_good), Argument::of(overlap), Argument::of(least), Argument::of(shape[0]),
        Argument::of(shape[1]), Argument::of(shape[2]), Argument::of(most), Argument::of(kept),
        Argument::of(total)},
       {kept, total});
  const Dim count = read_scalar(total);
  settle(op, out_dim, count, "non_maximum_suppression: out_dim is {0} but {1} boxes were selected",
         {is_known(out_dim) ? out_dim : count, count});
  const int rows = new_result(op.result());
  call(op, offsetof(KilnRuntime, kept_boxes),
       {Argument::of(kept), Argument::of(shape[0]), Argument::of(shape[1]), Argument::of(shape[2]),
        Argument::of(rows)},
       {rows});
}

void Builder::build_repeats(const ir::Op& op) {
  const auto axis = static_cast<std::size_t>(op.attribute<std::int64_t>("axis"));
  const Dim& n = op.operand(0)->type.tensor().shape[axis];
  const Dim& out_dim = op.attribute<Dim>("out_dim");
  const graph::Shape& shape = op.operand(1)->type.tensor().shape;
  const bool same = shape.num_elements() == Dim(1) && n != Dim(1);
  const int counts = stored_as(op.operand(1), DType::int64);
  Dim total = 0;
  if (same) {
    total = read_scalar(counts);
    check(op, total, Check::Relation::at_least, 0,
          "repeat_interleave: the repeats must not be negative, but one is {0}", {total});
    total = total * n;
    check(op, total, Check::Relation::fits, total,
          "repeat_interleave: the repeated elements are more than a dim can count", {});
  } else {
    const int least = new_cell(op, DType::int64), sum = new_cell(op, DType::int64);
    const Dim length = shape.num_elements();
    for (const auto& [cell, reduction] :
         {std::pair(least, Reduction::min), {sum, Reduction::sum}}) {
      auto kernel = new_kernel(Kernel::Kind::loops);
      Arena& arena = *kernel->arena;
      const int a = arena.new_axis(length);
      const Expr* count = arena.load(DType::int64, counts, arena.axis_index(a));
      kernel->stores.push_back({cell, Index(0), arena.reduce(reduction, count, a, DType::int64)});
      note(op);
      emit(std::move(kernel));
    }
    const Dim lowest = read_scalar(least);
    check(op, lowest, Check::Relation::at_least, 0,
          "repeat_interleave: the repeats must not be negative, but one is {0}", {lowest});
    total = read_scalar(sum);
    // A sum of numbers that are not negative comes out negative when it leaves 64 bits.
    check(op, total, Check::Relation::at_least, 0,
          "repeat_interleave: the repeated elements are more than a dim can count", {});
  }
  settle(op, out_dim, total, "repeat_interleave: out_dim is {0} but the repeats add up to {1}",
         {is_known(out_dim) ? out_dim : total, total});
  const int positions =
      new_tensor(Tensor::Storage::temporary,
                 graph::TensorType(DType::int64, {out_dim}, op.result()->type.tensor().device));
  call(
      op, offsetof(KilnRuntime, repeat_positions),
      {Argument::of(counts), Argument::of_number(same ? 1 : 0), Argument::of(n),
       Argument::of(out_dim), Argument::of(positions),
       Argument::failure("repeat_interleave: the repeated elements are more than a dim can count")},
      {positions});
  repeats_[&op] = positions;
}

}  // namespace kiln::compiler
