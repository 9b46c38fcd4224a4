#pragma once

// The structures of DLPack 1.1, an in-memory exchange format of tensors between libraries. Their
// layout is fixed by that specification; the names are its own.

#include <cstdint>

extern "C" {

struct DLPackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};

enum DLDeviceType : std::int32_t {
  kDLCPU = 1,
  kDLCUDA = 2,
  kDLCUDAHost = 3,
  kDLROCM = 10,
  kDLROCMHost = 11,
  kDLCUDAManaged = 13,
};

struct DLDevice {
  std::int32_t device_type;
  std::int32_t device_id;
};

struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: row-major
  std::uint64_t byte_offset;
};

/// Before version 1.0.
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

inline constexpr std::uint64_t DLPACK_FLAG_BITMASK_READ_ONLY = 1;
inline constexpr std::uint64_t DLPACK_FLAG_BITMASK_IS_COPIED = 2;
inline constexpr std::uint64_t DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED = 4;

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};

}  // extern "C"

#include "kiln/dtype/dtype.h"

namespace kiln::driver {

inline constexpr int kDLPackMajor = 1;
inline constexpr int kDLPackMinor = 1;

/// The (code, bits) of an element type.
DLDataType dlpack_type(DType dtype);
/// The element type of a (code, bits) with one lane. Others: BufferError.
DType dtype_of_dlpack(DLDataType type);

}  // namespace kiln::driver
