#include <llvm/IR/Intrinsics.h>

#include "emulator/execute/rounding.h"
#include "emulator/translate/arithmetic.h"
#include "kiln/support/format.h"

// cvt. Conversions that LLVM has no exact instruction for (directed rounding, fp8, tf32, packing)
// are calls of the runtime, which rounds in integers.

namespace kiln::emulator::forms {
namespace {

using llvm::Value;
using Kind = ptx::Type::Kind;

struct Form {
  int rounding = -1;  // 0 .rn, 1 .rm, 2 .rp, 3 .rz, 4 .rna; -1 none
  int integral = -1;  // 0 .rni, 1 .rmi, 2 .rpi, 3 .rzi
  bool ftz = false, sat = false, relu = false, satfinite = false;
  ptx::Type to, from;
  // Formats that are no types of registers.
  SmallFormat small_to = SmallFormat::none, small_from = SmallFormat::none;
};

SmallFormat take_small(Modifiers& modifiers) {
  if (modifiers.take_if(".e4m3x2")) return SmallFormat::e4m3;
  if (modifiers.take_if(".e5m2x2")) return SmallFormat::e5m2;
  return modifiers.take_if(".tf32") ? SmallFormat::tf32 : SmallFormat::none;
}

Form parse(FunctionTranslator& f, Modifiers& modifiers) {
  Form form;
  form.rounding = modifiers.take_one_of(".rn", ".rm", ".rp", ".rz", ".rna");
  if (form.rounding < 0) form.integral = modifiers.take_one_of(".rni", ".rmi", ".rpi", ".rzi");
  for (;;) {
    bool* flag = nullptr;
    if (modifiers.peek() == ".ftz")
      flag = &form.ftz;
    else if (modifiers.peek() == ".sat")
      flag = &form.sat;
    else if (modifiers.peek() == ".relu")
      flag = &form.relu;
    else if (modifiers.peek() == ".satfinite")
      flag = &form.satfinite;
    if (flag == nullptr) break;
    if (*flag) f.invalid("a modifier is repeated");
    *flag = true;
    modifiers.take();
  }
  form.small_to = take_small(modifiers);
  if (form.small_to == SmallFormat::none) form.to = f.take_type(modifiers);
  form.small_from = take_small(modifiers);
  if (form.small_from == SmallFormat::none) form.from = f.take_type(modifiers);
  return form;
}

void refuse(FunctionTranslator& f, bool condition) {
  if (condition) f.unsupported("this combination of modifiers is not implemented");
}

Value* clamp_integer(FunctionTranslator& f, Value* value, ptx::Type from, ptx::Type to) {
  // In one bit more than both have, every bound and value is a signed number.
  auto& b = f.builder();
  const unsigned width = std::max(from.bits, to.bits) + 1U;
  llvm::Type* wide = b.getIntNTy(width);
  value = from.is_signed() ? b.CreateSExt(value, wide) : b.CreateZExt(value, wide);
  const auto highest = to.is_signed() ? llvm::APInt::getSignedMaxValue(to.bits).zext(width)
                                      : llvm::APInt::getMaxValue(to.bits).zext(width);
  const auto lowest =
      to.is_signed() ? llvm::APInt::getSignedMinValue(to.bits).sext(width) : llvm::APInt(width, 0);
  value = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, value, b.getInt(highest));
  value = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, value, b.getInt(lowest));
  return b.CreateTrunc(value, f.int_type(to.bits));
}

void integer_to_integer(FunctionTranslator& f, const Form& form) {
  refuse(f, form.rounding >= 0 || form.integral >= 0 || form.ftz || form.relu || form.satfinite);
  auto& b = f.builder();
  Value* value = f.read(1, form.from, true);
  if (form.sat)
    value = clamp_integer(f, value, form.from, form.to);
  else if (form.from.is_signed())
    value = b.CreateSExtOrTrunc(value, f.int_type(form.to.bits));
  else
    value = b.CreateZExtOrTrunc(value, f.int_type(form.to.bits));
  f.write(0, value, form.to, true);
}

Value* round_to_integral(FunctionTranslator& f, Value* value, int mode) {
  constexpr llvm::Intrinsic::ID kIntrinsics[] = {llvm::Intrinsic::roundeven, llvm::Intrinsic::floor,
                                                 llvm::Intrinsic::ceil, llvm::Intrinsic::trunc};
  return f.builder().CreateUnaryIntrinsic(kIntrinsics[mode], value);
}

// The source as a float or double of its own precision.
Value* read_real(FunctionTranslator& f, const Form& form) {
  Value* value = f.read(1, form.from, form.from.bits == 16);
  if (form.from.bits == 16) return widen(f, value, form.from);
  return form.ftz && form.from.bits == 32 ? flush(f, value) : value;
}

// Out of range gives the nearest bound. NaN gives 0, or where 64 bits are involved the top bit.
void real_to_integer(FunctionTranslator& f, const Form& form) {
  refuse(f, form.integral < 0 || form.relu || form.satfinite);
  refuse(f, form.ftz && form.from.bits != 32);
  auto& b = f.builder();
  Value* value = round_to_integral(f, read_real(f, form), form.integral);
  llvm::Type* target = f.int_type(form.to.bits);
  const auto id = form.to.is_signed() ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat;
  Value* result = b.CreateIntrinsic(id, {target, value->getType()}, {value});
  if (form.from.bits == 64 || form.to.bits == 64)
    result = b.CreateSelect(b.CreateFCmpUNO(value, value),
                            b.getInt(llvm::APInt::getSignedMinValue(form.to.bits)), result);
  f.write(0, result, form.to, true);
}

Value* call_narrow(FunctionTranslator& f, Value* value, SmallFormat format, int mode,
                   bool saturate) {
  auto& b = f.builder();
  if (value->getType()->isFloatTy()) value = b.CreateFPExt(value, b.getDoubleTy());
  return f.call("kiln_narrow", b.getInt32Ty(),
                {value, b.getInt32(static_cast<unsigned>(format)),
                 b.getInt32(static_cast<unsigned>(mode)), b.getInt32(saturate)});
}

SmallFormat format_of(ptx::Type type) {
  if (type.kind == Kind::bfloat) return SmallFormat::bf16;
  return type.bits == 16 ? SmallFormat::f16 : type.bits == 32 ? SmallFormat::f32 : SmallFormat::f64;
}

void integer_to_real(FunctionTranslator& f, const Form& form) {
  refuse(f, form.rounding < 0 || form.rounding == 4 || form.integral >= 0 || form.relu ||
                form.satfinite || form.ftz);
  auto& b = f.builder();
  Value* value = f.read(1, form.from, true);
  const bool is_signed = form.from.is_signed();
  Value* result = nullptr;
  const bool plain = form.rounding == 0 && form.to.kind == Kind::real;
  if (plain) {
    llvm::Type* type = form.to.bits == 64 ? b.getDoubleTy() : b.getFloatTy();
    result = is_signed ? b.CreateSIToFP(value, type) : b.CreateUIToFP(value, type);
    // Halves end at 65504, so what .f32 does not hold exactly overflows anyway.
    if (form.sat) result = saturate(f, result);
    if (form.to.bits == 16) result = narrow(f, result, form.to);
  } else {
    Value* wide =
        is_signed ? b.CreateSExt(value, b.getInt64Ty()) : b.CreateZExt(value, b.getInt64Ty());
    Value* bits =
        f.call("kiln_round_integer", b.getInt64Ty(),
               {wide, b.getInt32(is_signed), b.getInt32(static_cast<unsigned>(format_of(form.to))),
                b.getInt32(static_cast<unsigned>(form.rounding))});
    refuse(f, form.sat);
    result = f.from_bits(b.CreateTrunc(bits, f.int_type(form.to.bits)), form.to);
  }
  f.write(0, result, form.to, form.to.bits == 16);
}

// One lane of a conversion to .f16 or .bf16 from a float or double.
Value* to_half(FunctionTranslator& f, const Form& form, Value* value, ptx::Type lane) {
  auto& b = f.builder();
  if (form.relu) {
    Value* zero = llvm::ConstantFP::get(value->getType(), 0.0);
    value = b.CreateSelect(b.CreateFCmpULE(value, zero),
                           b.CreateSelect(b.CreateFCmpUNO(value, value), value, zero), value);
  }
  if (form.sat) value = saturate(f, value);
  const int mode = form.rounding < 0 ? 0 : form.rounding;
  if (mode == 0 && !form.satfinite && value->getType()->isFloatTy()) return narrow(f, value, lane);
  return b.CreateTrunc(call_narrow(f, value, format_of(lane), mode, form.satfinite),
                       b.getInt16Ty());
}

void real_to_real(FunctionTranslator& f, const Form& form) {
  auto& b = f.builder();
  const unsigned to = form.to.bits, from = form.from.bits;
  const bool same = to == from && form.to.kind == form.from.kind;
  refuse(f, form.rounding == 4);
  refuse(f, (form.relu || form.satfinite) && to != 16);
  refuse(f, form.integral >= 0 && !same);
  // Narrowing needs a rounding mode, everything else must have none.
  refuse(f, (to < from || (to == 16 && !same)) != (form.rounding >= 0));
  Value* value = read_real(f, form);
  if (form.integral >= 0) value = round_to_integral(f, value, form.integral);
  Value* result = nullptr;
  if (to == 16) {
    result = to_half(f, form, value, form.to);
  } else if (to == 32 && from == 64) {
    result = form.rounding == 0
                 ? b.CreateFPTrunc(value, b.getFloatTy())
                 : b.CreateBitCast(call_narrow(f, value, SmallFormat::f32, form.rounding, false),
                                   b.getFloatTy());
    if (form.ftz) result = flush(f, result);
    if (form.sat) result = saturate(f, result);
  } else {
    result = to == 64 ? b.CreateFPExt(value, b.getDoubleTy()) : value;
    if (form.sat) result = saturate(f, result);
  }
  f.write(0, result, form.to, to == 16);
}

// cvt.rn.f16x2.f32 d, a, b: a becomes the high lane.
void pair_to_packed(FunctionTranslator& f, const Form& form) {
  refuse(f, form.rounding != 0 && form.rounding != 3);
  refuse(f,
         form.integral >= 0 || form.ftz || form.sat || !(form.from == ptx::Type{Kind::real, 32}));
  ptx::Type lane = form.to;
  lane.lanes = 1;
  Value* high = to_half(f, form, f.read(1, form.from), lane);
  Value* low = to_half(f, form, f.read(2, form.from), lane);
  f.write(0, pack(f, low, high), form.to);
}

// To and from two numbers of 8 bits in 16.
void to_eight_bits(FunctionTranslator& f, const Form& form) {
  refuse(f, form.rounding != 0 || !form.satfinite || form.integral >= 0 || form.ftz || form.sat);
  auto& b = f.builder();
  Value *low = nullptr, *high = nullptr;
  const ptx::Type single{Kind::real, 32}, packed{Kind::real, 16, 2};
  if (form.from == single) {
    if (f.num_operands() != 3) f.invalid("two sources are expected");
    high = f.read(1, single);
    low = f.read(2, single);
  } else {
    refuse(f, !(form.from == packed));
    if (f.num_operands() != 2) f.invalid("one source is expected");
    const auto lanes = unpack(f, f.read(1, packed));
    low = widen(f, lanes[0], {Kind::real, 16});
    high = widen(f, lanes[1], {Kind::real, 16});
  }
  const auto one = [&](Value* value) {
    if (form.relu) {
      Value* zero = llvm::ConstantFP::get(value->getType(), 0.0);
      value = b.CreateSelect(b.CreateFCmpULE(value, zero),
                             b.CreateSelect(b.CreateFCmpUNO(value, value), value, zero), value);
    }
    return b.CreateTrunc(call_narrow(f, value, form.small_to, 0, true), b.getInt8Ty());
  };
  Value* first = one(low);
  f.write(0, pack(f, first, one(high)), {Kind::bits, 16}, true);
}

void from_eight_bits(FunctionTranslator& f, const Form& form) {
  refuse(f, form.rounding != 0 || form.satfinite || form.integral >= 0 || form.ftz || form.sat);
  refuse(f, !(form.to == ptx::Type{Kind::real, 16, 2}));
  if (f.num_operands() != 2) f.invalid("one source is expected");
  auto& b = f.builder();
  const auto bytes = unpack(f, f.read(1, {Kind::bits, 16}, true));
  const auto one = [&](Value* byte) -> Value* {
    Value* half = f.call(
        "kiln_widen_byte", b.getInt32Ty(),
        {b.CreateZExt(byte, b.getInt32Ty()), b.getInt32(static_cast<unsigned>(form.small_from))});
    half = b.CreateTrunc(half, b.getInt16Ty());
    if (!form.relu) return half;
    Value* negative = b.CreateICmpSLT(half, b.getInt16(0));
    Value* magnitude = b.CreateAnd(half, b.getInt16(0x7fff));
    Value* nan = b.CreateICmpUGT(magnitude, b.getInt16(0x7c00));
    return b.CreateSelect(b.CreateAnd(negative, b.CreateNot(nan)), b.getInt16(0), half);
  };
  Value* low = one(bytes[0]);
  f.write(0, pack(f, low, one(bytes[1])), form.to);
}

void to_tf32(FunctionTranslator& f, const Form& form) {
  refuse(f, form.integral >= 0 || form.ftz || form.sat);
  refuse(f, form.rounding != 4 && form.rounding != 0 && form.rounding != 3);
  refuse(f, !(form.from == ptx::Type{Kind::real, 32}));
  if (f.num_operands() != 2) f.invalid("one source is expected");
  auto& b = f.builder();
  Value* bits =
      call_narrow(f, f.read(1, form.from), SmallFormat::tf32, form.rounding, form.satfinite);
  if (form.relu) {
    Value* nan = b.CreateICmpUGT(b.CreateAnd(bits, 0x7fffffff), b.getInt32(0x7f800000));
    Value* negative = b.CreateAnd(b.CreateICmpSLT(bits, b.getInt32(0)), b.CreateNot(nan));
    bits = b.CreateSelect(negative, b.getInt32(0), bits);
  }
  f.write(0, bits, {Kind::bits, 32});
}

// cvt.pack.sat.u16.s32 d, a, b and cvt.pack.sat.u8.s32.b32 d, a, b, c
void pack_integers(FunctionTranslator& f, Modifiers modifiers) {
  if (!modifiers.take_if(".sat")) f.invalid("'.sat' is expected");
  const int target = modifiers.take_one_of(".u16", ".s16", ".u8", ".s8");
  if (target < 0 || !modifiers.take_if(".s32")) f.unsupported("this form is not implemented");
  const bool bytes = target >= 2;
  if (bytes && !modifiers.take_if(".b32")) f.unsupported("'.b32' is expected");
  f.finish(modifiers, bytes ? 4 : 3);
  auto& b = f.builder();
  const ptx::Type from{Kind::signed_integer, 32};
  const ptx::Type to{target % 2 == 1 ? Kind::signed_integer : Kind::unsigned_integer,
                     static_cast<std::uint8_t>(bytes ? 8 : 16)};
  const auto one = [&](std::size_t index) {
    return b.CreateZExt(clamp_integer(f, f.read(index, from), from, to), b.getInt32Ty());
  };
  Value* result = b.CreateOr(b.CreateShl(one(1), to.bits), one(2));
  if (bytes) result = b.CreateOr(result, b.CreateShl(f.read(3, {Kind::bits, 32}), 16));
  f.write(0, result, {Kind::bits, 32});
}

void cvt(FunctionTranslator& f, Modifiers modifiers) {
  if (modifiers.take_if(".pack")) return pack_integers(f, modifiers);
  const Form form = parse(f, modifiers);
  const bool eight = form.small_to == SmallFormat::e4m3 || form.small_to == SmallFormat::e5m2;
  const bool packed = form.to.lanes == 2 && form.small_from == SmallFormat::none;
  f.finish(modifiers, eight ? f.num_operands() : packed ? 3 : 2);
  if (eight) return to_eight_bits(f, form);
  if (form.small_to == SmallFormat::tf32) return to_tf32(f, form);
  if (form.small_from != SmallFormat::none) {
    refuse(f, form.small_from == SmallFormat::tf32);
    return from_eight_bits(f, form);
  }
  if (form.to.kind == Kind::pred || form.from.kind == Kind::pred || form.to.bits > 64 ||
      form.from.bits > 64 || form.from.lanes == 2 || form.to.kind == Kind::bits ||
      form.from.kind == Kind::bits)
    f.unsupported("this conversion is not implemented");
  if (form.to.lanes == 2) {
    refuse(f, !form.to.is_real());
    return pair_to_packed(f, form);
  }
  if (form.to.is_real() && form.from.is_real()) return real_to_real(f, form);
  if (form.to.is_real()) return integer_to_real(f, form);
  if (form.from.is_real()) return real_to_integer(f, form);
  integer_to_integer(f, form);
}

}  // namespace

void add_convert(Table& table) { table.insert({{"cvt", cvt}}); }

}  // namespace kiln::emulator::forms
