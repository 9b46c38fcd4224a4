#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "kiln/graph/module.h"
#include "kiln/graph/slice_index.h"
#include "kiln/graph/value.h"
#include "kiln/support/ref.h"

namespace kiln::graph {

class Weight;

/// What happens when an op that runs on the CPU only gets inputs of an accelerator: it moves them
/// to the CPU and its results back, silently or with a warning, or refuses.
enum class DevicePlacementPolicy : std::uint8_t { Ignore, Warn, Error };
std::string_view to_string(DevicePlacementPolicy policy);

/// Options of `Graph`.
struct GraphOptions {
  /// Tensor, buffer and opaque types. Algebraic dims: ValueError.
  std::vector<Type> input_types = {};
  /// Paths of kernel libraries, kernel sources or folders of sources.
  std::vector<std::string> custom_extensions = {};
  /// A module to share with other graphs; else one of its own.
  std::optional<Module> module = std::nullopt;
  DevicePlacementPolicy strict_device_placement = DevicePlacementPolicy::Warn;
  /// Asserts, when compiled, that everything can be captured on one accelerator.
  bool is_device_graph = false;
};

/// Options of `Graph::add_subgraph`.
struct SubgraphOptions {
  std::vector<Type> input_types = {};
  std::vector<std::string> custom_extensions = {};
  /// Accelerators whose chains the callee takes and gives back.
  std::vector<DeviceRef> devices = {};
};

/// Options of `Graph::add_weight`.
struct AddWeightOptions {
  /// Declares the constant on the host and transfers it; false: declares it on the weight's device.
  bool force_initial_weight_on_host = true;
};

/// A computation that is described before any data exists. A handle: copies name the same graph.
/// One thread builds a graph; different graphs may be built in different threads.
class Graph {
 public:
  explicit Graph(std::string name, GraphOptions options = {});
  /// The first graph of a file of IR text. Malformed text: ValueError with line and column; no such
  /// file: FileNotFoundError.
  static Graph load(const std::string& path);
  /// The first graph of IR text.
  static Graph parse(std::string_view text, std::string_view file_name = "<text>");
  /// A graph whose output is what `forward` returns when called with the inputs, as a
  /// `const std::vector<Value>&`, inside the graph: nothing, a value, or a vector of values.
  template <typename Forward>
  static Graph build(std::string name, GraphOptions options, Forward&& forward) {
    Graph graph(std::move(name), std::move(options));
    graph.fill(forward);
    return graph;
  }

  /// Makes a graph the current one of this thread until it is destroyed; scopes nest.
  class Scope {
   public:
    explicit Scope(const Graph& graph);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    std::shared_ptr<detail::GraphState> state_;
  };
  /// Another thread builds this graph: RuntimeError.
  [[nodiscard]] Scope enter() const { return Scope(*this); }
  /// The innermost active graph of this thread. None: LookupError.
  static Graph current();
  static bool has_current() noexcept;

  const std::string& name() const;
  Module module() const;
  /// In the order of the input types, without chains.
  std::vector<Value> inputs() const;
  /// Sets the results, which must be tensors of this graph, and verifies the graph. A second call:
  /// ValueError; a buffer: TypeError. Tensors convert, so `g.output({x, y})` does.
  void output(std::initializer_list<TensorValueLike> values = {},
              Location location = Location::current()) const;
  void output(const std::vector<TensorValueLike>& values,
              Location location = Location::current()) const;
  void output(const TensorValueLike& value) const;
  /// As `output`, of values of any type; opaque ones too.
  void output_values(const std::vector<Value>& values,
                     Location location = Location::current()) const;
  bool has_output() const;
  /// Types of the results. Before `output`: TypeError.
  std::vector<Type> output_types() const;

  /// A callee in the same module, see `ops::call`. A name used before in this graph: ValueError.
  Graph add_subgraph(std::string name, SubgraphOptions options = {}) const;
  template <typename Forward>
  Graph add_subgraph(std::string name, SubgraphOptions options, Forward&& forward) const {
    Graph graph = add_subgraph(std::move(name), std::move(options));
    graph.fill(forward);
    return graph;
  }
  bool is_subgraph() const;

  /// The value of the weight in this graph; a second use gives the same value. Another weight of
  /// the same name: ValueError.
  TensorValue add_weight(const Weight& weight, const AddWeightOptions& options = {}) const;

  /// A deep copy in a module of its own.
  Graph copy() const;
  /// The IR text of a module that holds this graph and the subgraphs it calls.
  std::string to_string() const { return to_text({}); }
  std::string to_text(const ir::TextOptions& options = {}) const;

  /// The last side effect on `device` so far; made on first use.
  Value device_chain(DeviceRef device) const;
  /// A chain that every graph starts with; what hangs off it may run at any time.
  Value always_ready_chain() const;
  std::vector<std::string> kernel_libraries_paths() const;
  DevicePlacementPolicy strict_device_placement() const;

  /// What the compiler reads.
  const ir::Graph& ir() const;
  /// A module with deep copies of this graph and of the graphs it calls.
  std::unique_ptr<ir::Module> extract() const;

  friend bool operator==(const Graph&, const Graph&) = default;

  explicit Graph(std::shared_ptr<detail::GraphState> state) : state_(std::move(state)) {}
  const std::shared_ptr<detail::GraphState>& state() const { return state_.checked(); }

 private:
  template <typename Forward>
  void fill(Forward&& forward) {
    Scope scope(*this);
    using Result = std::invoke_result_t<Forward&, const std::vector<Value>&>;
    if constexpr (std::is_void_v<Result>) {
      forward(inputs());
      output_values({});
    } else if constexpr (std::is_convertible_v<Result, Value>) {
      output_values({forward(inputs())});
    } else {
      auto results = forward(inputs());
      output_values(std::vector<Value>(results.begin(), results.end()));
    }
  }

  Shared<detail::GraphState> state_;
};

}  // namespace kiln::graph
