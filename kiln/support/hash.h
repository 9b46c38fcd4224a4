#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace kiln {

/// A 128-bit content hash.
struct Hash128 {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
  /// 32 lower-case hexadecimal digits, the high half first.
  std::string to_string() const;
};

/// XXH3 with 64 bits.
std::uint64_t hash64(const void* data, std::size_t size, std::uint64_t seed = 0);
inline std::uint64_t hash64(std::string_view text, std::uint64_t seed = 0) {
  return hash64(text.data(), text.size(), seed);
}
/// XXH3 with 128 bits.
Hash128 hash128(const void* data, std::size_t size);
inline Hash128 hash128(std::string_view text) { return hash128(text.data(), text.size()); }

/// SHA-256 as 64 lower-case hexadecimal digits.
std::string sha256(std::string_view text);

/// XXH3 of content that comes in pieces. `add` of a text or list also adds its length, so that
/// neighbouring fields cannot run together.
class Hasher {
 public:
  Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  ~Hasher();

  Hasher& add_bytes(const void* data, std::size_t size);
  template <typename T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  Hasher& add(T value) {
    return add_bytes(&value, sizeof value);
  }
  Hasher& add(std::string_view text) {
    add(text.size());
    return add_bytes(text.data(), text.size());
  }
  Hasher& add(std::span<const std::int64_t> values) {
    add(values.size());
    return add_bytes(values.data(), values.size_bytes());
  }
  /// Of everything added so far.
  Hash128 finish128() const;
  std::uint64_t finish64() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kiln

template <>
struct std::hash<kiln::Hash128> {
  std::size_t operator()(const kiln::Hash128& hash) const noexcept { return hash.low; }
};
