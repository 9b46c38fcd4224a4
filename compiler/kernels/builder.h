#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/kernels/program.h"
#include "compiler/target.h"
#include "kiln/graph/ir.h"

namespace kiln::compiler {

/// The artifact's `constants` section, shared by the graphs of a module.
class ConstantPool {
 public:
  /// The offset of these bytes, 64-byte aligned; equal bytes are stored once.
  std::int64_t add(const graph::ir::ConstantData& data);
  std::size_t size() const { return bytes_.size(); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
  std::unordered_map<std::string, std::int64_t> offsets_;
};

/// Turns a graph, already expanded and simplified by the passes, into kernels: decides which values
/// are stored, and writes every other value into the kernels that read it. The kernels are not
/// merged yet. With `nan_check` every value of floats is stored, and checked for NaN and
/// infinities.
Program build_program(const graph::ir::Graph& graph, const Isa& isa, ConstantPool& constants,
                      bool nan_check);

}  // namespace kiln::compiler
