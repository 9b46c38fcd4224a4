#include <cstring>

#include "emulator/execute/running_block.h"
#include "emulator/execute/runtime_functions.h"
#include "kiln/support/format.h"

// What generated code calls when the options of its load ask for checks. `kind`: 0 read, 1 write,
// 2 both. An address outside of the view's window is no memory of the device, or parameters and
// frames on the host; the access itself finds that out.

namespace kiln::emulator {
namespace {

struct Access {
  std::uint64_t address;
  std::uint32_t bytes, kind, line;
  std::uint32_t tid[3], cta[3];
};

[[noreturn]] void refuse(RunningBlock* block, const Access& access, std::string_view problem) {
  Fault fault;
  fault.code = FaultCode::illegal_address;
  fault.address = access.address;
  fault.sentence = format(
      "Thread ({},{},{}) of block ({},{},{}) of kernel '{}' accesses {} bytes at {:#x}, {}: {}.",
      access.tid[0], access.tid[1], access.tid[2], access.cta[0], access.cta[1], access.cta[2],
      block->kernel_name, access.bytes, access.address, block->source->describe(access.line),
      problem);
  const std::string place = describe_address(access.address);
  if (!place.empty()) fault.sentence += format(" The address is {}.", place);
  raise_fault(block, std::move(fault));
}

void check_memory(RunningBlock* block, const Access& access) {
  const std::uint64_t offset = access.address - block->view_first;
  for (std::uint32_t at = 0; at < access.bytes;) {
    const std::uint64_t byte = offset + at;
    if (byte >= block->view_bytes) return;
    const std::uint8_t known = block->bounds[byte >> 3];
    const std::uint32_t within = byte & 7, part = std::min(8 - within, access.bytes - at);
    if (known != 0 && within + part > (known > 8 ? 0U : known))
      refuse(block, access, "not all of them are memory of the device");
    at += part;
  }
}

void check_init(RunningBlock* block, const Access& access) {
  const std::uint64_t offset = access.address - block->view_first;
  if (offset >= block->view_bytes || access.bytes > block->view_bytes - offset) return;
  if (access.address - block->scratch_first < block->scratch_bytes) return;
  if (access.kind != 1)
    for (std::uint32_t i = 0; i < access.bytes; ++i)
      if (block->written[offset + i] == 0)
        refuse(block, access, format("byte {} of them was never written", i));
  if (access.kind != 0) std::memset(block->written + offset, 1, access.bytes);
}

}  // namespace

extern "C" {

void kiln_check_memory(BlockState* state, std::uint64_t address, std::uint32_t bytes,
                       std::uint32_t kind, std::uint32_t line, std::uint32_t tid_x,
                       std::uint32_t tid_y, std::uint32_t tid_z, std::uint32_t cta_x,
                       std::uint32_t cta_y, std::uint32_t cta_z) {
  RunningBlock* block = running(state);
  if (block->bounds == nullptr) return;
  const Access access{address, bytes, kind, line, {tid_x, tid_y, tid_z}, {cta_x, cta_y, cta_z}};
  auto check = [&] { check_memory(block, access); };
  on_main_stack(block, check);
}

void kiln_check_init(BlockState* state, std::uint64_t address, std::uint32_t bytes,
                     std::uint32_t kind, std::uint32_t line, std::uint32_t tid_x,
                     std::uint32_t tid_y, std::uint32_t tid_z, std::uint32_t cta_x,
                     std::uint32_t cta_y, std::uint32_t cta_z) {
  RunningBlock* block = running(state);
  if (block->written == nullptr) return;
  const Access access{address, bytes, kind, line, {tid_x, tid_y, tid_z}, {cta_x, cta_y, cta_z}};
  auto check = [&] { check_init(block, access); };
  on_main_stack(block, check);
}
}

}  // namespace kiln::emulator
