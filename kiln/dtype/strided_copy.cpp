#include "kiln/dtype/strided_copy.h"

#include <cstring>

#include "kiln/dtype/shape.h"

namespace kiln {
namespace {

/// One loop of the nest, after axes that continue each other have been joined.
struct Loop {
  std::int64_t extent;
  std::int64_t destination_step;
  std::int64_t source_step;
};

std::vector<Loop> joined_loops(std::span<const std::int64_t> shape,
                               std::span<const std::int64_t> destination,
                               std::span<const std::int64_t> source) {
  std::vector<Loop> loops;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == 1) continue;
    const Loop loop{shape[axis], destination[axis], source[axis]};
    if (!loops.empty() && loops.back().destination_step == loop.extent * loop.destination_step &&
        loops.back().source_step == loop.extent * loop.source_step) {
      loops.back() = {loops.back().extent * loop.extent, loop.destination_step, loop.source_step};
      continue;
    }
    loops.push_back(loop);
  }
  return loops;
}

template <typename Bits>
void copy_run(char* destination, const char* source, const Loop& loop) {
  for (std::int64_t i = 0; i < loop.extent; ++i) {
    Bits value;
    std::memcpy(&value, source + i * loop.source_step * std::int64_t{sizeof(Bits)}, sizeof(Bits));
    std::memcpy(destination + i * loop.destination_step * std::int64_t{sizeof(Bits)}, &value,
                sizeof(Bits));
  }
}

void copy_half_bytes(char* destination, std::int64_t to, const char* source, std::int64_t from,
                     const Loop& loop) {
  for (std::int64_t i = 0; i < loop.extent;
       ++i, to += loop.destination_step, from += loop.source_step) {
    const auto byte = static_cast<unsigned char>(source[from >> 1]);
    const unsigned value = (from & 1) != 0 ? byte >> 4 : byte & 15u;
    const auto old = static_cast<unsigned char>(destination[to >> 1]);
    destination[to >> 1] =
        static_cast<char>((to & 1) != 0 ? (old & 15u) | value << 4 : (old & 0xf0u) | value);
  }
}

void copy_innermost(DType dtype, const StridedElements& d, std::int64_t to,
                    const StridedElements& s, std::int64_t from, const Loop& loop) {
  auto* destination = static_cast<char*>(d.base);
  const auto* source = static_cast<const char*>(s.base);
  if (dtype.size_in_bits() < 8) {
    copy_half_bytes(destination, to, source, from, loop);
    return;
  }
  const std::int64_t size = dtype.size_in_bytes();
  destination += to * size;
  source += from * size;
  if (loop.destination_step == 1 && loop.source_step == 1) {
    std::memcpy(destination, source, static_cast<std::size_t>(loop.extent * size));
    return;
  }
  switch (size) {
    case 1:
      return copy_run<std::uint8_t>(destination, source, loop);
    case 2:
      return copy_run<std::uint16_t>(destination, source, loop);
    case 4:
      return copy_run<std::uint32_t>(destination, source, loop);
    default:
      return copy_run<std::uint64_t>(destination, source, loop);
  }
}

}  // namespace

void copy_elements(DType dtype, std::span<const std::int64_t> shape,
                   const StridedElements& destination, const StridedElements& source) {
  if (num_elements(shape) == 0) return;
  std::vector<Loop> loops = joined_loops(shape, destination.strides, source.strides);
  if (loops.empty()) loops.push_back({1, 1, 1});
  const Loop innermost = loops.back();
  loops.pop_back();
  std::vector<std::int64_t> position(loops.size(), 0);
  std::int64_t to = destination.index;
  std::int64_t from = source.index;
  for (;;) {
    copy_innermost(dtype, destination, to, source, from, innermost);
    std::size_t axis = loops.size();
    for (;;) {
      if (axis == 0) return;
      --axis;
      to += loops[axis].destination_step;
      from += loops[axis].source_step;
      if (++position[axis] < loops[axis].extent) break;
      to -= loops[axis].extent * loops[axis].destination_step;
      from -= loops[axis].extent * loops[axis].source_step;
      position[axis] = 0;
    }
  }
}

}  // namespace kiln
