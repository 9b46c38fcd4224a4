#pragma once

// The writer of a graph's host function: what its three parts share.
//
//   host.cpp         goes through the steps: control flow, checks, prints, library calls, failures
//   host_memory.cpp  extents, sizes, the block of a call's memory and the address of each tensor
//   host_launch.cpp  the launch of a kernel

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/codegen/cpu/attention.h"
#include "compiler/codegen/extents.h"
#include "compiler/codegen/host.h"

namespace kiln::compiler {

class HostEmitter {
 public:
  HostEmitter(llvm::Module& module, const Isa& isa, const Program& program,
              const std::vector<Step>& steps, const MemoryPlan& plan, const KernelSymbols& symbols,
              LocationTable& locations, const std::string& symbol)
      : f_(module, isa, symbol, llvm::Type::getVoidTy(module.getContext()),
           {llvm::PointerType::get(module.getContext(), 0)}, FunctionBuilder::Linkage::entry),
        program_(program),
        steps_(steps),
        plan_(plan),
        symbols_(symbols),
        locations_(locations),
        call_(f_.argument(0)) {}

  void emit();

 private:
  // --- Steps. ---

  void emit_steps(const std::vector<Step>& steps);
  /// Steps of a region: what is computed inside does not reach the code behind it. `finish` sees
  /// it.
  void emit_region(const std::vector<Step>& steps, const std::function<void()>& finish = [] {});
  llvm::Value* predicate(int tensor);
  void condition(const Condition& condition);
  void loop(const Loop& loop);
  /// A call that is traced is told that `steps` run next; `otherwise` names them when no kernel is
  /// among them.
  void tell_choice(const std::vector<Step>& steps, std::string_view otherwise);
  void read(const ReadScalar& read);
  void define(const Define& define);
  void wrap(const WrapIndex& wrap);
  void check(const Check& check);
  void print(const Print& print);
  void library_call(const LibraryCall& call);
  void load_symbols();

  // --- Failures. ---

  llvm::Constant* failure(const std::string& entry, const std::string& sentence,
                          const graph::ir::Op* origin, int error_class);
  void fail(const std::string& sentence, const std::vector<Dim>& values,
            const graph::ir::Op* origin, int error_class);

  // --- Memory. ---

  /// Of what nothing writes during a call: read once, or where it is handier.
  llvm::Value* load(llvm::Type* type, llvm::Value* pointer);
  llvm::Value* field(std::size_t offset, llvm::Type* type);
  llvm::Value* item(llvm::Type* type, llvm::Value* array, std::int64_t index);
  llvm::Value* runtime_call(std::size_t field_offset, llvm::Type* result,
                            const std::vector<llvm::Value*>& arguments);
  llvm::Value* extents_of(const Tensor& tensor);
  /// Bytes of a tensor; more than an address space has ends the call. What is
  /// laid out before the sizes are checked (`early`) takes a negative size for none.
  llvm::Value* bytes_of(const Tensor& tensor, bool early = false);
  llvm::Value* sized(const Tensor& tensor, bool early);
  void allocate();
  /// Where the next slot begins after one of `bytes` at `offset`. AddressSanitizer guards what lies
  /// between them, at least 64 bytes.
  llvm::Value* end_of_slot(llvm::Value* offset, llvm::Value* bytes);
  /// The runtime unpoisons the workspace when it hands it out.
  void guard_slots();
  void refuse_above_address_space(llvm::Value* bytes, const Kernel& kernel);
  llvm::Value* scratch_bytes();
  /// Whether the scratch of a kernel depends on nothing but the symbols of the inputs.
  bool has_known_size(const KernelLaunch& launch) const;
  llvm::Value* bytes_of_scratch(const Kernel& kernel, const KernelLaunch& launch);
  AttentionOperands attention_sizes(const KernelLaunch& launch);
  llvm::Value* pointer_of(int id);

  // --- Kernels. ---

  /// Kernels do not write to slots, so what lies there already is not stored again.
  void store_slot(std::size_t slot, llvm::Value* value);
  llvm::Value* scratch_of(const Kernel& kernel, const KernelLaunch& launch);
  /// Whether all that a kernel stores to has no elements; null when it surely has some. Kernels
  /// loop over axes of other sizes too, which may be long.
  llvm::Value* stores_nothing(const Kernel& kernel);
  void launch(const Kernel& kernel);
  /// Calls a kernel whose arguments are stored, for iterations [0, count).
  void start(const Kernel& kernel, const KernelLaunch& launch, llvm::Value* count);
  /// What the product behind `kernel` reads of its weights: their memory, the panels, and the bytes
  /// of each. Behind the last one comes the first, in the next call.
  Values next_product(const Kernel& kernel);
  /// Iterations that are worth handing to another thread, a multiple of the launch's own grain.
  llvm::Value* grain_of(const KernelLaunch& launch);

  llvm::Value* dim(const Dim& d) { return extents_.value_of(d); }

  FunctionBuilder f_;
  Extents extents_{f_};
  const Program& program_;
  const std::vector<Step>& steps_;
  const MemoryPlan& plan_;
  const KernelSymbols& symbols_;
  LocationTable& locations_;
  llvm::Value* call_;
  llvm::Value* slots_ = nullptr;
  std::vector<llvm::Value*> stored_;  // what the slots hold; empty where ways of the code meet
  llvm::Value* workspace_ = nullptr;
  llvm::Value* scratch_offset_ = nullptr;
  bool has_scratch_ = false;
  std::vector<std::pair<llvm::Value*, llvm::Value*>> guards_;  // offsets of what nobody may touch
  std::vector<llvm::Value*> pointers_;
  std::vector<const Kernel*> products_;  // of a call that stream weights, outside of branches
};

}  // namespace kiln::compiler
