#include "kiln/runtime/call.h"

#include <sys/mman.h>

#include <algorithm>

#include "kiln/runtime/boxes.h"
#include "kiln/runtime/fft.h"
#include "kiln/runtime/positions.h"
#include "kiln/runtime/quantized.h"
#include "kiln/runtime/scan.h"
#include "kiln/runtime/selection.h"
#include "kiln/support/format.h"
#include "kiln/support/interrupt.h"
#include "kiln/support/thread_pool.h"

namespace kiln::runtime {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
// A new block is at least as large as those before it together, up to this.
constexpr std::size_t kMaxGrowth = std::size_t{32} << 20;

std::align_val_t alignment_of(std::size_t bytes) {
  return std::align_val_t(bytes >= 2 * kHugePage ? kHugePage : 64);
}

/// Null for a size that cannot be had. Large blocks ask for huge pages: products stream through
/// them, and a page walk every 4 KiB costs them a sixth of their speed.
std::byte* allocate_block(std::size_t bytes) {
  void* block = ::operator new(bytes, alignment_of(bytes), std::nothrow);
  if (block != nullptr && bytes >= 2 * kHugePage) madvise(block, bytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(block);
}

void release_block(std::byte* block, std::size_t bytes) {
  ::operator delete(block, alignment_of(bytes));
}

[[noreturn]] void throw_out_of_memory(std::int64_t bytes) {
  throw ValueError(
      bytes < 0 ? std::string("A model needs more working memory than can be addressed.")
                : format("There is no memory for {} bytes of working memory of a model.", bytes));
}

}  // namespace

Arena::~Arena() {
  for (const auto& [block, capacity] : full_) release_block(block, capacity);
  if (block_ != nullptr) release_block(block_, capacity_);
}

void* Arena::allocate_slow(std::int64_t bytes) {
  if (bytes < 0 || bytes > std::int64_t{1} << 56) throw_out_of_memory(bytes);
  const std::size_t size = size_of(std::max<std::size_t>(static_cast<std::size_t>(bytes), 1));
  if (size > capacity_ - used_) {
    std::size_t before = capacity_;
    for (const auto& [full, full_capacity] : full_) before += full_capacity;
    const std::size_t capacity = std::max({size, std::size_t{4096}, std::min(before, kMaxGrowth)});
    std::byte* block = allocate_block(capacity);
    if (block == nullptr) throw_out_of_memory(bytes);
    if (block_ != nullptr) full_.emplace_back(block_, capacity_);
    block_ = block;
    capacity_ = capacity;
    used_ = 0;
    poison(block_, capacity_);
  }
  std::byte* at = block_ + used_;
  used_ += size;
  unpoison(at, static_cast<std::size_t>(bytes));
  return at;
}

/// Replaces the blocks from `first` on by one that would have been enough.
void Arena::merge(std::size_t first) {
  std::size_t total = capacity_;
  for (std::size_t i = first; i < full_.size(); ++i) {
    total += full_[i].second;
    release_block(full_[i].first, full_[i].second);
  }
  full_.resize(first);
  release_block(block_, capacity_);
  block_ = allocate_block(total);
  capacity_ = block_ == nullptr ? 0 : total;
  used_ = 0;
  poison(block_, capacity_);
}

std::string failure_text(const Artifact& artifact, const KilnFailure& failure,
                         std::span<const std::int64_t> values) {
  std::string sentence = failure.sentence;
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto put = [&](const std::string& mark, const std::string& text) {
      for (std::size_t at = 0; (at = sentence.find(mark, at)) != std::string::npos;
           at += text.size())
        sentence.replace(at, mark.size(), text);
    };
    put(format("{{{}}}", i), format("{}", values[i]));
    put(format("{{{}u}}", i), format("{}", static_cast<std::uint64_t>(values[i])));
  }
  std::string text =
      format("An error occurred in kernel entry point named \"{}\":\n", failure.entry);
  if (const auto location = artifact.location(failure.location)) {
    if (location->text.find("Source Traceback:") != std::string::npos) {
      text += location->text;
      if (!text.ends_with('\n')) text += '\n';
    } else {
      text += format("op '{}' of graph '{}'", location->op, location->graph);
      if (!location->text.empty())
        text += format(
            " ({}); set KILN_DEBUG=source-tracebacks before the graph is built for the "
            "whole traceback",
            location->text);
      text += '\n';
    }
  }
  return text + "error: " + sentence;
}

namespace {

Call& of(KilnCall* call) { return *static_cast<Call*>(call); }

/// Runs what the runtime does for a program; its errors get the frame of the program's own.
template <typename Work>
void* framed(const Call& call, const Work& work) {
  try {
    return work();
  } catch (Error& error) {
    error.set_message(format("An error occurred in kernel entry point named \"{}\":\nerror: {}",
                             call.graph->name, error.message()));
    throw;
  }
}

void* allocate(KilnCall* raw, std::int64_t bytes) {
  const Call& call = of(raw);
  return framed(call, [&] { return call.arena->allocate(bytes); });
}

void* allocate_output(KilnCall* raw, std::int64_t index, const std::int64_t* extents) {
  Call& call = of(raw);
  KILN_CHECK(call.outputs != nullptr && index >= 0 &&
                 static_cast<std::size_t>(index) < call.outputs->size(),
             "a program makes a result that its graph does not have");
  const TensorSignature& result = call.graph->outputs[static_cast<std::size_t>(index)];
  driver::Buffer& slot = (*call.outputs)[static_cast<std::size_t>(index)];
  return framed(call, [&] {
    slot = driver::Buffer(result.dtype,
                          Shape(std::span<const std::int64_t>(extents, result.shape.size())));
    return slot.data();
  });
}

void* reuse_output(KilnCall* raw, std::int64_t index, const std::int64_t* extents) {
  const Call& call = of(raw);
  const driver::Buffer& slot = (*call.outputs)[static_cast<std::size_t>(index)];
  const Shape& shape = slot.shape();
  if (!std::equal(shape.begin(), shape.end(), extents)) [[unlikely]]
    throw RuntimeError(format("Result {} of '{}' has another size than when it was captured.",
                              index, call.graph->name));
  return slot.data();
}

void choose(KilnCall* raw, const char* launch) {
  Choices& choices = *of(raw).choices;
  if (choices.launches.size() < Choices::kMost) choices.launches.push_back(launch);
}

void* allocate_prepared(KilnCall* raw, std::int64_t slot, std::int64_t bytes) {
  Call& call = of(raw);
  KILN_CHECK(call.prepared_by != nullptr && slot >= 0 &&
                 static_cast<std::size_t>(slot) < call.prepared_by->memory.size(),
             "a program prepares something that its graph does not have");
  void*& memory = call.prepared_by->memory[static_cast<std::size_t>(slot)];
  KILN_CHECK(memory == nullptr, "a program prepares one slot twice");
  memory = framed(call, [&] { return call.prepared_by->arena.allocate(bytes); });
  return memory;
}

void fail(KilnCall* raw, const KilnFailure* failure, const std::int64_t* values,
          std::int64_t count) {
  const std::string text = failure_text(
      *of(raw).artifact, *failure,
      std::span<const std::int64_t>(values, static_cast<std::size_t>(values ? count : 0)));
  if (failure->error_class == KILN_VALUE_ERROR) throw ValueError(text);
  throw RuntimeError(text);
}

void print(KilnCall* raw, const char* label, std::int32_t dtype, std::int32_t rank,
           const std::int64_t* extents, const void* data) {
  const PrintOptions options = of(raw).print_settings->get();
  if (rank < 0) return print_text(label, static_cast<const char*>(data), options);
  print_tensor(label, DType::from_code(dtype),
               std::span<const std::int64_t>(extents, static_cast<std::size_t>(rank)), data,
               options);
}

std::int64_t mark(KilnCall* call) { return of(call).arena->mark(); }

void next_iteration(KilnCall* call, std::int64_t mark) {
  of(call).arena->release(mark);
  check_interrupt();
}

void parallel_for(KilnCall* call, KilnLoopBody body, void* arguments, std::int64_t count,
                  std::int64_t grain) {
  check_interrupt();
  ThreadPool::instance().parallel_for(count, grain, static_cast<int>(call->num_threads), body,
                                      arguments);
}

void select_top_k(KilnCall* call, std::int32_t dtype, const void* source, void* values,
                  std::int64_t* indices, std::int64_t outer, std::int64_t n, std::int64_t inner,
                  std::int64_t k, std::int32_t largest) {
  check_interrupt();
  top_k(DType::from_code(dtype), source, values, indices, outer, n, inner, k, largest != 0,
        static_cast<int>(call->num_threads));
}

void call_cumsum(KilnCall* call, std::int32_t dtype, const void* source, void* sums,
                 std::int64_t outer, std::int64_t n, std::int64_t inner, std::int32_t exclusive,
                 std::int32_t reverse) {
  check_interrupt();
  cumsum(DType::from_code(dtype), source, sums, outer, n, inner, exclusive != 0, reverse != 0,
         static_cast<int>(call->num_threads));
}

void call_count_true(KilnCall*, const void* mask, std::int64_t count, std::int64_t* result) {
  *result = count_true({static_cast<const std::uint8_t*>(mask), static_cast<std::size_t>(count)});
}

void call_true_positions(KilnCall*, const void* mask, std::int32_t rank,
                         const std::int64_t* extents, std::int64_t* rows) {
  check_interrupt();
  true_positions(static_cast<const std::uint8_t*>(mask),
                 std::span(extents, static_cast<std::size_t>(rank)), rows);
}

void call_repeat_positions(KilnCall* call, const std::int64_t* counts, std::int32_t same,
                           std::int64_t n, std::int64_t total, std::int64_t* positions,
                           const KilnFailure* failure) {
  check_interrupt();
  if (!repeat_positions(counts, same != 0, n, total, positions)) fail(call, failure, nullptr, 0);
}

void call_irfft(KilnCall* call, const float* source, float* result, std::int64_t outer,
                std::int64_t size, std::int64_t inner, std::int64_t n, std::int32_t is_complex,
                double scale) {
  check_interrupt();
  inverse_real_fft(source, result, {outer, size, inner, n, is_complex != 0, scale},
                   static_cast<int>(call->num_threads));
}

void call_roi_align(KilnCall* call, const float* input, const std::int64_t* extents,
                    const float* rois, std::int64_t count, float* result,
                    std::int64_t result_height, std::int64_t result_width, double spatial_scale,
                    double sampling_ratio, std::int32_t aligned, std::int32_t maximum,
                    const KilnFailure* failure) {
  check_interrupt();
  const RoiAlign sizes{.batch = extents[0],
                       .height = extents[1],
                       .width = extents[2],
                       .channels = extents[3],
                       .rois = count,
                       .result_height = result_height,
                       .result_width = result_width,
                       .spatial_scale = static_cast<float>(spatial_scale),
                       .sampling_ratio = static_cast<float>(sampling_ratio),
                       .aligned = aligned != 0,
                       .maximum = maximum != 0};
  roi_align(input, rois, result, sizes, static_cast<int>(call->num_threads),
            [&](std::int64_t batch) {
              const std::int64_t values[] = {batch, sizes.batch};
              fail(call, failure, values, 2);
            });
}

void call_suppress_boxes(KilnCall* call, std::int32_t dtype, const void* boxes, const void* scores,
                         const void* iou_threshold, const void* score_threshold, std::int64_t batch,
                         std::int64_t classes, std::int64_t count, std::int64_t most,
                         std::int64_t* kept, std::int64_t* total) {
  check_interrupt();
  *total = suppress(DType::from_code(dtype), boxes, scores, iou_threshold, score_threshold,
                    {batch, count, classes, most}, kept, static_cast<int>(call->num_threads));
}

void call_kept_boxes(KilnCall*, const std::int64_t* kept, std::int64_t batch, std::int64_t classes,
                     std::int64_t count, std::int64_t* rows) {
  kept_rows(kept, {batch, count, classes, 0}, rows);
}

void call_dequantize(KilnCall* call, std::int32_t encoding, const void* blocks, std::int64_t count,
                     float* elements) {
  check_interrupt();
  dequantize(static_cast<graph::QuantizationEncoding>(encoding), blocks, count, elements,
             static_cast<int>(call->num_threads));
}

void call_qmatmul(KilnCall* call, std::int32_t encoding, const float* lhs, const void* rhs,
                  float* result, std::int64_t rows, std::int64_t depth, std::int64_t columns) {
  check_interrupt();
  quantized_matmul(static_cast<graph::QuantizationEncoding>(encoding), lhs, rhs, result, rows,
                   depth, columns, static_cast<int>(call->num_threads));
}

}  // namespace

namespace {

constexpr KilnRuntime kTable{
    .abi_version = KILN_ABI_VERSION,
    .size = sizeof(KilnRuntime),
    .allocate = allocate,
    .allocate_output = allocate_output,
    .allocate_prepared = allocate_prepared,
    .parallel_for = parallel_for,
    .fail = fail,
    .print_tensor = print,
    .mark = mark,
    .next_iteration = next_iteration,
    .top_k = select_top_k,
    .cumsum = call_cumsum,
    .count_true = call_count_true,
    .true_positions = call_true_positions,
    .repeat_positions = call_repeat_positions,
    .choose = choose,
    .irfft = call_irfft,
    .roi_align = call_roi_align,
    .suppress_boxes = call_suppress_boxes,
    .kept_boxes = call_kept_boxes,
    .dequantize = call_dequantize,
    .qmatmul = call_qmatmul,
};

constexpr KilnRuntime replaying() {
  KilnRuntime table = kTable;
  table.allocate_output = reuse_output;
  return table;
}
constexpr KilnRuntime kReplayTable = replaying();

}  // namespace

const KilnRuntime& runtime_table() { return kTable; }
const KilnRuntime& replay_table() { return kReplayTable; }

}  // namespace kiln::runtime
