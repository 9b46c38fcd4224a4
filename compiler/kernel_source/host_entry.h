#pragma once

#include <string>

namespace llvm {
class Module;
}

namespace kiln::compiler::kernel_source {

/// What is known of a kernel's code for the host once its threads can run.
struct HostEntry {
  bool may_wait = false;
  /// A function that reads what belongs to a thread and cannot be made part of the kernel.
  std::string recursive;
};

/// Makes everything that reads what belongs to a thread part of the function that runs the threads,
/// and puts in the places that prelude/host.cuh leaves: where the thread's state lies, and whether
/// a thread can wait.
HostEntry complete_host_entry(llvm::Module& module);

}  // namespace kiln::compiler::kernel_source
