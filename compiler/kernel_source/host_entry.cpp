#include "compiler/kernel_source/host_entry.h"

#include <llvm/Analysis/AliasAnalysis.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PassManager.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Transforms/IPO/AlwaysInliner.h>
#include <llvm/Transforms/IPO/GlobalDCE.h>

#include <set>
#include <vector>

#include "kiln/runtime/kernel_abi.h"

namespace kiln::compiler::kernel_source {
namespace {

// The functions that prelude/host.cuh declares.
constexpr const char* kCurrent = "__kiln_current";
constexpr const char* kSetCurrent = "__kiln_set_current";
constexpr const char* kWait = "__kiln_wait";
constexpr const char* kMayWait = "__kiln_may_wait";

std::vector<llvm::CallBase*> calls_of(llvm::Module& module, const char* name) {
  std::vector<llvm::CallBase*> calls;
  if (llvm::Function* function = module.getFunction(name))
    for (llvm::User* user : function->users())
      if (auto* call = llvm::dyn_cast<llvm::CallBase>(user)) calls.push_back(call);
  return calls;
}

// Those that call `function`, at any distance.
void add_callers(llvm::Function& function, std::set<llvm::Function*>& found) {
  for (llvm::User* user : function.users()) {
    auto* call = llvm::dyn_cast<llvm::CallBase>(user);
    if (call && found.insert(call->getFunction()).second) add_callers(*call->getFunction(), found);
  }
}

void erase_all(const std::vector<llvm::CallBase*>& calls, llvm::Value* value) {
  for (llvm::CallBase* call : calls) {
    if (value) call->replaceAllUsesWith(value);
    call->eraseFromParent();
  }
}

}  // namespace

HostEntry complete_host_entry(llvm::Module& module) {
  llvm::Function* run = module.getFunction(runtime::kKernelRunName);
  // It keeps every kernel alive.
  if (llvm::GlobalVariable* marks = module.getNamedGlobal("llvm.global.annotations"))
    marks->eraseFromParent();
  for (llvm::Function& function : module) {
    if (&function == run || function.isDeclaration()) continue;
    function.setLinkage(llvm::GlobalValue::InternalLinkage);
    function.setVisibility(llvm::GlobalValue::DefaultVisibility);
    function.setComdat(nullptr);
  }
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder;
  builder.registerModuleAnalyses(modules);
  builder.registerFunctionAnalyses(functions);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  llvm::GlobalDCEPass().run(module, modules);

  std::set<llvm::Function*> readers;
  for (const char* name : {kCurrent, kWait})
    if (llvm::Function* function = module.getFunction(name)) add_callers(*function, readers);
  for (llvm::Function* reader : readers) {
    llvm::Function& function = *reader;
    if (&function == run) continue;
    function.removeFnAttr(llvm::Attribute::NoInline);
    function.removeFnAttr(llvm::Attribute::OptimizeNone);
    function.addFnAttr(llvm::Attribute::AlwaysInline);
  }
  modules.clear();
  functions.clear();
  llvm::AlwaysInlinerPass(/*InsertLifetime=*/false).run(module, modules);

  HostEntry entry;
  llvm::Value* state = nullptr;
  for (llvm::CallBase* call : calls_of(module, kSetCurrent))
    if (call->getFunction() == run) state = call->getArgOperand(0);
  for (llvm::CallBase* call : calls_of(module, kCurrent))
    if (call->getFunction() != run) {
      entry.recursive = call->getFunction()->getName().str();
      return entry;
    }
  entry.may_wait = !calls_of(module, kWait).empty();
  erase_all(calls_of(module, kCurrent), state);
  erase_all(calls_of(module, kSetCurrent), nullptr);
  erase_all(calls_of(module, kWait), nullptr);
  erase_all(calls_of(module, kMayWait),
            llvm::ConstantInt::getBool(module.getContext(), entry.may_wait));
  return entry;
}

}  // namespace kiln::compiler::kernel_source
