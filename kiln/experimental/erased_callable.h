#pragma once

// Compiled functions whose types are known when a program runs.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kiln/experimental/compilation.h"
#include "kiln/experimental/tree_value.h"

namespace kiln::experimental {

/// A compiled function of any types; `erased` of a typed one makes it, and bytes keep it. Arguments
/// are one list, with a tensor for each layout of `in_tree`.
template <>
class CompiledCallable<void> {
 public:
  using Value = tree::Value<Tensor>;
  using Signature = tree::Value<Layout>;

  /// `model` is of the only graph of `artifact`; without one it is a description that cannot run.
  /// Layouts that do not fit the graph's inputs and outputs: ValueError.
  CompiledCallable(engine::CompiledModel artifact, std::optional<engine::Model> model,
                   Signature in_tree, Signature out_tree, engine::WeightsRegistry weights = {});

  /// Checks the arguments, runs the graph and rebuilds the result. Another structure or static
  /// value, and tensors that do not fit: ValueError, with the place of the argument. Without a
  /// model: RuntimeError.
  Value run(const Value& arguments) const;
  Value operator()(const Value& arguments) const { return run(arguments); }
  std::vector<driver::Buffer> execute_raw(std::span<const driver::Buffer> inputs) const {
    return engine_model().execute(inputs);
  }
  void export_mef(const std::string& path, bool include_weights = false) const;
  /// None: RuntimeError.
  const engine::Model& engine_model() const;
  const engine::CompiledModel& artifact() const;
  const engine::WeightsRegistry& weights() const;
  const Signature& in_tree() const;
  const Signature& out_tree() const;
  std::vector<Layout> in_layouts() const;
  std::vector<Layout> out_layouts() const;

  /// The artifact, layouts and trees; neither weights nor model.
  std::vector<std::byte> to_bytes() const;
  /// A description made of such bytes, which may come from anywhere: ValueError when they are none.
  /// To run it, initialise its artifact and make another one with the model.
  static CompiledCallable from_bytes(std::span<const std::byte> bytes);

 private:
  struct State;
  Shared<const State> state_;
};

template <typename F>
CompiledCallable<void> CompiledCallable<F>::erased() const {
  const std::vector<Layout>& layouts = state_->staged.out_layouts;
  std::size_t next = 0;
  return {state_->artifact, state_->model, tree::to_value<Layout>(state_->staged.in_tree),
          tree::map_leaves<Layout>(tree::to_value<Tensor>(state_->staged.out_tree),
                                   [&](const Tensor&) { return layouts[next++]; }),
          state_->weights};
}

}  // namespace kiln::experimental
