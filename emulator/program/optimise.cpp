#include <dlfcn.h>
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
#include <llvm/Transforms/IPO/AlwaysInliner.h>
#include <llvm/Transforms/IPO/GlobalDCE.h>
#include <llvm/Transforms/IPO/Inliner.h>
#include <llvm/Transforms/IPO/ModuleInliner.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/GVN.h>
#include <llvm/Transforms/Scalar/IndVarSimplify.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopRotation.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Vectorize/LoopVectorize.h>
#include <llvm/Transforms/Vectorize/SLPVectorizer.h>
#include <sys/stat.h>

#include <algorithm>

#include "emulator/program/jit.h"
#include "emulator/program/stack_sizes.h"
#include "emulator/translate/module.h"
#include "kiln/support/format.h"

namespace kiln::emulator {
namespace {

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
  options.EmitStackSizeSection = true;
  return std::unique_ptr<llvm::TargetMachine>(host().target->createTargetMachine(
      llvm::Triple("x86_64-unknown-linux-gnu"), host().cpu, host().features, options,
      llvm::Reloc::PIC_, llvm::CodeModel::Small, llvm::CodeGenOptLevel::Less));
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

// What the kernels of compilers need, which are optimised already: registers become values, device
// functions go into their callers, loops over threads are vectorised. The default pipeline of LLVM
// gives the same code in twice the time.
llvm::FunctionPassManager cleanup() {
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/false));
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::InstCombinePass());
  return passes;
}

llvm::FunctionPassManager loops_and_vectors() {
  llvm::FunctionPassManager passes;
  llvm::LoopPassManager loops;
  loops.addPass(llvm::LoopRotatePass(/*EnableHeaderDuplication=*/true));
  loops.addPass(llvm::LICMPass(llvm::LICMOptions()));
  loops.addPass(llvm::IndVarSimplifyPass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(loops), /*UseMemorySSA=*/true));
  passes.addPass(llvm::GVNPass());
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::LoopVectorizePass());
  passes.addPass(llvm::SLPVectorizerPass());
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()),
                                                       /*UseMemorySSA=*/true));
  passes.addPass(llvm::SimplifyCFGPass(llvm::SimplifyCFGOptions().hoistCommonInsts(true)));
  return passes;
}

void run_passes(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  llvm::ModulePassManager passes;
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(cleanup()));
  llvm::ModuleInlinerWrapperPass inliner(llvm::getInlineParams(2, 0));
  passes.addPass(std::move(inliner));
  passes.addPass(llvm::AlwaysInlinerPass());
  passes.addPass(llvm::GlobalDCEPass());
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(cleanup()));
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(loops_and_vectors()));
  passes.run(module, modules);
}

// The file that this code comes from: another build may translate otherwise.
std::string own_file() {
  Dl_info info;
  struct stat status;
  if (::dladdr(reinterpret_cast<const void*>(&compile), &info) == 0 ||
      ::stat(info.dli_fname, &status) != 0)
    return "";
  return format("{} {} {}.{}", status.st_ino, status.st_size, status.st_mtim.tv_sec,
                status.st_mtim.tv_nsec);
}

}  // namespace

const std::string& code_identity() {
  static const std::string identity =
      format("{} {} {} {}", own_file(), LLVM_VERSION_STRING, host().cpu, host().features);
  return identity;
}

std::string compile(Translation& translation, const LoadOptions& options) {
  llvm::Module& module = *translation.module;
  const auto machine = make_target_machine();
  std::string problems;
  module.getContext().setDiagnosticHandler(std::make_unique<CollectDiagnostics>(problems));
  module.setTargetTriple(machine->getTargetTriple());
  module.setDataLayout(machine->createDataLayout());
  verify(module);
  run_passes(module, *machine);
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile))
    throw LoadError(LoadError::Kind::invalid, "LLVM cannot write objects for this processor.");
  passes.run(module);
  if (!problems.empty())
    throw LoadError(LoadError::Kind::invalid,
                    format("LLVM could not compile the PTX: {}", problems));
  std::string bytes(object.begin(), object.end());
  measure_stacks(bytes, translation);
  return bytes;
}

}  // namespace kiln::emulator
