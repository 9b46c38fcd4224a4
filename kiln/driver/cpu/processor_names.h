#pragma once

#include <string_view>

namespace kiln::driver {

/// Whether `name` is a processor of this host's family that the compiler knows; kept here because
/// the answer is needed without loading the compiler.
bool is_processor_name(std::string_view name);
/// One such name, for messages.
std::string_view example_processor_name();

}  // namespace kiln::driver
