// Prints the nanoseconds of one call of an artifact with one float32 input of 8 elements, from C++:
// the least of many rounds.
//
//   call_overhead ADD_ONE.mef

#include <chrono>
#include <cstdio>
#include <exception>
#include <span>
#include <vector>

#include "kiln/driver/buffer.h"
#include "kiln/engine/inference_session.h"
#include "kiln/engine/model.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: call_overhead ARTIFACT.mef\n");
    return 2;
  }
  try {
    using Clock = std::chrono::steady_clock;
    constexpr int kCalls = 2000;
    kiln::engine::Model model = kiln::engine::InferenceSession().load(argv[1]);
    const std::vector<kiln::driver::Buffer> inputs = {
        kiln::driver::Buffer::copy_of(std::vector<float>(8, 1.0f), {8})};
    double best = 1e9;
    for (int round = 0; round < 50; ++round) {
      const Clock::time_point start = Clock::now();
      for (int call = 0; call < kCalls; ++call)
        model.execute(std::span<const kiln::driver::Buffer>(inputs));
      const double ns =
          std::chrono::duration<double, std::nano>(Clock::now() - start).count() / kCalls;
      best = ns < best ? ns : best;
    }
    std::printf("%.0f\n", best);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
