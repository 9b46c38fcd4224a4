#include "kiln/graph/dim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "kiln/support/error.h"

namespace kiln::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

const Dim x("x"), y("y"), n("n"), batch("batch"), seq("seq");

TEST(Dim, KindsAndMembers) {
  EXPECT_TRUE(Dim(4).is_static());
  EXPECT_EQ(Dim(4).value(), 4);
  EXPECT_EQ(static_cast<std::int64_t>(Dim(-1)), -1);
  EXPECT_TRUE(x.is_symbolic());
  EXPECT_EQ(x.name(), "x");
  EXPECT_TRUE((x + 1).is_algebraic());
  EXPECT_NE(Dim(4), x);
  EXPECT_EQ(Dim("x"), x);
  EXPECT_TRUE(x == "x");
  EXPECT_TRUE(Dim(4) == 4);
  EXPECT_EQ(Dim().value(), 0);
}

TEST(Dim, Errors) {
  EXPECT_THAT([] { Dim("5x"); },
              ThrowsMessage<ValueError>(HasSubstr("Invalid name for symbolic dimension")));
  EXPECT_THROW(Dim(""), ValueError);
  EXPECT_THROW(Dim("a-b"), ValueError);
  EXPECT_THAT(
      [] { x.value(); },
      ThrowsMessage<TypeError>("int(Dim('x')): Int conversions only supported for static dims"));
  EXPECT_THAT([] { Dim(std::uint64_t{1} << 63); },
              ThrowsMessage<ValueError>("Dim value must be -2**63 <= dim < 2**63"));
  EXPECT_THROW(Dim(INT64_MAX) + 1, ValueError);
  EXPECT_THROW(Dim(INT64_MAX) * x * 2, ValueError);
  EXPECT_THROW(-Dim(INT64_MIN), ValueError);
  EXPECT_THROW(Dim(INT64_MIN).floor_div(-1), ValueError);
  EXPECT_THROW(x.floor_div(0), ZeroDivisionError);
  EXPECT_THROW(Dim(3).floor_div(0), ZeroDivisionError);
}

TEST(Dim, CanonicalForm) {
  EXPECT_EQ(x + 1 + 1, x + 2);
  EXPECT_EQ((x + 1) * 2, x * 2 + 2);
  EXPECT_EQ(x - x, Dim(0));
  EXPECT_TRUE((x - x).is_static());
  EXPECT_TRUE((x + 1 - 1).is_symbolic());
  EXPECT_EQ((x + y) * (x - y), x * x - y * y);
  EXPECT_EQ(0 * x, Dim(0));
  EXPECT_EQ(x * y, y * x);
  EXPECT_EQ((x * y).hash(), (y * x).hash());
}

TEST(Dim, FloorDivision) {
  EXPECT_EQ(Dim(7).floor_div(2), Dim(3));
  EXPECT_EQ(Dim(-7).floor_div(2), Dim(-4));
  EXPECT_EQ(Dim(7).floor_div(-2), Dim(-4));
  EXPECT_EQ((batch * seq * 64).floor_div(batch * 64), seq);
  EXPECT_EQ((4 * x + 8).floor_div(4), x + 2);
  EXPECT_EQ(x.floor_div(-1), -x);
  EXPECT_EQ(x.floor_div(1), x);
  EXPECT_NE(4 * n.floor_div(4), n);
  EXPECT_EQ((4 * n.floor_div(4)).floor_div(4), n.floor_div(4));
  EXPECT_EQ((x * x * y).floor_div(x), x * y);
  EXPECT_TRUE((x + 1).floor_div(x + 1).is_algebraic());
}

TEST(Dim, Printing) {
  EXPECT_EQ(Dim(4).to_string(), "4");
  EXPECT_EQ(Dim(4).repr(), "Dim(4)");
  EXPECT_EQ(x.repr(), "Dim('x')");
  EXPECT_EQ((y + x - 4).floor_div(5).to_string(), "(x + y + -4) // 5");
  EXPECT_EQ((x * 2).to_string(), "x * 2");
  EXPECT_EQ((1 + x).repr(), "Dim('x') + Dim(1)");
  EXPECT_EQ((4 * n.floor_div(4)).to_string(), "(n // 4) * 4");
  EXPECT_EQ((n.floor_div(4) + 1).to_string(), "(n // 4) + 1");
  EXPECT_EQ((2 * x * y + 1).to_string(), "(x * y * 2) + 1");
}

TEST(Dim, ParametersInOrderOfFirstUse) {
  EXPECT_THAT((y + x).parameters(), ElementsAre("x", "y"));
  EXPECT_THAT((n.floor_div(x) * y).parameters(), ElementsAre("n", "x", "y"));
  EXPECT_TRUE(Dim(4).parameters().empty());
}

// Folding must not change the value: random expressions are built twice, as dims and as numbers.
TEST(Dim, FoldingKeepsTheValue) {
  std::mt19937 random(7);
  const std::map<std::string, std::int64_t, std::less<>> values = {{"x", 6}, {"y", 10}, {"n", 15}};
  auto value_of = [&](std::string_view name) { return values.find(name)->second; };
  auto floor_div = [](std::int64_t a, std::int64_t b) {
    std::int64_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
  };
  for (int round = 0; round < 2000; ++round) {
    Dim dim = x;
    std::int64_t value = 6;
    for (int step = 0; step < 5; ++step) {
      Dim other;
      std::int64_t number;
      switch (random() % 4) {
        case 0:
          other = x;
          number = 6;
          break;
        case 1:
          other = y;
          number = 10;
          break;
        case 2:
          other = n;
          number = 15;
          break;
        default:
          number = static_cast<int>(random() % 9) - 4;
          other = number;
          break;
      }
      switch (random() % 4) {
        case 0:
          dim = dim + other;
          value += number;
          break;
        case 1:
          dim = dim - other;
          value -= number;
          break;
        case 2:
          dim = dim * other;
          value *= number;
          break;
        default:
          if (number == 0) break;
          dim = dim.floor_div(other);
          value = floor_div(value, number);
      }
    }
    ASSERT_EQ(evaluate(dim, value_of), value) << dim;
  }
}

TEST(Dim, EvaluateRefusesOverflowAndZeroDivision) {
  auto huge = [](std::string_view) { return INT64_MAX; };
  auto zero = [](std::string_view) { return std::int64_t{0}; };
  EXPECT_THROW(evaluate(x * 2, huge), ValueError);
  EXPECT_THROW(evaluate(Dim(7).floor_div(x), zero), ValueError);
}

TEST(Shape, Members) {
  Shape shape{batch, 4, y};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_THAT(shape.static_dims(), ElementsAre(4));
  EXPECT_FALSE(Shape::is_static(shape));
  EXPECT_TRUE(Shape::is_static({2, 0}));
  EXPECT_FALSE(Shape::is_static({2, -1}));
  EXPECT_THAT(shape.parameters(), ElementsAre("batch", "y"));
  EXPECT_EQ((Shape{batch, 4}).repr(), "[Dim('batch'), Dim(4)]");
  EXPECT_EQ((Shape{batch, 4}).to_string(), "[batch, 4]");
  EXPECT_EQ(shape, (Shape{"batch", 4, "y"}));
  EXPECT_EQ((Shape{2, 3, x}).num_elements(), x * 6);
  EXPECT_EQ(Shape{}.num_elements(), Dim(1));
  EXPECT_EQ((Shape{0, std::int64_t{1} << 40, std::int64_t{1} << 40}).num_elements(), Dim(0));
}

}  // namespace
}  // namespace kiln::graph
