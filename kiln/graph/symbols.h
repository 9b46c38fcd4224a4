#pragma once

// Symbols of dims: which ops give them a meaning, and what stands in their place elsewhere.

#include <map>
#include <optional>
#include <set>
#include <string>

#include "kiln/graph/dim.h"
#include "kiln/graph/ir.h"
#include "kiln/graph/type.h"

namespace kiln::graph {

/// What stands in the place of each symbol; the others stay.
using Substitution = std::map<std::string, Dim>;

/// With all symbols replaced at once.
Dim substitute(const Dim& dim, const Substitution& symbols);
Shape substitute(const Shape& shape, const Substitution& symbols);
Type substitute(const Type& type, const Substitution& symbols);

/// Whether the op may give a size that only running it tells.
bool defines_symbols(const ir::Op& op);

/// Adds the symbols that the op defines to `known`. A symbol that it uses though it is not known:
/// that symbol, and nothing is added.
std::optional<std::string> note_symbols(const ir::Op& op, std::set<std::string>& known);
/// What is wrong with a symbol that `note_symbols` gives back.
std::string undefined_symbol_text(const std::string& symbol, const std::string& graph);

/// Binds the lone symbols of `formal` to the dims of `actual`. A symbol that is bound keeps its
/// dim; types of different kind or rank bind nothing.
void bind_symbols(const Type& formal, const Type& actual, Substitution& symbols);

}  // namespace kiln::graph
