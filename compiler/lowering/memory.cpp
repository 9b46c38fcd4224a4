// How values lie in memory and how they are held in registers; constants and small helpers.

#include <cmath>

#include "compiler/lowering/lowering.h"
#include "kiln/support/error.h"

namespace kiln::compiler {

Lowering::Lowering(llvm::IRBuilder<>& builder, const Isa& isa)
    : b(builder),
      isa_(isa),
      has_rounding_(isa.avx2 || isa.features.find("+sse4.1") != std::string::npos) {}

llvm::Type* Lowering::register_type(DType dtype, int lanes) const {
  llvm::Type* scalar = nullptr;
  if (dtype == DType::bool_)
    scalar = b.getInt1Ty();
  else if (dtype.is_integral())
    scalar = b.getIntNTy(static_cast<unsigned>(dtype.size_in_bits()));
  else
    scalar = dtype == DType::float64 ? b.getDoubleTy() : b.getFloatTy();
  return lanes == 1 ? scalar : llvm::FixedVectorType::get(scalar, static_cast<unsigned>(lanes));
}

llvm::Type* Lowering::memory_type(DType dtype, int lanes) const {
  llvm::Type* scalar = nullptr;
  if (dtype == DType::float32)
    scalar = b.getFloatTy();
  else if (dtype == DType::float64)
    scalar = b.getDoubleTy();
  else
    scalar = b.getIntNTy(8u * static_cast<unsigned>(dtype.size_in_bytes()));
  return lanes == 1 ? scalar : llvm::FixedVectorType::get(scalar, static_cast<unsigned>(lanes));
}

llvm::Value* Lowering::from_memory(llvm::Value* raw, DType dtype) {
  llvm::IRBuilderBase::FastMathFlagGuard guard(b);
  b.clearFastMathFlags();
  if (dtype == DType::bool_) return b.CreateICmpNE(raw, integer(raw, 0));
  if (dtype.is_integral() || dtype == DType::float32 || dtype == DType::float64) return raw;
  if (dtype == DType::bfloat16) {
    llvm::Value* wide = b.CreateZExt(raw, with_lanes(b.getInt32Ty(), raw->getType()));
    return from_bits(b.CreateShl(wide, integer(wide, 16)));
  }
  if (dtype == DType::float16 && isa_.f16c) {
    llvm::Value* half = b.CreateBitCast(raw, with_lanes(b.getHalfTy(), raw->getType()));
    return b.CreateFPExt(half, with_lanes(b.getFloatTy(), raw->getType()));
  }
  return decode_small(raw, dtype);
}

llvm::Value* Lowering::to_memory(llvm::Value* value, DType dtype) {
  llvm::IRBuilderBase::FastMathFlagGuard guard(b);
  b.clearFastMathFlags();
  if (dtype == DType::bool_)
    return b.CreateZExt(value, with_lanes(b.getInt8Ty(), value->getType()));
  if (dtype.is_integral() || dtype == DType::float32 || dtype == DType::float64) return value;
  if (dtype == DType::bfloat16) {
    // The value is a bfloat16 already, so its low half is zero.
    llvm::Value* high = b.CreateLShr(bits(value), integer(bits(value), 16));
    return b.CreateTrunc(high, with_lanes(b.getInt16Ty(), value->getType()));
  }
  if (dtype == DType::float16) return to_float16_bits(value);
  return encode_small(value, dtype);
}

llvm::Value* Lowering::same_bits(llvm::Value* x, DType from, DType to) {
  const auto is_wide = [](DType dtype) {
    return dtype == DType::float32 || dtype == DType::float64;
  };
  if (is_wide(to)) return from_bits(x);
  if (is_wide(from)) return bits(x);
  return from.is_float() ? to_memory(x, from) : from_memory(x, to);
}

llvm::Value* Lowering::constant(DType dtype, double value, int lanes) {
  if (dtype == DType::bool_) return llvm::ConstantInt::get(register_type(dtype, lanes), value != 0);
  if (dtype.is_unsigned_integral())
    return llvm::ConstantInt::get(
        register_type(dtype, lanes),
        value >= 0 ? static_cast<std::uint64_t>(value)
                   : static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
  if (dtype.is_integral()) return integer_constant(dtype, static_cast<std::int64_t>(value), lanes);
  llvm::Value* wide = llvm::ConstantFP::get(register_type(DType::float64, lanes), value);
  return cast(wide, DType::float64, dtype);
}

llvm::Value* Lowering::integer_constant(DType dtype, std::int64_t value, int lanes) {
  if (dtype.is_float()) return constant(dtype, static_cast<double>(value), lanes);
  llvm::Type* type = register_type(dtype, lanes);
  if (dtype == DType::bool_) return llvm::ConstantInt::get(type, value != 0);
  llvm::APInt wide(64, static_cast<std::uint64_t>(value));
  return llvm::ConstantInt::get(type, wide.trunc(type->getScalarSizeInBits()));
}

llvm::Value* Lowering::splat(llvm::Value* scalar, int lanes) {
  return lanes == 1 ? scalar : b.CreateVectorSplat(static_cast<unsigned>(lanes), scalar);
}

llvm::Constant* Lowering::number(llvm::Value* like, double value) {
  return llvm::ConstantFP::get(like->getType(), value);
}

llvm::Constant* Lowering::integer(llvm::Value* like, std::uint64_t value) {
  llvm::APInt wide(64, value);
  return llvm::ConstantInt::get(like->getType(),
                                wide.trunc(like->getType()->getScalarSizeInBits()));
}

llvm::Type* Lowering::with_lanes(llvm::Type* scalar, llvm::Type* like) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(like);
  return vector ? llvm::FixedVectorType::get(scalar, vector->getNumElements()) : scalar;
}

llvm::Type* Lowering::integer_type(llvm::Value* like) {
  llvm::Type* type = like->getType();
  return with_lanes(b.getIntNTy(type->getScalarSizeInBits()), type);
}

llvm::Value* Lowering::bits(llvm::Value* x) { return b.CreateBitCast(x, integer_type(x)); }

llvm::Value* Lowering::from_bits(llvm::Value* x) {
  llvm::Type* scalar = x->getType()->getScalarSizeInBits() == 64 ? b.getDoubleTy() : b.getFloatTy();
  return b.CreateBitCast(x, with_lanes(scalar, x->getType()));
}

bool Lowering::is_double(llvm::Value* x) { return x->getType()->getScalarType()->isDoubleTy(); }

llvm::Value* Lowering::intrinsic(llvm::Intrinsic::ID id, llvm::Value* x) {
  return b.CreateUnaryIntrinsic(id, x);
}

llvm::Value* Lowering::select(llvm::Value* condition, llvm::Value* x, llvm::Value* y) {
  return b.CreateSelect(condition, x, y);
}

}  // namespace kiln::compiler
