#include "kiln/experimental/compilation.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "kiln/experimental/default_session.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::experimental::detail {
namespace {

thread_local SubgraphTrace* trace = nullptr;

std::vector<graph::Type> types_of(const std::vector<Argument>& arguments) {
  check_part_names(arguments);
  std::vector<graph::Type> types;
  for (const Argument& argument : arguments)
    for (graph::Type& type : argument.layout.local_types()) types.push_back(std::move(type));
  return types;
}

std::string place_text(const graph::Shape& shape, const DeviceMapping& mapping) {
  std::vector<std::string> devices, placements;
  for (const driver::Device& device : mapping.mesh().devices())
    devices.push_back(format("{}:{}", device.label(), device.id()));
  for (const Placement& placement : mapping.placements())
    placements.push_back(experimental::to_string(placement));
  const std::string text = format("shape {} on [{}]", shape.to_string(), join(devices, ", "));
  return mapping.mesh().is_single() ? text : format("{} as [{}]", text, join(placements, ", "));
}

/// Which argument each input of the graph is a part of.
std::vector<std::size_t> arguments_of_inputs(const std::vector<Argument>& arguments) {
  std::vector<std::size_t> owners;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    owners.insert(owners.end(), static_cast<std::size_t>(arguments[i].layout.mesh().num_devices()),
                  i);
  return owners;
}

/// The error's text with positions of inputs as the routes of arguments.
std::string with_routes(std::string_view text, const std::vector<Argument>& arguments) {
  const std::vector<std::size_t> owners = arguments_of_inputs(arguments);
  std::string result;
  while (!text.empty()) {
    std::size_t length = 0;
    for (std::string_view start : {"Input at position ", "input at position ", "Input ", "input "})
      if (text.starts_with(start)) length = std::max(length, start.size());
    const bool is_word = result.empty() || !std::isalnum(static_cast<unsigned char>(result.back()));
    std::size_t digits = length, index = 0;
    while (digits < text.size() && digits < length + 6 && text[digits] >= '0' &&
           text[digits] <= '9')
      index = index * 10 + static_cast<std::size_t>(text[digits++] - '0');
    if (length > 0 && is_word && digits > length && index < owners.size()) {
      result += "argument " + arguments[owners[index]].route;
      text.remove_prefix(digits);
    } else {
      result += text.front();
      text.remove_prefix(1);
    }
  }
  return result;
}

}  // namespace

StageScope::StageScope(const StageOptions& options, std::vector<Argument> arguments)
    : graph_(options.name, {.input_types = types_of(arguments),
                            .custom_extensions = options.custom_extensions,
                            .is_device_graph = options.is_device_graph}),
      scope_(graph_),
      trace_(graph_),
      outer_(trace) {
  trace = options.allow_subgraphs ? &trace_ : nullptr;
  const std::vector<graph::Value> values = graph_.inputs();
  auto next = values.begin();
  for (const Argument& argument : arguments) {
    const std::vector<graph::Value> own(next, next + argument.layout.mesh().num_devices());
    next += argument.layout.mesh().num_devices();
    inputs_.push_back(Tensor::from_shard_values(own, argument.layout.mapping()));
    if (!argument.layout.is_buffer()) inputs_.back().name_argument(argument.route);
  }
}

StageScope::~StageScope() { trace = outer_; }

SubgraphTrace* SubgraphTrace::current() noexcept {
  return trace && graph::Graph::has_current() && graph::Graph::current() == trace->graph ? trace
                                                                                         : nullptr;
}

std::vector<Layout> StageScope::finish(const std::vector<Tensor>& results) {
  std::vector<graph::Value> values;
  std::vector<Layout> layouts;
  for (const Tensor& result : results) {
    for (const Tensor& shard : result.local_shards()) values.push_back(shard.tensorvalue());
    layouts.push_back(result.is_distributed() ? result.layout() : as_layout(values.back().type()));
  }
  graph_.output_values(values);
  return layouts;
}

void check_part_names(const std::vector<Argument>& arguments) {
  struct Part {
    std::string text;  // what it is a part of, and which
    const Argument* argument;
  };
  std::map<std::string, Part> known;
  for (const Argument& argument : arguments) {
    const DeviceMapping& mapping = argument.layout.mapping();
    const DeviceMesh& mesh = mapping.mesh();
    const std::vector<graph::Shape> local = mapping.local_shapes(argument.layout.shape());
    for (int device = 0; device < mesh.num_devices(); ++device)
      for (std::size_t at = 0; at < argument.layout.shape().size(); ++at) {
        const graph::Dim& dim = local[static_cast<std::size_t>(device)][at];
        if (!dim.is_symbolic()) continue;
        std::string text = argument.layout.shape()[at].to_string();
        for (int axis = 0; axis < mesh.ndim(); ++axis)
          if (mapping.placements()[static_cast<std::size_t>(axis)] ==
                  Placement(Sharded{static_cast<int>(at)}) &&
              mesh.axis_size(axis) > 1)
            text += format(", part {} of {} along '{}'", mesh.device_coord(device, axis),
                           mesh.axis_size(axis), mesh.axis_names()[static_cast<std::size_t>(axis)]);
        const auto [it, fresh] = known.try_emplace(dim.name(), Part{text, &argument});
        if (fresh || it->second.text == text) continue;
        throw ValueError(format(
            "argument {}: '{}' is the name of a size here ({}) and of another one in argument {} "
            "({}). Give the mesh axis or the symbol another name.",
            argument.route, dim.name(), text, it->second.argument->route, it->second.text));
      }
  }
}

CallInputs::CallInputs(const std::vector<Argument>& arguments) : arguments_(arguments) {
  buffers_.reserve(arguments.size());
  for (const Argument& argument : arguments)
    is_distributed_ = is_distributed_ || !argument.layout.mesh().is_single();
}

std::span<const driver::Buffer> CallInputs::finish() {
  std::map<std::string, graph::Dim> sizes;
  for (std::size_t i = 0; i < shapes_.size(); ++i) {
    const graph::Shape& declared = arguments_[i].layout.shape();
    for (std::size_t axis = 0; axis < std::min(declared.size(), shapes_[i].size()); ++axis) {
      if (!declared[axis].is_symbolic()) continue;
      const graph::Dim& size = shapes_[i][axis];
      if (sizes.try_emplace(declared[axis].name(), size).first->second != size)
        throw ValueError(
            format("symbolic dimension '{}' for argument {} does not match prior uses of that "
                   "dimension",
                   declared[axis].name(), arguments_[i].route));
    }
  }
  return buffers_;
}

void CallInputs::add(const Tensor& tensor) {
  const Argument& argument = arguments_[next_++];
  if (tensor.is_empty())
    throw TypeError(format("argument {}: expected a Tensor, got an empty one", argument.route));
  tensor.realize();
  const Layout& layout = argument.layout;
  const std::vector<driver::Buffer> buffers = tensor.buffers();
  const int shards = layout.mesh().num_devices();
  if (is_distributed_) shapes_.push_back(tensor.shape());
  if (layout.is_buffer()) {
    if (tensor.dtype() != layout.dtype() || tensor.num_shards() != shards)
      throw ValueError(format("argument {}: expected {} across {} device(s), got {} across {}",
                              argument.route, layout.dtype().name(), shards, tensor.dtype().name(),
                              tensor.num_shards()));
    if (shards > 1 && tensor.mapping() != layout.mapping())
      throw ValueError(format("argument {}: expected {} {}, got {} {}", argument.route,
                              layout.dtype().name(), place_text(layout.shape(), layout.mapping()),
                              tensor.dtype().name(), place_text(tensor.shape(), tensor.mapping())));
    buffers_.insert(buffers_.end(), buffers.begin(), buffers.end());
    return;
  }
  const graph::Shape shape = tensor.shape();
  bool fits = tensor.dtype() == layout.dtype() && shape.rank() == layout.rank() &&
              (shards == 1 ? !tensor.is_distributed() && buffers[0].device() == layout.device()
                           : tensor.mapping() == layout.mapping());
  for (std::size_t axis = 0; fits && axis < shape.size(); ++axis) {
    const graph::Dim& dim = layout.shape()[axis];
    fits = !dim.is_static() || dim == shape[axis];
  }
  if (!fits)
    throw ValueError(format("argument {}: expected {} {}, got {} {}", argument.route,
                            layout.dtype().name(), place_text(layout.shape(), layout.mapping()),
                            tensor.dtype().name(), place_text(shape, tensor.mapping())));
  for (const driver::Buffer& buffer : buffers)
    buffers_.push_back(buffer.is_contiguous() ? buffer : buffer.copy());
}

std::vector<Tensor> results_of(engine::Model::Outputs outputs, const std::vector<Layout>& layouts) {
  std::vector<Tensor> results;
  auto next = outputs.begin();
  for (const Layout& layout : layouts) {
    std::vector<Tensor> shards;
    for (int i = 0; i < layout.mesh().num_devices(); ++i) shards.emplace_back(std::move(*next++));
    results.push_back(shards.size() == 1 ? std::move(shards[0])
                                         : Tensor::from_shards(shards, layout.mapping()));
  }
  return results;
}

engine::Model::Outputs execute(const engine::Model& model, std::span<const driver::Buffer> inputs,
                               const std::vector<Argument>& arguments) {
  try {
    return model.execute(inputs);
  } catch (const ValueError& error) {
    throw ValueError(with_routes(error.message(), arguments));
  } catch (const TypeError& error) {
    throw TypeError(with_routes(error.message(), arguments));
  }
}

void throw_mismatch(const std::string& path, const std::string& expected, const std::string& got) {
  throw ValueError(format("tree structure mismatch at {}: expected {}, got {}",
                          path.empty() ? "<root>" : path, expected, got));
}

std::pair<engine::CompiledModel, engine::Model> compile_staged(
    const graph::Graph& graph, const engine::WeightsRegistry& weights,
    const engine::InferenceSession* session) {
  const engine::InferenceSession& chosen = session ? *session : default_session();
  engine::CompiledModel artifact = chosen.compile_reusing_mefs(graph);
  engine::Model model = chosen.init(artifact, weights);
  return {std::move(artifact), std::move(model)};
}

}  // namespace kiln::experimental::detail
