#include "kiln/gpu/toolkit.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

#include "kiln/support/environment.h"
#include "kiln/support/error.h"
#include "kiln/support/file.h"
#include "kiln/support/format.h"

namespace kiln::gpu::detail {
namespace {

/// The program in PATH, or in the toolkit's usual places; empty when there is none.
std::string find_program(const std::string& name) {
  std::vector<std::string> folders;
  std::istringstream path(environment("PATH").value_or(""));
  for (std::string folder; std::getline(path, folder, ':');) folders.push_back(folder);
  if (const auto home = environment("CUDA_HOME")) folders.push_back(*home + "/bin");
  folders.push_back("/usr/local/cuda/bin");
  for (const std::string& folder : folders) {
    const std::string candidate = folder + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

/// Removed with what lies in it.
struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kiln-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      throw RuntimeError(format("A folder for '{}' could not be made.", pattern));
    path = pattern;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

/// Runs a program and returns what it prints on both streams. It fails: RuntimeError with that.
std::string run(const std::vector<std::string>& words) {
  std::string command;
  for (const std::string& word : words) {
    command += '\'';
    for (char c : word) command += c == '\'' ? std::string("'\\''") : std::string(1, c);
    command += "' ";
  }
  std::FILE* pipe = ::popen((command + "2>&1").c_str(), "r");
  if (pipe == nullptr) throw RuntimeError(format("{} could not be started.", words[0]));
  std::string output;
  char chunk[4096];
  for (std::size_t n = 0; (n = std::fread(chunk, 1, sizeof chunk, pipe)) > 0;)
    output.append(chunk, n);
  const int status = ::pclose(pipe);
  if (status != 0)
    throw RuntimeError(format("{} failed with status {}:\n{}", words[0],
                              WIFEXITED(status) ? WEXITSTATUS(status) : status, output));
  return output;
}

}  // namespace

std::string sass_of(const std::string& ptx, const std::string& architecture) {
  const std::string ptxas = find_program("ptxas");
  const std::string nvdisasm = find_program("nvdisasm");
  if (ptxas.empty() || nvdisasm.empty()) throw RuntimeError("dump_sass needs ptxas and nvdisasm");
  const Folder folder;
  const std::string source = (folder.path / "kernel.ptx").string();
  const std::string image = (folder.path / "kernel.cubin").string();
  write_file(source, ptx);
  run({ptxas, "-arch=" + architecture, source, "-o", image});
  return run({nvdisasm, "-c", image});
}

void print_ptxas_info(const std::string& ptx, const std::string& architecture) {
  const std::string ptxas = find_program("ptxas");
  if (ptxas.empty()) throw RuntimeError("ptxas_info_verbose needs ptxas");
  const Folder folder;
  const std::string source = (folder.path / "kernel.ptx").string();
  write_file(source, ptx);
  const std::string text = run({ptxas, "-v", "-arch=" + architecture, source, "-o",
                                (folder.path / "kernel.cubin").string()});
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace kiln::gpu::detail
