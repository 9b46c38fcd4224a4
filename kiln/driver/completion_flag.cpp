#include "kiln/driver/completion_flag.h"

#include <atomic>

#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::driver {
namespace {

std::atomic_ref<std::uint64_t> value_of(const Buffer& cell) {
  return std::atomic_ref<std::uint64_t>(*static_cast<std::uint64_t*>(cell.data()));
}

Buffer make_cell(const Device& device) {
  if (device.api() != "cuda")
    throw RuntimeError(format("CompletionFlag needs a CUDA device, but the api of {} is '{}'.",
                              device.to_string(), device.api()));
  return Buffer(DType::uint64, {1}, device, Usage::STAGING | Usage::UNTRACKED);
}

}  // namespace

CompletionFlag::CompletionFlag(const Device& device) : cell_(make_cell(device)) { reset(); }

std::uintptr_t CompletionFlag::device_ptr() const {
  return reinterpret_cast<std::uintptr_t>(cell_.data());
}

void CompletionFlag::signal(std::uint64_t value) const {
  value_of(cell_).store(value, std::memory_order_release);
}

std::uint64_t CompletionFlag::load() const {
  return value_of(cell_).load(std::memory_order_acquire);
}

}  // namespace kiln::driver
