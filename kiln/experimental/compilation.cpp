#include "kiln/experimental/compilation.h"

#include <cctype>

#include "kiln/experimental/default_session.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::experimental::detail {
namespace {

std::vector<graph::Type> types_of(const std::vector<Argument>& arguments) {
  std::vector<graph::Type> types;
  for (const Argument& argument : arguments) {
    std::vector<graph::Type> local = argument.layout.local_types();
    if (local.size() != 1)
      throw NotImplementedError(
          format("Staging {} needs one graph value for each of its {} devices; only layouts of one "
                 "device can be staged so far.",
                 argument.layout.to_string(), local.size()));
    types.push_back(std::move(local[0]));
  }
  return types;
}

std::string place_text(const graph::Shape& shape, const driver::Device& device) {
  return format("shape {} on [{}:{}]", shape.to_string(), device.label(), device.id());
}

/// The error's text with positions of inputs as the routes of arguments.
std::string with_routes(std::string_view text, const std::vector<Argument>& arguments) {
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
    if (length > 0 && is_word && digits > length && index < arguments.size()) {
      result += "argument " + arguments[index].route;
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
      scope_(graph_) {
  const std::vector<graph::Value> values = graph_.inputs();
  for (std::size_t i = 0; i < values.size(); ++i) {
    inputs_.push_back(Tensor::from_graph_value(values[i]));
    if (!arguments[i].layout.is_buffer()) inputs_[i].name_argument(arguments[i].route);
  }
}

std::vector<Layout> StageScope::finish(const std::vector<Tensor>& results) {
  std::vector<graph::Value> values;
  std::vector<Layout> layouts;
  for (const Tensor& result : results) {
    values.push_back(result.tensorvalue());
    layouts.push_back(as_layout(values.back().type()));
  }
  graph_.output_values(values);
  return layouts;
}

driver::Buffer checked_argument(const Tensor& tensor, const Argument& argument) {
  if (tensor.is_empty())
    throw TypeError(format("argument {}: expected a Tensor, got an empty one", argument.route));
  tensor.realize();
  const driver::Buffer& buffer = tensor.driver_tensor();
  const Layout& layout = argument.layout;
  if (layout.is_buffer()) {
    if (buffer.dtype() == layout.dtype()) return buffer;
    throw ValueError(format("argument {}: expected {} across 1 device(s), got {} across 1",
                            argument.route, layout.dtype().name(), buffer.dtype().name()));
  }
  bool fits = buffer.dtype() == layout.dtype() && buffer.rank() == layout.rank() &&
              buffer.device() == layout.device();
  for (int axis = 0; fits && axis < layout.rank(); ++axis) {
    const graph::Dim& dim = layout.shape()[axis];
    fits = !dim.is_static() || dim.value() == buffer.shape()[static_cast<std::size_t>(axis)];
  }
  if (!fits)
    throw ValueError(format("argument {}: expected {} {}, got {} {}", argument.route,
                            layout.dtype().name(), place_text(layout.shape(), layout.device()),
                            buffer.dtype().name(), place_text(tensor.shape(), buffer.device())));
  return buffer.is_contiguous() ? buffer : buffer.copy();
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
