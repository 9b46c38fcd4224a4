#pragma once

// Compiled functions over tensors.

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "kiln/engine/compiled_model.h"
#include "kiln/engine/inference_session.h"
#include "kiln/engine/model.h"
#include "kiln/experimental/tensor.h"
#include "kiln/experimental/tensor_layout.h"
#include "kiln/experimental/tree.h"
#include "kiln/graph/graph.h"
#include "kiln/support/ref.h"

namespace kiln::experimental {

struct StageOptions {
  /// Of the graph.
  std::string name = "fn";
  /// Paths of kernel libraries, kernel sources or folders of sources.
  std::vector<std::string> custom_extensions = {};
  /// Whether functions that `as_subgraph` has wrapped become subgraphs.
  bool allow_subgraphs = true;
  /// Asserts, when compiled, that everything can be captured on one accelerator.
  bool is_device_graph = false;
};

struct CompileOptions {
  std::string name = "fn";
  std::vector<std::string> custom_extensions = {};
  bool allow_subgraphs = true;
  bool is_device_graph = false;
  /// The data of each weight that the graph declares, by its name.
  engine::WeightsRegistry weights = {};
  /// Compiles and initialises; by default one that the whole process shares. Used during the call.
  const engine::InferenceSession* session = nullptr;
};

namespace detail {

/// A function of known parameters; modules are none.
template <typename F>
concept Function = std::is_function_v<std::remove_pointer_t<F>> || requires { &F::operator(); };

template <typename F>
struct Signature : Signature<decltype(&F::operator())> {};
template <typename R, typename... Args>
struct Signature<R (*)(Args...)> {
  using Result = std::remove_cvref_t<R>;
  using Arguments = std::tuple<std::remove_cvref_t<Args>...>;
};
template <typename C, typename R, typename... Args>
struct Signature<R (C::*)(Args...) const> : Signature<R (*)(Args...)> {};
template <typename C, typename R, typename... Args>
struct Signature<R (C::*)(Args...)> : Signature<R (*)(Args...)> {};
template <typename R, typename... Args>
struct Signature<R (&)(Args...)> : Signature<R (*)(Args...)> {};
template <typename R, typename... Args>
struct Signature<R(Args...)> : Signature<R (*)(Args...)> {};

/// The call operator of a function of these arguments.
template <typename Self, typename R, typename Arguments>
struct CallOperator;
template <typename Self, typename R, typename... Args>
struct CallOperator<Self, R, std::tuple<Args...>> {
  R operator()(const Args&... arguments) const {
    return static_cast<const Self&>(*this).run(std::tuple<Args...>(arguments...));
  }
};

/// Where a tensor argument stands and what it must be.
struct Argument {
  std::string route;
  Layout layout;
};

/// The subgraphs of a graph that is being staged on this thread.
struct SubgraphTrace {
  explicit SubgraphTrace(graph::Graph whole) : graph(std::move(whole)), names{graph.name()} {}
  /// That of the graph which is the current one, or null.
  static SubgraphTrace* current() noexcept;

  graph::Graph graph;
  std::set<std::string> names;
  /// Bodies by their keys, of the type that the one who made them knows.
  std::map<std::string, std::vector<std::shared_ptr<const void>>> bodies;
};

/// The graph that a function is recorded into.
class StageScope {
 public:
  StageScope(const StageOptions& options, std::vector<Argument> arguments);
  ~StageScope();
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;

  /// The tensors of the arguments, which writes refuse where the layout is not a buffer's.
  const std::vector<Tensor>& inputs() const { return inputs_; }
  /// Ends the graph; returns the layouts of the results.
  std::vector<Layout> finish(const std::vector<Tensor>& results);
  const graph::Graph& graph() const { return graph_; }

 private:
  graph::Graph graph_;
  graph::Graph::Scope scope_;
  SubgraphTrace trace_;
  SubgraphTrace* outer_;
  std::vector<Tensor> inputs_;
};

/// Parts of split sizes have names, which must be of the same parts in all arguments: else
/// ValueError.
void check_part_names(const std::vector<Argument>& arguments);

/// The memory of the arguments of one call, that of each shard.
class CallInputs {
 public:
  explicit CallInputs(const std::vector<Argument>& arguments);
  /// The next argument. Another dtype, shape, device or placement than the layout's: ValueError.
  void add(const Tensor& tensor);
  /// Once all are there. Different sizes of one symbol of distributed arguments: ValueError.
  std::span<const driver::Buffer> finish();

 private:
  const std::vector<Argument>& arguments_;
  std::vector<driver::Buffer> buffers_;
  /// When some are distributed, of which the model knows the sizes of parts alone.
  std::vector<graph::Shape> shapes_;
  std::size_t next_ = 0;
  bool is_distributed_ = false;
};

/// The results of a run as tensors of these layouts.
std::vector<Tensor> results_of(engine::Model::Outputs outputs, const std::vector<Layout>& layouts);
/// Runs the model; its errors name the routes of arguments.
engine::Model::Outputs execute(const engine::Model& model, std::span<const driver::Buffer> inputs,
                               const std::vector<Argument>& arguments);
[[noreturn]] void throw_mismatch(const std::string& path, const std::string& expected,
                                 const std::string& got);

template <typename T>
std::string text_of(const T& value) {
  if constexpr (std::is_same_v<T, bool>)
    return value ? "true" : "false";
  else if constexpr (std::is_arithmetic_v<T>)
    return graph::ops::Literal(value).to_string();
  else if constexpr (std::is_convertible_v<T, std::string>)
    return "\"" + std::string(value) + "\"";
  else
    return "another value";
}

/// Checks that sizes and keys of two nodes are equal.
template <typename A, typename B>
void check_size(const A& staged, const B& given, const std::string& path) {
  const auto keys = [](const auto& node) {
    std::string text = "keys [";
    if constexpr (tree::is_map<std::remove_cvref_t<decltype(node)>>) {
      for (const auto& [key, child] : node) text += (text.size() > 6 ? ", " : "") + text_of(key);
    } else if constexpr (tree::is_vector<std::remove_cvref_t<decltype(node)>>) {
      for (std::size_t i = 0; i < node.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(i);
    } else {
      return std::string(node ? "a value" : "nothing");
    }
    return text + "]";
  };
  if (const std::string expected = keys(staged), got = keys(given); expected != got)
    throw_mismatch(path, expected, got);
}

/// Reads a static value's leaf positions of a tree of tensors.
template <typename T>
std::vector<Tensor> tensors_of(const T& value) {
  std::vector<Tensor> tensors;
  tree::walk<Tensor>(
      value, "", [&](const Tensor& tensor, const std::string&) { tensors.push_back(tensor); },
      [](const auto&, const std::string&) {});
  return tensors;
}

/// Puts tensors at the leaves of a tree.
template <typename T>
void put_tensors(T& value, const std::vector<Tensor>& tensors) {
  std::size_t next = 0;
  tree::walk<Tensor>(
      value, "", [&](Tensor& tensor, const std::string&) { tensor = tensors[next++]; },
      [](const auto&, const std::string&) {});
}

template <typename Arguments>
std::vector<Argument> arguments_of(const Arguments& layouts) {
  std::vector<Argument> arguments;
  tree::walk<Layout>(
      layouts, "",
      [&](const Layout& layout, const std::string& path) { arguments.push_back({path, layout}); },
      [](const auto&, const std::string&) {});
  return arguments;
}

/// What a function whose parameters are `Arguments` is staged with.
template <typename Arguments>
using LayoutsOf = tree::rebind<Arguments, Tensor, Layout>;

}  // namespace detail

/// A function over tensors that was recorded as a graph for arguments of certain layouts.
template <typename F>
struct StagedGraph {
  using Arguments = typename detail::Signature<F>::Arguments;
  using Result = typename detail::Signature<F>::Result;

  graph::Graph graph;
  /// What it was staged with, static values included.
  detail::LayoutsOf<Arguments> in_tree;
  /// The layout of each tensor argument and result, in graph order.
  std::vector<Layout> in_layouts, out_layouts;
  /// The result as it was staged: static values, and tensors whose graph is this one.
  Result out_tree;

  /// The IR text of the module, subgraphs included.
  std::string to_string() const { return graph.module().to_string(); }
};

template <typename F = void>
class CompiledCallable;

/// A compiled function: called as the function is, with a tensor for each layout and every other
/// argument as it was staged. A small value; copies share the model.
template <typename F>
class CompiledCallable
    : public detail::CallOperator<CompiledCallable<F>, typename StagedGraph<F>::Result,
                                  typename StagedGraph<F>::Arguments> {
 public:
  using Arguments = typename StagedGraph<F>::Arguments;
  using Result = typename StagedGraph<F>::Result;

  CompiledCallable(StagedGraph<F> staged, engine::WeightsRegistry weights = {},
                   const engine::InferenceSession* session = nullptr);

  /// Checks the arguments, runs the graph and rebuilds the result; `run(x, y)` is short for it.
  /// Static values and sizes other than the staged ones, and tensors that do not fit: ValueError,
  /// with the place of the argument.
  Result run(const Arguments& arguments) const;
  /// As the model runs: one buffer for each input, without checks of arguments.
  std::vector<driver::Buffer> execute_raw(std::span<const driver::Buffer> inputs) const {
    return engine_model().execute(inputs);
  }
  /// Writes the compiled graph to a MEF, on request with the weights.
  void export_mef(const std::string& path, bool include_weights = false) const {
    include_weights ? state_->artifact.export_mef(path, state_->weights)
                    : state_->artifact.export_mef(path);
  }
  const engine::Model& engine_model() const { return state_->model; }
  /// For collectives over several accelerators; none on one device.
  std::vector<driver::Buffer> signal_buffers() const { return {}; }
  const engine::WeightsRegistry& weights() const { return state_->weights; }
  const std::vector<Layout>& in_layouts() const { return state_->staged.in_layouts; }
  const std::vector<Layout>& out_layouts() const { return state_->staged.out_layouts; }
  /// The same function with types that are known when it runs; see erased_callable.h. A static
  /// value of a class of its own: TypeError.
  CompiledCallable<void> erased() const;

 private:
  struct State {
    StagedGraph<F> staged;
    std::vector<detail::Argument> arguments;
    engine::WeightsRegistry weights;
    engine::CompiledModel artifact;
    engine::Model model;
  };
  Shared<const State> state_;
};

namespace detail {

/// What `stage` returns.
template <typename F>
class Stager : public CallOperator<Stager<F>, StagedGraph<F>,
                                   LayoutsOf<typename StagedGraph<F>::Arguments>> {
 public:
  using Arguments = typename StagedGraph<F>::Arguments;

  Stager(F fn, StageOptions options) : fn_(std::move(fn)), options_(std::move(options)) {}

  StagedGraph<F> run(const LayoutsOf<Arguments>& layouts) const {
    std::vector<Argument> declared = arguments_of(layouts);
    std::vector<Layout> in_layouts;
    for (const Argument& argument : declared) in_layouts.push_back(argument.layout);
    StageScope scope(options_, std::move(declared));
    Arguments arguments;
    tree::take_shape<Layout>(layouts, arguments);
    put_tensors(arguments, scope.inputs());
    typename StagedGraph<F>::Result result = std::apply(fn_, std::move(arguments));
    std::vector<Layout> out_layouts = scope.finish(tensors_of(result));
    return {scope.graph(), layouts, std::move(in_layouts), std::move(out_layouts),
            std::move(result)};
  }

 private:
  F fn_;
  StageOptions options_;
};

/// What `compile` returns.
template <typename F>
class Compiler : public CallOperator<Compiler<F>, CompiledCallable<F>,
                                     LayoutsOf<typename StagedGraph<F>::Arguments>> {
 public:
  Compiler(F fn, CompileOptions options)
      : stager_(std::move(fn), {.name = options.name,
                                .custom_extensions = options.custom_extensions,
                                .allow_subgraphs = options.allow_subgraphs,
                                .is_device_graph = options.is_device_graph}),
        options_(std::move(options)) {}

  CompiledCallable<F> run(const LayoutsOf<typename StagedGraph<F>::Arguments>& layouts) const {
    return {stager_.run(layouts), options_.weights, options_.session};
  }

 private:
  Stager<F> stager_;
  CompileOptions options_;
};

}  // namespace detail

/// Records `fn` as a graph: returns a function that takes the layouts of its tensor arguments,
/// nested as the arguments are, and every other argument as the value that becomes a part of the
/// graph. `fn` has parameters of known types; a Tensor is declared by a TensorLayout or
/// BufferLayout, `Node<Tensor>` by `Node<Layout>`.
template <detail::Function F>
detail::Stager<F> stage(F fn, StageOptions options = {}) {
  return {std::move(fn), std::move(options)};
}

/// As `stage`, and makes a CompiledCallable of the graph.
template <detail::Function F>
detail::Compiler<F> compile(F fn, CompileOptions options = {}) {
  return {std::move(fn), std::move(options)};
}

namespace detail {
std::pair<engine::CompiledModel, engine::Model> compile_staged(
    const graph::Graph& graph, const engine::WeightsRegistry& weights,
    const engine::InferenceSession* session);
}

template <typename F>
CompiledCallable<F>::CompiledCallable(StagedGraph<F> staged, engine::WeightsRegistry weights,
                                      const engine::InferenceSession* session) {
  auto [artifact, model] = detail::compile_staged(staged.graph, weights, session);
  std::vector<detail::Argument> arguments = detail::arguments_of(staged.in_tree);
  state_ = std::make_shared<const State>(State{std::move(staged), std::move(arguments),
                                               std::move(weights), std::move(artifact),
                                               std::move(model)});
}

template <typename F>
auto CompiledCallable<F>::run(const Arguments& arguments) const -> Result {
  detail::CallInputs inputs(state_->arguments);
  tree::zip<Layout>(
      state_->staged.in_tree, arguments, "",
      [&](const Layout&, const Tensor& tensor, const std::string&) { inputs.add(tensor); },
      [](const auto& staged, const auto& given, const std::string& path) {
        if (!(staged == given))
          detail::throw_mismatch(path, detail::text_of(staged), detail::text_of(given));
      },
      [](const auto& staged, const auto& given, const std::string& path) {
        detail::check_size(staged, given, path);
      });
  engine::Model::Outputs outputs =
      detail::execute(state_->model, inputs.finish(), state_->arguments);
  Result result = state_->staged.out_tree;
  detail::put_tensors(result, detail::results_of(std::move(outputs), out_layouts()));
  return result;
}

}  // namespace kiln::experimental
