#pragma once

// Random tensors. What runs at once draws from one seed of the process, which every op advances; in
// a graph that is being built, they are the ops of kiln::graph::ops::random and draw from the
// graph's seed.

#include <cstdint>

#include "kiln/experimental/tensor.h"
#include "kiln/experimental/tensor_layout.h"

namespace kiln::experimental::random {

/// Sets the seed of the process, or that of the graph that is being built.
void set_seed(std::uint64_t seed);
/// The seed of the next op that runs at once, and the one after it for the next call.
std::uint64_t next_seed() noexcept;

/// Numbers in `[lower, upper)`; the bounds may be tensors of rank 0. On a mapping each device holds
/// its part of one tensor, so copies are equal. Errors of `graph::ops::random::uniform`.
Tensor uniform(const graph::Shape& shape, const TensorLike& lower = 0, const TensorLike& upper = 1,
               const TensorOptions& options = {});
/// Normally distributed numbers, whose parameters may be tensors of rank 0; `normal` is the same.
Tensor gaussian(const graph::Shape& shape, const TensorLike& mean = 0, const TensorLike& std = 1,
                const TensorOptions& options = {});
inline Tensor normal(const graph::Shape& shape, const TensorLike& mean = 0,
                     const TensorLike& std = 1, const TensorOptions& options = {}) {
  return gaussian(shape, mean, std, options);
}

/// The same with the shape, dtype and placement of a tensor, a layout or a type.
Tensor uniform_like(const TensorLayout& like, const TensorLike& lower = 0,
                    const TensorLike& upper = 1);
Tensor gaussian_like(const TensorLayout& like, const TensorLike& mean = 0,
                     const TensorLike& std = 1);
inline Tensor uniform_like(const Tensor& like, const TensorLike& lower = 0,
                           const TensorLike& upper = 1) {
  return uniform_like(like.layout(), lower, upper);
}
inline Tensor gaussian_like(const Tensor& like, const TensorLike& mean = 0,
                            const TensorLike& std = 1) {
  return gaussian_like(like.layout(), mean, std);
}
inline Tensor uniform_like(const graph::TensorType& like, const TensorLike& lower = 0,
                           const TensorLike& upper = 1) {
  return uniform_like(as_layout(like), lower, upper);
}
inline Tensor gaussian_like(const graph::TensorType& like, const TensorLike& mean = 0,
                            const TensorLike& std = 1) {
  return gaussian_like(as_layout(like), mean, std);
}
inline Tensor normal_like(const auto& like, const TensorLike& mean = 0, const TensorLike& std = 1) {
  return gaussian_like(like, mean, std);
}

}  // namespace kiln::experimental::random
