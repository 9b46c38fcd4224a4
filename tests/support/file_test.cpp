#include "kiln/support/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "kiln/support/error.h"
#include "kiln/support/hash.h"

namespace kiln {
namespace {

class File : public testing::Test {
 protected:
  File()
      : folder_(std::filesystem::temp_directory_path() /
                ("kiln_file_test_" + std::to_string(getpid()))) {
    std::filesystem::create_directory(folder_);
  }
  ~File() override { std::filesystem::remove_all(folder_); }
  std::string path(const char* name) const { return (folder_ / name).string(); }
  std::filesystem::path folder_;
};

TEST_F(File, WritesAndReads) {
  const std::string_view parts[] = {"first, ", "second"};
  write_file(path("a"), parts);
  EXPECT_EQ(read_file(path("a")), "first, second");
  EXPECT_EQ(file_size(path("a")), 13u);
  write_file(path("a"), std::string_view(""));
  EXPECT_EQ(read_file(path("a")), "");
  // Nothing is left beside the file.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(File, Errors) {
  EXPECT_THROW(read_file(path("missing")), FileNotFoundError);
  EXPECT_THROW(read_file(folder_.string()), RuntimeError);
  EXPECT_THROW(write_file(path("no/such/folder"), "x"), FileNotFoundError);
  write_file(path("short"), "12345");
  EXPECT_THROW(MappedFile(path("short"), MappedFile::Mode::read_only, 3, 3), ValueError);
}

TEST_F(File, Maps) {
  write_file(path("a"), "0123456789");
  MappedFile whole(path("a"));
  EXPECT_EQ(whole.bytes(), "0123456789");
  MappedFile copy(path("a"), MappedFile::Mode::copy_on_write, 3, 4);
  EXPECT_EQ(copy.bytes(), "3456");
  static_cast<char*>(copy.data())[0] = 'x';
  EXPECT_EQ(whole.bytes(), "0123456789");
  MappedFile shared(path("a"), MappedFile::Mode::shared, 9, 1);
  static_cast<char*>(shared.data())[0] = 'y';
  EXPECT_EQ(read_file(path("a")), "012345678y");
}

TEST(Hash, KnownValues) {
  // From the specification of XXH3: the empty input.
  EXPECT_EQ(hash64(""), 0x2d06800538d394c2u);
  EXPECT_EQ(hash128("").to_string(), "99aa06d3014798d86001c324468d497f");
}

TEST(Hash, PiecesAreDelimited) {
  EXPECT_NE(Hasher().add("ab").add("c").finish128(), Hasher().add("a").add("bc").finish128());
  Hasher pieces;
  const std::string text(1000, 'k');
  pieces.add_bytes(text.data(), 100).add_bytes(text.data() + 100, 900);
  EXPECT_EQ(pieces.finish128(), hash128(text));
}

}  // namespace
}  // namespace kiln
