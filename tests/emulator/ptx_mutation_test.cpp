#include <gtest/gtest.h>

#include <random>

#include "ptx_machine.h"

namespace kiln::emulator::test {
namespace {

// A text with a bit of everything.
const std::string kText = ptx(
    ".global .align 8 .u64 table[4] = {f, 1, 2, 3};\n.const .f32 half = 0f3F000000;\n"
    ".func (.param .b32 r) f(.param .b32 a)\n{\n.reg .b32 %r<4>;\nld.param.b32 %r1, [a];\n"
    "mad.lo.s32 %r2, %r1, 3, 5;\nst.param.b32 [r], %r2;\nret;\n}\n"
    ".visible .entry k(.param .u64 out, .param .u32 n)\n.maxntid 256\n{\n.reg .pred %p<4>;\n"
    ".reg .b32 %r<12>;\n.reg .f32 %f<6>;\n.reg .b64 %x<8>;\n.shared .align 16 .b8 room[1024];\n"
    ".local .align 8 .b8 own[32];\nmov.u32 %r1, %tid.x;\nld.param.u64 %x1, [out];\n"
    "ld.param.u32 %r2, [n];\nsetp.ge.u32 %p1, %r1, %r2;\n@%p1 bra END;\nmul.wide.u32 %x2, %r1, 4;\n"
    "add.s64 %x3, %x1, %x2;\nld.const.f32 %f1, [half];\ncvt.rn.f32.s32 %f2, %r1;\n"
    "fma.rn.f32 %f3, %f1, %f2, %f1;\nshl.b32 %r3, %r1, 2;\nmov.u32 %r4, room;\nadd.s32 %r5, %r4, "
    "%r3;\n"
    "st.shared.f32 [%r5], %f3;\nbar.sync 0;\nld.shared.f32 %f4, [%r5];\n"
    "shfl.sync.bfly.b32 %r6|%p2, %r1, 1, 31, -1;\n{\n.param .b32 q;\n.param .b32 s;\n"
    "st.param.b32 [q], %r6;\ncall.uni (s), f, (q);\nld.param.b32 %r7, [s];\n}\nmov.u64 %x4, own;\n"
    "st.local.v2.u32 [%x4+8], {%r6, %r7};\nprmt.b32 %r8, %r6, %r7, 0x5410;\n"
    "atom.global.add.u32 %r9, [%x3], %r8;\ndiv.s32 %r10, %r8, %r1;\nst.global.u32 [%x3], "
    "%r10;\nEND:\nret;\n}\n");

// Every mutated text is loaded or refused with a sentence; nothing else may happen.
void load(const std::string& text) {
  try {
    const auto program = Program::load(text, {});
    EXPECT_NE(program, nullptr);
  } catch (const LoadError& error) {
    EXPECT_NE(std::string_view(error.what()), "");
  }
}

TEST(PtxMutation, TheTextItselfLoads) { EXPECT_EQ(Program::load(kText, {})->kernels().size(), 1U); }

TEST(PtxMutation, CutTextsAreLoadedOrRefused) {
  for (std::size_t length = 0; length < kText.size(); length += 3) load(kText.substr(0, length));
}

TEST(PtxMutation, ChangedTextsAreLoadedOrRefused) {
  std::mt19937_64 random(20);
  const std::string_view pieces[] = {"%",
                                     ".",
                                     ";",
                                     "{",
                                     "}",
                                     "[",
                                     "]",
                                     "(",
                                     ")",
                                     ",",
                                     "-",
                                     "0x",
                                     "999999999999",
                                     ".f64",
                                     ".u8",
                                     ".v4",
                                     ".sat",
                                     "%r1",
                                     "%x1",
                                     "%p1",
                                     "room",
                                     "f",
                                     "\"",
                                     "/*",
                                     ".reg",
                                     ".b128",
                                     "<",
                                     "4294967295",
                                     "@",
                                     "bra",
                                     "END",
                                     "wmma"};
  for (int i = 0; i < 1500; ++i) {
    std::string text = kText;
    for (std::uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
      const std::size_t at = 40 + random() % (text.size() - 40);
      const std::string_view piece = pieces[random() % std::size(pieces)];
      switch (random() % 5) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 6);
          break;
        case 2:
          text.insert(at, piece);
          break;
        case 3:
          text.replace(at, piece.size(), piece);
          break;
        default: {
          const std::size_t from = 40 + random() % (text.size() - 40);
          text.insert(at, text.substr(from, random() % 60));
        }
      }
    }
    load(text);
  }
}

}  // namespace
}  // namespace kiln::emulator::test
