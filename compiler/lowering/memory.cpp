// How values lie in memory and how they are held in registers.

#include "compiler/lowering/lowering.h"

namespace kiln::compiler {

llvm::Value* Lowering::splat(llvm::Value* scalar, int lanes) {
  return lanes == 1 ? scalar : b.CreateVectorSplat(static_cast<unsigned>(lanes), scalar);
}

}  // namespace kiln::compiler
