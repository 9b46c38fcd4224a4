#include "kiln/engine/inference_session.h"

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>

#include "kiln/driver/virtual_device.h"
#include "kiln/engine/compile.h"
#include "kiln/engine/model_state.h"
#include "kiln/engine/pending_artifact.h"
#include "kiln/support/format.h"
#include "kiln/support/thread_pool.h"

namespace kiln::engine {
namespace {

/// Compiles on threads of their own. The process waits for them at exit: they use the compiler,
/// whose library must not be unloaded under them.
class Background {
 public:
  ~Background() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return running_ == 0; });
  }
  void run(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      ++running_;
    }
    std::thread([this, work = std::move(work)]() mutable {
      work();
      work = nullptr;  // what it holds goes before the process may end
      const std::lock_guard lock(mutex_);
      --running_;
      changed_.notify_all();
    }).detach();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int running_ = 0;
};

Background& background() {
  static Background threads;
  return threads;
}

/// KILN_NUM_THREADS, else what the machine leaves to this process.
int default_num_threads() {
  const char* text = std::getenv("KILN_NUM_THREADS");
  if (text != nullptr && *text != '\0') {
    char* end = nullptr;
    const long value = std::strtol(text, &end, 10);
    if (*end == '\0' && value >= 0) {
      if (value > 0) return static_cast<int>(std::min<long>(value, ThreadPool::kMaxThreads));
    } else {
      static std::once_flag warned;
      std::call_once(warned, [text] {
        std::fprintf(stderr,
                     "kiln: warning: KILN_NUM_THREADS is '%s', which is no number of threads\n",
                     text);
      });
    }
  }
  return ThreadPool::usable_threads();
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
  std::optional<int> num_threads;  // as it was asked for
  int threads = 1;
  std::shared_ptr<runtime::PrintSettings> print = std::make_shared<runtime::PrintSettings>();
  std::mutex compiling;

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
  debug().check_assert_level();
  devices.push_back(driver::CPU());
  bool with_host = false;
  for (const driver::Device& device : devices) {
    if (device.is_host() && std::exchange(with_host, true)) continue;
    if (std::find(state_->devices.begin(), state_->devices.end(), device) == state_->devices.end())
      state_->devices.push_back(device);
  }
  state_->num_threads = options.num_threads;
  state_->threads =
      options.num_threads.value_or(0) > 0 ? *options.num_threads : default_num_threads();
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

CompiledModel InferenceSession::compile_async(const graph::ir::Module& module,
                                              const CompileSettings& settings) const {
  auto pending = std::make_shared<PendingArtifact>();
  // The caller may change or drop the module while it is compiled.
  std::shared_ptr<const graph::ir::Module> copy = graph::ir::clone(module);
  background().run([pending, copy = std::move(copy), state = state_, progress = settings.progress] {
    try {
      const std::lock_guard lock(state->compiling);
      pending->set(compile_module(*copy, state->threads, progress));
    } catch (...) {
      pending->set_exception(std::current_exception());
    }
  });
  return CompiledModel(std::move(pending));
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

void InferenceSession::set_debug_print_options(PrintStyle style, int precision,
                                               const std::string& output_directory) const {
  const bool binary = style == PrintStyle::BINARY || style == PrintStyle::BINARY_MAX_CHECKPOINT;
  if (binary && output_directory.empty())
    throw ValueError("Debug print output directory cannot be empty.");
  state_->print->set({.style = style, .precision = precision, .directory = output_directory});
}

}  // namespace kiln::engine
