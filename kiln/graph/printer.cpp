#include <algorithm>
#include <unordered_map>

#include "kiln/graph/element_text.h"
#include "kiln/graph/ir.h"
#include "kiln/graph/layout.h"
#include "kiln/graph/op_info.h"
#include "kiln/graph/quoted.h"
#include "kiln/graph/symbol_text.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph {

std::string symbol_text(std::string_view name) {
  bool plain = !name.empty();
  for (char c : name) plain = plain && is_symbol_char(c);
  return "@" + (plain ? std::string(name) : quoted(name));
}

namespace ir {
namespace {

constexpr std::int64_t kMostDenseElements = 16;

std::string constant_text(const ConstantData& data, const TensorType& type,
                          const TextOptions& options) {
  const std::int64_t count = type.num_elements();
  const auto size = static_cast<std::size_t>(type.dtype.size_in_bytes());
  if (options.elide_constants_above && count > *options.elide_constants_above) return "elided";
  if (count <= kMostDenseElements && type.dtype.size_in_bits() >= 8) {
    std::vector<std::string> elements;
    for (std::int64_t i = 0; i < count; ++i)
      elements.push_back(element_text(type.dtype, data.bytes.data() + i * size));
    return format("dense<[{}]>", join(elements, ", "));
  }
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "hex\"";
  text.reserve(data.bytes.size() * 2 + 5);
  for (std::byte b : data.bytes) {
    text += kDigits[static_cast<int>(b) >> 4];
    text += kDigits[static_cast<int>(b) & 15];
  }
  return text + "\"";
}

std::string attribute_text(const Attribute& attribute, const Op& op, const TextOptions& options) {
  struct Visitor {
    const Op& op;
    const TextOptions& options;
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(std::int64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return real_text(v); }
    std::string operator()(const std::string& v) const { return quoted(v); }
    std::string operator()(DType v) const { return std::string(v.text_name()); }
    std::string operator()(const DeviceRef& v) const { return v.to_string(); }
    std::string operator()(const Dim& v) const { return v.to_string(); }
    std::string operator()(const Shape& v) const { return v.to_string(); }
    std::string operator()(FilterLayout v) const { return std::string(graph::to_string(v)); }
    std::string operator()(const std::vector<std::int64_t>& v) const {
      return format("[{}]", join(v, ", "));
    }
    std::string operator()(const std::vector<std::string>& v) const {
      std::vector<std::string> texts;
      for (const std::string& s : v) texts.push_back(quoted(s));
      return format("[{}]", join(texts, ", "));
    }
    std::string operator()(const std::shared_ptr<const ConstantData>& v) const {
      return constant_text(*v, op.result()->type.tensor(), options);
    }
  };
  return std::visit(Visitor{op, options}, attribute);
}

class Printer {
 public:
  explicit Printer(const TextOptions& options) : options_(options) {}

  std::string print(const Module& module) {
    out_ = "kiln.module version 1 {\n";
    for (const auto& graph : module.graphs) print(*graph);
    return std::move(out_) + "}\n";
  }

 private:
  void print(const Graph& graph) {
    names_.clear();
    next_ = 0;
    std::vector<std::string> arguments, results;
    for (const auto& argument : graph.body->arguments) {
      names_[argument.get()] = argument_label(graph, argument->index);
      arguments.push_back(format("{}: {}", names_[argument.get()], argument->type.to_text()));
    }
    if (const Op* output = graph.terminator())
      for (const Value* value : output->operands) results.push_back(value->type.to_text());
    out_ += format("  kiln.graph {}({}) -> ({})", symbol_text(graph.name), join(arguments, ", "),
                   join(results, ", "));
    if (graph.is_subgraph) out_ += " subgraph";
    if (!graph.parameters.empty()) out_ += format(" params [{}]", join(graph.parameters, ", "));
    out_ += format(
        "\n      {{argument_names = {}, result_names = {}, strict_device_placement = {}, "
        "kernel_libraries = {}{}}} {{\n",
        names(graph.argument_names), names(graph.result_names),
        quoted(graph.strict_device_placement), names(graph.kernel_libraries),
        graph.is_device_graph ? ", is_device_graph = true" : "");
    print(*graph.body, 4);
    out_ += "  }\n";
  }

  /// The name that the argument has, or one made up where the text could not tell it from that of
  /// another value.
  static std::string argument_label(const Graph& graph, std::size_t i) {
    const auto& names = graph.argument_names;
    auto is_taken = [&](const std::string& name) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    if (i < names.size() && !names[i].empty() && !(names[i][0] >= '0' && names[i][0] <= '9') &&
        std::find(names.begin(), names.end(), names[i]) - names.begin() ==
            static_cast<std::ptrdiff_t>(i) &&
        std::all_of(names[i].begin(), names[i].end(), is_symbol_char))
      return "%" + names[i];
    std::string label = format("arg{}", i);
    while (is_taken(label)) label += "_";
    return "%" + label;
  }

  static std::string names(const std::vector<std::string>& values) {
    std::vector<std::string> texts;
    for (const std::string& value : values) texts.push_back(quoted(value));
    return format("[{}]", join(texts, ", "));
  }

  void print(const Block& block, int indent) {
    for (const auto& op : block.ops) {
      out_.append(indent, ' ');
      print(*op, indent);
      out_ += '\n';
    }
  }

  std::string name_of(const Value* value) const {
    auto it = names_.find(value);
    KILN_CHECK(it != names_.end(), "a value is printed before its definition");
    return it->second;
  }

  void print(const Op& op, int indent) {
    for (const auto& result : op.results) {
      names_[result.get()] = format("%{}", next_++);
      out_ += (result->index ? ", " : "") + names_[result.get()];
    }
    if (!op.results.empty()) out_ += " = ";
    out_ += "kiln.";
    out_ += to_string(op.kind);
    if (op.kind == OpKind::print && op.operands.size() == 2) out_ += ".tensor";
    if (op.kind == OpKind::call) out_ += " " + symbol_text(op.attribute<std::string>("callee"));
    out_ += '(';
    if (op.kind == OpKind::while_loop) {
      print_loop_values(op);
    } else {
      for (std::size_t i = 0; i < op.operands.size(); ++i)
        out_ += (i ? ", " : "") + name_of(op.operands[i]);
    }
    out_ += ')';
    print_attributes(op);
    static constexpr const char* kKeywords[2][2] = {{"then", "else"}, {"cond", "do"}};
    for (std::size_t i = 0; i < op.regions.size(); ++i) {
      out_ += format(" {} {{\n", kKeywords[op.kind == OpKind::while_loop][i]);
      print(*op.regions[i], indent + 2);
      out_.append(indent, ' ');
      out_ += '}';
    }
    if (op.kind != OpKind::chain_create)
      for (const auto& result : op.results)
        out_ += (result->index ? ", " : " : ") + result->type.to_text();
    print_location(op);
  }

  // Both regions have arguments of their own, which the text gives the same names.
  void print_loop_values(const Op& op) {
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      std::string name = format("%{}", next_++);
      for (const auto& region : op.regions) names_[region->arguments[i].get()] = name;
      out_ += format("{}{} = {} : {}", i ? ", " : "", name, name_of(op.operands[i]),
                     op.operands[i]->type.to_text());
    }
  }

  void print_attributes(const Op& op) {
    std::vector<std::string> texts;
    for (const auto& [name, value] : op.attributes) {
      if (op.kind == OpKind::call && name == "callee") continue;
      std::string text = format("{} = {}", name, attribute_text(value, op, options_));
      // A weight is found by its name, so that stands first.
      if (op.kind == OpKind::constant_external && name == "name")
        texts.insert(texts.begin(), std::move(text));
      else
        texts.push_back(std::move(text));
    }
    if (!texts.empty()) out_ += format(" {{{}}}", join(texts, ", "));
  }

  void print_location(const Op& op) {
    if (!options_.source_locations || !op.location || op.location->empty()) return;
    std::vector<std::string> frames;
    for (const SourceFrame& frame : *op.location)
      frames.push_back(format("{}:{}", quoted(frame.file), frame.line));
    out_ += format(" loc({})", join(frames, ", "));
  }

  const TextOptions& options_;
  std::string out_;
  std::unordered_map<const Value*, std::string> names_;
  std::int64_t next_ = 0;
};

}  // namespace

std::string to_text(const Module& module, const TextOptions& options) {
  return Printer(options).print(module);
}

}  // namespace ir
}  // namespace kiln::graph
