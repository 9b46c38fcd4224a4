#pragma once

// Artifacts around the program in program.c.

#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "kiln/runtime/artifact.h"
#include "kiln/runtime/host_cpu.h"

namespace kiln::test {

inline std::vector<std::byte> file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> text((std::istreambuf_iterator<char>(file)), {});
  std::vector<std::byte> bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

inline runtime::CpuTarget host_target() {
  return {.triple = std::string(runtime::host_architecture()) + "-unknown-linux-gnu",
          .cpu = "x86-64",
          .level = "host",
          .features = {"sse2"}};
}

inline runtime::TensorSignature tensor(std::string name, DType dtype, graph::Shape shape) {
  return {.name = std::move(name), .dtype = dtype, .shape = std::move(shape)};
}

/// An artifact with one image and no graphs yet.
inline runtime::ArtifactContents empty_contents() {
  runtime::ArtifactContents contents;
  contents.images.push_back({host_target(), file_bytes(KILN_TEST_PROGRAM)});
  contents.plan_json = R"({"kernels": [{"graph": "add_one", "summary": "add"}]})";
  return contents;
}

inline runtime::GraphSignature add_one_graph() {
  return {.name = "add_one",
          .run_symbol = "add_one_run",
          .inputs = {tensor("input0", DType::float32, {graph::Dim("n")})},
          .outputs = {tensor("output0", DType::float32, {graph::Dim("n")})},
          .symbols = {"n"}};
}

inline runtime::GraphSignature add_constant_graph() {
  return {.name = "add_constant",
          .run_symbol = "add_constant_run",
          .inputs = {tensor("input0", DType::float32, {8})},
          .outputs = {tensor("output0", DType::float32, {8})}};
}

inline runtime::GraphSignature scaled_graph() {
  return {.name = "scaled",
          .run_symbol = "scaled_run",
          .init_symbol = "scaled_init",
          .inputs = {tensor("x", DType::float32, {graph::Dim("n"), 4})},
          .outputs = {tensor("output0", DType::float32, {graph::Dim("n"), 4}),
                      tensor("output1", DType::float32, {graph::Dim("n"), 4})},
          .symbols = {"n"},
          .weights = {0},
          .prepared_slots = 1};
}

inline runtime::WeightSignature scaled_weight() {
  return {.name = "w", .dtype = DType::float32, .shape = {4}, .alignment = 16};
}

inline runtime::GraphSignature squares_graph() {
  return {.name = "squares",
          .run_symbol = "squares_run",
          .inputs = {tensor("input0", DType::float64, {graph::Dim("n")})},
          .outputs = {tensor("output0", DType::float64, {graph::Dim("n")})},
          .symbols = {"n"}};
}

inline runtime::GraphSignature double_in_place_graph() {
  runtime::GraphSignature graph{.name = "double_in_place",
                                .run_symbol = "double_in_place_run",
                                .inputs = {tensor("input0", DType::int64, {graph::Dim("n")})},
                                .outputs = {tensor("output0", DType::int64, {})},
                                .symbols = {"n"}};
  graph.inputs[0].is_buffer = graph.inputs[0].is_written = true;
  return graph;
}

inline runtime::GraphSignature add_graph() {
  return {.name = "add",
          .run_symbol = "add_run",
          .inputs = {tensor("a", DType::float32, {graph::Dim("m"), graph::Dim("n")}),
                     tensor("b", DType::float32, {graph::Dim("m"), graph::Dim("n")})},
          .outputs = {tensor("output0", DType::float32, {graph::Dim("m"), graph::Dim("n")})},
          .symbols = {"m", "n"}};
}

/// Everything an artifact can hold.
inline runtime::ArtifactContents rich_contents() {
  runtime::ArtifactContents contents = empty_contents();
  contents.graphs = {add_one_graph(), add_constant_graph(), scaled_graph(), squares_graph()};
  contents.weights = {scaled_weight()};
  contents.constants.resize(8 * sizeof(float));
  const float constants[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  std::memcpy(contents.constants.data(), constants, sizeof constants);
  contents.locations = {{.op = "mul", .graph = "squares", .text = "squares.py:3"}};
  contents.ir_text = "the text of the graphs";
  return contents;
}

}  // namespace kiln::test
