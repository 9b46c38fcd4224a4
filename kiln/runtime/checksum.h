#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace kiln::runtime {

/// XXH3-64 of bytes that come in pieces.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  void add(std::span<const std::byte> bytes);
  void add_zeros(std::uint64_t count);
  std::uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// XXH3-64.
std::uint64_t checksum(std::span<const std::byte> bytes);

/// XXH3-128 as 32 hexadecimal digits.
struct Digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
};
Digest digest(std::span<const std::byte> bytes);

}  // namespace kiln::runtime
