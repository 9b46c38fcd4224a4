#pragma once

// softmax(score(query · keyᵀ)) · value on the CPU, without the matrix of scores.

#include <functional>

#include "compiler/codegen/cpu/matmul.h"

namespace kiln::compiler {

/// One attention (of one head of one batch), as LLVM values: pointers and i64. Strides are in
/// elements; the last dimension of every operand has unit stride. float32 or float64 throughout.
struct AttentionOperands {
  llvm::Value* query;  // [rows, depth]
  llvm::Value* query_stride;
  llvm::Value* key;  // [keys, depth]
  llvm::Value* key_stride;
  llvm::Value* value;  // [keys, width]
  llvm::Value* value_stride;
  llvm::Value* rows;
  llvm::Value* keys;
  llvm::Value* depth;
  llvm::Value* width;
};

/// What goes into the softmax, from `product`, which holds the products of query `row` with the
/// `lanes` keys from `key` on; scale, bias and mask are written here. Lanes outside `mask` do not
/// count; null: all do.
using Score = std::function<llvm::Value*(FunctionBuilder& f, llvm::Value* row, llvm::Value* key,
                                         int lanes, llvm::Value* product, llvm::Value* mask)>;

/// The number of units of one attention, an i64. Results do not depend on who runs which unit.
llvm::Value* attention_unit_count(FunctionBuilder& f, DType dtype,
                                  const AttentionOperands& operands);

/// Bytes of scratch that a worker needs, an i64; bounded however long the sequences are. Of
/// `operands` only the sizes are used.
llvm::Value* attention_scratch_bytes(FunctionBuilder& f, DType dtype,
                                     const AttentionOperands& operands);

/// Emits the code of units [unit_begin, unit_end). `scratch` is aligned to 64 bytes and belongs to
/// this worker. `score` null: the products themselves. `epilogue` stores finished parts of a row of
/// the result, [rows, width]. A row whose scores are all −inf, and every row when there are no
/// keys, becomes NaN, as softmax makes it.
void emit_attention_block(FunctionBuilder& f, DType dtype, const AttentionOperands& operands,
                          llvm::Value* scratch, llvm::Value* unit_begin, llvm::Value* unit_end,
                          const Score& score, const Epilogue& epilogue);

}  // namespace kiln::compiler
