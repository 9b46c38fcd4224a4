#include "emulator/memory/call_chain.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <cstdint>
#include <cstring>

#include "kiln/support/format.h"

namespace kiln::emulator {
namespace {

// Entry points and what is behind them: names that begin with "cu", or none of ours by name.
bool is_entry_point(const Dl_info& about) {
  return about.dli_sname != nullptr && std::strncmp(about.dli_sname, "cu", 2) == 0;
}

}  // namespace

CallChain CallChain::here() {
  void* frames[24];
  const int count = backtrace(frames, 24);
  // What lies outside of the last entry point called it.
  int first = 1;
  for (int i = 0; i < count; ++i) {
    Dl_info about{};
    if (dladdr(frames[i], &about) != 0 && is_entry_point(about)) first = i + 1;
  }
  CallChain chain;
  for (std::size_t i = 0; i < chain.frames.size() && first + static_cast<int>(i) < count; ++i)
    chain.frames[i] = frames[first + i];
  return chain;
}

std::string CallChain::text() const {
  std::string text;
  for (void* frame : frames) {
    Dl_info about{};
    if (frame == nullptr || dladdr(frame, &about) == 0) break;
    const char* slash = about.dli_fname == nullptr ? nullptr : std::strrchr(about.dli_fname, '/');
    const auto start = reinterpret_cast<std::uint64_t>(
        about.dli_saddr == nullptr ? about.dli_fbase : about.dli_saddr);
    text += format("{}{}+{:#x} ({})", text.empty() ? "" : " < ",
                   about.dli_sname == nullptr ? "" : about.dli_sname,
                   reinterpret_cast<std::uint64_t>(frame) - start,
                   slash == nullptr ? "program" : slash + 1);
  }
  return text;
}

}  // namespace kiln::emulator
