#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>

#include "emulator/execute/running_block.h"
#include "kiln/support/format.h"

// A wild address of a kernel is a SIGSEGV, because nothing is mapped there in the device's view.
// The handler notes the address and lets the interrupted thread go on at the place where the block
// was resumed, as if it had come back from there. The frames in between are forgotten: they are
// those of generated code and of runtime functions that own nothing.

namespace kiln::emulator {

thread_local RunningBlock* current_block = nullptr;

namespace {

struct sigaction g_previous[2];  // of SIGSEGV and SIGBUS

struct sigaction& previous(int signal) { return g_previous[signal == SIGBUS]; }

void pass_on(int signal, siginfo_t* info, void* context) {
  const struct sigaction& old = previous(signal);
  if ((old.sa_flags & SA_SIGINFO) != 0) return old.sa_sigaction(signal, info, context);
  if (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN) return old.sa_handler(signal);
  // The instruction runs again and ends the process as it would have without us.
  ::sigaction(signal, &old, nullptr);
}

void on_signal(int signal, siginfo_t* info, void* context) {
  RunningBlock* block = current_block;
  if (block == nullptr || block->main_stack == nullptr || block->faulted)
    return pass_on(signal, info, context);
  const auto where = reinterpret_cast<std::uintptr_t>(info->si_addr);
  block->faulted = true;
  block->fault.code = FaultCode::illegal_address;
  // An address that the processor does not even translate comes without its value.
  const bool known = info->si_code != SI_KERNEL;
  block->fault.address = known ? where - reinterpret_cast<std::uintptr_t>(block->base) : 0;
  if (known && where >= block->guards_first && where < block->guards_last) {
    block->fault.code = FaultCode::hardware_stack;
    block->fault.address = 0;
  }
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  registers[REG_RDI] = static_cast<greg_t>(reinterpret_cast<std::uintptr_t>(block->main_stack));
  registers[REG_RIP] = static_cast<greg_t>(reinterpret_cast<std::uintptr_t>(&kiln_abandon_stack));
}

// Threads of kernels have small stacks, so signals need one of their own.
struct AlternateStack {
  static constexpr std::size_t kBytes = 128 << 10;
  void* memory = nullptr;
  AlternateStack() {
    stack_t old{};
    if (::sigaltstack(nullptr, &old) == 0 && (old.ss_flags & SS_DISABLE) == 0 &&
        old.ss_size >= 16384)
      return;
    memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      memory = nullptr;
      return;
    }
    stack_t stack{};
    stack.ss_sp = memory;
    stack.ss_size = kBytes;
    ::sigaltstack(&stack, nullptr);
  }
  ~AlternateStack() {
    if (memory == nullptr) return;
    stack_t off{};
    off.ss_flags = SS_DISABLE;
    ::sigaltstack(&off, nullptr);
    ::munmap(memory, kBytes);
  }
};

void install() {
  struct sigaction action{};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGSEGV, &action, &g_previous[0]);
  ::sigaction(SIGBUS, &action, &g_previous[1]);
}

}  // namespace

void catch_faults() {
  static std::once_flag once;
  std::call_once(once, install);
  thread_local AlternateStack stack;
  (void)stack;
}

std::string describe(const RunningBlock* block, const ThreadState* thread) {
  const std::string at = format("block ({},{},{}) of kernel '{}'", block->index[0], block->index[1],
                                block->index[2], block->kernel_name);
  if (thread == nullptr) return at;
  return format("thread ({},{},{}) of {}", thread->index[0], thread->index[1], thread->index[2],
                at);
}

void raise_fault(RunningBlock* block, Fault fault) {
  if (!block->faulted) block->fault = std::move(fault);
  block->faulted = true;
  kiln_abandon_stack(block->main_stack);
}

}  // namespace kiln::emulator
