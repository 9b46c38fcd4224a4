#include "kiln/support/error.h"

#include "kiln/support/format.h"

namespace kiln {

void throw_internal_error(const char* condition, const char* file, int line,
                          const std::string& detail) {
  throw InternalError(
      format("kiln has broken one of its own rules: {} ({}:{}){}{}. This is a defect in kiln; "
             "please report "
             "it with the program that shows it.",
             condition, file, line, detail.empty() ? "" : ": ", detail));
}

}  // namespace kiln
