#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include "kiln/driver/backend.h"

namespace kiln::driver {

/// A mark on a CPU queue; with timing, the moment at which the queue got there.
class CpuEvent final : public EventBackend {
 public:
  using EventBackend::EventBackend;

  void record(QueueBackend& queue) override;
  Point mark() const override;
  double elapsed_time(const EventBackend& end) const override;

 private:
  /// The mark, and nanoseconds of the steady clock; 0 while unknown.
  std::pair<Point, std::shared_ptr<std::atomic<std::int64_t>>> timed_mark() const;

  mutable std::mutex mutex_;
  Point mark_;
  std::shared_ptr<std::atomic<std::int64_t>> time_;
};

}  // namespace kiln::driver
