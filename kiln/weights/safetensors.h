#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kiln/driver/buffer.h"
#include "kiln/support/ref.h"

namespace kiln::weights {

/// The tensors of safetensors files: a read-only mapping from name to CPU buffer, in the order of
/// the files. Nothing is copied; the files are mapped privately and stay mapped as long as a buffer
/// lives. A small value; copies share the same tensors.
class Safetensors {
 public:
  std::size_t size() const { return entries_->list.size(); }
  bool contains(std::string_view name) const;
  /// Unknown name: KeyError.
  const driver::Buffer& operator[](std::string_view name) const;
  /// Name and buffer by position.
  const std::pair<std::string, driver::Buffer>& entry(std::size_t index) const;
  auto begin() const { return entries_->list.begin(); }
  auto end() const { return entries_->list.end(); }
  /// The strings of `__metadata__`; those of later files win.
  const std::map<std::string, std::string>& metadata() const { return entries_->metadata; }

 private:
  friend Safetensors load_safetensors(std::span<const std::string> paths);
  struct Entries {
    std::vector<std::pair<std::string, driver::Buffer>> list;
    std::map<std::string, std::size_t, std::less<>> index;
    std::map<std::string, std::string> metadata;
  };
  explicit Safetensors(std::shared_ptr<const Entries> entries) : entries_(std::move(entries)) {}
  Shared<const Entries> entries_;
};

/// Maps files; a folder stands for its `*.safetensors` files, sorted by name. A missing path:
/// FileNotFoundError; one that cannot be read: RuntimeError; a folder without such files, a
/// malformed or truncated file, a name in two files: ValueError.
Safetensors load_safetensors(std::span<const std::string> paths);
Safetensors load_safetensors(const std::string& path);

}  // namespace kiln::weights
