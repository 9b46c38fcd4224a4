#pragma once

// Moving tensors between placements, and what ops may move by themselves.

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kiln/experimental/device_mapping.h"
#include "kiln/graph/value.h"

namespace kiln::experimental {

/// The kinds of placements, in the order of `Placement`.
enum class PlacementKind : std::uint8_t { replicated, sharded, partial, unknown };
inline PlacementKind kind_of(const Placement& placement) {
  return static_cast<PlacementKind>(placement.index());
}
/// "Replicated".
std::string_view to_string(PlacementKind kind);

/// Changes of a placement along one mesh axis: (from, to).
using Transitions = std::set<std::pair<PlacementKind, PlacementKind>>;
/// Every change that can be done: Replicated to Sharded by a local slice, Sharded to Replicated by
/// an all-gather, Sharded to Sharded by an all-to-all, Partial to Replicated by an all-reduce,
/// Partial to Sharded by a reduce-scatter.
const Transitions& all_transitions();
/// `all_transitions` without Partial to Sharded.
const Transitions& default_transitions();

/// What happens when an op needs data of a distributed input elsewhere: it is moved, moved with a
/// warning, or a ShardingError says what would have to move. Local slices move nothing.
enum class ReshardMode : std::uint8_t { silent, warn, raise };

/// Sets on this thread what ops may move by themselves, until it goes out of scope; guards nest.
class AutoReshard {
 public:
  explicit AutoReshard(Transitions allowed = default_transitions(),
                       ReshardMode mode = ReshardMode::silent);
  explicit AutoReshard(ReshardMode mode) : AutoReshard(default_transitions(), mode) {}
  ~AutoReshard();
  AutoReshard(const AutoReshard&) = delete;
  AutoReshard& operator=(const AutoReshard&) = delete;

  struct Settings {
    Transitions allowed;
    ReshardMode mode = ReshardMode::silent;
  };
  /// Those in force on this thread; null: the defaults.
  static const Settings* current() noexcept;

 private:
  Settings settings_;
  const Settings* outer_;
};

namespace detail {

/// The name of a change, such as "an all-gather", and the bytes that each device receives for it
/// when the tensor has `bytes` where the axis does not split it.
struct Move {
  std::string_view name;
  double bytes = 0;
};
/// How `from` becomes `to` over `devices` devices; none: it cannot.
std::optional<Move> move_between(const Placement& from, const Placement& to, int devices,
                                 double bytes);

/// The parts of a tensor of shape `shape`, one for each device of `from`, as those of `to`: adds
/// the ops to the current graph. A change that cannot be done: ShardingError.
std::vector<graph::TensorValue> redistribute(std::vector<graph::TensorValue> parts,
                                             const DeviceMapping& from, const DeviceMapping& to,
                                             const graph::Shape& shape);

}  // namespace detail
}  // namespace kiln::experimental
