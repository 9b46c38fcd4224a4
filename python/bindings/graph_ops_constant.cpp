#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "bindings.h"
#include "driver_casters.h"
#include "graph_values.h"
#include "kiln/graph/ops/constant.h"
#include "kiln/support/error.h"

namespace kiln::python {
namespace {

namespace ops = graph::ops;
using graph::TensorValue;

std::optional<graph::DeviceRef> to_optional_device(nb::handle device) {
  return device.is_none() ? std::nullopt : std::optional(to_device_ref(device));
}

TensorValue constant(Any value, std::optional<DType> dtype, Any device) {
  const ops::ConstantOptions options{.dtype = dtype, .device = to_optional_device(device)};
  if (is_ndarray(value)) return ops::constant(to_array(value), options);
  if (!is_number(value) && is_dlpack_producer(value))
    return ops::constant(buffer_from_dlpack(value, std::nullopt), options);
  const bool is_list = PyList_Check(value.ptr()) || PyTuple_Check(value.ptr());
  if (!is_list && !is_number(value))
    throw TypeError(
        "A constant is made from numbers, nested lists of numbers or arrays, not from " +
        type_text(value) + ".");
  if (!dtype || !options.device)
    throw TypeError("Literal constants must explicitly set a dtype and device.");
  return ops::constant(to_literal(value), *dtype, *options.device);
}

}  // namespace

graph::ops::Literal to_literal(nb::handle object, int depth) {
  if (!PyList_Check(object.ptr()) && !PyTuple_Check(object.ptr())) return to_scalar(object);
  if (depth == graph::kMaxRank)
    throw ValueError("A tensor has at most " + std::to_string(graph::kMaxRank) +
                     " axes, but the lists of these values lie deeper in one another.");
  std::vector<graph::ops::Literal> items;
  for (nb::handle item : nb::iter(object)) items.push_back(to_literal(item, depth + 1));
  return graph::ops::Literal(std::move(items));
}

void bind_ops_constant(nb::module_& m) {
  m.def("constant", &constant, nb::arg("value"), nb::arg("dtype") = nb::none(),
        nb::arg("device") = nb::none(), R"(
A tensor that holds numbers or the elements of an array.

>>> from kiln.driver import CPU
>>> from kiln.dtype import DType
>>> from kiln.graph import Graph, ops
>>> with Graph("g"):
...     ops.constant([[1, 2], [3, 4]], DType.float32, CPU()).shape
[Dim(2), Dim(2)])");
  m.def(
      "constant_external",
      [](const std::string& name, const TensorTypeObject& type, std::optional<std::int64_t> align,
         std::optional<bool> is_placeholder) {
        return ops::constant_external(name, type.type.tensor(),
                                      {.align = align, .is_placeholder = is_placeholder});
      },
      nb::arg("name"), nb::arg("type"), nb::arg("align") = nb::none(),
      nb::arg("is_placeholder") = nb::none(),
      "A named weight, resolved when the model is initialised.");
  m.def(
      "hann_window",
      [](Any window_length, DeviceLike device, bool periodic, DType dtype) {
        if (!PyIndex_Check(window_length.ptr()) || nb::isinstance<DimObject>(window_length))
          throw TypeError("window_length must be an integer, got " + type_text(window_length));
        return ops::hann_window(to_dim(window_length).value(), device.get(),
                                {.periodic = periodic, .dtype = dtype});
      },
      nb::arg("window_length"), nb::arg("device"), nb::arg("periodic") = true,
      nb::arg("dtype") = DType(DType::float32), "`0.5 - 0.5 * cos(2 * pi * i / M)`.");
  m.def(
      "shape_to_tensor", [](ShapeLike shape) { return ops::shape_to_tensor(shape.get()); },
      nb::arg("shape"), "The extents at run time, an int64 vector on the CPU.");
  m.def(
      "range",
      [](ValueLike start, ValueLike stop, ValueLike step, Any out_dim, DType dtype,
         DeviceLike device) {
        // A bound may be named like a dim.
        const auto bound = [](ValueLike value) -> graph::TensorValueLike {
          if (PyUnicode_Check(value.object.ptr())) return to_dim(value.object);
          return value.get();
        };
        return ops::range(
            bound(start), bound(stop), bound(step), dtype, device.get(),
            {.out_dim = out_dim.is_none() ? std::nullopt : std::optional(to_dim(out_dim))});
      },
      nb::arg("start"), nb::arg("stop"), nb::arg("step") = 1, nb::arg("out_dim") = nb::none(),
      nb::kw_only(), nb::arg("dtype"), nb::arg("device"),
      "`start + i * step` up to but without `stop`.");
}

}  // namespace kiln::python
