#include "emulator/ptx/constants.h"
#include "emulator/ptx/parser_internal.h"
#include "kiln/support/format.h"

namespace kiln::emulator::ptx {
namespace {

constexpr int kMaxScopes = 200;

Operand from_constant(const Constant& constant) {
  Operand operand;
  operand.value = constant.value;
  operand.single = constant.single;
  operand.is_unsigned = constant.is_unsigned;
  if (constant.kind == Constant::Kind::real) operand.kind = Operand::Kind::real;
  return operand;
}

// "%tid.x" comes as two tokens; a dot right behind a word belongs to it.
std::string_view parse_name(Lexer& lexer) {
  const Token name = lexer.expect(Token::Kind::word, "a name");
  const Token& next = lexer.peek();
  if (next.kind == Token::Kind::dotted && next.at == name.at + name.text.size()) {
    const Token suffix = lexer.take();
    return lexer.text().substr(name.at, name.text.size() + suffix.text.size());
  }
  return name.text;
}

// "%rd1 + 8", "x - 4", "16"
void parse_sum(Lexer& lexer, Operand& operand) {
  operand.name = parse_name(lexer);
  if (lexer.peek().is("+") || lexer.peek().is("-")) {
    const bool minus = lexer.take().is("-");
    const Token at = lexer.peek();
    const Constant added = parse_constant(lexer);
    if (added.kind != Constant::Kind::integer) lexer.fail(at, "an integer is expected");
    const auto value = static_cast<std::uint64_t>(added.value);
    operand.value = static_cast<std::int64_t>(minus ? 0 - value : value);
  }
}

Operand parse_operand(Lexer& lexer, int depth);

std::vector<Operand> parse_elements(Lexer& lexer, std::string_view close, int depth) {
  std::vector<Operand> elements;
  if (lexer.take_if(close)) return elements;
  do elements.push_back(parse_operand(lexer, depth + 1));
  while (lexer.take_if(","));
  lexer.expect(close);
  return elements;
}

Operand parse_named(Lexer& lexer) {
  Operand operand;
  if (lexer.peek().is("_")) {
    lexer.take();
    operand.kind = Operand::Kind::nowhere;
  } else {
    operand.kind = Operand::Kind::name;
    parse_sum(lexer, operand);
  }
  return operand;
}

Operand parse_operand(Lexer& lexer, int depth) {
  if (depth > 4) lexer.fail_here("operands are nested too deeply");
  Operand operand;
  const Token& token = lexer.peek();
  if (token.kind == Token::Kind::word) {
    operand = parse_named(lexer);
    if (!lexer.take_if("|")) return operand;
    Operand pair;
    pair.kind = Operand::Kind::pair;
    pair.elements.push_back(std::move(operand));
    pair.elements.push_back(parse_named(lexer));
    return pair;
  }
  if (lexer.take_if("[")) {
    operand.kind = Operand::Kind::address;
    if (lexer.peek().kind == Token::Kind::word) {
      parse_sum(lexer, operand);
    } else {
      const Token at = lexer.peek();
      const Constant constant = parse_constant(lexer);
      if (constant.kind != Constant::Kind::integer) lexer.fail(at, "an address is expected");
      operand.value = constant.value;
    }
    if (lexer.take_if(",")) operand.elements.push_back(parse_operand(lexer, depth + 1));
    lexer.expect("]");
    return operand;
  }
  if (lexer.take_if("{")) {
    operand.kind = Operand::Kind::vector;
    operand.elements = parse_elements(lexer, "}", depth);
    return operand;
  }
  if (token.is("!")) {
    lexer.take();
    operand = parse_named(lexer);
    operand.negated = true;
    return operand;
  }
  return from_constant(parse_constant(lexer));
}

Instruction parse_instruction(Lexer& lexer, const Token& start) {
  Instruction instruction;
  Token opcode = start;
  instruction.line = start.line;
  if (start.is("@")) {
    instruction.negated = lexer.take_if("!");
    instruction.predicate = lexer.expect(Token::Kind::word, "a predicate").text;
    opcode = lexer.expect(Token::Kind::word, "an instruction");
    instruction.line = opcode.line;
  }
  instruction.opcode = opcode.text;
  while (lexer.peek().kind == Token::Kind::dotted)
    instruction.modifiers.push_back(lexer.take().text);
  const bool is_call = opcode.text == "call";
  while (!lexer.peek().is(";")) {
    if (is_call && lexer.peek().is("(")) {
      Operand list;
      list.kind = Operand::Kind::list;
      lexer.take();
      list.elements = parse_elements(lexer, ")", 0);
      instruction.operands.push_back(std::move(list));
    } else {
      instruction.operands.push_back(parse_operand(lexer, 0));
    }
    if (!lexer.take_if(",") && !lexer.peek().is(";"))
      lexer.fail_here("',' or ';' is expected behind an operand");
  }
  const Token end = lexer.expect(";");
  instruction.text = lexer.text().substr(start.at, end.at + 1 - start.at);
  return instruction;
}

BranchTargets parse_branch_targets(Lexer& lexer, std::string_view name) {
  BranchTargets targets;
  targets.name = name;
  do targets.labels.push_back(lexer.expect(Token::Kind::word, "a label").text);
  while (lexer.take_if(","));
  lexer.expect(";");
  return targets;
}

// ".callprototype (.param .b32 _) _ (.param .b64 _, ...);"
Prototype parse_prototype(Lexer& lexer, std::string_view name) {
  Prototype prototype;
  prototype.name = name;
  if (lexer.peek().is("(")) prototype.results = parse_parameters(lexer);
  lexer.expect("_");
  if (lexer.peek().is("(")) prototype.parameters = parse_parameters(lexer);
  lexer.take_if(".noreturn");
  lexer.expect(";");
  return prototype;
}

void parse_label(Lexer& lexer, const Token& name, std::vector<Statement>& body) {
  if (lexer.take_if(".branchtargets")) {
    body.emplace_back(parse_branch_targets(lexer, name.text));
  } else if (lexer.take_if(".callprototype")) {
    body.emplace_back(parse_prototype(lexer, name.text));
  } else {
    body.emplace_back(Label{name.text, name.line});
  }
}

void parse_dotted(Lexer& lexer, std::vector<Statement>& body) {
  const std::string_view word = lexer.peek().text;
  if (word == ".loc") {
    body.emplace_back(parse_location(lexer));
  } else if (word == ".pragma") {
    skip_pragma(lexer);
  } else if (space_of(word)) {
    std::vector<Declaration> variables;
    parse_variables(lexer, {}, variables);
    lexer.expect(";");
    for (Declaration& variable : variables) body.emplace_back(std::move(variable));
  } else {
    lexer.fail(lexer.peek(), "this directive is not implemented inside a function",
               LoadError::Kind::unsupported);
  }
}

}  // namespace

std::vector<Statement> parse_body(Lexer& lexer) {
  std::vector<Statement> body;
  lexer.expect("{");
  int depth = 1;
  while (depth > 0) {
    const Token& next = lexer.peek();
    if (next.is("{")) {
      if (++depth > kMaxScopes) lexer.fail_here("scopes are nested too deeply");
      lexer.take();
      body.emplace_back(Scope{true});
    } else if (next.is("}")) {
      lexer.take();
      if (--depth > 0) body.emplace_back(Scope{false});
    } else if (next.is(";")) {
      lexer.take();
    } else if (next.kind == Token::Kind::dotted) {
      parse_dotted(lexer, body);
    } else if (next.kind == Token::Kind::word) {
      const Token word = lexer.take();
      if (lexer.take_if(":"))
        parse_label(lexer, word, body);
      else
        body.emplace_back(parse_instruction(lexer, word));
    } else if (next.is("@")) {
      const Token at = lexer.take();
      body.emplace_back(parse_instruction(lexer, at));
    } else {
      lexer.fail_here("a statement is expected");
    }
  }
  return body;
}

// .loc 1 20 5 [, function_name $L__info_string0, inlined_at 1 30 3]
Location parse_location(Lexer& lexer) {
  lexer.expect(".loc");
  Location location;
  location.file = static_cast<std::uint32_t>(parse_count(lexer, 1 << 24));
  location.line = static_cast<std::uint32_t>(parse_count(lexer, ~std::uint32_t{0}));
  parse_count(lexer, ~std::uint32_t{0});
  while (lexer.take_if(",")) {
    const Token word = lexer.expect(Token::Kind::word, "'function_name' or 'inlined_at'");
    if (word.is("function_name")) {
      lexer.expect(Token::Kind::word, "a label");
      if (lexer.take_if("+")) parse_count(lexer, ~std::uint32_t{0});
    } else if (word.is("inlined_at")) {
      for (int i = 0; i < 3; ++i) parse_count(lexer, ~std::uint32_t{0});
    } else {
      lexer.fail(word, "'function_name' or 'inlined_at' is expected");
    }
  }
  return location;
}

// Hints for ptxas, such as "nounroll"; they never change what a kernel computes.
void skip_pragma(Lexer& lexer) {
  lexer.expect(".pragma");
  do lexer.expect(Token::Kind::string, "a text");
  while (lexer.take_if(","));
  lexer.expect(";");
}

}  // namespace kiln::emulator::ptx
