#include "kiln/graph/weight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "kiln/graph.h"
#include "kiln/graph/ops.h"
#include "kiln/support/error.h"

namespace kiln::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr auto f32 = DType::float32;
const DeviceRef cpu = DeviceRef::CPU();

TEST(Weight, Facts) {
  Weight w("w", f32, {3, 2}, cpu);
  EXPECT_EQ(w.repr(), "Weight(w, DType.float32, [Dim(3), Dim(2)], cpu:0)");
  EXPECT_EQ(w.name(), "w");
  EXPECT_EQ(w.shape(), (Shape{3, 2}));
  EXPECT_EQ(w.align(), 4);
  EXPECT_EQ(w.original_dtype_and_shape(), std::pair(DType(f32), Shape{3, 2}));
  Weight q("q", DType::uint8, {4, 18}, cpu,
           {.quantization_encoding = QuantizationEncoding::Q4_0, .align = 64});
  EXPECT_EQ(q.repr(), "Weight(q, DType.uint8, [Dim(4), Dim(18)], cpu:0, Q4_0)");
  EXPECT_EQ(q.align(), 64);
  // Declared in elements: stored as blocks of bytes.
  Weight d("d", f32, {4, 64}, cpu, {.quantization_encoding = QuantizationEncoding::Q4_0});
  EXPECT_EQ(d.type(), TensorType(DType::uint8, {4, 36}, cpu));
  EXPECT_EQ(d.original_dtype_and_shape(), std::pair(DType(f32), Shape{4, 64}));
  EXPECT_THROW(
      Weight("e", f32, {4, 30}, cpu, {.quantization_encoding = QuantizationEncoding::Q4_0}),
      ValueError);
}

TEST(Weight, IsOneConstantPerGraph) {
  Weight w("w", f32, {2}, cpu);
  const std::string text = "Cannot operate on a kiln.graph.Weight when there is no parent graph.";
  EXPECT_THAT([&] { w + 1; }, ThrowsMessage<ValueError>(text));
  EXPECT_THAT([&] { ops::exp(w); }, ThrowsMessage<ValueError>(text));
  EXPECT_THAT([&] { w.ir_value(); }, ThrowsMessage<ValueError>(text));
  // Wherever it stands among the operands, and whatever the others need a graph for.
  Graph other("other", {.input_types = {BufferType(f32, {2}, cpu)}});
  const Value buffer = other.inputs()[0];
  const Graph callee = other.add_subgraph("callee", {.input_types = {TensorType(f32, {2}, cpu)}});
  const std::vector<std::function<void()>> uses = {
      [&] { 1 + w; },
      [&] { Dim("n") * w; },
      [&] { (void)(w > w); },
      [&] { -w; },
      [&] { w[{0}]; },
      [&] { w.cast(DType::float64); },
      [&] { w.reshape({1, 2}); },
      [&] { w.to(DeviceRef::GPU()); },
      [&] { w.print(); },
      [&] { ops::concat({w, w}); },
      [&] { ops::where(w > 0, w, w); },
      [&] { ops::matmul(w, w); },
      [&] { ops::top_k(w, 1); },
      [&] { ops::cond(w, {}, [] {}, [] {}); },
      [&] {
        ops::while_loop(
            {w}, [](const std::vector<Value>& v) { return v; },
            [](const std::vector<Value>& v) { return v; });
      },
      [&] { ops::call(callee, {w}); },
      [&] { ops::buffer_store(buffer, w); },
  };
  for (std::size_t i = 0; i < uses.size(); ++i)
    EXPECT_THAT(uses[i], ThrowsMessage<ValueError>(text)) << i;
  for (const char* name : {"a", "b"}) {
    Graph g(name);
    auto scope = g.enter();
    g.output({w + w, ops::exp(w)});
    std::string text = g.to_string();
    EXPECT_NE(text.find("constant.external"), std::string::npos);
    EXPECT_EQ(text.find("constant.external"), text.rfind("constant.external"));
  }
  Graph g("g");
  auto scope = g.enter();
  ops::exp(w);
  EXPECT_THAT([&] { ops::exp(Weight("w", f32, {2}, cpu)); },
              ThrowsMessage<ValueError>(HasSubstr("Weight 'w' already exists in Graph 'g'")));
  EXPECT_TRUE(g.add_weight(w).is(g.add_weight(w)));
}

TEST(Weight, OnAnAcceleratorComesFromTheHost) {
  Weight w("w", f32, {2}, DeviceRef::GPU());
  Graph g("g");
  TensorValue value = g.add_weight(w);
  EXPECT_EQ(value.device(), DeviceRef::GPU());
  EXPECT_EQ(value.ir_value()->producer->kind, OpKind::transfer_to);
  Graph h("h");
  value = h.add_weight(w, {.force_initial_weight_on_host = false});
  EXPECT_EQ(value.ir_value()->producer->kind, OpKind::constant_external);
  EXPECT_EQ(value.device(), DeviceRef::GPU());
}

std::vector<Shape> shard_shapes(const ShardingStrategy& strategy, Shape shape) {
  Weight w("w", f32, std::move(shape), DeviceRef::GPU(), {.sharding_strategy = strategy});
  EXPECT_EQ(w.device(), cpu);
  std::vector<DeviceRef> devices;
  for (int i = 0; i < strategy.num_devices(); ++i) devices.push_back(DeviceRef::GPU(i));
  std::vector<Shape> shapes;
  for (const Weight& shard : w.shard(devices)) shapes.push_back(shard.shape());
  return shapes;
}

TEST(Sharding, PartsOfARange) {
  for (int n : {0, 1, 7, 12})
    for (int k : {1, 2, 3, 5}) {
      std::int64_t next = 0;
      for (int i = 0; i < k; ++i) {
        auto [begin, end] = part_of_range(n, i, k);
        EXPECT_EQ(begin, next);
        EXPECT_EQ(end - begin, n / k + (i < n % k));
        next = end;
      }
      EXPECT_EQ(next, n);
    }
}

TEST(Sharding, Shapes) {
  using S = ShardingStrategy;
  EXPECT_THAT(shard_shapes(S::rowwise(2), {5, 4}), ElementsAre(Shape{3, 4}, Shape{2, 4}));
  EXPECT_THAT(shard_shapes(S::columnwise(2), {5, 4}), ElementsAre(Shape{5, 2}, Shape{5, 2}));
  EXPECT_THAT(shard_shapes(S::axiswise(2, 3), {1, 1, 4}),
              ElementsAre(Shape{1, 1, 2}, Shape{1, 1, 1}, Shape{1, 1, 1}));
  EXPECT_THAT(shard_shapes(S::replicate(2), {5, 4}), ElementsAre(Shape{5, 4}, Shape{5, 4}));
  EXPECT_THAT(shard_shapes(S::head_aware_columnwise(2, 3, 4), {8, 12}),
              ElementsAre(Shape{8, 8}, Shape{8, 4}));
  EXPECT_THAT(shard_shapes(S::head_aware_columnwise(2, 3, 4), {8, 6}),
              ElementsAre(Shape{8, 4}, Shape{8, 2}));
  EXPECT_THAT(shard_shapes(S::stacked_qkv(2, 3, 4), {36, 5}),
              ElementsAre(Shape{24, 5}, Shape{12, 5}));
  EXPECT_THAT(shard_shapes(S::gate_up(2), {2, 3, 10}), ElementsAre(Shape{2, 3, 6}, Shape{2, 3, 4}));
  const std::vector<Segment> segments = {Segment::even(5), Segment::head_aware(3, 2)};
  EXPECT_THAT(shard_shapes(S::segmented(2, 0, segments), {11, 2}),
              ElementsAre(Shape{7, 2}, Shape{4, 2}));
}

TEST(Sharding, Queries) {
  using S = ShardingStrategy;
  EXPECT_TRUE(S::rowwise(2).is_rowwise());
  EXPECT_EQ(S::rowwise(2).sharded_axis(), 0);
  EXPECT_TRUE(S::columnwise(2).is_colwise());
  EXPECT_EQ(S::columnwise(2).sharded_axis(), 1);
  EXPECT_EQ(S::axiswise(3, 2).sharded_axis(), 3);
  EXPECT_EQ(S::replicate(2).sharded_axis(), std::nullopt);
  EXPECT_TRUE(S::stacked_qkv(2, 1, 1).is_stacked_qkv());
  EXPECT_EQ(S::gate_up(2).sharded_axis(), 2);
  EXPECT_EQ(S::tensor_parallel(2).sharded_axis(), std::nullopt);
  EXPECT_FALSE(S::rowwise(2).is_colwise());
}

TEST(Sharding, Errors) {
  using S = ShardingStrategy;
  Weight plain("p", f32, {4, 4}, cpu);
  EXPECT_THAT(
      [&] { plain.shard({cpu}); },
      ThrowsMessage<ValueError>("Weight p cannot be sharded because no sharding strategy was "
                                "provided."));
  Weight w("w", f32, {4, 4}, cpu, {.sharding_strategy = S::rowwise(2)});
  std::vector<Weight> shards = w.shard({DeviceRef::GPU(0), DeviceRef::GPU(1)});
  EXPECT_EQ(shards[1].name(), "w[1]");
  EXPECT_EQ(shards[1].shard_index(), 1);
  EXPECT_EQ(shards[1].device(), DeviceRef::GPU(1));
  EXPECT_THAT(
      [&] { shards[0].shard({cpu, cpu}); },
      ThrowsMessage<ValueError>("Weight w[0] was already sharded. Use __getitem__ instead."));
  EXPECT_THAT([&] { shard_shapes(S::stacked_qkv(2, 3, 4), {35, 5}); },
              ThrowsMessage<ValueError>(HasSubstr("36")));
  EXPECT_THAT([&] { shard_shapes(S::gate_up(2, 0), {5}); },
              ThrowsMessage<ValueError>("Dimension 0 must be even for gate_up sharding, got 5"));
  EXPECT_THROW(shard_shapes(S::segmented(2, 0, {Segment::even(3)}), {5}), ValueError);
  EXPECT_THROW(shard_shapes(S::tensor_parallel(2), {5}), NotImplementedError);
}

TEST(Sharding, ShardsAreSlicesOfOneWeight) {
  Weight w("w", f32, {4, 4}, cpu, {.sharding_strategy = ShardingStrategy::rowwise(2)});
  std::vector<Weight> shards = w.shard({cpu, DeviceRef::GPU()});
  Graph g("g");
  auto scope = g.enter();
  ops::exp(shards[0]);
  TensorValue moved = ops::exp(shards[1]);
  ops::exp(shards[1]);
  EXPECT_EQ(moved.device(), DeviceRef::GPU());
  std::string text = g.to_string();
  EXPECT_EQ(text.find("constant.external"), text.rfind("constant.external"));
  EXPECT_EQ(text.find("transfer_to"), text.rfind("transfer_to"));
}

TEST(Quantization, Blocks) {
  using E = QuantizationEncoding;
  EXPECT_EQ(block_parameters(E::Q4_0), (BlockParameters{32, 18}));
  EXPECT_EQ(block_parameters(E::Q4_K), (BlockParameters{256, 144}));
  EXPECT_EQ(block_parameters(E::Q5_K), (BlockParameters{256, 176}));
  EXPECT_EQ(block_parameters(E::Q6_K), (BlockParameters{256, 210}));
  EXPECT_EQ(block_parameters(E::Q8_0), (BlockParameters{32, 34}));
  EXPECT_THROW(block_parameters(E::GPTQ), KeyError);
  EXPECT_EQ(name(E::Q4_K), "q4_k");
  EXPECT_TRUE(is_gguf(E::Q8_0));
  EXPECT_FALSE(is_gguf(E::GPTQ));
  EXPECT_EQ(quantization_encoding_from_string("Q6_K"), E::Q6_K);
}

}  // namespace
}  // namespace kiln::graph
