#include <gtest/gtest.h>

#include <numeric>

#include "kiln/support/format.h"
#include "ptx_machine.h"

namespace kiln::emulator::test {
namespace {

// A kernel of `body`, which finds its number in %t and writes %r0 to out[%t].
std::shared_ptr<const Program> kernel(const std::string& body, const std::string& before = "") {
  return Program::load(
      ptx(before +
          ".visible .entry k(.param .u64 out)\n{\n.reg .b32 %r<20>, %t, %n;\n"
          ".reg .pred %p<8>;\n.reg .b64 %x<12>;\n.shared .align 8 .b8 room[8192];\n"
          "mov.u32 %t, %tid.x;\nmov.u32 %n, %ntid.x;\nld.param.u64 %x0, [out];\n" +
          body +
          "\nmul.wide.u32 %x1, %t, 4;\nadd.s64 %x1, %x1, %x0;\nst.global.u32 [%x1], %r0;\nret;\n}"),
      {});
}

std::vector<std::uint32_t> run(const std::shared_ptr<const Program>& program, std::uint32_t threads,
                               std::uint32_t blocks = 1) {
  Machine& machine = Machine::instance();
  const std::uint64_t out = machine.allocate(4 * threads + 64);
  const Result result = launch(program, "k", {blocks, 1, 1}, {threads, 1, 1}, {out});
  EXPECT_FALSE(result.fault) << result.fault->sentence;
  EXPECT_EQ(result.waiting, "");
  return machine.download<std::uint32_t>(out, threads);
}

TEST(PtxThreads, BarriersOrderSharedMemory) {
  // Each thread adds what its neighbours wrote, 50 times.
  const auto program = kernel(
      "shl.b32 %r1, %t, 2;\nadd.u32 %r2, %t, 1;\nrem.u32 %r2, %r2, %n;\nshl.b32 %r2, %r2, 2;\n"
      "mov.u32 %r3, room;\nadd.u32 %r1, %r1, %r3;\nadd.u32 %r2, %r2, %r3;\nmov.u32 %r0, %t;\n"
      "mov.u32 %r4, 0;\nLOOP:\nst.shared.u32 [%r1], %r0;\nbar.sync 0;\nld.shared.u32 %r5, [%r2];\n"
      "bar.sync 0;\nadd.u32 %r0, %r0, %r5;\nadd.u32 %r4, %r4, 1;\nsetp.lt.u32 %p0, %r4, 50;\n"
      "@%p0 bra LOOP;");
  for (std::uint32_t n : {1U, 31U, 32U, 33U, 256U, 1024U}) {
    std::vector<std::uint32_t> expected(n);
    std::iota(expected.begin(), expected.end(), 0);
    for (int i = 0; i < 50; ++i) {
      const auto before = expected;
      for (std::uint32_t t = 0; t < n; ++t) expected[t] += before[(t + 1) % n];
    }
    EXPECT_EQ(run(program, n), expected);
  }
}

TEST(PtxThreads, BarriersReduceAndCount) {
  EXPECT_EQ(
      run(kernel("and.b32 %r1, %t, 1;\nsetp.eq.u32 %p0, %r1, 0;\nbar.red.popc.u32 %r0, 3, %p0;"),
          100),
      std::vector<std::uint32_t>(100, 50));
  EXPECT_EQ(
      run(kernel("setp.lt.u32 %p0, %t, 99;\nbar.red.and.pred %p1, 0, %p0;\nbar.red.or.pred %p2, 0, "
                 "%p0;\n"
                 "selp.u32 %r0, 1, 0, %p1;\nselp.u32 %r1, 2, 0, %p2;\nadd.u32 %r0, %r0, %r1;"),
          100),
      std::vector<std::uint32_t>(100, 2));
  // Half of the threads arrive, the other half waits for them.
  const auto program = kernel(
      "mov.u32 %r0, 0;\nmov.u32 %r3, room;\nsetp.lt.u32 %p0, %t, 32;\n@%p0 bra WAIT;\n"
      "st.shared.u32 [%r3], 7;\nbar.arrive 5, 64;\nbra END;\nWAIT:\nbar.sync 5, 64;\n"
      "ld.shared.u32 %r0, [%r3];\nEND:");
  std::vector<std::uint32_t> expected(64, 0);
  std::fill(expected.begin(), expected.begin() + 32, 7);
  EXPECT_EQ(run(program, 64), expected);
}

TEST(PtxThreads, ThreadsThatEndAreNotWaitedFor) {
  EXPECT_EQ(
      run(kernel("mov.u32 %r0, 1;\nsetp.ge.u32 %p0, %t, 10;\n@%p0 exit;\nbar.sync 0;"), 64)[9], 1U);
}

TEST(PtxThreads, ShufflesOfAllModesAndWidths) {
  for (std::uint32_t width : {32U, 8U})
    for (int mode = 0; mode < 4; ++mode)
      for (std::uint32_t b : {0U, 1U, 3U, 9U, 31U}) {
        constexpr const char* kModes[] = {"up", "down", "bfly", "idx"};
        const std::uint32_t segment = 32 - width;
        const std::uint32_t c = segment << 8 | (mode == 0 ? 0 : 31);
        const auto found =
            run(kernel(format(
                    "mad.lo.u32 %r1, %t, 3, 100;\nshfl.sync.{}.b32 %r0|%p0, %r1, {}, {}, -1;\n"
                    "selp.u32 %r2, 1000, 0, %p0;\nadd.u32 %r0, %r0, %r2;",
                    kModes[mode], b, c)),
                32);
        for (std::uint32_t lane = 0; lane < 32; ++lane) {
          const std::uint32_t first = lane / width * width, last = first + width - 1;
          std::uint32_t from = 0;
          bool good = false;
          if (mode == 0) good = lane >= first + b, from = lane - b;
          if (mode == 1) good = lane + b <= last, from = lane + b;
          if (mode == 2) from = lane ^ b, good = from <= last;
          if (mode == 3) from = first + b % width, good = from <= last;
          const std::uint32_t expected = (good ? from : lane) * 3 + 100 + (good ? 1000 : 0);
          ASSERT_EQ(found[lane], expected)
              << kModes[mode] << " " << b << " of " << width << " lane " << lane;
        }
      }
}

TEST(PtxThreads, VotesMatchesAndReductions) {
  EXPECT_EQ(
      run(kernel(
              "and.b32 %r1, %t, 3;\nsetp.eq.u32 %p0, %r1, 0;\nvote.sync.ballot.b32 %r0, %p0, -1;"),
          64),
      std::vector<std::uint32_t>(64, 0x11111111));
  const auto matches = run(kernel("rem.u32 %r1, %t, 5;\nmatch.any.sync.b32 %r0, %r1, -1;"), 32);
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    std::uint32_t expected = 0;
    for (std::uint32_t other = lane % 5; other < 32; other += 5) expected |= 1U << other;
    EXPECT_EQ(matches[lane], expected);
  }
  EXPECT_EQ(run(kernel("redux.sync.add.u32 %r0, %t, -1;"), 32),
            std::vector<std::uint32_t>(32, 496));
  EXPECT_EQ(run(kernel("sub.s32 %r1, %t, 5;\nredux.sync.min.s32 %r0, %r1, -1;"), 32),
            std::vector<std::uint32_t>(32, 0xfffffffb));
  // A part of a warp, with the mask that says so.
  const auto part = run(kernel("mov.u32 %r0, 0;\nsetp.ge.u32 %p0, %t, 8;\n@%p0 bra END;\n"
                               "redux.sync.add.u32 %r0, %t, 255;\nEND:"),
                        32);
  EXPECT_EQ(part[3], 28U);
  EXPECT_EQ(part[8], 0U);
  const auto active = run(kernel("mov.u32 %r0, 0;\nsetp.ge.u32 %p0, %t, 12;\n@%p0 bra END;\n"
                                 "activemask.b32 %r0;\nEND: bar.warp.sync -1;"),
                          32);
  EXPECT_EQ(active[0], 0xfffU);
}

TEST(PtxThreads, AtomicsOfBlocksAddUp) {
  Machine& machine = Machine::instance();
  const auto program = kernel(
      "atom.global.add.u32 %r1, [%x0+4096], 1;\n"
      "red.global.max.u32 [%x0+4100], %t;\natom.global.inc.u32 %r2, [%x0+4104], 6;\n"
      "red.global.add.f32 [%x0+4108], 0f3F000000;\nmov.u32 %r0, 0;");
  const std::uint64_t out = machine.allocate(8192);
  EXPECT_FALSE(launch(program, "k", {10, 1, 1}, {100, 1, 1}, {out}).fault);
  EXPECT_EQ(*machine.array<std::uint32_t>(out + 4096), 1000U);
  EXPECT_EQ(*machine.array<std::uint32_t>(out + 4100), 99U);
  EXPECT_EQ(*machine.array<std::uint32_t>(out + 4104), 1000 % 7);
  EXPECT_EQ(*machine.array<float>(out + 4108), 500.0F);
}

TEST(PtxThreads, ThreadsWaitForFlagsOfOtherBlocks) {
  // Block 0 waits for what the last block writes.
  const auto program = kernel(
      "mov.u32 %r0, 1;\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %nctaid.x;\nsub.u32 %r2, %r2, 1;\n"
      "setp.eq.u32 %p0, %r1, %r2;\n@%p0 st.release.gpu.global.u32 [%x0+4096], 5;\n"
      "setp.ne.u32 %p1, %r1, 0;\n@%p1 bra END;\nWAIT:\nld.acquire.gpu.global.u32 %r3, [%x0+4096];\n"
      "setp.ne.u32 %p2, %r3, 5;\n@%p2 bra WAIT;\nEND:");
  Machine& machine = Machine::instance();
  const std::uint64_t out = machine.allocate(8192);
  const Result result = launch(program, "k", {4, 1, 1}, {64, 1, 1}, {out});
  EXPECT_FALSE(result.fault);
  EXPECT_EQ(result.waiting, "");
}

TEST(PtxThreads, MbarriersCompletePhases) {
  const auto program = kernel(
      "mov.u32 %r3, room;\nsetp.eq.u32 %p0, %t, 0;\n@%p0 mbarrier.init.shared.b64 [%r3], 64;\n"
      "bar.sync 0;\nadd.u32 %r5, %r3, 8;\nred.shared.add.u32 [%r5], 1;\n"
      "mbarrier.arrive.shared.b64 %x2, [%r3];\nWAIT:\nmbarrier.test_wait.shared.b64 %p1, [%r3], "
      "%x2;\n"
      "@!%p1 bra WAIT;\nld.shared.u32 %r0, [%r5];",
      "");
  // Shared memory has no defined contents, so the count starts from what the first thread clears.
  const auto cleared = kernel(
      "mov.u32 %r3, room;\nadd.u32 %r5, %r3, 8;\nsetp.ne.u32 %p0, %t, 0;\n@%p0 bra GO;\n"
      "mbarrier.init.shared.b64 [%r3], 64;\nst.shared.u32 [%r5], 0;\nGO: bar.sync 0;\n"
      "red.shared.add.u32 [%r5], 1;\nmbarrier.arrive.shared.b64 %x2, [%r3];\nWAIT:\n"
      "mbarrier.try_wait.parity.shared.b64 %p1, [%r3], 0;\n@!%p1 bra WAIT;\nld.shared.u32 %r0, "
      "[%r5];");
  run(program, 64);
  EXPECT_EQ(run(cleared, 64), std::vector<std::uint32_t>(64, 64));
}

TEST(PtxThreads, CopiesFillSharedMemory) {
  const auto program = kernel(
      "mov.u32 %r3, room;\nshl.b32 %r1, %t, 4;\nadd.u32 %r3, %r3, %r1;\ncvt.u64.u32 %x2, %r1;\n"
      "add.s64 %x2, %x2, %x0;\ncp.async.cg.shared.global [%r3], [%x2+4096], 16, 8;\n"
      "cp.async.commit_group;\ncp.async.wait_group 0;\nbar.sync 0;\nld.shared.u32 %r0, [%r3+4];\n"
      "ld.shared.u32 %r4, [%r3+8];\nshl.b32 %r4, %r4, 16;\nadd.u32 %r0, %r0, %r4;");
  Machine& machine = Machine::instance();
  const std::uint64_t out = machine.allocate(16384);
  for (std::uint32_t i = 0; i < 1024; ++i) machine.array<std::uint32_t>(out + 4096)[i] = i;
  EXPECT_FALSE(launch(program, "k", {1, 1, 1}, {32, 1, 1}, {out}).fault);
  for (std::uint32_t t = 0; t < 32; ++t) EXPECT_EQ(machine.array<std::uint32_t>(out)[t], 4 * t + 1);
}

TEST(PtxThreads, PrintsInOrderOfThreads) {
  const auto program = Program::load(
      ptx(".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
          ".global .align 1 .b8 text[18] = {37, 53, 100, 124, 37, 46, 50, 102, 124, 37, 108, 120, "
          "37, 37, 10, 0};\n"
          ".visible .entry k()\n{\n.local .align 8 .b8 room[24];\n.reg .b64 %x<4>;\n.reg .b32 %r;\n"
          "mov.u32 %r, %tid.x;\nmov.u64 %x1, room;\nst.local.u32 [%x1], %r;\n"
          "st.local.f64 [%x1+8], 0d3FF8000000000000;\nst.local.u64 [%x1+16], 0xabc00000000;\n"
          "cvta.local.u64 %x1, %x1;\nmov.u64 %x2, text;\n{\n.param .b64 a;\n.param .b64 b;\n.param "
          ".b32 r;\n"
          "st.param.b64 [a], %x2;\nst.param.b64 [b], %x1;\ncall.uni (r), vprintf, (a, "
          "b);\n}\nret;\n}"),
      {});
  const Result result = launch(program, "k", {1, 1, 1}, {2, 1, 1}, {});
  EXPECT_EQ(result.printed, "    0|1.50|abc00000000%\n    1|1.50|abc00000000%\n");
}

TEST(PtxThreads, FunctionsRecurseAndAreCalledByAddress) {
  const auto program = Program::load(
      ptx(".func (.param .b32 r) factorial(.param .b32 a)\n{\n.reg .b32 %r<6>;\n.reg .pred %p;\n"
          "ld.param.b32 %r1, [a];\nsetp.gt.u32 %p, %r1, 1;\n@%p bra MORE;\nst.param.b32 [r], "
          "1;\nret;\n"
          "MORE:\nsub.u32 %r2, %r1, 1;\n{\n.param .b32 q;\n.param .b32 s;\nst.param.b32 [q], %r2;\n"
          "call (s), factorial, (q);\nld.param.b32 %r3, [s];\n}\nmul.lo.u32 %r3, %r3, %r1;\n"
          "bar.sync 0;\nst.param.b32 [r], %r3;\nret;\n}\n"
          ".func (.param .b32 r) twice(.param .b32 a)\n{\n.reg .b32 %r;\nld.param.b32 %r, [a];\n"
          "add.u32 %r, %r, %r;\nst.param.b32 [r], %r;\nret;\n}\n"
          ".global .align 8 .u64 functions[2] = {factorial, twice};\n"
          ".visible .entry k(.param .u64 out)\n{\n.reg .b64 %x<6>;\n.reg .b32 %r<4>;\n"
          "ld.param.u64 %x1, [out];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %x2, %r1, 4;\nadd.s64 %x1, "
          "%x1, %x2;\n"
          "mov.u32 %r2, %ctaid.x;\nmul.wide.u32 %x3, %r2, 8;\nmov.u64 %x4, functions;\nadd.s64 "
          "%x4, %x4, %x3;\n"
          "ld.global.u64 %x5, [%x4];\nmul.wide.u32 %x3, %r2, 64;\nadd.s64 %x1, %x1, "
          "%x3;\n{\n.param .b32 q;\n"
          ".param .b32 s;\nst.param.b32 [q], 6;\nP: .callprototype (.param .b32 _) _ (.param .b32 "
          "_);\n"
          "call (s), %x5, (q), P;\nld.param.b32 %r3, [s];\n}\nst.global.u32 [%x1], %r3;\nret;\n}"),
      {});
  Machine& machine = Machine::instance();
  const std::uint64_t out = machine.allocate(128);
  const Result result = launch(program, "k", {2, 1, 1}, {8, 1, 1}, {out});
  ASSERT_FALSE(result.fault) << result.fault->sentence;
  for (int t = 0; t < 8; ++t) {
    EXPECT_EQ(machine.array<std::uint32_t>(out)[t], 720U);
    EXPECT_EQ(machine.array<std::uint32_t>(out + 64)[t], 12U);
  }
}

}  // namespace
}  // namespace kiln::emulator::test
