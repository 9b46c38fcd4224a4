#include "kiln/support/stack_trace.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "kiln/support/format.h"

namespace kiln {
namespace {

constexpr int kMaxFrames = 64;
constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

struct Crashes {
  std::mutex mutex;
  bool traced = false;
  struct sigaction previous[std::size(kSignals)];
};
Crashes& crashes() {
  static auto* instance = new Crashes;  // leaked: a crash at exit wants it too
  return *instance;
}

/// Uses only what is safe in a signal handler; names are therefore not demangled.
void on_crash(int signal) {
  static constexpr char kTitle[] =
      "kiln: the process crashed; its native stack, innermost first:\n";
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, kTitle, sizeof kTitle - 1);
  void* frames[kMaxFrames];
  ::backtrace_symbols_fd(frames, ::backtrace(frames, kMaxFrames), STDERR_FILENO);
  for (std::size_t i = 0; i < std::size(kSignals); ++i)
    if (kSignals[i] == signal) ::sigaction(signal, &crashes().previous[i], nullptr);
  // Delivered when this handler returns, to what handled it before.
  ::raise(signal);
}

std::string frame_text(void* address) {
  Dl_info info;
  if (::dladdr(address, &info) == 0 || info.dli_fname == nullptr) return format("{}", address);
  const std::string_view path = info.dli_fname;
  const std::string_view file = path.substr(path.rfind('/') + 1);
  if (info.dli_sname == nullptr)
    return format("+{:#x} in {}", static_cast<char*>(address) - static_cast<char*>(info.dli_fbase),
                  file);
  int status = 0;
  char* name = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
  std::string text = format("{} in {}", status == 0 ? name : info.dli_sname, file);
  std::free(name);
  return text;
}

}  // namespace

std::string stack_trace(int skip) {
  void* frames[kMaxFrames];
  const int count = ::backtrace(frames, kMaxFrames);
  std::string text;
  for (int i = skip + 1; i < count; ++i)
    text += format("{}  {}", text.empty() ? "" : "\n", frame_text(frames[i]));
  return text;
}

void trace_crashes(bool on) {
  Crashes& all = crashes();
  const std::lock_guard lock(all.mutex);
  if (all.traced == on) return;
  all.traced = on;
  if (on) {
    // The first call loads the unwinder, which a handler must not do.
    void* frame;
    (void)::backtrace(&frame, 1);
  }
  struct sigaction action{};
  action.sa_handler = on_crash;
  ::sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    if (on) {
      ::sigaction(kSignals[i], &action, &all.previous[i]);
      continue;
    }
    // A handler that somebody else has put in place since stays.
    struct sigaction present;
    ::sigaction(kSignals[i], nullptr, &present);
    if (present.sa_handler == on_crash) ::sigaction(kSignals[i], &all.previous[i], nullptr);
  }
}

}  // namespace kiln
