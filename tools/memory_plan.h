#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace kiln::tools {

/// The memory plan of every graph for people: the block that a call works in, its values with the
/// kernels that use them, and what init prepares. Whatever does not look like a plan is left out.
std::string memory_plan_text(const nlohmann::json& plan);

}  // namespace kiln::tools
