#include "kiln/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "kiln/support/error.h"

namespace kiln::graph {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr auto f32 = DType::float32;
const DeviceRef cpu = DeviceRef::CPU();

TEST(Graph, LinearReadsAsInTheSpec) {
  Graph g("linear", {.input_types = {TensorType(f32, {"batch", 3}, cpu)}});
  Weight w("W", f32, {3, 2}, cpu);
  {
    auto scope = g.enter();
    g.output({ops::matmul(g.inputs()[0], w)});
  }
  EXPECT_EQ(g.to_string(), R"(kiln.module version 1 {
  kiln.graph @linear(%input0: tensor<[batch, 3], f32>) -> (tensor<[batch, 2], f32>) params [batch]
      {argument_names = ["input0"], result_names = ["output0"], strict_device_placement = "warn", kernel_libraries = []} {
    %0 = kiln.chain.create()
    %1 = kiln.constant.external() {name = "W", align = 4, device = cpu:0, placeholder = false} : tensor<[3, 2], f32>
    %2 = kiln.matmul(%input0, %1) : tensor<[batch, 2], f32>
    kiln.output(%2)
  }
}
)");
  EXPECT_EQ(Graph::parse(g.to_string()).to_string(), g.to_string());
  EXPECT_THAT(g.output_types(), ElementsAre(Type(TensorType(f32, {"batch", 2}, cpu))));
}

TEST(Graph, BuildTakesACallable) {
  Graph g =
      Graph::build("add", {.input_types = {TensorType(f32, {4}, cpu), TensorType(f32, {4}, cpu)}},
                   [](const std::vector<Value>& in) { return in[0].tensor() + in[1].tensor(); });
  EXPECT_TRUE(g.has_output());
  EXPECT_EQ(g.output_types().size(), 1u);
  Graph empty = Graph::build("empty", {}, [](const std::vector<Value>&) {});
  EXPECT_TRUE(empty.output_types().empty());
  Graph two = Graph::build(
      "two", {.input_types = {TensorType(f32, {4}, cpu)}},
      [](const std::vector<Value>& in) { return std::vector<Value>{in[0], in[0].tensor() * 2}; });
  EXPECT_EQ(two.output_types().size(), 2u);
}

TEST(Graph, CurrentGraphNests) {
  EXPECT_THAT([] { Graph::current(); }, ThrowsMessage<LookupError>("No graph found"));
  Graph a("a"), b("b");
  {
    auto in_a = a.enter();
    EXPECT_EQ(Graph::current(), a);
    {
      auto in_b = b.enter();
      EXPECT_EQ(Graph::current(), b);
    }
    EXPECT_EQ(Graph::current(), a);
  }
  EXPECT_THROW(Graph::current(), LookupError);
}

TEST(Graph, OneThreadBuildsAGraph) {
  Graph g("g");
  auto scope = g.enter();
  std::thread([&] {
    EXPECT_THAT([&] { auto other = g.enter(); }, ThrowsMessage<RuntimeError>(HasSubstr("thread")));
    EXPECT_THROW(Graph::current(), LookupError);
    Graph h("h");
    auto mine = h.enter();
    EXPECT_EQ(Graph::current(), h);
  }).join();
}

TEST(Graph, OutputErrors) {
  Graph g("g", {.input_types = {TensorType(f32, {4}, cpu), BufferType(f32, {4}, cpu)}});
  Graph other("other", {.input_types = {TensorType(f32, {4}, cpu)}});
  auto scope = g.enter();
  EXPECT_THAT([&] { g.output_types(); },
              ThrowsMessage<TypeError>("Graph not yet terminated by a call to output"));
  EXPECT_THAT([&] { g.output({other.inputs()[0].tensor()}); },
              ThrowsMessage<ValueError>("value belongs to graph 'other', not to 'g'"));
  EXPECT_THAT([&] { ops::exp(other.inputs()[0].tensor()); },
              ThrowsMessage<ValueError>("value belongs to graph 'other', not to 'g'"));
  EXPECT_THROW(g.output_values({g.inputs()[1]}), TypeError);
  EXPECT_THROW(g.output({3}), TypeError);
  g.output({g.inputs()[0].tensor()});
  EXPECT_THAT([&] { g.output(); }, ThrowsMessage<ValueError>("graph 'g' already has an output"));
  EXPECT_THROW(ops::exp(g.inputs()[0].tensor()), ValueError);
}

TEST(Graph, OutputTakesDimsAndShapes) {
  Graph g("g", {.input_types = {TensorType(f32, {"n", 4}, cpu)}});
  g.output({Dim("n"), Shape{"n", 4}});
  EXPECT_THAT(g.output_types(), ElementsAre(Type(TensorType(DType::int64, {}, cpu)),
                                            Type(TensorType(DType::int64, {2}, cpu))));
}

TEST(Graph, InputTypes) {
  EXPECT_THAT([] { Graph("g", {.input_types = {TensorType(f32, {Dim("n") + 1}, cpu)}}); },
              ThrowsMessage<ValueError>(HasSubstr("algebraic")));
  Graph g("g", {.input_types = {TensorType(f32, {"n"}, cpu), BufferType(f32, {2}, cpu),
                                OpaqueType{"queue", {}}}});
  EXPECT_EQ(g.inputs().size(), 3u);
  EXPECT_TRUE(g.inputs()[2].type().is_opaque());
  EXPECT_EQ(g.ir().parameters, std::vector<std::string>{"n"});
}

TEST(Graph, GoesWithItsLastHandle) {
  std::weak_ptr<detail::GraphState> state;
  std::optional<Value> kept;
  {
    Graph g("g", {.input_types = {TensorType(f32, {4}, cpu)}});
    state = g.state();
    auto scope = g.enter();
    kept = ops::exp(g.inputs()[0]);
    g.output({kept->tensor()});
  }
  EXPECT_FALSE(state.expired());
  kept.reset();
  EXPECT_TRUE(state.expired());
}

TEST(Graph, HalfBuiltGraphsStayPrintable) {
  Graph g("g", {.input_types = {TensorType(f32, {4}, cpu)}});
  try {
    auto scope = g.enter();
    ops::exp(g.inputs()[0].tensor());
    throw std::runtime_error("stop");
  } catch (const std::runtime_error&) {
  }
  EXPECT_THAT(g.to_string(), HasSubstr("kiln.exp"));
  EXPECT_FALSE(g.has_output());
  EXPECT_EQ(Graph::parse(g.to_string()).to_string(), g.to_string());
}

TEST(Graph, UnknownSymbols) {
  Graph g("g", {.input_types = {TensorType(f32, {1, 4}, cpu)}});
  auto scope = g.enter();
  EXPECT_THAT([&] { ops::broadcast_to(g.inputs()[0], {"q", 4}); },
              ThrowsMessage<ValueError>(HasSubstr("symbol 'q' is not defined in graph 'g'")));
  EXPECT_THROW(ops::shape_to_tensor({"q"}), ValueError);
}

TEST(Graph, SymbolsOfARegionEndWithIt) {
  const TensorType vector(f32, {"k"}, cpu);
  Graph g("g", {.input_types = {TensorType(f32, {"n"}, cpu), TensorType(DType::bool_, {}, cpu)}});
  auto scope = g.enter();
  TensorValue x = g.inputs()[0].tensor(), p = g.inputs()[1].tensor();
  auto undefined = ThrowsMessage<ValueError>(HasSubstr("symbol 'k' is not defined in graph 'g'"));
  auto define = [&] { return ops::rebind(x, {"k"}); };
  EXPECT_THAT([&] { ops::cond(p, {}, [&] { define(); }, [&] { ops::shape_to_tensor({"k"}); }); },
              undefined);
  ops::cond(p, {}, [&] { define(); }, [] {});
  EXPECT_THAT([&] { ops::shape_to_tensor({"k"}); }, undefined);
  // A result of the region carries its size out.
  ops::cond(p, {vector}, define, define);
  g.output({ops::shape_to_tensor({"k"})});
  EXPECT_EQ(Graph::parse(g.to_string()).to_string(), g.to_string());
}

TEST(Graph, ParsedHalfBuiltGraphsKnowTheirSymbols) {
  Graph g("g", {.input_types = {TensorType(f32, {"n"}, cpu)}});
  {
    auto scope = g.enter();
    ops::rebind(g.inputs()[0].tensor(), {"k"});
  }
  Graph h = Graph::parse(g.to_string());
  auto scope = h.enter();
  EXPECT_EQ(ops::shape_to_tensor({"k"}).shape().to_string(), "[1]");
}

TEST(Graph, ParsedHalfBuiltGraphsGoOn) {
  Graph g("g", {.input_types = {BufferType(f32, {4}, cpu)}});
  {
    auto scope = g.enter();
    ops::buffer_load(g.inputs()[0]);
  }
  Graph h = Graph::parse(g.to_string());
  auto scope = h.enter();
  TensorValue x = ops::buffer_load(h.inputs()[0]);
  h.output({x});
  const auto& ops = h.ir().body->ops;
  EXPECT_EQ(ops[2]->operand(1), ops[1]->result(1));
}

TEST(Graph, CopyIsIndependent) {
  Graph g("g", {.input_types = {TensorType(f32, {4}, cpu)}});
  Weight w("w", f32, {4}, cpu);
  {
    auto scope = g.enter();
    ops::add(g.inputs()[0], w);
  }
  Graph h = g.copy();
  {
    auto scope = h.enter();
    h.output({ops::mul(h.inputs()[0], w)});
  }
  EXPECT_FALSE(g.has_output());
  EXPECT_THAT(h.to_string(), AllOf(HasSubstr("kiln.add"), HasSubstr("kiln.mul")));
  EXPECT_THAT(g.to_string(), Not(HasSubstr("kiln.mul")));
  // The weight is still one constant.
  std::string text = h.to_string();
  EXPECT_EQ(text.find("constant.external"), text.rfind("constant.external"));
}

TEST(Graph, LoadsAFile) {
  EXPECT_THROW(Graph::load("/nonexistent/graph.txt"), FileNotFoundError);
  Graph g("g", {.input_types = {TensorType(f32, {4}, cpu)}, .custom_extensions = {"a.so"}});
  g.output({g.inputs()[0].tensor()});
  std::string path = testing::TempDir() + "kiln_graph_test.txt";
  std::ofstream(path) << g.to_string();
  Graph h = Graph::load(path);
  EXPECT_EQ(h.to_string(), g.to_string());
  EXPECT_EQ(h.kernel_libraries_paths(), std::vector<std::string>{"a.so"});
  EXPECT_EQ(h.inputs().size(), 1u);
}

TEST(Module, HoldsSeveralGraphs) {
  Module m;
  Graph a("a", {.module = m}), b("b", {.module = m});
  Graph s = a.add_subgraph("s");
  a.output();
  b.output();
  s.output();
  EXPECT_THAT(m.top_level_graph_names(), ElementsAre("a", "b"));
  EXPECT_EQ(a.module(), m);
  EXPECT_THAT(m.to_string(), AllOf(HasSubstr("@a("), HasSubstr("@b("), HasSubstr("@s(")));
  EXPECT_THAT(a.to_string(), Not(HasSubstr("@b(")));
  EXPECT_THAT([&] { a.add_subgraph("s"); }, ThrowsMessage<ValueError>(HasSubstr("'s'")));
  // Another parent may have a callee of the same name.
  EXPECT_EQ(b.add_subgraph("s").name(), "s");
}

TEST(Subgraph, CallsAreCheckedAndSolved) {
  Graph g("g", {.input_types = {TensorType(f32, {"batch", 4}, cpu)}});
  Graph block = g.add_subgraph("block", {.input_types = {TensorType(f32, {"n", 4}, cpu)}},
                               [](const std::vector<Value>& in) {
                                 TensorValue x = in[0].tensor();
                                 Weight w("w", f32, {4, 4}, cpu);
                                 return ops::concat({ops::matmul(x, w), x});
                               });
  auto scope = g.enter();
  TensorValue x = g.inputs()[0].tensor();
  std::vector<Value> y = ops::call(block, {x}, {.prefix = "l0."});
  ASSERT_EQ(y.size(), 1u);
  EXPECT_EQ(y[0].tensor().shape(), (Shape{Dim("batch") * 2, 4}));
  EXPECT_THAT([&] { ops::call(block, {x, x}); },
              ThrowsMessage<ValueError>(HasSubstr("Expected 1 args to call to block, got 2.")));
  EXPECT_THAT([&] { ops::call(block, {ops::cast(x, DType::float64)}); },
              ThrowsMessage<ValueError>(HasSubstr("wrong type")));
  g.output({y[0].tensor()});
  std::string text = g.to_string();
  EXPECT_THAT(text,
              AllOf(HasSubstr("kiln.call @block(%input0, %0) {prefix = \"l0.\"} : tensor<[batch "
                              "* 2, 4], f32>, chain"),
                    HasSubstr("subgraph params [n]"), HasSubstr("placeholder = true"),
                    HasSubstr("kiln.output(%3, %chain0)")));
  EXPECT_EQ(Graph::parse(text).to_string(), text);
}

TEST(Subgraph, SeesOnlyItsInputs) {
  Graph g("g", {.input_types = {TensorType(f32, {4}, cpu)}});
  TensorValue outer = g.inputs()[0].tensor();
  Graph s = g.add_subgraph("s");
  auto scope = s.enter();
  EXPECT_THAT([&] { ops::exp(outer); },
              ThrowsMessage<ValueError>("value belongs to graph 'g', not to 's'"));
}

TEST(Failures, NameTheOpAndItsInputs) {
  Graph g("g", {.input_types = {TensorType(f32, {2, 3}, cpu), TensorType(f32, {4, 5}, cpu)}});
  auto scope = g.enter();
  EXPECT_THAT([&] { ops::matmul(g.inputs()[0], g.inputs()[1]); },
              ThrowsMessage<ValueError>(testing::StartsWith(
                  "Failed to create op 'matmul':\nInputs:\n"
                  "    lhs = TensorValue(dtype=float32, shape=[Dim(2), Dim(3)], device=cpu:0)\n"
                  "    rhs = TensorValue(dtype=float32, shape=[Dim(4), Dim(5)], device=cpu:0)\n"
                  "\n")));
}

TEST(Locations, RecordTheCallersLine) {
  Graph g("g", {.input_types = {TensorType(f32, {2}, cpu)}});
  TensorValue x = g.inputs()[0].tensor();
  auto scope = g.enter();
  auto line_of_last = [&] {
    const auto& location = g.ir().body->ops.back()->location;
    EXPECT_TRUE(location);
    EXPECT_THAT(location->at(0).file, testing::EndsWith("graph_test.cpp"));
    return location->at(0).line;
  };
  x + 1;
  EXPECT_EQ(line_of_last(), __LINE__ - 1);
  ops::exp(x);
  EXPECT_EQ(line_of_last(), __LINE__ - 1);
  x.stdev();
  EXPECT_EQ(line_of_last(), __LINE__ - 1);
  ops::floor_div(x, 2);
  EXPECT_EQ(line_of_last(), __LINE__ - 1);
  x[0];
  EXPECT_EQ(line_of_last(), __LINE__ - 1);
  -x;
  EXPECT_EQ(line_of_last(), __LINE__ - 1);
  EXPECT_THAT(g.to_text({.source_locations = true}), HasSubstr("graph_test.cpp\":"));
}

TEST(Locations, AProviderSuppliesFrames) {
  set_location_provider([](bool full) -> ir::SourceLocation {
    std::vector<ir::SourceFrame> frames = {{"model.py", 7, ""}};
    if (full) frames.push_back({"main.py", 3, "run()"});
    return std::make_shared<std::vector<ir::SourceFrame>>(std::move(frames));
  });
  Graph g("g", {.input_types = {TensorType(f32, {2}, cpu)}});
  auto scope = g.enter();
  ops::exp(g.inputs()[0]);
  EXPECT_EQ(g.ir().body->ops.back()->location->size(), 1u);
  set_source_tracebacks(true);
  ops::exp(g.inputs()[0]);
  EXPECT_EQ(g.ir().body->ops.back()->location->size(), 2u);
  EXPECT_EQ(g.ir().body->ops.back()->location->at(0).file, "model.py");
  set_source_tracebacks(false);
  set_location_provider(nullptr);
}

}  // namespace
}  // namespace kiln::graph
