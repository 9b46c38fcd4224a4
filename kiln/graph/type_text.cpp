#include "kiln/graph/type_text.h"

#include "kiln/graph/attribute_parser.h"

namespace kiln::graph {
namespace {

class TypeParser : ir::AttributeParser {
 public:
  explicit TypeParser(std::string_view text) : AttributeParser(text, "<type>") {}
  Type whole() {
    Type type = parse_type();
    if (!lex_.at_end()) lex_.fail("something follows the type");
    return type;
  }
};

}  // namespace

Type parse_type(std::string_view text) { return TypeParser(text).whole(); }

}  // namespace kiln::graph
