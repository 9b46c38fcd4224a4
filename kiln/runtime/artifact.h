#pragma once

// What a compiled artifact holds, and its container, the MEF. The compiler fills ArtifactContents;
// `write_artifact` makes the bytes; `Artifact` reads them. The layout of the bytes is described in
// docs/design/artifacts.md.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "kiln/dtype/dtype.h"
#include "kiln/graph/type.h"

namespace kiln::runtime {

/// Format of the container and the interface between programs and runtime.
inline constexpr int kFormatMajor = 1;
inline constexpr int kFormatMinor = 0;

/// An input or result of a program. Inputs have static or symbolic dims only.
struct TensorSignature {
  std::string name;
  DType dtype;
  graph::Shape shape;
  graph::DeviceRef device;
  bool is_buffer = false;   // an input that the program may write
};

/// One compiled graph.
struct GraphSignature {
  std::string name;
  std::string run_symbol;    // entry points in code.cpu
  std::string init_symbol;   // empty when there is nothing to prepare
  std::vector<TensorSignature> inputs;
  std::vector<TensorSignature> outputs;
  std::vector<std::string> symbols;       // the order of KilnCall.symbols
  std::vector<std::uint32_t> weights;     // indices into ArtifactContents::weights, as KilnCall.weights
  std::uint32_t prepared_slots = 0;       // length of KilnCall.prepared
  bool writes_inputs = false;
};

/// A weight that the program needs by name.
struct WeightSignature {
  std::string name;
  DType dtype;
  graph::Shape shape;  // static
  graph::DeviceRef device;
  std::int64_t alignment = 1;  // bytes that the program relies on; kiln copies a weight that has less
  std::optional<std::uint64_t> offset;  // in the `weights` section, when the artifact carries it
};

/// A processor that code was made for.
struct CpuTarget {
  std::string triple;
  std::string cpu;                    // "x86-64-v3", "znver3", …
  std::string level;                  // "x86-64-v2", "x86-64-v3", "x86-64-v4" or "host"
  std::vector<std::string> features;  // those that the loader must find, such as "avx2"
};

/// One ELF shared object with all host functions and kernels, for one target.
struct CodeImage {
  CpuTarget target;
  std::vector<std::byte> elf;
};

/// Lines of the user's program, for run-time errors; KilnFailure.location counts into it.
struct ProgramLocation {
  std::string op;           // "matmul"
  std::string graph;
  std::string text;         // "embed.py:41", or the block of a full traceback
};

struct ArtifactContents {
  std::vector<GraphSignature> graphs;
  std::vector<WeightSignature> weights;
  std::vector<CodeImage> images;  // lowest level first
  std::vector<std::byte> constants;
  std::vector<ProgramLocation> locations;
  std::string plan_json;  // kernel summaries and memory plan
  std::string ir_text;
};

/// The bytes of a MEF.
std::vector<std::byte> write_artifact(const ArtifactContents& contents);

}  // namespace kiln::runtime
