// `kiln emulate -- PROGRAM ARGS`: runs a program that finds the emulated GPU in place of the
// driver.

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "kiln/driver/device.h"
#include "kiln/support/error.h"
#include "kiln/support/file.h"
#include "kiln/support/format.h"
#include "tools/commands.h"

namespace kiln::tools {

namespace {

constexpr const char* kFileName = "libkiln_emulator.so";

/// The emulator beside the library that this program is linked with.
std::string emulator_path() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&kiln::version), &info) == 0 || !info.dli_fname)
    throw RuntimeError("The folder of libkiln cannot be told, so its emulator cannot be found.");
  const std::filesystem::path folder = std::filesystem::absolute(info.dli_fname).parent_path();
  const std::string path = (folder / kFileName).string();
  if (!file_exists(path))
    throw RuntimeError(
        format("There is no {} in {}. It is a part of kiln that needs LLVM; build kiln with "
               "KILN_BUILD_EMULATOR=ON.",
               kFileName, folder.string()));
  return path;
}

/// A folder of its own that holds the emulator under the name of the driver, removed at the end.
class DriverFolder {
 public:
  explicit DriverFolder(const std::string& emulator) {
    const char* base = std::getenv("TMPDIR");
    path_ = format("{}/kiln-emulate-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(path_.data()))
      throw RuntimeError(
          format("A folder {} cannot be made: {}. Set TMPDIR to one that can be "
                 "written.",
                 path_, std::strerror(errno)));
    for (const char* name : {"libcuda.so.1", "libcuda.so"})
      std::filesystem::create_symlink(emulator, path_ + "/" + name);
  }
  DriverFolder(const DriverFolder&) = delete;
  DriverFolder& operator=(const DriverFolder&) = delete;
  ~DriverFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void set(const char* name, const std::string& value) {
  if (!value.empty()) setenv(name, value.c_str(), 1);
}

volatile sig_atomic_t child = 0;

void pass_on(int signal) {
  if (child > 0) kill(static_cast<pid_t>(child), signal);
}

/// Starts the program and waits for it. Its exit status, as a shell gives it.
int run(const std::vector<std::string>& program) {
  std::vector<char*> arguments;
  for (const std::string& argument : program)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  // The parent learns through this pipe why the program did not start.
  int failure[2];
  if (pipe2(failure, O_CLOEXEC) != 0)
    throw RuntimeError(format("A pipe cannot be made: {}.", std::strerror(errno)));
  const pid_t pid = fork();
  if (pid < 0) throw RuntimeError(format("A process cannot be started: {}.", std::strerror(errno)));
  if (pid == 0) {
    execvp(arguments[0], arguments.data());
    const int code = errno;
    [[maybe_unused]] const ssize_t written = write(failure[1], &code, sizeof(code));
    _exit(127);
  }
  child = pid;
  // What a terminal sends reaches the program by itself, and it decides what to do.
  signal(SIGINT, SIG_IGN);
  signal(SIGQUIT, SIG_IGN);
  signal(SIGTERM, pass_on);
  signal(SIGHUP, pass_on);
  close(failure[1]);
  int code = 0;
  const bool failed = read(failure[0], &code, sizeof(code)) == sizeof(code);
  close(failure[0]);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (failed)
    throw RuntimeError(format("'{}' cannot be run: {}.", program[0], std::strerror(code)));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

int emulate_command(const EmulateOptions& options) {
  const std::string emulator = emulator_path();
  const DriverFolder folder(emulator);
  const char* known = std::getenv("LD_LIBRARY_PATH");
  const std::string libraries = std::filesystem::path(emulator).parent_path().string();
  set("LD_LIBRARY_PATH", format("{}:{}{}{}", folder.path(), libraries, known && *known ? ":" : "",
                                known ? known : ""));
  set("KILN_CUDA_DRIVER", emulator);
  set("KILN_EMULATOR_DEVICES", options.devices);
  set("KILN_EMULATOR_MEMORY", options.memory);
  set("KILN_EMULATOR_ARCH", options.arch);
  set("KILN_EMULATOR_CHECK", options.check);
  set("KILN_EMULATOR_SEED", options.seed);
  set("KILN_EMULATOR_FAIL", options.fail);
  set("KILN_EMULATOR_TIMEOUT", options.timeout);
  return run(options.program);
}

}  // namespace kiln::tools
