#include <algorithm>
#include <bit>
#include <string>

#include "integer_forms.h"
#include "integers.h"

namespace kiln::emulator_test {
namespace {

using Wide = __int128;
using u64 = std::uint64_t;
using u32 = std::uint32_t;

u32 byte_of_eight(u64 both, u32 selector) {
  const u32 byte = both >> 8 * (selector & 7) & 0xff;
  return selector & 8 ? (byte & 0x80 ? 0xff : 0) : byte;
}

/// prmt without a mode and with each of them.
void add_permutations(std::vector<Form>& forms) {
  const auto form = [&](const std::string& mode, std::function<u32(u64, u32)> permute,
                        unsigned ignored = 0) {
    forms.push_back({.text = "prmt.b32" + mode + " {d}, {a}, {b}, {c};",
                     .inputs = {Type::b32, Type::b32, Type::b32},
                     .output = Type::b32,
                     .reference = [permute](Inputs in) -> std::optional<u64> {
                       return permute(in[0] | in[1] << 32, static_cast<u32>(in[2]));
                     },
                     .ignored = ignored});
  };
  constexpr unsigned kSecond = 2;
  const auto of = [](u64 both, u32 s0, u32 s1, u32 s2, u32 s3) {
    return byte_of_eight(both, s0) | byte_of_eight(both, s1) << 8 | byte_of_eight(both, s2) << 16 |
           byte_of_eight(both, s3) << 24;
  };
  form("",
       [of](u64 both, u32 c) { return of(both, c & 15, c >> 4 & 15, c >> 8 & 15, c >> 12 & 15); });
  form(".f4e",
       [of](u64 both, u32 c) { return of(both, c & 3, (c & 3) + 1, (c & 3) + 2, (c & 3) + 3); });
  form(".b4e", [of](u64 both, u32 c) {
    return of(both, c & 3, ((c & 3) + 7) & 7, ((c & 3) + 6) & 7, ((c & 3) + 5) & 7);
  });
  form(".rc8", [of](u64 both, u32 c) { return of(both, c & 3, c & 3, c & 3, c & 3); }, kSecond);
  form(
      ".ecl",
      [of](u64 both, u32 c) {
        const u32 s = c & 3;
        return of(both, s, std::max(s, 1u), std::max(s, 2u), 3);
      },
      kSecond);
  form(
      ".ecr",
      [of](u64 both, u32 c) {
        const u32 s = c & 3;
        return of(both, 0, std::min(s, 1u), std::min(s, 2u), s);
      },
      kSecond);
  form(
      ".rc16",
      [of](u64 both, u32 c) {
        const u32 s = (c & 1) * 2;
        return of(both, s, s + 1, s, s + 1);
      },
      kSecond);
}

/// The lowest `count` bits.
u64 ones(int count) { return count >= 64 ? ~u64{0} : (u64{1} << count) - 1; }

void add_bit_fields(std::vector<Form>& forms, const Integer& t) {
  const std::vector<u64> positions = {0, 1, 5, 8, 16, 31, 32, 33, 48, 63, 64, 100, 255, 256};
  forms.push_back({.text = std::string("bfe.") + t.name + " {d}, {a}, {b}, {c};",
                   .inputs = {t.type, Type::u32, Type::u32},
                   .output = t.type,
                   .reference = [t](Inputs in) -> std::optional<u64> {
                     const u64 value = in[0] & ones(t.bits);
                     const int position = in[1] & 0xff, length = in[2] & 0xff;
                     const int highest = std::min(position + length - 1, t.bits - 1);
                     const bool sign = t.is_signed && length != 0 && (value >> highest & 1);
                     const u64 field = position < t.bits ? value >> position : 0;
                     const int kept = std::min(length, std::max(t.bits - position, 0));
                     return (field & ones(kept)) | (sign ? ~ones(kept) : 0);
                   },
                   .choices = {{{}, positions, positions, {}}}});
  if (t.is_signed) return;
  const std::string bits = std::to_string(t.bits);
  forms.push_back({.text = "bfi.b" + bits + " {d}, {a}, {b}, {c}, {e};",
                   .inputs = {t.type, t.type, Type::u32, Type::u32},
                   .output = t.type,
                   .reference = [t](Inputs in) -> std::optional<u64> {
                     const int position = in[2] & 0xff, length = in[3] & 0xff;
                     if (position >= t.bits) return in[1];
                     const u64 mask = ones(length) << position;
                     return (in[1] & ~mask) | (in[0] << position & mask);
                   },
                   .choices = {{{}, {}, positions, positions}}});
}

void add_searches(std::vector<Form>& forms, const Integer& t) {
  for (const bool amount : {false, true}) {
    forms.push_back(
        {.text = std::string("bfind") + (amount ? ".shiftamt." : ".") + t.name + " {d}, {a};",
         .inputs = {t.type},
         .output = Type::u32,
         .reference = [t, amount](Inputs in) -> std::optional<u64> {
           u64 word = in[0] & ones(t.bits);
           if (t.is_signed && (word >> (t.bits - 1))) word = ~word & ones(t.bits);
           if (word == 0) return 0xffffffff;
           const int position = 63 - std::countl_zero(word);
           return static_cast<u64>(amount ? t.bits - 1 - position : position);
         }});
  }
  if (t.is_signed) return;
  const std::string bits = std::to_string(t.bits);
  const auto form = [&](const std::string& name, Type output, Reference reference) {
    forms.push_back({.text = name + ".b" + bits + " {d}, {a};",
                     .inputs = {t.type},
                     .output = output,
                     .reference = std::move(reference)});
  };
  form("popc", Type::u32, [](Inputs in) -> std::optional<u64> { return std::popcount(in[0]); });
  form("clz", Type::u32,
       [t](Inputs in) -> std::optional<u64> { return std::countl_zero(in[0]) - (64 - t.bits); });
  form("brev", t.type, [t](Inputs in) -> std::optional<u64> {
    u64 reversed = 0;
    for (int i = 0; i < t.bits; ++i) reversed |= (in[0] >> i & 1) << (t.bits - 1 - i);
    return reversed;
  });
}

void add_funnels(std::vector<Form>& forms) {
  for (const bool left : {true, false}) {
    for (const bool wrap : {true, false}) {
      forms.push_back({.text = std::string("shf.") + (left ? "l" : "r") +
                               (wrap ? ".wrap" : ".clamp") + ".b32 {d}, {a}, {b}, {c};",
                       .inputs = {Type::b32, Type::b32, Type::u32},
                       .output = Type::b32,
                       .reference = [=](Inputs in) -> std::optional<u64> {
                         const u64 both = in[0] | in[1] << 32;
                         const u64 amount = wrap ? in[2] & 31 : std::min<u64>(in[2], 32);
                         return left ? both << amount >> 32 : both >> amount;
                       }});
    }
  }
}

void add_masks(std::vector<Form>& forms) {
  for (const bool wrap : {true, false}) {
    const std::string mode = wrap ? ".wrap" : ".clamp";
    forms.push_back({.text = "bmsk" + mode + ".b32 {d}, {a}, {b};",
                     .inputs = {Type::u32, Type::u32},
                     .output = Type::b32,
                     .reference = [=](Inputs in) -> std::optional<u64> {
                       const u64 a = wrap ? in[0] & 31 : std::min<u64>(in[0], 32);
                       const u64 b = wrap ? in[1] & 31 : std::min<u64>(in[1], 32);
                       return a >= 32 ? 0 : ones(static_cast<int>(b)) << a;
                     }});
    for (const bool is_signed : {true, false}) {
      forms.push_back({.text = "szext" + mode + (is_signed ? ".s32" : ".u32") + " {d}, {a}, {b};",
                       .inputs = {Type::b32, Type::u32},
                       .output = Type::b32,
                       .reference = [=](Inputs in) -> std::optional<u64> {
                         const u64 count = wrap ? in[1] & 31 : std::min<u64>(in[1], 32);
                         const u64 field = in[0] & ones(static_cast<int>(count));
                         const bool sign = is_signed && count && (in[0] >> (count - 1) & 1);
                         return field | (sign ? ~ones(static_cast<int>(count)) : 0);
                       }});
    }
  }
}

const char* kComparisons[] = {"eq", "ne", "lt", "le", "gt", "ge"};

bool holds(int comparison, Wide a, Wide b) {
  switch (comparison) {
    case 0:
      return a == b;
    case 1:
      return a != b;
    case 2:
      return a < b;
    case 3:
      return a <= b;
    case 4:
      return a > b;
    default:
      return a >= b;
  }
}

}  // namespace

std::vector<Form> integer_bit_forms() {
  std::vector<Form> forms;
  for (const Integer& t : kIntegers) {
    const std::string bits = std::to_string(t.bits);
    const auto form = [&](const std::string& text, std::vector<Type> inputs, Reference reference) {
      forms.push_back({.text = text,
                       .inputs = std::move(inputs),
                       .output = t.type,
                       .reference = std::move(reference)});
    };
    form(std::string("shr.") + t.name + " {d}, {a}, {b};", {t.type, Type::u32},
         [t](Inputs in) -> std::optional<u64> {
           return static_cast<u64>(t.value(in[0]) >> std::min<u64>(in[1], t.bits));
         });
    if (t.bits != 16) add_bit_fields(forms, t);
    if (t.bits != 16) add_searches(forms, t);
    if (t.is_signed) continue;
    form("shl.b" + bits + " {d}, {a}, {b};", {t.type, Type::u32},
         [t](Inputs in) -> std::optional<u64> {
           return in[1] >= static_cast<u64>(t.bits) ? 0 : in[0] << in[1];
         });
    form("shr.b" + bits + " {d}, {a}, {b};", {t.type, Type::u32},
         [t](Inputs in) -> std::optional<u64> {
           return in[1] >= static_cast<u64>(t.bits) ? 0 : in[0] >> in[1];
         });
    form("and.b" + bits + " {d}, {a}, {b};", {t.type, t.type},
         [](Inputs in) -> std::optional<u64> { return in[0] & in[1]; });
    form("or.b" + bits + " {d}, {a}, {b};", {t.type, t.type},
         [](Inputs in) -> std::optional<u64> { return in[0] | in[1]; });
    form("xor.b" + bits + " {d}, {a}, {b};", {t.type, t.type},
         [](Inputs in) -> std::optional<u64> { return in[0] ^ in[1]; });
    form("not.b" + bits + " {d}, {a};", {t.type},
         [](Inputs in) -> std::optional<u64> { return ~in[0]; });
    form("cnot.b" + bits + " {d}, {a};", {t.type},
         [](Inputs in) -> std::optional<u64> { return in[0] == 0; });
    form("selp.b" + bits + " {d}, {a}, {b}, {c};", {t.type, t.type, Type::pred},
         [](Inputs in) -> std::optional<u64> { return in[2] ? in[0] : in[1]; });
    form("slct.b" + bits + ".s32 {d}, {a}, {b}, {c};", {t.type, t.type, Type::s32},
         [](Inputs in) -> std::optional<u64> { return in[2] >> 31 & 1 ? in[1] : in[0]; });
    form("mov.b" + bits + " {d}, {a};", {t.type},
         [](Inputs in) -> std::optional<u64> { return in[0]; });
  }
  for (int table : {0x00, 0x1b, 0x80, 0x96, 0xca, 0xe8, 0xfe, 0xff}) {
    forms.push_back({.text = "lop3.b32 {d}, {a}, {b}, {c}, " + std::to_string(table) + ";",
                     .inputs = {Type::b32, Type::b32, Type::b32},
                     .output = Type::b32,
                     .reference = [table](Inputs in) -> std::optional<u64> {
                       u64 result = 0;
                       for (int i = 0; i < 32; ++i) {
                         const int row =
                             (in[0] >> i & 1) << 2 | (in[1] >> i & 1) << 1 | (in[2] >> i & 1);
                         result |= static_cast<u64>(table >> row & 1) << i;
                       }
                       return result;
                     },
                     .ignored = table == 0x00 || table == 0xff ? 7u : 0u});
  }
  add_permutations(forms);
  add_funnels(forms);
  add_masks(forms);
  return forms;
}

std::vector<Form> integer_compare_forms() {
  std::vector<Form> forms;
  for (const Integer& t : kIntegers) {
    for (int comparison = 0; comparison < 6; ++comparison) {
      const std::string name = kComparisons[comparison];
      const auto test = [t, comparison](Inputs in) {
        return holds(comparison, t.value(in[0]), t.value(in[1]));
      };
      forms.push_back({.text = "setp." + name + "." + t.name + " {d}, {a}, {b};",
                       .inputs = {t.type, t.type},
                       .output = Type::pred,
                       .reference = [=](Inputs in) -> std::optional<u64> { return test(in); }});
      if (t.bits == 16) continue;
      forms.push_back({.text = "set." + name + ".u32." + t.name + " {d}, {a}, {b};",
                       .inputs = {t.type, t.type},
                       .output = Type::u32,
                       .reference = [=](Inputs in) -> std::optional<u64> {
                         return test(in) ? 0xffffffff : 0;
                       }});
    }
  }
  const auto unsigned_form = [&](const std::string& name, auto compare) {
    forms.push_back(
        {.text = "setp." + name + ".u32 {d}, {a}, {b};",
         .inputs = {Type::u32, Type::u32},
         .output = Type::pred,
         .reference = [=](Inputs in) -> std::optional<u64> { return compare(in[0], in[1]); }});
  };
  unsigned_form("lo", [](u64 a, u64 b) { return a < b; });
  unsigned_form("ls", [](u64 a, u64 b) { return a <= b; });
  unsigned_form("hi", [](u64 a, u64 b) { return a > b; });
  unsigned_form("hs", [](u64 a, u64 b) { return a >= b; });
  const auto combined = [&](const std::string& text, auto combine) {
    forms.push_back({.text = text,
                     .inputs = {Type::s32, Type::s32, Type::pred},
                     .output = Type::pred,
                     .reference = [=](Inputs in) -> std::optional<u64> {
                       return combine(kS32.value(in[0]) < kS32.value(in[1]), in[2] != 0);
                     }});
  };
  combined("setp.lt.and.s32 {d}, {a}, {b}, {c};", [](bool t, bool c) { return t && c; });
  combined("setp.lt.or.s32 {d}, {a}, {b}, !{c};", [](bool t, bool c) { return t || !c; });
  combined("setp.lt.xor.s32 {d}, {a}, {b}, {c};", [](bool t, bool c) { return t != c; });
  combined("setp.lt.and.s32 %p0|{d}, {a}, {b}, {c};", [](bool t, bool c) { return !t && c; });
  combined("setp.lt.s32 %p0, {a}, {b}; and.pred {d}, %p0, {c};",
           [](bool t, bool c) { return t && c; });
  combined("setp.lt.s32 %p0, {a}, {b}; xor.pred %p1, %p0, {c}; not.pred {d}, %p1;",
           [](bool t, bool c) { return t == c; });
  combined("setp.lt.s32 %p0, {a}, {b}; or.pred %p1, %p0, {c}; mov.pred {d}, %p1;",
           [](bool t, bool c) { return t || c; });
  return forms;
}

}  // namespace kiln::emulator_test
