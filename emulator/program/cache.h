#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "emulator/program/program_internal.h"

namespace kiln::emulator {

/// What is kept of a program that was translated once.
struct CachedProgram {
  std::vector<Kernel> kernels;
  std::vector<KernelTraits> traits;
  std::vector<Variable> variables;
  SourceLines source;
  std::string object;
};

/// Translated programs on disk, one file each, in the folder that kiln's compiled models are in:
/// KILN_CACHE_DIR, else `kiln` in $XDG_CACHE_HOME or ~/.cache, if it belongs to this user alone.
/// KILN_CACHE=0 turns it off. Nothing about it is ever an error. Safe between threads and
/// processes.
class ProgramCache {
 public:
  ProgramCache();
  /// The key of a text: its contents, the options, this processor and the versions of code.
  static std::string key_of(std::string_view text, const LoadOptions& options);
  /// False when there is no such entry or it is damaged.
  bool find(const std::string& key, CachedProgram& program) const;
  void store(const std::string& key, const CachedProgram& program) const;

 private:
  std::string path_of(const std::string& key) const;
  std::string folder_;  // empty: off
};

}  // namespace kiln::emulator
