#include "float_forms.h"

#include <string>

namespace kiln::emulator_test {

using u64 = std::uint64_t;

const Float kFloats[4] = {{"f32", Type::f32, kF32, Type::f32, ""},
                          {"f64", Type::f64, kF64, Type::f64, ""},
                          {"f16", Type::f16, kF16, Type::f16x2, "f16x2"},
                          {"bf16", Type::bf16, kBf16, Type::bf16x2, "bf16x2"}};

u64 flushed(const Format& format, u64 bits) {
  const u64 sign = u64{1} << (format.exponent_bits + format.mantissa_bits);
  const u64 exponent = ((u64{1} << format.exponent_bits) - 1) << format.mantissa_bits;
  return bits & exponent ? bits : bits & sign;
}

namespace {

struct Mode {
  const char* suffix;
  Rounding rounding;
};
constexpr Mode kModes[] = {{".rn", Rounding::nearest_even},
                           {".rz", Rounding::zero},
                           {".rm", Rounding::down},
                           {".rp", Rounding::up}};

struct Finish {
  bool ftz = false, sat = false, relu = false;
};

std::string suffix_of(const Finish& finish) {
  return std::string(finish.ftz ? ".ftz" : "") + (finish.sat ? ".sat" : "") +
         (finish.relu ? ".relu" : "");
}

/// The exact result rounded and finished. None where a subnormal result rounds to the smallest
/// normal number: PTX does not say whether that is flushed.
std::optional<u64> finished(const Format& format, const Number& exact, Rounding rounding,
                            const Finish& finish) {
  u64 bits = encode(format, exact, rounding);
  if (finish.ftz && !exact.is_nan() && exact.kind == Number::Kind::finite && !exact.is_zero() &&
      exact.exponent() < 1 - format.bias()) {
    if (flushed(format, bits) == bits && decode(format, bits).is_zero() == false) {
      return std::nullopt;
    }
    bits = flushed(format, bits);
  }
  const Number rounded = decode(format, bits);
  if (finish.sat) {
    if (rounded.is_nan() || rounded.negative || rounded.is_zero()) return 0;
    if (compare(rounded, from_integer(1)) > 0) return encode(format, from_integer(1), rounding);
  }
  if (finish.relu && rounded.negative && !rounded.is_nan()) return 0;
  return bits;
}

using Operation = Number (*)(std::span<const Number>, Rounding);

/// Applies `operation` to operands of one format.
std::optional<u64> apply(const Format& format, Operation operation, Inputs in, Rounding rounding,
                         const Finish& finish) {
  std::vector<Number> numbers;
  for (u64 bits : in) {
    numbers.push_back(decode(format, finish.ftz ? flushed(format, bits) : bits));
  }
  return finished(format, operation(numbers, rounding), rounding, finish);
}

const char* kPlaces[] = {"{a}", "{a}, {b}", "{a}, {b}, {c}"};

void add_form(std::vector<Form>& forms, const std::string& name, const Float& t, int operands,
              Operation operation, Rounding rounding, const Finish& finish) {
  forms.push_back({.text = name + "." + t.name + " {d}, " + kPlaces[operands - 1] + ";",
                   .inputs = std::vector<Type>(operands, t.type),
                   .output = t.type,
                   .reference = [=, format = t.format](Inputs in) {
                     return apply(format, operation, in, rounding, finish);
                   }});
  if (t.packed == t.type) return;
  forms.push_back({.text = name + "." + t.pair + " {d}, " + kPlaces[operands - 1] + ";",
                   .inputs = std::vector<Type>(operands, t.packed),
                   .output = t.packed,
                   .reference = [=, format = t.format](Inputs in) -> std::optional<u64> {
                     u64 result = 0;
                     for (int shift : {0, 16}) {
                       std::vector<u64> half;
                       for (u64 bits : in) half.push_back(bits >> shift & 0xffff);
                       const auto one = apply(format, operation, half, rounding, finish);
                       if (!one) return std::nullopt;
                       result |= *one << shift;
                     }
                     return result;
                   }});
}

Number sum(std::span<const Number> in, Rounding rounding) { return add(in[0], in[1], rounding); }
Number difference(std::span<const Number> in, Rounding rounding) {
  return add(in[0], negate(in[1]), rounding);
}
Number product(std::span<const Number> in, Rounding) { return multiply(in[0], in[1]); }
Number product_sum(std::span<const Number> in, Rounding rounding) {
  return add(multiply(in[0], in[1]), in[2], rounding);
}
Number quotient(std::span<const Number> in, Rounding) { return divide(in[0], in[1]); }
Number reciprocal(std::span<const Number> in, Rounding) { return divide(from_integer(1), in[0]); }
Number root(std::span<const Number> in, Rounding) { return square_root(in[0]); }

struct Entry {
  const char* name;
  int operands;
  Operation operation;
};

/// f32 and f64: four roundings; f32 also flushes and saturates.
void add_wide(std::vector<Form>& forms) {
  const Entry entries[] = {{"add", 2, sum},         {"sub", 2, difference}, {"mul", 2, product},
                           {"fma", 3, product_sum}, {"div", 2, quotient},   {"rcp", 1, reciprocal},
                           {"sqrt", 1, root}};
  for (const Entry& entry : entries) {
    const bool saturates = std::string(entry.name) != "div" && entry.operands != 1;
    for (const Mode& mode : kModes) {
      const std::string name = std::string(entry.name) + mode.suffix;
      add_form(forms, name, kFloats[0], entry.operands, entry.operation, mode.rounding, {});
      add_form(forms, name, kFloats[1], entry.operands, entry.operation, mode.rounding, {});
      const Finish ftz{.ftz = true};
      add_form(forms, name + suffix_of(ftz), kFloats[0], entry.operands, entry.operation,
               mode.rounding, ftz);
      if (!saturates) continue;
      for (const Finish& finish : {Finish{.sat = true}, Finish{.ftz = true, .sat = true}}) {
        add_form(forms, name + suffix_of(finish), kFloats[0], entry.operands, entry.operation,
                 mode.rounding, finish);
      }
    }
  }
  for (const Float& t : {kFloats[0], kFloats[1]}) {
    add_form(forms, "add", t, 2, sum, Rounding::nearest_even, {});
    add_form(forms, "sub", t, 2, difference, Rounding::nearest_even, {});
    add_form(forms, "mul", t, 2, product, Rounding::nearest_even, {});
  }
  add_form(forms, "mad.rn", kFloats[0], 3, product_sum, Rounding::nearest_even, {});
  add_form(forms, "mad.rz", kFloats[1], 3, product_sum, Rounding::zero, {});
}

/// f16 and bf16, single and in pairs.
void add_narrow(std::vector<Form>& forms) {
  const Entry entries[] = {{"add", 2, sum}, {"sub", 2, difference}, {"mul", 2, product}};
  constexpr Rounding rn = Rounding::nearest_even;
  for (const Entry& entry : entries) {
    const std::string name = entry.name;
    for (const Finish& finish :
         {Finish{}, Finish{.ftz = true}, Finish{.sat = true}, Finish{.ftz = true, .sat = true}}) {
      add_form(forms, name + suffix_of(finish), kFloats[2], 2, entry.operation, rn, finish);
    }
    add_form(forms, name + ".rn", kFloats[2], 2, entry.operation, rn, {});
    add_form(forms, name, kFloats[3], 2, entry.operation, rn, {});
    add_form(forms, name + ".rn", kFloats[3], 2, entry.operation, rn, {});
  }
  for (const Finish& finish : {Finish{}, Finish{.ftz = true}, Finish{.sat = true},
                               Finish{.relu = true}, Finish{.ftz = true, .relu = true}}) {
    add_form(forms, "fma.rn" + suffix_of(finish), kFloats[2], 3, product_sum, rn, finish);
  }
  add_form(forms, "fma.rn", kFloats[3], 3, product_sum, rn, {});
  add_form(forms, "fma.rn.relu", kFloats[3], 3, product_sum, rn, {.relu = true});
}

u64 sign_of(const Format& format) {
  return u64{1} << (format.exponent_bits + format.mantissa_bits);
}

/// min and max: a NaN loses to a number, or with .NaN wins; -0 is below +0.
std::optional<u64> extreme(const Format& format, Inputs in, bool largest, bool nan_wins, bool ftz,
                           bool xor_sign) {
  u64 a = ftz ? flushed(format, in[0]) : in[0];
  u64 b = ftz ? flushed(format, in[1]) : in[1];
  const u64 sign = sign_of(format);
  const u64 result_sign = (a ^ b) & sign;
  const bool a_nan = decode(format, a).is_nan(), b_nan = decode(format, b).is_nan();
  if ((a_nan && b_nan) || (nan_wins && (a_nan || b_nan))) {
    return encode(format, nan(), Rounding::zero);
  }
  if (xor_sign) {
    a &= ~sign;
    b &= ~sign;
  }
  u64 chosen;
  if (a_nan || b_nan) {
    chosen = a_nan ? b : a;
  } else {
    const int order = compare(decode(format, a), decode(format, b));
    const bool a_less = order < 0 || (order == 0 && (a & sign) > (b & sign));
    chosen = a_less != largest ? a : b;
  }
  return xor_sign ? (chosen & ~sign) | result_sign : chosen;
}

void add_extremes(std::vector<Form>& forms, const Float& t) {
  for (const bool largest : {false, true}) {
    for (const bool ftz : {false, true}) {
      for (const bool nan_wins : {false, true}) {
        for (const bool xor_sign : {false, true}) {
          if (t.type == Type::f64 && (ftz || nan_wins || xor_sign)) continue;
          if (t.type == Type::bf16 && ftz) continue;
          const std::string name = std::string(largest ? "max" : "min") + (ftz ? ".ftz" : "") +
                                   (nan_wins ? ".NaN" : "") + (xor_sign ? ".xorsign.abs" : "");
          const auto one = [=, format = t.format](Inputs in) {
            return extreme(format, in, largest, nan_wins, ftz, xor_sign);
          };
          // The sign of a NaN that two NaNs make with .xorsign is open.
          forms.push_back({.text = name + "." + t.name + " {d}, {a}, {b};",
                           .inputs = {t.type, t.type},
                           .output = t.type,
                           .reference = one,
                           .exact_nan = t.type != Type::f64 && !xor_sign});
          if (t.packed == t.type) continue;
          forms.push_back({.text = name + "." + t.pair + " {d}, {a}, {b};",
                           .inputs = {t.packed, t.packed},
                           .output = t.packed,
                           .reference = [one](Inputs in) -> std::optional<u64> {
                             const u64 low[] = {in[0] & 0xffff, in[1] & 0xffff};
                             const u64 high[] = {in[0] >> 16, in[1] >> 16};
                             return *one(low) | *one(high) << 16;
                           },
                           .exact_nan = !xor_sign});
        }
      }
    }
  }
}

void add_signs(std::vector<Form>& forms, const Float& t) {
  const u64 sign = sign_of(t.format);
  const bool wide = t.type == Type::f32 || t.type == Type::f64;
  for (const bool ftz : {false, true}) {
    if (ftz && (t.type == Type::f64 || t.type == Type::bf16)) continue;
    const std::string suffix = std::string(ftz ? ".ftz." : ".") + t.name;
    const auto form = [&](const std::string& name, auto change) {
      forms.push_back({.text = name + suffix + " {d}, {a};",
                       .inputs = {t.type},
                       .output = t.type,
                       .reference = [=, format = t.format](Inputs in) -> std::optional<u64> {
                         return change(ftz ? flushed(format, in[0]) : in[0]);
                       }});
    };
    form("abs", [sign](u64 bits) { return bits & ~sign; });
    form("neg", [sign](u64 bits) { return bits ^ sign; });
  }
  if (wide) {
    // The sign of the first operand, the rest of the second.
    forms.push_back({.text = std::string("copysign.") + t.name + " {d}, {a}, {b};",
                     .inputs = {t.type, t.type},
                     .output = t.type,
                     .reference = [sign](Inputs in) -> std::optional<u64> {
                       return (in[0] & sign) | (in[1] & ~sign);
                     },
                     .exact_nan = true});
    return;
  }
  const u64 both = sign | sign << 16;
  forms.push_back({.text = std::string("abs.") + t.pair + " {d}, {a};",
                   .inputs = {t.packed},
                   .output = t.packed,
                   .reference = [both](Inputs in) -> std::optional<u64> { return in[0] & ~both; }});
  forms.push_back({.text = std::string("neg.") + t.pair + " {d}, {a};",
                   .inputs = {t.packed},
                   .output = t.packed,
                   .reference = [both](Inputs in) -> std::optional<u64> { return in[0] ^ both; }});
}

/// testp: what kind of number it is.
void add_tests(std::vector<Form>& forms, const Float& t) {
  const auto form = [&](const std::string& name, auto test) {
    forms.push_back({.text = "testp." + name + "." + t.name + " {d}, {a};",
                     .inputs = {t.type},
                     .output = Type::pred,
                     .reference = [=, format = t.format](Inputs in) -> std::optional<u64> {
                       return test(format, in[0]);
                     }});
  };
  using Kind = Number::Kind;
  form("finite", [](Format f, u64 v) { return decode(f, v).kind == Kind::finite; });
  form("infinite", [](Format f, u64 v) { return decode(f, v).kind == Kind::infinite; });
  form("number", [](Format f, u64 v) { return !decode(f, v).is_nan(); });
  form("notanumber", [](Format f, u64 v) { return decode(f, v).is_nan(); });
  // Zero counts as normal.
  form("normal", [](Format f, u64 v) {
    const Number n = decode(f, v);
    return n.kind == Kind::finite && (n.is_zero() || n.exponent() >= 1 - f.bias());
  });
  form("subnormal", [](Format f, u64 v) {
    const Number n = decode(f, v);
    return n.kind == Kind::finite && !n.is_zero() && n.exponent() < 1 - f.bias();
  });
}

bool float_holds(const std::string& comparison, const Number& a, const Number& b) {
  const bool unordered = a.is_nan() || b.is_nan();
  if (comparison == "num") return !unordered;
  if (comparison == "nan") return unordered;
  const std::string base = comparison.substr(0, 2);
  if (unordered) return comparison.size() == 3;
  const int order = compare(a, b);
  if (base == "eq") return order == 0;
  if (base == "ne") return order != 0;
  if (base == "lt") return order < 0;
  if (base == "le") return order <= 0;
  if (base == "gt") return order > 0;
  return order >= 0;
}

void add_comparisons(std::vector<Form>& forms, const Float& t) {
  for (const char* comparison : {"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu",
                                 "gtu", "geu", "num", "nan"}) {
    for (const bool ftz : {false, true}) {
      if (ftz && (t.type == Type::f64 || t.type == Type::bf16)) continue;
      const std::string suffix = std::string(".") + comparison + (ftz ? ".ftz" : "");
      const auto test = [=, format = t.format, name = std::string(comparison)](u64 a, u64 b) {
        return float_holds(name, decode(format, ftz ? flushed(format, a) : a),
                           decode(format, ftz ? flushed(format, b) : b));
      };
      forms.push_back(
          {.text = "setp" + suffix + "." + t.name + " {d}, {a}, {b};",
           .inputs = {t.type, t.type},
           .output = Type::pred,
           .reference = [test](Inputs in) -> std::optional<u64> { return test(in[0], in[1]); }});
      if (t.packed == t.type) {
        forms.push_back({.text = "set" + suffix + ".u32." + t.name + " {d}, {a}, {b};",
                         .inputs = {t.type, t.type},
                         .output = Type::u32,
                         .reference = [test](Inputs in) -> std::optional<u64> {
                           return test(in[0], in[1]) ? 0xffffffff : 0;
                         }});
        forms.push_back({.text = "set" + suffix + ".f32." + t.name + " {d}, {a}, {b};",
                         .inputs = {t.type, t.type},
                         .output = Type::f32,
                         .reference = [test](Inputs in) -> std::optional<u64> {
                           return test(in[0], in[1]) ? 0x3f800000 : 0;
                         }});
        continue;
      }
      const u64 one = encode(t.format, from_integer(1), Rounding::zero);
      forms.push_back({.text = "set" + suffix + "." + t.name + "." + t.name + " {d}, {a}, {b};",
                       .inputs = {t.type, t.type},
                       .output = t.type,
                       .reference = [=](Inputs in) -> std::optional<u64> {
                         return test(in[0], in[1]) ? one : 0;
                       }});
      forms.push_back({.text = "set" + suffix + "." + t.pair + "." + t.pair + " {d}, {a}, {b};",
                       .inputs = {t.packed, t.packed},
                       .output = t.packed,
                       .reference = [=](Inputs in) -> std::optional<u64> {
                         return (test(in[0] & 0xffff, in[1] & 0xffff) ? one : 0) |
                                (test(in[0] >> 16, in[1] >> 16) ? one << 16 : 0);
                       }});
      forms.push_back({.text = "setp" + suffix + "." + t.pair + " %p0|{d}, {a}, {b};",
                       .inputs = {t.packed, t.packed},
                       .output = Type::pred,
                       .reference = [=](Inputs in) -> std::optional<u64> {
                         return test(in[0] >> 16, in[1] >> 16);
                       }});
    }
  }
}

}  // namespace

std::vector<Form> float_arithmetic_forms() {
  std::vector<Form> forms;
  add_wide(forms);
  add_narrow(forms);
  return forms;
}

std::vector<Form> float_select_forms() {
  std::vector<Form> forms;
  for (const Float& t : kFloats) {
    add_extremes(forms, t);
    add_signs(forms, t);
  }
  add_tests(forms, kFloats[0]);
  add_tests(forms, kFloats[1]);
  return forms;
}

std::vector<Form> float_compare_forms() {
  std::vector<Form> forms;
  for (const Float& t : kFloats) add_comparisons(forms, t);
  return forms;
}

}  // namespace kiln::emulator_test
