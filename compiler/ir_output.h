#pragma once

#include <string>
#include <string_view>

namespace kiln::compiler {

/// The files that the debug setting `ir-output-dir` asks for: what a compile makes at each stage,
/// as text, named NNN_stage.ext. The numbers of the compiles of one process follow each other, so
/// that a later one does not write over what an earlier one has left. Safe from any thread.
class IrOutput {
 public:
  /// Makes the folder; "": nothing is written. A folder that cannot be made: RuntimeError.
  explicit IrOutput(std::string folder);

  bool enabled() const { return !folder_.empty(); }
  /// The first of `count` numbers for the next files.
  int reserve(int count = 1) const;
  /// Writes one file. Characters of `stage` that do not suit a file name become "_". A file that
  /// cannot be written: RuntimeError.
  void write(int number, std::string_view stage, std::string_view extension,
             std::string_view text) const;

 private:
  std::string folder_;
};

}  // namespace kiln::compiler
