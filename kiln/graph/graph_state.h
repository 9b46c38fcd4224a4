#pragma once

// What the handles of graphs, modules and weights point to. Internal to kiln/graph.

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "kiln/graph/graph.h"
#include "kiln/graph/ir.h"
#include "kiln/graph/sharding.h"
#include "kiln/graph/weight.h"

namespace kiln::graph::detail {

struct ModuleState {
  ir::Module ir;
};

struct WeightState {
  std::string name;
  DType dtype = DType::float32;
  graph::Shape shape;
  DeviceRef device;
  std::int64_t align = 1;
  std::optional<QuantizationEncoding> encoding;
  std::optional<ShardingStrategy> strategy;
  DType original_dtype = DType::float32;
  graph::Shape original_shape;
  // Of a shard: the weight it is cut from, and which part it is.
  std::shared_ptr<WeightState> whole;
  int part = 0;

  TensorType type() const { return TensorType(dtype, shape, device); }
};

/// What random ops of a graph draw from: a seed, and how often they have.
struct RandomSeed {
  std::optional<std::uint64_t> number;
  ir::Value* value = nullptr;  // uint64 [1], when it is no number
  std::uint64_t draws = 0;

  bool is_set() const { return number || value; }
};

struct GraphState : std::enable_shared_from_this<GraphState> {
  std::shared_ptr<ModuleState> module;
  ir::Graph* graph = nullptr;      // in `module`
  std::string name;                // as the user gave it
  std::vector<ir::Block*> blocks;  // the body and the regions being filled, innermost last
  std::vector<ir::Value*> inputs;  // no handles: those keep the graph
  DevicePlacementPolicy placement = DevicePlacementPolicy::Warn;
  std::vector<std::string> kernel_libraries;
  std::map<std::string, std::string> subgraphs;  // user's name -> name in the module

  // Chains: the last side effect of each device.
  std::map<DeviceRef, ir::Value*> chains;
  ir::Value* always_ready = nullptr;
  std::vector<DeviceRef> chain_devices;  // of a subgraph: the order of its hidden inputs

  struct KnownWeight {
    std::shared_ptr<WeightState> state;
    ir::Value* value = nullptr;
  };
  std::map<std::string, KnownWeight> weights;
  std::size_t weights_end = 0;  // ops of the body before this index are chains and weights

  /// Symbols that inputs, ops so far whose block is open, or for a subgraph the caller have
  /// defined.
  std::set<std::string> symbols;
  std::set<std::string> given_symbols;  // those of inputs and of the caller

  /// What holds values while an op with regions is put together: a region that no op has yet, its
  /// results, and chains that are set aside.
  struct Loose {
    ir::Block* block = nullptr;
    std::map<DeviceRef, ir::Value*>* chains = nullptr;
    std::vector<ir::Value*>* results = nullptr;
  };
  std::vector<Loose> loose;
  /// Inputs that became buffers, and what reads them as they were at first.
  std::map<const ir::Value*, ir::Value*> first_loads;
  ir::Value* loads_done = nullptr;  // the chain behind the last of these loads

  /// Regions that no op got because of an error; users may hold handles of their values.
  std::vector<std::unique_ptr<ir::Block>> abandoned;

  /// One a block of `blocks`, at most; the innermost that is set counts.
  std::vector<RandomSeed> seeds;
  /// Of a subgraph: the hidden last input, the seed that each call passes, once an op draws from
  /// it, and how many do.
  ir::Value* caller_seed = nullptr;
  std::uint64_t caller_draws = 0;
  /// Constants that hold the elements of objects outside of the graph, which may be gone.
  struct Held {
    std::weak_ptr<const void> owner;
    ir::Value* value = nullptr;
  };
  std::map<const void*, Held> held;

  int loops = 0;  // while loops around the current block
  std::atomic<std::thread::id> owner{};
  int depth = 0;  // how often `owner` has entered it

  ir::Block& block() const { return *blocks.back(); }
  Value handle(ir::Value* value) { return Value(shared_from_this(), value); }
  /// The chain of a device, made from the host's on first use.
  ir::Value*& chain(DeviceRef device);
};

/// A further argument of the graph's body.
ir::Value* add_argument(ir::Graph& graph, Type type);

/// The current graph of this thread. None: LookupError.
const std::shared_ptr<GraphState>& current_graph();
/// The current graph or null.
std::shared_ptr<GraphState> current_graph_or_null();
bool has_current_graph() noexcept;

/// The graph and, behind it, those of its module that it calls.
std::vector<const ir::Graph*> with_callees(const ir::Graph& graph);

/// Makes a graph the current one of this thread, until the matching `pop_graph`. Another thread
/// builds it: RuntimeError.
void push_graph(const std::shared_ptr<GraphState>& graph);
void pop_graph(GraphState* graph) noexcept;

/// The value of a weight in `graph`, added on first use.
ir::Value* weight_value(GraphState& graph, const std::shared_ptr<WeightState>& weight,
                        bool on_host = true);

/// Appends an op to the body and moves it behind the weights at its start, where every region sees
/// it.
ir::Op* prepend_op(GraphState& graph, OpKind kind, std::vector<ir::Value*> operands,
                   ir::Attributes attributes, std::vector<Type> types);

/// The value of a shard in the current block of `graph`.
ir::Value* shard_value(GraphState& graph, const WeightState& shard);
/// A named constant among the weights at the start of the body.
ir::Value* external_constant(GraphState& graph, const std::string& name, const TensorType& type,
                             std::int64_t align, bool placeholder);

/// The op of `kind` on values of the current graph, appended to its current block. A ValueError of
/// inference gets the frame "Failed to create op '…'".
ir::Op* add_op(OpKind kind, const std::vector<Value>& operands, ir::Attributes attributes = {},
               std::vector<Type> declared = {});
/// The same with one tensor result.
TensorValue add_tensor_op(OpKind kind, const std::vector<Value>& operands,
                          ir::Attributes attributes = {}, std::vector<Type> declared = {});
/// The operand's place in `graph`; a value of another graph or of a region that has ended:
/// ValueError.
ir::Value* operand_of(GraphState& graph, const Value& value);

/// The tensor that a strong operand is, in the current graph. A bare number or array: TypeError.
TensorValue strong_tensor(const TensorValueLike& value);

/// The chain of `device` in the current graph; afterwards `advance` stores the op's result.
Value chain_of(DeviceRef device);
void advance_chain(DeviceRef device, const Value& chain);

}  // namespace kiln::graph::detail
