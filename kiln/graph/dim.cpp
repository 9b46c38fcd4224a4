#include "kiln/graph/dim.h"

#include <algorithm>
#include <map>
#include <ostream>

#include "kiln/support/error.h"
#include "kiln/support/format.h"

// How dims are kept. A dim that is no number owns a polynomial: a sum of terms, a term being a
// coefficient and a sorted multiset of atoms. `normalise` is the only way to make one: it merges
// like terms (equal products of atoms), drops zeros and sorts. The text of a canonical product is
// unique to it, so it serves as the key for merging and sorting: (x + 1) * 2 and x * 2 + 2 meet at
// the keys "x" and "".

namespace kiln::graph {
namespace {

[[noreturn]] void throw_overflow() { throw ValueError("Dim value must be -2**63 <= dim < 2**63"); }

std::int64_t checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t r;
  if (__builtin_add_overflow(a, b, &r)) throw_overflow();
  return r;
}

std::int64_t checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) throw_overflow();
  return r;
}

/// Rounds down. `b` is not 0.
std::int64_t checked_floor_div(std::int64_t a, std::int64_t b) {
  if (b == -1) {
    if (a == INT64_MIN) throw_overflow();
    return -a;
  }
  std::int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

bool is_identifier(std::string_view name) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (name.empty() || !letter(name[0])) return false;
  return std::all_of(name.begin(), name.end(),
                     [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

bool is_leaf(const DimTerm& term) {
  return term.atoms.empty() ||
         (term.coefficient == 1 && term.atoms.size() == 1 && term.atoms[0].is_symbol());
}

/// Writes dims at the end of one string, so that a nested dim is written once however deep it lies.
/// Both spellings, str and repr, share it; they differ in how a leaf is written.
class Printer {
 public:
  explicit Printer(bool repr = false) : repr_(repr) {}

  void dim(const Dim& dim, bool nested = false) {
    if (dim.is_static()) return number(dim.value());
    if (nested && dim.is_algebraic()) return enclosed([&] { sum(dim.terms()); });
    sum(dim.terms());
  }

  void atom(const DimAtom& atom) {
    if (atom.is_symbol()) return leaf("'", atom.symbol);
    dim(atom.numerator, true);
    text_ += " // ";
    dim(atom.denominator, true);
  }

  void product(const std::vector<DimAtom>& atoms) {
    for (const DimAtom& a : atoms) {
      if (&a != &atoms.front()) text_ += " * ";
      if (atoms.size() == 1 || a.is_symbol())
        atom(a);
      else
        enclosed([&] { atom(a); });
    }
  }

  void term(const DimTerm& term) {
    if (term.atoms.empty()) return number(term.coefficient);
    if (term.coefficient == 1) return product(term.atoms);
    if (term.atoms.size() == 1 && !term.atoms[0].is_symbol())
      enclosed([&] { atom(term.atoms[0]); });
    else
      product(term.atoms);
    text_ += " * ";
    number(term.coefficient);
  }

  void sum(const std::vector<DimTerm>& terms) {
    for (const DimTerm& t : terms) {
      if (&t != &terms.front()) text_ += " + ";
      if (terms.size() == 1 || is_leaf(t))
        term(t);
      else
        enclosed([&] { term(t); });
    }
  }

  std::string take() { return std::move(text_); }

 private:
  void number(std::int64_t value) { leaf("", std::to_string(value)); }
  void leaf(std::string_view quote, std::string_view text) {
    if (!repr_) {
      text_ += text;
      return;
    }
    for (std::string_view part : {std::string_view("Dim("), quote, text, quote}) text_ += part;
    text_ += ')';
  }
  void enclosed(const auto& write) {
    text_ += '(';
    write();
    text_ += ')';
  }

  bool repr_;
  std::string text_;
};

/// What the printer writes with `write`.
std::string text_of(const auto& write, bool repr = false) {
  Printer printer(repr);
  write(printer);
  return printer.take();
}

/// The order of the factors of a product: that of their texts.
bool before(const DimAtom& a, const DimAtom& b) {
  if (a.is_symbol() && b.is_symbol()) return a.symbol < b.symbol;
  return text_of([&](Printer& p) { p.atom(a); }) < text_of([&](Printer& p) { p.atom(b); });
}

/// Divisions inside divisions.
int nesting(const Dim& dim) {
  if (dim.is_static()) return 0;
  int most = 0;
  for (const DimTerm& term : dim.terms())
    for (const DimAtom& atom : term.atoms)
      if (!atom.is_symbol())
        most = std::max(most, 1 + std::max(nesting(atom.numerator), nesting(atom.denominator)));
  return most;
}

/// Characters of a dim that anybody means; products of products grow without end.
constexpr std::size_t kMaxText = 1 << 16;

DimPolynomial normalise(std::vector<DimTerm> terms) {
  std::map<std::string, DimTerm> merged;  // by product
  std::size_t length = 0;
  for (DimTerm& term : terms) {
    std::sort(term.atoms.begin(), term.atoms.end(), before);
    std::string key = text_of([&](Printer& p) { p.product(term.atoms); });
    length += key.size();
    if (length > kMaxText)
      throw ValueError(
          format("A dim became an expression of more than {} characters, which begins with '{}…'. "
                 "Use ops.rebind to give the extent a name of its own.",
                 kMaxText, key.substr(0, 30)));
    auto [it, fresh] = merged.try_emplace(std::move(key), term);
    if (!fresh) it->second.coefficient = checked_add(it->second.coefficient, term.coefficient);
  }
  std::vector<std::pair<std::string, DimTerm>> order;
  for (auto& [key, term] : merged)
    if (term.coefficient != 0)
      order.emplace_back(text_of([&](Printer& p) { p.term(term); }), std::move(term));
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    bool a_constant = a.second.atoms.empty(), b_constant = b.second.atoms.empty();
    return a_constant != b_constant ? b_constant : a.first < b.first;
  });
  DimPolynomial result;
  for (auto& [text, term] : order) result.terms.push_back(std::move(term));
  return result;
}

bool equal(const std::vector<DimTerm>& a, const std::vector<DimTerm>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.coefficient == y.coefficient && x.atoms == y.atoms;
  });
}

/// `term / divisor` when that is exact.
std::optional<DimTerm> divide(const DimTerm& term, const DimTerm& divisor) {
  if (term.coefficient % divisor.coefficient != 0) return std::nullopt;
  DimTerm result{checked_floor_div(term.coefficient, divisor.coefficient), term.atoms};
  for (const DimAtom& atom : divisor.atoms) {
    auto it = std::find(result.atoms.begin(), result.atoms.end(), atom);
    if (it == result.atoms.end()) return std::nullopt;
    result.atoms.erase(it);
  }
  return result;
}

void collect_symbols(const Dim& dim, std::vector<std::string>& out) {
  if (dim.is_static()) return;
  for (const DimTerm& term : dim.terms()) {
    for (const DimAtom& atom : term.atoms) {
      if (!atom.is_symbol()) {
        collect_symbols(atom.numerator, out);
        collect_symbols(atom.denominator, out);
      } else if (std::find(out.begin(), out.end(), atom.symbol) == out.end()) {
        out.push_back(atom.symbol);
      }
    }
  }
}

}  // namespace

void Dim::throw_out_of_range() { throw_overflow(); }

Dim::Dim(std::string_view name) {
  if (!is_identifier(name))
    throw ValueError(
        format("Invalid name for symbolic dimension: '{}'. A name starts with a letter "
               "or '_' and goes on with letters, digits and '_'.",
               name));
  *this = symbol(std::string(name));
}

Dim Dim::symbol(std::string name) {
  DimAtom atom;
  atom.symbol = std::move(name);
  return Dim(DimPolynomial{{DimTerm{1, {std::move(atom)}}}});
}

Dim::Dim(DimPolynomial polynomial) {
  DimPolynomial canonical = normalise(std::move(polynomial.terms));
  if (canonical.terms.empty()) return;
  if (canonical.terms.size() == 1 && canonical.terms[0].atoms.empty()) {
    value_ = canonical.terms[0].coefficient;
    return;
  }
  polynomial_ = std::make_shared<DimPolynomial>(std::move(canonical));
}

Dim::Kind Dim::kind() const {
  if (is_static()) return Kind::static_;
  const auto& terms = polynomial_->terms;
  return terms.size() == 1 && is_leaf(terms[0]) ? Kind::symbolic : Kind::algebraic;
}

std::int64_t Dim::value() const {
  if (!is_static())
    throw TypeError(format("int({}): Int conversions only supported for static dims", repr()));
  return value_;
}

const std::string& Dim::name() const {
  if (!is_symbolic()) throw TypeError(format("{} has no name: it is not a symbolic dim.", repr()));
  return polynomial_->terms[0].atoms[0].symbol;
}

std::vector<std::string> Dim::parameters() const {
  std::vector<std::string> out;
  collect_symbols(*this, out);
  return out;
}

std::vector<DimTerm> Dim::terms() const {
  if (polynomial_) return polynomial_->terms;
  if (value_ == 0) return {};
  return {DimTerm{value_, {}}};
}

Dim operator+(const Dim& a, const Dim& b) {
  if (a.is_static() && b.is_static()) return checked_add(a.value_, b.value_);
  std::vector<DimTerm> terms = a.terms();
  for (DimTerm& term : b.terms()) terms.push_back(std::move(term));
  return Dim(DimPolynomial{std::move(terms)});
}

Dim operator-(const Dim& a, const Dim& b) { return a + -b; }

Dim operator*(const Dim& a, const Dim& b) {
  if (a.is_static() && b.is_static()) return checked_mul(a.value_, b.value_);
  std::vector<DimTerm> terms;
  const std::vector<DimTerm> right = b.terms();
  for (const DimTerm& x : a.terms()) {
    for (const DimTerm& y : right) {
      DimTerm term{checked_mul(x.coefficient, y.coefficient), x.atoms};
      term.atoms.insert(term.atoms.end(), y.atoms.begin(), y.atoms.end());
      terms.push_back(std::move(term));
    }
  }
  return Dim(DimPolynomial{std::move(terms)});
}

Dim Dim::operator-() const { return *this * Dim(-1); }

Dim Dim::floor_div(const Dim& divisor) const {
  if (divisor.is_static()) {
    if (divisor.value_ == 0)
      throw ZeroDivisionError(format("{} // 0: a dim cannot be divided by zero.", to_string()));
    if (is_static()) return checked_floor_div(value_, divisor.value_);
    if (divisor.value_ == 1) return *this;
    if (divisor.value_ == -1) return -*this;
  }
  const std::vector<DimTerm> below = divisor.terms();
  if (below.size() == 1) {
    std::vector<DimTerm> quotients;
    bool exact = true;
    for (const DimTerm& term : terms()) {
      std::optional<DimTerm> quotient = divide(term, below[0]);
      if (!quotient) {
        exact = false;
        break;
      }
      quotients.push_back(std::move(*quotient));
    }
    if (exact) return Dim(DimPolynomial{std::move(quotients)});
  }
  DimAtom atom;
  atom.numerator = *this;
  atom.denominator = divisor;
  if (std::max(nesting(*this), nesting(divisor)) >= kMaxNesting)
    throw ValueError(
        format("A dim of {} has divisions nested more than {} deep. Use ops.rebind to give the "
               "extent a name of its own.",
               join(parameters(), ", "), kMaxNesting));
  return Dim(DimPolynomial{{DimTerm{1, {std::move(atom)}}}});
}

bool operator==(const Dim& a, const Dim& b) {
  if (a.is_static() || b.is_static()) return a.is_static() && b.is_static() && a.value_ == b.value_;
  return a.polynomial_ == b.polynomial_ || equal(a.polynomial_->terms, b.polynomial_->terms);
}

std::size_t Dim::hash() const {
  return is_static() ? std::hash<std::int64_t>()(value_) : std::hash<std::string>()(to_string());
}

std::string Dim::to_string() const {
  return text_of([&](Printer& p) { p.dim(*this); });
}

std::string Dim::repr() const {
  return text_of([&](Printer& p) { p.dim(*this); }, true);
}

std::ostream& operator<<(std::ostream& out, const Dim& dim) { return out << dim.to_string(); }

std::int64_t evaluate(const Dim& dim,
                      const std::function<std::int64_t(std::string_view symbol)>& value_of) {
  if (dim.is_static()) return dim.value();
  std::int64_t sum = 0;
  for (const DimTerm& term : dim.terms()) {
    std::int64_t product = term.coefficient;
    for (const DimAtom& atom : term.atoms) {
      if (atom.is_symbol()) {
        product = checked_mul(product, value_of(atom.symbol));
        continue;
      }
      const std::int64_t denominator = evaluate(atom.denominator, value_of);
      if (denominator == 0)
        throw ValueError(
            format("{} divides by zero: {} is 0.", dim.to_string(), atom.denominator.to_string()));
      product =
          checked_mul(product, checked_floor_div(evaluate(atom.numerator, value_of), denominator));
    }
    sum = checked_add(sum, product);
  }
  return sum;
}

std::vector<std::int64_t> Shape::static_dims() const {
  std::vector<std::int64_t> out;
  for (const Dim& dim : *this)
    if (dim.is_static()) out.push_back(dim.value());
  return out;
}

bool Shape::is_static(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(),
                     [](const Dim& d) { return d.is_static() && d.value() >= 0; });
}

std::vector<std::string> Shape::parameters() const {
  std::vector<std::string> out;
  for (const Dim& dim : *this) collect_symbols(dim, out);
  return out;
}

Dim Shape::num_elements() const {
  // A zero makes the product 0 however large the other dims are.
  for (const Dim& dim : *this)
    if (dim == Dim(0)) return 0;
  Dim product = 1;
  for (const Dim& dim : *this) product = product * dim;
  return product;
}

std::string Shape::repr() const {
  std::vector<std::string> texts;
  for (const Dim& dim : *this) texts.push_back(dim.repr());
  return format("[{}]", join(texts, ", "));
}

std::string Shape::to_string() const {
  std::vector<std::string> texts;
  for (const Dim& dim : *this) texts.push_back(dim.to_string());
  return format("[{}]", join(texts, ", "));
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.to_string(); }

}  // namespace kiln::graph
