// The register tile is `rows` × 2 registers of columns. Its inner loop loads one row of the panel,
// broadcasts one element of each row of A and multiplies; twelve accumulators hide the latency of
// the multiply-add and leave registers for the operands (AVX2: 6 × 16, with 15 of 16 registers).
// Few rows take several panels at once, for the same number of accumulators.
//
// Finished tiles go through a small buffer on the stack, which stays in L1, so that the epilogue
// exists once and not once for each number of rows.

#include "compiler/codegen/cpu/matmul.h"

#include <llvm/IR/InlineAsm.h>

#include <algorithm>
#include <optional>

#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::compiler {
namespace {

// Of k, in the inner loop.
constexpr int kUnroll = 4;
// One base and one distance address so many rows: base, base + distance, base + 2 · distance.
constexpr int kRowsOfPointer = 3;

std::optional<std::int64_t> constant_of(llvm::Value* value) {
  if (auto* constant = llvm::dyn_cast<llvm::ConstantInt>(value)) return constant->getSExtValue();
  return std::nullopt;
}

llvm::Type* element_type(FunctionBuilder& f, DType dtype) {
  if (dtype == DType::float32) return f.b.getFloatTy();
  if (dtype == DType::float64) return f.b.getDoubleTy();
  KILN_CHECK(dtype.is_integral(), format("no matmul code for {}", dtype.name()));
  return f.b.getIntNTy(static_cast<unsigned>(dtype.size_in_bits()));
}

llvm::Align alignment(DType dtype) {
  return llvm::Align(static_cast<std::uint64_t>(dtype.align()));
}

// The same pointer, about which the optimiser knows nothing: it would otherwise compute each
// address from one pointer by a chain of additions, for which the registers do not suffice.
llvm::Value* opaque(FunctionBuilder& f, llvm::Value* pointer) {
  auto* type = llvm::FunctionType::get(pointer->getType(), {pointer->getType()}, false);
  return f.b.CreateCall(type, llvm::InlineAsm::get(type, "", "=r,0", /*hasSideEffects=*/false),
                        {pointer});
}

llvm::Value* minimum(FunctionBuilder& f, llvm::Value* x, llvm::Value* y) {
  return f.b.CreateSelect(f.b.CreateICmpSLT(x, y), x, y);
}

llvm::Value* maximum(FunctionBuilder& f, llvm::Value* x, llvm::Value* y) {
  return f.b.CreateSelect(f.b.CreateICmpSGT(x, y), x, y);
}

// while (value < limit) value = body(value)
void loop_until(FunctionBuilder& f, llvm::Value* start, llvm::Value* limit,
                const std::function<llvm::Value*(llvm::Value*)>& body) {
  llvm::LLVMContext& context = f.b.getContext();
  llvm::BasicBlock* before = f.b.GetInsertBlock();
  auto* head = llvm::BasicBlock::Create(context, "while", f.function);
  auto* inside = llvm::BasicBlock::Create(context, "do", f.function);
  auto* after = llvm::BasicBlock::Create(context, "done", f.function);
  f.b.CreateBr(head);
  f.b.SetInsertPoint(head);
  llvm::PHINode* value = f.b.CreatePHI(f.b.getInt64Ty(), 2);
  value->addIncoming(start, before);
  f.b.CreateCondBr(f.b.CreateICmpSLT(value, limit), inside, after);
  f.b.SetInsertPoint(inside);
  llvm::Value* next = body(value);
  value->addIncoming(next, f.b.GetInsertBlock());
  f.b.CreateBr(head);
  f.b.SetInsertPoint(after);
}

// How a product is cut: rows into tiles that differ by one row at most, columns into blocks of
// panels that stay in the second-level cache while all rows pass.
struct Cut {
  llvm::Value* panels;
  llvm::Value* tiles;          // of all lines …
  llvm::Value* tiles_of_line;  // … and of one
  llvm::Value* rows;           // of every tile …
  llvm::Value* longer;         // … and one more in this many tiles at the start
  llvm::Value* block;          // panels of a block; the last may have fewer
};

Cut cut(FunctionBuilder& f, DType dtype, const MatmulOperands& operands) {
  Cut c;
  llvm::Value *m = operands.m, *k = operands.lines ? operands.lines->depth : operands.k;
  c.panels = f.divide_up(operands.n, f.i64(panel_columns(f.isa, dtype)));
  c.tiles = c.tiles_of_line = f.divide_up(m, f.i64(tile_rows(f.isa, dtype)));
  llvm::Value* divisor = maximum(f, c.tiles_of_line, f.i64(1));
  c.rows = f.b.CreateUDiv(m, divisor);
  c.longer = f.b.CreateURem(m, divisor);
  std::int64_t half_of_l2 = f.isa.avx512 ? 512 << 10 : 256 << 10;
  llvm::Value* panel_bytes = f.b.CreateMul(
      maximum(f, k, f.i64(1)), f.i64(panel_columns(f.isa, dtype) * dtype.size_in_bytes()));
  llvm::Value* most = maximum(f, f.b.CreateUDiv(f.i64(half_of_l2), panel_bytes), f.i64(1));
  // Even blocks: 24 panels of which 10 fit are 8 + 8 + 8.
  llvm::Value* blocks = maximum(f, f.divide_up(c.panels, most), f.i64(1));
  c.block = maximum(f, f.divide_up(c.panels, blocks), f.i64(1));
  // When all of A stays in the second-level cache, each panel is read once and used up.
  llvm::Value* row_bytes =
      f.b.CreateMul(operands.lines ? operands.lda : k, f.i64(dtype.size_in_bytes()));
  llvm::Value* a_bytes = f.b.CreateMul(m, row_bytes);
  if (operands.lines) {
    c.tiles = f.b.CreateMul(c.tiles, operands.lines->count);
    a_bytes = f.b.CreateMul(a_bytes, operands.lines->count);
  }
  llvm::Value* streamed = f.b.CreateICmpSLE(a_bytes, f.i64(half_of_l2 / 2));
  c.block = f.b.CreateSelect(streamed, f.i64(1), c.block);
  return c;
}

Values no_sums(FunctionBuilder& f, DType dtype, int rows, int panels) {
  auto* vector = llvm::FixedVectorType::get(
      element_type(f, dtype), static_cast<unsigned>(f.isa.lanes(dtype.size_in_bytes())));
  return Values(static_cast<std::size_t>(rows * panels * f.isa.matmul_vectors),
                llvm::Constant::getNullValue(vector));
}

// The numbers of rows that tiles can have.
std::vector<int> possible_rows(const Isa& isa, DType dtype, const Cut& c) {
  std::optional<std::int64_t> rows = constant_of(c.rows), longer = constant_of(c.longer);
  std::vector<int> result;
  if (rows && longer) {
    if (*rows > 0) result.push_back(static_cast<int>(*rows));
    if (*longer > 0) result.push_back(static_cast<int>(*rows) + 1);
  } else {
    for (int r = 1; r <= tile_rows(isa, dtype); ++r) result.push_back(r);
  }
  return result;
}

// Arguments of a tile function; the loops around k follow, with a count and two steps each.
enum TileArgument { kA, kPacked, kTile, kLda, kK, kPanelStride, kFetches, kLoops = kFetches + 4 };

// A function that leaves a finished tile in memory as [panel][tile_rows][columns]. Code is made for
// those of its arguments that are constants.
llvm::Function* make_tile_function(FunctionBuilder& caller, DType dtype, int rows, int panels,
                                   const Values& arguments) {
  std::vector<llvm::Type*> types;
  for (llvm::Value* argument : arguments) types.push_back(argument->getType());
  FunctionBuilder f(
      caller.module, caller.isa,
      format("{}_tile_{}x{}", std::string_view(caller.function->getName()), rows, panels),
      caller.b.getVoidTy(), types, FunctionBuilder::Linkage::helper);
  Values given;
  for (unsigned i = 0; i < arguments.size(); ++i)
    given.push_back(constant_of(arguments[i]) ? arguments[i] : f.argument(i));
  int columns = panel_columns(f.isa, dtype);
  llvm::Type* element = element_type(f, dtype);
  // `row` of the panels comes next.
  const std::function<Values(std::size_t, llvm::Value*, llvm::Value*, const Values&)> stretches =
      [&](std::size_t next, llvm::Value* a, llvm::Value* row, const Values& sums) {
        if (next == given.size()) {
          std::vector<Fetch> fetches;
          for (std::size_t i = kFetches; i < kLoops; i += 2)
            fetches.push_back(
                {f.b.CreateGEP(element, given[i], f.b.CreateMul(row, given[i + 1])), given[i + 1]});
          llvm::Value* packed =
              f.element(element, given[kPacked], f.b.CreateMul(row, f.i64(columns)));
          return emit_register_tile(f, dtype, rows, panels, a, given[kLda], packed,
                                    given[kPanelStride], given[kK], sums, fetches);
        }
        return f.loop(
            f.i64(0), given[next], f.i64(1), sums, [&](llvm::Value* i, const Values& carried) {
              return stretches(next + 3, f.element(element, a, f.b.CreateMul(i, given[next + 1])),
                               f.b.CreateAdd(row, f.b.CreateMul(i, given[next + 2])), carried);
            });
      };
  const Values registers = stretches(kLoops, given[kA], f.i64(0), no_sums(f, dtype, rows, panels));
  int lanes = f.isa.lanes(dtype.size_in_bytes());
  std::size_t next = 0;
  for (int row = 0; row < rows; ++row)
    for (int panel = 0; panel < panels; ++panel)
      for (int v = 0; v < f.isa.matmul_vectors; ++v) {
        std::int64_t at = (panel * tile_rows(f.isa, dtype) + row) * columns + v * lanes;
        f.b.CreateAlignedStore(registers[next++], f.element(element, given[kTile], f.i64(at)),
                               llvm::Align(static_cast<std::uint64_t>(f.isa.vector_bytes)));
      }
  f.b.CreateRetVoid();
  f.finish();
  return f.function;
}

}  // namespace

// acc + x·y, fused where the target can; a library call for each lane would be the alternative.
llvm::Value* multiply_add(FunctionBuilder& f, llvm::Value* x, llvm::Value* y, llvm::Value* acc) {
  if (!acc->getType()->isFPOrFPVectorTy()) return f.b.CreateAdd(acc, f.b.CreateMul(x, y));
  if (!f.isa.fma) return f.b.CreateFAdd(acc, f.b.CreateFMul(x, y));
  return f.b.CreateIntrinsic(llvm::Intrinsic::fma, {acc->getType()}, {x, y, acc});
}

int panel_columns(const Isa& isa, DType dtype) {
  return isa.matmul_vectors * isa.lanes(dtype.size_in_bytes());
}

int tile_rows(const Isa& isa, DType) { return isa.matmul_rows; }

int panels_at_once(const Isa& isa, int rows) {
  int panels = 1;
  while (rows * isa.matmul_vectors * panels < 8) panels *= 2;
  return panels;
}

llvm::Value* matmul_unit_count(FunctionBuilder& f, DType dtype, llvm::Value* m, llvm::Value* n) {
  return f.b.CreateMul(f.divide_up(m, f.i64(tile_rows(f.isa, dtype))),
                       f.divide_up(n, f.i64(panel_columns(f.isa, dtype))));
}

Values emit_register_tile(FunctionBuilder& f, DType dtype, int rows, int panels, llvm::Value* a,
                          llvm::Value* lda, llvm::Value* packed, llvm::Value* panel_stride,
                          llvm::Value* k, Values acc, const std::vector<Fetch>& fetches) {
  llvm::Type* element = element_type(f, dtype);
  int lanes = f.isa.lanes(dtype.size_in_bytes());
  int vectors = f.isa.matmul_vectors;
  int columns = lanes * vectors;
  int line = 64 / static_cast<int>(dtype.size_in_bytes());
  auto* vector = llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes));

  // Rows at a distance that only running tells share pointers that move along k: the processor adds
  // the distance once or twice in the address. One pointer a row would not fit the registers.
  const int sharing = constant_of(lda) ? rows : kRowsOfPointer;
  Values row_start, panel_start, row_offset;
  for (int row = 0; row < rows; row += sharing)
    row_start.push_back(f.element(element, a, f.b.CreateMul(lda, f.i64(row))));
  for (int row = 0; row < sharing; ++row) row_offset.push_back(f.b.CreateMul(lda, f.i64(row)));
  for (int panel = 0; panel < panels; ++panel)
    panel_start.push_back(f.element(element, packed, f.b.CreateMul(panel_stride, f.i64(panel))));

  // One element of k, `offset` behind `at`, to which `pointers` point.
  auto step = [&](llvm::Value* at, const Values& pointers, int offset, Values sums) {
    llvm::Value* index = f.b.CreateNSWAdd(at, f.i64(offset));
    llvm::Value* b_index = f.b.CreateNSWMul(index, f.i64(columns));
    auto broadcast = [&](int row) -> llvm::Value* {
      llvm::Value* place = f.element(element, pointers[static_cast<std::size_t>(row / sharing)],
                                     row_offset[static_cast<std::size_t>(row % sharing)]);
      llvm::Value* scalar = f.b.CreateAlignedLoad(element, f.element(element, place, f.i64(offset)),
                                                  alignment(dtype));
      return f.b.CreateVectorSplat(static_cast<unsigned>(lanes), scalar);
    };
    auto load = [&](int panel, int v) -> llvm::Value* {
      return f.b.CreateAlignedLoad(vector,
                                   f.element(element, panel_start[static_cast<std::size_t>(panel)],
                                             f.b.CreateNSWAdd(b_index, f.i64(v * lanes))),
                                   alignment(dtype));
    };
    // What is used most often is held: a row of B under many rows of A, the elements of A under
    // many panels.
    auto accumulator = [&](int row, int panel, int v) -> llvm::Value*& {
      return sums[static_cast<std::size_t>((row * panels + panel) * vectors + v)];
    };
    if (panels == 1) {
      Values b;
      for (int v = 0; v < vectors; ++v) b.push_back(load(0, v));
      for (int row = 0; row < rows; ++row) {
        llvm::Value* x = broadcast(row);
        for (int v = 0; v < vectors; ++v)
          accumulator(row, 0, v) =
              multiply_add(f, x, b[static_cast<std::size_t>(v)], accumulator(row, 0, v));
      }
    } else {
      Values x;
      for (int row = 0; row < rows; ++row) x.push_back(broadcast(row));
      for (int panel = 0; panel < panels; ++panel)
        for (int v = 0; v < vectors; ++v) {
          llvm::Value* b = load(panel, v);
          for (int row = 0; row < rows; ++row)
            accumulator(row, panel, v) =
                multiply_add(f, x[static_cast<std::size_t>(row)], b, accumulator(row, panel, v));
        }
    }
    return sums;
  };

  if (acc.empty()) acc = no_sums(f, dtype, rows, panels);
  const std::size_t pointer_count = row_start.size();
  // Carried: pointers to rows, then sums.
  auto advance = [&](llvm::Value* at, const Values& carried, int by) {
    Values pointers(carried.begin(), carried.begin() + static_cast<std::ptrdiff_t>(pointer_count));
    Values sums(carried.begin() + static_cast<std::ptrdiff_t>(pointer_count), carried.end());
    for (int u = 0; u < by; ++u) sums = step(at, pointers, u, std::move(sums));
    for (llvm::Value*& pointer : pointers) {
      pointer = f.element(element, pointer, f.i64(by));
      if (sharing < rows) pointer = opaque(f, pointer);
    }
    pointers.insert(pointers.end(), sums.begin(), sums.end());
    return pointers;
  };
  Values carried = row_start;
  carried.insert(carried.end(), acc.begin(), acc.end());
  llvm::Value* whole = f.b.CreateAnd(k, f.i64(-kUnroll));
  carried = f.loop(f.i64(0), whole, f.i64(kUnroll), carried, [&](llvm::Value* at, const Values& c) {
    // Reading, into the second-level cache, data. A stretch is read in several streams side by
    // side, for the processor's own read-ahead begins anew in each page.
    const int streams = std::max(1, kUnroll * columns / 2 / line);
    for (const Fetch& fetch : fetches)
      for (int stream = 0; panels == 1 && stream < streams; ++stream) {
        llvm::Value* part = f.b.CreateMul(f.b.CreateUDiv(k, f.i64(streams)), f.i64(stream));
        llvm::Value* step = f.b.CreateAdd(part, f.b.CreateUDiv(at, f.i64(streams)));
        f.b.CreateIntrinsic(llvm::Intrinsic::prefetch, {f.b.getPtrTy()},
                            {f.b.CreateGEP(element, fetch.start, f.b.CreateMul(step, fetch.step)),
                             f.b.getInt32(0), f.b.getInt32(2), f.b.getInt32(1)});
      }
    return advance(at, c, kUnroll);
  });
  if (auto length = constant_of(k); !length || *length % kUnroll != 0)
    carried = f.loop(whole, k, f.i64(1), carried,
                     [&](llvm::Value* at, const Values& c) { return advance(at, c, 1); });
  return Values(carried.begin() + static_cast<std::ptrdiff_t>(pointer_count), carried.end());
}

void emit_matmul_block(FunctionBuilder& f, DType dtype, const MatmulOperands& operands,
                       llvm::Value* unit_begin, llvm::Value* unit_end, const Epilogue& epilogue) {
  llvm::Type* element = element_type(f, dtype);
  int columns = panel_columns(f.isa, dtype);
  int most_rows = tile_rows(f.isa, dtype);
  Cut c = cut(f, dtype, operands);
  std::vector<int> row_counts = possible_rows(f.isa, dtype, c);
  if (row_counts.empty()) return;

  std::vector<int> panels_of;  // at once, by number of rows
  int most_panels = 1;
  std::optional<std::int64_t> known_panels = constant_of(c.panels);
  for (int rows : row_counts) {
    int panels = panels_at_once(f.isa, rows);
    if (known_panels)
      while (panels > 1 && panels > *known_panels) panels /= 2;
    most_panels = std::max(most_panels, panels);
    panels_of.push_back(panels);
  }
  llvm::Value* tile =
      f.stack_slot(element, std::int64_t{most_panels} * most_rows * columns, f.isa.vector_bytes);

  // The epilogue of `rows` rows of one panel.
  auto finish_panel = [&](llvm::Value* panel, llvm::Value* from, llvm::Value* row0,
                          llvm::Value* rows) {
    auto* wide = llvm::FixedVectorType::get(element, static_cast<unsigned>(columns));
    llvm::Value* column = f.b.CreateNSWMul(panel, f.i64(columns));
    auto all_rows = [&](llvm::Value* mask) {
      f.loop(f.i64(0), rows, f.i64(1), [&](llvm::Value* row) {
        llvm::Value* accumulator = f.b.CreateAlignedLoad(
            wide, f.element(element, from, f.b.CreateNSWMul(row, f.i64(columns))),
            llvm::Align(static_cast<std::uint64_t>(f.isa.vector_bytes)));
        epilogue(f, f.b.CreateNSWAdd(row0, row), column, columns, accumulator, mask);
      });
    };
    if (auto n = constant_of(operands.n); n && *n % columns == 0) return all_rows(nullptr);
    llvm::Value* left = f.b.CreateSub(operands.n, column);
    auto masked = [&] {
      // Lane numbers in 32 bits: as wide as most elements, so that the mask needs no conversion.
      llvm::SmallVector<llvm::Constant*> numbers;
      for (int lane = 0; lane < columns; ++lane)
        numbers.push_back(f.b.getInt32(static_cast<std::uint32_t>(lane)));
      all_rows(f.b.CreateICmpSLT(llvm::ConstantVector::get(numbers),
                                 f.b.CreateVectorSplat(static_cast<unsigned>(columns),
                                                       f.b.CreateTrunc(left, f.b.getInt32Ty()))));
    };
    if (auto n = constant_of(operands.n); n && *n < columns) return masked();
    f.branch(
        f.b.CreateICmpSGE(left, f.i64(columns)),
        [&] {
          all_rows(nullptr);
          return Values{};
        },
        [&] {
          masked();
          return Values{};
        });
  };

  // This thread's stretch of panels ends here; then comes its stretch of the next product.
  llvm::Value *own_end = nullptr, *next_start = nullptr;
  if (operands.next) {
    const MatmulOperands::Next& next = *operands.next;
    llvm::Value* alone =
        f.b.CreateAnd(f.b.CreateICmpEQ(unit_begin, f.i64(0)),
                      f.b.CreateICmpEQ(unit_end, f.b.CreateMul(c.tiles, c.panels)));
    llvm::Value* threads = f.b.CreateSelect(alone, f.i64(1), next.threads);
    llvm::Value* worker = f.b.CreateSelect(alone, f.i64(0), next.worker);
    auto part = [&](llvm::Value* panels, llvm::Value* number) {
      return f.b.CreateUDiv(f.b.CreateMul(panels, number), threads);
    };
    own_end = part(c.panels, f.b.CreateAdd(worker, f.i64(1)));
    next_start = f.b.CreateGEP(f.b.getInt8Ty(), next.start,
                               f.b.CreateMul(part(next.panels, worker), next.bytes));
  }

  llvm::Value* depth = operands.lines ? operands.lines->depth : operands.k;

  // Panels [from, to) of one tile of rows. The tile before the last fetches the first halves of the
  // panels `block` panels ahead into the second-level cache, the last one the second halves, so
  // that memory is as busy as the multipliers; a single tile fetches both.
  auto run = [&](llvm::Value* tile_index, llvm::Value* row0, llvm::Value* rows, llvm::Value* from,
                 llvm::Value* to, llvm::Value* block) {
    llvm::Value* left = f.b.CreateSub(f.b.CreateSub(c.tiles, f.i64(1)), tile_index);
    llvm::Value* single = f.b.CreateICmpEQ(c.tiles, f.i64(1));
    llvm::Value* fetching = f.b.CreateICmpSLE(left, f.i64(1));
    llvm::Value* second = f.b.CreateAnd(f.b.CreateNot(single), f.b.CreateICmpEQ(left, f.i64(0)));
    MatmulOperands::Stretches stretches;
    if (operands.lines)
      stretches = operands.lines->locate(f.b.CreateUDiv(tile_index, c.tiles_of_line), row0, rows);
    else
      stretches.a = f.element(element, operands.a, f.b.CreateNSWMul(row0, operands.lda));
    llvm::Value* panel_stride = f.b.CreateNSWMul(depth, f.i64(columns));
    loop_until(f, from, to, [&](llvm::Value* panel) -> llvm::Value* {
      llvm::Value* packed =
          f.element(element, operands.packed, f.b.CreateNSWMul(panel, panel_stride));
      // These may lie behind the last panel.
      llvm::Value* next = f.b.CreateGEP(element, packed, f.b.CreateMul(block, panel_stride));
      if (own_end) {
        llvm::Value* behind = f.b.CreateSub(f.b.CreateAdd(panel, block), own_end);
        next = f.b.CreateSelect(
            f.b.CreateICmpSGE(behind, f.i64(0)),
            f.b.CreateGEP(element, next_start, f.b.CreateMul(behind, panel_stride)), next);
      }
      llvm::Value* half = f.i64(columns / 2);
      llvm::Value* middle = f.b.CreateGEP(element, next, f.b.CreateMul(depth, half));
      Values arguments = {stretches.a,
                          packed,
                          tile,
                          operands.lda,
                          operands.k,
                          panel_stride,
                          f.b.CreateSelect(fetching, f.b.CreateSelect(second, middle, next), tile),
                          f.b.CreateSelect(fetching, half, f.i64(0)),
                          f.b.CreateSelect(single, middle, tile),
                          f.b.CreateSelect(single, half, f.i64(0))};
      if (operands.lines)
        arguments[kPacked] =
            f.element(element, packed, f.b.CreateNSWMul(stretches.skip, f.i64(columns)));
      for (std::size_t i = 0; i < stretches.counts.size(); ++i)
        for (llvm::Value* value :
             {stretches.counts[i], stretches.steps[i], operands.lines->panel_steps[i]})
          arguments.push_back(value);
      auto variant = [&](std::size_t which) -> llvm::Value* {
        auto call = [&](int panels) {
          f.b.CreateCall(make_tile_function(f, dtype, row_counts[which], panels, arguments),
                         arguments);
          return Values{f.i64(panels)};
        };
        const int panels = panels_of[which];
        if (panels == 1) return call(1)[0];
        return f.branch(
            f.b.CreateICmpSGE(f.b.CreateSub(to, panel), f.i64(panels)),
            [&] { return call(panels); }, [&] { return call(1); })[0];
      };
      std::function<llvm::Value*(std::size_t, std::size_t)> choose =
          [&](std::size_t low, std::size_t high) -> llvm::Value* {
        if (high - low == 1) return variant(low);
        std::size_t middle = (low + high) / 2;
        return f.branch(
            f.b.CreateICmpSLT(rows, f.i64(row_counts[middle])),
            [&] { return Values{choose(low, middle)}; },
            [&] { return Values{choose(middle, high)}; })[0];
      };
      llvm::Value* done = choose(0, row_counts.size());
      if (most_panels == 1) {
        finish_panel(panel, tile, row0, rows);
      } else {
        f.loop(f.i64(0), done, f.i64(1), [&](llvm::Value* q) {
          finish_panel(f.b.CreateNSWAdd(panel, q),
                       f.element(element, tile,
                                 f.b.CreateNSWMul(q, f.i64(std::int64_t{most_rows} * columns))),
                       row0, rows);
        });
      }
      return f.b.CreateNSWAdd(panel, done);
    });
  };

  // Units count panels within a tile within a block of panels.
  loop_until(f, unit_begin, unit_end, [&](llvm::Value* unit) -> llvm::Value* {
    llvm::Value* per_block = maximum(f, f.b.CreateMul(c.tiles, c.block), f.i64(1));
    llvm::Value* first = f.b.CreateNSWMul(f.b.CreateUDiv(unit, per_block), c.block);
    llvm::Value* rest = f.b.CreateURem(unit, per_block);
    llvm::Value* width = minimum(f, c.block, f.b.CreateSub(c.panels, first));
    llvm::Value* tile_index = f.b.CreateUDiv(rest, width);
    llvm::Value* panel = f.b.CreateURem(rest, width);
    llvm::Value* count = minimum(f, f.b.CreateSub(unit_end, unit), f.b.CreateSub(width, panel));
    llvm::Value* in_line =
        operands.lines ? f.b.CreateURem(tile_index, c.tiles_of_line) : tile_index;
    llvm::Value* row0 =
        f.b.CreateNSWAdd(f.b.CreateNSWMul(in_line, c.rows), minimum(f, in_line, c.longer));
    llvm::Value* rows = f.b.CreateNSWAdd(
        c.rows, f.b.CreateZExt(f.b.CreateICmpSLT(in_line, c.longer), f.b.getInt64Ty()));
    llvm::Value* from = f.b.CreateNSWAdd(first, panel);
    run(tile_index, row0, rows, from, f.b.CreateNSWAdd(from, count), width);
    return f.b.CreateNSWAdd(unit, count);
  });
}

}  // namespace kiln::compiler
