#include <x86intrin.h>

#include <bit>
#include <chrono>
#include <cmath>

#include "emulator/execute/rounding.h"
#include "emulator/execute/runtime_functions.h"

// Numbers for which generated code has no instruction.

namespace kiln::emulator {
namespace {

// Sets the processor's rounding mode; the operations in between go through volatile variables, so
// that the compiler moves none of them out.
class RoundingScope {
 public:
  explicit RoundingScope(std::uint32_t mode) : before_(_mm_getcsr()) {
    _mm_setcsr((before_ & ~0x6000U) | mode << 13);
  }
  ~RoundingScope() { _mm_setcsr(before_); }
  RoundingScope(const RoundingScope&) = delete;
  RoundingScope& operator=(const RoundingScope&) = delete;

 private:
  std::uint32_t before_;
};

template <typename T>
T directed(std::uint32_t operation, std::uint32_t mode, T a, T b, T c) {
  volatile T x = a, y = b, z = c, result = 0;
  const RoundingScope scope(mode);
  switch (operation) {
    case 0:
      result = x + y;
      break;
    case 1:
      result = x - y;
      break;
    case 2:
      result = x * y;
      break;
    case 3:
      result = std::fma(x, y, z);
      break;
    case 4:
      result = x / y;
      break;
    default:
      result = std::sqrt(x);
      break;
  }
  return result;
}

}  // namespace

extern "C" {

float kiln_directed_f32(std::uint32_t operation, std::uint32_t mode, float a, float b, float c) {
  return directed(operation, mode, a, b, c);
}

double kiln_directed_f64(std::uint32_t operation, std::uint32_t mode, double a, double b,
                         double c) {
  return directed(operation, mode, a, b, c);
}

std::uint32_t kiln_narrow(double value, std::uint32_t format, std::uint32_t mode,
                          std::uint32_t saturate) {
  return static_cast<std::uint32_t>(round_to_format(value, static_cast<SmallFormat>(format),
                                                    static_cast<Rounding>(mode), saturate != 0));
}

std::uint64_t kiln_round_integer(std::uint64_t value, std::uint32_t is_signed, std::uint32_t format,
                                 std::uint32_t mode) {
  return round_integer(value, is_signed != 0, static_cast<SmallFormat>(format),
                       static_cast<Rounding>(mode));
}

std::uint32_t kiln_widen_byte(std::uint32_t byte, std::uint32_t format) {
  return static_cast<std::uint32_t>(
      round_to_format(value_of(byte, static_cast<SmallFormat>(format)), SmallFormat::f16,
                      Rounding::nearest, false));
}

std::uint32_t kiln_fns(std::uint32_t mask, std::uint32_t base, std::int32_t offset) {
  if (base > 31) return ~0U;
  if (offset == 0) return (mask >> base & 1) != 0 ? base : ~0U;
  const int step = offset > 0 ? 1 : -1;
  std::int64_t left = offset > 0 ? offset : -std::int64_t{offset};
  for (int i = static_cast<int>(base); i >= 0 && i < 32; i += step)
    if ((mask >> i & 1) != 0 && --left == 0) return static_cast<std::uint32_t>(i);
  return ~0U;
}

float kiln_ex2_f32(float x) { return std::exp2(x); }
float kiln_lg2_f32(float x) { return std::log2(x); }
float kiln_sin_f32(float x) { return std::sin(x); }
float kiln_cos_f32(float x) { return std::cos(x); }
float kiln_tanh_f32(float x) { return std::tanh(x); }

std::uint64_t kiln_clock() { return __rdtsc(); }

std::uint64_t kiln_global_timer() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}
}

}  // namespace kiln::emulator
