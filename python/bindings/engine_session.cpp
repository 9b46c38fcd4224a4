#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <variant>

#include "bindings.h"
#include "engine_casters.h"
#include "kiln/engine/inference_session.h"
#include "kiln/graph/graph.h"
#include "kiln/graph/module.h"
#include "kiln/support/error.h"
#include "kiln/support/interrupt.h"
#include "kiln/weights/safetensors.h"

namespace kiln::python {
namespace {

using driver::Buffer;
using engine::CompiledModel;
using engine::CompileSettings;
using engine::InferenceSession;
using engine::PrintStyle;
using engine::WeightsRegistry;
using kiln::LogLevel;

/// What `compile` and `load` take. A graph is copied out, so that other threads may go on building.
using Source = std::variant<std::unique_ptr<graph::ir::Module>, CompiledModel, std::string>;

Source to_source(nb::handle object) {
  if (nb::isinstance<graph::Graph>(object)) return nb::inst_ptr<graph::Graph>(object)->extract();
  if (nb::isinstance<graph::Module>(object))
    return graph::ir::clone(nb::inst_ptr<graph::Module>(object)->ir());
  if (nb::isinstance<CompiledModel>(object)) return *nb::inst_ptr<CompiledModel>(object);
  if (auto path = to_path(object)) return *path;
  throw RuntimeError("The model is not a valid path or module.");
}

/// Ctrl-C ends a wait or a program that loops, and other Python threads get their turn when it was
/// called with the GIL.
void serve_python() {
  if (Py_IsInitialized() == 0) return;  // a wait at the end of the process
  const bool had_gil = PyGILState_Check() != 0;
  if (::getpid() == ::gettid()) {  // signals are the main thread's
    nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
  if (had_gil) {
    ReleaseGil others;
  }
}

/// Calls `work(what, settings)` without the GIL; Ctrl-C in between ends it with KeyboardInterrupt.
template <typename Work>
auto compiling(Any model, bool tile_based_fusion, Work work) {
  const Source source = to_source(model);
  std::optional<nb::python_error> interrupt;
  CompileSettings settings{.tile_based_fusion = tile_based_fusion};
  settings.progress = [&interrupt](const runtime::CompileProgress&) {
    nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() == 0) return true;
    interrupt.emplace();
    return false;
  };
  try {
    ReleaseGil release;
    return std::visit(
        [&](const auto& what) {
          if constexpr (std::is_same_v<std::decay_t<decltype(what)>,
                                       std::unique_ptr<graph::ir::Module>>)
            return work(*what, settings);
          else
            return work(what, settings);
        },
        source);
  } catch (const RuntimeError&) {
    if (interrupt) throw nb::python_error(std::move(*interrupt));
    throw;
  }
}

nb::dict make_models(const std::vector<std::pair<std::string, engine::Model>>& models) {
  nb::dict dict;
  for (const auto& [name, model] : models) dict[nb::str(name.c_str())] = make_model(model);
  return dict;
}

Buffer to_weight(const std::string& name, nb::handle object) {
  if (is_buffer(object)) return buffer_of(object);
  const auto refuse = [&]() {
    throw ValueError("Weight '" + name +
                     "' is not contiguous: kiln does not currently support executing "
                     "non-contiguous tensors. Before passing these tensors, make a contiguous copy "
                     "of them using .contiguous().");
  };
  if (is_ndarray(object)) {
    const NDArray facts = [&] {
      try {
        return read_ndarray(object);
      } catch (const ValueError& error) {
        throw ValueError("Weight '" + name + "': " + error.message());
      }
    }();
    if (!facts.contiguous) refuse();
    return alias_ndarray(object, facts);  // weights are only read, so a read-only array serves
  }
  if (!is_dlpack_producer(object))
    throw TypeError("Weight '" + name + "' must be a buffer or an array, not " + type_text(object) +
                    ".");
  try {
    return buffer_from_dlpack(object, std::nullopt);
  } catch (const ValueError&) {
    refuse();
    throw;
  }
}

void set_debug_print_options(const InferenceSession& session, Any style, Any precision,
                             Any directory) {
  PrintStyle chosen = PrintStyle::COMPACT;
  if (nb::isinstance<PrintStyle>(style))
    chosen = nb::cast<PrintStyle>(style);
  else
    chosen = engine::print_style_from_string(
        PyUnicode_Check(style.ptr()) ? nb::cast<std::string>(style) : repr_of(style));
  const bool is_int = PyLong_Check(precision.ptr()) && !PyBool_Check(precision.ptr());
  if (chosen == PrintStyle::FULL && !is_int)
    throw TypeError("Debug print precision must be an int.");
  std::string folder;
  if (!directory.is_none()) {
    auto path = to_path(directory);
    if (!path) throw TypeError("Debug print output directory must be a str or Path.");
    folder = *path;
  }
  session.set_debug_print_options(chosen, is_int ? nb::cast<int>(precision) : 6, folder);
}

/// An enum's value, or what its name stands for.
template <typename T>
T choice(nb::handle object, T (*from_name)(std::string_view)) {
  if (nb::isinstance<T>(object)) return nb::cast<T>(object);
  return from_name(PyUnicode_Check(object.ptr()) ? nb::cast<std::string>(object) : repr_of(object));
}

/// Kernels in files of their own are compiled by a part that this kiln lacks.
void refuse_extensions(nb::handle extensions) {
  if (extensions.is_none() || (PySequence_Check(extensions.ptr()) && nb::len(extensions) == 0))
    return;
  throw NotImplementedError(
      "custom_extensions: this kiln cannot compile kernel libraries; build the graph of kiln's own "
      "ops.");
}

void def_settings(nb::class_<InferenceSession>& cls) {
  cls.def("set_debug_print_options", &set_debug_print_options, nb::arg("style") = "COMPACT",
          nb::arg("precision") = 6, nb::arg("output_directory") = nb::none(),
          "How `print` ops of the models made here show tensors.")
      .def(
          "set_kernel_log_level",
          [](const InferenceSession& s, Any level) {
            s.set_kernel_log_level(choice(level, engine::kernel_log_level_from_string));
          },
          nb::arg("level"), "Which lines kernels of user libraries log; kiln's own ops log none.")
      .def(
          "set_kernel_assert_level",
          [](const InferenceSession& s, Any level) {
            s.set_kernel_assert_level(choice(level, engine::assert_level_from_string));
          },
          nb::arg("level"),
          "Which checks are compiled into kernels of user libraries; those of kiln's own ops are "
          "in "
          "at every level.")
      .def(
          "set_split_k_reduction_precision",
          [](const InferenceSession& s, Any precision) {
            s.set_split_k_reduction_precision(
                choice(precision, engine::split_k_reduction_precision_from_string));
          },
          nb::arg("precision"),
          "How accelerators keep partial sums; kernels of the CPU do not split K.")
      .def(
          "gpu_profiling",
          [](const InferenceSession& s, Any mode) {
            s.gpu_profiling(choice(mode, engine::gpu_profiling_mode_from_string));
          },
          nb::arg("mode"), "Markers for an accelerator's profiler: 'off', 'on' or 'detailed'.");
}

void bind_choices(nb::module_& m) {
  nb::enum_<LogLevel>(m, "LogLevel", "How much a line that a kernel logs matters.")
      .value("NOTSET", LogLevel::NOTSET)
      .value("TRACE", LogLevel::TRACE)
      .value("DEBUG", LogLevel::DEBUG)
      .value("INFO", LogLevel::INFO)
      .value("WARNING", LogLevel::WARNING)
      .value("ERROR", LogLevel::ERROR)
      .value("CRITICAL", LogLevel::CRITICAL);
  using engine::AssertLevel;
  nb::enum_<AssertLevel>(m, "AssertLevel", "Run-time checks in kernels of user libraries.")
      .value("NONE", AssertLevel::NONE)
      .value("WARN", AssertLevel::WARN)
      .value("SAFE", AssertLevel::SAFE)
      .value("ALL", AssertLevel::ALL);
  using Precision = engine::SplitKReductionPrecision;
  nb::enum_<Precision>(m, "SplitKReductionPrecision", "How accelerators keep partial sums.")
      .value("ACCUM", Precision::ACCUM)
      .value("OUTPUT", Precision::OUTPUT);
}

void def_compile(nb::class_<InferenceSession>& cls) {
  cls.def(
         "compile",
         [](const InferenceSession& s, Any model, Any extensions, bool fusion) -> nb::object {
           refuse_extensions(extensions);
           if (nb::isinstance<CompiledModel>(model)) return nb::borrow(model);
           return nb::cast(
               compiling(model, fusion, [&](const auto& what, const CompileSettings& settings) {
                 return s.compile(what, settings);
               }));
         },
         nb::arg("model"), nb::kw_only(), nb::arg("custom_extensions") = nb::none(),
         nb::arg("tile_based_fusion") = false,
         nb::sig("def compile(self, model: object | None, *, "
                 "custom_extensions: object | None = None, tile_based_fusion: bool = False) "
                 "-> CompiledModel"),
         "Compiles a graph or a module, or reads the MEF at a path; blocks. A CompiledModel is "
         "returned as it is.")
      .def(
          "compile_async",
          [](const InferenceSession& s, Any model, Any extensions, bool fusion) -> nb::object {
            refuse_extensions(extensions);
            if (nb::isinstance<CompiledModel>(model)) return nb::borrow(model);
            const Source source = to_source(model);
            return nb::cast([&] {
              ReleaseGil release;
              if (auto* module = std::get_if<std::unique_ptr<graph::ir::Module>>(&source))
                return s.compile_async(**module, {.tile_based_fusion = fusion});
              return s.compile_async(std::get<std::string>(source));
            }());
          },
          nb::arg("model"), nb::kw_only(), nb::arg("custom_extensions") = nb::none(),
          nb::arg("tile_based_fusion") = false,
          nb::sig("def compile_async(self, model: object | None, *, "
                  "custom_extensions: object | None = None, tile_based_fusion: bool = False) "
                  "-> CompiledModel"),
          "As `compile`, but returns at once; a failure appears at first use.")
      .def(
          "compile_reusing_mefs",
          [](const InferenceSession& s, Any graph) {
            return compiling(graph, false, [&](const auto& what, const CompileSettings& settings) {
              if constexpr (std::is_same_v<std::decay_t<decltype(what)>, graph::ir::Module>)
                return s.compile_reusing_mefs(what, settings);
              else
                return s.compile(what, settings);
            });
          },
          nb::arg("graph"),
          "Compiles through the session's folder of MEFs: reads the graph's file from "
          "`precompiled_mefs`, or writes it to `export_mefs`.")
      .def(
          "init",
          [](const InferenceSession& s, const CompiledModel& compiled, Any registry) {
            const WeightsRegistry weights = to_registry(registry);
            auto model = [&] {
              ReleaseGil release;
              return s.init(compiled, weights);
            }();
            return make_model(std::move(model));
          },
          nb::arg("compiled"), nb::kw_only(), nb::arg("weights_registry") = nb::none(),
          "Binds weights and makes the one graph of the artifact ready to run.")
      .def(
          "init_all",
          [](const InferenceSession& s, const CompiledModel& compiled, Any registry) {
            const WeightsRegistry weights = to_registry(registry);
            const auto models = [&] {
              ReleaseGil release;
              return s.init_all(compiled, weights);
            }();
            return make_models(models);
          },
          nb::arg("compiled"), nb::kw_only(), nb::arg("weights_registry") = nb::none(),
          "A model per graph of the artifact, by name.")
      .def(
          "load",
          [](const InferenceSession& s, Any model, Any extensions, Any registry, bool fusion) {
            refuse_extensions(extensions);
            const WeightsRegistry weights = to_registry(registry);
            return make_model(
                compiling(model, fusion, [&](const auto& what, const CompileSettings& settings) {
                  return s.load(what, weights, settings);
                }));
          },
          nb::arg("model"), nb::kw_only(), nb::arg("custom_extensions") = nb::none(),
          nb::arg("weights_registry") = nb::none(), nb::arg("tile_based_fusion") = false,
          "`compile` and `init`.")
      .def(
          "load_all",
          [](const InferenceSession& s, Any model, Any extensions, Any registry, bool fusion) {
            refuse_extensions(extensions);
            const WeightsRegistry weights = to_registry(registry);
            return make_models(
                compiling(model, fusion, [&](const auto& what, const CompileSettings& settings) {
                  return s.load_all(what, weights, settings);
                }));
          },
          nb::arg("model"), nb::kw_only(), nb::arg("custom_extensions") = nb::none(),
          nb::arg("weights_registry") = nb::none(), nb::arg("tile_based_fusion") = false,
          "`compile` and `init_all`.");
}

}  // namespace

std::optional<std::string> to_path(nb::handle object) {
  if (!PyUnicode_Check(object.ptr()) && !nb::hasattr(object, "__fspath__")) return std::nullopt;
  return path_of(object);
}

WeightsRegistry to_registry(nb::handle object) {
  WeightsRegistry registry;
  if (object.is_none()) return registry;
  if (nb::isinstance<weights::Safetensors>(object))
    return WeightsRegistry(*nb::inst_ptr<weights::Safetensors>(object));
  if (!nb::hasattr(object, "items"))
    throw TypeError("A weights registry is a mapping from names to arrays, not " +
                    type_text(object) + ".");
  for (nb::handle item : nb::iter(nb::object(object.attr("items")()))) {
    nb::object key = item[0];
    if (!PyUnicode_Check(key.ptr()))
      throw TypeError("A weights registry maps names to arrays, but " + repr_of(key) +
                      " is no str but " + type_text(key) + ".");
    const auto name = nb::cast<std::string>(key);
    registry.emplace(name, to_weight(name, nb::object(item[1])));
  }
  return registry;
}

void bind_engine(nb::module_& m) {
  bind_engine_model(m);
  bind_engine_compiled(m);
  bind_engine_session(m);
  bind_engine_debug(m);
}

void bind_engine_session(nb::module_& m) {
  set_interrupt_check(serve_python);
  bind_choices(m);
  nb::class_<InferenceSession> cls(m, "InferenceSession", nb::is_weak_referenceable(), R"(
Compiles graphs and makes models of them.

>>> from kiln.engine import InferenceSession
>>> InferenceSession(num_threads=4)
<kiln engine InferenceSession(num_threads=4)>)");
  cls.def(
         "__init__",
         [](InferenceSession* self, const std::vector<driver::Device>& devices,
            std::optional<std::int64_t> num_threads, Any extensions, Any precompiled,
            Any exported) {
           refuse_extensions(extensions);
           auto folder = [](nb::handle path) {
             if (path.is_none()) return std::string();
             if (auto text = to_path(path)) return *text;
             throw TypeError("A folder of MEFs is a path, not " + type_text(path) + ".");
           };
           new (self) InferenceSession(devices, {.num_threads = num_threads,
                                                 .precompiled_mefs = folder(precompiled),
                                                 .export_mefs = folder(exported)});
         },
         nb::arg("devices") = nb::tuple(), nb::arg("num_threads") = nb::none(), nb::kw_only(),
         nb::arg("custom_extensions") = nb::none(), nb::arg("precompiled_mefs") = nb::none(),
         nb::arg("export_mefs") = nb::none())
      .def_prop_ro(
          "devices", [](const InferenceSession& s) { return s.devices(); },
          "The devices, the host included.")
      .def("__repr__", &InferenceSession::repr);
  def_compile(cls);
  def_settings(cls);
}

}  // namespace kiln::python
