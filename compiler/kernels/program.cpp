#include "compiler/kernels/program.h"

namespace kiln::compiler {

std::vector<Dim> Tensor::strides() const {
  std::vector<Dim> result(shape.size(), Dim(1));
  Dim step = 1;
  for (std::size_t i = layout.size(); i > 0; --i) {
    auto axis = static_cast<std::size_t>(layout[i - 1]);
    result[axis] = step;
    step = step * shape[axis];
  }
  return result;
}

Dim Tensor::num_elements() const {
  return elements ? *elements : graph::Shape(shape).num_elements();
}

std::vector<const Expr*> loads_of(const Kernel& kernel) {
  std::vector<const Expr*> loads;
  std::unordered_map<const Expr*, bool> seen;
  auto visit = [&](const Expr* e) {
    if (e->kind == Expr::Kind::load) loads.push_back(e);
  };
  for (const Store& store : kernel.stores) {
    walk(store.value, seen, visit);
    walk_index(store.index, seen, visit);
  }
  if (kernel.score) walk(kernel.score, seen, visit);
  return loads;
}

Accesses accesses_of(const Step& step) {
  Accesses accesses;
  auto add = [&](const std::vector<Step>& steps) {
    for (const Step& inner : steps) {
      Accesses more = accesses_of(inner);
      accesses.reads.insert(more.reads.begin(), more.reads.end());
      accesses.writes.insert(more.writes.begin(), more.writes.end());
    }
  };
  if (step.kernel) {
    const Kernel& kernel = *step.kernel;
    for (const Expr* load : loads_of(kernel)) accesses.reads.insert(load->tensor);
    for (const MatrixOperand& operand : kernel.operands) accesses.reads.insert(operand.tensor);
    for (const Store& store : kernel.stores) accesses.writes.insert(store.tensor);
  }
  if (step.read) accesses.reads.insert(step.read->tensor);
  if (step.print && step.print->tensor >= 0) accesses.reads.insert(step.print->tensor);
  if (step.call)
    for (const LibraryCall::Argument& argument : step.call->arguments)
      if (argument.kind == LibraryCall::Argument::Kind::tensor)
        (step.call->writes.count(argument.tensor) ? accesses.writes : accesses.reads)
            .insert(argument.tensor);
  if (step.condition) {
    accesses.reads.insert(step.condition->predicate);
    add(step.condition->then_steps);
    add(step.condition->else_steps);
  }
  if (step.loop) {
    accesses.reads.insert(step.loop->predicate);
    add(step.loop->test);
    add(step.loop->body);
  }
  return accesses;
}

bool may_fail(const Store& store) {
  bool found = false;
  std::unordered_map<const Expr*, bool> seen;
  auto visit = [&](const Expr* e) { found = found || e->kind == Expr::Kind::checked_index; };
  walk(store.value, seen, visit);
  walk_index(store.index, seen, visit);
  return found;
}

void check_same_weight(const std::string& name, DType dtype, const graph::Shape& shape,
                       DType other_dtype, const graph::Shape& other_shape) {
  if (dtype == other_dtype && shape == other_shape) return;
  throw RuntimeError(format(
      "Failed to compile the model. Weight '{}' is declared twice with different types: {} {} "
      "and {} {}.",
      name, dtype.text_name(), shape.to_string(), other_dtype.text_name(),
      other_shape.to_string()));
}

}  // namespace kiln::compiler
