// Random numbers as expressions of the element's number, so that they are made where they are read.

#include <array>

#include "compiler/kernels/builder_state.h"
#include "compiler/passes/passes.h"
#include "kiln/support/format.h"

namespace kiln::compiler {

namespace {

/// Philox4x32-10. All words are 32 bits in uint64 expressions: a product of two is exact.
class Philox {
 public:
  explicit Philox(Arena& arena) : a_(arena) {}

  const Expr* number(std::uint64_t value) {
    return a_.integer(DType::uint64, static_cast<std::int64_t>(value));
  }
  const Expr* low(const Expr* x) { return binary(OpKind::logical_and, x, number(0xFFFFFFFF)); }
  const Expr* high(const Expr* x) { return a_.truncating_div(x, number(std::uint64_t{1} << 32)); }

  /// The four words for a counter.
  std::array<const Expr*, 4> words(const Expr* seed, std::array<const Expr*, 4> c) {
    const Expr *k0 = low(seed), *k1 = high(seed);
    for (int round = 0; round < 10; ++round) {
      if (round > 0) {
        k0 = low(binary(OpKind::add, k0, number(0x9E3779B9)));
        k1 = low(binary(OpKind::add, k1, number(0xBB67AE85)));
      }
      const Expr* p0 = binary(OpKind::mul, number(0xD2511F53), c[0]);
      const Expr* p1 = binary(OpKind::mul, number(0xCD9E8D57), c[2]);
      c = {exclusive_or(high(p1), exclusive_or(c[1], k0)), low(p1),
           exclusive_or(high(p0), exclusive_or(c[3], k1)), low(p0)};
    }
    return c;
  }

 private:
  // The logic ops work on all bits of integers.
  const Expr* exclusive_or(const Expr* x, const Expr* y) {
    return binary(OpKind::logical_xor, x, y);
  }
  const Expr* binary(OpKind op, const Expr* x, const Expr* y) {
    return a_.binary(op, x, y, DType::uint64);
  }

  Arena& a_;
};

/// The number before `x` in its float type; x is no NaN.
const Expr* before(Arena& arena, const Expr* x) {
  const DType dtype = x->dtype;
  const DType bits = dtype == DType::float64   ? DType::int64
                     : dtype == DType::float32 ? DType::int32
                                               : DType::int16;
  const auto binary = [&](OpKind op, const Expr* a, const Expr* b) {
    return arena.binary(op, a, b, bits);
  };
  const Expr* one = arena.integer(bits, 1);
  const Expr* code = arena.bits(x, bits);
  const Expr* zero = arena.constant(dtype, 0);
  // Codes of positive numbers rise with them, those of negative ones fall.
  const Expr* down = arena.bits(binary(OpKind::sub, code, one), dtype);
  const Expr* up = arena.bits(binary(OpKind::add, code, one), dtype);
  const Expr* tiny = arena.unary(OpKind::negate, arena.bits(one, dtype), dtype);
  return arena.select(arena.binary(OpKind::greater, x, zero, DType::bool_), down,
                      arena.select(arena.binary(OpKind::equal, x, zero, DType::bool_), tiny, up));
}

}  // namespace

const Expr* Builder::seed(Arena& arena, const ir::Op& op) {
  // A seed that is known lies in memory too: kernels that differ in it alone are then equal.
  const ir::Value* value = op.operand(0);
  if (value->producer && value->producer->kind == OpKind::constant && !tensor_of_.count(value)) {
    const auto& data =
        *value->producer->attribute<std::shared_ptr<const ir::ConstantData>>("value");
    return at_tensor(
        arena, value,
        new_tensor(Tensor::Storage::constant, value->type.tensor(), constants_.add(data)),
        {Index(0)});
  }
  return at(arena, value, {Index(0)});
}

const Expr* Builder::random(Arena& arena, const ir::Op& op, const Position& position) {
  const graph::TensorType& type = op.result()->type.tensor();
  Index flat(0);
  for (std::size_t i = 0; i < position.size(); ++i)
    flat = arena.add(arena.scale(flat, type.shape[i]), position[i]);
  const Expr* element = arena.cast(arena.index(flat), DType::uint64);
  return op.kind == OpKind::random_uniform ? random_uniform(arena, op, element)
                                           : random_normal(arena, op, element);
}

const Expr* Builder::random_uniform(Arena& arena, const ir::Op& op, const Expr* element) {
  const DType dtype = op.result()->type.tensor().dtype;
  const Expr *lower = at(arena, op.operand(1), {}), *upper = at(arena, op.operand(2), {});
  Philox philox(arena);
  const Expr* four = philox.number(4);
  const Expr* block = arena.truncating_div(element, four);
  const Expr* zero = philox.number(0);
  const auto words =
      philox.words(seed(arena, op), {philox.low(block), philox.high(block), zero, zero});
  const Expr* place = arena.binary(OpKind::logical_and, element, philox.number(3), DType::uint64);
  const Expr* word = words[3];
  for (int i = 2; i >= 0; --i)
    word = arena.select(arena.binary(OpKind::equal, place,
                                     philox.number(static_cast<std::uint64_t>(i)), DType::bool_),
                        words[static_cast<std::size_t>(i)], word);
  const Expr* top = arena.cast(arena.truncating_div(word, philox.number(256)), DType::int32);
  const auto binary = [&](OpKind kind, const Expr* x, const Expr* y) {
    return arena.binary(kind, x, y, x->dtype);
  };
  const auto fraction = [&](DType wide) {
    return binary(OpKind::mul, arena.cast(top, wide), arena.constant(wide, 0x1p-24));
  };
  if (!dtype.is_float()) {
    // The distance of the bounds may need all 64 bits of an unsigned number.
    const Expr* from = arena.cast(lower, DType::uint64);
    const Expr* distance = binary(OpKind::sub, arena.cast(upper, DType::uint64), from);
    const Expr* steps =
        binary(OpKind::mul, fraction(DType::float64), arena.cast(distance, DType::float64));
    steps = arena.cast(arena.unary(OpKind::floor, steps, DType::float64), DType::uint64);
    return arena.cast(binary(OpKind::add, from, steps), dtype);
  }
  const DType wide = dtype == DType::float64 ? dtype : DType(DType::float32);
  const Expr *low = arena.cast(lower, wide), *high = arena.cast(upper, wide);
  const Expr* value = arena.cast(
      binary(OpKind::add, low, binary(OpKind::mul, fraction(wide), binary(OpKind::sub, high, low))),
      dtype);
  const auto compare = [&](OpKind kind, const Expr* x, const Expr* y) {
    return arena.binary(kind, x, y, DType::bool_);
  };
  value = arena.select(compare(OpKind::greater_equal, value, upper), before(arena, upper), value);
  return arena.select(compare(OpKind::equal, lower, upper), lower, value);
}

const Expr* Builder::random_normal(Arena& arena, const ir::Op& op, const Expr* element) {
  const DType dtype = op.result()->type.tensor().dtype, f32 = DType::float32;
  const Expr *mean = at(arena, op.operand(1), {}), *deviation = at(arena, op.operand(2), {});
  Philox philox(arena);
  const Expr* zero = philox.number(0);
  const auto words =
      philox.words(seed(arena, op), {zero, zero, philox.low(element), philox.high(element)});
  const auto binary = [&](OpKind kind, const Expr* x, const Expr* y) {
    return arena.binary(kind, x, y, f32);
  };
  const auto number = [&](double value) { return arena.constant(f32, value); };
  // In (0, 1], as far as float32 tells.
  const auto fraction = [&](const Expr* word) {
    const Expr* whole = arena.cast(arena.cast(word, DType::uint32), f32);
    return binary(OpKind::mul, binary(OpKind::add, whole, number(0.5)), number(0x1p-32));
  };
  const Expr* log = arena.unary(OpKind::log, fraction(words[0]), f32);
  const Expr* radius = arena.unary(OpKind::sqrt, binary(OpKind::mul, number(-2), log), f32);
  const Expr* angle = binary(OpKind::mul, number(6.283185307179586), fraction(words[1]));
  const Expr* normal = binary(OpKind::mul, radius, arena.unary(OpKind::sin, angle, f32));
  const Expr* value = binary(OpKind::add, mean, binary(OpKind::mul, deviation, normal));
  if (!dtype.is_float()) value = arena.unary(OpKind::round, value, f32);
  return arena.cast(value, dtype);
}

void Builder::check_random(const ir::Op& op) {
  // Constants have been compared when the graph was built.
  const auto is_constant = [&](std::size_t i) {
    const ir::Op* producer = op.operand(i)->producer;
    return producer && producer->kind == OpKind::constant;
  };
  const bool uniform = op.kind == OpKind::random_uniform;
  if (is_constant(2) && (!uniform || is_constant(1))) return;
  const int cell = new_cell(op, DType::int64);
  auto kernel = new_kernel(Kernel::Kind::loops);
  Arena& arena = *kernel->arena;
  const Expr* second = at(arena, op.operand(2), {});
  const Expr* good =
      uniform
          ? arena.unary(
                OpKind::logical_not,
                arena.binary(OpKind::greater, at(arena, op.operand(1), {}), second, DType::bool_),
                DType::bool_)
          : arena.binary(OpKind::greater, second, arena.constant(DType::float32, 0), DType::bool_);
  kernel->stores.push_back({cell, Index(0), arena.cast(good, DType::int64)});
  note(op);
  emit(std::move(kernel));
  check(op, read_scalar(cell), Check::Relation::equal, 1,
        uniform ? "random.uniform: the lower bound is above the upper bound"
                : "random.normal: std must be positive",
        {});
}

}  // namespace kiln::compiler
