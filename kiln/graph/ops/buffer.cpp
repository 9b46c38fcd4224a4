#include "kiln/graph/ops/buffer.h"

#include "kiln/graph/current_graph.h"
#include "kiln/graph/ops/shape.h"
#include "kiln/graph/ops/slicing.h"
#include "kiln/graph/promotion.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph::ops {
namespace {

namespace d = graph::detail;

BufferValue checked_buffer(const Value& value, std::string_view op,
                           std::span<const Value> others = {}) {
  if (!value || !value.type().is_buffer())
    throw TypeError(format("ops.{} works on a BufferValue, got {}", op,
                           value ? value.repr() : std::string("an empty value")));
  if (d::current_graph_for(others)->loops > 0)
    throw NotImplementedError("Buffer operations are currently not supported in while loops");
  return BufferValue(value);
}

/// What is stored: a tensor, or what a buffer holds.
TensorValue source_tensor(const Value& source) {
  return source && source.type().is_buffer() ? buffer_load(source) : TensorValue(source);
}

void check_devices(const BufferValue& destination, const TensorValue& source) {
  if (destination.device() == source.device()) return;
  throw ValueError(
      format("Input values must be on the same device\n    destination: {}\n    source: {}",
             destination.type().repr(), source.type().repr()));
}

void store(OpKind kind, const BufferValue& destination, std::vector<Value> operands,
           ir::Attributes attributes) {
  operands.push_back(d::chain_of(destination.device()));
  ir::Op* op = d::add_op(kind, operands, std::move(attributes));
  d::advance_chain(destination.device(), d::current_graph()->handle(op->result()));
}

}  // namespace

TensorValue buffer_load(const Value& x, Location location) {
  LocationScope at(location);
  BufferValue buffer = checked_buffer(x, "buffer_load");
  ir::Op* op = d::add_op(OpKind::buffer_load, {buffer, d::chain_of(buffer.device())});
  auto& graph = *d::current_graph();
  d::advance_chain(buffer.device(), graph.handle(op->result(1)));
  return TensorValue(graph.handle(op->result(0)));
}

void buffer_store(const Value& destination, const Value& source, Location location) {
  LocationScope at(location);
  BufferValue buffer = checked_buffer(destination, "buffer_store", {&source, 1});
  TensorValue tensor = source_tensor(source);
  check_devices(buffer, tensor);
  store(OpKind::buffer_store, buffer, {buffer, tensor}, {});
}

void buffer_store_slice(const Value& destination, const Value& source,
                        const std::vector<SliceIndex>& indices, Location location) {
  LocationScope at(location);
  BufferValue buffer = checked_buffer(destination, "buffer_store_slice", {&source, 1});
  TensorValue tensor = source_tensor(source);
  for (const SliceIndex& index : indices) {
    if (std::holds_alternative<NewAxis>(index))
      throw ValueError("buffer_store_slice does not take newaxis among its indices");
    if (const auto* slice = std::get_if<Slice>(&index); slice && slice->step.number() < 1)
      throw ValueError(format("expected positive integer step but got {}", slice->step.number()));
  }
  check_devices(buffer, tensor);
  ResolvedSlice slice = resolve_slice(buffer.shape(), indices);
  if (slice.whole) return store(OpKind::buffer_store, buffer, {buffer, tensor}, {});
  Shape region = slice.out_shape;
  for (std::size_t i = slice.dropped.size(); i-- > 0;)
    region.erase(region.begin() + slice.dropped[i]);
  if (tensor.shape() != region)
    throw ValueError(format("expected source to have shape {} but source had shape {}",
                            region.repr(), tensor.shape().repr()));
  for (int axis : slice.dropped) tensor = unsqueeze(tensor, axis);
  std::vector<Value> operands = {buffer, tensor};
  operands.insert(operands.end(), slice.tensors.begin(), slice.tensors.end());
  store(OpKind::buffer_store_slice, buffer, std::move(operands), std::move(slice.attributes));
}

BufferValue buffer_create(const BufferType& type, Location location) {
  LocationScope at(location);
  if (d::current_graph()->loops > 0)
    throw NotImplementedError("Buffer operations are currently not supported in while loops");
  ir::Op* op = d::add_op(OpKind::buffer_create, {}, {}, {type});
  return BufferValue(d::current_graph()->handle(op->result()));
}

}  // namespace kiln::graph::ops
