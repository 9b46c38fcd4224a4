#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kiln::runtime {

/// Whether the processor and the operating system offer a feature by its usual name, such as "avx2"
/// or "avx512bf16". Names that are not known: false.
bool host_has_feature(std::string_view feature);

/// The features that are known and offered, sorted.
std::vector<std::string> host_features();

/// "x86_64" and so on: the first part of a target triple.
std::string_view host_architecture();

}  // namespace kiln::runtime
