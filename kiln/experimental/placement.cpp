#include "kiln/experimental/placement.h"

#include "kiln/support/format.h"

namespace kiln::experimental {

std::string_view to_string(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return "sum";
    case ReduceOp::avg:
      return "avg";
    case ReduceOp::min:
      return "min";
    case ReduceOp::max:
      return "max";
  }
  throw InternalError("A ReduceOp has no name.");
}

std::string to_string(const Placement& placement) {
  if (const auto* sharded = std::get_if<Sharded>(&placement))
    return format("Sharded(axis={})", sharded->axis);
  if (const auto* partial = std::get_if<Partial>(&placement))
    return format("Partial(reduce_op='{}')", to_string(partial->reduce_op));
  return std::holds_alternative<Replicated>(placement) ? "Replicated()" : "Unknown()";
}

}  // namespace kiln::experimental
