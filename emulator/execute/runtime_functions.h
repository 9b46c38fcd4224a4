#pragma once

#include <cstdint>

#include "emulator/execute/state.h"

// The functions that generated code calls; `runtime_symbols()` lists them all.

namespace kiln::emulator {

extern "C" {
[[noreturn]] void kiln_fault(BlockState* block, ThreadState* thread, std::uint32_t code,
                             std::uint64_t address, std::uint32_t line, std::uint32_t tid_x,
                             std::uint32_t tid_y, std::uint32_t tid_z, std::uint32_t cta_x,
                             std::uint32_t cta_y, std::uint32_t cta_z);
void kiln_exit(ThreadState* thread);
void kiln_spin(ThreadState* thread, std::uint32_t line);

// For the barrier of all threads that generated code holds inline: what completes it, and what a
// thread does at the end of a turn around the ring.
void kiln_barrier_complete(BlockState* block, std::uint32_t id);
void kiln_turn(ThreadState* thread);

// Barriers of a block; `count` 0 means all threads that have not ended.
void kiln_barrier(ThreadState* thread, std::uint32_t id, std::uint32_t count, std::uint32_t line);
void kiln_barrier_arrive(ThreadState* thread, std::uint32_t id, std::uint32_t count);
std::uint32_t kiln_barrier_reduce(ThreadState* thread, std::uint32_t id, std::uint32_t count,
                                  std::uint32_t predicate, std::uint32_t operation,
                                  std::uint32_t line);

// Exchanges of a warp. A shuffle's result holds the value and, in bit 32, whether it was in range.
std::uint64_t kiln_shuffle(ThreadState* thread, std::uint32_t mode, std::uint32_t value,
                           std::uint32_t b, std::uint32_t c, std::uint32_t mask,
                           std::uint32_t line);
std::uint32_t kiln_vote(ThreadState* thread, std::uint32_t mode, std::uint32_t predicate,
                        std::uint32_t mask, std::uint32_t line);
std::uint64_t kiln_match(ThreadState* thread, std::uint32_t all, std::uint64_t value,
                         std::uint32_t mask, std::uint32_t line);
std::uint32_t kiln_redux(ThreadState* thread, std::uint32_t operation, std::uint32_t value,
                         std::uint32_t mask, std::uint32_t line);
void kiln_warp_barrier(ThreadState* thread, std::uint32_t mask, std::uint32_t line);
std::uint32_t kiln_active_mask(ThreadState* thread, std::uint32_t line);
std::uint64_t kiln_elect(ThreadState* thread, std::uint32_t mask, std::uint32_t line);
void kiln_matrix(ThreadState* thread, std::uint32_t operation, void* data, std::uint32_t line);
/// Moves a lane's part of a matrix ('a' to 'd') between memory and registers, as wmma lays it out.
void kiln_wmma_access(ThreadState* thread, std::uint32_t which, std::uint32_t shape,
                      std::uint32_t type, std::uint32_t column_major, std::uint64_t stride,
                      std::byte* memory, std::uint32_t* registers, std::uint32_t store);

// Multicast memory; `element` is a type and `values` the registers.
void kiln_multimem_load(BlockState* block, std::uint64_t address, std::uint32_t operation,
                        std::uint32_t element, std::uint32_t count, std::byte* values);
void kiln_multimem_store(BlockState* block, std::uint64_t address, std::uint32_t bytes,
                         const std::byte* values);
void kiln_multimem_reduce(BlockState* block, std::uint64_t address, std::uint32_t operation,
                          std::uint32_t element, std::uint32_t count, const std::byte* values);

// Checks of an access, when the options of the load ask for them.
void kiln_check_memory(BlockState* block, std::uint64_t address, std::uint32_t bytes,
                       std::uint32_t kind, std::uint32_t line, std::uint32_t tid_x,
                       std::uint32_t tid_y, std::uint32_t tid_z, std::uint32_t cta_x,
                       std::uint32_t cta_y, std::uint32_t cta_z);
void kiln_check_init(BlockState* block, std::uint64_t address, std::uint32_t bytes,
                     std::uint32_t kind, std::uint32_t line, std::uint32_t tid_x,
                     std::uint32_t tid_y, std::uint32_t tid_z, std::uint32_t cta_x,
                     std::uint32_t cta_y, std::uint32_t cta_z);

// Barriers in shared memory (mbarrier), and copies that complete at once.
std::uint64_t kiln_mbarrier(BlockState* block, std::uint32_t operation, std::uint64_t address,
                            std::uint32_t count, std::uint32_t bytes);
std::uint32_t kiln_mbarrier_wait(ThreadState* thread, std::uint64_t address, std::uint64_t state,
                                 std::uint32_t by_parity, std::uint32_t line);
void kiln_bulk_copy(BlockState* block, std::uint64_t to, std::uint64_t from, std::uint32_t bytes);
void kiln_cluster_arrive(ThreadState* thread, std::uint32_t line);
void kiln_cluster_wait(ThreadState* thread, std::uint32_t line);

// Numbers
float kiln_directed_f32(std::uint32_t operation, std::uint32_t mode, float a, float b, float c);
double kiln_directed_f64(std::uint32_t operation, std::uint32_t mode, double a, double b, double c);
std::uint32_t kiln_narrow(double value, std::uint32_t format, std::uint32_t mode,
                          std::uint32_t saturate);
std::uint64_t kiln_round_integer(std::uint64_t value, std::uint32_t is_signed, std::uint32_t format,
                                 std::uint32_t mode);
std::uint32_t kiln_widen_byte(std::uint32_t byte, std::uint32_t format);
std::uint32_t kiln_fns(std::uint32_t mask, std::uint32_t base, std::int32_t offset);
float kiln_ex2_f32(float x);
float kiln_lg2_f32(float x);
float kiln_sin_f32(float x);
float kiln_cos_f32(float x);
float kiln_tanh_f32(float x);

std::uint64_t kiln_clock();
std::uint64_t kiln_global_timer();

// The functions that the driver's side gives to kernels.
std::uint32_t kiln_printf(BlockState* block, std::uint64_t format, std::uint64_t arguments);
std::uint64_t kiln_malloc(BlockState* block, std::uint64_t bytes);
void kiln_free(BlockState* block, std::uint64_t address);
void kiln_assertion(BlockState* block, std::uint64_t message, std::uint64_t file,
                    std::uint32_t line, std::uint64_t function, std::uint32_t tid_x,
                    std::uint32_t tid_y, std::uint32_t tid_z, std::uint32_t cta_x,
                    std::uint32_t cta_y, std::uint32_t cta_z);
}

}  // namespace kiln::emulator
