#pragma once

#include <cstdint>

#include "kiln/graph/value.h"

namespace kiln::graph::ops::random {

// Random numbers: Philox4x32 with 10 rounds (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011) with the seed as key and the element's number as counter, so they are the same
// on every device. Each op uses the current seed s of the graph and leaves s + 1. A seed that is
// set inside a region of control flow ends with it; a loop draws the same numbers in each
// iteration. A subgraph that sets none draws from the seed of the graph that calls it.

/// The type of a seed that is passed at each execution: uint64, one element.
TensorType SeedType(DeviceRef device);  // NOLINT: named like the types

/// Sets the seed of the current graph: a number in the range of uint64, a scalar or a tensor `[1]`,
/// cast to uint64. Another shape: ValueError.
void set_seed(const TensorValueLike& seed = 0);

/// Options of `uniform`.
struct UniformOptions {
  TensorValueLike lower = 0;
  TensorValueLike upper = 1;
};
/// Numbers in `[lower, upper)`, or `lower` when both are equal, with the type of `like`. The bounds
/// are scalars that promote to its dtype. `lower` above `upper`: ValueError, at run unless both are
/// numbers. No seed: RuntimeError.
TensorValue uniform(const TensorType& like, const UniformOptions& options = {},
                    Location location = Location::current());

/// Options of `normal`.
struct NormalOptions {
  TensorValueLike mean = 0;
  TensorValueLike std = 1;
};
/// Normally distributed numbers, worked out in float32, with the type of `like`; integers are
/// rounded, halves to even. `std` that is not positive: ValueError, at run unless it is a number.
/// No seed: RuntimeError.
TensorValue normal(const TensorType& like, const NormalOptions& options = {},
                   Location location = Location::current());
/// `normal`.
TensorValue gaussian(const TensorType& like, const NormalOptions& options = {},
                     Location location = Location::current());

namespace detail {
/// The current seed of the current graph, uint64 [1], which `draws` ops use.
TensorValue take_seed(DeviceRef device, std::uint64_t draws = 1);
}  // namespace detail

}  // namespace kiln::graph::ops::random
