// Meshes, placements, mappings and layouts.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "driver_casters.h"
#include "experimental_call.h"
#include "graph_casters.h"
#include "kiln/experimental/redistribution.h"
#include "kiln/experimental/tensor_layout.h"

namespace kiln::python {
namespace {

using experimental::BufferLayout;
using experimental::DeviceMapping;
using experimental::DeviceMesh;
using experimental::NamedMapping;
using experimental::Partial;
using experimental::Placement;
using experimental::ReduceOp;
using experimental::Replicated;
using experimental::Sharded;
using experimental::TensorLayout;
using experimental::Unknown;

PyObject* sharding_error = nullptr;  // both leaked: used until the process ends
PyObject* conversion_error = nullptr;

void bind_errors_of_sharding(nb::module_& m) {
  sharding_error = add_exception(m, "ShardingError", PyExc_RuntimeError,
                                 "A placement that is not possible, or none that an op accepts.");
  conversion_error = add_exception(m, "ConversionError", PyExc_ValueError,
                                   "A named mapping that no placements express.");
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const experimental::ShardingError& error) {
      PyErr_SetString(sharding_error, error.what());
    } catch (const experimental::ConversionError& error) {
      PyErr_SetString(conversion_error, error.what());
    }
  });
}

/// `==` by value with objects of the same class; `Base` is what both must be.
template <typename Base>
nb::object equal(const Base& a, Any b) {
  if (!nb::isinstance<Base>(b)) return nb::borrow(Py_NotImplemented);
  return nb::bool_(a == *nb::inst_ptr<Base>(b));
}

/// A `with mesh_context(mesh)` block.
struct ActiveMesh {
  DeviceMesh mesh;
  std::unique_ptr<experimental::MeshContext> context;
};

template <typename T>
auto tuple_of(const std::vector<T>& values) {
  return nb::typed<nb::tuple, T, nb::ellipsis>(nb::tuple(nb::cast(values)));
}

/// An axis of a mesh: a name or a number.
int mesh_axis(const DeviceMesh& mesh, const std::variant<std::string, int>& axis) {
  return std::visit([&](const auto& given) { return mesh.axis_index(given); }, axis);
}

void bind_mesh(nb::module_& m) {
  using Axis = std::variant<std::string, int>;
  nb::class_<DeviceMesh>(m, "DeviceMesh", R"(
An immutable grid of devices in row-major order, with a name for each axis. The devices are all
different, or all the same: such a simulated mesh runs everything that several devices would do
on one.

>>> from kiln.driver import CPU
>>> from kiln.experimental.sharding import DeviceMesh
>>> mesh = DeviceMesh([CPU()] * 8, (2, 4), ("dp", "tp"))
>>> mesh, mesh.axis_size("tp"), mesh.device_coord(5, "tp"), mesh.is_simulated
(DeviceMesh(dp=2, tp=4), 4, 1, True))")
      .def(nb::init<std::vector<driver::Device>, std::vector<int>, std::vector<std::string>>(),
           nb::arg("devices"), nb::arg("mesh_shape"), nb::arg("axis_names"))
      .def_static("single", &DeviceMesh::single, nb::arg("device"),
                  "One device; the axis is named `_`.")
      .def_static("default", &DeviceMesh::default_mesh, "The CPU alone.")
      .def_prop_ro(
          "devices", [](const DeviceMesh& mesh) { return tuple_of(mesh.devices()); },
          "The devices in row-major order.")
      .def_prop_ro(
          "mesh_shape", [](const DeviceMesh& mesh) { return tuple_of(mesh.mesh_shape()); },
          "Devices along each axis.")
      .def_prop_ro(
          "axis_names", [](const DeviceMesh& mesh) { return tuple_of(mesh.axis_names()); },
          "A name for each axis.")
      .def_prop_ro("ndim", &DeviceMesh::ndim, "Number of axes.")
      .def_prop_ro("num_devices", &DeviceMesh::num_devices, "Number of devices.")
      .def(
          "axis_size",
          [](const DeviceMesh& mesh, const Axis& axis) {
            return mesh.axis_size(mesh_axis(mesh, axis));
          },
          nb::arg("axis"),
          "Devices along an axis. An unknown name is a ValueError, a number outside an IndexError.")
      .def(
          "device_coord",
          [](const DeviceMesh& mesh, int i, const Axis& axis) {
            return mesh.device_coord(i, mesh_axis(mesh, axis));
          },
          nb::arg("i"), nb::arg("axis"), "The place of device `i` along an axis.")
      .def_prop_ro("is_single", &DeviceMesh::is_single, "Whether there is one device.")
      .def_prop_ro("is_simulated", &DeviceMesh::is_simulated,
                   "Whether one device stands for several.")
      .def("__repr__", &DeviceMesh::to_string)
      .def("__eq__", &equal<DeviceMesh>)
      .def("__hash__",
           [](const DeviceMesh& mesh) {
             return static_cast<Py_ssize_t>(std::hash<DeviceMesh>()(mesh));
           })
      .def("__reduce__", [](nb::handle self) {
        return nb::make_tuple(
            self.type(),
            nb::make_tuple(self.attr("devices"), self.attr("mesh_shape"), self.attr("axis_names")));
      });
  m.def("get_active_mesh", &experimental::get_active_mesh,
        "The mesh that the innermost mesh_context of this thread publishes, or None.");
  nb::class_<ActiveMesh>(
      m, "mesh_context",
      "Publishes a mesh for a `with` block; blocks nest, and each thread has its "
      "own.")
      .def(
          "__init__", [](ActiveMesh* self, DeviceMesh mesh) { new (self) ActiveMesh{mesh, {}}; },
          nb::arg("mesh"))
      .def("__enter__",
           [](ActiveMesh& self) {
             if (self.context)
               throw RuntimeError("mesh_context: this object is inside a with block already.");
             self.context = std::make_unique<experimental::MeshContext>(self.mesh);
             return self.mesh;
           })
      .def(
          "__exit__", [](ActiveMesh& self, const nb::args&) { self.context.reset(); },
          nb::sig("def __exit__(self, *exception: object) -> None"));
}

/// Members that all placements share.
template <typename T>
nb::class_<T> bind_placement(nb::module_& m, const char* name, const char* doc) {
  return nb::class_<T>(m, name, doc)
      .def("__repr__", [](const T& self) { return experimental::to_string(Placement(self)); })
      .def("__eq__", &equal<T>)
      .def("__hash__", [](nb::handle self) { return nb::hash(nb::repr(self)); });
}

void bind_placements(nb::module_& m) {
  nb::enum_<ReduceOp>(m, "ReduceOp", "How the terms of a Partial are combined.")
      .value("SUM", ReduceOp::sum)
      .value("AVG", ReduceOp::avg)
      .value("MIN", ReduceOp::min)
      .value("MAX", ReduceOp::max);
  bind_placement<Replicated>(m, "Replicated", "Each device holds the same copy.")
      .def(nb::init<>())
      .def("__reduce__", [](nb::handle self) { return nb::make_tuple(self.type(), nb::tuple()); });
  bind_placement<Sharded>(m, "Sharded",
                          "Each device holds a slice along an axis of the tensor. Sizes differ by "
                          "at most one, larger ones first.")
      .def(
          "__init__", [](Sharded* self, int axis) { new (self) Sharded{axis}; }, nb::arg("axis"))
      .def_ro("axis", &Sharded::axis, "The axis of the tensor.")
      .def("__reduce__", [](nb::handle self) {
        return nb::make_tuple(self.type(), nb::make_tuple(self.attr("axis")));
      });
  bind_placement<Partial>(m, "Partial",
                          "Each device holds a term of a reduction that is still to be done. SUM "
                          "and AVG can be resolved.")
      .def(
          "__init__", [](Partial* self, ReduceOp op) { new (self) Partial{op}; },
          nb::arg("reduce_op") = ReduceOp::sum)
      .def_ro("reduce_op", &Partial::reduce_op, "How the terms are combined.")
      .def("__reduce__", [](nb::handle self) {
        return nb::make_tuple(self.type(), nb::make_tuple(self.attr("reduce_op")));
      });
  bind_placement<Unknown>(m, "Unknown", "The devices hold values without a known relation.")
      .def(nb::init<>())
      .def("__reduce__", [](nb::handle self) { return nb::make_tuple(self.type(), nb::tuple()); });
}

/// The mesh axes of each tensor axis: a name, names, or None.
NamedMapping::Spec to_spec(nb::iterable entries) {
  NamedMapping::Spec spec;
  for (nb::handle entry : entries) {
    std::vector<std::string> names;
    if (PyUnicode_Check(entry.ptr())) {
      names.push_back(nb::cast<std::string>(entry));
    } else if (PyTuple_Check(entry.ptr()) || PyList_Check(entry.ptr())) {
      for (nb::handle name : entry) {
        if (!PyUnicode_Check(name.ptr()))
          throw TypeError("NamedMapping: an entry of spec holds " + repr_of(name) +
                          "; names of mesh axes are str.");
        names.push_back(nb::cast<std::string>(name));
      }
    } else if (!entry.is_none()) {
      throw TypeError("NamedMapping: an entry of spec is " + repr_of(entry) +
                      ", but must be the name of a mesh axis, a tuple of names, or None.");
    }
    spec.push_back(std::move(names));
  }
  return spec;
}

nb::tuple from_spec(const NamedMapping::Spec& spec) {
  nb::list entries;
  for (const auto& names : spec) {
    if (names.empty())
      entries.append(nb::none());
    else if (names.size() == 1)
      entries.append(names[0]);
    else
      entries.append(nb::tuple(nb::cast(names)));
  }
  return nb::tuple(entries);
}

void bind_mappings(nb::module_& m) {
  nb::class_<DeviceMapping>(m, "DeviceMapping", R"(
Where a tensor lives: a mesh and one placement for each of its axes. Immutable.

>>> from kiln.driver import CPU
>>> from kiln.experimental.sharding import DeviceMapping, DeviceMesh, Sharded
>>> DeviceMapping(DeviceMesh([CPU()] * 2, (2,), ("x",)), [Sharded(0)])
DeviceMapping(DeviceMesh(x=2), [Sharded(axis=0)]))")
      .def(nb::init<DeviceMesh, std::vector<Placement>>(), nb::arg("mesh"), nb::arg("placements"))
      .def_static("replicated", &DeviceMapping::replicated, nb::arg("mesh"),
                  "A copy on each device.")
      .def_prop_ro("mesh", &DeviceMapping::mesh, "The devices.")
      .def_prop_ro(
          "placements", [](const DeviceMapping& mapping) { return tuple_of(mapping.placements()); },
          "What each device along each mesh axis holds.")
      .def_prop_ro("is_fully_replicated", &DeviceMapping::is_fully_replicated,
                   "Whether every device holds a copy.")
      .def(
          "check_shape",
          [](const DeviceMapping& mapping, ShapeLike shape) { mapping.check_shape(shape.get()); },
          nb::arg("shape"), "ValueError when an axis is sharded that a tensor of this shape lacks.")
      .def("__repr__", &DeviceMapping::to_string)
      .def("__eq__", &equal<DeviceMapping>)
      .def("__hash__",
           [](nb::handle self) {
             return nb::hash(nb::make_tuple(self.attr("mesh"), self.attr("placements")));
           })
      .def("__reduce__", [](nb::handle self) {
        return nb::make_tuple(self.type(),
                              nb::make_tuple(self.attr("mesh"), self.attr("placements")));
      });
  m.attr("PlacementMapping") = m.attr("DeviceMapping");

  nb::class_<NamedMapping, DeviceMapping>(m, "NamedMapping", R"(
A mapping in the words of the tensor: `spec` has for each of its axes the name of the mesh axis
that splits it, a tuple of names, or None. Mesh axes that are not named hold copies, those in
`unreduced` terms of a sum. Without a mesh the active one is meant.

>>> from kiln.driver import CPU
>>> from kiln.experimental.sharding import DeviceMesh, NamedMapping
>>> NamedMapping(DeviceMesh([CPU()] * 4, (2, 2), ("dp", "tp")), (None, "tp"))
DeviceMapping(DeviceMesh(dp=2, tp=2), [Replicated(), Sharded(axis=1)]))")
      .def(
          "__init__",
          [](NamedMapping* self, std::optional<DeviceMesh> mesh, nb::iterable spec,
             std::vector<std::string> unreduced) {
            new (self) NamedMapping(std::move(mesh), to_spec(spec), std::move(unreduced));
          },
          nb::arg("mesh") = nb::none(), nb::arg("spec") = nb::tuple(), nb::kw_only(),
          nb::arg("unreduced") = nb::tuple())
      .def_prop_ro(
          "spec", [](const NamedMapping& mapping) { return from_spec(mapping.spec()); },
          "The mesh axes of each tensor axis.")
      .def_prop_ro(
          "unreduced", [](const NamedMapping& mapping) { return tuple_of(mapping.unreduced()); },
          "The mesh axes that hold terms of a sum.")
      .def("__reduce__", [](nb::handle self) {
        const nb::object make =
            nb::module_::import_("functools")
                .attr("partial")(self.type(), nb::arg("unreduced") = self.attr("unreduced"));
        return nb::make_tuple(make, nb::make_tuple(self.attr("mesh"), self.attr("spec")));
      });
}

nb::object make_layout(const TensorLayout& layout) {
  if (layout.is_buffer()) return nb::cast(layout.as_buffer());
  return nb::cast(layout.as_tensor());
}

void bind_layouts_of_tensors(nb::module_& m) {
  nb::class_<TensorLayout>(m, "TensorLayout", R"(
What a function over tensors is told of an argument: element type, global shape and placement.
`device` is a Device, a DeviceRef, a DeviceMesh, each of whose devices holds a copy, or a
DeviceMapping. Immutable.

>>> from kiln.driver import CPU
>>> from kiln.dtype import DType
>>> from kiln.experimental.sharding import DeviceMapping, DeviceMesh, Sharded, TensorLayout
>>> mapping = DeviceMapping(DeviceMesh([CPU()] * 2, (2,), ("x",)), [Sharded(0)])
>>> TensorLayout(DType.float32, ["batch", 2], mapping).local_types[1]
TensorType(dtype=float32, shape=[Dim('batch_x_1'), Dim(2)], device=cpu:0))")
      .def(
          "__init__",
          [](TensorLayout* self, DType dtype, ShapeLike shape, LayoutDeviceLike device) {
            new (self) TensorLayout(dtype, shape.get(), device.get());
          },
          nb::arg("dtype"), nb::arg("shape"), nb::arg("device"))
      .def_prop_ro("dtype", &TensorLayout::dtype, "Element type.")
      .def_prop_ro("shape", &TensorLayout::shape, "Of the whole tensor, over all devices.")
      .def_prop_ro("rank", &TensorLayout::rank, "Number of dims.")
      .def_prop_ro("mapping", &TensorLayout::mapping, "Where it lives.")
      .def_prop_ro("mesh", &TensorLayout::mesh, "The devices.")
      .def_prop_ro(
          "placements", [](const TensorLayout& layout) { return tuple_of(layout.placements()); },
          "What each device along each mesh axis holds.")
      .def_prop_ro("device", &TensorLayout::device, "The one device; several are a ValueError.")
      .def_prop_ro(
          "local_types",
          [](const TensorLayout& layout) {
            nb::list types;
            for (const graph::Type& type : layout.local_types()) types.append(make_type(type));
            return types;
          },
          "One TensorType or BufferType for each device, in mesh order.")
      .def("as_buffer", &TensorLayout::as_buffer, "The layout of an argument that may be written.")
      .def("as_tensor", &TensorLayout::as_tensor, "The layout of an argument that is only read.")
      .def("__repr__", &TensorLayout::to_string)
      .def("__eq__", &equal<TensorLayout>)
      .def("__hash__", [](nb::handle self) { return nb::hash(nb::repr(self)); })
      .def("__reduce__", [](nb::handle self) {
        return nb::make_tuple(self.type(), nb::make_tuple(self.attr("dtype"), self.attr("shape"),
                                                          self.attr("mapping")));
      });
  nb::class_<BufferLayout, TensorLayout>(m, "BufferLayout",
                                         "The layout of an argument that the function may write.")
      .def(
          "__init__",
          [](BufferLayout* self, DType dtype, ShapeLike shape, LayoutDeviceLike device) {
            new (self) BufferLayout(dtype, shape.get(), device.get());
          },
          nb::arg("dtype"), nb::arg("shape"), nb::arg("device"));
  m.def(
      "as_layout",
      [](Any object) -> nb::typed<nb::object, TensorLayout> {
        if (nb::isinstance<TensorLayout>(object)) return nb::borrow(object);
        if (nb::isinstance<TypeObject>(object)) {
          const graph::Type& type = nb::inst_ptr<TypeObject>(object)->type;
          if (type.is_tensor() || type.is_buffer())
            return make_layout(experimental::as_layout(type));
        }
        if (is_tensor(object))
          throw TypeError(
              "a Tensor is a value, not a layout: its dims are whatever it currently holds, so "
              "every "
              "one of them would be fixed to that size. Pass its .layout to do that on purpose.");
        throw TypeError(
            "expected a TensorLayout, BufferLayout, TensorType or BufferType layout, got " +
            type_text(object) + ": make one with TensorLayout(dtype, shape, device).");
      },
      nb::arg("x"),
      "Layouts pass; a TensorType or BufferType becomes the layout of one device; others are a "
      "TypeError.");
}

/// Blocks of `auto_reshard`.
struct ReshardBlock {
  experimental::Transitions allowed;
  experimental::ReshardMode mode;
  std::vector<std::shared_ptr<experimental::AutoReshard>> guards;
};

void bind_resharding(nb::module_& m) {
  using experimental::PlacementKind;
  using experimental::ReshardMode;
  using Pair = std::pair<int, int>;
  nb::class_<ReshardBlock>(m, "_AutoReshard")
      .def("__init__",
           [](ReshardBlock* self, const std::vector<Pair>& allowed, int mode) {
             experimental::Transitions transitions;
             for (const auto& [from, to] : allowed)
               transitions.emplace(static_cast<PlacementKind>(from),
                                   static_cast<PlacementKind>(to));
             new (self) ReshardBlock{std::move(transitions), static_cast<ReshardMode>(mode), {}};
           })
      .def("__enter__",
           [](ReshardBlock& self) {
             self.guards.push_back(
                 std::make_shared<experimental::AutoReshard>(self.allowed, self.mode));
           })
      .def("__exit__", [](ReshardBlock& self, nb::args) { self.guards.pop_back(); });
  const auto pairs = [](const experimental::Transitions& transitions) {
    std::vector<Pair> all;
    for (const auto& [from, to] : transitions)
      all.emplace_back(static_cast<int>(from), static_cast<int>(to));
    return all;
  };
  m.attr("_all_transitions") = nb::cast(pairs(experimental::all_transitions()));
  m.attr("_default_transitions") = nb::cast(pairs(experimental::default_transitions()));
}

}  // namespace

bool is_layout_device(nb::handle object) {
  return nb::isinstance<DeviceMapping>(object) || nb::isinstance<DeviceMesh>(object) ||
         is_device(object) || nb::isinstance<graph::DeviceRef>(object);
}

experimental::LayoutDevice LayoutDeviceLike::get() const {
  if (nb::isinstance<DeviceMapping>(object)) return *nb::inst_ptr<DeviceMapping>(object);
  if (nb::isinstance<DeviceMesh>(object)) return *nb::inst_ptr<DeviceMesh>(object);
  if (is_device(object)) return nb::inst_ptr<DeviceObject>(object)->device;
  if (nb::isinstance<graph::DeviceRef>(object)) return *nb::inst_ptr<graph::DeviceRef>(object);
  throw TypeError("expected a Device, DeviceRef, DeviceMesh or DeviceMapping, got " +
                  type_text(object));
}

void bind_experimental_sharding(nb::module_& m) {
  bind_errors_of_sharding(m);
  bind_mesh(m);
  bind_placements(m);
  bind_mappings(m);
  bind_layouts_of_tensors(m);
  bind_resharding(m);
}

}  // namespace kiln::python
