#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

#include "kiln/runtime/abi.h"
#include "kiln/runtime/artifact_format.h"
#include "kiln/runtime/checksum.h"
#include "kiln/support/environment.h"
#include "kiln/support/format.h"

namespace kiln::runtime {
namespace format_v1 {
namespace {

void put(std::byte* at, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) at[i] = static_cast<std::byte>(value >> (8 * i));
}

std::int64_t time_stamp() {
  if (const char* text = std::getenv("SOURCE_DATE_EPOCH"); text != nullptr && *text != '\0') {
    char* end = nullptr;
    const long long value = std::strtoll(text, &end, 10);
    if (*end == '\0') return value;
  }
  return static_cast<std::int64_t>(std::time(nullptr));
}

std::uint64_t length_of(const SectionSource& section) {
  std::uint64_t length = 0;
  for (const Piece& piece : section.pieces)
    length = std::max(length, piece.offset + piece.bytes.size());
  return length;
}

std::uint64_t checksum_of(const SectionSource& section, std::uint64_t padding) {
  Checksum sum;
  sum.add_zeros(padding);
  std::uint64_t at = 0;
  for (const Piece& piece : section.pieces) {
    sum.add_zeros(piece.offset - at);
    sum.add(piece.bytes);
    at = piece.offset + piece.bytes.size();
  }
  return sum.value();
}

}  // namespace

std::string locations_text(const std::vector<ProgramLocation>& locations) {
  nlohmann::json list = nlohmann::json::array();
  for (const ProgramLocation& location : locations)
    list.push_back({{"graph", location.graph}, {"op", location.op}, {"text", location.text}});
  // Source lines are quoted as they are in the user's file, whatever their encoding.
  return list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Layout lay_out(ArtifactHeader header, std::vector<SectionSource> sections) {
  for (SectionSource& section : sections) section.info.length = length_of(section);
  // The offsets stand in the header, whose length moves the offsets: place the sections for a
  // guessed length until the guess holds. Lengths only grow, so that ends.
  std::string text;
  std::uint64_t total = 0;
  std::uint64_t guess = 0;
  while (true) {
    header.sections.clear();
    std::uint64_t end = kPrefixBytes + guess;
    for (const SectionSource& section : sections) {
      SectionInfo info = section.info;
      info.offset = align_up(end, section_alignment(info.kind));
      end = info.offset + info.length;
      header.sections.push_back(std::move(info));
    }
    total = end;
    text = header_text(header);  // a checksum has a fixed number of digits
    if (text.size() <= guess) break;
    guess = text.size();
  }
  text.resize(guess, ' ');

  Layout layout;
  layout.total = total;
  std::uint64_t end = kPrefixBytes + guess;
  for (std::size_t i = 0; i < sections.size(); ++i) {
    SectionInfo& info = header.sections[i];
    info.checksum = checksum_of(sections[i], info.offset - end);
    end = info.offset + info.length;
    for (const Piece& piece : sections[i].pieces)
      layout.pieces.push_back({info.offset + piece.offset, piece.bytes});
  }
  text = header_text(header);
  text.resize(guess, ' ');

  layout.head.resize(kPrefixBytes + guess);
  std::byte* head = layout.head.data();
  std::memcpy(head, kMagic, sizeof kMagic);
  put(head + 8, kFormatMajor, 2);
  put(head + 10, kFormatMinor, 2);
  put(head + 12, guess, 4);
  put(head + 16, total, 8);
  std::memcpy(head + kPrefixBytes, text.data(), guess);
  put(head + 24, checksum(std::span(layout.head).subspan(kPrefixBytes)), 8);
  return layout;
}

Layout lay_out(const ArtifactContents& contents, std::vector<std::string>& storage) {
  const bool with_ir = environment_flag("KILN_MEF_IR", true);

  ArtifactHeader header;
  header.kiln_version = KILN_VERSION;
  header.runtime_interface = KILN_ABI_VERSION;
  header.created_at = time_stamp();
  header.graphs = contents.graphs;
  header.weights = contents.weights;

  std::vector<SectionSource> sections;
  auto add = [&](std::string kind, std::span<const std::byte> bytes) -> SectionSource& {
    return sections.emplace_back(
        SectionSource{.info = {.kind = std::move(kind)}, .pieces = {{0, bytes}}});
  };
  auto add_text = [&](std::string kind, std::string text) {
    storage.push_back(std::move(text));
    add(std::move(kind), std::as_bytes(std::span(storage.back())));
  };
  storage.reserve(3);  // the sections refer to its strings
  for (const CodeImage& image : contents.images) {
    add("code.cpu", image.elf).info.target = static_cast<std::uint32_t>(header.targets.size());
    header.targets.push_back(image.target);
  }
  if (!contents.constants.empty()) add("constants", contents.constants);
  if (with_ir && !contents.locations.empty())
    add_text("locations", locations_text(contents.locations));
  if (!contents.plan_json.empty()) add_text("plan", contents.plan_json);
  if (with_ir && !contents.ir_text.empty()) add_text("ir", contents.ir_text);
  return lay_out(std::move(header), std::move(sections));
}

}  // namespace format_v1

std::vector<std::byte> write_artifact(const ArtifactContents& contents) {
  std::vector<std::string> storage;
  const format_v1::Layout layout = format_v1::lay_out(contents, storage);
  std::vector<std::byte> bytes(layout.total);
  std::memcpy(bytes.data(), layout.head.data(), layout.head.size());
  for (const format_v1::Piece& piece : layout.pieces)
    if (!piece.bytes.empty())
      std::memcpy(bytes.data() + piece.offset, piece.bytes.data(), piece.bytes.size());
  return bytes;
}

}  // namespace kiln::runtime
