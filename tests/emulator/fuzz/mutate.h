#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace kiln::emulator_test {

/// Small modules cut out of PTX texts: for each kernel of at most `largest` bytes the directives,
/// variables and functions of its file, and that kernel alone.
std::vector<std::string> small_modules(const std::vector<std::string>& texts, std::size_t largest);

/// One to four changes of meaning, tokens, lines or bytes; lines may come from another of the
/// modules.
std::string mutated(const std::vector<std::string>& modules, std::mt19937_64& random);

}  // namespace kiln::emulator_test
