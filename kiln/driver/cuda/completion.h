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
/// No handle of the queue is left: it is destroyed once its work is over.
void close_queue(CudaQueue& queue);
/// Has the stream that owns a timeline write `value` into its cell, where that is still to be done;
/// no effect on timelines of other backends. Takes no lock of a queue but that one's.
void flush(const Point& point);
/// Makes the queue known.
void add_queue(CudaQueue& queue);
/// Runs `function`, which must not throw, when the present work of all queues is over.
void after_present_work(std::function<void()> function);
/// Waits for the work of all queues until `deadline`.
void wait_for_all(std::chrono::steady_clock::time_point deadline) noexcept;

}  // namespace kiln::driver::cuda
