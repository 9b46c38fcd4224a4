#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "kiln/graph/value.h"

namespace kiln::graph::ops {

// Collectives take one tensor per device and, in the same order, one signal buffer per device: a
// rank-1 uint8 buffer. Inputs that do not fit each other, or buffers that do not fit the inputs:
// ValueError. Sums are made in list order, of halves in float32 with one rounding. A single input
// is given back as it is. The side effects of all devices that take part keep their place before or
// behind a collective. CPU devices of different numbers are different devices here, all of which
// the host runs.

using TensorSpan = std::span<const TensorValue>;
using BufferSpan = std::span<const BufferValue>;

namespace allreduce {
/// The sum of all inputs, on the device of each.
std::vector<TensorValue> sum(TensorSpan inputs, BufferSpan signal_buffers,
                             Location location = Location::current());
}  // namespace allreduce

namespace bundled_allreduce {
/// As `allreduce::sum`; the devices may start independently.
std::vector<TensorValue> sum(TensorSpan inputs, BufferSpan signal_buffers,
                             Location location = Location::current());
}  // namespace bundled_allreduce

namespace reducescatter {
/// Part i of the sum of all inputs along `axis`, on device i; earlier devices get the elements that
/// are left over. Axis out of range: ValueError.
std::vector<TensorValue> sum(TensorSpan inputs, BufferSpan signal_buffers, int axis = 0,
                             Location location = Location::current());
}  // namespace reducescatter

/// The concatenation of all inputs along `axis`, on the device of each. Axis out of range:
/// IndexError.
std::vector<TensorValue> allgather(TensorSpan inputs, BufferSpan signal_buffers, int axis = 0,
                                   Location location = Location::current());
/// A copy of `input` on the device of each signal buffer; the device of the input is one of them.
std::vector<TensorValue> distributed_broadcast(const TensorValue& input, BufferSpan signal_buffers,
                                               Location location = Location::current());
/// Chunks of one device, dealt out to the devices of the signal buffers: with g devices and c
/// chunks, device i gets chunk min(i / ceil(g / c), c - 1).
std::vector<TensorValue> distributed_scatter(TensorSpan input_chunks, BufferSpan signal_buffers,
                                             Location location = Location::current());
/// On `devices[i]` the i-th of equal parts of every input along `axis`, stacked on a new first
/// axis. Inputs of one shape and dtype on the host; a size that does not divide: ValueError, at run
/// when it is symbolic. Axis out of range: IndexError.
std::vector<TensorValue> shard_and_stack(TensorSpan inputs, std::span<const DeviceRef> devices,
                                         int axis = 0, Location location = Location::current());

/// What the body of `parallel` gives for one launch.
struct LaunchResults {
  std::vector<TensorValue> values;  // one per output bundle
  std::optional<Value> chain = {};  // when it was given one
};
/// What `parallel` gives.
struct ParallelResults {
  std::vector<std::vector<TensorValue>> values;  // by output bundle, then by launch
  std::optional<Value> chain = {};
};
/// Options of `parallel`.
struct ParallelOptions {
  /// One per launch, together with a chain.
  std::vector<BufferValue> buffers = {};
  std::optional<Value> chain = std::nullopt;
};
/// Runs one body per launch. A bundle holds one tensor per launch; the body gets those of its
/// launch, and its buffer and the chain where they are given. The results must have
/// `result_types[bundle][launch]`. Wrong counts or types: ValueError.
ParallelResults parallel(const std::vector<std::vector<TensorValue>>& inputs,
                         const std::function<LaunchResults(
                             const std::vector<TensorValue>&, const std::optional<BufferValue>&,
                             const std::optional<Value>& chain)>& body,
                         const std::vector<std::vector<TensorType>>& result_types,
                         const ParallelOptions& options = {},
                         Location location = Location::current());

}  // namespace kiln::graph::ops
