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
#include <string_view>
#include <variant>
#include <vector>

#include "kiln/dtype/dtype.h"
#include "kiln/graph/type.h"

namespace kiln::runtime {

namespace format_v1 {
struct Layout;
}

/// Format of the container and the interface between programs and runtime.
inline constexpr int kFormatMajor = 1;
inline constexpr int kFormatMinor = 0;

/// An input or result of a program. Inputs have static or symbolic dims only.
struct TensorSignature {
  std::string name;
  DType dtype;
  graph::Shape shape;
  graph::DeviceRef device;
  bool is_buffer = false;   // an input whose type lets a program write it
  bool is_written = false;  // a buffer that this one writes
};

/// One compiled graph.
struct GraphSignature {
  std::string name;
  std::string run_symbol;   // entry points in code.cpu
  std::string init_symbol;  // empty when there is nothing to prepare
  std::vector<TensorSignature> inputs;
  std::vector<TensorSignature> outputs;
  std::vector<std::string> symbols;  // the order of KilnCall.symbols
  std::vector<std::uint32_t>
      weights;                       // indices into ArtifactContents::weights, as KilnCall.weights
  std::uint32_t prepared_slots = 0;  // length of KilnCall.prepared
  std::string sized_by_data;         // an op whose result's size depends on data; empty: none
};

/// A weight that the program needs by name.
struct WeightSignature {
  std::string name;
  DType dtype;
  graph::Shape shape;  // static
  graph::DeviceRef device;
  std::int64_t alignment =
      1;  // bytes that the program relies on; kiln copies a weight that has less
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
  std::string op;  // "matmul"
  std::string graph;
  std::string text;  // "embed.py:41", or the block of a full traceback
};

/// What code relies on besides its own bytes, as a hash: the graphs' entry points and signatures,
/// the weights but for where an artifact carries them, the length of the constants, the processor.
std::uint64_t interface_hash(const std::vector<GraphSignature>& graphs,
                             const std::vector<WeightSignature>& weights,
                             std::uint64_t constant_bytes, const CpuTarget& target);

/// The symbol of a constant std::uint64_t with the hash that an image was made for. An image
/// without it is not checked.
inline constexpr const char* kInterfaceHashSymbol = "kiln_interface_hash";

struct ArtifactContents {
  std::vector<GraphSignature> graphs;
  std::vector<WeightSignature> weights;
  std::vector<CodeImage> images;  // lowest level first
  std::vector<std::byte> constants;
  std::vector<ProgramLocation> locations;
  std::string plan_json;  // kernel summaries and memory plan
  std::string ir_text;
};

/// An accelerator that code was made for.
struct AcceleratorTarget {
  std::string api;   // "cuda"
  std::string arch;  // "sm_90"
  friend bool operator==(const AcceleratorTarget&, const AcceleratorTarget&) = default;
};

/// One entry of the section table.
struct SectionInfo {
  std::string kind;                     // "code.cpu", "constants", …
  std::optional<std::string> graph;     // the graph it belongs to; none: all
  std::uint64_t offset = 0;             // from the start of the file
  std::uint64_t length = 0;             // bytes
  std::uint64_t checksum = 0;           // XXH3-64 of the padding before the section and the section
  std::optional<std::uint32_t> target;  // of code.cpu: index into ArtifactHeader::targets
};

/// What the header of a MEF says.
struct ArtifactHeader {
  int format_major = kFormatMajor;
  int format_minor = kFormatMinor;
  std::string kiln_version;
  int runtime_interface = 0;
  std::int64_t created_at = 0;  // seconds since 1970
  std::vector<CpuTarget> targets;
  std::vector<AcceleratorTarget> accelerators;
  std::vector<GraphSignature> graphs;
  std::vector<WeightSignature> weights;
  std::vector<std::string> kernels;  // of user libraries
  std::vector<SectionInfo> sections;
};

/// Bytes of `elements` elements, packed below one byte. Overflow: ValueError.
std::uint64_t packed_bytes(DType dtype, const graph::Shape& static_shape);

/// The bytes of a MEF. Names that are not UTF-8: ValueError. The time stamp is SOURCE_DATE_EPOCH
/// when that is set, else the present.
std::vector<std::byte> write_artifact(const ArtifactContents& contents);

/// Data of one weight that a MEF shall carry.
struct CarriedWeight {
  std::uint32_t weight = 0;  // index into the artifact's weights
  std::span<const std::byte> bytes;
};

struct HeaderReport;

/// A compiled artifact: the bytes of a MEF, in memory or mapped from a file. Immutable; shared by
/// the compiled models and models made from it.
class Artifact {
 public:
  /// Maps the file at `path` and checks everything but whether this machine fits; refusals are the
  /// RuntimeErrors of the specification.
  static std::shared_ptr<const Artifact> read(const std::string& path);
  /// The same for bytes in memory, which are copied; `name` stands for the path in errors.
  static std::shared_ptr<const Artifact> from_bytes(std::span<const std::byte> bytes,
                                                    const std::string& name);
  /// What the compiler made. KILN_MEF_IR=0 leaves out `ir` and `locations`.
  static std::shared_ptr<const Artifact> from_contents(const ArtifactContents& contents);

  /// The same artifact with other source lines.
  std::shared_ptr<const Artifact> with_locations(
      const std::vector<ProgramLocation>& locations) const;

  ~Artifact();
  Artifact(const Artifact&) = delete;
  Artifact& operator=(const Artifact&) = delete;

  const ArtifactHeader& header() const { return header_; }
  /// The path, or what stands for it in errors.
  const std::string& name() const { return name_; }
  /// The whole file.
  std::span<const std::byte> bytes() const { return bytes_; }
  std::span<const std::byte> section(const SectionInfo& info) const {
    return bytes_.subspan(info.offset, info.length);
  }
  /// The first section of this kind, or nothing.
  std::span<const std::byte> section(std::string_view kind) const;

  /// The data of weight `index` that the artifact carries; nothing for a weight it does not carry.
  std::optional<std::span<const std::byte>> carried_weight(std::size_t index) const;

  /// All entries of `locations`.
  std::vector<ProgramLocation> locations() const;
  /// The entry of `locations` with this index, or nothing when it was left out. Slow; for errors.
  std::optional<ProgramLocation> location(std::int64_t index) const;

  /// Strings of the "kernels" list of the plan for `graph`.
  std::vector<std::string> kernel_summaries(std::string_view graph) const;

  /// Writes the artifact to `path` by way of a temporary file beside it and a rename. With weights,
  /// those are stored; without, the file has the bytes of this artifact. Failures: RuntimeError.
  void write(const std::string& path, const std::vector<CarriedWeight>& weights = {}) const;

 private:
  struct Storage;
  friend HeaderReport read_header(const std::string& path);
  Artifact(std::shared_ptr<const Storage> storage, std::string name);
  static std::shared_ptr<const Artifact> from_layout(const format_v1::Layout& layout,
                                                     std::string name);

  std::shared_ptr<const Storage> storage_;
  std::span<const std::byte> bytes_;
  std::string name_;
  ArtifactHeader header_;
};

/// What can be said about a file from its header alone.
struct HeaderReport {
  bool readable = false;  // magic, length and checksum of the header are good
  std::optional<ArtifactHeader> header;
  std::vector<std::string> reasons;  // one sentence for each condition that fails, in their order
};

/// Reads magic and header of a file. A missing or unreadable file: RuntimeError.
HeaderReport read_header(const std::string& path);
HeaderReport read_header(std::span<const std::byte> bytes, const std::string& name);

/// Why this machine cannot run the code: an interface or a processor that is not there. Empty: it
/// can.
std::vector<std::string> machine_reasons(const ArtifactHeader& header, const std::string& name);

}  // namespace kiln::runtime
