#include "kiln/experimental/device_mesh.h"

#include <algorithm>
#include <functional>
#include <set>

#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::experimental {

namespace {

std::vector<DeviceMesh>& active_meshes() {
  thread_local std::vector<DeviceMesh> meshes;
  return meshes;
}

std::string shown(const std::vector<int>& shape) {
  return format("({}{})", join(shape, ", "), shape.size() == 1 ? "," : "");
}

}  // namespace

DeviceMesh::DeviceMesh(std::vector<driver::Device> devices, std::vector<int> mesh_shape,
                       std::vector<std::string> axis_names) {
  if (devices.empty()) throw ValueError("DeviceMesh requires at least one device.");
  std::int64_t expected = 1;
  for (int size : mesh_shape) {
    if (size < 1)
      throw ValueError(format("mesh_shape {} holds {}, but every axis has at least one device.",
                              shown(mesh_shape), size));
    if (__builtin_mul_overflow(expected, std::int64_t{size}, &expected))
      throw ValueError(format("mesh_shape {} is too large.", shown(mesh_shape)));
  }
  if (expected != static_cast<std::int64_t>(devices.size()))
    throw ValueError(format("mesh_shape {} expects {} devices, got {}", shown(mesh_shape), expected,
                            devices.size()));
  if (axis_names.size() != mesh_shape.size())
    throw ValueError(format("axis_names length ({}) must match mesh_shape rank ({})",
                            axis_names.size(), mesh_shape.size()));
  if (std::set<std::string>(axis_names.begin(), axis_names.end()).size() != axis_names.size())
    throw ValueError(format("axis_names must be unique, got {}", axis_names));
  std::size_t different = 0;
  for (std::size_t i = 0; i < devices.size(); ++i)
    different += std::find(devices.begin(), devices.begin() + static_cast<std::ptrdiff_t>(i),
                           devices[i]) == devices.begin() + static_cast<std::ptrdiff_t>(i);
  if (different != 1 && different != devices.size())
    throw ValueError(
        format("DeviceMesh requires either all-same devices (simulated) or all-distinct devices "
               "(multi-device), but got {} unique devices for {} slots.",
               different, devices.size()));
  grid_ = std::make_shared<const Grid>(
      Grid{std::move(devices), std::move(mesh_shape), std::move(axis_names)});
}

DeviceMesh DeviceMesh::single(driver::Device device) { return {{device}, {1}, {"_"}}; }

DeviceMesh DeviceMesh::default_mesh() { return single(driver::CPU()); }

int DeviceMesh::axis_index(std::string_view name) const {
  const auto& names = grid_->names;
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw ValueError(format("Unknown axis name '{}'. Available: {}", name, names));
  return static_cast<int>(found - names.begin());
}

int DeviceMesh::axis_index(int axis) const {
  if (axis < -ndim() || axis >= ndim())
    throw IndexError(
        format("axis {} is out of range for {}, which has {} axes", axis, to_string(), ndim()));
  return axis < 0 ? axis + ndim() : axis;
}

int DeviceMesh::coord(int i, int axis) const {
  if (i < 0 || i >= num_devices())
    throw IndexError(format("device {} is out of range for {}, which has {} devices", i,
                            to_string(), num_devices()));
  for (int inner = ndim() - 1; inner > axis; --inner) i /= grid_->shape[index(inner)];
  return i % grid_->shape[index(axis)];
}

bool DeviceMesh::is_simulated() const {
  return num_devices() > 1 && grid_->devices[0] == grid_->devices[1];
}

std::string DeviceMesh::to_string() const {
  std::vector<std::string> axes;
  for (std::size_t i = 0; i < grid_->shape.size(); ++i)
    axes.push_back(format("{}={}", grid_->names[i], grid_->shape[i]));
  return format("DeviceMesh({})", join(axes, ", "));
}

std::optional<DeviceMesh> get_active_mesh() {
  if (active_meshes().empty()) return std::nullopt;
  return active_meshes().back();
}

MeshContext::MeshContext(DeviceMesh mesh) { active_meshes().push_back(std::move(mesh)); }
MeshContext::~MeshContext() { active_meshes().pop_back(); }

}  // namespace kiln::experimental

std::size_t std::hash<kiln::experimental::DeviceMesh>::operator()(
    const kiln::experimental::DeviceMesh& mesh) const noexcept {
  std::size_t result = 0;
  const auto mix = [&](std::size_t value) { result = result * 1000003 + value; };
  for (const auto& device : mesh.devices()) mix(std::hash<kiln::driver::Device>()(device));
  for (int size : mesh.mesh_shape()) mix(static_cast<std::size_t>(size));
  for (const auto& name : mesh.axis_names()) mix(std::hash<std::string>()(name));
  return result;
}
