#include <cstring>
#include <limits>

#include "kiln/driver/buffer.h"
#include "kiln/driver/storage.h"
#include "kiln/dtype/element.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "kiln/support/process.h"

// Slices, views and element stores of Buffer.

namespace kiln::driver {
namespace {

using detail::BufferState;

std::int64_t checked_index(std::int64_t index, std::size_t axis, std::int64_t size) {
  const std::int64_t wrapped = index < 0 ? index + size : index;
  if (wrapped < 0 || wrapped >= size)
    throw IndexError(
        format("index {} is out of bounds for axis {} with size {}", index, axis, size));
  return wrapped;
}

struct Range {
  std::int64_t start;
  std::int64_t step;
  std::int64_t count;
};

/// What `slice(start, stop, step).indices(size)` of Python gives.
Range clamped(const Slice& slice, std::int64_t size) {
  const std::int64_t step = slice.step.value_or(1);
  if (step == 0) throw ValueError("slice step cannot be zero");
  const std::int64_t lower = step > 0 ? 0 : -1;
  const std::int64_t upper = step > 0 ? size : size - 1;
  const auto clamp = [&](std::int64_t value) {
    if (value < 0) {
      value = value < -size ? lower : value + size;
      return std::max(value, lower);
    }
    return std::min(value, upper);
  };
  const std::int64_t start = slice.start ? clamp(*slice.start) : (step > 0 ? lower : upper);
  const std::int64_t stop = slice.stop ? clamp(*slice.stop) : (step > 0 ? upper : lower);
  const std::int64_t span = step > 0 ? stop - start : start - stop;
  if (span <= 0) return {start, step, 0};
  // The step's magnitude as unsigned: INT64_MIN has no positive counterpart.
  const std::uint64_t width =
      step > 0 ? static_cast<std::uint64_t>(step) : ~static_cast<std::uint64_t>(step) + 1;
  return {start, step,
          static_cast<std::int64_t>((static_cast<std::uint64_t>(span) - 1) / width + 1)};
}

/// Moves a window's start by `elements`.
void advance(BufferState& window, std::int64_t elements) {
  if (window.dtype.size_in_bits() >= 8) {
    window.data = static_cast<char*>(window.data) + elements * window.dtype.size_in_bytes();
    return;
  }
  const std::int64_t index = elements + (window.odd_start ? 1 : 0);
  window.data = static_cast<char*>(window.data) + (index >> 1);
  window.odd_start = (index & 1) != 0;
}

bool is_rank_0_index(std::span<const Index> indices) {
  if (indices.empty()) return true;
  if (indices.size() != 1) return false;
  const auto* index = std::get_if<std::int64_t>(&indices[0]);
  return index && (*index == 0 || *index == -1);
}

}  // namespace

Buffer Buffer::at(std::span<const Index> indices) const {
  const std::size_t rank = shape().size();
  if (rank == 0 && indices.size() == 1 && std::holds_alternative<std::int64_t>(indices[0]) &&
      !is_rank_0_index(indices))
    throw IndexError(format("index {} is out of bounds for axis 0 with size 1",
                            std::get<std::int64_t>(indices[0])));
  const bool scalar = rank == 0 && is_rank_0_index(indices);
  if (!scalar && indices.size() != rank)
    throw ValueError(format("expected {} indices but got {}", rank, indices.size()));
  Shape new_shape;
  Shape new_strides;
  std::int64_t offset = 0;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t size = shape()[axis];
    const std::int64_t stride = strides()[axis];
    if (const auto* index = std::get_if<std::int64_t>(&indices[axis])) {
      offset += checked_index(*index, axis, size) * stride;
      continue;
    }
    const Range range = clamped(std::get<Slice>(indices[axis]), size);
    if (range.count > 0) offset += range.start * stride;
    new_shape.push_back(range.count);
    // A step too large to matter, since the axis then has at most one element.
    std::int64_t step = 0;
    new_strides.push_back(__builtin_mul_overflow(stride, range.step, &step) ? stride : step);
  }
  BufferState* window = StorageAccess::make_window(*state_);
  Buffer result(Ref<BufferState>::adopt(window));
  window->shape = std::move(new_shape);
  window->strides = std::move(new_strides);
  window->num_elements = kiln::num_elements(window->shape);
  window->contiguous = is_row_major(window->shape, window->strides);
  if (window->num_elements > 0) advance(*window, offset);
  return result;
}

void Buffer::set(std::span<const Index> indices, const Scalar& value) const {
  check_call("Buffer.set");
  for (const Index& index : indices)
    if (std::holds_alternative<Slice>(index))
      throw NotImplementedError("cannot assign across multiple indices");
  const Buffer element = at(indices);
  // Converted before any wait, so that a bad value costs nothing. Two bytes of room: a half byte's
  // neighbour is kept by the store below.
  std::uint64_t converted = 0;
  store_element(dtype(), &converted, 0, value);
  wait_for_host_write();
  if (!is_host() && !pinned()) {
    // Kernels may use it of which nothing is recorded.
    QueueBackend& queue = *state_->queue;
    queue.timeline().wait(queue.submitted());
    DeviceBackend& device = *state_->device;
    const auto bytes = static_cast<std::size_t>(element_size());
    if (dtype().size_in_bits() < 8) {
      device.copy_to_host(&converted, element.data(), bytes);
      store_element(dtype(), &converted, element.state_->odd_start ? 1 : 0, value);
    }
    device.copy_from_host(element.data(), &converted, bytes);
  } else if (dtype().size_in_bits() < 8)
    store_element(dtype(), element.data(), element.state_->odd_start ? 1 : 0, value);
  else
    std::memcpy(element.data(), &converted, static_cast<std::size_t>(element_size()));
  element.record_finished_write();
}

Buffer Buffer::view(DType new_dtype, const std::optional<Shape>& new_shape) const {
  const int old_bits = dtype().size_in_bits();
  const int new_bits = new_dtype.size_in_bits();
  BufferState* window = StorageAccess::make_window(*state_);
  Buffer result(Ref<BufferState>::adopt(window));
  window->dtype = new_dtype;
  const auto refuse_half_byte = [&] {
    if (state_->odd_start && new_bits != 4)
      throw ValueError(
          format("Buffer.view: the buffer starts in the middle of a byte, so it cannot "
                 "be viewed as {}.",
                 new_dtype.name()));
  };
  if (new_shape) {
    if (!is_contiguous())
      throw ValueError(
          format("Buffer.view: a buffer of shape {} and strides {} is not contiguous, "
                 "so it cannot take the shape {}. Take contiguous() first.",
                 shape().to_string(), strides().to_string(), new_shape->to_string()));
    check_rank(*new_shape);
    const std::int64_t count = kiln::num_elements(*new_shape);
    const auto bits = [](std::int64_t elements, int width) {
      return static_cast<__int128>(elements) * width;
    };
    if (bits(count, new_bits) != bits(num_elements(), old_bits))
      throw ValueError(format(
          "Buffer.view: shape {} of {} takes {} elements of {} bits, but shape {} of {} is {} "
          "of {} bits.",
          new_shape->to_string(), new_dtype.name(), count, new_bits, shape().to_string(),
          dtype().name(), num_elements(), old_bits));
    refuse_half_byte();
    window->shape = *new_shape;
    window->strides = row_major_strides(*new_shape);
    window->num_elements = count;
    window->contiguous = true;
    return result;
  }
  window->shape = shape();
  window->strides = strides();
  if (new_bits == old_bits) return result;
  if (shape().empty())
    throw ValueError(
        format("Buffer.view: a rank-0 buffer of {} has no axis to resize for {}; give a "
               "shape or a type of the same width.",
               dtype().name(), new_dtype.name()));
  const std::size_t last = shape().size() - 1;
  const std::int64_t extent = shape()[last];
  const bool empty = num_elements() == 0;  // no step of it matters
  if (extent > 1 && strides()[last] != 1 && !empty)
    throw ValueError(
        format("Buffer.view: the last axis has step {}; only a dense last axis can be "
               "resized from {} to {}.",
               strides()[last], dtype().name(), new_dtype.name()));
  if ((static_cast<__int128>(extent) * old_bits) % new_bits != 0)
    throw ValueError(format("Buffer.view: {} elements of {} are no whole number of {} elements.",
                            extent, dtype().name(), new_dtype.name()));
  refuse_half_byte();
  const __int128 count = static_cast<__int128>(extent) * old_bits / new_bits;
  if (count > std::numeric_limits<std::int64_t>::max())
    throw ValueError(format("Buffer.view: {} elements of {} would be more than 2^63 - 1 of {}.",
                            extent, dtype().name(), new_dtype.name()));
  window->shape[last] = static_cast<std::int64_t>(count);
  window->strides[last] = 1;
  for (std::size_t axis = 0; axis < last; ++axis) {
    const __int128 bits = static_cast<__int128>(strides()[axis]) * old_bits;
    if (bits % new_bits != 0 && shape()[axis] > 1 && !empty)
      throw ValueError(
          format("Buffer.view: axis {} has a step of {} elements of {}, which is no "
                 "whole number of {} elements.",
                 axis, strides()[axis], dtype().name(), new_dtype.name()));
    window->strides[axis] = static_cast<std::int64_t>(bits / new_bits);
  }
  window->num_elements = kiln::num_elements(window->shape);
  window->contiguous = is_row_major(window->shape, window->strides);
  return result;
}

}  // namespace kiln::driver
