#include "bindings.h"
#include "graph_casters.h"
#include "kiln/graph/dim.h"
#include "kiln/support/error.h"

namespace kiln::python {
namespace {

using graph::Dim;

constexpr const char* kOutOfRange = "Dim value must be -2**63 <= dim < 2**63";

constexpr const char* kNoIndex =
    "when using dims to index into a list or NumPy array, explicitly convert to int with int(dim)";

bool is_dim(nb::handle object) { return nb::isinstance<DimObject>(object); }
const Dim& dim_of(nb::handle object) { return nb::inst_ptr<DimObject>(object)->dim; }

bool is_integer(nb::handle object) {
  if (PyLong_Check(object.ptr())) return true;
  // NumPy's integers; its arrays have a length and floats no __index__.
  return PyIndex_Check(object.ptr()) && !is_dim(object) && !PySequence_Check(object.ptr());
}

Dim from_integer(nb::handle object) {
  nb::object number = nb::steal(PyNumber_Index(object.ptr()));
  if (!number.is_valid()) throw nb::python_error();
  const long long value = PyLong_AsLongLong(number.ptr());
  if (value == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    throw ValueError(kOutOfRange);
  }
  return Dim(value);
}

template <typename Object>
nb::object make_as(const Dim& dim) {
  return nb::cast(Object{{dim}});
}

/// A binary operation with a DimLike on the other side; NotImplemented for other operands.
template <typename Operation>
auto binary(Operation operation) {
  return [operation](const DimObject& self, Any other) -> nb::object {
    if (!is_dim_like(other)) return nb::borrow(Py_NotImplemented);
    return make_dim(operation(self.dim, to_dim(other)));
  };
}

template <typename Comparison>
auto ordered(Comparison comparison) {
  return [comparison](const DimObject& self, Any other) -> nb::object {
    if (!self.dim.is_static() || !is_dim_like(other)) return nb::borrow(Py_NotImplemented);
    const Dim dim = to_dim(other);
    if (!dim.is_static()) return nb::borrow(Py_NotImplemented);
    return nb::bool_(comparison(self.dim.value(), dim.value()));
  };
}

nb::object equal(const DimObject& self, Any other) {
  if (!is_dim_like(other)) return nb::borrow(Py_NotImplemented);
  try {
    return nb::bool_(self.dim == to_dim(other));
  } catch (const ValueError&) {
    return nb::bool_(false);  // a text that is no symbol, a number that is no dim
  }
}

Py_ssize_t hash(const DimObject& self) {
  // Equal to the hash of the int or str that the dim equals.
  if (self.dim.is_static()) return nb::hash(nb::int_(self.dim.value()));
  if (self.dim.is_symbolic()) return nb::hash(nb::str(self.dim.name().c_str()));
  return static_cast<Py_ssize_t>(self.dim.hash());
}

nb::object construct(Any value) {
  return is_dim(value) ? nb::borrow(value) : make_dim(to_dim(value));
}

/// A constructor of the subclass `Object`, which takes its own kind and one more.
template <typename Object, typename Accepts>
void def_constructor(nb::class_<Object, DimObject>& cls, const char* argument, const char* refusal,
                     Accepts accepts) {
  cls.def(nb::new_([refusal, accepts](Any value) -> nb::object {
            if (nb::isinstance<Object>(value)) return nb::borrow(value);
            if (is_dim(value) || !accepts(value)) throw TypeError(refusal + type_text(value));
            return make_dim(to_dim(value));
          }),
          nb::arg(argument));
}

/// How pickle builds a dim from simpler ones: an operator and its two operands.
nb::tuple reduce(const Dim& dim) {
  const auto call = [](const char* name, const Dim& a, const Dim& b) {
    return nb::make_tuple(nb::module_::import_("operator").attr(name),
                          nb::make_tuple(make_dim(a), make_dim(b)));
  };
  const auto dim_with = [](std::vector<graph::DimTerm> terms) {
    return Dim(graph::DimPolynomial{std::move(terms)});
  };
  std::vector<graph::DimTerm> terms = dim.terms();
  graph::DimTerm last = terms.back();
  if (terms.size() > 1) {
    terms.pop_back();
    return call("add", dim_with(std::move(terms)), dim_with({std::move(last)}));
  }
  if (last.coefficient != 1) return call("mul", dim_with({{1, last.atoms}}), last.coefficient);
  const graph::DimAtom atom = last.atoms.back();
  if (last.atoms.size() == 1) return call("floordiv", atom.numerator, atom.denominator);
  last.atoms.pop_back();
  return call("mul", dim_with({std::move(last)}), dim_with({{1, {atom}}}));
}

}  // namespace

nb::object make_dim(const Dim& dim) {
  switch (dim.kind()) {
    case Dim::Kind::static_:
      return make_as<StaticDimObject>(dim);
    case Dim::Kind::symbolic:
      return make_as<SymbolicDimObject>(dim);
    case Dim::Kind::algebraic:
      break;
  }
  return make_as<AlgebraicDimObject>(dim);
}

bool is_dim_like(nb::handle object) {
  return is_dim(object) || PyUnicode_Check(object.ptr()) || is_integer(object);
}

Dim to_dim(nb::handle object) {
  if (is_dim(object)) return dim_of(object);
  if (PyUnicode_Check(object.ptr())) return Dim(nb::cast<std::string_view>(object));
  if (is_integer(object)) return from_integer(object);
  throw TypeError("Unsupported dimension type " + str_of(object) + " (" + type_text(object) + ")");
}

graph::Shape to_shape(nb::handle iterable) {
  PyObject* iterator = PyObject_GetIter(iterable.ptr());
  if (!iterator) {
    PyErr_Clear();
    throw TypeError("a shape is a sequence of dims, not " + type_text(iterable));
  }
  nb::object owner = nb::steal(iterator);
  graph::Shape shape;
  while (PyObject* item = PyIter_Next(iterator)) shape.push_back(to_dim(nb::steal(item)));
  if (PyErr_Occurred()) throw nb::python_error();
  return shape;
}

nb::object make_shape(const graph::Shape& shape) {
  nb::object dims = nb::steal(PyList_New(shape.rank()));
  for (int i = 0; i < shape.rank(); ++i)
    PyList_SetItem(dims.ptr(), i, make_dim(shape[i]).release().ptr());
  return nb::module_::import_("kiln.graph.shape").attr("Shape")(dims);
}

void bind_graph_dim(nb::module_& m) {
  nb::class_<DimObject> dim(m, "Dim", nb::is_weak_referenceable(), R"(
One extent of a shape: a number, a symbol, or integer arithmetic over symbols in canonical form.

>>> from kiln.graph import Dim
>>> Dim(4) * 2, Dim("x") + 1 + 1 == Dim("x") + 2, (Dim("n") * "m") // "m"
(Dim(8), True, Dim('n')))");
  dim.def(nb::new_(&construct), nb::arg("value"));
  const auto add = binary([](const Dim& a, const Dim& b) { return a + b; });
  const auto subtract = binary([](const Dim& a, const Dim& b) { return a - b; });
  const auto multiply = binary([](const Dim& a, const Dim& b) { return a * b; });
  const auto divide = binary([](const Dim& a, const Dim& b) { return a.floor_div(b); });
  dim.def("__add__", add)
      .def("__radd__", add)
      .def("__sub__", subtract)
      .def("__rsub__", binary([](const Dim& a, const Dim& b) { return b - a; }))
      .def("__mul__", multiply)
      .def("__rmul__", multiply)
      .def("__floordiv__", divide)
      .def("__rfloordiv__", binary([](const Dim& a, const Dim& b) { return b.floor_div(a); }))
      .def("__neg__", [](const DimObject& d) { return make_dim(-d.dim); })
      .def("__eq__", &equal)
      .def("__lt__", ordered([](auto a, auto b) { return a < b; }))
      .def("__le__", ordered([](auto a, auto b) { return a <= b; }))
      .def("__gt__", ordered([](auto a, auto b) { return a > b; }))
      .def("__ge__", ordered([](auto a, auto b) { return a >= b; }))
      .def("__hash__", &hash)
      .def("__int__",
           [](const DimObject& d) {
             if (!d.dim.is_static())
               throw TypeError("int(" + d.dim.repr() +
                               "): Int conversions only supported for static dims");
             return d.dim.value();
           })
      .def("__index__", [](const DimObject&) -> std::int64_t { throw TypeError(kNoIndex); })
      .def("__array__",
           [](const DimObject&, nb::args, nb::kwargs) -> nb::object {
             throw TypeError(kNoIndex);  // what NumPy asks for when a dim indexes an array
           })
      .def("__str__", [](const DimObject& d) { return d.dim.to_string(); })
      .def("__repr__", [](const DimObject& d) { return d.dim.repr(); })
      .def("__copy__", [](nb::handle_t<DimObject> self) { return nb::borrow(self); })
      .def("__deepcopy__",
           [](nb::handle_t<DimObject> self, nb::handle) { return nb::borrow(self); })
      .def_prop_ro(
          "parameters",
          [](const DimObject& d) {
            nb::list symbols;
            for (const std::string& name : d.dim.parameters()) symbols.append(make_dim(Dim(name)));
            return symbols;
          },
          "The symbols this dim uses, in order of first use.");

  nb::class_<StaticDimObject, DimObject> static_dim(m, "StaticDim", "A known extent.");
  def_constructor(static_dim, "dim", "StaticDim.__init__ only accepts int or StaticDim, got ",
                  [](nb::handle h) { return is_integer(h); });
  static_dim.def_prop_ro(
      "dim", [](const StaticDimObject& d) { return d.dim.value(); }, "The extent.");
  static_dim.def("__reduce__", [](nb::handle_t<StaticDimObject> self) {
    return nb::make_tuple(self.type(), nb::make_tuple(dim_of(self).value()));
  });
  static_dim.attr("__match_args__") = nb::make_tuple("dim");

  nb::class_<SymbolicDimObject, DimObject> symbolic(m, "SymbolicDim", "An extent with a name.");
  def_constructor(symbolic, "name", "SymbolicDim.__init__ only accepts str or SymbolicDim, got ",
                  [](nb::handle h) { return PyUnicode_Check(h.ptr()) != 0; });
  symbolic.def_prop_ro(
      "name", [](const SymbolicDimObject& d) { return d.dim.name(); }, "The name.");
  symbolic.def("__reduce__", [](nb::handle_t<SymbolicDimObject> self) {
    return nb::make_tuple(self.type(), nb::make_tuple(dim_of(self).name()));
  });
  symbolic.attr("__match_args__") = nb::make_tuple("name");

  nb::class_<AlgebraicDimObject, DimObject> algebraic(
      m, "AlgebraicDim", "Arithmetic over symbols; made by operators on dims.");
  def_constructor(algebraic, "dim", "AlgebraicDim.__init__ only accepts an AlgebraicDim, got ",
                  [](nb::handle) { return false; });
  algebraic.def("__reduce__", [](const AlgebraicDimObject& d) { return reduce(d.dim); });
}

}  // namespace kiln::python
