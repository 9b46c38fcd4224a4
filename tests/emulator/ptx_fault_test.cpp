#include <gtest/gtest.h>

#include "ptx_machine.h"

namespace kiln::emulator::test {
namespace {

// A kernel that stores 1 at an address, and with `waits` a barrier before it.
std::shared_ptr<const Program> store_kernel(bool waits) {
  return Program::load(ptx(std::string(".visible .entry k(.param .u64 p)\n{\n.reg .b64 %p;\n"
                                       "ld.param.u64 %p, [p];\n") +
                           (waits ? "bar.sync 0;\n" : "") + "st.global.u32 [%p], 1;\nret;\n}"),
                       {});
}

TEST(PtxFault, AnAddressWithoutMemoryIsReportedExactly) {
  Machine& machine = Machine::instance();
  for (bool waits : {false, true}) {
    const auto program = store_kernel(waits);
    for (std::uint64_t address :
         {std::uint64_t{0}, std::uint64_t{64}, machine.unmapped(), machine.unmapped() + 4}) {
      const Result result = launch(program, "k", {2, 1, 1}, {64, 1, 1}, {address});
      ASSERT_TRUE(result.fault);
      EXPECT_EQ(result.fault->code, FaultCode::illegal_address);
      EXPECT_EQ(result.fault->address, address);
      EXPECT_NE(result.fault->sentence.find("'k'"), std::string::npos);
    }
    // The device is not the worse for it.
    const std::uint64_t good = machine.allocate(4);
    EXPECT_FALSE(launch(program, "k", {2, 1, 1}, {64, 1, 1}, {good}).fault);
    EXPECT_EQ(*machine.array<std::uint32_t>(good), 1U);
  }
}

TEST(PtxFault, AnAddressThatIsNoneIsAFault) {
  for (bool waits : {false, true}) {
    const Result result =
        launch(store_kernel(waits), "k", {1, 1, 1}, {1, 1, 1}, {0x7fff'0000'0000'0000});
    ASSERT_TRUE(result.fault);
    EXPECT_EQ(result.fault->code, FaultCode::illegal_address);
  }
}

TEST(PtxFault, AnAddressThatIsNotAlignedIsAFault) {
  const std::uint64_t address = Machine::instance().allocate(16);
  for (bool waits : {false, true}) {
    const Result result = launch(store_kernel(waits), "k", {1, 1, 1}, {4, 1, 1}, {address + 2});
    ASSERT_TRUE(result.fault);
    EXPECT_EQ(result.fault->code, FaultCode::misaligned_address);
  }
}

TEST(PtxFault, TrapsAndAssertionsEndTheKernel) {
  const auto program =
      Program::load(ptx(".visible .entry k()\n{\n.reg .pred %p;\n.reg .b32 %r;\n"
                        "mov.u32 %r, %tid.x;\nsetp.eq.u32 %p, %r, 3;\n@%p trap;\nret;\n}"),
                    {});
  const Result result = launch(program, "k", {1, 1, 1}, {8, 1, 1}, {});
  ASSERT_TRUE(result.fault);
  EXPECT_EQ(result.fault->code, FaultCode::launch_failed);
  EXPECT_NE(result.fault->sentence.find("Thread (3,0,0)"), std::string::npos);
}

TEST(PtxFault, SourceLinesAreNamed) {
  const auto program = Program::load(
      ptx(".file 1 \"folder/some.cu\"\n.visible .entry k()\n{\n.reg .b32 %r;\n.loc 1 17 3\n"
          "mov.u32 %r, 1;\n.loc 1 18 3\ntrap;\nret;\n}"),
      {});
  const Result result = launch(program, "k", {1, 1, 1}, {1, 1, 1}, {});
  ASSERT_TRUE(result.fault);
  EXPECT_NE(result.fault->sentence.find("folder/some.cu:18"), std::string::npos)
      << result.fault->sentence;
}

TEST(PtxFault, EndlessRecursionRunsOutOfStack) {
  const auto program = Program::load(
      ptx(".func (.param .b32 r) f(.param .b32 a)\n{\n.reg .b32 %r<4>;\n.local .b8 room[256];\n"
          ".reg .b64 %x;\nmov.u64 %x, room;\nld.param.b32 %r1, [a];\nst.local.u32 [%x], %r1;\n"
          "{\n.param .b32 q;\n.param .b32 s;\nst.param.b32 [q], %r1;\ncall (s), f, (q);\n"
          "ld.param.b32 %r2, [s];\n}\nld.local.u32 %r3, [%x];\nadd.s32 %r2, %r2, %r3;\n"
          "st.param.b32 [r], %r2;\nret;\n}\n"
          ".visible .entry k(.param .u64 o)\n{\n.reg .b32 %r;\n.param .b32 q;\n.param .b32 s;\n"
          "st.param.b32 [q], 1;\ncall (s), f, (q);\nret;\n}"),
      {});
  const Result result = launch(program, "k", {1, 1, 1}, {2, 1, 1}, {0});
  ASSERT_TRUE(result.fault);
  EXPECT_EQ(result.fault->code, FaultCode::hardware_stack);
}

TEST(PtxFault, AnAddressThatIsNoFunctionCannotBeCalled) {
  const auto program = Program::load(
      ptx(".func f()\n{\nret;\n}\n.visible .entry k(.param .u64 o)\n{\n.reg .b64 %x, %y;\n"
          "mov.u64 %y, f;\nld.param.u64 %x, [o];\nP: .callprototype _ ();\ncall %x, (), P;\n"
          "ret;\n}"),
      {});
  const Result result = launch(program, "k", {1, 1, 1}, {2, 1, 1}, {0x1234});
  ASSERT_TRUE(result.fault);
  EXPECT_EQ(result.fault->code, FaultCode::invalid_program_counter);
}

TEST(PtxFault, ADeadlockSaysWhoWaitsWhere) {
  const auto program = Program::load(
      ptx(".visible .entry k()\n{\n.reg .pred %p;\n.reg .b32 %r;\nmov.u32 %r, %tid.x;\n"
          "setp.eq.u32 %p, %r, 3;\n@%p bar.sync 1;\n@!%p bar.sync 0;\nret;\n}"),
      {});
  const Result result = launch(program, "k", {1, 1, 1}, {8, 1, 1}, {});
  EXPECT_FALSE(result.fault);
  EXPECT_NE(result.waiting.find("a barrier at line"), std::string::npos) << result.waiting;
}

}  // namespace
}  // namespace kiln::emulator::test
