#pragma once

// Kernel sources on both of their machines: the emulated GPU and this host.

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "compiler/kernel_source/kernel_source.h"
#include "driver.h"
#include "kiln/runtime/kernel_abi.h"
#include "loaded_image.h"

namespace kiln::compiler::kernel_test {

struct Size {
  unsigned x = 1, y = 1, z = 1;
  unsigned count() const { return x * y * z; }
};

inline runtime::CompiledKernel compile(const std::string& name, const std::string& text,
                                       const std::string& architecture,
                                       const std::string& options = "") {
  runtime::KernelSource source;
  source.name = name;
  source.text = text;
  source.architecture = architecture;
  source.compile_options = options;
  return compile_kernel(source);
}

/// Runs the blocks of a kernel for the host one after another. A block whose threads never wait
/// runs in one call.
class HostKernel {
 public:
  HostKernel(const std::string& name, const std::string& text, const std::string& options = "")
      : compiled_(compile(name, text, "", options)), image_(compiled_.image) {
    run_ = image_.function<void(runtime::KernelBlock*, const void* const*, std::uint32_t,
                                std::uint32_t)>(runtime::kKernelRunName);
  }
  const runtime::CompiledKernel& compiled() const { return compiled_; }

  template <class... Arguments>
  void launch(Size grid, Size block, std::size_t dynamic_bytes, const Arguments&... arguments) {
    const void* pointers[] = {&arguments..., nullptr};
    for (unsigned z = 0; z < grid.z; ++z)
      for (unsigned y = 0; y < grid.y; ++y)
        for (unsigned x = 0; x < grid.x; ++x)
          run_block(grid, block, {x, y, z}, dynamic_bytes, pointers);
  }

 private:
  // One stack, on which threads of a block run until one of them waits. It is that of a thread of
  // the process, which every sanitizer understands; only one of them runs at a time.
  struct Fiber {
    std::thread thread;
    std::uint32_t begin = 0, index = 0;
    bool waits = false;
  };
  struct Block : runtime::KernelBlock {
    HostKernel* kernel = nullptr;
    const void* const* arguments = nullptr;
    std::map<const void*, void*> areas;
    std::vector<std::unique_ptr<std::byte[]>> memory;
    std::mutex mutex;
    std::condition_variable changed;
    Fiber* current = nullptr;  // null: the scheduler runs

    void* area(std::size_t bytes) {
      memory.push_back(std::make_unique<std::byte[]>(bytes + 64));
      return reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(memory.back().get()) + 63) &
                                     ~std::uintptr_t{63});
    }
    void hand_over(Fiber* to, Fiber* self) {
      std::unique_lock lock(mutex);
      current = to;
      changed.notify_all();
      changed.wait(lock, [&] { return current == self; });
    }
    void run(Fiber& fiber) {
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return current == &fiber; });
      }
      kernel->run_(this, arguments, fiber.begin, num_threads);
      std::lock_guard lock(mutex);
      fiber.waits = false;
      current = nullptr;
      changed.notify_all();
    }
  };

  static void wait(runtime::KernelBlock* base) {
    auto* block = static_cast<Block*>(base);
    Fiber* fiber = block->current;
    fiber->index = block->thread;
    fiber->waits = true;
    block->hand_over(nullptr, fiber);
    block->thread = fiber->index;
  }

  void run_block(Size grid, Size size, Size at, std::size_t dynamic_bytes,
                 const void* const* arguments) {
    Block block;
    const auto set = [](std::uint32_t* to, Size from) {
      to[0] = from.x, to[1] = from.y, to[2] = from.z;
    };
    set(block.grid_dim, grid);
    set(block.block_dim, size);
    set(block.block_idx, at);
    block.num_threads = size.count();
    block.dynamic_shared_bytes = static_cast<std::uint32_t>(dynamic_bytes);
    block.dynamic_shared = block.area(dynamic_bytes);
    block.kernel = this;
    block.arguments = arguments;
    block.barrier = &wait;
    block.shared = [](runtime::KernelBlock* base, const void* site, std::size_t bytes) {
      auto* own = static_cast<Block*>(base);
      void*& area = own->areas[site];
      if (!area) area = own->area(bytes);
      return area;
    };
    if (!compiled_.may_wait) {
      run_(&block, arguments, 0, block.num_threads);
      return;
    }
    std::vector<std::unique_ptr<Fiber>> fibers;
    for (std::uint32_t next = 0; next < block.num_threads;) {
      fibers.push_back(std::make_unique<Fiber>());
      Fiber& fiber = *fibers.back();
      fiber.begin = next;
      fiber.thread = std::thread([&block, &fiber] { block.run(fiber); });
      block.hand_over(&fiber, nullptr);
      next = fiber.waits ? fiber.index + 1 : block.num_threads;
    }
    for (bool any = true; any;) {
      any = false;
      for (auto& fiber : fibers)
        if (fiber->waits) {
          any = true;
          block.hand_over(fiber.get(), nullptr);
        }
    }
    for (auto& fiber : fibers) fiber->thread.join();
  }

  runtime::CompiledKernel compiled_;
  LoadedImage image_;
  void (*run_)(runtime::KernelBlock*, const void* const*, std::uint32_t, std::uint32_t) = nullptr;
};

/// A kernel on the emulated GPU.
class DeviceKernel {
 public:
  DeviceKernel(const std::string& name, const std::string& text,
               const std::string& architecture = "sm_90", const std::string& options = "")
      : compiled_(compile(name, text, architecture, options)) {
    emulator_test::use_device(0);
    module_ = std::make_unique<emulator_test::Module>(compiled_.ptx);
  }
  const runtime::CompiledKernel& compiled() const { return compiled_; }
  const emulator_test::Module& module() const { return *module_; }

  template <class... Arguments>
  void launch(Size grid, Size block, unsigned dynamic_bytes, const Arguments&... arguments) {
    emulator_test::launch(module_->function(compiled_.symbol),
                          {.grid = {grid.x, grid.y, grid.z},
                           .block = {block.x, block.y, block.z},
                           .shared_bytes = dynamic_bytes},
                          arguments...);
    emulator_test::synchronize();
  }

 private:
  runtime::CompiledKernel compiled_;
  std::unique_ptr<emulator_test::Module> module_;
};

}  // namespace kiln::compiler::kernel_test
