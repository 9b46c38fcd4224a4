#include <algorithm>
#include <functional>
#include <unordered_set>

#include "emulator/translate/module.h"

// What is known of functions before they are translated. A kernel whose threads never wait runs as
// a plain loop over its threads; one with barriers, warp operations or polling of memory needs a
// stack for each thread. Polling is a load or an atomic that memory order concerns, in a loop: a
// thread in such a loop may wait for another one, which then must get to run.

namespace kiln::emulator {
namespace {

using ptx::Instruction;
using ptx::Operand;

bool has(const Instruction& instruction, std::string_view modifier) {
  return std::find(instruction.modifiers.begin(), instruction.modifiers.end(), modifier) !=
         instruction.modifiers.end();
}

bool polls(const Instruction& instruction) {
  const std::string_view opcode = instruction.opcode;
  if (opcode == "ld")
    return has(instruction, ".volatile") || has(instruction, ".relaxed") ||
           has(instruction, ".acquire");
  if (opcode == "mbarrier") return has(instruction, ".test_wait") || has(instruction, ".try_wait");
  return opcode == "nanosleep" || opcode == "atom" || opcode == "multimem";
}

bool always_waits(const Instruction& instruction, bool entry) {
  static const std::unordered_set<std::string_view> kOpcodes = {
      "bar",   "barrier",  "shfl",     "vote",      "match", "redux", "activemask",
      "elect", "ldmatrix", "stmatrix", "movmatrix", "mma",   "wmma"};
  if (instruction.opcode == "mbarrier" && polls(instruction)) return true;
  return kOpcodes.contains(instruction.opcode) || (instruction.opcode == "exit" && !entry);
}

// For each statement, whether it lies in a loop: between a label and a later jump to it.
std::vector<bool> in_loops(const ptx::Function& function) {
  std::unordered_map<std::string_view, std::size_t> labels;  // the first of each name
  std::unordered_map<std::string_view, const ptx::BranchTargets*> targets;
  for (std::size_t i = 0; i < function.body.size(); ++i) {
    if (const auto* label = std::get_if<ptx::Label>(&function.body[i]))
      labels.emplace(label->name, i);
    else if (const auto* list = std::get_if<ptx::BranchTargets>(&function.body[i]))
      targets.emplace(list->name, list);
  }
  std::vector<int> change(function.body.size() + 1);
  const auto jump = [&](std::string_view label, std::size_t from) {
    const auto found = labels.find(label);
    if (found == labels.end() || found->second > from) return;
    ++change[found->second];
    --change[from + 1];
  };
  for (std::size_t i = 0; i < function.body.size(); ++i) {
    const auto* instruction = std::get_if<Instruction>(&function.body[i]);
    if (instruction == nullptr) continue;
    if (instruction->opcode == "bra" && !instruction->operands.empty())
      jump(instruction->operands[0].name, i);
    if (instruction->opcode == "brx" && instruction->operands.size() == 2)
      if (const auto list = targets.find(instruction->operands[1].name); list != targets.end())
        for (std::string_view label : list->second->labels) jump(label, i);
  }
  std::vector<bool> result(function.body.size());
  int depth = 0;
  for (std::size_t i = 0; i < result.size(); ++i) {
    depth += change[i];
    result[i] = depth > 0;
  }
  return result;
}

struct Call {
  std::uint32_t callee = 0;
  bool in_loop = false;
};

struct Findings {
  std::vector<Call> calls;
  bool indirect_in_loop = false;
  bool polls = false;
  bool looped = false;  // it may be called again and again
};

void visit_names(const Operand& operand, const std::function<void(std::string_view)>& visit) {
  if (!operand.name.empty()) visit(operand.name);
  for (const Operand& element : operand.elements) visit_names(element, visit);
}

class Analysis {
 public:
  explicit Analysis(ModuleTranslator& module) : module_(module) {}

  void run() {
    const std::size_t count = module_.num_functions();
    findings_.resize(count);
    for (std::uint32_t i = 0; i < count; ++i) look_at(i);
    for (const ptx::Declaration& variable : module_.syntax().variables)
      for (const ptx::Initial& initial : variable.initial)
        if (const std::uint32_t* function = module_.find_function(initial.symbol))
          facts(*function).address_taken = true;
    for (std::uint32_t i = 0; i < count; ++i) add_indirect_calls(i);
    for (std::uint32_t i = 0; i < count; ++i) find_recursion(i);
    for (bool changed = true; changed;) {
      changed = false;
      for (std::uint32_t i = 0; i < count; ++i) changed |= spread(i);
    }
  }

 private:
  FunctionFacts& facts(std::uint32_t i) { return module_.facts(i); }

  void look_at(std::uint32_t index) {
    FunctionFacts& function = facts(index);
    const std::vector<bool> loops = in_loops(*function.syntax);
    std::uint64_t local = 0;
    for (std::size_t i = 0; i < function.syntax->body.size(); ++i) {
      const ptx::Statement& statement = function.syntax->body[i];
      if (const auto* declaration = std::get_if<ptx::Declaration>(&statement)) {
        if (declaration->space != ptx::Space::local) continue;
        local =
            (local + declaration->alignment - 1) / declaration->alignment * declaration->alignment +
            declaration->bytes();
        if (local > kMaxLocal)
          fail_at(module_.syntax(), declaration->line, LoadError::Kind::invalid,
                  "local memory of a thread is limited to 512 KiB");
      } else if (const auto* instruction = std::get_if<Instruction>(&statement)) {
        look_at(function, findings_[index], *instruction, loops[i]);
      }
    }
    function.frame_bytes = static_cast<std::uint32_t>(local);
  }

  void look_at(FunctionFacts& function, Findings& found, const Instruction& instruction,
               bool in_loop) {
    if (always_waits(instruction, function.syntax->is_entry)) function.waits = true;
    if (polls(instruction)) {
      found.polls = true;
      if (in_loop) function.waits = true;
    }
    // Like recursion, this takes stack that only the run can tell.
    if (instruction.opcode == "alloca") function.recursive = true;
    const bool is_call = instruction.opcode == "call";
    bool target_known = false;
    for (const Operand& operand : instruction.operands) {
      const std::uint32_t* callee = operand.kind == Operand::Kind::name && is_call && !target_known
                                        ? module_.find_function(operand.name)
                                        : nullptr;
      if (callee != nullptr) {
        target_known = true;
        found.calls.push_back({*callee, in_loop});
        continue;
      }
      visit_names(operand, [&](std::string_view name) {
        if (const auto* taken = module_.find_function(name)) facts(*taken).address_taken = true;
        if (const auto* shared = module_.find_shared(name); shared && !shared->dynamic)
          function.uses_module_shared = true;
      });
    }
    if (!is_call || target_known) return;
    function.calls_indirectly = true;
    found.indirect_in_loop |= in_loop;
  }

  void add_indirect_calls(std::uint32_t index) {
    Findings& found = findings_[index];
    if (facts(index).calls_indirectly)
      for (std::uint32_t i = 0; i < module_.num_functions(); ++i)
        if (facts(i).address_taken && !facts(i).syntax->is_entry)
          found.calls.push_back({i, found.indirect_in_loop});
    for (const Call& call : found.calls) facts(index).callees.push_back(call.callee);
  }

  void find_recursion(std::uint32_t index) {
    std::vector<bool> seen(module_.num_functions());
    std::vector<std::uint32_t> open = facts(index).callees;
    while (!open.empty()) {
      const std::uint32_t next = open.back();
      open.pop_back();
      if (next == index) facts(index).recursive = true;
      if (seen[next]) continue;
      seen[next] = true;
      open.insert(open.end(), facts(next).callees.begin(), facts(next).callees.end());
    }
  }

  bool spread(std::uint32_t index) {
    FunctionFacts& function = facts(index);
    Findings& found = findings_[index];
    bool changed = false;
    found.looped |= function.recursive;
    const bool waits = function.waits, shared = function.uses_module_shared;
    const std::uint64_t local = function.local_bytes;
    std::uint64_t deepest = 0;
    for (const Call& call : found.calls) {
      const FunctionFacts& callee = facts(call.callee);
      function.waits |= callee.waits || callee.recursive;
      bool& looped = findings_[call.callee].looped;
      changed |= !looped && (call.in_loop || found.looped);
      looped |= call.in_loop || found.looped;
      function.uses_module_shared |= callee.uses_module_shared;
      deepest = std::max(deepest, callee.local_bytes);
    }
    // Frames of recursive functions lie on the stack of the thread.
    const std::uint64_t own = (std::uint64_t{function.frame_bytes} + 15) / 16 * 16;
    function.local_bytes = deepest + (function.recursive ? 0 : own);
    // Depth is known only at run time: stacks with guard pages, as threads that wait have them.
    function.waits |= function.recursive || (found.polls && found.looped);
    return changed || waits != function.waits || local != function.local_bytes ||
           shared != function.uses_module_shared;
  }

  static constexpr std::uint64_t kMaxLocal = 512 << 10;
  ModuleTranslator& module_;
  std::vector<Findings> findings_;
};

}  // namespace

void analyse_calls(ModuleTranslator& module) { Analysis(module).run(); }

}  // namespace kiln::emulator
