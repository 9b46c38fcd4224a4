#include "kiln/support/json_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kiln {
namespace {

bool valid(const std::string& text) {
  try {
    JsonReader reader(text);
    reader.skip();
    reader.finish();
    return true;
  } catch (const JsonError&) {
    return false;
  }
}

TEST(JsonReader, AcceptsJsonAndNothingElse) {
  for (const char* text : {"{}", "[]", " [1, -2.5e+3 , \"a\\u00e9\\ud83d\\ude00\", true, null ] ",
                           "{\"a\":{\"b\":[{}]},\"c\":0}", "\"\xC3\xA9\""})
    EXPECT_TRUE(valid(text)) << text;
  for (const char* text : {"",
                           "[1,]",
                           "[,1]",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{a:1}",
                           "[1 2]",
                           "01",
                           "1.",
                           "-",
                           "+1",
                           "tru",
                           "nul",
                           "\"",
                           "\"\\x\"",
                           "\"\\u12\"",
                           "\"\\ud800\"",
                           "\"\xFF\"",
                           "\"\xC0\x80\"",
                           "\"\xED\xA0\x80\"",
                           "\"\n\"",
                           "[1]]",
                           "{\"a\":1,}",
                           "[",
                           "{",
                           "{\"a\":1",
                           "'a'"})
    EXPECT_FALSE(valid(text)) << text;
}

TEST(JsonReader, ReadsValues) {
  const std::string text =
      R"({"list": [3, -4], "text": "a\n\"\u00e9\ud83d\ude00", "flag": true, "big": 18446744073709551615, "x": {"y": 1}})";
  JsonReader reader(text);
  std::string key;
  std::vector<std::int64_t> list;
  std::string value;
  bool flag = false;
  std::uint64_t big = 0;
  for (reader.begin_object(); reader.next_key(key);) {
    if (key == "list") {
      EXPECT_EQ(reader.count_elements(), 2u);
      for (reader.begin_array(); reader.next_element();) list.push_back(reader.integer());
    } else if (key == "text") {
      value = reader.string();
    } else if (key == "flag") {
      flag = reader.boolean();
    } else if (key == "big") {
      big = reader.unsigned_integer();
    } else {
      reader.skip();
    }
  }
  reader.finish();
  EXPECT_THAT(list, ::testing::ElementsAre(3, -4));
  EXPECT_EQ(value, "a\n\"\xC3\xA9\xF0\x9F\x98\x80");
  EXPECT_TRUE(flag);
  EXPECT_EQ(big, UINT64_MAX);
}

TEST(JsonReader, LimitsNestingAndNumbers) {
  EXPECT_FALSE(valid(std::string(129, '[') + std::string(129, ']')));
  EXPECT_TRUE(valid(std::string(128, '[') + std::string(128, ']')));
  EXPECT_THROW(JsonReader("9223372036854775808").integer(), JsonError);
  EXPECT_THROW(JsonReader("1.5").integer(), JsonError);
  EXPECT_THROW(JsonReader("-1").unsigned_integer(), JsonError);
}

}  // namespace
}  // namespace kiln
