#pragma once

#include <llvm/ADT/SmallVector.h>

#include <string>
#include <vector>

#include "compiler/kernel_source/declarations.h"
#include "compiler/kernel_source/host_entry.h"

namespace kiln::compiler::kernel_source {

/// One run of Clang.
struct FrontendInput {
  const runtime::KernelSource* source = nullptr;
  /// The text that is compiled: the source's, with what the target needs behind it.
  std::string text;
  /// For Clang's `cc1`: what the headers are read with too, and what concerns the source alone.
  std::vector<std::string> language, arguments;
  std::vector<std::string> folders;  // see make_file_system
  enum class Output { nothing, assembly, object } output = Output::nothing;
  /// Whether the code runs on the host.
  bool host = false;
};

struct FrontendResult {
  bool succeeded = false;
  /// What the compiler says, line by line.
  std::string diagnostics;
  /// Words of the source that only GPUs know, in the order of the text.
  std::vector<std::string> gpu_words;
  std::vector<Declaration> kernels;
  /// Set when the source's name means one of `kernels`.
  std::string symbol;
  llvm::SmallVector<char, 0> output;
  std::string llvm_ir;
  HostEntry host_entry;
};

/// Runs Clang from the text to assembly or an object. It comes back from whatever happens inside;
/// `succeeded` says how.
FrontendResult run_frontend(const FrontendInput& input);

/// Whether `word` is a name of CUDA that has no form on the host, and what to use in its place.
bool is_gpu_word(std::string_view word);

}  // namespace kiln::compiler::kernel_source
