#include "emulator/program/program.h"

#include "emulator/program/cache.h"
#include "emulator/program/program_internal.h"
#include "emulator/ptx/parser.h"
#include "emulator/translate/module.h"
#include "kiln/support/format.h"

namespace kiln::emulator {
namespace {

void check_target(const ptx::Module& module, const LoadOptions& options) {
  if (module.target > options.architecture)
    throw LoadError(LoadError::Kind::target,
                    format("The PTX is for sm_{}, but the device has sm_{}. Compile it for sm_{} "
                           "or set KILN_EMULATOR_ARCH.",
                           module.target, options.architecture, options.architecture));
}

}  // namespace

std::shared_ptr<const Program> Program::load(std::string_view text, const LoadOptions& options) {
  const ProgramCache cache;
  const std::string key = ProgramCache::key_of(text, options);
  CachedProgram parts;
  if (cache.find(key, parts)) return LoadedProgram::link(std::move(parts));
  parts = {};
  const auto syntax = ptx::parse(text);
  check_target(*syntax, options);
  Translation translation = translate(*syntax, options);
  parts.object = compile(translation, options);
  parts.kernels = std::move(translation.kernels);
  parts.traits = std::move(translation.traits);
  parts.variables = std::move(translation.variables);
  parts.source = std::move(translation.source);
  cache.store(key, parts);
  return LoadedProgram::link(std::move(parts));
}

std::shared_ptr<const Program> LoadedProgram::link(CachedProgram parts) {
  auto program = std::make_shared<LoadedProgram>();
  program->kernels_ = std::move(parts.kernels);
  program->traits_ = std::move(parts.traits);
  program->variables_ = std::move(parts.variables);
  program->source_ = std::move(parts.source);
  program->link(parts.object);
  return program;
}

void LoadedProgram::link(std::string_view object) {
  code_ = LoadedCode::load(object);
  for (std::uint32_t i = 0; i < kernels_.size(); ++i) {
    const std::string symbol = traits_[i].waits ? thread_symbol(i) : range_symbol(i);
    void* address = code_->find(symbol);
    if (address == nullptr)
      throw LoadError(LoadError::Kind::invalid,
                      format("The code of the kernel '{}' could not be linked.", kernels_[i].name));
    KernelCode code;
    if (traits_[i].waits)
      code.thread = reinterpret_cast<decltype(code.thread)>(address);
    else
      code.range = reinterpret_cast<decltype(code.range)>(address);
    entries_.push_back(code);
  }
}

}  // namespace kiln::emulator
