#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace kiln::emulator {

/// What a handle stands for.
enum class ObjectKind : std::uint8_t {
  context = 1,
  module,
  function,
  library,
  kernel,
  linker,
  stream,
  event,
  graph,
  node,
  graph_exec,
  pool,
  physical,
};

/// Something that users hold by a handle. Whoever works on it keeps it alive.
struct Object {
  explicit Object(ObjectKind kind) : kind(kind) {}
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  const ObjectKind kind;
  std::uint64_t handle = 0;
};

/// The objects of the process by handle. A handle is no pointer but kind, generation and index of a
/// place, so that one that was destroyed, made up, or meant for something else is recognised.
/// Thread-safe; a look-up takes no lock but that of its place.
class Handles {
 public:
  /// Gives the object a handle, or returns 0 when there are too many.
  std::uint64_t add(std::shared_ptr<Object> object);
  std::shared_ptr<Object> find(std::uint64_t handle, ObjectKind kind);
  /// Ends the handle; null when it does not stand for an object of this kind.
  std::shared_ptr<Object> remove(std::uint64_t handle, ObjectKind kind);

 private:
  struct Slot {
    std::atomic_flag busy = ATOMIC_FLAG_INIT;
    std::uint32_t generation = 1;
    std::shared_ptr<Object> object;
  };
  static constexpr std::size_t kChunk = 1024, kChunks = 4096;
  Slot* slot_of(std::uint64_t handle, ObjectKind kind);

  std::mutex mutex_;  // of the free places
  std::vector<std::uint32_t> free_;
  std::uint32_t used_ = 0;
  std::array<std::atomic<Slot*>, kChunks> chunks_{};
};

/// The handles of the process.
Handles& handles();

/// The object of type T (which has kKind) that a handle of the interface stands for, or null.
template <typename T, typename Handle>
std::shared_ptr<T> resolve(Handle handle) {
  return std::static_pointer_cast<T>(
      handles().find(reinterpret_cast<std::uint64_t>(handle), T::kKind));
}

/// Ends a handle of the interface and returns its object, or null.
template <typename T, typename Handle>
std::shared_ptr<T> retire(Handle handle) {
  return std::static_pointer_cast<T>(
      handles().remove(reinterpret_cast<std::uint64_t>(handle), T::kKind));
}

/// Makes an object known and returns its handle as the interface spells it; null when there are too
/// many objects.
template <typename Handle>
Handle publish(const std::shared_ptr<Object>& object) {
  return reinterpret_cast<Handle>(handles().add(object));
}

}  // namespace kiln::emulator
