#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace kiln {

/// A list of 64-bit integers: extents, strides or indices. Up to 8 live inside the object, more on
/// the heap. Values are not checked here; `Buffer` and others say what they accept.
class Shape {
 public:
  static constexpr std::size_t kInline = 8;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims) { assign(dims.begin(), dims.size()); }
  Shape(std::span<const std::int64_t> dims) {  // NOLINT: any list of integers is a shape
    assign(dims.data(), dims.size());
  }
  Shape(const std::vector<std::int64_t>& dims) {  // NOLINT
    assign(dims.data(), dims.size());
  }
  /// `rank` times `value`.
  static Shape filled(std::size_t rank, std::int64_t value);

  Shape(const Shape& other) { assign(other.data(), other.size_); }
  Shape(Shape&& other) noexcept { steal(other); }
  Shape& operator=(const Shape& other) {
    if (this != &other) {
      clear();
      assign(other.data(), other.size_);
    }
    return *this;
  }
  Shape& operator=(Shape&& other) noexcept {
    if (this != &other) {
      clear();
      steal(other);
    }
    return *this;
  }
  ~Shape() {
    if (size_ > kInline) [[unlikely]]
      delete[] heap_;
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int rank() const { return static_cast<int>(size_); }
  std::int64_t* data() { return size_ > kInline ? heap_ : inline_; }
  const std::int64_t* data() const { return size_ > kInline ? heap_ : inline_; }
  std::int64_t& operator[](std::size_t i) { return data()[i]; }
  std::int64_t operator[](std::size_t i) const { return data()[i]; }
  std::int64_t back() const { return data()[size_ - 1]; }
  std::int64_t* begin() { return data(); }
  std::int64_t* end() { return data() + size_; }
  const std::int64_t* begin() const { return data(); }
  const std::int64_t* end() const { return data() + size_; }
  /// Becomes the steps of a row-major layout of `shape`; see `row_major_strides`.
  void assign_row_major(const Shape& shape) {
    if (size_ <= kInline && shape.size_ <= kInline) [[likely]]
      size_ = shape.size_;
    else
      resize(shape.size_);
    const std::int64_t* extents = shape.data();
    std::int64_t* steps = data();
    // Unsigned: a shape with a 0 may have other extents whose product wraps; such steps are unused.
    std::uint64_t step = 1;
    for (std::size_t axis = size_; axis-- > 0;) {
      steps[axis] = static_cast<std::int64_t>(step);
      step *= static_cast<std::uint64_t>(extents[axis] == 0 ? 1 : extents[axis]);
    }
  }
  void push_back(std::int64_t value);
  void clear() {
    if (size_ > kInline) [[unlikely]]
      delete[] heap_;
    size_ = 0;
  }
  /// Keeps the first values and fills up with `value`.
  void resize(std::size_t size, std::int64_t value = 0);

  operator std::span<const std::int64_t>() const { return {data(), size_}; }  // NOLINT
  std::vector<std::int64_t> to_vector() const { return {begin(), end()}; }
  /// As Python writes a tuple: "()", "(2,)", "(2, 3)".
  std::string to_string() const;

  friend bool operator==(const Shape& a, const Shape& b) {
    return a.size_ == b.size_ &&
           std::memcmp(a.data(), b.data(), a.size_ * sizeof(std::int64_t)) == 0;
  }

 private:
  void assign(const std::int64_t* from, std::size_t size) {
    if (size > kInline) [[unlikely]]
      heap_ = new std::int64_t[size];
    size_ = size;
    if (size > kInline) [[unlikely]] {
      std::memcpy(heap_, from, size * sizeof(std::int64_t));
      return;
    }
    for (std::size_t i = 0; i < size; ++i) inline_[i] = from[i];
  }
  void steal(Shape& other) {
    if (other.size_ > kInline) [[unlikely]] {
      heap_ = other.heap_;
      size_ = other.size_;
      other.size_ = 0;
    } else {
      assign(other.inline_, other.size_);
    }
  }

  std::size_t size_ = 0;
  union {
    std::int64_t inline_[kInline];
    std::int64_t* heap_;  // when size_ > kInline
  };
};

namespace detail {
/// `num_elements` where it is 0 or fails.
std::int64_t num_elements_slow(std::span<const std::int64_t> shape);
}  // namespace detail

/// Product of the extents, 1 for none. A negative extent or a product over 2^63 - 1: ValueError
/// (a 0 anywhere makes the product 0).
inline std::int64_t num_elements(std::span<const std::int64_t> shape) {
  std::int64_t product = 1;
  for (std::int64_t extent : shape)
    if (extent <= 0 || __builtin_mul_overflow(product, extent, &product)) [[unlikely]]
      return detail::num_elements_slow(shape);
  return product;
}
/// Steps in elements of a row-major layout; an extent of 0 counts as 1.
Shape row_major_strides(std::span<const std::int64_t> shape);
/// Whether elements lie in row-major order without gaps; axes of size 1 and empty shapes never
/// break it.
bool is_row_major(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides);

}  // namespace kiln
