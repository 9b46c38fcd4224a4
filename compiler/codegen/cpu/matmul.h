#pragma once

// Matrix products on the CPU: C[m,n] = Σ_k A[m,k]·B[k,n] with A as it lies and B in panels.

#include <functional>
#include <optional>

#include "compiler/codegen/function_builder.h"
#include "kiln/dtype/dtype.h"

namespace kiln::compiler {

/// Columns of one panel of packed B: as wide as the register tile.
int panel_columns(const Isa& isa, DType dtype);
/// Rows of one register tile at most.
int tile_rows(const Isa& isa, DType dtype);

/// One product, as LLVM values: pointers and i64. Where a size is a ConstantInt, the code is made
/// for it.
struct MatmulOperands {
  llvm::Value* a;  // [m, k], rows `lda` elements apart, unit stride along k
  llvm::Value* lda;
  llvm::Value* packed;  // [ceil(n / columns)][k][columns], zeros beyond n; see pack.h
  llvm::Value* m;
  llvm::Value* n;
  llvm::Value* k;

  /// What comes next, when that is known: `panels` of `bytes` each from `start` on. Of these each
  /// of `threads` takes a stretch, as it did here; a thread fetches the first panel of its own.
  struct Next {
    llvm::Value* start;
    llvm::Value* panels;
    llvm::Value* bytes;
    llvm::Value* worker;
    llvm::Value* threads;
  };
  std::optional<Next> next;

  /// Where the rows of a tile lie when what is reduced comes in stretches of `k`: loops around it,
  /// outermost first, that run `counts` times and move the rows by `steps` elements.
  struct Stretches {
    llvm::Value* a;     // the first row, in the first stretch
    llvm::Value* skip;  // rows of a panel before the first stretch
    std::vector<llvm::Value*> counts;
    std::vector<llvm::Value*> steps;
  };
  /// The rows of a convolution: `m` rows for each of `count` lines, so that a tile lies in one
  /// line. `a` is not used.
  struct Lines {
    llvm::Value* count;
    llvm::Value* depth;                     // rows of a panel
    std::vector<llvm::Value*> panel_steps;  // rows of a panel that a step of each loop passes
    std::function<Stretches(llvm::Value* line, llvm::Value* row0, llvm::Value* rows)> locate;
  };
  std::optional<Lines> lines;
};

/// Takes a finished part of a row (of the line that was located last): `accumulator` holds the
/// `lanes` columns from `column` on of row `row` (i64 both); `mask` tells which of them lie inside
/// the matrix, null when all do.
using Epilogue = std::function<void(FunctionBuilder& f, llvm::Value* row, llvm::Value* column,
                                    int lanes, llvm::Value* accumulator, llvm::Value* mask)>;

/// The number of units that one product is cut into, an i64. Units may run in any order and on any
/// thread; the results are bit-equal, since every element is the same chain of multiply-adds.
llvm::Value* matmul_unit_count(FunctionBuilder& f, DType dtype, llvm::Value* m, llvm::Value* n);

/// Emits the code of units [unit_begin, unit_end). Neighbouring units share cache lines. float32,
/// float64 and the integers; floats use fused multiply-adds where the target has them. k = 0 gives
/// zeros.
void emit_matmul_block(FunctionBuilder& f, DType dtype, const MatmulOperands& operands,
                       llvm::Value* unit_begin, llvm::Value* unit_end, const Epilogue& epilogue);

/// Half a panel to prefetch: from `start` on, `step` elements with each k. A step of 0 fetches one
/// line again and again, which costs next to nothing.
struct Fetch {
  llvm::Value* start;
  llvm::Value* step;
};

/// acc + x·y, fused where the target can.
llvm::Value* multiply_add(FunctionBuilder& f, llvm::Value* x, llvm::Value* y, llvm::Value* acc);

/// The inner product of both: the registers of a tile of `rows` × `panels` after all of k, by row,
/// panel and register. `packed` is the first panel; the next ones lie `panel_stride` elements
/// apart. `acc`: registers to go on from; `fetches`: memory to prefetch meanwhile, with one panel.
Values emit_register_tile(FunctionBuilder& f, DType dtype, int rows, int panels, llvm::Value* a,
                          llvm::Value* lda, llvm::Value* packed, llvm::Value* panel_stride,
                          llvm::Value* k, Values acc = {}, const std::vector<Fetch>& fetches = {});

/// The panels that a tile of so few rows takes at once, to have enough accumulators in flight.
int panels_at_once(const Isa& isa, int rows);

}  // namespace kiln::compiler
