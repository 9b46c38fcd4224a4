#include "emulator/execute/matrix.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "emulator/execute/rounding.h"
#include "emulator/execute/running_block.h"
#include "emulator/execute/runtime_functions.h"

// Matrix operations of a warp. A fragment spreads a matrix over the registers of 32 lanes. For mma
// the layout is PTX's: register r of lane l holds, with E elements in 32 bits, row l / 4 + 8 (r %
// 2) and columns (l % 4) E + 4 E (r / 2) onwards of a; b and the sums are alike. For wmma the
// layout is ours to choose: elements in row-major order, E at a time, over lanes and then
// registers.

namespace kiln::emulator {
namespace {

constexpr unsigned kMaxRows = 32, kMaxDepth = 32, kMaxColumns = 32;

float from_half(std::uint32_t bits) {
  const std::uint32_t magnitude = bits & 0x7fff;
  // 2^112 moves the exponent's bias; subnormals come out right by themselves.
  float value = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  if (magnitude >= 0x7c00) value = std::bit_cast<float>(0x7f800000 | (magnitude & 0x3ff) << 13);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | (bits & 0x8000) << 16);
}

template <typename T>
T element(const std::uint32_t* registers, MatrixType type, unsigned index) {
  switch (type) {
    case MatrixType::f64: {
      double value;
      std::memcpy(&value, registers + 2 * std::size_t{index}, sizeof value);
      return static_cast<T>(value);
    }
    case MatrixType::f32:
      return static_cast<T>(std::bit_cast<float>(registers[index]));
    case MatrixType::tf32:
      return static_cast<T>(std::bit_cast<float>(registers[index] & 0xffffe000));
    case MatrixType::s32:
      return static_cast<T>(static_cast<std::int32_t>(registers[index]));
    case MatrixType::f16:
      return static_cast<T>(from_half(registers[index / 2] >> index % 2 * 16 & 0xffff));
    case MatrixType::bf16:
      return static_cast<T>(std::bit_cast<float>((registers[index / 2] >> index % 2 * 16) << 16));
    default:
      break;
  }
  const std::uint32_t byte = registers[index / 4] >> index % 4 * 8 & 0xff;
  if (type == MatrixType::u8) return static_cast<T>(byte);
  if (type == MatrixType::s8) return static_cast<T>(static_cast<std::int8_t>(byte));
  return static_cast<T>(
      value_of(byte, type == MatrixType::e4m3 ? SmallFormat::e4m3 : SmallFormat::e5m2));
}

// Calls visit(row, column, index within the lane) for each element that a lane holds.
template <typename Visit>
void for_elements(bool wmma, char which, unsigned lane, unsigned rows, unsigned columns,
                  unsigned bits, Visit visit) {
  const unsigned packed = bits >= 32 ? 1 : 32 / bits;
  const unsigned count = rows * columns / 32;
  for (unsigned index = 0; index < count; ++index) {
    const unsigned reg = index / packed, part = index % packed;
    if (wmma) {
      const unsigned linear = (reg * 32 + lane) * packed + part;
      visit(linear / columns, linear % columns, index);
    } else if (which == 'a') {
      const bool tall = rows == 16;
      const unsigned row = lane / 4 + (tall ? 8 * (reg % 2) : 0);
      const unsigned step = tall ? reg / 2 : reg;
      visit(row, lane % 4 * packed + part + 4 * packed * step, index);
    } else if (which == 'b') {
      visit(lane % 4 * packed + part + 4 * packed * reg, lane / 4, index);
    } else {
      visit(lane / 4 + index / 2 * 8, lane % 4 * 2 + index % 2, index);
    }
  }
}

template <typename T>
void gather(const MatrixForm& form, char which, MatrixType type, unsigned rows, unsigned columns,
            void* const (&lanes)[32], T* matrix) {
  for (unsigned lane = 0; lane < 32; ++lane) {
    const auto* data = static_cast<const MatrixLane*>(lanes[lane]);
    const std::uint32_t* registers = which == 'a' ? data->a : which == 'b' ? data->b : data->c;
    for_elements(form.wmma, which, lane, rows, columns, bits_of(type),
                 [&](unsigned row, unsigned column, unsigned index) {
                   matrix[row * columns + column] = element<T>(registers, type, index);
                 });
  }
}

void put(std::uint32_t* registers, MatrixType type, unsigned index, double value) {
  if (type == MatrixType::f64) {
    std::memcpy(registers + 2 * std::size_t{index}, &value, sizeof value);
  } else if (type == MatrixType::f32) {
    registers[index] = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  } else if (type == MatrixType::s32) {
    registers[index] = static_cast<std::uint32_t>(static_cast<std::int64_t>(value));
  } else {
    const auto half = static_cast<std::uint32_t>(
        round_to_format(value, SmallFormat::f16, Rounding::nearest, false));
    const unsigned shift = index % 2 * 16;
    registers[index / 2] = (registers[index / 2] & ~(0xffffU << shift)) | half << shift;
  }
}

// T is the type of the sums.
template <typename T, typename In>
void multiply(const MatrixForm& form, void* const (&lanes)[32]) {
  const auto [m, n, k] = kMatrixShapes[form.shape];
  In a[kMaxRows * kMaxDepth], b[kMaxDepth * kMaxColumns];
  T sums[kMaxRows * kMaxColumns];
  gather(form, 'a', form.a, m, k, lanes, a);
  gather(form, 'b', form.b, k, n, lanes, b);
  gather(form, 'c', form.c, m, n, lanes, sums);
  for (unsigned i = 0; i < m; ++i)
    for (unsigned p = 0; p < k; ++p) {
      const T left = static_cast<T>(a[i * k + p]);
      for (unsigned j = 0; j < n; ++j) sums[i * n + j] += left * static_cast<T>(b[p * n + j]);
    }
  for (unsigned lane = 0; lane < 32; ++lane) {
    auto* data = static_cast<MatrixLane*>(lanes[lane]);
    for_elements(form.wmma, 'c', lane, m, n, bits_of(form.d),
                 [&](unsigned row, unsigned column, unsigned index) {
                   T value = sums[row * n + column];
                   if constexpr (std::is_same_v<T, std::int64_t>) {
                     if (form.saturate)
                       value =
                           std::min<T>(std::max<T>(value, std::numeric_limits<std::int32_t>::min()),
                                       std::numeric_limits<std::int32_t>::max());
                   }
                   put(data->d, form.d, index, static_cast<double>(value));
                 });
  }
}

// Matrix `i` has its rows at the pointers of lanes 8 i onwards; a lane holds two neighbours of a
// row (of a column when transposed).
template <bool store>
void move_matrices(const MatrixForm& form, void* const (&lanes)[32]) {
  for (unsigned i = 0; i < form.count; ++i)
    for (unsigned lane = 0; lane < 32; ++lane) {
      auto* data = static_cast<MatrixLane*>(lanes[lane]);
      std::uint16_t pair[2];
      if (store) std::memcpy(pair, &data->a[i], sizeof pair);
      for (unsigned part = 0; part < 2; ++part) {
        const unsigned along = lane % 4 * 2 + part, across = lane / 4;
        const unsigned row = form.transposed ? along : across;
        const unsigned column = form.transposed ? across : along;
        auto* place =
            static_cast<std::uint16_t*>(static_cast<MatrixLane*>(lanes[8 * i + row])->pointer) +
            column;
        if (store)
          std::memcpy(place, &pair[part], sizeof *place);
        else
          std::memcpy(&pair[part], place, sizeof *place);
      }
      if (!store) std::memcpy(&data->d[i], pair, sizeof pair);
    }
}

void transpose(void* const (&lanes)[32]) {
  std::uint16_t matrix[8][8];
  for (unsigned lane = 0; lane < 32; ++lane)
    std::memcpy(&matrix[lane / 4][lane % 4 * 2], static_cast<MatrixLane*>(lanes[lane])->a, 4);
  for (unsigned lane = 0; lane < 32; ++lane) {
    const std::uint16_t pair[2] = {matrix[lane % 4 * 2][lane / 4],
                                   matrix[lane % 4 * 2 + 1][lane / 4]};
    std::memcpy(static_cast<MatrixLane*>(lanes[lane])->d, pair, sizeof pair);
  }
}

}  // namespace

std::uint32_t MatrixForm::pack() const {
  const auto of = [](auto value) { return static_cast<std::uint32_t>(value); };
  std::uint32_t code = of(kind);
  if (kind != MatrixKind::multiply) return code | of(count) << 2 | of(transposed) << 5;
  return code | of(wmma) << 2 | of(shape) << 3 | of(a) << 7 | of(b) << 11 | of(c) << 15 |
         of(d) << 19 | of(saturate) << 23;
}

MatrixForm MatrixForm::unpack(std::uint32_t code) {
  MatrixForm form;
  form.kind = static_cast<MatrixKind>(code & 3);
  if (form.kind != MatrixKind::multiply) {
    form.count = code >> 2 & 7;
    form.transposed = (code >> 5 & 1) != 0;
    return form;
  }
  form.wmma = (code >> 2 & 1) != 0;
  form.shape = code >> 3 & 15;
  form.a = static_cast<MatrixType>(code >> 7 & 15);
  form.b = static_cast<MatrixType>(code >> 11 & 15);
  form.c = static_cast<MatrixType>(code >> 15 & 15);
  form.d = static_cast<MatrixType>(code >> 19 & 15);
  form.saturate = (code >> 23 & 1) != 0;
  return form;
}

void matrix_operation(RunningBlock* block, std::uint32_t code, void* const (&lanes)[32],
                      std::uint32_t mask) {
  if (mask != ~0U)
    raise_fault(block, {FaultCode::illegal_instruction,
                        "A matrix instruction needs all 32 lanes of its warp, in " +
                            describe(block, block->current) + ".",
                        0});
  const MatrixForm form = MatrixForm::unpack(code);
  switch (form.kind) {
    case MatrixKind::load:
      return move_matrices<false>(form, lanes);
    case MatrixKind::store:
      return move_matrices<true>(form, lanes);
    case MatrixKind::transpose:
      return transpose(lanes);
    case MatrixKind::multiply:
      break;
  }
  auto work = [&] {
    if (form.d == MatrixType::f64)
      multiply<double, double>(form, lanes);
    else if (form.d == MatrixType::s32)
      multiply<std::int64_t, std::int32_t>(form, lanes);
    else
      multiply<float, float>(form, lanes);
  };
  on_main_stack(block, work);
}

extern "C" void kiln_wmma_access(ThreadState* thread, std::uint32_t which, std::uint32_t shape,
                                 std::uint32_t type, std::uint32_t column_major,
                                 std::uint64_t stride, std::byte* memory, std::uint32_t* registers,
                                 std::uint32_t store) {
  const auto [m, n, k] = kMatrixShapes[shape];
  const unsigned rows = which == 'b' ? k : m, columns = which == 'a' ? k : n;
  const auto element_type = static_cast<MatrixType>(type);
  const unsigned bytes = bits_of(element_type) / 8;
  auto* own = reinterpret_cast<std::byte*>(registers);
  for_elements(true, static_cast<char>(which), thread->linear % kWarp, rows, columns, 8 * bytes,
               [&](unsigned row, unsigned column, unsigned index) {
                 const std::uint64_t at =
                     column_major != 0 ? row + column * stride : column + row * stride;
                 std::byte* place = memory + at * bytes;
                 std::byte* slot = own + std::size_t{index} * bytes;
                 if (store != 0)
                   std::memcpy(place, slot, bytes);
                 else
                   std::memcpy(slot, place, bytes);
               });
}

}  // namespace kiln::emulator
