// Prints how many GFLOP/s this machine reaches with fused multiply-adds on registers alone: the
// ceiling that every product is compared with.
//
//   fma_peak [threads] [milliseconds]

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
using Vector = float __attribute__((vector_size(kLanes * sizeof(float))));
// Latency 4 at two a cycle needs 8 independent chains; 12 leave room.
constexpr int kChains = 12;
constexpr int kInner = 20000;

Vector run_chains(Vector x, Vector y) {
  Vector sums[kChains];
  for (int c = 0; c < kChains; ++c) sums[c] = x + static_cast<float>(c);
  for (int i = 0; i < kInner; ++i) {
#pragma clang loop unroll(full)
    for (int c = 0; c < kChains; ++c) {
      sums[c] = __builtin_elementwise_fma(sums[c], x, y);
      // Opaque to the optimiser: each step stays one instruction on one register.
      asm volatile("" : "+x"(sums[c]));
    }
  }
  Vector total = sums[0];
  for (int c = 1; c < kChains; ++c) total += sums[c];
  return total;
}

// GFLOP/s of the calling thread, the best stretch within `milliseconds`.
double measure(int milliseconds) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(milliseconds);
  double best = 0;
  Vector x = {}, y = {};
  x += 0.999f;
  y += 0.001f;
  volatile float sink = 0;
  while (Clock::now() < end) {
    const Clock::time_point start = Clock::now();
    sink = run_chains(x, y)[0];
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const double rate = 2.0 * kLanes * kChains * kInner / seconds * 1e-9;
    best = rate > best ? rate : best;
  }
  return static_cast<void>(sink), best;
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const int milliseconds = argc > 2 ? std::atoi(argv[2]) : 200;
  if (threads < 1 || milliseconds < 1) {
    std::fprintf(stderr, "usage: fma_peak [threads] [milliseconds]\n");
    return 2;
  }
  std::vector<double> rates(static_cast<std::size_t>(threads));
  std::vector<std::thread> workers;
  for (double& rate : rates)
    workers.emplace_back([&rate, milliseconds] { rate = measure(milliseconds); });
  for (std::thread& worker : workers) worker.join();
  double total = 0;
  for (double rate : rates) total += rate;
  std::printf("%.2f\n", total);
}
