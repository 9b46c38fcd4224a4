#include "kiln/graph/placement.h"

#include "kiln/graph/graph_state.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "kiln/support/warning.h"

namespace kiln::graph {

void check_placement(std::string_view op) {
  const DevicePlacementPolicy policy = detail::current_graph()->placement;
  if (policy == DevicePlacementPolicy::Ignore) return;
  std::string text = format(
      "`ops.{}` does not support GPU execution and will implicitly transfer the tensor to CPU. "
      "Call "
      "`ops.transfer_to(x, CPU())` explicitly, or construct the Graph with "
      "`strict_device_placement=DevicePlacementPolicy.Error` to make this an error.",
      op);
  if (policy == DevicePlacementPolicy::Error) throw ValueError(text);
  warn(text);
}

HostDetour::HostDetour(std::string_view op, std::vector<TensorValue*> values)
    : home_(values[0]->device()) {
  if (home_.is_cpu()) return;
  for (const TensorValue* value : values) {
    if (value->device() == home_) continue;
    std::string text = "Input values must be on the same device";
    for (std::size_t i = 0; i < values.size(); ++i)
      text += format("\n    values[{}]: {}", i, values[i]->type().repr());
    throw ValueError(text);
  }
  check_placement(op);
  for (TensorValue* value : values)
    *value = detail::add_tensor_op(OpKind::transfer_to, {*value}, {{"device", DeviceRef::CPU()}});
}

TensorValue HostDetour::back(const TensorValue& result) const {
  if (home_.is_cpu()) return result;
  return detail::add_tensor_op(OpKind::transfer_to, {result}, {{"device", home_}});
}

}  // namespace kiln::graph
