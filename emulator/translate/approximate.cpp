#include <llvm/IR/Intrinsics.h>

#include "emulator/translate/arithmetic.h"
#include "kiln/support/format.h"

// rcp, sqrt, rsqrt, and the functions that the hardware approximates. The exact result, or one
// nearer to it than the documented error, stands for an approximation.

namespace kiln::emulator::forms {
namespace {

using llvm::Value;
using Kind = ptx::Type::Kind;

constexpr std::uint64_t kHighHalf = 0xffffffff00000000ULL;

void need_real(FunctionTranslator& f, ptx::Type type, bool with_double) {
  if (type.kind != Kind::real || type.lanes != 1 || type.bits < 32 ||
      (type.bits == 64 && !with_double))
    f.unsupported("this type is not implemented here");
}

// rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64 look at the high half of a double and give one.
Value* high_half(FunctionTranslator& f, Value* value) {
  auto& b = f.builder();
  return b.CreateBitCast(b.CreateAnd(f.to_bits(value), b.getInt64(kHighHalf)), b.getDoubleTy());
}

Value* flush_double(FunctionTranslator& f, Value* value) {
  auto& b = f.builder();
  Value* bits = f.to_bits(value);
  Value* small = b.CreateIsNull(b.CreateAnd(bits, b.getInt64(0x7ff0000000000000ULL)));
  return b.CreateBitCast(
      b.CreateSelect(small, b.CreateAnd(bits, b.getInt64(0x8000000000000000ULL)), bits),
      b.getDoubleTy());
}

void rcp(FunctionTranslator& f, Modifiers modifiers) {
  const Arithmetic peeked = peek_arithmetic(f, modifiers);
  if (!peeked.has(kApprox)) return real_arithmetic(f, modifiers, RealOp::rcp);
  const Arithmetic form = parse_arithmetic(f, modifiers, kApprox | kFtz, 2);
  need_real(f, form.type, true);
  auto& b = f.builder();
  Value* x = f.read(1, form.type);
  Value* one = llvm::ConstantFP::get(x->getType(), 1.0);
  if (form.type.bits == 64) {
    if (!form.has(kFtz)) f.unsupported("'.ftz' is expected");
    x = flush_double(f, high_half(f, x));
    return f.write(0, high_half(f, flush_double(f, b.CreateFDiv(one, x))), form.type);
  }
  if (form.has(kFtz)) x = flush(f, x);
  Value* result = b.CreateFDiv(one, x);
  f.write(0, form.has(kFtz) ? flush(f, result) : result, form.type);
}

void sqrt(FunctionTranslator& f, Modifiers modifiers) {
  const Arithmetic peeked = peek_arithmetic(f, modifiers);
  if (!peeked.has(kApprox)) return real_arithmetic(f, modifiers, RealOp::sqrt);
  const Arithmetic form = parse_arithmetic(f, modifiers, kApprox | kFtz, 2);
  need_real(f, form.type, false);
  Value* x = f.read(1, form.type);
  if (form.has(kFtz)) x = flush(f, x);
  f.write(0, f.builder().CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x), form.type);
}

void rsqrt(FunctionTranslator& f, Modifiers modifiers) {
  const Arithmetic form = parse_arithmetic(f, modifiers, kApprox | kFtz, 2);
  need_real(f, form.type, true);
  if (!form.has(kApprox)) f.invalid("'.approx' is expected");
  auto& b = f.builder();
  Value* x = f.read(1, form.type);
  const bool single = form.type.bits == 32;
  if (form.has(kFtz)) x = single ? flush(f, x) : flush_double(f, high_half(f, x));
  // In double precision, so that two roundings err by less than a digit of .f32.
  Value* wide = single ? b.CreateFPExt(x, b.getDoubleTy()) : x;
  Value* result = b.CreateFDiv(llvm::ConstantFP::get(b.getDoubleTy(), 1.0),
                               b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, wide));
  if (single)
    result = b.CreateFPTrunc(result, b.getFloatTy());
  else if (form.has(kFtz))
    result = high_half(f, result);
  f.write(0, result, form.type);
}

void by_call(FunctionTranslator& f, Modifiers modifiers, std::string_view helper) {
  const Arithmetic form = parse_arithmetic(f, modifiers, kApprox | kFtz, 2);
  if (!form.has(kApprox)) f.invalid("'.approx' is expected");
  need_real(f, form.type, false);
  Value* x = f.read(1, form.type);
  if (form.has(kFtz)) x = flush(f, x);
  Value* result = f.call(helper, f.builder().getFloatTy(), {x});
  f.write(0, form.has(kFtz) ? flush(f, result) : result, form.type);
}

void ex2(FunctionTranslator& f, Modifiers modifiers) {
  if (peek_arithmetic(f, modifiers).type.bits != 16) return by_call(f, modifiers, "kiln_ex2_f32");
  const Arithmetic form = parse_arithmetic(f, modifiers, kApprox | kFtz, 2);
  if (!form.has(kApprox) || (form.type.kind == Kind::bfloat) != form.has(kFtz))
    f.unsupported("'.approx' is expected, and '.ftz' for bf16 alone");
  half_ex2(f, form);
}

void tanh(FunctionTranslator& f, Modifiers modifiers) {
  if (peek_arithmetic(f, modifiers).type.bits != 16) {
    if (peek_arithmetic(f, modifiers).has(kFtz)) f.unsupported("'tanh' knows no '.ftz'");
    return by_call(f, modifiers, "kiln_tanh_f32");
  }
  const Arithmetic form = parse_arithmetic(f, modifiers, kApprox, 2);
  if (!form.has(kApprox)) f.invalid("'.approx' is expected");
  half_tanh(f, form);
}

void lg2(FunctionTranslator& f, Modifiers modifiers) { by_call(f, modifiers, "kiln_lg2_f32"); }
void sin(FunctionTranslator& f, Modifiers modifiers) { by_call(f, modifiers, "kiln_sin_f32"); }
void cos(FunctionTranslator& f, Modifiers modifiers) { by_call(f, modifiers, "kiln_cos_f32"); }

}  // namespace

void add_approximate(Table& table) {
  table.insert({{"rcp", rcp},
                {"sqrt", sqrt},
                {"rsqrt", rsqrt},
                {"ex2", ex2},
                {"lg2", lg2},
                {"sin", sin},
                {"cos", cos},
                {"tanh", tanh}});
}

}  // namespace kiln::emulator::forms
