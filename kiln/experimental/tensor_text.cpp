// What a tensor looks like: the table of its elements in rows and blocks.

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/dtype/element.h"
#include "kiln/experimental/recording.h"
#include "kiln/experimental/tensor.h"
#include "kiln/support/format.h"

namespace kiln::experimental {
namespace {

constexpr std::int64_t kWhole = 1000;  // elements that are all shown
constexpr std::int64_t kEdge = 3;      // shown at each end of an axis that is cut
constexpr std::string_view kCut = "...";

std::string cell_text(DType dtype, const void* data, std::int64_t index) {
  const Scalar value = load_element(dtype, data, index);
  if (value.is_bool()) return value.to<bool>() ? "True" : "False";
  if (dtype.is_float()) {
    const double number = value.to<double>();
    return std::isnan(number) ? "nan" : format("{:.4g}", number);
  }
  if (std::holds_alternative<std::uint64_t>(value))
    return std::to_string(value.to<std::uint64_t>());
  return std::to_string(value.to<std::int64_t>());
}

using Lines = std::vector<std::string>;

class Table {
 public:
  explicit Table(const driver::Buffer& buffer)
      : buffer_(buffer), cut_(buffer.num_elements() > kWhole) {
    walk(0, 0, [&](std::int64_t element) {
      width_ = std::max(width_, cell_text(buffer_.dtype(), buffer_.data(), element).size());
    });
  }

  std::string text() const {
    const Lines lines = block(0, 0);
    std::string result;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (i > 0) result += lines[i].empty() ? "\n" : "\n ";
      result += lines[i];
    }
    return result;
  }

 private:
  std::int64_t extent(int axis) const { return buffer_.shape()[static_cast<std::size_t>(axis)]; }
  bool is_cut(int axis) const { return cut_ && extent(axis) > 2 * kEdge; }
  /// Elements from one index of an axis to the next.
  std::int64_t stride(int axis) const {
    std::int64_t count = 1;
    for (int inner = axis + 1; inner < buffer_.rank(); ++inner) count *= extent(inner);
    return count;
  }

  /// Calls `at(i)` for the indices that are shown, and `gap()` where some are not.
  template <typename At, typename Gap>
  void indices(int axis, const At& at, const Gap& gap) const {
    const std::int64_t size = extent(axis);
    for (std::int64_t i = 0; i < size; ++i) {
      if (is_cut(axis) && i == kEdge) {
        gap();
        i = size - kEdge;
      }
      at(i);
    }
  }

  template <typename Visit>
  void walk(int axis, std::int64_t base, const Visit& visit) const {
    if (axis == buffer_.rank()) return visit(base);
    indices(axis, [&](std::int64_t i) { walk(axis + 1, base + i * stride(axis), visit); }, [] {});
  }

  std::string row(int axis, std::int64_t base) const {
    std::string text;
    const auto add = [&](std::string_view cell) {
      if (!text.empty()) text += ' ';
      text += cell;
    };
    indices(
        axis,
        [&](std::int64_t i) {
          add(format("{:>{}}", cell_text(buffer_.dtype(), buffer_.data(), base + i), width_));
        },
        [&] { add(kCut); });
    return text;
  }

  /// The lines of everything from `axis` on: cells make a row, rows a page; then blocks stand side
  /// by side and below each other in turn.
  Lines block(int axis, std::int64_t base) const {
    const int inner = buffer_.rank() - axis;  // axes that are left
    if (inner == 1) return {row(axis, base)};
    std::vector<Lines> parts;
    indices(
        axis, [&](std::int64_t i) { parts.push_back(block(axis + 1, base + i * stride(axis))); },
        [&] { parts.push_back({std::string(kCut)}); });
    return inner % 2 == 1 ? beside(parts, inner) : below(parts, inner);
  }

  static Lines below(const std::vector<Lines>& parts, int inner) {
    Lines lines;
    for (const Lines& part : parts) {
      if (inner > 2 && !lines.empty()) lines.emplace_back();
      lines.insert(lines.end(), part.begin(), part.end());
    }
    return lines;
  }

  static Lines beside(const std::vector<Lines>& parts, int inner) {
    const std::string_view between = inner == 3 ? " | " : inner == 5 ? " : " : " ; ";
    std::size_t height = 0;
    for (const Lines& part : parts) height = std::max(height, part.size());
    Lines lines(height);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      std::size_t width = 0;
      for (const std::string& line : parts[p]) width = std::max(width, line.size());
      for (std::size_t i = 0; i < height; ++i) {
        const bool is_gap = parts[p].size() == 1 && parts[p][0] == kCut;
        const std::string& line = is_gap ? parts[p][0] : parts[p][i];
        const bool is_blank = !is_gap && line.empty();
        lines[i] +=
            format("{}{:<{}}", p == 0 || is_blank ? "" : between, line, is_blank ? 0 : width);
      }
    }
    return lines;
  }

  const driver::Buffer& buffer_;
  bool cut_;
  std::size_t width_ = 0;
};

std::string elements_text(const driver::Buffer& of) {
  if (of.num_elements() == 0) return "[]";
  const driver::Buffer buffer = of.is_host() && of.is_contiguous() ? of : of.copy(driver::CPU());
  buffer.wait_for_host_read();
  if (buffer.rank() == 0) return cell_text(buffer.dtype(), buffer.data(), 0);
  return format("[{}]", Table(buffer).text());
}

}  // namespace

std::string Tensor::to_string() const {
  if (is_empty()) return "Tensor()";
  if (is_distributed())
    return format("Tensor(shape={}, dtype=DType.{}, mapping={})", shape().to_string(),
                  dtype().name(), mapping().to_string());
  const std::string about =
      format("dtype=DType.{}, device={}", dtype().name(), device().to_string());
  if (real()) return format("Tensor({}, {})", elements_text(driver_tensor()), about);
  return format("Tensor(<unrealized>, shape={}, {})", type().shape.to_string(), about);
}

}  // namespace kiln::experimental
