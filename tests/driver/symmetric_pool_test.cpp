// Pools over several devices; what a set refuses on any machine, the rest where multicast is.

#include "kiln/driver/symmetric_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kiln/driver.h"
#include "kiln/support/error.h"

namespace kiln::driver {
namespace {

std::string refusal(std::vector<Device> devices, std::int64_t bytes) {
  try {
    SymmetricPool::allocate(devices, bytes);
  } catch (const RuntimeError& error) {
    return error.message();
  }
  return "none";
}

TEST(SymmetricPool, RefusesTheCpu) {
  EXPECT_EQ(refusal({}, 8), "SymmetricPool: at least two devices are needed, got 0");
  EXPECT_EQ(refusal({CPU()}, 8), "SymmetricPool: at least two devices are needed, got 1");
  EXPECT_EQ(refusal({CPU(), CPU()}, 0),
            "SymmetricPool: device Device(type=cpu,id=0) is listed twice");
  EXPECT_FALSE(SymmetricPool::is_supported({}));
  const Device cpu[] = {CPU()};
  EXPECT_FALSE(SymmetricPool::is_supported(cpu));
  EXPECT_EQ(SymmetricPool::lookup({}), std::nullopt);
  EXPECT_EQ(SymmetricPool::lookup(cpu), std::nullopt);
  static_assert(!std::is_default_constructible_v<SymmetricPool>);
}

class SymmetricPools : public testing::TestWithParam<int> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SymmetricPools);
INSTANTIATE_TEST_SUITE_P(Driver, SymmetricPools,
                         testing::ValuesIn(accelerator_count() > 1 ? std::vector<int>{0}
                                                                   : std::vector<int>{}),
                         [](const auto& info) { return "gpu" + std::to_string(info.param); });

TEST_P(SymmetricPools, SpanTheirDevices) {
  std::vector<Device> devices;
  for (int i = 0; i < accelerator_count(); ++i) devices.push_back(Accelerator(i));
  if (!SymmetricPool::is_supported(devices)) {
    EXPECT_THAT(refusal(devices, 8), testing::HasSubstr("does not support multicast"));
    return;
  }
  EXPECT_EQ(SymmetricPool::lookup(devices), std::nullopt);
  EXPECT_EQ(refusal(devices, 0), "SymmetricPool: byte_size must be positive, got 0");
  EXPECT_EQ(refusal(devices, -3), "SymmetricPool: byte_size must be positive, got -3");
  EXPECT_THAT(refusal(devices, std::int64_t{1} << 60),
              testing::StartsWith(
                  "SymmetricPool: allocation of 1152921504606846976 bytes per device failed: "));
  EXPECT_EQ(refusal({devices[0], CPU()}, 8),
            "SymmetricPool: Device(type=cpu,id=0) does not support multicast");
  EXPECT_EQ(refusal({devices[1], devices[1]}, 8),
            "SymmetricPool: device Device(type=gpu,id=1) is listed twice");
  // A failure leaves nothing behind.
  EXPECT_EQ(SymmetricPool::lookup(devices), std::nullopt);

  constexpr std::int64_t kBytes = 100000;
  std::vector<void*> addresses;
  {
    const SymmetricPool pool = SymmetricPool::allocate(devices, kBytes);
    EXPECT_EQ(pool.byte_size(), kBytes);
    for (const Device& device : devices) addresses.push_back(pool.unicast_view(device).data());
  }
  std::vector<Device> reversed(devices.rbegin(), devices.rend());
  const auto found = SymmetricPool::lookup(reversed);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(refusal(reversed, 8),
            "SymmetricPool: a pool of 100000 bytes is already registered for these devices");
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const Buffer view = found->unicast_view(devices[i]);
    EXPECT_EQ(view.data(), addresses[i]);
    EXPECT_EQ(view.shape(), (Shape{kBytes}));
    EXPECT_EQ(view.dtype(), DType::uint8);
    EXPECT_EQ(view.device(), devices[i]);
    EXPECT_NE(found->multicast_view(devices[i]).data(), view.data());
    EXPECT_EQ(found->multicast_view(devices[i]).data(), found->multicast_view(devices[i]).data());
    view.memset(static_cast<int>(i) + 1);
  }
  for (std::size_t i = 0; i < devices.size(); ++i)
    EXPECT_EQ(found->unicast_view(devices[i])[{99999}].item<int>(), static_cast<int>(i) + 1);
  // A part of another type.
  const Buffer part =
      found->unicast_view(devices[0])[Slice{0, 1024}].view(DType::float32, Shape{256});
  part.set({255}, 2.5);
  EXPECT_EQ(part[{255}].item<float>(), 2.5F);
  for (const auto& view : {&SymmetricPool::unicast_view, &SymmetricPool::multicast_view}) {
    try {
      ((*found).*view)(CPU());
      ADD_FAILURE();
    } catch (const RuntimeError& error) {
      EXPECT_EQ(error.message(), "SymmetricPool: Device(type=cpu,id=0) is not one the pool spans");
    }
  }
  if (devices.size() < 3) return;
  // A set that overlaps has memory of its own.
  const std::vector<Device> pair(devices.begin(), devices.begin() + 2);
  const SymmetricPool other = SymmetricPool::allocate(pair, 64);
  EXPECT_NE(other.unicast_view(pair[0]).data(), addresses[0]);
  EXPECT_NE(other, *found);
}

}  // namespace
}  // namespace kiln::driver
