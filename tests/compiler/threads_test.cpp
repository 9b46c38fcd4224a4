// Results do not depend, bit for bit, on the number of threads, nor on who else runs models.

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "kiln/engine/inference_session.h"
#include "kiln/graph.h"
#include "kiln/graph/ops.h"
#include "kiln/runtime/artifact.h"
#include "kiln/runtime/compiler_interface.h"

extern "C" kiln::runtime::Compiler* kiln_compiler_entry(int version);

namespace kiln::compiler {
namespace {

using driver::Buffer;
using engine::CompiledModel;
using engine::InferenceSession;
using engine::Model;
using graph::DeviceRef;
using graph::Graph;
using graph::TensorType;
using graph::TensorValue;
namespace ops = graph::ops;

using Forward = TensorValue (*)(const TensorValue& x, const TensorValue& y);

struct Case {
  const char* name;
  graph::Shape x, y;  // symbolic
  Shape x_size, y_size;
  Forward forward;
};

// Each is large enough to be cut among threads, at sizes that no tile or vector divides.
std::vector<Case> cases() {
  return {
      {"elementwise",
       {"n", 129},
       {129},
       {403, 129},
       {129},
       [](const TensorValue& x, const TensorValue& y) { return ops::gelu(x * y + 0.25) - x; }},
      {"softmax",
       {"n", 517},
       {517},
       {211, 517},
       {517},
       [](const TensorValue& x, const TensorValue& y) { return ops::softmax(x + y); }},
      {"norm",
       {"n", 391},
       {391},
       {307, 391},
       {391},
       [](const TensorValue& x, const TensorValue& y) { return ops::layer_norm(x, y, y, 1e-5); }},
      {"columns",
       {"n", 203},
       {203},
       {997, 203},
       {203},
       [](const TensorValue& x, const TensorValue& y) { return ops::sum(x, 0) * y; }},
      {"total",
       {"n"},
       {1},
       {500009},
       {1},
       [](const TensorValue& x, const TensorValue& y) { return ops::mean(x) + y; }},
      {"product",
       {"n", 67},
       {67, 93},
       {251, 67},
       {67, 93},
       [](const TensorValue& x, const TensorValue& y) { return ops::relu(ops::matmul(x, y)); }},
      {"batched",
       {"n", 29, 31},
       {31, 37},
       {23, 29, 31},
       {31, 37},
       [](const TensorValue& x, const TensorValue& y) {
         return ops::softmax(ops::matmul(x, y), -1);
       }},
      {"transposed",
       {"n", 67},
       {"n", 67},
       {153, 67},
       {153, 67},
       [](const TensorValue& x, const TensorValue& y) {
         return ops::matmul(x, ops::transpose(y, 0, 1));
       }},
      {"best",
       {"n", 301},
       {301},
       {457, 301},
       {301},
       [](const TensorValue& x, const TensorValue& y) { return ops::argmax(x * y); }},
      {"joined",
       {"n", 301},
       {301},
       {457, 301},
       {301},
       [](const TensorValue& x, const TensorValue& y) {
         return ops::concat({ops::exp(x), x - y, ops::tanh(x)}, 1);
       }},
  };
}

runtime::ArtifactContents compile(const Case& test) {
  Graph g(test.name, {.input_types = {TensorType(DType::float32, test.x, DeviceRef::CPU()),
                                      TensorType(DType::float32, test.y, DeviceRef::CPU())}});
  {
    auto scope = g.enter();
    g.output(test.forward(g.inputs()[0].tensor(), g.inputs()[1].tensor()));
  }
  runtime::CompileOptions options;
  options.num_threads = 3;
  return kiln_compiler_entry(runtime::kCompilerInterfaceVersion)->compile(g.module().ir(), options);
}

CompiledModel compiled(const Case& test) {
  return CompiledModel(runtime::Artifact::from_contents(compile(test)));
}

Buffer random(const Shape& shape, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(num_elements(shape)));
  for (float& value : values) value = normal(random);
  return Buffer::copy_of(values, shape);
}

std::vector<std::byte> bytes(const Buffer& buffer) {
  const auto* data = static_cast<const std::byte*>(buffer.data());
  return {data, data + buffer.num_elements() * buffer.dtype().size_in_bytes()};
}

TEST(Threads, TheirNumberChangesNoBit) {
  for (const Case& test : cases()) {
    const CompiledModel artifact = compiled(test);
    const Buffer x = random(test.x_size, 1), y = random(test.y_size, 2);
    const auto alone = bytes(InferenceSession({}, {.num_threads = 1}).init(artifact)(x, y)[0]);
    ASSERT_FALSE(alone.empty());
    for (int threads : {2, 3, 4}) {
      const Model model = InferenceSession({}, {.num_threads = threads}).init(artifact);
      for (int repeat = 0; repeat < 3; ++repeat)
        EXPECT_EQ(bytes(model(x, y)[0]), alone) << test.name << " on " << threads << " threads";
    }
  }
}

TEST(Threads, ManyCallManyModelsAtOnce) {
  struct Expected {
    Model model;
    Buffer x, y;
    std::vector<std::byte> result;
  };
  // Models of two sessions, whose calls meet in one pool of threads; two inputs for each.
  const InferenceSession sessions[] = {InferenceSession({}, {.num_threads = 4}),
                                       InferenceSession({}, {.num_threads = 2})};
  const InferenceSession alone({}, {.num_threads = 1});
  std::vector<Expected> expected;
  for (const Case& test : cases()) {
    const CompiledModel artifact = compiled(test);
    for (unsigned seed : {1u, 2u}) {
      const Buffer x = random(test.x_size, seed), y = random(test.y_size, seed + 7);
      const auto result = bytes(alone.init(artifact)(x, y)[0]);
      for (const InferenceSession& session : sessions)
        expected.push_back({session.init(artifact), x, y, result});
    }
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int call = 0; call < 60; ++call) {
        const Expected& one = expected[random() % expected.size()];
        if (bytes(one.model(one.x, one.y)[0]) != one.result) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Threads, ManyCompileAtOnce) {
  const std::vector<Case> all = cases();
  std::vector<std::vector<std::byte>> expected;
  for (const Case& test : all) expected.push_back(compile(test).images.front().elf);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < all.size(); ++i) {
        const std::size_t chosen = (i + 3 * t) % all.size();
        if (compile(all[chosen]).images.front().elf != expected[chosen]) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace kiln::compiler
