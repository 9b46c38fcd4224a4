// Multiplies two matrices; the threads of a block load tiles into shared memory together.

#include <cmath>
#include <cstdio>
#include <vector>

#include "kiln/gpu.h"

// c = a * b for square matrices of n rows, a multiple of 16; one thread an element of c.
KILN_KERNEL(tiled_matmul, (float* c, const float* a, const float* b, int n), {
  auto& tile_a = shared<float, 256>();
  auto& tile_b = shared<float, 256>();
  const int row = global_idx.y;
  const int column = global_idx.x;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    tile_a[thread_idx.y * 16 + thread_idx.x] = a[row * n + k + thread_idx.x];
    tile_b[thread_idx.y * 16 + thread_idx.x] = b[(k + thread_idx.y) * n + column];
    barrier();
    for (int i = 0; i < 16; ++i)
      sum += tile_a[thread_idx.y * 16 + i] * tile_b[i * 16 + thread_idx.x];
    barrier();
  }
  c[row * n + column] = sum;
});

int main() {
  constexpr int n = 128;
  const kiln::gpu::DeviceContext ctx;
  std::vector<float> a(n * n), b(n * n);
  for (int i = 0; i < n * n; ++i) {
    a[i] = static_cast<float>(i % 7) - 3;
    b[i] = static_cast<float>(i % 5) - 2;
  }
  const auto device_a = ctx.enqueue_create_buffer<float>(n * n);
  const auto device_b = ctx.enqueue_create_buffer<float>(n * n);
  const auto device_c = ctx.enqueue_create_buffer<float>(n * n);
  ctx.enqueue_copy(device_a, a.data());
  ctx.enqueue_copy(device_b, b.data());
  ctx.enqueue_function(tiled_matmul, {.grid_dim = {n / 16, n / 16}, .block_dim = {16, 16}},
                       device_c, device_a, device_b, n);
  const auto c = device_c.map_to_host();

  for (int row = 0; row < n; ++row)
    for (int column = 0; column < n; ++column) {
      float expected = 0;
      for (int k = 0; k < n; ++k) expected += a[row * n + k] * b[k * n + column];
      if (c[row * n + column] != expected) {
        std::printf("wrong at (%d, %d): %g\n", row, column, c[row * n + column]);
        return 1;
      }
    }
  std::printf("tiled_matmul on %s: %d x %d elements are right\n", ctx.name().c_str(), n, n);
  return 0;
}
