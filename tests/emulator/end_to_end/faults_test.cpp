#include <functional>

#include "values.h"

// Faults poison the context of one device until its reset, and no other.

namespace kiln::emulator_test {
namespace {

enum : Result {
  kIllegalAddress = 700,
  kAssert = 710,
  kIllegalInstruction = 715,
  kMisaligned = 716
};

constexpr int kDevice = 7;  // no other test uses it

Result result_of(const std::function<void()>& work) {
  try {
    work();
    synchronize();
  } catch (const DriverError& error) {
    return error.result;
  }
  return 0;
}

/// Runs `work` with the kernels on a device that is reset after it.
void expect_fault(Result expected, const std::function<void(const Module&, Address)>& work) {
  use_device(kDevice);
  {
    const Module module(kernel_text("language.ptx"));
    const Array<int> memory(64);
    EXPECT_EQ(result_of([&] { work(module, memory.address()); }), expected);
    // Every later call answers the same, and another device goes on.
    int value = 0;
    EXPECT_EQ(driver().copy_to_host(&value, memory.address(), 4), expected);
    Address address = 0;
    EXPECT_EQ(driver().allocate(&address, 16), expected);
    use_device(0);
    const Array<int> fine(std::vector<int>{1, 2, 3});
    EXPECT_EQ(fine.get(), (std::vector<int>{1, 2, 3}));
    use_device(kDevice);
  }
  reset_device(kDevice);
  use_device(kDevice);
  const Array<int> after(std::vector<int>{4, 5});
  EXPECT_EQ(after.get(), (std::vector<int>{4, 5}));
}

TEST(Faults, WritesOutsideOfAllMemory) {
  expect_fault(kIllegalAddress, [](const Module& module, Address memory) {
    launch(module.function("out_of_bounds"), {{1}, {1}}, memory, 1ll << 40);
  });
}

TEST(Faults, NullPointer) {
  expect_fault(kIllegalAddress, [](const Module& module, Address) {
    launch(module.function("out_of_bounds"), {{1}, {1}}, Address{0}, 0ll);
  });
}

TEST(Faults, MisalignedWrite) {
  expect_fault(kMisaligned, [](const Module& module, Address memory) {
    launch(module.function("misaligned"), {{1}, {1}}, memory);
  });
}

TEST(Faults, FailedAssertion) {
  testing::internal::CaptureStderr();
  expect_fault(kAssert, [](const Module& module, Address memory) {
    launch(module.function("assertion"), {{1}, {8}}, memory, 6);
  });
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("the thread is beyond the limit"), std::string::npos) << text;
}

TEST(Faults, Trap) {
  // Hardware names it a launch failure or an illegal instruction, by release of the driver.
  use_device(kDevice);
  const Module module(kernel_text("language.ptx"));
  const Array<int> memory(64);
  const Result result =
      result_of([&] { launch(module.function("trap_at"), {{1}, {8}}, memory, 3); });
  EXPECT_TRUE(result == 719 || result == kIllegalInstruction) << result;
  reset_device(kDevice);
}

TEST(Faults, AssertionThatHolds) {
  use_device(0);
  const Module module(kernel_text("language.ptx"));
  const Array<int> memory(64);
  launch(module.function("assertion"), {{1}, {8}}, memory, 8);
  synchronize();
  EXPECT_EQ(memory.get()[7], 1);
}

}  // namespace
}  // namespace kiln::emulator_test
