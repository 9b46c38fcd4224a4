#include "emulator/engine/perform.h"

#include <atomic>

#include "emulator/memory/guarded_copy.h"
#include "emulator/memory/memory.h"

namespace kiln::emulator {
namespace {

bool rows_follow(std::size_t width, std::size_t height, std::size_t pitch) {
  return height == 1 || pitch == width;
}

void mark_rows(std::uint64_t address, std::size_t width, std::size_t height, std::size_t pitch) {
  if (address == 0) return;
  for (std::size_t row = 0; row < height; ++row)
    process_memory()->mark_written(address + row * pitch, width);
}

bool write_value(const ValueWork& value) {
  // Visible to kernels in one piece and after all that came before.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const bool well = guarded_copy_word(value.at, &value.value, value.bytes);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (well) process_memory()->mark_written(value.address, value.bytes);
  return well;
}

}  // namespace

bool perform_copy(const CopyWork& copy) {
  if (copy.bytes() == 0) return true;
  if (rows_follow(copy.width, copy.height, copy.to_pitch) &&
      rows_follow(copy.width, copy.height, copy.from_pitch) && copy.depth == 1) {
    if (!guarded_copy(copy.to, copy.from, copy.width * copy.height)) return false;
  } else {
    for (std::size_t slice = 0; slice < copy.depth; ++slice)
      for (std::size_t row = 0; row < copy.height; ++row)
        if (!guarded_copy(copy.to + slice * copy.to_slice + row * copy.to_pitch,
                          copy.from + slice * copy.from_slice + row * copy.from_pitch, copy.width))
          return false;
  }
  for (std::size_t slice = 0; slice < copy.depth && copy.to_address != 0; ++slice)
    mark_rows(copy.to_address + slice * copy.to_slice, copy.width, copy.height, copy.to_pitch);
  return true;
}

bool perform_fill(const FillWork& fill) {
  const std::size_t width = fill.width * fill.element_bytes;
  if (rows_follow(width, fill.height, fill.pitch)) {
    if (!guarded_fill(fill.to, fill.value, fill.element_bytes, fill.width * fill.height))
      return false;
  } else {
    for (std::size_t row = 0; row < fill.height; ++row)
      if (!guarded_fill(fill.to + row * fill.pitch, fill.value, fill.element_bytes, fill.width))
        return false;
  }
  mark_rows(fill.to_address, width, fill.height, fill.pitch);
  return true;
}

bool perform(const Work& work) {
  if (const auto* copy = std::get_if<CopyWork>(&work)) return perform_copy(*copy);
  if (const auto* fill = std::get_if<FillWork>(&work)) return perform_fill(*fill);
  if (const auto* value = std::get_if<ValueWork>(&work)) return write_value(*value);
  if (const auto* call = std::get_if<CallWork>(&work)) call->call();
  return true;
}

Look look_at(const ValueWork& value) {
  std::uint64_t found = 0;
  if (!guarded_copy_word(&found, value.at, value.bytes)) return Look::unreadable;
  std::atomic_thread_fence(std::memory_order_acquire);
  bool yes = false;
  switch (value.condition) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      // Cyclic: the difference is not negative.
      yes = value.bytes == 4
                ? static_cast<std::int32_t>(static_cast<std::uint32_t>(found) -
                                            static_cast<std::uint32_t>(value.value)) >= 0
                : static_cast<std::int64_t>(found - value.value) >= 0;
      break;
    case CU_STREAM_WAIT_VALUE_EQ:
      yes = found == value.value;
      break;
    case CU_STREAM_WAIT_VALUE_AND:
      yes = (found & value.value) != 0;
      break;
    default: {  // NOR
      const std::uint64_t all = value.bytes == 4 ? 0xFFFFFFFFull : ~0ull;
      yes = (~(found | value.value) & all) != 0;
      break;
    }
  }
  return yes ? Look::yes : Look::no;
}

}  // namespace kiln::emulator
