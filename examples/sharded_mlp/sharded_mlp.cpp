// A multilayer perceptron over a mesh of devices, which one CPU stands for. The batch is split over
// the mesh axis "dp". The first weight is split by columns over "tp" and the second one by rows, so
// that each device computes its part of the hidden layer, and one all-reduce at the end adds the
// terms.

#include <cmath>
#include <cstdio>
#include <vector>

#include "kiln/experimental.h"

using namespace kiln;
namespace kx = kiln::experimental;

kx::Tensor wave(std::int64_t rows, std::int64_t columns, double step) {
  std::vector<float> data;
  for (std::int64_t i = 0; i < rows * columns; ++i)
    data.push_back(static_cast<float>(std::sin(step * static_cast<double>(i))));
  return kx::Tensor(driver::Buffer::copy_of(data, {rows, columns}));
}

int main() {
  const kx::DeviceMesh mesh(std::vector<driver::Device>(4, driver::CPU()), {2, 2}, {"dp", "tp"});
  const kx::NamedMapping rows(mesh, {{"dp"}});
  const kx::NamedMapping columns_of_up(mesh, {{}, {"tp"}});
  const kx::NamedMapping rows_of_down(mesh, {{"tp"}});

  const auto mlp = [](kx::Tensor x, kx::Tensor up, kx::Tensor down) {
    const kx::Tensor hidden = kx::functional::relu(kx::functional::matmul(x, up));
    const kx::Tensor terms = kx::functional::matmul(hidden, down);
    return terms.is_distributed() ? kx::functional::allreduce_sum(terms, "tp") : terms;
  };
  const auto run =
      kx::compile(mlp, {.name = "mlp"})(kx::TensorLayout(DType::float32, {"rows", 32}, rows),
                                        kx::TensorLayout(DType::float32, {32, 64}, columns_of_up),
                                        kx::TensorLayout(DType::float32, {64, 32}, rows_of_down));

  const kx::Tensor x = wave(6, 32, 0.7), up = wave(32, 64, 0.3), down = wave(64, 32, 0.11);
  const kx::Tensor result = run(x.to(rows), up.to(columns_of_up), down.to(rows_of_down));
  const kx::Tensor difference = result.materialize() - mlp(x, up, down);
  const double largest = kx::functional::abs(difference).max(std::nullopt).item<double>();
  std::printf("result: %s\n", result.to_string().c_str());
  std::printf("largest difference to one device: %s\n", largest < 1e-4 ? "none" : "too large");
}
