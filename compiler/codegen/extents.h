#pragma once

#include <map>
#include <string>

#include "compiler/codegen/function_builder.h"
#include "kiln/graph/dim.h"

namespace kiln::compiler {

/// The dims of a graph as 64-bit values of its host function. What was worked out is remembered;
/// a copy kept before a region and assigned back behind it forgets what only the region knows.
class Extents {
 public:
  /// Values of symbols, and of the dims made of them so far.
  struct Known {
    std::map<std::string, llvm::Value*> symbols;
    std::map<std::string, llvm::Value*> dims;
  };

  explicit Extents(FunctionBuilder& f) : f_(f) {}

  void define(const std::string& symbol, llvm::Value* value) { known.symbols[symbol] = value; }
  /// Overflow wraps; where that may happen a check of `overflows` comes first. A division by 0 is
  /// one by 1.
  llvm::Value* value_of(const graph::Dim& dim);
  /// Whether working out `dim` leaves 64 bits.
  llvm::Value* overflows(const graph::Dim& dim);

  Known known;

 private:
  llvm::Value* symbol(const std::string& name) const;
  llvm::Value* floor_div(llvm::Value* a, llvm::Value* b);

  FunctionBuilder& f_;
};

}  // namespace kiln::compiler
