#include <gtest/gtest.h>

#include "emulator/ptx/parser.h"
#include "ptx_machine.h"

namespace kiln::emulator::test {
namespace {

std::string error_of(const std::string& text, LoadError::Kind kind = LoadError::Kind::invalid) {
  try {
    Program::load(text, {});
  } catch (const LoadError& error) {
    EXPECT_EQ(error.kind, kind) << error.what();
    return error.what();
  }
  return "no error";
}

std::string kernel(const std::string& body) {
  return ptx(
      ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<8>;\n.reg .f32 %f<8>;\n"
      ".reg .b64 %x<8>;\n.reg .pred %q<4>;\n" +
      body + "\nret;\n}\n");
}

TEST(PtxParser, ReadsDeclarationsAndStatements) {
  const auto module = ptx::parse(
      ptx(".file 1 \"a.cu\"\n.global .align 8 .u64 table[3] = {other+4, 0x10, -1};\n"
          ".const .align 4 .f32 other[2] = {0f3F800000, 2.5};\n.shared .align 16 .b8 room[64];\n"
          ".func (.param .b32 r) f(.param .align 4 .b8 a[12]);\n"
          ".visible .entry k(.param .u64 .ptr .global .align 4 p, .param .v2 .f32 q)\n"
          ".maxntid 128, 2, 1\n.minnctapersm 3\n{\n.reg .b32 %r<5>;\n.loc 1 7 3\n"
          "{ .reg .b32 t; mov.u32 t, 1+2*3; }\n$L1: @!%p bra $L1;\nst.global.v2.u32 [%r1+-8], "
          "{%r2, _};\n}"));
  ASSERT_EQ(module->variables.size(), 3U);
  EXPECT_EQ(module->variables[0].initial[0].symbol, "other");
  EXPECT_EQ(module->variables[0].initial[0].value, 4);
  EXPECT_EQ(module->variables[0].initial[2].value, -1);
  EXPECT_EQ(module->files[1], "a.cu");
  ASSERT_EQ(module->functions.size(), 2U);
  EXPECT_FALSE(module->functions[0].has_body);
  const ptx::Function& k = module->functions[1];
  EXPECT_EQ(k.parameters[1].bytes(), 8U);
  EXPECT_EQ(k.max_threads[0] * k.max_threads[1], 256U);
  EXPECT_EQ(k.min_blocks, 3U);
  const auto& jump = std::get<ptx::Instruction>(k.body[7]);
  EXPECT_TRUE(jump.negated);
  EXPECT_EQ(jump.predicate, "%p");
  const auto& store = std::get<ptx::Instruction>(k.body[8]);
  EXPECT_EQ(store.modifiers.size(), 3U);
  EXPECT_EQ(store.operands[0].value, -8);
  EXPECT_EQ(store.operands[1].elements[1].kind, ptx::Operand::Kind::nowhere);
  EXPECT_EQ(std::get<ptx::Instruction>(k.body[4]).operands[1].value, 7);
}

TEST(PtxParser, ErrorsNameLineAndText) {
  EXPECT_NE(error_of(kernel("add.s32 %r1, %r2;")).find("Line 10"), std::string::npos);
  const std::string unknown =
      error_of(kernel("tex.2d.v4.f32.f32 %f1, %f2;"), LoadError::Kind::unsupported);
  EXPECT_NE(unknown.find("tex.2d.v4.f32.f32 %f1, %f2;"), std::string::npos);
  EXPECT_NE(
      error_of(kernel("add.rn.sat.s32 %r1, %r2, %r3;"), LoadError::Kind::unsupported).find("'.rn'"),
      std::string::npos);
  EXPECT_NE(error_of(kernel("mov.u32 %r9, 1;")).find("'%r9' is not declared"), std::string::npos);
  EXPECT_NE(error_of(kernel("bra nowhere;")).find("'nowhere'"), std::string::npos);
  EXPECT_NE(error_of(kernel("add.s64 %x1, %x2, %r1;")).find("32 bits"), std::string::npos);
  EXPECT_NE(error_of(kernel("ld.param.u64 %x1, [p+4];")).find("outside of the parameter"),
            std::string::npos);
}

TEST(PtxParser, VersionsAndTargetsAreChecked) {
  error_of(".version 99.0\n.target sm_90\n", LoadError::Kind::version);
  error_of(".version 8.0\n.target sm_120\n.address_size 64\n", LoadError::Kind::target);
  error_of(".version 8.0\n.target compute\n", LoadError::Kind::target);
  error_of("");
  error_of(
      "\x7f"
      "ELF");
}

TEST(PtxParser, ScopesReuseNames) {
  const auto program = Program::load(
      kernel("ld.param.u64 %x1, [p];\nmov.u32 %r1, 5;\n{ .reg .b32 %r1; mov.u32 %r1, 7;\n"
             "bra L; L: st.global.u32 [%x1], %r1; }\n{ .reg .b32 t; mov.u32 t, 9;\nbra L; L:\n"
             "st.global.u32 [%x1+4], t; }\nst.global.u32 [%x1+8], %r1;"),
      {});
  Machine& machine = Machine::instance();
  const std::uint64_t out = machine.allocate(12);
  EXPECT_FALSE(launch(program, "k", {1, 1, 1}, {1, 1, 1}, {out}).fault);
  EXPECT_EQ(machine.download<std::uint32_t>(out, 3), (std::vector<std::uint32_t>{7, 9, 5}));
}

TEST(PtxParser, VariablesHaveValuesAndAddresses) {
  const auto program = Program::load(
      ptx(".global .align 4 .u32 data[4] = {1, 2, 3, 4};\n.global .u64 where = data + 8;\n"
          ".visible .entry k(.param .u64 p)\n{\n.reg .b64 %x<4>;\n.reg .b32 %r;\n"
          "ld.param.u64 %x1, [p];\nld.global.u64 %x2, [where];\nld.global.u32 %r, [%x2];\n"
          "st.global.u32 [%x1], %r;\nret;\n}"),
      {});
  Machine& machine = Machine::instance();
  const std::uint64_t out = machine.allocate(4);
  EXPECT_FALSE(launch(program, "k", {1, 1, 1}, {1, 1, 1}, {out}).fault);
  EXPECT_EQ(*machine.array<std::uint32_t>(out), 3U);
}

TEST(PtxParser, KernelsAreDescribed) {
  const auto program = Program::load(
      ptx(".shared .align 8 .b8 all[100];\n.visible .entry k(.param .u8 a, .param .u64 b, .param "
          ".align 4 .b8 c[6])\n"
          ".reqntid 64\n{\n.shared .align 16 .b8 own[20];\n.local .align 8 .b8 mine[24];\n"
          ".reg .b64 %x;\nmov.u64 %x, all;\nret;\n}"),
      {});
  const Kernel& k = program->kernels()[0];
  EXPECT_EQ(k.parameters[1].offset, 8U);
  EXPECT_EQ(k.parameter_bytes, 22U);
  EXPECT_EQ(k.static_shared_bytes, 132U);
  EXPECT_EQ(k.local_bytes, 32U);
  EXPECT_EQ(k.required_threads.x, 64U);
}

}  // namespace
}  // namespace kiln::emulator::test
