#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "kiln/dtype/dtype.h"

namespace kiln::runtime {

/// How `print` ops show tensors.
enum class PrintStyle : int {
  COMPACT = 0,
  FULL = 1,
  BINARY = 2,
  NONE = 3,
  BINARY_MAX_CHECKPOINT = 4
};

struct PrintOptions {
  PrintStyle style = PrintStyle::COMPACT;
  int precision = 6;      // digits after the point in FULL
  std::string directory;  // receives the files of the binary styles
};

/// Print options that may change while models run.
class PrintSettings {
 public:
  PrintOptions get() const {
    const std::lock_guard lock(mutex_);
    return options_;
  }
  void set(PrintOptions options) {
    const std::lock_guard lock(mutex_);
    options_ = std::move(options);
  }

 private:
  mutable std::mutex mutex_;
  PrintOptions options_;
};

/// The text of COMPACT or FULL for a dense tensor, without a line end: "x = tensor([[1, 2]], …)".
std::string tensor_text(const std::string& label, DType dtype, std::span<const std::int64_t> shape,
                        const void* data, const PrintOptions& options);

/// Prints "label = text", or writes the text as the bytes it is; errors as for a tensor.
void print_text(const std::string& label, const std::string& text, const PrintOptions& options);

/// Prints a dense tensor to standard output or into a file, as the style says. A file that cannot
/// be written: RuntimeError.
void print_tensor(const std::string& label, DType dtype, std::span<const std::int64_t> shape,
                  const void* data, const PrintOptions& options);

}  // namespace kiln::runtime
