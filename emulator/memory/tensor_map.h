#pragma once

#include <cstdint>

namespace kiln::emulator {

inline constexpr std::uint32_t kTensorMapMark = 0x4B544D31;

/// What the 128 opaque bytes of a tensor map hold. Hardware's layout is not documented; this one is
/// the emulator's own, made by cuTensorMapEncodeTiled and read by bulk copies of tensors.
struct TensorMap {
  std::uint32_t mark;  // kTensorMapMark
  std::uint8_t rank;   // 1 to 5
  std::uint8_t type;   // CUtensorMapDataType
  std::uint8_t element_bytes;
  std::uint8_t swizzle;      // 0 none, 1: 32 bytes, 2: 64, 3: 128
  std::uint64_t address;     // device address of element 0
  std::uint32_t extents[5];  // elements less one, the innermost first
  std::uint32_t reserved;
  std::uint64_t strides[4];  // bytes from one to the next, of dimensions 1 to 4
  std::uint16_t box[5];      // elements of the box
  std::uint8_t steps[5];     // every nth element is taken, by dimension
  std::uint8_t fill_nan;     // elements outside are NaN instead of zero
  std::uint8_t padding[40];
};
static_assert(sizeof(TensorMap) == 128);

}  // namespace kiln::emulator
