#pragma once

// Structured code in LLVM IR: loops with carried values and conditionals, so that kernels are
// written as nests of callbacks and nobody handles blocks and phis by hand.

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compiler/lowering/lowering.h"
#include "compiler/target.h"

namespace kiln::compiler {

using Values = std::vector<llvm::Value*>;

/// Makes an LLVM module for `isa`: triple, data layout, no unrolling surprises.
std::unique_ptr<llvm::Module> make_module(llvm::LLVMContext& context, const std::string& name,
                                          const Isa& isa);

/// A function that is being written. Code goes where `b` stands.
class FunctionBuilder {
 public:
  /// Starts `name` in `module`: kernels are hidden and not inlined, entry points exported.
  enum class Linkage { kernel, helper, entry };
  FunctionBuilder(llvm::Module& module, const Isa& isa, const std::string& name, llvm::Type* result,
                  const std::vector<llvm::Type*>& parameters, Linkage linkage);

  llvm::Value* argument(unsigned i) { return function->getArg(i); }
  llvm::ConstantInt* i64(std::int64_t value) {
    return b.getInt64(static_cast<std::uint64_t>(value));
  }

  /// ⌈x / by⌉ of i64 that are not negative.
  llvm::Value* divide_up(llvm::Value* x, llvm::Value* by) {
    return b.CreateUDiv(b.CreateAdd(x, b.CreateSub(by, i64(1))), by);
  }

  /// for (i = from; i < to; i += step): `body` gets i and the carried values and returns their next
  /// values. Returns the carried values after the loop. The trip count may be zero.
  Values loop(llvm::Value* from, llvm::Value* to, llvm::Value* step, Values initial,
              const std::function<Values(llvm::Value* i, const Values& carried)>& body);
  /// The same without carried values.
  void loop(llvm::Value* from, llvm::Value* to, llvm::Value* step,
            const std::function<void(llvm::Value* i)>& body);

  /// if (condition) then(); else otherwise(); both return the same number of values.
  Values branch(llvm::Value* condition, const std::function<Values()>& then,
                const std::function<Values()>& otherwise);
  void when(llvm::Value* condition, const std::function<void()>& then, bool unlikely = false);

  /// Room on the stack for `count` values of `type`, made in the entry block.
  llvm::Value* stack_slot(llvm::Type* type, std::int64_t count, std::int64_t alignment);

  /// `pointer` plus `index` elements of `type`.
  llvm::Value* element(llvm::Type* type, llvm::Value* pointer, llvm::Value* index);

  /// Checks the function with LLVM's verifier; a broken one: InternalError with its text.
  void finish();

  llvm::Module& module;
  const Isa& isa;
  llvm::Function* function;
  llvm::IRBuilder<> b;
  Lowering lower;
};

}  // namespace kiln::compiler
