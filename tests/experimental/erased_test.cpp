// Callables whose types are known when a program runs. Expected values are worked out by hand.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>

#include "kiln/experimental.h"
#include "kiln/experimental/erased_callable.h"
#include "kiln/support/error.h"
#include "tests/experimental/tensors.h"

namespace kiln::experimental {

template <class Leaf>
struct Pair {
  Leaf first;
  std::vector<Leaf> others;
  std::string name;
};
KILN_TREE(Pair, first, others, name);

namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Value = CompiledCallable<>::Value;

TensorLayout vector() { return {DType::float32, {"n"}, driver::CPU()}; }

auto compiled() {
  return compile([](Pair<Tensor> p, double by, std::optional<Tensor> none) {
    return std::pair(Pair<Tensor>{p.first * by, {p.first + p.others[0]}, p.name}, 7);
  })(Pair<Layout>{vector(), {vector()}, "p"}, std::numeric_limits<double>::infinity(),
     std::nullopt);
}

Value argument(const std::string& name, std::size_t others = 1) {
  Pair<Tensor> pair{Tensor({1, 2}), {}, name};
  for (std::size_t i = 0; i < others; ++i) pair.others.push_back(Tensor({10, 20}));
  return tree::to_value<Tensor>(
      std::tuple(pair, std::numeric_limits<double>::infinity(), std::optional<Tensor>()));
}

TEST(Erased, RunsAsTheTypedOne) {
  const CompiledCallable<> run = compiled().erased();
  const Value result = run(argument("p"));
  const auto& parts = *result.list();
  const auto& pair = *parts[0].named();
  EXPECT_THAT(pair.keys, ElementsAre("first", "others", "name"));
  EXPECT_TRUE(std::isinf(floats(*pair.children[0].leaf())[0]));
  EXPECT_THAT(floats(*(*pair.children[1].list())[0].leaf()), ElementsAre(11, 22));
  EXPECT_EQ(std::get<std::string>(pair.children[2].data), "p");
  EXPECT_EQ(std::get<std::int64_t>(parts[1].data), 7);
  EXPECT_EQ(run.in_layouts().size(), 2U);
  EXPECT_EQ(run.out_layouts().size(), 2U);
  EXPECT_THAT(
      [&] { run(argument("q")); },
      ThrowsMessage<ValueError>("tree structure mismatch at 0.name: expected \"p\", got \"q\""));
  EXPECT_THAT([&] { run(argument("p", 2)); },
              ThrowsMessage<ValueError>(HasSubstr("tree structure mismatch at 0.others: expected a "
                                                  "list of 1, got a list of 2")));
  EXPECT_THAT([&] { run({Value::List{}}); },
              ThrowsMessage<ValueError>(HasSubstr("tree structure mismatch at <root>")));
}

TEST(Erased, IsKeptByBytes) {
  const CompiledCallable<> run = compiled().erased();
  const std::vector<std::byte> bytes = run.to_bytes();
  const auto described = CompiledCallable<>::from_bytes(bytes);
  EXPECT_EQ(described.in_layouts(), run.in_layouts());
  EXPECT_EQ(described.out_layouts(), run.out_layouts());
  EXPECT_THAT([&] { described(argument("p")); },
              ThrowsMessage<RuntimeError>(HasSubstr("this callable has no initialized model")));
  const engine::Model model = engine::InferenceSession().init(described.artifact());
  const CompiledCallable<> again(described.artifact(), model, described.in_tree(),
                                 described.out_tree());
  const Value result = again(argument("p"));
  EXPECT_THAT(floats(*(*(*result.list())[0].named()->children[1].list())[0].leaf()),
              ElementsAre(11, 22));
}

TEST(Erased, KeepsMeshes) {
  const DeviceMesh mesh(std::vector<driver::Device>(4, driver::CPU()), {2, 2}, {"dp", "tp"});
  const TensorLayout layout(DType::float32, {"n", 4}, NamedMapping(mesh, {{"dp"}, {"tp"}}));
  const auto run = compile([](Tensor x) { return functional::sum(x, 1); })(layout);
  const auto described = CompiledCallable<>::from_bytes(run.erased().to_bytes());
  EXPECT_EQ(described.in_layouts()[0], layout);
  EXPECT_EQ(described.out_layouts(), run.out_layouts());
  EXPECT_EQ(described.out_layouts()[0].placements()[1], Placement(Partial{}));
}

TEST(Erased, RefusesBytesThatAreNone) {
  const std::vector<std::byte> bytes = compiled().erased().to_bytes();
  std::mt19937 random(1);
  const auto header_end = [&] {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data() + 8, sizeof length);
    return static_cast<std::size_t>(16 + length);
  }();
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::byte> mutated = bytes;
    if (i % 3 == 0) mutated.resize(random() % bytes.size());
    for (unsigned k = 0; k < 1 + random() % 3 && !mutated.empty(); ++k)
      mutated[random() % std::min(mutated.size(), header_end)] = std::byte(random() % 256);
    try {
      CompiledCallable<>::from_bytes(mutated);
    } catch (const RuntimeError&) {  // as for a file
      ++refused;
    }
  }
  EXPECT_GT(refused, 2000);
  std::string deep(100'000, '[');
  std::vector<std::byte> nested(16 + deep.size());
  std::memcpy(nested.data(), "KILNCALL", 8);
  const std::uint64_t length = deep.size();
  std::memcpy(nested.data() + 8, &length, sizeof length);
  std::memcpy(nested.data() + 16, deep.data(), deep.size());
  EXPECT_THROW(CompiledCallable<>::from_bytes(nested), RuntimeError);
}

TEST(Erased, StaticsOfClassesOfTheirOwnCannotBe) {
  struct Own {
    int x;
    bool operator==(const Own&) const = default;
  };
  const auto run = compile([](Tensor x, Own own) { return x * own.x; })(vector(), Own{3});
  EXPECT_THAT(
      [&] { run.erased(); },
      ThrowsMessage<TypeError>(HasSubstr("The static value at 1 is of a class of its own")));
}

}  // namespace
}  // namespace kiln::experimental
