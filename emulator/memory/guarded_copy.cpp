// Copies for which a fault is an answer.
//
// A user may pass any pointer. The copy is one instruction (rep movsb, as fast as a library's copy
// from a few hundred bytes on) at a known place, so a handler of SIGSEGV can tell from the
// instruction pointer alone that it interrupted such a copy, and continues behind it with a mark in
// a register. No state, no jump out of a handler; a sanitizer has nothing to follow.
//
// Trap: the mark must not be a register that the instruction changes (it counts rcx down).

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

// The places that the handler knows: each is followed by the place to continue.
extern "C" {
bool kiln_emulator_copy(void* to, const void* from, std::size_t bytes);
bool kiln_emulator_copy32(void* to, const void* from, std::size_t words);
bool kiln_emulator_copy64(void* to, const void* from, std::size_t words);
bool kiln_emulator_fill8(void* to, std::uint32_t value, std::size_t count);
bool kiln_emulator_fill16(void* to, std::uint32_t value, std::size_t count);
bool kiln_emulator_fill32(void* to, std::uint32_t value, std::size_t count);
extern const char kiln_emulator_copy_at[], kiln_emulator_copy_failed[];
extern const char kiln_emulator_copy32_at[], kiln_emulator_copy32_failed[];
extern const char kiln_emulator_copy64_at[], kiln_emulator_copy64_failed[];
extern const char kiln_emulator_fill8_at[], kiln_emulator_fill8_failed[];
extern const char kiln_emulator_fill16_at[], kiln_emulator_fill16_failed[];
extern const char kiln_emulator_fill32_at[], kiln_emulator_fill32_failed[];
}

// rdi: to, rsi: from or value, rdx: how many; rax: whether it ended well.
#define KILN_GUARDED(name, prepare, instruction)                                                  \
  asm(".text\n.globl " #name "\n.hidden " #name "\n.hidden " #name "_at\n.hidden " #name          \
      "_failed\n.globl " #name "_at\n.globl " #name "_failed\n.type " #name ",@function\n" #name  \
      ":\n.cfi_startproc\nmovq %rdx, %rcx\n" prepare "\n" #name "_at:\n" instruction              \
      "\nmovl $1, %eax\nret\n" #name "_failed:\nxorl %eax, %eax\nret\n.cfi_endproc\n.size " #name \
      ", .-" #name "\n")
KILN_GUARDED(kiln_emulator_copy, "", "rep movsb");
KILN_GUARDED(kiln_emulator_copy32, "", "rep movsl");
KILN_GUARDED(kiln_emulator_copy64, "", "rep movsq");
KILN_GUARDED(kiln_emulator_fill8, "movl %esi, %eax", "rep stosb");
KILN_GUARDED(kiln_emulator_fill16, "movl %esi, %eax", "rep stosw");
KILN_GUARDED(kiln_emulator_fill32, "movl %esi, %eax", "rep stosl");
#undef KILN_GUARDED

namespace kiln::emulator {
namespace {

struct sigaction previous_segv, previous_bus;
std::atomic<std::uint64_t> replaced_first = 0, replaced_bytes = 0;
std::atomic<std::uint64_t> replacements = 0;  // odd: one is under way
std::mutex replacing;

struct Recovery {
  const char* at;
  const char* failed;
};
const Recovery kRecoveries[] = {
    {kiln_emulator_copy_at, kiln_emulator_copy_failed},
    {kiln_emulator_copy32_at, kiln_emulator_copy32_failed},
    {kiln_emulator_copy64_at, kiln_emulator_copy64_failed},
    {kiln_emulator_fill8_at, kiln_emulator_fill8_failed},
    {kiln_emulator_fill16_at, kiln_emulator_fill16_failed},
    {kiln_emulator_fill32_at, kiln_emulator_fill32_failed},
};

bool recover(ucontext_t& context) {
  auto& counter = context.uc_mcontext.gregs[REG_RIP];
  for (const Recovery& recovery : kRecoveries) {
    if (counter != reinterpret_cast<greg_t>(recovery.at)) continue;
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
  return bytes == 4 ? kiln_emulator_copy32(to, from, 1) : kiln_emulator_copy64(to, from, 1);
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
