// The one place that calls LLD.
//
// Inputs are memfds that LLD reads through /proc/self/fd/N. The output is a pipe that a thread
// drains: LLD cannot map a memfd for writing, and a path would make it install signal handlers for
// the whole process. LLD is not thread safe, so calls take turns, and after a fatal error it must
// not run again in this process: from then on the program ld.lld-22 does the work.

#include "compiler/link.h"

#include <fcntl.h>
#include <lld/Common/Driver.h>
#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/MemoryBufferRef.h>
#include <llvm/Support/raw_ostream.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <string_view>
#include <thread>

#include "compiler/crash_guard.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "kiln/support/sanitizer.h"

LLD_HAS_DRIVER(elf)

extern char** environ;

namespace kiln::compiler {
namespace {

// Present in every process. The last three are for kernels that print.
constexpr std::array<std::string_view, 8> kLibc = {"memcpy", "memmove", "memset", "memcmp",
                                                   "bcmp",   "printf",  "puts",   "putchar"};

// Called when a function has no expansion of kiln's own.
constexpr std::array<std::string_view, 80> kLibm = {
    "acos",    "acosf",     "acosh",      "acoshf",     "asin",   "asinf",     "asinh",
    "asinhf",  "atan",      "atanf",      "atan2",      "atan2f", "atanh",     "atanhf",
    "cbrt",    "cbrtf",     "ceil",       "ceilf",      "cos",    "cosf",      "cosh",
    "coshf",   "erf",       "erff",       "erfc",       "erfcf",  "exp",       "expf",
    "exp10",   "exp10f",    "exp2",       "exp2f",      "expm1",  "expm1f",    "floor",
    "floorf",  "fma",       "fmaf",       "fmod",       "fmodf",  "hypot",     "hypotf",
    "ldexp",   "ldexpf",    "lgamma",     "lgammaf",    "log",    "logf",      "log10",
    "log10f",  "log1p",     "log1pf",     "log2",       "log2f",  "nearbyint", "nearbyintf",
    "pow",     "powf",      "remainder",  "remainderf", "rint",   "rintf",     "round",
    "roundf",  "roundeven", "roundevenf", "sin",        "sincos", "sincosf",   "sinf",
    "sinh",    "sinhf",     "tan",        "tanf",       "tanh",   "tanhf",     "tgamma",
    "tgammaf", "trunc",     "truncf"};

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~File() { close(); }
  void close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }
  int descriptor() const { return descriptor_; }
  std::string path() const { return format("/proc/self/fd/{}", descriptor_); }

 private:
  int descriptor_;
};

[[noreturn]] void throw_system_error(const char* what) {
  throw RuntimeError(
      format("Linking a compiled program failed: {}: {}. Check the limits on open "
             "files and on memory of this process.",
             what, std::strerror(errno)));
}

File memory_file(const char* name, const void* data, std::size_t size) {
  File file(::memfd_create(name, MFD_CLOEXEC));
  if (file.descriptor() < 0) throw_system_error("a memory file cannot be made");
  const char* next = static_cast<const char*>(data);
  while (size > 0) {
    ssize_t written = ::write(file.descriptor(), next, size);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_system_error("a memory file cannot be written");
    next += written;
    size -= static_cast<std::size_t>(written);
  }
  return file;
}

std::vector<std::byte> drain(int descriptor) {
  std::vector<std::byte> bytes;
  std::size_t used = 0;
  for (;;) {
    if (bytes.size() - used < 65536) bytes.resize(std::max<std::size_t>(bytes.size() * 2, 1 << 17));
    ssize_t n = ::read(descriptor, bytes.data() + used, bytes.size() - used);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    used += static_cast<std::size_t>(n);
  }
  bytes.resize(used);
  return bytes;
}

std::mutex lld_mutex;
bool lld_is_broken = false;  // under lld_mutex

bool run_lld_in_process(const std::vector<std::string>& arguments, std::string& problems) {
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  llvm::raw_string_ostream out(problems);
  const lld::DriverDef drivers[] = {{lld::Gnu, &lld::elf::link}};
  lld::Result result{1, false};
  std::string fatal;
  // lldMain recovers by itself, but only while recovery is enabled.
  if (!run_guarded([&] { result = lld::lldMain(argv, out, out, drivers); }, fatal))
    problems += fatal;
  if (!result.canRunAgain) lld_is_broken = true;
  return result.retCode == 0;
}

bool run_lld_program(const std::vector<std::string>& arguments, std::span<const int> descriptors,
                     std::string& problems) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  File errors = memory_file("kiln-link-errors", nullptr, 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, errors.descriptor(), 2);
  // Onto itself: the child keeps the descriptor and finds it under the same path.
  for (int descriptor : descriptors)
    posix_spawn_file_actions_adddup2(&actions, descriptor, descriptor);
  pid_t child = 0;
  int failed = ::posix_spawnp(&child, "ld.lld-22", &actions, nullptr, argv.data(), environ);
  if (failed != 0)
    failed = ::posix_spawn(&child, "/usr/lib/llvm-22/bin/ld.lld", &actions, nullptr, argv.data(),
                           environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    problems = format("the program ld.lld-22 cannot be started: {}", std::strerror(failed));
    return false;
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  ::lseek(errors.descriptor(), 0, SEEK_SET);
  std::vector<std::byte> text = drain(errors.descriptor());
  problems.assign(reinterpret_cast<const char*>(text.data()), text.size());
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// Runs LLD with `arguments`, which refer to `files` by path; returns the image.
std::vector<std::byte> run_lld(std::vector<std::string> arguments, std::span<const File> files) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_system_error("a pipe cannot be made");
  File reading(ends[0]);
  File writing(ends[1]);
  arguments.insert(arguments.begin(), "ld.lld");
  arguments.insert(arguments.end(), {"-o", writing.path()});
  std::vector<int> descriptors = {writing.descriptor()};
  for (const File& file : files) descriptors.push_back(file.descriptor());

  std::vector<std::byte> image;
  std::thread drainer([&] { image = drain(reading.descriptor()); });
  std::string problems;
  bool linked = false;
  {
    std::lock_guard lock(lld_mutex);
    if (!lld_is_broken)
      linked = run_lld_in_process(arguments, problems);
    else
      linked = run_lld_program(arguments, descriptors, problems);
  }
  writing.close();
  drainer.join();
  if (!linked)
    throw InternalError(
        format("Linking a compiled program failed: {}. This is a defect of kiln; "
               "please report it with the program that led to it.",
               problems.empty() ? "LLD gave no reason" : problems));
  return image;
}

template <typename T>
T take(llvm::Expected<T> value) {
  if (value) return std::move(*value);
  throw InternalError("A linked program cannot be read back: " + llvm::toString(value.takeError()) +
                      ". This is a defect of kiln.");
}

bool contains(std::span<const std::string_view> names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What the checks of a sanitizer refer to: its runtime, which the process has, and for functions
// that keep its call stack what unwinding needs.
bool serves_sanitizer(std::string_view name) {
  const std::string_view prefix = kSanitizerPrefix;
  if (prefix.empty()) return false;
  return name.starts_with(prefix) ||
         (kThreadSanitizer && (name == "__gcc_personality_v0" || name == "_Unwind_Resume"));
}

// The tables in which AddressSanitizer registers the constants of the image, and its mark that it
// did; the address of the function that unwinds the frames of which ThreadSanitizer keeps count.
bool belongs_to_sanitizer(std::string_view section, std::uint64_t bytes) {
  if (kThreadSanitizer) return section == ".data" && bytes == 8;
  return kAddressSanitizer && (section == "asan_globals" || section == ".bss");
}

// Checks the promises of link_image; returns whether libm is needed.
bool check_image(const std::vector<std::byte>& image) {
  llvm::StringRef bytes(reinterpret_cast<const char*>(image.data()), image.size());
  auto elf = take(llvm::object::ELF64LEFile::create(bytes));
  bool needs_libm = false;
  for (const auto& section : take(elf.sections())) {
    if (section.sh_type != llvm::ELF::SHT_DYNSYM) continue;
    llvm::StringRef names = take(elf.getStringTableForSymtab(section));
    for (const auto& symbol : take(elf.symbols(&section))) {
      if (symbol.st_shndx != llvm::ELF::SHN_UNDEF || symbol.st_name == 0) continue;
      std::string_view name = take(symbol.getName(names));
      if (contains(kLibm, name))
        needs_libm = true;
      else if (!contains(kLibc, name) && !serves_sanitizer(name))
        throw InternalError(
            format("Generated code refers to '{}', which no part of it defines and "
                   "which is not in the list of functions that it may call. This "
                   "is a defect of kiln; please report it.",
                   name));
    }
  }
  std::uint64_t relro_begin = 0, relro_end = 0;
  for (const auto& header : take(elf.program_headers()))
    if (header.p_type == llvm::ELF::PT_GNU_RELRO) {
      relro_begin = header.p_vaddr;
      relro_end = (header.p_vaddr + header.p_memsz + 4095) & ~std::uint64_t{4095};
    }
  for (const auto& section : take(elf.sections()))
    if ((section.sh_flags & llvm::ELF::SHF_ALLOC) && (section.sh_flags & llvm::ELF::SHF_WRITE) &&
        section.sh_size > 0 &&
        !belongs_to_sanitizer(take(elf.getSectionName(section)), section.sh_size) &&
        (section.sh_addr < relro_begin || section.sh_addr + section.sh_size > relro_end))
      throw InternalError(
          "Generated code has writable data, which would be shared between models. This is a "
          "defect of kiln; please report it.");
  return needs_libm;
}

}  // namespace

[[gnu::visibility("default")]] std::vector<std::byte> link_image(
    std::span<const std::vector<std::byte>> objects,
    std::span<const std::string> exported_symbols) {
  std::string script = "{\n";
  if (!exported_symbols.empty()) script += "global:\n";
  for (const std::string& symbol : exported_symbols) script += "  \"" + symbol + "\";\n";
  script += "local: *;\n};\n";
  std::vector<File> files;
  files.push_back(memory_file("kiln-exports", script.data(), script.size()));
  std::vector<std::string> arguments = {"-shared",
                                        "-z",
                                        "now",
                                        "-z",
                                        "relro",
                                        "-z",
                                        "noexecstack",
                                        "--hash-style=gnu",
                                        "--build-id=fast",
                                        "--threads=1",
                                        "--eh-frame-hdr",
                                        "--gc-sections",
                                        "--version-script=" + files[0].path()};
  for (const std::vector<std::byte>& object : objects) {
    files.push_back(memory_file("kiln-object", object.data(), object.size()));
    arguments.push_back(files.back().path());
  }
  std::vector<std::byte> image = run_lld(arguments, files);
  if (!check_image(image)) return image;

  // The process may have libm only in scopes that the image does not see, so the image must ask for
  // it: by an empty library of that name, which makes the entry.
  files.push_back(memory_file("kiln-nothing", nullptr, 0));
  std::vector<std::byte> stub = run_lld({"-shared", "-m", "elf_x86_64", "-soname", "libm.so.6",
                                         "--format=binary", files.back().path()},
                                        files);
  files.push_back(memory_file("kiln-libm", stub.data(), stub.size()));
  arguments.push_back("--no-as-needed");
  arguments.push_back(files.back().path());
  return run_lld(arguments, files);
}

[[gnu::visibility("default")]] bool may_call(std::string_view symbol) {
  return contains(kLibc, symbol) || contains(kLibm, symbol);
}

}  // namespace kiln::compiler
