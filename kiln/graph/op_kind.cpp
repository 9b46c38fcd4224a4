#include "kiln/graph/op_kind.h"

#include "kiln/graph/op_info.h"
#include "kiln/support/error.h"

namespace kiln::graph {
namespace {

using A = AttributeKind;
using K = OpKind;

std::vector<OpInfo> make_table() {
  std::vector<OpInfo> t;
  auto add = [&](OpInfo info) { t.push_back(std::move(info)); };
  auto binary = [&](K k, std::string_view name) { add({k, name, 2, 2, "lhs rhs"}); };
  auto unary = [&](K k, std::string_view name) { add({k, name, 1, 1, "x"}); };
  auto with_axis = [&](K k, std::string_view name) {
    add({k, name, 1, 1, "x", {{"axis", A::integer}}});
  };

  add({K::output, "output", 0, -1, ""});
  add({K::yield, "yield", 0, -1, ""});
  add({K::condition, "condition", 1, -1, "predicate"});
  add({K::chain_create, "chain.create", 0, -1, ""});

  add({.kind = K::constant,
       .name = "constant",
       .attributes = {{"value", A::data}},
       .free_types = true});
  add({.kind = K::constant_external,
       .name = "constant.external",
       .attributes = {{"name", A::string},
                      {"align", A::integer},
                      {"device", A::device},
                      {"placeholder", A::boolean}},
       .free_types = true});
  add({.kind = K::shape_to_tensor, .name = "shape_to_tensor", .attributes = {{"shape", A::shape}}});
  add({.kind = K::range,
       .name = "range",
       .max_operands = 3,
       .operands = "start stop step",
       .attributes = {{"start", A::dim_or_real, false},
                      {"stop", A::dim_or_real, false},
                      {"step", A::dim_or_real, false},
                      {"out_dim", A::dim}},
       .free_types = true});

  const auto random = [&](K k, std::string_view name, std::string_view operands) {
    add({k, name, 3, 3, operands, {{"shape", A::shape}, {"dtype", A::dtype}}});
  };
  random(K::random_uniform, "random.uniform", "seed lower upper");
  random(K::random_normal, "random.normal", "seed mean std");

  binary(K::add, "add");
  binary(K::sub, "sub");
  binary(K::mul, "mul");
  binary(K::div, "div");
  binary(K::mod, "mod");
  binary(K::pow, "pow");
  binary(K::max, "max");
  binary(K::min, "min");
  binary(K::equal, "equal");
  binary(K::not_equal, "not_equal");
  binary(K::greater, "greater");
  binary(K::greater_equal, "greater_equal");
  binary(K::logical_and, "logical_and");
  binary(K::logical_or, "logical_or");
  binary(K::logical_xor, "logical_xor");

  unary(K::abs, "abs");
  unary(K::negate, "negate");
  unary(K::ceil, "ceil");
  unary(K::floor, "floor");
  unary(K::trunc, "trunc");
  unary(K::round, "round");
  unary(K::exp, "exp");
  unary(K::log, "log");
  unary(K::log1p, "log1p");
  unary(K::sqrt, "sqrt");
  unary(K::rsqrt, "rsqrt");
  unary(K::sin, "sin");
  unary(K::cos, "cos");
  unary(K::erf, "erf");
  unary(K::tanh, "tanh");
  unary(K::atanh, "atanh");
  unary(K::acos, "acos");
  unary(K::relu, "relu");
  unary(K::sigmoid, "sigmoid");
  unary(K::silu, "silu");
  add({K::gelu, "gelu", 1, 1, "x", {{"approximate", A::string}}});
  unary(K::is_nan, "is_nan");
  unary(K::is_inf, "is_inf");
  unary(K::logical_not, "logical_not");
  add({K::cast, "cast", 1, 1, "x", {{"dtype", A::dtype}}});
  add({K::where, "where", 3, 3, "condition x y"});

  add({K::reshape, "reshape", 1, 1, "x", {{"shape", A::shape}}});
  add({K::rebind,
       "rebind",
       1,
       1,
       "x",
       {{"shape", A::shape},
        {"message", A::string},
        {"layout", A::layout, false},
        {"sentence", A::string, false},
        {"given", A::shape, false},
        {"expected", A::shape, false},
        {"shown", A::shape, false}}});
  add({K::broadcast_to, "broadcast_to", 1, 2, "x shape", {{"shape", A::shape}}});
  add({K::permute, "permute", 1, 1, "x", {{"dims", A::ints}}});
  with_axis(K::squeeze, "squeeze");
  with_axis(K::unsqueeze, "unsqueeze");

  add({K::concat, "concat", 1, -1, "", {{"axis", A::integer}}});
  const std::vector<AttributeInfo> slice_attributes = {{"starts", A::shape},
                                                       {"stops", A::shape},
                                                       {"steps", A::ints},
                                                       {"dynamic_starts", A::ints, false},
                                                       {"dynamic_stops", A::ints, false},
                                                       {"dynamic_indices", A::ints, false},
                                                       {"dynamic_steps", A::ints, false},
                                                       {"out_dims", A::shape, false}};
  add({K::slice, "slice_tensor", 1, -1, "x", slice_attributes});
  add({K::pad, "pad", 1, 2, "input value", {{"paddings", A::ints}, {"mode", A::string}}});
  add({K::tile, "tile", 1, 1, "x", {{"repeats", A::shape}}});
  add({K::gather, "gather", 2, 2, "input indices", {{"axis", A::integer}}});
  add({K::gather_nd, "gather_nd", 2, 2, "input indices", {{"batch_dims", A::integer}}});
  const auto scatter = [&](K k, std::string_view name) {
    add({k, name, 3, 3, "input updates indices", {{"axis", A::integer}}});
  };
  scatter(K::scatter, "scatter");
  scatter(K::scatter_add, "scatter_add");
  scatter(K::scatter_max, "scatter_max");
  scatter(K::scatter_min, "scatter_min");
  scatter(K::scatter_mul, "scatter_mul");
  const auto scatter_nd = [&](K k, std::string_view name) {
    add({k, name, 3, 3, "input updates indices"});
  };
  scatter_nd(K::scatter_nd, "scatter_nd");
  scatter_nd(K::scatter_nd_add, "scatter_nd_add");
  scatter_nd(K::scatter_nd_max, "scatter_nd_max");
  scatter_nd(K::scatter_nd_min, "scatter_nd_min");
  scatter_nd(K::scatter_nd_mul, "scatter_nd_mul");
  add({K::nonzero, "nonzero", 1, 1, "x", {{"out_dim", A::dim}, {"label", A::string, false}}});
  add({K::repeat_interleave,
       "repeat_interleave",
       2,
       2,
       "x repeats",
       {{"axis", A::integer}, {"out_dim", A::dim}}});
  binary(K::matmul, "matmul");

  const std::vector<AttributeInfo> windows = {
      {"stride", A::ints}, {"dilation", A::ints}, {"padding", A::ints}};
  auto with_windows = [&](K k, std::string_view name, int operands, std::string_view names,
                          std::vector<AttributeInfo> more) {
    more.insert(more.begin(), windows.begin(), windows.end());
    add({k, name, operands, operands, names, std::move(more)});
  };
  with_windows(K::conv2d, "conv2d", 2, "x filter", {{"groups", A::integer}});
  with_windows(K::conv3d, "conv3d", 2, "x filter", {{"groups", A::integer}});
  with_windows(K::conv2d_transpose, "conv2d_transpose", 2, "x filter",
               {{"output_paddings", A::ints}});
  with_windows(K::max_pool2d, "max_pool2d", 1, "input",
               {{"kernel_size", A::ints}, {"ceil_mode", A::boolean}});
  with_windows(
      K::avg_pool2d, "avg_pool2d", 1, "input",
      {{"kernel_size", A::ints}, {"ceil_mode", A::boolean}, {"count_boundary", A::boolean}});

  with_axis(K::reduce_sum, "sum");
  with_axis(K::reduce_mean, "mean");
  with_axis(K::reduce_max, "max");
  with_axis(K::reduce_min, "min");
  with_axis(K::reduce_prod, "prod");
  with_axis(K::argmax, "argmax");
  with_axis(K::argmin, "argmin");
  add({K::cumsum,
       "cumsum",
       1,
       1,
       "x",
       {{"axis", A::integer}, {"exclusive", A::boolean}, {"reverse", A::boolean}}});
  with_axis(K::softmax, "softmax");
  with_axis(K::logsoftmax, "logsoftmax");
  add({K::layer_norm, "layer_norm", 3, 3, "input gamma beta", {{"epsilon", A::real}}});
  add({K::rms_norm,
       "rms_norm",
       2,
       2,
       "input weight",
       {{"epsilon", A::real}, {"weight_offset", A::real}, {"multiply_before_cast", A::boolean}}});
  add({K::top_k, "top_k", 1, 1, "input", {{"axis", A::integer}, {"k", A::dim}}});
  add({K::bottom_k, "bottom_k", 1, 1, "input", {{"axis", A::integer}, {"k", A::dim}}});

  add({K::dequantize, "dequantize", 1, 1, "quantized", {{"encoding", A::string}}});
  add({K::qmatmul, "qmatmul", 2, 2, "lhs rhs", {{"encoding", A::string}}});
  add({K::irfft,
       "irfft",
       1,
       1,
       "input_tensor",
       {{"n", A::integer},
        {"axis", A::integer},
        {"normalization", A::string},
        {"input_is_complex", A::boolean}}});
  add({K::roi_align,
       "roi_align",
       2,
       2,
       "input rois",
       {{"output_height", A::integer},
        {"output_width", A::integer},
        {"spatial_scale", A::real},
        {"sampling_ratio", A::real},
        {"aligned", A::boolean},
        {"mode", A::string}}});
  add({K::non_maximum_suppression,
       "non_maximum_suppression",
       5,
       5,
       "boxes scores max_output_boxes_per_class iou_threshold score_threshold",
       {{"out_dim", A::dim}}});

  add({K::transfer_to, "transfer_to", 1, 2, "x chain", {{"device", A::device}}});
  add({.kind = K::buffer_load,
       .name = "buffer.load",
       .min_operands = 2,
       .max_operands = 2,
       .operands = "x chain",
       .effects = true});
  add({.kind = K::buffer_store,
       .name = "buffer.store",
       .min_operands = 3,
       .max_operands = 3,
       .operands = "destination source chain",
       .effects = true});
  add({.kind = K::buffer_store_slice,
       .name = "buffer.store_slice",
       .min_operands = 3,
       .max_operands = -1,
       .operands = "destination source",
       .attributes = slice_attributes,
       .effects = true});
  add({.kind = K::buffer_create, .name = "buffer.create", .free_types = true});
  add({.kind = K::print,
       .name = "print",
       .min_operands = 1,
       .max_operands = 2,
       .operands = "value chain",
       .attributes = {{"label", A::string}, {"text", A::string, false}},
       .effects = true});

  add({.kind = K::cond,
       .name = "cond",
       .min_operands = 1,
       .max_operands = 1,
       .operands = "predicate",
       .regions = 2,
       .free_types = true});
  add({.kind = K::while_loop,
       .name = "while",
       .min_operands = 1,
       .max_operands = -1,
       .regions = 2});
  add({.kind = K::call,
       .name = "call",
       .max_operands = -1,
       .attributes = {{"callee", A::string}, {"prefix", A::string}},
       .free_types = true});
  return t;
}

// Leaked on purpose: graphs may still be printed while the process ends.
const std::vector<OpInfo>& table() {
  static const auto* rows = [] {
    auto* t = new std::vector<OpInfo>(make_table());
    for (std::size_t i = 0; i < t->size(); ++i)
      KILN_CHECK(static_cast<std::size_t>((*t)[i].kind) == i, "the op table is out of order");
    return t;
  }();
  return *rows;
}

}  // namespace

const OpInfo& op_info(OpKind kind) {
  const auto& rows = table();
  const auto i = static_cast<std::size_t>(kind);
  KILN_CHECK(i < rows.size(), "unknown op kind");
  return rows[i];
}

std::string_view to_string(OpKind kind) { return op_info(kind).name; }

std::optional<OpKind> op_kind_from_string(std::string_view name) {
  if (name == "print.tensor") return OpKind::print;
  for (const OpInfo& info : table())
    if (info.name == name) return info.kind;
  return std::nullopt;
}

bool matches(const ir::Attribute& attribute, AttributeKind kind) {
  switch (kind) {
    case A::boolean:
      return std::holds_alternative<bool>(attribute);
    case A::integer:
      return std::holds_alternative<std::int64_t>(attribute);
    case A::real:
      return std::holds_alternative<double>(attribute);
    case A::string:
      return std::holds_alternative<std::string>(attribute);
    case A::dtype:
      return std::holds_alternative<DType>(attribute);
    case A::device:
      return std::holds_alternative<DeviceRef>(attribute);
    case A::dim:
      return std::holds_alternative<Dim>(attribute);
    case A::shape:
      return std::holds_alternative<Shape>(attribute);
    case A::layout:
      return std::holds_alternative<FilterLayout>(attribute);
    case A::ints:
      return std::holds_alternative<std::vector<std::int64_t>>(attribute);
    case A::strings:
      return std::holds_alternative<std::vector<std::string>>(attribute);
    case A::data:
      return std::holds_alternative<std::shared_ptr<const ir::ConstantData>>(attribute);
    case A::dim_or_real:
      return std::holds_alternative<Dim>(attribute) || std::holds_alternative<double>(attribute);
  }
  return false;
}

std::string_view to_string(AttributeKind kind) {
  switch (kind) {
    case A::boolean:
      return "true or false";
    case A::integer:
      return "an int";
    case A::real:
      return "a float";
    case A::string:
      return "a string";
    case A::dtype:
      return "a dtype";
    case A::device:
      return "a device";
    case A::dim:
      return "a dim";
    case A::shape:
      return "a list of dims";
    case A::layout:
      return "a filter layout";
    case A::ints:
      return "a list of ints";
    case A::strings:
      return "a list of strings";
    case A::data:
      return "a constant";
    case A::dim_or_real:
      return "a dim or a float";
  }
  return "a value";
}

}  // namespace kiln::graph
