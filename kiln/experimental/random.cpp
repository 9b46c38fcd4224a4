#include "kiln/experimental/random.h"

#include <atomic>

#include "kiln/experimental/lift.h"
#include "kiln/graph/ops/random.h"
#include "kiln/graph/promotion.h"

namespace kiln::experimental::random {
namespace {

std::atomic<std::uint64_t> seed_of_process{0};

/// An op of `graph::ops::random` with two numbers, which takes the seed of the process unless it
/// joins a graph of the user's.
template <typename Draw>
Tensor draw(const char* name, const graph::Shape& shape, const Scalar& a, const Scalar& b,
            const TensorOptions& options, const Draw& op) {
  const auto [dtype, device] = defaults(options);
  const bool in_graph = in_graph_context();
  const auto drawn = [&op, in_graph](const graph::TensorValueLike& seed, const Scalar& first,
                                     const Scalar& second, DType of, const graph::Shape& dims,
                                     graph::DeviceRef on) {
    // As a value, so that programs are found again whatever the seed is.
    if (!in_graph)
      graph::ops::random::set_seed(
          graph::promote_weak(seed, DType::uint64, graph::DeviceRef::CPU()));
    return op(graph::TensorType(of, dims, on), first, second);
  };
  const Scalar seed = in_graph ? Scalar(0) : Scalar(next_seed());
  Tensor made =
      detail::lift(name, drawn, TensorLike(seed), a, b, dtype, shape, graph::DeviceRef(device));
  if (!options.device || options.device->is_plain()) return made;
  return made.to(*options.device);
}

}  // namespace

void set_seed(std::uint64_t seed) {
  if (in_graph_context())
    graph::ops::random::set_seed(Scalar(seed));
  else
    seed_of_process = seed;
}

std::uint64_t next_seed() noexcept { return seed_of_process++; }

Tensor uniform(const graph::Shape& shape, const Scalar& lower, const Scalar& upper,
               const TensorOptions& options) {
  return draw("random.uniform", shape, lower, upper, options,
              [](const graph::TensorType& like, const Scalar& low, const Scalar& high) {
                return graph::ops::random::uniform(like, {.lower = low, .upper = high});
              });
}

Tensor gaussian(const graph::Shape& shape, const Scalar& mean, const Scalar& std,
                const TensorOptions& options) {
  return draw("random.normal", shape, mean, std, options,
              [](const graph::TensorType& like, const Scalar& centre, const Scalar& width) {
                return graph::ops::random::normal(like, {.mean = centre, .std = width});
              });
}

}  // namespace kiln::experimental::random
