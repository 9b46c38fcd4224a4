// Collectives are made of transfers and ordinary ops.

#include "kiln/graph/ops/collectives.h"

#include <algorithm>
#include <set>

#include "kiln/graph/graph_state.h"
#include "kiln/graph/infer.h"
#include "kiln/graph/location.h"
#include "kiln/graph/ops/elementwise.h"
#include "kiln/graph/ops/movement.h"
#include "kiln/graph/ops/shape.h"
#include "kiln/graph/ops/transfer.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph::ops {
namespace {

namespace d = graph::detail;
using Values = std::vector<TensorValue>;

template <typename Items, typename Text>
std::string listed(const Items& items, const Text& text) {
  std::vector<std::string> texts;
  for (const auto& item : items) texts.push_back(text(item));
  return format("[{}]", join(texts, ", "));
}

std::string shapes_of(TensorSpan values) {
  return listed(values, [](const TensorValue& v) { return v.shape().repr(); });
}

template <typename Items>
std::string devices_of(const Items& items) {
  return listed(items, [](const auto& item) { return item.device().to_string(); });
}

template <typename Items>
bool has_unique_devices(const Items& items) {
  std::set<DeviceRef> devices;
  for (const auto& item : items) devices.insert(item.device());
  return devices.size() == items.size();
}

/// Whether `same` holds for every pair of neighbours.
template <typename Same>
bool all_same(TensorSpan values, const Same& same) {
  return std::adjacent_find(values.begin(), values.end(), [&](const auto& a, const auto& b) {
           return !same(a, b);
         }) == values.end();
}

void check_counts(TensorSpan inputs, BufferSpan buffers) {
  if (inputs.size() != buffers.size())
    throw ValueError(
        format("expected number of inputs ({}) and number of signal buffers ({}) to match",
               inputs.size(), buffers.size()));
}

void check_dtypes_and_devices(std::string_view op, TensorSpan inputs) {
  if (!all_same(inputs, [](const auto& a, const auto& b) { return a.dtype() == b.dtype(); }))
    throw ValueError(
        format("{} operation must have the same dtype across all input tensors. Got: {}", op,
               listed(inputs, [](const TensorValue& v) { return v.dtype().to_string(); })));
  if (!has_unique_devices(inputs))
    throw ValueError(
        format("{} operation must have unique devices across its input tensors. Got: {}", op,
               devices_of(inputs)));
}

void check_shapes(std::string_view op, TensorSpan inputs) {
  if (!all_same(inputs, [](const auto& a, const auto& b) { return a.shape() == b.shape(); }))
    throw ValueError(
        format("{} operation must have the same shape across all input tensors. Got: {}", op,
               shapes_of(inputs)));
}

/// Each signal buffer lies on the device of its rank.
template <typename Device>
void check_signals(BufferSpan buffers, const Device& device_of) {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const BufferType type = buffers[i].type();
    const DeviceRef device = device_of(i);
    if (type.dtype == DType::uint8 && type.rank() == 1 && type.device == device) continue;
    throw ValueError(format("signal buffer {} must be a rank-1 uint8 buffer on {}, got {}", i,
                            device.to_string(), type.repr()));
  }
}

void check_signals_of(TensorSpan inputs, BufferSpan buffers) {
  check_signals(buffers, [&](std::size_t i) { return inputs[i].device(); });
}

/// The chains of the host and of all devices that take part become one.
void join_chains(const std::set<DeviceRef>& devices) {
  std::set<DeviceRef> all = devices;
  all.insert(DeviceRef::CPU());
  std::vector<Value> chains;
  for (const DeviceRef& device : all) {
    const Value chain = d::chain_of(device);
    if (std::none_of(chains.begin(), chains.end(), [&](const Value& c) { return c.is(chain); }))
      chains.push_back(chain);
  }
  if (chains.size() < 2) return;
  const Value joined =
      d::current_graph()->handle(d::add_op(OpKind::chain_create, chains)->result());
  for (const DeviceRef& device : all) d::advance_chain(device, joined);
}

template <typename Items>
std::set<DeviceRef> device_set(const Items& items) {
  std::set<DeviceRef> devices;
  for (const auto& item : items) devices.insert(item.device());
  return devices;
}

/// The sum on `device`, in list order.
TensorValue sum_on(const Values& values, DeviceRef device) {
  const DType dtype = values[0].dtype();
  const bool is_half = dtype == DType::float16 || dtype == DType::bfloat16;
  const auto term = [&](const TensorValue& value) {
    const TensorValue here = transfer_to(value, device);
    return is_half ? cast(here, DType::float32) : here;
  };
  TensorValue total = term(values[0]);
  for (std::size_t i = 1; i < values.size(); ++i) total = add(total, term(values[i]));
  return cast(total, dtype);
}

Values sum_everywhere(std::string_view op, TensorSpan inputs, BufferSpan buffers) {
  check_counts(inputs, buffers);
  const Values values(inputs.begin(), inputs.end());
  if (values.size() < 2) return values;
  check_shapes(op, inputs);
  check_dtypes_and_devices(op, inputs);
  check_signals_of(inputs, buffers);
  check_dtype(op, DTypeFamily::arithmetic, values[0].dtype());
  join_chains(device_set(inputs));
  const TensorValue total = sum_on(values, values[0].device());
  Values results;
  for (const TensorValue& value : values) results.push_back(transfer_to(total, value.device()));
  return results;
}

/// Elements [start, stop) along an axis.
TensorValue part_of(const TensorValue& x, std::size_t axis, const Dim& start, const Dim& stop) {
  std::vector<SliceIndex> indices(axis, SliceIndex(all));
  indices.push_back(slice(start, stop));
  return slice_tensor(x, indices);
}

}  // namespace

std::vector<TensorValue> allreduce::sum(TensorSpan inputs, BufferSpan signal_buffers,
                                        Location location) {
  LocationScope at(location);
  return sum_everywhere("allreduce.sum", inputs, signal_buffers);
}

std::vector<TensorValue> bundled_allreduce::sum(TensorSpan inputs, BufferSpan signal_buffers,
                                                Location location) {
  LocationScope at(location);
  return sum_everywhere("bundled_allreduce.sum", inputs, signal_buffers);
}

std::vector<TensorValue> reducescatter::sum(TensorSpan inputs, BufferSpan signal_buffers, int axis,
                                            Location location) {
  LocationScope at(location);
  constexpr std::string_view op = "reducescatter.sum";
  check_counts(inputs, signal_buffers);
  const Values values(inputs.begin(), inputs.end());
  if (values.size() < 2) return values;
  check_shapes(op, inputs);
  check_dtypes_and_devices(op, inputs);
  const int rank = values[0].rank();
  if (axis < -rank || axis >= rank)
    throw ValueError(format("axis {} is out of bounds for tensor with rank {}", axis, rank));
  const auto along = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
  check_signals_of(inputs, signal_buffers);
  check_dtype(op, DTypeFamily::arithmetic, values[0].dtype());
  join_chains(device_set(inputs));
  const Dim size = values[0].shape()[along];
  const auto count = static_cast<std::int64_t>(values.size());
  Values results;
  Dim start = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const Dim stop = start + (size + (count - i - 1)).floor_div(count);
    Values parts;
    for (const TensorValue& value : values) parts.push_back(part_of(value, along, start, stop));
    results.push_back(sum_on(parts, values[static_cast<std::size_t>(i)].device()));
    start = stop;
  }
  return results;
}

std::vector<TensorValue> allgather(TensorSpan inputs, BufferSpan signal_buffers, int axis,
                                   Location location) {
  LocationScope at(location);
  constexpr std::string_view op = "allgather";
  check_counts(inputs, signal_buffers);
  const Values values(inputs.begin(), inputs.end());
  if (values.size() < 2) return values;
  if (!all_same(inputs, [](const auto& a, const auto& b) { return a.rank() == b.rank(); }))
    throw ValueError(
        format("{} operation must have the same rank across all input tensors. Got: {}", op,
               shapes_of(inputs)));
  check_dtypes_and_devices(op, inputs);
  const int rank = values[0].rank();
  if (axis < -rank || axis >= rank)
    throw IndexError(format("Dimension out of range {}, axis={}", rank, axis));
  const auto along = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
  const auto beside = [&](const TensorValue& value) {
    Shape shape = value.shape();
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(along));
    return shape;
  };
  if (!all_same(inputs, [&](const auto& a, const auto& b) { return beside(a) == beside(b); }))
    throw ValueError(
        format("{} operation inputs must have the same shape in all dimensions except the "
               "concatenation dimension. Got: {}",
               op, shapes_of(inputs)));
  check_signals_of(inputs, signal_buffers);
  join_chains(device_set(inputs));
  const DeviceRef first = values[0].device();
  std::vector<TensorValueLike> here;
  for (const TensorValue& value : values) here.push_back(transfer_to(value, first));
  const TensorValue joined = concat(here, static_cast<int>(along));
  Values results;
  for (const TensorValue& value : values) results.push_back(transfer_to(joined, value.device()));
  return results;
}

std::vector<TensorValue> distributed_broadcast(const TensorValue& input, BufferSpan signal_buffers,
                                               Location location) {
  LocationScope at(location);
  if (signal_buffers.empty())
    throw ValueError("distributed_broadcast requires at least 1 signal buffer.");
  const std::set<DeviceRef> devices = device_set(signal_buffers);
  if (!devices.count(input.device()))
    throw ValueError(format("input tensor device {} not found in signal buffer devices: {}",
                            input.device().to_string(), devices_of(signal_buffers)));
  if (!has_unique_devices(signal_buffers))
    throw ValueError(
        format("distributed_broadcast requires unique devices across signal buffers. Got: {}",
               devices_of(signal_buffers)));
  check_signals(signal_buffers, [&](std::size_t i) { return signal_buffers[i].device(); });
  join_chains(devices);
  Values results;
  for (const BufferValue& buffer : signal_buffers)
    results.push_back(transfer_to(input, buffer.device()));
  return results;
}

std::vector<TensorValue> distributed_scatter(TensorSpan input_chunks, BufferSpan signal_buffers,
                                             Location location) {
  LocationScope at(location);
  if (input_chunks.empty())
    throw ValueError("distributed_scatter requires at least 1 input chunk. Got: 0");
  const DeviceRef root = input_chunks[0].device();
  for (std::size_t i = 1; i < input_chunks.size(); ++i)
    if (input_chunks[i].device() != root)
      throw ValueError(
          format("All input chunks must be on the same device. Chunk 0 is on {}, but "
                 "chunk {} is on {}",
                 root.to_string(), i, input_chunks[i].device().to_string()));
  if (!has_unique_devices(signal_buffers))
    throw ValueError(
        format("distributed_scatter requires unique devices across signal buffers. Got: {}",
               devices_of(signal_buffers)));
  const std::set<DeviceRef> devices = device_set(signal_buffers);
  if (!devices.count(root))
    throw ValueError(format("input chunk device {} not found in signal buffer devices: {}",
                            root.to_string(), devices_of(signal_buffers)));
  if (input_chunks.size() > signal_buffers.size())
    throw ValueError(format("distributed_scatter got {} input chunks for {} devices",
                            input_chunks.size(), signal_buffers.size()));
  check_signals(signal_buffers, [&](std::size_t i) { return signal_buffers[i].device(); });
  join_chains(devices);
  const std::size_t share = (signal_buffers.size() + input_chunks.size() - 1) / input_chunks.size();
  Values results;
  for (std::size_t i = 0; i < signal_buffers.size(); ++i)
    results.push_back(transfer_to(input_chunks[std::min(i / share, input_chunks.size() - 1)],
                                  signal_buffers[i].device()));
  return results;
}

std::vector<TensorValue> shard_and_stack(TensorSpan inputs, std::span<const DeviceRef> devices,
                                         int axis, Location location) {
  LocationScope at(location);
  if (inputs.empty()) throw ValueError("Must provide at least one input tensor.");
  if (devices.empty()) throw ValueError("Must provide at least one device.");
  const TensorValue& first = inputs[0];
  if (!all_same(inputs, [](const auto& a, const auto& b) { return a.device() == b.device(); }))
    throw ValueError(format("Input values must be on the same device, got {}", devices_of(inputs)));
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    const auto refuse = [&](std::string_view what, const std::string& a, const std::string& b) {
      throw ValueError(
          format("All input tensors must have the same {0}. Input 0 has {0} {1}, but "
                 "input {2} has {0} {3}",
                 what, a, i, b));
    };
    if (inputs[i].dtype() != first.dtype())
      refuse("dtype", first.dtype().to_string(), inputs[i].dtype().to_string());
    if (inputs[i].shape() != first.shape())
      refuse("shape", first.shape().repr(), inputs[i].shape().repr());
  }
  const int rank = first.rank();
  if (axis < -rank || axis >= rank)
    throw IndexError(format("Axis must be in range [{}, {}), got {}", -rank, rank, axis));
  const auto along = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
  if (first.device().is_gpu())
    throw ValueError(format("Input value must be on the host device, got {}", first.repr()));
  Shape shape = first.shape();
  const auto count = static_cast<std::int64_t>(devices.size());
  if (shape[along].is_static() && shape[along].value() % count != 0)
    throw ValueError(
        format("Dimension size along axis {} ({}) must be evenly divisible by number "
               "of devices ({})",
               axis, shape[along].to_string(), count));
  const Dim part = shape[along].floor_div(count);
  shape[along] = part * count;
  const std::string message = format(
      "shard_and_stack: the size along axis {} must be evenly divisible by number of devices "
      "({})",
      axis, count);
  Values whole;
  for (const TensorValue& input : inputs)
    whole.push_back(input.shape() == shape ? input : rebind(input, shape, {.message = message}));
  Values results;
  Dim start = 0;
  for (const DeviceRef& device : devices) {
    std::vector<TensorValueLike> parts;
    for (const TensorValue& input : whole)
      parts.push_back(part_of(input, along, start, start + part));
    results.push_back(transfer_to(stack(parts, 0), device));
    start = start + part;
  }
  return results;
}

ParallelResults parallel(const std::vector<std::vector<TensorValue>>& inputs,
                         const std::function<LaunchResults(
                             const std::vector<TensorValue>&, const std::optional<BufferValue>&,
                             const std::optional<Value>& chain)>& body,
                         const std::vector<std::vector<TensorType>>& result_types,
                         const ParallelOptions& options, Location location) {
  LocationScope at(location);
  if (inputs.empty()) throw ValueError("parallel requires at least one input bundle");
  const std::size_t launches = inputs[0].size();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].empty()) throw ValueError(format("input bundle {} is empty", i));
    if (inputs[i].size() != launches)
      throw ValueError(format("input bundle {} has {} launches; bundle 0 has {}", i,
                              inputs[i].size(), launches));
  }
  for (std::size_t i = 0; i < result_types.size(); ++i)
    if (result_types[i].size() != launches)
      throw ValueError(format("result_types[{}] has {} types; expected {} (one per launch)", i,
                              result_types[i].size(), launches));
  const bool has_buffers = !options.buffers.empty();
  if (has_buffers && options.buffers.size() != launches)
    throw ValueError(format("buffers length {} does not match the number of launches ({})",
                            options.buffers.size(), launches));
  if (has_buffers && !options.chain)
    throw ValueError("chain is required when buffers are provided");
  if (!has_buffers && options.chain)
    throw ValueError("buffers are required when chain is provided");
  ParallelResults results{std::vector<Values>(result_types.size()), options.chain};
  for (std::size_t k = 0; k < launches; ++k) {
    Values values;
    for (const auto& bundle : inputs) values.push_back(bundle[k]);
    std::optional<BufferValue> buffer;
    if (has_buffers) buffer = options.buffers[k];
    LaunchResults made;
    {
      const UserCodeScope user_code;
      made = body(values, buffer, results.chain);
    }
    if (made.values.size() != result_types.size())
      throw ValueError(
          format("the body of parallel must give {} results, one per output bundle, "
                 "but it gave {}",
                 result_types.size(), made.values.size()));
    for (std::size_t i = 0; i < result_types.size(); ++i) {
      if (made.values[i].type() != result_types[i][k])
        throw ValueError(format("result {} of launch {} is {}, not {}", i, k,
                                made.values[i].type().repr(), result_types[i][k].repr()));
      results.values[i].push_back(made.values[i]);
    }
    if (has_buffers && !made.chain)
      throw ValueError("the body of parallel must give the chain back that it was given");
    results.chain = made.chain;
  }
  return results;
}

}  // namespace kiln::graph::ops
