#pragma once

// What is behind a Model. Everything that a call needs was worked out at init and lies in flat
// arrays; a call touches them, the inputs, and a workspace of its own, and takes no lock.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "kiln/driver/inline_work.h"
#include "kiln/driver/queue.h"
#include "kiln/engine/mef_info.h"
#include "kiln/engine/model.h"
#include "kiln/runtime/artifact.h"
#include "kiln/runtime/call.h"
#include "kiln/runtime/image.h"
#include "kiln/runtime/print.h"

namespace kiln::engine {

/// The weights of a model and what init made of them. Immutable once made.
struct WeightSet {
  explicit WeightSet(std::size_t slots) : prepared(slots) {}
  std::vector<driver::Buffer> owned;  // keep the data alive
  std::vector<const void*> data;      // in the order of the graph's weights
  runtime::Prepared prepared;
};

/// How one axis of an input is checked.
struct DimCheck {
  std::int64_t extent = 0;   // of a static dim
  std::int32_t symbol = -1;  // else the index of its symbol
  bool defines = false;      // the first use of the symbol, which gives its value
};

struct InputCheck {
  const driver::DeviceBackend* device = nullptr;
  DType dtype = DType::uint8;
  bool is_buffer = false;
  bool is_written = false;
  std::uint8_t alignment = 1;
  std::uint8_t rank = 0;
  std::uint32_t first_dim = 0;  // in ModelState::dims
};

/// What one call needs while it runs.
struct Workspace {
  runtime::Arena arena;
  std::vector<std::int64_t> symbols;
  std::vector<void*> inputs;
  std::vector<driver::Buffer> copies;  // of misaligned inputs
  std::shared_ptr<const WeightSet> weights;
  std::uint64_t generation = 0;
};

/// An execution that was recorded: everything that a replay needs.
struct Capture {
  /// Inputs, and behind them results; what both share is the memory that a replay works on.
  std::vector<driver::Buffer> touched;
  std::size_t num_inputs = 0;
  Model::Outputs outputs;
  Workspace workspace;
  runtime::Call call;
  runtime::Choices choices;
  std::mutex running;  // a replay at a time, since they write the same memory
};

struct ModelState {
  ModelState(std::shared_ptr<const runtime::Artifact> artifact, std::size_t graph_index);
  ~ModelState();
  ModelState(const ModelState&) = delete;

  /// False, and nothing done, when the call does not fit or would have to wait, and it may not.
  bool execute(std::span<const driver::Buffer> inputs, bool may_wait, Model::Outputs& outputs);
  /// As `Model::capture` and so on.
  const Model::Outputs& capture(std::span<const std::uint64_t> keys,
                                std::span<const driver::Buffer> inputs);
  bool replay(std::span<const std::uint64_t> keys, std::span<const driver::Buffer> inputs,
              bool may_wait);
  void verify_replay(std::span<const std::uint64_t> keys, std::span<const driver::Buffer> inputs);
  void release(std::span<const std::uint64_t> keys);
  /// Binds weights and runs what depends on them alone.
  void load(const WeightsRegistry& registry);
  /// Maps the code; until then the state is a placeholder for absent hardware.
  void attach(std::shared_ptr<const runtime::Image> code);

  std::shared_ptr<const runtime::Artifact> artifact;
  const runtime::GraphSignature* graph;
  std::shared_ptr<const runtime::Image> image;  // null for a placeholder of absent hardware
  ModelMetadata metadata;
  std::shared_ptr<runtime::PrintSettings> print_settings;
  driver::DeviceQueue queue = driver::CPU().default_queue();

  KilnEntry run = nullptr;
  KilnEntry init = nullptr;
  const char* constants = nullptr;
  std::int64_t num_threads = 1;
  bool writes_inputs = false;
  std::vector<InputCheck> inputs;
  std::vector<DimCheck> dims;

 private:
  class Lease;
  void check_executable(std::size_t num_inputs) const;
  /// Fills in what a call of `run` reads.
  void prepare(Workspace& workspace, Model::Outputs& outputs, runtime::Call& call) const;
  std::uint64_t one_key(std::span<const std::uint64_t> keys, const char* call,
                        std::span<const driver::Buffer> inputs) const;
  std::shared_ptr<Capture> captured(std::uint64_t key);
  void check_same_memory(std::uint64_t key, const Capture& capture,
                         std::span<const driver::Buffer> inputs) const;
  void run_traced(std::span<const driver::Buffer> buffers, Capture& capture);
  void use_present_weights(Capture& capture);
  std::unique_ptr<Workspace> take_workspace();
  void give_back(std::unique_ptr<Workspace> workspace) noexcept;
  bool bind_inputs(std::span<const driver::Buffer> buffers, bool may_wait, Workspace& workspace);
  /// The last buffers may be results; a replay writes those.
  bool begin(std::span<const driver::Buffer> buffers, bool may_wait, driver::SharedEntry& entry);
  bool writes(std::size_t i) const { return i >= inputs.size() || inputs[i].is_written; }
  [[noreturn]] void explain(std::span<const driver::Buffer> buffers) const;
  void check_shared_memory(std::span<const driver::Buffer> buffers) const;

  std::atomic<Workspace*> spare_{nullptr};  // the fast place for one workspace
  std::mutex mutex_;                        // guards what follows
  std::vector<std::unique_ptr<Workspace>> more_;
  std::shared_ptr<const WeightSet> weights_;
  std::atomic<std::uint64_t> generation_{0};  // of weights_
  std::mutex serial_;                         // held through a call that writes its inputs
  std::mutex captures_mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Capture>> captures_;
};

}  // namespace kiln::engine
