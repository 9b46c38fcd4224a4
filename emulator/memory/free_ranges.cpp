#include "emulator/memory/free_ranges.h"

#include <iterator>

namespace kiln::emulator {

void FreeRanges::insert(std::uint64_t first, std::uint64_t bytes) {
  ranges_.emplace(first, bytes);
  by_size_.emplace(bytes, first);
}

FreeRanges::ByAddress::iterator FreeRanges::erase(ByAddress::iterator range) {
  by_size_.erase({range->second, range->first});
  return ranges_.erase(range);
}

void FreeRanges::add(std::uint64_t first, std::uint64_t bytes) {
  if (bytes == 0) return;
  auto next = ranges_.lower_bound(first);
  if (next != ranges_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == first) {
      first = before->first;
      bytes += before->second;
      erase(before);
    }
  }
  if (next != ranges_.end() && first + bytes == next->first) {
    bytes += next->second;
    erase(next);
  }
  insert(first, bytes);
}

void FreeRanges::cut(ByAddress::iterator range, std::uint64_t first, std::uint64_t bytes) {
  const auto [begin, length] = *range;
  erase(range);
  if (first > begin) insert(begin, first - begin);
  if (first + bytes < begin + length) insert(first + bytes, begin + length - first - bytes);
}

std::optional<std::uint64_t> FreeRanges::take(std::uint64_t bytes, std::uint64_t alignment) {
  for (auto it = by_size_.lower_bound({bytes, 0}); it != by_size_.end(); ++it) {
    const auto [length, begin] = *it;
    const std::uint64_t first = (begin + alignment - 1) & ~(alignment - 1);
    if (first - begin > length - bytes) continue;
    cut(ranges_.find(begin), first, bytes);
    return first;
  }
  return std::nullopt;
}

bool FreeRanges::take_at(std::uint64_t first, std::uint64_t bytes) {
  auto range = ranges_.upper_bound(first);
  if (range == ranges_.begin()) return false;
  --range;
  const std::uint64_t skipped = first - range->first;
  if (skipped > range->second || range->second - skipped < bytes) return false;
  cut(range, first, bytes);
  return true;
}

std::optional<std::pair<std::uint64_t, std::uint64_t>> FreeRanges::around(
    std::uint64_t address) const {
  auto range = ranges_.upper_bound(address);
  if (range == ranges_.begin()) return std::nullopt;
  --range;
  if (address - range->first >= range->second) return std::nullopt;
  return *range;
}

}  // namespace kiln::emulator
