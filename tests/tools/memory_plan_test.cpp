#include "tools/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kiln/engine/plan_internal.h"

namespace kiln::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string shown(const std::string& plan) {
  return memory_plan_text(engine::parse_plan(std::as_bytes(std::span(plan))));
}

TEST(MemoryPlan, ShowsValuesAndWhenTheyAreKept) {
  const std::string text = shown(R"json({
    "kernels": [{"graph": "g", "number": 0, "summary": "exp"},
                {"graph": "g", "number": 1, "summary": "Fused(add, mul)"},
                {"graph": "other", "number": 0, "summary": "log"}],
    "memory": [{"graph": "g", "arena_bytes": "64 + 4*n", "slots": [{"bytes": "16*n"}, {}], "values": [
      {"value": 0, "op": "exp", "dtype": "float32", "shape": ["n", 4], "bytes": "16*n",
       "slot": 0, "offset": "0", "first_kernel": 0, "last_kernel": 1, "kept": [0, 1]},
      {"value": 1, "op": "add", "dtype": "int8", "shape": [], "bytes": "64", "in_place_of": 0,
       "slot": 0, "offset": "0", "first_kernel": 1, "last_kernel": 1, "kept": [1, 1]},
      {"value": 2, "op": "mul", "dtype": "int8", "shape": [], "bytes": "64", "kept": [-1, -1]}],
      "prepared": [{"slot": 0, "made_by": ["Pack(w)"], "dtype": "float32", "shape": [2, 3],
                    "bytes": "128"}]}]
})json");
  EXPECT_THAT(text,
              HasSubstr("memory of graph g\n  64 + 4*n bytes a call in one block of 2 slots\n"));
  EXPECT_THAT(text, HasSubstr("  kernel 1  Fused(add, mul)\n"));
  EXPECT_THAT(text, Not(HasSubstr("log")));
  EXPECT_THAT(text, HasSubstr("0-1      ##\n"));
  EXPECT_THAT(text, HasSubstr("slot 0, in place of v0"));
  EXPECT_THAT(text, HasSubstr("1-1      .#\n"));
  EXPECT_THAT(text, HasSubstr("allocated when its size is known  none     ..\n"));
  EXPECT_THAT(text, HasSubstr("prepared 0  Pack(w)  float32[2, 3]  128 bytes\n"));
}

TEST(MemoryPlan, ChartsOfManyKernelsAreNarrowed) {
  std::string kernels;
  for (int k = 0; k < 1000; ++k)
    kernels += std::string(k ? "," : "") + R"({"graph": "g", "number": )" + std::to_string(k) +
               R"(, "summary": "exp"})";
  const std::string text = shown(R"({"kernels": [)" + kernels +
                                 R"(], "memory": [{"graph": "g", "values": [{"value": 0,
                                 "first_kernel": 999, "last_kernel": 999, "kept": [999, 999]}]}]})");
  EXPECT_THAT(text, HasSubstr(" " + std::string(47, '.') + "#\n"));
}

TEST(MemoryPlan, ShowsNothingOfWhatIsNoPlan) {
  for (const char* plan : {"", "[", "[1, 2]", "7", "{", "null", "\"memory\"", "{\"memory\": 3}",
                           "{\"memory\": [[], 1, null]}", "{\"memory\": {\"graph\": \"g\"}}"})
    EXPECT_EQ(shown(plan), "") << plan;
}

TEST(MemoryPlan, TakesMembersOfAnyType) {
  const std::string odd[] = {"null",
                             "-1",
                             "18446744073709551615",
                             "1e300",
                             "[]",
                             "{}",
                             "true",
                             "\"\\u001b[2J\\n\"",
                             "[9223372036854775807, -9223372036854775808]"};
  for (const std::string& member : odd) {
    std::string value = "{";
    for (const char* key : {"value", "op", "dtype", "shape", "bytes", "slot", "offset", "kept",
                            "first_kernel", "last_kernel", "in_place_of", "kernel", "made_by"})
      value += std::string(value.size() > 1 ? ", \"" : "\"") + key + "\": " + member;
    value += "}";
    std::string graph = "{";
    for (const char* key : {"values", "slots", "scratch", "prepared"})
      graph += std::string(graph.size() > 1 ? ", \"" : "\"") + key + "\": [" + value + "]";
    graph += R"(, "graph": ")"
             "g"
             R"("}, {"graph": )" +
             member + "}";
    const std::string text =
        shown(R"({"kernels": [{"graph": "g", "number": )" + member + R"(, "summary": )" + member +
              R"(}], "memory": [)" + graph + "]}");
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
  }
}

TEST(MemoryPlan, DepthIsBounded) {
  const std::size_t depth = 1'000'000;
  for (const auto& [open, close] : {std::pair("[", "]"), std::pair("{\"a\":", "}")}) {
    std::string nested = "{\"memory\": [{\"values\": ";
    for (std::size_t i = 0; i < depth; ++i) nested += open;
    nested += "1";
    for (std::size_t i = 0; i < depth; ++i) nested += close;
    nested += "}]}";
    const nlohmann::json plan = engine::parse_plan(std::as_bytes(std::span(nested)));
    EXPECT_LT(plan.dump().size(), 100u);
    memory_plan_text(plan);
  }
}

}  // namespace
}  // namespace kiln::tools
