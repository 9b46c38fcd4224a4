// Linear regression: one compiled step of gradient descent, called in a loop. The weights are a
// buffer that each step updates in place.

#include <cmath>
#include <cstdio>
#include <vector>

#include "kiln/experimental.h"

using namespace kiln;
namespace kx = kiln::experimental;

int main() {
  // Moves the weights against the gradient of the mean squared error, which it returns.
  const auto step = [](kx::Tensor weights, kx::Tensor x, kx::Tensor y, float rate) {
    const kx::Tensor error = kx::functional::matmul(x, weights) - y;
    const kx::Tensor gradient = (x * error.unsqueeze(1)).mean(0).reshape({3}) * 2;
    weights[{graph::ellipsis}] = weights - gradient * rate;
    return (error * error).mean(std::nullopt);
  };
  const driver::Device cpu = driver::CPU();
  const auto run =
      kx::compile(step, {.name = "step"})(kx::BufferLayout(DType::float32, {3}, cpu),
                                          kx::TensorLayout(DType::float32, {"samples", 3}, cpu),
                                          kx::TensorLayout(DType::float32, {"samples"}, cpu), 0.1F);

  constexpr int kSamples = 256;
  std::vector<float> x, y;
  for (int i = 0; i < kSamples; ++i) {
    const float a = std::sin(1.0F * i), b = std::sin(2.3F * i), c = std::cos(0.7F * i);
    x.insert(x.end(), {a, b, c});
    y.push_back(2 * a - b + 0.5F * c);
  }
  const kx::Tensor samples(driver::Buffer::copy_of(x, {kSamples, 3}));
  const kx::Tensor values(driver::Buffer::copy_of(y, {kSamples}));
  const kx::Tensor weights = kx::Tensor::zeros({3});
  for (int i = 0; i <= 100; ++i) {
    const kx::Tensor loss = run(weights, samples, values, 0.1F);
    if (i % 20 == 0) std::printf("step %3d: mean squared error %.6f\n", i, loss.item<double>());
  }
  std::printf("weights %s\n", weights.to_string().c_str());
}
