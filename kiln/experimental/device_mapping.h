#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kiln/experimental/device_mesh.h"
#include "kiln/experimental/placement.h"
#include "kiln/graph/dim.h"

namespace kiln::experimental {

/// A named mapping that no placements express.
class ConversionError : public ValueError {
 public:
  using ValueError::ValueError;
};

/// Where a tensor lives: a mesh and one placement for each of its axes. An immutable small value.
class DeviceMapping {
 public:
  /// Not one placement for each axis of the mesh: ValueError.
  DeviceMapping(DeviceMesh mesh, std::vector<Placement> placements);
  /// A copy on each device.
  static DeviceMapping replicated(DeviceMesh mesh);

  const DeviceMesh& mesh() const { return mesh_; }
  const std::vector<Placement>& placements() const { return *placements_; }
  bool is_fully_replicated() const;
  /// A Sharded axis that a tensor of this shape lacks: ValueError.
  void check_shape(const graph::Shape& shape) const;
  /// What each device holds of a tensor of this shape, in mesh order. A static dim of n over k
  /// devices gives sizes that differ by at most one, larger first; a symbol d becomes
  /// `{d}_{axis name}_{i}`; another dim: ShardingError. Errors of `check_shape`.
  std::vector<graph::Shape> local_shapes(const graph::Shape& shape) const;
  /// On another mesh: copies, or what the names of a NamedMapping mean there.
  DeviceMapping on(DeviceMesh mesh) const;
  /// "DeviceMapping(DeviceMesh(x=2), [Sharded(axis=0)])".
  std::string to_string() const;

  friend bool operator==(const DeviceMapping& a, const DeviceMapping& b) {
    return a.mesh_ == b.mesh_ && *a.placements_ == *b.placements_;
  }

 protected:
  /// What a NamedMapping was made of.
  struct Names {
    std::vector<std::vector<std::string>> spec;
    std::vector<std::string> unreduced;
  };
  DeviceMapping(DeviceMesh mesh, Names names);
  const Names& names() const { return *names_; }

 private:
  DeviceMesh mesh_;
  std::shared_ptr<const std::vector<Placement>> placements_;
  std::shared_ptr<const Names> names_;
};

/// The same class under another name.
using PlacementMapping = DeviceMapping;

/// A mapping in the words of the tensor: for each of its axes the mesh axes that split it. Mesh
/// axes that are not named hold copies, and names that the mesh lacks mean nothing on it.
class NamedMapping : public DeviceMapping {
 public:
  /// The mesh axes, outermost first, of one tensor axis; empty: not split.
  using Spec = std::vector<std::vector<std::string>>;

  /// `spec` has an entry for each tensor axis, further ones are not split; the mesh axes in
  /// `unreduced` hold terms of a sum. Without a mesh the active one is meant; with none:
  /// ValueError. A mesh axis used twice, or several for one tensor axis in another order than the
  /// mesh's: ConversionError.
  explicit NamedMapping(std::optional<DeviceMesh> mesh = std::nullopt, Spec spec = {},
                        std::vector<std::string> unreduced = {});

  const Spec& spec() const { return names().spec; }
  const std::vector<std::string>& unreduced() const { return names().unreduced; }
};

}  // namespace kiln::experimental
