// Scatters, running sums, and ops whose size the data decides.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kiln/graph.h"
#include "kiln/support/error.h"

namespace kiln::graph {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

const DeviceRef cpu = DeviceRef::CPU();
constexpr auto f32 = DType::float32;
constexpr auto i64 = DType::int64;

class IndexingOps : public testing::Test {
 protected:
  Graph g{"g", {.input_types = {TensorType(f32, {"n", 3}, cpu)}}};
  Graph::Scope scope{g};
  TensorValue x = g.inputs()[0].tensor();

  TensorValue of(Shape shape, DType dtype = f32, DeviceRef device = cpu) {
    return ops::buffer_load(ops::buffer_create(BufferType(dtype, std::move(shape), device)));
  }
};

TEST_F(IndexingOps, ScattersKeepTheTypeOfTheInput) {
  for (auto op : {ops::scatter_add, ops::scatter_max, ops::scatter_min, ops::scatter_mul})
    EXPECT_EQ(op(x, of({2, 3}), of({2, 3}, i64), 0).type(), x.type());
  for (auto op : {ops::scatter_nd, ops::scatter_nd_add, ops::scatter_nd_max, ops::scatter_nd_min,
                  ops::scatter_nd_mul})
    EXPECT_EQ(op(x, of({5, 3}), of({5, 1}, i64)).type(), x.type());
  EXPECT_THAT([&] { ops::scatter_nd(x, of({5, 3}), of({5}, i64)); },
              ThrowsMessage<ValueError>(HasSubstr("exceed the rank 2 of the input")));
}

TEST_F(IndexingOps, SizesThatTheDataDecides) {
  EXPECT_EQ(ops::nonzero(x, "k").type(), TensorType(i64, {"k", 2}, cpu));
  EXPECT_EQ(ops::repeat_interleave(x, of({"n"}, i64), 0, Dim("r")).shape(), (Shape{"r", 3}));
  EXPECT_EQ(ops::repeat_interleave(x, of({}, i64), std::nullopt, Dim("q")).shape(), (Shape{"q"}));
  EXPECT_EQ(ops::masked_scatter(x, of({3}, DType::bool_), of({"k"}), "k").type(), x.type());
  // The symbols are known from now on.
  EXPECT_EQ(ops::shape_to_tensor({"k", "r", "q"}).shape(), (Shape{3}));
  EXPECT_THAT([&] { ops::nonzero(x, -1); },
              ThrowsMessage<ValueError>(HasSubstr("out_dim must not be negative, got -1.")));
}

TEST_F(IndexingOps, CumsumCountsItsAxisFromEitherEnd) {
  EXPECT_EQ(ops::cumsum(x, {.axis = -2, .exclusive = true}).type(), x.type());
  EXPECT_THAT([&] { ops::cumsum(x, {.axis = -3}); },
              ThrowsMessage<ValueError>(HasSubstr("Invalid axis=-3 for input x.rank=2")));
  EXPECT_THAT([&] { ops::cumsum(of({})); },
              ThrowsMessage<ValueError>(HasSubstr("Invalid axis=-1 for input x.rank=0")));
}

TEST_F(IndexingOps, WhatRunsOnTheHostComesBack) {
  const TensorValue far = of({4}, f32, DeviceRef::GPU());
  EXPECT_TRUE(ops::cumsum(far).device().is_gpu());
  EXPECT_TRUE(ops::nonzero(far, "z").device().is_gpu());
  EXPECT_THAT([&] { ops::repeat_interleave(far, of({4}, i64), 0, Dim("r")); },
              ThrowsMessage<ValueError>(HasSubstr("repeat_interleave is not supported on GPU")));
}

}  // namespace
}  // namespace kiln::graph
