#pragma once

#include <string>
#include <string_view>

#include "emulator/api/driver_types.h"

namespace kiln::emulator {

/// Where a caller wants to read what the translation says. Buffers belong to the caller.
class JitOptions {
 public:
  /// Reads options; CUDA_ERROR_INVALID_VALUE for ones that are not known or have no values.
  CUresult read(unsigned count, const CUjit_option* options, void** values);
  /// Writes the logs, shortened to the buffers, and the sizes that were needed.
  void write_logs(std::string_view information, std::string_view error) const;

 private:
  struct Log {
    char* buffer = nullptr;
    unsigned bytes = 0;
    void** size_value = nullptr;  // becomes the bytes that were written
  };
  static void write(const Log& log, std::string_view text);
  Log information_, error_;
  void** wall_time_ = nullptr;
};

}  // namespace kiln::emulator
