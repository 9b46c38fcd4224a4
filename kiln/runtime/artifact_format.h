#pragma once

// The byte layout of a MEF, shared by its reader and its writer. Internal to the runtime.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/runtime/artifact.h"

namespace kiln::runtime::format_v1 {

inline constexpr unsigned char kMagic[8] = {'K', 'I', 'L', 'N', 'M', 'E', 'F', '\n'};
inline constexpr std::size_t kPrefixBytes = 32;  // magic, versions, lengths, checksum of the header
inline constexpr std::uint64_t kSectionAlignment = 64;
inline constexpr std::uint64_t kPageAlignment = 4096;  // of constants and weights

/// Alignment of a section's start in the file.
constexpr std::uint64_t section_alignment(std::string_view kind) {
  return kind == "constants" || kind == "weights" ? kPageAlignment : kSectionAlignment;
}

constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

/// What reading a file may allocate beyond its length before all checks have passed.
inline constexpr std::uint64_t kReadingMemory = 1 << 20;

/// The header as JSON with sorted keys.
std::string header_text(const ArtifactHeader& header);
/// Reads and checks a header; what does not depend on the file around it. Malformed: ValueError
/// with a clause that says what is wrong. So is a header whose contents would take more than
/// `memory` bytes.
ArtifactHeader parse_header(std::string_view text, std::uint64_t memory);

/// The text of the section `locations`.
std::string locations_text(const std::vector<ProgramLocation>& locations);

/// One piece of a section: bytes at a multiple of 64 from the section's start.
struct Piece {
  std::uint64_t offset = 0;
  std::span<const std::byte> bytes;
};

/// A section to be written.
struct SectionSource {
  SectionInfo info;  // kind, graph, target; the writer fills in the rest
  std::vector<Piece> pieces;
};

/// A file laid out: its first bytes and where each piece goes. Bytes in between are 0.
struct Layout {
  std::vector<std::byte> head;  // prefix and header
  std::vector<Piece> pieces;    // at their offsets in the file
  std::uint64_t total = 0;
};

Layout lay_out(ArtifactHeader header, std::vector<SectionSource> sections);

/// The header and sections of what the compiler made. The sections' text lives in `storage`.
Layout lay_out(const ArtifactContents& contents, std::vector<std::string>& storage);

}  // namespace kiln::runtime::format_v1
