#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kiln/graph.h"
#include "kiln/support/error.h"

namespace kiln::graph {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr auto f32 = DType::float32;
const DeviceRef cpu = DeviceRef::CPU();
constexpr const char* kNeedsTuple =
    "Can't yet support slicing with calculated output size for dynamic dims. Please use a tuple "
    "like "
    "(slice(0, 10), \"out_dim\") to specify the output dimensions.";

class Slicing : public testing::Test {
 protected:
  Graph g{"g",
          {.input_types = {TensorType(f32, {5, "n", 3}, cpu), TensorType(DType::int64, {}, cpu),
                           TensorType(f32, {}, cpu), TensorType(f32, {0}, cpu),
                           TensorType(DType::int64, {2}, cpu),
                           TensorType(DType::int64, {}, DeviceRef::GPU())}}};
  Graph::Scope scope{g};
  TensorValue x = g.inputs()[0].tensor();
  TensorValue i = g.inputs()[1].tensor();
  TensorValue scalar = g.inputs()[2].tensor();
  TensorValue empty = g.inputs()[3].tensor();
};

TEST_F(Slicing, Entries) {
  EXPECT_EQ(x[0].shape(), (Shape{"n", 3}));
  EXPECT_EQ(x[-1].shape(), (Shape{"n", 3}));
  EXPECT_EQ((x[{1, all, slice(0, 2)}].shape()), (Shape{"n", 2}));
  EXPECT_EQ((x[{ellipsis, newaxis}].shape()), (Shape{5, "n", 3, 1}));
  EXPECT_EQ((x[{newaxis, 2, ellipsis, newaxis, 0}].shape()), (Shape{1, "n", 1}));
  EXPECT_EQ((x[{slice(none, none, 2)}].shape()), (Shape{3, "n", 3}));
  EXPECT_EQ((x[{slice(none, none, -1)}].shape()), (Shape{5, "n", 3}));
  EXPECT_TRUE(x[ellipsis].is(x));
  EXPECT_EQ((scalar[{newaxis, ellipsis}].shape()), (Shape{1}));
  EXPECT_EQ((empty[{slice(0, 0)}].shape()), (Shape{0}));
  EXPECT_EQ((empty[{slice(none, none, -1)}].shape()), (Shape{0}));
}

// Sizes against a walk over the elements that Python would visit.
TEST_F(Slicing, SizesOfStaticSlices) {
  const int n = 5;
  for (int a = -n; a <= n; ++a)
    for (int b = -n; b <= n; ++b)
      for (int s : {-3, -2, -1, 1, 2, 4}) {
        int start = a < 0 ? a + n : a, stop = b < 0 ? b + n : b;
        if (s < 0) start = std::min(start, n - 1), stop = std::min(stop, n - 1);
        const bool wrong = s > 0 ? stop < start : stop > start;
        std::int64_t size = 0;
        for (int v = start; s > 0 ? v < stop : v > stop; v += s) ++size;
        auto cut = [&] { return x[{slice(a, b, s)}].shape()[0]; };
        if (wrong)
          EXPECT_THAT(cut, ThrowsMessage<ValueError>(HasSubstr("should be increasing")));
        else
          EXPECT_EQ(cut(), Dim(size)) << a << ':' << b << ':' << s;
      }
}

TEST_F(Slicing, SymbolicAxes) {
  Dim n("n");
  EXPECT_EQ((x[{all, slice(1, none)}].shape()[1]), n - 1);
  EXPECT_EQ((x[{all, slice(none, -1)}].shape()[1]), n - 1);
  EXPECT_EQ((x[{all, slice(2, 6)}].shape()[1]), Dim(4));
  EXPECT_EQ((x[{all, slice(-3, -1)}].shape()[1]), Dim(2));
  EXPECT_EQ((x[{all, slice(0, none, 2)}].shape()[1]), (n + 1).floor_div(2));
  EXPECT_EQ((x[{all, -1}].shape()), (Shape{5, 3}));
  EXPECT_EQ((x[{all, slice(0, n - 1)}].shape()[1]), n - 1);
  EXPECT_THAT([&] { (x[{all, slice(none, none, -1)}]); },
              ThrowsMessage<ValueError>(HasSubstr("expected positive integer step but got -1")));
}

TEST_F(Slicing, StaticErrors) {
  EXPECT_THAT([&] { (x[{slice(6, none)}]); },
              ThrowsMessage<ValueError>("slice start index 6 out of range for dimension size 5"));
  EXPECT_THAT([&] { (x[{slice(none, -6)}]); },
              ThrowsMessage<ValueError>("slice stop index -6 out of range for dimension size 5"));
  EXPECT_THAT(
      [&] { (x[{slice(3, 1)}]); },
      ThrowsMessage<ValueError>(
          "start and stop should be increasing for positive step and decreasing for negative "
          "step, but got start 3, stop 1 for step 1"));
  EXPECT_THAT([&] { x[5]; }, ThrowsMessage<IndexError>("Index 5 out of range of dim 5"));
  EXPECT_THAT([&] { x[-6]; }, ThrowsMessage<IndexError>("Index -6 out of range of dim 5"));
  EXPECT_THROW((x[{slice(0, 1, 0)}]), ValueError);
  EXPECT_THAT([&] { scalar[0]; },
              ThrowsMessage<ValueError>("Slicing does not support scalar inputs"));
  EXPECT_THAT(
      [&] { (x[{0, 0, 0, 0}]); },
      ThrowsMessage<ValueError>(HasSubstr("Too many indices supplied to slice for shape ")));
  EXPECT_THROW((x[{ellipsis, ellipsis}]), ValueError);
  EXPECT_THAT([&] { (x[{all, slice(INT64_MIN, INT64_MAX)}]); },
              ThrowsMessage<ValueError>("slice index computation overflow"));
}

TEST_F(Slicing, RunTimeIndices) {
  EXPECT_EQ((x[{i}].shape()), (Shape{"n", 3}));
  EXPECT_EQ((x[{i, i, ellipsis}].shape()), (Shape{3}));
  EXPECT_EQ((x[{slice(i, none).out("q")}].shape()), (Shape{"q", "n", 3}));
  EXPECT_EQ((x[{slice(i, i).out(2), slice(1, none).out("r"), i}].shape()), (Shape{2, "r"}));
  EXPECT_EQ((x[{i, all, slice(0, 2)}].shape()), (Shape{"n", 2}));
  EXPECT_EQ((x[{slice(0, 2).out(2)}].shape()), (Shape{2, "n", 3}));
  EXPECT_THAT([&] { (x[{slice(i, none)}]); }, ThrowsMessage<NotImplementedError>(kNeedsTuple));
  EXPECT_THAT([&] { (x[{i, slice(1, none)}]); }, ThrowsMessage<NotImplementedError>(kNeedsTuple));
  EXPECT_THAT([&] { (x[{slice(0, 2).out(3)}]); }, ThrowsMessage<ValueError>(HasSubstr("not 3")));
  EXPECT_THAT([&] { x[g.inputs()[4].tensor()]; },
              ThrowsMessage<ValueError>("Slice index value must be a scalar, had shape [Dim(2)]"));
  EXPECT_THAT([&] { x[g.inputs()[5].tensor()]; },
              ThrowsMessage<ValueError>(HasSubstr("Input value must be on the host device")));
  std::string text = g.to_string();
  EXPECT_EQ(Graph::parse(text).to_string(), text);
}

TEST_F(Slicing, RunTimeOperandsFollowTheirAxes) {
  TensorValue j = i + 1, k = i + 2;
  (x[{k, slice(i, j).out("q")}]);
  const ir::Op* op = nullptr;
  for (const auto& o : g.ir().body->ops)
    if (o->kind == OpKind::slice) op = o.get();
  ASSERT_NE(op, nullptr);
  using Ints = std::vector<std::int64_t>;
  EXPECT_EQ(op->attribute<Ints>("dynamic_starts"), Ints{1});
  EXPECT_EQ(op->attribute<Ints>("dynamic_stops"), Ints{1});
  EXPECT_EQ(op->attribute<Ints>("dynamic_indices"), Ints{0});
  EXPECT_EQ(op->operand(1), i.ir_value());
  EXPECT_EQ(op->operand(2), j.ir_value());
  EXPECT_EQ(op->operand(3), k.ir_value());
  EXPECT_EQ(op->attribute<Shape>("out_dims"), (Shape{1, "q", 3}));
}

}  // namespace
}  // namespace kiln::graph
