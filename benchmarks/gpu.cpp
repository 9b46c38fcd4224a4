// Numbers of device contexts: kernels on the CPU beside loops written by hand, and what calls cost.
//
//   gpu_numbers [part…]     parts: loop, barrier, matmul, launch, compile, memory
//
// Each time is the best of several runs, and what is compared runs in turns. With
// KILN_CUDA_DRIVER=…/libkiln_emulator.so the parts launch, compile and memory are of an emulated
// device.

#include "kiln/gpu.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace {

using namespace kiln::gpu;

KILN_KERNEL(vector_add, (float* c, const float* a, const float* b, int n), {
  const int i = global_idx.x;
  if (i < n) c[i] = a[i] + b[i];
});

KILN_KERNEL(gelu, (float* out, const float* in, int n), {
  const int i = global_idx.x;
  if (i < n) {
    const float x = in[i];
    out[i] = x * x * x * 0.044715F + x * 0.5F;
  }
});

KILN_KERNEL(barriers, (float* out, int rounds), {
  float sum = static_cast<float>(thread_idx.x);
  for (int i = 0; i < rounds; ++i) {
    sum = sum * 0.5F + 1;
    barrier();
  }
  out[thread_idx.x] = sum;
});

KILN_KERNEL(tiled_matmul, (float* c, const float* a, const float* b, int n), {
  auto& as = shared<float, 256>();
  auto& bs = shared<float, 256>();
  const int row = global_idx.y;
  const int column = global_idx.x;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    as[thread_idx.y * 16 + thread_idx.x] = a[row * n + k + thread_idx.x];
    bs[thread_idx.y * 16 + thread_idx.x] = b[(k + thread_idx.y) * n + column];
    barrier();
    for (int i = 0; i < 16; ++i) sum += as[thread_idx.y * 16 + i] * bs[i * 16 + thread_idx.x];
    barrier();
  }
  c[row * n + column] = sum;
});

KILN_KERNEL(nothing, (), {});

/// Seconds.
double time_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double best_of(int runs, const std::function<void()>& work) {
  double best = 1e9;
  for (int i = 0; i < runs; ++i) best = std::min(best, time_of(work));
  return best;
}

__attribute__((noinline)) void plain_add(float* c, const float* a, const float* b, int n) {
  for (int i = 0; i < n; ++i) c[i] = a[i] + b[i];
}
__attribute__((noinline)) void plain_gelu(float* out, const float* in, int n) {
  for (int i = 0; i < n; ++i) {
    const float x = in[i];
    out[i] = x * x * x * 0.044715F + x * 0.5F;
  }
}

DeviceContext cpu() { return DeviceContext(0, {.api = "cpu"}); }

void measure_loop() {
  const DeviceContext ctx = cpu();
  for (int n : {1 << 14, 1 << 18, 1 << 21}) {
    const auto a = ctx.enqueue_create_buffer<float>(n), b = ctx.enqueue_create_buffer<float>(n),
               c = ctx.enqueue_create_buffer<float>(n);
    a.enqueue_fill(1);
    b.enqueue_fill(2);
    const LaunchConfig config{.grid_dim = (n + 255) / 256, .block_dim = 256};
    double ours[2] = {1e9, 1e9}, plain[2] = {1e9, 1e9};
    for (int i = 0; i < 60; ++i) {
      ours[0] = std::min(ours[0], time_of([&] {
                           ctx.enqueue_function(vector_add, config, c, a, b, n);
                           ctx.synchronize();
                         }));
      plain[0] = std::min(
          plain[0], time_of([&] { plain_add(c.unsafe_ptr(), a.unsafe_ptr(), b.unsafe_ptr(), n); }));
      ours[1] = std::min(ours[1], time_of([&] {
                           ctx.enqueue_function(gelu, config, c, a, n);
                           ctx.synchronize();
                         }));
      plain[1] =
          std::min(plain[1], time_of([&] { plain_gelu(c.unsafe_ptr(), a.unsafe_ptr(), n); }));
    }
    for (int k = 0; k < 2; ++k)
      std::printf("%s of %d elements on the CPU: %.1f us, the loop by hand %.1f us, ratio %.2f\n",
                  k == 0 ? "vector add" : "polynomial", n, ours[k] * 1e6, plain[k] * 1e6,
                  ours[k] / plain[k]);
  }
}

void measure_barrier() {
  const DeviceContext ctx = cpu();
  const auto out = ctx.enqueue_create_buffer<float>(1024);
  for (int threads : {64, 256, 1024}) {
    constexpr int kRounds = 2000;
    const auto run = [&](int rounds) {
      return best_of(10, [&] {
        ctx.enqueue_function(barriers, {.grid_dim = 1, .block_dim = threads}, out, rounds);
        ctx.synchronize();
      });
    };
    const double time = run(kRounds) - run(0);
    std::printf("barrier of a block of %d on the CPU: %.2f ns a thread\n", threads,
                time * 1e9 / kRounds / threads);
  }
}

void measure_matmul() {
  const DeviceContext ctx = cpu();
  constexpr int n = 512;
  const auto a = ctx.enqueue_create_buffer<float>(n * n),
             b = ctx.enqueue_create_buffer<float>(n * n),
             c = ctx.enqueue_create_buffer<float>(n * n);
  a.enqueue_fill(1);
  b.enqueue_fill(2);
  const double time = best_of(5, [&] {
    ctx.enqueue_function(tiled_matmul, {.grid_dim = {n / 16, n / 16}, .block_dim = {16, 16}}, c, a,
                         b, n);
    ctx.synchronize();
  });
  std::printf("tiled matmul %d^3 on the CPU: %.1f ms, %.2f GFLOP/s\n", n, time * 1e3,
              2.0 * n * n * n / time / 1e9);
}

void measure_launch() {
  const DeviceContext ctx;
  const auto f = ctx.compile_function(nothing);
  constexpr int kLaunches = 2000;
  const LaunchConfig config{.grid_dim = 1, .block_dim = 1};
  double compiled = 1e9, uncompiled = 1e9;
  for (int i = 0; i < 30; ++i) {
    compiled = std::min(compiled, time_of([&] {
                          for (int k = 0; k < kLaunches; ++k) ctx.enqueue_function(f, config);
                        }));
    ctx.synchronize();
    uncompiled = std::min(uncompiled, time_of([&] {
                            for (int k = 0; k < kLaunches; ++k)
                              ctx.enqueue_function(nothing, config);
                          }));
    ctx.synchronize();
  }
  std::printf("launch on %s: %.0f ns, of a kernel without a handle %.0f ns more\n",
              ctx.api().c_str(), compiled * 1e9 / kLaunches,
              (uncompiled - compiled) * 1e9 / kLaunches);
}

void measure_compile() {
  const DeviceContext ctx;
  const auto source = [](int i) {
    return "extern \"C\" __global__ void scale(float* out, const float* in, float k, int n) {\n"
           "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
           "  if (i < n) out[i] = in[i] * k + " +
           std::to_string(i) + ".0f;\n}\n";
  };
  const int first =
      static_cast<int>(std::chrono::system_clock::now().time_since_epoch().count() % 1000000);
  const double load = time_of([&] { (void)ctx.compile_function("scale", source(first)); });
  double best = 1e9, cached = 1e9;
  for (int i = 1; i <= 20; ++i) {
    best = std::min(best, time_of([&] { (void)ctx.compile_function("scale", source(first + i)); }));
    cached =
        std::min(cached, time_of([&] { (void)ctx.compile_function("scale", source(first + i)); }));
  }
  std::printf(
      "compile of a small kernel for %s: %.1f ms (the first one %.1f ms), from the cache "
      "%.2f ms\n",
      ctx.api().c_str(), best * 1e3, load * 1e3, cached * 1e3);
}

void measure_memory() {
  const DeviceContext ctx;
  constexpr int kBuffers = 2000;
  for (std::int64_t size : {256, 1 << 20}) {
    const double time = best_of(20, [&] {
      for (int i = 0; i < kBuffers; ++i) (void)ctx.enqueue_create_buffer<float>(size);
    });
    std::printf("allocate and free %lld floats on %s: %.0f ns\n", static_cast<long long>(size),
                ctx.api().c_str(), time * 1e9 / kBuffers);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const struct {
    const char* name;
    void (*measure)();
  } parts[] = {{"loop", measure_loop},       {"barrier", measure_barrier},
               {"matmul", measure_matmul},   {"launch", measure_launch},
               {"compile", measure_compile}, {"memory", measure_memory}};
  for (const auto& part : parts) {
    const bool wanted = argc == 1 || std::any_of(argv + 1, argv + argc, [&](const char* name) {
                          return part.name == std::string(name);
                        });
    if (!wanted) continue;
    try {
      part.measure();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s: %s\n", part.name, error.what());
      return 1;
    }
  }
  return 0;
}
