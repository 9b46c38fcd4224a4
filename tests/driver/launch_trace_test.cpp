#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kiln/driver.h"

namespace kiln::driver {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;

LaunchTraceEntry fill(std::uint64_t bytes) {
  return {.kind = OperationKind::MEMSET, .name = "cuMemsetD8Async", .memset_byte_size = bytes};
}

TEST(LaunchTrace, RecordsBetweenBeginAndTake) {
  EXPECT_THAT(take_launch_trace(), IsEmpty());
  record_launch(fill(1), nullptr);
  begin_launch_trace();
  record_launch(fill(2), nullptr);
  begin_launch_trace();
  record_launch(fill(3), nullptr);
  record_launch(fill(4), nullptr);
  EXPECT_THAT(take_launch_trace(), ElementsAre(Field(&LaunchTraceEntry::memset_byte_size, 3),
                                               Field(&LaunchTraceEntry::memset_byte_size, 4)));
  record_launch(fill(5), nullptr);
  EXPECT_THAT(take_launch_trace(), IsEmpty());
}

TEST(LaunchTrace, NumbersQueuesAndHashesWhatTheyWereGiven) {
  const int a = 0, b = 0;
  LaunchTrace trace;
  record_launch(fill(1), &b);
  record_launch(fill(1), &a);
  record_launch(fill(2), &b);
  const std::vector<LaunchTraceEntry>& entries = trace.entries();
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].stream_index, 0);
  EXPECT_EQ(entries[1].stream_index, 1);
  EXPECT_EQ(entries[2].stream_index, 0);
  EXPECT_NE(entries[0].semantic_hash, 0u);
  EXPECT_EQ(entries[0].semantic_hash, entries[1].semantic_hash);
  EXPECT_NE(entries[0].semantic_hash, entries[2].semantic_hash);
}

TEST(LaunchTrace, AScopeKeepsItsEntries) {
  LaunchTrace trace;
  record_launch(fill(1), nullptr);
  EXPECT_EQ(trace.entries().size(), 1u);
  record_launch(fill(2), nullptr);
  EXPECT_EQ(trace.entries().size(), 1u);
}

TEST(LaunchTrace, TheHostRecordsNothing) {
  LaunchTrace trace;
  const Buffer buffer = Buffer::zeros({4}, DType::int8);
  buffer.copy().stream().synchronize();
  EXPECT_THAT(trace.entries(), IsEmpty());
}

TEST(CompletionFlag, NeedsCuda) {
  EXPECT_THAT([] { CompletionFlag flag(CPU()); },
              ::testing::ThrowsMessage<RuntimeError>(
                  "CompletionFlag needs a CUDA device, but the api of Device(type=cpu,id=0) is "
                  "'cpu'."));
}

}  // namespace
}  // namespace kiln::driver
