#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <string>

#include "kiln/driver/backend.h"
#include "kiln/driver/cuda/library.h"
#include "kiln/driver/cuda/memory_manager.h"

namespace kiln::driver::cuda {

class CudaQueue;

/// How many devices the driver has; 0 when it cannot be used.
int device_count() noexcept;
/// The device, opened on first use. One that cannot be opened: ValueError.
DeviceBackend& device(int id);

class CudaDevice final : public DeviceBackend {
 public:
  explicit CudaDevice(int id);

  std::string_view label() const override { return "gpu"; }
  std::string_view api() const override { return "cuda"; }
  int id() const override { return id_; }
  std::string architecture_name() const override { return format_architecture(); }
  std::string model_name() const override { return name_; }
  bool is_host_unified() const override { return integrated_; }
  /// Graphs are not compiled for it yet, so what runs by itself stays on the CPU.
  bool is_compatible() const override { return false; }
  std::map<std::string, std::int64_t> stats() const override;
  std::size_t max_single_alloc_size() const override { return memory_->settings().cap; }
  std::size_t trim() override;
  bool can_access(const DeviceBackend& other) const override;
  QueueBackend* default_queue() override;
  Ref<QueueBackend> make_queue() override { return make_queue(0); }
  /// Priorities outside the driver's range are moved to its nearest end.
  Ref<QueueBackend> make_queue(int priority);
  /// Over a stream of the driver that stays the caller's; null is the default stream.
  Ref<QueueBackend> wrap_stream(Stream stream);
  /// (least, greatest): a lower number is more urgent.
  std::pair<int, int> priority_range() const;
  /// As the driver numbers them. An attribute it does not know: ValueError.
  int attribute(int which) const;
  bool supports_multicast() const;
  Ref<EventBackend> make_event(bool enable_timing) override;
  void* allocate(std::size_t bytes, QueueBackend& queue, Usage usage) override;
  void release(void* memory, std::size_t bytes, Usage usage) noexcept override;
  void copy_to_host(void* destination, const void* source, std::size_t bytes) override {
    copy_now(destination, source, bytes);
  }
  void copy_from_host(void* destination, const void* source, std::size_t bytes) override {
    copy_now(destination, source, bytes);
  }

  /// A kernel's fault spoils the device: what then failed is what every later call throws.
  void set_fault(const std::exception_ptr& fault);
  void throw_if_faulted() const {
    if (faulted_.load(std::memory_order_acquire)) [[unlikely]]
      std::rethrow_exception(fault_);
  }
  Context context() const { return context_; }
  DeviceNumber number() const { return number_; }
  /// Pinned memory for what the driver itself needs: cells and stages of copies.
  MemoryManager& host_memory() { return *host_memory_; }

 private:
  std::string format_architecture() const;
  void settle();
  /// Between the host and the device, on a stream of its own.
  void copy_now(void* destination, const void* source, std::size_t bytes);

  std::atomic<bool> faulted_{false};
  std::exception_ptr fault_;  // set before faulted_, once
  std::mutex fault_mutex_;
  int id_;
  DeviceNumber number_ = 0;
  Context context_ = nullptr;
  std::string name_;
  std::size_t total_ = 0;
  int major_ = 0, minor_ = 0;
  bool integrated_ = false;
  Stream copies_ = nullptr;  // of copy_now
  std::mutex copies_mutex_;
  std::unique_ptr<MemoryManager> memory_;
  std::unique_ptr<MemoryManager> host_memory_;
  std::once_flag default_queue_made_;
  CudaQueue* default_queue_ = nullptr;
};

}  // namespace kiln::driver::cuda
