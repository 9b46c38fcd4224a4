#pragma once

#include <cstdint>

namespace kiln::emulator {

struct RunningBlock;

/// Element types of matrix instructions.
enum class MatrixType : std::uint8_t { f16, bf16, tf32, f64, s8, u8, e4m3, e5m2, f32, s32 };

enum class MatrixKind : std::uint8_t { load, store, transpose, multiply };

/// A matrix operation of a warp, as generated code and the runtime pass it in 24 bits.
struct MatrixForm {
  MatrixKind kind = MatrixKind::multiply;
  // load, store: how many 8 x 8 matrices, and whether they are transposed
  std::uint8_t count = 1;
  bool transposed = false;
  // multiply
  bool wmma = false;       // fragments as wmma.load makes them
  std::uint8_t shape = 0;  // index into kMatrixShapes
  MatrixType a = MatrixType::f16, b = MatrixType::f16, c = MatrixType::f32, d = MatrixType::f32;
  bool saturate = false;

  std::uint32_t pack() const;
  static MatrixForm unpack(std::uint32_t code);
};

struct MatrixShape {
  std::uint8_t m, n, k;
};
constexpr MatrixShape kMatrixShapes[] = {{16, 8, 4},  {16, 8, 8},  {16, 8, 16},
                                         {16, 8, 32}, {8, 8, 4},   {16, 16, 16},
                                         {32, 8, 16}, {8, 32, 16}, {16, 16, 8}};

/// What a lane passes: its registers, as 32-bit words.
struct MatrixLane {
  // multiply: a, b, c, d. load, store: `pointer` is the lane's row, `d` (load) or `a` the data.
  // transpose: from a to d.
  std::uint32_t a[8], b[8], c[8], d[8];
  void* pointer;
};

constexpr unsigned bits_of(MatrixType type) {
  switch (type) {
    case MatrixType::f16:
    case MatrixType::bf16:
      return 16;
    case MatrixType::s8:
    case MatrixType::u8:
    case MatrixType::e4m3:
    case MatrixType::e5m2:
      return 8;
    case MatrixType::f64:
      return 64;
    default:
      return 32;
  }
}

/// Performs an operation for a whole warp. Lanes that are not in `mask` have no data.
void matrix_operation(RunningBlock* block, std::uint32_t code, void* const (&lanes)[32],
                      std::uint32_t mask);

}  // namespace kiln::emulator
