#include "compiler/codegen/expression.h"

#include <cmath>
#include <limits>

#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::compiler {

ExpressionEmitter::ExpressionEmitter(FunctionBuilder& f, const KernelArguments& arguments,
                                     const Program& program)
    : f(f), arguments(arguments), program_(program) {}

ExpressionEmitter::Scope::Scope(ExpressionEmitter& emitter) : emitter_(emitter) {
  emitter_.scalars_.emplace_back();
  emitter_.vectors_.emplace_back();
}

ExpressionEmitter::Scope::~Scope() {
  emitter_.scalars_.pop_back();
  emitter_.vectors_.pop_back();
}

void ExpressionEmitter::bind(const Expr* expr, llvm::Value* value) {
  scalars_.back()[expr] = value;
}

void ExpressionEmitter::bind_vector(const Expr* expr, llvm::Value* value) {
  vectors_.back()[expr] = value;
}

llvm::Value* ExpressionEmitter::find(const std::vector<Memo>& memos, const Expr* expr) const {
  for (auto it = memos.rbegin(); it != memos.rend(); ++it)
    if (auto found = it->find(expr); found != it->end()) return found->second;
  return nullptr;
}

llvm::Value* ExpressionEmitter::scalar(const Expr* expr) {
  if (llvm::Value* known = find(scalars_, expr)) return known;
  llvm::Value* value = emit(expr, 1);
  scalars_.back()[expr] = value;
  return value;
}

llvm::Value* ExpressionEmitter::vector(const Expr* expr) {
  if (lanes_ == 1) return scalar(expr);
  if (llvm::Value* known = find(vectors_, expr)) return known;
  bool varies = (expr->axes & axis_bit(vector_axis_)) != 0;
  llvm::Value* value = varies ? emit(expr, lanes_) : f.lower.splat(scalar(expr), lanes_);
  vectors_.back()[expr] = value;
  return value;
}

void ExpressionEmitter::hoist_visit(const Expr* expr, int axis,
                                    std::unordered_map<const Expr*, bool>& seen) {
  if (!seen.emplace(expr, true).second) return;
  if ((expr->axes & axis_bit(axis)) == 0) {
    // What depends on a reduction's own axis belongs inside that reduction.
    bool ready = true;
    for (int a = 0; a < 64; ++a)
      if (expr->axes & axis_bit(a)) ready = ready && axes_.count(a) != 0;
    if (ready && expr->kind != Expr::Kind::constant && expr->kind != Expr::Kind::accumulator)
      scalar(expr);
    if (ready) return;
  }
  for (const Expr* arg : expr->args) hoist_visit(arg, axis, seen);
  std::unordered_map<const Expr*, bool> inner;
  for (const Index::Term& term : expr->index.terms)
    if (term.atom->value) hoist_visit(term.atom->value, axis, seen);
}

void ExpressionEmitter::hoist(const Expr* expr, int axis) {
  std::unordered_map<const Expr*, bool> seen;
  hoist_visit(expr, axis, seen);
}

// --- Positions. ---

llvm::Value* ExpressionEmitter::atom(const Atom& a, int lanes) {
  switch (a.kind) {
    case Atom::Kind::axis: {
      auto it = axes_.find(a.axis);
      KILN_CHECK(it != axes_.end(), format("axis {} is used outside its loop", a.axis));
      if (lanes == 1 || a.axis != vector_axis_) return f.lower.splat(it->second, lanes);
      std::vector<llvm::Constant*> steps;
      for (int i = 0; i < lanes; ++i) steps.push_back(f.i64(i));
      return f.b.CreateAdd(f.lower.splat(it->second, lanes), llvm::ConstantVector::get(steps));
    }
    case Atom::Kind::quotient: {
      llvm::Value* x = lanes == 1 ? position(a.inner) : positions(a.inner);
      return f.b.CreateUDiv(x, f.lower.splat(arguments.dim(a.divisor), lanes));
    }
    case Atom::Kind::remainder: {
      llvm::Value* x = lanes == 1 ? position(a.inner) : positions(a.inner);
      return f.b.CreateURem(x, f.lower.splat(arguments.dim(a.divisor), lanes));
    }
    case Atom::Kind::value:
      return lanes == 1 ? scalar(a.value) : vector(a.value);
  }
  return nullptr;
}

llvm::Value* ExpressionEmitter::position(const Index& index) {
  llvm::Value* sum = arguments.dim(index.constant);
  for (const Index::Term& term : index.terms) {
    llvm::Value* part = atom(*term.atom, 1);
    if (term.coefficient != Dim(1)) part = f.b.CreateMul(part, arguments.dim(term.coefficient));
    sum = f.b.CreateAdd(sum, part);
  }
  return sum;
}

llvm::Value* ExpressionEmitter::positions(const Index& index) {
  // What is equal in all lanes is added up before it is spread.
  Index uniform(index.constant);
  llvm::Value* sum = nullptr;
  for (const Index::Term& term : index.terms) {
    if ((term.atom->axes & axis_bit(vector_axis_)) == 0) {
      uniform.terms.push_back(term);
      continue;
    }
    llvm::Value* part = atom(*term.atom, lanes_);
    if (term.coefficient != Dim(1))
      part = f.b.CreateMul(part, f.lower.splat(arguments.dim(term.coefficient), lanes_));
    sum = sum ? f.b.CreateAdd(sum, part) : part;
  }
  llvm::Value* base = f.lower.splat(position(uniform), lanes_);
  return sum ? f.b.CreateAdd(sum, base) : base;
}

// --- Memory. ---

llvm::Value* ExpressionEmitter::element_pointer(int tensor, llvm::Value* position) {
  DType dtype = program_.tensors[static_cast<std::size_t>(tensor)].dtype;
  return f.element(f.lower.memory_type(dtype, 1), arguments.tensor(tensor), position);
}

llvm::Align ExpressionEmitter::alignment(int tensor) const {
  DType dtype = program_.tensors[static_cast<std::size_t>(tensor)].dtype;
  return llvm::Align(static_cast<std::uint64_t>(dtype.size_in_bytes()));
}

namespace {

/// Whether a store only moves an element that registers would hold in another form.
bool is_plain_copy(const Store& store, const Program& program) {
  return store.value->kind == Expr::Kind::load &&
         program.tensors[static_cast<std::size_t>(store.tensor)].dtype == store.value->dtype;
}

}  // namespace

llvm::Value* ExpressionEmitter::load(const Expr* expr, int lanes) {
  return f.lower.from_memory(load_raw(expr, lanes), expr->dtype);
}

llvm::Value* ExpressionEmitter::prepare(const Store& store) {
  if (!is_plain_copy(store, program_)) return vector(store.value);
  bool varies = lanes_ > 1 && (store.value->axes & axis_bit(vector_axis_)) != 0;
  llvm::Value* raw = load_raw(store.value, varies ? lanes_ : 1);
  return varies ? raw : f.lower.splat(raw, lanes_);
}

void ExpressionEmitter::store_prepared(const Store& store, llvm::Value* prepared) {
  DType dtype = program_.tensors[static_cast<std::size_t>(store.tensor)].dtype;
  store_raw(store, is_plain_copy(store, program_) ? prepared : f.lower.to_memory(prepared, dtype));
}

void ExpressionEmitter::store(const Store& store, llvm::Value* value) {
  DType dtype = program_.tensors[static_cast<std::size_t>(store.tensor)].dtype;
  store_raw(store, f.lower.to_memory(value, dtype));
}

llvm::Value* ExpressionEmitter::load_raw(const Expr* expr, int lanes) {
  llvm::Type* one = f.lower.memory_type(expr->dtype, 1);
  llvm::Align align = alignment(expr->tensor);
  if (lanes == 1) {
    llvm::Value* raw =
        f.b.CreateAlignedLoad(one, element_pointer(expr->tensor, position(expr->index)), align);
    return raw;
  }
  Index rest(expr->index.constant);
  bool contiguous = false;
  bool regular = true;
  for (const Index::Term& term : expr->index.terms) {
    if ((term.atom->axes & axis_bit(vector_axis_)) != 0) {
      bool plain = term.atom->kind == Atom::Kind::axis && term.coefficient == Dim(1);
      regular = regular && plain;
      contiguous = contiguous || plain;
    }
    rest.terms.push_back(term);
  }
  llvm::Type* type = f.lower.memory_type(expr->dtype, lanes);
  if (contiguous && regular) {
    llvm::Value* pointer = element_pointer(expr->tensor, position(rest));
    llvm::Value* raw = mask_ ? static_cast<llvm::Value*>(f.b.CreateMaskedLoad(
                                   type, pointer, align, mask_, llvm::Constant::getNullValue(type)))
                             : f.b.CreateAlignedLoad(type, pointer, align);
    return raw;
  }
  // Lane by lane: what lies apart is fetched apart.
  llvm::Value* where = positions(expr->index);
  // The first lane of a mask is always inside.
  if (mask_)
    where = f.b.CreateSelect(
        mask_, where, f.lower.splat(f.b.CreateExtractElement(where, std::uint64_t{0}), lanes));
  llvm::Value* raw = llvm::PoisonValue::get(type);
  for (int i = 0; i < lanes; ++i) {
    llvm::Value* pointer = element_pointer(
        expr->tensor, f.b.CreateExtractElement(where, static_cast<std::uint64_t>(i)));
    raw = f.b.CreateInsertElement(raw, f.b.CreateAlignedLoad(one, pointer, align),
                                  static_cast<std::uint64_t>(i));
  }
  return raw;
}

void ExpressionEmitter::store_raw(const Store& store, llvm::Value* raw) {
  llvm::Align align = alignment(store.tensor);
  if (lanes_ == 1) {
    f.b.CreateAlignedStore(raw, element_pointer(store.tensor, position(store.index)), align);
    return;
  }
  bool contiguous = store.index.coefficient(vector_axis_) == Dim(1);
  for (const Index::Term& term : store.index.terms)
    if (term.atom->kind != Atom::Kind::axis && (term.atom->axes & axis_bit(vector_axis_)) != 0)
      contiguous = false;
  if (contiguous) {
    llvm::Value* pointer = element_pointer(store.tensor, position(store.index));
    if (mask_)
      f.b.CreateMaskedStore(raw, pointer, align, mask_);
    else
      f.b.CreateAlignedStore(raw, pointer, align);
    return;
  }
  llvm::Value* where = positions(store.index);
  for (int i = 0; i < lanes_; ++i) {
    auto lane = static_cast<std::uint64_t>(i);
    auto one = [&] {
      f.b.CreateAlignedStore(f.b.CreateExtractElement(raw, lane),
                             element_pointer(store.tensor, f.b.CreateExtractElement(where, lane)),
                             align);
    };
    if (mask_)
      f.when(f.b.CreateExtractElement(mask_, lane), one);
    else
      one();
  }
}

void ExpressionEmitter::store_scalar(const Store& store, llvm::Value* value) {
  DType dtype = program_.tensors[static_cast<std::size_t>(store.tensor)].dtype;
  f.b.CreateAlignedStore(f.lower.to_memory(value, dtype),
                         element_pointer(store.tensor, position(store.index)),
                         alignment(store.tensor));
}

// --- Values. ---

llvm::Value* ExpressionEmitter::emit(const Expr* expr, int lanes) {
  auto arg = [&](std::size_t i) {
    return lanes == 1 ? scalar(expr->args[i]) : vector(expr->args[i]);
  };
  switch (expr->kind) {
    case Expr::Kind::constant:
      return expr->dtype.is_float() ? f.lower.constant(expr->dtype, expr->number(), lanes)
                                    : f.lower.integer_constant(expr->dtype, expr->bits, lanes);
    case Expr::Kind::index:
      return lanes == 1 ? position(expr->index) : positions(expr->index);
    case Expr::Kind::load:
      return load(expr, lanes);
    case Expr::Kind::unary:
      return f.lower.unary(expr->op, arg(0), expr->args[0]->dtype,
                           expr->text.empty() ? "none" : expr->text);
    case Expr::Kind::binary:
      return f.lower.binary(expr->op, arg(0), arg(1), expr->args[0]->dtype);
    case Expr::Kind::select:
      return f.lower.select(arg(0), arg(1), arg(2));
    case Expr::Kind::cast:
      return f.lower.cast(arg(0), expr->args[0]->dtype, expr->dtype);
    case Expr::Kind::bits:
      return f.lower.same_bits(arg(0), expr->args[0]->dtype, expr->dtype);
    case Expr::Kind::truncating_div: {
      // The divisor is an extent: never negative, and 0 only when nothing is divided.
      llvm::Value* one = f.lower.integer_constant(expr->dtype, 1, lanes);
      llvm::Value* zero = f.lower.integer_constant(expr->dtype, 0, lanes);
      llvm::Value* divisor = arg(1);
      divisor = f.b.CreateSelect(f.b.CreateICmpEQ(divisor, zero), one, divisor);
      return expr->dtype.is_signed_integral() ? f.b.CreateSDiv(arg(0), divisor)
                                              : f.b.CreateUDiv(arg(0), divisor);
    }
    case Expr::Kind::checked_index:
      return checked_index(expr, lanes);
    case Expr::Kind::reduce:
      return reduce(expr, lanes);
    case Expr::Kind::accumulator:
      KILN_CHECK(false, "the element of a product is bound by its kernel");
  }
  return nullptr;
}

llvm::Value* ExpressionEmitter::checked_index(const Expr* expr, int lanes) {
  llvm::Value* x = lanes == 1 ? scalar(expr->args[0]) : vector(expr->args[0]);
  DType from = expr->args[0]->dtype;
  llvm::Type* wide = f.lower.register_type(DType::int64, lanes);
  x = from.is_signed_integral() ? f.b.CreateSExtOrTrunc(x, wide) : f.b.CreateZExtOrTrunc(x, wide);
  llvm::Value* zero = llvm::Constant::getNullValue(wide);
  llvm::Value* extent = f.lower.splat(arguments.dim(expr->extent), lanes);
  llvm::Value* index = x;
  if (from.is_signed_integral())
    index = f.b.CreateSelect(f.b.CreateICmpSLT(x, zero), f.b.CreateAdd(x, extent), x);
  llvm::Value* bad = f.b.CreateICmpUGE(index, extent);
  if (mask_ && lanes > 1) bad = f.b.CreateAnd(bad, mask_);
  llvm::Value* any = lanes == 1 ? bad : f.b.CreateOrReduce(bad);
  f.when(
      any,
      [&] {
        llvm::Value* culprit = x;
        if (lanes > 1) {
          llvm::Type* bits = f.b.getIntNTy(static_cast<unsigned>(lanes));
          llvm::Value* first = f.b.CreateBinaryIntrinsic(
              llvm::Intrinsic::cttz, f.b.CreateBitCast(bad, bits), f.b.getFalse());
          culprit = f.b.CreateExtractElement(x, f.b.CreateZExtOrTrunc(first, f.b.getInt64Ty()));
        }
        llvm::Value* values = f.stack_slot(f.b.getInt64Ty(), 3, 8);
        llvm::Value* items[] = {culprit, f.i64(expr->axis), arguments.dim(expr->extent)};
        for (int i = 0; i < 3; ++i)
          f.b.CreateStore(items[i], f.element(f.b.getInt64Ty(), values, f.i64(i)));
        emit_fail(f, arguments.call(), arguments.failure(expr->origin), values, 3);
      },
      /*unlikely=*/true);
  return index;
}

llvm::Value* ExpressionEmitter::reduce(const Expr* expr, int lanes) {
  Reduction reduction = expr->reduction;
  const Expr* x = expr->args[0];
  hoist(x, expr->axis);
  bool arg = reduction == Reduction::argmax || reduction == Reduction::argmin;
  Values initial = {neutral(reduction, x->dtype, lanes)};
  if (arg) initial.push_back(f.lower.integer_constant(DType::int64, -1, lanes));
  Values result = f.loop(f.i64(0), arguments.dim(expr->extent), f.i64(1), initial,
                         [&](llvm::Value* i, const Values& carried) -> Values {
                           Scope scope(*this);
                           set_axis(expr->axis, i);
                           llvm::Value* value = lanes == 1 ? scalar(x) : vector(x);
                           if (!arg) return {combine(reduction, carried[0], value, x->dtype)};
                           ArgPair pair = combine_arg(f, reduction, {carried[0], carried[1]},
                                                      {value, f.lower.splat(i, lanes)}, x->dtype);
                           return {pair.value, pair.index};
                         });
  axes_.erase(expr->axis);
  return arg ? result[1] : result[0];
}

// --- Reductions. ---

llvm::Value* ExpressionEmitter::neutral(Reduction reduction, DType dtype, int lanes) {
  bool highest = reduction == Reduction::min || reduction == Reduction::argmin;
  switch (reduction) {
    case Reduction::sum:
    case Reduction::product: {
      int value = reduction == Reduction::sum ? 0 : 1;
      return dtype.is_float() ? f.lower.constant(dtype, value, lanes)
                              : f.lower.integer_constant(dtype, value, lanes);
    }
    default:
      break;
  }
  if (dtype == DType::bool_) return f.lower.integer_constant(dtype, highest ? 1 : 0, lanes);
  if (dtype.is_float()) {
    double infinity = std::numeric_limits<double>::infinity();
    llvm::Type* type = f.lower.register_type(dtype, 1);
    return f.lower.splat(llvm::ConstantFP::get(type, highest ? infinity : -infinity), lanes);
  }
  auto bits = static_cast<unsigned>(dtype.size_in_bits());
  llvm::APInt value =
      dtype.is_signed_integral()
          ? (highest ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getSignedMinValue(bits))
          : (highest ? llvm::APInt::getMaxValue(bits) : llvm::APInt(bits, 0));
  return f.lower.splat(llvm::ConstantInt::get(f.b.getContext(), value), lanes);
}

llvm::Value* ExpressionEmitter::combine(Reduction reduction, llvm::Value* a, llvm::Value* b,
                                        DType dtype) {
  switch (reduction) {
    case Reduction::sum:
      return f.lower.binary(OpKind::add, a, b, dtype);
    case Reduction::product:
      return f.lower.binary(OpKind::mul, a, b, dtype);
    case Reduction::max:
      if (dtype == DType::bool_) return f.b.CreateOr(a, b);
      return f.lower.binary(OpKind::max, a, b, dtype);
    case Reduction::min:
      if (dtype == DType::bool_) return f.b.CreateAnd(a, b);
      return f.lower.binary(OpKind::min, a, b, dtype);
    default:
      break;
  }
  KILN_CHECK(false, "argmax and argmin are combined as pairs");
  return nullptr;
}

ArgPair combine_arg(FunctionBuilder& f, Reduction reduction, ArgPair a, ArgPair b, DType dtype) {
  // b replaces a when it is better, or equal and earlier; a position of -1 means no element yet.
  OpKind better_op = OpKind::greater;
  llvm::Value* first = reduction == Reduction::argmax ? b.value : a.value;
  llvm::Value* second = reduction == Reduction::argmax ? a.value : b.value;
  llvm::Value* better = nullptr;
  llvm::Value* equal = nullptr;
  if (dtype == DType::bool_) {
    better = f.b.CreateAnd(first, f.b.CreateNot(second));
    equal = f.b.CreateICmpEQ(a.value, b.value);
  } else {
    better = f.lower.binary(better_op, first, second, dtype);
    equal = f.lower.binary(OpKind::equal, a.value, b.value, dtype);
  }
  if (dtype.is_float()) {
    llvm::Value* a_nan = f.b.CreateFCmpUNO(a.value, a.value);
    llvm::Value* b_nan = f.b.CreateFCmpUNO(b.value, b.value);
    better = f.b.CreateOr(better, f.b.CreateAnd(b_nan, f.b.CreateNot(a_nan)));
    equal = f.b.CreateOr(equal, f.b.CreateAnd(a_nan, b_nan));
    better = f.b.CreateAnd(better, f.b.CreateNot(f.b.CreateAnd(a_nan, f.b.CreateNot(b_nan))));
  }
  llvm::Value* none = llvm::Constant::getAllOnesValue(a.index->getType());
  llvm::Value* a_empty = f.b.CreateICmpEQ(a.index, none);
  llvm::Value* b_empty = f.b.CreateICmpEQ(b.index, none);
  llvm::Value* earlier = f.b.CreateAnd(equal, f.b.CreateICmpSLT(b.index, a.index));
  llvm::Value* take = f.b.CreateOr(f.b.CreateOr(better, earlier), a_empty);
  take = f.b.CreateAnd(take, f.b.CreateNot(b_empty));
  return {f.b.CreateSelect(take, b.value, a.value), f.b.CreateSelect(take, b.index, a.index)};
}

llvm::Value* ExpressionEmitter::across(Reduction reduction, llvm::Value* value, DType dtype) {
  auto* type = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  if (!type) return value;
  for (unsigned width = type->getNumElements(); width > 1; width /= 2) {
    std::vector<int> low, high;
    for (unsigned i = 0; i < width / 2; ++i) {
      low.push_back(static_cast<int>(i));
      high.push_back(static_cast<int>(i + width / 2));
    }
    value = combine(reduction, f.b.CreateShuffleVector(value, low),
                    f.b.CreateShuffleVector(value, high), dtype);
  }
  return f.b.CreateExtractElement(value, std::uint64_t{0});
}

}  // namespace kiln::compiler
