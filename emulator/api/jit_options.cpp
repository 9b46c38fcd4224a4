#include "emulator/api/jit_options.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace kiln::emulator {

CUresult JitOptions::read(unsigned count, const CUjit_option* options, void** values) {
  if (count != 0 && (options == nullptr || values == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    // A number is passed in the pointer's own bytes, 32 of its bits.
    const auto number = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(values[i]));
    switch (options[i]) {
      case CU_JIT_INFO_LOG_BUFFER:
        information_.buffer = static_cast<char*>(values[i]);
        break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        information_.bytes = number;
        information_.size_value = &values[i];
        break;
      case CU_JIT_ERROR_LOG_BUFFER:
        error_.buffer = static_cast<char*>(values[i]);
        break;
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        error_.bytes = number;
        error_.size_value = &values[i];
        break;
      case CU_JIT_WALL_TIME:
        wall_time_ = &values[i];
        break;
      default:
        // The others tune or describe what the code generator does; results do not depend on them.
        if (options[i] < 0 || options[i] >= CU_JIT_NUM_OPTIONS) return CUDA_ERROR_INVALID_VALUE;
        break;
    }
  }
  return CUDA_SUCCESS;
}

void JitOptions::write(const Log& log, std::string_view text) {
  std::size_t bytes = 0;
  if (log.buffer != nullptr && log.bytes != 0) {
    bytes = std::min<std::size_t>(text.size(), log.bytes - 1);
    std::memcpy(log.buffer, text.data(), bytes);
    log.buffer[bytes] = 0;
  }
  if (log.size_value != nullptr) *log.size_value = reinterpret_cast<void*>(bytes);
}

void JitOptions::write_logs(std::string_view information, std::string_view error) const {
  write(information_, information);
  write(error_, error);
  if (wall_time_ != nullptr) *wall_time_ = nullptr;
}

}  // namespace kiln::emulator
