#include "emulator/program/program.h"

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
  const auto syntax = ptx::parse(text);
  check_target(*syntax, options);
  Translation translation = translate(*syntax, options);
  auto program = std::make_shared<LoadedProgram>();
  const std::string object = compile(translation, options);
  program->kernels_ = std::move(translation.kernels);
  program->variables_ = std::move(translation.variables);
  program->traits_ = std::move(translation.traits);
  program->link(object);
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
