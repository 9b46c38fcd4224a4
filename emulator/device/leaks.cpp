#include "emulator/device/leaks.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "emulator/device/driver.h"
#include "kiln/support/format.h"

namespace kiln::emulator {
namespace {

constexpr int kLeakStatus = 66;
constexpr std::size_t kListed = 32;

// Variables belong to modules, which end with their contexts.
bool is_leak(const Region& region) {
  return region.kind != RegionKind::device || region.context != 0;
}

void report(int status, void* argument) {
  const auto& driver = *static_cast<const Driver*>(argument);
  std::size_t count = 0;
  std::uint64_t bytes = 0;
  std::string text;
  for (const Region& region : driver.memory.regions()) {
    if (!is_leak(region)) continue;
    bytes += region.bytes;
    if (++count <= kListed)
      text += format("  {} bytes at {:#x} of device {}: {}, allocation {}, by {}\n", region.bytes,
                     region.address, region.device, region.call, region.id, region.site.text());
  }
  if (count == 0) return;
  if (count > kListed) text += format("  and {} more\n", count - kListed);
  std::fflush(stdout);
  std::fprintf(stderr,
               "kiln emulator: The program ended with %zu allocations of %llu bytes in "
               "all that it never gave back:\n%s",
               count, static_cast<unsigned long long>(bytes), text.c_str());
  if (status == 0) _exit(kLeakStatus);
}

}  // namespace

void report_leaks_at_exit(Driver& driver) { on_exit(report, &driver); }

}  // namespace kiln::emulator
