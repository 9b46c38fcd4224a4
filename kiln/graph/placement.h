#pragma once

// Ops that run on the CPU only and are given accelerator values. Internal to kiln/graph.

#include <string_view>
#include <vector>

#include "kiln/graph/value.h"

namespace kiln::graph {

/// Warns or throws ValueError as the current graph's policy says.
void check_placement(std::string_view op);

/// Moves the inputs of an op to the CPU and its results back.
class HostDetour {
 public:
  /// Checks the policy when `values` are on an accelerator and moves them, in place. They must be
  /// on one device: ValueError.
  HostDetour(std::string_view op, std::vector<TensorValue*> values);
  TensorValue back(const TensorValue& result) const;

 private:
  DeviceRef home_;
};

}  // namespace kiln::graph
