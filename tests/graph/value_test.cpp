#include "kiln/graph/value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kiln/graph.h"
#include "kiln/support/error.h"

namespace kiln::graph {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr auto f32 = DType::float32;
const DeviceRef cpu = DeviceRef::CPU();

class ValueTest : public testing::Test {
 protected:
  Graph g{"g",
          {.input_types = {TensorType(f32, {"n", 4}, cpu), TensorType(DType::bool_, {4}, cpu),
                           BufferType(f32, {4}, cpu), TensorType(DType::int32, {4}, cpu)}}};
  Graph::Scope scope{g};
  TensorValue x = g.inputs()[0].tensor();
  TensorValue p = g.inputs()[1].tensor();
  BufferValue b = g.inputs()[2].buffer();
  TensorValue i = g.inputs()[3].tensor();

  std::string last() { return std::string(to_string(g.ir().body->ops.back()->kind)); }
};

TEST_F(ValueTest, CheckedCasts) {
  EXPECT_THAT([&] { g.inputs()[2].tensor(); },
              ThrowsMessage<TypeError>("Value is not a TensorValue, was 'BufferValue'"));
  EXPECT_THAT([&] { g.inputs()[0].buffer(); },
              ThrowsMessage<TypeError>("Value is not a BufferValue, was 'TensorValue'"));
  EXPECT_THROW(g.inputs()[0].opaque(), TypeError);
  EXPECT_THAT([&] { BufferValue(g.inputs()[0]); },
              ThrowsMessage<TypeError>("BufferValue() argument must be a value of buffer type or a "
                                       "graph.BufferValue, not 'TensorValue'"));
  EXPECT_THROW(BufferValue::from_mlir(g.inputs()[0]), TypeError);
  EXPECT_TRUE(BufferValue::from_value(g.inputs()[2]).is(b));
  EXPECT_THROW(TensorValue(g.inputs()[2]), TypeError);
}

TEST_F(ValueTest, Facts) {
  EXPECT_EQ(x.repr(), "TensorValue(dtype=float32, shape=[Dim('n'), Dim(4)], device=cpu:0)");
  EXPECT_EQ(b.repr(), "BufferValue(dtype=float32, shape=[Dim(4)], device=cpu:0)");
  EXPECT_EQ(x.rank(), 2);
  EXPECT_EQ(b.shape().repr(), "[Dim(4)]");
  EXPECT_EQ(b.dtype().to_string(), "DType.float32");
  EXPECT_EQ(b.device(), cpu);
  EXPECT_EQ(b.rank(), 1);
  EXPECT_EQ(b.type(), BufferType(f32, {4}, cpu));
}

TEST_F(ValueTest, Operators) {
  EXPECT_EQ((x + 1).shape(), (Shape{"n", 4}));
  EXPECT_EQ((2 * x).dtype(), f32);
  EXPECT_EQ((1 - x).dtype(), f32);
  EXPECT_EQ((x / 2.5).dtype(), f32);
  EXPECT_EQ((i / i).dtype(), DType::float64);
  EXPECT_EQ((i / 2).dtype(), DType::float64);
  EXPECT_EQ((i % 2).dtype(), DType::int32);
  EXPECT_EQ((x > 0).dtype(), DType::bool_);
  (void)(x < 1);
  EXPECT_EQ(last(), "greater");
  (void)(x <= 1);
  EXPECT_EQ(last(), "greater_equal");
  (void)(x == x);
  EXPECT_EQ(last(), "equal");
  (void)(x != 1);
  EXPECT_EQ(last(), "not_equal");
  EXPECT_EQ((p & ~p | p ^ p).dtype(), DType::bool_);
  EXPECT_EQ((-x).shape(), x.shape());
  EXPECT_EQ((Dim(5) + x).dtype(), f32);
  EXPECT_EQ(ops::floor_div(i, 2).dtype(), DType::float64);
  EXPECT_THROW(x & x, ValueError);
  // Swapped operands: a < b is b > a.
  (void)(x < i.cast(f32));
  const ir::Op& op = *g.ir().body->ops.back();
  EXPECT_EQ(op.operand(1), x.ir_value());
}

TEST_F(ValueTest, Methods) {
  EXPECT_EQ(x.reshape({-1}).shape(), (Shape{Dim("n") * 4}));
  EXPECT_EQ(x.T().shape(), (Shape{4, "n"}));
  EXPECT_EQ(x.max().shape(), (Shape{"n", 1}));
  EXPECT_EQ(x.mean(0).shape(), (Shape{1, 4}));
  EXPECT_EQ(x.argmax().dtype(), DType::int64);
  EXPECT_EQ(x.var().shape(), (Shape{"n", 1}));
  EXPECT_EQ(x.stdev().shape(), (Shape{"n", 1}));
  EXPECT_THAT([&] { p.var(); }, ThrowsMessage<TypeError>("Variance undefined for boolean values."));
  EXPECT_THAT([&] { p.stdev(); },
              ThrowsMessage<TypeError>("Variance undefined for boolean values."));
  EXPECT_TRUE(x.cast(f32).is(x));
  EXPECT_TRUE(x.to(cpu).is(x));
  EXPECT_EQ(x.rebind({"m", 4}).shape(), (Shape{"m", 4}));
  x.print();
  EXPECT_EQ(last(), "print");
}

TEST_F(ValueTest, DimsAndShapesAreTensors) {
  EXPECT_EQ(TensorValue(Dim("n")).type(), TensorType(DType::int64, {}, cpu));
  EXPECT_EQ(TensorValue(Shape{"n", 2}).type(), TensorType(DType::int64, {2}, cpu));
  EXPECT_EQ(ops::abs(Dim("n")).dtype(), DType::int64);
}

TEST_F(ValueTest, BuffersAreNeverLoadedImplicitly) {
  EXPECT_THROW(ops::add(b, 1), TypeError);
  EXPECT_THROW(ops::exp(b), TypeError);
}

// The reference flow of a buffer that keeps state.
TEST(BufferValue, ReferenceFlow) {
  Graph g("buffer_demo", {.input_types = {BufferType(f32, {4}, cpu)}});
  auto scope = g.enter();
  BufferValue state = g.inputs()[0].buffer();
  TensorValue current = ops::buffer_load(state);
  ops::buffer_store(state, current + 1);
  g.output({current});
  EXPECT_EQ(g.to_string(), R"(kiln.module version 1 {
  kiln.graph @buffer_demo(%input0: buffer<[4], f32>) -> (tensor<[4], f32>)
      {argument_names = ["input0"], result_names = ["output0"], strict_device_placement = "warn", kernel_libraries = []} {
    %0 = kiln.chain.create()
    %1, %2 = kiln.buffer.load(%input0, %0) : tensor<[4], f32>, chain
    %3 = kiln.constant() {value = dense<[1.0]>} : tensor<[], f32>
    %4 = kiln.add(%1, %3) : tensor<[4], f32>
    %5 = kiln.buffer.store(%input0, %4, %2) : chain
    kiln.output(%1)
  }
}
)");
}

TEST(BufferValue, Indexing) {
  Graph g("g", {.input_types = {BufferType(f32, {4, "n"}, cpu), TensorType(f32, {2, "n"}, cpu),
                                TensorType(f32, {4, "n"}, cpu), TensorType(f32, {"n"}, cpu)}});
  auto scope = g.enter();
  BufferValue b = g.inputs()[0].buffer();
  TensorValue two = g.inputs()[1].tensor(), four = g.inputs()[2].tensor(),
              row = g.inputs()[3].tensor();
  EXPECT_EQ(b[ellipsis].load().shape(), (Shape{4, "n"}));
  EXPECT_EQ(b[0].load().shape(), (Shape{"n"}));
  EXPECT_EQ((b[{slice(1, 3)}].load().shape()), (Shape{2, "n"}));
  EXPECT_EQ((b[{slice(1, 3)}] + 1.0).shape(), (Shape{2, "n"}));
  EXPECT_EQ((two - b[{slice(1, 3)}]).dtype(), f32);
  EXPECT_EQ((b[0] > b[1]).dtype(), DType::bool_);
  EXPECT_EQ((-b[0]).shape(), (Shape{"n"}));
  b[ellipsis] = four;
  EXPECT_EQ(g.ir().body->ops.back()->kind, OpKind::buffer_store);
  b[{slice(0, 2)}] = two;
  EXPECT_EQ(g.ir().body->ops.back()->kind, OpKind::buffer_store_slice);
  b[{1}] = row;
  EXPECT_EQ(g.ir().body->ops.back()->operand(1)->type, Type(TensorType(f32, {1, "n"}, cpu)));
  TensorValue loaded = b[{slice(0, 2), ellipsis}];
  EXPECT_EQ(loaded.shape(), (Shape{2, "n"}));
  b.print();
  EXPECT_THAT(
      [&] { (b[{slice(0, 2)}] = row); },
      ThrowsMessage<ValueError>("expected source to have shape [Dim(2), Dim('n')] but source "
                                "had shape [Dim('n')]"));
  EXPECT_THROW(ops::buffer_store_slice(b, four, {slice(none, none, -1)}), ValueError);
  EXPECT_THROW(ops::buffer_store_slice(b, four, {newaxis}), ValueError);
  EXPECT_THROW(ops::buffer_store(b, two), ValueError);
  EXPECT_THROW(ops::buffer_store(b, four.cast(DType::float64)), ValueError);
  EXPECT_THROW(ops::buffer_load(four), TypeError);
  ops::buffer_store(b, b);
  BufferValue fresh = ops::buffer_create(BufferType(f32, {2}, cpu));
  EXPECT_EQ(fresh.shape(), (Shape{2}));
}

TEST(BufferValue, EffectsAreOneChain) {
  Graph g("g", {.input_types = {BufferType(f32, {4}, cpu)}});
  auto scope = g.enter();
  BufferValue b = g.inputs()[0].buffer();
  TensorValue x = ops::buffer_load(b);
  ops::print(x, "x");
  ops::buffer_store(b, x * 2);
  ops::print("done");
  ops::buffer_load(b);
  // Every op with effects takes the chain that the one before it gave.
  const ir::Value* chain = g.always_ready_chain().ir_value();
  for (const auto& op : g.ir().body->ops) {
    if (op->operands.empty() || !op->operands.back()->type.is_chain()) continue;
    EXPECT_EQ(op->operands.back(), chain);
    chain = op->results.back().get();
  }
  EXPECT_EQ(g.device_chain(cpu).ir_value(), chain);
}

}  // namespace
}  // namespace kiln::graph
