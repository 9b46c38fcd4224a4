// How long a kernel source takes to compile, and a thread of it to run on the host.
//
//   build/release/bin/kernel_source

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "kiln/runtime/compiler_library.h"
#include "kiln/runtime/kernel_abi.h"

using namespace kiln;

namespace {

double milliseconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

// The best of several: what else runs on the machine only adds.
double best(int times, const std::function<void()>& work) {
  double least = milliseconds(work);
  for (int i = 1; i < times; ++i) least = std::min(least, milliseconds(work));
  return least;
}

constexpr const char* kScale = R"(
extern "C" __global__ void scale(float* out, const float* in, float k, int n) {
  int i = global_idx.x;
  if (i < n) out[i] = in[i] * k;
})";

constexpr const char* kSum = R"(
extern "C" __global__ void sum(float* out, const float* in, float k, int n) {
  auto& tile = shared<float, 256>();
  int i = global_idx.x;
  tile[thread_idx.x] = i < n ? exp(in[i] * k) : 0.0f;
  for (unsigned half = block_dim.x / 2; half > 0; half /= 2) {
    barrier();
    if (thread_idx.x < half) tile[thread_idx.x] += tile[thread_idx.x + half];
  }
  if (thread_idx.x == 0) atomic_add(out, tile[0]);
})";

runtime::CompiledKernel compile(const char* name, const char* text, const char* architecture) {
  runtime::KernelSource source;
  source.name = name;
  source.text = text;
  source.architecture = architecture;
  return runtime::compiler().compile_kernel(source);
}

void time_run(const runtime::CompiledKernel& kernel) {
  const int file = ::memfd_create("kernel", 0);
  if (::write(file, kernel.image.data(), kernel.image.size()) < 0) return;
  void* library = ::dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW);
  const auto run = reinterpret_cast<runtime::KernelRun>(::dlsym(library, runtime::kKernelRunName));
  constexpr int kCount = 1 << 16;
  std::vector<float> in(kCount, 2.0f), out(kCount);
  float *to = out.data(), *from = in.data(), k = 3;
  int n = kCount;
  const void* arguments[] = {&to, &from, &k, &n};
  runtime::KernelBlock block{};
  block.grid_dim[0] = kCount / 256;
  block.grid_dim[1] = block.grid_dim[2] = 1;
  block.block_dim[0] = block.num_threads = 256;
  block.block_dim[1] = block.block_dim[2] = 1;
  const double ms = best(51, [&] {
    for (block.block_idx[0] = 0; block.block_idx[0] < block.grid_dim[0]; ++block.block_idx[0])
      run(&block, arguments, 0, block.num_threads);
  });
  std::printf("a thread of 'scale' on the host          %8.3f ns\n", ms * 1e6 / kCount);
}

}  // namespace

int main() {
  std::printf("open the compiler of graphs              %8.2f ms\n",
              milliseconds([] { runtime::compiler(); }));
  for (const char* architecture : {"sm_90", ""}) {
    const char* where = *architecture ? architecture : "cpu";
    std::printf("first compile of a process, %-5s        %8.2f ms\n", where,
                milliseconds([&] { compile("scale", kScale, architecture); }));
    std::printf("'scale', %-5s                           %8.2f ms\n", where,
                best(21, [&] { compile("scale", kScale, architecture); }));
    std::printf("'sum' with shared memory and exp, %-5s  %8.2f ms\n", where,
                best(21, [&] { compile("sum", kSum, architecture); }));
  }
  time_run(compile("scale", kScale, ""));
}
