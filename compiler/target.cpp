#include "compiler/target.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/X86TargetParser.h>

#include <algorithm>
#include <array>

#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::compiler {
namespace {

// What a compiler uses by itself, besides everything of AVX; in LLVM's spelling.
constexpr std::array<std::string_view, 18> kUsedFeatures = {
    "bmi",    "bmi2", "cmov", "cx16", "cx8",  "f16c",   "fma",    "lzcnt", "movbe",
    "popcnt", "sahf", "sse",  "sse2", "sse3", "sse4.1", "sse4.2", "ssse3", "mmx"};

// What the AVX-512 code paths need, besides avx512f, which each of them implies.
constexpr std::array<std::string_view, 4> kV4 = {"avx512bw", "avx512cd", "avx512dq", "avx512vl"};

std::vector<std::string> host_features() {
  std::vector<std::string> features;
  for (const auto& entry : llvm::sys::getHostCPUFeatures())
    if (entry.second) features.push_back(entry.first().str());
  std::sort(features.begin(), features.end());
  return features;
}

std::vector<std::string> features_of_cpu(llvm::StringRef cpu) {
  llvm::SmallVector<llvm::StringRef, 64> names;
  llvm::X86::getFeaturesForCPU(cpu, names);
  std::vector<std::string> features;
  for (llvm::StringRef name : names) features.push_back(name.str());
  const auto has = [&](std::string_view name) {
    return std::find(features.begin(), features.end(), name) != features.end();
  };
  // LLVM leaves out what the others imply; whoever loads the code shall look for it too.
  if (has("avx512bw") && !has("avx512f")) features.emplace_back("avx512f");
  std::sort(features.begin(), features.end());
  return features;
}

}  // namespace

[[gnu::visibility("default")]] Isa resolve_isa(std::string_view cpu_target) {
  std::vector<std::string> features;
  Isa isa;
  isa.triple = "x86_64-unknown-linux-gnu";
  if (cpu_target.empty()) {
    isa.cpu = llvm::sys::getHostCPUName().str();
    features = host_features();
  } else {
    isa.cpu = cpu_target == "generic" ? "x86-64" : std::string(cpu_target);
    if (llvm::X86::parseArchX86(isa.cpu, /*Only64Bit=*/true) == llvm::X86::CK_None &&
        isa.cpu.rfind("x86-64", 0) != 0)
      throw ValueError(
          format("'{}' is not the name of a target processor. Use \"\" for this host, "
                 "'generic', a baseline such as 'x86-64-v3', or a processor name that "
                 "LLVM knows, such as 'znver3'.",
                 cpu_target));
    features = features_of_cpu(isa.cpu);
  }
  auto has = [&](std::string_view name) {
    return std::find(features.begin(), features.end(), name) != features.end();
  };
  isa.fma = has("fma");
  isa.f16c = has("f16c");
  isa.avx2 = has("avx2");
  isa.avx512 = std::all_of(kV4.begin(), kV4.end(), has);
  if (isa.avx512) {
    isa.vector_bytes = 64;
    isa.matmul_rows = 12;
    isa.matmul_vectors = 2;
    // LLVM would otherwise split every register in two on processors that it believes slow.
    features.push_back("-prefer-256-bit");
  } else if (isa.avx2) {
    isa.vector_bytes = 32;
    isa.matmul_rows = 6;
    isa.matmul_vectors = 2;
  }
  for (const std::string& name : features) {
    if (!isa.features.empty()) isa.features += ',';
    isa.features += name[0] == '-' ? name : "+" + name;
  }
  return isa;
}

runtime::CpuTarget cpu_target_of(const Isa& isa, std::string_view cpu_target) {
  runtime::CpuTarget target;
  target.triple = isa.triple;
  target.cpu = isa.cpu;
  target.level = cpu_target.empty() ? "host" : std::string(cpu_target);
  // The loader must find what the code may use; features that no compiler uses by itself, such as
  // those for operating systems or cryptography, are not the code's needs.
  for (llvm::StringRef rest = isa.features; !rest.empty();) {
    auto [head, tail] = rest.split(',');
    if (head.consume_front("+") &&
        (head.starts_with("avx") || std::find(kUsedFeatures.begin(), kUsedFeatures.end(),
                                              std::string_view(head)) != kUsedFeatures.end()))
      target.features.push_back(head.str());
    rest = tail;
  }
  return target;
}

}  // namespace kiln::compiler
