#include <algorithm>
#include <iterator>

#include "emulator/device/driver.h"

namespace kiln::emulator {
namespace {

struct Attribute {
  int number, value;
};

// An H100's answers where a program may size its launches by them; what needs hardware that is not
// emulated (textures, managed memory, compression, fabrics) is 0. Sorted by number.
constexpr Attribute kAttributes[] = {
    {1, 1024},         // max threads per block
    {2, 1024},         // max block dim x
    {3, 1024},         // y
    {4, 64},           // z
    {5, 2147483647},   // max grid dim x
    {6, 65535},        // y
    {7, 65535},        // z
    {8, 49152},        // max shared memory per block
    {9, 65536},        // total constant memory
    {10, 32},          // warp size
    {11, 2147483647},  // max pitch
    {12, 65536},       // max registers per block
    {13, 1980000},     // clock rate, kHz
    {14, 512},         // texture alignment
    {15, 1},           // GPU overlap
    {17, 0},           // kernel execution timeout
    {18, 0},           // integrated
    {19, 1},           // can map host memory
    {20, 0},           // compute mode: default
    {30, 512},         // surface alignment
    {31, 1},           // concurrent kernels
    {32, 0},           // ECC enabled
    {35, 0},           // TCC driver
    {36, 2619000},     // memory clock rate, kHz
    {37, 5120},        // memory bus width, bits
    {38, 52428800},    // L2 cache size
    {39, 2048},        // max threads per multiprocessor
    {40, 3},           // async engines
    {41, 1},           // unified addressing
    {50, 0},           // PCI domain
    {51, 32},          // texture pitch alignment
    {78, 1},           // stream priorities
    {79, 1},           // global L1 cache
    {80, 1},           // local L1 cache
    {81, 233472},      // max shared memory per multiprocessor
    {82, 65536},       // max registers per multiprocessor
    {83, 0},           // managed memory
    {84, 0},           // multi-GPU board
    {86, 1},           // native atomics between host and device
    {87, 2},           // single to double performance ratio
    {88, 0},           // pageable memory access
    {89, 0},           // concurrent managed access
    {90, 1},           // compute preemption
    {91, 0},           // host pointer usable for registered memory
    {92, 1},           // stream memory operations, first version
    {93, 1},           // 64-bit ones
    {94, 1},           // wait with NOR
    {95, 1},           // cooperative launch
    {96, 0},           // over several devices
    {97, 232448},      // max shared memory per block, opt in
    {98, 0},           // can flush remote writes
    {99, 1},           // host registration
    {100, 0},          // pageable access by the host's page tables
    {101, 0},          // direct managed access from the host
    {102, 1},          // virtual memory management
    {103, 1},          // POSIX file descriptors
    {104, 0},          // Win32 handles
    {105, 0},          // Win32 KMT handles
    {106, 32},         // max blocks per multiprocessor
    {107, 0},          // compression
    {108, 0},          // persisting L2
    {109, 0},          // access policy window
    {110, 0},          // RDMA with virtual memory management
    {111, 1024},       // reserved shared memory per block
    {112, 0},          // sparse arrays
    {113, 1},          // read-only host registration
    {114, 0},          // timeline semaphores
    {115, 1},          // memory pools
    {116, 0},          // RDMA
    {117, 0},          // RDMA flush writes options
    {118, 0},          // RDMA writes ordering
    {119, 0},          // handle types of pools
    {120, 1},          // cluster launch
    {121, 0},          // deferred mapping of arrays
    {122, 1},          // 64-bit stream memory operations
    {123, 1},          // wait with NOR
    {124, 0},          // DMA-BUF
    {125, 0},          // IPC events
    {126, 1},          // memory synchronisation domains
    {127, 1},          // tensor map access
    {128, 0},          // fabric handles
    {129, 0},          // unified function pointers
    {130, 0},          // NUMA configuration: none
    {131, -1},         // NUMA node of the device
    {133, 0},          // MPS
    {134, 0},          // NUMA node of the host
    {135, 0},          // graphics interop
    {136, 0},          // decompression algorithms
    {137, 0},          // decompression length
    {138, 0},          // graphics interop
    {141, 0},          // host NUMA virtual memory
    {142, 0},          // host NUMA pools
    {143, 0},          // host NUMA between nodes
    {144, 0},          // host pools
    {145, 0},          // host virtual memory
};

bool is_texture_or_surface_limit(int number) {
  return (number >= 21 && number <= 29) || (number >= 42 && number <= 49) ||
         (number >= 52 && number <= 74) || number == 77;
}

}  // namespace

int device_attribute(const Driver& driver, std::uint32_t device, int attribute) {
  switch (attribute) {
    case 16:
      return kMultiprocessors;
    case 33:  // PCI bus
      return static_cast<int>(device) + 1;
    case 34:  // PCI device
      return 0;
    case 75:
      return static_cast<int>(driver.settings.architecture / 10);
    case 76:
      return static_cast<int>(driver.settings.architecture % 10);
    case 85:  // multi-GPU board group
      return static_cast<int>(device);
    case 132:
      return driver.settings.multicast ? 1 : 0;
    default:
      break;
  }
  if (is_texture_or_surface_limit(attribute)) return 0;
  const auto* found =
      std::lower_bound(std::begin(kAttributes), std::end(kAttributes), attribute,
                       [](const Attribute& each, int number) { return each.number < number; });
  if (found == std::end(kAttributes) || found->number != attribute) return kUnknownAttribute;
  return found->value;
}

}  // namespace kiln::emulator
