#pragma once

// What each op computes, as LLVM IR over scalars or vectors. One Lowering serves one function body.
//
// Values in registers: bool is i1; integers are iN; float32 and float64 are float and double;
// float16, bfloat16, float8 and float4 are held as float, with a value that the dtype represents
// exactly (every op rounds its result to its dtype). A value is a scalar or a fixed vector of any
// number of lanes; the functions take the lanes from their operands.

#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <string_view>

#include "compiler/target.h"
#include "kiln/dtype/dtype.h"
#include "kiln/graph/op_kind.h"

namespace kiln::compiler {

class Lowering {
 public:
  Lowering(llvm::IRBuilder<>& builder, const Isa& isa) : b(builder), isa_(isa) {}

  /// The type of a value in registers and of an element in memory (i8 for bool, i16 for the halves,
  /// i8 for float8); `lanes` 1: a scalar. Sub-byte dtypes have no memory type.
  llvm::Type* register_type(DType dtype, int lanes) const;
  llvm::Type* memory_type(DType dtype, int lanes) const;
  llvm::Value* from_memory(llvm::Value* raw, DType dtype);
  llvm::Value* to_memory(llvm::Value* value, DType dtype);

  /// A constant of `dtype`, rounded to it.
  llvm::Value* constant(DType dtype, double value, int lanes);
  llvm::Value* integer_constant(DType dtype, std::int64_t value, int lanes);
  /// `scalar` in every lane; lanes 1: itself.
  llvm::Value* splat(llvm::Value* scalar, int lanes);

  /// One operand: abs … gelu, is_nan, is_inf, logical_not of op_kind.h; `dtype` is the operand's.
  /// `approximate` is gelu's attribute.
  llvm::Value* unary(graph::OpKind kind, llvm::Value* x, DType dtype,
                     std::string_view approximate = "none");
  /// Two operands of `dtype`: add … logical_xor of op_kind.h.
  llvm::Value* binary(graph::OpKind kind, llvm::Value* x, llvm::Value* y, DType dtype);
  llvm::Value* select(llvm::Value* condition, llvm::Value* x, llvm::Value* y);
  llvm::Value* cast(llvm::Value* x, DType from, DType to);

  /// `value`, a float, rounded to the nearest value of a half, float8 or float4 dtype, still as a
  /// float; float32 and the dtypes that are not held as float: unchanged.
  llvm::Value* round_to(llvm::Value* value, DType dtype);

  /// Building blocks on float or double values.
  llvm::Value* exp(llvm::Value* x);
  llvm::Value* fma(llvm::Value* a, llvm::Value* b, llvm::Value* c);
  /// Maximum and minimum in which NaN wins.
  llvm::Value* float_max(llvm::Value* x, llvm::Value* y);
  llvm::Value* float_min(llvm::Value* x, llvm::Value* y);

 private:
  llvm::IRBuilder<>& b;
  const Isa& isa_;
};

}  // namespace kiln::compiler
