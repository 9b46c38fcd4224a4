#pragma once

#include <span>
#include <string_view>

namespace kiln::compiler::kernel_source {

/// A header that kernels can include; `path` is as an #include in angle brackets says it.
struct Text {
  std::string_view path;
  std::string_view text;
};

/// The headers that are part of this library. Each text ends with a null byte behind its end.
std::span<const Text> texts();

/// Bitcode of the mathematical functions for GPUs.
std::string_view math_bitcode();

}  // namespace kiln::compiler::kernel_source
