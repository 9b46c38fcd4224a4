#include "tools/npy.h"

#include <cstring>
#include <optional>
#include <vector>

#include "kiln/dtype/element.h"
#include "kiln/support/error.h"
#include "kiln/support/file.h"
#include "kiln/support/format.h"

namespace kiln::tools {
namespace {

constexpr char kMagic[] = "\x93NUMPY";

/// NumPy's type strings without the byte order.
constexpr std::pair<std::string_view, DType> kTypes[] = {
    {"b1", DType::bool_},  {"i1", DType::int8},    {"u1", DType::uint8},   {"i2", DType::int16},
    {"u2", DType::uint16}, {"i4", DType::int32},   {"u4", DType::uint32},  {"i8", DType::int64},
    {"u8", DType::uint64}, {"f2", DType::float16}, {"f4", DType::float32}, {"f8", DType::float64}};

/// Reads the dictionary of a header: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
class HeaderText {
 public:
  explicit HeaderText(std::string_view text) : text_(text) {}

  std::string_view string_after(std::string_view key) {
    std::string_view rest = after(key);
    if (rest.empty() || (rest[0] != '\'' && rest[0] != '"')) refuse();
    const std::size_t end = rest.find(rest[0], 1);
    if (end == std::string_view::npos) refuse();
    return rest.substr(1, end - 1);
  }
  bool bool_after(std::string_view key) {
    const std::string_view rest = after(key);
    if (rest.starts_with("True")) return true;
    if (rest.starts_with("False")) return false;
    refuse();
  }
  Shape shape_after(std::string_view key) {
    std::string_view rest = after(key);
    if (!rest.starts_with('(')) refuse();
    rest.remove_prefix(1);
    Shape shape;
    while (true) {
      while (!rest.empty() && (rest[0] == ' ' || rest[0] == ',')) rest.remove_prefix(1);
      if (rest.empty()) refuse();
      if (rest[0] == ')') return shape;
      std::int64_t size = 0;
      std::size_t digits = 0;
      while (digits < rest.size() && rest[digits] >= '0' && rest[digits] <= '9') {
        if (__builtin_mul_overflow(size, std::int64_t{10}, &size) ||
            __builtin_add_overflow(size, std::int64_t{rest[digits] - '0'}, &size))
          refuse();
        ++digits;
      }
      if (digits == 0) refuse();
      rest.remove_prefix(digits);
      shape.push_back(size);
    }
  }

 private:
  [[noreturn]] static void refuse() { throw ValueError("its header cannot be read"); }
  std::string_view after(std::string_view key) {
    for (char quote : {'\'', '"'}) {
      const std::size_t at = text_.find(quote + std::string(key) + quote);
      if (at == std::string_view::npos) continue;
      std::string_view rest = text_.substr(at + key.size() + 2);
      while (!rest.empty() && (rest[0] == ' ' || rest[0] == ':')) rest.remove_prefix(1);
      return rest;
    }
    refuse();
  }
  std::string_view text_;
};

DType dtype_of(std::string_view descr) {
  if (descr.size() == 3 && (descr[0] == '<' || descr[0] == '|' || descr[0] == '='))
    for (const auto& [text, dtype] : kTypes)
      if (text == descr.substr(1)) return dtype;
  throw ValueError(format("its element type '{}' is not supported", descr));
}

/// Row-major elements from column-major ones.
void transpose_into(driver::Buffer& to, const char* from) {
  const Shape& shape = to.shape();
  const auto size = static_cast<std::size_t>(to.element_size());
  std::vector<std::int64_t> index(shape.size(), 0);
  char* out = static_cast<char*>(to.data());
  for (std::int64_t i = 0; i < to.num_elements(); ++i) {
    std::int64_t offset = 0;
    for (std::size_t axis = shape.size(); axis-- > 0;) offset = offset * shape[axis] + index[axis];
    std::memcpy(out + static_cast<std::size_t>(i) * size,
                from + static_cast<std::size_t>(offset) * size, size);
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      if (++index[axis] < shape[axis]) break;
      index[axis] = 0;
    }
  }
}

driver::Buffer parse(std::string_view bytes) {
  if (bytes.size() < 10 || bytes.substr(0, 6) != std::string_view(kMagic, 6))
    throw ValueError("it is no .npy file");
  auto number = [&](std::size_t at, std::size_t count) {
    std::size_t value = 0;
    for (std::size_t i = 0; i < count; ++i)
      value |= static_cast<std::size_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
    return value;
  };
  const int major = bytes[6];
  if (major < 1 || major > 3) throw ValueError(format("its version {} is not known", major));
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  if (bytes.size() < 8 + length_bytes) throw ValueError("it is cut off");
  const std::size_t begin = 8 + length_bytes;
  const std::size_t header_bytes = number(8, length_bytes);
  if (header_bytes > bytes.size() - begin) throw ValueError("it is cut off");
  HeaderText header(bytes.substr(begin, header_bytes));
  const DType dtype = dtype_of(header.string_after("descr"));
  const Shape shape = header.shape_after("shape");
  const std::string_view data = bytes.substr(begin + header_bytes);
  std::int64_t expected = dtype.size_in_bytes();
  if (__builtin_mul_overflow(expected, num_elements(shape), &expected) ||
      data.size() != static_cast<std::uint64_t>(expected))
    throw ValueError(format("it has {} bytes of data, which does not fit its shape {}", data.size(),
                            shape.to_string()));
  driver::Buffer buffer(dtype, shape);
  if (header.bool_after("fortran_order") && shape.size() > 1)
    transpose_into(buffer, data.data());
  else if (!data.empty())
    std::memcpy(buffer.data(), data.data(), data.size());
  return buffer;
}

std::string descr_of(DType dtype) {
  for (const auto& [text, own] : kTypes)
    if (own == dtype) return format("{}{}", dtype.size_in_bytes() == 1 ? '|' : '<', text);
  return dtype.size_in_bytes() == 2 ? "<u2" : "|u1";
}

}  // namespace

driver::Buffer read_npy(const std::string& path) {
  const std::string bytes = read_file(path);
  try {
    return parse(bytes);
  } catch (const ValueError& error) {
    throw ValueError(format("'{}' cannot be used: {}", path, error.message()));
  }
}

void write_npy(const std::string& path, const driver::Buffer& buffer) {
  std::string shape = "(";
  for (std::size_t i = 0; i < buffer.shape().size(); ++i) {
    // float4 elements are written as the bytes that hold them.
    std::int64_t size = buffer.shape()[i];
    if (buffer.dtype().size_in_bits() < 8 && i + 1 == buffer.shape().size()) size = (size + 1) / 2;
    shape += format("{}{}", size, i + 1 == buffer.shape().size() && i > 0 ? "" : ", ");
  }
  std::string header = format("{{'descr': '{}', 'fortran_order': False, 'shape': {}), }}",
                              descr_of(buffer.dtype()), shape);
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string head(kMagic, 6);
  head += '\1';
  head += '\0';
  head += static_cast<char>(header.size() & 0xFF);
  head += static_cast<char>(header.size() >> 8);
  const std::string_view parts[] = {
      head, header, {static_cast<const char*>(buffer.data()), buffer.byte_size()}};
  write_file(path, parts);
}

}  // namespace kiln::tools
