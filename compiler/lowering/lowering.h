#pragma once

// What each op computes, as LLVM IR over scalars or vectors. One Lowering serves one function body.
//
// Values in registers: bool is i1; integers are iN; float32 and float64 are float and double;
// float16, bfloat16, float8 and float4 are held as float, with a value that the dtype represents
// exactly (every op rounds its result to its dtype). A value is a scalar or a fixed vector of any
// number of lanes; the functions take the lanes from their operands.

#include <llvm/ADT/ArrayRef.h>
#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/target.h"
#include "kiln/dtype/dtype.h"
#include "kiln/graph/op_kind.h"

namespace kiln::compiler {

class Lowering {
 public:
  Lowering(llvm::IRBuilder<>& builder, const Isa& isa);

  /// The type of a value in registers and of an element in memory (i8 for bool, i16 for the halves,
  /// i8 for float8); `lanes` 1: a scalar. Sub-byte dtypes have no memory type; for them
  /// from_memory and to_memory take and give i8 with the code in the low bits.
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

  /// The bits of `x`, a float or an integer, as a number of a dtype of the same size.
  llvm::Value* same_bits(llvm::Value* x, DType from, DType to);

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
  // e^x as mantissa · 2^n, not yet scaled, so that a caller can scale where it loses nothing.
  struct Exponential {
    llvm::Value* mantissa;
    llvm::Value* reduced;  // x − n·ln 2
    llvm::Value* slope;    // in float, the mantissa is 1 + reduced · slope
    llvm::Value* shifted;  // integer lanes: n + anchor
    llvm::Value* anchor;
  };
  // 2^n as a product of two, and one over the first.
  struct Halves {
    llvm::Value* first;
    llvm::Value* second;
    std::function<llvm::Value*()> inverse_first;
  };
  // x = 2^exponent · (1 + fraction).
  struct Logarithm {
    llvm::Value* exponent;
    llvm::Value* fraction;
  };
  // hi + lo, where |lo| is at most half a last place of hi.
  struct Double {
    llvm::Value* hi;
    llvm::Value* lo;
  };
  // x = quadrant · π/2 + angle.
  struct Reduced {
    Double angle;
    llvm::Value* quadrant;
  };

  // cast.cpp
  llvm::Value* round_half(llvm::Value* value, DType dtype);
  llvm::Value* round_small(llvm::Value* value, DType dtype);
  llvm::Value* decode_small(llvm::Value* code, DType dtype);
  llvm::Value* encode_small(llvm::Value* value, DType dtype);
  llvm::Value* to_float_odd(llvm::Value* x);
  llvm::Value* to_float16_bits(llvm::Value* value);

  // arithmetic.cpp
  llvm::Value* integer_unary(graph::OpKind kind, llvm::Value* x, DType dtype);
  llvm::Value* float_unary(graph::OpKind kind, llvm::Value* x, bool precise);
  llvm::Value* integer_mod(llvm::Value* x, llvm::Value* y, bool sign);
  llvm::Value* integer_binary(graph::OpKind kind, llvm::Value* x, llvm::Value* y, DType dtype);
  llvm::Value* float_binary(graph::OpKind kind, llvm::Value* x, llvm::Value* y);
  llvm::Value* compare(graph::OpKind kind, llvm::Value* x, llvm::Value* y, DType dtype);
  llvm::Value* round_even(llvm::Value* x);
  llvm::Value* floor(llvm::Value* x);
  llvm::Value* ceil(llvm::Value* x);
  llvm::Value* trunc(llvm::Value* x);

  // transcendental.cpp
  Exponential exp_parts(llvm::Value* x, llvm::Value* x_low = nullptr, bool minus_one = false);
  Halves halves(const Exponential& e);
  // mantissa · factor · 2^n with one rounding to a denormal.
  llvm::Value* scale(const Exponential& e, llvm::Value* factor = nullptr);
  Logarithm log_parts(llvm::Value* x);
  llvm::Value* log_double(const Logarithm& l, llvm::Value* correction);
  llvm::Value* log(llvm::Value* x);
  llvm::Value* log1p(llvm::Value* x);
  llvm::Value* atanh(llvm::Value* x);

  // activation.cpp; `precise`: the result is not rounded to a half afterwards.
  llvm::Value* power_of_two(const Exponential& e);
  llvm::Value* erf(llvm::Value* x, bool precise);
  llvm::Value* small_erf(llvm::Value* x);
  llvm::Value* scaled_erfc(llvm::Value* t);
  llvm::Value* tanh(llvm::Value* x, bool precise);
  llvm::Value* sigmoid(llvm::Value* x);
  llvm::Value* silu(llvm::Value* x);
  llvm::Value* gate(llvm::Value* x, llvm::Value* z, llvm::Value* z_low);
  llvm::Value* gelu(llvm::Value* x, std::string_view approximate, bool precise);
  llvm::Value* gelu_quick(llvm::Value* x, bool precise);
  llvm::Value* gelu_tanh(llvm::Value* x, bool precise);
  llvm::Value* gelu_erf(llvm::Value* x, bool precise);
  llvm::Value* product_error(llvm::Value* a, llvm::Value* c, llvm::Value* product);

  // trigonometric.cpp
  llvm::Value* sine(llvm::Value* x, bool cosine);
  Reduced reduce_angle(llvm::Value* x);
  Reduced reduce_large_angle(llvm::Value* x);
  llvm::Value* gather(llvm::GlobalVariable* table, llvm::Value* index, int offset);
  llvm::Value* acos(llvm::Value* x);

  // power.cpp
  llvm::Value* power(llvm::Value* x, llvm::Value* y);
  llvm::Value* power_double(llvm::Value* x, llvm::Value* y, bool precise);
  llvm::Value* integer_power(llvm::Value* x, llvm::Value* y, bool sign);
  llvm::Value* float_mod(llvm::Value* x, llvm::Value* y);
  Double log_of(llvm::Value* x);
  // Calls a function of the module that computes `body`, made on first use; for code with loops or
  // rare cases, which would bloat every kernel.
  llvm::Value* outlined(
      std::string name, llvm::ArrayRef<llvm::Value*> arguments, llvm::Type* result,
      llvm::function_ref<llvm::Value*(Lowering&, llvm::ArrayRef<llvm::Value*>)> body);
  // A loop while any lane of state[condition] is not zero; returns the final state.
  std::vector<llvm::Value*> loop_while(
      std::vector<llvm::Value*> state,
      llvm::function_ref<llvm::Value*(llvm::ArrayRef<llvm::Value*>)> is_active,
      llvm::function_ref<std::vector<llvm::Value*>(llvm::ArrayRef<llvm::Value*>)> step);
  Double two_sum(llvm::Value* x, llvm::Value* y);
  Double fast_two_sum(llvm::Value* x, llvm::Value* y);
  Double product(const Double& x, const Double& y);

  // Constants and types with the lanes of `like`.
  llvm::Constant* number(llvm::Value* like, double value);
  llvm::Constant* integer(llvm::Value* like, std::uint64_t value);
  static llvm::Type* with_lanes(llvm::Type* scalar, llvm::Type* like);
  llvm::Type* integer_type(llvm::Value* like);
  llvm::Value* bits(llvm::Value* x);
  llvm::Value* from_bits(llvm::Value* x);
  static bool is_double(llvm::Value* x);
  llvm::Value* intrinsic(llvm::Intrinsic::ID id, llvm::Value* x);
  llvm::Constant* not_a_number(llvm::Value* like);
  llvm::Value* widen(llvm::Value* x);   // float to double
  llvm::Value* narrow(llvm::Value* x);  // double to float
  llvm::Value* any(llvm::Value* condition);
  llvm::Value* abs(llvm::Value* x);
  llvm::Value* copysign(llvm::Value* magnitude, llvm::Value* sign);
  // x > y ? x : y and x < y ? x : y: one instruction; y wins where either is NaN.
  llvm::Value* quick_max(llvm::Value* x, llvm::Value* y);
  llvm::Value* quick_min(llvm::Value* x, llvm::Value* y);
  // Horner's rule, the highest coefficient first.
  llvm::Value* polynomial(llvm::Value* x, llvm::ArrayRef<double> coefficients);
  // The same as two shorter chains, of even and of odd powers, that run side by side: for code that
  // waits for the chain rather than for the multipliers.
  llvm::Value* polynomial_in_two(llvm::Value* x, llvm::ArrayRef<double> coefficients);

  llvm::IRBuilder<>& b;
  const Isa& isa_;
  bool has_rounding_;  // SSE4.1: floor, ceil, trunc and round are instructions
};

}  // namespace kiln::compiler
