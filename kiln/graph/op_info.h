#pragma once

// The table of ops: names, operands and attributes. Internal to kiln/graph.

#include <span>
#include <string_view>

#include "kiln/graph/ir.h"
#include "kiln/graph/op_kind.h"

namespace kiln::graph {

enum class AttributeKind : std::uint8_t {
  boolean,
  integer,
  real,
  string,
  dtype,
  device,
  dim,
  shape,
  layout,
  ints,
  strings,
  data,
  dim_or_real,
};

struct AttributeInfo {
  std::string_view name;
  AttributeKind kind;
  bool required = true;
};

struct OpInfo {
  OpKind kind;
  std::string_view name;  // in the IR text
  int min_operands = 0;
  int max_operands = 0;       // -1: any number
  std::string_view operands;  // their names, separated by blanks, for messages
  std::vector<AttributeInfo> attributes;
  int regions = 0;
  bool free_types = false;  // result types are declared, not inferred
  bool effects = false;     // takes and gives a chain
};

const OpInfo& op_info(OpKind kind);
/// Whether `attribute` holds a value of `kind`.
bool matches(const ir::Attribute& attribute, AttributeKind kind);
std::string_view to_string(AttributeKind kind);

}  // namespace kiln::graph
