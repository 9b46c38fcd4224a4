#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "kiln/driver/backend.h"
#include "kiln/driver/cuda/cells.h"
#include "kiln/driver/cuda/library.h"

namespace kiln::driver::cuda {

class CudaDevice;

/// A stream. Behind each work it writes the work's number into a cell of pinned memory, which other
/// streams wait for and which the thread of completion.h reads to move the timeline on.
class CudaQueue final : public QueueBackend {
 public:
  /// `priority` as the driver counts: lower is more urgent.
  explicit CudaQueue(CudaDevice& device, int priority = 0);
  /// Over a stream that somebody else owns.
  CudaQueue(CudaDevice& device, Stream external, std::true_type);
  ~CudaQueue() override;

  std::uint64_t enqueue(Work work) override;
  void synchronize() override;
  std::uintptr_t native_handle() const override {
    return reinterpret_cast<std::uintptr_t>(stream_);
  }
  void wait_for_host_value(std::uintptr_t device_ptr, std::uint64_t value) override;
  void close() noexcept override;

  Stream stream() const { return stream_; }
  std::uint64_t* cell() const { return cell_; }

  /// Moves the timeline to what the stream has done; called by whoever looks. `check_faults` asks
  /// the driver, too. Whether work is left.
  bool poll(bool check_faults);
  /// Only the thread of completion.h looks at it from here on.
  bool closed() const { return closed_; }
  void set_closed() { closed_ = true; }
  /// Has the stream write the number of the last work where that of work `value` is not written
  /// yet.
  void flush(std::uint64_t value);
  /// Whether the thread of completion.h looks at it. Sequentially consistent, as the number of the
  /// last work: of whoever gives it work and whoever stops looking one sees the other.
  bool watched() const { return watched_.load(std::memory_order_seq_cst); }
  void set_watched(bool watched) { watched_.store(watched, std::memory_order_seq_cst); }

 private:
  /// Work whose fate depends on other queues, or that holds something while it runs.
  struct Dependent {
    std::uint64_t value = 0;
    std::vector<Point> points;
    std::function<void()> done;
  };

  /// For a launch trace.
  void record_work(const Work& work) const;
  /// Has the stream wait for a point of any queue.
  void wait_for(const Point& point);
  void submit(Work& work, Dependent& dependent);
  void copy(Work& work, Dependent& dependent);
  void copy_from_host(Work& work, Dependent& dependent);
  void copy_on_device(const Work& work, Dependent& dependent);
  void copy_to_host(const Work& work, Dependent& dependent);
  /// Takes the next number for what was submitted, and has the stream write it when something
  /// depends on that.
  std::uint64_t finish(Dependent dependent, bool write);
  void write_number();
  /// Whoever the stream is about to wait for may wait for what stands before it.
  void write_before_wait();
  /// Work up to `value` is over; takes what that finishes out of the list.
  void advance_to(std::uint64_t value);
  void fail_all(std::exception_ptr error);
  void check(Result result, std::string_view call) const;

  CudaDevice& cuda_device_;
  Stream stream_ = nullptr;
  bool owned_ = true;
  std::uint64_t* cell_;
  std::shared_ptr<Gate> gate_;
  std::mutex mutex_;  // of the order of the stream, and of what is below
  std::deque<Dependent> dependents_;
  /// The last work whose end the host makes: a copy into plain memory.
  std::uint64_t last_host_write_ = 0;
  std::mutex poll_mutex_;  // of the timeline; taken before the other one
  bool closed_ = false;    // guarded by the lock of completion.cpp
  std::atomic<bool> watched_{false};
  /// The last number that the stream writes or has written.
  std::atomic<std::uint64_t> written_{0};
};

}  // namespace kiln::driver::cuda
