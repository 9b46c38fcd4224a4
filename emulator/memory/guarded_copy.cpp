// Copies for which a fault is an answer.
//
// A user may pass any pointer. The copies are instructions at known places, so a handler of SIGSEGV
// can tell from the instruction pointer alone that it interrupted one, and goes on where the copy
// answers "failed". No state, no jump out of a handler; a sanitizer has nothing to follow.
//
// Trap: nothing of the stack may be in use between the first and the last of the instructions.

#include "emulator/memory/guarded_copy.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <utility>

#include "emulator/memory/memory.h"

#if !defined(__x86_64__)
#error "guarded_copy needs its instructions for this processor"
#endif

extern "C" {
bool kiln_emulator_copy(void* to, const void* from, std::size_t bytes);
bool kiln_emulator_copy32(void* to, const void* from);
bool kiln_emulator_copy64(void* to, const void* from);
bool kiln_emulator_fill8(void* to, std::uint32_t value, std::size_t count);
bool kiln_emulator_fill16(void* to, std::uint32_t value, std::size_t count);
bool kiln_emulator_fill32(void* to, std::uint32_t value, std::size_t count);
}

// Defines a function and the marks of its guarded part. rdi: to, rsi: from or value, rdx: how many;
// rax: whether it ended well.
#define KILN_GUARDED(name, instructions)                                                          \
  extern "C" const char name##_begin[], name##_failed[];                                          \
  asm(".text\n.globl " #name "\n.hidden " #name "\n.globl " #name "_begin\n.hidden " #name        \
      "_begin\n.globl " #name "_failed\n.hidden " #name "_failed\n.type " #name                   \
      ",@function\n" #name ":\n.cfi_startproc\n" #name "_begin:\n" instructions                   \
      "\nmovl $1, %eax\nret\n" #name "_failed:\nxorl %eax, %eax\nret\n.cfi_endproc\n.size " #name \
      ", .-" #name "\n")
// 64 bytes at a time where there are many (string instructions are slow on some machines), and past
// the caches from 1 MiB on, once the target is aligned.
KILN_GUARDED(kiln_emulator_copy,
             "cmpq $256, %rdx\njb 3f\ncmpq $1048576, %rdx\njb 2f\n"
             "movq %rdi, %rcx\nnegq %rcx\nandq $15, %rcx\nsubq %rcx, %rdx\nrep movsb\n1:\n"
             "prefetchnta 512(%rsi)\n"
             "movups (%rsi), %xmm0\nmovups 16(%rsi), %xmm1\n"
             "movups 32(%rsi), %xmm2\nmovups 48(%rsi), %xmm3\n"
             "movntps %xmm0, (%rdi)\nmovntps %xmm1, 16(%rdi)\n"
             "movntps %xmm2, 32(%rdi)\nmovntps %xmm3, 48(%rdi)\n"
             "addq $64, %rsi\naddq $64, %rdi\nsubq $64, %rdx\ncmpq $64, %rdx\njae 1b\n"
             "sfence\njmp 3f\n2:\n"
             "movups (%rsi), %xmm0\nmovups 16(%rsi), %xmm1\n"
             "movups 32(%rsi), %xmm2\nmovups 48(%rsi), %xmm3\n"
             "movups %xmm0, (%rdi)\nmovups %xmm1, 16(%rdi)\n"
             "movups %xmm2, 32(%rdi)\nmovups %xmm3, 48(%rdi)\n"
             "addq $64, %rsi\naddq $64, %rdi\nsubq $64, %rdx\ncmpq $64, %rdx\njae 2b\n"
             "3:\nmovq %rdx, %rcx\nrep movsb");
KILN_GUARDED(kiln_emulator_copy32, "movl (%rsi), %eax\nmovl %eax, (%rdi)");
KILN_GUARDED(kiln_emulator_copy64, "movq (%rsi), %rax\nmovq %rax, (%rdi)");
KILN_GUARDED(kiln_emulator_fill8, "movl %esi, %eax\nmovq %rdx, %rcx\nrep stosb");
KILN_GUARDED(kiln_emulator_fill16, "movl %esi, %eax\nmovq %rdx, %rcx\nrep stosw");
KILN_GUARDED(kiln_emulator_fill32, "movl %esi, %eax\nmovq %rdx, %rcx\nrep stosl");
#undef KILN_GUARDED

namespace kiln::emulator {
namespace {

struct sigaction previous_segv, previous_bus;
std::atomic<std::uint64_t> replaced_first = 0, replaced_bytes = 0;
std::atomic<std::uint64_t> replacements = 0;  // odd: one is under way
std::mutex replacing;

struct Recovery {
  const char* begin;
  const char* failed;  // behind the guarded instructions
};
const Recovery kRecoveries[] = {
    {kiln_emulator_copy_begin, kiln_emulator_copy_failed},
    {kiln_emulator_copy32_begin, kiln_emulator_copy32_failed},
    {kiln_emulator_copy64_begin, kiln_emulator_copy64_failed},
    {kiln_emulator_fill8_begin, kiln_emulator_fill8_failed},
    {kiln_emulator_fill16_begin, kiln_emulator_fill16_failed},
    {kiln_emulator_fill32_begin, kiln_emulator_fill32_failed},
};

bool recover(ucontext_t& context) {
  auto& counter = context.uc_mcontext.gregs[REG_RIP];
  for (const Recovery& recovery : kRecoveries) {
    if (counter < reinterpret_cast<greg_t>(recovery.begin) ||
        counter >= reinterpret_cast<greg_t>(recovery.failed))
      continue;
    counter = reinterpret_cast<greg_t>(recovery.failed);
    return true;
  }
  return false;
}

// Whether the page was being replaced when the thread met it: then the access is simply repeated.
// It may have ended before this thread came here, so the last one counts, too, but once.
bool wait_for_replacement(std::uint64_t address) {
  static thread_local std::uint64_t repeated_for = 0;
  const std::uint64_t number = replacements.load();
  if (number == 0 || address - replaced_first.load() >= replaced_bytes.load()) return false;
  if (number % 2 == 1) {
    while (replacements.load() == number) sched_yield();
    return true;
  }
  return std::exchange(repeated_for, number) != number;
}

// Nothing else of the process may be relied on: one buffer and one write.
void report_host_access(std::uint64_t address) {
  const Memory* memory = process_memory();
  if (memory == nullptr || !memory->window().contains(address)) return;
  char text[512];
  const std::string what = memory->describe(address);
  const int length = std::snprintf(
      text, sizeof text,
      "kiln emulator: the host touched the device address 0x%llx (%s). The memory of a device "
      "cannot be reached from the host: copy it with cuMemcpyDtoH or cuMemcpyHtoD.\n",
      static_cast<unsigned long long>(address),
      what.empty() ? "nothing is allocated there" : what.c_str());
  if (length > 0) (void)!write(2, text, std::min<std::size_t>(length, sizeof text - 1));
}

void pass_on(int signal, siginfo_t* information, void* context) {
  const struct sigaction& previous = signal == SIGBUS ? previous_bus : previous_segv;
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, information, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else {
    // Back in the program the same access ends it, as it would have without us.
    struct sigaction action{};
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);
  }
}

void on_fault(int signal, siginfo_t* information, void* context) {
  const int saved = errno;
  const auto address = reinterpret_cast<std::uint64_t>(information->si_addr);
  const bool handled = wait_for_replacement(address) || recover(*static_cast<ucontext_t*>(context));
  if (!handled) report_host_access(address);
  errno = saved;
  if (!handled) pass_on(signal, information, context);
}

}  // namespace

bool guarded_copy(void* to, const void* from, std::size_t bytes) {
  return kiln_emulator_copy(to, from, bytes);
}

bool guarded_copy_word(void* to, const void* from, std::uint32_t bytes) {
  return bytes == 4 ? kiln_emulator_copy32(to, from) : kiln_emulator_copy64(to, from);
}

bool guarded_fill(void* to, std::uint32_t value, std::uint32_t element_bytes, std::size_t count) {
  switch (element_bytes) {
    case 1:
      return kiln_emulator_fill8(to, value, count);
    case 2:
      return kiln_emulator_fill16(to, value, count);
    default:
      return kiln_emulator_fill32(to, value, count);
  }
}

std::ptrdiff_t guarded_length(const char* text, std::size_t limit) {
  constexpr std::size_t kPiece = 4096;
  char piece[kPiece];
  for (std::size_t done = 0; done < limit;) {
    // Up to the end of a page, so that memory that ends there suffices.
    const auto at = reinterpret_cast<std::uintptr_t>(text + done);
    const std::size_t bytes = std::min(kPiece - at % kPiece, limit - done);
    if (!guarded_copy(piece, text + done, bytes)) return -1;
    if (const void* zero = std::memchr(piece, 0, bytes))
      return static_cast<std::ptrdiff_t>(done + (static_cast<const char*>(zero) - piece));
    done += bytes;
  }
  return -1;
}

void install_fault_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action{};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &previous_segv);
    sigaction(SIGBUS, &action, &previous_bus);
  });
}

void begin_replacing(std::uint64_t first, std::uint64_t bytes) {
  replacing.lock();
  replaced_first = first;
  replaced_bytes = bytes;
  replacements.fetch_add(1);
}

void end_replacing() {
  replacements.fetch_add(1);
  replacing.unlock();
}

}  // namespace kiln::emulator
