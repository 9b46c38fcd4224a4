#include "kiln/runtime/print.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <system_error>

#include "kiln/dtype/element.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::runtime {
namespace {

constexpr std::int64_t kEdgeItems = 3;  // shown at either end of a long axis
constexpr std::int64_t kLongAxis = 6;

std::string number_text(const Scalar& value, const PrintOptions& options) {
  if (value.is_float()) {
    const double number = value.to<double>();
    if (std::isnan(number)) return "nan";
    if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
    return options.style == PrintStyle::FULL ? format("{:.{}e}", number, options.precision)
                                             : format("{:.4f}", number);
  }
  if (value.is_bool()) return value.to<bool>() ? "true" : "false";
  if (const auto* number = std::get_if<std::uint64_t>(&value)) return format("{}", *number);
  return format("{}", value.to<std::int64_t>());
}

class CompactText {
 public:
  CompactText(DType dtype, std::span<const std::int64_t> shape, const void* data,
              const PrintOptions& options)
      : dtype_(dtype), shape_(shape), data_(data), options_(options) {}

  std::string text() {
    // Numbers and rows are shown as matrices.
    for (std::size_t rank = shape_.size(); rank < 2; ++rank) text_ += '[';
    axis(0, 0);
    for (std::size_t rank = shape_.size(); rank < 2; ++rank) text_ += ']';
    return std::move(text_);
  }

 private:
  void axis(std::size_t depth, std::int64_t index) {
    if (depth == shape_.size()) {
      text_ += number_text(load_element(dtype_, data_, index), options_);
      return;
    }
    const std::int64_t size = shape_[depth];
    const bool innermost = depth + 1 == shape_.size();
    const std::string separator = innermost ? ", " : ",\n" + std::string(depth + 1, ' ');
    text_ += '[';
    for (std::int64_t i = 0; i < size; ++i) {
      if (i > 0) text_ += separator;
      if (size > kLongAxis && i == kEdgeItems) {
        text_ += "..." + separator;
        i = size - kEdgeItems;
      }
      axis(depth + 1, index * size + i);
    }
    text_ += ']';
  }

  DType dtype_;
  std::span<const std::int64_t> shape_;
  const void* data_;
  const PrintOptions& options_;
  std::string text_;
};

std::int64_t count(std::span<const std::int64_t> shape) {
  std::int64_t elements = 1;
  for (std::int64_t size : shape) elements *= size;
  return elements;
}

void append(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
}

/// The head of a checkpoint file; the data follows.
std::string checkpoint_head(const std::string& label, DType dtype,
                            std::span<const std::int64_t> shape) {
  std::string head = "\x93\xF0\x9F\x94\xA5\x2B\x2B\x93";
  append(head, 0, 4);
  append(head, 1, 4);
  const std::uint64_t metadata = 4 + label.size() + 2 + 4 * shape.size() + 8;
  append(head, metadata, 8);
  append(head, label.size(), 4);
  head += label;
  append(head, dtype.code(), 1);
  append(head, shape.size(), 1);
  for (std::int64_t size : shape) append(head, static_cast<std::uint64_t>(size), 4);
  append(head, head.size() + 8, 8);
  return head;
}

void write_file(const std::string& path, const std::string& head, const void* data,
                std::size_t bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  bool good = file != nullptr;
  if (good && !head.empty()) good = std::fwrite(head.data(), head.size(), 1, file) == 1;
  if (good && bytes > 0) good = std::fwrite(data, bytes, 1, file) == 1;
  int error = good ? 0 : errno;
  if (file != nullptr && std::fclose(file) != 0 && error == 0) error = errno;
  if (error != 0)
    throw RuntimeError(format("A print op cannot write the file '{}': {}.", path,
                              std::generic_category().message(error)));
}

void write_line(const std::string& text) {
  const std::string line = text + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

void print_text(const std::string& label, const std::string& text, const PrintOptions& options) {
  if (options.style == PrintStyle::COMPACT || options.style == PrintStyle::FULL)
    return write_line(format("{} = {}", label, text));
  const std::int64_t size = static_cast<std::int64_t>(text.size());
  print_tensor(label, DType::uint8, {&size, 1}, text.data(), options);
}

std::string tensor_text(const std::string& label, DType dtype, std::span<const std::int64_t> shape,
                        const void* data, const PrintOptions& options) {
  if (options.style == PrintStyle::FULL) {
    std::string text = format("{} = tensor<", label);
    for (std::int64_t size : shape) text += format("{}x", size);
    text += format("{}> [", dtype.text_name());
    const std::int64_t elements = count(shape);
    for (std::int64_t i = 0; i < elements; ++i) {
      if (i > 0) text += ", ";
      text += number_text(load_element(dtype, data, i), options);
    }
    return text + "]";
  }
  std::string text = format("{} = tensor(", label);
  text += CompactText(dtype, shape, data, options).text();
  return text + format(", dtype={}, shape=[{}])", dtype.text_name(), join(shape, ","));
}

void print_tensor(const std::string& label, DType dtype, std::span<const std::int64_t> shape,
                  const void* data, const PrintOptions& options) {
  switch (options.style) {
    case PrintStyle::NONE:
      return;
    case PrintStyle::COMPACT:
    case PrintStyle::FULL:
      return write_line(tensor_text(label, dtype, shape, data, options));
    case PrintStyle::BINARY:
      write_file(options.directory + "/" + label, "", data, bytes_for(dtype, count(shape)));
      return;
    case PrintStyle::BINARY_MAX_CHECKPOINT:
      write_file(options.directory + "/" + label + ".max", checkpoint_head(label, dtype, shape),
                 data, bytes_for(dtype, count(shape)));
      return;
  }
}

}  // namespace kiln::runtime
