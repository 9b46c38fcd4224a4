// What tensors do that are spread over a mesh.

#include <map>
#include <mutex>

#include "kiln/experimental/call.h"
#include "kiln/experimental/functional.h"
#include "kiln/experimental/lift.h"
#include "kiln/experimental/recording.h"
#include "kiln/experimental/redistribution.h"
#include "kiln/graph/ops.h"
#include "kiln/graph/ops/slicing.h"
#include "kiln/graph/recorded_graph.h"
#include "kiln/graph/sharding.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::experimental {

using detail::Placed;
using detail::StatePtr;
using graph::Dim;
using graph::Shape;

// ---- states ----

std::uint64_t detail::id_of(const DeviceMapping& mapping) {
  struct Known {
    std::mutex mutex;
    std::map<std::string, std::uint64_t> ids;
  };
  static auto* known = new Known;  // outlives whatever runs at exit
  std::string text = mapping.to_string();
  for (const driver::Device& device : mapping.mesh().devices()) text += device.to_string();
  const std::lock_guard lock(known->mutex);
  return known->ids.try_emplace(std::move(text), known->ids.size() + 1).first->second;
}

std::span<const StatePtr> detail::parts_of(const StatePtr& tensor) {
  if (tensor->placed) return tensor->placed->shards;
  return {&tensor, 1};
}

Tensor detail::placed(std::vector<StatePtr> shards, DeviceMapping mapping, Shape shape,
                      std::uint64_t mapping_id) {
  auto state = std::make_shared<TensorState>();
  if (mapping_id == 0) mapping_id = id_of(mapping);
  state->placed = std::make_shared<const Placed>(
      Placed{std::move(mapping), std::move(shape), std::move(shards), mapping_id});
  return Tensor(std::move(state));
}

const Placed* Tensor::placed() const { return state()->placed.get(); }

// ---- members ----

DeviceMapping Tensor::mapping() const {
  return placed() ? placed()->mapping : LayoutDevice(device()).mapping();
}

int Tensor::num_shards() const { return placed() ? static_cast<int>(placed()->shards.size()) : 1; }

std::vector<Tensor> Tensor::local_shards() const {
  std::vector<Tensor> shards;
  for (const StatePtr& part : detail::parts_of(state())) shards.emplace_back(part);
  return shards;
}

Tensor Tensor::whole_value() const {
  if (placed()->shards.size() == 1) return Tensor(placed()->shards[0]);
  throw ValueError(
      format("A graph takes a tensor that is distributed over {} for each device alone. Use "
             "per-shard access or transfer_to first.",
             placed()->mapping.to_string()));
}

const driver::Buffer& Tensor::first_copy(const char* what) const {
  if (!placed()) return state()->buffer;
  if (placed()->shards.size() > 1 && !placed()->mapping.is_fully_replicated())
    throw ValueError(
        format("Cannot call '{}' on a sharded tensor distributed over {}. Use per-shard access or "
               "transfer_to first.",
               what, placed()->mapping.to_string()));
  return placed()->shards[0]->buffer;
}

// ---- making them of shards ----

namespace {

/// The dim that is split into these parts along a mesh axis.
Dim whole_dim(const std::vector<Dim>& parts, const std::string& axis_name) {
  Dim sum = 0;
  for (const Dim& part : parts) sum = sum + part;
  if (sum.is_static() || parts.size() == 1) return sum;
  // Parts of a symbol have names made from its own.
  const std::string end = format("_{}_0", axis_name);
  if (parts[0].is_symbolic() && parts[0].name().ends_with(end))
    return Dim(parts[0].name().substr(0, parts[0].name().size() - end.size()));
  throw ValueError(
      format("The shards have {} along a split axis; symbolic parts of a dim 'd' are named "
             "d_{}_0, d_{}_1, …",
             Shape(parts).to_string(), axis_name, axis_name));
}

/// The shape of a tensor of which the devices hold parts of these shapes.
Shape whole_shape(const std::vector<Shape>& local, const DeviceMapping& mapping) {
  const DeviceMesh& mesh = mapping.mesh();
  std::vector<Shape> shapes = local;
  // From the innermost axis outwards, lines of devices become one device.
  for (int axis = mesh.ndim() - 1; axis >= 0; --axis) {
    const auto count = static_cast<std::size_t>(mesh.axis_size(axis));
    std::vector<Shape> outer;
    for (std::size_t first = 0; first < shapes.size(); first += count) {
      Shape whole = shapes[first];
      if (const auto* sharded =
              std::get_if<Sharded>(&mapping.placements()[static_cast<std::size_t>(axis)])) {
        const auto at = static_cast<std::size_t>(sharded->axis);
        std::vector<Dim> parts;
        for (std::size_t i = 0; i < count; ++i) parts.push_back(shapes[first + i][at]);
        whole[at] = whole_dim(parts, mesh.axis_names()[static_cast<std::size_t>(axis)]);
      }
      outer.push_back(std::move(whole));
    }
    shapes = std::move(outer);
  }
  return shapes[0];
}

/// Has the graph know the symbols of split axes, of which the shards name parts.
void define_wholes(const std::vector<Shape>& local, const DeviceMapping& mapping,
                   const Shape& whole) {
  const DeviceMesh& mesh = mapping.mesh();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    if (!whole[at].is_symbolic() || whole[at] == local[0][at]) continue;
    // Devices that differ in other axes of the mesh alone hold the same part.
    Dim sum = 0;
    for (int device = 0; device < mesh.num_devices(); ++device) {
      bool is_first = true;
      for (int axis = 0; axis < mesh.ndim(); ++axis)
        is_first = is_first && (mesh.device_coord(device, axis) == 0 ||
                                mapping.placements()[static_cast<std::size_t>(axis)] ==
                                    Placement(Sharded{static_cast<int>(at)}));
      if (is_first) sum = sum + local[static_cast<std::size_t>(device)][at];
    }
    graph::define_symbol(whole[at].name(), sum);
  }
}

}  // namespace

Tensor Tensor::from_shards(const std::vector<Tensor>& shards, const DeviceMapping& mapping) {
  const auto& devices = mapping.mesh().devices();
  if (shards.size() != devices.size())
    throw ValueError(format("{} needs one shard for each of its {} devices, got {}.",
                            mapping.to_string(), devices.size(), shards.size()));
  std::vector<Shape> local;
  std::vector<StatePtr> states;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (shards[i].is_distributed())
      throw ValueError(
          format("Shard {} is itself distributed over {}.", i, shards[i].mapping().to_string()));
    if (shards[i].dtype() != shards[0].dtype() || shards[i].device() != devices[i] ||
        shards[i].rank() != shards[0].rank())
      throw ValueError(
          format("Shard {} is {} of rank {} on {}, but {} of rank {} on {} was expected.", i,
                 shards[i].dtype().name(), shards[i].rank(), shards[i].device().to_string(),
                 shards[0].dtype().name(), shards[0].rank(), devices[i].to_string()));
    local.push_back(shards[i].shape());
    states.push_back(detail::parts_of(shards[i].state())[0]);
  }
  mapping.check_shape(local[0]);
  Shape whole = whole_shape(local, mapping);
  const bool is_known =
      std::none_of(mapping.placements().begin(), mapping.placements().end(),
                   [](const Placement& p) { return kind_of(p) == PlacementKind::unknown; });
  if (is_known && mapping.local_shapes(whole) != local) {
    std::vector<std::string> texts;
    for (const Shape& shape : local) texts.push_back(shape.to_string());
    throw ValueError(format("Shards of shapes {} are not those of a tensor of shape {} on {}.",
                            join(texts, ", "), whole.to_string(), mapping.to_string()));
  }
  define_wholes(local, mapping, whole);
  return detail::placed(std::move(states), mapping, std::move(whole));
}

Tensor Tensor::from_shard_values(const std::vector<graph::Value>& values,
                                 const std::optional<DeviceMapping>& mapping) {
  if (values.empty() || (values.size() > 1 && !mapping))
    throw ValueError(
        format("from_shard_values takes one value, or several and the mapping that says what they "
               "are; got {} values and no mapping.",
               values.size()));
  std::vector<Tensor> shards;
  for (const graph::Value& value : values) shards.push_back(from_graph_value(value));
  if (!mapping || LayoutDevice(*mapping).is_plain()) {
    if (shards.size() == 1) return shards[0];
  }
  return from_shards(shards, *mapping);
}

Tensor Tensor::rebind_mapping(const DeviceMapping& mapping) const {
  if (this->mapping() == mapping) return *this;
  return from_shards(local_shards(), mapping);
}

// ---- moving ----

namespace {

/// Adds the ops that bring a tensor to a mapping to the graph that is being recorded.
DistributedCall::Result moved(const Tensor& tensor, const DeviceMapping& target) {
  std::vector<graph::TensorValue> parts;
  for (const Tensor& shard : tensor.local_shards()) parts.push_back(shard.tensorvalue());
  const Shape shape = tensor.shape();
  parts = detail::redistribute(std::move(parts), tensor.mapping(), target, shape);
  return {{parts.begin(), parts.end()}, target, shape};
}

}  // namespace

Tensor Tensor::to(const LayoutDevice& where, graph::Location location) const {
  const DeviceMapping target =
      where.is_mesh() && placed() ? placed()->mapping.on(where.mapping().mesh()) : where.mapping();
  if (mapping() == target) return *this;
  if (where.is_plain() && real() && !is_distributed() && !graph::Graph::has_current()) {
    const driver::Device device = target.mesh().devices()[0];
    // A mesh of one device has names of its own, but no other memory.
    if (this->device() == device) return Tensor(placed()->shards[0]);
    return Tensor(driver_tensor().to(device));
  }
  static const std::uint64_t id = detail::next_op_id();
  Call call("transfer_to", id);
  call.arguments().tensor(*state());
  call.arguments().key.add(detail::id_of(target));
  if (const auto plan = call.plan(); plan && call.run(*plan)) return std::move(call.results()[0]);
  call.record_parts();
  const graph::LocationScope at(location);
  DistributedCall::Result result = moved(*this, target);
  if (where.is_plain())
    call.finish(result.parts);
  else {
    std::vector<DistributedCall::Result> results;
    results.push_back(std::move(result));
    call.finish_spread(std::move(results));
  }
  return std::move(call.results()[0]);
}

// ---- weights and collectives ----

namespace functional {

Tensor constant_external(const std::string& name, const TensorLayout& layout,
                         const graph::ops::ConstantExternalOptions& options) {
  std::vector<graph::Value> values;
  const std::vector<graph::Type> types = layout.as_tensor().local_types();
  for (std::size_t i = 0; i < types.size(); ++i)
    values.push_back(graph::ops::constant_external(
        types.size() == 1 ? name : format("{}._shard.{}", name, i), types[i].tensor(), options));
  Tensor weight = Tensor::from_shard_values(values, layout.mapping());
  weight.set_external_name(name);
  return weight;
}

namespace {

DeviceMapping with_placement(const Tensor& tensor, int axis, Placement placement) {
  std::vector<Placement> placements = tensor.placements();
  placements[static_cast<std::size_t>(axis)] = std::move(placement);
  return {tensor.mesh(), std::move(placements)};
}

[[noreturn]] void throw_wrong_placement(const char* op, const Tensor& tensor, int axis,
                                        const std::string& wanted) {
  throw ShardingError(
      format("{} over the mesh axis '{}' needs a tensor that is {} there, but it lives on {}.", op,
             tensor.mesh().axis_names()[static_cast<std::size_t>(axis)], wanted,
             tensor.mapping().to_string()));
}

int checked_tensor_axis(const char* op, const Tensor& tensor, int axis) {
  const int rank = tensor.rank();
  if (axis < -rank || axis >= rank)
    throw IndexError(
        format("{}: axis {} is out of range for a tensor of rank {}.", op, axis, rank));
  return axis < 0 ? axis + rank : axis;
}

}  // namespace

Tensor allgather(const Tensor& t, int tensor_axis, const MeshAxis& mesh_axis,
                 graph::Location location) {
  const int axis = mesh_axis.in(t.mesh()), at = checked_tensor_axis("allgather", t, tensor_axis);
  if (!(t.placements()[static_cast<std::size_t>(axis)] == Placement(Sharded{at})))
    throw_wrong_placement("allgather", t, axis, to_string(Placement(Sharded{at})));
  return t.to(with_placement(t, axis, Replicated{}), location);
}

Tensor allreduce_sum(const Tensor& t, const MeshAxis& mesh_axis, graph::Location location) {
  const int axis = mesh_axis.in(t.mesh());
  if (kind_of(t.placements()[static_cast<std::size_t>(axis)]) != PlacementKind::partial)
    throw_wrong_placement("allreduce_sum", t, axis, "Partial");
  return t.to(with_placement(t, axis, Replicated{}), location);
}

Tensor reduce_scatter(const Tensor& t, int scatter_axis, const MeshAxis& mesh_axis,
                      graph::Location location) {
  const int axis = mesh_axis.in(t.mesh());
  const int at = checked_tensor_axis("reduce_scatter", t, scatter_axis);
  if (kind_of(t.placements()[static_cast<std::size_t>(axis)]) != PlacementKind::partial)
    throw_wrong_placement("reduce_scatter", t, axis, "Partial");
  return t.to(with_placement(t, axis, Sharded{at}), location);
}

}  // namespace functional

// ---- stores ----

namespace {

/// The points start, start + step, … below stop that lie in [begin, end): the first and how many.
std::pair<std::int64_t, std::int64_t> points_in(std::int64_t start, std::int64_t stop,
                                                std::int64_t step, std::int64_t begin,
                                                std::int64_t end) {
  const auto ceil_div = [](std::int64_t a, std::int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; };
  const std::int64_t first = ceil_div(begin - start, step);
  const std::int64_t last = ceil_div(std::min(stop, end) - start, step);
  return {first, std::max<std::int64_t>(0, last - first)};
}

/// Where along an axis each device's part of it begins.
std::vector<std::int64_t> begins(const DeviceMapping& mapping, const Shape& shape, int axis) {
  const DeviceMesh& mesh = mapping.mesh();
  std::vector<std::int64_t> result;
  for (int device = 0; device < mesh.num_devices(); ++device) {
    std::int64_t begin = 0, size = shape[static_cast<std::size_t>(axis)].value();
    for (int i = 0; i < mesh.ndim(); ++i) {
      const auto* sharded =
          std::get_if<Sharded>(&mapping.placements()[static_cast<std::size_t>(i)]);
      if (!sharded || sharded->axis != axis) continue;
      const auto [from, to] =
          graph::part_of_range(size, mesh.device_coord(device, i), mesh.axis_size(i));
      begin += from;
      size = to - from;
    }
    result.push_back(begin);
  }
  return result;
}

bool holds_tensor(const graph::SliceIndex& index) {
  const auto* slice = std::get_if<graph::Slice>(&index);
  return std::holds_alternative<graph::TensorValue>(index) ||
         (slice &&
          (std::holds_alternative<graph::TensorValue>(slice->start) ||
           std::holds_alternative<graph::TensorValue>(slice->stop) || slice->step.is_tensor()));
}

[[noreturn]] void throw_needs_one_device(const char* op, const DeviceMapping& mapping) {
  throw ValueError(
      format("Cannot call '{}' on a sharded tensor distributed over {}. Use per-shard access or "
             "transfer_to first.",
             op, mapping.to_string()));
}

}  // namespace

void detail::store_spread(const Tensor& target, const std::vector<graph::SliceIndex>& indices,
                          const Tensor& source) {
  const DeviceMapping mapping = target.mapping();
  if (!graph::Graph::has_current() && std::any_of(indices.begin(), indices.end(), holds_tensor))
    throw_needs_one_device("buffer_store_slice",
                           target.state()->placed ? mapping : source.mapping());
  if (!target.state()->placed) return Tensor::Region(target, indices).store(source.to(mapping));
  for (const Placement& placement : mapping.placements())
    if (kind_of(placement) == PlacementKind::partial ||
        kind_of(placement) == PlacementKind::unknown)
      throw ShardingError(
          format("A tensor on {} cannot be written: its elements are not there yet. Bring it to "
                 "copies or slices with F.transfer_to first.",
                 mapping.to_string()));
  const Shape shape = target.shape();
  const graph::ops::ResolvedSlice resolved = graph::ops::resolve_slice(shape, indices);
  if (!resolved.tensors.empty()) throw_needs_one_device("buffer_store_slice", mapping);
  const auto& starts = std::get<Shape>(resolved.attributes.find("starts")->second);
  const auto& stops = std::get<Shape>(resolved.attributes.find("stops")->second);
  const auto& steps =
      std::get<std::vector<std::int64_t>>(resolved.attributes.find("steps")->second);
  const auto is_whole = [&](std::size_t axis) {
    return starts[axis] == Dim(0) && stops[axis] == shape[axis] && steps[axis] == 1;
  };
  const auto is_dropped = [&](int axis) {
    return std::find(resolved.dropped.begin(), resolved.dropped.end(), axis) !=
           resolved.dropped.end();
  };
  // Where the index leaves the split axes whole, each device stores its part of the source, split
  // alike; else it cuts that out of a copy.
  bool splits_alike = true;
  std::vector<Placement> source_placements;
  for (const Placement& placement : mapping.placements()) {
    const auto* sharded = std::get_if<Sharded>(&placement);
    if (!sharded) {
      source_placements.push_back(placement);
      continue;
    }
    const auto axis = static_cast<std::size_t>(sharded->axis);
    splits_alike = splits_alike && is_whole(axis) && !is_dropped(sharded->axis);
    int at = 0;
    for (int i = 0; i < sharded->axis; ++i) at += is_dropped(i) ? 0 : 1;
    source_placements.emplace_back(Sharded{at});
  }
  const DeviceMapping wanted = splits_alike ? DeviceMapping(mapping.mesh(), source_placements)
                                            : DeviceMapping::replicated(mapping.mesh());
  const std::vector<Tensor> sources = source.to(wanted).local_shards();
  const std::vector<Tensor> shards = target.local_shards();
  std::vector<std::vector<std::int64_t>> offsets(shape.size());
  if (!splits_alike)
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const auto at = static_cast<std::size_t>(axis);
      const bool is_split = std::find(mapping.placements().begin(), mapping.placements().end(),
                                      Placement(Sharded{axis})) != mapping.placements().end();
      if (!is_split) continue;
      if (!shape[at].is_static() || !starts[at].is_static() || !stops[at].is_static())
        throw ShardingError(
            format("A store to part of the split axis {} needs numbers for its size and bounds, "
                   "which are {}, {} and {}.",
                   axis, shape[at].to_string(), starts[at].to_string(), stops[at].to_string()));
      offsets[at] = begins(mapping, shape, axis);
    }
  for (std::size_t device = 0; device < shards.size(); ++device) {
    const Shape local = shards[device].shape();
    std::vector<graph::SliceIndex> into, from;
    bool is_empty = false;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      const bool dropped = is_dropped(static_cast<int>(axis));
      if (offsets[axis].empty()) {
        if (dropped)
          into.emplace_back(starts[axis]);
        else if (is_whole(axis))
          into.emplace_back(graph::all);
        else
          into.emplace_back(graph::slice(starts[axis], stops[axis], steps[axis]));
        if (!dropped) from.emplace_back(graph::all);
        continue;
      }
      const std::int64_t begin = offsets[axis][device], size = local[axis].value();
      const std::int64_t start = starts[axis].value(), step = steps[axis];
      const auto [first, count] = points_in(start, stops[axis].value(), step, begin, begin + size);
      is_empty = is_empty || count == 0;
      if (is_empty) break;
      const std::int64_t at = start + first * step - begin;
      if (dropped) {
        into.emplace_back(at);
      } else {
        into.emplace_back(graph::slice(at, at + (count - 1) * step + 1, step));
        from.emplace_back(graph::slice(first, first + count));
      }
    }
    if (is_empty) continue;
    Tensor part = sources[device];
    if (!splits_alike && !from.empty()) part = part[from];
    Tensor::Region(shards[device], into).store(part);
  }
}

}  // namespace kiln::experimental
