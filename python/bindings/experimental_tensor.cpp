// The class Tensor.

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "driver_casters.h"
#include "experimental_call.h"
#include "graph_casters.h"
#include "graph_values.h"
#include "kiln/experimental/functional.h"
#include "kiln/graph/ops.h"
#include "kiln/support/error.h"

namespace kiln::python {
namespace {

using experimental::Tensor;
using experimental::TensorOptions;

using TensorObject = nb::typed<nb::object, Tensor>;

PyTypeObject* tensor_class = nullptr;

driver::Device to_device(nb::handle object) {
  if (is_device(object)) return nb::inst_ptr<DeviceObject>(object)->device;
  return to_device_ref(object).to_device();
}

/// The layout that `like` means, which is a tensor, a layout or a type.
experimental::TensorLayout to_like(nb::handle like) {
  if (is_tensor(like)) return tensor_of(like).layout();
  if (nb::isinstance<experimental::TensorLayout>(like))
    return *nb::inst_ptr<experimental::TensorLayout>(like);
  if (nb::isinstance<TypeObject>(like))
    return experimental::as_layout(graph::Type(nb::inst_ptr<TypeObject>(like)->type.tensor()));
  throw TypeError("Expected a Tensor or a TensorType to be like, not " + type_text(like) + ".");
}

/// A new tensor where the options say, when that is more than a device.
Tensor placed_as(const TensorOptions& options, Tensor made) {
  return options.device ? made.to(*options.device) : made;
}

Tensor from_array(nb::handle data, const TensorOptions& options) {
  const graph::ops::ConstantOptions constant{
      .dtype = options.dtype,
      .device = options.device
                    ? std::optional(graph::DeviceRef(options.device->mapping().mesh().devices()[0]))
                    : std::nullopt};
  if (experimental::in_graph_context()) {
    if (is_ndarray(data))
      return placed_as(options,
                       Tensor::from_graph_value(graph::ops::constant(to_array(data), constant)));
    return placed_as(options, Tensor::from_graph_value(graph::ops::constant(
                                  buffer_from_dlpack(data, std::nullopt), constant)));
  }
  driver::Buffer buffer =
      is_ndarray(data) ? buffer_from_numpy(data) : buffer_from_dlpack(data, std::nullopt);
  if (options.dtype && *options.dtype != buffer.dtype())
    throw ValueError("DType must match input dtype: dtype=" + options.dtype->to_string() +
                     " != value.dtype=" + buffer.dtype().to_string());
  if (!options.device) return Tensor(std::move(buffer));
  ReleaseGil release;
  return Tensor(std::move(buffer)).to(*options.device);
}

Tensor make(nb::handle data, nb::handle dtype, nb::handle device) {
  if (data.is_none()) {
    if (!dtype.is_none() || !device.is_none())
      throw TypeError("'dtype' and 'device' are only valid when 'data' is provided.");
    throw TypeError("Tensor() needs data: a number, a nested list of numbers or an array.");
  }
  const TensorOptions options = to_options(dtype, device);
  if (is_tensor(data)) {
    const Tensor& tensor = tensor_of(data);
    if (options.dtype && *options.dtype != tensor.dtype())
      throw ValueError("DType must match input dtype: dtype=" + options.dtype->to_string() +
                       " != value.dtype=" + tensor.dtype().to_string());
    return options.device ? tensor.to(*options.device) : tensor;
  }
  if (!is_number(data) && (is_ndarray(data) || is_dlpack_producer(data)))
    return from_array(data, options);
  if (!is_number(data) && !PyList_Check(data.ptr()) && !PyTuple_Check(data.ptr()))
    throw TypeError("A Tensor is made of a number, a nested list of numbers or an array, not of " +
                    type_text(data) + ".");
  return Tensor(to_literal(data), options);
}

Tensor from_dlpack(nb::handle array) {
  if (is_tensor(array)) return tensor_of(array);
  if (!is_ndarray(array) && !is_dlpack_producer(array))
    throw TypeError(
        "Tensor.from_dlpack takes an array with __dlpack__ and __dlpack_device__, not " +
        type_text(array) + ".");
  return Tensor(buffer_from_dlpack(array, std::nullopt));
}

/// Computes the tensor without holding up other threads.
void realize(const Tensor& tensor, const char* what) {
  if (tensor.real()) return;
  ReleaseGil release;
  tensor.realize(what);
}

nb::object to_numpy(const Tensor& tensor) {
  realize(tensor, "to_numpy");
  Tensor host;
  {
    ReleaseGil release;
    host = tensor.materialize();
  }
  return make_buffer(host.driver_tensor()).attr("to_numpy")();
}

/// An operator: another object than a tensor, a number or an array is Python's business.
auto binary(LiftedName function, bool swap) {
  return [function, swap](nb::handle_t<Tensor> self, Any other) -> TensorObject {
    if (!is_tensor(other) && !is_value_like(other))
      return TensorObject(nb::borrow(Py_NotImplemented));
    return TensorObject(swap ? function(other, self) : function(self, other));
  };
}

auto comparison(const char* symbol, LiftedName function, bool swap) {
  return [symbol, function, swap](nb::handle_t<Tensor> self, Any other) -> TensorObject {
    if (!is_tensor(other) && !is_value_like(other))
      throw TypeError("'" + std::string(symbol) +
                      "' not supported between instance of 'Tensor' and '" +
                      nb::cast<std::string>(other.type().attr("__name__")) + "'");
    return TensorObject(swap ? function(other, self) : function(self, other));
  };
}

void def_operators(nb::class_<Tensor>& cls) {
  const auto both = [&](const char* symbol, const char* reversed, const char* name) {
    cls.def(symbol, binary(name, false)).def(reversed, binary(name, true));
  };
  both("__add__", "__radd__", "add");
  both("__sub__", "__rsub__", "sub");
  both("__mul__", "__rmul__", "mul");
  both("__truediv__", "__rtruediv__", "div");
  both("__floordiv__", "__rfloordiv__", "floor_div");
  both("__mod__", "__rmod__", "mod");
  both("__pow__", "__rpow__", "pow");
  both("__matmul__", "__rmatmul__", "matmul");
  both("__and__", "__rand__", "logical_and");
  both("__or__", "__ror__", "logical_or");
  both("__xor__", "__rxor__", "logical_xor");
  cls.def("__eq__", comparison("==", "equal", false))
      .def("__ne__", comparison("!=", "not_equal", false))
      .def("__gt__", comparison(">", "greater", false))
      .def("__ge__", comparison(">=", "greater_equal", false))
      .def("__lt__", comparison("<", "greater", true))
      .def("__le__", comparison("<=", "greater_equal", true));
  const auto unary = [&](const char* symbol, const char* name) {
    cls.def(symbol, [function = LiftedName(name)](nb::handle_t<Tensor> self) {
      return TensorObject(function(self));
    });
  };
  unary("__neg__", "negate");
  unary("__invert__", "logical_not");
  unary("__abs__", "abs");
  unary("__round__", "round");
  // NumPy leaves operators with a tensor on the right to the tensor.
  cls.attr("__array_ufunc__") = nb::none();
}

/// Reductions: without an axis over all elements.
template <typename Call>
auto reduction(Call call) {
  return [call](nb::handle_t<Tensor> self, Any axis) -> nb::object {
    if (!axis.is_none()) return call(self, axis);
    nb::list all;
    all.append(-1);
    static const LiftedName reshape("reshape");
    const nb::object flat = reshape(self, all);
    return call(flat, nb::int_(0));
  };
}

void def_reductions(nb::class_<Tensor>& cls) {
  const auto def = [&](const char* name, const char* doc) {
    cls.def(
        name, reduction([function = LiftedName(name)](nb::handle x, nb::handle axis) {
          return function(x, axis);
        }),
        nb::arg("axis") = -1,
        nb::sig(("def " + std::string(name) + "(self, axis: int | None = -1) -> Tensor").c_str()),
        doc);
  };
  def("sum", "The sum along an axis, which stays with size 1; `None`: of everything, `[1]`.");
  def("mean", "The mean along an axis, as `sum`.");
  def("prod", "The product along an axis, as `sum`.");
  def("argmax", "The index of the first maximum along an axis, as `sum`.");
  for (const char* name : {"max", "min"})
    cls.def(
        name, reduction([function = LiftedName(name)](nb::handle x, nb::handle axis) {
          return function(x, nb::none(), axis);
        }),
        nb::arg("axis") = -1,
        nb::sig(("def " + std::string(name) + "(self, axis: int | None = -1) -> Tensor").c_str()),
        "The extremum along an axis, as `sum`; NaN wins.");
}

/// The sizes of the pieces that `split` makes.
nb::object split_sizes(const Tensor& tensor, nb::handle size_or_sections, int axis) {
  if (!PyLong_Check(size_or_sections.ptr())) return nb::borrow(size_or_sections);
  const graph::Shape shape = tensor.shape();
  const int rank = shape.rank();
  if (axis < -rank || axis >= rank)
    throw IndexError("Axis " + std::to_string(axis) + " is out of range for a tensor of rank " +
                     std::to_string(rank) + ".");
  const graph::Dim& dim = shape[axis < 0 ? axis + rank : axis];
  if (!dim.is_static())
    throw ValueError("split into pieces of one size needs an axis whose size is known, but it is " +
                     dim.to_string() + ". Give the list of the sizes.");
  const auto piece = checked_integer<std::int64_t>(size_or_sections, "The size of a piece", 1);
  nb::list sizes;
  for (std::int64_t left = dim.value(); left > 0; left -= piece)
    sizes.append(std::min(left, piece));
  return sizes;
}

void def_methods(nb::class_<Tensor>& cls) {
  const auto with_one = [&](const char* name, const char* parameter, const char* sig,
                            const char* doc) {
    cls.def(
        name,
        [function = LiftedName(name)](nb::handle_t<Tensor> self, Any argument) {
          return function(self, argument);
        },
        nb::arg(parameter), nb::sig(sig), doc);
  };
  with_one("cast", "dtype", "def cast(self, dtype: kiln._core.dtype.DType) -> Tensor",
           "Conversion; to its own dtype: itself.");
  with_one("reshape", "shape",
           "def reshape(self, shape: collections.abc.Iterable[kiln._core.graph.Dim | int | str]) "
           "-> Tensor",
           "As `F.reshape`.");
  with_one("broadcast_to", "shape",
           "def broadcast_to(self, shape: collections.abc.Iterable[kiln._core.graph.Dim | int | "
           "str]) -> Tensor",
           "As `F.broadcast_to`.");
  with_one("permute", "dims", "def permute(self, dims: collections.abc.Sequence[int]) -> Tensor",
           "As `F.permute`.");
  with_one("squeeze", "axis", "def squeeze(self, axis: int) -> Tensor", "As `F.squeeze`.");
  with_one("unsqueeze", "axis", "def unsqueeze(self, axis: int) -> Tensor", "As `F.unsqueeze`.");
  cls.def(
         "transpose",
         [function = LiftedName("transpose")](nb::handle_t<Tensor> self, Any dim_1, Any dim_2) {
           return function(self, dim_1, dim_2);
         },
         nb::arg("dim_1"), nb::arg("dim_2"),
         nb::sig("def transpose(self, dim_1: int, dim_2: int) -> Tensor"), "As `F.transpose`.")
      .def_prop_ro(
          "T",
          [function = LiftedName("transpose")](nb::handle_t<Tensor> self) {
            return function(self, nb::int_(-2), nb::int_(-1));
          },
          nb::sig("def T(self) -> Tensor"), "The last two axes swapped.")
      .def(
          "clip",
          [function = LiftedName("clip")](nb::handle_t<Tensor> self, Any min, Any max) {
            return function(self, min, max);
          },
          nb::kw_only(), nb::arg("min") = nb::none(), nb::arg("max") = nb::none(), "As `F.clip`.")
      .def(
          "split",
          [function = LiftedName("split")](nb::handle_t<Tensor> self, Any size_or_sections,
                                           int axis) {
            return function(self, split_sizes(tensor_of(self), size_or_sections, axis),
                            nb::int_(axis));
          },
          nb::arg("size_or_sections"), nb::arg("axis") = 0,
          nb::sig("def split(self, size_or_sections: int | collections.abc.Sequence[int], axis: "
                  "int = 0) -> list[Tensor]"),
          "Pieces of one size, the last of which may be smaller, or of the sizes that are listed.")
      .def("__getitem__",
           [function = LiftedName("getitem")](nb::handle_t<Tensor> self, Any key) {
             return TensorObject(function(self, key));
           })
      .def(
          "__setitem__",
          [function = LiftedName("setitem")](nb::handle_t<Tensor> self, Any key, Any value) {
            if (!is_tensor(value))
              throw TypeError(
                  "__setitem__ requires a Tensor value; use Buffer indexing for scalar writes.");
            function(self, key, value);
          },
          nb::sig("def __setitem__(self, key: object, value: Tensor, /) -> None"));
  const auto refuse = [&](const char* name, const char* what) {
    cls.def(name, [what](const Tensor& t, nb::args) -> bool {
      throw TypeError("A tensor of shape " + t.shape().repr() + " " + what);
    });
  };
  refuse("__iter__", "is not iterable; index it, or take its parts with split.");
  refuse("__contains__", "is not a container; compare it with `==`.");
}

void def_makers(nb::class_<Tensor>& cls) {
  cls.def_static(
         "from_dlpack", [](Any array) { return from_dlpack(array); }, nb::arg("array"),
         "An array's elements, which are shared; a Tensor gives itself.")
      .def_static(
          "full",
          [](ShapeLike shape, Number value, Any dtype, Any device) {
            return Tensor::full(shape.get(), to_scalar(value.object), to_options(dtype, device));
          },
          nb::arg("shape"), nb::arg("value"), nb::kw_only(), nb::arg("dtype") = nb::none(),
          nb::arg("device") = nb::none(), "One number everywhere.")
      .def_static(
          "zeros",
          [](ShapeLike shape, Any dtype, Any device) {
            return Tensor::zeros(shape.get(), to_options(dtype, device));
          },
          nb::arg("shape"), nb::kw_only(), nb::arg("dtype") = nb::none(),
          nb::arg("device") = nb::none(), "0 everywhere.")
      .def_static(
          "ones",
          [](ShapeLike shape, Any dtype, Any device) {
            return Tensor::ones(shape.get(), to_options(dtype, device));
          },
          nb::arg("shape"), nb::kw_only(), nb::arg("dtype") = nb::none(),
          nb::arg("device") = nb::none(), "1 everywhere.")
      .def_static(
          "full_like",
          [](Any like, Number value) {
            return Tensor::full_like(to_like(like), to_scalar(value.object));
          },
          nb::arg("like"), nb::arg("value"), "One number, with the type of a tensor or a type.")
      .def_static(
          "zeros_like", [](Any like) { return Tensor::full_like(to_like(like), 0); },
          nb::arg("like"), "0, with the type of a tensor or a type.")
      .def_static(
          "ones_like", [](Any like) { return Tensor::full_like(to_like(like), 1); },
          nb::arg("like"), "1, with the type of a tensor or a type.")
      .def_static(
          "arange",
          [](Any start, Any stop, Any step, Any out_dim, Any dtype, Any device) {
            const TensorOptions options = to_options(dtype, device);
            const auto [of, on] = experimental::defaults(options);
            nb::dict keywords;
            keywords["dtype"] = nb::cast(of);
            keywords["device"] = nb::cast(on);
            keywords["out_dim"] = nb::borrow(out_dim);
            const nb::object zero = nb::int_(0);
            PyObject* const bounds[] = {stop.is_none() ? zero.ptr() : start.ptr(),
                                        stop.is_none() ? start.ptr() : stop.ptr(), step.ptr()};
            static const LiftedName range("range");
            const nb::object made = range.function()(bounds, keywords.ptr());
            return make_tensor(placed_as(options, tensor_of(made)));
          },
          nb::arg("start") = 0, nb::arg("stop") = nb::none(), nb::arg("step") = 1,
          nb::arg("out_dim") = nb::none(), nb::kw_only(), nb::arg("dtype") = nb::none(),
          nb::arg("device") = nb::none(),
          "`start + i * step` up to but without `stop`; one argument is the stop.")
      .def_static(
          "range_like",
          [](Any like) {
            const experimental::TensorLayout layout = to_like(like);
            const graph::TensorType type(layout.dtype(), layout.shape(),
                                         layout.mesh().devices()[0]);
            return Tensor::range_like(type).to(layout.mapping());
          },
          nb::arg("type"), "0 … n-1 along the last axis, broadcast to the type.")
      .def_static(
          "from_dim", [](DimLike dim) { return Tensor::from_dim(dim.get()); }, nb::arg("dim"),
          "The size as an int64 scalar on the CPU.")
      .def_static(
          "from_graph_value",
          [](Any value) {
            if (!nb::isinstance<graph::Value>(value))
              throw TypeError("Tensor.from_graph_value takes a TensorValue or a BufferValue, not " +
                              type_text(value) + ".");
            return Tensor::from_graph_value(*nb::inst_ptr<graph::Value>(value));
          },
          nb::arg("value"), "A value of the current graph.")
      .def_static(
          "from_shard_values",
          [](nb::iterable values, std::optional<experimental::DeviceMapping> mapping) {
            std::vector<graph::Value> list;
            for (nb::handle value : values) {
              if (!nb::isinstance<graph::Value>(value))
                throw TypeError("Tensor.from_shard_values takes values of a graph, not " +
                                type_text(value) + ".");
              list.push_back(*nb::inst_ptr<graph::Value>(value));
            }
            return Tensor::from_shard_values(list, mapping);
          },
          nb::arg("values"), nb::arg("mapping") = nb::none(),
          "One value of the current graph for each device of a mapping.")
      .def_static(
          "_from_shards",
          [](const std::vector<Tensor>& shards, const experimental::DeviceMapping& mapping) {
            return Tensor::from_shards(shards, mapping);
          },
          nb::arg("shards"), nb::arg("mapping"), "Tensors on one device each as one.")
      .def_static(
          "constant", [](Any value, Any dtype, Any device) { return make(value, dtype, device); },
          nb::arg("value"), nb::kw_only(), nb::arg("dtype") = nb::none(),
          nb::arg("device") = nb::none(), "As the constructor, which is to be preferred.");
}

void def_values(nb::class_<Tensor>& cls) {
  cls.def_prop_ro("shape", &Tensor::shape, "Its dims.")
      .def_prop_ro("rank", &Tensor::rank, "Number of dims.")
      .def_prop_ro("dtype", &Tensor::dtype, "Element type.")
      .def_prop_ro("device", &Tensor::device, "Where it lies.")
      .def_prop_ro(
          "type", [](const Tensor& t) { return make_type(graph::Type(t.type())); },
          nb::sig("def type(self) -> kiln._core.graph.TensorType"), "Its graph type.")
      .def_prop_ro("layout", &Tensor::layout, "Its dtype, shape and placement.")
      .def_prop_ro("mapping", &Tensor::mapping, "Where it lives.")
      .def_prop_ro("mesh", &Tensor::mesh, "The devices that it lives on.")
      .def_prop_ro(
          "placements",
          [](const Tensor& t) {
            return nb::typed<nb::tuple, experimental::Placement, nb::ellipsis>(
                nb::tuple(nb::cast(t.placements())));
          },
          "What each device along each mesh axis holds.")
      .def_prop_ro("num_shards", &Tensor::num_shards, "On how many devices it lives.")
      .def_prop_ro("is_distributed", &Tensor::is_distributed, "Whether these are several.")
      .def_prop_ro("local_shards", &Tensor::local_shards,
                   "What each device holds, in mesh order; memory is shared.")
      .def_prop_ro(
          "buffers",
          [](const Tensor& t) {
            nb::typed<nb::list, driver::Buffer> buffers;
            for (const driver::Buffer& buffer : t.buffers()) buffers.append(make_buffer(buffer));
            return buffers;
          },
          "The memory of each shard. Unrealised: TypeError.")
      .def_prop_ro("real", &Tensor::real, "Whether its elements are in memory.")
      .def_prop_ro(
          "driver_tensor", [](const Tensor& t) { return make_buffer(t.driver_tensor()); },
          nb::sig("def driver_tensor(self) -> kiln._core.driver.Buffer"),
          "Its memory. Unrealised: TypeError.")
      .def_prop_ro("external_name", &Tensor::external_name,
                   "The name of the weight that it stands for, or None.")
      .def("num_elements", &Tensor::num_elements, "How many elements it has.")
      .def(
          "item",
          [](const Tensor& t) {
            realize(t, "item");
            return make_number(t.item());
          },
          nb::sig("def item(self) -> typing.Any"),
          "The one element as a number; several or none: TypeError.")
      .def("__bool__",
           [](const Tensor& t) {
             realize(t, "bool");
             return static_cast<bool>(t);
           })
      .def(
          "to",
          [](nb::handle_t<Tensor> self, Any target) {
            if (!is_layout_device(target))
              throw TypeError("to() expects Device, DeviceMesh, or DeviceMapping, got " +
                              nb::cast<std::string>(target.type().attr("__name__")));
            const experimental::LayoutDevice where = LayoutDeviceLike{target}.get();
            // Without the GIL nobody knows the line that asks for it.
            const graph::LocationScope at(where.is_plain() && !tensor_of(self).is_distributed()
                                              ? nullptr
                                              : graph::current_location());
            return same_or_new(self, without_gil([&] { return tensor_of(self).to(where); }));
          },
          nb::arg("target"),
          nb::sig("def to(self, target: kiln._core.driver.Device | kiln._core.graph.DeviceRef | "
                  "DeviceMesh | DeviceMapping) -> Tensor"),
          "On a device, a mesh, each of whose devices gets a copy, or as a mapping says; where it "
          "is already: itself.")
      .def(
          "rebind_mapping",
          [](nb::handle_t<Tensor> self, const experimental::DeviceMapping& mapping) {
            return same_or_new(self, tensor_of(self).rebind_mapping(mapping));
          },
          nb::arg("mapping"), nb::sig("def rebind_mapping(self, mapping: DeviceMapping) -> Tensor"),
          "The same shards under another relation, for which no data moves.")
      .def(
          "materialize",
          [](nb::handle_t<Tensor> self) {
            return same_or_new(self, without_gil([&] { return tensor_of(self).materialize(); }));
          },
          nb::sig("def materialize(self) -> Tensor"), "Real, whole and on the CPU.")
      .def("to_numpy", &to_numpy, nb::sig("def to_numpy(self) -> typing.Any"),
           "A NumPy array of the elements, which are shared when they are on the CPU.")
      .def_prop_ro(
          "realize",
          [](nb::handle_t<Tensor> self) {
            realize(tensor_of(self), "realize");
            return nb::module_::import_("kiln.experimental.tensor").attr("_Realized")(self);
          },
          nb::sig("def realize(self) -> collections.abc.Awaitable[Tensor]"),
          "Computes it; `await t.realize` gives the tensor.")
      .def(
          "__array__",
          [](const Tensor& t, Any dtype, Any copy) {
            return nb::object(to_numpy(t).attr("__array__")(nb::handle(dtype),
                                                            nb::arg("copy") = nb::handle(copy)));
          },
          nb::arg("dtype") = nb::none(), nb::arg("copy") = nb::none(),
          nb::sig("def __array__(self, dtype: object | None = None, copy: bool | None = None) -> "
                  "typing.Any"),
          "As `to_numpy`, for `numpy.asarray`; `copy` and `dtype` as NumPy has them.")
      .def("__dlpack__",
           [](const Tensor& t, nb::kwargs keywords) {
             realize(t, "__dlpack__");
             return make_buffer(t.driver_tensor()).attr("__dlpack__")(**keywords);
           })
      .def("__dlpack_device__",
           [](const Tensor& t) {
             realize(t, "__dlpack_device__");
             return make_buffer(t.driver_tensor()).attr("__dlpack_device__")();
           })
      .def_prop_ro(
          "graph_values",
          [](const Tensor& t) {
            nb::typed<nb::list, graph::Value> values;
            for (const graph::Value& value : t.graph_values()) values.append(make_value(value));
            return values;
          },
          "Its value in the graph that it is a part of, one for each device. Real: TypeError.")
      .def("_name_weight", &Tensor::set_external_name, nb::arg("name"),
           "Says which weight it stands for.")
      .def("_name_argument", &Tensor::name_argument, nb::arg("route"),
           "Has a write say that the argument at `route` was staged as a tensor.")
      .def("__tensorvalue__", [](const Tensor& t) { return make_value(t.tensorvalue()); })
      .def("__buffervalue__", [](const Tensor& t) { return make_value(t.buffervalue()); })
      .def("__hash__",
           [](const Tensor& t) {
             return static_cast<Py_ssize_t>(std::hash<const void*>()(t.state().get()) >> 4);
           })
      .def("__deepcopy__", [](nb::handle_t<Tensor> self, Any) { return nb::borrow(self); })
      .def("__repr__", [](const Tensor& t) { return t.to_string(); });
}

}  // namespace

TensorOptions to_options(nb::handle dtype, nb::handle device) {
  TensorOptions options;
  if (!dtype.is_none()) {
    if (!is_dtype(dtype))
      throw TypeError("dtype must be a kiln.dtype.DType, not " + type_text(dtype) + ".");
    options.dtype = nb::inst_ptr<DTypeObject>(dtype)->dtype;
  }
  if (is_layout_device(device))
    options.device = LayoutDeviceLike{device}.get();
  else if (!device.is_none())
    options.device = to_device(device);
  return options;
}

nb::object make_tensor(Tensor tensor) { return nb::cast(std::move(tensor)); }
nb::object same_or_new(nb::handle object, Tensor result) {
  return tensor_of(object).is(result) ? nb::borrow(object) : make_tensor(std::move(result));
}
bool is_tensor(nb::handle object) {
  return (Py_TYPE(object.ptr()) == tensor_class || nb::isinstance<Tensor>(object)) &&
         nb::inst_ready(object);
}

void bind_experimental_tensor(nb::module_& m) {
  nb::class_<Tensor> cls(m, "Tensor", nb::is_weak_referenceable(), R"(
An array that computes at once.

>>> from kiln.experimental.tensor import Tensor
>>> x = Tensor([[1, 2], [3, 4]])
>>> x * 2 + 1
Tensor([3 5
 7 9], dtype=DType.float32, device=Device(type=cpu,id=0)))");
  tensor_class = reinterpret_cast<PyTypeObject*>(cls.ptr());
  cls.def(
      "__init__",
      [](Tensor* self, Any data, Any dtype, Any device) {
        new (self) Tensor(make(data, dtype, device));
      },
      nb::arg("data") = nb::none(), nb::kw_only(), nb::arg("dtype") = nb::none(),
      nb::arg("device") = nb::none());
  def_makers(cls);
  def_values(cls);
  def_reductions(cls);
  def_methods(cls);
  def_operators(cls);
}

}  // namespace kiln::python
