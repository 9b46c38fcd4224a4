#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "kiln/graph/ir.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string reprint(std::string_view text) { return ir::to_text(*ir::parse(text)); }

// The text of the specification.
constexpr const char* kLinear = R"(kiln.module version 1 {
  kiln.graph @linear(%input0: tensor<[batch, 3], f32>) -> (tensor<[batch, 2], f32>) params [batch]
      {argument_names = ["input0"], result_names = ["output0"], strict_device_placement = "warn", kernel_libraries = []} {
    %0 = kiln.chain.create()
    %1 = kiln.constant.external() {name = "W", align = 4, device = cpu:0, placeholder = false} : tensor<[3, 2], f32>
    %2 = kiln.matmul(%input0, %1) : tensor<[batch, 2], f32>
    kiln.output(%2)
  }
}
)";

TEST(Text, ReadsAndPrintsTheSpecsExample) {
  auto module = ir::parse(kLinear);
  ASSERT_EQ(module->graphs.size(), 1u);
  const ir::Graph& g = *module->graphs[0];
  EXPECT_EQ(g.name, "linear");
  EXPECT_EQ(g.parameters, std::vector<std::string>{"batch"});
  ASSERT_EQ(g.body->ops.size(), 4u);
  EXPECT_EQ(g.body->ops[2]->kind, OpKind::matmul);
  EXPECT_EQ(g.body->ops[2]->operand(0), g.body->arguments[0].get());
  EXPECT_EQ(ir::to_text(*module), kLinear);
}

std::string body(
    std::string_view lines, std::string_view results = "",
    std::string_view inputs = "%input0: tensor<[n, 4], f32>, %input1: buffer<[4], f32>",
    std::string_view names = "\"input0\", \"input1\"", std::string_view params = " params [n]") {
  return std::string("kiln.module version 1 {\n  kiln.graph @g(") + std::string(inputs) + ") -> (" +
         std::string(results) + ")" + std::string(params) + "\n      {argument_names = [" +
         std::string(names) +
         "], result_names = [], strict_device_placement = \"warn\", kernel_libraries = []} {\n" +
         std::string(lines) + "  }\n}\n";
}

TEST(Text, RoundTripsEveryForm) {
  for (
      const char* lines : {
          "    %0 = kiln.constant() {value = dense<[1, -2, 3]>} : tensor<[3], si8>\n"
          "    kiln.output()\n",
          "    %0 = kiln.constant() {value = dense<[1.0, -0.0, inf, 1e-45]>} : tensor<[2, 2], "
          "f32>\n"
          "    %1 = kiln.constant() {value = dense<[nan:0x7fc00001]>} : tensor<[], f32>\n"
          "    %2 = kiln.constant() {value = dense<[true, false]>} : tensor<[2], i1>\n"
          "    %3 = kiln.constant() {value = dense<[]>} : tensor<[0], f64>\n"
          "    %4 = kiln.constant() {value = dense<[0.1, 65504.0]>} : tensor<[2], f64>\n"
          "    kiln.output()\n",
          "    %0 = kiln.max(%input0, %input0) : tensor<[n, 4], f32>\n"
          "    %1 = kiln.max(%input0) {axis = 1} : tensor<[n, 1], f32>\n"
          "    %2 = kiln.sum(%input0) {axis = 0} : tensor<[1, 4], f32>\n"
          "    kiln.output()\n",
          "    %0 = kiln.chain.create()\n"
          "    %1, %2 = kiln.buffer.load(%input1, %0) : tensor<[4], f32>, chain\n"
          "    %3 = kiln.buffer.store(%input1, %1, %2) : chain\n"
          "    %4 = kiln.print(%3) {label = \"a \\\"b\\\"\\n\", text = \"x\"} : chain\n"
          "    %5 = kiln.print.tensor(%1, %4) {label = \"t\"} : chain\n"
          "    kiln.output()\n",
          "    %0 = kiln.slice_tensor(%input0) {starts = [1, 3], steps = [1, -1], stops = [n, -1]} "
          ": "
          "tensor<[n + -1, 4], f32>\n"
          "    kiln.output()\n",
          "    %0 = kiln.range() {out_dim = 4, start = 0, step = 1, stop = 4} : tensor<[4], si64>\n"
          "    %1 = kiln.range() {out_dim = 4, start = 0.0, step = 0.25, stop = 1.0} : tensor<[4], "
          "f32>\n"
          "    %2 = kiln.rebind(%input0) {layout = FCRS, message = \"\", shape = [m, 4]} : "
          "tensor<[m, 4], f32, layout = FCRS>\n"
          "    %3 = kiln.cast(%input0) {dtype = bf16} : tensor<[n, 4], bf16>\n"
          "    %4 = kiln.transfer_to(%3) {device = gpu:1} : tensor<[n, 4], bf16, gpu:1>\n"
          "    %5 = kiln.shape_to_tensor() {shape = [(n + 1) // 2, 4]} : tensor<[2], si64>\n"
          "    kiln.output()\n",
          "    %0 = kiln.constant() {value = dense<[true]>} : tensor<[], i1>\n"
          "    %1 = kiln.cond(%0) then {\n"
          "      %2 = kiln.exp(%input0) : tensor<[n, 4], f32>\n"
          "      kiln.yield(%2)\n"
          "    } else {\n"
          "      kiln.yield(%input0)\n"
          "    } : tensor<[n, 4], f32>\n"
          "    %3 = kiln.while(%4 = %1 : tensor<[n, 4], f32>) cond {\n"
          "      kiln.condition(%0)\n"
          "    } do {\n"
          "      %5 = kiln.exp(%4) : tensor<[n, 4], f32>\n"
          "      kiln.yield(%5)\n"
          "    } : tensor<[n, 4], f32>\n"
          "    kiln.output()\n",
      }) {
    std::string text = body(lines);
    EXPECT_EQ(reprint(text), text);
  }
}

TEST(Text, LargeConstantsAreHexAndMayBeElided) {
  std::string hex;
  for (int i = 0; i < 17; ++i) hex += "0a";
  std::string text = body("    %0 = kiln.constant() {value = hex\"" + hex +
                          "\"} : tensor<[17], ui8>\n    kiln.output()\n");
  EXPECT_EQ(reprint(text), text);
  std::string elided = ir::to_text(*ir::parse(text), {.elide_constants_above = 16});
  EXPECT_THAT(elided, HasSubstr("{value = elided}"));
  EXPECT_THAT([&] { ir::parse(elided); }, ThrowsMessage<ValueError>(HasSubstr("elided")));
  EXPECT_EQ(ir::to_text(*ir::parse(text), {.elide_constants_above = 17}), text);
}

TEST(Text, FloatsReadBackBitForBit) {
  ir::Module module;
  for (DType dtype :
       {DType(DType::float32), DType(DType::float64), DType(DType::float16), DType(DType::bfloat16),
        DType(DType::float8_e4m3fn), DType(DType::float8_e5m2fnuz), DType(DType::float8_e8m0fnu)}) {
    auto graph = std::make_unique<ir::Graph>();
    graph->module = &module;
    graph->name = std::string(dtype.name());
    graph->body = std::make_unique<ir::Block>();
    graph->body->graph = graph.get();
    std::uint64_t state = 1;
    for (int i = 0; i < 200; ++i) {
      auto data = std::make_shared<ir::ConstantData>();
      state = state * 6364136223846793005u + 1442695040888963407u;
      const std::uint64_t bits = state >> (64 - dtype.size_in_bits());
      data->bytes.resize(dtype.size_in_bytes());
      std::memcpy(data->bytes.data(), &bits, data->bytes.size());
      ir::append_op(*graph->body, OpKind::constant, {},
                    {{"value", std::shared_ptr<const ir::ConstantData>(data)}},
                    {TensorType(dtype, {}, {})});
    }
    module.graphs.push_back(std::move(graph));
  }
  auto copy = ir::parse(ir::to_text(module));
  using Data = std::shared_ptr<const ir::ConstantData>;
  for (std::size_t g = 0; g < module.graphs.size(); ++g)
    for (std::size_t i = 0; i < 200; ++i)
      ASSERT_EQ(module.graphs[g]->body->ops[i]->attribute<Data>("value")->bytes,
                copy->graphs[g]->body->ops[i]->attribute<Data>("value")->bytes)
          << module.graphs[g]->name << ' ' << i;
}

TEST(Text, SourceLocationsOnRequest) {
  std::string text = body(
      "    %0 = kiln.exp(%input0) : tensor<[n, 4], f32> loc(\"a.py\":3, \"b.py\":7)\n"
      "    kiln.output()\n");
  auto module = ir::parse(text);
  EXPECT_EQ(ir::to_text(*module, {.source_locations = true}), text);
  EXPECT_THAT(ir::to_text(*module), Not(HasSubstr("loc")));
}

TEST(Text, SubgraphsAndCalls) {
  const std::string text = R"(kiln.module version 1 {
  kiln.graph @main(%input0: tensor<[2], f32>) -> (tensor<[2], f32>)
      {argument_names = ["input0"], result_names = ["output0"], strict_device_placement = "error", kernel_libraries = ["a.so"], is_device_graph = true} {
    %0 = kiln.chain.create()
    %1, %2 = kiln.call @"my block"(%input0, %0) {prefix = "l0."} : tensor<[2], f32>, chain
    kiln.output(%1)
  }
  kiln.graph @"my block"(%input0: tensor<[n], f32>, %chain0: chain) -> (tensor<[n], f32>, chain) subgraph params [n]
      {argument_names = ["input0", "chain0"], result_names = ["output0"], strict_device_placement = "warn", kernel_libraries = []} {
    kiln.output(%input0, %chain0)
  }
}
)";
  EXPECT_EQ(reprint(text), text);
  std::string broken = text;
  broken.replace(broken.find("@\"my block\"(%input0, "), 11, "@other");
  EXPECT_THAT([&] { ir::parse(broken); }, ThrowsMessage<ValueError>(HasSubstr("'other'")));
}

TEST(Text, RejectsWithLineAndColumn) {
  auto expect = [](const std::string& lines, const std::string& place, const std::string& reason) {
    EXPECT_THAT([&] { ir::parse(body(lines), "f"); },
                ThrowsMessage<ValueError>(AllOf(HasSubstr("f:" + place), HasSubstr(reason))))
        << lines;
  };
  expect("    kiln.nonsense()\n", "4:5", "unknown op 'kiln.nonsense'");
  expect("    %0 = kiln.exp(%input0) {axis = 1} : tensor<[n, 4], f32>\n", "4:29",
         "no attribute 'axis'");
  expect("    %0 = kiln.exp(%input0, %input0) : tensor<[n, 4], f32>\n", "4:10",
         "takes 1 operands, got 2");
  expect("    %0 = kiln.exp(%7) : tensor<[n, 4], f32>\n", "4:19", "%7 is not defined");
  expect(
      "    %0 = kiln.exp(%input0) : tensor<[n, 4], f32>\n"
      "    %0 = kiln.exp(%input0) : tensor<[n, 4], f32>\n",
      "5:5", "defined twice");
  expect("    %0 = kiln.exp(%input0) : tensor<[n, 5], f32>\n", "4:10", "tensor<[n, 4], f32>");
  expect("    %0 = kiln.exp(%input0) : tensor<[n // 0, 5], f32>\n", "4:40", "zero");
  expect("    %0 = kiln.constant() {value = dense<[300]>} : tensor<[1], si8>\n", "4:35", "300");
  for (const char* nan : {"nan:0x7ff8000000000000", "nan:0x3f800000", "nan:0x7f800000"})
    expect(format("    %0 = kiln.constant() {{value = dense<[{}]>}} : tensor<[1], f32>\n", nan),
           "4:35", nan);
  expect("    kiln.output()\n    kiln.output()\n", "5:5", "no op may follow");
  expect("    kiln.yield()\n", "4:5", "does not belong here");
  expect(
      "    %0 = kiln.chain.create()\n"
      "    %1 = kiln.concat(%input0, %0) {axis = 0} : tensor<[n, 4], f32>\n",
      "5:10", "must be a tensor");
  expect("    %0 = kiln.broadcast_to(%input0) {shape = [-5, n, 4]} : tensor<[5, n, 4], f32>\n",
         "4:10", "-5");
  const std::string range = "    %0 = kiln.range() {out_dim = ";
  expect(range + "4, start = 0, step = 2, stop = 10} : tensor<[4], si64>\n", "4:10",
         "out_dim is 4 but the range has 5 elements");
  expect(range + "n, start = 0, step = 1, stop = n + 1} : tensor<[n], si64>\n", "4:10",
         "out_dim is n but the range has n + 1 elements");
  expect(range + "4, start = 0, step = 0, stop = 4} : tensor<[4], si64>\n", "4:10", "non-zero");
  expect(range + "4, start = 0, step = 0.0, stop = 4} : tensor<[4], f32>\n", "4:10", "non-zero");
  expect(range + "4, start = 0.5, step = 1, stop = 4} : tensor<[4], si64>\n", "4:10",
         "python float");
  expect(range + "1, start = 300, step = 1, stop = 301} : tensor<[1], si8>\n", "4:10", "300");
  EXPECT_THAT([] { ir::parse("kiln.module version 2 {}"); },
              ThrowsMessage<ValueError>(HasSubstr("1:21: the text has format version 2")));
  EXPECT_THROW(ir::parse(""), ValueError);
  EXPECT_THROW(ir::parse("kiln.module version 1 {"), ValueError);
}

TEST(Text, CallsHaveTheTypesOfTheirCallee) {
  const auto with = [](const std::string& argument, const std::string& result) {
    return "kiln.module version 1 {\n  kiln.graph @g(%x: " + argument + ") -> (" + result +
           ") params [n] {} {\n    %0 = kiln.call @f(%x) {prefix = \"\"} : " + result +
           "\n    kiln.output(%0)\n  }\n  kiln.graph @f(%x: tensor<[k, 4], f32>) -> "
           "(tensor<[k, 4], f32>) subgraph params [k] {} {\n    kiln.output(%x)\n  }\n}\n";
  };
  EXPECT_NO_THROW(ir::parse(with("tensor<[n, 4], f32>", "tensor<[n, 4], f32>")));
  EXPECT_THAT([&] { ir::parse(with("tensor<[n, 4], f32>", "tensor<[n, 5], f32>"), "f"); },
              ThrowsMessage<ValueError>(AllOf(HasSubstr("f:3:10: Result 0 of the call to f"),
                                              HasSubstr("expected tensor<[n, 4], f32>"))));
  EXPECT_THAT([&] { ir::parse(with("tensor<[n, 5], f32>", "tensor<[n, 5], f32>"), "f"); },
              ThrowsMessage<ValueError>(HasSubstr("f:3:10: Argument 0 of the call to f")));
}

TEST(Text, PlacementPoliciesAreThree) {
  const auto with = [](const std::string& policy) {
    return "kiln.module version 1 {\n  kiln.graph @g() -> () {strict_device_placement = \"" +
           policy + "\"} {\n    kiln.output()\n  }\n}\n";
  };
  EXPECT_NO_THROW(ir::parse(with("error")));
  EXPECT_THAT([&] { ir::parse(with("foo"), "f"); },
              ThrowsMessage<ValueError>(HasSubstr("\"foo\"")));
}

TEST(Text, SymbolsHaveASizeBeforeTheyAreUsed) {
  auto expect = [](const std::string& lines, const std::string& place, const std::string& symbol) {
    EXPECT_THAT([&] { ir::parse(body(lines), "f"); },
                ThrowsMessage<ValueError>(
                    AllOf(HasSubstr("f:" + place),
                          HasSubstr("symbol '" + symbol + "' is not defined in graph 'g'"))))
        << lines;
  };
  expect("    %0 = kiln.shape_to_tensor() {shape = [n, zz]} : tensor<[2], si64>\n", "4:10", "zz");
  expect(
      "    %0 = kiln.range() {out_dim = n - zz, start = zz, step = 1, stop = n} : "
      "tensor<[n - zz], si64>\n",
      "4:10", "zz");
  expect("    %0 = kiln.broadcast_to(%input0) {shape = [zz, n, 4]} : tensor<[zz, n, 4], f32>\n",
         "4:10", "zz");
  // One that a region defines ends with it.
  const std::string use = "%2 = kiln.shape_to_tensor() {shape = [k]} : tensor<[1], si64>\n";
  const std::string cond =
      "    %0 = kiln.constant() {value = dense<[true]>} : tensor<[], i1>\n"
      "    kiln.cond(%0) then {\n"
      "      %1 = kiln.rebind(%input0) {message = \"\", shape = [k, 4]} : tensor<[k, 4], f32>\n"
      "      kiln.yield()\n"
      "    } else {\n";
  expect(cond + "      " + use + "      kiln.yield()\n    }\n", "9:12", "k");
  expect(cond + "      kiln.yield()\n    }\n    " + use, "11:10", "k");
}

TEST(Text, OnlySubgraphsHaveChainsAmongTheirInputs) {
  auto with = [](const std::string& kind) {
    return "kiln.module version 1 {\n  kiln.graph @g(%chain0: chain, %input0: buffer<[4], f32>) -> "
           "(chain)" +
           kind + "\n {} {\n    kiln.output(%chain0)\n  }\n}\n";
  };
  EXPECT_THAT([&] { ir::parse(with("")); },
              ThrowsMessage<ValueError>(HasSubstr("'g' has a chain among its inputs")));
  EXPECT_EQ(ir::parse(with(" subgraph"))->graphs[0]->body->arguments.size(), 2u);
}

TEST(Text, NamesOfArgumentsAndResults) {
  auto with = [](const std::string& arguments, const std::string& results) {
    return "kiln.module version 1 {\n  kiln.graph @g(%a: tensor<[1], f32>, %b: tensor<[1], f32>) "
           "-> (tensor<[1], f32>)\n      {argument_names = [" +
           arguments + "], result_names = [" + results + "]} {\n    kiln.output(%a)\n  }\n}\n";
  };
  auto expect = [&](const std::string& arguments, const std::string& results,
                    const std::string& reason) {
    EXPECT_THAT([&] { ir::parse(with(arguments, results)); },
                ThrowsMessage<ValueError>(HasSubstr(reason)));
  };
  expect(R"("")", "", "argument_names has 1 names, but there are 2 values");
  expect(R"("a", "")", "", "a name in argument_names is empty");
  expect(R"("a", "a")", "", "argument_names has the name 'a' twice");
  expect("", R"("x", "y")", "result_names has 2 names, but there are 1 values");
  // Names that the text would take for other values' are printed beside labels of its own.
  for (const char* names : {R"("0", "two words")", R"("arg1", "1")", R"("x", "%y")", ""}) {
    const std::string text = reprint(with(names, ""));
    EXPECT_EQ(reprint(text), text) << names;
    const auto read = ir::parse(text), given = ir::parse(with(names, ""));
    EXPECT_EQ(read->graphs[0]->argument_names, given->graphs[0]->argument_names);
  }
}

// Any damage must end in an exception or in a module, never in a crash.
TEST(Text, SurvivesDamage) {
  const std::string text = kLinear;
  std::uint32_t state = 12345;
  auto random = [&] { return state = state * 1664525 + 1013904223, state >> 8; };
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = text;
    for (int k = 0; k < 3; ++k) {
      const std::size_t at = random() % damaged.size();
      switch (random() % 3) {
        case 0:
          damaged[at] = static_cast<char>(random() % 128);
          break;
        case 1:
          damaged.erase(at, 1 + random() % 4);
          break;
        default:
          damaged.insert(at, 1, "%@(){}[]\"<>=,:"[random() % 14]);
      }
    }
    try {
      ir::parse(damaged);
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace kiln::graph
