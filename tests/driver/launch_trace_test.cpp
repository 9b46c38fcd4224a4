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
  record_launch(fill(1));
  begin_launch_trace();
  record_launch(fill(2));
  begin_launch_trace();
  record_launch(fill(3));
  record_launch(fill(4));
  EXPECT_THAT(take_launch_trace(), ElementsAre(Field(&LaunchTraceEntry::memset_byte_size, 3),
                                               Field(&LaunchTraceEntry::memset_byte_size, 4)));
  record_launch(fill(5));
  EXPECT_THAT(take_launch_trace(), IsEmpty());
}

TEST(LaunchTrace, AScopeKeepsItsEntries) {
  LaunchTrace trace;
  record_launch(fill(1));
  EXPECT_EQ(trace.entries().size(), 1u);
  record_launch(fill(2));
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
