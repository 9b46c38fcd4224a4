// Collectives over several CPU devices.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kiln/graph.h"
#include "kiln/support/error.h"

namespace kiln::graph {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr auto f32 = DType::float32;

class Collectives : public testing::Test {
 protected:
  Graph g{"g",
          {.input_types = {TensorType(f32, {"n", 4}, DeviceRef::CPU(0)),
                           TensorType(f32, {"n", 4}, DeviceRef::CPU(1)),
                           BufferType(DType::uint8, {8}, DeviceRef::CPU(0)),
                           BufferType(DType::uint8, {8}, DeviceRef::CPU(1))}}};
  Graph::Scope scope{g};
  std::vector<TensorValue> inputs = {g.inputs()[0].tensor(), g.inputs()[1].tensor()};
  std::vector<BufferValue> signals = {g.inputs()[2].buffer(), g.inputs()[3].buffer()};
};

TEST_F(Collectives, ResultsLieOnTheDevicesOfTheirRanks) {
  for (const auto& results :
       {ops::allreduce::sum(inputs, signals), ops::bundled_allreduce::sum(inputs, signals),
        ops::distributed_broadcast(inputs[1], signals)})
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(results[static_cast<std::size_t>(i)].type(),
                TensorType(f32, {"n", 4}, DeviceRef::CPU(i)));
  EXPECT_EQ(ops::allgather(inputs, signals)[1].shape(), (Shape{Dim("n") * 2, 4}));
  EXPECT_EQ(ops::reducescatter::sum(inputs, signals, 1)[1].type(),
            TensorType(f32, {"n", 2}, DeviceRef::CPU(1)));
  EXPECT_EQ(ops::distributed_scatter(std::span(inputs).first(1), signals)[1].device(),
            DeviceRef::CPU(1));
  const DeviceRef devices[] = {DeviceRef::CPU(0), DeviceRef::CPU(1)};
  EXPECT_EQ(ops::shard_and_stack(std::span(inputs).first(1), devices, 1)[1].type(),
            TensorType(f32, {1, "n", 2}, DeviceRef::CPU(1)));
}

TEST_F(Collectives, TheChainsOfTheirDevicesBecomeOne) {
  ops::allreduce::sum(inputs, signals);
  const Value host = g.device_chain(DeviceRef::CPU(0));
  EXPECT_TRUE(host.is(g.device_chain(DeviceRef::CPU(1))));
}

TEST_F(Collectives, ASingleInputComesBack) {
  const auto one = std::span(inputs).first(1);
  const std::string before = g.to_string();
  EXPECT_TRUE(ops::allreduce::sum(one, std::span(signals).first(1))[0].is(inputs[0]));
  EXPECT_EQ(g.to_string(), before);
  EXPECT_THAT([&] { ops::allreduce::sum(one, signals); },
              ThrowsMessage<ValueError>(HasSubstr(
                  "expected number of inputs (1) and number of signal buffers (2) to match")));
}

TEST_F(Collectives, ParallelRunsItsBodyOncePerLaunch) {
  const std::vector<std::vector<TensorType>> types = {{inputs[0].type(), inputs[1].type()}};
  const auto results = ops::parallel(
      {inputs},
      [](const std::vector<TensorValue>& values, const auto&, const auto&) {
        return ops::LaunchResults{{ops::exp(values[0])}};
      },
      types);
  EXPECT_EQ(results.values[0][1].device(), DeviceRef::CPU(1));
  EXPECT_FALSE(results.chain.has_value());
}

}  // namespace
}  // namespace kiln::graph
