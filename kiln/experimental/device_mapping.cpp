#include "kiln/experimental/device_mapping.h"

#include <algorithm>

#include "kiln/graph/sharding.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::experimental {

namespace {

DeviceMesh given_or_active(std::optional<DeviceMesh> mesh) {
  if (mesh) return *std::move(mesh);
  if (auto active = get_active_mesh()) return *std::move(active);
  throw ValueError(
      "NamedMapping: no mesh was given and none is active. Give one, or use it inside "
      "mesh_context.");
}

std::optional<int> find_axis(const DeviceMesh& mesh, const std::string& name) {
  const auto& names = mesh.axis_names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<int>(found - names.begin());
}

std::vector<Placement> resolve(const DeviceMesh& mesh, const NamedMapping::Spec& spec,
                               const std::vector<std::string>& unreduced) {
  std::vector<Placement> placements(static_cast<std::size_t>(mesh.ndim()), Replicated{});
  std::vector<std::string> used;
  const auto use = [&](const std::string& name) {
    if (std::find(used.begin(), used.end(), name) != used.end())
      throw ConversionError(
          format("Mesh axis '{}' is already assigned to another tensor dimension; each mesh axis "
                 "can split one tensor dimension or hold the terms of a sum, not both.",
                 name));
    used.push_back(name);
    return find_axis(mesh, name);
  };
  for (std::size_t axis = 0; axis < spec.size(); ++axis) {
    int last = -1;
    for (const std::string& name : spec[axis]) {
      const auto mesh_axis = use(name);
      if (!mesh_axis) continue;
      if (*mesh_axis < last)
        throw ConversionError(format(
            "Tensor dimension {} is split by the mesh axes {} in this order, but {} splits by '{}' "
            "first. Name them in the order of the mesh.",
            axis, spec[axis], mesh.to_string(), name));
      last = *mesh_axis;
      placements[static_cast<std::size_t>(*mesh_axis)] = Sharded{static_cast<int>(axis)};
    }
  }
  for (const std::string& name : unreduced)
    if (const auto mesh_axis = use(name))
      placements[static_cast<std::size_t>(*mesh_axis)] = Partial{};
  return placements;
}

graph::Dim part_of(const graph::Dim& dim, int i, int parts, const std::string& axis_name) {
  if (parts == 1) return dim;
  if (dim.is_static()) {
    const auto [begin, end] = graph::part_of_range(dim.value(), i, parts);
    return end - begin;
  }
  if (dim.is_symbolic()) return graph::Dim(format("{}_{}_{}", dim.name(), axis_name, i));
  throw ShardingError(
      format("The dim {} cannot be sharded over the mesh axis '{}': only numbers and symbols have "
             "parts. Give it a name with rebind first.",
             dim.to_string(), axis_name));
}

}  // namespace

DeviceMapping::DeviceMapping(DeviceMesh mesh, std::vector<Placement> placements)
    : mesh_(std::move(mesh)) {
  if (placements.size() != static_cast<std::size_t>(mesh_.ndim()))
    throw ValueError(
        format("Need one placement per mesh axis ({}), got {}.", mesh_.ndim(), placements.size()));
  placements_ = std::make_shared<const std::vector<Placement>>(std::move(placements));
}

DeviceMapping DeviceMapping::replicated(DeviceMesh mesh) {
  std::vector<Placement> placements(static_cast<std::size_t>(mesh.ndim()), Replicated{});
  return {std::move(mesh), std::move(placements)};
}

bool DeviceMapping::is_fully_replicated() const {
  return std::all_of(placements_->begin(), placements_->end(), [](const Placement& placement) {
    return std::holds_alternative<Replicated>(placement);
  });
}

void DeviceMapping::check_shape(const graph::Shape& shape) const {
  for (const Placement& placement : *placements_) {
    const auto* sharded = std::get_if<Sharded>(&placement);
    if (sharded && (sharded->axis < 0 || sharded->axis >= shape.rank()))
      throw ValueError(format("Sharded(axis={}) is out of range for a rank-{} shape.",
                              sharded->axis, shape.rank()));
  }
}

std::vector<graph::Shape> DeviceMapping::local_shapes(const graph::Shape& shape) const {
  check_shape(shape);
  std::vector<graph::Shape> shapes;
  for (int device = 0; device < mesh_.num_devices(); ++device) {
    graph::Shape local = shape;
    for (int axis = 0; axis < mesh_.ndim(); ++axis) {
      const auto* sharded = std::get_if<Sharded>(&(*placements_)[static_cast<std::size_t>(axis)]);
      if (!sharded) continue;
      graph::Dim& dim = local[static_cast<std::size_t>(sharded->axis)];
      dim = part_of(dim, mesh_.device_coord(device, axis), mesh_.axis_size(axis),
                    mesh_.axis_names()[static_cast<std::size_t>(axis)]);
    }
    shapes.push_back(std::move(local));
  }
  return shapes;
}

std::string DeviceMapping::to_string() const {
  std::vector<std::string> texts;
  for (const Placement& placement : *placements_)
    texts.push_back(experimental::to_string(placement));
  return format("DeviceMapping({}, [{}])", mesh_.to_string(), join(texts, ", "));
}

DeviceMapping::DeviceMapping(DeviceMesh mesh, Names names)
    : DeviceMapping(mesh, resolve(mesh, names.spec, names.unreduced)) {
  names_ = std::make_shared<const Names>(std::move(names));
}

DeviceMapping DeviceMapping::on(DeviceMesh mesh) const {
  return names_ ? DeviceMapping(std::move(mesh), *names_) : replicated(std::move(mesh));
}

NamedMapping::NamedMapping(std::optional<DeviceMesh> mesh, Spec spec,
                           std::vector<std::string> unreduced)
    : DeviceMapping(given_or_active(std::move(mesh)),
                    Names{std::move(spec), std::move(unreduced)}) {}

}  // namespace kiln::experimental
