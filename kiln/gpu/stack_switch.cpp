#include "kiln/gpu/stack_switch.h"

#include <cstdint>

namespace kiln::gpu::detail {

extern "C" void kiln_gpu_start_stack();
extern "C" void kiln_gpu_resume_stack();

// The way back is a jump, not a return: the processor's stack of return addresses stays in step
// with the calls of each stack, and all threads of a block go on at the same place.
asm(R"(
  .text
  .p2align 4
  .globl kiln_gpu_switch_stack
  .hidden kiln_gpu_switch_stack
  .type kiln_gpu_switch_stack, @function
kiln_gpu_switch_stack:
  .cfi_startproc
  pushq %rbp
  .cfi_adjust_cfa_offset 8
  pushq %rbx
  .cfi_adjust_cfa_offset 8
  pushq %r12
  .cfi_adjust_cfa_offset 8
  pushq %r13
  .cfi_adjust_cfa_offset 8
  pushq %r14
  .cfi_adjust_cfa_offset 8
  pushq %r15
  .cfi_adjust_cfa_offset 8
  leaq kiln_gpu_resume_stack(%rip), %rax
  pushq %rax
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %rax
  jmpq *%rax
  .cfi_endproc
  .size kiln_gpu_switch_stack, .-kiln_gpu_switch_stack

  .p2align 4
  .globl kiln_gpu_resume_stack
  .hidden kiln_gpu_resume_stack
  .type kiln_gpu_resume_stack, @function
kiln_gpu_resume_stack:
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size kiln_gpu_resume_stack, .-kiln_gpu_resume_stack

  .p2align 4
  .globl kiln_gpu_start_stack
  .hidden kiln_gpu_start_stack
  .type kiln_gpu_start_stack, @function
kiln_gpu_start_stack:
  .cfi_startproc
  .cfi_undefined rip
  movq %r12, %rdi
  callq *%r13
  ud2
  .cfi_endproc
  .size kiln_gpu_start_stack, .-kiln_gpu_start_stack
)");

void* prepare_stack(void* top, void (*function)(void*), void* argument) {
  auto* slot = static_cast<std::uintptr_t*>(top);
  // Two, so that the stack is aligned where the function begins.
  *--slot = 0;
  *--slot = 0;
  *--slot = reinterpret_cast<std::uintptr_t>(&kiln_gpu_start_stack);
  *--slot = 0;                                           // rbp
  *--slot = 0;                                           // rbx
  *--slot = reinterpret_cast<std::uintptr_t>(argument);  // r12
  *--slot = reinterpret_cast<std::uintptr_t>(function);  // r13
  *--slot = 0;                                           // r14
  *--slot = 0;                                           // r15
  *--slot = reinterpret_cast<std::uintptr_t>(&kiln_gpu_resume_stack);
  return slot;
}

}  // namespace kiln::gpu::detail
