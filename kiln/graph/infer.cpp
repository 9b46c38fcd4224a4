#include "kiln/graph/infer.h"

#include "kiln/graph/op_info.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph {

std::string_view Inference::name() const { return to_string(kind); }

std::string Inference::operand_name(std::size_t i) const {
  std::string_view names = op_info(kind).operands;
  for (std::size_t k = 0; !names.empty(); ++k) {
    std::string_view word = names.substr(0, names.find(' '));
    if (k == i) return std::string(word);
    names.remove_prefix(std::min(names.size(), word.size() + 1));
  }
  return format("values[{}]", i);
}

const TensorType& Inference::tensor(std::size_t i) const {
  const Type& type = operands[i]->type;
  if (!type.is_tensor())
    throw ValueError(
        format("{} of '{}' must be a tensor, but it is {}.", operand_name(i), name(), type.repr()));
  return type.tensor();
}

void check_dtype(std::string_view op, DTypeFamily family, DType dtype) {
  const bool narrow = dtype.is_float8() || dtype == DType::float4_e2m1fn;
  const bool is_bool = dtype == DType::bool_;
  bool ok = true;
  switch (family) {
    case DTypeFamily::all:
      break;
    case DTypeFamily::comparison:
    case DTypeFamily::min_max:
      ok = !narrow;
      break;
    case DTypeFamily::arithmetic:
    case DTypeFamily::not_bool:
      ok = !narrow && !is_bool;
      break;
    case DTypeFamily::floating:
      ok = dtype.is_float() && !narrow;
      break;
    case DTypeFamily::boolean:
      ok = is_bool;
      break;
  }
  if (ok) return;
  std::string text = format("op '{}' does not support dtype {}", op, dtype.to_string());
  if (narrow)
    text += "; cast the operands to a wider type such as float32 first.";
  else if (family == DTypeFamily::floating)
    text += "; it takes floating-point tensors.";
  else if (family == DTypeFamily::boolean)
    text += "; it takes bool tensors.";
  else
    text += "; cast the operands to a numeric type first.";
  throw ValueError(text);
}

namespace {

/// A size that the dim has at least, whatever its symbols are, when its terms all grow.
std::int64_t least(const Dim& dim) {
  if (dim.is_static()) return dim.value();
  std::int64_t constant = 0;
  for (const DimTerm& term : dim.terms()) {
    if (term.coefficient < 0) return 0;
    if (term.atoms.empty()) constant = term.coefficient;
    for (const DimAtom& atom : term.atoms)
      if (!atom.is_symbol()) return 0;
  }
  return constant;
}

}  // namespace

void check_size(std::string_view what, const Type& type) {
  if (!type.is_tensor() && !type.is_buffer()) return;
  std::int64_t bits = type.shaped().dtype.size_in_bits();
  bool overflow = false;
  for (const Dim& dim : type.shaped().shape)
    overflow =
        overflow || __builtin_mul_overflow(bits, std::max<std::int64_t>(least(dim), 1), &bits);
  if (overflow)
    throw ValueError(
        format("{} has type {}, which takes more bits than 64 bits can count; check the dims, or "
               "work on smaller parts.",
               what, type.repr()));
}

Shape broadcast_shapes(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Shape out(static_cast<std::size_t>(rank));
  for (int i = 1; i <= rank; ++i) {
    const Dim* x = i <= a.rank() ? &a[a.size() - i] : nullptr;
    const Dim* y = i <= b.rank() ? &b[b.size() - i] : nullptr;
    Dim& to = out[out.size() - i];
    if (!x || !y) {
      to = x ? *x : *y;
    } else if (*x == *y || *y == Dim(1)) {
      to = *x;
    } else if (*x == Dim(1)) {
      to = *y;
    } else {
      throw ValueError(
          format("Shapes {} and {} cannot be broadcast: dims {} and {} are neither equivalent nor "
                 "broadcastable. If you are confident that they are equal when the graph runs, use "
                 "rebind to assert it.",
                 a.repr(), b.repr(), x->repr(), y->repr()));
    }
  }
  return out;
}

void check_same_device(const Inference& op, std::size_t first, std::size_t last) {
  for (std::size_t i = first + 1; i < last; ++i) {
    if (op.operands[i]->type.shaped().device == op.operands[first]->type.shaped().device) continue;
    std::string text = "Input values must be on the same device";
    for (std::size_t k = first; k < last; ++k)
      text += format("\n    {}: {}", op.operand_name(k), op.operands[k]->type.repr());
    throw ValueError(text);
  }
}

void check_same_dtype(const Inference& op, std::size_t first, std::size_t last) {
  for (std::size_t i = first; i < last; ++i)
    if (!op.operands[i]->type.is_buffer()) op.tensor(i);  // says what is none
  for (std::size_t i = first + 1; i < last; ++i) {
    DType a = op.operands[first]->type.shaped().dtype, b = op.operands[i]->type.shaped().dtype;
    if (a != b)
      throw ValueError(format(
          "The operands of '{}' must have one dtype, but {} has {} and {} has {}.", op.name(),
          op.operand_name(first), a.to_string(), op.operand_name(i), b.to_string()));
  }
}

void check_name(std::string_view what, std::string_view name) {
  const std::size_t at = name.find('\0');
  if (at != std::string_view::npos)
    throw ValueError(
        format("The name of a {} cannot hold a NUL character, but this one has one behind '{}'.",
               what, name.substr(0, at)));
}

void check_count(const Inference& op, const Dim& out_dim) {
  if (out_dim.is_static() && out_dim.value() < 0)
    throw ValueError(
        format("{}: out_dim must not be negative, got {}.", op.name(), out_dim.to_string()));
}

std::size_t checked_axis(const Inference& op, int rank) {
  const std::int64_t axis = op.integer("axis");
  if (axis < 0 || axis >= rank)
    throw ValueError(format("Invalid axis={} for input x.rank={}", axis, rank));
  return static_cast<std::size_t>(axis);
}

namespace {

void check_signature(const Inference& op) {
  const OpInfo& info = op_info(op.kind);
  const auto count = static_cast<int>(op.operands.size());
  if (count < info.min_operands || (info.max_operands >= 0 && count > info.max_operands)) {
    std::string expected = info.max_operands < 0 ? format("at least {}", info.min_operands)
                           : info.min_operands == info.max_operands
                               ? std::to_string(info.min_operands)
                               : format("{} to {}", info.min_operands, info.max_operands);
    throw ValueError(format("'{}' takes {} operands, got {}.", info.name, expected, count));
  }
  for (const AttributeInfo& a : info.attributes) {
    auto it = op.attributes.find(a.name);
    if (it == op.attributes.end()) {
      if (a.required) throw ValueError(format("'{}' needs the attribute '{}'.", info.name, a.name));
    } else if (!matches(it->second, a.kind)) {
      throw ValueError(
          format("Attribute '{}' of '{}' must be {}.", a.name, info.name, to_string(a.kind)));
    }
  }
  for (const auto& [name, value] : op.attributes) {
    bool known = std::any_of(info.attributes.begin(), info.attributes.end(),
                             [&](const AttributeInfo& a) { return a.name == name; });
    if (!known) throw ValueError(format("'{}' has no attribute '{}'.", info.name, name));
  }
}

std::vector<Type> dispatch(const Inference& op) {
  switch (op.kind) {
    case OpKind::output:
    case OpKind::yield:
      return {};
    case OpKind::condition:
    case OpKind::chain_create:
    case OpKind::transfer_to:
    case OpKind::buffer_load:
    case OpKind::buffer_store:
    case OpKind::buffer_store_slice:
    case OpKind::buffer_create:
    case OpKind::print:
    case OpKind::cond:
    case OpKind::while_loop:
    case OpKind::call:
      return infer_effect(op);
    case OpKind::constant:
    case OpKind::constant_external:
    case OpKind::shape_to_tensor:
    case OpKind::range:
    case OpKind::random_uniform:
    case OpKind::random_normal:
      return infer_source(op);
    case OpKind::reshape:
    case OpKind::rebind:
    case OpKind::broadcast_to:
    case OpKind::permute:
    case OpKind::squeeze:
    case OpKind::unsqueeze:
      return infer_view(op);
    case OpKind::concat:
    case OpKind::pad:
    case OpKind::tile:
    case OpKind::gather:
    case OpKind::gather_nd:
    case OpKind::scatter:
    case OpKind::scatter_add:
    case OpKind::scatter_max:
    case OpKind::scatter_min:
    case OpKind::scatter_mul:
    case OpKind::scatter_nd:
    case OpKind::scatter_nd_add:
    case OpKind::scatter_nd_max:
    case OpKind::scatter_nd_min:
    case OpKind::scatter_nd_mul:
    case OpKind::nonzero:
    case OpKind::repeat_interleave:
      return infer_movement(op);
    case OpKind::slice:
      return infer_slice(op);
    case OpKind::matmul:
      return infer_product(op);
    case OpKind::conv2d:
    case OpKind::conv3d:
    case OpKind::conv2d_transpose:
    case OpKind::max_pool2d:
    case OpKind::avg_pool2d:
      return infer_convolution(op);
    case OpKind::dequantize:
    case OpKind::qmatmul:
      return infer_quantized(op);
    case OpKind::reduce_sum:
    case OpKind::reduce_mean:
    case OpKind::reduce_max:
    case OpKind::reduce_min:
    case OpKind::reduce_prod:
    case OpKind::argmax:
    case OpKind::argmin:
    case OpKind::top_k:
    case OpKind::bottom_k:
    case OpKind::cumsum:
      return infer_reduction(op);
    case OpKind::irfft:
    case OpKind::roi_align:
    case OpKind::non_maximum_suppression:
      return infer_image(op);
    case OpKind::softmax:
    case OpKind::logsoftmax:
    case OpKind::layer_norm:
    case OpKind::rms_norm:
      return infer_norm(op);
    default:
      return infer_elementwise(op);
  }
}

bool same_type(const Type& a, const Type& b) {
  // The layout is part of the text and of nothing else, so it has to be compared here.
  return a == b && (!a.is_tensor() || a.tensor().layout == b.tensor().layout);
}

}  // namespace

namespace ir {

std::vector<Type> infer_types(OpKind kind, const std::vector<Value*>& operands,
                              const Attributes& attributes, const std::vector<Type>& declared) {
  Inference op{kind, operands, attributes, declared};
  check_signature(op);
  std::vector<Type> types = dispatch(op);
  for (const Type& type : types) check_size(format("The result of '{}'", op.name()), type);
  if (declared.empty() || op_info(kind).free_types) return types;
  if (types.size() != declared.size())
    throw ValueError(format("'{}' has {} results, but {} types were given.", op.name(),
                            types.size(), declared.size()));
  for (std::size_t i = 0; i < types.size(); ++i)
    if (!same_type(types[i], declared[i]))
      throw ValueError(format("Result {} of '{}' is {}, not {}.", i, op.name(), types[i].to_text(),
                              declared[i].to_text()));
  return types;
}

}  // namespace ir
}  // namespace kiln::graph
