#include <gtest/gtest.h>

#include <bit>
#include <functional>

#include "ptx_machine.h"

namespace kiln::emulator::test {
namespace {

using U128 = unsigned __int128;
using I128 = __int128;
using Reference = std::function<std::uint64_t(std::uint64_t, std::uint64_t, std::uint64_t)>;

std::uint64_t mask_of(unsigned width) {
  return width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
}
std::int64_t signed_of(std::uint64_t value, unsigned width) {
  return static_cast<std::int64_t>(value << (64 - width)) >> (64 - width);
}

// Compares an instruction with a formula in 128-bit integers.
void check(const std::string& instruction, const std::string& result,
           const std::vector<std::string>& operands, const Reference& reference) {
  SCOPED_TRACE(instruction);
  constexpr std::size_t kCount = 3000;
  std::vector<std::vector<std::uint64_t>> inputs;
  const auto width = [](const std::string& type) {
    return static_cast<unsigned>(std::stoul(type.substr(1)));
  };
  for (std::size_t i = 0; i < operands.size(); ++i)
    inputs.push_back(interesting_integers(width(operands[i]), kCount, 17 + i));
  const auto found = apply({instruction, result, operands}, inputs);
  for (std::size_t i = 0; i < kCount; ++i) {
    const auto value = [&](std::size_t k) { return k < inputs.size() ? inputs[k][i] : 0; };
    const std::uint64_t expected = reference(value(0), value(1), value(2)) & mask_of(width(result));
    ASSERT_EQ(found[i], expected) << std::hex << value(0) << " " << value(1) << " " << value(2);
  }
}

TEST(PtxInteger, DividesAsTheHardwareDoes) {
  for (unsigned width : {16U, 32U, 64U}) {
    const std::string u = "u" + std::to_string(width), s = "s" + std::to_string(width);
    check("div." + u + " %d, %a, %b;", u, {u, u},
          [](auto a, auto b, auto) { return b == 0 ? ~std::uint64_t{0} : a / b; });
    check("rem." + u + " %d, %a, %b;", u, {u, u},
          [](auto a, auto b, auto) { return b == 0 ? ~std::uint64_t{0} : a % b; });
    check("div." + s + " %d, %a, %b;", s, {s, s}, [width](auto a, auto b, auto) {
      if (b == 0) return ~std::uint64_t{0};
      return static_cast<std::uint64_t>(I128{signed_of(a, width)} / signed_of(b, width));
    });
    check("rem." + s + " %d, %a, %b;", s, {s, s}, [width](auto a, auto b, auto) {
      if (b == 0) return ~std::uint64_t{0};
      return static_cast<std::uint64_t>(I128{signed_of(a, width)} % signed_of(b, width));
    });
  }
}

TEST(PtxInteger, MultipliesLowHighAndWide) {
  for (unsigned width : {16U, 32U, 64U}) {
    const std::string u = "u" + std::to_string(width), s = "s" + std::to_string(width);
    check("mul.lo." + s + " %d, %a, %b;", s, {s, s}, [](auto a, auto b, auto) { return a * b; });
    check("mul.hi." + u + " %d, %a, %b;", u, {u, u}, [width](auto a, auto b, auto) {
      return static_cast<std::uint64_t>(U128{a} * b >> width);
    });
    check("mad.hi." + s + " %d, %a, %b, %c;", s, {s, s, s}, [width](auto a, auto b, auto c) {
      return static_cast<std::uint64_t>(I128{signed_of(a, width)} * signed_of(b, width) >> width) +
             c;
    });
    if (width == 64) continue;
    const std::string wide = "s" + std::to_string(2 * width);
    check("mul.wide." + s + " %d, %a, %b;", wide, {s, s}, [width](auto a, auto b, auto) {
      return static_cast<std::uint64_t>(signed_of(a, width) * signed_of(b, width));
    });
  }
  check("mul24.hi.s32 %d, %a, %b;", "s32", {"s32", "s32"}, [](auto a, auto b, auto) {
    return static_cast<std::uint64_t>(signed_of(a & 0xffffff, 24) * signed_of(b & 0xffffff, 24) >>
                                      16);
  });
  check("mad24.lo.u32 %d, %a, %b, %c;", "u32", {"u32", "u32", "u32"},
        [](auto a, auto b, auto c) { return (a & 0xffffff) * (b & 0xffffff) + c; });
}

TEST(PtxInteger, CarriesThroughChains) {
  // 96-bit sums in three words: the carry of the two lower ones.
  check("{.reg .b32 %l;\nadd.cc.u32 %l, %a, %b;\naddc.cc.u32 %l, %a, %c;\naddc.u32 %d, 0, 0;}",
        "u32", {"u32", "u32", "u32"}, [](auto a, auto b, auto c) {
          const std::uint64_t first = (a + b) >> 32;
          return (a + c + first) >> 32;
        });
  check("{.reg .b32 %l;\nsub.cc.u32 %l, %a, %b;\nsubc.u32 %d, %b, %c;}", "u32",
        {"u32", "u32", "u32"}, [](auto a, auto b, auto c) { return b - c - (a < b ? 1 : 0); });
  check("{.reg .b64 %l;\nmad.lo.cc.u64 %l, %a, %b, %c;\nmadc.hi.u64 %d, %a, %b, 0;}", "u64",
        {"u64", "u64", "u64"},
        [](auto a, auto b, auto c) { return static_cast<std::uint64_t>((U128{a} * b + c) >> 64); });
}

TEST(PtxInteger, SaturatesAndCompares) {
  const auto clamp = [](I128 value) {
    return static_cast<std::uint64_t>(std::min<I128>(std::max<I128>(value, INT32_MIN), INT32_MAX));
  };
  check("add.sat.s32 %d, %a, %b;", "s32", {"s32", "s32"},
        [&](auto a, auto b, auto) { return clamp(I128{signed_of(a, 32)} + signed_of(b, 32)); });
  check("sub.sat.s32 %d, %a, %b;", "s32", {"s32", "s32"},
        [&](auto a, auto b, auto) { return clamp(I128{signed_of(a, 32)} - signed_of(b, 32)); });
  check("sad.s32 %d, %a, %b, %c;", "s32", {"s32", "s32", "s32"}, [](auto a, auto b, auto c) {
    const I128 d = I128{signed_of(a, 32)} - signed_of(b, 32);
    return c + static_cast<std::uint64_t>(d < 0 ? -d : d);
  });
  check("min.s64 %d, %a, %b;", "s64", {"s64", "s64"},
        [](auto a, auto b, auto) { return signed_of(a, 64) < signed_of(b, 64) ? a : b; });
  check("max.u16 %d, %a, %b;", "u16", {"u16", "u16"},
        [](auto a, auto b, auto) { return std::max(a, b); });
  check("abs.s32 %d, %a;", "s32", {"s32"},
        [](auto a, auto, auto) { return signed_of(a, 32) < 0 ? 0 - a : a; });
  check("dp4a.u32.s32 %d, %a, %b, %c;", "s32", {"u32", "s32", "s32"}, [](auto a, auto b, auto c) {
    for (int i = 0; i < 32; i += 8)
      c += static_cast<std::uint64_t>(static_cast<std::int64_t>(a >> i & 255) *
                                      signed_of(b >> i & 255, 8));
    return c;
  });
}

TEST(PtxInteger, ShiftsBeyondTheWidth) {
  for (unsigned width : {16U, 32U, 64U}) {
    const std::string b = "b" + std::to_string(width), s = "s" + std::to_string(width);
    check("shl." + b + " %d, %a, %b;", b, {b, "u32"},
          [width](auto a, auto n, auto) { return n >= width ? 0 : a << n; });
    check("shr.u" + std::to_string(width) + " %d, %a, %b;", b, {b, "u32"},
          [width](auto a, auto n, auto) { return n >= width ? 0 : a >> n; });
    check("shr." + s + " %d, %a, %b;", s, {s, "u32"}, [width](auto a, auto n, auto) {
      return static_cast<std::uint64_t>(signed_of(a, width) >> std::min<std::uint64_t>(n, 63));
    });
  }
  check("shf.l.clamp.b32 %d, %a, %b, %c;", "b32", {"b32", "b32", "u32"},
        [](auto a, auto b, auto n) {
          n = std::min<std::uint64_t>(n, 32);
          return static_cast<std::uint64_t>((U128{b << 32 | a} << n) >> 32);
        });
  check("shf.r.wrap.b32 %d, %a, %b, %c;", "b32", {"b32", "b32", "u32"},
        [](auto a, auto b, auto n) { return (b << 32 | a) >> (n & 31); });
}

TEST(PtxInteger, FieldsOfBits) {
  // The definition of the PTX manual, bit by bit.
  const auto bfe = [](std::uint64_t a, std::uint64_t b, std::uint64_t c, unsigned width,
                      bool is_signed) {
    const unsigned position = b & 255, length = c & 255, top = width - 1;
    const unsigned last = std::min(position + length - 1, top);
    const bool sign = is_signed && length != 0 && (a >> last & 1) != 0;
    std::uint64_t d = 0;
    for (unsigned i = 0; i <= top; ++i) {
      const bool bit = i < length && position + i <= top ? (a >> (position + i) & 1) != 0 : sign;
      d |= std::uint64_t{bit} << i;
    }
    return d;
  };
  for (unsigned width : {32U, 64U})
    for (bool is_signed : {false, true}) {
      const std::string type = (is_signed ? "s" : "u") + std::to_string(width);
      check("bfe." + type + " %d, %a, %b, %c;", type, {type, "u32", "u32"},
            [&](auto a, auto b, auto c) { return bfe(a, b, c, width, is_signed); });
      check("{and.b32 %b, %b, 63;\nand.b32 %c, %c, 31;\nbfe." + type + " %d, %a, %b, %c;}", type,
            {type, "u32", "u32"},
            [&](auto a, auto b, auto c) { return bfe(a, b & 63, c & 31, width, is_signed); });
    }
  check("{and.b32 %t, %c, 31;\nbfi.b32 %d, %a, %b, %c, %t;}", "b32", {"b32", "b32", "u32"},
        [](auto a, auto b, auto c) {
          const unsigned position = c & 255, length = c & 31;
          for (unsigned i = 0; i < length && position + i < 32; ++i)
            b = (b & ~(std::uint64_t{1} << (position + i))) | (a >> i & 1) << (position + i);
          return b;
        });
  check("bfind.s32 %d, %a;", "u32", {"s32"}, [](auto a, auto, auto) -> std::uint64_t {
    if (signed_of(a, 32) < 0) a = ~a & 0xffffffff;
    return a == 0 ? ~std::uint64_t{0} : std::bit_width(a) - 1;
  });
  check("bfind.shiftamt.u64 %d, %a;", "u32", {"u64"}, [](auto a, auto, auto) -> std::uint64_t {
    return a == 0 ? ~std::uint64_t{0} : 64 - std::bit_width(a);
  });
  check("brev.b32 %d, %a;", "b32", {"b32"}, [](auto a, auto, auto) {
    std::uint64_t d = 0;
    for (int i = 0; i < 32; ++i) d |= (a >> i & 1) << (31 - i);
    return d;
  });
  check("clz.b64 %d, %a;", "u32", {"b64"},
        [](auto a, auto, auto) { return static_cast<std::uint64_t>(std::countl_zero(a)); });
  check("popc.b64 %d, %a;", "u32", {"b64"},
        [](auto a, auto, auto) { return static_cast<std::uint64_t>(std::popcount(a)); });
  check("bmsk.clamp.b32 %d, %a, %b;", "b32", {"u32", "u32"}, [](auto a, auto b, auto) {
    std::uint64_t d = 0;
    for (std::uint64_t i = a; i < std::min<std::uint64_t>(32, a + std::min<std::uint64_t>(b, 32));
         ++i)
      d |= std::uint64_t{1} << i;
    return d;
  });
  check("szext.wrap.s32 %d, %a, %b;", "s32", {"s32", "u32"}, [](auto a, auto b, auto) {
    const unsigned n = b & 31;
    return n == 0 ? 0 : static_cast<std::uint64_t>(signed_of(a & ((1ULL << n) - 1), n));
  });
}

TEST(PtxInteger, PermutesAndLooksUp) {
  const auto pick = [](std::uint64_t bytes, std::uint64_t selector) {
    std::uint64_t d = 0;
    for (int i = 0; i < 4; ++i) {
      const std::uint64_t code = selector >> 4 * i & 15;
      std::uint64_t byte = bytes >> (code & 7) * 8 & 255;
      if ((code & 8) != 0) byte = byte >= 128 ? 255 : 0;
      d |= byte << 8 * i;
    }
    return d;
  };
  check("prmt.b32 %d, %a, %b, %c;", "b32", {"b32", "b32", "b32"},
        [&](auto a, auto b, auto c) { return pick(b << 32 | a, c); });
  check("prmt.b32.b4e %d, %a, %b, %c;", "b32", {"b32", "b32", "b32"}, [&](auto a, auto b, auto c) {
    const std::uint64_t n = c & 3;
    std::uint64_t d = 0;
    for (std::uint64_t i = 0; i < 4; ++i) d |= ((b << 32 | a) >> ((n - i) & 7) * 8 & 255) << 8 * i;
    return d;
  });
  for (int table : {0x00, 0x1b, 0x96, 0xe8, 0xff})
    check("lop3.b32 %d, %a, %b, %c, " + std::to_string(table) + ";", "b32", {"b32", "b32", "b32"},
          [table](auto a, auto b, auto c) {
            std::uint64_t d = 0;
            for (int i = 0; i < 32; ++i) {
              const auto row = (a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1);
              d |= std::uint64_t(table >> row & 1) << i;
            }
            return d;
          });
}

}  // namespace
}  // namespace kiln::emulator::test
