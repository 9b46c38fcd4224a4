#include "kiln/graph/symbols.h"

#include <algorithm>

#include "kiln/support/format.h"

namespace kiln::graph {

Dim substitute(const Dim& dim, const Substitution& symbols) {
  if (dim.is_static()) return dim;
  Dim sum = 0;
  for (const DimTerm& term : dim.terms()) {
    Dim product = term.coefficient;
    for (const DimAtom& atom : term.atoms) {
      if (!atom.is_symbol()) {
        product =
            product *
            substitute(atom.numerator, symbols).floor_div(substitute(atom.denominator, symbols));
      } else {
        const auto it = symbols.find(atom.symbol);
        product = product * (it != symbols.end() ? it->second : Dim::symbol(atom.symbol));
      }
    }
    sum = sum + product;
  }
  return sum;
}

Shape substitute(const Shape& shape, const Substitution& symbols) {
  Shape result;
  for (const Dim& dim : shape) result.push_back(substitute(dim, symbols));
  return result;
}

Type substitute(const Type& type, const Substitution& symbols) {
  if (!type.is_tensor() && !type.is_buffer()) return type;
  Type result = type;
  ShapedType& shaped = type.is_tensor() ? static_cast<ShapedType&>(std::get<TensorType>(result))
                                        : std::get<BufferType>(result);
  shaped.shape = substitute(shaped.shape, symbols);
  return result;
}

bool defines_symbols(const ir::Op& op) {
  switch (op.kind) {
    case OpKind::rebind:
    case OpKind::cond:
    case OpKind::call:
    case OpKind::nonzero:
    case OpKind::repeat_interleave:
    case OpKind::non_maximum_suppression:
      return true;
    case OpKind::range:
    case OpKind::broadcast_to:
      return op.operands.size() > 1;
    case OpKind::slice:
      return op.has_attribute("out_dims");
    default:
      return false;
  }
}

namespace {
/// Whether an op that defines symbols reads those of this attribute.
bool is_read(std::string_view attribute) {
  return attribute == "starts" || attribute == "stops" || attribute == "given" ||
         attribute == "expected" || attribute == "shown";
}
}  // namespace

std::optional<std::string> note_symbols(const ir::Op& op, std::set<std::string>& known) {
  const bool defines = defines_symbols(op);
  std::vector<std::string> used;
  auto use = [&](std::vector<std::string> symbols) {
    for (std::string& symbol : symbols)
      if (!known.count(symbol)) used.push_back(std::move(symbol));
    return used.empty();
  };
  for (const auto& [name, attribute] : op.attributes) {
    if (defines && !is_read(name)) continue;
    const auto* dim = std::get_if<Dim>(&attribute);
    const auto* shape = std::get_if<Shape>(&attribute);
    if ((dim && !use(dim->parameters())) || (shape && !use(shape->parameters()))) return used[0];
  }
  for (const auto& result : op.results)
    if (result->type.is_tensor() || result->type.is_buffer())
      use(result->type.shaped().shape.parameters());
  if (!defines && !used.empty()) return used[0];
  known.insert(used.begin(), used.end());
  return std::nullopt;
}

std::string undefined_symbol_text(const std::string& symbol, const std::string& graph) {
  return format(
      "The symbol '{}' is not defined in graph '{}': no input and no op so far has it as a size of "
      "its own. Use rebind to define it.",
      symbol, graph);
}

void bind_symbols(const Type& formal, const Type& actual, Substitution& symbols) {
  if (formal.index() != actual.index() || (!formal.is_tensor() && !formal.is_buffer())) return;
  const Shape &dims = formal.shaped().shape, &given = actual.shaped().shape;
  if (dims.size() != given.size()) return;
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (dims[i].is_symbolic()) symbols.try_emplace(dims[i].name(), given[i]);
}

}  // namespace kiln::graph
