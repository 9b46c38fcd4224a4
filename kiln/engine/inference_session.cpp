#include "kiln/engine/inference_session.h"

#include <mutex>
#include <set>

#include "kiln/driver/virtual_device.h"
#include "kiln/engine/compile.h"
#include "kiln/engine/mef_store.h"
#include "kiln/engine/model_state.h"
#include "kiln/support/background.h"
#include "kiln/support/environment.h"
#include "kiln/support/format.h"
#include "kiln/support/thread_pool.h"

namespace kiln::engine {
namespace {

/// KILN_NUM_THREADS, else what the machine leaves to this process.
int default_num_threads() {
  const std::int64_t number =
      environment_integer("KILN_NUM_THREADS", 0, ThreadPool::kMaxThreads).value_or(0);
  return number > 0 ? static_cast<int>(number) : ThreadPool::usable_threads();
}

std::string device_list(const std::vector<runtime::AcceleratorTarget>& targets) {
  std::vector<std::string> names;
  for (const auto& target : targets) names.push_back(format("{} {}", target.api, target.arch));
  return names.empty() ? "no accelerator" : format("{}", join(names, ", "));
}

/// The accelerators that a graph names.
std::set<graph::DeviceRef> accelerators_of(const runtime::Artifact& artifact,
                                           const runtime::GraphSignature& graph) {
  std::set<graph::DeviceRef> devices;
  for (const auto* tensors : {&graph.inputs, &graph.outputs})
    for (const runtime::TensorSignature& tensor : *tensors)
      if (tensor.device.is_gpu()) devices.insert(tensor.device);
  for (std::uint32_t weight : graph.weights) {
    const graph::DeviceRef device = artifact.header().weights[weight].device;
    if (device.is_gpu()) devices.insert(device);
  }
  return devices;
}

}  // namespace

struct InferenceSession::State {
  std::vector<driver::Device> devices;
  std::optional<std::int64_t> num_threads;  // as it was asked for
  int threads = 1;
  std::shared_ptr<runtime::PrintSettings> print = std::make_shared<runtime::PrintSettings>();
  std::mutex compiling;
  std::shared_ptr<MefStore> store;  // null: none

  bool has(const graph::DeviceRef& device) const {
    for (const driver::Device& own : devices)
      if (!own.is_host() && own.id() == device.id) return true;
    return false;
  }

  Model make_model(const std::shared_ptr<const runtime::Artifact>& artifact, std::size_t index,
                   const WeightsRegistry& registry) const;
};

InferenceSession::InferenceSession(std::vector<driver::Device> devices, SessionOptions options)
    : state_(std::make_shared<State>()) {
  if (options.num_threads.value_or(0) < 0)
    throw ValueError(
        format("num_threads must not be negative, but it is {}.", *options.num_threads));
  if (options.num_threads.value_or(0) > ThreadPool::kMaxThreads)
    throw ValueError(format("num_threads is {}, but kiln runs at most {} threads.",
                            *options.num_threads, ThreadPool::kMaxThreads));
  debug().check_assert_level();
  if (!options.precompiled_mefs.empty() && !options.export_mefs.empty())
    throw ValueError(
        "A session either reads precompiled MEFs or exports them: give precompiled_mefs or "
        "export_mefs, not both.");
  if (!options.precompiled_mefs.empty())
    state_->store = MefStore::precompiled(options.precompiled_mefs);
  if (!options.export_mefs.empty()) state_->store = MefStore::exporting(options.export_mefs);
  devices.push_back(driver::CPU());
  bool with_host = false;
  for (const driver::Device& device : devices) {
    if (device.is_host() && std::exchange(with_host, true)) continue;
    if (std::find(state_->devices.begin(), state_->devices.end(), device) == state_->devices.end())
      state_->devices.push_back(device);
  }
  state_->num_threads = options.num_threads;
  state_->threads = options.num_threads.value_or(0) > 0 ? static_cast<int>(*options.num_threads)
                                                        : default_num_threads();
  const PrintStyle style = debug().print_style();
  state_->print->set({.style = style == PrintStyle::NONE ? PrintStyle::COMPACT : style});
}

const std::vector<driver::Device>& InferenceSession::devices() const { return state_->devices; }

std::string InferenceSession::repr() const {
  if (!state_->num_threads || *state_->num_threads == 0) return "<kiln engine InferenceSession>";
  return format("<kiln engine InferenceSession(num_threads={})>", *state_->num_threads);
}

// ---- compile -----------------------------------------------------------------------------------

CompiledModel InferenceSession::compile(const graph::ir::Module& module,
                                        const CompileSettings& settings) const {
  const std::lock_guard lock(state_->compiling);
  return CompiledModel(compile_module(module, state_->threads, settings.progress));
}

CompiledModel InferenceSession::compile(const std::string& path, const CompileSettings&) const {
  return read(path);
}

namespace {

/// What `make` returns, once it has run on a thread of its own.
CompiledModel in_background(std::function<std::shared_ptr<const runtime::Artifact>()> make) {
  const AsyncValue<CompiledArtifact> pending;
  run_in_background([pending, make = std::move(make)] {
    try {
      pending.set_result(CompiledArtifact(make()));
    } catch (...) {
      pending.set_exception(std::current_exception());
    }
  });
  return CompiledModel(pending);
}

}  // namespace

CompiledModel InferenceSession::compile_async(const graph::ir::Module& module,
                                              const CompileSettings& settings) const {
  // The caller may change or drop the module while it is compiled.
  std::shared_ptr<const graph::ir::Module> copy = graph::ir::clone(module);
  return in_background(
      [copy = std::move(copy), state = state_.checked(), progress = settings.progress] {
        const std::lock_guard lock(state->compiling);
        return compile_module(*copy, state->threads, [&](const runtime::CompileProgress& at) {
          return !background_ends() && (!progress || progress(at));
        });
      });
}

CompiledModel InferenceSession::compile_async(const std::string& path,
                                              const CompileSettings&) const {
  return in_background([path] { return runtime::Artifact::read(path); });
}

CompiledModel InferenceSession::compile_reusing_mefs(const graph::ir::Module& module,
                                                     const CompileSettings& settings) const {
  if (state_->store == nullptr) return compile(module, settings);
  if (!state_->store->is_exporting()) return CompiledModel(state_->store->find(module));
  CompiledModel compiled = compile(module, settings);
  state_->store->add(module, *compiled.artifact());
  return compiled;
}

CompiledModel InferenceSession::compile_reusing_mefs(const graph::Graph& graph,
                                                     const CompileSettings& settings) const {
  return compile_reusing_mefs(*graph.extract(), settings);
}

// ---- init --------------------------------------------------------------------------------------

Model InferenceSession::State::make_model(const std::shared_ptr<const runtime::Artifact>& artifact,
                                          std::size_t index,
                                          const WeightsRegistry& registry) const {
  auto model = std::make_shared<ModelState>(artifact, index);
  model->print_settings = print;
  model->num_threads = threads;
  const std::set<graph::DeviceRef> accelerators = accelerators_of(*artifact, *model->graph);
  if (!accelerators.empty() && driver::is_virtual_device_mode()) return Model(std::move(model));
  for (const graph::DeviceRef& device : accelerators) {
    if (!has(device))
      throw ValueError(
          format("Loaded Model '{}' uses device={} which was not set up in InferenceSession",
                 model->graph->name, device.to_string()));
    throw RuntimeError(format("'{}' holds accelerator code for {}; device {} is {}",
                              artifact->name(), device_list(artifact->header().accelerators),
                              device.to_string(),
                              driver::Accelerator(device.id).architecture_name()));
  }
  model->attach(runtime::load_image(artifact));
  model->load(registry);
  return Model(std::move(model));
}

Model InferenceSession::init_one(const CompiledModel& compiled, const WeightsRegistry& registry,
                                 const char* many) const {
  const auto& artifact = compiled.artifact();
  if (artifact->header().graphs.size() != 1)
    throw ValueError(
        format("Expected exactly one model in the compiled artifact, but got {}. Use {}() "
               "to initialize multi-model artifacts.",
               artifact->header().graphs.size(), many));
  return state_->make_model(artifact, 0, registry);
}

Model InferenceSession::init(const CompiledModel& compiled, const WeightsRegistry& registry) const {
  return init_one(compiled, registry, "init_all");
}

std::vector<std::pair<std::string, Model>> InferenceSession::init_all(
    const CompiledModel& compiled, const WeightsRegistry& registry) const {
  const auto& artifact = compiled.artifact();
  std::set<std::string> names;
  for (const runtime::GraphSignature& graph : artifact->header().graphs)
    if (!names.insert(graph.name).second)
      throw RuntimeError(
          format("The compiled artifact has two models named '{}', so they cannot be "
                 "told apart by name. Give the graphs different names.",
                 graph.name));
  std::vector<std::pair<std::string, Model>> models;
  for (std::size_t i = 0; i < artifact->header().graphs.size(); ++i)
    models.emplace_back(artifact->header().graphs[i].name,
                        state_->make_model(artifact, i, registry));
  return models;
}

namespace {

template <typename T, std::size_t N>
T from_name(std::string_view what, std::string_view name,
            const std::pair<std::string_view, T> (&choices)[N]) {
  std::vector<std::string_view> names;
  for (const auto& [choice, value] : choices) {
    if (choice == name) return value;
    names.push_back(choice);
  }
  throw TypeError(format("Invalid {} ({}). Please use one of: {}", what, name, join(names, ", ")));
}

constexpr std::pair<std::string_view, LogLevel> kLogLevels[] = {
    {"NOTSET", LogLevel::NOTSET},    {"TRACE", LogLevel::TRACE},     {"DEBUG", LogLevel::DEBUG},
    {"INFO", LogLevel::INFO},        {"WARNING", LogLevel::WARNING}, {"ERROR", LogLevel::ERROR},
    {"CRITICAL", LogLevel::CRITICAL}};
constexpr std::pair<std::string_view, AssertLevel> kAssertLevels[] = {{"NONE", AssertLevel::NONE},
                                                                      {"WARN", AssertLevel::WARN},
                                                                      {"SAFE", AssertLevel::SAFE},
                                                                      {"ALL", AssertLevel::ALL}};
constexpr std::pair<std::string_view, SplitKReductionPrecision> kPrecisions[] = {
    {"ACCUM", SplitKReductionPrecision::ACCUM}, {"OUTPUT", SplitKReductionPrecision::OUTPUT}};
constexpr std::pair<std::string_view, GpuProfilingMode> kProfilingModes[] = {
    {"off", GpuProfilingMode::off},
    {"on", GpuProfilingMode::on},
    {"detailed", GpuProfilingMode::detailed}};

}  // namespace

LogLevel kernel_log_level_from_string(std::string_view name) {
  return from_name("log level", name, kLogLevels);
}
AssertLevel assert_level_from_string(std::string_view name) {
  return from_name("assert level", name, kAssertLevels);
}
SplitKReductionPrecision split_k_reduction_precision_from_string(std::string_view name) {
  return from_name("precision", name, kPrecisions);
}
GpuProfilingMode gpu_profiling_mode_from_string(std::string_view name) {
  return from_name("profiling mode", name, kProfilingModes);
}

void InferenceSession::set_kernel_log_level(LogLevel level) const {
  debug_settings().set_from_text("op-log-level", kiln::to_string(level));
}

void InferenceSession::set_kernel_assert_level(AssertLevel level) const {
  for (const auto& [name, value] : kAssertLevels)
    if (value == level) debug_settings().set_from_text("assert-level", name);
}

void InferenceSession::set_debug_print_options(PrintStyle style, int precision,
                                               const std::string& output_directory) const {
  const bool binary = style == PrintStyle::BINARY || style == PrintStyle::BINARY_MAX_CHECKPOINT;
  if (binary && output_directory.empty())
    throw ValueError("Debug print output directory cannot be empty.");
  if (precision < 0)
    throw ValueError(
        format("The precision of printed numbers must not be negative, but it is {}.", precision));
  state_->print->set({.style = style, .precision = precision, .directory = output_directory});
}

}  // namespace kiln::engine
