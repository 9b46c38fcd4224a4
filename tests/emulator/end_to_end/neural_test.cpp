#include <algorithm>

#include "values.h"

namespace kiln::emulator_test {
namespace {

class Neural : public testing::Test {
 protected:
  Neural() : module_((use_device(0), kernel_text("neural.ptx"))) {}
  Module module_;
};

TEST_F(Neural, Softmax) {
  for (const int columns : {1, 5, 32, 100, 1000}) {
    const int rows = 7;
    const auto in = random_values<float>(rows * columns, -20, 20);
    const Array<float> din(in), out(in.size());
    launch(module_.function("softmax"), {{rows}, {128}}, din, out, columns);
    synchronize();
    std::vector<double> expected(in.size());
    for (int r = 0; r < rows; ++r) {
      double sum = 0;
      for (int c = 0; c < columns; ++c) sum += std::exp(static_cast<double>(in[r * columns + c]));
      for (int c = 0; c < columns; ++c) {
        expected[r * columns + c] = std::exp(static_cast<double>(in[r * columns + c])) / sum;
      }
    }
    expect_near(expected, out.get(), 1e-5, 1e-30, std::to_string(columns));
  }
}

TEST_F(Neural, LayerNorm) {
  const int rows = 5, columns = 300;
  const auto in = random_values<float>(rows * columns, -3, 5, 1);
  const auto scale = random_values<float>(columns, -1, 1, 2);
  const auto shift = random_values<float>(columns, -1, 1, 3);
  const Array<float> din(in), dscale(scale), dshift(shift), out(in.size());
  launch(module_.function("layer_norm"), {{rows}, {96}}, din, dscale, dshift, out, columns, 1e-5f);
  synchronize();
  std::vector<double> expected(in.size());
  for (int r = 0; r < rows; ++r) {
    double sum = 0, squares = 0;
    for (int c = 0; c < columns; ++c) sum += in[r * columns + c];
    for (int c = 0; c < columns; ++c) squares += std::pow(in[r * columns + c] - sum / columns, 2);
    const double factor = 1 / std::sqrt(squares / columns + 1e-5);
    for (int c = 0; c < columns; ++c) {
      expected[r * columns + c] =
          (in[r * columns + c] - sum / columns) * factor * scale[c] + shift[c];
    }
  }
  expect_near(expected, out.get(), 1e-5, 1e-5);
}

TEST_F(Neural, Attention) {
  for (const int causal : {0, 1}) {
    const int length = 37;
    const auto q = random_values<float>(length * 64, -1, 1, 4);
    const auto k = random_values<float>(length * 64, -1, 1, 5);
    const auto v = random_values<float>(length * 64, -1, 1, 6);
    const Array<float> dq(q), dk(k), dv(v), out(q.size());
    launch(module_.function("attention"), {{blocks_for(length, 4)}, {128}}, dq, dk, dv, out, length,
           causal);
    synchronize();
    std::vector<double> expected(q.size());
    for (int i = 0; i < length; ++i) {
      const int last = causal ? i + 1 : length;
      std::vector<double> weights(last);
      double sum = 0;
      for (int j = 0; j < last; ++j) {
        double score = 0;
        for (int d = 0; d < 64; ++d) score += static_cast<double>(q[i * 64 + d]) * k[j * 64 + d];
        sum += weights[j] = std::exp(score / 8);
      }
      for (int j = 0; j < last; ++j) {
        for (int d = 0; d < 64; ++d) expected[i * 64 + d] += weights[j] / sum * v[j * 64 + d];
      }
    }
    expect_near(expected, out.get(), 1e-4, 1e-6);
  }
}

}  // namespace
}  // namespace kiln::emulator_test
