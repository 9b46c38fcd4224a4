#include "kiln/experimental/subgraph.h"

#include <atomic>

#include "kiln/graph/ops.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::experimental::detail {

SubgraphCall::SubgraphCall(const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors) {
    mappings.push_back(tensor.mapping());
    for (const Tensor& shard : tensor.local_shards()) {
      // A buffer stays one.
      values.push_back(shard.real() ? graph::Value(shard.tensorvalue()) : shard.graph_values()[0]);
      types.push_back(values.back().type());
    }
  }
}

namespace {

std::vector<Tensor> tensors_from(const std::vector<graph::Value>& values,
                                 const std::vector<DeviceMapping>& mappings) {
  std::vector<Tensor> tensors;
  auto next = values.begin();
  for (const DeviceMapping& mapping : mappings) {
    const auto end = next + mapping.mesh().num_devices();
    tensors.push_back(Tensor::from_shard_values({next, end}, mapping));
    next = end;
  }
  return tensors;
}

/// A name that no graph of the trace has.
std::string unique(SubgraphTrace& trace, const std::string& name) {
  std::string result = name;
  for (int i = 1; !trace.names.insert(result).second; ++i) result = format("{}_{}", name, i);
  return result;
}

}  // namespace

SubgraphScope::SubgraphScope(SubgraphTrace& trace, const std::string& name,
                             const SubgraphCall& call)
    : body_{trace.graph.add_subgraph(unique(trace, name), {.input_types = call.types}),
            call.types,
            call.mappings,
            {}},
      scope_(body_.graph),
      inputs_(tensors_from(body_.graph.inputs(), call.mappings)) {
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (!inputs_[i].graph_values()[0].type().is_buffer())
      inputs_[i].name_argument(format("{} of '{}'", i, body_.graph.name()));
}

SubgraphBody SubgraphScope::finish(const std::vector<Tensor>& results) {
  std::vector<graph::Value> values;
  for (const Tensor& result : results) {
    int argument = -1;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i].is(result)) argument = static_cast<int>(i);
    const bool is_buffer = !result.real() && result.graph_values()[0].type().is_buffer();
    if (is_buffer && argument < 0)
      throw ValueError(
          format("The subgraph '{}' returns a buffer that it created: each call would create new "
                 "buffer memory that its caller does not know. Return a tensor, such as `t + 0`.",
                 body_.graph.name()));
    if (is_buffer) {
      body_.outputs.push_back({argument});
      continue;
    }
    body_.outputs.push_back({-1, result.mapping()});
    for (const Tensor& shard : result.local_shards()) values.push_back(shard.tensorvalue());
  }
  body_.graph.output_values(values);
  return std::move(body_);
}

std::vector<Tensor> call_subgraph(const SubgraphBody& body, const SubgraphCall& call,
                                  const std::vector<Tensor>& arguments, const std::string& prefix) {
  const std::vector<graph::Value> results =
      graph::ops::call(body.graph, call.values, {.prefix = prefix});
  std::vector<DeviceMapping> mappings;
  for (const SubgraphBody::Output& output : body.outputs)
    if (output.argument < 0) mappings.push_back(output.mapping);
  const std::vector<Tensor> made = tensors_from(results, mappings);
  std::vector<Tensor> tensors;
  auto next = made.begin();
  for (const SubgraphBody::Output& output : body.outputs)
    tensors.push_back(output.argument < 0 ? *next++
                                          : arguments[static_cast<std::size_t>(output.argument)]);
  return tensors;
}

std::string next_subgraph_key() {
  static std::atomic<std::uint64_t> last{0};
  return format("#{}", ++last);  // no name of a user's begins so
}

std::string prefix_of(const Module& module) {
  std::string prefix;
  for (const auto& [path, tensor] : module.parameters()) {
    const auto name = tensor.external_name();
    if (!name) continue;
    const bool ends = *name == path || name->ends_with("." + path);
    if (!ends)
      throw TypeError(
          format("weight '{}' is stored at '{}' in this callable, but its name does not end with "
                 "that path.",
                 *name, path));
    prefix = name->substr(0, name->size() - path.size());
  }
  return prefix;
}

}  // namespace kiln::experimental::detail
