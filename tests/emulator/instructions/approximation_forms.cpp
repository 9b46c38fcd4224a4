#include <bit>
#include <cmath>
#include <string>

#include "float_forms.h"

// Bounds are those of the PTX ISA's text; results that it lists for special values must be met.

namespace kiln::emulator_test {
namespace {

using u64 = std::uint64_t;
using Real = long double;

Real real_of(const Float& t, u64 bits) {
  if (t.type == Type::f64) return std::bit_cast<double>(bits);
  const Number number = decode(t.format, bits);
  return std::bit_cast<double>(encode(kF64, number, Rounding::nearest_even));
}

struct Bound {
  Real relative = 0, absolute = 0;
};

/// Whether `found` stands for `exact` within `bound`, of a format with subnormals or, with ftz,
/// without: there either zero or the subnormal number will do.
bool near(const Float& t, Real exact, u64 found, const Bound& bound, bool ftz) {
  const Real value = real_of(t, found);
  if (std::isnan(exact)) return std::isnan(value);
  const Real smallest = std::ldexp(Real{1}, 1 - t.format.bias());
  const Real largest =
      std::ldexp(Real{2} - std::ldexp(Real{1}, -t.format.mantissa_bits), t.format.bias());
  if (std::isinf(exact) || std::fabs(exact) > largest * (1 + bound.relative)) {
    return std::isinf(value) && std::signbit(value) == std::signbit(exact);
  }
  if (std::isinf(value)) {
    return std::signbit(value) == std::signbit(exact) &&
           std::fabs(exact) > largest * (1 - bound.relative);
  }
  if (exact == 0) return value == 0 && std::signbit(value) == std::signbit(exact);
  const Real step = std::ldexp(smallest, -t.format.mantissa_bits);
  Real error = std::fabs(exact) * bound.relative + bound.absolute;
  if (std::fabs(exact) < smallest * (1 + bound.relative)) error = std::fmax(error, step);
  if (ftz && std::fabs(exact) < smallest * (1 + bound.relative)) error = smallest;
  return std::fabs(value - exact) <= error;
}

struct Unary {
  const char* name;
  const Float& type;
  Real (*function)(Real);
  Bound bound;
  bool ftz;
  Real range = INFINITY;  // the bound holds up to this magnitude
};

Real reciprocal(Real x) { return 1 / x; }
Real reciprocal_root(Real x) { return 1 / std::sqrt(x); }
Real root(Real x) { return std::sqrt(x); }
Real power_of_two(Real x) { return std::exp2(x); }
Real logarithm(Real x) { return std::log2(x); }
Real sine(Real x) { return std::sin(x); }
Real cosine(Real x) { return std::cos(x); }
Real tangent(Real x) { return std::tanh(x); }

void add_unary(std::vector<Form>& forms, const Unary& entry) {
  forms.push_back({.text = std::string(entry.name) + "." + entry.type.name + " {d}, {a};",
                   .inputs = {entry.type.type},
                   .output = entry.type.type,
                   .acceptance = [entry](Inputs in, u64 found) {
                     const Format& format = entry.type.format;
                     const Real x = real_of(entry.type, entry.ftz ? flushed(format, in[0]) : in[0]);
                     if (std::fabs(x) > entry.range && !std::isinf(x)) return true;
                     return near(entry.type, entry.function(x), found, entry.bound, entry.ftz);
                   }});
}

void add_pair_of(std::vector<Form>& forms, const std::string& text, const Float& t, Real (*f)(Real),
                 const Bound& bound) {
  forms.push_back({.text = text,
                   .inputs = {t.packed},
                   .output = t.packed,
                   .acceptance = [=](Inputs in, u64 found) {
                     for (int shift : {0, 16}) {
                       const Real x = real_of(t, in[0] >> shift & 0xffff);
                       if (!near(t, f(x), found >> shift & 0xffff, bound, false)) return false;
                     }
                     return true;
                   }});
}

void add_quotients(std::vector<Form>& forms) {
  const Float& t = kFloats[0];
  for (const bool full : {false, true}) {
    for (const bool ftz : {false, true}) {
      forms.push_back(
          {.text = std::string("div.") + (full ? "full" : "approx") + (ftz ? ".ftz" : "") +
                   ".f32 {d}, {a}, {b};",
           .inputs = {Type::f32, Type::f32},
           .output = Type::f32,
           .acceptance = [=](Inputs in, u64 found) {
             const Real a = real_of(t, ftz ? flushed(kF32, in[0]) : in[0]);
             const Real b = real_of(t, ftz ? flushed(kF32, in[1]) : in[1]);
             const Real magnitude = std::fabs(b);
             // Beyond these divisors div.approx has its own rules and no bound.
             const Real low = std::ldexp(Real{1}, -126), high = std::ldexp(Real{1}, 126);
             if (magnitude != 0 && !std::isinf(b) && !std::isnan(b) &&
                 (magnitude < low || magnitude > high)) {
               return true;
             }
             return near(t, a / b, found, {.relative = 2 * std::ldexp(Real{1}, -23)}, ftz);
           }});
    }
  }
}

}  // namespace

std::vector<Form> float_approximation_forms() {
  std::vector<Form> forms;
  const auto power = [](Real exponent) { return std::exp2(exponent); };
  const auto& [f32, f64, f16, bf16] = kFloats;
  for (const bool ftz : {false, true}) {
    const std::string suffix = ftz ? ".approx.ftz" : ".approx";
    const auto add = [&](const char* name, Real (*function)(Real), Bound bound,
                         Real range = INFINITY) {
      const std::string whole = name + suffix;
      add_unary(forms, {whole.c_str(), f32, function, bound, ftz, range});
    };
    add("rcp", reciprocal, {.relative = power(-23)});
    add("rsqrt", reciprocal_root, {.relative = power(-22.9L)});
    add("sqrt", root, {.relative = power(-22.9L)});
    add("ex2", power_of_two, {.relative = power(-22)});
    add("lg2", logarithm, {.relative = power(-22), .absolute = power(-22)});
    add("sin", sine, {.absolute = power(-20.5L)}, 2 * M_PIl);
    add("cos", cosine, {.absolute = power(-20.5L)}, 2 * M_PIl);
  }
  add_unary(forms, {"tanh.approx", f32, tangent, {.relative = power(-11)}, false});
  add_unary(forms, {"tanh.approx", f16, tangent, {.absolute = power(-10.987L)}, false});
  add_unary(forms, {"tanh.approx", bf16, tangent, {.absolute = power(-8)}, false});
  add_unary(forms, {"ex2.approx", f16, power_of_two, {.relative = power(-9.9L)}, false});
  add_unary(forms, {"ex2.approx.ftz", bf16, power_of_two, {.relative = power(-7)}, true});
  add_pair_of(forms, "tanh.approx.f16x2 {d}, {a};", f16, tangent, {.absolute = power(-10.987L)});
  add_pair_of(forms, "ex2.approx.f16x2 {d}, {a};", f16, power_of_two, {.relative = power(-9.9L)});
  add_unary(forms, {"rcp.approx.ftz", f64, reciprocal, {.relative = power(-19)}, true});
  add_unary(forms, {"rsqrt.approx.ftz", f64, reciprocal_root, {.relative = power(-19)}, true});
  add_unary(forms, {"rsqrt.approx", f64, reciprocal_root, {.relative = power(-19)}, false});
  add_quotients(forms);
  return forms;
}

}  // namespace kiln::emulator_test
