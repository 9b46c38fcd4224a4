#pragma once

// Expressions as LLVM IR: one element, or `lanes` neighbours along one axis.

#include <map>
#include <unordered_map>
#include <vector>

#include "compiler/codegen/kernel_code.h"

namespace kiln::compiler {

class ExpressionEmitter {
 public:
  ExpressionEmitter(FunctionBuilder& f, const KernelArguments& arguments, const Program& program);

  /// The value of an axis from here on: a position, or with `set_vector` the first of `lanes`
  /// positions. What was computed with another value must be in an inner scope (see Scope).
  void set_axis(int axis, llvm::Value* position) { axes_[axis] = position; }
  void set_vector(int axis, int lanes, llvm::Value* mask = nullptr) {
    vector_axis_ = axis;
    lanes_ = lanes;
    mask_ = mask;
  }

  /// The element, in registers; every axis it depends on is set and none is a vector.
  llvm::Value* scalar(const Expr* expr);
  /// `lanes` elements; a vector even when all are equal (a scalar when lanes is 1).
  llvm::Value* vector(const Expr* expr);

  /// Gives an expression the value it has within the current scope.
  void bind(const Expr* expr, llvm::Value* value);
  void bind_vector(const Expr* expr, llvm::Value* value);

  /// What `store_prepared` stores: the value in registers, or for plain copies the bits of memory,
  /// which keeps every NaN as it is.
  llvm::Value* prepare(const Store& store);
  void store_prepared(const Store& store, llvm::Value* prepared);

  /// Stores what `store` says; `value` has as many lanes as the vector axis.
  void store(const Store& store, llvm::Value* value);
  /// Stores one element of a row.
  void store_scalar(const Store& store, llvm::Value* value);

  llvm::Value* position(const Index& index);

  /// Computes, here and now, all parts of `expr` that do not depend on `axis`.
  void hoist(const Expr* expr, int axis);

  /// Values made inside a scope are forgotten at its end; code after a loop must not use values of
  /// the loop's body.
  class Scope {
   public:
    explicit Scope(ExpressionEmitter& emitter);
    ~Scope();

   private:
    ExpressionEmitter& emitter_;
  };

  /// Combines two partial results of a reduction.
  llvm::Value* combine(Reduction reduction, llvm::Value* a, llvm::Value* b, DType dtype);
  llvm::Value* neutral(Reduction reduction, DType dtype, int lanes);
  /// All lanes of `value` combined.
  llvm::Value* across(Reduction reduction, llvm::Value* value, DType dtype);

  FunctionBuilder& f;
  const KernelArguments& arguments;

 private:
  using Memo = std::unordered_map<const Expr*, llvm::Value*>;

  llvm::Value* emit(const Expr* expr, int lanes);
  /// The element as it lies in memory; `load` converts it to how it is held in registers.
  llvm::Value* load_raw(const Expr* expr, int lanes);
  llvm::Value* load(const Expr* expr, int lanes);
  void store_raw(const Store& store, llvm::Value* raw);
  llvm::Value* checked_index(const Expr* expr, int lanes);
  llvm::Value* reduce(const Expr* expr, int lanes);
  llvm::Value* positions(const Index& index);  // a vector of them
  llvm::Value* atom(const Atom& atom, int lanes);
  llvm::Value* element_pointer(int tensor, llvm::Value* position);
  llvm::Align alignment(int tensor) const;
  llvm::Value* find(const std::vector<Memo>& memos, const Expr* expr) const;
  void hoist_visit(const Expr* expr, int axis, std::unordered_map<const Expr*, bool>& seen);

  const Program& program_;
  std::map<int, llvm::Value*> axes_;
  int vector_axis_ = -1;
  int lanes_ = 1;
  llvm::Value* mask_ = nullptr;
  std::vector<Memo> scalars_{1};
  std::vector<Memo> vectors_{1};
};

/// Sets the first `outer` axes of the kernel to the place of iteration `unit` of their product.
void split_unit(ExpressionEmitter& emitter, const Kernel& kernel, std::size_t outer,
                llvm::Value* unit);

/// argmax and argmin carry a value and a position.
struct ArgPair {
  llvm::Value* value;
  llvm::Value* index;
};
ArgPair combine_arg(FunctionBuilder& f, Reduction reduction, ArgPair a, ArgPair b, DType dtype);

}  // namespace kiln::compiler
