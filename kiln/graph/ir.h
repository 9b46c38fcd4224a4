#pragma once

// The storage behind graphs: modules of graphs, graphs of blocks, blocks of ops, in SSA form.
// Programs use the handles in value.h and graph.h; the compiler reads and rewrites this directly.
//
// Ownership: a Module owns its graphs, a Graph its body, a Block its arguments and ops, an Op its
// results and regions. Operands are plain pointers to values of the same graph that come earlier or
// belong to an enclosing block.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kiln/dtype/dtype.h"
#include "kiln/graph/op_kind.h"
#include "kiln/graph/type.h"

namespace kiln::graph::ir {

struct Op;
struct Block;
struct Graph;
struct Module;

/// One SSA value: the result of an op or the argument of a block.
struct Value {
  Type type;
  Op* producer = nullptr;   // null for a block argument
  Block* block = nullptr;   // the block whose argument or whose op's result this is
  std::uint32_t index = 0;  // among the results or arguments
};

/// The bytes of a `constant` op: dense, row-major, little-endian; shared between copies of a graph.
struct ConstantData {
  std::vector<std::byte> bytes;
};

/// The value of one attribute.
using Attribute = std::variant<bool, std::int64_t, double, std::string, DType, DeviceRef, Dim,
                               Shape, FilterLayout, std::vector<std::int64_t>,
                               std::vector<std::string>, std::shared_ptr<const ConstantData>>;

/// Attributes by name; small, so a sorted vector in disguise is not worth it.
using Attributes = std::map<std::string, Attribute, std::less<>>;

/// Where the user wrote an op: frames from the innermost outwards, "file:line" and the source line.
struct SourceFrame {
  std::string file;
  int line = 0;
  std::string text;  // the source line, when full tracebacks are on
};
using SourceLocation = std::shared_ptr<const std::vector<SourceFrame>>;  // may be null

struct Op {
  OpKind kind;
  std::vector<Value*> operands;
  std::vector<std::unique_ptr<Value>> results;
  Attributes attributes;
  std::vector<std::unique_ptr<Block>> regions;
  SourceLocation location;
  Block* block = nullptr;

  Value* result(std::size_t i = 0) const { return results[i].get(); }
  Value* operand(std::size_t i) const { return operands[i]; }
  /// The attribute `name` as T. Missing or of another type: InternalError.
  template <typename T>
  const T& attribute(std::string_view name) const;
  bool has_attribute(std::string_view name) const {
    return attributes.find(name) != attributes.end();
  }
};

struct Block {
  std::vector<std::unique_ptr<Value>> arguments;
  std::vector<std::unique_ptr<Op>> ops;  // in program order; the last one is the terminator
  Op* parent = nullptr;                  // null for the body of a graph
  Graph* graph = nullptr;
};

struct Graph {
  std::string name;
  Module* module = nullptr;
  bool is_subgraph = false;
  std::unique_ptr<Block> body;
  std::vector<std::string> parameters;  // symbols of the input types, in order of first use
  std::vector<std::string> argument_names;
  std::vector<std::string> result_names;
  std::string strict_device_placement = "warn";
  std::vector<std::string> kernel_libraries;
  bool is_device_graph = false;

  /// The `output` op, or null when the graph was never terminated.
  const Op* terminator() const;
};

struct Module {
  std::vector<std::unique_ptr<Graph>> graphs;  // in the order they were added
  /// The graph of this name, or null.
  Graph* find(std::string_view name) const;
};

[[noreturn]] void throw_bad_attribute(const Op& op, std::string_view name);

template <typename T>
const T& Op::attribute(std::string_view name) const {
  auto it = attributes.find(name);
  if (it == attributes.end() || !std::holds_alternative<T>(it->second))
    throw_bad_attribute(*this, name);
  return std::get<T>(it->second);
}

/// Result types of an op from its operands and attributes, by the rules of the op. Operands that
/// the op does not take: ValueError with the reason alone. For ops whose result types are free
/// (constants, calls, control flow, custom kernels) `declared` is checked and returned.
std::vector<Type> infer_types(OpKind kind, const std::vector<Value*>& operands,
                              const Attributes& attributes, const std::vector<Type>& declared);

/// Appends an op to `block`; its results get the types that `infer_types` gives.
Op* append_op(Block& block, OpKind kind, std::vector<Value*> operands, Attributes attributes = {},
              std::vector<Type> declared_types = {}, SourceLocation location = nullptr);

/// A deep copy; constants are shared.
std::unique_ptr<Module> clone(const Module& module);

/// The IR text (format version 1). Equal modules give equal bytes.
struct TextOptions {
  bool source_locations = false;
  std::optional<std::int64_t> elide_constants_above;
};
std::string to_text(const Module& module, const TextOptions& options = {});

/// Reads IR text. Malformed text: ValueError with line and column.
std::unique_ptr<Module> parse(std::string_view text, std::string_view file_name = "<text>");

}  // namespace kiln::graph::ir
