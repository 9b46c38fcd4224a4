// Run-time checks, bounds read from tensors, selection, control flow and buffers, through the whole
// compiler.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kiln/graph.h"
#include "kiln/graph/ops.h"
#include "kiln/support/error.h"
#include "tests/compiler/run_program.h"

namespace kiln::compiler {
namespace {

using graph::BufferType;
using graph::DeviceRef;
using graph::Dim;
using graph::Graph;
using graph::slice;
using graph::TensorType;
using graph::TensorValue;
using graph::Value;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Property;
using testing::ThrowsMessage;
namespace ops = graph::ops;

const DeviceRef kCpu = DeviceRef::CPU();

/// Builds a graph whose one result is what `forward` returns, and runs it.
template <typename T, typename Forward>
std::vector<T> run(std::vector<graph::Type> types, std::vector<std::int64_t> symbols,
                   std::vector<const void*> inputs, const Forward& forward) {
  Graph g("test", {.input_types = std::move(types)});
  std::size_t rank = 0;
  {
    auto scope = g.enter();
    TensorValue result = forward(g.inputs());
    rank = static_cast<std::size_t>(result.rank());
    g.output(result);
  }
  return run_module<T>(g.module().ir(), {rank}, std::move(symbols), std::move(inputs));
}

TensorType f32(graph::Shape shape) { return {DType::float32, std::move(shape), kCpu}; }
TensorType i64(graph::Shape shape) { return {DType::int64, std::move(shape), kCpu}; }

TEST(Control, GatherChecksItsIndices) {
  std::vector<float> table = {0, 1, 10, 11, 20, 21};
  auto lookup = [&](std::vector<std::int64_t> indices) {
    return run<float>({f32({3, 2}), i64({"n"})}, {static_cast<std::int64_t>(indices.size())},
                      {table.data(), indices.data()}, [](const std::vector<Value>& in) {
                        return ops::gather(in[0].tensor(), in[1].tensor(), 0);
                      });
  };
  EXPECT_THAT(lookup({2, -3}), ElementsAre(20, 21, 0, 1));
  EXPECT_THAT([&] { lookup({0, 3}); },
              ThrowsMessage<std::runtime_error>(
                  HasSubstr("gather: index 3 is out of bounds for axis 0 with size 3")));
  EXPECT_THAT([&] { lookup({-4}); },
              ThrowsMessage<std::runtime_error>(
                  HasSubstr("gather: index -4 is out of bounds for axis 0 with size 3")));
}

TEST(Control, SlicesOfSymbolicAxesAreChecked) {
  std::vector<float> x = {0, 1, 2, 3, 4, 5};
  auto head = [&](std::int64_t n) {
    return run<float>({f32({"n"})}, {n}, {x.data()},
                      [](const std::vector<Value>& in) { return in[0].tensor()[{slice(1, 4)}]; });
  };
  EXPECT_THAT(head(6), ElementsAre(1, 2, 3));
  EXPECT_THAT([&] { head(3); }, ThrowsMessage<std::runtime_error>(HasSubstr(
                                    "slice stop index 4 out of range for dimension size 3")));
}

TEST(Control, ScatterLastUpdateWins) {
  std::vector<float> x(6, 0), updates = {1, 2, 3, 4};
  std::vector<std::int64_t> indices = {0, 2, 0, 2};
  auto out =
      run<float>({f32({2, 3}), f32({2, 2}), i64({2, 2})}, {},
                 {x.data(), updates.data(), indices.data()}, [](const std::vector<Value>& in) {
                   return ops::scatter(in[0].tensor(), in[1].tensor(), in[2].tensor(), 1);
                 });
  EXPECT_THAT(out, ElementsAre(1, 0, 2, 3, 0, 4));
}

TEST(Control, TopKIsDescendingAndStable) {
  std::vector<float> x = {3, 1, 3, 2};
  auto values = run<float>({f32({4})}, {}, {x.data()}, [](const std::vector<Value>& in) {
    auto [v, i] = ops::top_k(in[0].tensor(), 3);
    return v;
  });
  EXPECT_THAT(values, ElementsAre(3, 3, 2));
  auto indices = run<std::int64_t>({f32({4})}, {}, {x.data()}, [](const std::vector<Value>& in) {
    auto [v, i] = ops::top_k(in[0].tensor(), 3);
    return i;
  });
  EXPECT_THAT(indices, ElementsAre(0, 2, 3));
}

TEST(Control, CondRunsOneSide) {
  std::vector<float> x = {1, 2};
  for (bool flag : {true, false}) {
    auto out = run<float>({f32({2}), TensorType(DType::bool_, {}, kCpu)}, {}, {x.data(), &flag},
                          [](const std::vector<Value>& in) {
                            TensorValue a = in[0].tensor();
                            return ops::cond(
                                       in[1].tensor(), {a.type()}, [&] { return a + 1.0; },
                                       [&] { return a * 10.0; })[0]
                                .tensor();
                          });
    EXPECT_THAT(out, flag ? ElementsAre(2, 3) : ElementsAre(10, 20));
  }
}

TEST(Control, WhileLoopCarriesValues) {
  // Fibonacci numbers: (a, b, i) becomes (b, a + b, i + 1) while i < 10.
  std::int64_t zero = 0, one = 1;
  auto out =
      run<std::int64_t>({i64({}), i64({})}, {}, {&zero, &one}, [](const std::vector<Value>& in) {
        TensorValue a = in[0].tensor(), b = in[1].tensor();
        auto results = ops::while_loop(
            {a, b, a}, [](const std::vector<TensorValue>& v) { return v[2] < 10; },
            [](const std::vector<TensorValue>& v) {
              return std::vector<TensorValue>{v[1], v[0] + v[1], v[2] + 1};
            });
        return results[0].tensor();
      });
  EXPECT_THAT(out, ElementsAre(55));
}

TEST(Control, BufferKeepsState) {
  std::vector<float> state = {1, 2, 3, 4};
  auto step = [&] {
    return run<float>({BufferType(DType::float32, {4}, kCpu)}, {}, {state.data()},
                      [](const std::vector<Value>& in) {
                        auto buffer = in[0].buffer();
                        TensorValue current = ops::buffer_load(buffer);
                        ops::buffer_store(buffer, current + 1.0);
                        return current;
                      });
  };
  EXPECT_THAT(step(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(state, ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(step(), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(state, ElementsAre(3, 4, 5, 6));
}

TEST(Control, CalledSubgraphsKeepTheirWeightsAndSymbols) {
  std::vector<float> x = {1, 2, 3};
  Graph g("test", {.input_types = {f32({"n"})}});
  {
    auto scope = g.enter();
    Graph doubled =
        g.add_subgraph("doubled", {.input_types = {f32({"m"})}},
                       [](const std::vector<Value>& in) { return in[0].tensor() * 2.0; });
    TensorValue once = ops::call(doubled, {g.inputs()[0]})[0].tensor();
    g.output(ops::call(doubled, {once})[0].tensor());
  }
  EXPECT_THAT(run_module<float>(g.module().ir(), {1}, {3}, {x.data()}), ElementsAre(4, 8, 12));
}

/// A graph of two int64 scalars that calls `counted`, which has the one input `stop`, for each, and
/// returns the concatenated results.
template <typename Forward>
std::vector<std::int64_t> call_twice(std::int64_t first, std::int64_t second,
                                     const Forward& forward) {
  Graph g("test", {.input_types = {i64({}), i64({})}});
  {
    auto scope = g.enter();
    Graph counted = g.add_subgraph("counted", {.input_types = {i64({})}}, forward);
    TensorValue a = ops::call(counted, {g.inputs()[0]})[0].tensor();
    TensorValue b = ops::call(counted, {g.inputs()[1]})[0].tensor();
    g.output(ops::concat({a, b + 10}));
  }
  return run_module<std::int64_t>(g.module().ir(), {1}, {}, {&first, &second});
}

TensorValue count_to(const Value& stop, std::string_view symbol) {
  return ops::range(0, stop.tensor(), 1, DType::int64, kCpu, {.out_dim = Dim(symbol)});
}

TEST(Control, EachCallHasSizesOfItsOwn) {
  auto counted = [](const std::vector<Value>& in) { return count_to(in[0], "k"); };
  EXPECT_THAT(call_twice(2, 4, counted), ElementsAre(0, 1, 10, 11, 12, 13));
  EXPECT_THAT(call_twice(3, 0, counted), ElementsAre(0, 1, 2));
  // A size that no dim of a result shows alone.
  auto doubled = [](const std::vector<Value>& in) {
    TensorValue counts = count_to(in[0], "k");
    return ops::concat({counts, counts});
  };
  EXPECT_THAT(call_twice(1, 2, doubled), ElementsAre(0, 0, 10, 11, 10, 11));
  // One that stays inside.
  auto largest = [](const std::vector<Value>& in) { return count_to(in[0], "k").max(); };
  EXPECT_THAT(call_twice(2, 7, largest), ElementsAre(1, 16));
  // Two that meet in one dim, of a callee that calls another.
  auto nested = [](const std::vector<Value>& in) {
    Graph inner = Graph::current().add_subgraph(
        "inner", {.input_types = {i64({})}},
        [](const std::vector<Value>& in) { return count_to(in[0], "k"); });
    TensorValue more = in[0].tensor() + 1;
    return ops::concat(
        {ops::call(inner, {in[0]})[0].tensor(), ops::call(inner, {more})[0].tensor()});
  };
  EXPECT_THAT(call_twice(1, 2, nested), ElementsAre(0, 0, 1, 10, 11, 10, 11, 12));
}

TEST(Control, CalleesSeeTheSymbolsOfTheirCaller) {
  std::vector<float> x = {1, 2, 3};
  std::int64_t stop = 3;
  Graph g("test", {.input_types = {f32({"n"}), i64({})}});
  {
    auto scope = g.enter();
    TensorValue k = count_to(g.inputs()[1], "k");  // a size that only running tells
    Graph filled =
        g.add_subgraph("filled", {.input_types = {f32({1})}}, [](const std::vector<Value>& in) {
          return in[0].tensor().broadcast_to({"k"}) +
                 in[0].tensor().broadcast_to({"n"}).rebind({"k"});
        });
    TensorValue ones =
        ops::call(filled, {ops::slice_tensor(g.inputs()[0].tensor(), {slice(0, 1)})})[0].tensor();
    g.output(ones + ops::cast(k, DType::float32));
  }
  EXPECT_THAT(run_module<float>(g.module().ir(), {1}, {3}, {x.data(), &stop}),
              ElementsAre(2, 3, 4));
}

TEST(Control, CallsOfTextAreChecked) {
  std::vector<float> x = {1, 2, 3};
  Graph g("test", {.input_types = {f32({3})}});
  {
    auto scope = g.enter();
    Graph doubled =
        g.add_subgraph("doubled", {.input_types = {f32({"m"})}},
                       [](const std::vector<Value>& in) { return in[0].tensor() * 2.0; });
    g.output(ops::call(doubled, {g.inputs()[0]})[0].tensor().rebind({3}));
  }
  auto compiled = [&](const std::string& from, const std::string& to) {
    std::string text = g.to_string();
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << text;
    text.replace(at, from.size(), to);
    return run_module<float>(*graph::ir::parse(text), {1}, {}, {x.data()});
  };
  EXPECT_THAT(compiled("@test", "@test"), ElementsAre(2, 4, 6));
  EXPECT_THAT(
      [&] { compiled("{prefix = \"\"} : tensor<[3], f32>", "{prefix = \"\"} : tensor<[q], f32>"); },
      ThrowsMessage<ValueError>(HasSubstr("Result 0 of the call to doubled has the wrong type")));
}

TEST(Control, RangeCountsAtRunTime) {
  std::int64_t start = 2, stop = 11, step = 3;
  auto count = [&] {
    return run<std::int64_t>({i64({}), i64({}), i64({})}, {}, {&start, &stop, &step},
                             [](const std::vector<Value>& in) {
                               return ops::range(in[0].tensor(), in[1].tensor(), in[2].tensor(),
                                                 DType::int64, kCpu, {.out_dim = Dim("k")});
                             });
  };
  EXPECT_THAT(count(), ElementsAre(2, 5, 8));
  step = 0;
  EXPECT_THAT(count, ThrowsMessage<std::runtime_error>(HasSubstr("range: step must be non-zero")));
  step = -1;
  EXPECT_THAT(count, ThrowsMessage<std::runtime_error>(HasSubstr("range: requires")));
}

TEST(Control, PadsByModes) {
  std::vector<float> x = {1, 2, 3};
  auto pad = [&](const std::string& mode) {
    return run<float>({f32({3})}, {}, {x.data()}, [&](const std::vector<Value>& in) {
      return ops::pad(in[0].tensor(), {2, 4}, {.mode = mode, .value = 9.0});
    });
  };
  EXPECT_THAT(pad("constant"), ElementsAre(9, 9, 1, 2, 3, 9, 9, 9, 9));
  EXPECT_THAT(pad("edge"), ElementsAre(1, 1, 1, 2, 3, 3, 3, 3, 3));
  EXPECT_THAT(pad("reflect"), ElementsAre(3, 2, 1, 2, 3, 2, 1, 2, 3));
}

}  // namespace
}  // namespace kiln::compiler
