#include "kiln/graph/graph.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "graph_values.h"
#include "kiln/graph/location.h"
#include "kiln/graph/weight.h"
#include "kiln/support/error.h"

namespace kiln::python {
namespace {

using graph::DevicePlacementPolicy;
using graph::Graph;
using graph::Module;
using graph::Value;

// Scopes of `with graph:` on this thread; `with` blocks close in the order they opened.
std::vector<std::unique_ptr<Graph::Scope>>& open_scopes() {
  thread_local std::vector<std::unique_ptr<Graph::Scope>> scopes;
  return scopes;
}

std::vector<std::string> to_paths(nb::handle object) {
  if (PyUnicode_Check(object.ptr()) || nb::hasattr(object, "__fspath__")) return {path_of(object)};
  std::vector<std::string> paths;
  for (nb::handle item : nb::iter(object)) paths.push_back(path_of(item));
  return paths;
}

nb::tuple inputs_of(const Graph& graph) { return nb::tuple(make_values(graph.inputs())); }

void fill(const Graph& graph, nb::handle forward, nb::handle args, nb::handle kwargs) {
  const Graph::Scope scope(graph);
  nb::list arguments = make_values(graph.inputs());
  for (nb::handle extra : nb::iter(args)) arguments.append(extra);
  nb::object result =
      nb::steal(PyObject_Call(forward.ptr(), nb::tuple(arguments).ptr(), kwargs.ptr()));
  if (!result.is_valid()) throw nb::python_error();
  graph.output_values(to_results(result));
}

/// `graph.debug`: one switch for all graphs.
struct GraphDebug {};

/// `graph.device_chains[device]`.
struct DeviceChains {
  Graph graph;
};

void bind_module(nb::module_& m) {
  nb::class_<Module>(m, "Module", nb::is_weak_referenceable(),
                     "Several graphs that are compiled together.")
      .def(nb::init<>())
      .def("top_level_graph_names", &Module::top_level_graph_names,
           "The graphs that are no subgraphs, in the order they were added.")
      .def("__eq__",
           [](const Module& a, Any b) -> nb::object {
             if (!nb::isinstance<Module>(b)) return nb::borrow(Py_NotImplemented);
             return nb::bool_(a == *nb::inst_ptr<Module>(b));
           })
      .def("__hash__",
           [](const Module& m) {
             return static_cast<Py_ssize_t>(std::hash<const void*>()(m.state().get()) >> 4);
           })
      .def("__str__", &Module::to_string)
      .def("__repr__", &Module::to_string);
}

void def_construction(nb::class_<Graph>& cls) {
  cls.def(
         "__init__",
         [](Graph* self, std::string name, Any forward, Any input_types, Any path, nb::args args,
            Any custom_extensions, std::optional<Module> module,
            DevicePlacementPolicy strict_device_placement, bool is_device_graph,
            nb::kwargs kwargs) {
           if (!path.is_none()) {
             new (self) Graph(Graph::load(path_of(path)));
             return;
           }
           Graph graph(std::move(name), {.input_types = to_types(input_types),
                                         .custom_extensions = to_paths(custom_extensions),
                                         .module = std::move(module),
                                         .strict_device_placement = strict_device_placement,
                                         .is_device_graph = is_device_graph});
           if (!forward.is_none()) fill(graph, forward, args, kwargs);
           new (self) Graph(std::move(graph));
         },
         nb::arg("name"), nb::arg("forward") = nb::none(), nb::arg("input_types") = nb::tuple(),
         nb::arg("path") = nb::none(), nb::arg("args"), nb::arg("custom_extensions") = nb::tuple(),
         nb::arg("module") = nb::none(),
         nb::arg("strict_device_placement") = DevicePlacementPolicy::Warn,
         nb::arg("is_device_graph") = false, nb::arg("kwargs"))
      .def(
          "__enter__",
          [](nb::handle_t<Graph> self) {
            open_scopes().push_back(std::make_unique<Graph::Scope>(*nb::inst_ptr<Graph>(self)));
            return nb::borrow(self);
          },
          nb::sig("def __enter__(self) -> Graph"))
      .def("__exit__",
           [](const Graph&, nb::args) {
             if (!open_scopes().empty()) open_scopes().pop_back();
           })
      .def(
          "add_subgraph",
          [](const Graph& g, std::string name, Any forward, Any input_types, Any path,
             Any custom_extensions, Any devices) {
            if (!path.is_none())
              throw NotImplementedError("Subgraphs cannot be read from a file of their own.");
            graph::SubgraphOptions options{.input_types = to_types(input_types),
                                           .custom_extensions = to_paths(custom_extensions)};
            for (nb::handle device : nb::iter(devices))
              options.devices.push_back(to_device_ref(device));
            Graph subgraph = g.add_subgraph(std::move(name), std::move(options));
            if (!forward.is_none()) fill(subgraph, forward, nb::tuple(), nb::dict());
            return subgraph;
          },
          nb::arg("name"), nb::arg("forward") = nb::none(), nb::arg("input_types") = nb::tuple(),
          nb::arg("path") = nb::none(), nb::arg("custom_extensions") = nb::tuple(),
          nb::arg("devices") = nb::tuple(),
          "Builds a named callee in the same module; see ops.call.");
}

void def_members(nb::class_<Graph>& cls) {
  cls.def_prop_ro("name", &Graph::name, "The name it was given.")
      .def_prop_ro("module", &Graph::module, "The module that owns it.")
      .def_prop_ro("inputs", &inputs_of, "Its inputs, in the order of the input types.")
      .def(
          "output",
          [](const Graph& g, nb::args values) {
            for (nb::handle value : values)
              if (PyList_CheckExact(value.ptr()) || PyTuple_CheckExact(value.ptr()))
                throw TypeError(
                    "Graph.output takes each value as an argument of its own: write "
                    "output(*values) for a " +
                    std::string(PyList_CheckExact(value.ptr()) ? "list" : "tuple") + " of them.");
            g.output_values(to_values(values));
          },
          nb::arg("values"), "Sets the results and verifies the graph.")
      .def_prop_ro(
          "output_types",
          [](const Graph& g) {
            nb::list types;
            for (const graph::Type& type : g.output_types()) types.append(make_type(type));
            return types;
          },
          "Types of the results; TypeError before `output`.")
      .def(
          "add_weight",
          [](const Graph& g, const graph::Weight& weight, bool on_host) {
            return make_value(g.add_weight(weight, {.force_initial_weight_on_host = on_host}));
          },
          nb::arg("weight"), nb::arg("force_initial_weight_on_host") = true,
          "The value of a weight in this graph.")
      .def("copy", &Graph::copy, "A deep copy in a module of its own.")
      .def("__copy__", &Graph::copy)
      .def("__deepcopy__", [](const Graph& g, nb::handle) { return g.copy(); })
      .def("__str__", &Graph::to_string)
      .def("__repr__", &Graph::to_string)
      .def(
          "to_text",
          [](const Graph& g, bool source_locations, std::optional<std::int64_t> elide) {
            return g.to_text(
                {.source_locations = source_locations, .elide_constants_above = elide});
          },
          nb::arg("source_locations") = false, nb::arg("elide_constants_above") = nb::none(),
          "The IR text.")
      .def_prop_ro(
          "device_chains", [](const Graph& g) { return DeviceChains{g}; },
          "The last side effect of each device.")
      .def_prop_ro(
          "always_ready_chain", [](const Graph& g) { return make_value(g.always_ready_chain()); },
          "A chain every graph starts with.")
      .def_prop_ro("kernel_libraries_paths", &Graph::kernel_libraries_paths,
                   "Paths of the extra kernel libraries in use.")
      .def_prop_ro("strict_device_placement", &Graph::strict_device_placement,
                   "What ops of the CPU do with inputs elsewhere.")
      .def_prop_ro("is_subgraph", &Graph::is_subgraph, "Whether it is a callee.")
      .def("__eq__",
           [](const Graph& a, Any b) -> nb::object {
             if (!nb::isinstance<Graph>(b)) return nb::borrow(Py_NotImplemented);
             return nb::bool_(a == *nb::inst_ptr<Graph>(b));
           })
      .def("__hash__", [](const Graph& g) {
        return static_cast<Py_ssize_t>(std::hash<const void*>()(g.state().get()) >> 4);
      });
  cls.def_prop_ro_static(
      "current", [](nb::handle) { return Graph::current(); },
      "The innermost active graph; LookupError when there is none.");
  cls.attr("debug") = nb::cast(GraphDebug());
}

}  // namespace

void bind_graph_graph(nb::module_& m) {
  nb::enum_<DevicePlacementPolicy>(m, "DevicePlacementPolicy",
                                   "What ops that run on the CPU only do with inputs elsewhere.")
      .value("Ignore", DevicePlacementPolicy::Ignore, "Move them silently.")
      .value("Warn", DevicePlacementPolicy::Warn, "Move them with a UserWarning.")
      .value("Error", DevicePlacementPolicy::Error, "Raise ValueError.");
  bind_module(m);
  nb::class_<GraphDebug>(m, "_GraphDebug", "Debug switches of all graphs.")
      .def_prop_rw(
          "source_tracebacks", [](const GraphDebug&) { return graph::source_tracebacks(); },
          [](GraphDebug&, bool on) { graph::set_source_tracebacks(on); },
          "Whether every op records the full call stack.");
  nb::class_<DeviceChains>(m, "_DeviceChains", "Chains of a graph by device.")
      .def("__getitem__", [](const DeviceChains& chains, DeviceLike device) {
        return make_value(chains.graph.device_chain(device.get()));
      });
  nb::class_<Graph> cls(m, "Graph", nb::is_weak_referenceable(), R"(
A computation that is described before any data exists.

>>> from kiln.driver import CPU
>>> from kiln.dtype import DType
>>> from kiln.graph import Graph, TensorType
>>> graph = Graph("double", lambda x: x * 2, [TensorType(DType.float32, ["n"], CPU())])
>>> graph.output_types
[TensorType(dtype=float32, shape=[Dim('n')], device=cpu:0)])");
  def_construction(cls);
  def_members(cls);
}

}  // namespace kiln::python
