// Sums a vector over all devices. Where the devices have a switch with multicast, one instruction
// reads the sum of all of them and another one writes to all; elsewhere the host adds.

#include <cstdio>
#include <optional>
#include <vector>

#include "kiln/driver.h"
#include "kiln/gpu.h"

namespace {

using kiln::driver::Device;
using kiln::driver::SymmetricPool;
using kiln::gpu::DeviceContext;

// Inline PTX is of GPUs alone, so this kernel is a source text.
constexpr const char* kAllReduce = R"(
extern "C" __global__ void all_reduce(float* multicast, int first, int count) {
  for (int i = first + global_idx.x; i < first + count; i += grid_dim.x * block_dim.x) {
    float sum;
    asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f32 %0, [%1];"
                 : "=f"(sum) : "l"(multicast + i) : "memory");
    asm volatile("multimem.st.relaxed.sys.global.f32 [%0], %1;"
                 :: "l"(multicast + i), "f"(sum) : "memory");
  }
}
)";

/// Each device holds `rank + 1` at first; returns whether every device ends with the sum.
bool reduce_with_multicast(const std::vector<Device>& devices, int n) {
  std::optional<SymmetricPool> pool = SymmetricPool::lookup(devices);
  if (!pool) pool = SymmetricPool::allocate(devices, n * static_cast<std::int64_t>(sizeof(float)));
  std::vector<DeviceContext> contexts;
  for (const Device& device : devices) contexts.emplace_back(device);
  const auto part = [&](const kiln::driver::Buffer& view) {
    return view.view(kiln::DType::float32);
  };
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    const std::vector<float> values(static_cast<std::size_t>(n), static_cast<float>(rank + 1));
    part(pool->unicast_view(devices[rank]))
        .inplace_copy_from(kiln::driver::Buffer::copy_of(values, {n}));
  }
  for (const Device& device : devices) device.synchronize();
  // Each device sums its share and writes it to all.
  const int share = n / static_cast<int>(devices.size());
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    const auto kernel =
        contexts[rank].compile_function<void(float*, int, int)>("all_reduce", kAllReduce);
    contexts[rank].enqueue_function(kernel, {.grid_dim = 4, .block_dim = 128},
                                    part(pool->multicast_view(devices[rank])),
                                    static_cast<int>(rank) * share, share);
  }
  for (const DeviceContext& context : contexts) context.synchronize();
  const auto ranks = static_cast<float>(devices.size());
  for (const Device& device : devices) {
    const kiln::driver::Buffer result = part(pool->unicast_view(device)).on_host();
    for (int i = 0; i < n; ++i)
      if (static_cast<const float*>(result.data())[i] != ranks * (ranks + 1) / 2) return false;
  }
  return true;
}

/// The same through the memory of the host.
bool reduce_on_the_host(const std::vector<Device>& devices, int n) {
  std::vector<DeviceContext> contexts;
  std::vector<kiln::gpu::DeviceBuffer<float>> buffers;
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    contexts.emplace_back(devices[rank]);
    buffers.push_back(contexts[rank].enqueue_create_buffer<float>(n));
    buffers[rank].enqueue_fill(static_cast<float>(rank + 1));
  }
  std::vector<float> sum(static_cast<std::size_t>(n));
  for (const auto& buffer : buffers) {
    const auto mapped = buffer.map_to_host();
    for (int i = 0; i < n; ++i) sum[static_cast<std::size_t>(i)] += mapped[i];
  }
  for (const auto& buffer : buffers) buffer.enqueue_copy_from(std::span<const float>(sum));
  const auto ranks = static_cast<float>(devices.size());
  for (const auto& buffer : buffers) {
    const auto mapped = buffer.map_to_host();
    for (const float value : mapped)
      if (value != ranks * (ranks + 1) / 2) return false;
  }
  return true;
}

}  // namespace

int main() {
  constexpr int n = 4096;
  std::vector<Device> devices;
  for (int i = 0; i < kiln::driver::accelerator_count(); ++i)
    devices.push_back(kiln::driver::Accelerator(i));
  if (devices.empty()) devices.push_back(kiln::driver::CPU());
  const bool multicast = SymmetricPool::is_supported(devices);
  const bool right = multicast ? reduce_with_multicast(devices, n) : reduce_on_the_host(devices, n);
  std::printf("multicast_allreduce over %zu device(s) %s: %s\n", devices.size(),
              multicast ? "with multicast" : "through the host", right ? "right" : "wrong");
  return right ? 0 : 1;
}
