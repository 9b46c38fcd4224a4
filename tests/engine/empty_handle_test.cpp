// What members of a moved-from handle of the engine do: throw a sentence.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>

#include "../runtime/programs.h"
#include "kiln/engine/inference_session.h"
#include "kiln/engine/model.h"
#include "kiln/support/error.h"

namespace kiln::engine {
namespace {

using driver::Buffer;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

void expect_refused(const std::map<std::string, std::function<void()>>& calls) {
  for (const auto& [name, call] : calls)
    EXPECT_THAT(call, ThrowsMessage<ValueError>(HasSubstr("handle is empty"))) << name;
}

template <typename T>
T moved_from(T handle) {
  const T taken = std::move(handle);
  return handle;  // NOLINT: what is left is what is tested
}

CompiledModel add_one() {
  runtime::ArtifactContents contents = test::rich_contents();
  contents.graphs = {test::add_one_graph()};
  contents.weights.clear();
  return CompiledModel(runtime::Artifact::from_contents(contents));
}

TEST(EmptyHandle, Model) {
  const Model m = moved_from(InferenceSession().init(add_one()));
  expect_refused({
      {"execute", [&] { m.execute({Buffer::zeros({2}, DType::float32)}); }},
      {"execute nothing", [&] { m.execute({}); }},
      {"execute by name", [&] { m.execute({{"x", Buffer::zeros({2}, DType::float32)}}); }},
      {"()", [&] { m(); }},
      {"name", [&] { m.name(); }},
      {"input_metadata", [&] { m.input_metadata(); }},
      {"output_metadata", [&] { m.output_metadata(); }},
      {"devices", [&] { m.devices(); }},
      {"input_devices", [&] { m.input_devices(); }},
      {"output_devices", [&] { m.output_devices(); }},
      {"is_buffer_input", [&] { m.is_buffer_input(0); }},
      {"kernel_summaries", [&] { m.kernel_summaries(); }},
      {"repr", [&] { m.repr(); }},
      {"reload", [&] { m.reload({}); }},
  });
}

TEST(EmptyHandle, CompiledModel) {
  const CompiledModel c = moved_from(add_one());
  expect_refused({
      {"export_mef", [&] { c.export_mef("/dev/null"); }},
      {"names", [&] { c.names(); }},
      {"size", [&] { c.size(); }},
      {"metadata", [&] { c.metadata(); }},
      {"info", [&] { c.info(); }},
      {"wait", [&] { c.wait(); }},
      {"done", [&] { c.done(); }},
      {"exception", [&] { c.exception(); }},
      {"artifact", [&] { c.artifact(); }},
      {"init", [&] { InferenceSession().init(c); }},
  });
}

TEST(EmptyHandle, InferenceSession) {
  const InferenceSession s = moved_from(InferenceSession());
  const graph::Module module;
  expect_refused({
      {"devices", [&] { s.devices(); }},
      {"compile", [&] { s.compile(module); }},
      {"compile_async", [&] { s.compile_async(module.ir()); }},
      {"init", [&] { s.init(add_one()); }},
      {"init_all", [&] { s.init_all(add_one()); }},
      {"set_debug_print_options", [&] { s.set_debug_print_options(); }},
      {"repr", [&] { s.repr(); }},
  });
}

TEST(EmptyHandle, OutputsAreEmptyWhenMovedFrom) {
  Model::Outputs six(6);
  const Model::Outputs taken = std::move(six);
  EXPECT_EQ(taken.size(), 6u);
  EXPECT_TRUE(six.empty());  // NOLINT: what is left is what is tested
  EXPECT_EQ(six.begin(), six.end());
}

TEST(Model, ExecutesWithoutBuffers) {
  const Model model = InferenceSession().init(add_one());
  EXPECT_THAT([&] { model.execute({}); },
              ThrowsMessage<ValueError>(HasSubstr("Number of inputs (0)")));
}

TEST(InferenceSession, BoundsTheNumberOfThreads) {
  EXPECT_THAT([] { InferenceSession({}, {.num_threads = 1'000'000'000}); },
              ThrowsMessage<ValueError>(HasSubstr("kiln runs at most 256 threads.")));
}

}  // namespace
}  // namespace kiln::engine
