#include "mutate.h"

#include <cctype>

namespace kiln::emulator_test {
namespace {

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t limit) { return limit ? random() % limit : 0; }

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t end = text.find('\n', start);
    const std::size_t stop = end == std::string::npos ? text.size() : end + 1;
    lines.push_back(text.substr(start, stop - start));
    start = stop;
  }
  return lines;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += part;
  return text;
}

bool of_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '%' || c == '$' ||
         c == '.';
}

/// Words, single signs and runs of blanks.
std::vector<std::string> tokens_of(const std::string& line) {
  std::vector<std::string> tokens;
  for (std::size_t i = 0; i < line.size();) {
    std::size_t end = i + 1;
    if (of_word(line[i])) {
      while (end < line.size() && of_word(line[end])) ++end;
    }
    tokens.push_back(line.substr(i, end - i));
    i = end;
  }
  return tokens;
}

std::string odd_number(Random& random) {
  static const char* kNumbers[] = {"0",
                                   "1",
                                   "-1",
                                   "31",
                                   "32",
                                   "64",
                                   "255",
                                   "256",
                                   "4096",
                                   "65536",
                                   "2147483647",
                                   "4294967295",
                                   "4294967296",
                                   "-2147483648",
                                   "18446744073709551615",
                                   "18446744073709551616",
                                   "0x",
                                   "0f7F800000",
                                   "0fFFC00000",
                                   "0d7FF0000000000000",
                                   "0f0",
                                   "08",
                                   "999999999999999999999999999"};
  return kNumbers[below(random, std::size(kNumbers))];
}

std::string odd_word(Random& random) {
  static const char* kWords[] = {".b8",
                                 ".b16",
                                 ".b32",
                                 ".b64",
                                 ".b128",
                                 ".f16",
                                 ".f32",
                                 ".f64",
                                 ".pred",
                                 ".u32",
                                 ".s64",
                                 ".v2",
                                 ".v4",
                                 ".v8",
                                 ".global",
                                 ".shared",
                                 ".local",
                                 ".const",
                                 ".param",
                                 ".sat",
                                 ".ftz",
                                 ".rn",
                                 ".cc",
                                 "%tid.x",
                                 "%r1",
                                 "%rd1",
                                 "%p1",
                                 "%f1",
                                 "{",
                                 "}",
                                 "(",
                                 ")",
                                 "[",
                                 "]",
                                 ";",
                                 ",",
                                 "@",
                                 "!",
                                 "bra",
                                 "ret",
                                 "call",
                                 "bar.sync",
                                 "atom",
                                 "ld",
                                 "st",
                                 ".entry",
                                 ".func",
                                 ".reg",
                                 ".visible",
                                 ".extern",
                                 ".align",
                                 "\"",
                                 "/*",
                                 "//",
                                 "add.s32",
                                 "div.u32",
                                 "shfl.sync.idx.b32",
                                 "mma.sync.aligned",
                                 ".maxntid",
                                 ".section"};
  return kWords[below(random, std::size(kWords))];
}

void change_token(std::string& line, Random& random) {
  auto tokens = tokens_of(line);
  if (tokens.empty()) return;
  std::string& token = tokens[below(random, tokens.size())];
  switch (random() % 6) {
    case 0:
      token.clear();
      break;
    case 1:
      token += token;
      break;
    case 2:
      token = odd_number(random);
      break;
    case 3:
      token = odd_word(random);
      break;
    case 4:
      std::swap(token, tokens[below(random, tokens.size())]);
      break;
    default: {
      // A word loses or changes one of its modifiers.
      const std::size_t dot = token.find('.', 1);
      if (dot != std::string::npos) token = token.substr(0, dot) + odd_word(random);
      break;
    }
  }
  line = joined(tokens);
}

bool is_register(const std::string& token) {
  return token.size() > 2 && token[0] == '%' &&
         std::isdigit(static_cast<unsigned char>(token.back()));
}

/// Changes that often leave a valid text: another register or number of the module, another type or
/// condition.
void change_meaning(std::string& line, const std::vector<std::string>& lines, Random& random) {
  static const std::string kSwaps[][2] = {{".u32", ".s32"},         {".s32", ".u32"},
                                          {".lt", ".ge"},           {".eq", ".ne"},
                                          {".ne", ".lt"},           {".gt", ".le"},
                                          {".f32", ".f64"},         {".b32", ".b64"},
                                          {".lo", ".hi"},           {".global", ""},
                                          {".shared", ""},          {".to.global", ".to.shared"},
                                          {".b64", ".v2.b32"},      {".rn", ".rz"},
                                          {"add", "sub"},           {"mul", "div"},
                                          {"shl", "shr"},           {"ld.", "atom.add."},
                                          {"bra.uni", "bra"},       {"@%p", "@!%p"},
                                          {".down", ".up"},         {"bar.sync", "bar.arrive"},
                                          {".relaxed", ".acquire"}, {"ret", "trap"}};
  if (random() % 2) {
    const auto& [from, to] = kSwaps[below(random, std::size(kSwaps))];
    const std::size_t at = line.find(from);
    if (at != std::string::npos) {
      line.replace(at, from.size(), to);
      return;
    }
  }
  auto tokens = tokens_of(line);
  const auto others = tokens_of(lines[below(random, lines.size())]);
  if (tokens.empty() || others.empty()) return;
  std::string& token = tokens[below(random, tokens.size())];
  const std::string& other = others[below(random, others.size())];
  if (is_register(token) && is_register(other) && token.substr(0, 3) == other.substr(0, 3)) {
    token = other;
  } else if (std::isdigit(static_cast<unsigned char>(token[0]))) {
    token = odd_number(random);
  }
  line = joined(tokens);
}

void change_byte(std::string& text, Random& random) {
  if (text.empty()) return;
  const std::size_t at = below(random, text.size());
  switch (random() % 4) {
    case 0:
      text[at] = static_cast<char>(random());
      break;
    case 1:
      text.erase(at, 1 + below(random, 8));
      break;
    case 2:
      text.insert(at, 1, static_cast<char>(random()));
      break;
    default:
      text.resize(at);
      break;
  }
}

}  // namespace

std::vector<std::string> small_modules(const std::vector<std::string>& texts, std::size_t largest) {
  std::vector<std::string> modules;
  for (const std::string& text : texts) {
    // Kernels stand at the outermost level and end with a brace of their own line.
    std::string rest;
    std::vector<std::string> kernels;
    const auto lines = lines_of(text);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const bool starts = lines[i].find(".entry ") != std::string::npos && lines[i][0] == '.';
      if (!starts) {
        rest += lines[i];
        continue;
      }
      std::string kernel;
      for (; i < lines.size(); ++i) {
        kernel += lines[i];
        if (lines[i][0] == '}') break;
      }
      kernels.push_back(kernel);
    }
    for (const std::string& kernel : kernels) {
      if (rest.size() + kernel.size() <= largest) modules.push_back(rest + kernel);
    }
  }
  return modules;
}

std::string mutated(const std::vector<std::string>& modules, Random& random) {
  auto lines = lines_of(modules[below(random, modules.size())]);
  const std::size_t changes = 1 + below(random, 4);
  for (std::size_t change = 0; change < changes && !lines.empty(); ++change) {
    const std::size_t at = below(random, lines.size());
    if (random() % 2) {
      change_meaning(lines[at], lines, random);
      continue;
    }
    switch (random() % 10) {
      case 0:
        lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      case 1:
        lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at), lines[at]);
        break;
      case 2:
        std::swap(lines[at], lines[below(random, lines.size())]);
        break;
      case 3: {
        const auto others = lines_of(modules[below(random, modules.size())]);
        lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at),
                     others[below(random, others.size())]);
        break;
      }
      case 4:
        change_byte(lines[at], random);
        break;
      default:
        change_token(lines[at], random);
        break;
    }
  }
  std::string text = joined(lines);
  if (random() % 40 == 0) text.resize(below(random, text.size() + 1));
  return text;
}

}  // namespace kiln::emulator_test
