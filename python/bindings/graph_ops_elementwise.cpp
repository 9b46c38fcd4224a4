#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "bindings.h"
#include "graph_values.h"
#include "kiln/graph/ops/elementwise.h"
#include "kiln/graph/ops/reduction.h"
#include "kiln/support/error.h"

namespace kiln::python {
namespace {

namespace ops = graph::ops;
using graph::TensorValue;
using graph::TensorValueLike;

using Unary = TensorValue (*)(const TensorValueLike&);
using Binary = TensorValue (*)(const TensorValueLike&, const TensorValueLike&);

void def_binary(nb::module_& m, const char* name, Binary op, const char* doc) {
  m.def(
      name, [op](ValueLike lhs, ValueLike rhs) { return op(lhs.get(), rhs.get()); }, nb::arg("lhs"),
      nb::arg("rhs"), doc);
}

void def_unary(nb::module_& m, const char* name, Unary op, const char* doc) {
  m.def(name, [op](ValueLike x) { return op(x.get()); }, nb::arg("x"), doc);
}

/// Elementwise of two tensors, a reduction of one.
template <typename Reduce>
void def_extremum(nb::module_& m, const char* name, Binary op, Reduce reduce, const char* doc) {
  m.def(
      name,
      [op, reduce, name](ValueLike x, Any y, std::optional<int> axis) {
        if (y.is_none()) return reduce(x.get(), axis.value_or(-1));
        if (axis) throw ValueError("Axis not allowed for elementwise " + std::string(name) + ".");
        return op(x.get(), to_value_like(y));
      },
      nb::arg("x"), nb::arg("y") = nb::none(), nb::arg("axis") = nb::none(),
      nb::sig((std::string("def ") + name +
               "(x: kiln.graph.TensorValueLike, y: kiln.graph.TensorValueLike | None = None, /, "
               "axis: int | None = None) -> TensorValue")
                  .c_str()),
      doc);
}

}  // namespace

void bind_ops_elementwise(nb::module_& m) {
  def_binary(m, "add", &ops::add, "The sum; operands promote and broadcast.");
  def_binary(m, "sub", &ops::sub, "The difference; operands promote and broadcast.");
  def_binary(m, "mul", &ops::mul, "The product; operands promote and broadcast.");
  def_binary(m, "div", &ops::div, "True division; two integers become float64 first.");
  def_binary(m, "floor_div", &ops::floor_div, "`floor(div(lhs, rhs))`.");
  def_binary(m, "mod", &ops::mod, "The remainder with the sign of the divisor.");
  def_binary(m, "pow", &ops::pow, "`lhs` to the power of `rhs`.");
  def_binary(m, "equal", &ops::equal, "Elementwise `==`, bool.");
  def_binary(m, "not_equal", &ops::not_equal, "Elementwise `!=`, bool.");
  def_binary(m, "greater", &ops::greater, "Elementwise `>`, bool.");
  def_binary(m, "greater_equal", &ops::greater_equal, "Elementwise `>=`, bool.");
  def_binary(m, "logical_and", &ops::logical_and, "Elementwise and of bools.");
  def_binary(m, "logical_or", &ops::logical_or, "Elementwise or of bools.");
  def_binary(m, "logical_xor", &ops::logical_xor, "Elementwise exclusive or of bools.");
  def_extremum(
      m, "max", &ops::max,
      [](const TensorValueLike& x, int axis) {
        return ops::max(x, ops::AxisOptions{.axis = axis});
      },
      "The larger of two tensors, or the maximum along an axis; NaN wins.");
  def_extremum(
      m, "min", &ops::min,
      [](const TensorValueLike& x, int axis) {
        return ops::min(x, ops::AxisOptions{.axis = axis});
      },
      "The smaller of two tensors, or the minimum along an axis; NaN wins.");

  def_unary(m, "abs", &ops::abs, "Absolute value.");
  def_unary(m, "negate", &ops::negate, "The negative.");
  def_unary(m, "relu", &ops::relu, "`max(x, 0)`.");
  def_unary(m, "ceil", &ops::ceil, "Rounded up.");
  def_unary(m, "floor", &ops::floor, "Rounded down.");
  def_unary(m, "trunc", &ops::trunc, "Rounded toward zero.");
  def_unary(m, "round", &ops::round, "Rounded to nearest, halves to even.");
  def_unary(m, "exp", &ops::exp, "The exponential.");
  def_unary(m, "log", &ops::log, "The natural logarithm.");
  def_unary(m, "log1p", &ops::log1p, "`log(1 + x)`, accurate near 0.");
  def_unary(m, "sqrt", &ops::sqrt, "The square root.");
  def_unary(m, "rsqrt", &ops::rsqrt, "`1 / sqrt(x)`.");
  def_unary(m, "sin", &ops::sin, "The sine of radians.");
  def_unary(m, "cos", &ops::cos, "The cosine of radians.");
  def_unary(m, "erf", &ops::erf, "The error function.");
  def_unary(m, "tanh", &ops::tanh, "The hyperbolic tangent.");
  def_unary(m, "atanh", &ops::atanh, "The inverse hyperbolic tangent.");
  def_unary(m, "acos", &ops::acos, "The inverse cosine of the argument clamped to [-1, 1].");
  def_unary(m, "sigmoid", &ops::sigmoid, "`1 / (1 + exp(-x))`.");
  def_unary(m, "silu", &ops::silu, "`x * sigmoid(x)`.");
  def_unary(m, "is_nan", &ops::is_nan, "Whether elements are NaN.");
  def_unary(m, "is_inf", &ops::is_inf, "Whether elements are infinite.");
  def_unary(m, "logical_not", &ops::logical_not, "Elementwise not of bools.");
  m.def(
      "gelu",
      [](ValueLike x, const std::string& approximate) { return ops::gelu(x.get(), approximate); },
      nb::arg("x"), nb::arg("approximate") = "none",
      "The Gaussian error linear unit; `approximate` is 'none', 'tanh' or 'quick'.");
  m.def(
      "cast",
      [](ValueLike x, DType dtype) {
        return nb::typed<nb::object, graph::TensorValue>(
            same_or_new(x.object, ops::cast(x.get(), dtype)));
      },
      nb::arg("x"), nb::arg("dtype"), "Conversion; the same dtype gives the same value.");
  m.def(
      "where",
      [](ValueLike condition, ValueLike x, ValueLike y) {
        return ops::where(condition.get(), x.get(), y.get());
      },
      nb::arg("condition"), nb::arg("x"), nb::arg("y"),
      "Elementwise choice; `x` and `y` promote, all three broadcast.");
}

}  // namespace kiln::python
