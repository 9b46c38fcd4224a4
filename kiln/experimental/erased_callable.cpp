#include "kiln/experimental/erased_callable.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "kiln/graph/type_text.h"
#include "kiln/runtime/artifact.h"
#include "kiln/support/format.h"

namespace kiln::experimental {
namespace {

using nlohmann::json;
using Erased = CompiledCallable<void>;

constexpr std::string_view kMagic = "KILNCALL";
constexpr int kFormat = 1;
constexpr int kDeepest = 64;
constexpr int kMostDevices = 1 << 16;

template <typename Leaf>
std::string text_of(const tree::Value<Leaf>& value) {
  return std::visit(
      [](const auto& data) -> std::string {
        using Data = std::remove_cvref_t<decltype(data)>;
        if constexpr (std::is_same_v<Data, std::monostate>)
          return "nothing";
        else if constexpr (std::is_same_v<Data, Leaf>)
          return "a tensor";
        else if constexpr (std::is_same_v<Data, typename tree::Value<Leaf>::List>)
          return format("a list of {}", data.size());
        else if constexpr (std::is_same_v<Data, typename tree::Value<Leaf>::Named>) {
          return format("keys [{}]", join(data.keys, ", "));
        } else {
          return detail::text_of(data);
        }
      },
      value.data);
}

/// Walks what was staged and what is given side by side.
void match(const Erased::Signature& staged, const Erased::Value& given, const std::string& path,
           std::vector<Tensor>& tensors) {
  if (staged.leaf()) {
    if (!given.leaf())
      throw TypeError(format("argument {}: expected a Tensor, got {}",
                             path.empty() ? "<root>" : path, text_of(given)));
    tensors.push_back(*given.leaf());
    return;
  }
  const auto differ = [&] { detail::throw_mismatch(path, text_of(staged), text_of(given)); };
  if (staged.data.index() != given.data.index()) differ();
  if (const auto* list = staged.list()) {
    if (list->size() != given.list()->size()) differ();
    for (std::size_t i = 0; i < list->size(); ++i)
      match((*list)[i], (*given.list())[i], tree::extend_path(path, i), tensors);
  } else if (const auto* named = staged.named()) {
    if (named->keys != given.named()->keys) differ();
    for (std::size_t i = 0; i < named->keys.size(); ++i)
      match(named->children[i], given.named()->children[i], tree::extend_path(path, named->keys[i]),
            tensors);
  } else if (text_of(staged) != text_of(given)) {
    differ();
  }
}

std::vector<detail::Argument> leaves_of(const Erased::Signature& tree) {
  std::vector<detail::Argument> leaves;
  tree::for_each_leaf(tree, "", [&](const Layout& layout, const std::string& path) {
    leaves.push_back({path, layout});
  });
  return leaves;
}

std::vector<Layout> layouts_of(const Erased::Signature& tree) {
  std::vector<Layout> layouts;
  for (const detail::Argument& leaf : leaves_of(tree)) layouts.push_back(leaf.layout);
  return layouts;
}

void check_fit(const std::vector<Layout>& layouts,
               const std::vector<runtime::TensorSignature>& tensors, const char* what) {
  std::vector<graph::Type> types;
  for (const Layout& layout : layouts)
    for (graph::Type& type : layout.local_types()) types.push_back(std::move(type));
  bool fits = types.size() == tensors.size();
  for (std::size_t i = 0; fits && i < types.size(); ++i) {
    const graph::ShapedType& type = types[i].shaped();
    fits = type.dtype == tensors[i].dtype && type.shape.rank() == tensors[i].shape.rank() &&
           type.device == tensors[i].device;
  }
  if (!fits)
    throw ValueError(
        format("The layouts of the {} are not those of the graph, which has {}, for {} layouts of "
               "{} devices in all.",
               what, tensors.size(), layouts.size(), types.size()));
}

// ---- bytes ----

json layout_to_json(const Layout& layout) {
  const DeviceMesh& mesh = layout.mesh();
  json devices = json::array(), placements = json::array();
  for (const driver::Device& device : mesh.devices())
    devices.push_back({device.label(), device.id()});
  for (const Placement& placement : layout.placements()) {
    json entry = {{"kind", placement.index()}};
    if (const auto* sharded = std::get_if<Sharded>(&placement)) entry["axis"] = sharded->axis;
    if (const auto* partial = std::get_if<Partial>(&placement))
      entry["reduce_op"] = static_cast<int>(partial->reduce_op);
    placements.push_back(std::move(entry));
  }
  const graph::Type type(
      graph::TensorType(layout.dtype(), layout.shape(), graph::DeviceRef::CPU()));
  return {{"type", type.to_text()},          {"buffer", layout.is_buffer()},
          {"devices", std::move(devices)},   {"mesh_shape", mesh.mesh_shape()},
          {"axis_names", mesh.axis_names()}, {"placements", std::move(placements)}};
}

Placement placement_from_json(const json& entry) {
  switch (entry.at("kind").get<int>()) {
    case 0:
      return Replicated{};
    case 1:
      return Sharded{entry.at("axis").get<int>()};
    case 2: {
      const int op = entry.at("reduce_op").get<int>();
      if (op < 0 || op > static_cast<int>(ReduceOp::max)) throw ValueError("no reduction");
      return Partial{static_cast<ReduceOp>(op)};
    }
    case 3:
      return Unknown{};
    default:
      throw ValueError("no placement");
  }
}

Layout layout_from_json(const json& entry) {
  const graph::Type parsed = graph::parse_type(entry.at("type").get<std::string>());
  if (!parsed.is_tensor()) throw ValueError("a layout is of no tensor");
  const graph::TensorType& type = parsed.tensor();
  std::vector<driver::Device> devices;
  if (entry.at("devices").size() > kMostDevices) throw ValueError("too many devices");
  for (const json& device : entry.at("devices")) {
    const int id = device.at(1).get<int>();
    devices.push_back(device.at(0).get<std::string>() == "cpu" ? driver::CPU(id)
                                                               : driver::Accelerator(id));
  }
  std::vector<Placement> placements;
  for (const json& placement : entry.at("placements"))
    placements.push_back(placement_from_json(placement));
  const DeviceMesh mesh(std::move(devices), entry.at("mesh_shape").get<std::vector<int>>(),
                        entry.at("axis_names").get<std::vector<std::string>>());
  const TensorLayout layout(type.dtype, type.shape, DeviceMapping(mesh, std::move(placements)));
  if (entry.at("buffer").get<bool>()) return layout.as_buffer();
  return layout;
}

json tree_to_json(const Erased::Signature& tree) {
  return std::visit(
      [](const auto& data) -> json {
        using Data = std::remove_cvref_t<decltype(data)>;
        if constexpr (std::is_same_v<Data, std::monostate>) {
          return nullptr;
        } else if constexpr (std::is_same_v<Data, Layout>) {
          return {{"layout", layout_to_json(data)}};
        } else if constexpr (std::is_same_v<Data, Erased::Signature::List>) {
          json list = json::array();
          for (const auto& child : data) list.push_back(tree_to_json(child));
          return list;
        } else if constexpr (std::is_same_v<Data, Erased::Signature::Named>) {
          json children = json::array();
          for (std::size_t i = 0; i < data.keys.size(); ++i)
            children.push_back({data.keys[i], tree_to_json(data.children[i])});
          return {{"named", std::move(children)}};
        } else if constexpr (std::is_same_v<Data, double>) {
          // As bits: JSON has no infinities.
          std::int64_t bits = 0;
          std::memcpy(&bits, &data, sizeof bits);
          return {{"real", bits}};
        } else {
          return data;
        }
      },
      tree.data);
}

Erased::Signature tree_from_json(const json& text) {
  if (text.is_null()) return {};
  if (text.is_boolean()) return {text.get<bool>()};
  if (text.is_number_integer()) return {text.get<std::int64_t>()};
  if (text.is_string()) return {text.get<std::string>()};
  if (text.is_array()) {
    Erased::Signature::List list;
    for (const json& child : text) list.push_back(tree_from_json(child));
    return {std::move(list)};
  }
  if (text.contains("layout")) return {layout_from_json(text.at("layout"))};
  if (text.contains("real")) {
    const auto bits = text.at("real").get<std::int64_t>();
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return {value};
  }
  Erased::Signature::Named named;
  for (const json& child : text.at("named"))
    named.add(child.at(0).get<std::string>(), tree_from_json(child.at(1)));
  return {std::move(named)};
}

}  // namespace

struct Erased::State {
  engine::CompiledModel artifact;
  std::optional<engine::Model> model;
  Signature in_tree, out_tree;
  engine::WeightsRegistry weights;
  std::vector<detail::Argument> arguments;
  std::vector<Layout> out_layouts;
};

Erased::CompiledCallable(engine::CompiledModel artifact, std::optional<engine::Model> model,
                         Signature in_tree, Signature out_tree, engine::WeightsRegistry weights) {
  const auto& graphs = artifact.artifact()->header().graphs;
  if (graphs.size() != 1)
    throw ValueError(format(
        "A callable is made of an artifact of one graph, but this one holds {}.", graphs.size()));
  if (model && model->name() != graphs[0].name)
    throw ValueError(format("The model '{}' is not the graph '{}' of the artifact.", model->name(),
                            graphs[0].name));
  std::vector<detail::Argument> arguments = leaves_of(in_tree);
  std::vector<Layout> out_layouts = layouts_of(out_tree);
  check_fit(layouts_of(in_tree), graphs[0].inputs, "arguments");
  check_fit(out_layouts, graphs[0].outputs, "results");
  state_ = std::make_shared<const State>(
      State{std::move(artifact), std::move(model), std::move(in_tree), std::move(out_tree),
            std::move(weights), std::move(arguments), std::move(out_layouts)});
}

const engine::Model& Erased::engine_model() const {
  if (!state_->model)
    throw RuntimeError(
        "this callable has no initialized model; initialize its artifact and use "
        "from_engine_model");
  return *state_->model;
}

const engine::CompiledModel& Erased::artifact() const { return state_->artifact; }
const engine::WeightsRegistry& Erased::weights() const { return state_->weights; }
const Erased::Signature& Erased::in_tree() const { return state_->in_tree; }
const Erased::Signature& Erased::out_tree() const { return state_->out_tree; }
std::vector<Layout> Erased::in_layouts() const { return layouts_of(state_->in_tree); }
std::vector<Layout> Erased::out_layouts() const { return state_->out_layouts; }

void Erased::export_mef(const std::string& path, bool include_weights) const {
  include_weights ? state_->artifact.export_mef(path, state_->weights)
                  : state_->artifact.export_mef(path);
}

Erased::Value Erased::run(const Value& arguments) const {
  const engine::Model& model = engine_model();
  std::vector<Tensor> tensors;
  match(state_->in_tree, arguments, "", tensors);
  detail::CallInputs inputs(state_->arguments);
  for (const Tensor& tensor : tensors) inputs.add(tensor);
  const std::vector<Tensor> results = detail::results_of(
      detail::execute(model, inputs.finish(), state_->arguments), state_->out_layouts);
  std::size_t next = 0;
  return tree::map_leaves<Tensor>(state_->out_tree, [&](const Layout&) { return results[next++]; });
}

std::vector<std::byte> Erased::to_bytes() const {
  const std::string header = json{{"format", kFormat},
                                  {"in_tree", tree_to_json(state_->in_tree)},
                                  {"out_tree", tree_to_json(state_->out_tree)}}
                                 .dump(-1, ' ', false, json::error_handler_t::replace);
  const std::span<const std::byte> artifact = state_->artifact.artifact()->bytes();
  const std::uint64_t length = header.size();
  std::vector<std::byte> bytes(kMagic.size() + sizeof length + header.size() + artifact.size());
  std::byte* at = bytes.data();
  const auto put = [&](const void* data, std::size_t size) {
    std::memcpy(at, data, size);
    at += size;
  };
  put(kMagic.data(), kMagic.size());
  put(&length, sizeof length);
  put(header.data(), header.size());
  put(artifact.data(), artifact.size());
  return bytes;
}

Erased Erased::from_bytes(std::span<const std::byte> bytes) {
  std::uint64_t length = 0;
  const std::size_t start = kMagic.size() + sizeof length;
  if (bytes.size() < start || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    throw RuntimeError("These bytes are no callable: they do not begin like one.");
  std::memcpy(&length, bytes.data() + kMagic.size(), sizeof length);
  if (length > bytes.size() - start)
    throw RuntimeError("These bytes are a callable that was cut short.");
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + start;
  Signature in_tree, out_tree;
  try {
    bool is_deep = false;
    const auto shallow = [&](int depth, json::parse_event_t, json&) {
      is_deep = is_deep || depth > kDeepest;
      return !is_deep;
    };
    const json header = json::parse(text, text + length, shallow);
    if (is_deep) throw ValueError("its trees are too deep");
    if (header.at("format").get<int>() != kFormat)
      throw ValueError(
          format("its format is {}, and {} is known", header.at("format").dump(), kFormat));
    in_tree = tree_from_json(header.at("in_tree"));
    out_tree = tree_from_json(header.at("out_tree"));
  } catch (const json::exception& error) {
    throw RuntimeError(format("These bytes are no callable: {}.", error.what()));
  } catch (const Error& error) {
    throw RuntimeError(format("These bytes are no callable: {}.", error.message()));
  }
  engine::CompiledModel artifact = engine::read(bytes.subspan(start + length), "<callable>");
  try {
    return {std::move(artifact), std::nullopt, std::move(in_tree), std::move(out_tree)};
  } catch (const ValueError& error) {
    throw RuntimeError(format("These bytes are no callable: {}", error.message()));
  }
}

}  // namespace kiln::experimental
