#pragma once

// What stands behind the function table of abi.h: working memory, results, parallel loops, errors.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "kiln/driver/buffer.h"
#include "kiln/runtime/abi.h"
#include "kiln/runtime/artifact.h"
#include "kiln/runtime/print.h"

namespace kiln::runtime {

/// The results of a call, in order. Up to four live inside the object.
class Outputs {
 public:
  Outputs() = default;
  /// `count` empty handles.
  explicit Outputs(std::size_t count) : size_(count) {
    if (count > kInline) heap_ = std::make_unique<driver::Buffer[]>(count);
  }
  Outputs(Outputs&&) noexcept = default;
  Outputs& operator=(Outputs&&) noexcept = default;

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  driver::Buffer* data() { return heap_ ? heap_.get() : inline_; }
  const driver::Buffer* data() const { return heap_ ? heap_.get() : inline_; }
  driver::Buffer& operator[](std::size_t i) { return data()[i]; }
  const driver::Buffer& operator[](std::size_t i) const { return data()[i]; }
  driver::Buffer* begin() { return data(); }
  driver::Buffer* end() { return data() + size_; }
  const driver::Buffer* begin() const { return data(); }
  const driver::Buffer* end() const { return data() + size_; }

 private:
  static constexpr std::size_t kInline = 4;
  driver::Buffer inline_[kInline];
  std::unique_ptr<driver::Buffer[]> heap_;
  std::size_t size_ = 0;
};

/// Working memory that is handed out from the front and taken back as a whole. It keeps its memory,
/// so that a call like the last one allocates nothing.
class Arena {
 public:
  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;

  /// 64-byte aligned; not null for 0 bytes. Out of memory: ValueError.
  void* allocate(std::int64_t bytes) {
    const std::size_t size = (static_cast<std::size_t>(bytes) + kAlignment - 1) & ~(kAlignment - 1);
    if (bytes > 0 && size <= capacity_ - used_) [[likely]] {
      std::byte* at = block_ + used_;
      used_ += size;
      return at;
    }
    return allocate_slow(bytes);
  }
  /// Takes everything back.
  void reset() {
    if (!full_.empty()) [[unlikely]]
      merge();
    used_ = 0;
  }
  /// Bytes it holds on to.
  std::size_t capacity() const { return capacity_; }

 private:
  static constexpr std::size_t kAlignment = 64;
  void* allocate_slow(std::int64_t bytes);
  void merge();

  std::byte* block_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
  std::vector<std::pair<std::byte*, std::size_t>>
      full_;  // blocks of this call before the present one
};

/// Memory that init prepared for the runs of a model.
struct Prepared {
  explicit Prepared(std::size_t slots) : memory(slots, nullptr) {}
  ~Prepared();
  Prepared(const Prepared&) = delete;
  std::vector<void*> memory;  // by slot; null where nothing was prepared
};

/// One call of an entry point. The program sees the base.
struct Call : KilnCall {
  const Artifact* artifact = nullptr;
  const GraphSignature* graph = nullptr;
  const PrintOptions* print_options = nullptr;
  Arena* arena = nullptr;
  Outputs* outputs = nullptr;       // of run
  Prepared* prepared_by = nullptr;  // of init
};

/// The function table that calls point to.
const KilnRuntime& runtime_table();

/// The error that a program reports, framed with the entry and the user's source line.
std::string failure_text(const Artifact& artifact, const KilnFailure& failure,
                         std::span<const std::int64_t> values);

}  // namespace kiln::runtime
