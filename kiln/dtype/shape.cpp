#include "kiln/dtype/shape.h"

#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln {

Shape Shape::filled(std::size_t rank, std::int64_t value) {
  Shape result;
  result.resize(rank, value);
  return result;
}

void Shape::resize(std::size_t size, std::int64_t value) {
  const std::size_t old = size_;
  const std::size_t kept = old < size ? old : size;
  if (old <= kInline && size <= kInline) {
    size_ = size;
  } else {
    std::vector<std::int64_t> values(begin(), begin() + kept);
    values.resize(size);
    clear();
    assign(values.data(), size);
  }
  for (std::size_t i = kept; i < size; ++i) data()[i] = value;
}

void Shape::push_back(std::int64_t value) { resize(size_ + 1, value); }

std::string Shape::to_string() const {
  if (size_ == 1) return format("({},)", data()[0]);
  return format("({})", join(begin(), end(), ", "));
}

std::int64_t detail::num_elements_slow(std::span<const std::int64_t> shape) {
  std::int64_t product = 1;
  bool overflow = false;
  bool has_zero = false;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] < 0)
      throw ValueError(
          format("The shape {} has the negative dimension {} at axis {}; dimensions "
                 "are 0 or more.",
                 Shape(shape).to_string(), shape[axis], axis));
    has_zero |= shape[axis] == 0;
    if (!overflow) overflow = __builtin_mul_overflow(product, shape[axis], &product);
  }
  if (has_zero) return 0;
  if (overflow)
    throw ValueError(
        format("The shape {} has more than 2^63 - 1 elements.", Shape(shape).to_string()));
  return product;
}

Shape row_major_strides(std::span<const std::int64_t> shape) {
  Shape strides;
  strides.assign_row_major(Shape(shape));
  return strides;
}

bool is_row_major(std::span<const std::int64_t> shape, std::span<const std::int64_t> strides) {
  for (std::int64_t extent : shape)
    if (extent == 0) return true;
  std::int64_t step = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] == 1) continue;
    if (strides[axis] != step) return false;
    step *= shape[axis];
  }
  return true;
}

}  // namespace kiln
