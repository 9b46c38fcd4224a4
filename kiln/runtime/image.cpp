#include "kiln/runtime/image.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "kiln/runtime/host_cpu.h"
#include "kiln/support/elf.h"
#include "kiln/support/format.h"
#include "kiln/support/sanitizer.h"

// An image is loaded with dlopen from a sealed file in memory, by its name in /proc. glibc
// recognises a library that it already has by the spelling of that name, and descriptor numbers
// come again, so each image gets a spelling of its own: a counter written in extra "/." and "//" of
// the path. The descriptor is closed at once; the mapping stays.

namespace kiln::runtime {
namespace {

std::string system_text(int error) { return std::generic_category().message(error); }

/// "/proc/self/fd/7" with the bits of `number` woven in: "/." for 1, "/" for 0.
std::string unique_path(int fd, std::uint64_t number) {
  std::string path = format("/proc/{}", ::getpid());
  for (; number != 0; number >>= 1) path += (number & 1) != 0 ? "/." : "/";
  path += format("/fd/{}", fd);
  return path;
}

/// A descriptor that is closed when it goes.
struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return true;
}

void* open_library(const std::string& path) {
  return ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
}

/// Loads from memory; null when the system refuses that way.
void* load_from_memory(std::span<const std::byte> elf) {
  static std::atomic<std::uint64_t> counter{0};
  Descriptor memory{::memfd_create("kiln-image", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (memory.fd < 0 || !write_all(memory.fd, elf)) return nullptr;
  // Not fatal: an old kernel without seals maps the same bytes.
  (void)::fcntl(memory.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
  return open_library(unique_path(memory.fd, counter.fetch_add(1) + 1));
}

/// Loads from a file that is removed at once.
void* load_from_file(std::span<const std::byte> elf, std::string& reason) {
  const char* folder = std::getenv("TMPDIR");
  std::string path = format("{}/kiln-image-XXXXXX", folder != nullptr && *folder ? folder : "/tmp");
  Descriptor file{::mkostemp(path.data(), O_CLOEXEC)};
  if (file.fd < 0 || !write_all(file.fd, elf)) {
    reason = format("{}: {}", path, system_text(errno));
    if (file.fd >= 0) ::unlink(path.c_str());
    return nullptr;
  }
  void* handle = open_library(path);
  if (handle == nullptr)
    if (const char* text = ::dlerror()) reason = text;
  ::unlink(path.c_str());
  return handle;
}

/// Libraries that a program may ask for; each is in every process already or part of the system.
bool may_need(std::string_view library) {
  return library.starts_with("libc.so") || library.starts_with("libm.so") ||
         library.starts_with("libpthread.so") || library.starts_with("libgcc_s.so") ||
         library.starts_with("ld-linux");
}

bool refers_to(const ElfFacts& facts, std::string_view prefix) {
  return std::any_of(facts.undefined.begin(), facts.undefined.end(),
                     [&](const std::string& symbol) { return symbol.starts_with(prefix); });
}

void check(std::span<const std::byte> elf, const std::string& name) {
  auto refuse = [&](const std::string& reason) {
    throw RuntimeError(format("'{}' is corrupted: its code cannot be loaded: {}", name, reason));
  };
  try {
    const ElfFacts facts = read_elf(elf, host_elf_machine());
    for (const char* prefix : {"__asan_", "__tsan_"})
      if (prefix != std::string_view(kSanitizerPrefix) && refers_to(facts, prefix))
        refuse("it holds checks of a sanitizer that this kiln is built without");
    // The checks of a sanitizer bring both, such as tables of the constants of the image.
    const bool checks_itself =
        (kAddressSanitizer || kThreadSanitizer) && refers_to(facts, kSanitizerPrefix);
    if (!checks_itself) {
      // Two loads of the same bytes may share one copy, so nothing in it may ever change.
      if (facts.mutable_bytes > 0)
        refuse(format("it has {} bytes of writable data", facts.mutable_bytes));
      if (facts.has_constructors) refuse("it runs code when it is loaded");
    }
    for (const std::string& library : facts.needed)
      if (!may_need(library)) refuse(format("it needs the library {}", library));
  } catch (const ValueError& error) {
    refuse(error.message());
  }
}

}  // namespace

std::shared_ptr<const Image> Image::load(std::span<const std::byte> elf, const std::string& name) {
  check(elf, name);
  void* handle = load_from_memory(elf);
  std::string reason;
  if (handle == nullptr) {
    if (const char* text = ::dlerror()) reason = text;
    handle = load_from_file(elf, reason);
  }
  if (handle == nullptr)
    throw RuntimeError(format("The code of '{}' cannot be loaded: {}", name, reason));
  return std::shared_ptr<const Image>(new Image(handle));
}

Image::~Image() { ::dlclose(handle_); }

void* Image::symbol(const std::string& symbol) const { return ::dlsym(handle_, symbol.c_str()); }

const SectionInfo& select_image(const Artifact& artifact) {
  const ArtifactHeader& header = artifact.header();
  const SectionInfo* best = nullptr;
  for (const SectionInfo& info : header.sections) {
    if (info.kind != "code.cpu") continue;
    ArtifactHeader only;
    only.runtime_interface = header.runtime_interface;
    only.targets = {header.targets.at(*info.target)};
    if (machine_reasons(only, artifact.name()).empty()) best = &info;
  }
  if (best == nullptr) {
    const std::vector<std::string> reasons = machine_reasons(header, artifact.name());
    throw RuntimeError(reasons.empty()
                           ? format("'{}' is corrupted: it holds no code", artifact.name())
                           : reasons.front());
  }
  return *best;
}

namespace {

/// Code finds inputs, weights and constants by number, so a header that counts other ones would
/// make it read past their end.
void check_interface(const Image& image, const Artifact& artifact, const CpuTarget& target) {
  const void* made_for = image.symbol(kInterfaceHashSymbol);
  if (made_for == nullptr) return;
  std::uint64_t expected = 0;
  std::memcpy(&expected, made_for, sizeof expected);
  const ArtifactHeader& header = artifact.header();
  if (interface_hash(header.graphs, header.weights, artifact.section("constants").size(), target) !=
      expected)
    throw RuntimeError(
        format("'{}' is corrupted: its header does not describe the graphs and weights that its "
               "code was compiled for",
               artifact.name()));
}

}  // namespace

std::shared_ptr<const Image> load_image(const std::shared_ptr<const Artifact>& artifact) {
  // Keyed by the artifact's address; an entry whose image is gone is renewed, and entries of gone
  // artifacts are removed whenever one is added. Leaked at exit: models may outlive it.
  static auto* mutex = new std::mutex;
  static auto* images =
      new std::map<const Artifact*,
                   std::pair<std::weak_ptr<const Artifact>, std::weak_ptr<const Image>>>;
  const std::lock_guard lock(*mutex);
  if (auto found = images->find(artifact.get()); found != images->end())
    if (found->second.first.lock() == artifact)
      if (auto image = found->second.second.lock()) return image;
  const SectionInfo& section = select_image(*artifact);
  auto image = Image::load(artifact->section(section), artifact->name());
  check_interface(*image, *artifact, artifact->header().targets.at(*section.target));
  std::erase_if(*images, [](const auto& entry) { return entry.second.first.expired(); });
  (*images)[artifact.get()] = {artifact, image};
  return image;
}

}  // namespace kiln::runtime
