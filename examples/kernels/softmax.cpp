// The softmax of each row of a matrix, one block a row.

#include <cmath>
#include <cstdio>
#include <vector>

#include "kiln/gpu.h"

// Blocks of 128 threads; each thread looks at every 128th element.
KILN_KERNEL(softmax, (float* out, const float* in, int columns), {
  auto& part = shared<float, 128>();
  const int thread = thread_idx.x;
  const float* row = in + block_idx.x * columns;
  float largest = -3.0e38F;
  for (int i = thread; i < columns; i += 128) largest = max(largest, row[i]);
  part[thread] = largest;
  barrier();
  for (int half = 64; half > 0; half /= 2) {
    if (thread < half) part[thread] = max(part[thread], part[thread + half]);
    barrier();
  }
  largest = part[0];
  barrier();
  float sum = 0;
  for (int i = thread; i < columns; i += 128) sum += exp(row[i] - largest);
  part[thread] = sum;
  barrier();
  for (int half = 64; half > 0; half /= 2) {
    if (thread < half) part[thread] += part[thread + half];
    barrier();
  }
  for (int i = thread; i < columns; i += 128)
    out[block_idx.x * columns + i] = exp(row[i] - largest) / part[0];
});

int main() {
  constexpr int rows = 64, columns = 1000;
  const kiln::gpu::DeviceContext ctx;
  std::vector<float> in(rows * columns), out(rows * columns);
  for (int i = 0; i < rows * columns; ++i) in[i] = std::sin(static_cast<float>(i)) * 10;
  const auto device_in = ctx.enqueue_create_buffer<float>(rows * columns);
  const auto device_out = ctx.enqueue_create_buffer<float>(rows * columns);
  ctx.enqueue_copy(device_in, in.data());
  ctx.enqueue_function(softmax, {.grid_dim = rows, .block_dim = 128}, device_out, device_in,
                       columns);
  ctx.enqueue_copy(out.data(), device_out);
  ctx.synchronize();

  for (int row = 0; row < rows; ++row) {
    double sum = 0;
    for (int i = 0; i < columns; ++i) sum += std::exp(static_cast<double>(in[row * columns + i]));
    for (int i = 0; i < columns; ++i) {
      const double expected = std::exp(static_cast<double>(in[row * columns + i])) / sum;
      if (std::abs(out[row * columns + i] - expected) > 1e-5 * expected + 1e-12) {
        std::printf("wrong at (%d, %d): %g, expected %g\n", row, i, out[row * columns + i],
                    expected);
        return 1;
      }
    }
  }
  std::printf("softmax on %s: %d rows are right\n", ctx.name().c_str(), rows);
  return 0;
}
