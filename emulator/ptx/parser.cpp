#include "emulator/ptx/parser.h"

#include "emulator/ptx/constants.h"
#include "emulator/ptx/parser_internal.h"
#include "kiln/support/format.h"

namespace kiln::emulator::ptx {
namespace {

// What this reader knows; a newer text is refused, as an older driver would do.
constexpr std::uint32_t kNewestVersion = 99;

void parse_version(Lexer& lexer, Module& module) {
  lexer.expect(".version");
  const Token number = lexer.expect(Token::Kind::number, "a version such as 9.0");
  const std::size_t point = number.text.find('.');
  std::uint32_t parts[2] = {0, 0};
  for (std::size_t i = 0, part = 0; i < number.text.size(); ++i) {
    const char c = number.text[i];
    if (i == point)
      part = 1;
    else if (c >= '0' && c <= '9' && parts[part] < 100)
      parts[part] = parts[part] * 10 + (c - '0');
    else
      lexer.fail(number, "a version such as 9.0 is expected");
  }
  if (point == std::string_view::npos || parts[1] > 9 || parts[0] == 0)
    lexer.fail(number, "a version such as 9.0 is expected");
  module.version = parts[0] * 10 + parts[1];
  if (module.version > kNewestVersion)
    lexer.fail(number,
               format("the newest version that can be read is {}.{}", kNewestVersion / 10,
                      kNewestVersion % 10),
               LoadError::Kind::version);
}

void parse_target(Lexer& lexer, Module& module) {
  lexer.expect(".target");
  const Token name = lexer.expect(Token::Kind::word, "a target such as sm_90");
  std::string_view digits = name.text;
  if (digits.substr(0, 3) != "sm_" || digits.size() < 5 || digits.size() > 7)
    lexer.fail(name, "a target such as sm_90 is expected", LoadError::Kind::target);
  digits.remove_prefix(3);
  for (char c : digits) {
    if (c >= '0' && c <= '9')
      module.target = module.target * 10 + (c - '0');
    else if (c != 'a' && c != 'f')
      lexer.fail(name, "a target such as sm_90 is expected", LoadError::Kind::target);
  }
  while (lexer.take_if(",")) {
    const Token option = lexer.expect(Token::Kind::word, "an option of the target");
    if (!option.is("debug") && !option.is("texmode_independent") && !option.is("texmode_unified"))
      lexer.fail(option, "this option of the target is not known", LoadError::Kind::target);
  }
}

void parse_address_size(Lexer& lexer) {
  lexer.expect(".address_size");
  const Token size = lexer.peek();
  if (parse_count(lexer, 64) != 64) lexer.fail(size, "addresses must have 64 bits");
}

void parse_file(Lexer& lexer, Module& module) {
  lexer.expect(".file");
  const Token at = lexer.peek();
  const std::uint64_t index = parse_count(lexer, 1 << 16);
  const Token name = lexer.expect(Token::Kind::string, "the name of a file");
  if (index == 0) lexer.fail(at, "files are counted from one");
  if (module.files.size() <= index) module.files.resize(index + 1);
  module.files[index] = std::string(name.text);
  while (lexer.take_if(",")) parse_count(lexer, ~std::uint64_t{0} >> 1);
}

// .section .debug_info { .b8 1, 2 ... }: data of debuggers.
void skip_section(Lexer& lexer) {
  lexer.expect(".section");
  lexer.expect(Token::Kind::dotted, "the name of a section");
  lexer.expect("{");
  while (!lexer.take_if("}")) {
    if (lexer.peek().kind == Token::Kind::end) lexer.fail_here("a section is never closed");
    lexer.take();
  }
}

void parse_three(Lexer& lexer, std::uint32_t (&values)[3], std::uint32_t missing) {
  for (std::uint32_t& value : values) value = missing;
  for (int i = 0; i < 3; ++i) {
    values[i] = static_cast<std::uint32_t>(parse_count(lexer, 1 << 30));
    if (i == 2 || !lexer.take_if(",")) return;
  }
}

bool parse_function_directive(Lexer& lexer, Function& function) {
  if (lexer.take_if(".maxntid")) {
    parse_three(lexer, function.max_threads, 1);
  } else if (lexer.take_if(".reqntid")) {
    parse_three(lexer, function.required_threads, 1);
  } else if (lexer.take_if(".minnctapersm")) {
    function.min_blocks = static_cast<std::uint32_t>(parse_count(lexer, 1 << 16));
  } else if (lexer.take_if(".maxnreg") || lexer.take_if(".maxnctapersm") ||
             lexer.take_if(".maxclusterrank")) {
    parse_count(lexer, 1 << 16);
  } else if (lexer.take_if(".noreturn")) {
    function.no_return = true;
  } else if (lexer.take_if(".explicitcluster")) {
    // The launch says it again.
  } else if (lexer.take_if(".reqnctapercluster")) {
    std::uint32_t extents[3];
    parse_three(lexer, extents, 1);
    function.required_cluster = extents[0] * extents[1] * extents[2];
  } else if (lexer.peek().is(".pragma")) {
    skip_pragma(lexer);
  } else {
    return false;
  }
  return true;
}

Function parse_function(Lexer& lexer, Function function) {
  const Token word = lexer.take();
  function.is_entry = word.is(".entry");
  function.line = word.line;
  if (!function.is_entry) {
    while (lexer.take_if(".attribute")) {
      lexer.expect("(");
      lexer.fail_here("attributes of functions are not implemented");
    }
    if (lexer.peek().is("(")) function.results = parse_parameters(lexer);
  }
  function.name = lexer.expect(Token::Kind::word, "the name of a function").text;
  if (lexer.peek().is("(")) function.parameters = parse_parameters(lexer);
  while (parse_function_directive(lexer, function)) {
  }
  if (lexer.take_if(";")) return function;
  if (!lexer.peek().is("{")) lexer.fail_here("'{' is expected");
  function.body = parse_body(lexer);
  function.has_body = true;
  return function;
}

struct Linkage {
  bool is_extern = false, is_visible = false, is_weak = false;
};

Linkage parse_linkage(Lexer& lexer) {
  Linkage linkage;
  for (;;) {
    if (lexer.take_if(".extern"))
      linkage.is_extern = true;
    else if (lexer.take_if(".visible"))
      linkage.is_visible = true;
    else if (lexer.take_if(".weak"))
      linkage.is_weak = true;
    else if (lexer.take_if(".common"))
      linkage.is_visible = true;
    else
      return linkage;
  }
}

void parse_item(Lexer& lexer, Module& module) {
  const Linkage linkage = parse_linkage(lexer);
  const std::string_view word = lexer.peek().text;
  if (word == ".entry" || word == ".func") {
    Function function;
    function.is_extern = linkage.is_extern;
    function.is_weak = linkage.is_weak;
    function.is_visible = linkage.is_visible;
    module.functions.push_back(parse_function(lexer, std::move(function)));
    return;
  }
  const auto space = space_of(word);
  if (!space || *space == Space::reg || *space == Space::param || *space == Space::local)
    lexer.fail(lexer.peek(), "this directive is not implemented", LoadError::Kind::unsupported);
  Declaration variable;
  variable.is_extern = linkage.is_extern;
  variable.is_weak = linkage.is_weak;
  variable.is_visible = linkage.is_visible;
  parse_variables(lexer, std::move(variable), module.variables);
  lexer.expect(";");
}

}  // namespace

std::unique_ptr<const Module> parse(std::string_view text) {
  auto module = std::make_unique<Module>();
  while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
  module->text = std::string(text);
  Lexer lexer(module->text);
  parse_version(lexer, *module);
  parse_target(lexer, *module);
  while (lexer.peek().kind != Token::Kind::end) {
    const Token& next = lexer.peek();
    if (next.is(".address_size"))
      parse_address_size(lexer);
    else if (next.is(".file"))
      parse_file(lexer, *module);
    else if (next.is(".section"))
      skip_section(lexer);
    else if (next.is(".pragma"))
      skip_pragma(lexer);
    else if (next.is(".loc"))
      parse_location(lexer);
    else if (next.is(";"))
      lexer.take();
    else
      parse_item(lexer, *module);
  }
  return module;
}

}  // namespace kiln::emulator::ptx
