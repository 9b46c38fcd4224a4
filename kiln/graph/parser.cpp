#include <unordered_map>
#include <unordered_set>

#include "kiln/graph/attribute_parser.h"
#include "kiln/graph/infer.h"
#include "kiln/graph/ir.h"
#include "kiln/graph/op_info.h"
#include "kiln/graph/symbols.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

// Recursive descent over the text. Ops are appended through `append_op`, so every rule of inference
// holds for what is read; the only thing that needs its own care are constants, whose elements can
// be read only once their type, which stands behind them, is known.

namespace kiln::graph::ir {
namespace {

class Parser : AttributeParser {
 public:
  Parser(std::string_view text, std::string_view file) : AttributeParser(text, file) {}

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
    } catch (const InternalError&) {
      throw;
    } catch (const Error& e) {
      lex_.fail_at(at, e.message());
    }
    if (op->results.size() != results.size())
      lex_.fail_at(at, format("'kiln.{}' has {} results, {} are named", name, op->results.size(),
                              results.size()));
    check_symbols(*op, at);
    op->regions = std::move(regions);
    for (auto& region : op->regions) region->parent = op;
    check_regions(*op, at);
    if (*kind == OpKind::call) calls_.push_back({op, at});
    for (std::size_t i = 0; i < results.size(); ++i)
      define(results[i].text, op->result(i), results[i].position);
  }

  /// The caller of a subgraph knows more symbols; the compiler checks those where it is called.
  void check_symbols(const Op& op, std::size_t at) {
    const std::optional<std::string> undefined = note_symbols(op, symbols_);
    if (undefined && !graph_->is_subgraph)
      lex_.fail_at(at, undefined_symbol_text(*undefined, graph_->name));
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
    if (++depth_ > kDeepestRegions) lex_.fail("regions are nested too deeply");
    for (const char* keyword : {loop ? "cond" : "then", loop ? "do" : "else"}) {
      lex_.expect(keyword);
      auto block = std::make_unique<Block>();
      block->graph = outer.graph;
      scopes_.emplace_back();
      std::set<std::string> symbols = symbols_;
      for (std::size_t i = 0; i < loop_values.size(); ++i)
        define(loop_values[i].text, add_argument(*block, operands[i]->type),
               loop_values[i].position);
      parse_block(*block);
      scopes_.pop_back();
      symbols_ = std::move(symbols);
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
      Type type = parse_type();
      try {
        check_size(format("Input {} of graph '{}'", name, graph->name), type);
      } catch (const ValueError& e) {
        lex_.fail_at(name_at, e.message());
      }
      Value* value = add_argument(*graph->body, std::move(type));
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
    for (const auto& argument : graph->body->arguments)
      if (argument->type.is_chain() && !graph->is_subgraph)
        lex_.fail_at(at,
                     format("graph '{}' has a chain among its inputs; only a subgraph has, make "
                            "one with kiln.chain.create()",
                            graph->name));
    if (lex_.accept("params")) parse_list([&] { graph->parameters.push_back(lex_.identifier()); });
    if (graph->parameters != dims.parameters())
      lex_.fail_at(
          at, format("the params of graph '{}' must be the symbols of its inputs; {}", graph->name,
                     dims.parameters().empty() ? "it has none, so leave params out"
                                               : format("write \"params [{}]\" behind its results",
                                                        join(dims.parameters(), ", "))));
    graph_ = graph.get();
    symbols_ = {graph->parameters.begin(), graph->parameters.end()};
    parse_graph_attributes(*graph, static_cast<std::size_t>(std::count_if(
                                       results.begin(), results.end(),
                                       [](const Type& type) { return !type.is_chain(); })));
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

  /// The names of arguments or results, which are found by them: a name for each of `count` values,
  /// or none at all.
  std::vector<std::string> parse_names(std::size_t at, const std::string& list, std::size_t count) {
    std::vector<std::string> names = parse_strings();
    if (!names.empty() && names.size() != count)
      lex_.fail_at(at, format("{} has {} names, but there are {} values; give each a name, or "
                              "leave the list out",
                              list, names.size(), count));
    std::set<std::string_view> seen;
    for (const std::string& name : names) {
      if (name.empty() || name.find('\0') != std::string::npos)
        lex_.fail_at(at, format("a name in {} is empty or holds a NUL character", list));
      if (!seen.insert(name).second)
        lex_.fail_at(at, format("{} has the name '{}' twice", list, name));
    }
    return names;
  }

  void parse_graph_attributes(Graph& graph, std::size_t results) {
    lex_.expect("{");
    if (lex_.accept("}")) return;
    do {
      const std::size_t at = lex_.position();
      std::string name = lex_.identifier();
      lex_.expect("=");
      if (name == "argument_names")
        graph.argument_names = parse_names(at, name, graph.body->arguments.size());
      else if (name == "result_names")
        graph.result_names = parse_names(at, name, results);
      else if (name == "strict_device_placement")
        graph.strict_device_placement = parse_placement();
      else if (name == "kernel_libraries")
        graph.kernel_libraries = parse_strings();
      else if (name == "is_device_graph")
        graph.is_device_graph = parse_bool();
      else
        lex_.fail_at(at, format("a graph has no attribute '{}'", name));
    } while (lex_.accept(","));
    lex_.expect("}");
  }

  std::string parse_placement() {
    const std::size_t at = lex_.position();
    std::string policy = lex_.string();
    if (policy != "ignore" && policy != "warn" && policy != "error")
      lex_.fail_at(at, format("strict_device_placement is \"ignore\", \"warn\" or \"error\", "
                              "not \"{}\"",
                              policy));
    return policy;
  }

  void check_call(const Module& module, const PendingCall& call) {
    const auto& name = call.op->attribute<std::string>("callee");
    const Graph* callee = module.find(name);
    if (!callee) lex_.fail_at(call.position, format("there is no graph '{}' to call", name));
    if (callee->body->arguments.size() != call.op->operands.size())
      lex_.fail_at(call.position,
                   format("Expected {} args to call to {}, got {}.", callee->body->arguments.size(),
                          name, call.op->operands.size()));
    Substitution symbols;
    const auto check = [&](const char* what, std::size_t i, const Type& formal,
                           const Type& actual) {
      const Type expected = substitute(formal, symbols);
      if (expected != actual)
        lex_.fail_at(call.position, format("{} {} of the call to {} has the wrong type: expected "
                                           "{}, got {}",
                                           what, i, name, expected.to_text(), actual.to_text()));
    };
    const auto& arguments = callee->body->arguments;
    for (std::size_t i = 0; i < arguments.size(); ++i)
      bind_symbols(arguments[i]->type, call.op->operand(i)->type, symbols);
    for (std::size_t i = 0; i < arguments.size(); ++i)
      check("Argument", i, arguments[i]->type, call.op->operand(i)->type);
    const Op* end = callee->terminator();
    if (!end) return;
    if (end->operands.size() != call.op->results.size())
      lex_.fail_at(call.position, format("The call to {} has {} results, but the graph gives {}.",
                                         name, call.op->results.size(), end->operands.size()));
    // Sizes that only the callee knows have names of their own in its caller.
    for (std::size_t i = 0; i < end->operands.size(); ++i)
      bind_symbols(end->operand(i)->type, call.op->result(i)->type, symbols);
    for (std::size_t i = 0; i < end->operands.size(); ++i)
      check("Result", i, end->operand(i)->type, call.op->result(i)->type);
  }

  std::vector<std::unordered_map<std::string, Value*>> scopes_;
  const Graph* graph_ = nullptr;   // the one being read
  std::set<std::string> symbols_;  // that are defined in it so far
  std::vector<PendingCall> calls_;
};

}  // namespace

std::unique_ptr<Module> parse(std::string_view text, std::string_view file_name) {
  return Parser(text, file_name).parse();
}

}  // namespace kiln::graph::ir
