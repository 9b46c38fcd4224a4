#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "kiln/support/timeline.h"

namespace kiln::driver::cuda {

class CudaQueue;

/// The thread that watches streams with pending work: moves their timelines on, notices faults, and
/// destroys queues that were closed. It sleeps while nothing is pending.
void watch(CudaQueue& queue);
/// The cell of the queue that owns a timeline; null for those of other backends and of queues that
/// are gone, whose work is over.
std::uint64_t* cell_of(const Timeline& timeline);
/// Makes the queue's cell known.
void add_queue(CudaQueue& queue);
/// Runs `function`, which must not throw, when the present work of all queues is over.
void after_present_work(std::function<void()> function);
/// Waits for the work of all queues until `deadline`.
void wait_for_all(std::chrono::steady_clock::time_point deadline) noexcept;

}  // namespace kiln::driver::cuda
