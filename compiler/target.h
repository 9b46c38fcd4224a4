#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kiln/runtime/artifact.h"

namespace kiln::compiler {

/// What generated code may rely on, and the tile sizes that go with it: one row per instruction
/// set.
struct Isa {
  std::string triple;
  std::string cpu;       // LLVM's -mcpu
  std::string features;  // LLVM's -mattr, "+avx2,+fma,…"

  bool fma = false;
  bool f16c = false;
  bool avx2 = false;
  bool avx512 = false;  // F, BW, DQ, VL together

  int vector_bytes = 16;  // one register
  int matmul_rows = 4;    // register tile of a float32 matmul: rows × vectors of columns
  int matmul_vectors = 2;

  /// Lanes of one register for an element of this many bytes.
  int lanes(int element_bytes) const { return vector_bytes / element_bytes; }
  /// Whether loads and stores of part of a vector, by mask, are single instructions for elements
  /// of this many bytes.
  bool has_masked_access(int element_bytes) const { return avx512 || (avx2 && element_bytes >= 4); }
};

/// The instruction set behind a target name: "" is this host, "generic" the lowest baseline, else a
/// processor name such as "x86-64-v3". Unknown name: ValueError.
Isa resolve_isa(std::string_view cpu_target);

/// The same as it is recorded in an artifact.
runtime::CpuTarget cpu_target_of(const Isa& isa, std::string_view cpu_target);

}  // namespace kiln::compiler
