#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kiln/graph.h"
#include "kiln/support/error.h"

namespace kiln::graph {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

constexpr auto f32 = DType::float32;
const DeviceRef cpu = DeviceRef::CPU();
const TensorType kVector(f32, {4}, cpu);

class ControlFlow : public testing::Test {
 protected:
  Graph g{"g",
          {.input_types = {TensorType(DType::bool_, {}, cpu), kVector, BufferType(f32, {4}, cpu),
                           TensorType(DType::bool_, {}, DeviceRef::GPU()),
                           TensorType(DType::int64, {}, cpu)}}};
  Graph::Scope scope{g};
  TensorValue p = g.inputs()[0].tensor();
  TensorValue x = g.inputs()[1].tensor();
  BufferValue b = g.inputs()[2].buffer();
  TensorValue n = g.inputs()[4].tensor();

  void expect_round_trip() {
    std::string text = g.to_string();
    EXPECT_EQ(Graph::parse(text).to_string(), text);
  }
};

TEST_F(ControlFlow, CondYieldsValues) {
  auto y = ops::cond(p, {kVector}, [&] { return ops::exp(x); }, [&] { return x; });
  ASSERT_EQ(y.size(), 1u);
  g.output({y[0].tensor() + 1});
  const ir::Op& op = *g.ir().body->ops[1];
  EXPECT_EQ(op.kind, OpKind::cond);
  ASSERT_EQ(op.regions.size(), 2u);
  EXPECT_EQ(op.regions[0]->ops.size(), 2u);
  EXPECT_EQ(op.regions[0]->parent, &op);
  EXPECT_EQ(op.results.size(), 1u);
  expect_round_trip();
}

TEST_F(ControlFlow, CondKeepsTheOrderOfEffects) {
  ops::cond(p, {}, [&] { ops::buffer_store(b, x); }, [&] {});
  TensorValue after = ops::buffer_load(b);
  g.output({after});
  const auto& ops = g.ir().body->ops;
  const ir::Op& cond = *ops[1];
  ASSERT_EQ(cond.results.size(), 1u);
  EXPECT_TRUE(cond.result()->type.is_chain());
  EXPECT_EQ(after.ir_value()->producer->operand(1), cond.result());
  // The untouched side yields the chain from outside.
  EXPECT_EQ(cond.regions[1]->ops.back()->operand(0), ops[0]->result());
  expect_round_trip();
}

TEST_F(ControlFlow, CondErrors) {
  auto value = [&] { return x; };
  EXPECT_THAT(
      [&] { ops::cond(g.inputs()[3], {kVector}, value, value); },
      ThrowsMessage<ValueError>(StartsWith("The predicate for `ops.cond` must reside on CPU, but "
                                           "got a tensor on gpu:0. ")));
  EXPECT_THROW(ops::cond(x, {kVector}, value, value), ValueError);
  EXPECT_THAT([&] { ops::cond(p, {TensorType(f32, {5}, cpu)}, value, value); },
              ThrowsMessage<TypeError>(StartsWith("Results don't match expected types: ")));
  EXPECT_THROW(ops::cond(p, {}, value, value), TypeError);
  TensorValue inner;
  ops::cond(p, {kVector}, [&] { return inner = ops::exp(x); }, value);
  EXPECT_THAT([&] { ops::exp(inner); }, ThrowsMessage<ValueError>(HasSubstr("region")));
}

TEST_F(ControlFlow, AnExceptionInARegionLeavesTheGraphUsable) {
  const Value before = g.device_chain(cpu);
  EXPECT_THROW(
      ops::cond(
          p, {}, [&] { ops::buffer_store(b, x); }, [&] { throw std::runtime_error("no"); }),
      std::runtime_error);
  EXPECT_TRUE(g.device_chain(cpu).is(before));
  g.output({ops::exp(x)});
  EXPECT_THAT(g.to_string(), Not(HasSubstr("cond")));
}

TEST_F(ControlFlow, WeightsInRegionsAreVisibleEverywhere) {
  Weight w("w", f32, {4}, cpu);
  ops::cond(p, {kVector}, [&] { return ops::add(x, w); }, [&] { return ops::mul(x, w); });
  g.output({ops::add(x, w)});
  std::string text = g.to_string();
  EXPECT_EQ(text.find("constant.external"), text.rfind("constant.external"));
  EXPECT_LT(text.find("constant.external"), text.find("kiln.cond"));
}

TEST_F(ControlFlow, WhileLoops) {
  auto r = ops::while_loop(
      {n, x}, [&](const std::vector<TensorValue>& v) { return v[0] > 0; },
      [&](const std::vector<TensorValue>& v) { return std::vector<Value>{v[0] - 1, v[1] * 2}; });
  ASSERT_EQ(r.size(), 2u);
  EXPECT_EQ(r[1].type(), Type(kVector));
  g.output({r[1].tensor()});
  const ir::Op& op = *g.ir().body->ops[1];
  EXPECT_EQ(op.kind, OpKind::while_loop);
  EXPECT_EQ(op.results.size(), 2u);
  EXPECT_EQ(op.regions[0]->arguments.size(), 2u);
  expect_round_trip();
}

TEST_F(ControlFlow, PrintsInsideLoopsCarryTheChain) {
  ops::while_loop(
      {n}, [&](const std::vector<TensorValue>& v) { return v[0] > 0; },
      [&](const std::vector<TensorValue>& v) {
        ops::print(v[0], "i");
        return v[0] - 1;
      });
  TensorValue after = ops::buffer_load(b);
  g.output({after});
  const ir::Op& op = *g.ir().body->ops[1];
  ASSERT_EQ(op.results.size(), 2u);
  EXPECT_TRUE(op.result(1)->type.is_chain());
  EXPECT_EQ(after.ir_value()->producer->operand(1), op.result(1));
  EXPECT_EQ(op.regions[0]->ops.back()->operands.size(), 2u);
  expect_round_trip();
}

TEST_F(ControlFlow, WhileErrors) {
  auto yes = [&](const std::vector<TensorValue>& v) { return v[0] > 0; };
  auto same = [&](const std::vector<TensorValue>& v) { return v; };
  EXPECT_THAT([&] { ops::while_loop({}, yes, same); },
              ThrowsMessage<ValueError>("While loops must have at least one iteration value."));
  EXPECT_THAT(
      [&] {
        ops::while_loop({n}, yes, [&](const std::vector<TensorValue>& v) { return v[0] / 2; });
      },
      ThrowsMessage<TypeError>(StartsWith("Results don't match expected types: ")));
  EXPECT_THAT([&] { ops::while_loop({n}, same, same); },
              ThrowsMessage<ValueError>(HasSubstr("ops.while_loop")));
  const std::string text = "Buffer operations are currently not supported in while loops";
  EXPECT_THAT(
      [&] {
        ops::while_loop({n}, yes, [&](const std::vector<TensorValue>& v) {
          ops::buffer_store(b, x);
          return v;
        });
      },
      ThrowsMessage<NotImplementedError>(text));
  ops::buffer_store(b, x);  // and outside it still works
}

TEST_F(ControlFlow, Nesting) {
  auto y = ops::cond(
      p, {kVector},
      [&] {
        return ops::cond(
            p, {kVector}, [&] { return ops::exp(x); },
            [&] {
              ops::print("inner");
              return x;
            });
      },
      [&] { return x; });
  g.output({y[0].tensor()});
  expect_round_trip();
}

}  // namespace
}  // namespace kiln::graph
