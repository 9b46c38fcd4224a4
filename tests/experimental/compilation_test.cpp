// Functions over tensors as compiled callables. Expected values are worked out by hand.

#include "kiln/experimental/compilation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "kiln/experimental/functional.h"
#include "kiln/graph/ops.h"
#include "kiln/support/error.h"
#include "tests/experimental/tensors.h"

namespace kiln::experimental {

template <class Leaf>
struct Cache {
  Leaf blocks;
  Leaf scale;
};
KILN_TREE(Cache, blocks, scale);

struct Settings {
  int layers;
  std::string mode;
};
KILN_TREE(Settings, layers, mode);

namespace {

namespace F = functional;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

TensorLayout layout(graph::Shape shape) {
  return {DType::float32, std::move(shape), driver::CPU()};
}
BufferLayout buffer_layout(graph::Shape shape) {
  return {DType::float32, std::move(shape), driver::CPU()};
}

TEST(Compile, TheExampleOfTheSpecification) {
  auto scale = [](Tensor x) { return x * 2; };
  auto run = compile(scale)(layout({3}));
  const std::string path = testing::TempDir() + "scale.mef";
  run.export_mef(path);
  EXPECT_THAT(floats(run(Tensor::ones({3}))), ElementsAre(2, 2, 2));
  const engine::Model model = engine::InferenceSession().load(path);
  EXPECT_THAT(floats(Tensor(model(Tensor({1, 2, 3}).driver_tensor())[0])), ElementsAre(2, 4, 6));
  std::filesystem::remove(path);
}

TEST(Compile, AMovedCallableSaysSo) {
  auto run = compile([](Tensor x) { return x * 2; })(layout({3}));
  const auto other = std::move(run);
  EXPECT_THAT([&] { run(Tensor::ones({3})); },  // NOLINT: what is left behind
              ThrowsMessage<ValueError>(HasSubstr("This handle is empty")));
  EXPECT_THAT(floats(other(Tensor::ones({3}))), ElementsAre(2, 2, 2));
}

TEST(Compile, ArgumentsAndResultsNest) {
  auto step = compile([](Tensor x, Cache<Tensor> c, int layer, std::vector<Tensor> parts) {
    return std::tuple(Cache<Tensor>{c.blocks + x, c.scale * layer}, std::string("done"), parts[1]);
  })(layout({"n"}), Cache<Layout>{layout({"n"}), layout({})}, 3,
     std::vector<Layout>{layout({1}), layout({2})});
  const Tensor x({1, 2});
  const Cache<Tensor> cache{Tensor({10, 20}), Tensor(graph::ops::Literal(5))};
  const std::vector<Tensor> parts{Tensor({0}), Tensor({7, 8})};
  const auto [c, text, part] = step(x, cache, 3, parts);
  EXPECT_THAT(floats(c.blocks), ElementsAre(11, 22));
  EXPECT_THAT(floats(c.scale), ElementsAre(15));
  EXPECT_EQ(text, "done");
  EXPECT_THAT(floats(part), ElementsAre(7, 8));

  EXPECT_THAT([&] { step(x, cache, 4, parts); },
              ThrowsMessage<ValueError>("tree structure mismatch at 2: expected 3, got 4"));
  EXPECT_THAT([&] { step(x, cache, 3, {Tensor({0})}); },
              ThrowsMessage<ValueError>(
                  "tree structure mismatch at 3: expected keys [0, 1], got keys [0]"));
  EXPECT_THAT([&] { step(x, cache, 3, {Tensor({0}), Tensor({0})}); },
              ThrowsMessage<ValueError>("argument 3.1: expected float32 shape [2] on [cpu:0], got "
                                        "float32 shape [1] on [cpu:0]"));
  EXPECT_THAT([&] { step(x, {Tensor({1}), cache.scale}, 3, parts); },
              ThrowsMessage<ValueError>(HasSubstr("argument 1.blocks")));
}

TEST(Compile, StaticStructsAndMapsAreCompared) {
  auto run = compile([](std::map<std::string, Tensor> x, Settings s) {
    return x.at("a") * s.layers + x.at("b");
  })(std::map<std::string, Layout>{{"a", layout({2})}, {"b", layout({2})}}, Settings{2, "fast"});
  const std::map<std::string, Tensor> x{{"a", Tensor({1, 2})}, {"b", Tensor({10, 20})}};
  EXPECT_THAT(floats(run(x, Settings{2, "fast"})), ElementsAre(12, 24));
  EXPECT_THAT([&] { run(x, Settings{2, "slow"}); },
              ThrowsMessage<ValueError>(
                  "tree structure mismatch at 1.mode: expected \"fast\", got \"slow\""));
  EXPECT_THROW(run({{"a", Tensor({1, 2})}}, Settings{2, "fast"}), ValueError);
}

TEST(Compile, BuffersAreUpdatedInPlace) {
  auto step = compile([](Tensor state, Tensor x) {
    state[{graph::ellipsis}] = state + x;
    return state * 2;
  })(buffer_layout({2}), layout({2}));
  const Tensor state({0, 0});
  for (int i = 1; i < 4; ++i) {
    const float f = static_cast<float>(i);
    EXPECT_THAT(floats(step(state, Tensor({1, 2}))), ElementsAre(2 * f, 4 * f));
    EXPECT_THAT(floats(state), ElementsAre(f, 2 * f));
  }
  const auto writes = [](Tensor x) {
    x[{0}] = x[{1}];
    return x;
  };
  EXPECT_THAT([&] { compile(writes)(layout({2})); },
              ThrowsMessage<TypeError>(HasSubstr("argument 0 was staged as a tensor")));
}

TEST(Compile, SizesWithNamesAgree) {
  auto run = compile([](Tensor x, Tensor y) { return x + y; })(layout({"n"}), layout({"n"}));
  EXPECT_THAT(floats(run(Tensor({1}), Tensor({2}))), ElementsAre(3));
  EXPECT_THAT([&] { run(Tensor({1, 2}), Tensor({1, 2, 3})); },
              ThrowsMessage<ValueError>(HasSubstr("argument 1")));
}

TEST(Compile, WeightsComeWithTheOptions) {
  const auto linear = [](Tensor x) {
    return x + Tensor::from_graph_value(graph::ops::constant_external(
                   "w", graph::TensorType(DType::float32, {2}, driver::CPU())));
  };
  const Tensor w({1, 2});
  auto run = compile(linear, {.weights = {{"w", w.driver_tensor()}}})(layout({2}));
  EXPECT_THAT(floats(run(Tensor({10, 20}))), ElementsAre(11, 22));
  EXPECT_THROW(compile(linear)(layout({2})), ValueError);
}

Tensor doubled(Tensor x) { return x * 2; }

TEST(Compile, PlainFunctionsAndWhatDoesNotCompile) {
  auto make = compile(&doubled, {.name = "doubled"});
  EXPECT_THAT(floats(make(layout({2}))(Tensor({1, 2}))), ElementsAre(2, 4));
  auto staged = stage(&doubled, {.name = "doubled"})(layout({"n", 2}));
  EXPECT_THAT(staged.to_string(), HasSubstr("kiln.graph @doubled"));
  EXPECT_EQ(staged.out_layouts, staged.in_layouts);
  static_assert(!std::is_invocable_v<decltype(make), int>);
  static_assert(!std::is_invocable_v<decltype(make), TensorLayout, TensorLayout>);
  using Run = decltype(make(layout({2})));
  static_assert(std::is_invocable_r_v<Tensor, Run, Tensor>);
  static_assert(!std::is_invocable_v<Run, std::string>);
}

}  // namespace
}  // namespace kiln::experimental
