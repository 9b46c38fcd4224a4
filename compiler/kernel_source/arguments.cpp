#include "compiler/kernel_source/arguments.h"

#include <llvm/ADT/SmallString.h>
#include <llvm/Support/Allocator.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/Path.h>
#include <llvm/Support/StringSaver.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::compiler::kernel_source {
namespace {

std::vector<std::string> split(const std::string& text) {
  llvm::BumpPtrAllocator allocator;
  llvm::StringSaver saver(allocator);
  llvm::SmallVector<const char*, 8> words;
  llvm::cl::TokenizeGNUCommandLine(text, saver, words);
  return {words.begin(), words.end()};
}

// Spelled as Clang's own. Everything else that `cc1` knows could read or write files, load plugins
// or change the whole process.
constexpr std::array kAsTheyAre = {"-O0",
                                   "-O1",
                                   "-O2",
                                   "-O3",
                                   "-Os",
                                   "-Oz",
                                   "-w",
                                   "-pedantic",
                                   "-funroll-loops",
                                   "-fno-unroll-loops",
                                   "-fno-inline-functions"};
// The same, of those that change the language, which the headers must be read with too.
constexpr std::array kLanguage = {
    "-ffast-math",          "-fno-signed-zeros", "-fwrapv",          "-ftrapv",
    "-fno-strict-aliasing", "-ffp-contract=off", "-ffp-contract=on", "-fapprox-func",
    "-freciprocal-math",    "-funsigned-char",   "-DNDEBUG",         "-std=c++20",
    "-std=c++23",           "-std=c++26",        "-std=gnu++20",     "-std=gnu++23",
    "-std=gnu++26"};

struct Translated {
  std::string_view option;
  std::string_view frontend;  // nothing: it is so anyway
};
// Those of nvcc, and of Clang's driver. Older languages are read as C++20, which the headers need.
constexpr std::array kTranslated = std::to_array<Translated>({
    {"-g", "-debug-info-kind=limited"},
    {"-G", "-debug-info-kind=limited"},
    {"--device-debug", "-debug-info-kind=limited"},
    {"-lineinfo", "-debug-info-kind=line-directives-only"},
    {"--generate-line-info", "-debug-info-kind=line-directives-only"},
    {"-gline-tables-only", "-debug-info-kind=line-tables-only"},
    {"-gline-directives-only", "-debug-info-kind=line-directives-only"},
    {"-use_fast_math", "-ffast-math"},
    {"--use_fast_math", "-ffast-math"},
    {"-fmad=false", "-ffp-contract=off"},
    {"--fmad=false", "-ffp-contract=off"},
    {"-fmad=true", "-ffp-contract=fast-honor-pragmas"},
    {"--fmad=true", "-ffp-contract=fast-honor-pragmas"},
    {"-ffp-contract=fast", "-ffp-contract=fast-honor-pragmas"},
    {"-ftz=true", "-fdenormal-fp-math-f32=preserve-sign"},
    {"--ftz=true", "-fdenormal-fp-math-f32=preserve-sign"},
    {"-ftz=false", ""},
    {"--ftz=false", ""},
    {"-prec-div=true", ""},
    {"--prec-div=true", ""},
    {"-prec-sqrt=true", ""},
    {"--prec-sqrt=true", ""},
    {"-default-device", ""},
    {"-fno-fast-math", ""},
    {"-fno-exceptions", ""},
    {"-fno-rtti", ""},
    {"-fPIC", ""},
    {"-nocudainc", ""},
    {"-nocudalib", ""},
    {"-restrict", ""},
    {"--restrict", ""},
    {"--expt-relaxed-constexpr", ""},
    {"-std=c++11", ""},
    {"-std=c++14", ""},
    {"-std=c++17", ""},
    {"--std=c++11", ""},
    {"--std=c++14", ""},
    {"--std=c++17", ""},
    {"--std=c++20", ""},
});

bool contains(std::span<const char* const> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

[[noreturn]] void reject(std::string_view option, std::string_view where) {
  throw RuntimeError(format("compile_function: unknown option '{}' in {}", option, where));
}

std::string absolute_folder(llvm::StringRef folder) {
  llvm::SmallString<256> path = folder;
  llvm::sys::fs::make_absolute(path);
  llvm::sys::path::remove_dots(path, /*remove_dot_dot=*/true);
  return path.str().str();
}

}  // namespace

Arguments read_options(const runtime::KernelSource& source) {
  Arguments result;
  const std::vector<std::string> words = split(source.compile_options);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const llvm::StringRef text = word;
    // The value of an option that may stand in the next word.
    const auto value = [&](llvm::StringRef option) {
      if (text.size() > option.size()) return text.drop_front(option.size()).str();
      if (i + 1 == words.size()) reject(word, "compile_options, which lacks its value");
      return words[++i];
    };
    if (contains(kLanguage, word)) {
      result.language.push_back(word);
    } else if (text.starts_with("-D") || text.starts_with("-U")) {
      const llvm::StringRef option = text.take_front(2);
      result.frontend.push_back(option.str());
      result.frontend.push_back(value(option));
    } else if (text.starts_with("-I") || text == "-isystem" ||
               text.starts_with("--include-path=")) {
      const llvm::StringRef option = text.starts_with("-I") ? "-I"
                                     : text == "-isystem"   ? "-isystem"
                                                            : "--include-path=";
      result.folders.push_back(absolute_folder(value(option)));
      result.frontend.emplace_back(option == "-isystem" ? "-isystem" : "-I");
      result.frontend.push_back(result.folders.back());
    } else if (contains(kAsTheyAre, word) ||
               (text.starts_with("-W") && !text.contains(',') && !text.contains('='))) {
      result.frontend.push_back(word);
    } else {
      const auto* found = std::find_if(kTranslated.begin(), kTranslated.end(),
                                       [&](const Translated& t) { return t.option == word; });
      if (found == kTranslated.end()) reject(word, "compile_options");
      if (found->frontend.empty()) continue;
      (found->frontend.starts_with("-f") ? result.language : result.frontend)
          .emplace_back(found->frontend);
    }
  }
  // The final step takes none.
  for (const std::string& word : split(source.link_options)) reject(word, "link_options");
  return result;
}

}  // namespace kiln::compiler::kernel_source
