// Graphs through the whole compiler: built as IR, compiled, loaded and called through the ABI.

#include <gtest/gtest.h>

#include <cmath>

#include "kiln/graph/ir.h"
#include "kiln/runtime/compiler_interface.h"
#include "tests/compiler/run_program.h"

namespace kiln::compiler {
namespace {

namespace ir = graph::ir;
using graph::Dim;
using graph::OpKind;
using graph::Shape;
using graph::TensorType;

TEST(Program, AddsWithBroadcast) {
  GraphUnderTest g;
  ir::Value* x = g.input(DType::float32, {"n", 5});
  ir::Value* y = g.input(DType::float32, {5});
  g.output({g.op(OpKind::mul, {g.op(OpKind::add, {x, y}), x})});
  std::vector<float> a(35), b(5);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i) * 0.5f;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i) - 2;
  auto out = g.run<float>({7}, {a.data(), b.data()});
  ASSERT_EQ(out.size(), 35u);
  for (std::size_t i = 0; i < 35; ++i) EXPECT_EQ(out[i], (a[i] + b[i % 5]) * a[i]);
}

TEST(Program, SoftmaxOfRows) {
  for (int n : {1, 7, 33, 100}) {
    GraphUnderTest g;
    ir::Value* x = g.input(DType::float32, {"rows", n});
    g.output({g.op(OpKind::softmax, {x}, {{"axis", std::int64_t{1}}})});
    std::vector<float> a(static_cast<std::size_t>(3 * n));
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::sin(static_cast<float>(i)) * 5;
    auto out = g.run<float>({3}, {a.data()});
    for (int r = 0; r < 3; ++r) {
      double sum = 0;
      for (int i = 0; i < n; ++i) sum += std::exp(double{a[static_cast<std::size_t>(r * n + i)]});
      for (int i = 0; i < n; ++i) {
        auto k = static_cast<std::size_t>(r * n + i);
        EXPECT_NEAR(out[k], std::exp(double{a[k]}) / sum, 1e-6) << n;
      }
    }
  }
}

TEST(Program, MatmulWithEpilogue) {
  GraphUnderTest g;
  ir::Value* x = g.input(DType::float32, {"batch", "seq", 13});
  ir::Value* w = g.input(DType::float32, {13, 21});
  ir::Value* bias = g.input(DType::float32, {21});
  g.output({g.op(OpKind::relu, {g.op(OpKind::add, {g.op(OpKind::matmul, {x, w}), bias})})});
  const std::size_t m = 2 * 9, k = 13, n = 21;
  std::vector<float> a(m * k), c(k * n), b(n);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(std::sin(0.1 * double(i)));
  for (std::size_t i = 0; i < c.size(); ++i) c[i] = static_cast<float>(std::cos(0.3 * double(i)));
  for (std::size_t i = 0; i < n; ++i) b[i] = static_cast<float>(i) * 0.1f - 1;
  auto out = g.run<float>({2, 9}, {a.data(), c.data(), b.data()});
  ASSERT_EQ(out.size(), m * n);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      double sum = b[j];
      for (std::size_t l = 0; l < k; ++l) sum += double{a[i * k + l]} * c[l * n + j];
      EXPECT_NEAR(out[i * n + j], std::max(sum, 0.0), 1e-5);
    }
}

TEST(Program, LayerNorm) {
  GraphUnderTest g;
  ir::Value* x = g.input(DType::float32, {"rows", 50});
  ir::Value* gamma = g.input(DType::float32, {50});
  ir::Value* beta = g.input(DType::float32, {50});
  g.output(
      {g.op(OpKind::layer_norm, {g.op(OpKind::add, {x, x}), gamma, beta}, {{"epsilon", 1e-5}})});
  std::vector<float> a(200), s(50), t(50);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::sin(static_cast<float>(i * i % 37));
  for (std::size_t i = 0; i < 50; ++i)
    s[i] = 1 + static_cast<float>(i) * 0.01f, t[i] = static_cast<float>(i) * 0.1f;
  auto out = g.run<float>({4}, {a.data(), s.data(), t.data()});
  for (std::size_t r = 0; r < 4; ++r) {
    double mean = 0, var = 0;
    for (std::size_t i = 0; i < 50; ++i) mean += 2.0 * a[r * 50 + i] / 50;
    for (std::size_t i = 0; i < 50; ++i) var += std::pow(2.0 * a[r * 50 + i] - mean, 2) / 50;
    for (std::size_t i = 0; i < 50; ++i)
      EXPECT_NEAR(out[r * 50 + i],
                  (2.0 * a[r * 50 + i] - mean) / std::sqrt(var + 1e-5) * s[i] + t[i], 2e-5);
  }
}

TEST(Program, ReducesTheMiddleAxis) {
  GraphUnderTest g;
  ir::Value* x = g.input(DType::float32, {"b", "s", 6});
  g.output({g.op(OpKind::reduce_sum, {x}, {{"axis", std::int64_t{1}}})});
  std::vector<float> a(2 * 5 * 6);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 11);
  auto out = g.run<float>({2, 5}, {a.data()});
  for (std::size_t b = 0; b < 2; ++b)
    for (std::size_t c = 0; c < 6; ++c) {
      float sum = 0;
      for (std::size_t s = 0; s < 5; ++s) sum += a[(b * 5 + s) * 6 + c];
      EXPECT_EQ(out[b * 6 + c], sum);
    }
}

}  // namespace
}  // namespace kiln::compiler
