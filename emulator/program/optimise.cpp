#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>

#include <algorithm>
#include <mutex>

#include "emulator/program/jit.h"
#include "emulator/translate/module.h"
#include "kiln/support/format.h"

namespace kiln::emulator {
namespace {

// Changes whenever the same text gives other code.
constexpr std::string_view kCodeVersion = "1";

struct Host {
  const llvm::Target* target = nullptr;
  std::string cpu, features;
};

const Host& host() {
  static const Host host = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
    Host found;
    std::string error;
    found.target =
        llvm::TargetRegistry::lookupTarget(llvm::Triple("x86_64-unknown-linux-gnu"), error);
    found.cpu = llvm::sys::getHostCPUName().str();
    std::vector<std::string> names;
    bool wide = true;
    const auto features = llvm::sys::getHostCPUFeatures();
    for (const auto& feature : features)
      if (feature.second) names.push_back("+" + feature.first().str());
    for (const char* needed : {"avx512f", "avx512bw", "avx512dq", "avx512vl"})
      wide &= features.lookup(needed);
    std::sort(names.begin(), names.end());
    // LLVM would otherwise split every register in two on processors that it believes slow.
    if (wide) names.emplace_back("-prefer-256-bit");
    found.features = format("{}", join(names, ","));
    return found;
  }();
  return host;
}

std::unique_ptr<llvm::TargetMachine> make_target_machine() {
  llvm::TargetOptions options;
  return std::unique_ptr<llvm::TargetMachine>(host().target->createTargetMachine(
      llvm::Triple("x86_64-unknown-linux-gnu"), host().cpu, host().features, options,
      llvm::Reloc::PIC_, llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
}

// Collects what LLVM reports as errors; the default handler of a context ends the process.
class CollectDiagnostics : public llvm::DiagnosticHandler {
 public:
  explicit CollectDiagnostics(std::string& text) : text_(text) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    if (info.getSeverity() == llvm::DS_Error) {
      llvm::raw_string_ostream out(text_);
      llvm::DiagnosticPrinterRawOStream printer(out);
      info.print(printer);
    }
    return true;
  }

 private:
  std::string& text_;
};

void verify(llvm::Module& module) {
  std::string problem;
  llvm::raw_string_ostream out(problem);
  if (llvm::verifyModule(module, &out))
    throw LoadError(LoadError::Kind::invalid,
                    format("The translation of the PTX is not valid, which is a fault of the "
                           "emulator: {}",
                           problem));
}

void run_passes(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = true;
  tuning.SLPVectorization = true;
  tuning.LoopUnrolling = false;
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
}

}  // namespace

const std::string& code_identity() {
  static const std::string identity =
      format("{} {} {} {}", kCodeVersion, LLVM_VERSION_STRING, host().cpu, host().features);
  return identity;
}

std::string compile(Translation& translation, const LoadOptions& options) {
  llvm::Module& module = *translation.module;
  const auto machine = make_target_machine();
  std::string problems;
  module.getContext().setDiagnosticHandler(std::make_unique<CollectDiagnostics>(problems));
  module.setTargetTriple(machine->getTargetTriple());
  module.setDataLayout(machine->createDataLayout());
  if (const char* path = std::getenv("E1_DUMP_BEFORE")) {
    std::error_code error;
    llvm::raw_fd_ostream out(path, error);
    module.print(out, nullptr);
  }
  verify(module);
  run_passes(module, *machine);
  if (const char* path = std::getenv("E1_DUMP_AFTER")) {
    std::error_code error;
    llvm::raw_fd_ostream out(path, error);
    module.print(out, nullptr);
  }
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile))
    throw LoadError(LoadError::Kind::invalid, "LLVM cannot write objects for this processor.");
  passes.run(module);
  if (!problems.empty())
    throw LoadError(LoadError::Kind::invalid,
                    format("LLVM could not compile the PTX: {}", problems));
  return std::string(object.begin(), object.end());
}

}  // namespace kiln::emulator
