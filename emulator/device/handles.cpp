#include "emulator/device/handles.h"

#include "kiln/support/pause.h"

namespace kiln::emulator {
namespace {

// Above every address of a process: 8 bits of kind (the highest is set), 24 of generation, 32 of
// index.
constexpr std::uint64_t kMark = 1ull << 63;
constexpr std::uint32_t kGenerations = (1u << 24) - 1;

template <typename Flag>
class SpinLock {
 public:
  explicit SpinLock(Flag& flag) : flag_(flag) {
    while (flag_.test_and_set(std::memory_order_acquire)) pause();
  }
  ~SpinLock() { flag_.clear(std::memory_order_release); }
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

 private:
  Flag& flag_;
};

}  // namespace

Handles& handles() {
  static Handles& table = *new Handles;  // never destroyed: threads may still use it at exit
  return table;
}

std::uint64_t Handles::add(std::shared_ptr<Object> object) {
  std::uint32_t index = 0;
  {
    std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else {
      if (used_ == kChunk * kChunks) return 0;
      index = used_++;
      if (index % kChunk == 0)
        chunks_[index / kChunk].store(new Slot[kChunk], std::memory_order_release);
    }
  }
  Slot& slot = chunks_[index / kChunk].load(std::memory_order_acquire)[index % kChunk];
  SpinLock lock(slot.busy);
  object->handle = kMark | static_cast<std::uint64_t>(object->kind) << 56 |
                   static_cast<std::uint64_t>(slot.generation) << 32 | index;
  slot.object = std::move(object);
  return slot.object->handle;
}

Handles::Slot* Handles::slot_of(std::uint64_t handle, ObjectKind kind) {
  if (handle >> 56 != (kMark >> 56 | static_cast<std::uint64_t>(kind))) return nullptr;
  const auto index = static_cast<std::uint32_t>(handle);
  if (index >= kChunk * kChunks) return nullptr;
  Slot* chunk = chunks_[index / kChunk].load(std::memory_order_acquire);
  return chunk == nullptr ? nullptr : chunk + index % kChunk;
}

std::shared_ptr<Object> Handles::find(std::uint64_t handle, ObjectKind kind) {
  Slot* slot = slot_of(handle, kind);
  if (slot == nullptr) return nullptr;
  SpinLock lock(slot->busy);
  return slot->generation == (handle >> 32 & kGenerations) ? slot->object : nullptr;
}

std::shared_ptr<Object> Handles::remove(std::uint64_t handle, ObjectKind kind) {
  Slot* slot = slot_of(handle, kind);
  if (slot == nullptr) return nullptr;
  std::shared_ptr<Object> object;
  {
    SpinLock lock(slot->busy);
    if (slot->object == nullptr || slot->generation != (handle >> 32 & kGenerations))
      return nullptr;
    object = std::move(slot->object);
    slot->object = nullptr;
    slot->generation = slot->generation % kGenerations + 1;
  }
  std::lock_guard lock(mutex_);
  free_.push_back(static_cast<std::uint32_t>(handle));
  return object;
}

}  // namespace kiln::emulator
