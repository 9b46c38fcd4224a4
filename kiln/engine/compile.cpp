#include "kiln/engine/compile.h"

#include <set>

#include "kiln/driver/virtual_device.h"
#include "kiln/engine/compile_cache.h"
#include "kiln/engine/debug_config.h"
#include "kiln/engine/program_places.h"
#include "kiln/graph/location.h"
#include "kiln/runtime/abi.h"
#include "kiln/runtime/checksum.h"
#include "kiln/runtime/compiler_library.h"
#include "kiln/runtime/host_cpu.h"
#include "kiln/support/environment.h"
#include "kiln/support/format.h"
#include "kiln/support/sanitizer.h"

namespace kiln::engine {
namespace {

/// Elements of a constant up to which its values stand in the text of a graph.
constexpr std::int64_t kShownConstant = 16;

/// Appends the digest of every constant, in program order.
void append_constants(const graph::ir::Block& block, std::string& text) {
  for (const auto& op : block.ops) {
    for (const auto& [name, attribute] : op->attributes)
      if (const auto* data =
              std::get_if<std::shared_ptr<const graph::ir::ConstantData>>(&attribute)) {
        const runtime::Digest digest = runtime::digest((*data)->bytes);
        text += format("{:016x}{:016x}\n", digest.high, digest.low);
      }
    for (const auto& region : op->regions) append_constants(*region, text);
  }
}

/// What decides the bytes of the artifact, as 32 hexadecimal digits.
std::string cache_key(const graph::ir::Module& module, const runtime::CompileOptions& options) {
  // Constants are hashed as bytes: printing them would cost more than compiling.
  std::string text = graph::ir::to_text(module, {.elide_constants_above = kShownConstant});
  for (const auto& graph : module.graphs)
    if (graph->body) append_constants(*graph->body, text);
  text += format("\n{}\n{}\n{}\n{}\n", KILN_VERSION, KILN_ABI_VERSION, runtime::compiler_identity(),
                 options.nan_check);
  text += format("{}\n", kSanitizerPrefix);
  text += format("{}\n{}\n", environment_flag("KILN_MEF_IR", true), options.cpu_target);
  if (options.cpu_target.empty()) text += format("{}\n", join(runtime::host_features(), ","));
  const runtime::Digest digest = runtime::digest(std::as_bytes(std::span(text)));
  return format("{:016x}{:016x}", digest.high, digest.low);
}

/// The names of the graphs stand in the artifact, and entries are found by them.
void check_names(const graph::ir::Module& module) {
  std::set<std::string_view> names;
  for (const auto& graph : module.graphs)
    if (!graph->is_subgraph && !names.insert(graph->name).second)
      throw RuntimeError(
          format("Failed to compile the model.\nTwo graphs of the module are named '{}'; give each "
                 "top-level graph a name of its own.",
                 graph->name));
}

std::string failure_text(const Error& error, const ProgramPlaces& places) {
  std::string text = places.restore(error.message());
  if (!text.starts_with("Failed to compile the model."))
    text = "Failed to compile the model.\n" + text;
  if (!places.has_tracebacks() && !graph::source_tracebacks())
    text +=
        "\nSet KILN_DEBUG=source-tracebacks before the graph is built to see the whole source "
        "traceback.";
  return text;
}

}  // namespace

std::shared_ptr<const runtime::Artifact> compile_module(
    const graph::ir::Module& module, int num_threads,
    const std::function<bool(const runtime::CompileProgress&)>& progress) {
  check_names(module);
  const DebugConfig& debug = debug_config();
  runtime::CompileOptions options;
  options.cpu_target = driver::get_virtual_cpu_target();
  options.nan_check = debug.nan_check();
  options.ir_output_dir = debug.ir_output_dir();
  options.num_threads = num_threads;
  options.progress = progress;

  const ProgramPlaces places(module);
  const CompileCache cache;
  // Whoever wants to see the stages of a compile wants it to happen.
  const bool cached = cache.enabled() && options.ir_output_dir.empty();
  const std::string key = cached ? cache_key(places.numbered(), options) : "";
  std::shared_ptr<const runtime::Artifact> artifact = cached ? cache.find(key) : nullptr;
  if (artifact == nullptr) {
    try {
      runtime::ArtifactContents contents = runtime::compiler().compile(places.numbered(), options);
      if (contents.ir_text.empty())
        contents.ir_text =
            graph::ir::to_text(places.numbered(), {.elide_constants_above = kShownConstant});
      artifact = runtime::Artifact::from_contents(contents);
    } catch (const Error& error) {
      throw RuntimeError(failure_text(error, places));
    }
    if (cached) cache.store(key, *artifact);
  }
  std::vector<runtime::ProgramLocation> locations = artifact->locations();
  if (locations.empty()) return artifact;
  places.restore(locations);
  return artifact->with_locations(locations);
}

}  // namespace kiln::engine
