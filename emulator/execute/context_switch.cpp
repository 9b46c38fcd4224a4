#include "emulator/execute/context_switch.h"

#include <cstdint>

namespace kiln::emulator {

extern "C" void kiln_start_stack();
extern "C" void kiln_resume_function();

// What is saved ends with the address where the stack goes on; generated code switches likewise.
asm(R"(
  .text
  .p2align 4
  .globl kiln_switch_stack
  .hidden kiln_switch_stack
  .type kiln_switch_stack, @function
kiln_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  leaq kiln_resume_function(%rip), %rax
  pushq %rax
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %rax
  jmpq *%rax
  .size kiln_switch_stack, .-kiln_switch_stack

  .p2align 4
  .globl kiln_resume_function
  .hidden kiln_resume_function
  .type kiln_resume_function, @function
kiln_resume_function:
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size kiln_resume_function, .-kiln_resume_function

  .p2align 4
  .globl kiln_abandon_stack
  .hidden kiln_abandon_stack
  .type kiln_abandon_stack, @function
kiln_abandon_stack:
  movq %rdi, %rsp
  popq %rax
  jmpq *%rax
  .size kiln_abandon_stack, .-kiln_abandon_stack

  .p2align 4
  .globl kiln_call_on_stack
  .hidden kiln_call_on_stack
  .type kiln_call_on_stack, @function
kiln_call_on_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  leaq kiln_resume_function(%rip), %rax
  pushq %rax
  movq %rsp, (%rdi)
  movq %rsp, %rbx
  movq %rsi, %rsp
  movq %rdx, %rax
  movq %rcx, %rdi
  movq %r8, %rsi
  movq %r9, %rdx
  callq *%rax
  leaq 8(%rbx), %rsp
  jmp kiln_resume_function
  .size kiln_call_on_stack, .-kiln_call_on_stack

  .p2align 4
  .globl kiln_start_stack
  .hidden kiln_start_stack
  .type kiln_start_stack, @function
kiln_start_stack:
  movq %r12, %rdi
  movq %r13, %rsi
  callq *%r14
  ud2
  .size kiln_start_stack, .-kiln_start_stack
)");

void* prepare_stack(void* top, void (*function)(void*, void*), void* a, void* b) {
  auto* slot = static_cast<std::uintptr_t*>(top);
  // Two, so that the stack is aligned where the function begins.
  *--slot = 0;
  *--slot = 0;
  *--slot = reinterpret_cast<std::uintptr_t>(&kiln_start_stack);
  *--slot = 0;                                           // rbp
  *--slot = 0;                                           // rbx
  *--slot = reinterpret_cast<std::uintptr_t>(a);         // r12
  *--slot = reinterpret_cast<std::uintptr_t>(b);         // r13
  *--slot = reinterpret_cast<std::uintptr_t>(function);  // r14
  *--slot = 0;                                           // r15
  *--slot = reinterpret_cast<std::uintptr_t>(&kiln_resume_function);
  return slot;
}

}  // namespace kiln::emulator
