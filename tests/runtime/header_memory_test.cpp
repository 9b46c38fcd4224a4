// Headers that ask for much memory with few bytes. The reader may allocate the length of the file
// and 1 MiB before it has decided; this program's operator new counts what it takes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>

#include "kiln/runtime/artifact.h"
#include "kiln/runtime/checksum.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "programs.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<std::int64_t> present{0};
std::atomic<std::int64_t> highest{0};

void add(std::int64_t bytes) {
  const std::int64_t now = present += bytes;
  std::int64_t before = highest;
  while (now > before && !highest.compare_exchange_weak(before, now)) {
  }
}

}  // namespace

void* operator new(std::size_t bytes) {
  void* memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  if (counting) add(static_cast<std::int64_t>(::malloc_usable_size(memory)));
  return memory;
}
void operator delete(void* memory) noexcept {
  if (memory != nullptr && counting) add(-static_cast<std::int64_t>(::malloc_usable_size(memory)));
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }

namespace kiln::runtime {
namespace {

/// What `read` allocates at once at most, in bytes.
template <typename Read>
std::int64_t memory_of(const Read& read) {
  present = highest = 0;
  counting = true;
  read();
  counting = false;
  return highest;
}

/// A file without sections around a header.
std::vector<std::byte> file_of(const std::string& header) {
  std::vector<std::byte> bytes(32 + header.size());
  auto put = [&](std::size_t at, std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i)
      bytes[at + static_cast<std::size_t>(i)] = static_cast<std::byte>(value >> (8 * i));
  };
  std::memcpy(bytes.data(), "KILNMEF\n", 8);
  put(8, 1, 2);
  put(12, header.size(), 4);
  put(16, bytes.size(), 8);
  std::memcpy(bytes.data() + 32, header.data(), header.size());
  put(24, checksum(std::span(bytes).subspan(32)), 8);
  return bytes;
}

std::string repeated(const std::string& item, std::size_t count) {
  std::string list = "[";
  for (std::size_t i = 0; i < count; ++i) list += (i > 0 ? "," : "") + item;
  return list + "]";
}

std::string header_with(const std::string& graphs, const std::string& kernels,
                        const std::string& cpu_targets, const std::string& weights,
                        const std::string& kiln = "\"1\"", const std::string& sections = "[]",
                        const std::string& more = "") {
  return "{\"created_at\":1,\"graphs\":" + graphs + ",\"kernels\":" + kernels +
         ",\"kiln\":" + kiln + ",\"runtime_interface\":1,\"sections\":" + sections +
         ",\"targets\":{\"accelerators\":[],\"cpu\":" + cpu_targets + "},\"weights\":" + weights +
         more + "}";
}

std::string graph_with(const std::string& inputs, const std::string& symbols = "[]") {
  return "{\"inputs\":" + inputs +
         ",\"name\":\"g\",\"outputs\":[],\"prepared\":0,\"run\":\"r\",\"symbols\":" + symbols +
         ",\"weights\":[]}";
}

std::string input_of(const std::string& shape) {
  return "[{\"device\":\"cpu:0\",\"dtype\":\"f32\",\"name\":\"x\",\"shape\":" + shape + "}]";
}

std::vector<std::pair<std::string, std::string>> hostile_headers() {
  const std::string weight =
      "{\"align\":1,\"device\":\"cpu:0\",\"dtype\":\"f32\",\"name\":\"\",\"shape\":[1,1,1,1,1,1,1,"
      "1]}";
  const std::string target = "{\"cpu\":\"\",\"features\":[],\"level\":\"\",\"triple\":\"\"}";
  const std::string names = repeated("\"\"", 65536);
  std::string symbols = "[";
  for (int i = 0; i < 60000; ++i) symbols += format("{}\"s{}\"", i > 0 ? "," : "", i);
  symbols += "]";
  const std::string huge(4 << 20, 'x');
  const std::string sum = "[" + repeated("[1,\"a\"]", 100000) + "]";
  std::string terms = "[[";
  for (int i = 0; i < 50000; ++i) terms += format("{}[1,\"s{}\"]", i > 0 ? "," : "", i);
  terms += "]]";
  const std::string product = "[[[1" + [] {
    std::string atoms;
    for (int i = 0; i < 100000; ++i) atoms += ",\"a\"";
    return atoms;
  }() + "]]]";
  return {
      {"empty names", header_with("[]", names, "[]", "[]")},
      {"empty names in many lists",
       header_with(
           "[]", "[]",
           repeated("{\"cpu\":\"\",\"features\":" + names + ",\"level\":\"\",\"triple\":\"\"}", 20),
           "[]")},
      {"targets", header_with("[]", "[]", repeated(target, 65000), "[]")},
      {"weights", header_with("[]", "[]", "[]", repeated(weight, 65000))},
      {"graphs", header_with(repeated(graph_with("[]"), 65000), "[]", "[]", "[]")},
      {"symbols", header_with("[" + graph_with("[]", symbols) + "]", "[]", "[]", "[]")},
      {"a sum", header_with("[" + graph_with(input_of(sum)) + "]", "[]", "[]", "[]")},
      {"a long sum", header_with("[" + graph_with(input_of(terms)) + "]", "[]", "[]", "[]")},
      {"a product", header_with("[" + graph_with(input_of(product)) + "]", "[]", "[]", "[]")},
      {"a long name", header_with("[]", "[\"" + huge + "\"]", "[]", "[]")},
      {"a long version", header_with("[]", "[]", "[]", "[]", "\"" + huge + "\"")},
      {"a long symbol",
       header_with("[" + graph_with(input_of("[\"" + huge + "\"]")) + "]", "[]", "[]", "[]")},
      {"a long key", header_with("[]", "[]", "[]", "[]", "\"1\"", "[]", ",\"x" + huge + "\":0")},
      {"a long dtype", header_with("[]", "[]", "[]",
                                   "[{\"align\":1,\"device\":\"cpu:0\",\"dtype\":\"" + huge +
                                       "\",\"name\":\"\",\"shape\":[]}]")},
  };
}

TEST(ArtifactMemory, OfAHostileHeaderStaysNearTheFilesLength) {
  std::string pattern = (std::filesystem::temp_directory_path() / "kiln-test-XXXXXX").string();
  const std::filesystem::path folder = ::mkdtemp(pattern.data());
  const std::string path = (folder / "m.mef").string();
  for (const auto& [name, header] : hostile_headers()) {
    const std::vector<std::byte> bytes = file_of(header);
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    const auto limit = static_cast<std::int64_t>(bytes.size()) + (1 << 20);
    auto refused = [&](const auto& read) {
      try {
        read();
      } catch (const RuntimeError&) {
      }
    };
    EXPECT_LE(memory_of([&] { refused([&] { (void)Artifact::from_bytes(bytes, "m.mef"); }); }),
              limit)
        << name;
    EXPECT_LE(memory_of([&] { refused([&] { (void)Artifact::read(path); }); }), limit) << name;
    EXPECT_LE(memory_of([&] { refused([&] { (void)read_header(path); }); }), limit) << name;
  }
  std::filesystem::remove_all(folder);
}

TEST(ArtifactMemory, LeavesRoomForManyWeights) {
  // As many as large models have, without their data.
  ArtifactContents contents = test::rich_contents();
  for (int i = 0; i < 20000; ++i)
    contents.weights.push_back({format("model.layers.{}.self_attn.q_proj.weight", i),
                                DType::bfloat16, graph::Shape{4096, 4096}, graph::DeviceRef::CPU(),
                                64, std::nullopt});
  for (std::size_t i = 0; i < contents.weights.size(); ++i)
    contents.ir_text += format(
        "    %{} = kiln.constant.external() {{name = \"{}\"}} : tensor<[4096, 4096], bf16>\n", i,
        contents.weights[i].name);
  const auto artifact = Artifact::from_contents(contents);
  EXPECT_EQ(artifact->header().weights.size(), contents.weights.size());
}

}  // namespace
}  // namespace kiln::runtime
