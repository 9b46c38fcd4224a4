#include "kiln/support/thread_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <thread>

#include "kiln/support/error.h"
#include "kiln/support/pause.h"
#include "kiln/support/process.h"

// A loop is published by one store to `generation_`. Threads that spin see it within a cache miss
// and claim chunks with a compare-exchange; the caller claims too, so a thread that is parked or
// descheduled is never waited for unless it holds a chunk. The caller leaves when every claimed
// chunk is done. Each thread starts with a stretch of its own, so that what it reads ahead is its
// own next work, and what it wrote in one loop is in its cache in the next.
//
// Between loops a worker spins for a short while and then parks on a futex of its own, so that a
// loop wakes exactly the threads it can use. Parking follows the usual pattern: announce, look
// again, sleep; the publisher stores, then looks who has announced.

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

/// How long a worker looks for the next loop: while a model call is in flight, and after it.
constexpr auto kSpinInFlight = std::chrono::microseconds(50);
constexpr auto kSpinAfter = std::chrono::microseconds(10);
/// More chunks than threads level out threads that start late or run slowly.
constexpr std::int64_t kChunksPerThread = 4;

thread_local constinit bool inside_loop __attribute__((tls_model("initial-exec"))) = false;

/// Where the chunks of part `part` end, those of all parts being split evenly.
std::uint32_t part_end(int part, std::uint32_t chunks, int threads) {
  return static_cast<std::uint32_t>(std::int64_t{chunks} * (part + 1) / threads);
}

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void futex_wake(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

std::string read_line(const std::string& path) {
  std::string result;
  if (std::FILE* file = std::fopen(path.c_str(), "re")) {
    char line[4096];
    if (std::fgets(line, sizeof line, file)) result = line;
    std::fclose(file);
  }
  while (!result.empty() && (result.back() == '\n' || result.back() == ' ')) result.pop_back();
  return result;
}

/// CPUs' worth of time in the quota of this process's control group or any above it; 0: no limit.
double cpu_quota() {
  double quota = 0;
  const auto apply = [&](double value) {
    if (value > 0 && (quota == 0 || value < quota)) quota = value;
  };
  std::FILE* file = std::fopen("/proc/self/cgroup", "re");
  if (!file) return 0;
  char line[4096];
  while (std::fgets(line, sizeof line, file)) {
    std::string text = line;
    while (!text.empty() && text.back() == '\n') text.pop_back();
    const std::size_t first = text.find(':');
    const std::size_t second = text.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = text.substr(first + 1, second - first - 1);
    std::string group = text.substr(second + 1);
    const bool unified = controllers.empty();
    if (!unified && controllers.find("cpu") == std::string::npos) continue;
    // Inside a container the group's path may name nothing; its own root is always there.
    for (;;) {
      const std::string root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu";
      if (unified) {
        const std::string limit = read_line(root + group + "/cpu.max");
        long long value = 0;
        long long period = 0;
        if (std::sscanf(limit.c_str(), "%lld %lld", &value, &period) == 2 && period > 0)
          apply(static_cast<double>(value) / static_cast<double>(period));
      } else {
        const double value = std::atof(read_line(root + group + "/cpu.cfs_quota_us").c_str());
        const double period = std::atof(read_line(root + group + "/cpu.cfs_period_us").c_str());
        if (value > 0 && period > 0) apply(value / period);
      }
      if (group.empty() || group == "/") break;
      group = group.substr(0, group.rfind('/'));
    }
  }
  std::fclose(file);
  return quota;
}

}  // namespace

struct alignas(64) ThreadPool::Worker {
  std::atomic<std::uint32_t> parked{0};
  int index = 0;
};

ThreadPool::ThreadPool() : workers_(new Worker[kMaxThreads]) {
  for (int i = 0; i < kMaxThreads; ++i) workers_[i].index = i + 1;
}

ThreadPool& ThreadPool::instance() {
  // Leaked: its threads outlive static destructors.
  static auto* pool = new ThreadPool;
  return *pool;
}

int ThreadPool::count_usable_threads() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::set<std::string> cores;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &allowed)) continue;
      const std::string name = std::to_string(cpu);
      const std::string siblings =
          read_line("/sys/devices/system/cpu/cpu" + name + "/topology/thread_siblings_list");
      cores.insert(siblings.empty() ? name : siblings);
    }
  }
  int count = cores.empty() ? static_cast<int>(std::thread::hardware_concurrency())
                            : static_cast<int>(cores.size());
  if (const double quota = cpu_quota(); quota > 0)
    count = std::min(count, std::max(1, static_cast<int>(quota + 0.999)));
  return std::clamp(count, 1, kMaxThreads);
}

int ThreadPool::usable_threads() {
  static const int count = count_usable_threads();
  return count;
}

void ThreadPool::start_workers(int count) {
  mark_in_use();
  std::lock_guard lock(start_mutex_);
  int started = num_workers_.load(std::memory_order_relaxed);
  try {
    for (; started < count; ++started)
      start_detached_thread([this, &self = workers_[started]] { run_worker(self); });
  } catch (const std::system_error&) {
    // The system has no more threads to give; loops use those that there are.
  }
  num_workers_.store(started, std::memory_order_release);
}

void ThreadPool::parallel_for(std::int64_t count, std::int64_t grain, int max_threads, Body body,
                              void* arguments) {
  if (count <= 0) return;
  if (grain < 1) grain = 1;
  const std::int64_t pieces = (count - 1) / grain + 1;
  int threads =
      static_cast<int>(std::min<std::int64_t>(std::min(max_threads, kMaxThreads), pieces));
  if (threads <= 1 || inside_loop) {
    body(arguments, 0, count, 0);
    return;
  }
  if (forked_after_use()) [[unlikely]]
    throw RuntimeError("kiln was in use before fork(); start the child with spawn or exec");
  if (num_workers_.load(std::memory_order_acquire) < threads - 1) [[unlikely]]
    start_workers(threads - 1);
  threads = std::min(threads, num_workers_.load(std::memory_order_acquire) + 1);
  if (threads <= 1 || busy_.exchange(true, std::memory_order_acquire)) {
    body(arguments, 0, count, 0);
    return;
  }

  const auto chunks = static_cast<std::uint32_t>(std::min(pieces, threads * kChunksPerThread));
  body_.store(body, std::memory_order_relaxed);
  arguments_.store(arguments, std::memory_order_relaxed);
  count_.store(count, std::memory_order_relaxed);
  grain_.store(grain, std::memory_order_relaxed);
  chunks_.store(chunks, std::memory_order_relaxed);
  threads_.store(threads, std::memory_order_relaxed);
  done_.store(0, std::memory_order_relaxed);
  failed_chunk_.store(kNoChunk, std::memory_order_relaxed);
  const std::uint32_t generation = generation_.load(std::memory_order_relaxed) + 1;
  for (int part = 0; part < threads; ++part) {
    const std::uint32_t size =
        part_end(part, chunks, threads) - part_end(part - 1, chunks, threads);
    parts_[part].store(std::uint64_t{generation} << 32 | size, std::memory_order_release);
  }
  // Sequentially consistent, as a worker's announcement that it parks: one side sees the other.
  generation_.store(generation, std::memory_order_seq_cst);
  if (parked_.load(std::memory_order_seq_cst) > 0) wake(threads);

  inside_loop = true;
  work_on(generation, 0);
  inside_loop = false;
  for (int spins = 0; done_.load(std::memory_order_acquire) != chunks; ++spins) {
    if (spins < 4096)
      pause();
    else
      std::this_thread::yield();  // a worker that holds a chunk may need this very processor
  }

  std::exception_ptr error;
  if (failed_chunk_.load(std::memory_order_relaxed) != kNoChunk) [[unlikely]]
    error = std::exchange(failure_.error, nullptr);
  busy_.store(false, std::memory_order_release);
  if (error) [[unlikely]]
    std::rethrow_exception(std::move(error));
}

std::uint32_t ThreadPool::work_on(std::uint32_t generation, int worker) noexcept {
  std::uint32_t finished = 0;
  const int threads = threads_.load(std::memory_order_relaxed);
  for (int i = 0; i < threads; ++i) {
    const int part = worker + i < threads ? worker + i : worker + i - threads;
    std::uint64_t state = parts_[part].load(std::memory_order_acquire);
    for (;;) {
      const auto remaining = static_cast<std::uint32_t>(state);
      if (static_cast<std::uint32_t>(state >> 32) != generation) return finished;
      if (remaining == 0) break;
      const std::uint32_t chunks = chunks_.load(std::memory_order_relaxed);
      if (!parts_[part].compare_exchange_weak(state, state - 1, std::memory_order_acq_rel,
                                              std::memory_order_acquire))
        continue;
      run_chunk(part_end(part, chunks, threads) - remaining, chunks, worker);
      // Counted at once: after the last chunk is counted, the caller may reuse every field.
      ++finished;
      done_.fetch_add(1, std::memory_order_acq_rel);
      state = parts_[part].load(std::memory_order_acquire);
    }
  }
  return finished;
}

void ThreadPool::run_chunk(std::int64_t chunk, std::int64_t chunks, int worker) noexcept {
  // What lies behind a failure is left out; what lies before it may fail first.
  if (chunk > failed_chunk_.load(std::memory_order_acquire)) return;
  const std::int64_t count = count_.load(std::memory_order_relaxed);
  const std::int64_t grain = grain_.load(std::memory_order_relaxed);
  // Chunks of whole pieces, as even as they go; divided first, since pieces * chunk may overflow.
  const std::int64_t pieces = (count - 1) / grain + 1;
  const std::int64_t base = pieces / chunks;
  const std::int64_t extra = pieces % chunks;
  const std::int64_t first = chunk * base + std::min(chunk, extra);
  const std::int64_t last = first + base + (chunk < extra ? 1 : 0);
  const std::int64_t end = last >= pieces ? count : last * grain;
  try {
    body_.load(std::memory_order_relaxed)(arguments_.load(std::memory_order_relaxed), first * grain,
                                          end, worker);
  } catch (...) {
    std::lock_guard lock(failure_.mutex);
    if (chunk < failed_chunk_.load(std::memory_order_relaxed)) {
      failure_.error = std::current_exception();
      failed_chunk_.store(chunk, std::memory_order_release);
    }
  }
}

void ThreadPool::wake(int threads) noexcept {
  const int count = std::min(threads - 1, num_workers_.load(std::memory_order_acquire));
  for (int i = 0; i < count; ++i) {
    std::atomic<std::uint32_t>& parked = workers_[i].parked;
    if (parked.load(std::memory_order_seq_cst) == 0) continue;
    if (parked.exchange(0, std::memory_order_seq_cst) == 0) continue;
    parked_.fetch_sub(1, std::memory_order_relaxed);
    futex_wake(parked);
  }
}

void ThreadPool::run_worker(Worker& self) noexcept {
  char name[16];
  std::snprintf(name, sizeof name, "kiln-worker-%d", self.index % 1000);
  pthread_setname_np(pthread_self(), name);
  inside_loop = true;
  std::uint32_t seen = 0;
  Clock::time_point idle_since = Clock::now();
  for (unsigned spins = 0;; ++spins) {
    const std::uint32_t generation = generation_.load(std::memory_order_acquire);
    if (generation != seen) {
      seen = generation;
      if (self.index < threads_.load(std::memory_order_relaxed) && work_on(seen, self.index) > 0)
        idle_since = Clock::now();
      continue;
    }
    pause();
    if (spins % 64 != 0) continue;
    const auto limit = activity_.load(std::memory_order_relaxed) > 0 ? kSpinInFlight : kSpinAfter;
    if (Clock::now() - idle_since < limit) continue;
    self.parked.store(1, std::memory_order_seq_cst);
    parked_.fetch_add(1, std::memory_order_seq_cst);
    if (generation_.load(std::memory_order_seq_cst) != seen) {
      if (self.parked.exchange(0, std::memory_order_seq_cst) == 1)
        parked_.fetch_sub(1, std::memory_order_relaxed);
      continue;
    }
    while (self.parked.load(std::memory_order_acquire) == 1) futex_wait(self.parked, 1);
    idle_since = Clock::now();
  }
}

ThreadPool::Activity::Activity(int threads) : active_(threads > 1) {
  if (!active_) return;
  ThreadPool& pool = instance();
  pool.activity_.fetch_add(1, std::memory_order_relaxed);
  if (pool.parked_.load(std::memory_order_relaxed) > 0) pool.wake(threads);
}

ThreadPool::Activity::~Activity() {
  if (active_) instance().activity_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace kiln
