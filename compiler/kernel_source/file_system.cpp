#include "compiler/kernel_source/file_system.h"

#include <llvm/ADT/SmallString.h>
#include <llvm/Support/Path.h>

#include <algorithm>
#include <system_error>

#include "compiler/kernel_source/texts.h"

namespace kiln::compiler::kernel_source {
namespace {

llvm::StringRef ref(std::string_view text) { return {text.data(), text.size()}; }

// A window on the machine's files: those below a few folders.
class Folders : public llvm::vfs::ProxyFileSystem {
 public:
  explicit Folders(std::vector<std::string> folders)
      : ProxyFileSystem(llvm::vfs::createPhysicalFileSystem()), folders_(std::move(folders)) {}

  llvm::ErrorOr<llvm::vfs::Status> status(const llvm::Twine& path) override {
    if (!allows(path)) return absent();
    auto status = ProxyFileSystem::status(path);
    if (status && !status->isRegularFile() && !status->isDirectory()) return absent();
    return status;
  }
  llvm::ErrorOr<std::unique_ptr<llvm::vfs::File>> openFileForRead(
      const llvm::Twine& path) override {
    auto found = status(path);
    if (!found || !found->isRegularFile()) return absent();
    return ProxyFileSystem::openFileForRead(path);
  }
  llvm::vfs::directory_iterator dir_begin(const llvm::Twine&, std::error_code& error) override {
    error = absent();
    return {};
  }
  bool exists(const llvm::Twine& path) override { return bool(status(path)); }
  // The names that the compile sees are the ones that were given.
  std::error_code getRealPath(const llvm::Twine& path,
                              llvm::SmallVectorImpl<char>& output) override {
    path.toVector(output);
    return {};
  }

 private:
  static std::error_code absent() {
    return std::make_error_code(std::errc::no_such_file_or_directory);
  }
  bool allows(const llvm::Twine& path) const {
    llvm::SmallString<256> clean;
    path.toVector(clean);
    llvm::sys::path::remove_dots(clean, /*remove_dot_dot=*/true);
    return std::any_of(folders_.begin(), folders_.end(), [&](const std::string& folder) {
      llvm::StringRef rest = clean;
      return rest.consume_front(folder) && (rest.empty() || rest[0] == '/' || folder.back() == '/');
    });
  }

  std::vector<std::string> folders_;
};

}  // namespace

llvm::IntrusiveRefCntPtr<llvm::vfs::FileSystem> make_file_system(
    std::string_view file, std::string_view text, std::string_view prelude,
    const std::vector<std::string>& folders) {
  auto memory = llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>();
  memory->setCurrentWorkingDirectory("/");
  const auto add = [&](const std::string& path, std::string_view content) {
    memory->addFile(path, 0, llvm::MemoryBuffer::getMemBuffer(ref(content), path));
  };
  for (const Text& header : texts())
    add(std::string(kHeaderFolder) + "/" + std::string(header.path), header.text);
  for (const auto& [path, bytes] :
       {std::pair(kMathFile, math_bitcode()), std::pair(kPreludeFile, prelude)})
    memory->addFile(path, 0,
                    llvm::MemoryBuffer::getMemBuffer(ref(bytes), path,
                                                     /*RequiresNullTerminator=*/false));
  memory->addFile(ref(file), 0, llvm::MemoryBuffer::getMemBufferCopy(ref(text), ref(file)));
  if (folders.empty()) return memory;
  auto window = llvm::makeIntrusiveRefCnt<Folders>(folders);
  window->setCurrentWorkingDirectory("/");
  auto both = llvm::makeIntrusiveRefCnt<llvm::vfs::OverlayFileSystem>(std::move(window));
  both->pushOverlay(std::move(memory));
  return both;
}

}  // namespace kiln::compiler::kernel_source
