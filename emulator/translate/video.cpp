#include "emulator/translate/forms.h"
#include "kiln/support/format.h"

// The video instructions that CUDA's functions for packed bytes and halves use: vadd2, vsub4 and so
// on, over whole words, with an optional sum of the lanes.

namespace kiln::emulator::forms {
namespace {

using llvm::Value;
using Kind = ptx::Type::Kind;

enum class Op { add, sub, absdiff, average, min, max };

Value* clamp(FunctionTranslator& f, Value* value, unsigned bits, bool is_signed) {
  auto& b = f.builder();
  const std::int64_t low = is_signed ? -(std::int64_t{1} << (bits - 1)) : 0;
  const std::int64_t high = low + (std::int64_t{1} << bits) - 1;
  value = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, value, b.getInt64(high));
  return b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, value, b.getInt64(low));
}

Value* compute(FunctionTranslator& f, Op op, Value* x, Value* y) {
  auto& b = f.builder();
  switch (op) {
    case Op::add:
      return b.CreateAdd(x, y);
    case Op::sub:
      return b.CreateSub(x, y);
    case Op::absdiff:
      return b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, b.CreateSub(x, y), b.getInt1(false));
    case Op::average:
      // Rounded away from zero where a half is left.
      {
        Value* sum = b.CreateAdd(x, y);
        Value* up =
            b.CreateSelect(b.CreateICmpSGE(sum, b.getInt64(0)), b.getInt64(1), b.getInt64(0));
        return b.CreateAShr(b.CreateAdd(sum, up), 1);
      }
    case Op::min:
      return b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y);
    case Op::max:
      return b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, y);
  }
  return nullptr;
}

template <Op op, unsigned lanes>
void packed(FunctionTranslator& f, Modifiers modifiers) {
  const ptx::Type d = f.take_type(modifiers), x = f.take_type(modifiers),
                  y = f.take_type(modifiers);
  const bool saturates = modifiers.take_if(".sat");
  const bool sums = modifiers.take_if(".add");
  f.finish(modifiers, 4);
  for (ptx::Type type : {d, x, y})
    if (type.bits != 32 || type.lanes != 1 || type.kind == Kind::bits || !type.is_integer())
      f.unsupported("the types .u32 and .s32 are expected");
  if (saturates && sums) f.invalid("'.sat' and '.add' exclude each other");
  auto& b = f.builder();
  constexpr unsigned kBits = 32 / lanes;
  Value *left = f.read(1, x), *right = f.read(2, y);
  const auto lane = [&](Value* word, unsigned i, bool is_signed) {
    Value* part = b.CreateTrunc(b.CreateLShr(word, i * kBits), b.getIntNTy(kBits));
    return is_signed ? b.CreateSExt(part, b.getInt64Ty()) : b.CreateZExt(part, b.getInt64Ty());
  };
  Value* result = sums ? f.read(3, d) : b.getInt32(0);
  if (!sums) f.read(3, d);
  for (unsigned i = 0; i < lanes; ++i) {
    Value* value = compute(f, op, lane(left, i, x.is_signed()), lane(right, i, y.is_signed()));
    if (saturates) value = clamp(f, value, kBits, d.is_signed());
    if (sums) {
      result = b.CreateAdd(result, b.CreateTrunc(value, b.getInt32Ty()));
    } else {
      Value* part = b.CreateZExt(b.CreateTrunc(value, b.getIntNTy(kBits)), b.getInt32Ty());
      result = b.CreateOr(result, b.CreateShl(part, i * kBits));
    }
  }
  f.write(0, result, d);
}

}  // namespace

void add_video(Table& table) {
  table.insert({{"vadd2", packed<Op::add, 2>},
                {"vadd4", packed<Op::add, 4>},
                {"vsub2", packed<Op::sub, 2>},
                {"vsub4", packed<Op::sub, 4>},
                {"vabsdiff2", packed<Op::absdiff, 2>},
                {"vabsdiff4", packed<Op::absdiff, 4>},
                {"vavrg2", packed<Op::average, 2>},
                {"vavrg4", packed<Op::average, 4>},
                {"vmin2", packed<Op::min, 2>},
                {"vmin4", packed<Op::min, 4>},
                {"vmax2", packed<Op::max, 2>},
                {"vmax4", packed<Op::max, 4>}});
}

}  // namespace kiln::emulator::forms
