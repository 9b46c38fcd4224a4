#include "emulator/translate/arithmetic.h"
#include "kiln/support/format.h"

// setp, set, selp, slct, testp.

namespace kiln::emulator::forms {
namespace {

using llvm::Value;
using Kind = ptx::Type::Kind;
using Predicate = llvm::CmpInst::Predicate;

struct Comparison {
  std::string_view word;
  Predicate real, is_signed, is_unsigned;  // BAD: not for this kind
};
constexpr auto kNone = Predicate::BAD_ICMP_PREDICATE;
constexpr Comparison kComparisons[] = {
    {".eq", Predicate::FCMP_OEQ, Predicate::ICMP_EQ, Predicate::ICMP_EQ},
    {".ne", Predicate::FCMP_ONE, Predicate::ICMP_NE, Predicate::ICMP_NE},
    {".lt", Predicate::FCMP_OLT, Predicate::ICMP_SLT, Predicate::ICMP_ULT},
    {".le", Predicate::FCMP_OLE, Predicate::ICMP_SLE, Predicate::ICMP_ULE},
    {".gt", Predicate::FCMP_OGT, Predicate::ICMP_SGT, Predicate::ICMP_UGT},
    {".ge", Predicate::FCMP_OGE, Predicate::ICMP_SGE, Predicate::ICMP_UGE},
    {".lo", kNone, kNone, Predicate::ICMP_ULT},
    {".ls", kNone, kNone, Predicate::ICMP_ULE},
    {".hi", kNone, kNone, Predicate::ICMP_UGT},
    {".hs", kNone, kNone, Predicate::ICMP_UGE},
    {".equ", Predicate::FCMP_UEQ, kNone, kNone},
    {".neu", Predicate::FCMP_UNE, kNone, kNone},
    {".ltu", Predicate::FCMP_ULT, kNone, kNone},
    {".leu", Predicate::FCMP_ULE, kNone, kNone},
    {".gtu", Predicate::FCMP_UGT, kNone, kNone},
    {".geu", Predicate::FCMP_UGE, kNone, kNone},
    {".num", Predicate::FCMP_ORD, kNone, kNone},
    {".nan", Predicate::FCMP_UNO, kNone, kNone},
};

struct Form {
  const Comparison* comparison = nullptr;
  int combine = -1;  // 0 and, 1 or, 2 xor
  bool ftz = false;
  ptx::Type result;  // of set
  ptx::Type type;
};

Form parse(FunctionTranslator& f, Modifiers& modifiers, bool has_result) {
  Form form;
  const std::string_view word = modifiers.take();
  for (const Comparison& comparison : kComparisons)
    if (comparison.word == word) form.comparison = &comparison;
  if (form.comparison == nullptr) f.unsupported(format("'{}' is not a comparison", word));
  form.combine = modifiers.take_one_of(".and", ".or", ".xor");
  form.ftz = modifiers.take_if(".ftz");
  if (has_result) form.result = f.take_type(modifiers);
  form.type = f.take_type(modifiers);
  if (form.ftz && !(form.type == ptx::Type{Kind::real, 32}) && form.type.kind != Kind::real)
    f.invalid("'.ftz' takes .f32 or halves");
  return form;
}

// A half, as a float, with zero in the place of what is subnormal in its own format.
Value* without_subnormal(FunctionTranslator& f, Value* value, ptx::Type lane) {
  auto& b = f.builder();
  const bool brain = lane.kind == Kind::bfloat;
  Value* least = llvm::ConstantFP::get(b.getFloatTy(), brain ? 0x1p-126 : 0x1p-14);
  Value* small = b.CreateFCmpOLT(b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, value), least);
  return b.CreateSelect(small, llvm::ConstantFP::get(b.getFloatTy(), 0.0), value);
}

Value* compare_lane(FunctionTranslator& f, const Form& form, Value* x, Value* y) {
  auto& b = f.builder();
  ptx::Type lane = form.type;
  lane.lanes = 1;
  if (lane.is_real()) {
    if (form.comparison->real == kNone) f.invalid("this comparison is for integers");
    if (lane.bits == 16) {
      x = widen(f, x, lane);
      y = widen(f, y, lane);
      if (form.ftz) {
        x = without_subnormal(f, x, lane);
        y = without_subnormal(f, y, lane);
      }
    } else if (form.ftz) {
      x = flush(f, x);
      y = flush(f, y);
    }
    return b.CreateFCmp(form.comparison->real, x, y);
  }
  const Predicate predicate =
      lane.is_signed() ? form.comparison->is_signed : form.comparison->is_unsigned;
  const bool ordered = form.comparison->word != ".eq" && form.comparison->word != ".ne";
  if (predicate == kNone || (lane.kind == Kind::bits && ordered))
    f.invalid("this comparison is not for this type");
  return b.CreateICmp(predicate, x, y);
}

Value* combine(FunctionTranslator& f, const Form& form, Value* result, Value* with) {
  auto& b = f.builder();
  if (form.combine == 0) return b.CreateAnd(result, with);
  if (form.combine == 1) return b.CreateOr(result, with);
  return form.combine == 2 ? b.CreateXor(result, with) : result;
}

// setp.lt.and.f32 p|q, a, b, c: p = (a < b) and c, q = !(a < b) and c. For packed types p and q
// are those of the two lanes.
void setp(FunctionTranslator& f, Modifiers modifiers) {
  const Form form = parse(f, modifiers, false);
  f.finish(modifiers, form.combine >= 0 ? 4 : 3);
  const ptx::Type pred{Kind::pred, 1};
  if (form.type.kind == Kind::pred || form.type.bits < 16 || form.type.bits > 64)
    f.unsupported("this type is not implemented here");
  auto& b = f.builder();
  Value *x = f.read(1, form.type), *y = f.read(2, form.type);
  Value* with = form.combine >= 0 ? f.read_predicate(f.operand(3)) : nullptr;
  const bool pair = f.operand(0).kind == ptx::Operand::Kind::pair;
  if (form.type.lanes == 2) {
    if (!pair) f.invalid("a target p|q is expected");
    const auto a = unpack(f, x), c = unpack(f, y);
    for (unsigned i = 0; i < 2; ++i)
      f.write(f.operand(0).elements[i], combine(f, form, compare_lane(f, form, a[i], c[i]), with),
              pred);
    return;
  }
  Value* result = compare_lane(f, form, x, y);
  if (!pair) return f.write(0, combine(f, form, result, with), pred);
  f.write(f.operand(0).elements[0], combine(f, form, result, with), pred);
  f.write(f.operand(0).elements[1], combine(f, form, b.CreateNot(result), with), pred);
}

// All ones or zero for integers, 1.0 or 0.0 for real numbers.
void set(FunctionTranslator& f, Modifiers modifiers) {
  const Form form = parse(f, modifiers, true);
  f.finish(modifiers, form.combine >= 0 ? 4 : 3);
  if (form.type.kind == Kind::pred || form.type.bits < 16 || form.type.bits > 64)
    f.unsupported("this type is not implemented here");
  if (form.result.lanes != form.type.lanes &&
      !(form.type.lanes == 2 && form.result.is_integer() && form.result.bits == 32))
    f.unsupported("this type is not implemented here");
  auto& b = f.builder();
  Value* with = form.combine >= 0 ? f.read_predicate(f.operand(3)) : nullptr;
  ptx::Type lane = form.result;
  if (form.type.lanes == 2) lane = {lane.kind, 16};
  const auto value = [&](Value* x, Value* y) -> Value* {
    Value* holds = combine(f, form, compare_lane(f, form, x, y), with);
    llvm::Type* type = f.llvm_type(lane);
    if (lane.is_integer()) return b.CreateSExt(holds, type);
    if (lane.bits >= 32) return b.CreateUIToFP(holds, type);
    const std::uint64_t one = lane.kind == Kind::bfloat ? 0x3f80 : 0x3c00;
    return b.CreateSelect(holds, b.getInt16(one), b.getInt16(0));
  };
  Value *x = f.read(1, form.type), *y = f.read(2, form.type);
  if (form.type.lanes == 1) return f.write(0, value(x, y), form.result);
  const auto a = unpack(f, x), c = unpack(f, y);
  f.write(0, pack(f, value(a[0], c[0]), value(a[1], c[1])), form.result);
}

void selp(FunctionTranslator& f, Modifiers modifiers) {
  const ptx::Type type = f.take_type(modifiers);
  f.finish(modifiers, 4);
  if (type.kind == Kind::pred || type.width() < 16 || type.width() > 64)
    f.unsupported("this type is not implemented here");
  f.write(
      0, f.builder().CreateSelect(f.read_predicate(f.operand(3)), f.read(1, type), f.read(2, type)),
      type);
}

// a where c >= 0, else b.
void slct(FunctionTranslator& f, Modifiers modifiers) {
  const bool ftz = modifiers.take_if(".ftz");
  const ptx::Type type = f.take_type(modifiers), by = f.take_type(modifiers);
  f.finish(modifiers, 4);
  const bool real = by == ptx::Type{Kind::real, 32};
  if (!real && !(by == ptx::Type{Kind::signed_integer, 32}))
    f.unsupported("'.s32' or '.f32' is expected last");
  if (ftz && !real) f.invalid("'.ftz' takes .f32");
  auto& b = f.builder();
  Value* c = f.read(3, by);
  if (ftz) c = flush(f, c);
  Value* first = real ? b.CreateFCmpOGE(c, llvm::ConstantFP::get(c->getType(), 0.0))
                      : b.CreateICmpSGE(c, b.getInt32(0));
  f.write(0, b.CreateSelect(first, f.read(1, type), f.read(2, type)), type);
}

void testp(FunctionTranslator& f, Modifiers modifiers) {
  const int what = modifiers.take_one_of(".finite", ".infinite", ".number", ".notanumber",
                                         ".normal", ".subnormal");
  const ptx::Type type = f.take_type(modifiers);
  f.finish(modifiers, 2);
  if (what < 0 || type.kind != Kind::real || type.bits < 32)
    f.unsupported("this test is not implemented");
  constexpr llvm::FPClassTest kClasses[] = {
      llvm::fcFinite,   llvm::fcInf, llvm::fcAllFlags, llvm::fcNan, llvm::fcNormal | llvm::fcZero,
      llvm::fcSubnormal};
  const unsigned classes = what == 2 ? llvm::fcAllFlags & ~llvm::fcNan : kClasses[what];
  f.write(0, f.builder().createIsFPClass(f.read(1, type), classes), {Kind::pred, 1});
}

}  // namespace

void add_compare(Table& table) {
  table.insert({{"setp", setp}, {"set", set}, {"selp", selp}, {"slct", slct}, {"testp", testp}});
}

}  // namespace kiln::emulator::forms
