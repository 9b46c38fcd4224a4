// Tensors that are spread over a simulated mesh. Expected values are worked out by hand.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kiln/experimental.h"
#include "kiln/support/error.h"
#include "tests/experimental/tensors.h"

namespace kiln::experimental {
namespace {

namespace F = functional;
using graph::all;
using graph::slice;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

DeviceMesh line(int devices) {
  return {std::vector<driver::Device>(static_cast<std::size_t>(devices), driver::CPU()),
          {devices},
          {"tp"}};
}
DeviceMapping on(const DeviceMesh& mesh, Placement placement) { return {mesh, {placement}}; }

TEST(Distributed, PartsAndTheWhole) {
  const DeviceMapping rows = on(line(2), Sharded{0});
  const Tensor x = Tensor({{1, 2}, {3, 4}, {5, 6}}).to(rows);
  EXPECT_TRUE(x.is_distributed());
  EXPECT_EQ(x.num_shards(), 2);
  EXPECT_EQ(x.mapping(), rows);
  EXPECT_EQ(x.layout(), TensorLayout(DType::float32, {3, 2}, rows));
  EXPECT_THAT(floats(x.local_shards()[0]), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(floats(x.local_shards()[1]), ElementsAre(5, 6));
  EXPECT_THAT(floats(x), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_TRUE(x.to(rows).is(x));
  EXPECT_EQ(x.buffers().size(), 2U);
  EXPECT_EQ(x.to_string(),
            "Tensor(shape=[3, 2], dtype=DType.float32, mapping=DeviceMapping(DeviceMesh(tp=2), "
            "[Sharded(axis=0)]))");
  EXPECT_THAT([&] { x.device(); },
              ThrowsMessage<ValueError>(HasSubstr("spanning 2 devices. Use tensor.mesh.devices")));
  EXPECT_THAT([&] { x.type(); }, ThrowsMessage<TypeError>(HasSubstr("has no single type")));
  EXPECT_THAT([&] { F::sum(x, 1).item(); }, testing::Throws<ValueError>());
}

TEST(Distributed, OpsAndMoves) {
  const DeviceMesh mesh = line(2);
  const Tensor x = Tensor({{1, 2}, {3, 4}}).to(on(mesh, Sharded{1}));
  const Tensor w = Tensor({{1, 0}, {1, 1}}).to(on(mesh, Sharded{0}));
  for (int i = 0; i < 2; ++i) {  // the second time by its plan
    const Tensor terms = F::matmul(x, w);
    EXPECT_EQ(terms.placements()[0], Placement(Partial{}));
    EXPECT_THAT(floats(terms), ElementsAre(3, 2, 7, 4));
    EXPECT_THAT(floats(F::allreduce_sum(terms, "tp").local_shards()[1]), ElementsAre(3, 2, 7, 4));
    EXPECT_THAT(floats(F::reduce_scatter(terms, 1).local_shards()[1]), ElementsAre(2, 4));
    EXPECT_THAT(floats(x * 2 + 1), ElementsAre(3, 5, 7, 9));
  }
  EXPECT_THAT(floats(F::allgather(x, 1).local_shards()[0]), ElementsAre(1, 2, 3, 4));
  EXPECT_THROW(F::allgather(x, 0), ShardingError);
  const AutoReshard strict(ReshardMode::raise);
  EXPECT_THAT([&] { F::softmax(x, 1); },
              ThrowsMessage<ShardingError>(HasSubstr("needs an all-to-all over 'tp'")));
  EXPECT_THAT(floats(F::softmax(x - x, 0)), ElementsAre(0.5, 0.5, 0.5, 0.5));
}

TEST(Distributed, StoresWriteEachPart) {
  const Tensor x = Tensor::zeros({5}, {.device = on(line(2), Sharded{0})});
  x[{slice(1, 5, 2)}] = Tensor({7, 8});
  EXPECT_THAT(floats(x), ElementsAre(0, 7, 0, 8, 0));
  EXPECT_THAT(floats(x.local_shards()[1]), ElementsAre(8, 0));
  EXPECT_THROW(Tensor::from_shards({Tensor({1}), Tensor({2, 3})}, on(line(2), Sharded{0})),
               ValueError);
}

TEST(Distributed, CompiledForALayout) {
  const DeviceMesh mesh = line(2);
  const TensorLayout x_layout(DType::float32, {"n", 2}, on(mesh, Sharded{0}));
  const BufferLayout total_layout(DType::float32, {1, 2}, mesh);
  const auto run = compile([](Tensor x, Tensor total) {
    const Tensor sum = F::allreduce_sum(F::sum(x, 0));
    total[{all, all}] = total + sum;
    return x * 10;
  })(x_layout, total_layout);
  const Tensor total = Tensor::zeros({1, 2}, {.device = mesh});
  for (int i = 0; i < 2; ++i) {
    const Tensor y = run(Tensor({{1, 2}, {3, 4}, {5, 6}}).to(x_layout.mapping()), total);
    EXPECT_EQ(y.mapping(), x_layout.mapping());
    EXPECT_THAT(floats(y), ElementsAre(10, 20, 30, 40, 50, 60));
  }
  EXPECT_THAT(floats(total.local_shards()[1]), ElementsAre(18, 24));
  EXPECT_THAT(
      [&] { run(Tensor({{1, 2}}), total); },
      ThrowsMessage<ValueError>("argument 0: expected float32 shape [n, 2] on [cpu:0, cpu:0] as "
                                "[Sharded(axis=0)], got float32 shape [1, 2] on [cpu:0]"));
  EXPECT_THAT([&] { run(Tensor({{1, 2}}).to(x_layout.mapping()), Tensor({{1, 2}})); },
              ThrowsMessage<ValueError>(
                  "argument 1: expected float32 across 2 device(s), got float32 across 1"));
}

TEST(Distributed, SizesOfTheWholeAgree) {
  const DeviceMapping rows = on(line(2), Sharded{0});
  const TensorLayout split(DType::float32, {"n"}, rows);
  const TensorLayout plain(DType::float32, {"n"}, driver::CPU());
  const auto run = compile([](Tensor x, Tensor y) {
    return std::pair(x * 2, y + F::range(Tensor::from_dim(0), Tensor::from_dim(x.shape()[0]),
                                         Tensor::from_dim(1), {.dtype = DType::float32},
                                         {.out_dim = x.shape()[0]}));
  })(split, plain);
  const auto [twice, counted] = run(Tensor({1, 2, 3}).to(rows), Tensor({1, 1, 1}));
  EXPECT_THAT(floats(twice), ElementsAre(2, 4, 6));
  EXPECT_THAT(floats(counted), ElementsAre(1, 2, 3));
  const auto call = [&](const auto& callable) {
    return [&callable, rows] { callable(Tensor({1, 2, 3}).to(rows), Tensor({1, 1, 1, 1})); };
  };
  EXPECT_THAT(call(run), ThrowsMessage<ValueError>(HasSubstr(
                             "symbolic dimension 'n' for argument 1 does not match prior uses")));
  // Also where only other parts of the same size differ.
  const auto two = compile([](Tensor x, Tensor y) { return std::pair(x, y); })(
      split, TensorLayout(DType::float32, {"n", 1}, on(line(2), Sharded{1})));
  EXPECT_THAT(
      [&] { two(Tensor({1, 2}).to(rows), Tensor({{1}, {2}, {3}}).to(on(line(2), Sharded{1}))); },
      ThrowsMessage<ValueError>(HasSubstr("symbolic dimension 'n' for argument 1")));
  EXPECT_THAT(
      [&] {
        stage([](Tensor x, Tensor y) { return std::pair(x, y); })(
            split, TensorLayout(DType::float32, {"n"}, on(line(4), Sharded{0})));
      },
      ThrowsMessage<ValueError>(HasSubstr("argument 1: 'n_tp_0' is the name of a size here")));
}

TEST(Distributed, MovesNameTheCallersLine) {
  const DeviceMapping rows = on(line(2), Sharded{0}), wide = on(line(4), Sharded{0});
  const TensorLayout layout(DType::float32, {"n"}, rows);
  const auto fails = [&](const auto& function) {
    const auto run = compile(function)(layout);
    return [run, rows] { run(Tensor({1, 2, 3}).to(rows)); };
  };
  EXPECT_THAT(fails([&](Tensor x) { return x.to(wide); }),
              ThrowsMessage<ValueError>(HasSubstr("distributed_test.cpp")));
  EXPECT_THAT(fails([&](Tensor x) { return F::transfer_to(x, wide); }),
              ThrowsMessage<ValueError>(HasSubstr("distributed_test.cpp")));
}

TEST(Distributed, Weights) {
  const DeviceMapping rows = on(line(2), Sharded{0});
  const TensorLayout layout(DType::float32, {2, 2}, rows);
  const std::vector<Tensor> shards = Tensor({{1, 2}, {3, 4}}).to(rows).local_shards();
  const auto run = compile([&](Tensor x) { return x + F::constant_external("w", layout); },
                           {.weights = {{"w._shard.0", shards[0].driver_tensor()},
                                        {"w._shard.1", shards[1].driver_tensor()}}})(layout);
  EXPECT_THAT(floats(run(Tensor::ones({2, 2}).to(rows))), ElementsAre(2, 3, 4, 5));
}

}  // namespace
}  // namespace kiln::experimental
