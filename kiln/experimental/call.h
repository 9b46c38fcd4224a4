#pragma once

// One call of an op over tensors. A call whose op, argument types and plain arguments were seen
// before runs its program at once; any other is recorded first.

#include <bit>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "kiln/engine/model.h"
#include "kiln/experimental/distributed_call.h"
#include "kiln/experimental/recording.h"
#include "kiln/experimental/tensor.h"
#include "kiln/support/debug_settings.h"

namespace kiln::experimental {

/// What makes two calls the same but for the elements of their tensors and the values of numbers
/// that stand for tensors.
class CallKey {
 public:
  void add(std::uint64_t word) {
    if (size_ < kWords)
      words_[size_++] = word;
    else
      usable_ = false;
  }
  void add(std::string_view text);
  void add(const graph::Dim& dim);
  /// There is an argument that no key can hold.
  void spoil() { usable_ = false; }
  bool usable() const { return usable_; }
  std::size_t hash() const;
  friend bool operator==(const CallKey& a, const CallKey& b) {
    return a.size_ == b.size_ && std::equal(a.words_, a.words_ + a.size_, b.words_);
  }

 private:
  static constexpr std::size_t kWords = 48;
  std::uint64_t words_[kWords];
  std::uint32_t size_ = 0;
  bool usable_ = true;
};

/// The arguments of a call as they matter to its program.
struct CallArguments {
  static constexpr std::size_t kMost = 32;

  explicit CallArguments(std::uint64_t op) {
    key.add(op << 32 | kiln::detail::settings_changed.load(std::memory_order_relaxed));
  }
  void tensor(detail::TensorState& state);
  void number(const Scalar& number);
  /// The values of the numbers too.
  void add_values();

  CallKey key;
  detail::TensorState* tensors[kMost];
  Scalar numbers[kMost];
  std::uint32_t num_tensors = 0;
  std::uint32_t num_numbers = 0;
  bool has_values = false;
  bool is_distributed = false;
};

/// How calls with one key run.
struct CallPlan {
  struct Input {
    bool is_number = false;
    bool is_written = false;
    std::uint8_t argument = 0;  // among the tensors or the numbers
    DType dtype = DType::bool_;
    driver::Device device = driver::CPU();
  };
  struct Result {
    bool is_argument = false;
    std::uint32_t index = 0;  // of the argument or of the output
  };
  /// A result that is spread over a mesh, of as many `results` as it has devices.
  struct Spread {
    DeviceMapping mapping;
    graph::Shape shape;
    std::uint64_t mapping_id = 0;
  };
  /// Some numbers are no inputs: the plan is found under a key with the values of all.
  bool needs_values = false;
  std::shared_ptr<const engine::Model> model;  // null: nothing to compute
  std::vector<Input> inputs;
  std::vector<Result> results;
  std::vector<std::optional<Spread>> spreads;  // of each result, when one is spread
  /// How a binding puts the results together.
  std::uint32_t form = 0;
  bool writes = false;
};

/// The plans of the process. Safe from any thread.
class CallCache {
 public:
  /// Also adds the values of numbers to the key where they matter. Null: not known.
  static std::shared_ptr<const CallPlan> find(CallArguments& arguments);
  static void insert(const CallKey& key, CallPlan plan);
};

/// The call of one op. It ends with results from `run`, or with `record` and `finish`.
class Call {
 public:
  explicit Call(const char* name, std::uint64_t op) : arguments_(op), name_(name) {}

  CallArguments& arguments() { return arguments_; }
  /// The plan of a call that may run at once, or null.
  std::shared_ptr<const CallPlan> plan();
  /// Runs the plan. False, and nothing is done, when the arguments need the long way, or `brief`
  /// and the call would have to wait.
  bool run(const CallPlan& plan, bool brief = false);

  /// Before the op is applied: makes a recording current unless a graph is being built. A store
  /// does not wait, as other ops under LazyGuard do.
  void record(bool is_store = false);
  /// The same for an op whose functions may have effects; only then it does not wait.
  void record_control_flow();
  /// The same for an op that is applied to the parts of distributed tensors.
  void record_parts(bool is_store = false);
  /// What the op is given for a number, the `index`th of the call.
  graph::TensorValueLike number(std::size_t index, graph::Location location);
  /// After it: makes the results tensors, and real where nothing else is being built.
  void finish(const std::vector<graph::Value>& results, std::uint32_t form = 0);
  /// The same with results that were made for each device.
  void finish_spread(std::vector<DistributedCall::Result> results, std::uint32_t form = 0);

  std::vector<Tensor>& results() { return results_; }

 private:
  class Number final : public graph::NumberSource {
   public:
    Number(Recording* recording, const Scalar& number, std::size_t argument)
        : recording_(recording), number_(number), argument_(argument) {}
    graph::TensorValue tensor(DType dtype, graph::DeviceRef device) override {
      return recording_->number(number_, argument_, dtype, device);
    }

   private:
    Recording* recording_;
    Scalar number_;
    std::size_t argument_;
  };

  /// A number that the op of a distributed call is given.
  class TracedNumber final : public graph::NumberSource {
   public:
    TracedNumber(DistributedCall* call, graph::NumberSource* source)
        : call_(call), source_(source) {}
    graph::TensorValue tensor(DType dtype, graph::DeviceRef device) override {
      return call_->number(*source_, dtype, device);
    }

   private:
    DistributedCall* call_;
    graph::NumberSource* source_;
  };

  void realize(std::uint32_t form);
  /// Makes one result of those that the devices of a mesh hold.
  void join_parts(const CallPlan& plan);
  void remember(const Recording& recording, const Recording::Run& run, std::uint32_t form);

  CallArguments arguments_;
  const char* name_;
  std::shared_ptr<Recording> recording_;
  std::optional<Recording::Scope> scope_;
  bool may_wait_ = false;        // when nothing of the recording has effects
  Recording* around_ = nullptr;  // the recording that a distributed call is a part of
  std::optional<DistributedCall> distributed_;
  std::vector<std::unique_ptr<Number>> numbers_;
  std::vector<std::unique_ptr<TracedNumber>> traced_numbers_;
  std::vector<Tensor> results_;
};

}  // namespace kiln::experimental
