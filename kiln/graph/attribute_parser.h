#pragma once

// The parts of the IR text below ops: dims, types, attribute values. Internal to kiln/graph.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/graph/ir.h"
#include "kiln/graph/lexer.h"
#include "kiln/graph/op_info.h"
#include "kiln/support/error.h"

namespace kiln::graph::ir {

/// A constant as it stands in the text.
struct PendingConstant {
  std::vector<std::string> elements;
  std::string_view hex;
  bool dense = false;
  std::size_t position = 0;
};

class AttributeParser {
 protected:
  explicit AttributeParser(std::string_view text, std::string_view file) : lex_(text, file) {}

  Dim parse_dim();
  template <typename Operation>
  Dim fold(std::size_t at, Operation&& operation, const Dim& right) {
    try {
      return operation(right);
    } catch (const Error& e) {
      lex_.fail_at(at, e.message());
    }
  }
  Dim parse_product();
  Dim parse_factor();
  bool peek_char(char c);
  template <typename Parse>
  void parse_list(Parse&& parse_one) {
    lex_.expect("[");
    if (lex_.accept("]")) return;
    do parse_one();
    while (lex_.accept(","));
    lex_.expect("]");
  }
  Shape parse_shape();
  std::vector<std::string> parse_strings();
  DType parse_dtype();
  DeviceRef parse_device();
  FilterLayout parse_layout();
  Type parse_type();
  Type parse_opaque();
  bool is_digit();
  bool parse_bool();
  double parse_double();
  Attribute parse_dim_or_real();
  PendingConstant parse_constant();
  std::shared_ptr<const ConstantData> resolve(const PendingConstant& constant, const Type& type);
  Attribute parse_attribute(AttributeKind kind, std::optional<PendingConstant>& constant);
  Attributes parse_attributes(const OpInfo& info, std::optional<PendingConstant>& constant);

  std::size_t size() const { return lex_.text().size(); }
  char text_at(std::size_t i) const { return lex_.text()[i]; }

  Lexer lex_;
  int depth_ = 0;  // of parentheses and regions
};

}  // namespace kiln::graph::ir
