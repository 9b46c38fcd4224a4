#pragma once

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace kiln::compiler {

/// A linked image in this process, from a memory file; for tests and benchmarks of kernels.
class LoadedImage {
 public:
  explicit LoadedImage(const std::vector<std::byte>& image) {
    file_ = ::memfd_create("image", MFD_CLOEXEC);
    if (::write(file_, image.data(), image.size()) != static_cast<ssize_t>(image.size()))
      throw std::runtime_error("the image cannot be written");
    // The loader takes equal paths for the same library, so each image is spelled differently.
    static std::atomic<std::size_t> images{0};
    const std::string path = "/proc/self/fd/" + std::string(images++, '/') + std::to_string(file_);
    handle_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle_) throw std::runtime_error(::dlerror());
  }
  LoadedImage(const LoadedImage&) = delete;
  LoadedImage& operator=(const LoadedImage&) = delete;
  ~LoadedImage() {
    ::dlclose(handle_);
    ::close(file_);
  }
  void* find(const std::string& name) const { return ::dlsym(handle_, name.c_str()); }
  template <typename F>
  F* function(const std::string& name) const {
    return reinterpret_cast<F*>(find(name));
  }

 private:
  int file_ = -1;
  void* handle_ = nullptr;
};

}  // namespace kiln::compiler
