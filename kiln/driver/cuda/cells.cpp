#include "kiln/driver/cuda/cells.h"

#include <atomic>
#include <cstring>

namespace kiln::driver::cuda {

std::uint64_t* new_cell(Context context) {
  constexpr std::size_t kCells = 512;
  struct Page {
    std::mutex mutex;
    std::uint64_t* cells = nullptr;
    std::size_t used = kCells;
  };
  static auto* page = new Page;
  const std::lock_guard lock(page->mutex);
  if (page->used == kCells) {
    const ContextScope scope(context);
    void* memory = nullptr;
    check(library().host_allocate(&memory, kCells * sizeof(std::uint64_t),
                                  kHostPortable | kHostDeviceMap),
          "cuMemHostAlloc");
    std::memset(memory, 0, kCells * sizeof(std::uint64_t));
    page->cells = static_cast<std::uint64_t*>(memory);
    page->used = 0;
  }
  return page->cells + page->used++;
}

std::uint64_t Gate::next() {
  const std::lock_guard lock(mutex_);
  return ++last_;
}

void Gate::open(std::uint64_t number) noexcept {
  const std::lock_guard lock(mutex_);
  early_.insert(number);
  while (!early_.empty() && *early_.begin() == opened_ + 1) {
    early_.erase(early_.begin());
    ++opened_;
  }
  std::atomic_ref<std::uint64_t>(*cell_).store(opened_, std::memory_order_release);
}

}  // namespace kiln::driver::cuda
