#include "kiln/engine/weights_registry.h"

#include "kiln/support/format.h"

namespace kiln::engine {

std::string type_text(DType dtype, const Shape& shape) {
  return format("[({}), {}]", join(shape.to_vector(), ", "), dtype.text_name());
}

std::vector<driver::Buffer> bind_weights(const runtime::Artifact& artifact,
                                         const WeightsRegistry& registry) {
  const auto& declared = artifact.header().weights;
  std::vector<driver::Buffer> bound(declared.size());
  for (std::size_t i = 0; i < declared.size(); ++i) {
    const auto found = registry.find(declared[i].name);
    if (found != registry.end())
      bound[i] = found->second;
    else if (!declared[i].offset)
      throw ValueError(format("Weight '{}' is not in the weights registry.", declared[i].name));
  }
  for (const auto& [name, buffer] : registry)
    if (!buffer.is_contiguous())
      throw ValueError(
          format("Weight '{}' is not contiguous: kiln does not currently support executing "
                 "non-contiguous tensors. Before passing these tensors, make a contiguous copy of "
                 "them using .contiguous().",
                 name));
  for (std::size_t i = 0; i < declared.size(); ++i) {
    const driver::Buffer& buffer = bound[i];
    if (!buffer) continue;
    const runtime::WeightSignature& weight = declared[i];
    const Shape shape(weight.shape.static_dims());
    if (buffer.dtype() != weight.dtype || buffer.shape() != shape)
      throw ValueError(format("Weight '{}' has type {} but the graph declares {}", weight.name,
                              type_text(buffer.dtype(), buffer.shape()),
                              type_text(weight.dtype, shape)));
    // Host memory of an accelerator is on the host's side.
    const bool on_host = buffer.is_host() || buffer.pinned();
    if (on_host != weight.device.is_cpu())
      throw ValueError(format(
          "Mismatch in device type for weight '{}'. Expected {} but weight is {}{}", weight.name,
          format("Device(type={},id={})", weight.device.is_cpu() ? "cpu" : "gpu", weight.device.id),
          buffer.pinned() ? "pinned memory of " : "", buffer.device().to_string()));
  }
  return bound;
}

}  // namespace kiln::engine
