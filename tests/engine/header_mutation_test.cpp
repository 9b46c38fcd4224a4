// A header that was changed by hand, with its checksum made right, is refused or changes nothing:
// code never runs with inputs, weights or constants that it was not compiled for.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "kiln/engine/inference_session.h"
#include "kiln/graph.h"
#include "kiln/graph/ops.h"
#include "kiln/runtime/checksum.h"
#include "kiln/support/error.h"

namespace kiln::engine {
namespace {

using driver::Buffer;
using graph::DeviceRef;
using nlohmann::json;
using ::testing::HasSubstr;
namespace ops = graph::ops;

constexpr std::size_t kPrefix = 32;  // bytes before the header

std::uint64_t get(std::string_view bytes, std::size_t at, std::size_t count) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, count);
  return value;
}

/// The file with another header of at most its length, and the checksum made right.
std::string with_header(std::string bytes, std::string text) {
  const std::size_t length = get(bytes, 12, 4);
  text.resize(std::max(text.size(), length), ' ');
  bytes.replace(kPrefix, length, text);
  const std::uint64_t total = bytes.size(), size = text.size();
  std::memcpy(bytes.data() + 12, &size, 4);
  std::memcpy(bytes.data() + 16, &total, 8);
  const std::uint64_t sum = runtime::checksum(std::as_bytes(std::span(text)));
  std::memcpy(bytes.data() + 24, &sum, 8);
  return bytes;
}

void list_places(const json& value, const json::json_pointer& at,
                 std::vector<json::json_pointer>& places) {
  if (!at.empty()) places.push_back(at);
  if (value.is_object())
    for (const auto& [key, item] : value.items()) list_places(item, at / key, places);
  if (value.is_array())
    for (std::size_t i = 0; i < value.size(); ++i) list_places(value[i], at / i, places);
}

class HeaderMutation : public ::testing::Test {
 protected:
  HeaderMutation() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kiln-test-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    path_ = folder_ + "/m.mef";
    const Buffer w =
        Buffer::copy_of(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {3, 4});
    const Buffer b = Buffer::copy_of(std::vector<float>{0.5f, 1, 1.5f, 2}, {4});
    session_.compile(product()).export_mef(path_, {{"w", w}, {"b", b}});
    std::ifstream file(path_, std::ios::binary);
    good_.assign(std::istreambuf_iterator<char>(file), {});
    header_ = json::parse(std::string_view(good_).substr(kPrefix, get(good_, 12, 4)));
  }
  ~HeaderMutation() override { std::filesystem::remove_all(folder_); }

  /// x @ w + b + constant, and a counter that it raises: each kind of thing that code finds by
  /// number.
  static graph::Graph product() {
    graph::Graph graph(
        "product", {.input_types = {graph::TensorType(DType::float32, {"n", 3}, DeviceRef::CPU()),
                                    graph::BufferType(DType::float32, {2}, DeviceRef::CPU())}});
    auto scope = graph.enter();
    const auto x = graph.inputs()[0].tensor();
    const auto state = graph.inputs()[1].buffer();
    ops::buffer_store(state, ops::buffer_load(state) + 1);
    const auto w = graph.add_weight(graph::Weight("w", DType::float32, {3, 4}, DeviceRef::CPU()));
    const auto b = graph.add_weight(graph::Weight("b", DType::float32, {4}, DeviceRef::CPU()));
    const auto constant = ops::constant({100, 200, 400, 800}, DType::float32, DeviceRef::CPU());
    graph.output({ops::matmul(x, w) + b, ops::buffer_load(state), b * constant});
    return graph;
  }

  /// Whether the file with this header is refused; else its results must be those of the good one.
  bool refuses(const json& header) {
    const std::string bytes = with_header(good_, header.dump());
    std::ofstream(path_, std::ios::binary).write(bytes.data(), static_cast<long>(bytes.size()));
    std::optional<Model> model;
    try {
      model = session_.load(path_);
    } catch (const RuntimeError& error) {
      EXPECT_THAT(error.what(), HasSubstr("m.mef"));
      return true;
    } catch (const ValueError&) {
      return true;  // weights that it does not carry any more
    }
    const Buffer x = Buffer::copy_of(std::vector<float>{1, 0, 2, 0, 1, 0}, {2, 3});
    const Buffer state = Buffer::copy_of(std::vector<float>{7, 8}, {2});
    const std::vector<Buffer> results = model->execute({x, state});
    EXPECT_EQ(results.size(), 3u);
    EXPECT_EQ(values(results[1]), (std::vector<float>{8, 9}));
    EXPECT_EQ(values(state), (std::vector<float>{8, 9}));
    // Where the data of the weights begins is not checked: other values, but no others' memory.
    if (header["weights"] != header_["weights"]) return false;
    EXPECT_EQ(values(results[0]), (std::vector<float>{19.5, 23, 26.5, 30, 5.5, 7, 8.5, 10}));
    EXPECT_EQ(values(results[2]), (std::vector<float>{50, 200, 600, 1600}));
    return false;
  }
  static std::vector<float> values(const Buffer& buffer) {
    const auto* data = static_cast<const float*>(buffer.data());
    return {data, data + buffer.num_elements()};
  }

  const InferenceSession session_;
  std::string folder_, path_, good_;
  json header_;
};

TEST_F(HeaderMutation, EveryPlaceWithEveryKindOfValue) {
  ASSERT_TRUE(header_["graphs"][0].contains("init"));
  ASSERT_THAT(header_["sections"].dump(), HasSubstr("constants"));
  ASSERT_FALSE(refuses(header_));
  std::vector<json::json_pointer> places;
  list_places(header_, json::json_pointer(), places);
  const std::vector<json> values = {nullptr,
                                    -1,
                                    0,
                                    1,
                                    2,
                                    3,
                                    4096,
                                    std::uint64_t{1} << 31,
                                    1e30,
                                    true,
                                    "",
                                    "x",
                                    "f64",
                                    "i8",
                                    "n",
                                    "kiln_run_0",
                                    "cpu:1",
                                    "w",
                                    "b",
                                    json::array(),
                                    json::array({1}),
                                    json::object()};
  for (const json::json_pointer& place : places) {
    SCOPED_TRACE(place.to_string());
    for (const json& value : values) {
      json header = header_;
      header[place] = value;
      (void)refuses(header);
    }
    json header = header_;
    json& parent = header[place.parent_pointer()];
    if (parent.is_object())
      parent.erase(place.back());
    else
      parent.erase(std::stoul(place.back()));
    (void)refuses(header);
    header = header_;
    if (json& list = header[place.parent_pointer()]; list.is_array()) {
      list.push_back(list.at(std::stoul(place.back())));
      (void)refuses(header);
      std::reverse(list.begin(), list.end());
      (void)refuses(header);
    }
  }
}

TEST_F(HeaderMutation, WhatCodeReliesOnIsPartOfItsHash) {
  const std::vector<std::pair<std::string, json>> changes = {
      {"/graphs/0/inputs/0/dtype", "f64"},
      {"/graphs/0/inputs/0/shape/1", 4},
      {"/graphs/0/inputs/1/shape/0", 1},
      {"/graphs/0/inputs/1/buffer", false},
      {"/graphs/0/outputs/1/dtype", "f64"},
      {"/graphs/0/outputs", json::array()},
      {"/graphs/0/weights", json::array()},
      {"/graphs/0/weights", {1, 0}},
      {"/graphs/0/prepared", 0},
      {"/graphs/0/prepared", 9},
      {"/graphs/0/init", "kiln_run_0"},
      {"/graphs/0/init", ""},
      {"/graphs/0/symbols", {"n", "m"}},
      {"/graphs/0/inputs/1/written", false},
      {"/weights/0/shape/0", 1},
      {"/weights/0/align", 1},
      {"/weights/0/dtype", "i8"},
      {"/targets/cpu/0/features", json::array()},
      {"/targets/cpu/0/level", "x86-64-v2"}};
  for (const auto& [place, value] : changes) {
    json header = header_;
    header[json::json_pointer(place)] = value;
    EXPECT_TRUE(header == header_ || refuses(header)) << place << " = " << value;
  }
  for (json& section : header_["sections"])
    if (section["kind"] == "constants") section["kind"] = "other";
  EXPECT_TRUE(refuses(header_));
}

/// Number of random files to try; KILN_TEST_MUTATIONS raises it.
int mutations() {
  const char* text = std::getenv("KILN_TEST_MUTATIONS");
  return text != nullptr ? std::atoi(text) : 1000;
}

TEST_F(HeaderMutation, ValuesThatChangePlaces) {
  std::vector<json::json_pointer> places;
  list_places(header_, json::json_pointer(), places);
  std::mt19937 random(20261130);
  auto any_place = [&] { return places[random() % places.size()]; };
  for (int i = 0; i < mutations(); ++i) {
    json header = header_;
    const int changes = 1 + static_cast<int>(random() % 2);
    for (int change = 0; change < changes; ++change) {
      const auto to = any_place();
      const auto from = any_place();
      if (!header.contains(to)) continue;
      if (json& old = header[to]; old.is_number_integer() && random() % 2 == 0)
        old = old.get<std::int64_t>() + static_cast<std::int64_t>(random() % 129) - 64;
      else
        old = header_[from];
    }
    SCOPED_TRACE(header.dump());
    (void)refuses(header);
  }
}

}  // namespace
}  // namespace kiln::engine
