#include <algorithm>
#include <string>

#include "float_forms.h"
#include "integers.h"

namespace kiln::emulator_test {
namespace {

using u64 = std::uint64_t;
using Wide = __int128;

constexpr Integer kConvertible[] = {
    {"s8", Type::s16, 8, true}, {"u8", Type::u16, 8, false}, kS16, kU16, kS32, kU32, kS64, kU64};

struct Mode {
  const char* suffix;
  Rounding rounding;
};
constexpr Mode kModes[] = {{".rn", Rounding::nearest_even},
                           {".rz", Rounding::zero},
                           {".rm", Rounding::down},
                           {".rp", Rounding::up}};

void add_between_integers(std::vector<Form>& forms) {
  for (const Integer& to : kConvertible) {
    for (const Integer& from : kConvertible) {
      for (const bool saturate : {false, true}) {
        // ptxas refuses to saturate what always fits.
        const bool fits = from.low() >= to.low() && from.high() <= to.high();
        if (saturate ? fits : to.name == from.name) continue;
        // A narrow result fills its register by its sign.
        forms.push_back({.text = std::string("cvt") + (saturate ? ".sat." : ".") + to.name + "." +
                                 from.name + " {d}, {a};",
                         .inputs = {from.type},
                         .output = to.type,
                         .reference = [=](Inputs in) -> std::optional<u64> {
                           const Wide value = from.value(in[0]);
                           if (saturate) {
                             return static_cast<u64>(std::clamp(value, to.low(), to.high()));
                           }
                           return static_cast<u64>(to.value(static_cast<u64>(value)));
                         }});
      }
    }
  }
}

void add_from_integers(std::vector<Form>& forms, const Float& to) {
  for (const Integer& from : kConvertible) {
    for (const Mode& mode : kModes) {
      if (to.type == Type::bf16 && (mode.rounding != Rounding::nearest_even || from.bits == 8)) {
        continue;
      }
      forms.push_back({.text = std::string("cvt") + mode.suffix + "." + to.name + "." + from.name +
                               " {d}, {a};",
                       .inputs = {from.type},
                       .output = to.type,
                       .reference = [=](Inputs in) -> std::optional<u64> {
                         return encode(to.format, from_integer(from.value(in[0])), mode.rounding);
                       }});
    }
  }
}

void add_to_integers(std::vector<Form>& forms, const Float& from) {
  for (const Integer& to : kConvertible) {
    if (to.bits == 8) continue;
    for (const Mode& mode : kModes) {
      for (const bool ftz : {false, true}) {
        if (ftz && from.type != Type::f32) continue;
        const Rounding rounding = mode.rounding;
        forms.push_back(
            {.text = std::string("cvt") + mode.suffix + "i" + (ftz ? ".ftz." : ".") + to.name +
                     "." + from.name + " {d}, {a};",
             .inputs = {from.type},
             .output = to.type,
             .reference = [=](Inputs in) -> std::optional<u64> {
               const Number number = decode(from.format, ftz ? flushed(from.format, in[0]) : in[0]);
               if (number.is_nan()) {
                 return from.type == Type::f64 || to.bits == 64 ? u64{1} << (to.bits - 1) : 0;
               }
               return static_cast<u64>(to_integer(number, rounding, to.low(), to.high()));
             }});
      }
    }
  }
}

/// Rounding to an integer within a format.
void add_integral(std::vector<Form>& forms, const Float& t) {
  for (const Mode& mode : kModes) {
    for (const bool ftz : {false, true}) {
      if (ftz && t.type != Type::f32) continue;
      const std::string name = t.name;
      forms.push_back({.text = std::string("cvt") + mode.suffix + "i" + (ftz ? ".ftz." : ".") +
                               name + "." + name + " {d}, {a};",
                       .inputs = {t.type},
                       .output = t.type,
                       .reference = [=](Inputs in) -> std::optional<u64> {
                         const Number n = decode(t.format, ftz ? flushed(t.format, in[0]) : in[0]);
                         return encode(t.format, to_integral(n, mode.rounding), Rounding::zero);
                       }});
    }
  }
}

/// A conversion between formats, with what may follow it.
struct Conversion {
  Format from, to;
  Rounding rounding = Rounding::nearest_even;
  bool ftz = false, sat = false, relu = false, finite = false;

  u64 operator()(u64 bits) const {
    const bool from_f32 = from.exponent_bits == 8 && from.mantissa_bits == 23;
    const bool to_f32 = to.exponent_bits == 8 && to.mantissa_bits == 23;
    Number number = decode(from, ftz && from_f32 ? flushed(from, bits) : bits);
    if (relu && !number.is_nan() && number.negative) number = Number{};
    u64 result = encode(to, number, rounding, finite);
    if (ftz && to_f32) result = flushed(to, result);
    if (!sat) return result;
    const Number rounded = decode(to, result);
    if (rounded.is_nan() || rounded.negative) return 0;
    const Number one = from_integer(1);
    return compare(rounded, one) > 0 ? encode(to, one, rounding) : result;
  }
};

void add_conversion(std::vector<Form>& forms, const std::string& text, Type from, Type to,
                    const Conversion& convert) {
  forms.push_back(
      {.text = text,
       .inputs = {from},
       .output = to,
       .reference = [convert](Inputs in) -> std::optional<u64> { return convert(in[0]); }});
}

void add_between_floats(std::vector<Form>& forms) {
  for (const Mode& mode : kModes) {
    const std::string start = std::string("cvt") + mode.suffix;
    add_conversion(forms, start + ".f32.f64 {d}, {a};", Type::f64, Type::f32,
                   {kF64, kF32, mode.rounding});
    add_conversion(forms, start + ".f16.f64 {d}, {a};", Type::f64, Type::f16,
                   {kF64, kF16, mode.rounding});
    add_conversion(forms, start + ".f16.f32 {d}, {a};", Type::f32, Type::f16,
                   {kF32, kF16, mode.rounding});
    add_conversion(forms, start + ".ftz.f16.f32 {d}, {a};", Type::f32, Type::f16,
                   {kF32, kF16, mode.rounding, true});
    add_conversion(forms, start + ".sat.f32.f64 {d}, {a};", Type::f64, Type::f32,
                   {.from = kF64, .to = kF32, .rounding = mode.rounding, .sat = true});
  }
  for (const Mode& mode : {kModes[0], kModes[1]}) {
    const std::string start = std::string("cvt") + mode.suffix;
    add_conversion(forms, start + ".bf16.f32 {d}, {a};", Type::f32, Type::bf16,
                   {kF32, kBf16, mode.rounding});
    add_conversion(forms, start + ".relu.bf16.f32 {d}, {a};", Type::f32, Type::bf16,
                   {.from = kF32, .to = kBf16, .rounding = mode.rounding, .relu = true});
    add_conversion(forms, start + ".relu.f16.f32 {d}, {a};", Type::f32, Type::f16,
                   {.from = kF32, .to = kF16, .rounding = mode.rounding, .relu = true});
  }
  add_conversion(forms, "cvt.rn.bf16.f64 {d}, {a};", Type::f64, Type::bf16, {kF64, kBf16});
  add_conversion(forms, "cvt.rn.bf16.f16 {d}, {a};", Type::f16, Type::bf16, {kF16, kBf16});
  add_conversion(forms, "cvt.rn.f16.bf16 {d}, {a};", Type::bf16, Type::f16, {kBf16, kF16});
  add_conversion(forms, "cvt.f32.f16 {d}, {a};", Type::f16, Type::f32, {kF16, kF32});
  add_conversion(forms, "cvt.f64.f16 {d}, {a};", Type::f16, Type::f64, {kF16, kF64});
  add_conversion(forms, "cvt.f32.bf16 {d}, {a};", Type::bf16, Type::f32, {kBf16, kF32});
  add_conversion(forms, "cvt.f64.f32 {d}, {a};", Type::f32, Type::f64, {kF32, kF64});
  add_conversion(forms, "cvt.ftz.f64.f32 {d}, {a};", Type::f32, Type::f64,
                 {.from = kF32, .to = kF64, .ftz = true});
  add_conversion(forms, "cvt.sat.f32.f32 {d}, {a};", Type::f32, Type::f32,
                 {.from = kF32, .to = kF32, .sat = true});
  add_conversion(forms, "cvt.ftz.sat.f32.f32 {d}, {a};", Type::f32, Type::f32,
                 {.from = kF32, .to = kF32, .ftz = true, .sat = true});
  add_conversion(forms, "cvt.sat.f64.f64 {d}, {a};", Type::f64, Type::f64,
                 {.from = kF64, .to = kF64, .sat = true});
}

/// Two values into a pair: the first operand is the high one.
void add_packing(std::vector<Form>& forms, const std::string& text, Type to,
                 const Conversion& convert) {
  const int shift = width(to) / 2;
  forms.push_back({.text = text,
                   .inputs = {Type::f32, Type::f32},
                   .output = to,
                   .reference = [=](Inputs in) -> std::optional<u64> {
                     return convert(in[0]) << shift | convert(in[1]);
                   },
                   .exact_nan = true});
}

/// Both halves of a pair.
void add_repacking(std::vector<Form>& forms, const std::string& text, Type from, Type to,
                   const Conversion& convert) {
  const int in_shift = width(from) / 2, out_shift = width(to) / 2;
  const u64 mask = (u64{1} << in_shift) - 1;
  forms.push_back({.text = text,
                   .inputs = {from},
                   .output = to,
                   .reference = [=](Inputs in) -> std::optional<u64> {
                     return convert(in[0] >> in_shift & mask) << out_shift | convert(in[0] & mask);
                   },
                   .exact_nan = true});
}

void add_pairs(std::vector<Form>& forms) {
  for (const Float& to : {kFloats[2], kFloats[3]}) {
    for (const Mode& mode : {kModes[0], kModes[1]}) {
      const std::string start = std::string("cvt") + mode.suffix;
      const std::string rest = std::string(".") + to.pair + ".f32 {d}, {a}, {b};";
      add_packing(forms, start + rest, to.packed, {kF32, to.format, mode.rounding});
      add_packing(forms, start + ".relu" + rest, to.packed,
                  {.from = kF32, .to = to.format, .rounding = mode.rounding, .relu = true});
    }
  }
}

void add_fp8(std::vector<Form>& forms) {
  const struct {
    const char* name;
    Format format;
  } eights[] = {{"e4m3x2", kE4m3}, {"e5m2x2", kE5m2}};
  for (const auto& [name, format] : eights) {
    for (const bool relu : {false, true}) {
      const std::string start = std::string("cvt.rn.satfinite") + (relu ? ".relu." : ".") + name;
      add_packing(forms, start + ".f32 {d}, {a}, {b};", Type::b16,
                  {.from = kF32, .to = format, .relu = relu, .finite = true});
      add_repacking(forms, start + ".f16x2 {d}, {a};", Type::f16x2, Type::b16,
                    {.from = kF16, .to = format, .relu = relu, .finite = true});
      add_repacking(forms,
                    std::string("cvt.rn") + (relu ? ".relu" : "") + ".f16x2." + name + " {d}, {a};",
                    Type::b16, Type::b32, {.from = format, .to = kF16, .relu = relu});
    }
  }
}

void add_tf32(std::vector<Form>& forms) {
  const struct {
    const char* name;
    Rounding rounding;
  } modes[] = {
      {"rna", Rounding::nearest_away}, {"rn", Rounding::nearest_even}, {"rz", Rounding::zero}};
  // The low 13 bits of the register are open.
  for (const auto& [name, rounding] : modes) {
    add_conversion(forms,
                   std::string("cvt.") + name +
                       ".tf32.f32 %x0, {a}; and.b32 %x0, %x0, 0xffffe000; mov.b32 {d}, %x0;",
                   Type::f32, Type::f32, {kF32, kTf32, rounding});
  }
  for (const auto& [name, rounding] : {modes[1], modes[2]}) {
    add_conversion(forms,
                   std::string("cvt.") + name +
                       ".relu.tf32.f32 %x0, {a}; and.b32 %x0, %x0, 0xffffe000; mov.b32 {d}, %x0;",
                   Type::f32, Type::f32,
                   {.from = kF32, .to = kTf32, .rounding = rounding, .relu = true});
  }
}

}  // namespace

std::vector<Form> integer_conversion_forms() {
  std::vector<Form> forms;
  add_between_integers(forms);
  for (const Float& t : kFloats) add_from_integers(forms, t);
  return forms;
}

std::vector<Form> float_conversion_forms() {
  std::vector<Form> forms;
  for (const Float& t : kFloats) add_to_integers(forms, t);
  for (const Float& t : {kFloats[0], kFloats[1], kFloats[2]}) add_integral(forms, t);
  add_between_floats(forms);
  return forms;
}

std::vector<Form> small_float_conversion_forms() {
  std::vector<Form> forms;
  add_pairs(forms);
  add_fp8(forms);
  add_tf32(forms);
  return forms;
}

}  // namespace kiln::emulator_test
