#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "kiln/driver/device.h"

namespace kiln::experimental {

/// An immutable grid of devices in row-major order, with a name for each axis. The devices are all
/// different, or all the same: such a *simulated* mesh runs everything that several devices would
/// do on one. A small value; copies share the grid.
class DeviceMesh {
 public:
  /// No device, a product of `mesh_shape` other than the number of devices, names that are not one
  /// for each axis or not unique, and devices of which only some are the same: ValueError.
  DeviceMesh(std::vector<driver::Device> devices, std::vector<int> mesh_shape,
             std::vector<std::string> axis_names);
  /// One device; the axis is named "_".
  static DeviceMesh single(driver::Device device);
  /// The CPU alone.
  static DeviceMesh default_mesh();

  const std::vector<driver::Device>& devices() const { return grid_->devices; }
  const std::vector<int>& mesh_shape() const { return grid_->shape; }
  const std::vector<std::string>& axis_names() const { return grid_->names; }
  int ndim() const { return static_cast<int>(grid_->shape.size()); }
  int num_devices() const { return static_cast<int>(grid_->devices.size()); }
  /// The number of an axis. An unknown name: ValueError.
  int axis_index(std::string_view name) const;
  /// Negative numbers count from the end; outside: IndexError.
  int axis_index(int axis) const;
  /// Devices along an axis, which is a name or a number; errors as for `axis_index`.
  int axis_size(std::string_view name) const { return grid_->shape[index(axis_index(name))]; }
  int axis_size(int axis) const { return grid_->shape[index(axis_index(axis))]; }
  /// The place of device `i` along an axis. `i` outside the mesh: IndexError.
  int device_coord(int i, std::string_view name) const { return coord(i, axis_index(name)); }
  int device_coord(int i, int axis) const { return coord(i, axis_index(axis)); }
  /// Whether there is one device.
  bool is_single() const { return num_devices() == 1; }
  /// Whether one device stands for several.
  bool is_simulated() const;
  /// "DeviceMesh(dp=2, tp=4)".
  std::string to_string() const;

  friend bool operator==(const DeviceMesh& a, const DeviceMesh& b) {
    return a.grid_ == b.grid_ || *a.grid_ == *b.grid_;
  }

 private:
  struct Grid {
    std::vector<driver::Device> devices;
    std::vector<int> shape;
    std::vector<std::string> names;
    friend bool operator==(const Grid&, const Grid&) = default;
  };

  static std::size_t index(int axis) { return static_cast<std::size_t>(axis); }
  int coord(int i, int axis) const;

  std::shared_ptr<const Grid> grid_;
};

/// An axis of a mesh: its name or its number.
class MeshAxis {
 public:
  MeshAxis(int number) : axis_(number) {}                 // NOLINT
  MeshAxis(const char* name) : axis_(name) {}             // NOLINT
  MeshAxis(std::string name) : axis_(std::move(name)) {}  // NOLINT
  /// Its number in `mesh`. An unknown name: ValueError; a number outside: IndexError.
  int in(const DeviceMesh& mesh) const {
    return std::visit([&](const auto& axis) { return mesh.axis_index(axis); }, axis_);
  }

 private:
  std::variant<int, std::string> axis_;
};

/// The mesh that the innermost MeshContext of this thread publishes.
std::optional<DeviceMesh> get_active_mesh();

/// Publishes a mesh on this thread until it goes out of scope; contexts nest.
class MeshContext {
 public:
  explicit MeshContext(DeviceMesh mesh);
  ~MeshContext();
  MeshContext(const MeshContext&) = delete;
  MeshContext& operator=(const MeshContext&) = delete;
};

}  // namespace kiln::experimental

template <>
struct std::hash<kiln::experimental::DeviceMesh> {
  std::size_t operator()(const kiln::experimental::DeviceMesh& mesh) const noexcept;
};
