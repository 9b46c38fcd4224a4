#include "integer_forms.h"

#include <algorithm>
#include <string>

#include "integers.h"

namespace kiln::emulator_test {
namespace {

using Wide = __int128;
using u64 = std::uint64_t;

Type wider(const Integer& t) {
  if (t.bits == 16) return t.is_signed ? Type::s32 : Type::u32;
  return t.is_signed ? Type::s64 : Type::u64;
}

Wide clamp(Wide value, const Integer& t) {
  return value < t.low() ? t.low() : value > t.high() ? t.high() : value;
}

using Binary = Wide (*)(Wide, Wide);

Form binary(const std::string& name, const Integer& t, Binary apply) {
  return {.text = name + "." + t.name + " {d}, {a}, {b};",
          .inputs = {t.type, t.type},
          .output = t.type,
          .reference = [t, apply](Inputs in) -> std::optional<u64> {
            return static_cast<u64>(apply(t.value(in[0]), t.value(in[1])));
          }};
}

Form unary(const std::string& name, const Integer& t, Wide (*apply)(Wide)) {
  return {.text = name + "." + t.name + " {d}, {a};",
          .inputs = {t.type},
          .output = t.type,
          .reference = [t, apply](Inputs in) -> std::optional<u64> {
            return static_cast<u64>(apply(t.value(in[0])));
          }};
}

/// The high half of a product, which for 64 bits does not fit the type of `Wide` when unsigned.
u64 high_product(const Integer& t, u64 a, u64 b) {
  if (t.bits == 64 && !t.is_signed) {
    return static_cast<u64>(static_cast<unsigned __int128>(a) * b >> 64);
  }
  return static_cast<u64>(t.value(a) * t.value(b) >> t.bits);
}

void add_products(std::vector<Form>& forms, const Integer& t) {
  const std::string suffix = std::string(".") + t.name;
  forms.push_back({.text = "mul.hi" + suffix + " {d}, {a}, {b};",
                   .inputs = {t.type, t.type},
                   .output = t.type,
                   .reference = [t](Inputs in) -> std::optional<u64> {
                     return high_product(t, in[0], in[1]);
                   }});
  forms.push_back({.text = "mul.lo" + suffix + " {d}, {a}, {b};",
                   .inputs = {t.type, t.type},
                   .output = t.type,
                   .reference = [](Inputs in) -> std::optional<u64> { return in[0] * in[1]; }});
  forms.push_back(
      {.text = "mad.lo" + suffix + " {d}, {a}, {b}, {c};",
       .inputs = {t.type, t.type, t.type},
       .output = t.type,
       .reference = [](Inputs in) -> std::optional<u64> { return in[0] * in[1] + in[2]; }});
  forms.push_back({.text = "mad.hi" + suffix + " {d}, {a}, {b}, {c};",
                   .inputs = {t.type, t.type, t.type},
                   .output = t.type,
                   .reference = [t](Inputs in) -> std::optional<u64> {
                     return high_product(t, in[0], in[1]) + in[2];
                   }});
  if (t.bits == 64) return;
  forms.push_back({.text = "mul.wide" + suffix + " {d}, {a}, {b};",
                   .inputs = {t.type, t.type},
                   .output = wider(t),
                   .reference = [t](Inputs in) -> std::optional<u64> {
                     return static_cast<u64>(t.value(in[0]) * t.value(in[1]));
                   }});
  forms.push_back({.text = "mad.wide" + suffix + " {d}, {a}, {b}, {c};",
                   .inputs = {t.type, t.type, wider(t)},
                   .output = wider(t),
                   .reference = [t](Inputs in) -> std::optional<u64> {
                     return static_cast<u64>(t.value(in[0]) * t.value(in[1])) + in[2];
                   }});
}

void add_quotients(std::vector<Form>& forms, const Integer& t) {
  // PTX leaves division by zero open, and the quotient of the lowest number by -1.
  const auto defined = [t](Wide a, Wide b) { return b != 0 && !(a == t.low() && b == -1); };
  forms.push_back({.text = std::string("div.") + t.name + " {d}, {a}, {b};",
                   .inputs = {t.type, t.type},
                   .output = t.type,
                   .reference = [=](Inputs in) -> std::optional<u64> {
                     const Wide a = t.value(in[0]), b = t.value(in[1]);
                     if (!defined(a, b)) return std::nullopt;
                     return static_cast<u64>(a / b);
                   }});
  forms.push_back({.text = std::string("rem.") + t.name + " {d}, {a}, {b};",
                   .inputs = {t.type, t.type},
                   .output = t.type,
                   .reference = [=](Inputs in) -> std::optional<u64> {
                     const Wide a = t.value(in[0]), b = t.value(in[1]);
                     if (!defined(a, b)) return std::nullopt;
                     return static_cast<u64>(a % b);
                   }});
}

/// mul24 and mad24: 24 low bits of each operand.
void add_products_of_24_bits(std::vector<Form>& forms) {
  for (const bool is_signed : {true, false}) {
    const Integer t = is_signed ? kS32 : kU32;
    const Integer narrow{"", t.type, 24, is_signed};
    for (const bool high : {true, false}) {
      const std::string suffix = std::string(high ? ".hi." : ".lo.") + t.name;
      const auto product = [=](u64 a, u64 b) {
        const Wide whole = narrow.value(a) * narrow.value(b);
        return static_cast<u64>(high ? whole >> 16 : whole);
      };
      forms.push_back(
          {.text = "mul24" + suffix + " {d}, {a}, {b};",
           .inputs = {t.type, t.type},
           .output = t.type,
           .reference = [=](Inputs in) -> std::optional<u64> { return product(in[0], in[1]); }});
      forms.push_back({.text = "mad24" + suffix + " {d}, {a}, {b}, {c};",
                       .inputs = {t.type, t.type, t.type},
                       .output = t.type,
                       .reference = [=](Inputs in) -> std::optional<u64> {
                         return product(in[0], in[1]) + in[2];
                       }});
    }
  }
}

void add_saturating(std::vector<Form>& forms) {
  const Integer t = kS32;
  const auto value = [t](u64 word) { return t.value(word); };
  const auto form = [&](const std::string& text, int count, Reference reference) {
    forms.push_back({.text = text,
                     .inputs = std::vector<Type>(count, Type::s32),
                     .output = Type::s32,
                     .reference = std::move(reference)});
  };
  form("add.sat.s32 {d}, {a}, {b};", 2, [=](Inputs in) -> std::optional<u64> {
    return static_cast<u64>(clamp(value(in[0]) + value(in[1]), t));
  });
  form("sub.sat.s32 {d}, {a}, {b};", 2, [=](Inputs in) -> std::optional<u64> {
    return static_cast<u64>(clamp(value(in[0]) - value(in[1]), t));
  });
  form("mad.hi.sat.s32 {d}, {a}, {b}, {c};", 3, [=](Inputs in) -> std::optional<u64> {
    return static_cast<u64>(clamp((value(in[0]) * value(in[1]) >> 32) + value(in[2]), t));
  });
  form("max.relu.s32 {d}, {a}, {b};", 2, [=](Inputs in) -> std::optional<u64> {
    return static_cast<u64>(std::max(std::max(value(in[0]), value(in[1])), Wide{0}));
  });
  form("min.relu.s32 {d}, {a}, {b};", 2, [=](Inputs in) -> std::optional<u64> {
    return static_cast<u64>(std::max(std::min(value(in[0]), value(in[1])), Wide{0}));
  });
}

/// Instructions on two 16-bit halves.
void add_halves(std::vector<Form>& forms) {
  struct Entry {
    const char* name;
    bool is_signed, relu;
    Binary apply;
  };
  const Entry entries[] = {
      {"add.s16x2", true, false, [](Wide a, Wide b) { return a + b; }},
      {"add.u16x2", false, false, [](Wide a, Wide b) { return a + b; }},
      {"min.s16x2", true, false, [](Wide a, Wide b) { return std::min(a, b); }},
      {"max.s16x2", true, false, [](Wide a, Wide b) { return std::max(a, b); }},
      {"min.u16x2", false, false, [](Wide a, Wide b) { return std::min(a, b); }},
      {"max.u16x2", false, false, [](Wide a, Wide b) { return std::max(a, b); }},
      {"max.relu.s16x2", true, true, [](Wide a, Wide b) { return std::max(a, b); }},
      {"min.relu.s16x2", true, true, [](Wide a, Wide b) { return std::min(a, b); }},
  };
  for (const Entry& entry : entries) {
    const Integer half{"", Type::s16, 16, entry.is_signed};
    forms.push_back({.text = std::string(entry.name) + " {d}, {a}, {b};",
                     .inputs = {Type::b32, Type::b32},
                     .output = Type::b32,
                     .reference = [=](Inputs in) -> std::optional<u64> {
                       u64 result = 0;
                       for (int shift : {0, 16}) {
                         Wide value =
                             entry.apply(half.value(in[0] >> shift), half.value(in[1] >> shift));
                         if (entry.relu && value < 0) value = 0;
                         result |= (static_cast<u64>(value) & 0xffff) << shift;
                       }
                       return result;
                     }});
  }
}

void add_dot_products(std::vector<Form>& forms) {
  for (const bool a_signed : {true, false}) {
    for (const bool b_signed : {true, false}) {
      const std::string types =
          std::string(a_signed ? ".s32" : ".u32") + (b_signed ? ".s32" : ".u32");
      const Integer a_byte{"", Type::b32, 8, a_signed}, b_byte{"", Type::b32, 8, b_signed};
      const Integer a_half{"", Type::b32, 16, a_signed};
      forms.push_back({.text = "dp4a" + types + " {d}, {a}, {b}, {c};",
                       .inputs = {Type::b32, Type::b32, Type::b32},
                       .output = Type::b32,
                       .reference = [=](Inputs in) -> std::optional<u64> {
                         Wide sum = static_cast<Wide>(in[2]);
                         for (int i = 0; i < 4; ++i) {
                           sum += a_byte.value(in[0] >> 8 * i) * b_byte.value(in[1] >> 8 * i);
                         }
                         return static_cast<u64>(sum);
                       }});
      for (const bool high : {true, false}) {
        forms.push_back(
            {.text = std::string("dp2a.") + (high ? "hi" : "lo") + types + " {d}, {a}, {b}, {c};",
             .inputs = {Type::b32, Type::b32, Type::b32},
             .output = Type::b32,
             .reference = [=](Inputs in) -> std::optional<u64> {
               Wide sum = static_cast<Wide>(in[2]);
               for (int i = 0; i < 2; ++i) {
                 sum += a_half.value(in[0] >> 16 * i) *
                        b_byte.value(in[1] >> (8 * i + (high ? 16 : 0)));
               }
               return static_cast<u64>(sum);
             }});
      }
    }
  }
}

/// Sums of 128 bits by carries, and what a carry does in between.
void add_carries(std::vector<Form>& forms) {
  const auto form = [&](const std::string& text, int count, Type type, Reference reference) {
    forms.push_back({.text = text,
                     .inputs = std::vector<Type>(count, type),
                     .output = type,
                     .reference = std::move(reference)});
  };
  form("add.cc.u32 %x0, {a}, {b}; addc.u32 {d}, {c}, {e};", 4, Type::u32,
       [](Inputs in) -> std::optional<u64> { return in[2] + in[3] + ((in[0] + in[1]) >> 32); });
  form("add.cc.s32 %x0, {a}, {b}; addc.cc.s32 %x1, {c}, %x0; addc.s32 {d}, %x1, {e};", 4, Type::s32,
       [](Inputs in) -> std::optional<u64> {
         const u64 first = in[0] + in[1];
         const u64 second = in[2] + (first & 0xffffffff) + (first >> 32);
         return (second & 0xffffffff) + in[3] + (second >> 32);
       });
  form("sub.cc.u32 %x0, {a}, {b}; subc.u32 {d}, {c}, {e};", 4, Type::u32,
       [](Inputs in) -> std::optional<u64> { return in[2] - in[3] - (in[0] < in[1]); });
  form("sub.cc.u32 %x0, {a}, {b}; subc.cc.u32 %x1, {c}, %x0; subc.u32 {d}, %x1, {e};", 4, Type::u32,
       [](Inputs in) -> std::optional<u64> {
         const u64 first = (in[0] - in[1]) & 0xffffffff;
         const u64 borrow = in[0] < in[1];
         const u64 second = (in[2] - first - borrow) & 0xffffffff;
         return second - in[3] - (in[2] < first + borrow);
       });
  form("add.cc.u64 %y0, {a}, {b}; addc.u64 {d}, {c}, {e};", 4, Type::u64,
       [](Inputs in) -> std::optional<u64> { return in[2] + in[3] + (in[0] + in[1] < in[0]); });
  form("sub.cc.s64 %y0, {a}, {b}; subc.s64 {d}, {c}, {e};", 4, Type::s64,
       [](Inputs in) -> std::optional<u64> { return in[2] - in[3] - (in[0] < in[1]); });
  form("mad.lo.cc.u32 %x0, {a}, {b}, {c}; madc.hi.u32 {d}, {a}, {b}, {e};", 4, Type::u32,
       [](Inputs in) -> std::optional<u64> {
         const u64 product = in[0] * in[1];
         return (product >> 32) + in[3] + (((product & 0xffffffff) + in[2]) >> 32);
       });
  form("mad.hi.cc.u32 %x0, {a}, {b}, {c}; madc.lo.cc.u32 %x1, {c}, {e}, %x0; addc.u32 {d}, {a}, 0;",
       4, Type::u32, [](Inputs in) -> std::optional<u64> {
         const u64 first = (in[0] * in[1] >> 32) + in[2];
         const u64 low = in[2] * in[3] & 0xffffffff;
         const u64 second = low + (first & 0xffffffff) + (first >> 32);
         return in[0] + (second >> 32);
       });
  form("mad.lo.cc.s32 %x0, {a}, {b}, {c}; madc.hi.s32 {d}, {a}, {b}, {e};", 4, Type::s32,
       [](Inputs in) -> std::optional<u64> {
         const Wide a = static_cast<std::int32_t>(in[0]), b = static_cast<std::int32_t>(in[1]);
         const u64 low = static_cast<u64>(a * b) & 0xffffffff;
         return static_cast<u64>(a * b >> 32) + in[3] + ((low + in[2]) >> 32);
       });
}

}  // namespace

std::vector<Form> integer_arithmetic_forms() {
  std::vector<Form> forms;
  for (const Integer& t : kIntegers) {
    forms.push_back(binary("add", t, [](Wide a, Wide b) { return a + b; }));
    forms.push_back(binary("sub", t, [](Wide a, Wide b) { return a - b; }));
    forms.push_back(binary("min", t, [](Wide a, Wide b) { return std::min(a, b); }));
    forms.push_back(binary("max", t, [](Wide a, Wide b) { return std::max(a, b); }));
    add_products(forms, t);
    add_quotients(forms, t);
    forms.push_back({.text = std::string("sad.") + t.name + " {d}, {a}, {b}, {c};",
                     .inputs = {t.type, t.type, t.type},
                     .output = t.type,
                     .reference = [t](Inputs in) -> std::optional<u64> {
                       const Wide a = t.value(in[0]), b = t.value(in[1]);
                       return static_cast<u64>(a < b ? b - a : a - b) + in[2];
                     }});
    if (!t.is_signed) continue;
    forms.push_back(unary("abs", t, [](Wide a) { return a < 0 ? -a : a; }));
    forms.push_back(unary("neg", t, [](Wide a) { return -a; }));
  }
  add_products_of_24_bits(forms);
  add_saturating(forms);
  add_halves(forms);
  add_dot_products(forms);
  add_carries(forms);
  return forms;
}

}  // namespace kiln::emulator_test
