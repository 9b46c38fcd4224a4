#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "../runtime/programs.h"
#include "kiln/driver/queue.h"
#include "kiln/engine/compile_cache.h"
#include "kiln/engine/inference_session.h"
#include "kiln/engine/program_places.h"
#include "kiln/graph/location.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::engine {
namespace {

using driver::Buffer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kiln-test-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

CompiledModel rich() {
  return CompiledModel(runtime::Artifact::from_contents(test::rich_contents()));
}

CompiledModel scaled() {
  runtime::ArtifactContents contents = test::rich_contents();
  contents.graphs = {test::scaled_graph()};
  return CompiledModel(runtime::Artifact::from_contents(contents));
}

TEST(InferenceSession, KnowsItsDevices) {
  EXPECT_EQ(InferenceSession().devices(), std::vector{driver::CPU()});
  EXPECT_EQ(InferenceSession({driver::CPU(), driver::CPU()}).devices().size(), 1u);
  EXPECT_EQ(InferenceSession().repr(), "<kiln engine InferenceSession>");
  EXPECT_EQ(InferenceSession({}, {.num_threads = 4}).repr(),
            "<kiln engine InferenceSession(num_threads=4)>");
  EXPECT_THROW(InferenceSession({}, {.num_threads = -1}), ValueError);
}

TEST(InferenceSession, InitialisesOneGraphOrAll) {
  const InferenceSession session;
  const WeightsRegistry registry = {{"w", Buffer::zeros({4}, DType::float32)}};
  EXPECT_THAT(
      [&] { (void)session.init(rich(), registry); },
      ThrowsMessage<ValueError>("Expected exactly one model in the compiled artifact, but got "
                                "4. Use init_all() to initialize multi-model artifacts."));
  EXPECT_THAT([&] { (void)session.load(rich(), registry); },
              ThrowsMessage<ValueError>(HasSubstr("Use load_all()")));
  const auto models = session.init_all(rich(), registry);
  ASSERT_EQ(models.size(), 4u);
  EXPECT_EQ(models[0].first, "add_one");
  EXPECT_EQ(models[3].second.name(), "squares");

  runtime::ArtifactContents contents = test::empty_contents();
  contents.graphs = {test::add_one_graph(), test::add_one_graph()};
  EXPECT_THROW((void)session.init_all(CompiledModel(runtime::Artifact::from_contents(contents))),
               RuntimeError);
}

TEST(InferenceSession, RefusesCodeWithoutItsEntry) {
  runtime::ArtifactContents contents = test::empty_contents();
  contents.graphs = {test::add_one_graph()};
  contents.graphs[0].run_symbol = "nothing_run";
  EXPECT_THAT(
      [&] {
        (void)InferenceSession().init(CompiledModel(runtime::Artifact::from_contents(contents)));
      },
      ThrowsMessage<RuntimeError>(HasSubstr("its code has no entry 'nothing_run'")));
}

TEST(InferenceSession, RefusesDevicesItWasNotGiven) {
  runtime::ArtifactContents contents = test::empty_contents();
  contents.graphs = {test::add_one_graph()};
  contents.graphs[0].inputs[0].device = graph::DeviceRef::GPU();
  EXPECT_THAT(
      [&] {
        (void)InferenceSession().init(CompiledModel(runtime::Artifact::from_contents(contents)));
      },
      ThrowsMessage<ValueError>(
          "Loaded Model 'add_one' uses device=gpu:0 which was not set up in InferenceSession"));
}

TEST(Weights, AreChecked) {
  const InferenceSession session;
  auto init = [&](const WeightsRegistry& registry) { (void)session.init(scaled(), registry); };
  EXPECT_THAT([&] { init({}); },
              ThrowsMessage<ValueError>("Weight 'w' is not in the weights registry."));
  const Buffer matrix = Buffer::zeros({4, 4}, DType::float32);
  const Buffer column = matrix[{driver::Slice{}, 0}];
  EXPECT_THAT([&] { init({{"w", column}}); },
              ThrowsMessage<ValueError>(StartsWith(
                  "Weight 'w' is not contiguous: kiln does not currently support executing "
                  "non-contiguous tensors. ")));
  EXPECT_THAT([&] { init({{"w", Buffer::zeros({4}, DType::float32)}, {"extra", column}}); },
              ThrowsMessage<ValueError>(StartsWith("Weight 'extra' is not contiguous")));
  EXPECT_THAT([&] { init({{"w", Buffer::zeros({2, 3}, DType::float64)}}); },
              ThrowsMessage<ValueError>(
                  "Weight 'w' has type [(2, 3), f64] but the graph declares [(4), f32]"));
  EXPECT_NO_THROW(init({{"w", matrix[{0, driver::Slice{}}]}, {"extra", matrix}}));
}

TEST(Weights, OfADeviceMustLiveThere) {
  runtime::ArtifactContents contents = test::rich_contents();
  contents.graphs = {test::scaled_graph()};
  contents.weights[0].device = graph::DeviceRef::GPU();
  const auto artifact = runtime::Artifact::from_contents(contents);
  EXPECT_THAT(
      [&] { (void)bind_weights(*artifact, {{"w", Buffer::zeros({4}, DType::float32)}}); },
      ThrowsMessage<ValueError>(
          "Mismatch in device type for weight 'w'. Expected Device(type=gpu,id=0) but weight "
          "is Device(type=cpu,id=0)"));
}

TEST(Weights, AlignedOnesAreUsedInPlace) {
  const InferenceSession session;
  const Buffer w = Buffer::zeros({4}, DType::float32);
  const Model model = session.init(scaled(), {{"w", w}});
  w.set({2}, 7.0f);
  const Buffer x = Buffer::copy_of(std::vector<float>{1, 1, 1, 1}, {1, 4});
  EXPECT_EQ(static_cast<float*>(model(x)[1].data())[2], 7.0f);

  std::vector<std::byte> memory(64 + 20);
  std::byte* odd = memory.data() + 1;
  const float values[4] = {1, 2, 3, 4};
  std::memcpy(odd, values, sizeof values);
  const Model copied =
      session.init(scaled(), {{"w", Buffer::wrap(odd, DType::float32, {4}, driver::CPU(), [] {})}});
  std::memset(odd, 0, sizeof values);
  EXPECT_EQ(static_cast<float*>(copied(x)[1].data())[3], 4.0f);
}

TEST(CompiledModel, GoesThroughAFile) {
  const TemporaryFolder folder;
  const CompiledModel compiled = rich();
  EXPECT_THAT(compiled.names(), ElementsAre("add_one", "add_constant", "scaled", "squares"));
  EXPECT_EQ(compiled.size(), 4u);
  EXPECT_EQ(compiled.repr(), "CompiledModel()");
  EXPECT_TRUE(compiled.done());
  compiled.export_mef(folder.file("m.mef"));

  const MefInfo info = query_mef(folder.file("m.mef"));
  EXPECT_TRUE(info.readable);
  EXPECT_TRUE(info.compatible);
  EXPECT_THAT(info.reasons, IsEmpty());
  EXPECT_EQ(info.format_version, "1.0");
  EXPECT_EQ(info.graphs.size(), 4u);
  EXPECT_EQ(info.weights.at(0).name, "w");
  EXPECT_FALSE(info.weights.at(0).carried);
  EXPECT_EQ(compiled.info().kiln_version, info.kiln_version);

  const WeightsRegistry registry = {{"w", Buffer::copy_of(std::vector<float>{1, 2, 3, 4}, {4})}};
  compiled.export_mef(folder.file("w.mef"), registry);
  EXPECT_TRUE(query_mef(folder.file("w.mef")).weights.at(0).carried);
  // It runs alone, and a weight given at init wins over the carried one.
  const InferenceSession session;
  const Buffer x = Buffer::copy_of(std::vector<float>{1, 1, 1, 1}, {1, 4});
  auto second_result = [&](const std::vector<std::pair<std::string, Model>>& models) {
    return static_cast<float*>(models[2].second(x)[1].data())[3];
  };
  EXPECT_EQ(second_result(session.load_all(folder.file("w.mef"))), 4.0f);
  EXPECT_EQ(second_result(session.load_all(folder.file("w.mef"),
                                           {{"w", Buffer::zeros({4}, DType::float32)}})),
            0.0f);
  EXPECT_THROW(compiled.export_mef(folder.file("bad.mef"), WeightsRegistry{}), ValueError);

  std::ifstream stream(folder.file("m.mef"), std::ios::binary);
  EXPECT_EQ(read(stream).size(), 4u);
  std::istringstream text("no mef");
  EXPECT_THAT([&] { (void)read(text); },
              ThrowsMessage<RuntimeError>("'<stream>' is not a MEF file"));
  EXPECT_THROW((void)query_mef(folder.file("none.mef")), RuntimeError);
  EXPECT_THAT([&] { (void)session.load(folder.file("none.mef")); },
              ThrowsMessage<RuntimeError>(StartsWith("cannot read '")));
}

TEST(MefInfo, SaysWhyAFileDoesNotFit) {
  runtime::ArtifactContents contents = test::rich_contents();
  contents.images[0].target.features = {"avx9"};
  const auto bytes = runtime::write_artifact(contents);
  const CompiledModel compiled = read(bytes, "m.mef");  // reading needs no fitting machine
  const MefInfo info = compiled.info();
  EXPECT_TRUE(info.readable);
  EXPECT_FALSE(info.compatible);
  EXPECT_THAT(info.reasons, ElementsAre("'m.mef' needs a CPU with avx9; this machine lacks avx9"));
  EXPECT_THAT(
      [&] { (void)InferenceSession().init_all(compiled); },
      ThrowsMessage<RuntimeError>("'m.mef' needs a CPU with avx9; this machine lacks avx9"));
}

TEST(DebugConfig, ReadsSettings) {
  DebugConfig config;
  EXPECT_FALSE(config.nan_check());
  EXPECT_THAT(config.apply("nan-check, source-tracebacks=on,assert-level=warn,print-style=full"),
              IsEmpty());
  EXPECT_TRUE(config.nan_check());
  EXPECT_TRUE(config.source_tracebacks());
  EXPECT_EQ(config.assert_level(), "warn");
  EXPECT_EQ(config.print_style(), PrintStyle::FULL);
  EXPECT_THAT(config.apply("nonsense,nan-check=maybe,stack-trace-on-error"),
              ElementsAre(HasSubstr("'nonsense'"), HasSubstr("'maybe'")));
  EXPECT_TRUE(config.stack_trace_on_error());
  EXPECT_THROW(config.set_uninitialized_read_check(true), NotImplementedError);
  config.reset();
  EXPECT_FALSE(config.nan_check());
  EXPECT_EQ(config.profiling_output_path(), "kiln_trace.json");
}

TEST(DebugConfig, WhatIsSetByHandBeatsSensible) {
  DebugConfig config;
  config.set_device_sync_mode(false);
  config.set_sensible_mode(true);
  EXPECT_TRUE(config.nan_check());
  EXPECT_TRUE(config.source_tracebacks());
  EXPECT_EQ(config.assert_level(), "all");
  EXPECT_FALSE(config.device_sync_mode());
  config.set_assert_level("loud");
  EXPECT_THAT(
      [&] { config.check_assert_level(); },
      ThrowsMessage<TypeError>(StartsWith("Invalid assert level (loud). Please use one of: ")));
}

TEST(DebugConfig, IsOneThingWithTheSettingsOfOtherLayers) {
  DebugConfig& config = InferenceSession::debug();
  config.set_source_tracebacks(true);
  EXPECT_TRUE(graph::source_tracebacks());
  graph::set_source_tracebacks(false);
  EXPECT_FALSE(config.source_tracebacks());
  config.set_sensible_mode(true);
  EXPECT_FALSE(graph::source_tracebacks());  // was set by hand
  config.reset();
  config.set_sensible_mode(true);
  EXPECT_TRUE(graph::source_tracebacks());
  config.reset();
  EXPECT_FALSE(graph::source_tracebacks());
}

TEST(DebugConfig, SyncModeBringsFailuresToTheirCall) {
  const driver::DeviceQueue queue(driver::CPU());
  auto fail = [] { throw KeyError("on the queue"); };
  queue.enqueue_cpu_function(fail);
  EXPECT_THROW(queue.synchronize(), KeyError);
  InferenceSession::debug().set_device_sync_mode(true);
  EXPECT_THAT([&] { queue.enqueue_cpu_function(fail); }, ThrowsMessage<KeyError>("on the queue"));
  bool ran = false;
  queue.enqueue_cpu_function([&] { ran = true; });
  EXPECT_TRUE(ran);
  InferenceSession::debug().reset();
  queue.synchronize();
}

TEST(InferenceSession, KernelSettingsHaveNames) {
  const InferenceSession session;
  session.set_kernel_log_level(LogLevel::DEBUG);
  EXPECT_EQ(session.debug().op_log_level(), "debug");
  session.set_kernel_assert_level(AssertLevel::SAFE);
  EXPECT_EQ(session.debug().assert_level(), "safe");
  session.debug().reset();
  EXPECT_EQ(kernel_log_level_from_string("WARNING"), LogLevel::WARNING);
  EXPECT_EQ(assert_level_from_string("ALL"), AssertLevel::ALL);
  EXPECT_EQ(split_k_reduction_precision_from_string("OUTPUT"), SplitKReductionPrecision::OUTPUT);
  EXPECT_EQ(gpu_profiling_mode_from_string("detailed"), GpuProfilingMode::detailed);
  EXPECT_THAT([] { (void)kernel_log_level_from_string("LOUD"); },
              ThrowsMessage<TypeError>(
                  "Invalid log level (LOUD). Please use one of: NOTSET, TRACE, DEBUG, INFO, "
                  "WARNING, ERROR, CRITICAL"));
  EXPECT_THAT(
      [] { (void)split_k_reduction_precision_from_string("HALF"); },
      ThrowsMessage<TypeError>("Invalid precision (HALF). Please use one of: ACCUM, OUTPUT"));
}

TEST(PrintStyles, HaveNames) {
  EXPECT_EQ(print_style_from_string("BINARY_MAX_CHECKPOINT"), PrintStyle::BINARY_MAX_CHECKPOINT);
  EXPECT_THROW((void)print_style_from_string("LOUD"), TypeError);
  EXPECT_THAT([] { InferenceSession().set_debug_print_options(PrintStyle::BINARY); },
              ThrowsMessage<ValueError>("Debug print output directory cannot be empty."));
}

class CacheTest : public ::testing::Test {
 protected:
  CacheTest() {
    ::unsetenv("KILN_CACHE");  // whatever the caller of the tests prefers
    ::setenv("KILN_CACHE_DIR", folder_.file("cache").c_str(), 1);
  }
  ~CacheTest() override {
    ::unsetenv("KILN_CACHE_DIR");
    ::unsetenv("KILN_CACHE");
  }
  TemporaryFolder folder_;
};

TEST_F(CacheTest, KeepsArtifacts) {
  const CompileCache cache;
  ASSERT_TRUE(cache.enabled());
  EXPECT_EQ(std::filesystem::status(folder_.file("cache")).permissions(),
            std::filesystem::perms::owner_all);
  const auto artifact = runtime::Artifact::from_contents(test::rich_contents());
  EXPECT_EQ(cache.find("0123"), nullptr);
  cache.store("0123", *artifact);
  const auto found = cache.find("0123");
  ASSERT_NE(found, nullptr);
  EXPECT_TRUE(std::ranges::equal(found->bytes(), artifact->bytes()));
}

TEST_F(CacheTest, IgnoresDamagedEntries) {
  const CompileCache cache;
  cache.store("0123", *runtime::Artifact::from_contents(test::rich_contents()));
  std::filesystem::resize_file(folder_.file("cache/0123.mef"), 100);
  EXPECT_EQ(cache.find("0123"), nullptr);
  std::ofstream(folder_.file("cache/4567.mef")) << "nonsense";
  EXPECT_EQ(cache.find("4567"), nullptr);
}

TEST_F(CacheTest, CanBeSwitchedOff) {
  ::setenv("KILN_CACHE", "0", 1);
  const CompileCache cache;
  EXPECT_FALSE(cache.enabled());
  EXPECT_EQ(cache.find("0123"), nullptr);
  EXPECT_FALSE(std::filesystem::exists(folder_.file("cache")));
}

TEST_F(CacheTest, RefusesAFolderThatOthersWrite) {
  std::filesystem::create_directory(folder_.file("cache"));
  std::filesystem::permissions(folder_.file("cache"), std::filesystem::perms::all);
  EXPECT_FALSE(CompileCache().enabled());
}

TEST_F(CacheTest, IsSweptToItsBudget) {
  const auto artifact = runtime::Artifact::from_contents(test::rich_contents());
  const CompileCache large;
  for (int i = 0; i < 10; ++i) {
    large.store(format("{:04}", i), *artifact);
    std::filesystem::last_write_time(
        folder_.file(format("cache/{:04}.mef", i)),
        std::filesystem::file_time_type::clock::now() - std::chrono::minutes(100 - i));
  }
  ASSERT_NE(large.find("0000"), nullptr);  // used just now
  CompileCache(artifact->bytes().size() * 4).sweep();
  int left = 0;
  for (int i = 0; i < 10; ++i)
    left += std::filesystem::exists(folder_.file(format("cache/{:04}.mef", i))) ? 1 : 0;
  EXPECT_EQ(left, 4);
  EXPECT_TRUE(std::filesystem::exists(folder_.file("cache/0000.mef")));
  EXPECT_TRUE(std::filesystem::exists(folder_.file("cache/0009.mef")));
  EXPECT_FALSE(std::filesystem::exists(folder_.file("cache/0001.mef")));
}

}  // namespace
}  // namespace kiln::engine
