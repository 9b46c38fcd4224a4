#include "compiler/crash_guard.h"

#include <llvm/Support/CrashRecoveryContext.h>
#include <llvm/Support/ErrorHandling.h>
#include <signal.h>

#include <mutex>

#include "kiln/support/format.h"

namespace kiln::compiler {
namespace {

// LLVM's recovery needs its signal handlers, which belong to the whole process: they are in place
// only while somebody works under the guard, and the handlers of the user's program come back
// after.
std::mutex guard_mutex;
int guard_users = 0;

thread_local std::string fatal_text;

void on_fatal_error(void*, const char* reason, bool) {
  fatal_text = reason;
  if (llvm::CrashRecoveryContext* context = llvm::CrashRecoveryContext::GetCurrent())
    context->HandleExit(1);
}

// A stack that overflows has no room for the handler: it runs on the thread's other stack, where
// there is one. LLVM does not ask for that.
void handle_overflows() {
  for (const int signal : {SIGSEGV, SIGBUS}) {
    struct sigaction action;
    if (::sigaction(signal, nullptr, &action) != 0) continue;
    action.sa_flags |= SA_ONSTACK;
    ::sigaction(signal, &action, nullptr);
  }
}

void enter() {
  std::lock_guard lock(guard_mutex);
  if (guard_users++ > 0) return;
  llvm::CrashRecoveryContext::Enable();
  handle_overflows();
  llvm::install_fatal_error_handler(on_fatal_error);
}

void leave() {
  std::lock_guard lock(guard_mutex);
  if (--guard_users > 0) return;
  llvm::remove_fatal_error_handler();
  llvm::CrashRecoveryContext::Disable();
}

}  // namespace

[[gnu::visibility("default")]] bool run_guarded(const std::function<void()>& work,
                                                std::string& message) {
  enter();
  fatal_text.clear();
  llvm::CrashRecoveryContext context;
  bool finished = context.RunSafely([&] { work(); });
  if (!finished)
    message = fatal_text.empty() ? format("it ended with code {}", context.RetCode) : fatal_text;
  leave();
  return finished;
}

}  // namespace kiln::compiler
