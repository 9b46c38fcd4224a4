#include "kiln/graph/symbols.h"

#include <algorithm>

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
        product = product * (it != symbols.end() ? it->second : Dim(atom.symbol));
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

void bind_symbols(const Type& formal, const Type& actual, Substitution& symbols) {
  if (formal.index() != actual.index() || (!formal.is_tensor() && !formal.is_buffer())) return;
  const Shape &dims = formal.shaped().shape, &given = actual.shaped().shape;
  if (dims.size() != given.size()) return;
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (dims[i].is_symbolic()) symbols.try_emplace(dims[i].name(), given[i]);
}

}  // namespace kiln::graph
