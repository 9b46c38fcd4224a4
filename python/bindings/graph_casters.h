#pragma once

// Dims, shapes, device references and types of graphs between Python and C++. Python classes hold
// the C++ value; which subclass an object gets depends on the value.

#include <nanobind/nanobind.h>

#include <string>

#include "casters.h"
#include "kiln/graph/type.h"

namespace kiln::python {

/// What a Python Dim holds. The subclasses add nothing but their type.
struct DimObject {
  graph::Dim dim;
};
struct StaticDimObject : DimObject {};
struct SymbolicDimObject : DimObject {};
struct AlgebraicDimObject : DimObject {};

/// What a Python graph Type holds; subclasses as for dims.
struct TypeObject {
  graph::Type type;
};
struct TensorTypeObject : TypeObject {};
struct BufferTypeObject : TypeObject {};
struct OpaqueTypeObject : TypeObject {};
struct ChainTypeObject : TypeObject {};

/// A Python object of the fitting subclass.
nb::object make_dim(const graph::Dim& dim);
nb::object make_shape(const graph::Shape& shape);
nb::object make_type(const graph::Type& type);

/// Whether `object` is an int, a str, a Dim or a NumPy integer.
bool is_dim_like(nb::handle object);
/// Other objects: TypeError.
graph::Dim to_dim(nb::handle object);
graph::Shape to_shape(nb::handle iterable);
/// A DeviceRef or a driver Device. Other objects: TypeError.
graph::DeviceRef to_device_ref(nb::handle object);

// Arguments that are converted inside the bound function, where the conversion can throw the
// sentences of the specification.
struct DimLike {
  nb::handle object;
  graph::Dim get() const { return to_dim(object); }
};
struct ShapeLike {
  nb::handle object;
  graph::Shape get() const { return to_shape(object); }
};
struct DeviceLike {
  nb::handle object;
  graph::DeviceRef get() const { return to_device_ref(object); }
};

}  // namespace kiln::python

namespace nanobind::detail {

KILN_ANY_OBJECT_CASTER(kiln::python::DimLike, "kiln._core.graph.Dim | int | str")
KILN_ANY_OBJECT_CASTER(kiln::python::ShapeLike,
                       "collections.abc.Iterable[kiln._core.graph.Dim | int | str]")
KILN_ANY_OBJECT_CASTER(kiln::python::DeviceLike,
                       "kiln._core.graph.DeviceRef | kiln._core.driver.Device")

template <>
struct type_caster<kiln::graph::Dim> {
  NB_TYPE_CASTER(kiln::graph::Dim, const_name("kiln._core.graph.Dim"))
  static handle from_cpp(const kiln::graph::Dim& src, rv_policy, cleanup_list*) noexcept {
    return kiln::python::make_dim(src).release();
  }
};

template <>
struct type_caster<kiln::graph::Shape> {
  NB_TYPE_CASTER(kiln::graph::Shape, const_name("kiln.graph.Shape"))
  static handle from_cpp(const kiln::graph::Shape& src, rv_policy, cleanup_list*) noexcept {
    return kiln::python::make_shape(src).release();
  }
};

}  // namespace nanobind::detail
