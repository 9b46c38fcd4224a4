#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "emulator/api/call.h"
#include "kiln/support/format.h"

using namespace kiln::emulator;

namespace {

// Runs `body(driver, device)` for a device that exists.
template <typename Body>
CUresult device_call(CUdevice ordinal, const Body& body) {
  return driver_call([&](Driver& driver) -> CUresult {
    Device* device = driver.device(ordinal);
    return device == nullptr ? CUDA_ERROR_INVALID_DEVICE : body(driver, *device);
  });
}

CUresult copy_text(const std::string& text, char* to, int length) {
  if (to == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  const std::size_t bytes =
      std::min<std::size_t>(text.size(), static_cast<std::size_t>(length) - 1);
  std::memcpy(to, text.data(), bytes);
  to[bytes] = 0;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return device_call(ordinal, [&](Driver&, Device&) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetCount(int* count) {
  return driver_call([&](Driver& driver) {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *count = static_cast<int>(driver.devices.size());
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetName(char* name, int length, CUdevice ordinal) {
  return device_call(ordinal, [&](Driver& driver, Device&) {
    return copy_text(kiln::format("kiln emulated GPU sm_{}", driver.settings.architecture), name,
                     length);
  });
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice ordinal) {
  return device_call(ordinal, [&](Driver&, Device& device) {
    if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
    // The same for every process, and marked as made up (version 8, RFC 9562).
    const char bytes[16] = {'k',
                            'i',
                            'l',
                            'n',
                            'e',
                            'm',
                            static_cast<char>(0x80),
                            'u',
                            static_cast<char>(0x80),
                            'g',
                            'p',
                            'u',
                            0,
                            0,
                            0,
                            static_cast<char>(device.ordinal)};
    std::memcpy(uuid->bytes, bytes, sizeof bytes);
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice ordinal) {
  return cuDeviceGetUuid_v2(uuid, ordinal);
}

CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice ordinal) {
  return device_call(ordinal, [&](Driver& driver, Device&) {
    if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *bytes = driver.memory.capacity();
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice ordinal) {
  return device_call(ordinal, [&](Driver& driver, Device& device) {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const int found = device_attribute(driver, device.ordinal, attribute);
    if (found == kUnknownAttribute) return CUDA_ERROR_INVALID_VALUE;
    *value = found;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice ordinal) {
  return device_call(ordinal, [&](Driver&, Device& device) {
    return copy_text(kiln::format("0000:{:02x}:00.0", device.ordinal + 1), text, length);
  });
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice ordinal, CUdevice peer) {
  return device_call(ordinal, [&](Driver& driver, Device& device) {
    const Device* other = driver.device(peer);
    if (other == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *can = driver.settings.peers && other->ordinal != device.ordinal ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice from,
                                 CUdevice to) {
  return device_call(from, [&](Driver& driver, Device&) {
    if (driver.device(to) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    if (value == nullptr || from == to) return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
      case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
      case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
      case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED:
        *value = 0;
        return CUDA_SUCCESS;
      case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
      case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
        *value = driver.settings.peers ? 1 : 0;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice ordinal) {
  return device_call(ordinal, [&](Driver& driver, Device& device) {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto primary = retain_primary(driver, device);
    if (primary == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    *context = reinterpret_cast<CUcontext>(primary->handle);
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice ordinal) {
  return device_call(ordinal, [&](Driver& driver, Device& device) {
    {
      std::lock_guard lock(device.mutex);
      if (device.primary_uses == 0) return CUDA_ERROR_INVALID_CONTEXT;
      if (--device.primary_uses != 0) return CUDA_SUCCESS;
    }
    end_primary(driver, device);
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice ordinal) {
  return cuDevicePrimaryCtxRelease_v2(ordinal);
}

// Those who retained it still have to release it.
CUresult cuDevicePrimaryCtxReset_v2(CUdevice ordinal) {
  return device_call(ordinal, [&](Driver& driver, Device& device) {
    end_primary(driver, device);
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxReset(CUdevice ordinal) { return cuDevicePrimaryCtxReset_v2(ordinal); }

CUresult cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned* flags, int* active) {
  return device_call(ordinal, [&](Driver&, Device& device) {
    if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(device.mutex);
    *flags = device.primary_flags;
    *active = device.primary_active ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice ordinal, unsigned flags) {
  return device_call(ordinal, [&](Driver&, Device& device) {
    const unsigned schedule = flags & CU_CTX_SCHED_MASK;
    if ((flags & ~CU_CTX_FLAGS_MASK) != 0 || (schedule & (schedule - 1)) != 0)
      return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(device.mutex);
    device.primary_flags = flags;
    if (device.primary != nullptr) device.primary->flags = flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice ordinal, unsigned flags) {
  return cuDevicePrimaryCtxSetFlags_v2(ordinal, flags);
}
