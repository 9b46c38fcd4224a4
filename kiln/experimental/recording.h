#pragma once

// How tensors compute: what runs over them is recorded into a graph, and the part of it that is
// asked for becomes a program. Internal to kiln/experimental and its binding.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "kiln/driver/buffer.h"
#include "kiln/driver/storage.h"
#include "kiln/engine/model.h"
#include "kiln/experimental/tensor.h"
#include "kiln/graph/graph.h"

namespace kiln::experimental {

class Recording;

namespace detail {

struct TensorState;
using StatePtr = std::shared_ptr<TensorState>;

/// A tensor that is spread over a mesh: what each device holds, in mesh order.
struct Placed {
  DeviceMapping mapping;
  graph::Shape shape;  // of the whole
  std::vector<StatePtr> shards;
  std::uint64_t mapping_id = 0;  // equal mappings have equal ones
};
/// A number for each mapping that was seen.
std::uint64_t id_of(const DeviceMapping& mapping);

/// What a Tensor names. Spread over a mesh: `placed`. Real: `buffer`; else `value`, of `recording`
/// or of a user's graph.
struct TensorState : std::enable_shared_from_this<TensorState> {
  std::shared_ptr<const Placed> placed;
  driver::Buffer buffer;
  graph::Value value;
  std::shared_ptr<Recording> recording;
  std::string external_name;
  /// Of an argument of a staged function that the function must not write: where it stands.
  std::string argument;
  /// Delayed recordings that read what the memory holds now.
  std::vector<std::weak_ptr<Recording>> readers;

  bool real() const {
    if (!placed) return static_cast<bool>(buffer);
    return std::all_of(placed->shards.begin(), placed->shards.end(),
                       [](const StatePtr& shard) { return shard->real(); });
  }
};

/// The states that hold elements: those of the shards, or the tensor's own.
std::span<const StatePtr> parts_of(const StatePtr& tensor);

/// A tensor of these shards, which are those of the mapping.
Tensor placed(std::vector<StatePtr> shards, DeviceMapping mapping, graph::Shape shape,
              std::uint64_t mapping_id = 0);
/// `target[indices] = source` where one of the two is spread over a mesh.
void store_spread(const Tensor& target, const std::vector<graph::SliceIndex>& indices,
                  const Tensor& source);

/// Before the memory of a tensor is written: copies it for delayed recordings other than `writer`.
void keep_for_readers(TensorState& tensor, const Recording* writer = nullptr);

}  // namespace detail

/// A graph that is recorded, and where its inputs come from.
class Recording : public std::enable_shared_from_this<Recording> {
 public:
  /// Where an input of the graph comes from: a tensor, or a number.
  struct Source {
    graph::Value value;       // the input
    detail::StatePtr tensor;  // null: a number
    driver::Buffer buffer;
    Scalar number;
    DType dtype = DType::bool_;
    std::size_t argument = 0;  // which number of the call it is
    bool baked = false;        // it became a constant
  };
  /// A program that was run for some results.
  struct Run {
    std::shared_ptr<const engine::Model> model;  // null: nothing had to be computed
    bool interpreted = false;                    // or its ops ran one by one
    std::vector<std::size_t> inputs;             // numbers of sources
  };

  /// With `delayed`, tensors may be written before the parts of the graph that read them run.
  explicit Recording(const std::string& name, bool delayed = false)
      : graph_(name), delayed_(delayed) {}
  /// The recording whose graph is the current one of this thread, or null.
  static Recording* current() noexcept;

  const graph::Graph& graph() const { return graph_; }
  bool is_delayed() const { return delayed_; }
  /// Makes it a delayed one, when nothing of it has effects; else false.
  bool delay();
  const std::vector<Source>& sources() const { return sources_; }

  /// The input for a real tensor: a tensor, or a buffer once it was written.
  graph::Value input(const detail::StatePtr& tensor);
  /// The same as a buffer.
  graph::BufferValue buffer(const detail::StatePtr& tensor);
  /// An input for a number, which `dtype` holds; `argument` tells it from others of its call.
  graph::TensorValue number(const Scalar& number, std::size_t argument, DType dtype,
                            graph::DeviceRef device);
  /// The tensor that a value of the graph is; an input gives the tensor it comes from.
  Tensor wrap(const graph::Value& value);
  /// A tensor of its own that is a value of the graph.
  Tensor wrap_own(const graph::Value& value);
  /// Runs what `results` need, with `effects` also all side effects, and makes them real.
  Run realize(std::span<const detail::StatePtr> results, bool effects);

  /// Reads the present contents of `tensor` from a copy of its own from now on.
  void keep_contents(const detail::TensorState& tensor);

  /// Makes a recording the current one of this thread.
  class Scope {
   public:
    explicit Scope(std::shared_ptr<Recording> recording);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    graph::Graph::Scope graph_;
    std::shared_ptr<Recording> recording_;
  };

 private:
  /// Notes that the recording reads what a tensor holds now.
  void read(detail::TensorState& tensor);
  /// Numbers that an op other than plain arithmetic takes become constants.
  void bake_numbers();

  graph::Graph graph_;
  bool delayed_;
  std::vector<Source> sources_;  // as the inputs of the graph
  std::unordered_map<const detail::TensorState*, std::size_t> known_;
};

/// Puts a copy in the place of each buffer that shares memory with one that a program writes.
/// `is_written(i)` tells which those are.
template <typename IsWritten>
void separate(std::span<driver::Buffer> inputs, const IsWritten& is_written) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!is_written(i)) continue;
    for (std::size_t other = 0; other < inputs.size(); ++other)
      if (other != i && !is_written(other) &&
          inputs[other].byte_range().meets(inputs[i].byte_range()))
        inputs[other] = inputs[other].copy();
  }
}

/// Whether this thread builds a graph that nobody will run here: one of `stage` or of the user.
bool in_graph_context() noexcept;

}  // namespace kiln::experimental
