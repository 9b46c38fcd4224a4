#include "kiln/support/elf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include "kiln/support/error.h"

namespace kiln {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

/// This test program itself: a position-independent program is a shared object to the loader.
std::vector<std::byte> own_image() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  const std::vector<char> text((std::istreambuf_iterator<char>(file)), {});
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

std::string refusal(std::span<const std::byte> bytes, int machine = host_elf_machine()) {
  try {
    (void)read_elf(bytes, static_cast<std::uint16_t>(machine));
  } catch (const ValueError& error) {
    return error.what();
  }
  return "";
}

TEST(Elf, RefusesOtherFiles) {
  EXPECT_EQ(refusal({}), "it is not an ELF file");
  std::vector<std::byte> bytes(200, std::byte{'x'});
  EXPECT_EQ(refusal(bytes), "it is not an ELF file");
  bytes = own_image();
  EXPECT_EQ(refusal(bytes), "it is a program");
  EXPECT_THAT(refusal(bytes, 183), HasSubstr("ELF machine"));
  bytes[4] = std::byte{1};
  EXPECT_EQ(refusal(bytes), "it is not a 64-bit little-endian ELF file");
}

}  // namespace
}  // namespace kiln
