#pragma once

#include <optional>

#include "emulator/ptx/lexer.h"
#include "emulator/ptx/syntax.h"

namespace kiln::emulator::ptx {

/// The space that ".global" and the like name.
std::optional<Space> space_of(std::string_view word);

/// What may stand before a variable: linkage, space, alignment, type, name, extent, "= values".
/// The space's word is the next token. Leaves the ";" or "," behind it.
void parse_variables(Lexer& lexer, Declaration first, std::vector<Declaration>& into);
/// "( .param .b32 a, ... )" or "( .reg ... )"
std::vector<Declaration> parse_parameters(Lexer& lexer);
/// The statements between "{" and the matching "}".
std::vector<Statement> parse_body(Lexer& lexer);
/// .loc and .pragma and .section, which may stand in a module and in a body. False: none of them.
void skip_pragma(Lexer& lexer);
Location parse_location(Lexer& lexer);

}  // namespace kiln::emulator::ptx
