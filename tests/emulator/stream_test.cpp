// Order of streams and events, host functions, values, sticky errors.

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "api_fixture.h"

namespace kiln::emulator_test {
namespace {

using namespace std::chrono_literals;

class StreamTest : public ApiTest {
 protected:
  void SetUp() override {
    ApiTest::SetUp();
    wait_flag = kernel("wait_flag");
    store_value = kernel("store_value");
    copy_word = kernel("copy_word");
    flags = pinned(16);
    words = pinned(16);
  }
  CUdeviceptr flag(int i) const { return address_of(flags + i); }
  CUdeviceptr word(int i) const { return address_of(words + i); }
  /// Gives work that may run the time to do so.
  void let_run() { std::this_thread::sleep_for(20ms); }

  CUfunction wait_flag = nullptr, store_value = nullptr, copy_word = nullptr;
  std::uint32_t *flags = nullptr, *words = nullptr;
};

TEST_F(StreamTest, StreamsAreInOrderAndIndependent) {
  const CUstream first = stream(), second = stream();
  ASSERT_EQ(launch(wait_flag, first, flag(0), 1u), CUDA_SUCCESS);
  ASSERT_EQ(launch(store_value, first, word(0), 1u), CUDA_SUCCESS);
  ASSERT_EQ(launch(store_value, second, word(1), 2u), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(second), CUDA_SUCCESS);
  EXPECT_EQ(look(words + 1), 2u);
  EXPECT_EQ(look(words), 0u);
  EXPECT_EQ(cuStreamQuery(first), CUDA_ERROR_NOT_READY);
  raise(flags);
  ASSERT_EQ(cuStreamSynchronize(first), CUDA_SUCCESS);
  EXPECT_EQ(look(words), 1u);
  EXPECT_EQ(cuStreamQuery(first), CUDA_SUCCESS);
}

TEST_F(StreamTest, LegacyStreamWaitsForBlockingStreamsAndTheyForIt) {
  const CUstream blocking = stream(0), other = stream(0), free = stream();
  ASSERT_EQ(launch(wait_flag, blocking, flag(0), 1u), CUDA_SUCCESS);
  ASSERT_EQ(launch(store_value, nullptr, word(0), 1u), CUDA_SUCCESS);
  ASSERT_EQ(launch(copy_word, other, word(1), word(0)), CUDA_SUCCESS);
  ASSERT_EQ(launch(store_value, free, word(2), 1u), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(free), CUDA_SUCCESS);
  let_run();
  EXPECT_EQ(look(words), 0u) << "the legacy stream overtook a blocking one";
  EXPECT_EQ(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
  raise(flags);
  ASSERT_EQ(cuStreamSynchronize(other), CUDA_SUCCESS);
  EXPECT_EQ(look(words + 1), 1u);
}

TEST_F(StreamTest, PerThreadStreamIsAnOrdinaryBlockingOne) {
  const auto per_thread = reinterpret_cast<CUstream>(CU_STREAM_PER_THREAD);
  ASSERT_EQ(launch(wait_flag, per_thread, flag(0), 1u), CUDA_SUCCESS);
  unsigned long long mine = 0, others = 0;
  ASSERT_EQ(cuStreamGetId(per_thread, &mine), CUDA_SUCCESS);
  std::thread([&] {
    ASSERT_EQ(cuCtxSetCurrent(contexts[0]), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamGetId(per_thread, &others), CUDA_SUCCESS);
    ASSERT_EQ(launch(store_value, per_thread, word(1), 1u), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize_ptsz(nullptr), CUDA_SUCCESS) << "another thread's stream waits";
  }).join();
  EXPECT_NE(mine, others);
  EXPECT_EQ(cuStreamQuery_ptsz(nullptr), CUDA_ERROR_NOT_READY);
  raise(flags);
  EXPECT_EQ(cuStreamSynchronize_ptsz(nullptr), CUDA_SUCCESS);
}

TEST_F(StreamTest, EventsOrderStreamsAcrossDevices) {
  const CUstream first = stream();
  const CUevent recorded = event();
  ASSERT_EQ(launch(wait_flag, first, flag(0), 1u), CUDA_SUCCESS);
  ASSERT_EQ(launch(store_value, first, word(0), 42u), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(recorded, first), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(recorded), CUDA_ERROR_NOT_READY);
  use(1);
  const CUstream second = stream();
  ASSERT_EQ(cuStreamWaitEvent(second, recorded, 0), CUDA_SUCCESS);
  ASSERT_EQ(launch(kernel("copy_word"), second, word(1), word(0)), CUDA_SUCCESS);
  let_run();
  EXPECT_EQ(cuStreamQuery(second), CUDA_ERROR_NOT_READY);
  raise(flags);
  ASSERT_EQ(cuStreamSynchronize(second), CUDA_SUCCESS);
  EXPECT_EQ(look(words + 1), 42u);
  EXPECT_EQ(cuEventSynchronize(recorded), CUDA_SUCCESS);
}

TEST_F(StreamTest, WaitTakesTheRecordingOfItsTime) {
  const CUstream first = stream(), second = stream();
  const CUevent recorded = event();
  ASSERT_EQ(cuStreamWaitEvent(second, recorded, 0), CUDA_SUCCESS) << "never recorded: no wait";
  ASSERT_EQ(cuEventRecord(recorded, first), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(second, recorded, 0), CUDA_SUCCESS);
  ASSERT_EQ(launch(wait_flag, first, flag(0), 1u), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(recorded, first), CUDA_SUCCESS);
  ASSERT_EQ(launch(store_value, second, word(0), 1u), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(second), CUDA_SUCCESS) << "it waits for the first recording";
  raise(flags);
  EXPECT_EQ(cuEventSynchronize(recorded), CUDA_SUCCESS);
}

TEST_F(StreamTest, EventsMeasureTime) {
  const CUstream own = stream();
  const CUevent start = event(), end = event(), untimed = event(CU_EVENT_DISABLE_TIMING);
  float milliseconds = -1;
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_INVALID_HANDLE);
  ASSERT_EQ(cuEventRecord(start, own), CUDA_SUCCESS);
  ASSERT_EQ(launch(wait_flag, own, flag(0), 1u), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(end, own), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(untimed, own), CUDA_SUCCESS);
  ASSERT_EQ(cuEventSynchronize(start), CUDA_SUCCESS);
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_NOT_READY);
  std::this_thread::sleep_for(30ms);
  raise(flags);
  ASSERT_EQ(cuEventSynchronize(end), CUDA_SUCCESS);
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, end), CUDA_SUCCESS);
  EXPECT_GE(milliseconds, 29.0f);
  EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, untimed), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(StreamTest, HostFunctionsComeInOrderAndMayNotUseTheDriver) {
  struct Seen {
    std::uint32_t* word;
    std::atomic<std::uint32_t> value{0};
    std::atomic<int> answer{-1};
  } seen{words};
  const CUstream own = stream();
  ASSERT_EQ(launch(wait_flag, own, flag(0), 1u), CUDA_SUCCESS);
  ASSERT_EQ(launch(store_value, own, word(0), 6u), CUDA_SUCCESS);
  ASSERT_EQ(cuLaunchHostFunc(
                own,
                [](void* data) {
                  auto& to = *static_cast<Seen*>(data);
                  to.value = look(to.word);
                  to.answer = cuCtxSynchronize();
                },
                &seen),
            CUDA_SUCCESS);
  ASSERT_EQ(launch(store_value, own, word(0), 7u), CUDA_SUCCESS);
  raise(flags);
  ASSERT_EQ(cuStreamSynchronize(own), CUDA_SUCCESS);
  EXPECT_EQ(seen.value, 6u);
  EXPECT_EQ(seen.answer, CUDA_ERROR_NOT_PERMITTED);
  EXPECT_EQ(look(words), 7u);
  EXPECT_EQ(cuLaunchHostFunc(own, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(StreamTest, ValuesAreWaitedForAndWritten) {
  const CUstream first = stream(), second = stream();
  ASSERT_EQ(cuStreamWaitValue32_v2(first, word(0), 3, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWriteValue32_v2(first, word(1), 8, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(first), CUDA_ERROR_NOT_READY);
  ASSERT_EQ(cuStreamWriteValue32_v2(second, word(0), 2, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(second), CUDA_SUCCESS);
  let_run();
  EXPECT_EQ(look(words + 1), 0u);
  ASSERT_EQ(cuStreamWriteValue32_v2(second, word(0), 3, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(first), CUDA_SUCCESS);
  EXPECT_EQ(look(words + 1), 8u);
  // GEQ is cyclic: 2 comes after 0xFFFFFFFE.
  words[2] = 2;
  ASSERT_EQ(cuStreamWaitValue32_v2(first, word(2), 0xFFFFFFFE, CU_STREAM_WAIT_VALUE_GEQ),
            CUDA_SUCCESS);
  words[3] = 4;
  ASSERT_EQ(cuStreamWaitValue32_v2(first, word(3), 6, CU_STREAM_WAIT_VALUE_AND), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitValue32_v2(first, word(3), 0xF0, CU_STREAM_WAIT_VALUE_NOR), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWriteValue64_v2(first, word(4), 0x100000002ull, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitValue64_v2(first, word(4), 0x100000002ull, CU_STREAM_WAIT_VALUE_EQ),
            CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(first), CUDA_SUCCESS);
  EXPECT_EQ(words[4], 2u);
  EXPECT_EQ(words[5], 1u);
  EXPECT_EQ(cuStreamWaitValue32_v2(first, word(0) + 2, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWaitValue32_v2(first, 16, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWriteValue64_v2(first, word(1), 0, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(StreamTest, BatchOfValues) {
  const CUstream own = stream();
  CUstreamBatchMemOpParams list[3]{};
  list[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  list[0].writeValue.address = word(0);
  list[0].writeValue.value = 17;
  list[1].memoryBarrier.operation = CU_STREAM_MEM_OP_BARRIER;
  list[2].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  list[2].waitValue.address = word(0);
  list[2].waitValue.value = 17;
  list[2].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  ASSERT_EQ(cuStreamBatchMemOp_v2(own, 3, list, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(own), CUDA_SUCCESS);
  EXPECT_EQ(words[0], 17u);
  list[1].operation = static_cast<CUstreamBatchMemOpType>(77);
  EXPECT_EQ(cuStreamBatchMemOp_v2(own, 3, list, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(StreamTest, KernelsOfTwoDevicesTakeTurns) {
  const CUstream first = stream();
  ASSERT_EQ(launch(kernel("take_turns"), first, word(0), word(1), 200u, 1u), CUDA_SUCCESS);
  use(1);
  const CUstream second = stream();
  ASSERT_EQ(launch(kernel("take_turns"), second, word(1), word(0), 200u, 0u), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(second), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(first), CUDA_SUCCESS);
  EXPECT_EQ(words[0], 200u);
  EXPECT_EQ(words[1], 200u);
}

TEST_F(StreamTest, ManyThreadsSubmit) {
  const CUdeviceptr total = allocate(4);
  ASSERT_EQ(cuMemsetD32_v2(total, 0, 1), CUDA_SUCCESS);
  const CUfunction add_value = kernel("add_value");
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      ASSERT_EQ(cuCtxSetCurrent(contexts[0]), CUDA_SUCCESS);
      const CUstream own = stream(thread % 2 == 0 ? 0 : CU_STREAM_NON_BLOCKING);
      for (int i = 0; i < 200; ++i)
        ASSERT_EQ(launch_blocks(add_value, own, 3, total, 1u), CUDA_SUCCESS);
      ASSERT_EQ(cuStreamSynchronize(own), CUDA_SUCCESS);
      ASSERT_EQ(cuStreamDestroy_v2(own), CUDA_SUCCESS);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(read_word(total), 4u * 200 * 3);
}

TEST_F(StreamTest, HandlesAndFlags) {
  CUstream made = nullptr;
  int priority = 9;
  ASSERT_EQ(cuStreamCreateWithPriority(&made, CU_STREAM_NON_BLOCKING, -100), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamGetPriority(made, &priority), CUDA_SUCCESS);
  int least = 1, greatest = 1;
  EXPECT_EQ(cuCtxGetStreamPriorityRange(&least, &greatest), CUDA_SUCCESS);
  EXPECT_EQ(least, 0);
  EXPECT_EQ(priority, greatest);
  unsigned found = 0;
  EXPECT_EQ(cuStreamGetFlags(made, &found), CUDA_SUCCESS);
  EXPECT_EQ(found, CU_STREAM_NON_BLOCKING);
  CUcontext context = nullptr;
  EXPECT_EQ(cuStreamGetCtx(made, &context), CUDA_SUCCESS);
  EXPECT_EQ(context, contexts[0]);
  EXPECT_EQ(cuStreamDestroy_v2(made), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy_v2(made), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamSynchronize(made), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamQuery(reinterpret_cast<CUstream>(&found)), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamCreate(&made, 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamCreate(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  const CUevent one = event();
  EXPECT_EQ(cuEventDestroy_v2(one), CUDA_SUCCESS);
  EXPECT_EQ(cuEventDestroy_v2(one), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuEventRecord(one, nullptr), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuEventQuery(reinterpret_cast<CUevent>(1)), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(StreamTest, DestroyedStreamStillCounts) {
  const CUstream doomed = stream(0);
  ASSERT_EQ(launch(wait_flag, doomed, flag(0), 1u), CUDA_SUCCESS);
  ASSERT_EQ(launch(store_value, doomed, word(0), 3u), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamDestroy_v2(doomed), CUDA_SUCCESS);
  ASSERT_EQ(launch(copy_word, nullptr, word(1), word(0)), CUDA_SUCCESS);
  raise(flags);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(words[1], 3u);
}

// Errors of kernels.

TEST_F(StreamTest, IllegalAddressStaysWithItsContextAlone) {
  const CUdeviceptr own = allocate(4);
  ASSERT_EQ(launch(wait_flag, nullptr, flag(0), 1u), CUDA_SUCCESS);
  ASSERT_EQ(launch(store_value, nullptr, CUdeviceptr{64}, 1u), CUDA_SUCCESS);
  ASSERT_EQ(launch(store_value, nullptr, word(0), 1u), CUDA_SUCCESS);
  raise(flags);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(look(words), 0u) << "work behind the failure is not done";
  CUdeviceptr none = 0;
  EXPECT_EQ(cuMemAlloc_v2(&none, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cuMemFree_v2(own), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(launch(store_value, nullptr, word(0), 1u), CUDA_ERROR_ILLEGAL_ADDRESS);
  use(1);
  ASSERT_EQ(launch(kernel("store_value"), nullptr, word(0), 2u), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(look(words), 2u);
  ASSERT_EQ(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&contexts[0], 0), CUDA_SUCCESS);
  use(0);
  EXPECT_EQ(cuMemAlloc_v2(&none, 4), CUDA_SUCCESS);
}

TEST_F(StreamTest, UseAfterFreeAndForeignMemoryAreIllegal) {
  const CUdeviceptr freed = allocate(4 << 20);
  ASSERT_EQ(cuMemFree_v2(freed), CUDA_SUCCESS);
  ASSERT_EQ(launch(store_value, nullptr, freed, 1u), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  use(1);
  const CUdeviceptr foreign = allocate(4);
  use(2);
  ASSERT_EQ(launch(kernel("store_value"), nullptr, foreign, 1u), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(StreamTest, TrapAndMisalignedAddress) {
  ASSERT_EQ(launch(kernel("trap_now"), nullptr), CUDA_SUCCESS);
  const CUresult trapped = cuCtxSynchronize();
  EXPECT_TRUE(trapped == CUDA_ERROR_LAUNCH_FAILED || trapped == 715) << trapped;
  use(1);
  const CUdeviceptr own = allocate(16);
  ASSERT_EQ(launch(kernel("store_value"), nullptr, own + 2, 1u), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_MISALIGNED_ADDRESS);
}

TEST_F(StreamTest, DeadlockIsReportedAsTimeout) {
  const CUstream own = stream();
  ASSERT_EQ(launch(wait_flag, own, flag(0), 1u), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(own), CUDA_ERROR_LAUNCH_TIMEOUT);
  use(1);
  const CUstream other = stream();
  ASSERT_EQ(cuStreamWaitValue32_v2(other, word(0), 1, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(other), CUDA_ERROR_LAUNCH_TIMEOUT);
}

TEST_F(StreamTest, ResetEndsKernelsThatNeverWould) {
  ASSERT_EQ(launch(wait_flag, stream(), flag(0), 1u), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitValue32_v2(stream(), word(0), 1, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

}  // namespace
}  // namespace kiln::emulator_test
