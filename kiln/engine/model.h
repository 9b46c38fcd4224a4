#pragma once

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

struct ModelState;

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

  explicit Model(std::shared_ptr<ModelState> state) : state_(std::move(state)) {}

 private:
  Shared<ModelState> state_;
};

}  // namespace kiln::engine
