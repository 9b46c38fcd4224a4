#include "kiln/experimental/execution.h"

#include <atomic>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "kiln/engine/program_places.h"
#include "kiln/experimental/default_session.h"
#include "kiln/experimental/executor.h"
#include "kiln/graph/recorded_graph.h"
#include "kiln/graph/symbols.h"
#include "kiln/support/background.h"
#include "kiln/support/debug_settings.h"
#include "kiln/support/environment.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "kiln/support/warning.h"

namespace kiln::experimental {
namespace {

namespace ir = graph::ir;
using driver::Buffer;
using graph::OpKind;

thread_local const Executor* guarded = nullptr;

Executor executor_of_environment() {
  const auto name = environment("KILN_EAGER_EXECUTOR");
  if (!name) return Executor::composite;
  try {
    return executor_from_string(*name);
  } catch (const ValueError& error) {
    warn(format("KILN_EAGER_EXECUTOR: {} The default, composite, is used.", error.message()));
    return Executor::composite;
  }
}

std::atomic<Executor>& executor_of_process() {
  static std::atomic<Executor> executor{executor_of_environment()};
  return executor;
}

std::size_t most_interpreted_ops() {
  static const auto most =
      static_cast<std::size_t>(environment_integer("KILN_INTERPRETER_MAX_OPS", 0).value_or(1024));
  return most;
}

/// Programs by the text of their graphs, and graphs that were met without one.
class Programs {
 public:
  using Program = std::shared_ptr<const engine::Model>;

  Program find(const std::string& text) {
    const std::lock_guard lock(mutex_);
    const auto it = programs_.find(text);
    return it == programs_.end() ? nullptr : it->second;
  }

  Program make(const std::string& text, const ir::Module& module) {
    if (Program known = find(text)) return known;
    const engine::InferenceSession& session = default_session();
    // Numbers instead of places: the program is that of other graphs with the same ops, too.
    const engine::ProgramPlaces places(module);
    auto model =
        std::make_shared<const engine::Model>(session.init(session.compile(places.numbered())));
    const std::lock_guard lock(mutex_);
    if (programs_.size() >= kMost) programs_.clear();
    return programs_.emplace(text, std::move(model)).first->second;
  }

  /// Whether the graph was met before.
  bool meet(const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (met_.size() >= kMost) met_.clear();
    return !met_.insert(std::hash<std::string>()(text)).second;
  }

  /// Compiles the graph on a thread of its own, once.
  void make_in_background(const std::string& text, const ir::Module& module) {
    if (meet(text)) return;
    run_in_background([this, text, copy = std::shared_ptr(ir::clone(module))] {
      try {
        make(text, *copy);
      } catch (...) {
        // Ops that run one by one tell what is wrong.
      }
    });
  }

 private:
  /// Beyond it all start anew: whoever needs so many has shapes that do not come back.
  static constexpr std::size_t kMost = 4096;
  std::mutex mutex_;
  std::unordered_map<std::string, Program> programs_;
  std::unordered_set<std::size_t> met_;
};

Programs& programs() {
  static auto* all = new Programs;  // outlives whatever runs at exit
  return *all;
}

/// What programs are found by: the graph's text, and what settings ask of it.
std::string key_of(const ir::Module& module) {
  return format("{}{}", kiln::detail::settings_changed.load(), ir::to_text(module));
}

bool is_value(const ir::Value& value) { return !value.type.is_chain(); }

/// Executes a program of a module's ops. Errors name the places of that module.
engine::Model::Outputs execute(const engine::Model& program, std::span<const Buffer> inputs,
                               const ir::Module& module) {
  try {
    return program.execute(inputs);
  } catch (Error& error) {
    error.set_message(engine::failure_with_places(error.message(), module));
    throw;
  }
}

/// Runs the ops of a graph one by one.
class Interpreter {
 public:
  explicit Interpreter(const ir::Module& module) : body_(*module.graphs[0]->body) {}

  /// Why the graph cannot be run so.
  std::optional<std::string> refusal() const {
    if (body_.ops.size() > most_interpreted_ops())
      return format("it has {} ops, and at most {} are (KILN_INTERPRETER_MAX_OPS)",
                    body_.ops.size(), most_interpreted_ops());
    std::set<std::string> defined;
    for (const auto& op : body_.ops) {
      if (!op->regions.empty() || op->kind == OpKind::call)
        return format("its op '{}' runs others", graph::to_string(op->kind));
      std::set<std::string> known;
      for (const ir::Value* operand : op->operands)
        if (is_value(*operand))
          for (const std::string& symbol : operand->type.shaped().parameters())
            known.insert(symbol);
      const std::set<std::string> of_operands = known;
      if (const auto symbol = graph::note_symbols(*op, known))
        return format("its op '{}' takes the size '{}' from elsewhere", graph::to_string(op->kind),
                      *symbol);
      // By themselves two ops that give one size would not be compared.
      for (const std::string& symbol : known)
        if (of_operands.count(symbol) == 0 && !defined.insert(symbol).second)
          return format("its op '{}' gives the size '{}' once more", graph::to_string(op->kind),
                        symbol);
    }
    return std::nullopt;
  }

  engine::Model::Outputs run(std::span<const Buffer> inputs) {
    std::size_t next = 0;
    for (const auto& argument : body_.arguments)
      if (is_value(*argument)) values_[argument.get()] = inputs[next++];
    for (const auto& op : body_.ops) {
      if (op->kind == OpKind::output) {
        engine::Model::Outputs outputs(op->operands.size());
        // Each result has memory of its own.
        std::unordered_set<const ir::Value*> given;
        for (std::size_t i = 0; i < op->operands.size(); ++i) {
          const ir::Value* value = op->operands[i];
          const bool is_fresh = value->producer && given.insert(value).second;
          outputs[i] = is_fresh ? values_.at(value) : values_.at(value).copy();
        }
        return outputs;
      }
      run(*op);
    }
    throw_internal_error("has an output", __FILE__, __LINE__, "a recorded graph has no end");
  }

 private:
  void run(const ir::Op& op) {
    if (op.kind == OpKind::chain_create) return;
    if (op.kind == OpKind::constant) {
      const auto& data = op.attribute<std::shared_ptr<const ir::ConstantData>>("value")->bytes;
      const graph::TensorType& type = op.result()->type.tensor();
      values_[op.result()] =
          Buffer::copy_of(data.data(), static_cast<std::size_t>(type.num_elements()), type.dtype,
                          type.shape.static_dims(), type.device.to_device());
      return;
    }
    const graph::GraphPart part = graph::isolate(op);
    std::vector<Buffer> inputs;
    for (const std::size_t i : part.inputs) inputs.push_back(values_.at(op.operands[i]));
    const auto program = programs().make(key_of(*part.module), *part.module);
    engine::Model::Outputs outputs = execute(*program, inputs, *part.module);
    std::size_t next = 0;
    for (const auto& result : op.results)
      if (is_value(*result)) values_[result.get()] = std::move(outputs[next++]);
  }

  const ir::Block& body_;
  std::unordered_map<const ir::Value*, Buffer> values_;
};

}  // namespace

std::string_view to_string(Executor executor) {
  constexpr std::string_view names[] = {"composite", "interpreter", "compile", "jit"};
  return names[static_cast<std::size_t>(executor)];
}

Executor executor_from_string(std::string_view name) {
  for (const Executor executor :
       {Executor::composite, Executor::interpreter, Executor::compile, Executor::jit})
    if (to_string(executor) == name) return executor;
  throw ValueError(format(
      "There is no executor '{}'; there are composite, interpreter, compile and jit.", name));
}

Executor default_executor() { return guarded ? *guarded : executor_of_process().load(); }
void set_default_executor(Executor executor) { executor_of_process() = executor; }

ExecutorGuard::ExecutorGuard(Executor executor) : executor_(executor), outer_(guarded) {
  guarded = &executor_;
}
ExecutorGuard::~ExecutorGuard() { guarded = outer_; }

detail::Execution detail::run_recorded(const ir::Module& module, std::span<const Buffer> inputs,
                                       bool whole) {
  const std::string text = key_of(module);
  const Executor executor = default_executor();
  auto program = executor == Executor::interpreter ? nullptr : programs().find(text);
  if (!program && executor != Executor::compile && (!whole || executor == Executor::interpreter)) {
    Interpreter interpreter(module);
    const std::optional<std::string> refusal = interpreter.refusal();
    if (refusal && executor == Executor::interpreter)
      throw UnsupportedGraphError(
          format("The graph '{}' cannot be interpreted: {}. Use the executor 'composite' or "
                 "'compile'.",
                 module.graphs[0]->name, *refusal));
    if (!refusal && executor == Executor::jit) programs().make_in_background(text, module);
    if (!refusal && (executor != Executor::composite || !programs().meet(text)))
      return {interpreter.run(inputs), nullptr};
  }
  if (!program) program = programs().make(text, module);
  engine::Model::Outputs outputs = execute(*program, inputs, module);
  return {std::move(outputs), std::move(program)};
}

}  // namespace kiln::experimental
