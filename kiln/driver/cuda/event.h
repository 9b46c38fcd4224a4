#pragma once

#include <mutex>

#include "kiln/driver/cuda/device.h"

namespace kiln::driver::cuda {

class CudaEvent final : public EventBackend {
 public:
  CudaEvent(CudaDevice& device, bool enable_timing);
  ~CudaEvent() override;
  void record(QueueBackend& queue) override;
  Point mark() const override;
  double elapsed_time(const EventBackend& end) const override;

 private:
  CudaDevice& cuda_device_;
  NativeEvent event_ = nullptr;  // of events with timing
  mutable std::mutex mutex_;
  Point mark_;
};

}  // namespace kiln::driver::cuda
