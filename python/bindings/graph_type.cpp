#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "driver_casters.h"
#include "graph_casters.h"
#include "kiln/graph/layout.h"
#include "kiln/graph/type.h"
#include "kiln/support/error.h"

namespace kiln::python {
namespace {

using graph::BufferType;
using graph::ChainType;
using graph::ConvInputLayout;
using graph::DeviceKind;
using graph::DeviceRef;
using graph::FilterLayout;
using graph::OpaqueType;
using graph::TensorType;
using graph::Type;

void bind_device_ref(nb::module_& m) {
  nb::enum_<DeviceKind> kind(m, "DeviceKind", nb::is_str(), "The kinds of devices.");
  kind.str_value("CPU", DeviceKind::cpu, "cpu").str_value("GPU", DeviceKind::gpu, "gpu");
  kind.def_static(
      "from_string", [](std::string_view text) { return graph::device_kind_from_string(text); },
      nb::arg("txt"), "The kind of this name; ValueError for an unknown one.");

  nb::class_<DeviceRef>(m, "DeviceRef", R"(
Names a device without touching it.

>>> from kiln.graph import DeviceRef
>>> DeviceRef.CPU(), DeviceRef("gpu", 1), DeviceRef.GPU().is_gpu()
(cpu:0, gpu:1, True))")
      .def(
          "__init__",
          [](DeviceRef* self, std::string_view type, int id) {
            new (self) DeviceRef(graph::device_kind_from_string(type), id);
          },
          nb::arg("device_type"), nb::arg("id") = 0)
      .def_static(
          "CPU", [](int id) { return DeviceRef::CPU(id); }, nb::arg("id") = 0, "The host.")
      .def_static(
          "GPU", [](int id) { return DeviceRef::GPU(id); }, nb::arg("id") = 0, "An accelerator.")
      .def_static(
          "from_device",
          [](DeviceLike device) {
            if (nb::isinstance<DeviceRef>(device.object))
              return nb::typed<nb::object, DeviceRef>(nb::borrow(device.object));
            return nb::typed<nb::object, DeviceRef>(nb::cast(device.get()));
          },
          nb::arg("device"), "The name of a driver device; a DeviceRef is returned unchanged.")
      .def_prop_ro(
          "device_type", [](const DeviceRef& d) { return d.kind; }, "The kind.")
      .def_ro("id", &DeviceRef::id, "Zero-based.")
      .def("is_cpu", &DeviceRef::is_cpu, "Whether this is a host.")
      .def("is_gpu", &DeviceRef::is_gpu, "Whether this is an accelerator.")
      .def(
          "to_device", [](const DeviceRef& d) { return d.to_device(); },
          "Opens the device; errors of the driver pass through.")
      .def("__repr__", &DeviceRef::to_string)
      .def("__eq__",
           [](const DeviceRef& a, Any b) -> nb::object {
             if (!nb::isinstance<DeviceRef>(b)) return nb::borrow(Py_NotImplemented);
             return nb::bool_(a == *nb::inst_ptr<DeviceRef>(b));
           })
      .def("__hash__", [](const DeviceRef& d) { return Py_ssize_t(d.id) * 2 + d.is_gpu(); })
      .def("__reduce__", [](nb::handle_t<DeviceRef> self) {
        const DeviceRef& d = *nb::inst_ptr<DeviceRef>(self);
        return nb::make_tuple(self.type(),
                              nb::make_tuple(std::string(graph::to_string(d.kind)), d.id));
      });
}

void bind_layouts(nb::module_& m) {
  nb::enum_<FilterLayout> filter(m, "FilterLayout", "Order of the axes of a convolution filter.");
  for (FilterLayout layout : {FilterLayout::RSCF, FilterLayout::QRSCF, FilterLayout::FCRS,
                              FilterLayout::FCQRS, FilterLayout::CFRS})
    filter.value(std::string(graph::to_string(layout)).c_str(), layout);
  nb::enum_<ConvInputLayout>(m, "ConvInputLayout", "Order of the axes of a convolution's input.")
      .value("NHWC", ConvInputLayout::NHWC)
      .value("NCHW", ConvInputLayout::NCHW);
}

OpaqueType::Parameter to_parameter(nb::handle value) {
  if (PyBool_Check(value.ptr())) return value.ptr() == Py_True;
  if (PyLong_Check(value.ptr())) return nb::cast<std::int64_t>(value);
  if (PyUnicode_Check(value.ptr())) return nb::cast<std::string>(value);
  if (is_dtype(value)) return nb::cast<DType>(value);
  throw TypeError("unsupported parameter type " + type_text(value) + " for custom op");
}

/// Members that tensor and buffer types share.
template <typename T, typename Class>
void def_shaped(Class& cls) {
  cls.def(
         "__init__",
         [](typename Class::Type* self, DType dtype, ShapeLike shape, DeviceLike device) {
           new (self) typename Class::Type{{T(dtype, shape.get(), device.get())}};
         },
         nb::arg("dtype"), nb::arg("shape"), nb::arg("device"))
      .def_prop_ro(
          "dtype", [](const TypeObject& t) { return t.type.shaped().dtype; }, "Element type.")
      .def_prop_ro(
          "shape", [](const TypeObject& t) { return t.type.shaped().shape; }, "Dims.")
      .def_prop_ro(
          "device", [](const TypeObject& t) { return t.type.shaped().device; },
          "Where values of this type lie.")
      .def_prop_ro(
          "rank", [](const TypeObject& t) { return t.type.shaped().rank(); }, "Number of dims.")
      .def_prop_ro(
          "parameters",
          [](const TypeObject& t) {
            nb::list symbols;
            for (const std::string& name : t.type.shaped().parameters())
              symbols.append(make_dim(graph::Dim(name)));
            return symbols;
          },
          "The symbols of the shape.")
      .def(
          "num_elements", [](const TypeObject& t) { return t.type.shaped().num_elements(); },
          "Product of the dims; RuntimeError when one is symbolic.")
      .def(
          "cast",
          [](const TypeObject& t, DType dtype) {
            using Object = std::conditional_t<std::is_same_v<T, TensorType>, TensorTypeObject,
                                              BufferTypeObject>;
            return nb::typed<nb::object, Object>(make_type(std::get<T>(t.type).cast(dtype)));
          },
          nb::arg("dtype"), "The same shape and device with another dtype.")
      .def("__reduce__", [](nb::handle self) {
        return nb::make_tuple(self.type(), nb::make_tuple(self.attr("dtype"), self.attr("shape"),
                                                          self.attr("device")));
      });
}

Py_ssize_t hash_of(const TypeObject& t) { return nb::hash(nb::str(t.type.to_text().c_str())); }

void bind_types(nb::module_& m) {
  nb::class_<TypeObject>(m, "Type", "The type of a graph value.")
      .def("__init__", refuse_call<TypeObject>("TensorType and BufferType make types."))
      .def("__repr__", [](const TypeObject& t) { return t.type.repr(); })
      .def("__eq__",
           [](const TypeObject& a, Any b) -> nb::object {
             if (!nb::isinstance<TypeObject>(b)) return nb::borrow(Py_NotImplemented);
             return nb::bool_(a.type == nb::inst_ptr<TypeObject>(b)->type);
           })
      .def("__hash__", &hash_of);

  nb::class_<TensorTypeObject, TypeObject> tensor(m, "TensorType", R"(
The type of a value-semantic tensor.

>>> from kiln.dtype import DType
>>> from kiln.graph import DeviceRef, TensorType
>>> TensorType(DType.float32, ["batch", 4], DeviceRef.CPU())
TensorType(dtype=float32, shape=[Dim('batch'), Dim(4)], device=cpu:0))");
  def_shaped<TensorType>(tensor);
  tensor.def(
      "as_buffer",
      [](const TypeObject& t) {
        return nb::typed<nb::object, BufferTypeObject>(
            make_type(std::get<TensorType>(t.type).as_buffer()));
      },
      "The buffer type with the same fields.");

  nb::class_<BufferTypeObject, TypeObject> buffer(m, "BufferType",
                                                  "The type of a mutable memory region.");
  def_shaped<BufferType>(buffer);
  buffer.def(
      "as_tensor",
      [](const TypeObject& t) {
        return nb::typed<nb::object, TensorTypeObject>(
            make_type(std::get<BufferType>(t.type).as_tensor()));
      },
      "The tensor type with the same fields.");

  nb::class_<OpaqueTypeObject, TypeObject>(m, "_OpaqueType",
                                           "A value that only custom kernels understand.")
      .def(
          "__init__",
          [](OpaqueTypeObject* self, std::string name, nb::dict parameters) {
            OpaqueType type{std::move(name), {}};
            for (auto [key, value] : parameters)
              type.parameters.emplace(nb::cast<std::string>(key), to_parameter(value));
            new (self) OpaqueTypeObject{{std::move(type)}};
          },
          nb::arg("name"), nb::arg("parameters") = nb::dict())
      .def_prop_ro(
          "name", [](const TypeObject& t) { return std::get<OpaqueType>(t.type).name; },
          "The kernel's name of the type.")
      .def_prop_ro(
          "parameters", [](const TypeObject& t) { return std::get<OpaqueType>(t.type).parameters; },
          "Parameters by name.");
  nb::class_<ChainTypeObject, TypeObject>(m, "_ChainType", "Orders side effects.")
      .def("__init__", [](ChainTypeObject* self) { new (self) ChainTypeObject{{ChainType()}}; });
}

}  // namespace

nb::object make_type(const Type& type) {
  if (type.is_tensor()) return nb::cast(TensorTypeObject{{type}});
  if (type.is_buffer()) return nb::cast(BufferTypeObject{{type}});
  if (type.is_opaque()) return nb::cast(OpaqueTypeObject{{type}});
  return nb::cast(ChainTypeObject{{type}});
}

DeviceRef to_device_ref(nb::handle object) {
  if (nb::isinstance<DeviceRef>(object)) return *nb::inst_ptr<DeviceRef>(object);
  if (is_device(object)) return DeviceRef(nb::inst_ptr<DeviceObject>(object)->device);
  std::string text = "Expected a DeviceRef or a driver Device, got ";
  if (PyCallable_Check(object.ptr()) && nb::hasattr(object, "__name__")) {
    const std::string name = nb::cast<std::string>(object.attr("__name__"));
    throw TypeError(text + name + " itself; call it, as in " + name + "().");
  }
  throw TypeError(text + type_text(object) + ".");
}

void bind_graph_type(nb::module_& m) {
  bind_device_ref(m);
  bind_layouts(m);
  bind_types(m);
}

}  // namespace kiln::python
