#include "kiln/graph/ops/transfer.h"

#include "kiln/graph/graph_state.h"
#include "kiln/graph/promotion.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "kiln/support/warning.h"

namespace kiln::graph::ops {

namespace d = graph::detail;

TensorValue transfer_to(const TensorValueLike& x, DeviceRef device) {
  LocationScope at(x.location());
  TensorValue value = strong(x);
  const DeviceRef from = value.device();
  if (from == device) return value;
  if (from.is_gpu() && device.is_cpu() && value.rank() == 0)
    warn(format(
        "Moving the scalar {} from {} to {} makes the host wait for the accelerator whenever "
        "the graph runs.",
        value.repr(), from.to_string(), device.to_string()));
  if (!from.is_gpu() || !device.is_gpu())
    return d::add_tensor_op(OpKind::transfer_to, {value}, {{"device", device}});
  // Between accelerators the copy must not overtake a collective, so both chains run through it.
  ir::Op* merged = d::add_op(OpKind::chain_create, {d::chain_of(from), d::chain_of(device)});
  auto& graph = *d::current_graph();
  ir::Op* op =
      d::add_op(OpKind::transfer_to, {value, graph.handle(merged->result())}, {{"device", device}});
  d::advance_chain(from, graph.handle(op->result(1)));
  d::advance_chain(device, graph.handle(op->result(1)));
  return TensorValue(graph.handle(op->result(0)));
}

}  // namespace kiln::graph::ops
