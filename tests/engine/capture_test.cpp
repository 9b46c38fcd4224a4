// Recorded executions. Expected values are worked out by hand.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "kiln/engine/inference_session.h"
#include "kiln/graph/graph.h"
#include "kiln/graph/ops.h"
#include "kiln/support/error.h"

namespace kiln::engine {
namespace {

using driver::Buffer;
using graph::DeviceRef;
using graph::Graph;
using graph::TensorType;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<float> floats(const Buffer& buffer) {
  const auto* data = static_cast<const float*>(buffer.data());
  return {data, data + buffer.num_elements()};
}

Model scale_and_sum() {
  const Graph graph =
      Graph::build("model", {.input_types = {TensorType(DType::float32, {"n"}, DeviceRef::CPU())}},
                   [](const std::vector<graph::Value>& inputs) {
                     const graph::TensorValue x = inputs[0].tensor();
                     return std::vector<graph::Value>{x * 2, graph::ops::sum(x)};
                   });
  return InferenceSession().load(graph);
}

TEST(Capture, ReplaysWriteTheCapturedResults) {
  const Model model = scale_and_sum();
  const Buffer x = Buffer::copy_of(std::vector<float>{1, 2}, {2});
  const std::vector<Buffer> results = model.capture(3, {x});
  EXPECT_THAT(floats(results[0]), ElementsAre(2, 4));
  static_cast<float*>(x.data())[0] = 5;
  model.replay(3, {x});
  EXPECT_THAT(floats(results[0]), ElementsAre(10, 4));
  EXPECT_THAT(floats(results[1]), ElementsAre(7));
  model.debug_verify_replay(3, {Buffer::copy_of(std::vector<float>{1, 2}, {2})});
  EXPECT_THAT([&] { model.debug_verify_replay(3, {Buffer(DType::float32, {1})}); },
              ThrowsMessage<RuntimeError>(HasSubstr("'n' was 2 and is 1")));
  EXPECT_THAT([&] { model.capture(3, {x}); },
              ThrowsMessage<RuntimeError>(HasSubstr("Graph keys already captured: 3")));
  EXPECT_THAT([&] { model.replay(3, {x.copy()}); },
              ThrowsMessage<RuntimeError>(HasSubstr("Unsafe graph key reuse")));
  EXPECT_THAT([&] { model.replay(GraphKeys(std::vector<std::uint64_t>{}), {x}); },
              ThrowsMessage<ValueError>("graph_keys must not be empty."));
  model.release_captured_graph(3);
  EXPECT_THAT([&] { model.replay(3, {x}); },
              ThrowsMessage<RuntimeError>(HasSubstr("No captured graph under key 3")));
}

TEST(Capture, AReplayWaitsForThoseWhoReadItsResults) {
  const Model model = scale_and_sum();
  const std::int64_t n = 1 << 16;
  std::vector<float> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 0.0F);
  const Buffer x = Buffer::copy_of(values, {n});
  const std::vector<Buffer> results = model.capture(1, {x});
  for (int round = 0; round < 20; ++round) {
    const Buffer copy = results[0].copy();
    static_cast<float*>(x.data())[0] = static_cast<float>(round);
    model.replay(1, {x});
    copy.wait_for_host_read();
    EXPECT_EQ(floats(copy)[0], round == 0 ? 0 : 2.0F * static_cast<float>(round - 1));
  }
}

}  // namespace
}  // namespace kiln::engine
