// Runs a sentence encoder that was written to one file, with libkiln alone: no compiler, no Python.
//
//   cpp_embed minilm.mef tokens.txt
//
// Each line of the text file (`-` for standard input) holds the token ids of one sentence; for each
// the program prints its embedding on one line, as soon as the line has been read.

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "kiln/driver/buffer.h"
#include "kiln/engine/inference_session.h"
#include "kiln/engine/model.h"

namespace {

using kiln::driver::Buffer;

/// The token ids of one line; `place` names the line in errors.
std::vector<std::int64_t> parse_ids(const std::string& line, const std::string& place) {
  std::istringstream words(line);
  std::vector<std::int64_t> ids;
  for (std::string word; words >> word;) {
    std::int64_t id = 0;
    const char* end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data(), end, id);
    if (error == std::errc::result_out_of_range && stop == end)
      throw std::runtime_error(place + ": '" + word + "' does not fit into a token id of 64 bits.");
    if (error != std::errc() || stop != end)
      throw std::runtime_error(place + ": '" + word +
                               "' is not a token id; a line is a list of integers.");
    ids.push_back(id);
  }
  return ids;
}

void embed_lines(kiln::engine::Model& model, std::istream& lines, const std::string& name) {
  std::int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string place = name + ", line " + std::to_string(++number);
    const std::vector<std::int64_t> ids = parse_ids(line, place);
    if (ids.empty()) continue;
    const auto length = static_cast<std::int64_t>(ids.size());
    const std::vector<std::int64_t> mask(ids.size(), 1);
    std::vector<Buffer> outputs;
    try {
      outputs =
          model.execute({Buffer::copy_of(ids, {1, length}), Buffer::copy_of(mask, {1, length})});
    } catch (const std::exception& error) {
      throw std::runtime_error(place + ": " + error.what());
    }
    const auto* values = static_cast<const float*>(outputs[0].data());
    for (std::int64_t i = 0; i < outputs[0].num_elements(); ++i)
      std::printf(i == 0 ? "%.7f" : " %.7f", static_cast<double>(values[i]));
    std::printf("\n");
    if (std::fflush(stdout) != 0) throw std::runtime_error("Cannot write to standard output.");
  }
  // A folder opens like a file and fails at the first read.
  if (lines.bad() || !lines.eof()) throw std::runtime_error("Cannot read '" + name + "'.");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: cpp_embed ARTIFACT.mef TOKENS.txt\n");
    return 2;
  }
  try {
    kiln::engine::Model model = kiln::engine::InferenceSession().load(argv[1]);
    const std::string name = argv[2];
    if (name == "-") {
      embed_lines(model, std::cin, "standard input");
    } else {
      std::ifstream file(name);
      if (!file) throw std::runtime_error("Cannot read '" + name + "'.");
      embed_lines(model, file, name);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
