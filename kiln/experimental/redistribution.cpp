#include "kiln/experimental/redistribution.h"

#include <algorithm>
#include <optional>

#include "kiln/graph/ops.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::experimental {
namespace {

using graph::Dim;
using graph::Shape;
using graph::TensorValue;
using Kind = PlacementKind;

thread_local const AutoReshard::Settings* in_force = nullptr;

std::size_t index(int i) { return static_cast<std::size_t>(i); }

}  // namespace

std::string_view to_string(PlacementKind kind) {
  constexpr std::string_view names[] = {"Replicated", "Sharded", "Partial", "Unknown"};
  return names[static_cast<std::size_t>(kind)];
}

const Transitions& all_transitions() {
  static const auto* all = new Transitions{{Kind::replicated, Kind::sharded},
                                           {Kind::sharded, Kind::replicated},
                                           {Kind::sharded, Kind::sharded},
                                           {Kind::partial, Kind::replicated},
                                           {Kind::partial, Kind::sharded}};
  return *all;
}

const Transitions& default_transitions() {
  static const auto* some = [] {
    auto* all = new Transitions(all_transitions());
    all->erase({Kind::partial, Kind::sharded});
    return all;
  }();
  return *some;
}

AutoReshard::AutoReshard(Transitions allowed, ReshardMode mode)
    : settings_{std::move(allowed), mode}, outer_(in_force) {
  in_force = &settings_;
}
AutoReshard::~AutoReshard() { in_force = outer_; }
const AutoReshard::Settings* AutoReshard::current() noexcept { return in_force; }

namespace detail {

std::optional<Move> move_between(const Placement& from, const Placement& to, int devices,
                                 double bytes) {
  if (from == to) return Move{"", 0};
  if (all_transitions().count({kind_of(from), kind_of(to)}) == 0) return std::nullopt;
  if (const auto* partial = std::get_if<Partial>(&from))
    if (partial->reduce_op != ReduceOp::sum && partial->reduce_op != ReduceOp::avg)
      return std::nullopt;
  const double others = bytes * (devices - 1) / devices;
  if (kind_of(from) == Kind::replicated) return Move{"a local slice", 0};
  if (kind_of(from) == Kind::partial)
    return kind_of(to) == Kind::sharded ? Move{"a reduce-scatter", others}
                                        : Move{"an all-reduce", 2 * others};
  if (kind_of(to) == Kind::sharded) return Move{"an all-to-all", others / devices};
  return Move{"an all-gather", others};
}

namespace {

/// One tensor on its way between placements on one mesh.
class Mover {
 public:
  Mover(std::vector<TensorValue> parts, const DeviceMapping& from, Shape shape)
      : mesh_(from.mesh()),
        parts_(std::move(parts)),
        placements_(from.placements()),
        shape_(std::move(shape)) {}

  std::vector<TensorValue> move(const std::vector<Placement>& to) {
    // From the inside out, since inner axes cut what outer ones have cut. An axis that stays but
    // cuts a tensor axis inside of one that changes is undone and done again.
    const std::vector<bool> undo = axes_to_undo(to);
    for (int axis = mesh_.ndim() - 1; axis >= 0; --axis)
      if (undo[index(axis)]) replicate(axis);
    for (int axis = 0; axis < mesh_.ndim(); ++axis)
      if (!(placements_[index(axis)] == to[index(axis)]))
        split(axis, std::get<Sharded>(to[index(axis)]).axis);
    return std::move(parts_);
  }

 private:
  static int tensor_axis(const Placement& placement) {
    const auto* sharded = std::get_if<Sharded>(&placement);
    return sharded ? sharded->axis : -1;
  }

  std::vector<bool> axes_to_undo(const std::vector<Placement>& to) const {
    std::vector<bool> undo(placements_.size());
    std::vector<int> touched;  // tensor axes that change on mesh axes so far
    for (std::size_t axis = 0; axis < placements_.size(); ++axis) {
      const Placement& now = placements_[axis];
      const bool changes = !(now == to[axis]);
      const int cut = tensor_axis(now);
      const bool is_inner =
          cut >= 0 && std::find(touched.begin(), touched.end(), cut) != touched.end();
      undo[axis] = (changes && kind_of(now) != Kind::replicated) || is_inner;
      if (!changes && !is_inner) continue;
      if (cut >= 0) touched.push_back(cut);
      if (const int wanted = tensor_axis(to[axis]); wanted >= 0) touched.push_back(wanted);
    }
    return undo;
  }

  /// The devices that differ along `axis` alone, in its order; one list for each such line.
  std::vector<std::vector<std::size_t>> lines(int axis) const {
    std::vector<std::vector<std::size_t>> result;
    int inner = 1;
    for (int i = axis + 1; i < mesh_.ndim(); ++i) inner *= mesh_.axis_size(i);
    for (int device = 0; device < mesh_.num_devices(); ++device) {
      if (mesh_.device_coord(device, axis) != 0) continue;
      std::vector<std::size_t> line;
      for (int i = 0; i < mesh_.axis_size(axis); ++i) line.push_back(index(device + i * inner));
      result.push_back(std::move(line));
    }
    return result;
  }

  graph::DeviceRef device(std::size_t i) const { return mesh_.devices()[i]; }

  void replicate(int axis) {
    Placement& placement = placements_[index(axis)];
    for (const auto& line : lines(axis)) {
      // On one device all of them are one value.
      std::vector<std::pair<graph::DeviceRef, TensorValue>> made;
      for (const std::size_t target : line) {
        const auto known = std::find_if(made.begin(), made.end(), [&](const auto& entry) {
          return entry.first == device(target);
        });
        if (known == made.end()) made.emplace_back(device(target), joined(line, target, placement));
      }
      std::vector<TensorValue> fresh;
      for (const std::size_t target : line)
        fresh.push_back(std::find_if(made.begin(), made.end(), [&](const auto& entry) {
                          return entry.first == device(target);
                        })->second);
      for (std::size_t i = 0; i < line.size(); ++i) parts_[line[i]] = fresh[i];
    }
    placement = Replicated{};
    name_dims();
  }

  TensorValue joined(const std::vector<std::size_t>& line, std::size_t target,
                     const Placement& placement) const {
    std::vector<TensorValue> here;
    for (const std::size_t source : line)
      here.push_back(graph::ops::transfer_to(parts_[source], device(target)));
    if (const auto* sharded = std::get_if<Sharded>(&placement))
      return graph::ops::concat({here.begin(), here.end()}, sharded->axis);
    TensorValue sum = here[0];
    for (std::size_t i = 1; i < here.size(); ++i) sum = sum + here[i];
    if (std::get<Partial>(placement).reduce_op == ReduceOp::sum || here.size() == 1) return sum;
    const auto count = static_cast<std::int64_t>(here.size());
    const DType dtype = sum.dtype();
    // A move changes no dtype: means of integers are rounded down.
    return dtype.is_float() ? graph::ops::div(sum, count)
                            : graph::ops::cast(graph::ops::floor_div(sum, count), dtype);
  }

  void split(int axis, int tensor_axis) {
    const int count = mesh_.axis_size(axis);
    for (int device = 0; device < mesh_.num_devices(); ++device) {
      const int part = mesh_.device_coord(device, axis);
      TensorValue& value = parts_[index(device)];
      const Dim dim = value.shape()[index(tensor_axis)];
      // The first parts get one more where the size does not divide.
      Dim begin = 0;
      for (int i = 0; i < part; ++i) begin = begin + (dim + (count - 1 - i)).floor_div(count);
      const Dim end = begin + (dim + (count - 1 - part)).floor_div(count);
      std::vector<graph::SliceIndex> indices(index(tensor_axis), graph::all);
      indices.emplace_back(graph::slice(begin, end));
      value = graph::ops::slice_tensor(value, indices);
    }
    placements_[index(axis)] = Sharded{tensor_axis};
    name_dims();
  }

  /// Symbolic sizes that were computed get the names that the placement gives them.
  void name_dims() {
    if (Shape::is_static(shape_)) return;
    const std::vector<Shape> local = DeviceMapping(mesh_, placements_).local_shapes(shape_);
    for (std::size_t i = 0; i < parts_.size(); ++i)
      if (!(parts_[i].shape() == local[i]))
        parts_[i] = graph::ops::rebind(
            parts_[i], local[i],
            {.message = format("The part of a tensor of shape {} that device {} of {} holds has "
                               "another size than one of this name has elsewhere.",
                               shape_.to_string(), i, mesh_.to_string())});
  }

  const DeviceMesh& mesh_;
  std::vector<TensorValue> parts_;
  std::vector<Placement> placements_;
  Shape shape_;
};

[[noreturn]] void throw_infeasible(const DeviceMapping& from, const DeviceMapping& to,
                                   const std::string& reason) {
  throw ShardingError(format("{} cannot become {}: {}.", from.to_string(), to.to_string(), reason));
}

void check_moves(const DeviceMapping& from, const DeviceMapping& to,
                 const std::vector<Placement>& reached) {
  for (std::size_t axis = 0; axis < reached.size(); ++axis) {
    const Placement &now = reached[axis], &wanted = to.placements()[axis];
    if (!move_between(now, wanted, 1, 0))
      throw_infeasible(from, to,
                       format("along the mesh axis '{}' there is no way from {} to {}",
                              to.mesh().axis_names()[axis], to_string(now), to_string(wanted)));
  }
}

}  // namespace

std::vector<TensorValue> redistribute(std::vector<TensorValue> parts, const DeviceMapping& from,
                                      const DeviceMapping& to, const Shape& shape) {
  if (from == to) return parts;
  to.check_shape(shape);
  if (from.mesh() == to.mesh()) {
    check_moves(from, to, from.placements());
    return Mover(std::move(parts), from, shape).move(to.placements());
  }
  // Onto another mesh: everything is gathered, copied, and cut there.
  const DeviceMapping whole = DeviceMapping::replicated(from.mesh());
  const DeviceMapping copies = DeviceMapping::replicated(to.mesh());
  check_moves(from, whole, from.placements());
  check_moves(from, to, copies.placements());
  parts = Mover(std::move(parts), from, shape).move(whole.placements());
  std::vector<TensorValue> copied;
  for (const driver::Device& device : to.mesh().devices()) {
    const auto& sources = from.mesh().devices();
    const auto own = std::find(sources.begin(), sources.end(), device);
    const std::size_t source =
        own == sources.end() ? 0 : static_cast<std::size_t>(own - sources.begin());
    copied.push_back(graph::ops::transfer_to(parts[source], device));
  }
  return Mover(std::move(copied), copies, shape).move(to.placements());
}

}  // namespace detail
}  // namespace kiln::experimental
