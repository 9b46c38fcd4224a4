#include "kiln/experimental/tensor_layout.h"

#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::experimental {

LayoutDevice::LayoutDevice(const driver::Device& device)
    : mapping_(DeviceMapping::replicated(DeviceMesh::single(device))) {}
LayoutDevice::LayoutDevice(const graph::DeviceRef& device) : LayoutDevice(device.to_device()) {}
LayoutDevice::LayoutDevice(const DeviceMesh& mesh)
    : mapping_(DeviceMapping::replicated(mesh)), is_mesh_(true) {}

bool LayoutDevice::is_plain() const {
  return mapping_.mesh() == DeviceMesh::single(mapping_.mesh().devices()[0]);
}

TensorLayout::TensorLayout(DType dtype, graph::Shape shape, const LayoutDevice& device)
    : TensorLayout(dtype, std::move(shape), device, false) {}

TensorLayout::TensorLayout(DType dtype, graph::Shape shape, const LayoutDevice& device,
                           bool is_buffer)
    : dtype_(dtype), shape_(std::move(shape)), mapping_(device.mapping()), is_buffer_(is_buffer) {
  // Makes the checks of the shape itself.
  graph::TensorType(dtype_, shape_, graph::DeviceRef::CPU());
  mapping_.check_shape(shape_);
}

driver::Device TensorLayout::device() const {
  if (!mesh().is_single())
    throw ValueError(
        format("TensorLayout spans {} devices and so has no single device. Use "
               ".mesh.devices.",
               mesh().num_devices()));
  return mesh().devices()[0];
}

std::vector<graph::Type> TensorLayout::local_types() const {
  std::vector<graph::Shape> shapes = mapping_.local_shapes(shape_);
  std::vector<graph::Type> types;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    graph::TensorType type(dtype_, std::move(shapes[i]), mesh().devices()[i]);
    if (is_buffer_)
      types.emplace_back(type.as_buffer());
    else
      types.emplace_back(std::move(type));
  }
  return types;
}

BufferLayout TensorLayout::as_buffer() const { return {dtype_, shape_, mapping_}; }
TensorLayout TensorLayout::as_tensor() const { return {dtype_, shape_, mapping_}; }

std::string TensorLayout::to_string() const {
  return format("{}Layout({}, {}, {})", is_buffer_ ? "Buffer" : "Tensor", dtype_.to_string(),
                shape_.to_string(), mapping_.to_string());
}

Layout as_layout(const graph::Type& type) {
  if (!type.is_tensor() && !type.is_buffer())
    throw TypeError(
        format("expected a TensorLayout, BufferLayout, TensorType or BufferType layout, "
               "got {}: only tensors and buffers have layouts.",
               type.repr()));
  const graph::ShapedType& shaped = type.shaped();
  TensorLayout layout(shaped.dtype, shaped.shape, shaped.device);
  if (type.is_buffer()) return layout.as_buffer();
  return layout;
}

}  // namespace kiln::experimental
