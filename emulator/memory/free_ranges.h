#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace kiln::emulator {

/// Ranges of addresses that are free, merged with their neighbours; the smallest that fits is given
/// out. Not thread-safe.
class FreeRanges {
 public:
  void add(std::uint64_t first, std::uint64_t bytes);
  /// `bytes` from an address that is a multiple of `alignment` (a power of two).
  std::optional<std::uint64_t> take(std::uint64_t bytes, std::uint64_t alignment);
  /// Exactly [first, first + bytes); false when some of it is taken.
  bool take_at(std::uint64_t first, std::uint64_t bytes);
  /// The free range that holds `address`: its first address and its bytes.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> around(std::uint64_t address) const;

 private:
  using ByAddress = std::map<std::uint64_t, std::uint64_t>;  // first address -> bytes
  void insert(std::uint64_t first, std::uint64_t bytes);
  ByAddress::iterator erase(ByAddress::iterator range);
  void cut(ByAddress::iterator range, std::uint64_t first, std::uint64_t bytes);

  ByAddress ranges_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;  // (bytes, first address)
};

}  // namespace kiln::emulator
