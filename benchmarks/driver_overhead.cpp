// Prints what the driver's calls take from C++, a name and a figure a line: nanoseconds, the least
// of many rounds (the median for the queue), and the speed of a large copy over that of memcpy.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <vector>

#include "kiln/driver/buffer.h"
#include "kiln/driver/queue.h"

namespace {

using kiln::DType;
using kiln::driver::Buffer;
using Clock = std::chrono::steady_clock;

double nanoseconds(int calls, const std::function<void()>& run) {
  const Clock::time_point start = Clock::now();
  run();
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count() / calls;
}

double least(int calls, const std::function<void()>& run) {
  double best = 1e18;
  for (int round = 0; round < 30; ++round) best = std::min(best, nanoseconds(calls, run));
  return best;
}

double allocation(std::int64_t bytes) {
  constexpr int kCalls = 2000;
  return least(kCalls, [&] {
    for (int i = 0; i < kCalls; ++i) Buffer(DType::uint8, {bytes});
  });
}

double enqueue_to_completion() {
  const kiln::driver::DeviceQueue queue = kiln::driver::CPU().default_queue();
  std::vector<double> times;
  for (int i = 0; i < 5000; ++i)
    times.push_back(nanoseconds(1, [&] {
      queue.enqueue_cpu_function([] {});
      queue.synchronize();
    }));
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

/// The time of memcpy over the time of a copy between buffers, both of 64 MiB.
double copy_over_memcpy() {
  constexpr std::int64_t kBytes = 64 << 20;
  const Buffer from = Buffer::zeros({kBytes}, DType::uint8),
               to = Buffer::zeros({kBytes}, DType::uint8);
  std::memset(from.data(), 1, kBytes);
  std::memset(to.data(), 2, kBytes);
  double plain = 1e18, ours = 1e18;
  for (int round = 0; round < 9; ++round) {
    plain = std::min(plain, nanoseconds(1, [&] { std::memcpy(to.data(), from.data(), kBytes); }));
    ours = std::min(ours, nanoseconds(1, [&] {
                      to.inplace_copy_from(from);
                      to.wait_for_host_read();
                    }));
  }
  return plain / ours;
}

}  // namespace

int main() {
  try {
    std::printf("allocate_1k %.1f\n", allocation(1 << 10));
    std::printf("allocate_1m %.1f\n", allocation(1 << 20));
    std::printf("enqueue %.0f\n", enqueue_to_completion());
    std::printf("copy %.3f\n", copy_over_memcpy());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
