#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::graph {

struct DimTerm;
struct DimPolynomial;

/// One extent of a shape: a number, a symbol, or an integer expression over symbols that is kept in
/// canonical form, so that equal expressions compare equal. An immutable value.
class Dim {
 public:
  enum class Kind { static_, symbolic, algebraic };

  /// The static dim 0.
  Dim() : Dim(std::int64_t{0}) {}
  template <std::integral T>
  Dim(T value) : value_(checked(value)) {}  // NOLINT: a number is a Dim
  /// A symbol of any name, for those that kiln makes itself.
  static Dim symbol(std::string name);
  /// A symbol. A name that is no identifier: ValueError.
  Dim(std::string_view name);                                    // NOLINT: a name is a Dim
  Dim(const char* name) : Dim(std::string_view(name)) {}         // NOLINT
  Dim(const std::string& name) : Dim(std::string_view(name)) {}  // NOLINT
  /// The simplest dim with this canonical form.
  explicit Dim(DimPolynomial polynomial);

  Kind kind() const;
  bool is_static() const { return polynomial_ == nullptr; }
  bool is_symbolic() const { return kind() == Kind::symbolic; }
  bool is_algebraic() const { return kind() == Kind::algebraic; }

  /// The number of a static dim. Others: TypeError.
  std::int64_t value() const;
  explicit operator std::int64_t() const { return value(); }
  /// The name of a symbolic dim. Others: TypeError.
  const std::string& name() const;
  /// The symbols used, in order of first use.
  std::vector<std::string> parameters() const;

  /// The canonical form: a sum of terms. A static dim has one constant term, or none if it is 0.
  std::vector<DimTerm> terms() const;

  /// Folding arithmetic. Overflow of static values and expressions that grow without end:
  /// ValueError; `floor_div` by 0: ZeroDivisionError.
  friend Dim operator+(const Dim& a, const Dim& b);
  friend Dim operator-(const Dim& a, const Dim& b);
  friend Dim operator*(const Dim& a, const Dim& b);
  Dim operator-() const;
  /// Division rounded down.
  Dim floor_div(const Dim& divisor) const;
  /// Divisions may stand inside one another this deep, more: ValueError.
  static constexpr int kMaxNesting = 32;

  friend bool operator==(const Dim& a, const Dim& b);
  std::size_t hash() const;

  /// "4", "x", "(x + y + -4) // 5".
  std::string to_string() const;
  /// "Dim(4)", "Dim('x')".
  std::string repr() const;

 private:
  template <typename T>
  static std::int64_t checked(T value) {
    if constexpr (std::unsigned_integral<T> && sizeof(T) == 8)
      if (value > static_cast<T>(INT64_MAX)) throw_out_of_range();
    return static_cast<std::int64_t>(value);
  }
  [[noreturn]] static void throw_out_of_range();

  std::int64_t value_ = 0;                           // of a static dim
  std::shared_ptr<const DimPolynomial> polynomial_;  // of the others
};

/// A factor of a term: a symbol, or a floor division that could not be resolved.
struct DimAtom {
  std::string symbol;  // empty for a division
  Dim numerator;       // of a division
  Dim denominator;
  bool is_symbol() const { return !symbol.empty(); }
  friend bool operator==(const DimAtom&, const DimAtom&) = default;
};

/// `coefficient` times the product of `atoms`; no atoms: a constant. An atom that is repeated
/// stands for a power.
struct DimTerm {
  std::int64_t coefficient = 0;
  std::vector<DimAtom> atoms;
};

/// A sum of terms in canonical order.
struct DimPolynomial {
  std::vector<DimTerm> terms;
};

std::ostream& operator<<(std::ostream& out, const Dim& dim);

/// The value of `dim` under an assignment of its symbols. Overflow or division by 0: ValueError.
std::int64_t evaluate(const Dim& dim,
                      const std::function<std::int64_t(std::string_view symbol)>& value_of);

/// The dims of a tensor, outermost first.
class Shape : public std::vector<Dim> {
 public:
  using std::vector<Dim>::vector;
  Shape(std::vector<Dim> dims) : std::vector<Dim>(std::move(dims)) {}  // NOLINT

  int rank() const { return static_cast<int>(size()); }
  /// The static sizes, in order.
  std::vector<std::int64_t> static_dims() const;
  /// Whether every dim is static and not negative.
  static bool is_static(const Shape& shape);
  /// The symbols used, in order of first use.
  std::vector<std::string> parameters() const;
  /// The product of the dims; 1 for rank 0.
  Dim num_elements() const;
  /// "[Dim('batch'), Dim(4)]".
  std::string repr() const;
  /// "[batch, 4]".
  std::string to_string() const;
};

std::ostream& operator<<(std::ostream& out, const Shape& shape);

}  // namespace kiln::graph

template <>
struct std::hash<kiln::graph::Dim> {
  std::size_t operator()(const kiln::graph::Dim& d) const { return d.hash(); }
};
