// Compiling with the real compiler: the ways in, the cache, the store of precompiled MEFs, and the
// stages that ir-output-dir shows.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kiln/engine/inference_session.h"
#include "kiln/graph.h"
#include "kiln/graph/ops.h"
#include "kiln/support/error.h"
#include "kiln/support/file.h"
#include "kiln/support/format.h"

namespace kiln::engine {
namespace {

using driver::Buffer;
using graph::DeviceRef;
using graph::Graph;
using graph::TensorType;
using graph::TensorValue;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;
namespace ops = graph::ops;

class Compile : public ::testing::Test {
 protected:
  Compile() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kiln-test-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    ::unsetenv("KILN_CACHE");
    ::setenv("KILN_CACHE_DIR", file("cache").c_str(), 1);
  }
  ~Compile() override {
    InferenceSession::debug().reset();
    ::unsetenv("KILN_CACHE_DIR");
    std::filesystem::remove_all(folder_);
  }
  std::string file(const std::string& name) const { return folder_ + "/" + name; }
  std::vector<std::string> names(const std::string& folder) const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(file(folder)))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  std::string folder_;
};

/// exp(x) * factor
Graph scaled_exp(double factor, const std::string& name = "scaled_exp") {
  Graph graph(name, {.input_types = {TensorType(DType::float32, {"n"}, DeviceRef::CPU())}});
  auto scope = graph.enter();
  graph.output(ops::exp(graph.inputs()[0].tensor()) * factor);
  return graph;
}

float run(const Model& model) {
  return static_cast<float*>(model(Buffer::copy_of(std::vector<float>{1}, {1}))[0].data())[0];
}

constexpr float kTolerance = 1e-5f;

TEST_F(Compile, TakesEveryKindOfModel) {
  const InferenceSession session;
  const Graph graph = scaled_exp(2);
  const CompiledModel compiled = session.compile(graph);
  compiled.export_mef(file("m.mef"));
  const auto expected = static_cast<float>(2 * std::exp(1.0));
  EXPECT_NEAR(run(session.init(session.compile(graph.module()))), expected, kTolerance);
  EXPECT_NEAR(run(session.init(session.compile(compiled))), expected, kTolerance);
  EXPECT_NEAR(run(session.init(session.compile(file("m.mef")))), expected, kTolerance);
  for (const CompiledModel& pending :
       {session.compile_async(graph), session.compile_async(graph.module()),
        session.compile_async(graph.module().ir()), session.compile_async(compiled),
        session.compile_async(file("m.mef")), session.compile_async(file("m.mef").c_str())}) {
    pending.wait();
    EXPECT_TRUE(pending.done());
    EXPECT_EQ(pending.exception(), nullptr);
    EXPECT_NEAR(run(session.init(pending)), expected, kTolerance);
  }
}

TEST_F(Compile, AsyncFailuresAppearAtFirstUse) {
  const InferenceSession session;
  const CompiledModel missing = session.compile_async(file("none.mef"));
  EXPECT_THAT([&] { (void)session.init(missing); },
              ThrowsMessage<RuntimeError>(StartsWith("cannot read '")));
  const Graph open("open", {.input_types = {}});
  const CompiledModel failed = session.compile_async(open);
  EXPECT_THAT([&] { failed.export_mef(file("open.mef")); },
              ThrowsMessage<RuntimeError>(StartsWith("Failed to compile the model.")));
  EXPECT_NE(failed.exception(), nullptr);
  EXPECT_FALSE(std::filesystem::exists(file("open.mef")));
}

TEST_F(Compile, AsksTheCompilerOnlyWithoutAnEntry) {
  int steps = 0;
  const CompileSettings settings{.progress = [&](const runtime::CompileProgress&) {
    ++steps;
    return true;
  }};
  const InferenceSession session;
  EXPECT_NEAR(run(session.load(scaled_exp(2), {}, settings)), 2 * std::exp(1.0), kTolerance);
  EXPECT_GT(steps, 0);
  steps = 0;
  EXPECT_NEAR(run(session.load(scaled_exp(2), {}, settings)), 2 * std::exp(1.0), kTolerance);
  EXPECT_EQ(steps, 0);
  EXPECT_NEAR(run(session.load(scaled_exp(3), {}, settings)), 3 * std::exp(1.0), kTolerance);
  EXPECT_GT(steps, 0);
  EXPECT_EQ(names("cache").size(), 2u);
}

TEST_F(Compile, ExportsAndReadsPrecompiledMefs) {
  const Graph graph = scaled_exp(2, "an odd/name");
  {
    const InferenceSession session({}, {.export_mefs = file("store")});
    EXPECT_NEAR(run(session.init(session.compile_reusing_mefs(graph))), 2 * std::exp(1.0),
                kTolerance);
    (void)session.compile_reusing_mefs(graph);  // rewrites its one file
    (void)session.compile_reusing_mefs(scaled_exp(2, "second"));
    EXPECT_THAT([&] { (void)session.compile_reusing_mefs(scaled_exp(5, "second")); },
                ThrowsMessage<RuntimeError>(
                    StartsWith("a different graph named 'second' was already exported with the "
                               "same input and output types, ")));
  }
  // SHA-256 of {"inputs":["tensor<[n], f32>"],"outputs":["tensor<[n], f32>"]}.
  const std::string digits = "73a70c9d9aef";
  EXPECT_THAT(names("store"), ElementsAre("an_odd_name-" + digits + ".mef", "manifest.json",
                                          "second-" + digits + ".mef"));
  const auto manifest = nlohmann::json::parse(read_file(file("store/manifest.json")));
  ASSERT_EQ(manifest["graphs"].size(), 2u);
  EXPECT_EQ(manifest["graphs"][0]["key"], "an_odd_name-" + digits);
  EXPECT_EQ(manifest["graphs"][0]["name"], "an odd/name");
  EXPECT_EQ(manifest["graphs"][0]["signature"],
            R"({"inputs":["tensor<[n], f32>"],"outputs":["tensor<[n], f32>"]})");

  std::filesystem::remove_all(file("cache"));
  const InferenceSession session({}, {.precompiled_mefs = file("store")});
  EXPECT_NEAR(run(session.init(session.compile_reusing_mefs(graph))), 2 * std::exp(1.0),
              kTolerance);
  EXPECT_FALSE(std::filesystem::exists(file("cache")));  // nothing was compiled
  EXPECT_THAT(
      [&] { (void)session.compile_reusing_mefs(scaled_exp(2, "third")); },
      ThrowsMessage<RuntimeError>(
          AllOf(StartsWith("no precompiled artifact for graph 'third' with signature "
                           R"({"inputs":["tensor<[n], f32>"],"outputs":["tensor<[n], f32>"]} in )"),
                HasSubstr("'second'"))));
  std::filesystem::resize_file(file("store/second-" + digits + ".mef"), 100);
  EXPECT_THAT([&] { (void)session.compile_reusing_mefs(scaled_exp(2, "second")); },
              ThrowsMessage<RuntimeError>(HasSubstr("is truncated")));
}

TEST_F(Compile, RefusesStoresThatMakeNoSense) {
  EXPECT_THROW(InferenceSession({}, {.precompiled_mefs = "a", .export_mefs = "b"}), ValueError);
  std::filesystem::create_directory(file("empty"));
  EXPECT_THAT([&] { InferenceSession({}, {.precompiled_mefs = file("empty")}); },
              ThrowsMessage<FileNotFoundError>(
                  file("empty") + " has no manifest.json, so it was not written by a session "
                                  "exporting precompiled MEFs"));
  write_file(file("empty/manifest.json"), "no manifest");
  EXPECT_THROW(InferenceSession({}, {.precompiled_mefs = file("empty")}), RuntimeError);
  EXPECT_THROW(InferenceSession({}, {.export_mefs = file("empty/manifest.json/x")}), RuntimeError);
}

TEST_F(Compile, ShowsItsStages) {
  InferenceSession::debug().set_ir_output_dir(file("stages/here"));
  const InferenceSession session;
  (void)session.compile(scaled_exp(2));
  const std::vector<std::string> files = names("stages/here");
  std::vector<std::string> stages;
  for (const std::string& name : files) {
    ASSERT_GT(name.size(), 4u);
    EXPECT_TRUE(std::isdigit(name[0]) && std::isdigit(name[1]) && std::isdigit(name[2])) << name;
    stages.push_back(name.substr(4));
  }
  EXPECT_THAT(stages,
              ElementsAre("module.txt", "scaled_exp.inlined.txt", "scaled_exp.expanded.txt",
                          "host.ll", "host.optimized.ll", StartsWith("kernel0_"),
                          AllOf(StartsWith("kernel0_"), HasSubstr(".optimized.ll")), "plan.json"));
  auto text = [&](std::size_t i) { return read_file(file("stages/here/" + files[i])); };
  EXPECT_THAT(text(0), StartsWith("kiln.module version 1"));
  EXPECT_THAT(text(0), HasSubstr("@scaled_exp"));
  EXPECT_THAT(text(3), HasSubstr("define"));
  EXPECT_THAT(text(5), HasSubstr("define"));
  EXPECT_THAT(text(6), HasSubstr("define"));
  EXPECT_NE(text(5), text(6));
  EXPECT_EQ(nlohmann::json::parse(text(7))["kernels"].size(), 1u);
  // A second compile goes on behind the first.
  (void)session.compile(scaled_exp(2));
  EXPECT_EQ(names("stages/here").size(), 2 * files.size());
}

TEST_F(Compile, QuotesTheTracebackOfTheProgram) {
  const std::vector<graph::Type> types = {TensorType(DType::float32, {"n"}, DeviceRef::CPU()),
                                          TensorType(DType::int64, {"m"}, DeviceRef::CPU())};
  auto failure = [&] {
    Graph graph("lookup", {.input_types = types});
    {
      auto scope = graph.enter();
      graph.output(ops::gather(graph.inputs()[0].tensor(), graph.inputs()[1].tensor(), 0));
    }
    const Model model = InferenceSession().load(graph);
    const Buffer x = Buffer::zeros({3}, DType::float32);
    const Buffer index = Buffer::copy_of(std::vector<std::int64_t>{9}, {1});
    try {
      (void)model(x, index);
    } catch (const ValueError& error) {
      return error.message();
    }
    return std::string();
  };
  EXPECT_THAT(failure(), AllOf(HasSubstr("compile_test.cpp:"), Not(HasSubstr("Source Traceback:")),
                               HasSubstr("set KILN_DEBUG=source-tracebacks")));
  InferenceSession::debug().set_source_tracebacks(true);
  EXPECT_THAT(failure(), AllOf(HasSubstr("Source Traceback:\n"), HasSubstr("compile_test.cpp:"),
                               HasSubstr("\n\nerror: gather: index 9 is out of bounds")));
}

TEST_F(Compile, SaysWhenStagesCannotBeWritten) {
  write_file(file("taken"), "a file");
  InferenceSession::debug().set_ir_output_dir(file("taken/below"));
  EXPECT_THAT([&] { (void)InferenceSession().compile(scaled_exp(2)); },
              ThrowsMessage<RuntimeError>(
                  AllOf(StartsWith("Failed to compile the model."),
                        HasSubstr("ir-output-dir names cannot be made: Not a directory"))));
}

}  // namespace
}  // namespace kiln::engine
