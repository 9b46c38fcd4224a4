#include "bindings.h"
#include "graph_values.h"
#include "kiln/graph/ops/random.h"
#include "kiln/support/error.h"

namespace kiln::python {
namespace {

namespace random = graph::ops::random;
using graph::TensorValue;

void def_normal(nb::module_& m, const char* name,
                TensorValue (*op)(const graph::TensorType&, const random::NormalOptions&,
                                  graph::Location)) {
  m.def(
      name,
      [op](const TensorTypeObject& like, ValueLike mean, ValueLike std) {
        return op(like.type.tensor(), {.mean = mean.get(), .std = std.get()},
                  graph::Location::current());
      },
      nb::arg("like"), nb::arg("mean") = 0, nb::arg("std") = 1,
      "Normally distributed numbers with the shape, dtype and device of `like`.");
}

}  // namespace

void bind_ops_random(nb::module_& ops) {
  nb::module_ m = ops.def_submodule(
      "random", "Random numbers, the same on every device, from the seed of the current graph.");
  m.def(
      "SeedType",
      [](DeviceLike device) { return TensorTypeObject{{random::SeedType(device.get())}}; },
      nb::arg("device"), "The type of a seed that is passed at each execution.");
  m.def(
      "set_seed", [](ValueLike seed) { random::set_seed(seed.get()); }, nb::arg("seed") = 0,
      R"(Sets the seed of the current graph: an int, or an integer tensor of one element.

Each random op uses the current seed s and leaves s + 1.)");
  m.def(
      "uniform",
      [](const TensorTypeObject& like, nb::sequence range) {
        if (nb::len(range) != 2)
          throw ValueError("random.uniform: range is a pair, the lower and the upper bound.");
        return random::uniform(like.type.tensor(), {.lower = to_value_like(range[0]),
                                                    .upper = to_value_like(range[1])});
      },
      nb::arg("like"), nb::arg("range") = nb::make_tuple(0, 1),
      "Numbers in the half-open range with the shape, dtype and device of `like`.");
  def_normal(m, "normal", &random::normal);
  def_normal(m, "gaussian", &random::gaussian);
}

}  // namespace kiln::python
