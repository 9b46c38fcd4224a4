#include "kiln/runtime/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "kiln/support/elf.h"
#include "kiln/support/error.h"
#include "programs.h"

namespace kiln::runtime {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Elf, ReadsAnImage) {
  const ElfFacts facts = read_elf(test::file_bytes(KILN_TEST_PROGRAM), host_elf_machine());
  EXPECT_TRUE(facts.exports("add_one_run"));
  EXPECT_TRUE(facts.exports("scaled_init"));
  EXPECT_FALSE(facts.exports("squares_body"));
  EXPECT_EQ(facts.mutable_bytes, 0u);
  EXPECT_FALSE(facts.has_constructors);
  EXPECT_TRUE(facts.needed.empty());
}

TEST(Elf, DamagedImagesNeverCrashTheReader) {
  const std::vector<std::byte> good = test::file_bytes(KILN_TEST_PROGRAM);
  std::mt19937 random(7);
  for (int i = 0; i < 3000; ++i) {
    std::vector<std::byte> bytes = good;
    // Mostly the headers and tables at the front, which the reader follows.
    const std::size_t range = i % 4 == 0 ? bytes.size() : std::min<std::size_t>(bytes.size(), 2048);
    for (int change = 0; change < 4; ++change)
      bytes[random() % range] = static_cast<std::byte>(random());
    if (i % 8 == 0) bytes.resize(random() % bytes.size());
    try {
      (void)read_elf(bytes, host_elf_machine());
    } catch (const ValueError&) {
    }
  }
}

TEST(Image, FindsEntries) {
  const auto image = Image::load(test::file_bytes(KILN_TEST_PROGRAM), "m.mef");
  EXPECT_NE(image->symbol("add_one_run"), nullptr);
  EXPECT_EQ(image->symbol("nothing"), nullptr);
}

TEST(Image, RefusesMutableState) {
  EXPECT_THAT(
      [] { (void)Image::load(test::file_bytes(KILN_TEST_MUTABLE), "m.mef"); },
      ThrowsMessage<RuntimeError>(HasSubstr("'m.mef' is corrupted: its code cannot be loaded: it "
                                            "has ")));
}

TEST(Image, EachLoadIsAnImageOfItsOwn) {
  const std::vector<std::byte> elf = test::file_bytes(KILN_TEST_PROGRAM);
  std::set<void*> addresses;
  std::vector<std::shared_ptr<const Image>> images;
  for (int i = 0; i < 50; ++i) {
    images.push_back(Image::load(elf, "m.mef"));
    addresses.insert(images.back()->symbol("add_one_run"));
  }
  EXPECT_EQ(addresses.size(), 50u);
}

TEST(Image, ModelsOfOneArtifactShareTheirs) {
  const auto artifact = Artifact::from_contents(test::rich_contents());
  const auto first = load_image(artifact);
  EXPECT_EQ(load_image(artifact), first);
  const auto other = Artifact::from_contents(test::rich_contents());
  EXPECT_NE(load_image(other), first);
}

TEST(Image, TheHighestLevelThatFitsIsTaken) {
  ArtifactContents contents = test::empty_contents();
  contents.images.push_back(contents.images[0]);
  contents.images[1].target.level = "x86-64-v4";
  contents.images[1].target.features = {"sse2", "never-made"};
  auto artifact = Artifact::from_contents(contents);
  EXPECT_EQ(artifact->section(select_image(*artifact)).data(),
            artifact->section(artifact->header().sections[0]).data());
  contents.images[1].target.features = {"sse2"};
  artifact = Artifact::from_contents(contents);
  EXPECT_EQ(artifact->section(select_image(*artifact)).data(),
            artifact->section(artifact->header().sections[1]).data());
  for (CodeImage& image : contents.images) image.target.features = {"never-made"};
  EXPECT_THAT([&] { (void)select_image(*Artifact::from_contents(contents)); },
              ThrowsMessage<RuntimeError>(
                  HasSubstr("needs a CPU with never-made; this machine lacks never-made")));
}

}  // namespace
}  // namespace kiln::runtime
