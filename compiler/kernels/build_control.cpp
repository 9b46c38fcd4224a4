// Side effects, conditionals and loops.

#include <algorithm>
#include <bit>
#include <functional>
#include <set>
#include <utility>

#include "compiler/diagnostics.h"
#include "compiler/kernels/builder_state.h"
#include "compiler/kernels/constants.h"
#include "compiler/passes/passes.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::compiler {

void Builder::build_store_slice(const ir::Op& op) {
  int id = tensor_of_.at(op.operand(0));
  auto kernel = new_kernel(Kernel::Kind::loops);
  note(op);
  Arena& arena = *kernel->arena;
  Position position = add_axes(*kernel, op.operand(1)->type.tensor().shape);
  const Expr* element = at(arena, op.operand(1), position);
  kernel->stores.push_back({id, linear(arena, id, sliced(arena, op, position)), element});
  emit(std::move(kernel));
}

void Builder::build_print(const ir::Op& op) {
  Step step;
  step.print = std::make_unique<Print>();
  step.print->origin = &op;
  step.print->label = op.attribute<std::string>("label");
  if (op.has_attribute("text"))
    step.print->text = op.attribute<std::string>("text");
  else
    step.print->tensor = stored(op.operand(0));
  steps_->push_back(std::move(step));
}

std::vector<const ir::Value*> Builder::yielded(const ir::Block& region) {
  std::vector<const ir::Value*> values;
  for (const ir::Value* value : region.ops.back()->operands)
    if (is_tensor(value)) values.push_back(value);
  return values;
}

void Builder::build_region(const ir::Block& region, std::vector<Step>& steps,
                           const std::function<void()>& finish) {
  std::vector<Step>* outer = std::exchange(steps_, &steps);
  auto known = known_symbols_;
  auto divisors = checked_divisors_;
  auto sizes = sizes_;
  const ir::Op* current = current_;
  auto tensors = tensor_of_;
  auto packed = packed_;
  for (const auto& op : region.ops)
    if (op->kind != OpKind::yield && op->kind != OpKind::condition)
      working_on(*op, [&] { build_op(*op); });
  finish();
  // What was made inside exists only inside.
  tensor_of_ = std::move(tensors);
  packed_ = std::move(packed);
  known_symbols_ = std::move(known);
  checked_divisors_ = std::move(divisors);
  sizes_ = std::move(sizes);
  current_ = current;
  steps_ = outer;
}

void Builder::build_cond(const ir::Op& op) {
  auto condition = std::make_unique<Condition>();
  condition->origin = &op;
  condition->predicate = stored(op.operand(0));
  std::vector<int>& results = condition->results;
  std::set<std::string> symbols;
  for (const auto& result : op.results)
    if (is_tensor(result.get())) {
      results.push_back(new_tensor(Tensor::Storage::temporary, result->type.tensor()));
      tensor_of_[result.get()] = results.back();
      for (std::string& symbol : result->type.tensor().shape.parameters())
        if (!known_symbols_.count(symbol)) symbols.insert(std::move(symbol));
    }
  condition->symbols.assign(symbols.begin(), symbols.end());
  for (std::size_t side = 0; side < 2; ++side) {
    const ir::Block& region = *op.regions[side];
    build_region(region, side == 0 ? condition->then_steps : condition->else_steps, [&] {
      std::vector<const ir::Value*> values = yielded(region);
      for (std::size_t i = 0; i < values.size(); ++i) store_value(values[i], results[i], &op);
    });
  }
  known_symbols_.merge(symbols);
  Step step;
  step.condition = std::move(condition);
  steps_->push_back(std::move(step));
}

void Builder::build_while(const ir::Op& op) {
  auto loop = std::make_unique<Loop>();
  loop->origin = &op;
  std::vector<int> carried;
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    if (!is_tensor(op.operand(i))) continue;
    int id = new_tensor(Tensor::Storage::temporary, op.operand(i)->type.tensor());
    tensor(id).many_writers = true;
    store_value(op.operand(i), id, &op);
    carried.push_back(id);
  }
  auto bind = [&](const ir::Block& region) {
    std::size_t n = 0;
    for (const auto& argument : region.arguments)
      if (is_tensor(argument.get())) tensor_of_[argument.get()] = carried[n++];
  };
  const ir::Block& test = *op.regions[0];
  const ir::Block& body = *op.regions[1];
  bind(test);
  bind(body);
  build_region(test, loop->test, [&] { loop->predicate = stored(test.ops.back()->operand(0)); });
  build_region(body, loop->body, [&] {
    // All new values are made before any old one is overwritten.
    std::vector<const ir::Value*> values = yielded(body);
    std::vector<int> next;
    for (std::size_t i = 0; i < values.size(); ++i) {
      next.push_back(new_tensor(Tensor::Storage::temporary, values[i]->type.tensor()));
      store_value(values[i], next.back(), &op);
    }
    for (std::size_t i = 0; i < values.size(); ++i) copy(op, next[i], carried[i]);
  });
  std::size_t n = 0;
  for (const auto& result : op.results)
    if (is_tensor(result.get())) tensor_of_[result.get()] = carried[n++];
  Step step;
  step.loop = std::move(loop);
  steps_->push_back(std::move(step));
}

void Builder::copy(const ir::Op& op, int from, int to) {
  auto kernel = new_kernel(Kernel::Kind::loops);
  note(op);
  Position position = add_axes(*kernel, graph::Shape(tensor(from).shape));
  Arena& arena = *kernel->arena;
  kernel->stores.push_back({to, linear(arena, to, position),
                            arena.load(tensor(from).dtype, from, linear(arena, from, position))});
  emit(std::move(kernel));
}

}  // namespace kiln::compiler
