#pragma once

#include "emulator/api/call.h"

namespace kiln::emulator {

/// `height` rows of `width` elements of 1, 2 or 4 bytes.
struct FillRequest {
  CUdeviceptr to = 0;
  std::uint32_t value = 0;
  std::uint32_t element_bytes = 1;
  std::uint64_t width = 0, height = 1, pitch = 0;
};

/// Checks a fill and finds its memory.
CUresult prepare_fill(Driver& driver, std::uint32_t device, const FillRequest& request,
                      FillWork& work);

/// Fills in a stream. `wait`: the call returns when it is done.
CUresult fill(CUstream stream, const FillRequest& request, bool wait);

}  // namespace kiln::emulator
