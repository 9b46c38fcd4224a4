// Calls of subgraphs become the ops of the callee. Equal kernels are compiled once, so a block that
// is called twelve times still costs one compilation; what grows is the host function alone.

#include <algorithm>
#include <set>
#include <unordered_map>

#include "compiler/diagnostics.h"
#include "compiler/passes/passes.h"
#include "kiln/graph/symbols.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::compiler {

namespace ir = graph::ir;
using graph::Dim;
using graph::OpKind;
using graph::Shape;
using graph::Substitution;

namespace {

/// Appends the symbols of `block` in the order they come up, each with whether the block defines
/// it: the first op to use it is one that tells its size.
void collect_symbols(const ir::Block& block, std::vector<std::pair<std::string, bool>>& symbols,
                     std::set<std::string>& seen) {
  for (const auto& op : block.ops) {
    std::vector<std::string> used;
    auto use = [&](const std::vector<std::string>& names) {
      used.insert(used.end(), names.begin(), names.end());
    };
    for (const auto& result : op->results)
      if (result->type.is_tensor() || result->type.is_buffer())
        use(result->type.shaped().shape.parameters());
    for (const auto& [name, value] : op->attributes) {
      if (const auto* dim = std::get_if<Dim>(&value)) use(dim->parameters());
      if (const auto* shape = std::get_if<Shape>(&value)) use(shape->parameters());
    }
    for (const auto& region : op->regions) collect_symbols(*region, symbols, seen);
    for (const std::string& symbol : used)
      if (seen.insert(symbol).second) symbols.emplace_back(symbol, graph::defines_symbols(*op));
  }
}

class Inliner {
 public:
  explicit Inliner(ir::Graph& graph) : graph_(graph) {}

  void run(ir::Block& block) {
    std::vector<std::unique_ptr<ir::Op>> ops = std::move(block.ops);
    block.ops.clear();
    std::vector<std::unique_ptr<ir::Op>> retired;
    for (auto& op : ops) {
      rename_operands(*op);
      for (auto& region : op->regions) run(*region);
      if (op->kind != OpKind::call) {
        block.ops.push_back(std::move(op));
        continue;
      }
      working_on(*op, [&] { expand(block, *op, graph_, {}); });
      retired.push_back(std::move(op));
    }
  }

 private:
  static constexpr std::size_t kDeepestCall = 512;

  /// What a callee's values are in the caller.
  struct Frame {
    std::unordered_map<const ir::Value*, ir::Value*> values;
    const ir::Graph* callee = nullptr;
    Substitution symbols;
    std::string prefix;
  };

  void rename_operands(ir::Op& op) {
    for (ir::Value*& operand : op.operands)
      if (auto it = renamed_.find(operand); it != renamed_.end()) operand = it->second;
  }

  /// `caller` is the graph that the call was written in, `visible` what its symbols are here.
  void expand(ir::Block& block, const ir::Op& call, const ir::Graph& caller,
              const Substitution& visible) {
    const auto& name = call.attribute<std::string>("callee");
    const ir::Graph* callee = graph_.module->find(name);
    KILN_CHECK(callee, "a call names a graph that is not in the module: " + name);
    if (std::find(callees_.begin(), callees_.end(), callee) != callees_.end())
      throw RuntimeError(
          format("Failed to compile the model. Subgraph '{}' calls itself; calls "
                 "cannot be recursive.",
                 name));
    if (callees_.size() >= kDeepestCall)
      throw RuntimeError(
          format("Failed to compile the model. Subgraph '{}' is called {} calls deep; at most {} "
                 "may lie in one another.",
                 name, callees_.size() + 1, kDeepestCall));
    callees_.push_back(callee);
    const ir::Op* output = callee->terminator();
    if (output == nullptr)
      throw RuntimeError(
          format("Failed to compile the model. Subgraph '{}' was never terminated by a call to "
                 "output.",
                 name));
    Frame frame;
    frame.callee = callee;
    if (call.has_attribute("prefix")) frame.prefix = call.attribute<std::string>("prefix");
    const auto& arguments = callee->body->arguments;
    for (std::size_t i = 0; i < arguments.size() && i < call.operands.size(); ++i) {
      frame.values[arguments[i].get()] = call.operands[i];
      graph::bind_symbols(arguments[i]->type, call.operands[i]->type, frame.symbols);
    }
    name_symbols(call, caller, visible, frame);
    for (std::size_t i = 0; i < arguments.size() && i < call.operands.size(); ++i)
      check_type(call, "Argument", i, graph::substitute(arguments[i]->type, frame.symbols),
                 call.operands[i]->type);
    for (std::size_t i = 0; i < call.results.size() && i < output->operands.size(); ++i)
      check_type(call, "Result", i, graph::substitute(output->operands[i]->type, frame.symbols),
                 call.result(i)->type);
    copy_block(*callee->body, block, frame);
    for (std::size_t i = 0; i < call.results.size() && i < output->operands.size(); ++i)
      renamed_[call.result(i)] = frame.values.at(output->operands[i]);
    callees_.pop_back();
  }

  /// Says what each symbol of a callee is in the caller, the inputs' symbols being bound already.
  void name_symbols(const ir::Op& call, const ir::Graph& caller, const Substitution& visible,
                    Frame& frame) {
    std::vector<std::pair<std::string, bool>> symbols;
    std::set<std::string> seen;
    for (const auto& argument : frame.callee->body->arguments)
      if (argument->type.is_tensor() || argument->type.is_buffer())
        for (std::string& symbol : argument->type.shaped().shape.parameters())
          if (seen.insert(symbol).second) symbols.emplace_back(std::move(symbol), false);
    collect_symbols(*frame.callee->body, symbols, seen);
    auto known_to_caller = [&](const std::string& symbol) {
      return std::find(caller.parameters.begin(), caller.parameters.end(), symbol) !=
             caller.parameters.end();
    };
    std::erase_if(symbols, [&](const auto& entry) {
      const auto& [symbol, defined] = entry;
      if (frame.symbols.count(symbol)) return true;
      if (defined && !known_to_caller(symbol)) return false;
      const auto it = visible.find(symbol);
      frame.symbols.emplace(symbol, it != visible.end() ? it->second : Dim(symbol));
      return true;
    });
    bind_results(call, frame);
    // What no result shows is nobody else's.
    for (const auto& [symbol, defined] : symbols)
      frame.symbols.try_emplace(symbol, Dim(format("{}_call{}", symbol, calls_)));
    ++calls_;
  }

  /// The call has names of its own for the sizes that only running the callee tells. Most stand
  /// alone in some dim; for the others the assignment that gives the types of the call is sought.
  static void bind_results(const ir::Op& call, Frame& frame) {
    const ir::Op* output = frame.callee->terminator();
    const std::size_t count = std::min(call.results.size(), output->operands.size());
    Shape formal, actual;
    for (std::size_t i = 0; i < count; ++i) {
      const graph::Type &type = output->operands[i]->type, &given = call.result(i)->type;
      graph::bind_symbols(type, given, frame.symbols);
      if (type.index() != given.index() || !(type.is_tensor() || type.is_buffer())) continue;
      for (const Dim& dim : type.shaped().shape) formal.push_back(dim);
      for (const Dim& dim : given.shaped().shape) actual.push_back(dim);
    }
    std::vector<std::string> open, names = actual.parameters();
    for (std::string& symbol : formal.parameters())
      if (!frame.symbols.count(symbol)) open.push_back(std::move(symbol));
    std::erase_if(names, [&](const std::string& name) {
      return std::any_of(frame.symbols.begin(), frame.symbols.end(),
                         [&](const auto& entry) { return entry.second == Dim(name); });
    });
    if (open.empty() || open.size() != names.size() || open.size() > 6) return;
    std::sort(names.begin(), names.end());
    do {
      Substitution symbols = frame.symbols;
      for (std::size_t i = 0; i < open.size(); ++i) symbols.emplace(open[i], Dim(names[i]));
      if (graph::substitute(formal, symbols) != actual) continue;
      frame.symbols = std::move(symbols);
      return;
    } while (std::next_permutation(names.begin(), names.end()));
  }

  static void check_type(const ir::Op& call, std::string_view what, std::size_t i,
                         const graph::Type& expected, const graph::Type& given) {
    if (expected == given) return;
    throw RuntimeError(
        format("Failed to compile the model. {} {} of the call to '{}' has the wrong type: "
               "expected {}, got {}.",
               what, i, call.attribute<std::string>("callee"), expected.repr(), given.repr()));
  }

  void copy_block(const ir::Block& from, ir::Block& to, Frame& frame) {
    for (const auto& op : from.ops) {
      if (op->kind == OpKind::output) continue;
      copy_op(*op, to, frame);
    }
  }

  void copy_op(const ir::Op& op, ir::Block& to, Frame& frame) {
    std::vector<ir::Value*> operands;
    for (ir::Value* operand : op.operands) {
      auto it = frame.values.find(operand);
      operands.push_back(it == frame.values.end() ? operand : it->second);
    }
    auto copy = std::make_unique<ir::Op>();
    copy->kind = op.kind;
    copy->operands = std::move(operands);
    copy->location = op.location;
    copy->block = &to;
    copy->attributes = op.attributes;
    if (op.kind == OpKind::constant_external && op.has_attribute("placeholder") &&
        op.attribute<bool>("placeholder"))
      copy->attributes["name"] = frame.prefix + op.attribute<std::string>("name");
    if (op.kind == OpKind::call && op.has_attribute("prefix"))
      copy->attributes["prefix"] = frame.prefix + op.attribute<std::string>("prefix");
    for (auto& [name, value] : copy->attributes) {
      if (auto* dim = std::get_if<Dim>(&value)) *dim = graph::substitute(*dim, frame.symbols);
      if (auto* shape = std::get_if<Shape>(&value))
        *shape = graph::substitute(*shape, frame.symbols);
    }
    for (std::size_t i = 0; i < op.results.size(); ++i) {
      auto value = std::make_unique<ir::Value>(
          ir::Value{graph::substitute(op.results[i]->type, frame.symbols)});
      value->producer = copy.get();
      value->block = &to;
      value->index = static_cast<std::uint32_t>(i);
      frame.values[op.results[i].get()] = value.get();
      copy->results.push_back(std::move(value));
    }
    for (const auto& region : op.regions) {
      auto inner = std::make_unique<ir::Block>();
      inner->parent = copy.get();
      inner->graph = &graph_;
      for (const auto& argument : region->arguments) {
        auto value = std::make_unique<ir::Value>(
            ir::Value{graph::substitute(argument->type, frame.symbols)});
        value->block = inner.get();
        value->index = argument->index;
        frame.values[argument.get()] = value.get();
        inner->arguments.push_back(std::move(value));
      }
      for (const auto& each : region->ops) copy_op(*each, *inner, frame);
      copy->regions.push_back(std::move(inner));
    }
    if (copy->kind == OpKind::call) {
      // A callee's own calls are expanded where they come to stand.
      expand(to, *copy, *frame.callee, frame.symbols);
      for (std::size_t i = 0; i < copy->results.size(); ++i)
        frame.values[op.results[i].get()] = renamed_.at(copy->result(i));
      kept_.push_back(std::move(copy));
      return;
    }
    to.ops.push_back(std::move(copy));
  }

  ir::Graph& graph_;
  std::unordered_map<const ir::Value*, ir::Value*> renamed_;
  std::vector<std::unique_ptr<ir::Op>> kept_;
  std::vector<const ir::Graph*> callees_;  // the calls around the present one
  int calls_ = 0;
};

/// Every symbol must have a size before it is used. A subgraph's text may name symbols that no
/// caller has.
void check_symbols(const ir::Graph& graph, const ir::Block& block, std::set<std::string> known) {
  for (const auto& op : block.ops) {
    for (const auto& region : op->regions) check_symbols(graph, *region, known);
    working_on(*op, [&] {
      if (const std::optional<std::string> symbol = graph::note_symbols(*op, known))
        throw ValueError("Failed to compile the model. " +
                         graph::undefined_symbol_text(*symbol, graph.name));
    });
  }
}

}  // namespace

void inline_calls(ir::Graph& graph) {
  Inliner(graph).run(*graph.body);
  check_symbols(graph, *graph.body, {graph.parameters.begin(), graph.parameters.end()});
}

}  // namespace kiln::compiler
