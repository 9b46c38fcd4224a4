#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kiln/graph.h"
#include "kiln/support/error.h"

namespace kiln::graph {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

const DeviceRef cpu = DeviceRef::CPU();
constexpr auto f32 = DType::float32;
constexpr auto i64 = DType::int64;

/// The class and text of what `f` throws.
template <typename F>
std::string failure(F&& f) {
  try {
    f();
    return "nothing";
  } catch (const IndexError& e) {
    return "IndexError: " + e.message();
  } catch (const ValueError& e) {
    return "ValueError: " + e.message();
  } catch (const TypeError& e) {
    return "TypeError: " + e.message();
  } catch (const NotImplementedError& e) {
    return "NotImplementedError: " + e.message();
  } catch (const Error& e) {
    return "Error: " + e.message();
  }
}

class Ops : public testing::Test {
 protected:
  Graph g{"g", {.input_types = {TensorType(f32, {"n", "m", "k"}, cpu)}}};
  Graph::Scope scope{g};
  TensorValue x = g.inputs()[0].tensor();

  TensorValue of(Shape shape, DType dtype = f32, DeviceRef device = cpu) {
    return ops::buffer_load(ops::buffer_create(BufferType(dtype, std::move(shape), device)));
  }
};

TEST_F(Ops, Constant) {
  EXPECT_EQ(ops::constant(1.5, f32, cpu).shape(), Shape{});
  EXPECT_EQ(ops::constant({1, 2, 3}, f32, cpu).shape(), (Shape{3}));
  EXPECT_EQ(ops::constant({{1, 2, 3}, {4, 5, 6}}, f32, cpu).shape(), (Shape{2, 3}));
  EXPECT_EQ(ops::constant(ops::Literal(std::vector<ops::Literal>{}), f32, cpu).shape(), (Shape{0}));
  EXPECT_EQ(failure([&] { ops::constant({{1, 2}, {3}}, f32, cpu); }),
            "ValueError: Array literals must be rectangular, got literal=[[1, 2], [3]]");
  EXPECT_THAT(failure([&] { ops::constant({{1}, 2}, f32, cpu); }), HasSubstr("rectangular"));
  EXPECT_THAT(failure([&] { ops::constant({1, {2}}, f32, cpu); }), HasSubstr("rectangular"));
  EXPECT_EQ(
      failure([&] { ops::constant(300, DType::int8, cpu); }),
      "ValueError: Unsafe cast: Refusing to implicitly promote external array with value 300 out "
      "of range for DType DType.int8.");
  EXPECT_THAT(failure([&] { ops::constant(std::nan(""), DType::int8, cpu); }), HasSubstr("nan"));
  EXPECT_EQ(
      failure([&] { ops::constant(1, DType::float4_e2m1fn, cpu); }),
      "TypeError: Cannot create a constant of type 'DType.float4_e2m1fn' since it is a sub-byte "
      "type.");
  // The integer part of a float; float32 rounds silently.
  g.output({ops::constant({1.9, -1.9}, DType::int8, cpu), ops::constant(16777217, f32, cpu)});
  EXPECT_THAT(g.to_string(), AllOf(HasSubstr("dense<[1, -1]>"), HasSubstr("dense<[16777216.0]>")));
}

TEST_F(Ops, ConstantFromArraysAndBuffers) {
  const std::int32_t values[] = {1, 2, 3, 4};
  Array array(DType::int32, {2, 2}, values, sizeof values);
  EXPECT_EQ(ops::constant(array).type(), TensorType(DType::int32, {2, 2}, cpu));
  EXPECT_EQ(failure([&] { ops::constant(array, {.dtype = f32}); }),
            "ValueError: DType must match input dtype: dtype=DType.float32 != "
            "value.dtype=DType.int32");
  EXPECT_EQ(ops::constant(std::span<const std::int32_t>(values), cpu).shape(), (Shape{4}));
  EXPECT_EQ(ops::constant(array, {.device = DeviceRef::GPU()}).device(), DeviceRef::GPU());
}

TEST_F(Ops, ShapeToTensor) {
  EXPECT_EQ(ops::shape_to_tensor({"n", 3}).type(), TensorType(i64, {2}, cpu));
}

TEST_F(Ops, RangeLengths) {
  // Independent of the formula: counts by walking.
  for (int start = -4; start <= 4; ++start)
    for (int stop = -4; stop <= 4; ++stop)
      for (int step : {-3, -1, 1, 2, 5}) {
        std::int64_t n = 0;
        for (int v = start; step > 0 ? v < stop : v > stop; v += step) ++n;
        EXPECT_EQ(ops::range(start, stop, step, i64, cpu).shape(), (Shape{n}))
            << start << ' ' << stop << ' ' << step;
        EXPECT_EQ(ops::range(double(start), double(stop), double(step), f32, cpu).shape(),
                  (Shape{n}));
      }
  EXPECT_EQ(ops::range(0, 1, 0.3, f32, cpu).shape(), (Shape{4}));
  EXPECT_EQ(ops::range(0, Dim("n"), 1, i64, cpu).shape(), (Shape{"n"}));
  EXPECT_EQ(ops::range(0, Dim("n"), 2, i64, cpu).shape(), (Shape{(Dim("n") + 1).floor_div(2)}));
}

TEST_F(Ops, RangeErrors) {
  TensorValue s = of({}, i64);
  EXPECT_EQ(failure([&] { ops::range(0, 5, 0, i64, cpu); }),
            "ValueError: range: step must be non-zero");
  EXPECT_EQ(failure([&] { ops::range(0, s, 1, i64, cpu); }),
            "ValueError: Dynamic ranges must provide an explicit out_dim");
  EXPECT_EQ(failure([&] { ops::range(0, of({2}, i64), 1, i64, cpu, {.out_dim = "r"}); }),
            "ValueError: range expected scalar values as inputs!");
  EXPECT_EQ(failure([&] { ops::range(0, of({}, i64, DeviceRef::GPU()), 1, i64, cpu); }),
            "ValueError: Range input values must be on CPU");
  EXPECT_EQ(failure([&] { ops::range(0, 5, 1, i64, cpu, {.out_dim = 4}); }),
            "ValueError: range: out_dim is 4 but the range has 5 elements");
  EXPECT_EQ(ops::range(0, s, 1, i64, cpu, {.out_dim = "r"}).shape(), (Shape{"r"}));
  EXPECT_EQ(ops::exp(ops::range(0, s, 1, f32, cpu, {.out_dim = "r2"})).shape(), (Shape{"r2"}));
}

TEST_F(Ops, MaxAndMinMeanTwoThings) {
  EXPECT_EQ(ops::max(x, 0).shape(), x.shape());
  EXPECT_EQ(ops::max(x).shape(), (Shape{"n", "m", 1}));
  EXPECT_EQ(ops::max(x, {.axis = 0}).shape(), (Shape{1, "m", "k"}));
  EXPECT_EQ(ops::min(x, x).shape(), x.shape());
  EXPECT_EQ(ops::sum(x, 1).shape(), (Shape{"n", 1, "k"}));
  EXPECT_EQ(ops::sum(x, {.axis = 1}).shape(), (Shape{"n", 1, "k"}));
}

TEST_F(Ops, DTypeErrors) {
  TensorValue b = of({2}, DType::bool_), i = of({2}, DType::int32);
  for (auto f : {ops::exp, ops::log, ops::cos, ops::sin, ops::sigmoid, ops::silu, ops::ceil,
                 ops::floor, ops::trunc, ops::round, ops::log1p, ops::sqrt, ops::rsqrt, ops::erf,
                 ops::tanh, ops::atanh, ops::acos})
    EXPECT_THAT(failure([&] { f(i); }), HasSubstr("does not support dtype DType.int32"));
  for (auto f : {ops::abs, ops::negate, ops::relu}) {
    EXPECT_THAT(failure([&] { f(b); }), HasSubstr("does not support dtype DType.bool"));
    EXPECT_EQ(f(i).dtype(), DType::int32);
  }
  for (auto f : {ops::add, ops::sub, ops::mul, ops::mod, ops::pow})
    EXPECT_THAT(failure([&] { f(b, b); }), HasSubstr("does not support dtype DType.bool"));
  for (auto f : {ops::logical_and, ops::logical_or, ops::logical_xor})
    EXPECT_THAT(failure([&] { f(i, i); }), HasSubstr("does not support dtype DType.int32"));
  EXPECT_THAT(failure([&] { ops::logical_not(i); }), HasSubstr("DType.int32"));
  EXPECT_EQ(ops::greater(b, b).dtype(), DType::bool_);
  EXPECT_EQ(ops::is_inf(i).dtype(), DType::bool_);
  EXPECT_THAT(failure([&] { ops::gelu(x, "fast"); }),
              HasSubstr("Invalid approximation method: fast"));
  EXPECT_EQ(ops::gelu(x, "tanh").shape(), x.shape());
  EXPECT_THAT(failure([&] { ops::where(i, i, i); }),
              HasSubstr("Expected condition to be a boolean tensor, but got a tensor with dtype "
                        "DType.int32"));
  EXPECT_THAT(failure([&] { ops::add(of({2}), of({2}, f32, DeviceRef::GPU())); }),
              HasSubstr("Input values must be on the same device\n    lhs: TensorType("));
}

TEST_F(Ops, Reshape) {
  EXPECT_EQ(x.reshape({-1, "k"}).shape(), (Shape{Dim("n") * "m", "k"}));
  EXPECT_EQ(of({2, 6}).reshape({3, -1}).shape(), (Shape{3, 4}));
  EXPECT_EQ(of({0, 6}).reshape({-1, 3}).shape(), (Shape{0, 3}));
  EXPECT_EQ(of({}).reshape({1, 1}).shape(), (Shape{1, 1}));
  EXPECT_EQ(failure([&] { x.reshape({-1, -1}); }),
            "ValueError: reshape(): at most one -1 dimension is allowed");
  EXPECT_EQ(failure([&] { of({0, 4}).reshape({-1, 0}); }),
            "ValueError: reshape(): cannot infer -1 dimension when another dimension is 0");
  EXPECT_THAT(
      failure([&] { x.reshape({"n", "m", 8}); }),
      AllOf(HasSubstr("[reshape] input and output number of elements must match"),
            HasSubstr("If you are confident this is correct, consider a rebind to assert that "
                      "the reshape is valid")));
  EXPECT_THAT(failure([&] { of({2}).reshape({3}); }), Not(HasSubstr("rebind")));
}

TEST_F(Ops, Flatten) {
  EXPECT_EQ(x.flatten().shape(), (Shape{Dim("n") * "m" * "k"}));
  EXPECT_EQ(x.flatten(1).shape(), (Shape{"n", Dim("m") * "k"}));
  EXPECT_EQ(x.flatten(-3, -2).shape(), (Shape{Dim("n") * "m", "k"}));
  EXPECT_EQ(of({}).flatten().shape(), (Shape{1}));
  EXPECT_EQ(failure([&] { x.flatten(3); }),
            "IndexError: start_dim must be be between -3 and 2 (inclusive), but was 3");
  EXPECT_EQ(failure([&] { x.flatten(0, -4); }),
            "IndexError: end_dim must be be between -3 and 2 (inclusive), but was -4");
  EXPECT_EQ(failure([&] { x.flatten(2, 1); }), "ValueError: start_dim cannot come after end_dim");
}

TEST_F(Ops, Rebind) {
  EXPECT_EQ(x.rebind({"p", Dim("q") * 2 + 1, 8}).shape(), (Shape{"p", Dim("q") * 2 + 1, 8}));
  EXPECT_EQ(x.rebind({4 * Dim("n").floor_div(4), "m", "k"}).shape()[0], 4 * Dim("n").floor_div(4));
  EXPECT_EQ(x.rebind({Dim("r") * "s", "r", "s"}).shape()[0], Dim("r") * "s");
  EXPECT_THAT(failure([&] { x.rebind({"n"}); }), HasSubstr("Wrong rank for rebind: "));
  EXPECT_THAT(failure([&] { of({2}).rebind({3}); }), StartsWith("ValueError: "));
  EXPECT_THAT(failure([&] { x.rebind({Dim("u") * "v", 1, 1}); }),
              HasSubstr("rebind cannot solve for the new symbol 'u'"));
  EXPECT_THAT(failure([&] { x.rebind({Dim("u").floor_div(2), 1, 1}); }), HasSubstr("'u'"));
  TensorValue filter = ops::rebind(of({3, 3, 4, 8}), {3, 3, 4, 8}, {.layout = FilterLayout::RSCF});
  EXPECT_EQ(filter.type().layout, FilterLayout::RSCF);
}

TEST_F(Ops, BroadcastTo) {
  EXPECT_EQ(of({3, 1}).broadcast_to({2, 3, "n"}).shape(), (Shape{2, 3, "n"}));
  EXPECT_THAT(
      failure([&] { of({3, 2}).broadcast_to({2, 3, 4}); }),
      HasSubstr("[broadcast_to] input dimension at index 1 (2) must be either 1 or equal to "
                "corresponding output dimension at index 2 (4)"));
  EXPECT_THAT(failure([&] { of({3, 2}).broadcast_to({2}); }), StartsWith("ValueError"));
  TensorValue shape = of({2}, i64);
  EXPECT_EQ(ops::broadcast_to(of({1, 2}), shape, Shape{"d", 2}).shape(), (Shape{"d", 2}));
  EXPECT_THAT(failure([&] { ops::broadcast_to(of({1, 2}), shape); }),
              HasSubstr("must pass out_dims with tensor value shape "));
}

TEST_F(Ops, SqueezeAndUnsqueeze) {
  EXPECT_EQ(ops::squeeze(of({1, 3}), 0).shape(), (Shape{3}));
  EXPECT_EQ(ops::squeeze(of({3, 1}), -1).shape(), (Shape{3}));
  EXPECT_THAT(failure([&] { ops::squeeze(of({3}), 0); }),
              HasSubstr("Squeeze dim must be 1, got axis=0, shape=[Dim(3)]"));
  EXPECT_THAT(failure([&] { ops::squeeze(of({3}), 1); }), StartsWith("IndexError"));
  EXPECT_EQ(ops::unsqueeze(x, -1).shape(), (Shape{"n", "m", "k", 1}));
  EXPECT_EQ(ops::unsqueeze(x, -4).shape(), (Shape{1, "n", "m", "k"}));
  EXPECT_EQ(failure([&] { ops::unsqueeze(x, 4); }),
            "ValueError: unsqueeze axis out of bounds: axis=4, rank=3");
}

TEST_F(Ops, TransposeAndPermute) {
  EXPECT_EQ(ops::transpose(x, 0, -1).shape(), (Shape{"k", "m", "n"}));
  EXPECT_EQ(failure([&] { ops::transpose(x, 3, 0); }),
            "IndexError: Axis axis_1 out of range (expected to be in range of [-3, 2], but got 3)");
  EXPECT_EQ(
      failure([&] { ops::transpose(x, 0, -4); }),
      "IndexError: Axis axis_2 out of range (expected to be in range of [-3, 2], but got -4)");
  TensorValue scalar = of({});
  EXPECT_TRUE(ops::transpose(scalar, 0, -1).is(scalar));
  EXPECT_THAT(failure([&] { ops::transpose(scalar, 1, 0); }), StartsWith("IndexError"));
  EXPECT_EQ(ops::permute(x, {-1, 0, 1}).shape(), (Shape{"k", "n", "m"}));
  EXPECT_THAT(failure([&] { ops::permute(x, {0, 1}); }),
              HasSubstr("The rank of the input (3) does not match the number of dims used for "
                        "ordering (2)"));
  EXPECT_EQ(
      failure([&] { ops::permute(x, {0, 1, 3}); }),
      "IndexError: All dimensions in the ordering must be be between -3 and 2 (inclusive), but "
      "was 3");
  EXPECT_THAT(failure([&] { ops::permute(x, {0, 1, -3}); }),
              HasSubstr("The ordering may not contain duplicate dimensions: "));
}

TEST_F(Ops, ConcatAndStack) {
  EXPECT_EQ(ops::concat({x, x}, -1).shape(), (Shape{"n", "m", Dim("k") * 2}));
  EXPECT_EQ(ops::concat({of({2, 0}), of({3, 0})}).shape(), (Shape{5, 0}));
  EXPECT_EQ(ops::concat({of({2}, DType::int8), of({2}, f32)}).dtype(), f32);
  EXPECT_EQ(failure([&] { ops::concat({}); }),
            "ValueError: Must provide at least one value to concat.");
  EXPECT_EQ(failure([&] { ops::concat({x}, 3); }), "IndexError: Axis out of range axis=3");
  EXPECT_THAT(failure([&] { ops::concat({of({2}), of({2, 2})}); }),
              HasSubstr("Concat inputs must all have the same rank. "));
  EXPECT_THAT(failure([&] { ops::concat({of({2, 2}), of({2, 3})}); }),
              HasSubstr("Concat inputs differ on non-concat axis 1: "));
  EXPECT_THAT(failure([&] { ops::concat({of({2}), of({2}, f32, DeviceRef::GPU())}); }),
              HasSubstr("Input values must be on the same device"));

  EXPECT_EQ(ops::stack({of({2}), of({2})}).shape(), (Shape{2, 2}));
  EXPECT_EQ(ops::stack({x, x, x}, -1).shape(), (Shape{"n", "m", "k", 3}));
  EXPECT_EQ(failure([&] { ops::stack({}); }), "ValueError: Expected at least one value to stack");
  EXPECT_EQ(failure([&] { ops::stack({of({}), of({2})}); }),
            "ValueError: All inputs to stack must be the same rank");
  EXPECT_EQ(failure([&] { ops::stack({of({2}), of({2}, i64)}); }),
            "ValueError: All inputs to stack must have the same dtype");
  EXPECT_EQ(failure([&] { ops::stack({of({2})}, 2); }),
            "IndexError: Axis out of range (expected to be in range of [-2, 1], but got 2)");
}

TEST_F(Ops, SplitAndChunk) {
  auto parts = ops::split(of({2, 6}), {1, 0, 5}, 1);
  ASSERT_THAT(parts, SizeIs(3));
  EXPECT_EQ(parts[0].shape(), (Shape{2, 1}));
  EXPECT_EQ(parts[1].shape(), (Shape{2, 0}));
  EXPECT_EQ(parts[2].shape(), (Shape{2, 5}));
  EXPECT_TRUE(ops::split(x, {}).empty());
  EXPECT_THAT(failure([&] { ops::split(of({6}), {"n", 3}); }), StartsWith("TypeError"));
  EXPECT_EQ(failure([&] { ops::split(of({6}), {-1, 7}); }),
            "ValueError: Split sizes must be positive: sizes=[-1, 7]");
  EXPECT_EQ(failure([&] { ops::split(of({6}), {1, 7}); }),
            "ValueError: Split sizes must sum to dimension value; x.shape[axis]=6 != sum(sizes=[1, "
            "7])");
  EXPECT_EQ(failure([&] { ops::split(of({6}), {6}, 1); }),
            "IndexError: Axis must be in range [-1, 1), got 1");

  EXPECT_THAT(ops::chunk(of({6, 2}), 3), SizeIs(3));
  EXPECT_EQ(ops::chunk(of({6, 2}), 3)[2].shape(), (Shape{2, 2}));
  EXPECT_EQ(failure([&] { ops::chunk(of({6}), 4); }),
            "ValueError: chunk: chunks=4 must statically divide x.shape[axis]=6");
  EXPECT_THAT(failure([&] { ops::chunk(x, 2); }), StartsWith("TypeError"));
  EXPECT_EQ(failure([&] { ops::chunk(of({}), 2); }),
            "ValueError: Cannot split scalar value into chunks=2");
  EXPECT_THAT(failure([&] { ops::chunk(x, 0); }), StartsWith("ValueError"));
}

TEST_F(Ops, Pad) {
  EXPECT_EQ(ops::pad(of({2, "n"}), {1, 2, 0, 3}).shape(), (Shape{5, Dim("n") + 3}));
  EXPECT_EQ(ops::pad(of({2}), {1, 1}, {.mode = "reflect"}).shape(), (Shape{4}));
  EXPECT_EQ(ops::pad(of({2}, DType::int8), {1, 1}, {.value = 7}).dtype(), DType::int8);
  EXPECT_THAT(failure([&] { ops::pad(of({2}), {1, -1}); }),
              HasSubstr("padding values must be non-negative but given [1, -1]"));
  EXPECT_THAT(failure([&] { ops::pad(of({2}), {1}); }), StartsWith("ValueError"));
  EXPECT_THAT(
      failure([&] { ops::pad(of({2}), {1, 1}, {.mode = "wrap"}); }),
      HasSubstr("unsupported padding mode 'wrap'; expected 'constant', 'reflect', or 'edge'"));
  EXPECT_THAT(failure([&] { ops::pad(of({0}), {1, 0}, {.mode = "edge"}); }),
              StartsWith("ValueError"));
  EXPECT_EQ(ops::pad(of({0}), {0, 0}, {.mode = "edge"}).shape(), (Shape{0}));
}

TEST_F(Ops, Tile) {
  EXPECT_EQ(ops::tile(of({2, "n"}), {3, 2}).shape(), (Shape{6, Dim("n") * 2}));
  EXPECT_THAT(failure([&] { ops::tile(of({2}), {1, 1}); }),
              HasSubstr("Input rank and number of elements in repeats must match: "));
  EXPECT_THAT(failure([&] { ops::tile(of({2}), {0}); }),
              HasSubstr("Repeats must all be positive: "));
}

TEST_F(Ops, Gather) {
  EXPECT_EQ(ops::gather(x, of({2, "n"}, i64), 1).shape(), (Shape{"n", 2, "n", "k"}));
  EXPECT_EQ(ops::gather(x, of({}, DType::int8), -1).shape(), (Shape{"n", "m"}));
  EXPECT_THAT(failure([&] { ops::gather(x, of({2}, i64), 3); }),
              StartsWith("IndexError: axis=3 out of range for input="));
  EXPECT_THAT(failure([&] { ops::gather(x, of({2}), 0); }),
              AllOf(StartsWith("ValueError"), HasSubstr("must be an integer type.")));
}

TEST_F(Ops, GatherNd) {
  EXPECT_EQ(ops::gather_nd(x, of({5, 2}, i64)).shape(), (Shape{5, "k"}));
  EXPECT_EQ(ops::gather_nd(x, of({5, 0}, i64)).shape(), (Shape{5, "n", "m", "k"}));
  EXPECT_EQ(ops::gather_nd(of({4, 3, 2}), of({4, 7, 1}, i64), 1).shape(), (Shape{4, 7, 2}));
  EXPECT_THAT(failure([&] { ops::gather_nd(x, of({5, "n"}, i64)); }),
              HasSubstr("index last dimension must be static: "));
  for (int b : {-1, 2, 5})
    EXPECT_THAT(failure([&] { ops::gather_nd(x, of({5, 1}, i64), b); }), StartsWith("ValueError"));
  EXPECT_THAT(failure([&] { ops::gather_nd(of({4, 3}), of({5, 1}, i64), 1); }),
              HasSubstr("batch axis 0 differs"));
  EXPECT_THAT(failure([&] { ops::gather_nd(x, of({5, 1})); }),
              HasSubstr("must be an integer type."));
}

TEST_F(Ops, Scatter) {
  EXPECT_EQ(ops::scatter(of({4, 3}), of({2, 3}), of({2, 3}, i64), 0).shape(), (Shape{4, 3}));
  EXPECT_EQ(failure([&] { ops::scatter(of({4}), of({2}), of({2}, i64), 1); }),
            "ValueError: Invalid axis value 1. Axis must be in range [-1, 0]");
  EXPECT_THAT(failure([&] { ops::scatter(of({4}), of({2}, i64), of({2}, i64)); }),
              HasSubstr("The input dtype 'DType.float32' and updates dtype 'DType.int64' must "
                        "match."));
  EXPECT_THAT(failure([&] { ops::scatter(of({4}), of({2}), of({2}, DType::int8)); }),
              HasSubstr("Invalid indices dtype: 'DType.int8'. Indices must be of type int32 or "
                        "int64."));
  EXPECT_THAT(failure([&] { ops::scatter(of({4}), of({3}), of({2}, i64)); }),
              StartsWith("ValueError"));
  EXPECT_THAT(failure([&] { ops::scatter(of({4, 2}), of({4, 3}), of({4, 3}, i64), 0); }),
              StartsWith("ValueError"));
}

TEST_F(Ops, Matmul) {
  EXPECT_EQ(ops::matmul(x, of({"k", 5})).shape(), (Shape{"n", "m", 5}));
  EXPECT_EQ(ops::matmul(of({3}), of({3})).shape(), Shape{});
  EXPECT_EQ(ops::matmul(of({3}), of({2, 3, 4})).shape(), (Shape{2, 4}));
  EXPECT_EQ(ops::matmul(of({2, 5, 3}), of({3})).shape(), (Shape{2, 5}));
  EXPECT_EQ(ops::matmul(of({2, 0}), of({0, 3})).shape(), (Shape{2, 3}));
  EXPECT_EQ(ops::matmul(of({2, 2}, DType::int8), of({2, 2}, f32)).dtype(), f32);
  EXPECT_THAT(failure([&] { ops::matmul(of({2, 3}), of({4, 5})); }),
              AllOf(HasSubstr("Dim(3)"), HasSubstr("Dim(4)")));
  EXPECT_THAT(failure([&] { ops::matmul(of({}), of({2})); }), StartsWith("ValueError"));
  EXPECT_THAT(failure([&] { ops::matmul(of({2, 2}, DType::bool_), of({2, 2}, DType::bool_)); }),
              StartsWith("ValueError"));
  EXPECT_EQ(ops::outer(of({3}), of({"n"})).shape(), (Shape{3, "n"}));
  EXPECT_EQ(failure([&] { ops::outer(of({3}), of({1, 3})); }),
            "ValueError: outer expected 1d-tensors as inputs");
}

TEST_F(Ops, SoftmaxAndNorms) {
  EXPECT_EQ(ops::softmax(x, 0).shape(), x.shape());
  EXPECT_THAT(
      failure([&] { ops::softmax(x, 3); }),
      AllOf(StartsWith("ValueError: Failed to create op 'softmax':\nInputs:\n    x = Tensor"),
            HasSubstr("\n    axis = 3\n"), EndsWith("Invalid axis=3 for input x.rank=3")));
  EXPECT_THAT(failure([&] { ops::logsoftmax(of({})); }),
              AllOf(StartsWith("ValueError: Failed to create op 'logsoftmax':"),
                    EndsWith("Invalid axis=-1 for input x.rank=0")));
  EXPECT_THAT(failure([&] { ops::logsoftmax(of({2}, i64)); }), HasSubstr("does not support"));
  TensorValue w = of({"k"});
  EXPECT_EQ(ops::layer_norm(x, w, w, 1e-5).shape(), x.shape());
  EXPECT_THAT(failure([&] { ops::layer_norm(x, of({3}), w, 1e-5); }),
              HasSubstr("Gamma size 3 does not match dimension of reduction k."));
  EXPECT_THAT(failure([&] { ops::layer_norm(x, w, of({3}), 1e-5); }),
              HasSubstr("Beta size 3 does not match dimension of reduction k."));
  for (double epsilon : {0.0, -1.0, std::nan("")})
    EXPECT_THAT(failure([&] { ops::layer_norm(x, w, w, epsilon); }),
                HasSubstr("epsilon must be positive"));
  EXPECT_EQ(ops::rms_norm(x, w, 1e-6, {.weight_offset = 1.0}).shape(), x.shape());
  EXPECT_THAT(failure([&] { ops::rms_norm(x, of({3}), 1e-6); }),
              HasSubstr("RMSNorm: Could not apply weight shape [Dim(3)] to input shape [Dim('n'), "
                        "Dim('m'), Dim('k')], weight shape must match the final input dimension."));
}

TEST_F(Ops, ReductionsAndSelection) {
  for (int axis : {-4, 3})
    EXPECT_THAT(failure([&] { ops::sum(x, axis); }),
                AllOf(StartsWith("ValueError: Failed to create op"),
                      EndsWith("Invalid axis=" + std::to_string(axis) + " for input x.rank=3")));
  EXPECT_THAT(failure([&] { ops::sum(of({2}, DType::bool_)); }), HasSubstr("DType.bool"));
  EXPECT_EQ(ops::max(of({2}, DType::bool_)).dtype(), DType::bool_);
  EXPECT_EQ(ops::sum(of({0, 2}), 0).shape(), (Shape{1, 2}));
  EXPECT_THAT(failure([&] { ops::max(of({0, 2}), {.axis = 0}); }), StartsWith("ValueError"));
  EXPECT_THAT(failure([&] { ops::argmin(of({0, 2}), 0); }), StartsWith("ValueError"));
  EXPECT_EQ(ops::mean(of({4}, DType::int8)).dtype(), DType::int8);
  EXPECT_EQ(ops::prod(x, 0).shape(), (Shape{1, "m", "k"}));
  auto [values, indices] = ops::top_k(x, 3);
  EXPECT_EQ(values.shape(), (Shape{"n", "m", 3}));
  EXPECT_EQ(indices.dtype(), i64);
  EXPECT_THAT(failure([&] { ops::top_k(x, 3, 3); }), HasSubstr("axis (3) out of bound "));
  EXPECT_THAT(failure([&] { ops::top_k(of({2}), 3); }),
              HasSubstr("k (3) cannot be larger than dimension size along axis 0"));
  EXPECT_THAT(failure([&] { ops::top_k(x, -1); }), StartsWith("ValueError"));
  EXPECT_EQ(ops::top_k(of({2}), 0).first.shape(), (Shape{0}));
}

TEST_F(Ops, ConstantExternal) {
  TensorValue w = ops::constant_external("name", TensorType(f32, {2}, cpu), {.align = 64});
  EXPECT_THAT(g.to_string(),
              HasSubstr("{name = \"name\", align = 64, device = cpu:0, placeholder = "
                        "false}"));
  EXPECT_THAT(
      failure([&] { ops::constant_external("a", TensorType(f32, {2}, cpu), {.align = 3}); }),
      HasSubstr("power of two"));
  Graph sub = g.add_subgraph("s");
  auto inside = sub.enter();
  ops::constant_external("name", TensorType(f32, {2}, cpu));
  EXPECT_THAT(sub.to_string(), HasSubstr("placeholder = true"));
}

TEST_F(Ops, PrintLabels) {
  EXPECT_THAT(failure([&] { ops::print(x, "a/b"); }), StartsWith("ValueError"));
  EXPECT_THAT(failure([&] { ops::print("text", "a\\b"); }), StartsWith("ValueError"));
  for (const char* label : {"", ".", ".."})
    EXPECT_THAT(failure([&] { ops::print(x, label); }), StartsWith("ValueError"));
  ops::print("text", "label");
  EXPECT_THAT(g.to_string(),
              HasSubstr("kiln.print(%0) {label = \"label\", text = \"text\"} : chain"));
}

TEST_F(Ops, RepeatInterleave) {
  EXPECT_EQ(ops::repeat_interleave(x, 3, 1).shape(), (Shape{"n", Dim("m") * 3, "k"}));
  EXPECT_EQ(ops::repeat_interleave(x, 2).shape(), (Shape{Dim("n") * "m" * "k" * 2}));
  EXPECT_EQ(ops::repeat_interleave(of({1, 2, 1, 2, 1, 2, 1, 2}), 2, 3).shape(),
            (Shape{1, 2, 1, 4, 1, 2, 1, 2}));
  EXPECT_EQ(ops::repeat_interleave(of({1, 2, 1, 2, 1, 2, 1, 2}), 2, 0).shape(),
            (Shape{2, 2, 1, 2, 1, 2, 1, 2}));
  EXPECT_THAT(failure([&] { ops::repeat_interleave(x, 0); }), StartsWith("ValueError"));
  EXPECT_EQ(failure([&] { ops::repeat_interleave(x, 2, 3); }),
            "ValueError: repeat_interleave: axis=3 out of bounds for x.rank=3");
  EXPECT_THAT(failure([&] { ops::repeat_interleave(of({2}, f32, DeviceRef::GPU()), 2); }),
              HasSubstr("repeat_interleave is not supported on GPU"));
}

TEST_F(Ops, BandPart) {
  EXPECT_EQ(ops::band_part(x, {.num_lower = 1}).shape(), x.shape());
  EXPECT_TRUE(ops::band_part(x).is(x));
  EXPECT_EQ(ops::band_part(of({3, 3}, DType::bool_), {.num_upper = 0, .exclude = true}).dtype(),
            DType::bool_);
  EXPECT_THAT(failure([&] { ops::band_part(of({3})); }),
              HasSubstr("must have at least 2 dimensions"));
  EXPECT_EQ(failure([&] { ops::band_part(x, {.num_lower = -2}); }),
            "ValueError: num_lower=-2 must be non-negative");
  EXPECT_EQ(failure([&] { ops::band_part(of({3, 4}), {.num_upper = 4}); }),
            "ValueError: num_upper=4 is out of bounds for dimension size 4");
}

TEST_F(Ops, HannWindow) {
  g.output({ops::hann_window(4, cpu), ops::hann_window(3, cpu, {.periodic = false}),
            ops::hann_window(1, cpu), ops::hann_window(0, cpu)});
  EXPECT_THAT(g.to_string(),
              AllOf(HasSubstr("dense<[0.0, 0.5, 1.0, 0.5]>"), HasSubstr("dense<[0.0, 1.0, 0.0]>"),
                    HasSubstr("dense<[1.0]>"), HasSubstr("dense<[]>")));
  EXPECT_EQ(failure([&] { ops::hann_window(-1, cpu); }),
            "ValueError: window_length must be non-negative");
}

TEST_F(Ops, Complex) {
  EXPECT_EQ(ops::as_interleaved_complex(of({"n", 6})).shape(), (Shape{"n", 3, 2}));
  EXPECT_EQ(failure([&] { ops::as_interleaved_complex(x); }),
            "TypeError: The last dimension must be static.");
  EXPECT_EQ(failure([&] { ops::as_interleaved_complex(of({3})); }),
            "ValueError: The last dimension must be divisible by 2.");
  EXPECT_EQ(ops::complex::mul(of({"n", 1, 2}), of({3, 2})).shape(), (Shape{"n", 3, 2}));
  EXPECT_THAT(failure([&] { ops::complex_mul(of({3}), of({3})); }),
              HasSubstr("Complex-valued tensors must be 2-dimensional vectors in their last "
                        "dimension. "));
}

TEST_F(Ops, GroupNorm) {
  TensorValue image = of({"n", 6, "m", "k"}, DType::bfloat16), w = of({6}, DType::bfloat16);
  EXPECT_EQ(ops::group_norm(image, w, w, 3, 1e-5).type(), image.type());
  EXPECT_EQ(ops::group_norm(of({2, 6}), of({6}), of({6}), 2, 1e-5).shape(), (Shape{2, 6}));
  EXPECT_THAT(failure([&] { ops::group_norm(of({6}), of({6}), of({6}), 2, 1e-5); }),
              HasSubstr("Expected input tensor with >=2 dimensions, got shape "));
  EXPECT_THAT(failure([&] { ops::group_norm(of({2, 6}), of({6}), of({6}), 4, 1e-5); }),
              StartsWith("ValueError"));
  EXPECT_THAT(failure([&] { ops::group_norm(of({2, 6}), of({5}), of({6}), 2, 1e-5); }),
              HasSubstr("gamma"));
}

class Placement : public testing::Test {
 protected:
  std::vector<std::string> warnings;
  void SetUp() override {
    set_warning_handler([this](std::string_view text) { warnings.emplace_back(text); });
  }
  void TearDown() override { set_warning_handler({}); }
};

TEST_F(Placement, CpuOnlyOpsFollowThePolicy) {
  const TensorType type(f32, {2}, DeviceRef::GPU());
  const std::string text =
      "`ops.tile` does not support GPU execution and will implicitly transfer the tensor to CPU. "
      "Call "
      "`ops.transfer_to(x, CPU())` explicitly, or construct the Graph with "
      "`strict_device_placement=DevicePlacementPolicy.Error` to make this an error.";
  for (auto policy :
       {DevicePlacementPolicy::Ignore, DevicePlacementPolicy::Warn, DevicePlacementPolicy::Error}) {
    Graph g("g", {.input_types = {type}, .strict_device_placement = policy});
    auto scope = g.enter();
    warnings.clear();
    auto tile = [&] { return ops::tile(g.inputs()[0], {2}); };
    if (policy == DevicePlacementPolicy::Error) {
      EXPECT_EQ(failure(tile), "ValueError: " + text);
      continue;
    }
    EXPECT_EQ(tile().device(), DeviceRef::GPU());
    EXPECT_EQ(warnings.size(), policy == DevicePlacementPolicy::Warn ? 1u : 0u);
    if (!warnings.empty()) EXPECT_EQ(warnings[0], text);
  }
}

TEST_F(Placement, TransferTo) {
  Graph g("g", {.input_types = {TensorType(f32, {2}, DeviceRef::GPU()),
                                TensorType(f32, {}, DeviceRef::GPU())}});
  auto scope = g.enter();
  TensorValue x = g.inputs()[0].tensor();
  EXPECT_TRUE(ops::transfer_to(x, DeviceRef::GPU()).is(x));
  EXPECT_EQ(ops::transfer_to(x, cpu).device(), cpu);
  EXPECT_TRUE(warnings.empty());
  ops::transfer_to(g.inputs()[1], cpu);
  EXPECT_THAT(warnings, SizeIs(1));
  // Between accelerators: both chains hold the copy's result.
  EXPECT_EQ(ops::transfer_to(x, DeviceRef::GPU(1)).device(), DeviceRef::GPU(1));
  EXPECT_TRUE(g.device_chain(DeviceRef::GPU(0)).is(g.device_chain(DeviceRef::GPU(1))));
  std::string text = g.to_string();
  EXPECT_EQ(Graph::parse(text).to_string(), text);
}

}  // namespace
}  // namespace kiln::graph
