#include "kiln/experimental/random.h"

#include <atomic>
#include <variant>

#include "kiln/experimental/lift.h"
#include "kiln/graph/ops/random.h"
#include "kiln/graph/promotion.h"

namespace kiln::experimental::random {
namespace {

std::atomic<std::uint64_t> seed_of_process{0};

/// Numbers are parts of the program, as most have code of their own.
using Parameter = std::variant<Scalar, Tensor>;
Parameter parameter(const TensorLike& x, const driver::Device& device) {
  if (!x.tensor()) return x.number();
  return x.tensor()->is_distributed() ? x.tensor()->to(device) : *x.tensor();
}

/// An op of `graph::ops::random` with two parameters, which takes the seed of the process unless it
/// joins a graph of the user's.
template <typename Draw>
Tensor draw(const char* name, const graph::Shape& shape, const TensorLike& a, const TensorLike& b,
            const TensorOptions& options, const Draw& op) {
  const auto [dtype, device] = defaults(options);
  const bool in_graph = in_graph_context();
  const auto drawn = [&op, in_graph](const graph::TensorValueLike& seed,
                                     const graph::TensorValueLike& first,
                                     const graph::TensorValueLike& second, DType of,
                                     const graph::Shape& dims, graph::DeviceRef on) {
    // As a value, so that programs are found again whatever the seed is.
    if (!in_graph)
      graph::ops::random::set_seed(
          graph::promote_weak(seed, DType::uint64, graph::DeviceRef::CPU()));
    return op(graph::TensorType(of, dims, on), first, second);
  };
  const Scalar seed = in_graph ? Scalar(0) : Scalar(next_seed());
  Tensor made = std::visit(
      [&, of = dtype, on = graph::DeviceRef(device)](const auto& first, const auto& second) {
        return detail::lift(name, drawn, TensorLike(seed), first, second, of, shape, on);
      },
      parameter(a, device), parameter(b, device));
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

Tensor uniform(const graph::Shape& shape, const TensorLike& lower, const TensorLike& upper,
               const TensorOptions& options) {
  return draw("random.uniform", shape, lower, upper, options,
              [](const graph::TensorType& like, const graph::TensorValueLike& low,
                 const graph::TensorValueLike& high) {
                return graph::ops::random::uniform(like, {.lower = low, .upper = high});
              });
}

Tensor gaussian(const graph::Shape& shape, const TensorLike& mean, const TensorLike& std,
                const TensorOptions& options) {
  return draw("random.normal", shape, mean, std, options,
              [](const graph::TensorType& like, const graph::TensorValueLike& centre,
                 const graph::TensorValueLike& width) {
                return graph::ops::random::normal(like, {.mean = centre, .std = width});
              });
}

Tensor uniform_like(const TensorLayout& like, const TensorLike& lower, const TensorLike& upper) {
  return uniform(like.shape(), lower, upper, {.dtype = like.dtype(), .device = like.mapping()});
}

Tensor gaussian_like(const TensorLayout& like, const TensorLike& mean, const TensorLike& std) {
  return gaussian(like.shape(), mean, std, {.dtype = like.dtype(), .device = like.mapping()});
}

}  // namespace kiln::experimental::random
