#include <algorithm>

#include "compiler/codegen/kernel_code.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::compiler {

namespace {

/// Walks a kernel in a fixed order and numbers what it meets.
class SignatureBuilder {
 public:
  SignatureBuilder(const Kernel& kernel, const Program& program)
      : kernel_(kernel), program_(program) {}

  KernelSignature build() {
    out_.key = format("{}{}|", static_cast<int>(kernel_.kind), kernel_.sequential ? "s" : "");
    for (int axis : kernel_.axes)
      out_.key += format("{}:{}|", axis_number(axis), axis_extent(axis));
    if (kernel_.reduced_axis >= 0 && !kernel_.operands.empty())
      out_.key +=
          format("k{}:{} ", axis_number(kernel_.reduced_axis), axis_extent(kernel_.reduced_axis));
    if (kernel_.key_axis >= 0)
      out_.key += format("y{}:{} ", axis_number(kernel_.key_axis), axis_extent(kernel_.key_axis));
    for (const MatrixOperand& operand : kernel_.operands)
      out_.key += format("operand{}[{}] ", tensor(operand.tensor), index(operand.index));
    for (const Window& window : kernel_.windows)
      out_.key += format("window{},{},{},{},{},{},{},{} ", dim(window.taps), window.stride,
                         window.dilation, dim(window.before), dim(window.extent), window.inside,
                         dim(window.step), dim(window.filter_step));
    if (!kernel_.windows.empty())
      out_.key += format("r{},{},{},{} ", static_cast<int>(kernel_.reduction),
                         kernel_.group_channels, kernel_.group_columns, dim(kernel_.filter_step));
    if (kernel_.score) {
      int score = expr(kernel_.score);
      out_.key += format("score{} ", score);
    }
    out_.key += format("p{}{} ", int{kernel_.product_dtype.code()},
                       streams_weights(kernel_, program_) ? "w" : "");
    for (const Store& store : kernel_.stores) {
      int value = expr(store.value);
      out_.key += format("store{}[{}]={};", tensor(store.tensor), index(store.index), value);
    }
    return std::move(out_);
  }

 private:
  std::string axis_extent(int axis) { return dim(kernel_.arena->extent(axis)); }

  int axis_number(int axis) {
    auto [it, fresh] = axes_.emplace(axis, static_cast<int>(axes_.size()));
    return it->second;
  }

  std::string dim(const Dim& d) {
    if (d.is_static()) return d.to_string();
    auto it = std::find(out_.dims.begin(), out_.dims.end(), d);
    auto number = it - out_.dims.begin();
    if (it == out_.dims.end()) out_.dims.push_back(d);
    return format("d{}", number);
  }

  std::string tensor(int id) {
    auto it = std::find(out_.tensors.begin(), out_.tensors.end(), id);
    auto number = it - out_.tensors.begin();
    if (it == out_.tensors.end()) out_.tensors.push_back(id);
    return format("t{}:{}", number,
                  int{program_.tensors[static_cast<std::size_t>(id)].dtype.code()});
  }

  int origin(const graph::ir::Op* op) {
    auto it = std::find(out_.origins.begin(), out_.origins.end(), op);
    auto number = static_cast<int>(it - out_.origins.begin());
    if (it == out_.origins.end()) out_.origins.push_back(op);
    return number;
  }

  std::string index(const Index& index) {
    std::string text = dim(index.constant);
    for (const Index::Term& term : index.terms)
      text += format("+{}*{}", dim(term.coefficient), atom(*term.atom));
    return text;
  }

  std::string atom(const Atom& atom) {
    switch (atom.kind) {
      case Atom::Kind::axis:
        return format("a{}", axis_number(atom.axis));
      case Atom::Kind::quotient:
        return format("({}/{})", index(atom.inner), dim(atom.divisor));
      case Atom::Kind::remainder:
        return format("({}%{})", index(atom.inner), dim(atom.divisor));
      case Atom::Kind::value:
        return format("v{}", expr(atom.value));
    }
    return {};
  }

  int expr(const Expr* e) {
    if (auto it = exprs_.find(e); it != exprs_.end()) return it->second;
    std::string args;
    for (const Expr* arg : e->args) args += format("{},", expr(arg));
    std::string text = format("{} {} {} {} ({})", static_cast<int>(e->kind), int{e->dtype.code()},
                              static_cast<int>(e->op), static_cast<int>(e->reduction), args);
    if (e->kind == Expr::Kind::accumulator)
      for (int axis = 0; axis < 64; ++axis)
        if (e->axes & axis_bit(axis)) text += format(" a{}", axis_number(axis));
    if (e->kind == Expr::Kind::constant) text += format(" {}", e->bits);
    if (e->kind == Expr::Kind::index || e->kind == Expr::Kind::load) text += index(e->index);
    if (e->tensor >= 0) text += tensor(e->tensor);
    if (e->kind == Expr::Kind::reduce)
      text += format(" a{}:{}", axis_number(e->axis), axis_extent(e->axis));
    if (e->kind == Expr::Kind::checked_index)
      text += format(" {} o{}", dim(e->extent), origin(e->origin));
    text += e->text;
    int number = static_cast<int>(exprs_.size());
    exprs_.emplace(e, number);
    out_.key += format("{}={};", number, text);
    return number;
  }

  const Kernel& kernel_;
  const Program& program_;
  KernelSignature out_;
  std::map<int, int> axes_;
  std::unordered_map<const Expr*, int> exprs_;
};

}  // namespace

bool streams_weights(const Kernel& kernel, const Program& program) {
  return kernel.kind == Kernel::Kind::matmul &&
         program.tensors[static_cast<std::size_t>(kernel.operands[1].tensor)].storage ==
             Tensor::Storage::prepared;
}

KernelSignature signature_of(const Kernel& kernel, const Program& program) {
  return SignatureBuilder(kernel, program).build();
}

KernelArguments::KernelArguments(FunctionBuilder& f, const Kernel& kernel, const Program& program)
    : f_(f) {
  KernelSignature signature = signature_of(kernel, program);
  llvm::Value* slots = f.argument(0);
  std::int64_t next = 0;
  auto slot = [&](llvm::Type* type, const std::string& name) {
    llvm::LoadInst* value = f.b.CreateAlignedLoad(
        type, f.element(f.b.getInt64Ty(), slots, f.i64(next++)), llvm::Align(8), name);
    value->setMetadata(llvm::LLVMContext::MD_invariant_load,
                       llvm::MDNode::get(f.b.getContext(), {}));
    return value;
  };
  call_ = slot(f.b.getPtrTy(), "call");
  for (int id : signature.tensors) tensors_[id] = slot(f.b.getPtrTy(), format("t{}", id));
  for (const Dim& d : signature.dims) dims_[d.to_string()] = slot(f.b.getInt64Ty(), "d");
  for (const graph::ir::Op* origin : signature.origins)
    failures_[origin] = slot(f.b.getPtrTy(), "failure");
  if (launch_of(kernel, program, f.isa).has_scratch) scratch_ = slot(f.b.getPtrTy(), "scratch");
  if (streams_weights(kernel, program))
    next_ = {slot(f.b.getPtrTy(), "next"), slot(f.b.getInt64Ty(), "next_panels"),
             slot(f.b.getInt64Ty(), "next_bytes")};
}

llvm::Value* KernelArguments::dim(const Dim& d) const {
  if (d.is_static()) return f_.i64(d.value());
  auto it = dims_.find(d.to_string());
  KILN_CHECK(it != dims_.end(),
             "a kernel uses a dim that is not in its signature: " + d.to_string());
  return it->second;
}

}  // namespace kiln::compiler
