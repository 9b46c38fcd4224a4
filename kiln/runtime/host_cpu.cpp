#include "kiln/runtime/host_cpu.h"

#include <algorithm>
#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace kiln::runtime {

#if defined(__x86_64__)
namespace {

enum Register { eax, ebx, ecx, edx };

/// What the operating system must save for a feature to be usable.
enum class State { none, avx, avx512, amx };

struct Feature {
  const char* name;
  std::uint32_t leaf;
  std::uint32_t subleaf;
  Register reg;
  int bit;
  State state = State::none;
};

// Names as LLVM spells them; bits from the processor manuals.
constexpr Feature kFeatures[] = {
    {"cx8", 1, 0, edx, 8},
    {"cmov", 1, 0, edx, 15},
    {"mmx", 1, 0, edx, 23},
    {"fxsr", 1, 0, edx, 24},
    {"sse", 1, 0, edx, 25},
    {"sse2", 1, 0, edx, 26},
    {"sse3", 1, 0, ecx, 0},
    {"pclmul", 1, 0, ecx, 1},
    {"ssse3", 1, 0, ecx, 9},
    {"fma", 1, 0, ecx, 12, State::avx},
    {"cx16", 1, 0, ecx, 13},
    {"sse4.1", 1, 0, ecx, 19},
    {"sse4.2", 1, 0, ecx, 20},
    {"crc32", 1, 0, ecx, 20},
    {"movbe", 1, 0, ecx, 22},
    {"popcnt", 1, 0, ecx, 23},
    {"aes", 1, 0, ecx, 25},
    {"xsave", 1, 0, ecx, 27},
    {"avx", 1, 0, ecx, 28, State::avx},
    {"f16c", 1, 0, ecx, 29, State::avx},
    {"rdrnd", 1, 0, ecx, 30},
    {"sahf", 0x80000001, 0, ecx, 0},
    {"lzcnt", 0x80000001, 0, ecx, 5},
    {"sse4a", 0x80000001, 0, ecx, 6},
    {"prfchw", 0x80000001, 0, ecx, 8},
    {"xop", 0x80000001, 0, ecx, 11, State::avx},
    {"lwp", 0x80000001, 0, ecx, 15},
    {"fma4", 0x80000001, 0, ecx, 16, State::avx},
    {"tbm", 0x80000001, 0, ecx, 21},
    {"mwaitx", 0x80000001, 0, ecx, 29},
    {"64bit", 0x80000001, 0, edx, 29},
    {"clzero", 0x80000008, 0, ebx, 0},
    {"rdpru", 0x80000008, 0, ebx, 4},
    {"wbnoinvd", 0x80000008, 0, ebx, 9},
    {"fsgsbase", 7, 0, ebx, 0},
    {"sgx", 7, 0, ebx, 2},
    {"bmi", 7, 0, ebx, 3},
    {"avx2", 7, 0, ebx, 5, State::avx},
    {"bmi2", 7, 0, ebx, 8},
    {"invpcid", 7, 0, ebx, 10},
    {"rtm", 7, 0, ebx, 11},
    {"avx512f", 7, 0, ebx, 16, State::avx512},
    {"avx512dq", 7, 0, ebx, 17, State::avx512},
    {"rdseed", 7, 0, ebx, 18},
    {"adx", 7, 0, ebx, 19},
    {"avx512ifma", 7, 0, ebx, 21, State::avx512},
    {"clflushopt", 7, 0, ebx, 23},
    {"clwb", 7, 0, ebx, 24},
    {"avx512cd", 7, 0, ebx, 28, State::avx512},
    {"sha", 7, 0, ebx, 29},
    {"avx512bw", 7, 0, ebx, 30, State::avx512},
    {"avx512vl", 7, 0, ebx, 31, State::avx512},
    {"avx512vbmi", 7, 0, ecx, 1, State::avx512},
    {"pku", 7, 0, ecx, 4},
    {"waitpkg", 7, 0, ecx, 5},
    {"avx512vbmi2", 7, 0, ecx, 6, State::avx512},
    {"shstk", 7, 0, ecx, 7},
    {"gfni", 7, 0, ecx, 8},
    {"vaes", 7, 0, ecx, 9, State::avx},
    {"vpclmulqdq", 7, 0, ecx, 10, State::avx},
    {"avx512vnni", 7, 0, ecx, 11, State::avx512},
    {"avx512bitalg", 7, 0, ecx, 12, State::avx512},
    {"avx512vpopcntdq", 7, 0, ecx, 14, State::avx512},
    {"rdpid", 7, 0, ecx, 22},
    {"kl", 7, 0, ecx, 23},
    {"cldemote", 7, 0, ecx, 25},
    {"movdiri", 7, 0, ecx, 27},
    {"movdir64b", 7, 0, ecx, 28},
    {"enqcmd", 7, 0, ecx, 29},
    {"uintr", 7, 0, edx, 5},
    {"avx512vp2intersect", 7, 0, edx, 8, State::avx512},
    {"serialize", 7, 0, edx, 14},
    {"tsxldtrk", 7, 0, edx, 16},
    {"pconfig", 7, 0, edx, 18},
    {"amx-bf16", 7, 0, edx, 22, State::amx},
    {"avx512fp16", 7, 0, edx, 23, State::avx512},
    {"amx-tile", 7, 0, edx, 24, State::amx},
    {"amx-int8", 7, 0, edx, 25, State::amx},
    {"sha512", 7, 1, eax, 0, State::avx},
    {"sm3", 7, 1, eax, 1, State::avx},
    {"sm4", 7, 1, eax, 2, State::avx},
    {"raoint", 7, 1, eax, 3},
    {"avxvnni", 7, 1, eax, 4, State::avx},
    {"avx512bf16", 7, 1, eax, 5, State::avx512},
    {"cmpccxadd", 7, 1, eax, 7},
    {"amx-fp16", 7, 1, eax, 21, State::amx},
    {"hreset", 7, 1, eax, 22},
    {"avxifma", 7, 1, eax, 23, State::avx},
    {"movrs", 7, 1, eax, 31},
    {"avxvnniint8", 7, 1, edx, 4, State::avx},
    {"avxneconvert", 7, 1, edx, 5, State::avx},
    {"amx-complex", 7, 1, edx, 8, State::amx},
    {"avxvnniint16", 7, 1, edx, 10, State::avx},
    {"prefetchi", 7, 1, edx, 14},
    {"xsaveopt", 0xD, 1, eax, 0},
    {"xsavec", 0xD, 1, eax, 1},
    {"xsaves", 0xD, 1, eax, 3},
    {"ptwrite", 0x14, 0, ebx, 4},
    {"widekl", 0x19, 0, ebx, 2},
};

/// The extended control register 0: which register states the system saves.
std::uint64_t saved_states() {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & (1u << 27))) return 0;
  std::uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<std::uint64_t>(high) << 32) | low;
}

bool offered(const Feature& feature, std::uint64_t saved) {
  switch (feature.state) {
    case State::none:
      break;
    case State::avx:
      if ((saved & 0x6) != 0x6) return false;
      break;
    case State::avx512:
      if ((saved & 0xE6) != 0xE6) return false;
      break;
    case State::amx:
      if ((saved & 0x60000) != 0x60000) return false;
      break;
  }
  unsigned registers[4];
  if (!__get_cpuid_count(feature.leaf, feature.subleaf, &registers[eax], &registers[ebx],
                         &registers[ecx], &registers[edx]))
    return false;
  if (feature.leaf == 7 && feature.subleaf == 1) {
    unsigned a, b, c, d;  // the highest subleaf stands in eax of subleaf 0
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || a < 1) return false;
  }
  return (registers[feature.reg] >> feature.bit) & 1u;
}

const std::vector<std::string>& known_features() {
  static const auto* features = [] {
    auto* list = new std::vector<std::string>;
    const std::uint64_t saved = saved_states();
    for (const Feature& feature : kFeatures)
      if (offered(feature, saved)) list->push_back(feature.name);
    std::sort(list->begin(), list->end());
    return list;
  }();
  return *features;
}

}  // namespace

std::string_view host_architecture() { return "x86_64"; }

#else

namespace {
const std::vector<std::string>& known_features() {
  static const std::vector<std::string> none;
  return none;
}
}  // namespace

std::string_view host_architecture() { return "unknown"; }

#endif

bool host_has_feature(std::string_view feature) {
  const auto& features = known_features();
  return std::binary_search(features.begin(), features.end(), feature);
}

std::vector<std::string> host_features() { return known_features(); }

}  // namespace kiln::runtime
