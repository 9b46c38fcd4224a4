// Counts bytes: each block counts in shared memory, then adds to the whole.

#include <cstdio>
#include <vector>

#include "kiln/gpu.h"

KILN_KERNEL(histogram, (unsigned* bins, const unsigned char* data, int n), {
  auto& mine = shared<unsigned, 256>();
  mine[thread_idx.x] = 0;
  barrier();
  for (int i = global_idx.x; i < n; i += grid_dim.x * block_dim.x) atomic_add(&mine[data[i]], 1U);
  barrier();
  atomic_add(&bins[thread_idx.x], mine[thread_idx.x]);
});

int main() {
  constexpr int n = 1 << 20;
  const kiln::gpu::DeviceContext ctx;
  std::vector<unsigned char> data(n);
  std::vector<unsigned> expected(256), bins(256);
  unsigned state = 1;
  for (unsigned char& byte : data) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<unsigned char>(state >> 24);
    ++expected[byte];
  }
  const auto device_data = ctx.enqueue_create_buffer<unsigned char>(n);
  const auto device_bins = ctx.enqueue_create_buffer<unsigned>(256);
  ctx.enqueue_copy(device_data, data.data());
  device_bins.enqueue_fill(0);
  ctx.enqueue_function(histogram, {.grid_dim = 32, .block_dim = 256}, device_bins, device_data, n);
  ctx.enqueue_copy(bins.data(), device_bins);
  ctx.synchronize();
  if (bins != expected) {
    std::printf("the counts are wrong\n");
    return 1;
  }
  std::printf("histogram on %s: the counts of %d bytes are right\n", ctx.name().c_str(), n);
  return 0;
}
