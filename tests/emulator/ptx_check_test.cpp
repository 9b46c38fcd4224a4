#include <gtest/gtest.h>

#include "ptx_machine.h"

namespace kiln::emulator::test {
namespace {

std::shared_ptr<const Program> kernel(const std::string& body, bool memory, bool init) {
  LoadOptions options;
  options.check_memory = memory;
  options.check_init = init;
  return Program::load(
      ptx(".visible .entry k(.param .u64 p)\n{\n.reg .b64 %x<4>;\n.reg .b32 %r<6>;\n.reg .b16 %h;\n"
          ".shared .align 16 .b8 room[64];\nld.param.u64 %x1, [p];\n" +
          body + "\nret;\n}"),
      options);
}

TEST(PtxCheck, MemoryIsCheckedToTheByte) {
  Machine& machine = Machine::instance();
  machine.keep_bounds();
  // 13 bytes: 8 and 5 of the next 8.
  const std::uint64_t address = machine.allocate(32);
  machine.limit(address + 8, 5);
  machine.limit(address + 16, 255);
  const auto run = [&](const std::string& body) {
    return launch(kernel(body, true, false), "k", {1, 1, 1}, {1, 1, 1}, {address});
  };
  EXPECT_FALSE(run("st.global.u64 [%x1], 1;").fault);
  EXPECT_FALSE(run("ld.global.u32 %r1, [%x1+8];").fault);
  EXPECT_FALSE(run("ld.global.u8 %h, [%x1+12];").fault);
  for (const std::string& body :
       {std::string("ld.global.u8 %h, [%x1+13];"), std::string("st.u16 [%x1+12], %h;"),
        std::string("ld.global.u64 %x2, [%x1+8];"),
        std::string("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%x1];"),
        std::string("atom.global.add.u32 %r1, [%x1+12], 1;"),
        std::string("ld.global.u8 %h, [%x1+20];")}) {
    const Result result = run(body);
    ASSERT_TRUE(result.fault) << body;
    EXPECT_EQ(result.fault->code, FaultCode::illegal_address);
    EXPECT_GE(result.fault->address, address);
    EXPECT_NE(result.fault->sentence.find("line 11"), std::string::npos) << result.fault->sentence;
  }
}

TEST(PtxCheck, SharedMemoryEndsWhereItEnds) {
  const auto run = [&](const std::string& body) {
    return launch(kernel(body, true, false), "k", {1, 1, 1}, {1, 1, 1}, {0});
  };
  EXPECT_FALSE(run("st.shared.u32 [room+60], 1;").fault);
  EXPECT_TRUE(run("st.shared.u32 [room+64], 1;").fault);
  EXPECT_TRUE(run("ld.shared.u32 %r1, [room+-4];").fault);
}

TEST(PtxCheck, WhatWasNeverWrittenIsReported) {
  Machine& machine = Machine::instance();
  machine.keep_written();
  const std::uint64_t address = machine.allocate(32);
  machine.mark_written(address, 4);
  const auto run = [&](const std::string& body) {
    return launch(kernel(body, false, true), "k", {1, 1, 1}, {1, 1, 1}, {address});
  };
  EXPECT_FALSE(run("ld.global.u32 %r1, [%x1];").fault);
  EXPECT_TRUE(run("ld.global.u64 %x2, [%x1];").fault);
  EXPECT_FALSE(run("st.global.u32 [%x1+4], 1;\nld.global.u64 %x2, [%x1];").fault);
}

}  // namespace
}  // namespace kiln::emulator::test
