#pragma once

// Random tensors. What runs at once draws from one seed of the process, which every op advances; in
// a graph that is being built, they are the ops of kiln::graph::ops::random and draw from the
// graph's seed.

#include <cstdint>

#include "kiln/experimental/tensor.h"

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

}  // namespace kiln::experimental::random
