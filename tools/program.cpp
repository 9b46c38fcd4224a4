#include "tools/program.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <system_error>

#include "kiln/dtype/element.h"
#include "kiln/graph/ir.h"
#include "kiln/support/error.h"
#include "kiln/support/file.h"
#include "kiln/support/format.h"
#include "kiln/weights/safetensors.h"
#include "tools/npy.h"

namespace kiln::tools {
namespace {

constexpr std::string_view kMefStart = "KILNMEF\n";
constexpr std::string_view kTextStart = "kiln.module";

/// One line on a terminal that is written over and removed in the end.
class ProgressLine {
 public:
  ProgressLine() : shown_(::isatty(STDERR_FILENO) != 0) {}
  ~ProgressLine() {
    if (shown_ && drawn_) std::fputs("\r\x1b[K", stderr);
  }
  ProgressLine(const ProgressLine&) = delete;

  bool operator()(const runtime::CompileProgress& progress) {
    if (!shown_) return true;
    drawn_ = true;
    std::fprintf(stderr, "\r\x1b[Kcompiling %d/%d %.60s", progress.done, progress.total,
                 std::string(progress.what).c_str());
    std::fflush(stderr);
    return true;
  }

 private:
  bool shown_;
  bool drawn_ = false;
};

/// Neither a MEF nor text of graphs: ValueError.
void check_text(const std::string& file, std::string_view text) {
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  if (start == std::string::npos || !text.substr(start).starts_with(kTextStart))
    throw ValueError(
        format("'{}' is neither a MEF nor the text of graphs, which starts with '{} version 1'.",
               file, kTextStart));
}

/// "float32 [2, 3]".
std::string type_text(DType dtype, const graph::Shape& shape) {
  return format("{} {}", dtype.name(), shape.to_string());
}

/// Whether a buffer may be what the signature says, dims with symbols aside.
bool fits(const driver::Buffer& buffer, const runtime::TensorSignature& input) {
  if (buffer.dtype() != input.dtype || buffer.shape().size() != input.shape.size()) return false;
  for (std::size_t i = 0; i < input.shape.size(); ++i)
    if (input.shape[i].is_static() && input.shape[i].value() != buffer.shape()[i]) return false;
  return true;
}

/// Where a symbol's size came from, for the message when another source disagrees.
struct Size {
  std::int64_t value = 0;
  std::string source;
};

void set_size(std::map<std::string, Size>& sizes, const std::string& symbol, const Size& size) {
  const auto [known, fresh] = sizes.try_emplace(symbol, size);
  if (!fresh && known->second.value != size.value)
    throw ValueError(format("The dim '{}' is {} by {}, but {} by {}.", symbol, known->second.value,
                            known->second.source, size.value, size.source));
}

void fill_random(driver::Buffer& buffer, std::mt19937_64& random) {
  const DType dtype = buffer.dtype();
  if (dtype.size_in_bits() < 8) {
    auto* bytes = static_cast<unsigned char*>(buffer.data());
    for (std::size_t i = 0; i < buffer.byte_size(); ++i)
      bytes[i] = static_cast<unsigned char>(random());
    return;
  }
  for (std::int64_t i = 0; i < buffer.num_elements(); ++i) {
    // Small integers, since they are often indices; floats in [-1, 1).
    if (dtype.is_float())
      store_element(dtype, buffer.data(), i, static_cast<double>(random() >> 11) * 0x1p-52 - 1.0);
    else
      store_element(dtype, buffer.data(), i, static_cast<std::int64_t>(random() & 1));
  }
}

const runtime::GraphSignature& signature_of(const engine::CompiledModel& compiled,
                                            const std::string& name) {
  for (const auto& graph : compiled.artifact()->header().graphs)
    if (graph.name == name) return graph;
  throw KeyError(format("The file has no graph '{}'.", name));
}

}  // namespace

bool is_mef(const std::string& file) {
  std::string start(kMefStart.size(), '\0');
  std::ifstream(file, std::ios::binary)
      .read(start.data(), static_cast<std::streamsize>(start.size()));
  return start == kMefStart;
}

std::pair<std::string, std::string> split_setting(const std::string& option,
                                                  const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw UsageError{format("{} takes NAME=VALUE, not '{}'.", option, text)};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

engine::CompiledModel open_program(const engine::InferenceSession& session,
                                   const std::string& file) {
  namespace fs = std::filesystem;
  std::error_code error;
  // What cannot be read is refused by the reader of MEFs, whose sentences say why.
  if (!fs::exists(file, error) || fs::is_directory(file, error) ||
      ::access(file.c_str(), R_OK) != 0 || (fs::is_regular_file(file, error) && is_mef(file)))
    return engine::read(file);
  const std::string content = read_file(file);
  if (content.starts_with(kMefStart)) return engine::read(std::as_bytes(std::span(content)), file);
  check_text(file, content);
  const auto module = graph::ir::parse(content, file);
  ProgressLine progress;
  return session.compile(*module, {.progress = [&](const auto& step) { return progress(step); }});
}

engine::WeightsRegistry open_weights(const std::vector<std::string>& paths) {
  if (paths.empty()) return {};
  return weights::load_safetensors(std::span<const std::string>(paths));
}

engine::Model make_model(const engine::InferenceSession& session,
                         const engine::CompiledModel& compiled, const ProgramOptions& options) {
  const engine::WeightsRegistry registry = open_weights(options.weights);
  if (options.graph.empty() && compiled.size() == 1) return session.init(compiled, registry);
  std::vector<std::string> names = compiled.names();
  if (options.graph.empty())
    throw UsageError{format("'{}' holds {} graphs; choose one with --graph: {}.", options.file,
                            names.size(), join(names, ", "))};
  for (auto& [name, model] : session.init_all(compiled, registry))
    if (name == options.graph) return model;
  throw UsageError{
      format("'{}' has no graph '{}'; it has {}.", options.file, options.graph, join(names, ", "))};
}

std::vector<driver::Buffer> make_inputs(const engine::CompiledModel& compiled,
                                        const engine::Model& model, const ProgramOptions& options) {
  const runtime::GraphSignature& graph = signature_of(compiled, model.name());
  std::map<std::string, std::pair<std::string, driver::Buffer>> given;  // file and contents
  for (const std::string& text : options.inputs) {
    const auto [name, file] = split_setting("--input", text);
    const bool known = std::any_of(graph.inputs.begin(), graph.inputs.end(),
                                   [&](const auto& input) { return input.name == name; });
    if (!known) {
      std::vector<std::string> names;
      for (const auto& input : graph.inputs) names.push_back(input.name);
      throw UsageError{format("There is no input '{}'; the graph has {}.", name,
                              names.empty() ? "none" : format("{}", join(names, ", ")))};
    }
    if (!given.try_emplace(name, file, read_npy(file)).second)
      throw UsageError{format("--input names '{}' twice.", name)};
  }
  std::map<std::string, Size> sizes;
  for (const auto& input : graph.inputs) {
    const auto found = given.find(input.name);
    if (found == given.end()) continue;
    // A type that NumPy lacks comes as the integers that hold its bits.
    auto& [file, buffer] = found->second;
    if (buffer.dtype() != input.dtype && !buffer.dtype().is_float() &&
        buffer.dtype().size_in_bits() == input.dtype.size_in_bits() &&
        (input.dtype == DType::bfloat16 || input.dtype.is_float8()))
      buffer = buffer.view(input.dtype);
    const std::string source = format("--input {}={}", input.name, file);
    if (!fits(buffer, input))
      throw ValueError(
          format("{} has {}, but the graph takes {}.", source,
                 type_text(buffer.dtype(), graph::Shape(std::vector<graph::Dim>(
                                               buffer.shape().begin(), buffer.shape().end()))),
                 type_text(input.dtype, input.shape)));
    for (std::size_t i = 0; i < input.shape.size(); ++i)
      if (input.shape[i].is_symbolic())
        set_size(sizes, input.shape[i].name(), {buffer.shape()[i], source});
  }
  for (const std::string& text : options.dims) {
    const auto [name, value] = split_setting("--dim", text);
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), size);
    if (error != std::errc() || end != value.data() + value.size() || size < 0)
      throw UsageError{format("--dim takes NAME=N with a number N >= 0, not '{}'.", text)};
    if (std::find(graph.symbols.begin(), graph.symbols.end(), name) == graph.symbols.end())
      throw UsageError{
          format("There is no symbolic dim '{}'; the graph has {}.", name,
                 graph.symbols.empty() ? "none" : format("{}", join(graph.symbols, ", ")))};
    set_size(sizes, name, {size, format("--dim {}", text)});
  }
  std::mt19937_64 random(options.seed);
  std::vector<driver::Buffer> inputs;
  for (const auto& input : graph.inputs) {
    if (const auto found = given.find(input.name); found != given.end()) {
      inputs.push_back(found->second.second);
      continue;
    }
    Shape shape;
    for (const graph::Dim& dim : input.shape) {
      if (dim.is_static()) {
        shape.push_back(dim.value());
      } else {
        const auto size = sizes.find(dim.name());
        shape.push_back(size == sizes.end() ? 1 : size->second.value);
      }
    }
    driver::Buffer buffer(input.dtype, shape);
    fill_random(buffer, random);
    inputs.push_back(std::move(buffer));
  }
  return inputs;
}

std::string duration_text(double seconds) {
  if (seconds < 1e-6) return format("{:.0f} ns", seconds * 1e9);
  if (seconds < 1e-3) return format("{:.2f} us", seconds * 1e6);
  if (seconds < 1) return format("{:.3f} ms", seconds * 1e3);
  return format("{:.3f} s", seconds);
}

}  // namespace kiln::tools
