#include <unordered_map>
#include <unordered_set>

#include "kiln/graph/element_text.h"
#include "kiln/graph/ir.h"
#include "kiln/graph/layout.h"
#include "kiln/graph/lexer.h"
#include "kiln/graph/op_info.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

// Recursive descent over the text. Ops are appended through `append_op`, so every rule of inference
// holds for what is read; the only thing that needs its own care are constants, whose elements can
// be read only once their type, which stands behind them, is known.

namespace kiln::graph::ir {
namespace {

/// A constant as it stands in the text.
struct PendingConstant {
  std::vector<std::string> elements;
  std::string_view hex;
  bool dense = false;
  std::size_t position = 0;
};

class Parser {
 public:
  Parser(std::string_view text, std::string_view file) : lex_(text, file) {}

  std::unique_ptr<Module> parse() {
    auto module = std::make_unique<Module>();
    lex_.expect("kiln.module");
    lex_.expect("version");
    const std::size_t at = lex_.position();
    if (std::int64_t version = lex_.integer(); version != 1)
      lex_.fail_at(at,
                   format("the text has format version {}; this kiln reads version 1", version));
    lex_.expect("{");
    while (!lex_.accept("}")) parse_graph(*module);
    if (!lex_.at_end()) lex_.fail("unexpected text after the module");
    for (const PendingCall& call : calls_) check_call(*module, call);
    return module;
  }

 private:
  struct PendingCall {
    const Op* op;
    std::size_t position;
  };

  // ---- Types and attributes ----

  Dim parse_dim() {
    Dim sum = parse_product();
    while (true) {
      const std::size_t at = lex_.position();
      if (lex_.accept("+"))
        sum = fold(at, [&](const Dim& right) { return sum + right; }, parse_product());
      else if (lex_.accept("-"))
        sum = fold(at, [&](const Dim& right) { return sum - right; }, parse_product());
      else
        return sum;
    }
  }

  // Arithmetic of dims may overflow or divide by zero; the message wants a place.
  template <typename Operation>
  Dim fold(std::size_t at, Operation&& operation, const Dim& right) {
    try {
      return operation(right);
    } catch (const Error& e) {
      lex_.fail_at(at, e.message());
    }
  }

  Dim parse_product() {
    Dim product = parse_factor();
    while (true) {
      const std::size_t at = lex_.position();
      if (lex_.accept("*"))
        product = fold(at, [&](const Dim& right) { return product * right; }, parse_factor());
      else if (lex_.accept("//"))
        product =
            fold(at, [&](const Dim& right) { return product.floor_div(right); }, parse_factor());
      else
        return product;
    }
  }

  Dim parse_factor() {
    if (lex_.peek("(")) {
      // Each level of parentheses is a level of recursion; a real dim has few.
      if (++depth_ > 200) lex_.fail("the dim is nested too deeply");
      lex_.expect("(");
      Dim dim = parse_dim();
      lex_.expect(")");
      --depth_;
      return dim;
    }
    for (char c : {'-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'})
      if (peek_char(c)) return lex_.integer();
    return Dim(lex_.identifier());
  }

  bool peek_char(char c) {
    const std::size_t at = lex_.position();
    return at < size() && text_at(at) == c;
  }

  template <typename Parse>
  void parse_list(Parse&& parse_one) {
    lex_.expect("[");
    if (lex_.accept("]")) return;
    do parse_one();
    while (lex_.accept(","));
    lex_.expect("]");
  }

  Shape parse_shape() {
    Shape shape;
    parse_list([&] { shape.push_back(parse_dim()); });
    return shape;
  }

  std::vector<std::string> parse_strings() {
    std::vector<std::string> out;
    parse_list([&] { out.push_back(lex_.string()); });
    return out;
  }

  DType parse_dtype() {
    const std::size_t at = lex_.position();
    std::string name = lex_.identifier();
    try {
      return DType::from_name(name);
    } catch (const KeyError& e) {
      lex_.fail_at(at, e.message());
    }
  }

  DeviceRef parse_device() {
    DeviceKind kind = lex_.accept("cpu") ? DeviceKind::cpu : DeviceKind::gpu;
    if (kind == DeviceKind::gpu && !lex_.accept("gpu")) lex_.fail("expected a device");
    lex_.expect(":");
    const std::size_t at = lex_.position();
    std::int64_t id = lex_.integer();
    if (id < 0 || id > INT32_MAX) lex_.fail_at(at, "a device id is a small number");
    return {kind, static_cast<int>(id)};
  }

  FilterLayout parse_layout() {
    const std::size_t at = lex_.position();
    std::string name = lex_.identifier();
    try {
      return filter_layout_from_string(name);
    } catch (const ValueError& e) {
      lex_.fail_at(at, e.message());
    }
  }

  Type parse_type() {
    if (lex_.accept("chain")) return ChainType{};
    if (lex_.accept("opaque")) return parse_opaque();
    const std::size_t at = lex_.position();
    const bool buffer = lex_.accept("buffer");
    if (!buffer && !lex_.accept("tensor")) lex_.fail("expected a type");
    lex_.expect("<");
    Shape shape = parse_shape();
    lex_.expect(",");
    DType dtype = parse_dtype();
    DeviceRef device;
    std::optional<FilterLayout> layout;
    while (lex_.accept(",")) {
      if (!buffer && lex_.accept("layout")) {
        lex_.expect("=");
        layout = parse_layout();
      } else {
        device = parse_device();
      }
    }
    lex_.expect(">");
    try {
      if (buffer) return BufferType(dtype, std::move(shape), device);
      TensorType type(dtype, std::move(shape), device);
      type.layout = layout;
      return type;
    } catch (const Error& e) {
      lex_.fail_at(at, e.message());
    }
  }

  Type parse_opaque() {
    OpaqueType type;
    lex_.expect("<");
    type.name = lex_.string();
    if (lex_.accept(",")) {
      lex_.expect("{");
      do {
        std::string name = lex_.identifier();
        lex_.expect("=");
        OpaqueType::Parameter value;
        if (lex_.accept("true"))
          value = true;
        else if (lex_.accept("false"))
          value = false;
        else if (lex_.peek("\""))
          value = lex_.string();
        else if (peek_char('-') || is_digit())
          value = lex_.integer();
        else
          value = parse_dtype();
        type.parameters[name] = value;
      } while (lex_.accept(","));
      lex_.expect("}");
    }
    lex_.expect(">");
    return type;
  }

  bool is_digit() {
    const std::size_t at = lex_.position();
    return at < size() && text_at(at) >= '0' && text_at(at) <= '9';
  }

  bool parse_bool() {
    if (lex_.accept("true")) return true;
    lex_.expect("false");
    return false;
  }

  double parse_double() {
    const std::size_t at = lex_.position();
    std::optional<double> value = parse_real(lex_.number());
    if (!value) lex_.fail_at(at, "expected a float");
    return *value;
  }

  // A float has a point, an exponent or a special name; anything else is a dim.
  Attribute parse_dim_or_real() {
    const std::size_t at = lex_.position();
    if (peek_char('-') || is_digit()) {
      std::size_t end = at;
      while (end < size() &&
             std::string_view(",}) \n").find(text_at(end)) == std::string_view::npos)
        ++end;
      std::string_view token = lex_text_.substr(at, end - at);
      if (token.find_first_of(".eE") != std::string_view::npos) return parse_double();
    }
    return parse_dim();
  }

  PendingConstant parse_constant() {
    PendingConstant constant;
    constant.position = lex_.position();
    if (lex_.accept("elided"))
      lex_.fail_at(constant.position,
                   "the constant was elided when this text was printed; print it again without "
                   "elide_constants_above");
    if (lex_.accept("hex")) {
      constant.hex = lex_.raw_string();
      return constant;
    }
    lex_.expect("dense");
    lex_.expect("<");
    constant.dense = true;
    parse_list([&] { constant.elements.push_back(lex_.number()); });
    lex_.expect(">");
    return constant;
  }

  std::shared_ptr<const ConstantData> resolve(const PendingConstant& constant, const Type& type) {
    auto data = std::make_shared<ConstantData>();
    if (!constant.dense) {
      auto digit = [&](char c) {
        if (c >= '0' && c <= '9') return c - '0';
        if (c >= 'a' && c <= 'f') return c - 'a' + 10;
        lex_.fail_at(constant.position, "a hex constant has the digits 0-9 and a-f");
      };
      if (constant.hex.size() % 2 != 0)
        lex_.fail_at(constant.position, "a hex constant has two digits for each byte");
      for (std::size_t i = 0; i < constant.hex.size(); i += 2)
        data->bytes.push_back(
            static_cast<std::byte>(digit(constant.hex[i]) * 16 + digit(constant.hex[i + 1])));
      return data;
    }
    if (!type.is_tensor() || type.tensor().dtype.size_in_bits() < 8)
      lex_.fail_at(constant.position, "a dense constant has a tensor type of whole bytes");
    const DType dtype = type.tensor().dtype;
    const auto size = static_cast<std::size_t>(dtype.size_in_bytes());
    data->bytes.resize(constant.elements.size() * size);
    for (std::size_t i = 0; i < constant.elements.size(); ++i)
      if (!parse_element(dtype, constant.elements[i], data->bytes.data() + i * size))
        lex_.fail_at(constant.position, format("'{}' is no element of type {}",
                                               constant.elements[i], dtype.text_name()));
    return data;
  }

  Attribute parse_attribute(AttributeKind kind, std::optional<PendingConstant>& constant) {
    switch (kind) {
      case AttributeKind::boolean:
        return parse_bool();
      case AttributeKind::integer:
        return lex_.integer();
      case AttributeKind::real:
        return parse_double();
      case AttributeKind::string:
        return lex_.string();
      case AttributeKind::dtype:
        return parse_dtype();
      case AttributeKind::device:
        return parse_device();
      case AttributeKind::dim:
        return parse_dim();
      case AttributeKind::shape:
        return parse_shape();
      case AttributeKind::layout:
        return parse_layout();
      case AttributeKind::dim_or_real:
        return parse_dim_or_real();
      case AttributeKind::strings:
        return parse_strings();
      case AttributeKind::ints: {
        std::vector<std::int64_t> out;
        parse_list([&] { out.push_back(lex_.integer()); });
        return out;
      }
      case AttributeKind::data:
        constant = parse_constant();
        return std::shared_ptr<const ConstantData>();
    }
    return false;
  }

  Attributes parse_attributes(const OpInfo& info, std::optional<PendingConstant>& constant) {
    Attributes attributes;
    if (!lex_.accept("{")) return attributes;
    if (lex_.accept("}")) return attributes;
    do {
      const std::size_t at = lex_.position();
      std::string name = lex_.identifier();
      auto it = std::find_if(info.attributes.begin(), info.attributes.end(),
                             [&](const AttributeInfo& a) { return a.name == name; });
      // The reductions "max" and "min" share their names with elementwise ops.
      AttributeKind kind = AttributeKind::integer;
      if (it != info.attributes.end())
        kind = it->kind;
      else if (name != "axis" || (info.kind != OpKind::max && info.kind != OpKind::min))
        lex_.fail_at(at, format("'kiln.{}' has no attribute '{}'", info.name, name));
      lex_.expect("=");
      if (!attributes.emplace(name, parse_attribute(kind, constant)).second)
        lex_.fail_at(at, format("attribute '{}' stands here twice", name));
    } while (lex_.accept(","));
    lex_.expect("}");
    return attributes;
  }

  // ---- Values ----

  Value* use() {
    const std::size_t at = lex_.position();
    lex_.expect("%");
    std::string name = lex_.symbol();
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (auto it = scope->find(name); it != scope->end()) return it->second;
    lex_.fail_at(at, format("value %{} is not defined here", name));
  }

  void define(const std::string& name, Value* value, std::size_t position) {
    for (const auto& scope : scopes_)
      if (scope.count(name)) lex_.fail_at(position, format("value %{} is defined twice", name));
    scopes_.back()[name] = value;
  }

  static Value* add_argument(Block& block, Type type) {
    auto value = std::make_unique<Value>(Value{std::move(type)});
    value->block = &block;
    value->index = static_cast<std::uint32_t>(block.arguments.size());
    block.arguments.push_back(std::move(value));
    return block.arguments.back().get();
  }

  // ---- Ops ----

  struct Name {
    std::string text;
    std::size_t position;
  };

  void parse_op(Block& block) {
    std::vector<Name> results;
    if (lex_.peek("%")) {
      do {
        const std::size_t at = lex_.position();
        lex_.expect("%");
        results.push_back({lex_.symbol(), at});
      } while (lex_.accept(","));
      lex_.expect("=");
    }
    const std::size_t at = lex_.position();
    lex_.expect("kiln");
    lex_.expect(".");
    std::string name = lex_.dotted();
    std::optional<OpKind> kind = op_kind_from_string(name);
    if (!kind) lex_.fail_at(at, format("unknown op 'kiln.{}'", name));

    if (scopes_.size() == 1 ? *kind == OpKind::yield || *kind == OpKind::condition
                            : *kind == OpKind::output)
      lex_.fail_at(at, format("'kiln.{}' does not belong here", name));

    std::string callee;
    if (*kind == OpKind::call) {
      lex_.expect("@");
      callee = lex_.symbol();
    }
    std::vector<Value*> operands;
    std::vector<Name> loop_values;
    lex_.expect("(");
    while (!lex_.accept(")")) {
      if (!operands.empty()) lex_.expect(",");
      if (*kind == OpKind::while_loop) loop_values.push_back(parse_loop_name());
      operands.push_back(use());
      if (*kind != OpKind::while_loop) continue;
      lex_.expect(":");
      const std::size_t type_at = lex_.position();
      if (Type type = parse_type(); type != operands.back()->type)
        lex_.fail_at(type_at, format("the value has type {}", operands.back()->type.to_text()));
    }
    std::optional<PendingConstant> constant;
    Attributes attributes = parse_attributes(op_info(*kind), constant);
    if (*kind == OpKind::call) attributes["callee"] = callee;
    if (attributes.count("axis") && *kind == OpKind::max) kind = OpKind::reduce_max;
    if (attributes.count("axis") && *kind == OpKind::min) kind = OpKind::reduce_min;

    std::vector<std::unique_ptr<Block>> regions =
        parse_regions(*kind, block, operands, loop_values);
    std::vector<Type> types;
    if (lex_.accept(":")) {
      do types.push_back(parse_type());
      while (lex_.accept(","));
    } else if (*kind == OpKind::chain_create) {
      types.push_back(ChainType{});
    }
    if (types.size() != results.size())
      lex_.fail_at(
          at, format("'kiln.{}' has {} results but {} types", name, results.size(), types.size()));
    if (constant)
      attributes["value"] = resolve(*constant, types.empty() ? Type(ChainType{}) : types[0]);
    SourceLocation location = parse_location();

    Op* op = nullptr;
    try {
      op = append_op(block, *kind, std::move(operands), std::move(attributes), std::move(types),
                     std::move(location));
    } catch (const ValueError& e) {
      lex_.fail_at(at, e.message());
    }
    if (op->results.size() != results.size())
      lex_.fail_at(at, format("'kiln.{}' has {} results, {} are named", name, op->results.size(),
                              results.size()));
    op->regions = std::move(regions);
    for (auto& region : op->regions) region->parent = op;
    check_regions(*op, at);
    if (*kind == OpKind::call) calls_.push_back({op, at});
    for (std::size_t i = 0; i < results.size(); ++i)
      define(results[i].text, op->result(i), results[i].position);
  }

  Name parse_loop_name() {
    const std::size_t at = lex_.position();
    lex_.expect("%");
    Name name{lex_.symbol(), at};
    lex_.expect("=");
    return name;
  }

  SourceLocation parse_location() {
    if (!lex_.accept("loc")) return nullptr;
    auto frames = std::make_shared<std::vector<SourceFrame>>();
    lex_.expect("(");
    do {
      SourceFrame frame;
      frame.file = lex_.string();
      lex_.expect(":");
      frame.line = static_cast<int>(lex_.integer());
      frames->push_back(std::move(frame));
    } while (lex_.accept(","));
    lex_.expect(")");
    return frames;
  }

  std::vector<std::unique_ptr<Block>> parse_regions(OpKind kind, Block& outer,
                                                    const std::vector<Value*>& operands,
                                                    const std::vector<Name>& loop_values) {
    std::vector<std::unique_ptr<Block>> regions;
    const bool loop = kind == OpKind::while_loop;
    if (!loop && kind != OpKind::cond) return regions;
    if (++depth_ > 200) lex_.fail("regions are nested too deeply");
    for (const char* keyword : {loop ? "cond" : "then", loop ? "do" : "else"}) {
      lex_.expect(keyword);
      auto block = std::make_unique<Block>();
      block->graph = outer.graph;
      scopes_.emplace_back();
      for (std::size_t i = 0; i < loop_values.size(); ++i)
        define(loop_values[i].text, add_argument(*block, operands[i]->type),
               loop_values[i].position);
      parse_block(*block);
      scopes_.pop_back();
      regions.push_back(std::move(block));
    }
    --depth_;
    return regions;
  }

  void parse_block(Block& block) {
    lex_.expect("{");
    while (!lex_.accept("}")) {
      if (!block.ops.empty()) {
        OpKind last = block.ops.back()->kind;
        if (last == OpKind::output || last == OpKind::yield || last == OpKind::condition)
          lex_.fail("no op may follow the one that ends a block");
      }
      parse_op(block);
    }
  }

  void check_regions(const Op& op, std::size_t at) {
    for (std::size_t r = 0; r < op.regions.size(); ++r) {
      const bool condition = op.kind == OpKind::while_loop && r == 0;
      const OpKind end = condition ? OpKind::condition : OpKind::yield;
      const Block& block = *op.regions[r];
      if (block.ops.empty() || block.ops.back()->kind != end)
        lex_.fail_at(at, format("a region of 'kiln.{}' must end with 'kiln.{}'", to_string(op.kind),
                                to_string(end)));
      if (condition) continue;
      const auto& given = block.ops.back()->operands;
      bool equal = given.size() == op.results.size();
      for (std::size_t i = 0; equal && i < given.size(); ++i)
        equal = given[i]->type == op.result(i)->type;
      if (!equal)
        lex_.fail_at(at, format("a region of 'kiln.{}' yields other types than its results have",
                                to_string(op.kind)));
    }
  }

  // ---- Graphs ----

  void parse_graph(Module& module) {
    const std::size_t at = lex_.position();
    lex_.expect("kiln.graph");
    lex_.expect("@");
    auto graph = std::make_unique<Graph>();
    graph->module = &module;
    graph->name = lex_.symbol();
    graph->body = std::make_unique<Block>();
    graph->body->graph = graph.get();
    scopes_.assign(1, {});
    lex_.expect("(");
    Shape dims;
    while (!lex_.accept(")")) {
      if (!graph->body->arguments.empty()) lex_.expect(",");
      const std::size_t name_at = lex_.position();
      lex_.expect("%");
      std::string name = lex_.symbol();
      lex_.expect(":");
      Value* value = add_argument(*graph->body, parse_type());
      define(name, value, name_at);
      if (value->type.is_tensor() || value->type.is_buffer())
        for (const Dim& dim : value->type.shaped().shape) dims.push_back(dim);
    }
    lex_.expect("->");
    lex_.expect("(");
    std::vector<Type> results;
    while (!lex_.accept(")")) {
      if (!results.empty()) lex_.expect(",");
      results.push_back(parse_type());
    }
    graph->is_subgraph = lex_.accept("subgraph");
    if (lex_.accept("params")) parse_list([&] { graph->parameters.push_back(lex_.identifier()); });
    if (graph->parameters != dims.parameters())
      lex_.fail_at(at, format("the params of graph '{}' are not the symbols of its inputs, [{}]",
                              graph->name, join(dims.parameters(), ", ")));
    parse_graph_attributes(*graph);
    parse_block(*graph->body);
    const Op* end = graph->terminator();
    const std::size_t count = end ? end->operands.size() : 0;
    bool equal = count == results.size();
    for (std::size_t i = 0; equal && i < count; ++i) equal = end->operand(i)->type == results[i];
    if (!equal)
      lex_.fail_at(at, format("the results of graph '{}' differ from the types in its first line",
                              graph->name));
    module.graphs.push_back(std::move(graph));
  }

  void parse_graph_attributes(Graph& graph) {
    lex_.expect("{");
    if (lex_.accept("}")) return;
    do {
      const std::size_t at = lex_.position();
      std::string name = lex_.identifier();
      lex_.expect("=");
      if (name == "argument_names")
        graph.argument_names = parse_strings();
      else if (name == "result_names")
        graph.result_names = parse_strings();
      else if (name == "strict_device_placement")
        graph.strict_device_placement = lex_.string();
      else if (name == "kernel_libraries")
        graph.kernel_libraries = parse_strings();
      else if (name == "is_device_graph")
        graph.is_device_graph = parse_bool();
      else
        lex_.fail_at(at, format("a graph has no attribute '{}'", name));
    } while (lex_.accept(","));
    lex_.expect("}");
  }

  void check_call(const Module& module, const PendingCall& call) {
    const auto& name = call.op->attribute<std::string>("callee");
    const Graph* callee = module.find(name);
    if (!callee) lex_.fail_at(call.position, format("there is no graph '{}' to call", name));
    if (callee->body->arguments.size() != call.op->operands.size())
      lex_.fail_at(call.position,
                   format("Expected {} args to call to {}, got {}.", callee->body->arguments.size(),
                          name, call.op->operands.size()));
  }

  std::size_t size() const { return lex_text_.size(); }
  char text_at(std::size_t i) const { return lex_text_[i]; }

  Lexer lex_;
  std::string_view lex_text_ = lex_.text();
  std::vector<std::unordered_map<std::string, Value*>> scopes_;
  std::vector<PendingCall> calls_;
  int depth_ = 0;
};

}  // namespace

std::unique_ptr<Module> parse(std::string_view text, std::string_view file_name) {
  return Parser(text, file_name).parse();
}

}  // namespace kiln::graph::ir
