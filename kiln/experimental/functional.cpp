#include "kiln/experimental/functional.h"

namespace kiln::experimental::functional {

namespace {

std::vector<graph::Value> values_of(const std::vector<Tensor>& tensors) {
  std::vector<graph::Value> values;
  for (const Tensor& tensor : tensors) values.push_back(tensor.tensorvalue());
  return values;
}

std::vector<Tensor> tensors_of(const std::vector<graph::Value>& values) {
  std::vector<Tensor> tensors;
  for (const graph::Value& value : values) tensors.push_back(Tensor::from_graph_value(value));
  return tensors;
}

}  // namespace

Tensor clip(const Tensor& x, const std::optional<TensorLike>& least,
            const std::optional<TensorLike>& most) {
  const Tensor bounded = least ? max(x, *least) : x;
  return most ? min(bounded, *most) : bounded;
}

void print(const Tensor& x, const std::string& label) {
  static const std::uint64_t id = experimental::detail::next_op_id();
  Call call("print", id);
  experimental::detail::add_argument(call.arguments(), x);
  experimental::detail::add_argument(call.arguments(), label);
  if (const auto plan = call.plan(); plan && call.run(*plan)) return;
  call.record();
  graph::ops::print(x.tensorvalue(), label);
  call.finish({});
}

std::vector<Tensor> cond(const Tensor& pred, const std::vector<graph::Type>& out_types,
                         const Branch& then_fn, const Branch& else_fn) {
  const auto region = [](const Branch& branch) -> graph::ops::RegionFunction {
    return [&branch](const std::vector<graph::Value>&) { return values_of(branch()); };
  };
  Call call("cond", 0);
  experimental::detail::add_argument(call.arguments(), pred);
  call.arguments().key.spoil();
  call.record_control_flow();
  call.finish(graph::ops::cond(pred.tensorvalue(), out_types, region(then_fn), region(else_fn)));
  return std::move(call.results());
}

std::vector<Tensor> while_loop(const std::vector<Tensor>& initial_values,
                               const std::function<Tensor(const std::vector<Tensor>&)>& predicate,
                               const Step& body) {
  Call call("while_loop", 0);
  experimental::detail::add_argument(call.arguments(), initial_values);
  call.arguments().key.spoil();
  call.record_control_flow();
  std::vector<graph::TensorValueLike> values;
  for (const Tensor& value : initial_values) values.emplace_back(value.tensorvalue());
  call.finish(graph::ops::while_loop(
      values, graph::ops::RegionFunction([&](const std::vector<graph::Value>& now) {
        return values_of({predicate(tensors_of(now))});
      }),
      graph::ops::RegionFunction(
          [&](const std::vector<graph::Value>& now) { return values_of(body(tensors_of(now))); })));
  return std::move(call.results());
}

}  // namespace kiln::experimental::functional
