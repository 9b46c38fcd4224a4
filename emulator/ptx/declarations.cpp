#include <array>
#include <utility>

#include "emulator/ptx/constants.h"
#include "emulator/ptx/parser_internal.h"
#include "kiln/support/format.h"

namespace kiln::emulator::ptx {
namespace {

using enum Type::Kind;

constexpr std::pair<std::string_view, Type> kTypes[] = {
    {".b8", {bits, 8}},
    {".b16", {bits, 16}},
    {".b32", {bits, 32}},
    {".b64", {bits, 64}},
    {".b128", {bits, 128}},
    {".u8", {unsigned_integer, 8}},
    {".u16", {unsigned_integer, 16}},
    {".u32", {unsigned_integer, 32}},
    {".u64", {unsigned_integer, 64}},
    {".s8", {signed_integer, 8}},
    {".s16", {signed_integer, 16}},
    {".s32", {signed_integer, 32}},
    {".s64", {signed_integer, 64}},
    {".f16", {real, 16}},
    {".f16x2", {real, 16, 2}},
    {".f32", {real, 32}},
    {".f64", {real, 64}},
    {".bf16", {bfloat, 16}},
    {".bf16x2", {bfloat, 16, 2}},
    {".pred", {pred, 1}},
    {".u16x2", {unsigned_integer, 16, 2}},
    {".s16x2", {signed_integer, 16, 2}},
};

constexpr std::pair<std::string_view, Space> kSpaces[] = {
    {".reg", Space::reg},       {".global", Space::global}, {".const", Space::constant},
    {".shared", Space::shared}, {".local", Space::local},   {".param", Space::param},
};

constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 40;

Type parse_type(Lexer& lexer, Declaration& variable) {
  unsigned vector = 1;
  if (lexer.take_if(".v2"))
    vector = 2;
  else if (lexer.take_if(".v4"))
    vector = 4;
  const Token word = lexer.take();
  const Type type = type_of(word.text);
  if (type.kind == Type::Kind::none) lexer.fail(word, "a type is expected");
  if (vector != 1) {
    if (variable.space == Space::reg)
      lexer.fail(word, "registers that are vectors are not implemented",
                 LoadError::Kind::unsupported);
    variable.is_array = true;
    variable.elements = vector;
    if (variable.alignment == 0) variable.alignment = vector * type.bytes();
  }
  return type;
}

// "{1, 2, {3}, x + 4}": flattened; inner braces fill what rows of the last extents hold.
void parse_values(Lexer& lexer, Declaration& variable, std::span<const std::uint64_t> extents,
                  std::uint64_t& index, int depth) {
  if (depth > 16) lexer.fail_here("values are nested too deeply");
  if (lexer.take_if("{")) {
    std::uint64_t row = 1;
    for (std::size_t i = depth + 1; i < extents.size(); ++i) row *= extents[i];
    while (!lexer.take_if("}")) {
      const std::uint64_t begin = index;
      const bool nested = lexer.peek().is("{");
      parse_values(lexer, variable, extents, index, depth + 1);
      if (nested && row > index - begin) index = begin + row;
      if (!lexer.take_if(",") && !lexer.peek().is("}")) lexer.fail_here("',' or '}' is expected");
    }
    return;
  }
  const Token at = lexer.peek();
  const Constant constant = parse_constant(lexer);
  Initial initial;
  initial.index = index++;
  initial.value = constant.value;
  initial.single = constant.single;
  initial.symbol = constant.symbol;
  if (constant.kind == Constant::Kind::real) initial.kind = Initial::Kind::real;
  if (constant.kind == Constant::Kind::symbol) initial.kind = Initial::Kind::symbol;
  if (lexer.peek().is("("))
    lexer.fail(at, "a mask in front of an address is not implemented",
               LoadError::Kind::unsupported);
  variable.initial.push_back(initial);
}

void parse_extent_and_values(Lexer& lexer, Declaration& variable) {
  std::vector<std::uint64_t> extents;
  const std::uint64_t vector = variable.elements;
  while (lexer.peek().is("[")) {
    const Token at = lexer.take();
    extents.push_back(lexer.peek().is("]") ? 0 : parse_count(lexer, kMaxBytes));
    lexer.expect("]");
    if (extents.size() > 1 && extents.back() == 0)
      lexer.fail(at, "only the first extent of an array may be open");
    variable.is_array = true;
    // Checked here, so that no product can overflow.
    variable.elements *= extents.back();
    if (variable.elements > kMaxBytes) lexer.fail(at, "an array is too large");
  }
  if (variable.is_array && vector != 1) extents.push_back(vector);
  if (!lexer.peek().is("=")) return;
  const Token at = lexer.take();
  if (extents.empty()) extents.push_back(1);
  std::uint64_t index = 0;
  parse_values(lexer, variable, extents, index, 0);
  if (variable.elements == 0) variable.elements = index;
  if (index > variable.elements && !(index == 1 && variable.elements == 1))
    lexer.fail(at, format("{} values are given for {} elements", index, variable.elements));
}

bool parse_attribute(Lexer& lexer, Declaration& variable) {
  if (lexer.take_if(".align")) {
    const Token at = lexer.peek();
    variable.alignment = static_cast<std::uint32_t>(parse_count(lexer, 1 << 16));
    if (variable.alignment == 0 || (variable.alignment & (variable.alignment - 1)) != 0)
      lexer.fail(at, "an alignment must be a power of two");
    return true;
  }
  if (lexer.take_if(".attribute")) {
    lexer.expect("(");
    // Memory is managed anyway: every device and the host reach it.
    lexer.expect(".managed");
    lexer.expect(")");
    return true;
  }
  return false;
}

// ".ptr .global .align 8" of a parameter says what the kernel may assume, nothing to do.
void skip_pointer_attributes(Lexer& lexer) {
  if (!lexer.take_if(".ptr")) return;
  if (const auto space = space_of(lexer.peek().text); space && *space != Space::reg) lexer.take();
  if (lexer.take_if(".align")) parse_count(lexer, 1 << 16);
}

void finish(Lexer& lexer, Declaration& variable, const Token& name) {
  const std::uint32_t natural = variable.type.bytes();
  if (variable.alignment < natural) variable.alignment = natural;
  if (variable.elements > kMaxBytes || variable.bytes() > kMaxBytes)
    lexer.fail(name, "a variable is too large");
}

}  // namespace

Type type_of(std::string_view word) {
  for (const auto& [name, type] : kTypes)
    if (name == word) return type;
  return {};
}

std::optional<Space> space_of(std::string_view word) {
  for (const auto& [name, space] : kSpaces)
    if (name == word) return space;
  return std::nullopt;
}

void parse_variables(Lexer& lexer, Declaration first, std::vector<Declaration>& into) {
  const Token word = lexer.take();
  const auto space = space_of(word.text);
  if (!space) lexer.fail(word, "the space of a variable is expected");
  first.space = *space;
  first.line = word.line;
  while (parse_attribute(lexer, first)) {
  }
  first.type = parse_type(lexer, first);
  while (parse_attribute(lexer, first)) {
  }
  do {
    Declaration variable = first;
    const Token name = lexer.expect(Token::Kind::word, "a name");
    variable.name = name.text;
    if (lexer.take_if("<")) {
      variable.numbered = static_cast<std::uint32_t>(parse_count(lexer, 1 << 22));
      lexer.expect(">");
      if (variable.numbered == 0) lexer.fail(name, "a count of registers must not be zero");
    } else {
      parse_extent_and_values(lexer, variable);
    }
    finish(lexer, variable, name);
    into.push_back(std::move(variable));
  } while (lexer.take_if(","));
}

std::vector<Declaration> parse_parameters(Lexer& lexer) {
  std::vector<Declaration> parameters;
  lexer.expect("(");
  if (lexer.take_if(")")) return parameters;
  do {
    Declaration parameter;
    const Token word = lexer.take();
    parameter.line = word.line;
    if (word.is(".param"))
      parameter.space = Space::param;
    else if (word.is(".reg"))
      parameter.space = Space::reg;
    else
      lexer.fail(word, "'.param' or '.reg' is expected");
    while (parse_attribute(lexer, parameter)) {
    }
    parameter.type = parse_type(lexer, parameter);
    skip_pointer_attributes(lexer);
    while (parse_attribute(lexer, parameter)) {
    }
    const Token name = lexer.expect(Token::Kind::word, "a name");
    parameter.name = name.text;
    parse_extent_and_values(lexer, parameter);
    finish(lexer, parameter, name);
    parameters.push_back(std::move(parameter));
  } while (lexer.take_if(","));
  lexer.expect(")");
  return parameters;
}

}  // namespace kiln::emulator::ptx
