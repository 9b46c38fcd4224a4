#include "kiln/support/debug_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>

#include "kiln/support/error.h"
#include "kiln/support/sanitizer.h"
#include "kiln/support/stack_trace.h"

namespace kiln {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::ThrowsMessage;

/// Puts the settings of the process back.
class ProcessSettings : public ::testing::Test {
 protected:
  ~ProcessSettings() override { debug_settings().reset(); }
};

TEST(DebugSettings, ReadTheSpellingOfTheVariable) {
  DebugSettings settings;
  EXPECT_THAT(
      settings.apply(" nan-check , source-tracebacks=ON,assert-level = Warn,print-style=full,"
                     "ir-output-dir=a b"),
      IsEmpty());
  EXPECT_TRUE(settings.flag("nan-check"));
  EXPECT_TRUE(settings.flag("source-tracebacks"));
  EXPECT_EQ(settings.get("assert-level"), "warn");
  EXPECT_EQ(settings.get("print-style"), "FULL");
  EXPECT_EQ(settings.get("ir-output-dir"), "a b");
  EXPECT_THAT(settings.apply("nonsense,nan-check=maybe,print-style=loud,device-sync-mode"),
              ElementsAre(HasSubstr("There is no debug setting 'nonsense'; there are nan-check,"),
                          HasSubstr("'nan-check' cannot be 'maybe'"),
                          HasSubstr("'print-style' cannot be 'loud'")));
  EXPECT_TRUE(settings.flag("device-sync-mode"));
  EXPECT_THROW((void)settings.get("nonsense"), KeyError);
  settings.reset();
  for (const std::string& name : DebugSettings::names())
    EXPECT_THAT(settings.get(name), Not("true")) << name;
}

TEST(DebugSettings, RefuseChecksOfAcceleratorsOnly) {
  DebugSettings settings;
  const std::string name = "uninitialized-read-check";
  EXPECT_THAT([&] { settings.set(name, "true"); },
              ThrowsMessage<NotImplementedError>(HasSubstr("runs on the CPU only")));
  EXPECT_THAT(settings.apply(name + ",nan-check"), ElementsAre(HasSubstr(name)));
  EXPECT_FALSE(settings.flag(name));
  settings.set(name, "false");
  EXPECT_TRUE(settings.flag("nan-check"));
}

TEST(DebugSettings, SensibleTurnsOnWhatIsNotSetByHand) {
  DebugSettings settings;
  settings.set("device-sync-mode", "false");
  settings.set_from_text("sensible-mode", "on");
  EXPECT_FALSE(settings.flag("device-sync-mode"));
  for (const char* name :
       {"nan-check", "stack-trace-on-error", "stack-trace-on-crash", "source-tracebacks"})
    EXPECT_TRUE(settings.flag(name)) << name;
  EXPECT_EQ(settings.get("assert-level"), "all");
}

__attribute__((noinline)) std::string failing_text() {
  try {
    throw ValueError("The cause.");
  } catch (Error& error) {
    error.add_note("While testing.");
    EXPECT_EQ(error.message(), "The cause.\nWhile testing.");
    return error.what();
  }
}

TEST_F(ProcessSettings, ErrorsCarryTheStackOfTheirThrow) {
  EXPECT_EQ(failing_text(), "The cause.\nWhile testing.");
  debug_settings().set("stack-trace-on-error", "true");
  const std::string text = failing_text();
  EXPECT_THAT(text, ::testing::StartsWith(
                        "The cause.\nWhile testing.\nNative stack, innermost first:\n  "));
  EXPECT_THAT(text, HasSubstr("support_test"));
  debug_settings().reset();
  EXPECT_EQ(failing_text(), "The cause.\nWhile testing.");
}

TEST(StackTrace, NamesFunctionsOfTheLibrary) {
  EXPECT_THAT(stack_trace(), HasSubstr("support_test"));
}

using StackTraceDeathTest = ProcessSettings;

/// Whether a process crashed: by the signal, or by the report of a sanitizer that caught it.
bool crashed(int status) {
  if (kAddressSanitizer || kThreadSanitizer) return status != 0;
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

TEST_F(StackTraceDeathTest, IsWrittenOnACrash) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        debug_settings().set("stack-trace-on-crash", "true");
        std::raise(SIGSEGV);
      },
      crashed, "the process crashed; its native stack.*support_test");
  EXPECT_EXIT(
      {
        debug_settings().set("stack-trace-on-crash", "true");
        debug_settings().set("stack-trace-on-crash", "false");
        std::raise(SIGSEGV);
      },
      crashed, "");
}

}  // namespace
}  // namespace kiln
