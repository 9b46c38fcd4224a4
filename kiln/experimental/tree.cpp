#include "kiln/experimental/tree.h"

namespace kiln::tree {

std::string extend_path(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : path + "." + std::string(key);
}

std::string_view detail::field_name(std::string_view names, std::size_t index) {
  for (;; --index) {
    const std::size_t end = std::min(names.find(','), names.size());
    if (index == 0) {
      const std::string_view name = names.substr(0, end);
      const std::size_t first = name.find_first_not_of(' ');
      return name.substr(first, name.find_last_not_of(' ') - first + 1);
    }
    names.remove_prefix(end + 1);
  }
}

}  // namespace kiln::tree
