#include "kiln/support/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "kiln/support/log.h"
#include "kiln/support/warning.h"

namespace kiln {
namespace {

constexpr const char* kName = "KILN_TEST_VARIABLE";

class Environment : public testing::Test {
 protected:
  Environment() {
    set_warning_handler([this](std::string_view text) { warnings_.emplace_back(text); });
  }
  ~Environment() override {
    set_warning_handler({});
    unsetenv(kName);
  }
  void set(const char* value) { setenv(kName, value, 1); }
  std::vector<std::string> warnings_;
};

TEST_F(Environment, Flags) {
  EXPECT_TRUE(environment_flag(kName, true));
  for (const char* yes : {"1", "true", "YES", "On"}) {
    set(yes);
    EXPECT_TRUE(environment_flag(kName, false)) << yes;
  }
  for (const char* no : {"0", "False", "no", "OFF"}) {
    set(no);
    EXPECT_FALSE(environment_flag(kName, true)) << no;
  }
  set("");
  EXPECT_TRUE(environment_flag(kName, true));
  EXPECT_TRUE(warnings_.empty());
  set("maybe");
  EXPECT_TRUE(environment_flag(kName, true));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find(kName), std::string::npos);
}

TEST_F(Environment, Integers) {
  EXPECT_EQ(environment_integer(kName), std::nullopt);
  set("0x1f");
  EXPECT_EQ(environment_integer(kName), 31);
  set("-5");
  EXPECT_EQ(environment_integer(kName), -5);
  EXPECT_EQ(environment_integer(kName, 0, 10), std::nullopt);
  set("12 apples");
  EXPECT_EQ(environment_integer(kName), std::nullopt);
  EXPECT_EQ(warnings_.size(), 2u);
}

TEST(Log, KeepsLinesFromItsLevelOn) {
  std::vector<std::string> lines;
  set_log_handler([&](LogLevel level, std::string_view line) {
    lines.push_back(std::string(to_string(level)) + " " + std::string(line));
  });
  log(LogLevel::INFO, "dropped");
  set_log_level(log_level_from_string("info"));
  log(LogLevel::INFO, "kept");
  set_log_level(LogLevel::WARNING);
  set_log_handler({});
  EXPECT_EQ(lines, std::vector<std::string>{"INFO kept"});
}

}  // namespace
}  // namespace kiln
