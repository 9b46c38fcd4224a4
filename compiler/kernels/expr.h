#pragma once

// What a kernel computes: a graph of expressions over the loop axes of the kernel.
//
// An Index is an integer position, affine in "atoms": the axes of the kernel, and whatever could
// not be written with them alone (quotients and remainders of reshapes, values read from index
// tensors). Moves of the graph (reshape, permute, slice, broadcast, gather, …) only change the
// Index at which their operand is read, so they cost no kernel of their own.
//
// Everything lives in an Arena and is unique there: equal expressions are the same pointer, which
// makes common subexpressions free.

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "kiln/dtype/dtype.h"
#include "kiln/graph/dim.h"
#include "kiln/graph/ir.h"
#include "kiln/graph/op_kind.h"

namespace kiln::compiler {

using graph::Dim;
using graph::OpKind;

struct Expr;
struct Atom;

/// A set of axes, as bits.
using AxisSet = std::uint64_t;
constexpr AxisSet axis_bit(int axis) { return AxisSet{1} << axis; }

/// constant + Σ coefficient × atom, terms ordered by atom.
struct Index {
  struct Term {
    Dim coefficient;
    const Atom* atom;
    bool operator==(const Term&) const = default;
  };
  Dim constant = 0;
  std::vector<Term> terms;

  Index() = default;
  Index(Dim constant) : constant(std::move(constant)) {}  // NOLINT
  bool operator==(const Index&) const = default;
  /// The axes it depends on.
  AxisSet axes() const;
  /// The coefficient of an atom that is plain axis `axis`; 0 when there is none.
  Dim coefficient(int axis) const;
  /// Whether all terms are plain axes.
  bool is_affine() const;
  std::string key() const;
};

struct Atom {
  enum class Kind { axis, quotient, remainder, value };
  int id = 0;  // order of creation
  Kind kind = Kind::axis;
  int axis = 0;  // of an axis
  Index inner;   // of a quotient or remainder
  Dim divisor = 1;
  const Expr* value = nullptr;  // int64, of a value
  AxisSet axes = 0;
};

/// How elements of a reduction are combined.
enum class Reduction : std::uint8_t { sum, product, max, min, argmax, argmin };

struct Expr {
  enum class Kind : std::uint8_t {
    constant,        // `bits` of `dtype`: the value as a double (floats) or int64 (others)
    index,           // `index` as int64
    load,            // element `index` of tensor `tensor`
    unary,           // `op` of args[0]; `text` is gelu's approximation
    binary,          // `op` of args[0], args[1]
    select,          // args[0] ? args[1] : args[2]
    cast,            // args[0] to `dtype`
    bits,            // the same bits as `dtype`, a float for an integer or the reverse
    truncating_div,  // integer args[0] / args[1] rounded toward zero
    checked_index,   // integer args[0] as int64, negative ones count from the end of `extent`
    reduce,          // `reduction` of args[0] along `axis`, which has `extent` elements
    accumulator,     // the element of a matrix product or attention that the kernel computes
  };
  int id = 0;
  Kind kind = Kind::constant;
  DType dtype = DType::float32;
  OpKind op = OpKind::add;
  Reduction reduction = Reduction::sum;
  std::vector<const Expr*> args;
  Index index;
  int tensor = -1;
  int axis = -1;
  Dim extent = 0;
  std::int64_t bits = 0;
  std::string text;
  const graph::ir::Op* origin = nullptr;  // for messages of checked_index
  AxisSet axes = 0;                       // on which the value depends

  double number() const;
};

/// Owner of the atoms and expressions of one kernel, and of the axes they speak of.
class Arena {
 public:
  /// A new axis of this extent.
  int new_axis(Dim extent);
  const Dim& extent(int axis) const { return extents_[static_cast<std::size_t>(axis)]; }

  Index axis_index(int axis);
  Index value_index(const Expr* value);

  Index add(const Index& a, const Index& b);
  Index scale(const Index& a, const Dim& factor);
  /// Rounded toward minus infinity; `a` must not be negative.
  Index quotient(const Index& a, const Dim& divisor);
  Index remainder(const Index& a, const Dim& divisor);

  const Expr* constant(DType dtype, double value);
  const Expr* integer(DType dtype, std::int64_t value);
  const Expr* index(const Index& index);
  const Expr* load(DType dtype, int tensor, const Index& index);
  const Expr* unary(OpKind op, const Expr* x, DType result, std::string text = {});
  const Expr* binary(OpKind op, const Expr* x, const Expr* y, DType result);
  const Expr* select(const Expr* condition, const Expr* x, const Expr* y);
  const Expr* cast(const Expr* x, DType dtype);
  const Expr* bits(const Expr* x, DType dtype);
  const Expr* truncating_div(const Expr* x, const Expr* y);
  const Expr* checked_index(const Expr* x, const Dim& extent, const graph::ir::Op* origin,
                            int axis);
  const Expr* reduce(Reduction reduction, const Expr* x, int axis, DType result);
  const Expr* accumulator(DType dtype, AxisSet axes);

  /// `expr`, of this arena or another one, with axes replaced by positions and loads by other
  /// expressions. Axes of another arena must all be replaced.
  using AxisMap = std::unordered_map<int, Index>;
  using LoadMap = std::unordered_map<const Expr*, const Expr*>;
  const Expr* rewrite(const Expr* expr, const AxisMap& axes, const LoadMap& loads);
  Index rewrite(const Index& index, const AxisMap& axes, const LoadMap& loads);

 private:
  const Expr* intern(Expr expr);
  const Atom* intern(Atom atom);
  /// Whether 0 <= a < bound for all values of the axes, as far as that can be seen.
  bool within(const Index& a, const Dim& bound) const;
  void normalise(Index& index);

  std::deque<Dim> extents_;
  std::deque<Atom> atoms_;
  std::deque<Expr> exprs_;
  std::unordered_map<std::string, const Atom*> atom_of_;
  std::unordered_map<std::string, const Expr*> expr_of_;
};

/// Calls `visit` for `expr` and everything below it, operands first, each once. Expressions inside
/// indices count.
template <typename Visit>
void walk(const Expr* expr, std::unordered_map<const Expr*, bool>& seen, const Visit& visit);

template <typename Visit>
void walk_index(const Index& index, std::unordered_map<const Expr*, bool>& seen,
                const Visit& visit) {
  for (const Index::Term& term : index.terms) {
    walk_index(term.atom->inner, seen, visit);
    if (term.atom->value) walk(term.atom->value, seen, visit);
  }
}

template <typename Visit>
void walk(const Expr* expr, std::unordered_map<const Expr*, bool>& seen, const Visit& visit) {
  if (!seen.emplace(expr, true).second) return;
  for (const Expr* arg : expr->args) walk(arg, seen, visit);
  walk_index(expr->index, seen, visit);
  visit(expr);
}

}  // namespace kiln::compiler
