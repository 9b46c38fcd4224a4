#include "emulator/memory/tensor_map.h"

#include <cstring>

#include "emulator/api/call.h"

using namespace kiln::emulator;

namespace {

// Bytes of an element by CUtensorMapDataType; 0: types of 4 and 6 bits, which are not emulated.
constexpr std::uint8_t kElementBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4, 0, 0, 0};

// Bytes of the inner extent of a box that a swizzle allows at most.
std::uint64_t swizzle_bytes(int swizzle) { return swizzle == 0 ? UINT64_MAX : 16ull << swizzle; }

}  // namespace

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, int type, std::uint32_t rank, void* address,
                                const std::uint64_t* extents, const std::uint64_t* strides,
                                const std::uint32_t* box, const std::uint32_t* steps,
                                int interleave, int swizzle, int promotion, int fill) {
  if (map == nullptr || address == nullptr || extents == nullptr || box == nullptr ||
      steps == nullptr || rank == 0 || rank > 5 || (rank > 1 && strides == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  if (type < 0 || type >= static_cast<int>(std::size(kElementBytes)) || swizzle < 0 ||
      swizzle > 6 || promotion < 0 || promotion > 3 || fill < 0 || fill > 1 || interleave < 0 ||
      interleave > 2)
    return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t element = kElementBytes[type];
  if (element == 0 || interleave != 0 || swizzle > 3) return CUDA_ERROR_NOT_SUPPORTED;
  if (reinterpret_cast<std::uint64_t>(map) % 64 != 0 ||
      reinterpret_cast<std::uint64_t>(address) % 16 != 0 || (fill == 1 && type < 6))
    return CUDA_ERROR_INVALID_VALUE;
  TensorMap encoded{};
  for (std::uint32_t i = 0; i < rank; ++i) {
    if (extents[i] == 0 || extents[i] > 1ull << 32 || box[i] == 0 || box[i] > 256 ||
        steps[i] == 0 || steps[i] > 8)
      return CUDA_ERROR_INVALID_VALUE;
    if (i > 0 && (strides[i - 1] % 16 != 0 || strides[i - 1] >= 1ull << 40 ||
                  strides[i - 1] < (i == 1 ? extents[0] * element : 0)))
      return CUDA_ERROR_INVALID_VALUE;
    encoded.extents[i] = extents[i] - 1;
    encoded.box[i] = static_cast<std::uint16_t>(box[i]);
    encoded.steps[i] = static_cast<std::uint8_t>(steps[i]);
    if (i > 0) encoded.strides[i - 1] = strides[i - 1];
  }
  const std::uint64_t inner = box[0] * element;
  if (inner % 16 != 0 || inner > swizzle_bytes(swizzle)) return CUDA_ERROR_INVALID_VALUE;
  encoded.mark = kTensorMapMark;
  encoded.address = reinterpret_cast<std::uint64_t>(address);
  encoded.rank = static_cast<std::uint8_t>(rank);
  encoded.type = static_cast<std::uint8_t>(type);
  encoded.element_bytes = static_cast<std::uint8_t>(element);
  encoded.swizzle = static_cast<std::uint8_t>(swizzle);
  encoded.fill_nan = static_cast<std::uint8_t>(fill);
  std::memcpy(map, &encoded, sizeof encoded);
  return CUDA_SUCCESS;
}
