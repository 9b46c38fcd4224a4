#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/graph/ir.h"
#include "kiln/runtime/artifact.h"

namespace kiln::engine {

/// Keeps the user's source lines out of what is compiled and cached, and puts them back afterwards:
/// the module that the compiler gets has a number in place of each op's place, so that the same
/// graph written elsewhere gives the same code.
class ProgramPlaces {
 public:
  explicit ProgramPlaces(const graph::ir::Module& module);

  /// The copy with numbers.
  const graph::ir::Module& numbered() const { return *numbered_; }
  /// The text with the user's places put back.
  std::string restore(std::string text) const;
  void restore(std::vector<runtime::ProgramLocation>& locations) const;
  /// Whether any op has a full traceback.
  bool has_tracebacks() const { return has_tracebacks_; }

 private:
  void number(const graph::ir::Block& block, graph::ir::Block& copy);

  std::unique_ptr<graph::ir::Module> numbered_;
  std::vector<graph::ir::SourceLocation> places_;
  bool has_tracebacks_ = false;
};

/// The text of a failure of a program that was compiled with numbers in place of its places, with
/// the places of `module`, which has the same ops.
std::string failure_with_places(const std::string& text, const graph::ir::Module& module);
/// Whether a text has such numbers.
bool has_numbered_places(std::string_view text);

/// "embed.py:41", or the block of a full traceback, which an empty line closes.
std::string place_text(const std::vector<graph::ir::SourceFrame>& frames);

}  // namespace kiln::engine
