#include <atomic>
#include <bit>
#include <cstring>

#include "emulator/execute/rounding.h"
#include "emulator/execute/running_block.h"
#include "emulator/execute/runtime_functions.h"
#include "kiln/support/format.h"

// multimem: one address stands for the memory of several devices. Loads combine the replicas in the
// order of the devices, stores write all of them, reductions are an atomic on each.

namespace kiln::emulator {
namespace {

enum Operation : std::uint32_t { kAdd, kMin, kMax, kAnd, kOr, kXor };
// The types, as translate/multimem.cpp numbers them.
enum Element : std::uint32_t { kU32, kS32, kU64, kS64, kF32, kF64, kF16, kBf16 };

std::uint32_t find_replicas(RunningBlock* block, std::uint64_t address, std::uint32_t bytes,
                            std::byte* (&replicas)[kMaxDevices]) {
  std::uint32_t count = 0;
  auto find = [&] { count = multicast_replicas(*block->launch->view, address, bytes, replicas); };
  on_main_stack(block, find);
  if (count == 0)
    raise_fault(block, {FaultCode::illegal_address,
                        format("Address {:#x} is no multicast memory of this device, in {}.",
                               address, describe(block, block->current)),
                        address});
  return count;
}

template <typename T>
T combine(std::uint32_t operation, T a, T b) {
  if (operation == kMin) return b < a ? b : a;
  if (operation == kMax) return a < b ? b : a;
  if constexpr (std::is_integral_v<T>) {
    if (operation == kAnd) return a & b;
    if (operation == kOr) return a | b;
    if (operation == kXor) return a ^ b;
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
}

template <typename T>
std::uint64_t combine_bits(std::uint32_t operation, std::uint64_t a, std::uint64_t b) {
  T x, y;
  std::memcpy(&x, &a, sizeof x);
  std::memcpy(&y, &b, sizeof y);
  x = combine(operation, x, y);
  std::uint64_t result = 0;
  std::memcpy(&result, &x, sizeof x);
  return result;
}

std::uint64_t combine_half(std::uint32_t operation, std::uint64_t a, std::uint64_t b,
                           SmallFormat format) {
  return round_to_format(combine(operation, value_of(a, format), value_of(b, format)), format,
                         Rounding::nearest, false);
}

std::uint64_t combine(std::uint32_t operation, std::uint32_t element, std::uint64_t a,
                      std::uint64_t b) {
  switch (element) {
    case kU32:
      return combine_bits<std::uint32_t>(operation, a, b);
    case kS32:
      return combine_bits<std::int32_t>(operation, a, b);
    case kU64:
      return combine_bits<std::uint64_t>(operation, a, b);
    case kS64:
      return combine_bits<std::int64_t>(operation, a, b);
    case kF32:
      return combine_bits<float>(operation, a, b);
    case kF64:
      return combine_bits<double>(operation, a, b);
    case kF16:
      return combine_half(operation, a, b, SmallFormat::f16);
    default:
      return combine_half(operation, a, b, SmallFormat::bf16);
  }
}

std::uint32_t size_of(std::uint32_t element) {
  if (element == kF16 || element == kBf16) return 2;
  return element == kU64 || element == kS64 || element == kF64 ? 8 : 4;
}

template <typename Word>
void reduce_word(std::byte* place, std::uint32_t operation, std::uint32_t element,
                 std::uint64_t value) {
  std::atomic_ref<Word> word(*reinterpret_cast<Word*>(place));
  Word old = word.load();
  while (!word.compare_exchange_weak(old,
                                     static_cast<Word>(combine(operation, element, old, value)))) {
  }
}

}  // namespace

extern "C" {

void kiln_multimem_load(BlockState* state, std::uint64_t address, std::uint32_t operation,
                        std::uint32_t element, std::uint32_t count, std::byte* values) {
  std::byte* replicas[kMaxDevices];
  const std::uint32_t size = size_of(element);
  const std::uint32_t devices = find_replicas(running(state), address, size * count, replicas);
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint64_t sum = 0;
    if (element == kF16 || element == kBf16) {
      // Summed in single precision, and rounded once.
      const SmallFormat format = element == kF16 ? SmallFormat::f16 : SmallFormat::bf16;
      double exact = 0;
      for (std::uint32_t d = 0; d < devices; ++d) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, replicas[d] + i * size, size);
        const double value = value_of(bits, format);
        exact = d == 0 ? value : combine(operation, exact, value);
      }
      sum = round_to_format(exact, format, Rounding::nearest, false);
    } else {
      for (std::uint32_t d = 0; d < devices; ++d) {
        std::uint64_t bits = 0;
        std::memcpy(&bits, replicas[d] + i * size, size);
        sum = d == 0 ? bits : combine(operation, element, sum, bits);
      }
    }
    std::memcpy(values + i * size, &sum, size);
  }
}

void kiln_multimem_store(BlockState* state, std::uint64_t address, std::uint32_t bytes,
                         const std::byte* values) {
  std::byte* replicas[kMaxDevices];
  const std::uint32_t devices = find_replicas(running(state), address, bytes, replicas);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (std::uint32_t d = 0; d < devices; ++d) std::memcpy(replicas[d], values, bytes);
}

void kiln_multimem_reduce(BlockState* state, std::uint64_t address, std::uint32_t operation,
                          std::uint32_t element, std::uint32_t count, const std::byte* values) {
  std::byte* replicas[kMaxDevices];
  const std::uint32_t size = size_of(element);
  const std::uint32_t devices = find_replicas(running(state), address, size * count, replicas);
  for (std::uint32_t d = 0; d < devices; ++d)
    for (std::uint32_t i = 0; i < count; ++i) {
      std::uint64_t value = 0;
      std::memcpy(&value, values + i * size, size);
      std::byte* place = replicas[d] + i * size;
      if (size == 2)
        reduce_word<std::uint16_t>(place, operation, element, value);
      else if (size == 4)
        reduce_word<std::uint32_t>(place, operation, element, value);
      else
        reduce_word<std::uint64_t>(place, operation, element, value);
    }
}
}

}  // namespace kiln::emulator
