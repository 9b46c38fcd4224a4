// The modes in which functions over tensors run, the defaults of new tensors, and random ones.

#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "driver_casters.h"
#include "experimental_call.h"
#include "graph_casters.h"
#include "graph_values.h"
#include "kiln/experimental/default_session.h"
#include "kiln/experimental/executor.h"
#include "kiln/experimental/functional.h"
#include "kiln/experimental/random.h"
#include "kiln/graph/promotion.h"
#include "kiln/support/error.h"

namespace kiln::python {
namespace {

using experimental::DefaultsGuard;
using experimental::Recording;
using experimental::Tensor;
using experimental::TensorOptions;

void bind_random(nb::module_& m) {
  using experimental::TensorLike;
  using Draw =
      Tensor (*)(const graph::Shape&, const TensorLike&, const TensorLike&, const TensorOptions&);
  const auto parameter = [](const std::variant<Tensor, Number>& given) {
    const auto* tensor = std::get_if<Tensor>(&given);
    return tensor ? TensorLike(*tensor) : TensorLike(to_scalar(std::get<Number>(given).object));
  };
  const auto def = [&](const char* name, Draw draw) {
    m.def(
        name,
        [draw, parameter](ShapeLike shape, const std::variant<Tensor, Number>& a,
                          const std::variant<Tensor, Number>& b, Any dtype, Any device) {
          const TensorOptions options = to_options(dtype, device);
          const graph::Shape dims = shape.get();
          const TensorLike first = parameter(a), second = parameter(b);
          return without_gil([&] { return draw(dims, first, second, options); });
        },
        nb::arg("shape"), nb::arg("a"), nb::arg("b"), nb::arg("dtype"), nb::arg("device"));
  };
  def("_uniform", &experimental::random::uniform);
  def("_gaussian", &experimental::random::gaussian);
  m.def(
      "_set_seed",
      [](Number seed) {
        const Scalar number = to_scalar(seed.object);
        if (!number.is_integer() || !graph::holds_integer(DType::uint64, number))
          throw ValueError("The seed must be an int in the range of uint64, got " +
                           repr_of(seed.object) + ".");
        experimental::random::set_seed(number.to<std::uint64_t>());
      },
      nb::arg("seed"));
}

/// Sets defaults for a block.
struct DefaultsBlock {
  TensorOptions options;
  std::vector<std::shared_ptr<DefaultsGuard>> guards;
};

/// Has functions over tensors wait in a block.
struct LazyBlock {
  std::vector<std::shared_ptr<experimental::LazyGuard>> guards;
};

/// One graph for a function's call.
struct FunctionBlock {
  std::shared_ptr<Recording> recording;
  std::shared_ptr<Recording::Scope> scope;
};

template <typename Block, typename Enter>
void def_block(nb::class_<Block>& cls, Enter enter) {
  cls.def("__enter__", [enter](Block& block) { block.guards.push_back(enter(block)); })
      .def("__exit__", [](Block& block, nb::args) { block.guards.pop_back(); });
}

void bind_blocks(nb::module_& m) {
  nb::class_<DefaultsBlock> defaults(m, "_Defaults");
  defaults.def("__init__", [](DefaultsBlock* self, Any dtype, Any device) {
    new (self) DefaultsBlock{to_options(dtype, device), {}};
  });
  def_block(defaults, [](const DefaultsBlock& block) {
    return std::make_shared<DefaultsGuard>(block.options);
  });
  nb::class_<LazyBlock> lazy(m, "_Lazy");
  lazy.def(nb::init<>());
  def_block(lazy, [](const LazyBlock&) { return std::make_shared<experimental::LazyGuard>(); });
  m.def(
      "defaults",
      [](Any dtype, Any device) {
        const auto [of, on] = experimental::defaults(to_options(dtype, device));
        return nb::make_tuple(of, on);
      },
      nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
      nb::sig("def defaults(dtype: kiln._core.dtype.DType | None = None, device: "
              "kiln._core.driver.Device | None = None) -> tuple[kiln._core.dtype.DType, "
              "kiln._core.driver.Device]"),
      "The dtype and device that new tensors get, with what is given in the place of its part.");
  m.def(
      "_default_executor",
      [] { return std::string(experimental::to_string(experimental::default_executor())); },
      "The name of the executor in force.");
  m.def(
      "_set_default_executor",
      [](const std::string& name) {
        experimental::set_default_executor(experimental::executor_from_string(name));
      },
      nb::arg("name"), "Changes it for the process.");
  m.def(
      "_has_graph", [] { return graph::Graph::has_current(); },
      "Whether what functions over tensors do is added to a graph at present.");
  m.def(
      "default_session",
      [] {
        ReleaseGil release;
        return experimental::default_session();
      },
      "The session of eager tensors and of callables that are given none.");
  m.def(
      "in_graph_context", [] { return experimental::in_graph_context(); },
      "Whether a graph is being built, whose values nobody has while it is.");
  nb::class_<FunctionBlock>(m, "_FunctionCall")
      .def("__init__",
           [](FunctionBlock* self, const std::string& name) {
             new (self) FunctionBlock{std::make_shared<Recording>(name, true), nullptr};
           })
      .def("__enter__",
           [](nb::handle_t<FunctionBlock> self) {
             FunctionBlock& block = *nb::inst_ptr<FunctionBlock>(self);
             block.scope = std::make_shared<Recording::Scope>(block.recording);
             return nb::borrow(self);
           })
      .def("__exit__", [](FunctionBlock& block, nb::args) { block.scope.reset(); })
      .def(
          "finish",
          [](FunctionBlock& block, const std::vector<Tensor>& results) {
            std::vector<experimental::detail::StatePtr> states;
            for (const Tensor& result : results)
              for (const auto& state : experimental::detail::parts_of(result.state()))
                if (state->real() || state->recording == block.recording) states.push_back(state);
            ReleaseGil release;
            block.recording->realize(states, true);
            // Control flow is recorded by itself.
            for (const Tensor& result : results)
              if (!result.real() && result.state()->recording) result.realize();
          },
          nb::arg("results"), "Runs what was recorded and makes the results real.");
}

void bind_executors(nb::module_& m) {
  static PyObject* unsupported = add_exception(m, "UnsupportedGraphError", PyExc_RuntimeError,
                                               "A graph that an executor cannot run.");
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const experimental::UnsupportedGraphError& error) {
      PyErr_SetString(unsupported, error.what());
    }
  });
}

}  // namespace

void bind_experimental_modes(nb::module_& m) {
  bind_executors(m);
  bind_blocks(m);
  bind_random(m);
}

}  // namespace kiln::python
