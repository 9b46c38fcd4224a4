#include "kiln/engine/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "../runtime/programs.h"
#include "kiln/driver/queue.h"
#include "kiln/engine/inference_session.h"
#include "kiln/support/error.h"

namespace kiln::engine {
namespace {

using driver::Buffer;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

CompiledModel compiled(std::vector<runtime::GraphSignature> graphs) {
  runtime::ArtifactContents contents = test::rich_contents();
  contents.graphs = std::move(graphs);
  bool weighted = false;
  for (const auto& graph : contents.graphs) weighted = weighted || !graph.weights.empty();
  if (!weighted) contents.weights.clear();
  return CompiledModel(runtime::Artifact::from_contents(contents));
}

template <typename T>
Buffer buffer(std::vector<T> values, Shape shape) {
  return Buffer::copy_of(values, shape);
}
template <typename T>
Buffer buffer(std::vector<T> values) {
  const auto size = static_cast<std::int64_t>(values.size());
  return Buffer::copy_of(values, {size});
}

template <typename T>
std::vector<T> values(const Buffer& buffer) {
  const T* data = static_cast<const T*>(buffer.data());
  return {data, data + buffer.num_elements()};
}

TEST(Model, Executes) {
  const InferenceSession session;
  const Model model = session.init(compiled({test::add_one_graph()}));
  EXPECT_EQ(model.name(), "add_one");
  for (int n : {3, 0, 1000, 1}) {
    std::vector<float> x(static_cast<std::size_t>(n));
    std::iota(x.begin(), x.end(), -1.5f);
    const std::vector<Buffer> outputs = model.execute({buffer(x)});
    ASSERT_EQ(outputs.size(), 1u);
    EXPECT_EQ(outputs[0].shape(), (Shape{n}));
    for (float& value : x) value += 1.0f;
    EXPECT_EQ(values<float>(outputs[0]), x);
  }
}

TEST(Model, ConstantsAreUsedWhereTheyLie) {
  const InferenceSession session;
  const Model model = session.init(compiled({test::add_constant_graph()}));
  const auto outputs = model(buffer<float>({0, 0, 0, 0, 10, 10, 10, 10}));
  EXPECT_THAT(values<float>(outputs[0]), ElementsAre(1, 2, 3, 4, 15, 16, 17, 18));
}

TEST(Model, OutlivesSessionAndArtifact) {
  std::optional<InferenceSession> session(std::in_place);
  std::optional<CompiledModel> artifact = compiled({test::add_constant_graph()});
  const Model model = session->init(*artifact);
  session.reset();
  artifact.reset();
  EXPECT_EQ(values<float>(model(Buffer::zeros({8}, DType::float32))[0])[7], 8.0f);
}

TEST(Model, BindsInputsByName) {
  const InferenceSession session;
  session.set_debug_print_options(PrintStyle::NONE);
  const Model model = session.init(compiled({test::add_graph()}));
  const Buffer a = buffer<float>({1, 2}, {1, 2});
  const Buffer b = buffer<float>({10, 20}, {1, 2});
  EXPECT_THAT(values<float>(model.execute({{"b", b}, {"a", a}})[0]), ElementsAre(11, 22));
  EXPECT_THROW(model.execute({{"a", a}}), TypeError);
  EXPECT_THROW(model.execute({{"a", a}, {"b", b}, {"c", b}}), TypeError);
  EXPECT_THROW(model.execute({{"a", a}, {"a", b}}), TypeError);
}

TEST(Model, ChecksInputsInOrder) {
  const InferenceSession session;
  session.set_debug_print_options(PrintStyle::NONE);
  const Model model = session.init(compiled({test::add_graph()}));
  const Buffer a = buffer<float>({1, 2}, {1, 2});
  auto error = [&](std::vector<Buffer> inputs) -> std::string {
    try {
      model.execute(inputs);
    } catch (const ValueError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error({a}), "Number of inputs (1) does not match expected number (2) for model");
  const Buffer wide = Buffer::zeros({4, 4}, DType::float32);
  EXPECT_EQ(
      error({a, wide[{driver::Slice{}, driver::Slice{0, 2}}]}),
      "kiln does not currently support executing non-contiguous tensors. Before passing these "
      "tensors, make a contiguous copy of them using .contiguous().");
  EXPECT_EQ(
      error({a, buffer<std::int32_t>({1, 2}, {1, 2})}),
      "Input at position 1: Buffer of type [(1, 2), si32] does not match expected type [(m, n), "
      "f32]");
  EXPECT_EQ(
      error({buffer<float>({1, 2}), a}),
      "Input at position 0: Buffer of type [(2), f32] does not match expected type [(m, n), f32]");
  EXPECT_EQ(error({a, buffer<float>({1, 2, 3}, {1, 3})}),
            "symbolic dimension 'n' for input 1 does not match prior uses of that dimension");
  EXPECT_EQ(error({a, a}), "");

  const Model fixed = session.init(compiled({test::add_constant_graph()}));
  EXPECT_THAT(
      [&] { fixed(buffer<float>({1, 2})); },
      ThrowsMessage<ValueError>("Input at position 0: Buffer of type [(2), f32] does not match "
                                "expected type [(8), f32]"));
}

TEST(Model, CopiesMisalignedInputs) {
  const InferenceSession session;
  const Model model = session.init(compiled({test::add_one_graph()}));
  std::vector<std::byte> memory(4 * 4 + 1);
  const float x[4] = {1, 2, 3, 4};
  std::memcpy(memory.data() + 1, x, sizeof x);
  const Buffer odd = Buffer::wrap(memory.data() + 1, DType::float32, {4}, driver::CPU(), [] {});
  EXPECT_THAT(values<float>(model(odd)[0]), ElementsAre(2, 3, 4, 5));

  const Model in_place = session.init(compiled({test::double_in_place_graph()}));
  std::vector<std::byte> longs(3 * 8 + 1);
  EXPECT_THAT(
      [&] { in_place(Buffer::wrap(longs.data() + 1, DType::int64, {3}, driver::CPU(), [] {})); },
      ThrowsMessage<ValueError>(
          "input 0 is a buffer that the graph may write; it needs writable, aligned memory"));
}

TEST(Model, WritesBufferInputs) {
  const InferenceSession session;
  const Model model = session.init(compiled({test::double_in_place_graph()}));
  const Buffer x = buffer<std::int64_t>({1, 2, 3});
  EXPECT_EQ(model(x)[0].item<std::int64_t>(), 12);
  EXPECT_THAT(values<std::int64_t>(x), ElementsAre(2, 4, 6));

  // Calls of a model that writes its inputs follow each other.
  const Buffer shared = buffer<std::int64_t>({1});
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int j = 0; j < 10; ++j) model(shared);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(values<std::int64_t>(shared)[0], std::int64_t{1} << 40);
}

TEST(Model, RefusesSharedMemoryThatItWrites) {
  runtime::GraphSignature graph = test::add_graph();
  graph.inputs[1].is_buffer = graph.inputs[1].is_written = true;
  const InferenceSession session;
  session.set_debug_print_options(PrintStyle::NONE);
  const Model model = session.init(compiled({graph}));
  const Buffer a = buffer<float>({1, 2, 3, 4}, {2, 2});
  EXPECT_THAT([&] { model(a, a); },
              ThrowsMessage<ValueError>("inputs 0 and 1 share memory that the graph writes"));
  EXPECT_THROW(
      model(a[{driver::Slice{0, 1}, driver::Slice{}}], a[{driver::Slice{0, 1}, driver::Slice{}}]),
      ValueError);
  EXPECT_NO_THROW(
      model(a[{driver::Slice{0, 1}, driver::Slice{}}], a[{driver::Slice{1, 2}, driver::Slice{}}]));
}

TEST(Model, ReportsFailuresOfItsOps) {
  const InferenceSession session;
  const Model model = session.init(compiled({test::squares_graph()}));
  std::vector<double> x(1000, 2.0);
  x[700] = -1;
  x[40] = -1;
  EXPECT_THAT(
      [&] { model(buffer(x)); },
      ThrowsMessage<ValueError>(AllOf(
          HasSubstr("An error occurred in kernel entry point named \"squares_kernel\":\nop "
                    "'mul' of graph 'squares' (squares.py:3)"),
          HasSubstr("source-tracebacks"), HasSubstr("\nerror: element 40 of 1000 is negative"))));
  x[700] = x[40] = 3;
  EXPECT_EQ(values<double>(model(buffer(x))[0])[700], 9.0);
}

TEST(Model, QuotesTracebacks) {
  runtime::ArtifactContents contents = test::rich_contents();
  contents.graphs = {test::squares_graph()};
  contents.weights.clear();
  contents.locations[0].text = "Source Traceback:\n  squares.py:3\n    y = x * x\n\n";
  const Model model =
      InferenceSession().init(CompiledModel(runtime::Artifact::from_contents(contents)));
  EXPECT_THAT([&] { model(buffer<double>({-1})); },
              ThrowsMessage<ValueError>(
                  "An error occurred in kernel entry point named \"squares_kernel\":\n"
                  "Source Traceback:\n  squares.py:3\n    y = x * x\n\n"
                  "error: element 0 of 1 is negative"));
}

TEST(Model, SurvivesOutOfMemory) {
  runtime::GraphSignature graph = test::add_one_graph();
  graph.run_symbol = "huge_run";
  const Model model = InferenceSession().init(compiled({graph}));
  EXPECT_THROW(model(buffer<float>({1})), ValueError);
  EXPECT_THAT([&] { model(Buffer(DType::float32, {0})); },
              ThrowsMessage<RuntimeError>(
                  "An error occurred in kernel entry point named \"huge\":\nerror: needs 7 bytes"));
}

TEST(Model, ResultsDoNotDependOnThreads) {
  std::vector<double> x(5000);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.1 * static_cast<double>(i);
  const CompiledModel artifact = compiled({test::squares_graph()});
  const auto expected =
      values<double>(InferenceSession({}, {.num_threads = 1}).init(artifact)(buffer(x))[0]);
  for (int threads : {2, 3, 8})
    EXPECT_EQ(
        values<double>(InferenceSession({}, {.num_threads = threads}).init(artifact)(buffer(x))[0]),
        expected);
}

TEST(Model, RunsFromManyThreads) {
  const InferenceSession session;
  const WeightsRegistry registry = {{"w", buffer<float>({1, 2, 3, 4})}};
  const Model model = session.init(compiled({test::scaled_graph()}), registry);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const int rows = 1 + (i + t) % 17;
        const std::vector<float> x(static_cast<std::size_t>(rows) * 4, static_cast<float>(t + 1));
        const auto outputs = model(buffer(x, {rows, 4}));
        for (int j = 0; j < rows * 4; ++j) {
          const float w = static_cast<float>(j % 4 + 1);
          if (static_cast<float*>(outputs[0].data())[j] != 2 * w * static_cast<float>(t + 1))
            ++wrong;
          if (static_cast<float*>(outputs[1].data())[j] != w * static_cast<float>(t + 1)) ++wrong;
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Model, ReloadsWeights) {
  const InferenceSession session;
  const Model model =
      session.init(compiled({test::scaled_graph()}), {{"w", buffer<float>({1, 1, 1, 1})}});
  const Buffer x = buffer<float>({1, 1, 1, 1}, {1, 4});
  EXPECT_THAT(values<float>(model(x)[0]), ElementsAre(2, 2, 2, 2));
  model.reload({{"w", buffer<float>({1, 2, 3, 4})}});
  EXPECT_THAT(values<float>(model(x)[0]), ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(values<float>(model(x)[1]), ElementsAre(1, 2, 3, 4));
  EXPECT_THROW(model.reload({}), ValueError);
  EXPECT_THAT(values<float>(model(x)[0]), ElementsAre(2, 4, 6, 8));
}

TEST(Model, ReloadsWhileItRuns) {
  const InferenceSession session;
  const Model model =
      session.init(compiled({test::scaled_graph()}), {{"w", buffer<float>({0, 0, 0, 0})}});
  const Buffer x = buffer<float>({1, 1, 1, 1}, {1, 4});
  std::atomic<bool> stop{false};
  std::thread runner([&] {
    while (!stop) {
      const auto outputs = model(x);
      // One set of weights serves a whole call.
      const auto y = values<float>(outputs[0]);
      const auto z = values<float>(outputs[1]);
      for (int i = 0; i < 4; ++i) EXPECT_EQ(y[static_cast<std::size_t>(i)], 2 * z[0]);
    }
  });
  for (int i = 1; i < 300; ++i) {
    const auto w = static_cast<float>(i);
    model.reload({{"w", buffer<float>({w, w, w, w})}});
  }
  stop = true;
  runner.join();
  EXPECT_EQ(values<float>(model(x)[1])[0], 299.0f);
}

TEST(Model, WaitsForItsInputs) {
  const InferenceSession session;
  const Model model = session.init(compiled({test::add_one_graph()}));
  const Buffer x = Buffer::zeros({4}, DType::float32);
  const driver::DeviceQueue queue{driver::CPU()};
  queue.enqueue_cpu_function([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    static_cast<float*>(x.data())[3] = 5;
  });
  x.record_use(queue, {.write = true});
  EXPECT_EQ(values<float>(model(x)[0])[3], 6.0f);
}

TEST(Model, DescribesItself) {
  runtime::ArtifactContents contents = test::rich_contents();
  contents.graphs = {test::add_one_graph()};
  contents.graphs[0].inputs.push_back(test::tensor("scalar", DType::int64, {}));
  contents.graphs[0].inputs.push_back(test::tensor("x", DType::float32, {5, graph::Dim("n")}));
  contents.weights.clear();
  std::optional<Model> model =
      InferenceSession().init(CompiledModel(runtime::Artifact::from_contents(contents)));
  const std::vector<TensorSpec> specs = model->input_metadata();
  EXPECT_THAT(model->kernel_summaries(), ElementsAre("add"));
  EXPECT_EQ(model->devices(), std::vector{driver::CPU()});
  EXPECT_EQ(model->input_devices().size(), 3u);
  EXPECT_THAT(model->repr(), AllOf(HasSubstr("Model(inputs=[TensorSpec("), HasSubstr("name=x)])")));
  model.reset();
  EXPECT_EQ(specs[2].to_string(), "5x-1xfloat32");
  EXPECT_EQ(specs[2].repr(), "TensorSpec(shape=[5, None], dtype=DType.float32, name=x)");
  EXPECT_EQ(specs[1].to_string(), "int64");
  EXPECT_EQ(TensorSpec{.dtype = DType::float32}.to_string(), "None x float32");
}

}  // namespace
}  // namespace kiln::engine
