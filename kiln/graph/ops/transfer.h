#pragma once

#include "kiln/graph/value.h"

namespace kiln::graph::ops {

/// A copy on `device`, made when the graph runs; the same device gives the same value. Moving a
/// scalar from an accelerator to the CPU warns.
TensorValue transfer_to(const TensorValueLike& x, DeviceRef device);

}  // namespace kiln::graph::ops
