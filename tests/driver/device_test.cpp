#include "kiln/driver/device.h"

#include <gtest/gtest.h>

#include "kiln/driver/buffer.h"
#include "kiln/driver/virtual_device.h"

namespace kiln::driver {
namespace {

template <typename E, typename F>
std::string message_of(F&& function) {
  try {
    function();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// Leaves virtual mode on every way out.
struct VirtualMode {
  explicit VirtualMode(int count) { set_virtual_device_count(count); }
  ~VirtualMode() {
    set_virtual_device_count(0);
    set_virtual_device_api("");
    set_virtual_device_target_arch("");
  }
};

TEST(Device, Cpu) {
  const Device cpu = CPU(5);
  EXPECT_EQ(cpu, CPU());
  EXPECT_EQ(cpu.id(), 0);
  EXPECT_EQ(cpu.label(), "cpu");
  EXPECT_EQ(cpu.api(), "cpu");
  EXPECT_EQ(cpu.to_string(), "Device(type=cpu,id=0)");
  EXPECT_TRUE(cpu.is_host());
  EXPECT_TRUE(cpu.is_host_unified());
  EXPECT_TRUE(cpu.is_compatible());
  EXPECT_FALSE(cpu.model_name().empty());
  EXPECT_FALSE(cpu.can_access(cpu));
  EXPECT_GT(cpu.max_single_alloc_size(), 0u);
  const auto stats = cpu.stats();
  EXPECT_GT(stats.at("total_memory"), 0);
  EXPECT_LE(stats.at("free_memory"), stats.at("total_memory"));
  EXPECT_NE(message_of<RuntimeError>([&] {
              cpu.architecture_name();
            }).find("failed to get device architecture name"),
            std::string::npos);
  EXPECT_FALSE(version().empty());
}

TEST(Device, NoAccelerators) {
  EXPECT_EQ(accelerator_count(), 0);
  EXPECT_EQ(accelerator_api(), "cpu");
  EXPECT_EQ(message_of<ValueError>([] { Accelerator(); }).find("failed to create device:"), 0u);
  EXPECT_EQ(message_of<ValueError>([] { Accelerator(-2); }).find("failed to create device:"), 0u);
  EXPECT_THROW(accelerator_architecture_name(), RuntimeError);
  EXPECT_EQ(scan_available_devices(), std::vector{DeviceSpec::cpu()});
  const std::vector<DeviceSpec> gpus{DeviceSpec::accelerator(3)};
  EXPECT_EQ(message_of<ValueError>([&] { load_devices(gpus); }),
            "Device 3 was requested but no devices were found.");
  EXPECT_FALSE(devices_exist(gpus));
  EXPECT_TRUE(devices_exist(std::vector{DeviceSpec::cpu(7)}));
  EXPECT_EQ(gpus[0].id(), 3);
  EXPECT_EQ(gpus[0].device_type(), "gpu");
  EXPECT_THROW(DeviceSpec(-1, "gpu"), ValueError);
  EXPECT_THROW(DeviceSpec(0, "tpu"), ValueError);
  enable_all_peer_access();
}

TEST(VirtualDevice, CanBeNamedOnly) {
  set_virtual_device_api("cuda");
  set_virtual_device_target_arch("sm_90");
  const VirtualMode mode(2);
  EXPECT_TRUE(is_virtual_device_mode());
  EXPECT_EQ(accelerator_count(), 2);
  EXPECT_EQ(accelerator_api(), "cuda");
  EXPECT_EQ(accelerator_architecture_name(), "sm_90");
  const Device gpu = Accelerator();
  EXPECT_EQ(gpu, Accelerator(0));
  EXPECT_NE(gpu, Accelerator(1));
  EXPECT_EQ(gpu.label(), "gpu");
  EXPECT_FALSE(gpu.is_host());
  EXPECT_EQ(Accelerator(1).to_string(), "Device(type=gpu,id=1)");
  const std::string refusal = "virtual device gpu:0 cannot hold memory or run work";
  EXPECT_EQ(message_of<RuntimeError>([&] { Buffer(DType::int8, {1}, gpu); }), refusal);
  EXPECT_EQ(message_of<RuntimeError>([&] { gpu.default_queue(); }), refusal);
  EXPECT_EQ(message_of<RuntimeError>([&] { DeviceQueue queue(gpu); }), refusal);
  EXPECT_EQ(message_of<RuntimeError>([&] { DeviceEvent event(gpu); }), refusal);
  EXPECT_EQ(message_of<RuntimeError>([&] { Buffer::scalar(1, DType::int8).to(gpu); }), refusal);
  EXPECT_EQ(message_of<ValueError>([] { load_devices(std::vector{DeviceSpec::accelerator(3)}); }),
            "Device 3 was requested but only found 2 devices.");
  EXPECT_EQ(scan_available_devices().size(), 2u);
}

TEST(VirtualDevice, SettersApplyFromTheNextCountOn) {
  set_virtual_device_target_arch("sm_90");
  const VirtualMode mode(1);
  const Device gpu = Accelerator(0);
  set_virtual_device_target_arch("sm_80");
  set_virtual_device_api("hip");
  EXPECT_EQ(Accelerator(0), gpu);
  EXPECT_EQ(accelerator_architecture_name(), "sm_90");
  EXPECT_EQ(get_virtual_device_target_arch(), "sm_80");
  set_virtual_device_count(1);
  EXPECT_EQ(Accelerator(0).api(), "hip");
  EXPECT_EQ(Accelerator(0).architecture_name(), "sm_80");
  EXPECT_EQ(gpu.api(), "cuda");
}

TEST(VirtualDevice, Settings) {
  EXPECT_THROW(set_virtual_device_count(-1), ValueError);
  EXPECT_THROW(set_virtual_device_api("opencl"), ValueError);
  EXPECT_EQ(get_virtual_device_api(), "");
  EXPECT_EQ(get_virtual_device_target_arch(), "");
  for (const char* name : {"x86-64-v3", "native", "none-such"}) {
#if defined(__x86_64__)
    const bool known = std::string_view(name) == "x86-64-v3";
#else
    const bool known = false;
#endif
    if (!known) {
      EXPECT_THROW(set_virtual_cpu_target(name), ValueError) << name;
      continue;
    }
    set_virtual_cpu_target(name);
    EXPECT_EQ(get_virtual_cpu_target(), name);
  }
  set_virtual_cpu_target("generic");
  set_virtual_cpu_target("");
  EXPECT_EQ(get_virtual_cpu_target(), "");
}

TEST(VirtualDevice, HasNoMemory) {
  const VirtualMode mode(1);
  const std::map<std::string, std::int64_t> stats = Accelerator().stats();
  for (const char* key : {"free_memory", "total_memory", "graph_mem_reserved", "graph_mem_used"})
    EXPECT_EQ(stats.at(key), 0) << key;
  EXPECT_GT(Accelerator().max_single_alloc_size(), 0u);
}

TEST(VirtualDevice, Counts) {
  const std::vector<std::vector<DeviceSpec>> lists{
      {DeviceSpec::cpu(9)}, {DeviceSpec::accelerator(2), DeviceSpec::accelerator(0)}};
  EXPECT_EQ(calculate_virtual_device_count(lists), 3);
  EXPECT_EQ(calculate_virtual_device_count({}), 1);
  const auto count = [](DeviceInput input) {
    return calculate_virtual_device_count_from_cli(std::vector{input});
  };
  EXPECT_EQ(count("gpu"), 1);
  EXPECT_EQ(count("gpu:0,3"), 4);
  EXPECT_EQ(count("gpu:all"), 1);
  EXPECT_EQ(count("cpu"), 1);
  EXPECT_EQ(count(std::vector<int>{1, 5}), 6);
  EXPECT_THROW(count("gpu:x"), ValueError);
}

}  // namespace
}  // namespace kiln::driver
