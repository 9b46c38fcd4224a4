#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "kiln/support/error.h"

namespace kiln::experimental {

/// A placement that is not possible, or none that an op accepts.
class ShardingError : public RuntimeError {
 public:
  using RuntimeError::RuntimeError;
};

/// How the terms of a Partial are combined. Only `sum` and `avg` can be resolved.
enum class ReduceOp { sum, avg, min, max };
/// "sum".
std::string_view to_string(ReduceOp op);

// What each device along one axis of a mesh holds of a tensor.

/// The same copy.
struct Replicated {
  friend bool operator==(const Replicated&, const Replicated&) = default;
};

/// A slice along an axis of the tensor. Sizes differ by at most one, larger ones first.
struct Sharded {
  int axis = 0;
  friend bool operator==(const Sharded&, const Sharded&) = default;
};

/// A term of a reduction that is still to be done.
struct Partial {
  ReduceOp reduce_op = ReduceOp::sum;
  friend bool operator==(const Partial&, const Partial&) = default;
};

/// Values without a known relation.
struct Unknown {
  friend bool operator==(const Unknown&, const Unknown&) = default;
};

using Placement = std::variant<Replicated, Sharded, Partial, Unknown>;

/// "Sharded(axis=0)", "Partial(reduce_op='sum')".
std::string to_string(const Placement& placement);

}  // namespace kiln::experimental
