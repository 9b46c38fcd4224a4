#include "kiln/runtime/artifact.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <random>

#include "kiln/runtime/abi.h"
#include "kiln/runtime/checksum.h"
#include "kiln/runtime/image.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "programs.h"

namespace kiln::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string refusal(std::span<const std::byte> bytes) {
  try {
    (void)Artifact::from_bytes(bytes, "m.mef");
  } catch (const RuntimeError& error) {
    return error.what();
  }
  return "";
}

void put(std::vector<std::byte>& bytes, std::size_t at, std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes[at + i] = static_cast<std::byte>(value >> (8 * i));
}

std::uint64_t get(const std::vector<std::byte>& bytes, std::size_t at, int count) {
  std::uint64_t value = 0;
  for (int i = 0; i < count; ++i)
    value |= static_cast<std::uint64_t>(std::to_integer<int>(bytes[at + i])) << (8 * i);
  return value;
}

void repair_header(std::vector<std::byte>& bytes) {
  const std::uint64_t length = std::min<std::uint64_t>(get(bytes, 12, 4), bytes.size() - 32);
  put(bytes, 24, checksum(std::span(bytes).subspan(32, length)), 8);
}

/// The file with `from` in its header replaced by `to`, which has the same length.
std::vector<std::byte> edited(std::vector<std::byte> bytes, const std::string& from,
                              const std::string& to) {
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  EXPECT_EQ(from.size(), to.size());
  std::memcpy(bytes.data() + at, to.data(), to.size());
  repair_header(bytes);
  return bytes;
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kiln-test-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

void save(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

TEST(Artifact, KeepsWhatTheCompilerMade) {
  ArtifactContents contents = test::rich_contents();
  // (x + y - 4) // 5 is an output dim that only an expression can name.
  contents.graphs[0].outputs[0].shape = {
      (graph::Dim("n") * graph::Dim("n") + graph::Dim(-4)).floor_div(graph::Dim(5)), 3};
  const auto artifact = Artifact::from_bytes(write_artifact(contents), "m.mef");
  const ArtifactHeader& header = artifact->header();
  EXPECT_EQ(header.runtime_interface, KILN_ABI_VERSION);
  ASSERT_EQ(header.graphs.size(), 4u);
  EXPECT_EQ(header.graphs[0].name, "add_one");
  EXPECT_EQ(header.graphs[0].run_symbol, "add_one_run");
  EXPECT_THAT(header.graphs[0].symbols, ElementsAre("n"));
  EXPECT_EQ(header.graphs[0].inputs[0].shape, graph::Shape{graph::Dim("n")});
  EXPECT_EQ(header.graphs[0].outputs[0].shape, contents.graphs[0].outputs[0].shape);
  EXPECT_EQ(header.graphs[2].init_symbol, "scaled_init");
  EXPECT_EQ(header.graphs[2].prepared_slots, 1u);
  EXPECT_THAT(header.graphs[2].weights, ElementsAre(0u));
  EXPECT_EQ(header.weights[0].name, "w");
  EXPECT_EQ(header.weights[0].alignment, 16);
  EXPECT_EQ(header.targets[0].triple, contents.images[0].target.triple);
  EXPECT_EQ(std::ranges::equal(artifact->section("code.cpu"), contents.images[0].elf), true);
  EXPECT_EQ(std::ranges::equal(artifact->section("constants"), contents.constants), true);
  const auto ir = artifact->section("ir");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(ir.data()), ir.size()), contents.ir_text);
  EXPECT_EQ(artifact->location(0)->text, "squares.py:3");
  EXPECT_EQ(artifact->location(0)->op, "mul");
  EXPECT_FALSE(artifact->location(1));
  EXPECT_FALSE(artifact->location(-1));
  EXPECT_THAT(artifact->kernel_summaries("add_one"), ElementsAre("add"));
  EXPECT_TRUE(artifact->kernel_summaries("scaled").empty());
  EXPECT_FALSE(artifact->carried_weight(0));
}

TEST(Artifact, NamesWhatKernelsAreMadeOf) {
  ArtifactContents contents = test::rich_contents();
  contents.plan_json = R"({"kernels": [{"graph": "add_one", "ops": ["matmul", "relu"]},
                                       {"graph": "add_one", "ops": ["add"]},
                                       {"graph": "scaled", "ops": ["mul"]}, 7]})";
  const auto artifact = Artifact::from_contents(contents);
  EXPECT_THAT(artifact->kernel_summaries("add_one"), ElementsAre("Epilogue(matmul, relu)", "add"));
  contents.plan_json = "[1, 2";
  EXPECT_TRUE(Artifact::from_contents(contents)->kernel_summaries("add_one").empty());
}

TEST(Artifact, LaysSectionsOutAsTheFormatSays) {
  const std::vector<std::byte> bytes = write_artifact(test::rich_contents());
  EXPECT_EQ(std::memcmp(bytes.data(), "KILNMEF\n", 8), 0);
  EXPECT_EQ(get(bytes, 8, 2), 1u);
  EXPECT_EQ(get(bytes, 10, 2), 0u);
  EXPECT_EQ(get(bytes, 16, 8), bytes.size());
  const auto artifact = Artifact::from_bytes(bytes, "m.mef");
  std::uint64_t end = 32 + get(bytes, 12, 4);
  for (const SectionInfo& section : artifact->header().sections) {
    EXPECT_EQ(section.offset % (section.kind == "constants" ? 4096 : 64), 0u) << section.kind;
    EXPECT_EQ(section.checksum,
              checksum(std::span(bytes).subspan(end, section.offset + section.length - end)));
    end = section.offset + section.length;
  }
  EXPECT_EQ(end, bytes.size());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(artifact->section("constants").data()) % 4096, 0u);
}

TEST(Artifact, EqualContentsGiveEqualBytesUnderSourceDateEpoch) {
  ::setenv("SOURCE_DATE_EPOCH", "1234567890", 1);
  const auto first = write_artifact(test::rich_contents());
  EXPECT_EQ(first, write_artifact(test::rich_contents()));
  EXPECT_EQ(Artifact::from_bytes(first, "m")->header().created_at, 1234567890);
  ::unsetenv("SOURCE_DATE_EPOCH");
}

TEST(Artifact, LeavesOutIrAndLocationsOnRequest) {
  ::setenv("KILN_MEF_IR", "0", 1);
  const auto artifact = Artifact::from_contents(test::rich_contents());
  ::unsetenv("KILN_MEF_IR");
  EXPECT_TRUE(artifact->section("ir").empty());
  EXPECT_TRUE(artifact->section("locations").empty());
  EXPECT_FALSE(artifact->section("plan").empty());
}

TEST(Artifact, RefusesNamesThatAreNotText) {
  ArtifactContents contents = test::rich_contents();
  contents.graphs[0].name = "\xFF";
  EXPECT_THROW(write_artifact(contents), ValueError);
}

TEST(Artifact, CarriesWeights) {
  const TemporaryFolder folder;
  const auto artifact = Artifact::from_contents(test::rich_contents());
  const float values[4] = {1.5f, -2.0f, 3.0f, 0.25f};
  artifact->write(folder.file("w.mef"), {{0, std::as_bytes(std::span(values))}});
  const auto read = Artifact::read(folder.file("w.mef"));
  const auto carried = read->carried_weight(0);
  ASSERT_TRUE(carried);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(carried->data()) % 64, 0u);
  EXPECT_EQ(carried->size(), sizeof values);
  EXPECT_EQ(std::memcmp(carried->data(), values, sizeof values), 0);
  EXPECT_TRUE(std::ranges::equal(read->section("code.cpu"), artifact->section("code.cpu")));
  // What is read keeps its weights when it is written again.
  read->write(folder.file("again.mef"));
  EXPECT_TRUE(Artifact::read(folder.file("again.mef"))->carried_weight(0));
}

TEST(Artifact, WritesByRename) {
  const TemporaryFolder folder;
  const auto artifact = Artifact::from_contents(test::rich_contents());
  save(folder.file("m.mef"), {});
  artifact->write(folder.file("m.mef"));
  EXPECT_TRUE(std::ranges::equal(test::file_bytes(folder.file("m.mef")), artifact->bytes()));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.file("")), {}), 1);
  EXPECT_THAT([&] { artifact->write(folder.file("missing/m.mef")); },
              ::testing::ThrowsMessage<RuntimeError>(
                  StartsWith("cannot write '" + folder.file("missing/m.mef") + "': No such file")));
}

TEST(Artifact, RefusesFilesThatCannotBeRead) {
  const TemporaryFolder folder;
  const std::string path = folder.file("none.mef");
  EXPECT_THAT([&] { (void)Artifact::read(path); },
              ::testing::ThrowsMessage<RuntimeError>("cannot read '" + path +
                                                     "': No such file or directory"));
  EXPECT_THAT([&] { (void)Artifact::read(folder.file("")); },
              ::testing::ThrowsMessage<RuntimeError>(HasSubstr("': Is a directory")));
}

TEST(Artifact, RefusesWithTheSentencesOfTheFormat) {
  const std::vector<std::byte> good = write_artifact(test::rich_contents());
  ASSERT_EQ(refusal(good), "");

  std::vector<std::byte> bytes = good;
  bytes[3] = std::byte{'X'};
  EXPECT_EQ(refusal(bytes), "'m.mef' is not a MEF file");
  EXPECT_EQ(refusal({}), "'m.mef' is not a MEF file");

  bytes = good;
  bytes.resize(bytes.size() - 5);
  EXPECT_EQ(refusal(bytes), format("'m.mef' is truncated: it should have {} bytes but has {}",
                                   good.size(), good.size() - 5));
  bytes = good;
  bytes.resize(bytes.size() + 3);
  EXPECT_EQ(refusal(bytes), format("'m.mef' has {} bytes, more than the {} it states",
                                   good.size() + 3, good.size()));
  bytes = good;
  bytes[100] ^= std::byte{1};
  EXPECT_EQ(refusal(bytes), "'m.mef' is corrupted: the checksum of the header does not match");
  bytes = good;
  bytes.back() ^= std::byte{1};
  EXPECT_EQ(refusal(bytes), "'m.mef' is corrupted: the checksum of section ir does not match");
  // Padding belongs to the section behind it.
  const auto artifact = Artifact::from_bytes(good, "m.mef");
  for (const SectionInfo& section : artifact->header().sections)
    if (section.kind == "constants") {
      bytes = good;
      bytes[section.offset - 1] ^= std::byte{1};
    }
  EXPECT_EQ(refusal(bytes),
            "'m.mef' is corrupted: the checksum of section constants does not match");

  bytes = good;
  put(bytes, 8, 2, 2);
  EXPECT_EQ(refusal(bytes), "'m.mef' uses MEF format 2.0; this kiln reads 1.0 to 1.0");
  bytes = good;
  put(bytes, 10, 7, 2);
  EXPECT_EQ(refusal(bytes), "'m.mef' uses MEF format 1.7; this kiln reads 1.0 to 1.0");

  EXPECT_THAT(refusal(edited(good, "\"created_at\"", "\"created_aX\"")),
              StartsWith("'m.mef' is corrupted: "));
  EXPECT_THAT(refusal(edited(good, "\"dtype\":\"f32\"", "\"dtype\":\"f99\"")),
              StartsWith("'m.mef' is corrupted: unknown dtype 'f99'"));
}

TEST(Artifact, RefusesHeadersThatContradictThemselves) {
  const std::vector<std::byte> good = write_artifact(test::rich_contents());
  // Two keys of one name, keys out of order, unknown symbols, indices that lead nowhere.
  EXPECT_THAT(refusal(edited(good, "\"kernels\"", "\"graphs\" ")),
              StartsWith("'m.mef' is corrupted"));
  EXPECT_THAT(refusal(edited(good, "\"symbols\":[\"n\"]", "\"symbols\":[\"m\"]")),
              HasSubstr("does not list its symbol 'n'"));
  EXPECT_THAT(refusal(edited(good, "\"weights\":[0]", "\"weights\":[9]")),
              HasSubstr("uses weight 9 of 1"));
  EXPECT_THAT(refusal(edited(good, "\"align\":16", "\"align\":17")), HasSubstr("alignment 17"));
  EXPECT_THAT(refusal(edited(good, "\"target\":0", "\"target\":3")), HasSubstr("names no target"));
}

TEST(Artifact, SurvivesDeepAndHugeHeaders) {
  std::vector<std::byte> bytes(32 + 1'000'000, std::byte{'['});
  std::memcpy(bytes.data(), "KILNMEF\n", 8);
  put(bytes, 8, 1, 2);
  put(bytes, 10, 0, 2);
  put(bytes, 12, 1'000'000, 4);
  put(bytes, 16, bytes.size(), 8);
  repair_header(bytes);
  EXPECT_THAT(refusal(bytes), HasSubstr("too many nested values"));
  put(bytes, 12, 0xFFFFFFFF, 4);
  EXPECT_THAT(refusal(bytes), StartsWith("'m.mef' is truncated"));
}

TEST(Artifact, RefusesEveryTruncation) {
  const std::vector<std::byte> good = write_artifact(test::rich_contents());
  for (std::size_t length = 0; length < good.size(); ++length) {
    const std::string text = refusal(std::span(good).first(length));
    ASSERT_NE(text, "") << length;
  }
}

TEST(Artifact, RefusesEveryChangedByte) {
  std::vector<std::byte> bytes = write_artifact(test::rich_contents());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (std::byte flip : {std::byte{1}, std::byte{0x80}}) {
      bytes[at] ^= flip;
      ASSERT_NE(refusal(bytes), "") << at;
      bytes[at] ^= flip;
    }
  }
  EXPECT_EQ(refusal(bytes), "");
}

/// Number of damaged files to try; KILN_TEST_MUTATIONS raises it.
int mutations() {
  const char* text = std::getenv("KILN_TEST_MUTATIONS");
  return text != nullptr ? std::atoi(text) : 1000;
}

/// Changes a few bytes, moves or removes a stretch, as damage and a hand with a hex editor do.
void damage(std::vector<std::byte>& bytes, std::size_t begin, std::size_t end,
            std::mt19937& random) {
  static const std::string kPieces[] = {"\"",
                                        "[",
                                        "]",
                                        "{",
                                        "}",
                                        ",",
                                        ":",
                                        "-1",
                                        "null",
                                        "1e9",
                                        "18446744073709551615",
                                        "9223372036854775807",
                                        "\\u0000",
                                        "\xC3\x28",
                                        "[[[[",
                                        "\"offset\":0",
                                        "\"length\":0"};
  const int changes = 1 + static_cast<int>(random() % 3);
  for (int i = 0; i < changes; ++i) {
    const std::size_t at = begin + random() % (end - begin);
    switch (random() % 4) {
      case 0:
        bytes[at] = static_cast<std::byte>(random());
        break;
      case 1: {
        const std::string& piece = kPieces[random() % std::size(kPieces)];
        std::memcpy(bytes.data() + at, piece.data(), std::min(piece.size(), end - at));
        break;
      }
      case 2: {  // a digit becomes another digit
        for (std::size_t j = at; j < end; ++j)
          if (bytes[j] >= std::byte{'0'} && bytes[j] <= std::byte{'9'}) {
            bytes[j] = static_cast<std::byte>('0' + random() % 10);
            break;
          }
        break;
      }
      default: {
        const std::size_t from = begin + random() % (end - begin);
        const std::size_t length = std::min({random() % 40, end - at, end - from});
        std::memmove(bytes.data() + at, bytes.data() + from, length);
      }
    }
  }
}

/// Reads and looks at everything, as a program would.
bool look_at(std::span<const std::byte> bytes) {
  const HeaderReport report = read_header(bytes, "m.mef");
  if (report.header) (void)machine_reasons(*report.header, "m.mef");
  try {
    const auto artifact = Artifact::from_bytes(bytes, "m.mef");
    for (std::size_t i = 0; i < artifact->header().weights.size(); ++i)
      (void)artifact->carried_weight(i);
    (void)artifact->location(0);
    for (const GraphSignature& graph : artifact->header().graphs)
      (void)artifact->kernel_summaries(graph.name);
    const auto image = load_image(artifact);
    for (const GraphSignature& graph : artifact->header().graphs)
      (void)image->symbol(graph.run_symbol);
    return true;
  } catch (const RuntimeError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'m.mef'"));
    return false;
  }
}

TEST(Artifact, DamagedFilesNeverCrashTheReader) {
  const std::vector<std::byte> good = write_artifact(test::rich_contents());
  const std::size_t header_end = 32 + get(good, 12, 4);
  std::mt19937 random(20240607);
  int accepted = 0;
  for (int i = 0; i < mutations(); ++i) {
    std::vector<std::byte> bytes = good;
    damage(bytes, 0, bytes.size(), random);
    accepted += look_at(bytes) && bytes != good ? 1 : 0;
  }
  EXPECT_EQ(accepted, 0);
  for (int i = 0; i < mutations(); ++i) {
    std::vector<std::byte> bytes = good;
    damage(bytes, 32, header_end, random);
    repair_header(bytes);
    (void)look_at(bytes);
  }
  for (int i = 0; i < mutations(); ++i) {  // the fixed fields before the header, too
    std::vector<std::byte> bytes = good;
    damage(bytes, 8, 32, random);
    repair_header(bytes);
    (void)look_at(bytes);
  }
}

TEST(HeaderReport, NamesEveryFailingCondition) {
  const TemporaryFolder folder;
  std::vector<std::byte> bytes = write_artifact(test::rich_contents());
  save(folder.file("m.mef"), bytes);
  HeaderReport report = read_header(folder.file("m.mef"));
  EXPECT_TRUE(report.readable);
  EXPECT_TRUE(report.reasons.empty());
  ASSERT_TRUE(report.header);
  EXPECT_TRUE(machine_reasons(*report.header, "m.mef").empty());

  bytes = edited(bytes, "\"runtime_interface\":2", "\"runtime_interface\":9");
  bytes = edited(bytes, "\"sse2\"", "\"foo2\"");
  report = read_header(bytes, "m.mef");
  EXPECT_TRUE(report.readable);
  const std::vector<std::string> reasons = machine_reasons(*report.header, "m.mef");
  ASSERT_EQ(reasons.size(), 2u);
  EXPECT_EQ(reasons[0],
            format("'m.mef' was built by kiln {} for runtime interface 9; this kiln has {}",
                   report.header->kiln_version, KILN_ABI_VERSION));
  EXPECT_EQ(reasons[1], "'m.mef' needs a CPU with foo2; this machine lacks foo2");

  bytes.resize(bytes.size() - 1);
  bytes[40] ^= std::byte{1};
  report = read_header(bytes, "m.mef");
  EXPECT_FALSE(report.readable);
  EXPECT_THAT(report.reasons,
              ElementsAre(StartsWith("'m.mef' is truncated"), HasSubstr("checksum of the header")));
}

TEST(HeaderReport, ReadsNoSection) {
  std::vector<std::byte> bytes = write_artifact(test::rich_contents());
  bytes.back() ^= std::byte{1};
  EXPECT_TRUE(read_header(bytes, "m.mef").reasons.empty());
}

}  // namespace
}  // namespace kiln::runtime
