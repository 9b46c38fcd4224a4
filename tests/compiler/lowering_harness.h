#pragma once

// Runs one lowering over arrays: a loop `out[i] = body(in0[i], in1[i], …)` is compiled for a target
// and called in this process.

#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Object/ObjectFile.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "compiler/lowering/lowering.h"
#include "compiler/target.h"

namespace kiln::compiler::testing {

using Body = std::function<llvm::Value*(Lowering&, const std::vector<llvm::Value*>&)>;

/// Targets of the ladder, lowest first; "" is this host.
inline std::vector<std::string> all_targets() {
  return {"generic", "x86-64-v2", "x86-64-v3", "x86-64-v4", ""};
}

/// Whether this processor runs code for `target`.
inline bool host_runs(const std::string& target) {
  auto features = llvm::sys::getHostCPUFeatures();
  if (target == "x86-64-v4") return features["avx512f"] && features["avx512bw"];
  if (target == "x86-64-v3") return features["avx2"] && features["fma"];
  if (target == "x86-64-v2") return features["sse4.2"];
  return true;
}

inline std::vector<std::string> runnable_targets() {
  std::vector<std::string> targets;
  for (const std::string& target : all_targets())
    if (host_runs(target)) targets.push_back(target);
  return targets;
}

/// Vectors everywhere, scalars where their code differs most.
inline std::vector<int> lane_counts(const std::string& target, int lanes) {
  if (target == "generic" || target.empty()) return {1, lanes};
  return {lanes};
}

class Kernel {
 public:
  Kernel(const std::string& target, int lanes, std::vector<DType> inputs, DType output,
         const Body& body)
      : isa_(resolve_isa(target)), lanes_(lanes), inputs_(std::move(inputs)), output_(output) {
    static const bool initialized = [] {
      llvm::InitializeNativeTarget();
      llvm::InitializeNativeTargetAsmPrinter();
      return true;
    }();
    (void)initialized;
    compile(body);
  }

  /// Symbols the object needs from elsewhere; none is allowed.
  const std::vector<std::string>& undefined_symbols() const { return undefined_; }

  /// Calls the code on `n` elements, a multiple of the lanes.
  void run(const std::vector<const void*>& in, void* out, std::int64_t n) {
    if (!function_) load();
    std::vector<const void*> pointers = in;
    pointers.push_back(out);
    function_(pointers.data(), n);
  }

  /// The assembly text, if KILN_TEST_ASSEMBLY is set.
  const std::string& assembly() const { return assembly_; }

 private:
  void compile(const Body& body) {
    llvm::LLVMContext context;
    llvm::Module module("lowering", context);
    llvm::Triple triple(isa_.triple);
    std::string error;
    const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
    if (!target) throw std::runtime_error(error);
    std::unique_ptr<llvm::TargetMachine> machine(
        target->createTargetMachine(triple, isa_.cpu, isa_.features, {}, llvm::Reloc::PIC_));
    module.setTargetTriple(triple);
    module.setDataLayout(machine->createDataLayout());

    llvm::IRBuilder<> b(context);
    auto* pointer = b.getPtrTy();
    auto* function = llvm::Function::Create(
        llvm::FunctionType::get(b.getVoidTy(), {pointer, b.getInt64Ty()}, false),
        llvm::Function::ExternalLinkage, "kernel", &module);
    function->addFnAttr("target-cpu", isa_.cpu);
    function->addFnAttr("target-features", isa_.features);
    auto* entry = llvm::BasicBlock::Create(context, "entry", function);
    auto* loop = llvm::BasicBlock::Create(context, "loop", function);
    auto* exit = llvm::BasicBlock::Create(context, "exit", function);
    b.SetInsertPoint(entry);
    std::vector<llvm::Value*> bases;
    for (std::size_t i = 0; i <= inputs_.size(); ++i)
      bases.push_back(b.CreateLoad(pointer, b.CreateConstGEP1_64(pointer, function->getArg(0), i)));
    b.CreateCondBr(b.CreateICmpSGT(function->getArg(1), b.getInt64(0)), loop, exit);
    b.SetInsertPoint(loop);
    auto* index = b.CreatePHI(b.getInt64Ty(), 2);
    index->addIncoming(b.getInt64(0), entry);
    Lowering lowering(b, isa_);
    std::vector<llvm::Value*> values;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      auto* address = b.CreateGEP(lowering.memory_type(inputs_[i], 1), bases[i], index);
      values.push_back(lowering.from_memory(
          b.CreateAlignedLoad(lowering.memory_type(inputs_[i], lanes_), address, llvm::Align(1)),
          inputs_[i]));
    }
    llvm::Value* raw = lowering.to_memory(body(lowering, values), output_);
    b.CreateAlignedStore(raw, b.CreateGEP(lowering.memory_type(output_, 1), bases.back(), index),
                         llvm::Align(1));
    auto* next = b.CreateAdd(index, b.getInt64(lanes_));
    index->addIncoming(next, b.GetInsertBlock());
    b.CreateCondBr(b.CreateICmpSLT(next, function->getArg(1)), loop, exit);
    b.SetInsertPoint(exit);
    b.CreateRetVoid();
    if (llvm::verifyModule(module, &llvm::errs()))
      throw std::runtime_error("the lowering made invalid IR");
    optimize(module, *machine);

    if (std::getenv("KILN_TEST_ASSEMBLY")) {
      llvm::SmallVector<char, 0> text;
      emit(*llvm::CloneModule(module), *machine, llvm::CodeGenFileType::AssemblyFile, text);
      assembly_.assign(text.begin(), text.end());
    }
    llvm::SmallVector<char, 0> object;
    emit(module, *machine, llvm::CodeGenFileType::ObjectFile, object);
    object_ = std::make_unique<llvm::SmallVectorMemoryBuffer>(std::move(object), false);
    auto file = llvm::cantFail(llvm::object::ObjectFile::createObjectFile(*object_));
    for (const auto& symbol : file->symbols())
      if (llvm::cantFail(symbol.getFlags()) & llvm::object::SymbolRef::SF_Undefined)
        if (auto name = llvm::cantFail(symbol.getName()); !name.empty())
          undefined_.push_back(name.str());
  }

  static void emit(llvm::Module& module, llvm::TargetMachine& machine, llvm::CodeGenFileType kind,
                   llvm::SmallVector<char, 0>& out) {
    llvm::raw_svector_ostream stream(out);
    llvm::legacy::PassManager passes;
    if (machine.addPassesToEmitFile(passes, stream, nullptr, kind))
      throw std::runtime_error("the target emits no objects");
    passes.run(module);
  }

  static void optimize(llvm::Module& module, llvm::TargetMachine& machine) {
    llvm::PipelineTuningOptions tuning;
    tuning.LoopVectorization = tuning.SLPVectorization = tuning.LoopUnrolling = false;
    llvm::PassBuilder builder(&machine, tuning);
    llvm::LoopAnalysisManager loops;
    llvm::FunctionAnalysisManager functions;
    llvm::CGSCCAnalysisManager graphs;
    llvm::ModuleAnalysisManager modules;
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(graphs);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, graphs, modules);
    builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
  }

  void load() {
    jit_ = llvm::cantFail(llvm::orc::LLJITBuilder().create());
    llvm::cantFail(jit_->addObjectFile(llvm::MemoryBuffer::getMemBufferCopy(object_->getBuffer())));
    function_ =
        llvm::cantFail(jit_->lookup("kernel")).toPtr<void (*)(const void* const*, std::int64_t)>();
  }

  Isa isa_;
  int lanes_;
  std::vector<DType> inputs_;
  DType output_;
  std::unique_ptr<llvm::MemoryBuffer> object_;
  std::vector<std::string> undefined_;
  std::string assembly_;
  std::unique_ptr<llvm::orc::LLJIT> jit_;
  void (*function_)(const void* const*, std::int64_t) = nullptr;
};

/// How far `got` lies from the correctly rounded `expected`, in units of its last place. Infinity
/// counts as the number after the largest.
template <typename T>
double ulps(T got, long double expected) {
  using Limits = std::numeric_limits<T>;
  T nearest = static_cast<T>(expected);
  if (std::isnan(nearest) || std::isnan(got))
    return std::isnan(nearest) && std::isnan(got) ? 0 : 1e30;
  if (got == nearest) return 0;
  long double above = std::ldexp(1.0L, Limits::max_exponent);
  long double a = std::isinf(got) ? std::copysign(above, got) : got;
  long double b = std::isinf(nearest) ? std::copysign(above, nearest) : nearest;
  int exponent = nearest == 0 ? Limits::min_exponent - 1 : std::ilogb(nearest);
  exponent = std::min(std::max(exponent, Limits::min_exponent - 1), Limits::max_exponent - 1);
  return static_cast<double>(std::fabs(a - b) / std::ldexp(1.0L, exponent - (Limits::digits - 1)));
}

}  // namespace kiln::compiler::testing
