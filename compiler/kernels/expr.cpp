#include "compiler/kernels/expr.h"

#include <algorithm>
#include <bit>

#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::compiler {

AxisSet Index::axes() const {
  AxisSet set = 0;
  for (const Term& term : terms) set |= term.atom->axes;
  return set;
}

Dim Index::coefficient(int axis) const {
  for (const Term& term : terms)
    if (term.atom->kind == Atom::Kind::axis && term.atom->axis == axis) return term.coefficient;
  return 0;
}

bool Index::is_affine() const {
  return std::all_of(terms.begin(), terms.end(),
                     [](const Term& term) { return term.atom->kind == Atom::Kind::axis; });
}

std::string Index::key() const {
  std::string text = constant.to_string();
  for (const Term& term : terms)
    text += format("+{}*a{}", term.coefficient.to_string(), term.atom->id);
  return text;
}

double Expr::number() const {
  return dtype.is_float() ? std::bit_cast<double>(bits) : static_cast<double>(bits);
}

int Arena::new_axis(Dim extent) {
  KILN_CHECK(extents_.size() < 64, "a kernel cannot have more than 64 axes");
  extents_.push_back(std::move(extent));
  return static_cast<int>(extents_.size()) - 1;
}

const Atom* Arena::intern(Atom atom) {
  std::string key =
      format("{}|{}|{}|{}|{}", static_cast<int>(atom.kind), atom.axis, atom.inner.key(),
             atom.divisor.to_string(), atom.value ? atom.value->id : -1);
  auto [it, fresh] = atom_of_.try_emplace(std::move(key), nullptr);
  if (fresh) {
    atom.id = static_cast<int>(atoms_.size());
    atoms_.push_back(std::move(atom));
    it->second = &atoms_.back();
  }
  return it->second;
}

Index Arena::axis_index(int axis) {
  if (extent(axis) == Dim(1)) return Index(0);
  Atom atom;
  atom.kind = Atom::Kind::axis;
  atom.axis = axis;
  atom.axes = axis_bit(axis);
  Index index;
  index.terms.push_back({Dim(1), intern(std::move(atom))});
  return index;
}

Index Arena::value_index(const Expr* value) {
  if (value->kind == Expr::Kind::index) return value->index;
  if (value->kind == Expr::Kind::constant) return Index(Dim(value->bits));
  Atom atom;
  atom.kind = Atom::Kind::value;
  atom.value = value;
  atom.axes = value->axes;
  Index index;
  index.terms.push_back({Dim(1), intern(std::move(atom))});
  return index;
}

// Drops empty terms and puts x back together where it appears as n·(x / n) + (x mod n).
void Arena::normalise(Index& index) {
  std::erase_if(index.terms, [](const Index::Term& term) { return term.coefficient == Dim(0); });
  std::sort(index.terms.begin(), index.terms.end(),
            [](const auto& a, const auto& b) { return a.atom->id < b.atom->id; });
  for (const Index::Term& low : index.terms) {
    if (low.atom->kind != Atom::Kind::remainder) continue;
    for (const Index::Term& high : index.terms) {
      if (high.atom->kind != Atom::Kind::quotient || high.atom->divisor != low.atom->divisor ||
          high.atom->inner != low.atom->inner ||
          high.coefficient != low.coefficient * low.atom->divisor)
        continue;
      Index whole = scale(low.atom->inner, low.coefficient);
      const Atom* low_atom = low.atom;
      const Atom* high_atom = high.atom;
      std::erase_if(index.terms, [&](const Index::Term& term) {
        return term.atom == low_atom || term.atom == high_atom;
      });
      index = add(index, whole);
      return;
    }
  }
}

Index Arena::add(const Index& a, const Index& b) {
  Index sum = a;
  sum.constant = a.constant + b.constant;
  for (const Index::Term& term : b.terms) {
    auto it = std::find_if(sum.terms.begin(), sum.terms.end(),
                           [&](const Index::Term& t) { return t.atom == term.atom; });
    if (it == sum.terms.end())
      sum.terms.push_back(term);
    else
      it->coefficient = it->coefficient + term.coefficient;
  }
  normalise(sum);
  return sum;
}

Index Arena::scale(const Index& a, const Dim& factor) {
  Index scaled;
  scaled.constant = a.constant * factor;
  for (const Index::Term& term : a.terms)
    scaled.terms.push_back({term.coefficient * factor, term.atom});
  normalise(scaled);
  return scaled;
}

bool Arena::within(const Index& a, const Dim& bound) const {
  // Symbols stand for extents of at least 1 here: where one is 0, nothing is executed.
  Dim highest = a.constant;
  if (!a.constant.is_static() || a.constant.value() < 0) return false;
  for (const Index::Term& term : a.terms) {
    if (term.coefficient.is_static() && term.coefficient.value() < 0) return false;
    if (term.atom->kind == Atom::Kind::axis)
      highest = highest + term.coefficient * (extent(term.atom->axis) - 1);
    else if (term.atom->kind == Atom::Kind::remainder)
      highest = highest + term.coefficient * (term.atom->divisor - 1);
    else
      return false;
  }
  Dim room = bound - 1 - highest;
  if (room.is_static()) return room.value() >= 0;
  // A sum of products of symbols with no negative coefficient is not negative.
  for (const graph::DimTerm& term : room.terms()) {
    if (term.coefficient < 0) return false;
    for (const graph::DimAtom& atom : term.atoms)
      if (!atom.is_symbol()) return false;
  }
  return true;
}

namespace {

/// Splits `a` into parts divisible by `divisor` (returned already divided) and the rest.
std::pair<Index, Index> split(const Index& a, const Dim& divisor) {
  Index quotient;
  Index rest;
  auto divided = [&](const Dim& d) -> std::optional<Dim> {
    if (d == Dim(0)) return Dim(0);
    Dim q = d.floor_div(divisor);
    if (q * divisor == d) return q;
    return std::nullopt;
  };
  if (auto q = divided(a.constant))
    quotient.constant = *q;
  else
    rest.constant = a.constant;
  for (const Index::Term& term : a.terms) {
    if (auto q = divided(term.coefficient))
      quotient.terms.push_back({*q, term.atom});
    else
      rest.terms.push_back(term);
  }
  return {quotient, rest};
}

}  // namespace

Index Arena::quotient(const Index& a, const Dim& divisor) {
  if (divisor == Dim(1)) return a;
  if (divisor == Dim(0)) return Index(0);  // an axis without elements: nothing is read
  auto [whole, rest] = split(a, divisor);
  if (within(rest, divisor)) return whole;
  Atom atom;
  atom.kind = Atom::Kind::quotient;
  atom.inner = a;
  atom.divisor = divisor;
  atom.axes = a.axes();
  Index index;
  index.terms.push_back({Dim(1), intern(std::move(atom))});
  return index;
}

Index Arena::remainder(const Index& a, const Dim& divisor) {
  if (divisor == Dim(1) || divisor == Dim(0)) return Index(0);
  auto [whole, rest] = split(a, divisor);
  if (within(rest, divisor)) return rest;
  Atom atom;
  atom.kind = Atom::Kind::remainder;
  atom.inner = a;
  atom.divisor = divisor;
  atom.axes = a.axes();
  Index index;
  index.terms.push_back({Dim(1), intern(std::move(atom))});
  return index;
}

const Expr* Arena::intern(Expr expr) {
  std::string args;
  for (const Expr* arg : expr.args) args += format("{},", arg->id);
  std::string key = format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", static_cast<int>(expr.kind),
                           static_cast<int>(expr.dtype.code()), static_cast<int>(expr.op),
                           static_cast<int>(expr.reduction), args, expr.index.key(), expr.tensor,
                           expr.axis, expr.extent.to_string(), expr.bits, expr.text);
  auto [it, fresh] = expr_of_.try_emplace(std::move(key), nullptr);
  if (fresh) {
    AxisSet axes = expr.index.axes();
    for (const Expr* arg : expr.args) axes |= arg->axes;
    if (expr.kind == Expr::Kind::reduce) axes &= ~axis_bit(expr.axis);
    if (expr.kind != Expr::Kind::accumulator) expr.axes = axes;
    expr.id = static_cast<int>(exprs_.size());
    exprs_.push_back(std::move(expr));
    it->second = &exprs_.back();
  }
  return it->second;
}

const Expr* Arena::constant(DType dtype, double value) {
  Expr e;
  e.kind = Expr::Kind::constant;
  e.dtype = dtype;
  e.bits = dtype.is_float() ? std::bit_cast<std::int64_t>(value) : static_cast<std::int64_t>(value);
  return intern(std::move(e));
}

const Expr* Arena::integer(DType dtype, std::int64_t value) {
  if (dtype.is_float()) return constant(dtype, static_cast<double>(value));
  Expr e;
  e.kind = Expr::Kind::constant;
  e.dtype = dtype;
  e.bits = value;
  return intern(std::move(e));
}

const Expr* Arena::index(const Index& index) {
  if (index.terms.empty() && index.constant.is_static())
    return integer(DType::int64, index.constant.value());
  Expr e;
  e.kind = Expr::Kind::index;
  e.dtype = DType::int64;
  e.index = index;
  return intern(std::move(e));
}

const Expr* Arena::load(DType dtype, int tensor, const Index& index) {
  Expr e;
  e.kind = Expr::Kind::load;
  e.dtype = dtype;
  e.tensor = tensor;
  e.index = index;
  return intern(std::move(e));
}

const Expr* Arena::unary(OpKind op, const Expr* x, DType result, std::string text) {
  Expr e;
  e.kind = Expr::Kind::unary;
  e.op = op;
  e.dtype = result;
  e.args = {x};
  e.text = std::move(text);
  return intern(std::move(e));
}

const Expr* Arena::binary(OpKind op, const Expr* x, const Expr* y, DType result) {
  Expr e;
  e.kind = Expr::Kind::binary;
  e.op = op;
  e.dtype = result;
  e.args = {x, y};
  return intern(std::move(e));
}

const Expr* Arena::select(const Expr* condition, const Expr* x, const Expr* y) {
  Expr e;
  e.kind = Expr::Kind::select;
  e.dtype = x->dtype;
  e.args = {condition, x, y};
  return intern(std::move(e));
}

const Expr* Arena::cast(const Expr* x, DType dtype) {
  if (x->dtype == dtype) return x;
  Expr e;
  e.kind = Expr::Kind::cast;
  e.dtype = dtype;
  e.args = {x};
  return intern(std::move(e));
}

const Expr* Arena::bits(const Expr* x, DType dtype) {
  Expr e;
  e.kind = Expr::Kind::bits;
  e.dtype = dtype;
  e.args = {x};
  return intern(std::move(e));
}

const Expr* Arena::truncating_div(const Expr* x, const Expr* y) {
  Expr e;
  e.kind = Expr::Kind::truncating_div;
  e.dtype = x->dtype;
  e.args = {x, y};
  return intern(std::move(e));
}

const Expr* Arena::checked_index(const Expr* x, const Dim& extent, const graph::ir::Op* origin,
                                 int axis) {
  Expr e;
  e.kind = Expr::Kind::checked_index;
  e.dtype = DType::int64;
  e.args = {x};
  e.extent = extent;
  e.origin = origin;
  e.axis = axis;  // of the indexed tensor, for the message only
  return intern(std::move(e));
}

const Expr* Arena::reduce(Reduction reduction, const Expr* x, int axis, DType result) {
  if (extent(axis) == Dim(1))
    return reduction == Reduction::argmax || reduction == Reduction::argmin ? integer(result, 0)
                                                                            : cast(x, result);
  Expr e;
  e.kind = Expr::Kind::reduce;
  e.reduction = reduction;
  e.dtype = result;
  e.args = {x};
  e.axis = axis;
  e.extent = extent(axis);
  return intern(std::move(e));
}

const Expr* Arena::accumulator(DType dtype, AxisSet axes) {
  Expr e;
  e.kind = Expr::Kind::accumulator;
  e.dtype = dtype;
  e.axes = axes;
  e.bits = static_cast<std::int64_t>(axes);
  return intern(std::move(e));
}

namespace {

struct Rewriter {
  Arena& arena;
  const Arena::AxisMap& axes;
  const Arena::LoadMap& loads;
  std::unordered_map<const Expr*, const Expr*> done;

  Index index(const Index& old) {
    Index result(old.constant);
    for (const Index::Term& term : old.terms)
      result = arena.add(result, arena.scale(atom(*term.atom), term.coefficient));
    return result;
  }

  Index atom(const Atom& old) {
    switch (old.kind) {
      case Atom::Kind::axis: {
        auto it = axes.find(old.axis);
        return it == axes.end() ? arena.axis_index(old.axis) : it->second;
      }
      case Atom::Kind::quotient:
        return arena.quotient(index(old.inner), old.divisor);
      case Atom::Kind::remainder:
        return arena.remainder(index(old.inner), old.divisor);
      case Atom::Kind::value:
        return arena.value_index(expr(old.value));
    }
    return {};
  }

  const Expr* expr(const Expr* old) {
    if (auto it = done.find(old); it != done.end()) return it->second;
    const Expr* result = rebuild(old);
    done.emplace(old, result);
    return result;
  }

  const Expr* rebuild(const Expr* old) {
    if (auto it = loads.find(old); it != loads.end()) return it->second;
    std::vector<const Expr*> a;
    for (const Expr* arg : old->args) a.push_back(expr(arg));
    switch (old->kind) {
      case Expr::Kind::constant:
        return old->dtype.is_float() ? arena.constant(old->dtype, old->number())
                                     : arena.integer(old->dtype, old->bits);
      case Expr::Kind::accumulator: {
        AxisSet mapped = 0;
        for (int axis = 0; axis < 64; ++axis)
          if (old->axes & axis_bit(axis)) {
            auto it = axes.find(axis);
            mapped |= it == axes.end() ? axis_bit(axis) : it->second.axes();
          }
        return arena.accumulator(old->dtype, mapped);
      }
      case Expr::Kind::index:
        return arena.index(index(old->index));
      case Expr::Kind::load:
        return arena.load(old->dtype, old->tensor, index(old->index));
      case Expr::Kind::unary:
        return arena.unary(old->op, a[0], old->dtype, old->text);
      case Expr::Kind::binary:
        return arena.binary(old->op, a[0], a[1], old->dtype);
      case Expr::Kind::select:
        return arena.select(a[0], a[1], a[2]);
      case Expr::Kind::cast:
        return arena.cast(a[0], old->dtype);
      case Expr::Kind::bits:
        return arena.bits(a[0], old->dtype);
      case Expr::Kind::truncating_div:
        return arena.truncating_div(a[0], a[1]);
      case Expr::Kind::checked_index:
        return arena.checked_index(a[0], old->extent, old->origin, old->axis);
      case Expr::Kind::reduce: {
        auto it = axes.find(old->axis);
        int axis = old->axis;
        if (it != axes.end()) {
          KILN_CHECK(
              it->second.terms.size() == 1 && it->second.terms[0].atom->kind == Atom::Kind::axis,
              "a reduced axis can only be renamed");
          axis = it->second.terms[0].atom->axis;
        }
        return arena.reduce(old->reduction, a[0], axis, old->dtype);
      }
    }
    return old;
  }
};

}  // namespace

const Expr* Arena::rewrite(const Expr* expr, const AxisMap& axes, const LoadMap& loads) {
  return Rewriter{*this, axes, loads, {}}.expr(expr);
}

Index Arena::rewrite(const Index& index, const AxisMap& axes, const LoadMap& loads) {
  return Rewriter{*this, axes, loads, {}}.index(index);
}

}  // namespace kiln::compiler
