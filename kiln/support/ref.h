#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace kiln {

/// Throws ValueError: a member of a handle was called that names nothing.
[[noreturn]] void throw_empty_handle();

/// Base of shared state that handles point to. The count starts at 1, owned by the first `Ref`.
/// Objects made immortal are never counted nor destroyed, which keeps process-wide state free of
/// contended counters.
class RefCounted {
 public:
  void retain() const noexcept {
    if (!immortal_) count_.fetch_add(1, std::memory_order_relaxed);
  }
  /// True when the last reference went.
  bool drop() const noexcept {
    if (immortal_) return false;
    // A sole owner needs no atomic read-modify-write, which is what most drops cost.
    if (count_.load(std::memory_order_acquire) == 1) return true;
    return count_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
  void make_immortal() noexcept { immortal_ = true; }
  std::uint32_t use_count() const noexcept { return count_.load(std::memory_order_relaxed); }

 private:
  mutable std::atomic<std::uint32_t> count_{1};
  bool immortal_ = false;
};

/// Shared pointer to a T, which may be incomplete: `ref_retain(T*)` and `ref_release(T*)` are found
/// by argument-dependent lookup. Using the object of an empty one: ValueError.
template <typename T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}  // NOLINT
  /// Takes over one reference.
  static Ref adopt(T* object) {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  /// Adds a reference.
  static Ref share(T* object) {
    if (object) ref_retain(object);
    return adopt(object);
  }
  Ref(const Ref& other) noexcept : object_(other.object_) {
    if (object_) ref_retain(object_);
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_) ref_release(object_);
  }

  T* get() const { return object_; }
  T* operator->() const { return &**this; }
  T& operator*() const {
    if (!object_) [[unlikely]]
      throw_empty_handle();
    return *object_;
  }
  explicit operator bool() const { return object_ != nullptr; }
  /// Gives the reference up without dropping it.
  T* release() { return std::exchange(object_, nullptr); }
  friend bool operator==(const Ref& a, const Ref& b) { return a.object_ == b.object_; }

 private:
  T* object_ = nullptr;
};

/// A std::shared_ptr for handle classes. Using the object of an empty one, as a move leaves it:
/// ValueError.
template <typename T>
class Shared : public std::shared_ptr<T> {
 public:
  Shared() = default;
  Shared(std::shared_ptr<T> pointer) : std::shared_ptr<T>(std::move(pointer)) {}  // NOLINT

  T* operator->() const { return &**this; }
  T& operator*() const {
    if (!*this) [[unlikely]]
      throw_empty_handle();
    return *this->get();
  }
  /// Itself, once it is known not to be empty.
  const Shared& checked() const {
    static_cast<void>(**this);
    return *this;
  }
};

}  // namespace kiln
