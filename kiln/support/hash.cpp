#include "kiln/support/hash.h"

#include <cstdlib>
#include <new>

#include "kiln/support/format.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kiln {

std::string Hash128::to_string() const { return format("{:016x}{:016x}", high, low); }

std::uint64_t hash64(const void* data, std::size_t size, std::uint64_t seed) {
  return XXH3_64bits_withSeed(data, size, seed);
}

Hash128 hash128(const void* data, std::size_t size) {
  const XXH128_hash_t hash = XXH3_128bits(data, size);
  return {hash.low64, hash.high64};
}

struct Hasher::State {
  XXH3_state_t state;  // aligned to 64 bytes
};

Hasher::Hasher() : state_(new State) { XXH3_128bits_reset(&state_->state); }
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;
Hasher::~Hasher() = default;

Hasher& Hasher::add_bytes(const void* data, std::size_t size) {
  if (size > 0) XXH3_128bits_update(&state_->state, data, size);
  return *this;
}

Hash128 Hasher::finish128() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->state);
  return {hash.low64, hash.high64};
}

std::uint64_t Hasher::finish64() const { return finish128().low; }

}  // namespace kiln
