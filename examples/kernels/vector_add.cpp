// Adds two vectors with one kernel, on the GPU where there is one, else on the CPU.

#include <cstdio>
#include <vector>

#include "kiln/gpu.h"

KILN_KERNEL(vector_add, (float* sum, const float* a, const float* b, int n), {
  const int i = global_idx.x;
  if (i < n) sum[i] = a[i] + b[i];
});

int main() {
  constexpr int n = 1000000;
  const kiln::gpu::DeviceContext ctx;
  std::vector<float> a(n), b(n), sum(n);
  for (int i = 0; i < n; ++i) {
    a[i] = static_cast<float>(i % 1000);
    b[i] = 0.5F;
  }

  const auto device_a = ctx.enqueue_create_buffer<float>(n);
  const auto device_b = ctx.enqueue_create_buffer<float>(n);
  const auto device_sum = ctx.enqueue_create_buffer<float>(n);
  ctx.enqueue_copy(device_a, a.data());
  ctx.enqueue_copy(device_b, b.data());
  ctx.enqueue_function(vector_add, {.grid_dim = (n + 255) / 256, .block_dim = 256}, device_sum,
                       device_a, device_b, n);
  ctx.enqueue_copy(sum.data(), device_sum);
  ctx.synchronize();

  for (int i = 0; i < n; ++i)
    if (sum[i] != a[i] + b[i]) {
      std::printf("wrong at %d: %g\n", i, sum[i]);
      return 1;
    }
  std::printf("vector_add on %s: %d sums are right\n", ctx.name().c_str(), n);
  return 0;
}
