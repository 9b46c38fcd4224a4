#include "kiln/support/call_site.h"

#include <atomic>
#include <sstream>

#include "kiln/support/stack_trace.h"

namespace kiln {
namespace {

std::atomic<CallSiteProvider> provider{nullptr};

}  // namespace

void set_call_site_provider(CallSiteProvider new_provider) { provider.store(new_provider); }

std::string call_site() {
  if (const CallSiteProvider asked = provider.load())
    if (std::string site = asked(); !site.empty()) return site;
  std::istringstream frames(stack_trace());
  for (std::string line; std::getline(frames, line);) {
    if (line.find(" in libkiln") != std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(' ');
    if (begin != std::string::npos) return line.substr(begin);
  }
  return "an unknown place";
}

}  // namespace kiln
