// Numbers of the emulated GPU: how fast kernels run on it, and what its calls cost.
//
//   emulator_numbers [part…]     parts: add, barrier, matmul, load, launch, checks
//
// Each time is the best of several runs. The checks are measured in processes of their own, since
// the driver reads its settings once.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/emulator/driver.h"

namespace {

using namespace kiln::emulator_test;

/// Seconds of the fastest of `runs` calls.
double best_of(int runs, const std::function<void()>& work) {
  double best = 1e9;
  for (int i = 0; i < runs; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    best = std::min(best, time.count());
  }
  return best;
}

__attribute__((noinline)) void plain_add(const float* a, const float* b, float* c, int n) {
  for (int i = 0; i < n; ++i) c[i] = a[i] + b[i];
}

void measure_add() {
  const int n = 1 << 20;
  const std::vector<float> a(n, 1.0f), b(n, 2.0f);
  std::vector<float> c(n);
  const Module module(kernel_text("basics.ptx"));
  const Function add = module.function("vector_add");
  const Array<float> da(a), db(b), dc(n);
  const auto run = [&] {
    launch(add, {{n / 256}, {256}}, da, db, dc, n);
    synchronize();
  };
  run();
  // In turns, so that both see the same machine.
  double emulated = 1e9, plain = 1e9;
  for (int i = 0; i < 30; ++i) {
    emulated = std::min(emulated, best_of(1, run));
    plain = std::min(plain, best_of(1, [&] { plain_add(a.data(), b.data(), c.data(), n); }));
  }
  std::printf("vector add of 2^20 threads: %.3f ms, plain C %.3f ms, ratio %.2f\n", emulated * 1e3,
              plain * 1e3, emulated / plain);
}

void measure_barrier() {
  const Module module(kernel_text("basics.ptx"));
  const Function barriers = module.function("barriers");
  const Array<unsigned> out(256);
  const int rounds = 2000;
  const auto run = [&](int count) {
    return best_of(10, [&] {
      launch(barriers, {{1}, {256}}, out, count);
      synchronize();
    });
  };
  run(1);
  const double time = run(rounds) - run(0);
  std::printf("barrier of 256 threads: %.2f ns a thread (with one access of shared memory)\n",
              time / (2.0 * rounds * 256) * 1e9);
}

void measure_matmul() {
  const int n = 512;
  const std::vector<float> a(n * n, 0.5f), b(n * n, 0.25f);
  const Module module(kernel_text("matmul.ptx"));
  const Array<float> da(a), db(b), dc(n * n);
  const Function blocked = module.function("matmul_blocked");
  const auto run = [&] {
    launch(blocked, {{n / 64, n / 64}, {256}}, da, db, dc, n, n);
    synchronize();
  };
  run();
  std::printf("register-blocked matmul of 512^3: %.1f ms\n", best_of(5, run) * 1e3);
}

double tiled_time() {
  const int n = 256;
  const std::vector<float> a(n * n, 0.5f), b(n * n, 0.25f);
  const Module module(kernel_text("matmul.ptx"));
  const Array<float> da(a), db(b), dc(n * n);
  const Function tiled = module.function("matmul_tiled");
  const auto run = [&] {
    launch(tiled, {{n / 16, n / 16}, {16, 16}}, da, db, dc, n, n, n);
    synchronize();
  };
  run();
  return best_of(5, run);
}

void measure_load() {
  // A number in a comment's place makes each text new to the cache.
  const std::string head = ".version 8.0\n.target sm_90\n.address_size 64\n";
  const auto text = [&](int i) {
    return head +
           ".visible .entry scale(.param .u64 p, .param .u32 n) {\n"
           ".reg .pred %p; .reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .f32 %f<3>;\n"
           "ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n];\n"
           "mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;\n"
           "mad.lo.s32 %r5, %r2, %r3, %r4; setp.ge.s32 %p, %r5, %r1; @%p bra END;\n"
           "cvta.to.global.u64 %rd2, %rd1; mul.wide.s32 %rd3, %r5, 4;\n"
           "add.s64 %rd2, %rd2, %rd3; ld.global.f32 %f1, [%rd2];\n"
           "fma.rn.f32 %f2, %f1, 0f40000000, 0f" +
           std::to_string(30000000 + i) + "; st.global.f32 [%rd2], %f2;\nEND: ret;\n}\n";
  };
  const Array<float> data(256);
  int number = static_cast<int>(getpid() % 10000) * 100;
  const auto load = [&] {
    const Module module(text(number));
    launch(module.function("scale"), {{1}, {256}}, data, 256);
    synchronize();
  };
  load();
  const double fresh = best_of(10, [&] {
    ++number;
    load();
  });
  std::printf("module loaded and launched first: %.2f ms, from the cache %.2f ms\n", fresh * 1e3,
              best_of(10, load) * 1e3);
}

void measure_launch() {
  const Module module(kernel_text("basics.ptx"));
  const Function empty = module.function("empty");
  const int count = 20000;
  const double time = best_of(5, [&] {
    for (int i = 0; i < count; ++i) launch(empty, {{1}, {32}});
    synchronize();
  });
  std::printf("empty launch, back to back: %.2f us\n", time / count * 1e6);
}

/// Time of the tiled matmul in a process with KILN_EMULATOR_CHECK set to `checks`.
double time_with(const std::string& program, const std::string& checks) {
  const std::string command = "KILN_EMULATOR_CHECK=" + checks + " '" + program + "' tiled";
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return 0;
  double time = 0;
  if (std::fscanf(pipe, "%lf", &time) != 1) time = 0;
  pclose(pipe);
  return time;
}

void measure_checks(const std::string& program) {
  const double plain = time_with(program, "");
  std::printf("tiled matmul of 256^3: %.1f ms\n", plain * 1e3);
  for (const char* checks : {"memory", "init", "memory,init"}) {
    const double checked = time_with(program, checks);
    if (checked == 0) {
      std::printf("  with %s: did not run\n", checks);
    } else {
      std::printf("  with %s: %.1f ms, %.2f times\n", checks, checked * 1e3, checked / plain);
    }
  }
}

/// Lets the driver keep translated programs in a folder of its own, which is gone with this object.
class PrivateCache {
 public:
  PrivateCache() {
    setenv("KILN_CACHE", "1", 1);
    if (mkdtemp(folder_)) setenv("KILN_CACHE_DIR", folder_, 1);
  }
  ~PrivateCache() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

 private:
  char folder_[32] = "/tmp/emulator_numbersXXXXXX";
};

}  // namespace

int main(int count, char** arguments) {
  try {
    const PrivateCache cache;
    use_device(0);
    const std::vector<std::string> parts(arguments + 1, arguments + count);
    const auto wanted = [&](const char* part) {
      return parts.empty() || std::find(parts.begin(), parts.end(), part) != parts.end();
    };
    if (parts == std::vector<std::string>{"tiled"}) {
      std::printf("%.9f\n", tiled_time());
      return 0;
    }
    if (wanted("add")) measure_add();
    if (wanted("barrier")) measure_barrier();
    if (wanted("matmul")) measure_matmul();
    if (wanted("load")) measure_load();
    if (wanted("launch")) measure_launch();
    if (wanted("checks")) measure_checks(arguments[0]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
