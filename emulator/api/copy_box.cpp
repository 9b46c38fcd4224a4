
#include "emulator/api/copy_box.h"

#include "emulator/api/copy.h"

namespace kiln::emulator {
namespace {

// One end of a box as the interface describes it.
struct End {
  CUmemorytype type;
  std::uint64_t host, device;
  std::uint64_t x, y, z, pitch, height;
};

CUresult place_of(const End& end, std::uint64_t width, std::uint64_t rows, std::uint64_t slices,
                  Place& place) {
  switch (end.type) {
    case CU_MEMORYTYPE_HOST:
      place.kind = Place::Kind::host;
      place.address = end.host;
      break;
    case CU_MEMORYTYPE_DEVICE:
      place.kind = Place::Kind::device;
      place.address = end.device;
      break;
    case CU_MEMORYTYPE_UNIFIED:
      place.kind = Place::Kind::any;
      place.address = end.device;
      break;
    default:  // there are no arrays
      return CUDA_ERROR_INVALID_VALUE;
  }
  constexpr std::uint64_t kLargest = 1ull << 47;
  const bool rows_used = rows > 1 || end.y != 0 || slices > 1 || end.z != 0;
  const bool slices_used = slices > 1 || end.z != 0;
  // A pitch that is not used may be zero.
  place.pitch = end.pitch == 0 && !rows_used ? width : end.pitch;
  const std::uint64_t height = end.height == 0 && !slices_used ? rows : end.height;
  std::uint64_t needed = 0;
  if (end.x > kLargest || end.y > kLargest || end.z > kLargest || width > kLargest ||
      (rows_used && end.x + width > place.pitch) || (slices_used && end.y + rows > height) ||
      __builtin_mul_overflow(place.pitch, height, &place.slice) ||
      __builtin_mul_overflow(place.slice, end.z, &needed))
    return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t lines = 0;
  if (__builtin_mul_overflow(place.pitch, end.y, &lines) ||
      __builtin_add_overflow(needed, lines, &needed) ||
      __builtin_add_overflow(needed, end.x, &needed) || place.address == 0 ||
      __builtin_add_overflow(place.address, needed, &place.address))
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

std::uint64_t number(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

}  // namespace

CUresult read_box(const CUDA_MEMCPY3D& box, CopyRequest& request) {
  request.width = box.WidthInBytes;
  request.height = box.Height;
  request.depth = box.Depth;
  if (request.width == 0 || request.height == 0 || request.depth == 0) return CUDA_SUCCESS;
  if (box.srcLOD != 0 || box.dstLOD != 0 || box.reserved0 != nullptr || box.reserved1 != nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  const End from{box.srcMemoryType, number(box.srcHost), box.srcDevice, box.srcXInBytes, box.srcY,
                 box.srcZ,          box.srcPitch,        box.srcHeight};
  const End to{box.dstMemoryType, number(box.dstHost), box.dstDevice, box.dstXInBytes, box.dstY,
               box.dstZ,          box.dstPitch,        box.dstHeight};
  if (const CUresult result =
          place_of(from, request.width, request.height, request.depth, request.from))
    return result;
  return place_of(to, request.width, request.height, request.depth, request.to);
}

CUresult copy_box(CUstream stream, const CUDA_MEMCPY3D* box, bool wait) {
  if (box == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CopyRequest request;
  if (const CUresult result = read_box(*box, request)) return result;
  return copy(stream, request, wait);
}

CUresult copy_rectangle(CUstream stream, const CUDA_MEMCPY2D* rectangle, bool wait) {
  if (rectangle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_MEMCPY3D box{};
  box.srcXInBytes = rectangle->srcXInBytes;
  box.srcY = rectangle->srcY;
  box.srcMemoryType = rectangle->srcMemoryType;
  box.srcHost = rectangle->srcHost;
  box.srcDevice = rectangle->srcDevice;
  box.srcPitch = rectangle->srcPitch;
  box.dstXInBytes = rectangle->dstXInBytes;
  box.dstY = rectangle->dstY;
  box.dstMemoryType = rectangle->dstMemoryType;
  box.dstHost = rectangle->dstHost;
  box.dstDevice = rectangle->dstDevice;
  box.dstPitch = rectangle->dstPitch;
  box.WidthInBytes = rectangle->WidthInBytes;
  box.Height = rectangle->Height;
  box.Depth = 1;
  return copy_box(stream, &box, wait);
}

}  // namespace kiln::emulator

using namespace kiln::emulator;

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* rectangle) {
  return copy_rectangle(nullptr, rectangle, true);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* rectangle) {
  return copy_rectangle(nullptr, rectangle, true);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* rectangle, CUstream stream) {
  return copy_rectangle(stream, rectangle, false);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* box) { return copy_box(nullptr, box, true); }

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* box, CUstream stream) {
  return copy_box(stream, box, false);
}

CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* to, CUdeviceptr* from, std::size_t* bytes,
                               std::size_t count, CUmemcpyAttributes* attributes,
                               std::size_t* attribute_starts, std::size_t num_attributes,
                               CUstream stream) {
  if (to == nullptr || from == nullptr || bytes == nullptr || count == 0 || attributes == nullptr ||
      attribute_starts == nullptr || num_attributes == 0 || num_attributes > count ||
      attribute_starts[0] != 0)
    return CUDA_ERROR_INVALID_VALUE;
  // The default streams have no place for copies without an order among themselves.
  const auto number = reinterpret_cast<std::uintptr_t>(stream);
  if (number == 0 || number == CU_STREAM_LEGACY) return CUDA_ERROR_INVALID_HANDLE;
  for (std::size_t i = 0; i < num_attributes; ++i) {
    if (attributes[i].srcAccessOrder < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
        attributes[i].srcAccessOrder > CU_MEMCPY_SRC_ACCESS_ORDER_ANY ||
        (i > 0 && attribute_starts[i] <= attribute_starts[i - 1]) || attribute_starts[i] >= count)
      return CUDA_ERROR_INVALID_VALUE;
  }
  for (std::size_t i = 0; i < count; ++i)
    if (bytes[i] == 0 || to[i] == 0 || from[i] == 0) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i)
    if (const CUresult result = copy_any(stream, to[i], from[i], bytes[i], false)) return result;
  return CUDA_SUCCESS;
}

CUresult cuMemcpyBatchAsync(CUdeviceptr* to, CUdeviceptr* from, std::size_t* bytes,
                            std::size_t count, CUmemcpyAttributes* attributes,
                            std::size_t* attribute_starts, std::size_t num_attributes,
                            std::size_t* failed, CUstream stream) {
  const CUresult result = cuMemcpyBatchAsync_v2(to, from, bytes, count, attributes,
                                                attribute_starts, num_attributes, stream);
  // No single copy is to blame, which the interface says with the largest number.
  if (result != CUDA_SUCCESS && failed != nullptr) *failed = SIZE_MAX;
  return result;
}
