#include "emulator/translate/module.h"

#include <algorithm>

#include "emulator/execute/grid.h"
#include "emulator/execute/state.h"
#include "emulator/translate/function.h"
#include "emulator/translate/initial.h"
#include "kiln/support/format.h"

namespace kiln::emulator {
namespace {

std::uint64_t round_up(std::uint64_t value, std::uint64_t step) {
  return (value + step - 1) / step * step;
}

// A `.loc` holds for the instructions behind it, up to the next one or the end of the function.
SourceLines collect_lines(const ptx::Module& syntax) {
  SourceLines source;
  source.files = syntax.files;
  for (const ptx::Function& function : syntax.functions) {
    const ptx::Location* location = nullptr;
    bool started = false;
    for (const ptx::Statement& statement : function.body) {
      if (const auto* next = std::get_if<ptx::Location>(&statement)) {
        location = next;
        started = true;
      }
      const auto* instruction = std::get_if<ptx::Instruction>(&statement);
      if (instruction == nullptr || !started) continue;
      source.lines.push_back({instruction->line, location->file, location->line});
      started = false;
    }
    // What follows is another function, whose lines are not known until its first `.loc`.
    if (location != nullptr && !function.body.empty())
      if (const auto* last = std::get_if<ptx::Instruction>(&function.body.back()))
        source.lines.push_back({last->line + 1, 0, 0});
  }
  return source;
}

constexpr std::uint64_t kMaxStaticShared = 227 << 10;

}  // namespace

void fail_at(const ptx::Module& module, std::uint32_t line, LoadError::Kind kind,
             const std::string& sentence) {
  throw LoadError(kind, format("Line {} of the PTX: {}.", line, sentence));
}

std::string range_symbol(std::uint32_t index) { return format("kiln_range_{}", index); }
std::string thread_symbol(std::uint32_t index) { return format("kiln_thread_{}", index); }

ModuleTranslator::ModuleTranslator(const ptx::Module& syntax, const LoadOptions& options)
    : syntax_(syntax),
      options_(options),
      context_(std::make_unique<llvm::LLVMContext>()),
      module_(std::make_unique<llvm::Module>("ptx", *context_)) {
  access_group_ = llvm::MDNode::getDistinct(*context_, {});
}

Translation ModuleTranslator::run() {
  collect_functions();
  collect_variables();
  analyse_calls(*this);
  declare_functions();
  for (std::uint32_t i = 0; i < facts_.size(); ++i)
    if (facts_[i].code != nullptr) FunctionTranslator(*this, i).run();
  Translation result;
  for (std::uint32_t i = 0; i < facts_.size(); ++i)
    if (facts_[i].syntax->is_entry) add_kernel(i, result);
  result.variables = std::move(variables_);
  result.source = collect_lines(syntax_);
  result.module = std::move(module_);
  result.context = std::move(context_);
  return result;
}

void ModuleTranslator::collect_functions() {
  for (const ptx::Function& function : syntax_.functions) {
    const auto [place, added] =
        functions_.emplace(function.name, static_cast<std::uint32_t>(facts_.size()));
    if (added) {
      facts_.emplace_back();
      facts_.back().syntax = &function;
      continue;
    }
    // A declaration and the definition, in either order.
    FunctionFacts& facts = facts_[place->second];
    const bool both = facts.syntax->has_body && function.has_body;
    if (both && !facts.syntax->is_weak && !function.is_weak)
      fail_at(syntax_, function.line, LoadError::Kind::invalid,
              format("the function '{}' is defined twice", function.name));
    if (facts.syntax->is_entry != function.is_entry ||
        facts.syntax->parameters.size() != function.parameters.size() ||
        facts.syntax->results.size() != function.results.size())
      fail_at(syntax_, function.line, LoadError::Kind::invalid,
              format("the function '{}' was declared differently before", function.name));
    if (function.has_body && !facts.syntax->has_body) facts.syntax = &function;
  }
}

void ModuleTranslator::collect_variables() {
  std::vector<const ptx::Declaration*> declarations;
  for (const ptx::Declaration& variable : syntax_.variables) {
    if (variable.space == ptx::Space::shared) {
      SharedVariable shared;
      shared.dynamic = variable.is_extern || variable.elements == 0;
      if (!shared.dynamic) {
        const std::uint64_t offset = round_up(module_shared_bytes_, variable.alignment);
        if (offset + variable.bytes() > kMaxStaticShared)
          fail_at(syntax_, variable.line, LoadError::Kind::invalid,
                  format("'{}' exceeds the 227 KiB of shared memory of a block", variable.name));
        shared.offset = static_cast<std::uint32_t>(offset);
        module_shared_bytes_ = static_cast<std::uint32_t>(offset + variable.bytes());
      }
      shared_of_.emplace(variable.name, shared);
      continue;
    }
    const auto [place, added] =
        variable_of_.emplace(variable.name, static_cast<std::uint32_t>(variables_.size()));
    if (!added) {
      const ptx::Declaration*& known = declarations[place->second];
      if (known->bytes() != variable.bytes() && !known->is_extern && !variable.is_extern)
        fail_at(syntax_, variable.line, LoadError::Kind::invalid,
                format("the variable '{}' is defined twice", variable.name));
      if (known->is_extern && !variable.is_extern) known = &variable;
      continue;
    }
    variables_.emplace_back();
    declarations.push_back(&variable);
  }
  for (std::uint32_t i = 0; i < declarations.size(); ++i) {
    const ptx::Declaration& declaration = *declarations[i];
    if (declaration.is_extern)
      fail_at(syntax_, declaration.line, LoadError::Kind::invalid,
              format("the variable '{}' is declared but not defined", declaration.name));
    Variable& variable = variables_[i];
    variable.name = std::string(declaration.name);
    variable.space = declaration.space == ptx::Space::constant ? Variable::Space::constant
                                                               : Variable::Space::global;
    variable.bytes = declaration.bytes();
    variable.alignment = declaration.alignment;
    fill_initial(*this, declaration, variable);
  }
}

const std::uint32_t* ModuleTranslator::find_variable(std::string_view name) const {
  const auto found = variable_of_.find(name);
  return found == variable_of_.end() ? nullptr : &found->second;
}

const ModuleTranslator::SharedVariable* ModuleTranslator::find_shared(std::string_view name) const {
  const auto found = shared_of_.find(name);
  return found == shared_of_.end() ? nullptr : &found->second;
}

const std::uint32_t* ModuleTranslator::find_function(std::string_view name) const {
  const auto found = functions_.find(name);
  return found == functions_.end() ? nullptr : &found->second;
}

llvm::FunctionCallee ModuleTranslator::helper(std::string_view name, llvm::Type* result,
                                              std::span<llvm::Type* const> parameters,
                                              bool no_return) {
  auto* type = llvm::FunctionType::get(
      result, llvm::ArrayRef<llvm::Type*>(parameters.data(), parameters.size()), false);
  llvm::FunctionCallee callee = module_->getOrInsertFunction(llvm::StringRef(name), type);
  auto* function = llvm::cast<llvm::Function>(callee.getCallee());
  function->setDoesNotThrow();
  if (no_return) {
    function->setDoesNotReturn();
    function->addFnAttr(llvm::Attribute::Cold);
  }
  return callee;
}

llvm::FunctionType* ModuleTranslator::function_type(std::size_t results, std::size_t parameters) {
  llvm::Type* pointer = llvm::PointerType::get(*context_, 0);
  llvm::Type* narrow = llvm::Type::getInt32Ty(*context_);
  std::vector<llvm::Type*> types = {pointer, pointer, llvm::Type::getInt64Ty(*context_), pointer};
  types.insert(types.end(), 6, narrow);
  types.insert(types.end(), results + parameters, pointer);
  return llvm::FunctionType::get(llvm::Type::getVoidTy(*context_), types, false);
}

// Variables in shared memory that stand inside functions follow those of the module; each kernel's
// own reuse the same bytes, since a block runs one kernel.
void ModuleTranslator::declare_functions() {
  const auto own_shared = [&](const ptx::Function& function, std::uint64_t offset) {
    for (const ptx::Statement& statement : function.body) {
      const auto* variable = std::get_if<ptx::Declaration>(&statement);
      if (variable == nullptr || variable->space != ptx::Space::shared || variable->is_extern ||
          variable->elements == 0)
        continue;
      offset = round_up(offset, variable->alignment) + variable->bytes();
      if (offset > kMaxStaticShared)
        fail_at(syntax_, variable->line, LoadError::Kind::invalid,
                format("'{}' exceeds the 227 KiB of shared memory of a block", variable->name));
    }
    return static_cast<std::uint32_t>(offset);
  };
  for (FunctionFacts& facts : facts_) {
    if (facts.syntax->is_entry || !facts.syntax->has_body) continue;
    facts.shared_offset = module_shared_bytes_;
    facts.shared_bytes = own_shared(*facts.syntax, module_shared_bytes_) - module_shared_bytes_;
    if (facts.shared_bytes != 0)
      for (FunctionFacts& other : facts_) other.uses_module_shared = true;
    module_shared_bytes_ += facts.shared_bytes;
  }
  for (FunctionFacts& facts : facts_) {
    if (!facts.syntax->has_body) continue;
    if (facts.syntax->is_entry) {
      facts.shared_offset = facts.uses_module_shared ? module_shared_bytes_ : 0;
      facts.shared_bytes = own_shared(*facts.syntax, facts.shared_offset) - facts.shared_offset;
    }
    facts.code = llvm::Function::Create(
        function_type(facts.syntax->results.size(),
                      facts.syntax->is_entry ? 0 : facts.syntax->parameters.size()),
        llvm::Function::InternalLinkage,
        // Never the name that the text has: LLVM takes "sinf" for the one of the C library.
        format("ptx.{}", facts.syntax->name), *module_);
    facts.code->setDoesNotThrow();
    // Switches to other stacks push onto this one.
    facts.code->addFnAttr(llvm::Attribute::NoRedZone);
    // So that no frame can reach beyond the page that ends a stack.
    if (facts.recursive) facts.code->addFnAttr("probe-stack", "inline-asm");
    if (facts.syntax->is_entry) facts.code->addFnAttr(llvm::Attribute::AlwaysInline);
    // Results and parameters are memory of the caller's frame that nothing else names.
    for (unsigned i = kNumHidden; i < facts.code->arg_size(); ++i)
      facts.code->addParamAttr(i, llvm::Attribute::NoAlias);
    facts.code->addParamAttr(kMisaligned, llvm::Attribute::NoAlias);
    facts.code->addDereferenceableParamAttr(kBlock, sizeof(BlockState));
    facts.code->addParamAttr(kBlock, llvm::Attribute::getWithAlignment(*context_, llvm::Align(8)));
  }
}

std::uint64_t ModuleTranslator::parameter_bytes(const ptx::Function& kernel) {
  std::uint64_t offset = 0;
  for (const ptx::Declaration& parameter : kernel.parameters)
    offset = round_up(offset, parameter.alignment) + parameter.bytes();
  return offset;
}

void ModuleTranslator::add_kernel(std::uint32_t function, Translation& result) {
  const FunctionFacts& facts = facts_[function];
  const ptx::Function& syntax = *facts.syntax;
  if (!syntax.has_body)
    fail_at(syntax_, syntax.line, LoadError::Kind::invalid,
            format("the kernel '{}' is declared but not defined", syntax.name));
  if (syntax.required_cluster > 1)
    fail_at(syntax_, syntax.line, LoadError::Kind::unsupported,
            format("the kernel '{}' asks for clusters of {} blocks; only clusters of one are "
                   "implemented",
                   syntax.name, syntax.required_cluster));
  Kernel kernel;
  kernel.name = std::string(syntax.name);
  std::uint64_t offset = 0;
  for (const ptx::Declaration& parameter : syntax.parameters) {
    offset = round_up(offset, parameter.alignment);
    if (offset + parameter.bytes() > kMaxParameterBytes)
      fail_at(syntax_, parameter.line, LoadError::Kind::invalid,
              format("the parameters of '{}' exceed {} bytes", syntax.name, kMaxParameterBytes));
    kernel.parameters.push_back({static_cast<std::uint32_t>(offset),
                                 static_cast<std::uint32_t>(parameter.bytes()),
                                 parameter.alignment});
    offset += parameter.bytes();
  }
  kernel.parameter_bytes = static_cast<std::uint32_t>(offset);
  kernel.static_shared_bytes = facts.shared_offset + facts.shared_bytes;
  kernel.local_bytes = static_cast<std::uint32_t>(facts.local_bytes);
  for (const Variable& variable : variables_)
    if (variable.space == Variable::Space::constant)
      kernel.constant_bytes += static_cast<std::uint32_t>(variable.bytes);
  const auto count = [](const std::uint32_t (&extents)[3]) {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(std::uint64_t{extents[0]} * extents[1] * extents[2], 1 << 20));
  };
  kernel.required_threads = {syntax.required_threads[0], syntax.required_threads[1],
                             syntax.required_threads[2]};
  kernel.max_threads = count(syntax.required_threads) != 0 ? count(syntax.required_threads)
                                                           : count(syntax.max_threads);
  kernel.min_blocks = syntax.min_blocks;
  // ptxas keeps to what lets the largest block be launched.
  kernel.registers = estimate_registers(syntax);
  if (kernel.max_threads != 0)
    kernel.registers = std::min(kernel.registers, std::max(65536 / kernel.max_threads / 8 * 8, 8U));
  const auto index = static_cast<std::uint32_t>(result.kernels.size());
  KernelTraits traits;
  traits.waits = facts.waits;
  std::vector<std::string>& callees = result.callees.emplace_back();
  for (std::uint32_t callee : reachable(function)) {
    traits.recursive |= facts_[callee].recursive;
    if (facts_[callee].code != nullptr) callees.push_back(facts_[callee].code->getName().str());
  }
  traits.dynamic_offset =
      static_cast<std::uint32_t>(round_up(kernel.static_shared_bytes, kDynamicAlignment));
  if (traits.waits)
    emit_thread(function, index);
  else
    emit_range(function, index);
  result.kernels.push_back(std::move(kernel));
  result.traits.push_back(traits);
}

std::vector<std::uint32_t> ModuleTranslator::reachable(std::uint32_t function) const {
  std::vector<bool> seen(facts_.size());
  std::vector<std::uint32_t> open{function}, result;
  while (!open.empty()) {
    const std::uint32_t next = open.back();
    open.pop_back();
    if (seen[next]) continue;
    seen[next] = true;
    result.push_back(next);
    open.insert(open.end(), facts_[next].callees.begin(), facts_[next].callees.end());
  }
  return result;
}

// ptxas decides; a quarter of what the text declares, within what it would use, is near.
std::uint32_t ModuleTranslator::estimate_registers(const ptx::Function& function) {
  std::uint64_t bits = 0;
  for (const ptx::Statement& statement : function.body)
    if (const auto* reg = std::get_if<ptx::Declaration>(&statement))
      if (reg->space == ptx::Space::reg && reg->type.kind != ptx::Type::Kind::pred)
        bits += std::uint64_t{std::max(reg->numbered, 1U)} * std::max(reg->type.width(), 32U);
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(bits / 128, 8, 255));
}

Translation translate(const ptx::Module& syntax, const LoadOptions& options) {
  return ModuleTranslator(syntax, options).run();
}

}  // namespace kiln::emulator
