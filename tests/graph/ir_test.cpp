#include "kiln/graph/ir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kiln/support/error.h"

namespace kiln::graph {
namespace {

using ir::Attributes;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Values of given types and the inference on them.
struct Bench {
  ir::Block block;
  ir::Value* value(DType dtype, Shape shape, DeviceRef device = {}) {
    block.arguments.push_back(
        std::make_unique<ir::Value>(ir::Value{TensorType(dtype, std::move(shape), device)}));
    return block.arguments.back().get();
  }
  Type infer(OpKind kind, std::vector<ir::Value*> operands, Attributes attributes = {},
             std::vector<Type> declared = {}) {
    return ir::infer_types(kind, operands, attributes, declared).at(0);
  }
};

constexpr auto f32 = DType::float32;
const std::int64_t k0 = 0, k1 = 1;

Type tensor(DType dtype, Shape shape) {
  return TensorType(dtype, std::move(shape), DeviceRef::CPU());
}

TEST(Infer, ElementwiseBroadcasts) {
  Bench b;
  auto* x = b.value(f32, {"n", 1, 4});
  auto* y = b.value(f32, {3, 1});
  EXPECT_EQ(b.infer(OpKind::add, {x, y}), tensor(f32, {"n", 3, 4}));
  EXPECT_EQ(b.infer(OpKind::greater, {x, y}), tensor(DType::bool_, {"n", 3, 4}));
  EXPECT_EQ(b.infer(OpKind::add, {x, b.value(f32, {})}), tensor(f32, {"n", 1, 4}));
  EXPECT_EQ(b.infer(OpKind::add, {x, b.value(f32, {0, 4})}), tensor(f32, {"n", 0, 4}));
  EXPECT_EQ(b.infer(OpKind::where, {b.value(DType::bool_, {3, 1}), x, b.value(f32, {})}),
            tensor(f32, {"n", 3, 4}));
  EXPECT_THAT([&] { b.infer(OpKind::add, {b.value(f32, {"a"}), b.value(f32, {"b"})}); },
              ThrowsMessage<ValueError>(
                  AllOf(HasSubstr("[Dim('a')]"), HasSubstr("[Dim('b')]"), HasSubstr("rebind"))));
  EXPECT_THAT([&] { b.infer(OpKind::where, {b.value(DType::bool_, {2}), x, x}); },
              ThrowsMessage<ValueError>(HasSubstr("are neither equivalent nor broadcastable")));
}

TEST(Infer, DTypes) {
  Bench b;
  EXPECT_THAT([&] { b.infer(OpKind::exp, {b.value(DType::int32, {2})}); },
              ThrowsMessage<ValueError>(HasSubstr("op 'exp' does not support dtype DType.int32")));
  EXPECT_THROW(b.infer(OpKind::add, {b.value(DType::bool_, {}), b.value(DType::bool_, {})}),
               ValueError);
  EXPECT_THAT([&] { b.infer(OpKind::relu, {b.value(DType::float8_e5m2, {})}); },
              ThrowsMessage<ValueError>(HasSubstr("cast")));
  EXPECT_EQ(b.infer(OpKind::max, {b.value(DType::bool_, {}), b.value(DType::bool_, {})}),
            tensor(DType::bool_, {}));
  EXPECT_EQ(b.infer(OpKind::is_nan, {b.value(DType::int8, {5})}), tensor(DType::bool_, {5}));
  EXPECT_EQ(b.infer(OpKind::cast, {b.value(f32, {5})}, {{"dtype", DType(DType::int8)}}),
            tensor(DType::int8, {5}));
  EXPECT_THAT(
      [&] { b.infer(OpKind::add, {b.value(f32, {}), b.value(f32, {}, DeviceRef::GPU())}); },
      ThrowsMessage<ValueError>("Input values must be on the same device\n"
                                "    lhs: TensorType(dtype=float32, shape=[], device=cpu:0)\n"
                                "    rhs: TensorType(dtype=float32, shape=[], device=gpu:0)"));
}

TEST(Infer, Views) {
  Bench b;
  auto* x = b.value(f32, {"b", 4, 6});
  EXPECT_EQ(b.infer(OpKind::reshape, {x}, {{"shape", Shape{"b", 24}}}), tensor(f32, {"b", 24}));
  EXPECT_THAT([&] { b.infer(OpKind::reshape, {x}, {{"shape", Shape{"b", 25}}}); },
              ThrowsMessage<ValueError>(
                  AllOf(HasSubstr("[reshape] input and output number of elements must match"),
                        HasSubstr("consider a rebind to assert that the reshape is valid"))));
  EXPECT_EQ(b.infer(OpKind::permute, {x}, {{"dims", std::vector<std::int64_t>{2, 0, 1}}}),
            tensor(f32, {6, "b", 4}));
  EXPECT_EQ(b.infer(OpKind::unsqueeze, {x}, {{"axis", std::int64_t{3}}}),
            tensor(f32, {"b", 4, 6, 1}));
  EXPECT_EQ(b.infer(OpKind::squeeze, {b.value(f32, {1, 3})}, {{"axis", k0}}), tensor(f32, {3}));
  EXPECT_EQ(b.infer(OpKind::broadcast_to, {b.value(f32, {1, 3})}, {{"shape", Shape{2, "n", 3}}}),
            tensor(f32, {2, "n", 3}));
  EXPECT_EQ(
      b.infer(OpKind::rebind, {x}, {{"shape", Shape{"q", 4, "r"}}, {"message", std::string()}}),
      tensor(f32, {"q", 4, "r"}));
}

TEST(Infer, Products) {
  Bench b;
  EXPECT_EQ(b.infer(OpKind::matmul, {b.value(f32, {"b", 1, 2, "k"}), b.value(f32, {5, "k", 0})}),
            tensor(f32, {"b", 5, 2, 0}));
  EXPECT_THAT([&] { b.infer(OpKind::matmul, {b.value(f32, {2, 3}), b.value(f32, {4, 3})}); },
              ThrowsMessage<ValueError>(AllOf(HasSubstr("Dim(3)"), HasSubstr("Dim(4)"))));
  EXPECT_EQ(b.infer(OpKind::matmul,
                    {b.value(DType::float8_e4m3fn, {2, 3}), b.value(DType::float8_e4m3fn, {3, 4})}),
            tensor(f32, {2, 4}));
}

TEST(Infer, Reductions) {
  Bench b;
  auto* x = b.value(DType::int8, {"b", 0, 3});
  EXPECT_EQ(b.infer(OpKind::reduce_sum, {x}, {{"axis", k1}}), tensor(DType::int8, {"b", 1, 3}));
  EXPECT_EQ(b.infer(OpKind::argmax, {x}, {{"axis", k0}}), tensor(DType::int64, {1, 0, 3}));
  EXPECT_THROW(b.infer(OpKind::reduce_max, {x}, {{"axis", k1}}), ValueError);
  EXPECT_THAT([&] { b.infer(OpKind::reduce_sum, {x}, {{"axis", std::int64_t{3}}}); },
              ThrowsMessage<ValueError>("Invalid axis=3 for input x.rank=3"));
}

TEST(Infer, Movement) {
  Bench b;
  auto* x = b.value(f32, {"b", 4});
  EXPECT_EQ(b.infer(OpKind::concat, {x, b.value(f32, {2, 4})}, {{"axis", k0}}),
            tensor(f32, {Dim("b") + 2, 4}));
  EXPECT_EQ(b.infer(OpKind::gather, {x, b.value(DType::uint8, {"i", 2})}, {{"axis", k1}}),
            tensor(f32, {"b", "i", 2}));
  using Ints = std::vector<std::int64_t>;
  EXPECT_EQ(
      b.infer(
          OpKind::slice, {x},
          {{"starts", Shape{1, 3}}, {"stops", Shape{Dim("b") - 1, -1}}, {"steps", Ints{2, -1}}}),
      tensor(f32, {(Dim("b") - 1).floor_div(2), 4}));
  EXPECT_THAT(
      [&] {
        b.infer(OpKind::slice, {x},
                {{"starts", Shape{0, 5}}, {"stops", Shape{"b", 5}}, {"steps", Ints{1, 1}}});
      },
      ThrowsMessage<ValueError>("slice start index 5 out of range for dimension size 4"));
  EXPECT_EQ(b.infer(OpKind::slice, {x, b.value(DType::int64, {})},
                    {{"starts", Shape{0, 0}},
                     {"stops", Shape{"b", 4}},
                     {"steps", Ints{1, 1}},
                     {"dynamic_starts", Ints{0}},
                     {"out_dims", Shape{"m", 4}}}),
            tensor(f32, {"m", 4}));
}

TEST(AppendOp, ChecksAgainstDeclaredTypes) {
  Bench b;
  auto* x = b.value(f32, {2});
  ir::Op* op = ir::append_op(b.block, OpKind::exp, {x});
  EXPECT_EQ(op->result()->producer, op);
  EXPECT_EQ(op->result()->type, tensor(f32, {2}));
  EXPECT_THROW(ir::append_op(b.block, OpKind::exp, {x}, {}, {tensor(f32, {3})}), ValueError);
  EXPECT_THROW(ir::append_op(b.block, OpKind::exp, {x, x}), ValueError);
  EXPECT_THROW(ir::append_op(b.block, OpKind::exp, {x}, {{"axis", k0}}), ValueError);
  EXPECT_THROW(ir::append_op(b.block, OpKind::softmax, {x}), ValueError);
  EXPECT_EQ(b.block.ops.size(), 1u);
}

TEST(Clone, IsDeep) {
  ir::Module module;
  module.graphs.push_back(std::make_unique<ir::Graph>());
  ir::Graph& g = *module.graphs[0];
  g.name = "g";
  g.module = &module;
  g.body = std::make_unique<ir::Block>();
  g.body->graph = &g;
  g.body->arguments.push_back(std::make_unique<ir::Value>(ir::Value{tensor(f32, {2})}));
  ir::Op* e = ir::append_op(*g.body, OpKind::exp, {g.body->arguments[0].get()});
  ir::append_op(*g.body, OpKind::output, {e->result()});

  auto copy = ir::clone(module);
  ir::Graph* h = copy->find("g");
  ASSERT_NE(h, nullptr);
  EXPECT_EQ(h->module, copy.get());
  ASSERT_NE(h->terminator(), nullptr);
  EXPECT_EQ(h->terminator()->operand(0), h->body->ops[0]->result());
  EXPECT_EQ(h->body->ops[0]->operand(0), h->body->arguments[0].get());
  EXPECT_NE(h->body->ops[0].get(), e);
}

}  // namespace
}  // namespace kiln::graph
