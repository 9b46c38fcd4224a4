#include "kiln/support/hash.h"

#include <bit>
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

namespace {

constexpr std::uint32_t kRoundConstants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void add_block(std::uint32_t (&state)[8], const unsigned char* block) {
  std::uint32_t w[64];
  for (int i = 0; i < 16; ++i)
    w[i] = std::uint32_t{block[4 * i]} << 24 | std::uint32_t{block[4 * i + 1]} << 16 |
           std::uint32_t{block[4 * i + 2]} << 8 | std::uint32_t{block[4 * i + 3]};
  for (int i = 16; i < 64; ++i) {
    const std::uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) + w[i - 7] +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int i = 0; i < 64; ++i) {
    const std::uint32_t first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                                ((e & f) ^ (~e & g)) + kRoundConstants[i] + w[i];
    const std::uint32_t second =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + first;
    d = c;
    c = b;
    b = a;
    a = first + second;
  }
  const std::uint32_t sums[8] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state[i] += sums[i];
}

}  // namespace

std::string sha256(std::string_view text) {
  std::uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                            0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  // The text, a one bit, zeros, and the length in bits at the end of the last block.
  std::string padded(text);
  padded += '\x80';
  padded.resize((padded.size() + 8 + 63) / 64 * 64 - 8, '\0');
  for (int shift = 56; shift >= 0; shift -= 8)
    padded += static_cast<char>(static_cast<std::uint64_t>(text.size()) * 8 >> shift);
  for (std::size_t at = 0; at < padded.size(); at += 64)
    add_block(state, reinterpret_cast<const unsigned char*>(padded.data()) + at);
  std::string digits;
  for (std::uint32_t word : state) digits += format("{:08x}", word);
  return digits;
}

}  // namespace kiln
