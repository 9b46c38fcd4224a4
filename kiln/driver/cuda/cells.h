#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

#include "kiln/driver/cuda/library.h"

namespace kiln::driver::cuda {

/// A 64-bit number in pinned memory that every stream and the host see, at first 0. Cells are never
/// used again, since a stream may still look at one whose queue is gone.
std::uint64_t* new_cell(Context context);

/// Lets a stream wait for the host: each `next` is a number that the stream waits for in the cell,
/// and the cell reaches it when that number and all before it are `open`ed. Thread-safe.
class Gate {
 public:
  explicit Gate(Context context) : cell_(new_cell(context)) {}
  std::uint64_t* cell() const { return cell_; }
  std::uint64_t next();
  void open(std::uint64_t number) noexcept;

 private:
  std::uint64_t* cell_;
  std::mutex mutex_;
  std::uint64_t last_ = 0, opened_ = 0;
  std::set<std::uint64_t> early_;  // opened, while one before is not
};

}  // namespace kiln::driver::cuda
