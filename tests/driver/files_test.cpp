#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "kiln/driver/buffer.h"
#include "kiln/support/file.h"

namespace kiln::driver {
namespace {

class Files : public testing::Test {
 protected:
  Files()
      : folder_(std::filesystem::temp_directory_path() /
                ("kiln_files_test_" + std::to_string(getpid()))) {
    std::filesystem::create_directory(folder_);
  }
  ~Files() override { std::filesystem::remove_all(folder_); }
  std::string path(const char* name) const { return (folder_ / name).string(); }
  std::filesystem::path folder_;
};

TEST_F(Files, CopyOnWriteStaysPrivate) {
  write_file(path("a"), "abcdefgh");
  const Buffer buffer = Buffer::mmap(path("a"), DType::uint8, {2, 3}, {.offset = 1});
  EXPECT_EQ((buffer[{1, 2}].item<int>()), 'g');
  buffer.set({0, 0}, 'x');
  EXPECT_EQ(read_file(path("a")), "abcdefgh");
  EXPECT_TRUE(buffer.is_host());
}

TEST_F(Files, ReadOnlyIsACopy) {
  write_file(path("a"), "abcd");
  const Buffer buffer = Buffer::mmap(path("a"), DType::uint8, {4}, {.mode = "r"});
  buffer.set({0}, 'x');
  write_file(path("a"), "zzzz");
  EXPECT_EQ(buffer[{1}].item<int>(), 'b');
}

TEST_F(Files, WritesReachTheFile) {
  write_file(path("a"), "ab");
  {
    const Buffer first = Buffer::mmap(path("a"), DType::uint8, {4}, {.mode = "r+", .offset = 1});
    const Buffer second = Buffer::mmap(path("a"), DType::uint8, {5}, {.mode = "readwrite"});
    first.set({3}, '!');
    EXPECT_EQ(second[{4}].item<int>(), '!');
  }
  EXPECT_EQ(read_file(path("a")), std::string("ab\0\0!", 5));
  {
    const Buffer fresh = Buffer::mmap(path("a"), DType::int32, {1}, {.mode = "w+", .offset = 3});
    EXPECT_EQ(fresh[{0}].item<int>(), 0);
  }
  EXPECT_EQ(read_file(path("a")), std::string(7, '\0'));
}

TEST_F(Files, Errors) {
  write_file(path("a"), "ab");
  EXPECT_THROW(Buffer::mmap(path("a"), DType::int32, {1}), ValueError);
  EXPECT_THROW(Buffer::mmap(path("a"), DType::int8, {1}, {.mode = "x"}), ValueError);
  EXPECT_THROW(Buffer::mmap(path("a"), DType::int8, {1}, {.offset = -1}), ValueError);
  EXPECT_THROW(Buffer::mmap(path("b"), DType::int8, {1}), FileNotFoundError);
  EXPECT_THROW(Buffer::mmap(path("b"), DType::int8, {0}), FileNotFoundError);
  EXPECT_EQ(Buffer::mmap(path("a"), DType::int8, {0, 3}).num_elements(), 0);
}

std::string checkpoint(std::uint32_t major, std::uint64_t metadata, const std::string& data) {
  std::string text = "\x93\xF0\x9F\x94\xA5\x2B\x2B\x93";
  const auto add = [&](auto value) {
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  add(major);
  add(std::uint32_t{0});
  add(metadata);
  add(std::uint32_t{3});
  text += "key";
  add(std::uint8_t{81});  // float32
  add(std::uint8_t{2});
  add(std::uint32_t{1});
  add(std::uint32_t{2});
  add(static_cast<std::uint64_t>(text.size() + 8));
  return text + data;
}

TEST_F(Files, Checkpoints) {
  const float values[] = {1.5f, -2.0f};
  const std::string data(reinterpret_cast<const char*>(values), sizeof values);
  const std::uint64_t metadata = 4 + 3 + 2 + 8 + 8;
  write_file(path("a"), checkpoint(0, metadata, data));
  const Buffer buffer = load_max_buffer(path("a"));
  EXPECT_EQ(buffer.shape(), (Shape{1, 2}));
  EXPECT_EQ((buffer[{0, 1}].item<float>()), -2.0f);
  const auto failure = [&](const std::string& content) {
    write_file(path("b"), content);
    try {
      load_max_buffer(path("b"));
    } catch (const ValueError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(failure("plain").find(path("b") + " is not a max checkpoint. "), 0u);
  EXPECT_EQ(failure(checkpoint(1, metadata, data)), "Unable to read from version > 0.");
  EXPECT_EQ(failure(checkpoint(0, metadata + 9, data)),
            "Multiple buffers found in .max file. This is currently not supported.");
  EXPECT_EQ(failure(checkpoint(0, metadata, "1234")), path("b") + " is truncated");
  EXPECT_EQ(failure(checkpoint(0, metadata, data).substr(0, 20)), path("b") + " is truncated");
}

}  // namespace
}  // namespace kiln::driver
