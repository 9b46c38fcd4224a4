#include "compiler/codegen/object.h"

#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/VirtualFileSystem.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/ADCE.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopRotation.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include <memory>
#include <mutex>
#include <vector>

#include "compiler/codegen/instrument.h"
#include "compiler/codegen/single_lanes.h"
#include "compiler/crash_guard.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::compiler {
namespace {

const llvm::Target* x86_target() {
  static const llvm::Target* const target = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    std::string error;
    return llvm::TargetRegistry::lookupTarget(llvm::Triple("x86_64-unknown-linux-gnu"), error);
  }();
  return target;
}

// Collects what LLVM reports as errors; the default handler of a context ends the process.
class CollectDiagnostics : public llvm::DiagnosticHandler {
 public:
  explicit CollectDiagnostics(std::string& text) : text_(text) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    if (info.getSeverity() == llvm::DS_Error) {
      llvm::raw_string_ostream out(text_);
      llvm::DiagnosticPrinterRawOStream printer(out);
      if (!text_.empty()) out << "; ";
      info.print(printer);
    }
    return true;
  }

 private:
  std::string& text_;
};

std::unique_ptr<llvm::TargetMachine> make_target_machine(const Isa& isa) {
  llvm::TargetOptions options;
  options.FunctionSections = true;
  options.DataSections = true;
  // The loader runs nothing else; only the checks of a sanitizer have code to run at a load.
  options.UseInitArray = true;
  return std::unique_ptr<llvm::TargetMachine>(x86_target()->createTargetMachine(
      llvm::Triple(isa.triple), isa.cpu, isa.features, options, llvm::Reloc::PIC_,
      llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
}

class StoreSingleLanes : public llvm::PassInfoMixin<StoreSingleLanes> {
 public:
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager&) {
    return store_single_lanes(function) ? llvm::PreservedAnalyses::none()
                                        : llvm::PreservedAnalyses::all();
  }
};

// What pays for kernels whose loops were written out by hand: loads leave loops, common
// subexpressions and dead code go. Everything else costs compile time and changes nothing.
void optimize(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  // Of one's own: the shared file system that it takes by default is counted by code of LLVM that
  // ThreadSanitizer does not see.
  llvm::PassBuilder builder(&machine, llvm::PipelineTuningOptions(), std::nullopt, nullptr,
                            llvm::vfs::createPhysicalFileSystem());
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);

  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(llvm::SimplifyCFGPass());
  llvm::LoopPassManager loop_passes;
  loop_passes.addPass(llvm::LoopRotatePass());
  loop_passes.addPass(llvm::LICMPass(llvm::LICMOptions()));
  passes.addPass(
      llvm::createFunctionToLoopPassAdaptor(std::move(loop_passes), /*UseMemorySSA=*/true));
  // The most expensive one, so it runs once.
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::ADCEPass());
  passes.addPass(StoreSingleLanes());
  llvm::ModulePassManager pipeline;
  pipeline.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(passes)));
  add_instrumentation(pipeline);
  pipeline.run(module, modules);
}

llvm::SmallVector<char, 0> emit(llvm::Module& module, const Isa& isa, std::string* optimized) {
  KILN_CHECK(x86_target() != nullptr, "this LLVM cannot emit code for x86-64");
  llvm::SmallVector<char, 0> bytes;
  std::string problems;
  std::string fatal;
  llvm::LLVMContext& context = module.getContext();
  std::unique_ptr<llvm::DiagnosticHandler> previous = context.getDiagnosticHandler();
  context.setDiagnosticHandler(std::make_unique<CollectDiagnostics>(problems));
  bool finished = run_guarded(
      [&] {
        std::unique_ptr<llvm::TargetMachine> machine = make_target_machine(isa);
        module.setDataLayout(machine->createDataLayout());
        optimize(module, *machine);
        if (optimized != nullptr) *optimized = module_text(module);
        llvm::legacy::PassManager passes;
        llvm::raw_svector_ostream out(bytes);
        if (machine->addPassesToEmitFile(passes, out, nullptr, llvm::CodeGenFileType::ObjectFile,
                                         /*DisableVerify=*/true))
          problems += "the target cannot write this kind of file";
        else
          passes.run(module);
      },
      fatal);
  context.setDiagnosticHandler(std::move(previous));
  if (!finished) problems = fatal;
  if (!problems.empty())
    throw InternalError(
        format("LLVM could not compile module '{}' for {}: {}. This is a defect of kiln; please "
               "report it with the program that led to it.",
               std::string_view(module.getName()), isa.cpu, problems));
  return bytes;
}

}  // namespace

std::string module_text(const llvm::Module& module) {
  std::string text;
  llvm::raw_string_ostream out(text);
  module.print(out, nullptr);
  return text;
}

std::vector<std::byte> emit_object(llvm::Module& module, const Isa& isa, std::string* optimized) {
  llvm::SmallVector<char, 0> bytes = emit(module, isa, optimized);
  auto* begin = reinterpret_cast<const std::byte*>(bytes.data());
  return {begin, begin + bytes.size()};
}

}  // namespace kiln::compiler
