// The promise `is_device_graph`: everything runs on one accelerator, so that it can be captured.

#include <optional>

#include "compiler/diagnostics.h"
#include "compiler/passes/passes.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::compiler {
namespace {

using namespace graph;  // NOLINT: the pass speaks of nothing else

class Check {
 public:
  explicit Check(const ir::Graph& graph) : graph_(graph) { block(*graph.body); }

 private:
  void block(const ir::Block& block) {
    for (const auto& op : block.ops) {
      working_on(*op, [&] { check(*op); });
      for (const auto& region : op->regions) this->block(*region);
    }
  }

  /// Whether the op is over before the graph runs, or only marks a place in it.
  static bool is_free(OpKind kind) {
    switch (kind) {
      case OpKind::constant:
      case OpKind::constant_external:
      case OpKind::chain_create:
      case OpKind::output:
      case OpKind::yield:
      case OpKind::condition:
        return true;
      default:
        return false;
    }
  }

  void check(const ir::Op& op) {
    if (is_free(op.kind)) return;
    for (const auto& result : op.results) check(op, result->type);
    for (const ir::Value* operand : op.operands)
      if (!operand->producer || !is_free(operand->producer->kind)) check(op, operand->type);
  }

  void check(const ir::Op& op, const Type& type) {
    if (!type.is_tensor() && !type.is_buffer()) return;
    const DeviceRef device = type.shaped().device;
    if (device.is_gpu() && !device_) device_ = device;
    if (device == device_) return;
    throw RuntimeError(format(
        "Graph '{}' was made with is_device_graph, so all of it runs on one accelerator, but op "
        "'{}' works on {}{}.",
        graph_.name, user_name(op), device.to_string(),
        device_ ? format(" while others work on {}", device_->to_string()) : std::string()));
  }

  const ir::Graph& graph_;
  std::optional<DeviceRef> device_;
};

}  // namespace

void check_device_graph(const ir::Graph& graph) {
  if (graph.is_device_graph) Check{graph};
}

}  // namespace kiln::compiler
