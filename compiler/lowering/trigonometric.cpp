// sin, cos and acos.
//
// The argument is reduced to [−π/4, π/4] in double: up to 2^20 by subtracting the multiple of π/2
// in parts that multiply exactly, beyond by multiplying with the bits of 2/π that matter (Payne and
// Hanek), in a function of its own that does nothing when no lane is that large.

#include <array>
#include <cstdint>

#include "compiler/lowering/lowering.h"

namespace kiln::compiler {
namespace {

// 2/π = 0.A2F9836E…₁₆, 32 bits a word: enough for every double and what is read beyond.
constexpr std::array<std::uint32_t, 42> kTwoOverPi = {
    0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB,
    0xDEBBC561, 0xB7246E3A, 0x424DD2E0, 0x06492EEA, 0x09D1921C, 0xFE1DEB1C, 0xB129A73E,
    0xE88235F5, 0x2EBB4484, 0xE99C7026, 0xB45F7E41, 0x3991D639, 0x835339F4, 0x9C845F8B,
    0xBDF9283B, 0x1FF897FF, 0xDE05980F, 0xEF2F118B, 0x5A0A6D1F, 0x6D367ECF, 0x27CB09B7,
    0x4F463F66, 0x9E5FEA2D, 0x7527BAC7, 0xEBE5F17B, 0x3D0739F7, 0x8A5292EA, 0x6BFB5FB1,
    0x1F8D5D08, 0x56033046, 0xFC7B6BAB, 0xF0CFBC20, 0x9AF4361D, 0xA9E39161, 0x5EE61B08};

constexpr double kLargest = 0x1p20;  // the bound of the simple reduction

}  // namespace

Lowering::Reduced Lowering::reduce_angle(llvm::Value* x) {
  // π/2 in parts of 33 bits: their products with an integer below 2^20 are exact.
  llvm::Constant* anchor = number(x, 0x1.8p52);
  llvm::Value* is_large = b.CreateFCmpUGE(abs(x), number(x, kLargest));
  llvm::Value* small = b.CreateSelect(is_large, number(x, 0), x);
  llvm::Value* shifted =
      b.CreateFAdd(b.CreateFMul(small, number(x, 6.36619772367581382433e-01)), anchor);
  llvm::Value* n = b.CreateFSub(shifted, anchor);
  llvm::Value* first = b.CreateFSub(small, b.CreateFMul(n, number(x, 1.57079632673412561417e+00)));
  Double second =
      two_sum(first, b.CreateFNeg(b.CreateFMul(n, number(x, 6.07710050630396597660e-11))));
  Double third =
      two_sum(second.hi, b.CreateFNeg(b.CreateFMul(n, number(x, 2.02226624871116645580e-21))));
  llvm::Value* low = b.CreateFSub(b.CreateFAdd(second.lo, third.lo),
                                  b.CreateFMul(n, number(x, 8.47842766036889956997e-32)));
  Double angle = fast_two_sum(third.hi, low);
  llvm::Value* quadrant = bits(shifted);

  Reduced large = reduce_large_angle(x);
  return {{b.CreateSelect(is_large, large.angle.hi, angle.hi),
           b.CreateSelect(is_large, large.angle.lo, angle.lo)},
          b.CreateSelect(is_large, large.quadrant, quadrant)};
}

Lowering::Reduced Lowering::reduce_large_angle(llvm::Value* x) {
  llvm::Type* integers = integer_type(x);
  auto* result = llvm::StructType::get(x->getType(), x->getType(), integers);
  llvm::Value* parts =
      outlined("reduce_angle", {x}, result, [&](Lowering& l, llvm::ArrayRef<llvm::Value*> in) {
        llvm::Value* x = in[0];
        llvm::IRBuilder<>& b = l.b;
        llvm::Function* function = b.GetInsertBlock()->getParent();
        llvm::LLVMContext& context = b.getContext();
        auto* work = llvm::BasicBlock::Create(context, "large", function);
        auto* done = llvm::BasicBlock::Create(context, "done", function);
        llvm::BasicBlock* entry = b.GetInsertBlock();
        llvm::Value* is_large = b.CreateFCmpOGE(l.abs(x), l.number(x, kLargest));
        b.CreateCondBr(l.any(is_large), work, done);

        b.SetInsertPoint(work);
        auto* table_type = llvm::ArrayType::get(b.getInt32Ty(), kTwoOverPi.size());
        llvm::Module* module = function->getParent();
        llvm::GlobalVariable* table = module->getNamedGlobal("kiln.two_over_pi");
        if (!table) {
          table = new llvm::GlobalVariable(
              *module, table_type, true, llvm::GlobalValue::InternalLinkage,
              llvm::ConstantDataArray::get(context, kTwoOverPi), "kiln.two_over_pi");
          table->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
        }
        llvm::Value* code = l.bits(x);
        auto lanes = [&](std::uint64_t value) { return l.integer(code, value); };
        // x = ±m · 2^e with an integer m of 53 bits. Bit k of 2/π weighs 2^−k; those with k ≤ e − 2
        // contribute multiples of 4 and are skipped.
        llvm::Value* exponent = b.CreateAnd(b.CreateLShr(code, lanes(52)), lanes(0x7ff));
        exponent = b.CreateSelect(is_large, exponent, lanes(1023 + 20));
        llvm::Value* m = b.CreateOr(b.CreateAnd(code, lanes((1ULL << 52) - 1)), lanes(1ULL << 52));
        // e − 2 skipped bits, with 64 zero bits put before the table to keep the count positive.
        llvm::Value* skip = b.CreateSub(exponent, lanes(1023 + 52 + 2 - 64));
        llvm::Value* word = b.CreateLShr(skip, lanes(5));
        llvm::Value* shift = b.CreateAnd(skip, lanes(31));
        // Seven words from the table: 192 bits at any shift.
        constexpr int kWords = 6;
        std::vector<llvm::Value*> raw;
        for (int i = 0; i <= kWords; ++i) raw.push_back(l.gather(table, word, i - 2));
        std::vector<llvm::Value*> w;  // w[0] is the most significant
        for (int i = 0; i < kWords; ++i) {
          llvm::Value* pair = b.CreateOr(b.CreateShl(raw[static_cast<std::size_t>(i)], lanes(32)),
                                         raw[static_cast<std::size_t>(i) + 1]);
          w.push_back(b.CreateLShr(b.CreateShl(pair, shift), lanes(32)));
        }
        // The product modulo 2^192, in words of 32 bits, least significant first.
        llvm::Value* low_half = b.CreateAnd(m, lanes(0xffffffff));
        llvm::Value* high_half = b.CreateLShr(m, lanes(32));
        std::vector<llvm::Value*> digits;
        llvm::Value* carry = lanes(0);
        llvm::Value* pending = lanes(0);
        for (int i = kWords - 1; i >= 0; --i) {
          llvm::Value* digit = w[static_cast<std::size_t>(i)];
          llvm::Value* product = b.CreateMul(digit, low_half);
          llvm::Value* sum = b.CreateAdd(b.CreateAnd(product, lanes(0xffffffff)), carry);
          sum = b.CreateAdd(sum, pending);
          digits.push_back(b.CreateAnd(sum, lanes(0xffffffff)));
          // high_half has 21 bits: its product with a word fits beside the carries.
          pending = b.CreateMul(digit, high_half);
          carry = b.CreateAdd(b.CreateLShr(sum, lanes(32)), b.CreateLShr(product, lanes(32)));
        }
        // digits[5] holds 2 bits of quadrant, then the fraction. Round to the nearest quadrant.
        llvm::Value* top = b.CreateOr(b.CreateShl(digits[5], lanes(32)), digits[4]);
        llvm::Value* next = b.CreateOr(b.CreateShl(digits[3], lanes(32)), digits[2]);
        llvm::Value* quadrant =
            b.CreateLShr(b.CreateAdd(b.CreateLShr(top, lanes(61)), lanes(1)), lanes(1));
        // The fraction in [−½, ½) as a signed 128-bit number hi:lo.
        llvm::Value* hi = b.CreateOr(b.CreateShl(top, lanes(2)), b.CreateLShr(next, lanes(62)));
        llvm::Value* lo =
            b.CreateOr(b.CreateShl(next, lanes(2)), b.CreateLShr(digits[1], lanes(30)));
        llvm::Value* negative = b.CreateICmpSLT(hi, lanes(0));
        llvm::Value* flip = b.CreateSExt(negative, code->getType());
        // One's complement is close enough: it is off by 2^−128.
        hi = b.CreateXor(hi, flip);
        lo = b.CreateXor(lo, flip);
        // Normalise before converting: close to a multiple of π/2 the leading bits are zero.
        llvm::Value* zeros = b.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, hi, b.getFalse());
        zeros = b.CreateBinaryIntrinsic(llvm::Intrinsic::umin, zeros, lanes(63));
        llvm::Value* low_part =
            b.CreateLShr(b.CreateLShr(lo, lanes(1)), b.CreateSub(lanes(63), zeros));
        hi = b.CreateOr(b.CreateShl(hi, zeros), low_part);
        lo = b.CreateShl(lo, zeros);
        // 53 bits each: hi's upper 53, then its lower 11 with lo's upper 42.
        auto to_double = [&](llvm::Value* v) {  // below 2^53
          llvm::Value* upper =
              l.from_bits(b.CreateOr(b.CreateLShr(v, lanes(32)), lanes(0x4530000000000000ULL)));
          llvm::Value* lower = l.from_bits(
              b.CreateOr(b.CreateAnd(v, lanes(0xffffffff)), lanes(0x4330000000000000ULL)));
          return b.CreateFAdd(b.CreateFSub(upper, l.number(x, 0x1p84 + 0x1p52)), lower);
        };
        llvm::Value* head = to_double(b.CreateLShr(hi, lanes(11)));
        llvm::Value* tail = to_double(b.CreateOr(
            b.CreateShl(b.CreateAnd(hi, lanes(0x7ff)), lanes(42)), b.CreateLShr(lo, lanes(22))));
        llvm::Value* unit =
            l.from_bits(b.CreateShl(b.CreateSub(lanes(1023 - 53), zeros), lanes(52)));
        head = b.CreateFMul(head, unit);
        tail = b.CreateFMul(b.CreateFMul(tail, l.number(x, 0x1p-53)), unit);
        Double fraction = l.fast_two_sum(head, tail);
        Double angle = l.product(fraction, {l.number(x, 1.57079632679489655800e+00),
                                            l.number(x, 6.12323399573676603587e-17)});
        // The signs of the fraction and of x.
        llvm::Value* sign = b.CreateAnd(b.CreateXor(flip, code), lanes(0x8000000000000000ULL));
        llvm::Value* angle_hi = l.from_bits(b.CreateXor(l.bits(angle.hi), sign));
        llvm::Value* angle_lo = l.from_bits(b.CreateXor(l.bits(angle.lo), sign));
        quadrant = b.CreateSelect(b.CreateICmpSLT(code, lanes(0)), b.CreateSub(lanes(0), quadrant),
                                  quadrant);
        // Infinity and NaN.
        llvm::Value* finite =
            b.CreateFCmpOLT(l.abs(x), llvm::ConstantFP::getInfinity(x->getType()));
        angle_hi = b.CreateSelect(finite, angle_hi, l.not_a_number(x));
        llvm::BasicBlock* last = b.GetInsertBlock();
        b.CreateBr(done);

        b.SetInsertPoint(done);
        auto merge = [&](llvm::Value* computed, llvm::Value* otherwise) {
          auto* phi = b.CreatePHI(computed->getType(), 2);
          phi->addIncoming(computed, last);
          phi->addIncoming(otherwise, entry);
          return phi;
        };
        llvm::Value* phi_hi = merge(angle_hi, l.not_a_number(x));
        llvm::Value* phi_lo = merge(angle_lo, l.number(x, 0));
        llvm::Value* phi_quadrant = merge(quadrant, lanes(0));
        llvm::Value* all = llvm::PoisonValue::get(result);
        all = b.CreateInsertValue(all, phi_hi, 0);
        all = b.CreateInsertValue(all, phi_lo, 1);
        return b.CreateInsertValue(all, phi_quadrant, 2);
      });
  return {{b.CreateExtractValue(parts, 0), b.CreateExtractValue(parts, 1)},
          b.CreateExtractValue(parts, 2)};
}

// table[index + offset], zero before its beginning, as 64-bit lanes.
llvm::Value* Lowering::gather(llvm::GlobalVariable* table, llvm::Value* index, int offset) {
  llvm::Value* place = b.CreateAdd(index, integer(index, static_cast<std::uint64_t>(offset)));
  llvm::Value* before = b.CreateICmpSLT(place, integer(place, 0));
  llvm::Value* inside = b.CreateSelect(before, integer(place, 0), place);
  auto load = [&](llvm::Value* at) {
    llvm::Value* address = b.CreateInBoundsGEP(table->getValueType(), table, {b.getInt64(0), at});
    return b.CreateZExt(b.CreateLoad(b.getInt32Ty(), address), b.getInt64Ty());
  };
  llvm::Value* words = nullptr;
  if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(index->getType())) {
    words = llvm::PoisonValue::get(index->getType());
    for (unsigned i = 0; i < vector->getNumElements(); ++i)
      words = b.CreateInsertElement(words, load(b.CreateExtractElement(inside, i)), i);
  } else {
    words = load(inside);
  }
  return b.CreateSelect(before, integer(words, 0), words);
}

llvm::Value* Lowering::sine(llvm::Value* x, bool cosine) {
  bool wide = is_double(x);
  Reduced reduced = reduce_angle(wide ? x : widen(x));
  llvm::Value* quadrant = reduced.quadrant;
  if (cosine) quadrant = b.CreateAdd(quadrant, integer(quadrant, 1));
  llvm::Value* odd = nullptr;
  llvm::Value* sign = nullptr;
  llvm::Value* sin = nullptr;
  llvm::Value* cos = nullptr;
  if (wide) {
    llvm::Value* r = reduced.angle.hi;
    llvm::Value* low = reduced.angle.lo;
    llvm::Value* z = b.CreateFMul(r, r);
    // sin(r + low) ≈ r + (S·r³ + low·(1 − z/2)).
    llvm::Value* half = b.CreateFMul(z, number(x, 0.5));
    llvm::Value* s = polynomial(
        z, {1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06,
            -1.98412698298579493134e-04, 8.33333333332248946124e-03, -1.66666666666666324348e-01});
    llvm::Value* correction = fma(b.CreateFNeg(low), half, low);
    sin = b.CreateFAdd(r, fma(b.CreateFMul(z, r), s, correction));
    // cos(r + low) ≈ 1 − z/2 + (C·z² − r·low).
    llvm::Value* c = polynomial(
        z, {-1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07,
            2.48015872894767294178e-05, -1.38888888888741095749e-03, 4.16666666666666019037e-02});
    llvm::Value* w = b.CreateFSub(number(x, 1), half);
    llvm::Value* lost = b.CreateFSub(b.CreateFSub(number(x, 1), w), half);
    lost = fma(b.CreateFNeg(r), low, lost);
    cos = b.CreateFAdd(w, fma(b.CreateFMul(z, z), c, lost));
  } else {
    llvm::Value* r = narrow(reduced.angle.hi);
    quadrant = b.CreateTrunc(quadrant, integer_type(x));
    llvm::Value* z = b.CreateFMul(r, r);
    llvm::Value* s = polynomial(z, {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1});
    sin = fma(b.CreateFMul(z, r), s, r);
    llvm::Value* c =
        polynomial(z, {2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2});
    cos = b.CreateFAdd(fma(b.CreateFMul(z, z), c, b.CreateFMul(z, number(x, -0.5))), number(x, 1));
  }
  odd = b.CreateICmpNE(b.CreateAnd(quadrant, integer(quadrant, 1)), integer(quadrant, 0));
  int top = wide ? 62 : 30;
  sign = b.CreateShl(b.CreateAnd(quadrant, integer(quadrant, 2)), integer(quadrant, top));
  llvm::Value* chosen = b.CreateSelect(odd, cos, sin);
  llvm::Value* result = from_bits(b.CreateXor(bits(chosen), sign));
  // The sine of a denormal or of −0 is itself.
  if (cosine) return result;
  return b.CreateSelect(b.CreateFCmpOLT(abs(x), number(x, wide ? 0x1p-30 : 0x1p-15)), x, result);
}

// asin on [0, ½] by a polynomial; above, acos x = 2·asin(√((1 − x)/2)).
llvm::Value* Lowering::acos(llvm::Value* x) {
  bool wide = is_double(x);
  llvm::Value* clamped = quick_min(number(x, 1), quick_max(number(x, -1), x));
  llvm::Value* a = abs(clamped);
  llvm::Value* is_large = b.CreateFCmpOGT(a, number(x, 0.5));
  llvm::Value* halved = b.CreateFMul(b.CreateFSub(number(x, 1), a), number(x, 0.5));
  llvm::Value* z = b.CreateSelect(is_large, halved, b.CreateFMul(a, a));
  llvm::Value* s = b.CreateSelect(is_large, intrinsic(llvm::Intrinsic::sqrt, z), a);
  llvm::Value* r = nullptr;
  if (wide) {
    llvm::Value* p = polynomial(
        z, {3.47933107596021167570e-05, 7.91534994289814532176e-04, -4.00555345006794114027e-02,
            2.01212532134862925881e-01, -3.25565818622400915405e-01, 1.66666666666666657415e-01});
    llvm::Value* q = polynomial(z, {7.70381505559019352791e-02, -6.88283971605453293030e-01,
                                    2.02094576023350569471e+00, -2.40339491173441421878e+00, 1});
    r = b.CreateFDiv(p, q);
  } else {
    r = polynomial(
        z, {4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1});
  }
  llvm::Value* asin = fma(b.CreateFMul(s, z), r, s);
  llvm::Value* negative = b.CreateFCmpOLT(clamped, number(x, 0));
  llvm::Value* twice = b.CreateFMul(asin, number(x, 2));
  double pi = 3.14159265358979323846;
  double pi_low = wide ? 1.22464679914735320717e-16 : -8.74227765734758577e-8;
  // π as two numbers: the sum is rounded once.
  llvm::Value* obtuse = b.CreateFAdd(b.CreateFSub(number(x, pi_low), twice), number(x, pi));
  llvm::Value* large = b.CreateSelect(negative, obtuse, twice);
  llvm::Value* small =
      b.CreateFAdd(b.CreateFSub(number(x, pi_low / 2), copysign(asin, clamped)), number(x, pi / 2));
  return b.CreateSelect(is_large, large, small);
}

}  // namespace kiln::compiler
