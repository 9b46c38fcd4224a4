#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "emulator/execute/memory_pools.h"
#include "emulator/execute/running_block.h"
#include "emulator/execute/runtime_functions.h"
#include "kiln/support/format.h"

// printf, malloc, free and assert of kernels. They run on the stack of who resumed the block, since
// a thread of a kernel has little stack of its own.

namespace kiln::emulator {
namespace {

const char* text_at(const RunningBlock* block, std::uint64_t address) {
  return reinterpret_cast<const char*>(block->base + address);
}

// The arguments of a call of printf: each at a multiple of its size.
struct Arguments {
  const std::byte* bytes;
  std::size_t offset = 0;
  template <typename T>
  T take() {
    offset = (offset + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    T value;
    std::memcpy(&value, bytes + offset, sizeof value);
    offset += sizeof value;
    return value;
  }
};

template <typename T>
void append(std::string& out, const std::string& directive, T value) {
  char buffer[512];
  const int length = std::snprintf(buffer, sizeof buffer, directive.c_str(), value);
  if (length > 0) out.append(buffer, std::min<std::size_t>(length, sizeof buffer - 1));
}

// One directive, from behind its '%'; returns where the text goes on.
const char* format_one(const RunningBlock* block, const char* at, Arguments& arguments,
                       std::string& out, int& count) {
  std::string flags = "%";
  while (*at != 0 && std::strchr("-+ #0", *at) != nullptr) flags += *at++;
  const auto number = [&] {
    if (*at == '*') {
      ++at;
      flags += std::to_string(arguments.take<std::int32_t>() % 256);
      ++count;
    }
    for (int digits = 0; *at >= '0' && *at <= '9'; ++at)
      if (digits++ < 3) flags += *at;
  };
  number();
  if (*at == '.') {
    flags += *at++;
    number();
  }
  int longs = 0;
  for (; *at != 0 && std::strchr("hljztL", *at) != nullptr; ++at)
    longs += *at == 'l' || *at == 'j' || *at == 'z' || *at == 't' ? 1 : 0;
  const char kind = *at;
  if (kind == 0) return at;
  ++count;
  if (std::strchr("di", kind) != nullptr) {
    append(out, flags + "lld",
           longs != 0 ? arguments.take<long long>()
                      : static_cast<long long>(arguments.take<std::int32_t>()));
  } else if (std::strchr("uxXo", kind) != nullptr) {
    append(out, flags + "ll" + kind,
           longs != 0 ? arguments.take<unsigned long long>()
                      : static_cast<unsigned long long>(arguments.take<std::uint32_t>()));
  } else if (std::strchr("eEfFgGaA", kind) != nullptr) {
    append(out, flags + kind, arguments.take<double>());
  } else if (kind == 'c') {
    append(out, flags + kind, arguments.take<std::int32_t>());
  } else if (kind == 'p') {
    append(out, flags + kind, reinterpret_cast<void*>(arguments.take<std::uint64_t>()));
  } else if (kind == 's') {
    const auto address = arguments.take<std::uint64_t>();
    append(out, flags + kind, address == 0 ? "(null)" : text_at(block, address));
  } else {
    --count;
    out += '%';
    if (kind != '%') out += kind;
  }
  return at + 1;
}

struct Heap {
  std::mutex mutex;
  std::map<std::pair<const std::byte*, std::uint64_t>, ScratchMemory> allocations;
};

Heap& heap() {
  static auto* const heap = new Heap;
  return *heap;
}

}  // namespace

extern "C" {

std::uint32_t kiln_printf(BlockState* state, std::uint64_t text, std::uint64_t values) {
  RunningBlock* block = running(state);
  std::uint32_t result = 0;
  auto print = [&] {
    std::string out;
    int count = 0;
    Arguments arguments{block->base + values};
    const char* at = text_at(block, text);
    for (std::size_t length = 0; *at != 0 && length < (1 << 16); ++length) {
      if (*at == '%')
        at = format_one(block, at + 1, arguments, out, count);
      else
        out += *at++;
    }
    RunningBlock* const self = current_block;
    current_block = nullptr;
    if (block->launch->print) block->launch->print(out);
    current_block = self;
    result = static_cast<std::uint32_t>(count);
  };
  on_main_stack(block, print);
  return result;
}

std::uint64_t kiln_malloc(BlockState* state, std::uint64_t bytes) {
  RunningBlock* block = running(state);
  std::uint64_t address = 0;
  auto allocate = [&] {
    if (bytes == 0 || bytes > std::uint64_t{1} << 32) return;
    ScratchMemory memory(*block->launch->view, bytes);
    if (memory.empty()) return;
    address = memory.address();
    const std::lock_guard lock(heap().mutex);
    heap().allocations.emplace(std::pair(block->base, address), std::move(memory));
  };
  on_main_stack(block, allocate);
  return address;
}

void kiln_free(BlockState* state, std::uint64_t address) {
  RunningBlock* block = running(state);
  if (address == 0) return;
  bool known = false;
  auto release = [&] {
    const std::lock_guard lock(heap().mutex);
    known = heap().allocations.erase(
                std::pair(static_cast<const std::byte*>(block->base), address)) != 0;
  };
  on_main_stack(block, release);
  if (!known)
    raise_fault(block, {FaultCode::illegal_address,
                        format("A kernel frees address {:#x}, which its malloc did not give, in "
                               "{}.",
                               address, describe(block, nullptr)),
                        address});
}

void kiln_assertion(BlockState* state, std::uint64_t message, std::uint64_t file,
                    std::uint32_t line, std::uint64_t function, std::uint32_t tid_x,
                    std::uint32_t tid_y, std::uint32_t tid_z, std::uint32_t cta_x,
                    std::uint32_t cta_y, std::uint32_t cta_z) {
  RunningBlock* block = running(state);
  auto print = [&] {
    const std::string text =
        format("{}:{}: {}: block: [{},{},{}], thread: [{},{},{}] Assertion `{}` failed.",
               text_at(block, file), line, text_at(block, function), cta_x, cta_y, cta_z, tid_x,
               tid_y, tid_z, text_at(block, message));
    RunningBlock* const self = current_block;
    current_block = nullptr;
    if (block->launch->print) block->launch->print(text + "\n");
    current_block = self;
    if (!block->faulted) block->fault.sentence = text;
  };
  on_main_stack(block, print);
  raise_fault(block, {FaultCode::assertion, block->fault.sentence, 0});
}
}

}  // namespace kiln::emulator
