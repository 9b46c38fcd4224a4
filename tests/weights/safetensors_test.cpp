#include "kiln/weights/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "kiln/support/error.h"

namespace kiln::weights {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

class SafetensorsTest : public ::testing::Test {
 protected:
  SafetensorsTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kiln-test-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~SafetensorsTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  /// Writes a file as the format's own page describes it: length, header, data.
  std::string write(const std::string& name, const std::string& header, const std::string& data) {
    std::string text(8, '\0');
    const std::uint64_t length = header.size();
    std::memcpy(text.data(), &length, 8);
    return write_raw(name, text + header + data);
  }
  std::string write_raw(const std::string& name, const std::string& text) {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  void expect_invalid(const std::string& header, const std::string& data,
                      const std::string& reason) {
    const std::string file = write("bad.safetensors", header, data);
    EXPECT_THAT(
        [&] { (void)load_safetensors(file); },
        ThrowsMessage<ValueError>(AllOf(
            StartsWith("'" + file + "' is not a valid safetensors file: "), HasSubstr(reason))))
        << header;
  }

  std::filesystem::path folder_;
};

template <typename T>
std::string bytes_of(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

TEST_F(SafetensorsTest, MapsTensorsInFileOrder) {
  // "b" starts at an odd byte, which is allowed.
  const std::string file = write(
      "a.safetensors",
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,1],"data_offsets":[3,11]},)"
      R"("a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
      R"("empty":{"dtype":"I64","shape":[0,5],"data_offsets":[11,11]},)"
      R"("one":{"dtype":"BF16","shape":[],"data_offsets":[11,13]}}   )",
      bytes_of<std::uint8_t>({1, 2, 3}) + bytes_of({1.5f, -2.0f}) +
          bytes_of<std::uint16_t>({0x3F80}));
  std::optional<Safetensors> tensors = load_safetensors(file);
  EXPECT_EQ(tensors->size(), 4u);
  std::vector<std::string> names;
  for (const auto& [name, buffer] : *tensors) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("b", "a", "empty", "one"));
  EXPECT_THAT(tensors->metadata(), ElementsAre(std::pair("format", "pt")));
  driver::Buffer b = (*tensors)["b"];
  EXPECT_EQ(b.dtype(), DType::float32);
  EXPECT_EQ(b.shape(), (Shape{2, 1}));
  EXPECT_EQ((b[{0, 0}].item<float>()), 1.5f);
  EXPECT_EQ((b[{1, 0}].item<float>()), -2.0f);
  EXPECT_EQ((*tensors)["empty"].num_elements(), 0);
  EXPECT_EQ((*tensors)["one"].item<float>(), 1.0f);
  EXPECT_TRUE(tensors->contains("a"));
  EXPECT_FALSE(tensors->contains("c"));
  EXPECT_THROW((void)(*tensors)["c"], KeyError);

  // Writing stays private, and a buffer keeps the file mapped.
  b.set({0, 0}, 7.0f);
  tensors.reset();
  EXPECT_EQ((b[{0, 0}].item<float>()), 7.0f);
  EXPECT_EQ((load_safetensors(file)["b"][{0, 0}].item<float>()), 1.5f);
}

TEST_F(SafetensorsTest, KnowsItsTypes) {
  const std::vector<std::pair<std::string, DType>> types = {
      {"F64", DType::float64},         {"F32", DType::float32},
      {"F16", DType::float16},         {"BF16", DType::bfloat16},
      {"I64", DType::int64},           {"I32", DType::int32},
      {"I16", DType::int16},           {"I8", DType::int8},
      {"U64", DType::uint64},          {"U32", DType::uint32},
      {"U16", DType::uint16},          {"U8", DType::uint8},
      {"BOOL", DType::bool_},          {"F8_E4M3", DType::float8_e4m3fn},
      {"F8_E5M2", DType::float8_e5m2}, {"F8_E8M0", DType::float8_e8m0fnu}};
  for (const auto& [name, dtype] : types) {
    const std::string size = std::to_string(dtype.size_in_bytes());
    const std::string file =
        write("t.safetensors",
              R"({"x":{"dtype":")" + name + R"(","shape":[1],"data_offsets":[0,)" + size + "]}}",
              std::string(static_cast<std::size_t>(dtype.size_in_bytes()), '\1'));
    EXPECT_EQ(load_safetensors(file)["x"].dtype(), dtype);
  }
}

TEST_F(SafetensorsTest, FoldersStandForTheirFiles) {
  const std::string one = R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  write("2.safetensors", R"({"y":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "b");
  write("1.safetensors", one, "a");
  write_raw("other.txt", "no");
  const Safetensors tensors = load_safetensors(folder_.string());
  EXPECT_EQ(tensors.entry(0).first, "x");
  EXPECT_EQ(tensors.entry(1).first, "y");
  EXPECT_THROW((void)tensors.entry(2), IndexError);

  write("3.safetensors", one, "c");
  EXPECT_THAT([&] { (void)load_safetensors(folder_.string()); },
              ThrowsMessage<ValueError>(AllOf(HasSubstr("'x'"), HasSubstr(path("1.safetensors")),
                                              HasSubstr(path("3.safetensors")))));
}

TEST_F(SafetensorsTest, RefusesWhatItCannotRead) {
  EXPECT_THROW((void)load_safetensors(path("none.safetensors")), FileNotFoundError);
  EXPECT_THROW((void)load_safetensors(folder_.string()), ValueError);
}

TEST_F(SafetensorsTest, RefusesTruncatedFiles) {
  const std::string header = R"({"x":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})";
  const std::string file = write("t.safetensors", header, std::string(15, 'x'));
  EXPECT_THAT([&] { (void)load_safetensors(file); },
              ThrowsMessage<ValueError>("'" + file + "' is truncated: it should have " +
                                        std::to_string(8 + header.size() + 16) + " bytes but has " +
                                        std::to_string(8 + header.size() + 15)));
  write_raw("t.safetensors", "abc");
  EXPECT_THAT(
      [&] { (void)load_safetensors(file); },
      ThrowsMessage<ValueError>("'" + file + "' is truncated: it should have 8 bytes but has 3"));
}

TEST_F(SafetensorsTest, RefusesMalformedHeaders) {
  auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
           "}";
  };
  expect_invalid("{", "", "expected '\"'");
  expect_invalid("[]", "", "expected '{'");
  expect_invalid("{} x", "", "after the end");
  expect_invalid("{\"x\":" + entry("F31", "[1]", "[0,4]") + "}", "abcd",
                 "'x' has the unknown type 'F31'");
  expect_invalid("{\"x\":" + entry("F32", "[2]", "[0,4]") + "}", "abcd", "'x'");
  expect_invalid("{\"x\":" + entry("F32", "[1]", "[4,0]") + "}", "abcd", "'x'");
  expect_invalid("{\"x\":" + entry("F32", "[1]", "[0,4,8]") + "}", "abcd", "'x' has 3 offsets");
  expect_invalid("{\"x\":" + entry("F32", "[-1]", "[0,4]") + "}", "abcd", "tensor 'x': '-1'");
  expect_invalid("{\"x\":" + entry("F32", "[1]", "[\"0\",4]") + "}", "abcd", "tensor 'x': ");
  expect_invalid("{\"x\":" + entry("F32", "[1180591620717411303424]", "[0,4]") + "}", "abcd",
                 "tensor 'x': ");
  expect_invalid("{\"a\\u0000b\":" + entry("U8", "[1]", "[0,1]") + "}", "a",
                 "the name of a tensor holds a NUL character, behind 'a'");
  expect_invalid("{\"x\":" + entry("F32", "[4294967296,4294967296]", "[0,4]") + "}", "abcd", "'x'");
  expect_invalid("{\"x\":" + entry("F32", "[1]", "[4,8]") + "}", "abcdabcd",
                 "gap of 4 bytes before tensor 'x'");
  expect_invalid(
      "{\"x\":" + entry("F32", "[1]", "[0,4]") + ",\"y\":" + entry("F32", "[1]", "[2,6]") + "}",
      "abcdab", "'y' overlaps");
  expect_invalid("{\"x\":" + entry("U8", "[1]", "[0,1]") + "}", "ab", "1 bytes follow");
  expect_invalid(
      "{\"x\":" + entry("U8", "[1]", "[0,1]") + ",\"x\":" + entry("U8", "[1]", "[1,2]") + "}", "ab",
      "'x' stands there twice");
  expect_invalid("{\"x\":{\"dtype\":\"U8\"}}", "", "'x' lacks");
  std::string huge(8, '\0');
  const std::uint64_t length = 100'000'001;
  std::memcpy(huge.data(), &length, 8);
  const std::string file = write_raw("huge.safetensors", huge);
  EXPECT_THAT([&] { (void)load_safetensors(file); },
              ThrowsMessage<ValueError>(HasSubstr("its header has 100000001 bytes")));
}

TEST_F(SafetensorsTest, DamagedFilesNeverCrash) {
  const std::string good_header =
      R"({"__metadata__":{"a":"b"},"x":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"y":{"dtype":"U8","shape":[3],"data_offsets":[16,19]}})";
  std::mt19937 random(11);
  static const char kUseful[] = "{}[]\",:0123456789-x\\";
  for (int i = 0; i < 600; ++i) {
    std::string header = good_header;
    for (int change = 0; change < 3; ++change)
      header[random() % header.size()] =
          i % 2 == 0 ? kUseful[random() % (sizeof kUseful - 1)] : static_cast<char>(random());
    const std::string file = write("m.safetensors", header, std::string(19, 'd'));
    try {
      const Safetensors tensors = load_safetensors(file);
      for (const auto& [name, buffer] : tensors) (void)buffer.to_string();
    } catch (const ValueError&) {
    }
  }
}

}  // namespace
}  // namespace kiln::weights
