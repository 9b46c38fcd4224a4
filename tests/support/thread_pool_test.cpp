#include "kiln/support/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "kiln/support/error.h"
#include "kiln/support/sanitizer.h"

namespace kiln {
namespace {

TEST(ThreadPool, CoversEveryIterationOnce) {
  for (std::int64_t count : {1, 2, 7, 64, 1000, 4097})
    for (std::int64_t grain : {1, 3, 64, 5000})
      for (int threads : {1, 2, 3, 8}) {
        std::vector<std::atomic<int>> hits(static_cast<std::size_t>(count));
        std::atomic<bool> aligned = true;
        std::atomic<bool> worker_ok = true;
        parallel_for(count, grain, threads,
                     [&](std::int64_t begin, std::int64_t end, std::int64_t worker) {
                       if (begin % grain != 0 || (end % grain != 0 && end != count))
                         aligned = false;
                       if (worker < 0 || worker >= threads) worker_ok = false;
                       for (std::int64_t i = begin; i < end; ++i) ++hits[i];
                     });
        for (const auto& hit : hits) ASSERT_EQ(hit.load(), 1);
        EXPECT_TRUE(aligned);
        EXPECT_TRUE(worker_ok);
      }
}

TEST(ThreadPool, EmptyAndHugeRanges) {
  parallel_for(0, 1, 4, [](std::int64_t, std::int64_t, std::int64_t) { FAIL(); });
  std::atomic<std::int64_t> total = 0;
  const std::int64_t count = std::int64_t{1} << 62;
  parallel_for(count, 1, 4,
               [&](std::int64_t begin, std::int64_t end, std::int64_t) { total += end - begin; });
  EXPECT_EQ(total, count);
}

TEST(ThreadPool, RethrowsTheFirstFailureInOrder) {
  for (int round = 0; round < 200; ++round) {
    try {
      parallel_for(64, 1, 4, [](std::int64_t begin, std::int64_t end, std::int64_t) {
        for (std::int64_t i = begin; i < end; ++i)
          if (i % 20 == 13) throw ValueError(std::to_string(i));
      });
      FAIL() << "nothing was thrown";
    } catch (const ValueError& error) {
      EXPECT_STREQ(error.what(), "13");
    }
  }
  // And works again.
  std::atomic<int> sum = 0;
  parallel_for(10, 1, 4, [&](std::int64_t begin, std::int64_t end, std::int64_t) {
    for (std::int64_t i = begin; i < end; ++i) sum += static_cast<int>(i);
  });
  EXPECT_EQ(sum, 45);
}

TEST(ThreadPool, LoopsInsideLoopsAndManyCallers) {
  std::atomic<std::int64_t> total = 0;
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        ThreadPool::Activity activity(3);
        parallel_for(16, 1, 3, [&](std::int64_t begin, std::int64_t end, std::int64_t) {
          parallel_for(end - begin, 1, 3,
                       [&](std::int64_t b, std::int64_t e, std::int64_t) { total += e - b; });
        });
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 4 * 200 * 16);
}

TEST(ThreadPool, WorkersOwnTheirScratch) {
  std::vector<int> scratch(4, 0);
  std::atomic<bool> shared = false;
  for (int round = 0; round < 100; ++round)
    parallel_for(64, 1, 4, [&](std::int64_t begin, std::int64_t end, std::int64_t worker) {
      if (++scratch[static_cast<std::size_t>(worker)] != 1) shared = true;
      for (std::int64_t i = begin; i < end; ++i) std::this_thread::yield();
      --scratch[static_cast<std::size_t>(worker)];
    });
  EXPECT_FALSE(shared);
}

TEST(ThreadPool, OthersDoWhatASlowThreadLeaves) {
  for (int round = 0; round < 50; ++round) {
    ThreadPool::Activity activity(2);
    std::atomic<int> done = 0;
    std::atomic<bool> waited_in_vain = false;
    parallel_for(8, 1, 2, [&](std::int64_t begin, std::int64_t end, std::int64_t worker) {
      const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(30);
      // The worker's other chunks are done by the caller, while this one waits for it.
      while (worker == 1 && done < 7 && !waited_in_vain)
        waited_in_vain = std::chrono::steady_clock::now() > patience;
      done += static_cast<int>(end - begin);
    });
    ASSERT_FALSE(waited_in_vain);
    ASSERT_EQ(done, 8);
  }
}

TEST(ThreadPool, CountsThreads) {
  EXPECT_GE(ThreadPool::usable_threads(), 1);
  EXPECT_LE(ThreadPool::count_usable_threads(),
            static_cast<int>(std::thread::hardware_concurrency()));
}

TEST(ThreadPool, RefusesAfterFork) {
#ifdef KILN_THREAD_SANITIZER
  // The sanitizer does not follow a child of a process with several threads.
#else
  parallel_for(8, 1, 2, [](std::int64_t, std::int64_t, std::int64_t) {});
  const pid_t child = fork();
  if (child == 0) {
    int status = 1;
    try {
      parallel_for(8, 1, 2, [](std::int64_t, std::int64_t, std::int64_t) {});
    } catch (const RuntimeError& error) {
      status = std::string(error.what()).starts_with("kiln was in use before fork()") ? 0 : 2;
    }
    _exit(status);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
#endif
}

}  // namespace
}  // namespace kiln
