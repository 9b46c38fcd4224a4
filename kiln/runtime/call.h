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
#include "kiln/runtime/outputs.h"
#include "kiln/runtime/print.h"
#include "kiln/support/sanitizer.h"

namespace kiln::runtime {

/// Working memory that is handed out from the front and taken back as a whole. It keeps its memory,
/// so that a call like the last one allocates nothing.
class Arena {
 public:
  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;

  /// 64-byte aligned; not null for 0 bytes. Out of memory: ValueError.
  void* allocate(std::int64_t bytes) {
    const std::size_t size = size_of(static_cast<std::size_t>(bytes));
    if (bytes > 0 && size <= capacity_ - used_) [[likely]] {
      std::byte* at = block_ + used_;
      used_ += size;
      unpoison(at, static_cast<std::size_t>(bytes));
      return at;
    }
    return allocate_slow(bytes);
  }
  /// Takes everything back.
  void reset() {
    if (!full_.empty()) [[unlikely]]
      merge(0);
    poison(block_, used_);
    used_ = 0;
  }
  /// Where it stands. `release(mark)` takes back what was handed out since.
  std::int64_t mark() const {
    return static_cast<std::int64_t>(full_.size() << kMarkShift | used_ / kAlignment);
  }
  void release(std::int64_t mark) {
    const auto blocks = static_cast<std::size_t>(mark) >> kMarkShift;
    std::size_t used = 0;
    if (full_.size() == blocks)
      used = (static_cast<std::size_t>(mark) & ((std::size_t{1} << kMarkShift) - 1)) * kAlignment;
    else if (full_.size() > blocks + 1) [[unlikely]]
      merge(blocks + 1);
    poison(block_ + used, used_ - used);
    used_ = used;
  }
  /// Bytes it holds on to.
  std::size_t capacity() const { return capacity_; }

 private:
  static constexpr std::size_t kAlignment = 64;
  static constexpr int kMarkShift =
      48;  // a mark: full blocks, and the units used of the present one
  /// What is taken for `bytes`: AddressSanitizer gets bytes between allocations to guard.
  static std::size_t size_of(std::size_t bytes) {
    const std::size_t guard = kAddressSanitizer ? kAlignment : 0;
    return ((bytes + kAlignment - 1) & ~(kAlignment - 1)) + guard;
  }
  void* allocate_slow(std::int64_t bytes);
  void merge(std::size_t first);

  std::byte* block_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
  std::vector<std::pair<std::byte*, std::size_t>>
      full_;  // blocks of this call before the present one
};

/// Memory that init prepared for the runs of a model. What is used one after the other lies so,
/// too.
struct Prepared {
  explicit Prepared(std::size_t slots) : memory(slots, nullptr) {}
  Prepared(const Prepared&) = delete;
  std::vector<void*> memory;  // by slot, in `arena`; null where nothing was prepared
  Arena arena;
};

/// The ways that a call takes where data decides: for each decision what runs next.
struct Choices {
  /// Beyond it no more are kept.
  static constexpr std::size_t kMost = std::size_t{1} << 20;
  std::vector<const char*> launches;  // texts of the program
};

/// One call of an entry point. The program sees the base.
struct Call : KilnCall {
  const Artifact* artifact = nullptr;
  const GraphSignature* graph = nullptr;
  const PrintSettings* print_settings = nullptr;
  Arena* arena = nullptr;
  Outputs* outputs = nullptr;       // of run
  Prepared* prepared_by = nullptr;  // of init
  Choices* choices = nullptr;       // of a call that is traced
};

/// The function table that calls point to.
const KilnRuntime& runtime_table();
/// That of calls whose results have their memory already.
const KilnRuntime& replay_table();

/// The error that a program reports, framed with the entry and the user's source line.
std::string failure_text(const Artifact& artifact, const KilnFailure& failure,
                         std::span<const std::int64_t> values);

}  // namespace kiln::runtime
