// Runs a sentence encoder that was written to one file, with libkiln alone: no compiler, no Python.
//
//   cpp_embed minilm.mef tokens.txt
//
// Each line of the text file (`-` for standard input) holds the token ids of one sentence; for each
// the program prints its embedding on one line, as soon as the line has been read.

#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "kiln/driver/buffer.h"
#include "kiln/engine/inference_session.h"
#include "kiln/engine/model.h"

namespace {

using kiln::driver::Buffer;

std::vector<std::int64_t> parse_ids(const std::string& line) {
  std::istringstream words(line);
  std::vector<std::int64_t> ids;
  for (std::int64_t id; words >> id;) ids.push_back(id);
  if (!words.eof()) throw std::runtime_error("'" + line + "' is not a list of token ids.");
  return ids;
}

void embed_lines(kiln::engine::Model& model, std::istream& lines) {
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::int64_t> ids = parse_ids(line);
    if (ids.empty()) continue;
    const auto length = static_cast<std::int64_t>(ids.size());
    const std::vector<std::int64_t> mask(ids.size(), 1);
    const std::vector<Buffer> outputs =
        model.execute({Buffer::copy_of(ids, {1, length}), Buffer::copy_of(mask, {1, length})});
    const auto* values = static_cast<const float*>(outputs[0].data());
    for (std::int64_t i = 0; i < outputs[0].num_elements(); ++i)
      std::printf(i == 0 ? "%.7f" : " %.7f", static_cast<double>(values[i]));
    std::printf("\n");
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: cpp_embed ARTIFACT.mef TOKENS.txt\n");
    return 2;
  }
  try {
    kiln::engine::Model model = kiln::engine::InferenceSession().load(argv[1]);
    if (std::string(argv[2]) == "-") {
      embed_lines(model, std::cin);
    } else {
      std::ifstream file(argv[2]);
      if (!file) throw std::runtime_error("cannot read '" + std::string(argv[2]) + "'.");
      embed_lines(model, file);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
