// A small GPT-2: blocks as modules, recorded once and called for each layer. The parameters are
// random; the point is how a model is written and compiled for any batch and length.

#include <cmath>
#include <cstdio>
#include <vector>

#include "kiln/experimental.h"

using namespace kiln;
namespace kx = kiln::experimental;
namespace F = kiln::experimental::functional;

struct Linear : kx::Module {
  kx::Tensor weight, bias;
  KILN_MODULE(weight, bias);

  Linear(int size_in, int size_out)
      : weight(kx::random::normal({size_in, size_out}, 0, 0.02)),
        bias(kx::Tensor::zeros({size_out})) {}
  kx::Tensor forward(kx::Tensor x) { return F::matmul(x, weight) + bias; }
};

struct LayerNorm : kx::Module {
  kx::Tensor gamma, beta;
  KILN_MODULE(gamma, beta);

  explicit LayerNorm(int size) : gamma(kx::Tensor::ones({size})), beta(kx::Tensor::zeros({size})) {}
  kx::Tensor forward(kx::Tensor x) { return F::layer_norm(x, gamma, beta, 1e-5); }
};

// Attention to what came before, and two dense layers, each behind a norm and beside a shortcut.
struct Block : kx::Module {
  int size, heads;
  LayerNorm norm_1, norm_2;
  Linear qkv, out, up, down;
  KILN_MODULE(norm_1, norm_2, qkv, out, up, down);

  Block(int size, int heads)
      : size(size),
        heads(heads),
        norm_1(size),
        norm_2(size),
        qkv(size, 3 * size),
        out(size, size),
        up(size, 4 * size),
        down(4 * size, size) {}

  kx::Tensor attention(const kx::Tensor& x, const kx::Tensor& mask) {
    const graph::Dim batch = x.shape()[0], length = x.shape()[1];
    const int head = size / heads;
    std::vector<kx::Tensor> parts = F::split(qkv.forward(x), {size, size, size}, -1);
    for (kx::Tensor& part : parts)
      part = part.reshape({batch, length, heads, head}).permute({0, 2, 1, 3});
    const kx::Tensor scores = F::matmul(parts[0], parts[1].transpose(-2, -1)) / std::sqrt(head);
    const kx::Tensor mixed = F::matmul(F::softmax(scores + mask), parts[2]);
    return out.forward(mixed.permute({0, 2, 1, 3}).reshape({batch, length, size}));
  }

  kx::Tensor forward(kx::Tensor x, kx::Tensor mask) {
    x = x + attention(norm_1.forward(x), mask);
    return x + down.forward(F::gelu(up.forward(norm_2.forward(x)), "tanh"));
  }
};

struct GPT2 : kx::Module {
  std::vector<Block> blocks;
  LayerNorm norm;
  KILN_MODULE(blocks, norm);

  GPT2(int layers, int size, int heads) : norm(size) {
    for (int i = 0; i < layers; ++i) blocks.emplace_back(size, heads);
  }
  kx::Tensor forward(kx::Tensor x, kx::Tensor mask) {
    for (Block& block : blocks) x = kx::as_subgraph(block)(x, mask);
    return norm.forward(x);
  }
};

// 0 where a position sees another one, and a number that softmax turns to 0 elsewhere.
kx::Tensor causal_mask(std::int64_t length) {
  std::vector<float> mask;
  for (std::int64_t i = 0; i < length; ++i)
    for (std::int64_t j = 0; j < length; ++j) mask.push_back(j > i ? -1e9F : 0);
  return kx::Tensor(driver::Buffer::copy_of(mask, {length, length}));
}

int main() {
  const int size = 64;
  GPT2 model(4, size, 4);
  const driver::Device cpu = driver::CPU();
  const auto run =
      kx::compile(model)(kx::TensorLayout(DType::float32, {"batch", "length", size}, cpu),
                         kx::TensorLayout(DType::float32, {"length", "length"}, cpu));
  for (const auto& [batch, length] : {std::pair(1, 8), std::pair(2, 5)}) {
    const kx::Tensor x = kx::random::normal({batch, length, size});
    const kx::Tensor y = run(x, causal_mask(length));
    const kx::Tensor difference = F::abs(y - model.forward(x, causal_mask(length)));
    const double largest = difference.max(std::nullopt).item<double>();
    std::printf("%d x %d: %s, compiled and eager differ by %s\n", batch, length,
                y.shape().to_string().c_str(), largest < 1e-4 ? "next to nothing" : "too much");
  }
}
