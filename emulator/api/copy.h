#pragma once

#include <cstdint>

#include "emulator/api/call.h"

namespace kiln::emulator {

/// One end of a copy.
struct Place {
  /// Where the caller says that it is; `any` where the address alone tells (unified addressing).
  enum class Kind : std::uint8_t { any, host, device } kind = Kind::any;
  std::uint64_t address = 0;
  std::uint64_t pitch = 0;  // bytes from row to row
  std::uint64_t slice = 0;  // bytes from slice to slice
};

/// A box of bytes to copy.
struct CopyRequest {
  Place to, from;
  std::uint64_t width = 0, height = 1, depth = 1;
};

/// What a copy needs to know of a place: memory that the driver made, or the program's own.
struct Found {
  std::byte* at = nullptr;
  std::uint64_t device_address = 0;  // 0: memory of the program that is neither
  bool pageable = false;             // the program's own, which is copied while the call lasts
};

/// Checks a copy and finds its memory. `to_host` and `from_host` say whether an end is pageable.
CUresult prepare_copy(Driver& driver, std::uint32_t device, const CopyRequest& request,
                      CopyWork& work, bool& to_pageable, bool& from_pageable);

/// Copies in a stream. `wait`: the call returns when the copy is done.
CUresult copy(CUstream stream, const CopyRequest& request, bool wait);

// The one-line copies, for entry points of either kind of default stream.
CUresult copy_any(CUstream stream, CUdeviceptr to, CUdeviceptr from, std::size_t bytes, bool wait);
CUresult copy_to_device(CUstream stream, CUdeviceptr to, const void* from, std::size_t bytes,
                        bool wait);
CUresult copy_to_host(CUstream stream, void* to, CUdeviceptr from, std::size_t bytes, bool wait);
CUresult copy_on_device(CUstream stream, CUdeviceptr to, CUdeviceptr from, std::size_t bytes,
                        bool wait);
CUresult copy_peer(CUstream stream, CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                   CUcontext from_context, std::size_t bytes, bool wait);

}  // namespace kiln::emulator
