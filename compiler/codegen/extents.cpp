#include "compiler/codegen/extents.h"

#include "kiln/support/error.h"

namespace kiln::compiler {

using graph::Dim;

namespace {

struct Division {
  Dim numerator, denominator;
  std::int64_t whole = 0;  // to be added to the quotient
};

/// A division whose numerator has no large constant, so that adding it does not overflow.
Division division(const graph::DimAtom& atom) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 32;
  if (!atom.denominator.is_static()) return {atom.numerator, atom.denominator};
  const std::int64_t by = atom.denominator.value();
  for (const graph::DimTerm& term : atom.numerator.terms()) {
    const std::int64_t constant = term.coefficient;
    if (!term.atoms.empty() || by <= 0 || (-kLarge < constant && constant < kLarge)) continue;
    std::int64_t whole = constant / by, rest = constant % by;
    if (rest > by / 2) ++whole, rest -= by;
    return {atom.numerator - Dim(constant) + Dim(rest), atom.denominator, whole};
  }
  return {atom.numerator, atom.denominator};
}

}  // namespace

llvm::Value* Extents::symbol(const std::string& name) const {
  auto it = known.symbols.find(name);
  KILN_CHECK(it != known.symbols.end(), "no value for the symbol " + name);
  return it->second;
}

llvm::Value* Extents::value_of(const Dim& d) {
  if (d.is_static()) return f_.i64(d.value());
  std::string key = d.to_string();
  if (auto it = known.dims.find(key); it != known.dims.end()) return it->second;
  llvm::Value* sum = nullptr;
  for (const graph::DimTerm& term : d.terms()) {
    llvm::Value* product = nullptr;
    for (const graph::DimAtom& atom : term.atoms) {
      llvm::Value* factor = nullptr;
      if (atom.is_symbol()) {
        factor = symbol(atom.symbol);
      } else {
        auto [numerator, denominator, whole] = division(atom);
        factor = floor_div(value_of(numerator), value_of(denominator));
        if (whole != 0) factor = f_.b.CreateAdd(factor, f_.i64(whole));
      }
      product = product ? f_.b.CreateMul(product, factor) : factor;
    }
    llvm::Value* scaled = !product ? f_.i64(term.coefficient)
                          : term.coefficient == 1
                              ? product
                              : f_.b.CreateMul(product, f_.i64(term.coefficient));
    sum = sum ? f_.b.CreateAdd(sum, scaled) : scaled;
  }
  if (!sum) sum = f_.i64(0);
  known.dims[key] = sum;
  return sum;
}

llvm::Value* Extents::overflows(const Dim& d) {
  llvm::Value* overflow = f_.b.getFalse();
  auto apply = [&](llvm::Intrinsic::ID id, llvm::Value* a, llvm::Value* b) {
    llvm::Value* pair = f_.b.CreateBinaryIntrinsic(id, a, b);
    overflow = f_.b.CreateOr(overflow, f_.b.CreateExtractValue(pair, 1));
    return f_.b.CreateExtractValue(pair, 0);
  };
  llvm::Value* sum = f_.i64(0);
  for (const graph::DimTerm& term : d.terms()) {
    llvm::Value* product = f_.i64(term.coefficient);
    for (const graph::DimAtom& atom : term.atoms) {
      llvm::Value* factor = nullptr;
      if (atom.is_symbol()) {
        factor = symbol(atom.symbol);
      } else {
        auto [numerator, denominator, whole] = division(atom);
        overflow = f_.b.CreateOr(overflow, overflows(numerator));
        overflow = f_.b.CreateOr(overflow, overflows(denominator));
        factor = apply(llvm::Intrinsic::sadd_with_overflow,
                       floor_div(value_of(numerator), value_of(denominator)), f_.i64(whole));
      }
      product = apply(llvm::Intrinsic::smul_with_overflow, product, factor);
    }
    sum = apply(llvm::Intrinsic::sadd_with_overflow, sum, product);
  }
  return overflow;
}

llvm::Value* Extents::floor_div(llvm::Value* a, llvm::Value* b) {
  if (auto* constant = llvm::dyn_cast<llvm::ConstantInt>(b);
      constant && constant->getValue().isPowerOf2())
    return f_.b.CreateAShr(a, f_.i64(constant->getValue().exactLogBase2()));
  // A divisor of 0 stands for an extent that nothing is computed with; those of the user's own
  // divisions are checked.
  llvm::Value* divisor = f_.b.CreateSelect(f_.b.CreateICmpEQ(b, f_.i64(0)), f_.i64(1), b);
  llvm::Value* quotient = f_.b.CreateSDiv(a, divisor);
  llvm::Value* rest = f_.b.CreateSub(a, f_.b.CreateMul(quotient, divisor));
  llvm::Value* adjust =
      f_.b.CreateAnd(f_.b.CreateICmpNE(rest, f_.i64(0)),
                     f_.b.CreateICmpSLT(f_.b.CreateXor(rest, divisor), f_.i64(0)));
  return f_.b.CreateSub(quotient, f_.b.CreateZExt(adjust, f_.b.getInt64Ty()));
}

}  // namespace kiln::compiler
