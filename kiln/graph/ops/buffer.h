#pragma once

#include <variant>
#include <vector>

#include "kiln/graph/slice_index.h"
#include "kiln/graph/value.h"

namespace kiln::graph::ops {

// Reads and writes of one device happen in program order. Inside while loops: NotImplementedError.

/// A copy of the whole buffer at this point. A tensor: TypeError.
TensorValue buffer_load(const Value& x, Location location = Location::current());
/// Overwrites everything; dtype, shape and device must be the same. A buffer as source is loaded
/// first.
void buffer_store(const Value& destination, const Value& source,
                  Location location = Location::current());
/// Writes a region; entries as in `slice_tensor`, without `newaxis`, positive steps only. Axes that
/// an integer picks are absent from `source`.
void buffer_store_slice(const Value& destination, const Value& source,
                        const std::vector<SliceIndex>& indices,
                        Location location = Location::current());
/// Fresh memory for each execution, contents undefined until stored.
BufferValue buffer_create(const BufferType& type, Location location = Location::current());

}  // namespace kiln::graph::ops
