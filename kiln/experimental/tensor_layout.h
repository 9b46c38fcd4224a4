#pragma once

#include <string>
#include <variant>
#include <vector>

#include "kiln/dtype/dtype.h"
#include "kiln/experimental/device_mapping.h"
#include "kiln/graph/type.h"

namespace kiln::experimental {

/// Where a layout lives: a device, a mesh, each of whose devices holds a copy, or a mapping.
class LayoutDevice {
 public:
  LayoutDevice(const driver::Device& device);    // NOLINT
  LayoutDevice(const graph::DeviceRef& device);  // NOLINT: opens it; the driver's errors
  LayoutDevice(const DeviceMesh& mesh);          // NOLINT
  LayoutDevice(DeviceMapping mapping)            // NOLINT
      : mapping_(std::move(mapping)) {}
  const DeviceMapping& mapping() const { return mapping_; }
  /// Whether a mesh was given, without placements.
  bool is_mesh() const { return is_mesh_; }
  /// Whether it is a device, rather than a mesh that has names.
  bool is_plain() const;

 private:
  DeviceMapping mapping_;
  bool is_mesh_ = false;
};

class BufferLayout;

/// What a function over tensors is told of an argument: element type, global shape and placement.
/// Immutable.
class TensorLayout {
 public:
  /// A Sharded axis that the shape lacks, a rank over 8: ValueError; a negative dim: TypeError.
  TensorLayout(DType dtype, graph::Shape shape, const LayoutDevice& device);

  DType dtype() const { return dtype_; }
  /// Of the whole tensor, over all devices.
  const graph::Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  const DeviceMapping& mapping() const { return mapping_; }
  const DeviceMesh& mesh() const { return mapping_.mesh(); }
  const std::vector<Placement>& placements() const { return mapping_.placements(); }
  /// The one device. Several: ValueError.
  driver::Device device() const;
  /// Whether the argument may be written.
  bool is_buffer() const { return is_buffer_; }
  /// One type for each device, in mesh order; a BufferType where the argument may be written.
  /// A dim that has no parts: ShardingError.
  std::vector<graph::Type> local_types() const;
  BufferLayout as_buffer() const;
  TensorLayout as_tensor() const;
  /// "TensorLayout(DType.float32, [batch, 2], DeviceMapping(…))".
  std::string to_string() const;

  friend bool operator==(const TensorLayout& a, const TensorLayout& b) {
    return a.is_buffer_ == b.is_buffer_ && a.dtype_ == b.dtype_ && a.shape_ == b.shape_ &&
           a.mapping_ == b.mapping_;
  }

 protected:
  TensorLayout(DType dtype, graph::Shape shape, const LayoutDevice& device, bool is_buffer);

 private:
  DType dtype_;
  graph::Shape shape_;
  DeviceMapping mapping_;
  bool is_buffer_ = false;
};

/// The layout of an argument that the function may write.
class BufferLayout : public TensorLayout {
 public:
  BufferLayout(DType dtype, graph::Shape shape, const LayoutDevice& device)
      : TensorLayout(dtype, std::move(shape), device, true) {}
};

/// A layout of either kind.
using Layout = TensorLayout;

/// The layout of one device that a graph type means. Other types than tensors and buffers:
/// TypeError.
Layout as_layout(const graph::Type& type);

}  // namespace kiln::experimental
