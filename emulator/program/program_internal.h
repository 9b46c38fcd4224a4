#pragma once

#include "emulator/program/jit.h"
#include "emulator/program/program.h"

namespace kiln::emulator {

struct CachedProgram;

/// A program whose code is in memory.
class LoadedProgram : public Program {
 public:
  std::span<const Kernel> kernels() const override { return kernels_; }
  std::span<const Variable> variables() const override { return variables_; }
  const KernelTraits& traits(std::uint32_t kernel) const { return traits_[kernel]; }
  const SourceLines& source() const { return source_; }
  const KernelCode& entry(std::uint32_t kernel) const { return entries_[kernel]; }

  /// A program from what the translation or the cache gives. Throws LoadError.
  static std::shared_ptr<const Program> link(CachedProgram parts);

 private:
  void link(std::string_view object);

  std::vector<Kernel> kernels_;
  std::vector<Variable> variables_;
  std::vector<KernelTraits> traits_;
  SourceLines source_;
  std::vector<KernelCode> entries_;
  std::unique_ptr<LoadedCode> code_;
};

}  // namespace kiln::emulator
