#include "emulator/execute/runtime.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "emulator/execute/running_block.h"
#include "emulator/execute/runtime_functions.h"
#include "kiln/support/format.h"

namespace kiln::emulator {
namespace {

std::string_view reason_of(FaultCode code) {
  switch (code) {
    case FaultCode::misaligned_address:
      return "used an address that is not aligned";
    case FaultCode::launch_failed:
      return "stopped at a trap";
    case FaultCode::invalid_program_counter:
      return "called or jumped to what is no function";
    case FaultCode::assertion:
      return "failed an assertion";
    default:
      return "failed";
  }
}

}  // namespace

std::string SourceLines::describe(std::uint32_t ptx_line) const {
  std::string text = format("line {} of the PTX", ptx_line);
  const auto after = std::upper_bound(
      lines.begin(), lines.end(), ptx_line,
      [](std::uint32_t line, const SourceLine& entry) { return line < entry.ptx; });
  if (after == lines.begin()) return text;
  const SourceLine& entry = *std::prev(after);
  if (entry.line == 0 || entry.file >= files.size()) return text;
  return text + format(" ({}:{})", files[entry.file], entry.line);
}

extern "C" void kiln_fault(BlockState* state, ThreadState*, std::uint32_t code,
                           std::uint64_t address, std::uint32_t line, std::uint32_t tid_x,
                           std::uint32_t tid_y, std::uint32_t tid_z, std::uint32_t cta_x,
                           std::uint32_t cta_y, std::uint32_t cta_z) {
  RunningBlock* block = running(state);
  Fault fault;
  fault.code = static_cast<FaultCode>(code);
  fault.address = address;
  std::string who = format("Thread ({},{},{}) of block", tid_x, tid_y, tid_z);
  if (line == 0) who = "A thread of block";
  fault.sentence = format("{} ({},{},{}) of kernel '{}' {}", who, cta_x, cta_y, cta_z,
                          block->kernel_name, reason_of(fault.code));
  if (line != 0) fault.sentence += format(" at {}", block->source->describe(line));
  if (line != 0 && address != 0) fault.sentence += format(", value {:#x}", address);
  fault.sentence += '.';
  if (!block->faulted) block->fault = std::move(fault);
  block->faulted = true;
  // Nothing of this frame needs to be destroyed but what was moved out.
  {
    std::string().swap(who);
  }
  kiln_abandon_stack(block->main_stack);
}

std::span<const RuntimeSymbol> runtime_symbols() {
  static const RuntimeSymbol symbols[] = {
#define KILN_SYMBOL(name) {#name, reinterpret_cast<void*>(&name)}
      KILN_SYMBOL(kiln_fault),
      KILN_SYMBOL(kiln_exit),
      KILN_SYMBOL(kiln_spin),
      KILN_SYMBOL(kiln_barrier_complete),
      KILN_SYMBOL(kiln_turn),
      KILN_SYMBOL(kiln_barrier),
      KILN_SYMBOL(kiln_barrier_arrive),
      KILN_SYMBOL(kiln_barrier_reduce),
      KILN_SYMBOL(kiln_shuffle),
      KILN_SYMBOL(kiln_vote),
      KILN_SYMBOL(kiln_match),
      KILN_SYMBOL(kiln_redux),
      KILN_SYMBOL(kiln_warp_barrier),
      KILN_SYMBOL(kiln_active_mask),
      KILN_SYMBOL(kiln_elect),
      KILN_SYMBOL(kiln_matrix),
      KILN_SYMBOL(kiln_wmma_access),
      KILN_SYMBOL(kiln_multimem_load),
      KILN_SYMBOL(kiln_multimem_store),
      KILN_SYMBOL(kiln_multimem_reduce),
      KILN_SYMBOL(kiln_check_memory),
      KILN_SYMBOL(kiln_check_init),
      KILN_SYMBOL(kiln_mbarrier),
      KILN_SYMBOL(kiln_mbarrier_wait),
      KILN_SYMBOL(kiln_bulk_copy),
      KILN_SYMBOL(kiln_cluster_arrive),
      KILN_SYMBOL(kiln_cluster_wait),
      KILN_SYMBOL(kiln_directed_f32),
      KILN_SYMBOL(kiln_directed_f64),
      KILN_SYMBOL(kiln_narrow),
      KILN_SYMBOL(kiln_round_integer),
      KILN_SYMBOL(kiln_widen_byte),
      KILN_SYMBOL(kiln_fns),
      KILN_SYMBOL(kiln_ex2_f32),
      KILN_SYMBOL(kiln_lg2_f32),
      KILN_SYMBOL(kiln_sin_f32),
      KILN_SYMBOL(kiln_cos_f32),
      KILN_SYMBOL(kiln_tanh_f32),
      KILN_SYMBOL(kiln_clock),
      KILN_SYMBOL(kiln_global_timer),
      KILN_SYMBOL(kiln_printf),
      KILN_SYMBOL(kiln_malloc),
      KILN_SYMBOL(kiln_free),
      KILN_SYMBOL(kiln_assertion),
      // LLVM calls these for loops that copy or fill.
      KILN_SYMBOL(memcpy),
      KILN_SYMBOL(memmove),
      KILN_SYMBOL(memset),
#undef KILN_SYMBOL
  };
  return symbols;
}

}  // namespace kiln::emulator
