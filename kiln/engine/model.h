#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kiln/driver/buffer.h"
#include "kiln/driver/device.h"
#include "kiln/engine/tensor_spec.h"
#include "kiln/engine/weights_registry.h"
#include "kiln/runtime/outputs.h"
#include "kiln/support/ref.h"

namespace kiln::engine {

class CompiledModel;
struct ModelState;

/// What recorded executions are found by: one key for all devices, or one for each.
class GraphKeys {
 public:
  GraphKeys(std::uint64_t key) : one_(key) {}                                             // NOLINT
  GraphKeys(std::vector<std::uint64_t> keys) : is_one_(false), many_(std::move(keys)) {}  // NOLINT
  std::span<const std::uint64_t> span() const {
    return is_one_ ? std::span(&one_, 1) : std::span(many_);
  }

 private:
  bool is_one_ = true;
  std::uint64_t one_ = 0;
  std::vector<std::uint64_t> many_;
};

/// A compiled graph with its weights, ready to run. A small value; copies name the same model. It
/// outlives the session and the compiled model that it came from. Safe from any thread: calls run
/// in parallel, except those of a model that writes its inputs, which follow each other.
class Model {
 public:
  /// The results of a call; converts to a vector.
  using Outputs = runtime::Outputs;

  /// Runs the graph on one buffer per input, in order, and returns one buffer per result. CPU work
  /// is complete on return. ValueError and TypeError for inputs that do not fit, before anything
  /// runs; errors of the graph's ops at run time as they say.
  Outputs execute(std::span<const driver::Buffer> inputs) const;
  Outputs execute(std::initializer_list<driver::Buffer> inputs) const {
    return execute(std::span<const driver::Buffer>(inputs.begin(), inputs.size()));
  }
  /// As `execute`, but false, and nothing done, when the call does not fit or would have to wait.
  bool try_execute(std::span<const driver::Buffer> inputs, Outputs& outputs) const;
  /// Binds inputs by name; unknown, missing and doubled names: TypeError.
  using NamedInput = std::pair<std::string_view, driver::Buffer>;
  template <typename = void>  // so that `execute({})` means no buffers
  Outputs execute(std::initializer_list<NamedInput> inputs) const {
    return execute_named(std::span<const NamedInput>(inputs.begin(), inputs.size()));
  }
  Outputs execute_named(std::span<const NamedInput> inputs) const;
  /// `execute` of the arguments.
  template <typename... Buffers>
  Outputs operator()(const Buffers&... inputs) const {
    if constexpr (sizeof...(inputs) == 0) {
      return execute(std::span<const driver::Buffer>());
    } else {
      const driver::Buffer list[] = {inputs...};
      return execute(std::span<const driver::Buffer>(list));
    }
  }

  // Recorded executions: `capture` runs the graph and keeps the memory of results and of what is
  // between, so that `replay` checks, solves and allocates nothing.

  /// Executes, and records the execution under keys: one serves all devices, several are one for
  /// each. Returns the buffers that replays will write. No inputs, no keys: ValueError. A key that
  /// is in use, and an op whose result's size depends on data: RuntimeError, and nothing is kept.
  std::vector<driver::Buffer> capture(const GraphKeys& keys,
                                      std::span<const driver::Buffer> inputs) const;
  std::vector<driver::Buffer> capture(const GraphKeys& keys,
                                      std::initializer_list<driver::Buffer> inputs) const {
    return capture(keys, std::span<const driver::Buffer>(inputs.begin(), inputs.size()));
  }
  /// Runs again on the captured memory with what the inputs hold now, which must be the captured
  /// buffers; other ones, and a key that is not known: RuntimeError.
  void replay(const GraphKeys& keys, std::span<const driver::Buffer> inputs) const;
  void replay(const GraphKeys& keys, std::initializer_list<driver::Buffer> inputs) const {
    replay(keys, std::span<const driver::Buffer>(inputs.begin(), inputs.size()));
  }
  /// As `replay`, but false, and nothing done, when it would have to wait.
  bool try_replay(const GraphKeys& keys, std::span<const driver::Buffer> inputs) const;
  /// Executes on these inputs, of any memory, and compares the launches with the recorded ones: a
  /// difference is a RuntimeError that names the first.
  void debug_verify_replay(const GraphKeys& keys, std::span<const driver::Buffer> inputs) const;
  void debug_verify_replay(const GraphKeys& keys,
                           std::initializer_list<driver::Buffer> inputs) const {
    debug_verify_replay(keys, std::span<const driver::Buffer>(inputs.begin(), inputs.size()));
  }
  /// Forgets recorded executions. Memory goes once replays under way end and results are dropped.
  void release_captured_graph(const GraphKeys& keys) const;

  /// The graph's name.
  const std::string& name() const;
  const std::vector<TensorSpec>& input_metadata() const;
  const std::vector<TensorSpec>& output_metadata() const;
  /// The devices it uses: the host first, then accelerators; and those of each input and output.
  std::vector<driver::Device> devices() const;
  std::vector<driver::Device> input_devices() const;
  std::vector<driver::Device> output_devices() const;
  /// Whether input `index` is a buffer that the graph may write.
  bool is_buffer_input(std::size_t index) const;
  /// One string per compiled kernel, such as "Epilogue(matmul, relu)".
  std::vector<std::string> kernel_summaries() const;
  /// "Model(inputs=[…])".
  std::string repr() const;

  /// Binds all weights anew by the rules of `InferenceSession::init`. Calls under way keep the old
  /// ones.
  void reload(const WeightsRegistry& registry) const;

  /// Whether it runs the code of this artifact.
  bool is_made_from(const CompiledModel& compiled) const;

  explicit Model(std::shared_ptr<ModelState> state) : state_(std::move(state)) {}

 private:
  Shared<ModelState> state_;
};

}  // namespace kiln::engine
