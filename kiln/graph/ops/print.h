#pragma once

#include <string>

#include "kiln/graph/value.h"

namespace kiln::graph::ops {

/// Prints a tensor when the graph runs, ordered with other side effects of the host. A label with a
/// path separator: ValueError.
void print(const TensorValueLike& value, const std::string& label = "debug_tensor");
/// Prints a text.
void print(const std::string& text, const std::string& label = "debug_tensor",
           Location location = Location::current());
void print(const char* text, const std::string& label = "debug_tensor",
           Location location = Location::current());

}  // namespace kiln::graph::ops
