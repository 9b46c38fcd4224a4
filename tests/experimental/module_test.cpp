// Modules and subgraphs. Expected values are worked out by hand.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kiln/experimental.h"
#include "kiln/support/error.h"
#include "kiln/support/warning.h"
#include "tests/experimental/tensors.h"

namespace kiln::experimental {
namespace {

namespace F = functional;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::ThrowsMessage;

struct Linear : Module {
  Tensor weight, bias;
  KILN_MODULE(weight, bias);

  Linear() = default;
  Linear(Tensor w, Tensor b) : weight(std::move(w)), bias(std::move(b)) {}
  Tensor forward(Tensor x) const { return F::matmul(x, weight) + bias; }
};

struct Network : Module {
  std::vector<Linear> layers;
  std::map<std::string, Linear> heads;
  std::unique_ptr<Linear> extra;
  std::optional<Tensor> gain;
  Tensor none;
  KILN_MODULE(layers, heads, extra, gain, none);

  Tensor forward(Tensor x) {
    for (Linear& layer : layers) x = as_subgraph(layer)(x);
    return x * *gain;
  }
};

Network network() {
  Network made;
  made.layers.emplace_back(Tensor({{1, 2}, {3, 4}}), Tensor({1, 1}));
  made.layers.emplace_back(Tensor({{1, 0}, {0, 2}}), Tensor({0, 5}));
  made.heads["a"] = Linear(Tensor({{1}, {1}}), Tensor({0}));
  made.gain = Tensor({10, 10});
  return made;
}

std::vector<std::string> names(const Module& module) {
  std::vector<std::string> result;
  for (const auto& [name, tensor] : module.parameters()) result.push_back(name);
  return result;
}

TEST(Modules, HaveParametersAndChildren) {
  Network net = network();
  EXPECT_THAT(names(net), ElementsAre("gain", "layers.0.weight", "layers.0.bias", "layers.1.weight",
                                      "layers.1.bias", "heads.a.weight", "heads.a.bias"));
  EXPECT_EQ(net.local_parameters().size(), 1U);
  EXPECT_EQ(net.children().size(), 3U);
  EXPECT_EQ(net.descendants()[1].first, "layers.1");
  EXPECT_EQ(net.device(), driver::CPU());
  EXPECT_THAT(net.to_string(), HasSubstr("Network(\n  gain: float32 [2]\n  layers.0: Linear(\n    "
                                         "weight: float32 [2, 2]\n    bias: float32 [2]\n  )"));
  net.apply_to_parameters(
      [](const std::string& name, const Tensor& old) { return name == "gain" ? old * 2 : old; });
  EXPECT_THAT(floats(*net.gain), ElementsAre(20, 20));
}

TEST(Modules, TakeStates) {
  Linear linear(Tensor({{1, 2}}), Tensor({3}));
  const auto data = [](const Tensor& tensor) { return tensor.driver_tensor(); };
  linear.load_state_dict({{"weight", data(Tensor({{5, 6}}))}, {"bias", data(Tensor({7}))}});
  EXPECT_THAT(floats(linear.weight), ElementsAre(5, 6));
  EXPECT_THAT([&] { linear.load_state_dict({{"weight", data(Tensor({{5, 6}}))}}); },
              ThrowsMessage<KeyError>(HasSubstr("there is no weight 'bias'")));
  EXPECT_THAT(
      [&] {
        linear.load_state_dict({{"weight", data(Tensor({5, 6}))}, {"bias", data(Tensor({7}))}});
      },
      ThrowsMessage<ValueError>(HasSubstr("has shape [2], but the parameter has shape [1, 2]")));
  const engine::WeightsRegistry more = {{"weight", data(Tensor({{1, 1}}))},
                                        {"bias", data(Tensor({1}))},
                                        {"scale", data(Tensor({1}))}};
  EXPECT_THAT([&] { linear.load_state_dict(more); },
              ThrowsMessage<ValueError>("load_state_dict did not use some weights: {'scale'}"));
  linear.load_state_dict(more, {.strict = false});
  const Tensor half({{2, 2}}, {.dtype = DType::bfloat16});
  const engine::WeightsRegistry halves = {{"weight", data(half)}, {"bias", data(Tensor({1}))}};
  EXPECT_THROW(linear.load_state_dict(halves), ValueError);
  std::vector<std::string> warnings;
  set_warning_handler([&](std::string_view text) { warnings.emplace_back(text); });
  linear.load_state_dict(halves, {.auto_cast = true});
  set_warning_handler(nullptr);
  EXPECT_THAT(warnings, ElementsAre("load_state_dict cast 1 weights from bfloat16 to float32."));
  EXPECT_THAT(floats(linear.weight), ElementsAre(2, 2));
}

TEST(Modules, AreCompiledWithTheirWeights) {
  Network net = network();
  const TensorLayout layout(DType::float32, {"n", 2}, driver::CPU());
  const auto staged = stage(net)(layout);
  EXPECT_EQ(staged.graph.name(), "Network");
  // The layers share one body.
  const std::string text = staged.to_string();
  EXPECT_THAT(text, HasSubstr("Linear"));
  EXPECT_EQ(text.find("Linear_1"), std::string::npos);
  const auto run = compile(net)(layout);
  // [1 1] -> [5 7] -> [5 19] -> [50 190]
  EXPECT_THAT(floats(run(Tensor({{1, 1}}))), ElementsAre(50, 190));
  EXPECT_THAT(floats(net.forward(Tensor({{1, 1}}))), ElementsAre(50, 190));
  const auto other = compile(net, {.weights = {{"gain", Tensor({1, 1}).driver_tensor()}}})(layout);
  EXPECT_THAT(floats(other(Tensor({{1, 1}}))), ElementsAre(5, 19));
  EXPECT_TRUE(net.gain->real());
}

TEST(Modules, LiveOnMeshes) {
  const DeviceMesh mesh(std::vector<driver::Device>(2, driver::CPU()), {2}, {"tp"});
  Linear linear(Tensor({{1, 2}, {3, 4}}), Tensor({1, 1}));
  linear.to(mesh);
  linear.weight = linear.weight.to(DeviceMapping(mesh, {Sharded{1}}));
  EXPECT_THAT(linear.weights(), testing::SizeIs(4));
  const auto run = compile(linear)(TensorLayout(DType::float32, {1, 2}, mesh));
  const Tensor y = run(Tensor({{1, 1}}).to(mesh));
  EXPECT_EQ(y.placements()[0], Placement(Sharded{1}));
  EXPECT_THAT(floats(y), ElementsAre(5, 7));
}

TEST(Modules, AreTracedAndCopied) {
  struct Pair : Module {
    Linear first;
    std::shared_ptr<Linear> second;
    KILN_MODULE(first, second);
    Tensor forward(Tensor x) const { return first.forward(std::move(x)); }
  };
  Pair pair;
  pair.first = Linear(Tensor({{1, 2}, {3, 4}}), Tensor({1, 1}));
  const graph::Graph graph = trace(pair, TensorLayout(DType::float32, {"n", 2}, driver::CPU()));
  EXPECT_THAT(graph.module().to_string(), HasSubstr("first.weight"));
  const auto doubled = [](const std::string&, const Tensor& old) { return old * 2; };
  const Pair copy = map_parameters(pair, doubled);
  EXPECT_THAT(floats(copy.first.weight), ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(floats(pair.first.weight), ElementsAre(1, 2, 3, 4));
  pair.second = std::make_shared<Linear>(pair.first);
  EXPECT_THAT([&] { map_parameters(pair, doubled); },
              ThrowsMessage<TypeError>(HasSubstr("'second' is held by a shared pointer")));
}

TEST(Subgraphs, AreRecordedOnceForEachSetOfStatics) {
  int calls = 0;
  const auto layer = as_subgraph(
      [&calls](Tensor x, int times) {
        ++calls;
        return std::pair(x * times, x + 1);
      },
      {.name = "layer"});
  const TensorLayout layout(DType::float32, {2}, driver::CPU());
  const auto model = [&](Tensor x) {
    auto [a, b] = layer(x, 2);
    auto [c, d] = layer(a, 2);
    auto [e, f] = layer(b, 3);
    return c + d + e + f;
  };
  const auto staged = stage(model)(layout);
  EXPECT_EQ(calls, 2);
  EXPECT_THAT(staged.to_string(), HasSubstr("layer_1"));
  // x = [1 2]: c = 4x, d = 2x + 1, e = 3(x + 1), f = x + 2.
  EXPECT_THAT(floats(compile(model)(layout)(Tensor({1, 2}))), ElementsAre(16, 26));
  calls = 0;
  stage(model, {.allow_subgraphs = false})(layout);
  EXPECT_EQ(calls, 3);
  EXPECT_THAT(floats(model(Tensor({1, 2}))), ElementsAre(16, 26));
}

TEST(Subgraphs, WriteThroughBuffers) {
  const BufferLayout layout(DType::float32, {2}, driver::CPU());
  const auto add = as_subgraph([](Tensor cache, Tensor x) {
    cache[{graph::all}] = cache + x;
    return cache;
  });
  const auto run =
      compile([&](Tensor cache) { return add(add(cache, cache + 0), cache + 0) + 0; })(layout);
  const Tensor cache({1, 2});
  EXPECT_THAT(floats(run(cache)), ElementsAre(4, 8));
  EXPECT_THAT(floats(cache), ElementsAre(4, 8));
  const auto makes = as_subgraph([](Tensor x) {
    Tensor y = x * 2;
    y[{0}] = x[{1}];
    return y;
  });
  EXPECT_THAT([&] { stage([&](Tensor x) { return makes(x); })(layout.as_tensor()); },
              ThrowsMessage<ValueError>(HasSubstr("create new buffer")));
}

}  // namespace
}  // namespace kiln::experimental
