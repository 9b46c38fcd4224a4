// How operations are run.
//
// Everything is decided under one lock, and nothing is done under it: an operation is a place in a
// graph (it counts those that it waits for and lists those that wait for it), and becomes ready
// when its count is zero. Streams are no threads and no queues, only the memory of which operation
// was last, so all rules of ordering are in dependencies_of.
//
// Threads take steps: a step picks something that can go on (a ready operation, some blocks of a
// kernel, a look at a word that a stream waits for), lets go of the lock, does it, and settles the
// result. Workers do nothing else; a thread of the program that waits takes steps, too, which saves
// two changes of threads for short work. Functions of the user have threads of their own, since
// they may block.
//
// Example: two devices wait for each other's flags, with one worker. Each kernel has a block that
// spins. The block yields at its spin, so the steps go to and fro between the kernels, and each
// sees the other's flag. Only when all blocks that began have been looked at in vain does a kernel
// begin more of them, and only when nothing at all moves for seconds while the program waits is it
// a deadlock.
//
// Traps: a step may end an operation whose end lets anything happen, so no iterator into runs_ or
// ready_ survives a step. A kernel may run at its launch, on the launching thread, only when it is
// known to be short, and never with a seed, which makes the order depend on nothing but itself.

#include "emulator/engine/engine.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <type_traits>

#include "emulator/engine/perform.h"
#include "emulator/memory/memory.h"
#include "kiln/support/format.h"
#include "kiln/support/pause.h"

namespace kiln::emulator {
namespace {

// Work up to this is done by the thread that asks for it: handing it over costs as much.
constexpr std::int64_t kInlineNs = 15'000;
constexpr std::size_t kInlineBytes = 128 << 10;
constexpr int kSpins = 2000;
// With a seed, threads of the program do the work where they wait for it; the worker stands in for
// programs that look at memory instead.
constexpr auto kSeededGrace = std::chrono::milliseconds(20);

std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

// The rules of ordering: the legacy stream comes after all blocking streams of its context, and
// they after it.
void Engine::dependencies_of(Stream& stream, std::vector<OperationPointer>& found) const {
  const auto add = [&](const Stream& before) {
    if (before.tail != nullptr && !before.tail->done.load(std::memory_order_acquire))
      found.push_back(before.tail);
  };
  add(stream);
  if (stream.order == Stream::Order::non_blocking) return;
  const auto context = stream.context.lock();
  if (context == nullptr) return;
  if (stream.order == Stream::Order::legacy) {
    for (const auto& other : context->streams)
      if (other->order == Stream::Order::blocking) add(*other);
  } else if (context->legacy != nullptr) {
    add(*context->legacy);
  }
}

void Engine::enqueue_locked(const OperationPointer& operation,
                            std::span<const OperationPointer> dependencies) {
  operation->context->unfinished.fetch_add(1, std::memory_order_relaxed);
  for (const OperationPointer& before : dependencies) {
    if (before == nullptr || before->done.load(std::memory_order_acquire)) continue;
    before->followers.push_back(operation);
    ++operation->waiting_for;
  }
}

bool Engine::runs_inline(const Operation& operation) const {
  if (options_.seed) return false;
  if (const auto* kernel = std::get_if<KernelWork>(&operation.work)) {
    const std::int64_t block_ns = kernel->function->block_ns.load(std::memory_order_relaxed);
    const std::uint64_t blocks = kernel->grid.count();
    return block_ns >= 0 && blocks <= static_cast<std::uint64_t>(kInlineNs) &&
           block_ns * static_cast<std::int64_t>(blocks) <= kInlineNs;
  }
  if (const auto* copy = std::get_if<CopyWork>(&operation.work))
    return copy->bytes() <= kInlineBytes;
  if (const auto* fill = std::get_if<FillWork>(&operation.work))
    return fill->bytes() <= kInlineBytes;
  return !std::holds_alternative<HostWork>(operation.work);
}

void Engine::submit(Stream& stream, const OperationPointer& operation,
                    std::span<const OperationPointer> also) {
  Lock lock(mutex_);
  std::vector<OperationPointer> dependencies(also.begin(), also.end());
  dependencies_of(stream, dependencies);
  enqueue_locked(operation, dependencies);
  stream.tail = operation;
  if (operation->waiting_for != 0) return;
  if (runs_inline(*operation)) {
    execute(lock, operation);
  } else {
    last_progress_ = now_ns();
    ready_[operation->priority].push_back(operation);
    ++num_ready_;
    wake_locked();
  }
}

OperationPointer Engine::submit_graph(Stream& stream, std::span<const OperationPointer> operations,
                                      std::span<const std::vector<std::uint32_t>> before,
                                      std::span<const OperationPointer> waited,
                                      std::span<const OperationPointer> also) {
  Lock lock(mutex_);
  std::vector<OperationPointer> first(also.begin(), also.end());
  dependencies_of(stream, first);
  std::vector<bool> followed(operations.size());
  std::vector<OperationPointer> dependencies, last;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    dependencies.clear();
    for (const std::uint32_t index : before[i]) {
      dependencies.push_back(operations[index]);
      followed[index] = true;
    }
    if (before[i].empty()) dependencies = first;
    dependencies.push_back(waited[i]);
    enqueue_locked(operations[i], dependencies);
  }
  for (std::size_t i = 0; i < operations.size(); ++i)
    if (!followed[i]) last.push_back(operations[i]);
  if (operations.empty()) last = first;
  auto end = std::make_shared<Operation>();
  end->context = stream.context.lock();
  end->priority = stream.priority;
  enqueue_locked(end, last);
  stream.tail = end;
  last_progress_ = now_ns();
  // All are in line now, so those that are ready may run.
  for (const OperationPointer& operation : operations) {
    if (operation->waiting_for != 0) continue;
    ready_[operation->priority].push_back(operation);
    ++num_ready_;
  }
  if (end->waiting_for == 0) complete_locked(end);
  wake_locked();
  return end;
}

void Engine::join(Stream& stream, const OperationPointer& operation) {
  if (operation == nullptr || operation->done.load(std::memory_order_acquire)) return;
  auto mark = std::make_shared<Operation>();
  mark->context = stream.context.lock();
  mark->priority = stream.priority;
  if (mark->context != nullptr) submit(stream, mark, {&operation, 1});
}

void Engine::wake_locked() {
  news_.fetch_add(1, std::memory_order_release);
  if (workers_.empty()) start_workers_locked();
  if (sleeping_ > 0) work_.notify_one();
  // With a seed the waiting threads do the work.
  if (options_.seed && waiting_ > 0) done_.notify_all();
}

void Engine::start_workers_locked() {
  for (std::uint32_t i = 0; i < options_.workers; ++i) workers_.emplace_back([this] { work(); });
}

void Engine::work() {
  Lock lock(mutex_);
  for (;;) {
    if (options_.seed) {
      const std::uint64_t seen = news_.load();
      work_.wait_for(lock, kSeededGrace);
      if (waiting_ > 0 || news_.load() != seen) continue;
    }
    switch (step(lock)) {
      case Step::worked:
        break;
      case Step::stalled:
        pause_stalled(lock);
        break;
      case Step::idle: {
        const std::uint64_t seen = news_.load(std::memory_order_acquire);
        lock.unlock();
        const bool news =
            spin_until(kSpins, [&] { return news_.load(std::memory_order_acquire) != seen; });
        lock.lock();
        if (news || news_.load() != seen) break;
        ++sleeping_;
        work_.wait(lock);
        --sleeping_;
        break;
      }
    }
  }
}

Engine::Step Engine::step(Lock& lock) {
  const bool polled = !polls_.empty() && step_polls(lock);
  if (num_ready_ != 0) {
    execute(lock, take_ready());
    return Step::worked;
  }
  if (!runs_.empty() && step_run(lock)) return Step::worked;
  if (polled) return Step::worked;
  return runs_.empty() && polls_.empty() ? Step::idle : Step::stalled;
}

OperationPointer Engine::take_ready() {
  const auto first = ready_.begin();
  std::deque<OperationPointer>& line = first->second;
  if (options_.seed && line.size() > 1) std::swap(line.front(), line[random_() % line.size()]);
  OperationPointer operation = std::move(line.front());
  line.pop_front();
  if (line.empty()) ready_.erase(first);
  --num_ready_;
  return operation;
}

// Some blocks of one kernel. False when all that could be done was to see that blocks still wait.
bool Engine::step_run(Lock& lock) {
  const std::size_t count = runs_.size();
  const std::size_t start = options_.seed ? random_() % count : ++turn_ % count;
  // Now and then all have the same right, so that a busy kernel hides nobody's flags.
  const bool equal = options_.seed ? random_() % 8 == 0 : turn_ % 8 == 0;
  std::shared_ptr<Run> chosen;
  int best = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::shared_ptr<Run>& run = runs_[(start + i) % count];
    if (!run->failed() && run->operation()->context->error.load() != CUDA_SUCCESS) {
      run->fail();
      if (run->over()) {
        chosen = run;  // a copy: finish_unit changes runs_
        finish_unit(lock, chosen);
        return true;
      }
    }
    if (!run->available()) continue;
    const int rank = equal ? 0 : run->operation()->priority + (run->fruitless() ? 1000 : 0);
    if (chosen == nullptr || rank < best) {
      chosen = run;
      best = rank;
    }
  }
  if (chosen == nullptr) return false;
  Unit unit = chosen->take(options_.seed ? &random_ : nullptr);
  lock.unlock();
  chosen->perform(unit);
  lock.lock();
  const bool progress = chosen->settle(unit);
  if (progress) last_progress_ = now_ns();
  finish_unit(lock, chosen);
  return progress || !chosen->fruitless();
}

void Engine::finish_unit(Lock& lock, const std::shared_ptr<Run>& run) {
  if (!run->over()) return;
  std::erase(runs_, run);
  const auto fault = run->grid().fault();
  const OperationPointer operation = run->operation();
  Context& context = *operation->context;
  if (fault && context.error.load() == CUDA_SUCCESS) {
    context.fail(static_cast<int>(fault->code));
    lock.unlock();
    std::fprintf(stderr, "kiln emulator: %s\n", fault->sentence.c_str());
    lock.lock();
  }
  complete_locked(operation);
}

bool Engine::step_polls(Lock& lock) {
  for (std::size_t i = 0; i < polls_.size(); ++i) {
    const OperationPointer operation = polls_[i];
    if (operation->context->error.load() == CUDA_SUCCESS) {
      const Look look = look_at(std::get<ValueWork>(operation->work));
      if (look == Look::no) continue;
      if (look == Look::unreadable) operation->context->fail(CUDA_ERROR_ILLEGAL_ADDRESS);
    }
    polls_.erase(polls_.begin() + static_cast<std::ptrdiff_t>(i));
    complete_locked(operation);
    return true;
  }
  return false;
}

void Engine::execute(Lock& lock, const OperationPointer& operation) {
  Context& context = *operation->context;
  const bool failed = context.error.load() != CUDA_SUCCESS && !operation->always;
  if (auto* host = std::get_if<HostWork>(&operation->work)) {
    // A callback hears of the failure; a host function is not called any more.
    if (failed && host->callback == nullptr) return complete_locked(operation);
    host_threads_.run([this, operation, host] {
      if (host->callback != nullptr)
        host->callback(host->stream, static_cast<CUresult>(operation->context->error.load()),
                       host->user_data);
      else
        host->function(host->user_data);
      Lock held(mutex_);
      complete_locked(operation);
    });
    return;
  }
  if (failed) return complete_locked(operation);
  if (std::holds_alternative<KernelWork>(operation->work)) return start_kernel(lock, operation);
  if (const auto* value = std::get_if<ValueWork>(&operation->work); value && value->wait) {
    polls_.push_back(operation);
    news_.fetch_add(1, std::memory_order_release);
    if (!step_polls(lock)) wake_locked();
    return;
  }
  if (!std::holds_alternative<MarkWork>(operation->work)) {
    lock.unlock();
    const bool well = perform(operation->work);
    lock.lock();
    if (!well) {
      context.fail(CUDA_ERROR_ILLEGAL_ADDRESS);
      std::fprintf(stderr,
                   "kiln emulator: A copy or fill met memory that is not there: it was freed or "
                   "unmapped after the operation was put into its stream.\n");
    }
  }
  complete_locked(operation);
}

void Engine::start_kernel(Lock& lock, const OperationPointer& operation) {
  const bool stays = runs_inline(*operation);
  lock.unlock();
  std::string failure;
  const auto run = Run::start(operation, options_.workers, options_.multiprocessors, failure);
  if (run == nullptr) {
    std::fprintf(stderr, "kiln emulator: The kernel '%s' could not start: %s\n",
                 std::get<KernelWork>(operation->work).function->kernel().name.c_str(),
                 failure.c_str());
    lock.lock();
    operation->context->fail(CUDA_ERROR_LAUNCH_FAILED);
    return complete_locked(operation);
  }
  // The first units belong to this thread: a short kernel is over before anybody else hears of it.
  do {
    Unit unit = run->take(options_.seed ? &random_ : nullptr);
    run->perform(unit);
    run->settle(unit);
  } while (stays && run->available() && !run->fruitless());
  lock.lock();
  if (!run->over()) {
    runs_.push_back(run);
    wake_locked();
  } else {
    finish_unit(lock, run);
  }
}

void Engine::complete_locked(const OperationPointer& operation) {
  const std::int64_t now = now_ns();
  operation->time.store(now, std::memory_order_relaxed);
  operation->done.store(true, std::memory_order_release);
  operation->context->unfinished.fetch_sub(1, std::memory_order_relaxed);
  last_progress_ = now;
  bool any = false;
  for (OperationPointer& follower : operation->followers) {
    if (--follower->waiting_for != 0) continue;
    ready_[follower->priority].push_back(std::move(follower));
    ++num_ready_;
    any = true;
  }
  operation->followers.clear();
  // A stream or an event may remember the operation for long; what it worked on need not last.
  operation->work = MarkWork{};
  if (any) wake_locked();
  if (waiting_ > 0) done_.notify_all();
}

template <typename Done>
void Engine::help_until(Lock& lock, const Done& done) {
  if (done()) return;
  ++waiting_;
  while (!done()) {
    switch (step(lock)) {
      case Step::worked:
        break;
      case Step::stalled:
        pause_stalled(lock);
        break;
      case Step::idle: {
        lock.unlock();
        const bool over = spin_until(kSpins, done);
        lock.lock();
        if (!over && !done()) done_.wait(lock);
        break;
      }
    }
  }
  --waiting_;
}

void Engine::wait(const OperationPointer& operation) {
  if (operation == nullptr || operation->done.load(std::memory_order_acquire)) return;
  Lock lock(mutex_);
  help_until(lock, [&] { return operation->done.load(std::memory_order_acquire); });
}

void Engine::wait(Stream& stream) {
  Lock lock(mutex_);
  std::vector<OperationPointer> last;
  dependencies_of(stream, last);
  for (const OperationPointer& operation : last)
    help_until(lock, [&] { return operation->done.load(std::memory_order_acquire); });
}

void Engine::wait(Context& context) {
  if (context.unfinished.load(std::memory_order_acquire) == 0) return;
  Lock lock(mutex_);
  std::vector<OperationPointer> last;
  for (const auto& stream : context.streams)
    if (stream->tail != nullptr) last.push_back(stream->tail);
  for (const OperationPointer& operation : last)
    help_until(lock, [&] { return operation->done.load(std::memory_order_acquire); });
}

bool Engine::idle(Stream& stream) {
  Lock lock(mutex_);
  std::vector<OperationPointer> last;
  dependencies_of(stream, last);
  // Somebody who only asks still wants the work to be done.
  if (!last.empty() && options_.seed) {
    step(lock);
    last.clear();
    dependencies_of(stream, last);
  }
  return last.empty();
}

bool Engine::done(const Operation& operation) {
  if (!operation.done.load(std::memory_order_acquire) && options_.seed) {
    Lock lock(mutex_);
    step(lock);
  }
  return operation.done.load(std::memory_order_acquire);
}

void Engine::abandon(Context& context) {
  context.error = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  Lock lock(mutex_);
  wake_locked();
  help_until(lock, [&] { return context.unfinished.load(std::memory_order_acquire) == 0; });
}

// Everything waits, for each other or for the program: look again soon, but let others run.
void Engine::pause_stalled(Lock& lock) {
  watch(lock);
  const std::int64_t idle_ns = now_ns() - last_progress_;
  const std::uint64_t seen = news_.load(std::memory_order_acquire);
  lock.unlock();
  if (idle_ns < 200'000) {
    std::this_thread::yield();
  } else if (news_.load() == seen) {
    std::this_thread::sleep_for(std::chrono::microseconds(idle_ns < 20'000'000 ? 20 : 200));
  }
  lock.lock();
}

// A deadlock: for the whole time-out the program waited, nothing ended or began, all blocks waited
// at the same places, and in the second half of it no byte of memory changed. The last condition is
// what tells kernels apart that pass the same place again and again.
void Engine::watch(Lock& lock) {
  const std::int64_t now = now_ns();
  const auto limit = static_cast<std::int64_t>(options_.timeout * 1e9);
  const std::int64_t idle = now - last_progress_;
  if (waiting_ == 0 || num_ready_ != 0 || idle < limit / 4) {
    last_look_ = 0;
    contents_.reset();
    return;
  }
  if (now - last_look_ < limit / 16) return;
  const std::size_t fingerprint = stalled_fingerprint();
  const bool same = fingerprint != 0 && (last_look_ == 0 || fingerprint == fingerprint_);
  fingerprint_ = fingerprint;
  last_look_ = now;
  if (!same) {
    last_progress_ = now;
    return;
  }
  if (idle < limit / 2 || (contents_ && idle < limit)) return;
  const std::int64_t progress = last_progress_;
  lock.unlock();
  const std::uint64_t contents = process_memory()->contents();
  lock.lock();
  if (progress != last_progress_) return;
  if (contents_ && *contents_ != contents) {
    last_progress_ = now_ns();
    contents_.reset();
  } else if (contents_) {
    report_deadlock(lock);
  } else {
    contents_ = contents;
  }
}

std::size_t Engine::stalled_fingerprint() const {
  std::size_t hash = 1;
  for (const auto& run : runs_) {
    const auto* blocks = run->waiting();
    if (blocks == nullptr) return 0;
    for (const auto& block : *blocks) {
      const std::string text = block->waiting();
      if (text.empty()) return 0;
      // In any order: blocks change places in line.
      hash += std::hash<std::string>()(text) | 1;
    }
  }
  return hash + polls_.size();
}

void Engine::report_deadlock(Lock& lock) {
  constexpr std::size_t kListed = 16;
  std::string report = format(
      "kiln emulator: A deadlock: for {} seconds every block that runs has waited and nothing else "
      "is left to do while the program waits for the device.\n",
      options_.timeout);
  std::size_t count = 0;
  for (const auto& run : runs_) {
    const auto& kernel = std::get<KernelWork>(run->operation()->work).function->kernel();
    run->operation()->context->fail(CUDA_ERROR_LAUNCH_TIMEOUT);
    for (const auto& block : *run->waiting())
      if (++count <= kListed)
        report += format("  kernel '{}' on device {}: {}\n", kernel.name,
                         run->operation()->context->device, block->waiting());
  }
  for (const OperationPointer& poll : polls_) {
    const auto& value = std::get<ValueWork>(poll->work);
    poll->context->fail(CUDA_ERROR_LAUNCH_TIMEOUT);
    if (++count <= kListed)
      report += format("  a stream of device {} waits for the value {} at {:#x}\n",
                       poll->context->device, value.value, value.address);
  }
  if (count > kListed) report += format("  and {} more\n", count - kListed);
  last_progress_ = now_ns();
  contents_.reset();
  lock.unlock();
  std::fputs(report.c_str(), stderr);
  lock.lock();
}

}  // namespace kiln::emulator
