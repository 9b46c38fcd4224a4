// Powers and remainders of floats and integers, and the helpers that need control flow.

#include <llvm/IR/Module.h>

#include <limits>

#include "compiler/lowering/lowering.h"

namespace kiln::compiler {

llvm::Value* Lowering::any(llvm::Value* condition) {
  if (!condition->getType()->isVectorTy()) return condition;
  return b.CreateOrReduce(condition);
}

llvm::Value* Lowering::outlined(
    std::string name, llvm::ArrayRef<llvm::Value*> arguments, llvm::Type* result,
    llvm::function_ref<llvm::Value*(Lowering&, llvm::ArrayRef<llvm::Value*>)> body) {
  llvm::Function* caller = b.GetInsertBlock()->getParent();
  llvm::Module* module = caller->getParent();
  llvm::Type* like = arguments.front()->getType();
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(like);
  name = "kiln." + name + ".b" + std::to_string(like->getScalarSizeInBits()) + "x" +
         std::to_string(vector ? vector->getNumElements() : 1);
  llvm::Function* function = module->getFunction(name);
  if (!function) {
    std::vector<llvm::Type*> types;
    for (llvm::Value* argument : arguments) types.push_back(argument->getType());
    function = llvm::Function::Create(llvm::FunctionType::get(result, types, false),
                                      llvm::Function::InternalLinkage, name, module);
    // The target and what concerns unwinding are the caller's.
    for (llvm::Attribute attribute : caller->getAttributes().getFnAttrs())
      if (attribute.isStringAttribute() || attribute.hasKindAsEnum()) {
        if (attribute.isStringAttribute() || attribute.getKindAsEnum() == llvm::Attribute::UWTable)
          function->addFnAttr(attribute);
      }
    function->addFnAttr(llvm::Attribute::NoInline);
    function->addFnAttr(llvm::Attribute::NoUnwind);
    llvm::IRBuilder<> builder(llvm::BasicBlock::Create(module->getContext(), "entry", function));
    Lowering inner(builder, isa_);
    std::vector<llvm::Value*> parameters;
    for (llvm::Argument& argument : function->args()) parameters.push_back(&argument);
    builder.CreateRet(body(inner, parameters));
  }
  return b.CreateCall(function, arguments);
}

std::vector<llvm::Value*> Lowering::loop_while(
    std::vector<llvm::Value*> state,
    llvm::function_ref<llvm::Value*(llvm::ArrayRef<llvm::Value*>)> is_active,
    llvm::function_ref<std::vector<llvm::Value*>(llvm::ArrayRef<llvm::Value*>)> step) {
  llvm::BasicBlock* before = b.GetInsertBlock();
  llvm::Function* function = before->getParent();
  auto* head = llvm::BasicBlock::Create(b.getContext(), "head", function);
  auto* body = llvm::BasicBlock::Create(b.getContext(), "body", function);
  auto* exit = llvm::BasicBlock::Create(b.getContext(), "exit", function);
  b.CreateBr(head);
  b.SetInsertPoint(head);
  std::vector<llvm::Value*> current;
  for (llvm::Value* value : state) {
    auto* phi = b.CreatePHI(value->getType(), 2);
    phi->addIncoming(value, before);
    current.push_back(phi);
  }
  b.CreateCondBr(any(is_active(current)), body, exit);
  b.SetInsertPoint(body);
  std::vector<llvm::Value*> next = step(current);
  for (std::size_t i = 0; i < next.size(); ++i)
    llvm::cast<llvm::PHINode>(current[i])->addIncoming(next[i], b.GetInsertBlock());
  b.CreateBr(head);
  b.SetInsertPoint(exit);
  return current;
}

Lowering::Double Lowering::two_sum(llvm::Value* x, llvm::Value* y) {
  llvm::Value* sum = b.CreateFAdd(x, y);
  llvm::Value* part = b.CreateFSub(sum, x);
  llvm::Value* error =
      b.CreateFAdd(b.CreateFSub(x, b.CreateFSub(sum, part)), b.CreateFSub(y, part));
  return {sum, error};
}

Lowering::Double Lowering::fast_two_sum(llvm::Value* x, llvm::Value* y) {
  llvm::Value* sum = b.CreateFAdd(x, y);
  return {sum, b.CreateFSub(y, b.CreateFSub(sum, x))};
}

Lowering::Double Lowering::product(const Double& x, const Double& y) {
  llvm::Value* hi = b.CreateFMul(x.hi, y.hi);
  llvm::Value* lo = product_error(x.hi, y.hi, hi);
  lo = fma(x.hi, y.lo, lo);
  lo = fma(x.lo, y.hi, lo);
  return fast_two_sum(hi, lo);
}

// The logarithm of a positive double with about 65 bits: 2·artanh(s) with s = f / (2 + f), whose
// first two terms are computed in two parts.
Lowering::Double Lowering::log_of(llvm::Value* x) {
  Logarithm l = log_parts(x);
  llvm::Value* f = l.fraction;
  Double divisor = fast_two_sum(number(x, 2), f);
  llvm::Value* s = b.CreateFDiv(f, divisor.hi);
  llvm::Value* back = b.CreateFMul(s, divisor.hi);
  llvm::Value* rest = b.CreateFSub(b.CreateFSub(f, back), product_error(s, divisor.hi, back));
  rest = b.CreateFSub(rest, b.CreateFMul(s, divisor.lo));
  Double ratio = {s, b.CreateFDiv(rest, divisor.hi)};
  Double square = product(ratio, ratio);
  Double cube = product(ratio, square);
  // 2/3 in two parts.
  Double third =
      product(cube, {number(x, 6.66666666666666629659e-01), number(x, 3.70074341541718826e-17)});
  llvm::Value* z = square.hi;
  // 2/5 + 2/7·z + …; z is at most 0.0295.
  llvm::Value* tail = polynomial(
      z, {2 / 21.0, 2 / 19.0, 2 / 17.0, 2 / 15.0, 2 / 13.0, 2 / 11.0, 2 / 9.0, 2 / 7.0, 2 / 5.0});
  tail = b.CreateFMul(b.CreateFMul(tail, z), cube.hi);
  Double sum = fast_two_sum(b.CreateFMul(ratio.hi, number(x, 2)), third.hi);
  llvm::Value* low = fma(ratio.lo, number(x, 2), b.CreateFAdd(third.lo, sum.lo));
  low = b.CreateFAdd(low, tail);
  // The exponent's part: its product with the first part of ln 2 is exact.
  llvm::Value* whole = b.CreateFMul(l.exponent, number(x, 6.93147180369123816490e-01));
  Double total = two_sum(whole, sum.hi);
  llvm::Value* ln2_low = b.CreateFMul(l.exponent, number(x, 1.90821492927058770002e-10));
  Double second = two_sum(total.lo, ln2_low);
  low = b.CreateFAdd(low, second.lo);
  return fast_two_sum(total.hi, b.CreateFAdd(second.hi, low));
}

// C's pow: e^(y·log|x|) with the sign of odd powers and the exceptional cases put in afterwards.
llvm::Value* Lowering::power(llvm::Value* x, llvm::Value* y) {
  if (!is_double(x)) {
    // A double's logarithm is precise enough for float, and so is its exponential.
    return narrow(power_double(widen(x), widen(y), false));
  }
  return power_double(x, y, true);
}

llvm::Value* Lowering::power_double(llvm::Value* x, llvm::Value* y, bool precise) {
  double infinity = std::numeric_limits<double>::infinity();
  llvm::Value* zero = number(x, 0);
  llvm::Value* one = number(x, 1);
  llvm::Value* magnitude = abs(x);
  llvm::Value* positive = b.CreateFCmpOGT(magnitude, zero);
  llvm::Value* usable = b.CreateAnd(positive, b.CreateFCmpOLT(magnitude, number(x, infinity)));
  llvm::Value* base = b.CreateSelect(usable, magnitude, one);
  Double exponent{};
  if (precise) {
    Double l = log_of(base);
    exponent.hi = b.CreateFMul(y, l.hi);
    exponent.lo = fma(y, l.lo, product_error(y, l.hi, exponent.hi));
  } else {
    exponent.hi = b.CreateFMul(y, log_double(log_parts(base), nullptr));
  }
  llvm::Value* bounded = quick_min(number(x, 760), quick_max(number(x, -760), exponent.hi));
  if (precise)
    exponent.lo = b.CreateSelect(b.CreateFCmpOEQ(bounded, exponent.hi), exponent.lo, zero);
  llvm::Value* result = scale(exp_parts(bounded, exponent.lo));

  // A base of zero or infinity.
  llvm::Value* grows = b.CreateXor(b.CreateFCmpOGT(y, zero), b.CreateNot(positive));
  llvm::Value* extreme = b.CreateSelect(grows, number(x, infinity), zero);
  result = b.CreateSelect(usable, result, extreme);
  // Negative bases, −0 too.
  llvm::Value* half = b.CreateFMul(y, number(x, 0.5));
  llvm::Value* whole = b.CreateFCmpOEQ(trunc(y), y);
  llvm::Value* odd = b.CreateAnd(whole, b.CreateFCmpUNE(trunc(half), half));
  llvm::Value* code = bits(x);
  llvm::Value* sign = b.CreateAnd(code, integer(code, 1ULL << 63));
  sign = b.CreateSelect(odd, sign, integer(code, 0));
  result = from_bits(b.CreateXor(bits(result), sign));
  llvm::Value* undefined =
      b.CreateAnd(b.CreateAnd(usable, b.CreateFCmpOLT(x, zero)), b.CreateNot(whole));
  llvm::Value* bad = b.CreateOr(undefined, b.CreateFCmpUNO(x, y));
  result = b.CreateSelect(bad, not_a_number(x), result);
  // |x| = 1 with an infinite exponent, x = 1 and y = 0 give 1 whatever the other is.
  llvm::Value* unit =
      b.CreateAnd(b.CreateFCmpOEQ(magnitude, one), b.CreateFCmpOEQ(abs(y), number(x, infinity)));
  unit = b.CreateOr(unit, b.CreateFCmpOEQ(x, one));
  unit = b.CreateOr(unit, b.CreateFCmpOEQ(y, zero));
  return b.CreateSelect(unit, one, result);
}

// Square and multiply modulo 2^n.
llvm::Value* Lowering::integer_power(llvm::Value* x, llvm::Value* y, bool sign) {
  return outlined(sign ? "power.signed" : "power.unsigned", {x, y}, x->getType(),
                  [&](Lowering& l, llvm::ArrayRef<llvm::Value*> in) -> llvm::Value* {
                    llvm::IRBuilder<>& b = l.b;
                    llvm::Value* x = in[0];
                    llvm::Value* y = in[1];
                    llvm::Value* zero = l.integer(x, 0);
                    llvm::Value* one = l.integer(x, 1);
                    llvm::Value* negative =
                        sign ? b.CreateICmpSLT(y, zero)
                             : llvm::ConstantInt::getFalse(with_lanes(b.getInt1Ty(), x->getType()));
                    llvm::Value* count = b.CreateSelect(negative, zero, y);
                    std::vector<llvm::Value*> end = l.loop_while(
                        {count, x, one},
                        [&](llvm::ArrayRef<llvm::Value*> s) { return b.CreateICmpNE(s[0], zero); },
                        [&](llvm::ArrayRef<llvm::Value*> s) -> std::vector<llvm::Value*> {
                          llvm::Value* odd = b.CreateICmpNE(b.CreateAnd(s[0], one), zero);
                          llvm::Value* result = b.CreateSelect(odd, b.CreateMul(s[2], s[1]), s[2]);
                          return {b.CreateLShr(s[0], one), b.CreateMul(s[1], s[1]), result};
                        });
                    if (!sign) return end[2];
                    llvm::Value* minus_one = l.integer(x, ~0ULL);
                    llvm::Value* even = b.CreateICmpEQ(b.CreateAnd(y, one), zero);
                    llvm::Value* inverse = b.CreateSelect(
                        b.CreateICmpEQ(x, minus_one), b.CreateSelect(even, one, minus_one),
                        b.CreateSelect(b.CreateICmpEQ(x, one), one, zero));
                    return b.CreateSelect(negative, inverse, end[2]);
                  });
}

// fmod by long division of the mantissas, one bit a step: exact for every quotient. Then moved to
// the divisor's sign.
llvm::Value* Lowering::float_mod(llvm::Value* x, llvm::Value* y) {
  llvm::Value* rest = outlined(
      "fmod", {x, y}, x->getType(),
      [&](Lowering& l, llvm::ArrayRef<llvm::Value*> in) -> llvm::Value* {
        llvm::IRBuilder<>& b = l.b;
        bool wide = is_double(in[0]);
        int shift = wide ? 52 : 23;
        llvm::Value* x = l.abs(in[0]);
        llvm::Value* y = l.abs(in[1]);
        auto split = [&](llvm::Value* v) {  // mantissa with its leading bit, biased exponent
          llvm::Value* tiny = b.CreateFCmpOLT(v, l.number(v, wide ? 0x1p-1022 : 0x1p-126));
          llvm::Value* scaled = b.CreateFMul(v, l.number(v, wide ? 0x1p54 : 0x1p25));
          llvm::Value* code = l.bits(b.CreateSelect(tiny, scaled, v));
          llvm::Value* exponent = b.CreateSub(
              b.CreateLShr(code, l.integer(code, shift)),
              b.CreateSelect(tiny, l.integer(code, wide ? 54 : 25), l.integer(code, 0)));
          llvm::Value* m = b.CreateAnd(code, l.integer(code, (1ULL << shift) - 1));
          return std::pair(b.CreateOr(m, l.integer(code, 1ULL << shift)), exponent);
        };
        auto [mx, ex] = split(x);
        auto [my, ey] = split(y);
        llvm::Value* zero = l.integer(mx, 0);
        llvm::Constant* infinity = llvm::ConstantFP::getInfinity(x->getType());
        llvm::Value* regular =
            b.CreateAnd(b.CreateFCmpOLT(x, infinity), b.CreateFCmpOGT(y, l.number(y, 0)));
        regular = b.CreateAnd(regular, b.CreateFCmpOLT(y, infinity));
        // With x below y there is nothing to divide.
        llvm::Value* divides = b.CreateAnd(regular, b.CreateFCmpOGE(x, y));
        llvm::Value* steps = b.CreateSelect(divides, b.CreateSub(ex, ey), zero);
        auto reduce = [&](llvm::Value* r) {
          return b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, r, b.CreateSub(r, my));
        };
        std::vector<llvm::Value*> end = l.loop_while(
            {steps, mx},
            [&](llvm::ArrayRef<llvm::Value*> s) { return b.CreateICmpSGT(s[0], zero); },
            [&](llvm::ArrayRef<llvm::Value*> s) -> std::vector<llvm::Value*> {
              llvm::Value* active = b.CreateICmpSGT(s[0], zero);
              llvm::Value* r = b.CreateShl(reduce(s[1]), l.integer(mx, 1));
              return {b.CreateSub(s[0], l.integer(mx, 1)), b.CreateSelect(active, r, s[1])};
            });
        llvm::Value* r = b.CreateSIToFP(reduce(end[1]), x->getType());
        // r · 2^(ey − bias − shift), exact, by two factors since either may be denormal.
        llvm::Value* exponent = b.CreateSub(ey, l.integer(ey, (wide ? 1023 : 127) + shift));
        llvm::Value* half = b.CreateAShr(exponent, l.integer(exponent, 1));
        llvm::Value* other = b.CreateSub(exponent, half);
        auto power = [&](llvm::Value* e) {
          llvm::Value* biased = b.CreateAdd(e, l.integer(e, wide ? 1023 : 127));
          return l.from_bits(b.CreateShl(biased, l.integer(e, shift)));
        };
        r = b.CreateFMul(b.CreateFMul(r, power(half)), power(other));
        r = b.CreateSelect(divides, r, x);
        llvm::Value* bad = b.CreateOr(b.CreateFCmpUNO(x, y), b.CreateFCmpOEQ(x, infinity));
        bad = b.CreateOr(bad, b.CreateFCmpOEQ(y, l.number(y, 0)));
        return l.copysign(b.CreateSelect(bad, l.not_a_number(x), r), in[0]);
      });
  llvm::Value* zero = number(x, 0);
  llvm::Value* is_zero = b.CreateFCmpOEQ(rest, zero);
  llvm::Value* code = b.CreateXor(bits(rest), bits(y));
  llvm::Value* differs = b.CreateICmpSLT(code, integer(code, 0));
  llvm::Value* moved = b.CreateSelect(differs, b.CreateFAdd(rest, y), rest);
  return b.CreateSelect(is_zero, copysign(zero, y), moved);
}

}  // namespace kiln::compiler
