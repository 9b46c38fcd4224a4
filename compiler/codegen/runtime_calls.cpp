#include <cstddef>

#include "compiler/codegen/kernel_code.h"
#include "kiln/runtime/abi.h"

namespace kiln::compiler {

llvm::Value* runtime_function(FunctionBuilder& f, llvm::Value* call, std::size_t field_offset) {
  llvm::Value* runtime = f.b.CreateAlignedLoad(f.b.getPtrTy(), call, llvm::Align(8));
  llvm::Value* field =
      f.element(f.b.getInt8Ty(), runtime, f.i64(static_cast<std::int64_t>(field_offset)));
  return f.b.CreateAlignedLoad(f.b.getPtrTy(), field, llvm::Align(8));
}

void emit_fail(FunctionBuilder& f, llvm::Value* call, llvm::Value* failure, llvm::Value* values,
               std::int64_t count) {
  llvm::Type* pointer = f.b.getPtrTy();
  auto* type = llvm::FunctionType::get(f.b.getVoidTy(),
                                       {pointer, pointer, pointer, f.b.getInt64Ty()}, false);
  f.b.CreateCall(type, runtime_function(f, call, offsetof(KilnRuntime, fail)),
                 {call, failure, values, f.i64(count)});
  f.b.CreateUnreachable();
}

}  // namespace kiln::compiler
