#include <algorithm>
#include <array>
#include <string_view>

#include "compiler/kernel_source/frontend.h"

namespace kiln::compiler::kernel_source {
namespace {

// Names of CUDA without the two underscores that most of them begin with.
constexpr std::array kWords = {
    std::string_view("asm"),     std::string_view("assert"), std::string_view("clock"),
    std::string_view("clock64"), std::string_view("dim3"),   std::string_view("warpSize"),
    std::string_view("half"),    std::string_view("half2"),  std::string_view("uint"),
};
constexpr std::array kStems = {
    std::string_view("char"),      std::string_view("uchar"), std::string_view("short"),
    std::string_view("ushort"),    std::string_view("int"),   std::string_view("uint"),
    std::string_view("long"),      std::string_view("ulong"), std::string_view("longlong"),
    std::string_view("ulonglong"), std::string_view("float"), std::string_view("double")};

}  // namespace

bool is_gpu_word(std::string_view word) {
  if (std::find(kWords.begin(), kWords.end(), word) != kWords.end()) return true;
  if (word.starts_with("__"))
    return word != "__device__" && word != "__global__" && !word.starts_with("__builtin_");
  if (word.starts_with("atomic") && word.size() > 6 && word[6] >= 'A' && word[6] <= 'Z')
    return true;
  if (word.starts_with("make_")) word.remove_prefix(5);
  if (word.empty() || word.back() < '1' || word.back() > '4') return false;
  word.remove_suffix(1);
  return std::find(kStems.begin(), kStems.end(), word) != kStems.end();
}

}  // namespace kiln::compiler::kernel_source
