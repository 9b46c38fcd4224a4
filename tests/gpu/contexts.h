#pragma once

// Contexts that the tests of this layer run on: the CPU and every accelerator there is, for which
// KILN_CUDA_DRIVER may name the emulator.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "kiln/gpu.h"
#include "kiln/support/error.h"

namespace kiln::gpu {

/// -1 is the CPU.
inline std::vector<int> all_contexts() {
  std::vector<int> ids{-1};
  for (int id = 0; id < driver::accelerator_count(); ++id) ids.push_back(id);
  return ids;
}

inline DeviceContext context_of(int id) {
  return id < 0 ? DeviceContext(0, {.api = "cpu"}) : DeviceContext(id, {.api = "cuda"});
}

/// A fixture whose tests run on each context.
class EveryContext : public testing::TestWithParam<int> {
 protected:
  bool on_cpu() const { return GetParam() < 0; }
  /// "cpu:0", "cuda:1".
  std::string device_name() const {
    return on_cpu() ? "cpu:0" : "cuda:" + std::to_string(GetParam());
  }
  DeviceContext ctx = context_of(GetParam());
};

inline std::string context_name(const testing::TestParamInfo<int>& info) {
  return info.param < 0 ? "cpu" : "gpu" + std::to_string(info.param);
}

/// The text of the error of this class that `call` throws.
template <typename E>
std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const E& error) {
    return error.message();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another class of error: " << error.what();
    return "";
  }
  ADD_FAILURE() << "no error";
  return "";
}

template <typename T>
std::vector<T> values_of(const DeviceBuffer<T>& buffer) {
  std::vector<T> values(static_cast<std::size_t>(buffer.size()));
  buffer.context().enqueue_copy(std::span<T>(values), buffer);
  buffer.context().synchronize();
  return values;
}

}  // namespace kiln::gpu
