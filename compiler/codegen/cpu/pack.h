#pragma once

// Packs the right operand of a matrix product into the panels that matmul.h reads.

#include <functional>

#include "compiler/codegen/cpu/matmul.h"

namespace kiln::compiler {

/// Bytes of packed B with `n` columns and `k` rows, an i64.
llvm::Value* packed_bytes(FunctionBuilder& f, DType dtype, llvm::Value* n, llvm::Value* k);
/// The number of panels of `n` columns, an i64.
llvm::Value* panel_count(FunctionBuilder& f, DType dtype, llvm::Value* n);

/// Loads `lanes` elements of B from (k, n) on: along n for `emit_pack`, along k for
/// `emit_pack_transposed`. Lanes outside `mask` may hold anything; null: all are inside.
using PackLoad = std::function<llvm::Value*(FunctionBuilder& f, llvm::Value* k, llvm::Value* n,
                                            int lanes, llvm::Value* mask)>;

/// Emits the packing of panels [panel_begin, panel_end); columns from `n` on become zeros.
void emit_pack(FunctionBuilder& f, DType dtype, llvm::Value* packed, llvm::Value* n, llvm::Value* k,
               llvm::Value* panel_begin, llvm::Value* panel_end, const PackLoad& load);

/// The same for B that is contiguous along k, such as weights [out, in]: blocks are transposed in
/// registers.
void emit_pack_transposed(FunctionBuilder& f, DType dtype, llvm::Value* packed, llvm::Value* n,
                          llvm::Value* k, llvm::Value* panel_begin, llvm::Value* panel_end,
                          const PackLoad& load);

/// Transposes a square of as many vectors as each has lanes.
Values transpose_square(FunctionBuilder& f, Values rows);

}  // namespace kiln::compiler
