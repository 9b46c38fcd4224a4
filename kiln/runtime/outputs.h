#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "kiln/driver/buffer.h"

namespace kiln::runtime {

/// The results of a call, in order. Up to four live inside the object.
class Outputs {
 public:
  Outputs() = default;
  /// `count` empty handles.
  explicit Outputs(std::size_t count) : size_(count) {
    if (count > kInline) heap_ = std::make_unique<driver::Buffer[]>(count);
  }
  Outputs(Outputs&& other) noexcept { *this = std::move(other); }
  Outputs& operator=(Outputs&& other) noexcept {
    std::move(other.inline_, other.inline_ + kInline, inline_);
    heap_ = std::move(other.heap_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

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

  std::vector<driver::Buffer> to_vector() const { return {begin(), end()}; }
  operator std::vector<driver::Buffer>() const { return to_vector(); }  // NOLINT

 private:
  static constexpr std::size_t kInline = 4;
  driver::Buffer inline_[kInline];
  std::unique_ptr<driver::Buffer[]> heap_;
  std::size_t size_ = 0;
};

}  // namespace kiln::runtime
