#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "engine_casters.h"
#include "kiln/engine/compiled_model.h"
#include "kiln/engine/explain.h"
#include "kiln/engine/mef_info.h"
#include "kiln/support/error.h"
#include "kiln/support/file.h"

namespace kiln::python {
namespace {

using engine::CompiledModel;
using engine::MefInfo;

std::string required_path(nb::handle object) {
  if (auto path = to_path(object)) return *path;
  throw TypeError("Expected a path, got " + type_text(object) + ".");
}

/// `from_path` or `from_bytes` with what `source` is, without the GIL.
template <typename FromPath, typename FromBytes>
auto from_source(const char* call, nb::handle source, FromPath from_path, FromBytes from_bytes) {
  if (auto path = to_path(source)) {
    ReleaseGil release;
    return from_path(*path);
  }
  if (!nb::hasattr(source, "read"))
    throw TypeError(std::string(call) + "() expects a path or a binary stream, got " +
                    type_text(source) + ".");
  nb::object content = source.attr("read")();
  if (!PyBytes_Check(content.ptr()))
    throw TypeError(std::string(call) + "() expects a binary stream; this one gives " +
                    type_text(content) + ".");
  const auto* bytes = reinterpret_cast<const std::byte*>(PyBytes_AsString(content.ptr()));
  const auto size = static_cast<std::size_t>(PyBytes_Size(content.ptr()));
  ReleaseGil release;
  return from_bytes(std::span(bytes, size));
}

CompiledModel read(Any source) {
  return from_source(
      "read", source, [](const std::string& path) { return engine::read(path); },
      [](std::span<const std::byte> bytes) { return engine::read(bytes, "<stream>"); });
}

void bind_info(nb::module_& m) {
  nb::class_<MefInfo::Weight>(m, "MefWeight", "A weight that an artifact needs by name.")
      .def_ro("name", &MefInfo::Weight::name, "Its name in the registry.")
      .def_ro("dtype", &MefInfo::Weight::dtype, "Element type.")
      .def_prop_ro(
          "shape", [](const MefInfo::Weight& w) { return make_tuple_of(Shape(w.shape)); },
          "Extents.")
      .def_ro("device", &MefInfo::Weight::device, "Where it lies.")
      .def_ro("carried", &MefInfo::Weight::carried, "Whether the file holds its data.")
      .def("__repr__", [](const MefInfo::Weight& w) {
        return "MefWeight(name='" + w.name + "', dtype=" + w.dtype.to_string() +
               ", shape=" + repr_of(make_tuple_of(Shape(w.shape))) +
               ", device=" + w.device.to_string() + ", carried=" + (w.carried ? "True" : "False") +
               ")";
      });
  nb::class_<runtime::CpuTarget>(m, "CpuTarget", "A processor that code was made for.")
      .def_ro("triple", &runtime::CpuTarget::triple, "Such as 'x86_64-unknown-linux-gnu'.")
      .def_ro("cpu", &runtime::CpuTarget::cpu, "Such as 'x86-64-v3'.")
      .def_ro("level", &runtime::CpuTarget::level, "Its step of the ladder.")
      .def_ro("features", &runtime::CpuTarget::features, "What the machine must offer.")
      .def("__repr__", [](const runtime::CpuTarget& t) {
        return "CpuTarget(triple='" + t.triple + "', cpu='" + t.cpu + "')";
      });
  nb::class_<runtime::AcceleratorTarget>(m, "AcceleratorTarget",
                                         "An accelerator that code was made for.")
      .def_ro("api", &runtime::AcceleratorTarget::api, "Such as 'cuda'.")
      .def_ro("arch", &runtime::AcceleratorTarget::arch, "Such as 'sm_90'.");
  nb::class_<MefInfo>(m, "MefInfo", "What a MEF is made for and whether it could be loaded here.")
      .def("__init__", refuse_call<MefInfo>("query_mef gives MefInfo objects."))
      .def_ro("readable", &MefInfo::readable, "Magic, length and header checksum are good.")
      .def_ro("compatible", &MefInfo::compatible, "It could be loaded here.")
      .def_ro("reasons", &MefInfo::reasons, "One sentence for every failing condition.")
      .def_ro("format_version", &MefInfo::format_version, "Such as '1.0'.")
      .def_ro("kiln_version", &MefInfo::kiln_version, "The kiln that wrote it.")
      .def_ro("runtime_interface", &MefInfo::runtime_interface, "Its runtime interface.")
      .def_ro("targets", &MefInfo::targets, "Processors it holds code for.")
      .def_ro("accelerators", &MefInfo::accelerators, "Accelerators it holds code for.")
      .def_ro("graphs", &MefInfo::graphs, "Its graphs.")
      .def_ro("weights", &MefInfo::weights, "The weights it needs.")
      .def_ro("custom_kernels", &MefInfo::custom_kernels, "Kernels of user libraries.")
      .def("__repr__", [](const MefInfo& info) {
        return std::string("MefInfo(readable=") + (info.readable ? "True" : "False") +
               ", compatible=" + (info.compatible ? "True" : "False") + ")";
      });
}

}  // namespace

void bind_engine_compiled(nb::module_& m) {
  bind_info(m);
  nb::class_<CompiledModel>(m, "CompiledModel", nb::is_weak_referenceable(),
                            "A compiled artifact: one or more graphs without weights.")
      .def("__init__",
           refuse_call<CompiledModel>("InferenceSession.compile gives CompiledModel objects."))
      .def(
          "export_mef",
          [](const CompiledModel& c, Any path, Any registry) {
            const std::string file = required_path(path);
            if (registry.is_none()) {
              ReleaseGil release;
              c.export_mef(file);
              return;
            }
            const engine::WeightsRegistry weights = to_registry(registry);
            ReleaseGil release;
            c.export_mef(file, weights);
          },
          nb::arg("path"), nb::kw_only(), nb::arg("weights_registry") = nb::none(),
          "Writes the artifact, with a registry also the weights it names.")
      .def(
          "explain",
          [](const CompiledModel& c, Any path) {
            const std::string file = path.is_none() ? "" : required_path(path);
            ReleaseGil release;
            const std::vector<std::string> names = c.names();
            std::string page = engine::explain(c, names.empty() ? "artifact" : names[0]);
            if (!file.empty()) write_file(file, page);
            return page;
          },
          nb::arg("path") = nb::none(),
          nb::sig("def explain(self, path: str | os.PathLike[str] | None = None) -> str"),
          "An HTML page that shows the ops, the kernels that they became, with bytes and flops, "
          "and "
          "the memory plan over time; on request it is written, too.")
      .def_prop_ro("names", &CompiledModel::names, nb::call_guard<ReleaseGil>(),
                   "Names of the graphs.")
      .def("__len__", &CompiledModel::size, nb::call_guard<ReleaseGil>())
      .def("__iter__",
           [](const CompiledModel& c) {
             {
               ReleaseGil release;
               c.wait();
             }
             return nb::iter(nb::cast(c.metadata()));
           })
      .def_prop_ro("info", &CompiledModel::info, nb::call_guard<ReleaseGil>(),
                   "What it is made for.")
      .def("wait", &CompiledModel::wait, nb::call_guard<ReleaseGil>(),
           "Blocks until the compile is over and raises what it failed with.")
      .def("done", &CompiledModel::done, "Whether the compile is over, well or not.")
      .def(
          "__await__",
          [](nb::handle_t<CompiledModel> self) {
            nb::object loop = nb::module_::import_("asyncio").attr("get_running_loop")();
            nb::object result = nb::borrow(self);
            nb::object wait = nb::cpp_function([result] {
              {
                const auto& compiled = *nb::inst_ptr<CompiledModel>(result);
                ReleaseGil release;
                compiled.wait();
              }
              return result;
            });
            nb::object future = loop.attr("run_in_executor")(nb::none(), wait);
            return nb::object(future.attr("__await__")());
          },
          nb::sig("def __await__(self) -> "
                  "collections.abc.Generator[typing.Any, typing.Any, CompiledModel]"),
          "Itself, once the compile is over; raises what it failed with.")
      .def("__repr__", &CompiledModel::repr);
  m.def("read", &read, nb::arg("source"),
        "Reads a MEF from a path or a binary stream; RuntimeError for unreadable content.");
  m.def(
      "query_mef",
      [](Any source, Any devices) {
        return from_source(
            "query_mef", source, [](const std::string& path) { return engine::query_mef(path); },
            [](std::span<const std::byte> bytes) { return engine::query_mef(bytes, "<stream>"); });
      },
      nb::arg("source"), nb::arg("devices") = nb::none(),
      "What a MEF, at a path or in a binary stream, is made for, from its header alone.");
}

}  // namespace kiln::python
