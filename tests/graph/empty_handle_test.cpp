// What members of an empty or moved-from handle of a graph do: throw a sentence.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>

#include "kiln/graph.h"
#include "kiln/support/error.h"

namespace kiln::graph {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const DeviceRef cpu = DeviceRef::CPU();
const TensorType kType(DType::float32, {2}, cpu);

void expect_refused(const std::map<std::string, std::function<void()>>& calls) {
  for (const auto& [name, call] : calls)
    EXPECT_THAT(call, ThrowsMessage<ValueError>(
                          AnyOf(HasSubstr("handle is empty"), HasSubstr("An empty value handle"))))
        << name;
}

template <typename T>
T moved_from(T handle) {
  const T taken = std::move(handle);
  return handle;  // NOLINT: what is left is what is tested
}

TEST(EmptyHandle, Graph) {
  const Graph g = moved_from(Graph("g", {.input_types = {kType}}));
  const Weight weight("w", DType::float32, {2}, cpu);
  expect_refused({
      {"enter", [&] { auto scope = g.enter(); }},
      {"name", [&] { g.name(); }},
      {"module", [&] { g.module(); }},
      {"inputs", [&] { g.inputs(); }},
      {"output", [&] { g.output(std::vector<TensorValueLike>()); }},
      {"output_values", [&] { g.output_values({}); }},
      {"has_output", [&] { g.has_output(); }},
      {"output_types", [&] { g.output_types(); }},
      {"add_subgraph", [&] { g.add_subgraph("s"); }},
      {"is_subgraph", [&] { g.is_subgraph(); }},
      {"add_weight", [&] { g.add_weight(weight); }},
      {"copy", [&] { g.copy(); }},
      {"to_string", [&] { g.to_string(); }},
      {"to_text", [&] { g.to_text(); }},
      {"device_chain", [&] { g.device_chain(cpu); }},
      {"always_ready_chain", [&] { g.always_ready_chain(); }},
      {"kernel_libraries_paths", [&] { g.kernel_libraries_paths(); }},
      {"strict_device_placement", [&] { g.strict_device_placement(); }},
      {"ir", [&] { g.ir(); }},
      {"extract", [&] { g.extract(); }},
  });
}

TEST(EmptyHandle, Module) {
  const Module m = moved_from(Module());
  expect_refused({
      {"top_level_graph_names", [&] { m.top_level_graph_names(); }},
      {"to_string", [&] { m.to_string(); }},
      {"to_text", [&] { m.to_text(); }},
      {"ir", [&] { m.ir(); }},
      {"Graph", [&] { Graph("g", {.module = m}); }},
  });
}

TEST(EmptyHandle, Values) {
  Graph g("g", {.input_types = {kType}});
  const auto scope = g.enter();
  const TensorValue full = g.inputs()[0].tensor();
  for (const TensorValue& v : {TensorValue(), moved_from(full)}) {
    expect_refused({
        {"type", [&] { v.type(); }},
        {"shape", [&] { v.shape(); }},
        {"dtype", [&] { v.dtype(); }},
        {"device", [&] { v.device(); }},
        {"rank", [&] { v.rank(); }},
        {"ir_value", [&] { v.ir_value(); }},
        {"var", [&] { v.var(); }},
        {"tensor", [&] { v.tensor(); }},
        {"buffer", [&] { v.buffer(); }},
        {"+", [&] { v + full; }},
        {"reshape", [&] { v.reshape({2}); }},
    });
    EXPECT_FALSE(v);
    EXPECT_EQ(v.repr(), "Value()");
  }
  EXPECT_THAT([] { BufferValue().shape(); },
              ThrowsMessage<ValueError>(HasSubstr("handle is empty")));
  EXPECT_THAT([] { OpaqueValue().type(); },
              ThrowsMessage<ValueError>(HasSubstr("handle is empty")));
}

TEST(EmptyHandle, Weight) {
  const Weight w = moved_from(Weight("w", DType::float32, {2}, cpu));
  expect_refused({
      {"name", [&] { w.name(); }},
      {"align", [&] { w.align(); }},
      {"quantization_encoding", [&] { w.quantization_encoding(); }},
      {"original_dtype_and_shape", [&] { w.original_dtype_and_shape(); }},
      {"sharding_strategy", [&] { w.sharding_strategy(); }},
      {"shard", [&] { w.shard({cpu}); }},
      {"shard_index", [&] { w.shard_index(); }},
      {"repr", [&] { w.repr(); }},
      {"shape", [&] { w.shape(); }},
  });
}

TEST(Graph, TextNeedsNoOptions) {
  const Graph g("g", {.input_types = {kType}});
  EXPECT_EQ(g.to_text(), g.to_string());
  EXPECT_EQ(g.module().to_text(), g.module().to_string());
}

}  // namespace
}  // namespace kiln::graph
