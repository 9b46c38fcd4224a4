#pragma once

#include "emulator/api/copy.h"

namespace kiln::emulator {

/// The request that a description of a copy means; a box without bytes is none.
CUresult read_box(const CUDA_MEMCPY3D& box, CopyRequest& request);

// For entry points of either kind of default stream.
CUresult copy_box(CUstream stream, const CUDA_MEMCPY3D* box, bool wait);
CUresult copy_rectangle(CUstream stream, const CUDA_MEMCPY2D* rectangle, bool wait);

}  // namespace kiln::emulator
