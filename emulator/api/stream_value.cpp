#include "emulator/api/capture.h"

using namespace kiln::emulator;

namespace {

CUresult make_value(Driver& driver, const Context& context, CUdeviceptr address,
                    std::uint64_t value, std::uint32_t bytes, unsigned flags, bool wait,
                    ValueWork& work) {
  if (address % bytes != 0) return CUDA_ERROR_INVALID_VALUE;
  if (wait) {
    // Remote writes need no flush: all memory is the process's own.
    if ((flags & ~(CU_STREAM_WAIT_VALUE_FLUSH | 3u)) != 0) return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CU_STREAM_WAIT_VALUE_FLUSH) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  } else if ((flags & ~CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // Registered memory may be named by the address that the program uses.
  std::uint64_t at = address;
  if (!driver.memory.window().contains(at))
    if (const auto region = driver.memory.find_host(at)) at = region->address + (at - region->host);
  work.at = driver.memory.reach(at, bytes, context.device, !wait);
  if (work.at == nullptr) return CUDA_ERROR_INVALID_VALUE;
  work.address = at;
  work.value = value;
  work.bytes = bytes;
  work.condition = flags & 3u;
  work.wait = wait;
  return CUDA_SUCCESS;
}

CUresult put_value(CUstream handle, CUdeviceptr address, std::uint64_t value, std::uint32_t bytes,
                   unsigned flags, bool wait) {
  return stream_call(
      handle, [&](Driver& driver, Stream& stream, const std::shared_ptr<Context>& context) {
        ValueWork work;
        if (const CUresult result =
                make_value(driver, *context, address, value, bytes, flags, wait, work))
          return result;
        return enqueue(driver, stream, context, work);
      });
}

}  // namespace

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, std::uint32_t value,
                                unsigned flags) {
  return put_value(stream, address, value, 4, flags, true);
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, std::uint64_t value,
                                unsigned flags) {
  return put_value(stream, address, value, 8, flags, true);
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, std::uint32_t value,
                                 unsigned flags) {
  return put_value(stream, address, value, 4, flags, false);
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, std::uint64_t value,
                                 unsigned flags) {
  return put_value(stream, address, value, 8, flags, false);
}

CUresult cuStreamBatchMemOp_v2(CUstream handle, unsigned count, CUstreamBatchMemOpParams* list,
                               unsigned flags) {
  return stream_call(
      handle, [&](Driver& driver, Stream& stream, const std::shared_ptr<Context>& context) {
        constexpr unsigned kMost = 256;
        if (list == nullptr || count == 0 || count > kMost || flags != 0)
          return CUDA_ERROR_INVALID_VALUE;
        std::vector<ValueWork> all;
        for (unsigned i = 0; i < count; ++i) {
          const CUstreamBatchMemOpParams& each = list[i];
          const bool wide = each.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
                            each.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
          const bool wait = each.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
                            each.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
          switch (each.operation) {
            case CU_STREAM_MEM_OP_WAIT_VALUE_32:
            case CU_STREAM_MEM_OP_WAIT_VALUE_64:
            case CU_STREAM_MEM_OP_WRITE_VALUE_32:
            case CU_STREAM_MEM_OP_WRITE_VALUE_64: {
              const auto& value = each.waitValue;
              if (const CUresult result = make_value(
                      driver, *context, value.address, wide ? value.value64 : value.value,
                      wide ? 8 : 4, value.flags, wait, all.emplace_back()))
                return result;
              break;
            }
            case CU_STREAM_MEM_OP_BARRIER:  // operations of a stream are in order anyway
              break;
            case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
              return CUDA_ERROR_NOT_SUPPORTED;
            default:
              return CUDA_ERROR_INVALID_VALUE;
          }
        }
        for (const ValueWork& work : all)
          if (const CUresult result = enqueue(driver, stream, context, work)) return result;
        return CUDA_SUCCESS;
      });
}
