#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "kiln/runtime/artifact.h"

namespace kiln::runtime {

/// A shared object that was loaded from its bytes. It holds no mutable state, so that one image may
/// serve any number of models. Unloaded when the last owner is gone.
class Image {
 public:
  /// Checks the bytes and maps them. `name` is the artifact's, for errors. Bytes that are no
  /// fitting image: RuntimeError `'{name}' is corrupted: …`.
  static std::shared_ptr<const Image> load(std::span<const std::byte> elf, const std::string& name);

  ~Image();
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

  /// The address of an exported symbol, or null.
  void* symbol(const std::string& symbol) const;

 private:
  explicit Image(void* handle) : handle_(handle) {}
  void* handle_;
};

/// The code section of `artifact` for the highest level that this machine offers. None:
/// RuntimeError with the sentence of `machine_reasons`.
const SectionInfo& select_image(const Artifact& artifact);

/// Loads that section; images of one artifact are shared while a model uses them. Code that was
/// made for other graphs, weights or processors than the header names: RuntimeError.
std::shared_ptr<const Image> load_image(const std::shared_ptr<const Artifact>& artifact);

}  // namespace kiln::runtime
