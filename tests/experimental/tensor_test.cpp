// Tensors on the CPU: eager, lazy and in a graph. Expected values are worked out by hand.

#include "kiln/experimental/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kiln/engine/inference_session.h"
#include "kiln/experimental/compilation.h"
#include "kiln/experimental/functional.h"
#include "kiln/experimental/random.h"
#include "kiln/graph/graph.h"
#include "kiln/support/error.h"
#include "tests/experimental/tensors.h"

namespace kiln::experimental {
namespace {

namespace F = functional;
using graph::all;
using graph::slice;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Tensor, ComputesAtOnce) {
  const Tensor x({1, 2, 3});
  const Tensor y = x * 2 + x;
  EXPECT_TRUE(y.real());
  EXPECT_THAT(floats(y), ElementsAre(3, 6, 9));
  EXPECT_THAT(floats(1 - x), ElementsAre(0, -1, -2));
  EXPECT_EQ(x.dtype(), DType::float32);
}

TEST(Tensor, NumbersMayChangeFromCallToCall) {
  const Tensor x({1, 2, 3});
  for (int i = 0; i < 5; ++i) EXPECT_THAT(floats(x * i), ElementsAre(i, 2 * i, 3 * i));
  for (int i = 0; i < 3; ++i)
    EXPECT_THAT(floats(F::pow(x, i)), ElementsAre(1,
                                                  i == 0   ? 1
                                                  : i == 1 ? 2
                                                           : 4,
                                                  i == 0   ? 1
                                                  : i == 1 ? 3
                                                           : 9));
  const Tensor n({1, 2}, {.dtype = DType::int8});
  EXPECT_EQ((n + 1).dtype(), DType::int8);
  EXPECT_THROW(n + 200, ValueError);
  EXPECT_THROW(n + 0.5, ValueError);
}

TEST(Tensor, OneTensorTwiceIsToldFromTwoTensors) {
  const Tensor x({1, 2}), y({10, 20});
  EXPECT_THAT(floats(x + x), ElementsAre(2, 4));
  EXPECT_THAT(floats(x + y), ElementsAre(11, 22));
  EXPECT_THAT(floats(y + x), ElementsAre(11, 22));
  EXPECT_THAT(floats(y + y), ElementsAre(20, 40));
}

TEST(Tensor, CastToItsOwnTypeIsItself) {
  const Tensor x({1, 2});
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(x.cast(DType::float32).is(x));
    EXPECT_EQ(x.cast(DType::int32).dtype(), DType::int32);
  }
}

TEST(Tensor, Reductions) {
  const Tensor x({{1, 2, 3}, {4, 5, 6}});
  EXPECT_THAT(floats(x.sum()), ElementsAre(6, 15));
  EXPECT_THAT(floats(x.sum(0)), ElementsAre(5, 7, 9));
  EXPECT_THAT(floats(x.max(std::nullopt)), ElementsAre(6));
  EXPECT_EQ(x.mean(std::nullopt).shape(), graph::Shape{1});
  EXPECT_THAT(floats(F::matmul(x, x.T())), ElementsAre(14, 32, 32, 77));
}

TEST(Tensor, PartsAreReadAndStored) {
  const Tensor x = Tensor::zeros({2, 3});
  x[{1, slice(0, 2)}] = Tensor({5, 6});
  x[{0, 2}] = Tensor(graph::ops::Literal(7));
  EXPECT_THAT(floats(x), ElementsAre(0, 0, 7, 5, 6, 0));
  EXPECT_THAT(floats(x[{all, 1}]), ElementsAre(0, 6));
  const Tensor shared(x.driver_tensor());
  x[{0}] = Tensor::ones({3});
  EXPECT_THAT(floats(shared), ElementsAre(1, 1, 1, 5, 6, 0));
}

TEST(Tensor, LazyValuesKeepWhatTheySaw) {
  const Tensor x({1, 2});
  Tensor doubled, never;
  {
    const LazyGuard lazy = F::lazy();
    doubled = x * 2;
    never = x / 0;
    EXPECT_FALSE(doubled.real());
    x[{0}] = Tensor(graph::ops::Literal(10));
    EXPECT_TRUE(x.real());
    EXPECT_THAT(floats(x + 1), ElementsAre(11, 3));
  }
  EXPECT_THAT(floats(doubled), ElementsAre(2, 4));
  EXPECT_FALSE(never.real());
  EXPECT_THAT(floats(doubled + x), ElementsAre(12, 6));
}

TEST(Tensor, LazyValuesSeeNoLaterStoreOutside) {
  const Tensor x({1, 2});
  Tensor sum;
  {
    const LazyGuard lazy = F::lazy();
    sum = x + 1;
  }
  for (int i = 0; i < 2; ++i) x[{0}] = Tensor({10 + i})[{0}];
  EXPECT_THAT(floats(sum), ElementsAre(2, 3));
}

TEST(Tensor, IsAGraphValueWhileAGraphIsBuilt) {
  const graph::TensorType type(DType::float32, {3}, driver::CPU());
  const Tensor held({1, 2, 3});
  const graph::Graph g = graph::Graph::build("g", {.input_types = {type}},
                                             [&](const std::vector<graph::Value>& inputs) {
                                               const Tensor x = Tensor::from_graph_value(inputs[0]);
                                               const Tensor y = x * held + 1;
                                               EXPECT_FALSE(y.real());
                                               EXPECT_TRUE(F::in_graph_context());
                                               EXPECT_THROW(static_cast<void>(y.item()), TypeError);
                                               return y.tensorvalue();
                                             });
  EXPECT_FALSE(F::in_graph_context());
  const engine::Model model = engine::InferenceSession().load(g);
  const Tensor y(model(Tensor({1, 1, 2}).driver_tensor())[0]);
  EXPECT_THAT(floats(y), ElementsAre(2, 3, 7));
}

TEST(Tensor, FurtherOps) {
  const Tensor x({1, 2, 3, 4});
  const auto index = [](graph::ops::Literal literal) {
    return Tensor(literal, {.dtype = DType::int64});
  };
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(floats(F::cumsum(x, {.exclusive = true})), ElementsAre(0, 1, 3, 6));
    EXPECT_THAT(floats(F::pad(x, {1, 0}, {.mode = "edge"})), ElementsAre(1, 1, 2, 3, 4));
    EXPECT_THAT(floats(F::tile(Tensor({1, 2}), {2})), ElementsAre(1, 2, 1, 2));
    EXPECT_THAT(floats(F::scatter_add(x, Tensor({10, 20}), index({0, 0}))),
                ElementsAre(31, 2, 3, 4));
    EXPECT_THAT(floats(F::scatter_nd_max(x, Tensor({9, 0}), index({{1}, {3}}))),
                ElementsAre(1, 9, 3, 4));
    EXPECT_THAT(floats(F::repeat_interleave(Tensor({1, 2}), 2)), ElementsAre(1, 1, 2, 2));
    EXPECT_EQ(F::nonzero(Tensor({0, 5, 0}), "found").shape(), graph::Shape({1, 1}));
    const Tensor image = x.reshape({1, 2, 2, 1}), filter = Tensor::ones({2, 2, 1, 1});
    EXPECT_THAT(floats(F::conv2d(image, filter)), ElementsAre(10));
    EXPECT_THAT(floats(F::conv2d(image, filter, Tensor({1}), {.padding = {1, 0, 1, 0}})),
                ElementsAre(2, 4, 5, 11));
    EXPECT_THAT(floats(F::max_pool2d(image, 2)), ElementsAre(4));
    EXPECT_THAT(floats(F::resize_nearest(Tensor({1, 2}), {4})), ElementsAre(1, 1, 2, 2));
    EXPECT_THAT(floats(F::bottom_k(x, 2).first), ElementsAre(1, 2));
  }
}

TEST(Tensor, Texts) {
  EXPECT_EQ(Tensor({1.23456, 2.5, 100}).to_string(),
            "Tensor([1.235   2.5   100], dtype=DType.float32, device=Device(type=cpu,id=0))");
  EXPECT_EQ(Tensor({{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}}, {.dtype = DType::int32}).to_string(),
            "Tensor([1 2 | 5 6\n 3 4 | 7 8], dtype=DType.int32, device=Device(type=cpu,id=0))");
  EXPECT_EQ(Tensor::zeros({0, 3}).to_string(),
            "Tensor([], dtype=DType.float32, device=Device(type=cpu,id=0))");
  EXPECT_EQ(Tensor(graph::ops::Literal(true), {.dtype = DType::bool_}).to_string(),
            "Tensor(True, dtype=DType.bool, device=Device(type=cpu,id=0))");
  EXPECT_THAT(Tensor::arange(0, 2000).to_string(),
              HasSubstr("[   0    1    2 ... 1997 1998 1999]"));
}

TEST(Tensor, ErrorsNameTheOp) {
  const Tensor x({1, 2}), y({1, 2, 3});
  try {
    static_cast<void>(x + y);
    FAIL();
  } catch (const ValueError& e) {
    EXPECT_THAT(e.what(), HasSubstr("Failed to create op 'add'"));
  }
  EXPECT_FALSE(graph::Graph::has_current());
  EXPECT_THROW(static_cast<void>(y.item()), TypeError);
  EXPECT_THROW(static_cast<void>(static_cast<bool>(y)), TypeError);
}

TEST(Functional, OptionsTellCallsApart) {
  const Tensor x({1, 2, 3});
  for (int i = 0; i < 2; ++i) {  // recorded, and from the plan
    EXPECT_THAT(floats(F::cumsum(x)), ElementsAre(1, 3, 6));
    EXPECT_THAT(floats(F::cumsum(x, {.exclusive = true})), ElementsAre(0, 1, 3));
    EXPECT_THAT(floats(F::cumsum(x, {.reverse = true})), ElementsAre(6, 5, 3));
    EXPECT_THAT(floats(F::pad(x, {1, 0})), ElementsAre(0, 1, 2, 3));
    EXPECT_THAT(floats(F::pad(x, {1, 0}, {.value = 5})), ElementsAre(5, 1, 2, 3));
    EXPECT_THAT(floats(F::pad(x, {1, 1}, {.mode = "reflect"})), ElementsAre(2, 1, 2, 3, 2));
  }
  const auto usable = [](const auto& options) {
    CallArguments call(1);
    detail::add_argument(call, options);
    return call.key.usable();
  };
  EXPECT_TRUE(usable(graph::ops::Conv2dOptions{}));
  EXPECT_TRUE(usable(graph::ops::PadOptions{}));
  EXPECT_TRUE(usable(graph::ops::IrfftOptions{}));
  EXPECT_TRUE(usable(graph::ops::AvgPool2dOptions{}));
}

TEST(Functional, MakesTensors) {
  const TensorOptions ints{.dtype = DType::int32};
  const Tensor like = F::zeros({2}, ints);
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(floats(F::full({2}, 3)), ElementsAre(3, 3));
    EXPECT_THAT(floats(F::constant({1, 2})), ElementsAre(1, 2));
    EXPECT_EQ(F::ones_like(like).dtype(), DType::int32);
    EXPECT_THAT(floats(F::full_like(TensorLayout(DType::float32, {1}, driver::CPU()), 4)),
                ElementsAre(4));
    EXPECT_THAT(floats(F::arange(3)), ElementsAre(0, 1, 2));
    EXPECT_THAT(floats(F::arange(3, 0, -1)), ElementsAre(3, 2, 1));
    EXPECT_THAT(floats(F::range(1, 7, 2)), ElementsAre(1, 3, 5));
    EXPECT_THAT(floats(F::range(Tensor(1), Tensor(3), Tensor(1), {}, {.out_dim = 2})),
                ElementsAre(1, 2));
    EXPECT_THAT(floats(F::hann_window(4)), ElementsAre(0, 0.5, 1, 0.5));
    EXPECT_THAT(floats(F::hann_window(3, false)), ElementsAre(0, 1, 0));
    EXPECT_THAT(floats(F::cast(F::shape_to_tensor({2, 5}), DType::float32)), ElementsAre(2, 5));
    const Tensor counts({2, 0, 1}, {.dtype = DType::int64});
    EXPECT_THAT(floats(F::repeat_interleave(Tensor({1, 2, 3}), counts, 0, graph::Dim(3))),
                ElementsAre(1, 1, 3));
    EXPECT_THAT(floats(F::broadcast_to(Tensor({1}), F::shape_to_tensor({2}), graph::Shape{2})),
                ElementsAre(1, 1));
    EXPECT_THAT(floats(F::clamp(Tensor({1, 5}), 2, 3)), ElementsAre(2, 3));
    EXPECT_THAT(floats(F::elementwise_max(Tensor({1, 5}), 2)), ElementsAre(2, 5));
    random::set_seed(3);
    const Tensor drawn = F::uniform({4}, Tensor(-2), 3);
    random::set_seed(3);
    EXPECT_THAT(floats(F::uniform_like(drawn, -2, Tensor(3))), testing::Eq(floats(drawn)));
  }
}

TEST(Functional, FailuresNameTheCallersLine) {
  const auto fails = [](const auto& function) {
    const auto run = compile(function)(TensorLayout(DType::float32, {"n"}, driver::CPU()));
    return [run] { run(Tensor({1, 2})); };
  };
  const auto here = ThrowsMessage<ValueError>(HasSubstr("tensor_test.cpp"));
  EXPECT_THAT(fails([](Tensor x) { return F::rebind(x, {3}); }), here);
  EXPECT_THAT(fails([](Tensor x) { return F::sin(F::rebind(F::exp(x), {3})); }), here);
}

TEST(Functional, BoundsSlicesAndStores) {
  const Tensor x({1, 2, 3, 4});
  EXPECT_THAT(floats(F::clip(x, 2, 3)), ElementsAre(2, 2, 3, 3));
  EXPECT_THAT(floats(F::clip(x, std::nullopt, 3)), ElementsAre(1, 2, 3, 3));
  EXPECT_THAT(floats(F::clip(x, Tensor({4, 1, 1, 9}))), ElementsAre(4, 2, 3, 9));
  EXPECT_THAT(floats(F::slice_tensor(x, {slice(1, 4, 2)})), ElementsAre(2, 4));
  const Tensor y = Tensor::zeros({4});
  F::buffer_store_slice(y, Tensor({7, 8}), {slice(1, 3)});
  EXPECT_THAT(floats(y), ElementsAre(0, 7, 8, 0));
  F::buffer_store(y, x);
  EXPECT_THAT(floats(y), ElementsAre(1, 2, 3, 4));
}

TEST(Functional, ControlFlow) {
  const Tensor x({1, 2});
  const std::vector<graph::Type> types = {x.type()};
  const auto choose = [&](bool which) {
    return floats(F::cond(
        Tensor(graph::ops::Literal(which), {.dtype = DType::bool_}), types,
        [&] { return std::vector<Tensor>{x * 2}; }, [&] { return std::vector<Tensor>{x - 1}; })[0]);
  };
  EXPECT_THAT(choose(true), ElementsAre(2, 4));
  EXPECT_THAT(choose(false), ElementsAre(0, 1));
  // 2^k until it is at least 100, and k.
  const auto found = F::while_loop(
      {Tensor({1}), Tensor({0})}, [](const std::vector<Tensor>& now) { return now[0][{0}] < 100; },
      [](const std::vector<Tensor>& now) { return std::vector<Tensor>{now[0] * 2, now[1] + 1}; });
  EXPECT_THAT(floats(found[0]), ElementsAre(128));
  EXPECT_THAT(floats(found[1]), ElementsAre(7));
  EXPECT_THROW(F::cond(
                   Tensor(graph::ops::Literal(true), {.dtype = DType::bool_}), types,
                   [&] { return std::vector<Tensor>{}; }, [&] { return std::vector<Tensor>{x}; }),
               TypeError);
  testing::internal::CaptureStdout();
  F::print(x, "a label");
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("a label"));
}

}  // namespace
}  // namespace kiln::experimental
