#include "kiln/support/error.h"

#include "kiln/support/debug_settings.h"
#include "kiln/support/format.h"
#include "kiln/support/ref.h"
#include "kiln/support/stack_trace.h"

namespace kiln {

Error::Error(std::string message) : std::runtime_error(message), message_(std::move(message)) {
  if (!detail::stack_trace_on_error.load(std::memory_order_relaxed)) [[likely]]
    return;
  stack_ = stack_trace(1);
  set_message(std::move(message_));
}

void Error::set_message(std::string message) {
  message_ = std::move(message);
  if (!stack_.empty()) text_ = format("{}\nNative stack, innermost first:\n{}", message_, stack_);
}

void throw_empty_handle() {
  throw ValueError(
      "This handle is empty: it was made without a value, or its value was moved away. Assign one "
      "before its members are used.");
}

void throw_internal_error(const char* condition, const char* file, int line,
                          const std::string& detail) {
  throw InternalError(
      format("kiln has broken one of its own rules: {} ({}:{}){}{}. This is a defect in kiln; "
             "please report "
             "it with the program that shows it.",
             condition, file, line, detail.empty() ? "" : ": ", detail));
}

}  // namespace kiln
