#include <nlohmann/json.hpp>
#include <set>

#include "kiln/runtime/artifact_format.h"
#include "kiln/runtime/checksum.h"
#include "kiln/support/format.h"
#include "kiln/support/json_reader.h"

namespace kiln::runtime {
namespace format_v1 {
namespace {

using nlohmann::json;

// ---- writing -----------------------------------------------------------------------------------

json dim_to_json(const graph::Dim& dim);

json terms_to_json(const std::vector<graph::DimTerm>& terms) {
  json list = json::array();
  for (const graph::DimTerm& term : terms) {
    json entry = json::array({term.coefficient});
    for (const graph::DimAtom& atom : term.atoms) {
      if (atom.is_symbol())
        entry.push_back(atom.symbol);
      else
        entry.push_back(json::array({dim_to_json(atom.numerator), dim_to_json(atom.denominator)}));
    }
    list.push_back(std::move(entry));
  }
  return list;
}

// A number, a symbol's name, or a list of terms [coefficient, atom…] where an atom is a name or a
// pair [numerator, denominator].
json dim_to_json(const graph::Dim& dim) {
  if (dim.is_static()) return dim.value();
  if (dim.is_symbolic()) return dim.name();
  return terms_to_json(dim.terms());
}

json shape_to_json(const graph::Shape& shape) {
  json list = json::array();
  for (const graph::Dim& dim : shape) list.push_back(dim_to_json(dim));
  return list;
}

json tensor_to_json(const TensorSignature& tensor) {
  json out{{"device", tensor.device.to_string()},
           {"dtype", tensor.dtype.text_name()},
           {"name", tensor.name},
           {"shape", shape_to_json(tensor.shape)}};
  if (tensor.is_buffer) out["buffer"] = true;
  if (tensor.is_written) out["written"] = true;
  return out;
}

json tensors_to_json(const std::vector<TensorSignature>& tensors) {
  json list = json::array();
  for (const TensorSignature& tensor : tensors) list.push_back(tensor_to_json(tensor));
  return list;
}

json graphs_to_json(const std::vector<GraphSignature>& graphs) {
  json list = json::array();
  for (const GraphSignature& graph : graphs) {
    json entry{{"inputs", tensors_to_json(graph.inputs)},
               {"name", graph.name},
               {"outputs", tensors_to_json(graph.outputs)},
               {"prepared", graph.prepared_slots},
               {"run", graph.run_symbol},
               {"symbols", graph.symbols},
               {"weights", graph.weights}};
    if (!graph.init_symbol.empty()) entry["init"] = graph.init_symbol;
    if (!graph.sized_by_data.empty()) entry["sized_by_data"] = graph.sized_by_data;
    list.push_back(std::move(entry));
  }
  return list;
}

/// Without its offset, which depends on what the artifact carries.
json weight_to_json(const WeightSignature& weight) {
  return {{"align", weight.alignment},
          {"device", weight.device.to_string()},
          {"dtype", weight.dtype.text_name()},
          {"name", weight.name},
          {"shape", shape_to_json(weight.shape)}};
}

json target_to_json(const CpuTarget& target) {
  return {{"cpu", target.cpu},
          {"features", target.features},
          {"level", target.level},
          {"triple", target.triple}};
}

// ---- reading -----------------------------------------------------------------------------------

[[noreturn]] void invalid(const std::string& reason) { throw ValueError(reason); }

constexpr std::size_t kMaxNames = 1 << 16;     // entries of one list
constexpr std::size_t kLongestName = 1 << 14;  // bytes
constexpr std::size_t kMaxDimParts = 256;      // terms and atoms of one dim
constexpr std::uint64_t kDimPartBytes = 512;   // of a term or atom, with what ordering them takes
constexpr std::uint64_t kSymbolCheckBytes = 128;  // of a graph's symbol, in the sets that check it
constexpr std::uint64_t kSymbolTextCopies = 8;    // of a symbol's name, for the same

/// Reads the JSON of a header and counts what it allocates. A few bytes of JSON can ask for many of
/// memory, so a file could otherwise make its reader allocate a multiple of its length.
class HeaderReader : public JsonReader {
 public:
  HeaderReader(std::string_view text, std::uint64_t memory)
      : JsonReader(text, kLongestName), left_(memory) {}

  /// Called before the bytes are allocated.
  void charge(std::uint64_t bytes) {
    if (bytes > left_) fail("a header that would take more memory than its file may");
    left_ -= bytes;
  }
  /// The next string, to be kept.
  std::string kept_string() {
    std::string text = string();
    text.shrink_to_fit();
    if (text.capacity() > std::string().capacity()) charge(text.capacity() + 1);
    return text;
  }
  /// Counts the parts of one dim, and of the dims in it.
  void begin_dim() { dim_parts_ = 0; }
  void add_dim_part() {
    if (++dim_parts_ > kMaxDimParts) fail("a dim with too many terms");
    charge(kDimPartBytes);
  }

 private:
  std::uint64_t left_;
  std::size_t dim_parts_ = 0;
};

template <typename Read>
auto read_list(HeaderReader& reader, Read read) {
  using Item = decltype(read());
  std::vector<Item> items;
  const std::size_t count = reader.count_elements();
  if (count > kMaxNames) reader.fail("a list with too many entries");
  reader.charge(count * sizeof(Item));
  items.reserve(count);
  for (reader.begin_array(); reader.next_element();) items.push_back(read());
  return items;
}

/// Reads an object whose keys rise, so that none comes twice. `member` returns false for a key that
/// it does not know, which is skipped. All of `required` must be there.
template <typename Member>
void read_object(HeaderReader& reader, std::initializer_list<std::string_view> required,
                 Member member) {
  std::string key;
  std::string previous;
  bool first = true;
  std::size_t found = 0;
  for (reader.begin_object(); reader.next_key(key);) {
    if (!first && key <= previous) reader.fail(format("key '{}' is out of order", key));
    first = false;
    previous = key;
    for (std::string_view name : required)
      if (name == key) ++found;
    if (!member(key)) reader.skip();
  }
  if (found == required.size()) return;
  reader.fail(format("one of the keys {} is missing", join(required, ", ")));
}

graph::Dim read_dim(HeaderReader& reader, int depth);

/// A symbol's name; what is no identifier: ValueError.
std::string read_symbol(HeaderReader& reader) {
  reader.add_dim_part();
  std::string name = reader.string();
  reader.charge(kSymbolTextCopies * name.size());
  (void)graph::Dim(name);
  return name;
}

graph::DimAtom read_atom(HeaderReader& reader, int depth) {
  graph::DimAtom atom;
  if (reader.peek() == JsonReader::Kind::string) {
    atom.symbol = read_symbol(reader);
    return atom;
  }
  reader.begin_array();
  if (!reader.next_element()) reader.fail("a division needs two dims");
  atom.numerator = read_dim(reader, depth + 1);
  if (!reader.next_element()) reader.fail("a division needs two dims");
  atom.denominator = read_dim(reader, depth + 1);
  if (reader.next_element()) reader.fail("a division needs two dims");
  return atom;
}

graph::Dim read_dim(HeaderReader& reader, int depth) {
  if (depth > graph::Dim::kMaxNesting) reader.fail("a dim is nested too deeply");
  switch (reader.peek()) {
    case JsonReader::Kind::number:
      return graph::Dim(reader.integer());
    case JsonReader::Kind::string:
      return graph::Dim(read_symbol(reader));
    case JsonReader::Kind::array:
      break;
    default:
      reader.fail("expected a dim");
  }
  graph::DimPolynomial polynomial;
  bool symbolic = false;
  for (reader.begin_array(); reader.next_element();) {
    graph::DimTerm term;
    reader.add_dim_part();
    reader.begin_array();
    if (!reader.next_element()) reader.fail("a term needs a coefficient");
    term.coefficient = reader.integer();
    if (term.coefficient == 0) reader.fail("a term has the coefficient 0");
    while (reader.next_element()) term.atoms.push_back(read_atom(reader, depth));
    symbolic = symbolic || !term.atoms.empty();
    polynomial.terms.push_back(std::move(term));
  }
  if (!symbolic) reader.fail("an expression without symbols");
  return graph::Dim(std::move(polynomial));
}

graph::Shape read_shape(HeaderReader& reader) {
  graph::Shape shape;
  const std::size_t rank = reader.count_elements();
  if (rank > graph::kMaxRank) reader.fail("a shape has too many axes");
  reader.charge(rank * sizeof(graph::Dim));
  shape.reserve(rank);
  for (reader.begin_array(); reader.next_element();) {
    reader.begin_dim();
    shape.push_back(read_dim(reader, 0));
    if (shape.back().is_static() && shape.back().value() < 0) reader.fail("a dim is negative");
  }
  return shape;
}

DType read_dtype(HeaderReader& reader) {
  const std::string name = reader.string();
  try {
    return DType::from_name(name);
  } catch (const KeyError&) {
    reader.fail(format("unknown dtype '{}'", name));
  }
}

graph::DeviceRef read_device(HeaderReader& reader) {
  const std::string text = reader.string();
  for (graph::DeviceKind kind : {graph::DeviceKind::cpu, graph::DeviceKind::gpu}) {
    const std::string_view label = kind == graph::DeviceKind::cpu ? "cpu:" : "gpu:";
    if (!text.starts_with(label) || text.size() > label.size() + 4) continue;
    const std::string digits = text.substr(label.size());
    if (!digits.empty() && digits.find_first_not_of("0123456789") == std::string::npos)
      return graph::DeviceRef(kind, std::stoi(digits));
  }
  reader.fail(format("unknown device '{}'", text));
}

std::uint32_t read_index(HeaderReader& reader) {
  const std::uint64_t value = reader.unsigned_integer();
  if (value > UINT32_MAX) reader.fail("an index is too large");
  return static_cast<std::uint32_t>(value);
}

std::string read_name(HeaderReader& reader) {
  std::string name = reader.kept_string();
  if (name.find('\0') != std::string::npos) reader.fail("a name contains a zero byte");
  return name;
}

TensorSignature read_tensor(HeaderReader& reader) {
  TensorSignature tensor{.dtype = DType::bool_};
  read_object(reader, {"device", "dtype", "name", "shape"}, [&](const std::string& key) {
    if (key == "device")
      tensor.device = read_device(reader);
    else if (key == "dtype")
      tensor.dtype = read_dtype(reader);
    else if (key == "name")
      tensor.name = read_name(reader);
    else if (key == "shape")
      tensor.shape = read_shape(reader);
    else if (key == "buffer")
      tensor.is_buffer = reader.boolean();
    else if (key == "written")
      tensor.is_written = reader.boolean();
    else
      return false;
    return true;
  });
  return tensor;
}

GraphSignature read_graph(HeaderReader& reader) {
  GraphSignature graph;
  read_object(reader, {"inputs", "name", "outputs", "prepared", "run", "symbols", "weights"},
              [&](const std::string& key) {
                if (key == "init")
                  graph.init_symbol = read_name(reader);
                else if (key == "inputs")
                  graph.inputs = read_list(reader, [&] { return read_tensor(reader); });
                else if (key == "name")
                  graph.name = read_name(reader);
                else if (key == "outputs")
                  graph.outputs = read_list(reader, [&] { return read_tensor(reader); });
                else if (key == "prepared")
                  graph.prepared_slots = read_index(reader);
                else if (key == "run")
                  graph.run_symbol = read_name(reader);
                else if (key == "sized_by_data")
                  graph.sized_by_data = read_name(reader);
                else if (key == "symbols")
                  graph.symbols = read_list(reader, [&] {
                    reader.charge(kSymbolCheckBytes);
                    return read_name(reader);
                  });
                else if (key == "weights")
                  graph.weights = read_list(reader, [&] { return read_index(reader); });
                else
                  return false;
                return true;
              });
  return graph;
}

WeightSignature read_weight(HeaderReader& reader) {
  WeightSignature weight{.dtype = DType::bool_};
  read_object(reader, {"align", "device", "dtype", "name", "shape"}, [&](const std::string& key) {
    if (key == "align")
      weight.alignment = reader.integer();
    else if (key == "device")
      weight.device = read_device(reader);
    else if (key == "dtype")
      weight.dtype = read_dtype(reader);
    else if (key == "name")
      weight.name = read_name(reader);
    else if (key == "offset")
      weight.offset = reader.unsigned_integer();
    else if (key == "shape")
      weight.shape = read_shape(reader);
    else
      return false;
    return true;
  });
  return weight;
}

CpuTarget read_target(HeaderReader& reader) {
  CpuTarget target;
  read_object(reader, {"cpu", "features", "level", "triple"}, [&](const std::string& key) {
    if (key == "cpu")
      target.cpu = read_name(reader);
    else if (key == "features")
      target.features = read_list(reader, [&] { return read_name(reader); });
    else if (key == "level")
      target.level = read_name(reader);
    else if (key == "triple")
      target.triple = read_name(reader);
    else
      return false;
    return true;
  });
  return target;
}

AcceleratorTarget read_accelerator(HeaderReader& reader) {
  AcceleratorTarget target;
  read_object(reader, {"api", "arch"}, [&](const std::string& key) {
    if (key == "api")
      target.api = read_name(reader);
    else if (key == "arch")
      target.arch = read_name(reader);
    else
      return false;
    return true;
  });
  return target;
}

std::uint64_t read_checksum(HeaderReader& reader) {
  const std::string digits = reader.string();
  if (digits.size() != 16 || digits.find_first_not_of("0123456789abcdef") != std::string::npos)
    reader.fail("a checksum is not 16 hexadecimal digits");
  return std::stoull(digits, nullptr, 16);
}

SectionInfo read_section(HeaderReader& reader) {
  SectionInfo section;
  read_object(reader, {"checksum", "graph", "kind", "length", "offset"},
              [&](const std::string& key) {
                if (key == "checksum")
                  section.checksum = read_checksum(reader);
                else if (key == "graph") {
                  if (reader.peek() == JsonReader::Kind::null)
                    reader.null();
                  else
                    section.graph = read_name(reader);
                } else if (key == "kind")
                  section.kind = read_name(reader);
                else if (key == "length")
                  section.length = reader.unsigned_integer();
                else if (key == "offset")
                  section.offset = reader.unsigned_integer();
                else if (key == "target")
                  section.target = read_index(reader);
                else
                  return false;
                return true;
              });
  return section;
}

// ---- checks ------------------------------------------------------------------------------------

void check_graph(const GraphSignature& graph, std::size_t num_weights) {
  if (graph.run_symbol.empty()) invalid(format("graph '{}' has no entry point", graph.name));
  if (graph.prepared_slots > kMaxNames)
    invalid(format("graph '{}' prepares {} things", graph.name, graph.prepared_slots));
  for (std::uint32_t index : graph.weights)
    if (index >= num_weights)
      invalid(format("graph '{}' uses weight {} of {}", graph.name, index, num_weights));
  std::set<std::string_view> symbols(graph.symbols.begin(), graph.symbols.end());
  if (symbols.size() != graph.symbols.size())
    invalid(format("graph '{}' lists a symbol twice", graph.name));
  std::set<std::string_view> solved;
  for (const TensorSignature& input : graph.inputs)
    for (const graph::Dim& dim : input.shape) {
      if (dim.is_static()) continue;
      if (!dim.is_symbolic())
        invalid(format("an input of graph '{}' has the dim {}", graph.name, dim.to_string()));
      auto symbol = symbols.find(dim.name());
      if (symbol == symbols.end())
        invalid(format("graph '{}' does not list its symbol '{}'", graph.name, dim.name()));
      solved.insert(*symbol);
    }
  if (solved.size() != symbols.size())
    invalid(format("graph '{}' lists a symbol that no input has", graph.name));
}

void check_weight(const WeightSignature& weight) {
  if (weight.alignment < 1 || weight.alignment > static_cast<std::int64_t>(kPageAlignment) ||
      (weight.alignment & (weight.alignment - 1)) != 0)
    invalid(format("weight '{}' has the alignment {}", weight.name, weight.alignment));
  if (!graph::Shape::is_static(weight.shape))
    invalid(format("weight '{}' has the shape {}", weight.name, weight.shape.to_string()));
  (void)packed_bytes(weight.dtype, weight.shape);
}

}  // namespace

std::string header_text(const ArtifactHeader& header) {
  json weights = json::array();
  for (const WeightSignature& weight : header.weights) {
    json entry = weight_to_json(weight);
    if (weight.offset) entry["offset"] = *weight.offset;
    weights.push_back(std::move(entry));
  }
  json cpu = json::array();
  for (const CpuTarget& target : header.targets) cpu.push_back(target_to_json(target));
  json accelerators = json::array();
  for (const AcceleratorTarget& target : header.accelerators)
    accelerators.push_back({{"api", target.api}, {"arch", target.arch}});
  json sections = json::array();
  for (const SectionInfo& section : header.sections) {
    json entry{{"checksum", format("{:016x}", section.checksum)},
               {"kind", section.kind},
               {"length", section.length},
               {"offset", section.offset},
               {"graph", nullptr}};
    if (section.graph) entry["graph"] = *section.graph;
    if (section.target) entry["target"] = *section.target;
    sections.push_back(std::move(entry));
  }
  const json all{{"created_at", header.created_at},
                 {"graphs", graphs_to_json(header.graphs)},
                 {"kernels", header.kernels},
                 {"kiln", header.kiln_version},
                 {"runtime_interface", header.runtime_interface},
                 {"sections", std::move(sections)},
                 {"targets", {{"accelerators", std::move(accelerators)}, {"cpu", std::move(cpu)}}},
                 {"weights", std::move(weights)}};
  try {
    return all.dump();
  } catch (const json::type_error&) {
    throw ValueError(
        "A graph, tensor or weight has a name that is not UTF-8 text, so it cannot be "
        "stored in a MEF. Rename it.");
  }
}

ArtifactHeader parse_header(std::string_view text, std::uint64_t memory) {
  // The first pass only checks, so that nothing is allocated for what is not JSON.
  JsonReader checker(text);
  checker.skip();
  checker.finish();

  ArtifactHeader header;
  HeaderReader reader(text, memory);
  read_object(reader,
              {"created_at", "graphs", "kernels", "kiln", "runtime_interface", "sections",
               "targets", "weights"},
              [&](const std::string& key) {
                if (key == "created_at")
                  header.created_at = reader.integer();
                else if (key == "graphs")
                  header.graphs = read_list(reader, [&] { return read_graph(reader); });
                else if (key == "kernels")
                  header.kernels = read_list(reader, [&] { return read_name(reader); });
                else if (key == "kiln")
                  header.kiln_version = read_name(reader);
                else if (key == "runtime_interface")
                  header.runtime_interface =
                      static_cast<int>(std::min<std::uint32_t>(read_index(reader), INT32_MAX));
                else if (key == "sections")
                  header.sections = read_list(reader, [&] { return read_section(reader); });
                else if (key == "targets")
                  read_object(reader, {"accelerators", "cpu"}, [&](const std::string& kind) {
                    if (kind == "cpu")
                      header.targets = read_list(reader, [&] { return read_target(reader); });
                    else if (kind == "accelerators")
                      header.accelerators =
                          read_list(reader, [&] { return read_accelerator(reader); });
                    else
                      return false;
                    return true;
                  });
                else if (key == "weights")
                  header.weights = read_list(reader, [&] { return read_weight(reader); });
                else
                  return false;
                return true;
              });
  reader.finish();

  for (const WeightSignature& weight : header.weights) check_weight(weight);
  for (const GraphSignature& graph : header.graphs) check_graph(graph, header.weights.size());
  for (const SectionInfo& section : header.sections)
    if (section.kind == "code.cpu" && (!section.target || *section.target >= header.targets.size()))
      invalid("a code.cpu section names no target");
  return header;
}

}  // namespace format_v1

std::uint64_t interface_hash(const std::vector<GraphSignature>& graphs,
                             const std::vector<WeightSignature>& weights,
                             std::uint64_t constant_bytes, const CpuTarget& target) {
  using namespace format_v1;
  json list = json::array();
  for (const WeightSignature& weight : weights) list.push_back(weight_to_json(weight));
  const json all{{"constants", constant_bytes},
                 {"graphs", graphs_to_json(graphs)},
                 {"target", target_to_json(target)},
                 {"weights", std::move(list)}};
  const std::string text = all.dump(-1, ' ', false, json::error_handler_t::replace);
  return checksum(std::as_bytes(std::span(text)));
}

}  // namespace kiln::runtime
