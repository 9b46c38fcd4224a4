// A unit is a block of query rows. It goes through the keys block by block: keys and values of the
// block are packed into panels, then each tile of rows gets its scores from the register tile of
// matmul.h, turns them into exponentials relative to the largest score so far, and adds their
// product with the values to what it has, rescaled when the largest score has grown. The last step
// divides by the sums. Unless the sequence is very long, all units of a call share what is packed.
//
// The last tile of a block of rows starts early rather than being shorter, so that there is code
// for one height only, and for single rows. Each tile keeps its own sums, so rows in two tiles are
// merely computed twice.

#include "compiler/codegen/cpu/attention.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "compiler/codegen/cpu/pack.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::compiler {
namespace {

std::optional<std::int64_t> constant_of(llvm::Value* value) {
  if (auto* constant = llvm::dyn_cast<llvm::ConstantInt>(value)) return constant->getSExtValue();
  return std::nullopt;
}

// Packed keys and values are kept up to this size, a part of the third-level cache.
constexpr std::int64_t kSharedBytes = 2 << 20;

class AttentionEmitter {
 public:
  AttentionEmitter(FunctionBuilder& f, DType dtype, const AttentionOperands& o)
      : f(f), dtype_(dtype), o_(o) {
    KILN_CHECK(dtype == DType::float32 || dtype == DType::float64,
               format("no attention code for {}", dtype.name()));
    element_ = f.lower.register_type(dtype, 1);
    columns_ = panel_columns(f.isa, dtype);
    tile_ = tile_rows(f.isa, dtype);
    // Keys and values of a block take half of a second-level cache of 512 KiB.
    std::int64_t row_bytes = 2 * 64 * dtype.size_in_bytes();
    if (constant_of(o.depth) && constant_of(o.width))
      row_bytes = (*constant_of(o.depth) + *constant_of(o.width)) * dtype.size_in_bytes();
    block_ = std::clamp<std::int64_t>((256 << 10) / std::max<std::int64_t>(row_bytes, 1), 64, 512);
    block_ = block_ / columns_ * columns_;
    one_block_ = constant_of(o.keys) && *constant_of(o.keys) <= block_;
    panels_ = panel_count(f, dtype, o.width);
    wide_ = f.b.CreateNSWMul(panels_, f.i64(columns_));
    llvm::Value* bytes = f.b.CreateMul(f.b.CreateMul(o.keys, f.b.CreateAdd(o.depth, wide_)),
                                       f.i64(dtype.size_in_bytes()));
    shared_ = f.b.CreateOr(f.b.CreateICmpSLE(o.keys, f.i64(block_)),
                           f.b.CreateICmpSLE(bytes, f.i64(kSharedBytes)));
    // Units are longer where each packs for itself.
    unit_rows_ = f.b.CreateSelect(shared_, f.i64(std::int64_t{tile_} * 8), f.i64(most_rows()));
  }

  llvm::Value* unit_count() { return f.divide_up(o_.rows, unit_rows_); }

  llvm::Value* scratch_bytes() {
    lay_out(llvm::ConstantPointerNull::get(f.b.getPtrTy()));
    return f.b.CreateMul(used_, f.i64(dtype_.size_in_bytes()));
  }

  void emit(llvm::Value* scratch, llvm::Value* unit_begin, llvm::Value* unit_end,
            const Score& score, const Epilogue& epilogue);

 private:
  std::int64_t most_rows() const { return std::int64_t{tile_} * 16; }

  // Gives every array its place; `used_` ends as the number of elements.
  void lay_out(llvm::Value* scratch) {
    used_ = f.i64(0);
    auto take = [&](llvm::Value* elements) {
      llvm::Value* place = f.element(element_, scratch, used_);
      std::int64_t line = 64 / dtype_.size_in_bytes();
      used_ = f.b.CreateAdd(used_,
                            f.b.CreateAnd(f.b.CreateAdd(elements, f.i64(line - 1)), f.i64(-line)));
      return place;
    };
    llvm::Value* keys = f.b.CreateMul(panel_count(f, dtype_, o_.keys), f.i64(columns_));
    llvm::Value* in_block =
        f.b.CreateSelect(f.b.CreateICmpSLT(keys, f.i64(block_)), keys, f.i64(block_));
    llvm::Value* packed = f.b.CreateSelect(shared_, keys, in_block);
    score_stride_ = in_block;
    packed_keys_ = take(f.b.CreateMul(packed, o_.depth));
    packed_values_ = take(f.b.CreateMul(packed, wide_));
    scores_ = take(f.b.CreateMul(in_block, f.i64(tile_)));
    sums_ = take(f.b.CreateMul(wide_, f.i64(most_rows())));
    largest_ = take(f.i64(most_rows()));
    total_ = take(f.i64(most_rows()));
    shift_ = take(f.i64(tile_));
    rescale_ = take(f.i64(tile_));
  }

  llvm::Align align() const { return llvm::Align(static_cast<std::uint64_t>(dtype_.align())); }
  llvm::Align vector_align() const {
    return llvm::Align(static_cast<std::uint64_t>(f.isa.vector_bytes));
  }
  llvm::FixedVectorType* vector(int lanes) const {
    return llvm::FixedVectorType::get(element_, static_cast<unsigned>(lanes));
  }
  llvm::Value* at(llvm::Value* base, llvm::Value* index) {
    return f.element(element_, base, index);
  }
  llvm::Value* minus_infinity(int lanes) {
    llvm::Constant* scalar =
        llvm::ConstantFP::get(element_, -std::numeric_limits<double>::infinity());
    return lanes == 1 ? scalar
                      : llvm::ConstantVector::getSplat(
                            llvm::ElementCount::getFixed(static_cast<unsigned>(lanes)), scalar);
  }
  // The larger one; NaN in `x` is passed over: its exponential brings it back.
  llvm::Value* larger(FunctionBuilder& g, llvm::Value* x, llvm::Value* than) {
    return g.b.CreateSelect(g.b.CreateFCmpOGT(x, than), x, than);
  }
  // Folds a vector to one element by halves.
  llvm::Value* fold(llvm::Value* x,
                    const std::function<llvm::Value*(llvm::Value*, llvm::Value*)>& join) {
    for (int lanes = columns_; lanes > 1; lanes /= 2) {
      llvm::SmallVector<int> low, high;
      for (int lane = 0; lane < lanes / 2; ++lane) {
        low.push_back(lane);
        high.push_back(lane + lanes / 2);
      }
      x = join(f.b.CreateShuffleVector(x, low), f.b.CreateShuffleVector(x, high));
    }
    return f.b.CreateExtractElement(x, std::uint64_t{0});
  }

  // Whether a call can meet a block of rows that is shorter than a tile, and one that is not.
  bool may_be_short() const {
    auto rows = constant_of(o_.rows), unit = constant_of(unit_rows_);
    return !rows || !unit || (*rows % *unit != 0 && *rows % *unit < tile_);
  }
  bool may_be_tall() const {
    auto rows = constant_of(o_.rows);
    return !rows || *rows >= tile_;
  }

  llvm::Function* make_score_function(int rows);
  llvm::Function* make_value_function(int rows);
  void pack(llvm::Value* first, llvm::Value* count, llvm::Value* packed_keys,
            llvm::Value* packed_values);
  void score_row(llvm::Value* scores, llvm::Value* row, llvm::Value* slot, llvm::Value* in_tile,
                 llvm::Value* first, llvm::Value* count, const Score& score);
  void make_factors();
  void weigh_row(llvm::Value* scores, llvm::Value* slot, llvm::Value* in_tile, llvm::Value* count);
  void finish_row(llvm::Value* slot, llvm::Value* row, const Epilogue& epilogue);

  FunctionBuilder& f;
  DType dtype_;
  const AttentionOperands& o_;
  llvm::Type* element_;
  int columns_, tile_;
  std::int64_t block_;   // keys
  bool one_block_;       // surely
  llvm::Value* panels_;  // of values
  llvm::Value* wide_;    // width with padding
  llvm::Value* shared_;  // whether the packed keys and values of all blocks are kept
  llvm::Value* unit_rows_;

  llvm::Value* used_ = nullptr;
  llvm::Value* score_stride_ = nullptr;
  llvm::Value* packed_keys_ = nullptr;
  llvm::Value* packed_values_ = nullptr;
  llvm::Value* scores_ = nullptr;   // [tile rows, keys of a block]
  llvm::Value* sums_ = nullptr;     // [rows of a unit, wide]: weighted values so far
  llvm::Value* largest_ = nullptr;  // by row of the unit: largest score so far
  llvm::Value* total_ = nullptr;    // by row of the unit: sum of weights so far
  llvm::Value* shift_ = nullptr;    // by row of the tile: what its scores are relative to
  llvm::Value* rescale_ = nullptr;  // by row of the tile: what its sums are multiplied with
};

// (query, query_stride, packed_keys, depth, panels, scores, score_stride): the products of `rows`
// queries with the packed keys.
llvm::Function* AttentionEmitter::make_score_function(int rows) {
  llvm::Type* pointer = f.b.getPtrTy();
  llvm::Type* i64 = f.b.getInt64Ty();
  FunctionBuilder g(f.module, f.isa,
                    format("{}_scores_{}", std::string_view(f.function->getName()), rows),
                    f.b.getVoidTy(), {pointer, i64, pointer, i64, i64, pointer, i64},
                    FunctionBuilder::Linkage::helper);
  auto known = [&](llvm::Value* value, unsigned argument) {
    return constant_of(value) ? value : g.argument(argument);
  };
  llvm::Value* depth = known(o_.depth, 3);
  llvm::Value* score_stride = known(score_stride_, 6);
  llvm::Value* panel_stride = g.b.CreateNSWMul(depth, g.i64(columns_));
  int lanes = columns_ / f.isa.matmul_vectors;
  auto run = [&](int panels, llvm::Value* from, llvm::Value* to) {
    g.loop(from, to, g.i64(panels), [&](llvm::Value* panel) {
      Values registers = emit_register_tile(
          g, dtype_, rows, panels, g.argument(0), known(o_.query_stride, 1),
          g.element(element_, g.argument(2), g.b.CreateNSWMul(panel, panel_stride)), panel_stride,
          depth);
      std::size_t next = 0;
      llvm::Value* start =
          g.element(element_, g.argument(5), g.b.CreateNSWMul(panel, g.i64(columns_)));
      for (int row = 0; row < rows; ++row)
        for (int v = 0; v < panels * f.isa.matmul_vectors; ++v)
          g.b.CreateAlignedStore(
              registers[next++],
              g.element(
                  element_, start,
                  g.b.CreateNSWAdd(g.b.CreateNSWMul(score_stride, g.i64(row)), g.i64(v * lanes))),
              vector_align());
    });
  };
  int several = panels_at_once(f.isa, rows);
  llvm::Value* count = g.argument(4);
  llvm::Value* whole = g.b.CreateAnd(count, g.i64(-several));
  run(several, g.i64(0), whole);
  if (several > 1) run(1, whole, count);
  g.b.CreateRetVoid();
  g.finish();
  return g.function;
}

// (weights, weight_stride, packed_values, keys, panels, sums, sum_stride, rescale): sums = sums ·
// rescale + weights · values.
llvm::Function* AttentionEmitter::make_value_function(int rows) {
  llvm::Type* pointer = f.b.getPtrTy();
  llvm::Type* i64 = f.b.getInt64Ty();
  FunctionBuilder g(f.module, f.isa,
                    format("{}_values_{}", std::string_view(f.function->getName()), rows),
                    f.b.getVoidTy(), {pointer, i64, pointer, i64, i64, pointer, i64, pointer},
                    FunctionBuilder::Linkage::helper);
  auto known = [&](llvm::Value* value, unsigned argument) {
    return constant_of(value) ? value : g.argument(argument);
  };
  llvm::Value* keys = one_block_ ? o_.keys : g.argument(3);
  llvm::Value* sum_stride = known(wide_, 6);
  llvm::Value* panel_stride = g.b.CreateNSWMul(keys, g.i64(columns_));
  int lanes = columns_ / f.isa.matmul_vectors;
  auto run = [&](int panels, llvm::Value* from, llvm::Value* to) {
    g.loop(from, to, g.i64(panels), [&](llvm::Value* panel) {
      llvm::Value* start =
          g.element(element_, g.argument(5), g.b.CreateNSWMul(panel, g.i64(columns_)));
      Values places, initial;
      for (int row = 0; row < rows; ++row) {
        llvm::Value* factor = nullptr;
        if (!one_block_)
          factor = g.b.CreateVectorSplat(
              static_cast<unsigned>(lanes),
              g.b.CreateAlignedLoad(element_, g.element(element_, g.argument(7), g.i64(row)),
                                    align()));
        for (int v = 0; v < panels * f.isa.matmul_vectors; ++v) {
          places.push_back(g.element(
              element_, start,
              g.b.CreateNSWAdd(g.b.CreateNSWMul(sum_stride, g.i64(row)), g.i64(v * lanes))));
          if (!one_block_)
            initial.push_back(g.b.CreateFMul(
                g.b.CreateAlignedLoad(vector(lanes), places.back(), vector_align()), factor));
        }
      }
      Values registers = emit_register_tile(
          g, dtype_, rows, panels, g.argument(0), known(score_stride_, 1),
          g.element(element_, g.argument(2), g.b.CreateNSWMul(panel, panel_stride)), panel_stride,
          keys, initial);
      for (std::size_t i = 0; i < registers.size(); ++i)
        g.b.CreateAlignedStore(registers[i], places[i], vector_align());
    });
  };
  int several = panels_at_once(f.isa, rows);
  llvm::Value* count = constant_of(panels_) ? panels_ : g.argument(4);
  llvm::Value* whole = g.b.CreateAnd(count, g.i64(-several));
  run(several, g.i64(0), whole);
  if (several > 1) run(1, whole, count);
  g.b.CreateRetVoid();
  g.finish();
  return g.function;
}

// Packs keys [first, first + count) and their values.
void AttentionEmitter::pack(llvm::Value* first, llvm::Value* count, llvm::Value* packed_keys,
                            llvm::Value* packed_values) {
  auto loader = [&](llvm::Value* base, llvm::Value* stride) {
    return [this, base, stride](llvm::Value* row, llvm::Value* column, int lanes,
                                llvm::Value* mask) -> llvm::Value* {
      llvm::Value* from = at(base, f.b.CreateNSWAdd(f.b.CreateNSWMul(row, stride), column));
      if (mask) return f.b.CreateMaskedLoad(vector(lanes), from, align(), mask);
      return f.b.CreateAlignedLoad(vector(lanes), from, align());
    };
  };
  auto load_key = loader(at(o_.key, f.b.CreateNSWMul(first, o_.key_stride)), o_.key_stride);
  auto load_value = loader(at(o_.value, f.b.CreateNSWMul(first, o_.value_stride)), o_.value_stride);
  emit_pack_transposed(f, dtype_, packed_keys, count, o_.depth, f.i64(0),
                       panel_count(f, dtype_, count),
                       [&](FunctionBuilder&, llvm::Value* k, llvm::Value* n, int lanes,
                           llvm::Value* mask) { return load_key(n, k, lanes, mask); });
  emit_pack(f, dtype_, packed_values, o_.width, count, f.i64(0), panels_,
            [&](FunctionBuilder&, llvm::Value* k, llvm::Value* n, int lanes, llvm::Value* mask) {
              return load_value(k, n, lanes, mask);
            });
}

// Turns the products of one row, at `scores`, into scores and finds what they are shifted by.
void AttentionEmitter::score_row(llvm::Value* scores, llvm::Value* row, llvm::Value* slot,
                                 llvm::Value* in_tile, llvm::Value* first, llvm::Value* count,
                                 const Score& score) {
  auto* type = vector(columns_);
  llvm::Value* whole = f.b.CreateAnd(count, f.i64(-columns_));
  auto one = [&](llvm::Value* key, llvm::Value* mask) -> llvm::Value* {
    llvm::Value* place = at(scores, key);
    llvm::Value* product = f.b.CreateAlignedLoad(type, place, vector_align());
    llvm::Value* result = product;
    if (score) result = score(f, row, f.b.CreateNSWAdd(first, key), columns_, product, mask);
    if (mask) result = f.b.CreateSelect(mask, result, minus_infinity(columns_));
    if (score || mask) f.b.CreateAlignedStore(result, place, vector_align());
    return result;
  };
  llvm::Value* most = f.loop(f.i64(0), whole, f.i64(columns_), {minus_infinity(columns_)},
                             [&](llvm::Value* key, const Values& carried) {
                               return Values{larger(f, one(key, nullptr), carried[0])};
                             })[0];
  if (!(constant_of(count) && *constant_of(count) % columns_ == 0))
    most = f.branch(
        f.b.CreateICmpSLT(whole, count),
        [&] {
          llvm::SmallVector<llvm::Constant*> numbers;
          for (int lane = 0; lane < columns_; ++lane)
            numbers.push_back(f.b.getInt32(static_cast<std::uint32_t>(lane)));
          llvm::Value* mask = f.b.CreateICmpSLT(
              llvm::ConstantVector::get(numbers),
              f.b.CreateVectorSplat(
                  static_cast<unsigned>(columns_),
                  f.b.CreateTrunc(f.b.CreateSub(count, whole), f.b.getInt32Ty())));
          return Values{larger(f, one(whole, mask), most)};
        },
        [&] { return Values{most}; })[0];
  llvm::Value* largest =
      fold(most, [&](llvm::Value* x, llvm::Value* y) { return larger(f, x, y); });
  llvm::Value* before = nullptr;
  if (!one_block_) {
    before = f.b.CreateAlignedLoad(element_, at(largest_, slot), align());
    largest = larger(f, largest, before);
    f.b.CreateAlignedStore(largest, at(largest_, slot), align());
  }
  // Where everything so far is −inf, the weights are zeros and not −inf − −inf.
  llvm::Value* shift = f.b.CreateSelect(f.b.CreateFCmpOEQ(largest, minus_infinity(1)),
                                        llvm::ConstantFP::get(element_, 0), largest);
  f.b.CreateAlignedStore(shift, at(shift_, in_tile), align());
  if (!one_block_)
    f.b.CreateAlignedStore(f.b.CreateFSub(before, shift), at(rescale_, in_tile), align());
}

// Turns what earlier blocks add to the shift of each row into the factor for their sums, for all
// rows of a tile at once.
void AttentionEmitter::make_factors() {
  int lanes = 1;
  while (lanes < tile_) lanes *= 2;
  llvm::Value* x = f.b.CreateAlignedLoad(vector(lanes), rescale_, align());
  f.b.CreateAlignedStore(f.lower.exp(x), rescale_, align());
}

// Turns the scores of one row into weights: exp(score − shift).
void AttentionEmitter::weigh_row(llvm::Value* scores, llvm::Value* slot, llvm::Value* in_tile,
                                 llvm::Value* count) {
  auto* type = vector(columns_);
  llvm::Value* shifts =
      f.b.CreateVectorSplat(static_cast<unsigned>(columns_),
                            f.b.CreateAlignedLoad(element_, at(shift_, in_tile), align()));
  llvm::Value* padded = f.b.CreateAnd(f.b.CreateAdd(count, f.i64(columns_ - 1)), f.i64(-columns_));
  llvm::Value* sum = f.loop(f.i64(0), padded, f.i64(columns_), {llvm::Constant::getNullValue(type)},
                            [&](llvm::Value* key, const Values& carried) {
                              llvm::Value* place = at(scores, key);
                              llvm::Value* x = f.b.CreateAlignedLoad(type, place, vector_align());
                              llvm::Value* weight = f.lower.exp(f.b.CreateFSub(x, shifts));
                              f.b.CreateAlignedStore(weight, place, vector_align());
                              return Values{f.b.CreateFAdd(carried[0], weight)};
                            })[0];
  llvm::Value* total =
      fold(sum, [&](llvm::Value* x, llvm::Value* y) { return f.b.CreateFAdd(x, y); });
  if (!one_block_) {
    llvm::Value* factor = f.b.CreateAlignedLoad(element_, at(rescale_, in_tile), align());
    llvm::Value* old = f.b.CreateAlignedLoad(element_, at(total_, slot), align());
    total = f.b.CreateFAdd(f.b.CreateFMul(old, factor), total);
  }
  f.b.CreateAlignedStore(total, at(total_, slot), align());
}

void AttentionEmitter::finish_row(llvm::Value* slot, llvm::Value* row, const Epilogue& epilogue) {
  auto* type = vector(columns_);
  llvm::Value* total = f.b.CreateAlignedLoad(element_, at(total_, slot), align());
  // Without keys the empty sum of values is zero; with keys that are all hidden the result is NaN.
  llvm::Constant* one = llvm::ConstantFP::get(element_, 1);
  llvm::Value* divisor = f.b.CreateSelect(f.b.CreateICmpEQ(o_.keys, f.i64(0)), one, total);
  llvm::Value* factor =
      f.b.CreateVectorSplat(static_cast<unsigned>(columns_), f.b.CreateFDiv(one, divisor));
  llvm::Value* sums = at(sums_, f.b.CreateNSWMul(slot, wide_));
  auto store = [&](llvm::Value* column, llvm::Value* mask) {
    llvm::Value* sum = f.b.CreateAlignedLoad(type, at(sums, column), vector_align());
    epilogue(f, row, column, columns_, f.b.CreateFMul(sum, factor), mask);
  };
  llvm::Value* whole = f.b.CreateAnd(o_.width, f.i64(-columns_));
  f.loop(f.i64(0), whole, f.i64(columns_), [&](llvm::Value* column) { store(column, nullptr); });
  if (constant_of(o_.width) && *constant_of(o_.width) % columns_ == 0) return;
  f.when(f.b.CreateICmpSLT(whole, o_.width), [&] {
    llvm::SmallVector<llvm::Constant*> numbers;
    for (int lane = 0; lane < columns_; ++lane)
      numbers.push_back(f.b.getInt32(static_cast<std::uint32_t>(lane)));
    store(whole,
          f.b.CreateICmpSLT(llvm::ConstantVector::get(numbers),
                            f.b.CreateVectorSplat(static_cast<unsigned>(columns_),
                                                  f.b.CreateTrunc(f.b.CreateSub(o_.width, whole),
                                                                  f.b.getInt32Ty()))));
  });
}

void AttentionEmitter::emit(llvm::Value* scratch, llvm::Value* unit_begin, llvm::Value* unit_end,
                            const Score& score, const Epilogue& epilogue) {
  lay_out(scratch);
  struct Height {
    llvm::Function* scores = nullptr;
    llvm::Function* values = nullptr;
  };
  Height tall, single;
  if (may_be_tall()) tall = {make_score_function(tile_), make_value_function(tile_)};
  if (may_be_short()) single = {make_score_function(1), make_value_function(1)};
  if (!tall.scores && !single.scores) return;  // there are no rows

  f.loop(unit_begin, unit_end, f.i64(1), [&](llvm::Value* unit) {
    llvm::Value* row0 = f.b.CreateNSWMul(unit, unit_rows_);
    llvm::Value* left = f.b.CreateSub(o_.rows, row0);
    llvm::Value* rows = f.b.CreateSelect(f.b.CreateICmpSLT(left, unit_rows_), left, unit_rows_);
    llvm::Value* is_tall = f.b.CreateICmpSGE(rows, f.i64(tile_));
    llvm::Value* height = f.b.CreateSelect(is_tall, f.i64(tile_), f.i64(1));
    llvm::Value* last_tile = f.b.CreateSub(rows, height);
    // Tiles are numbered by their first slot; slots are rows, but for those of the last tile.
    auto tile_start = [&](llvm::Value* slot) {
      return f.b.CreateSelect(f.b.CreateICmpSLT(slot, last_tile), slot, last_tile);
    };
    if (!one_block_) {
      llvm::Value* slots = f.b.CreateAdd(rows, f.i64(tile_));
      slots =
          f.b.CreateSelect(f.b.CreateICmpSLT(slots, f.i64(most_rows())), slots, f.i64(most_rows()));
      f.loop(f.i64(0), slots, f.i64(1), [&](llvm::Value* slot) {
        f.b.CreateAlignedStore(minus_infinity(1), at(largest_, slot), align());
        f.b.CreateAlignedStore(llvm::ConstantFP::get(element_, 0), at(total_, slot), align());
      });
      f.loop(f.i64(0), f.b.CreateNSWMul(slots, wide_), f.i64(columns_), [&](llvm::Value* i) {
        f.b.CreateAlignedStore(llvm::Constant::getNullValue(vector(columns_)), at(sums_, i),
                               vector_align());
      });
    }
    auto key_block = [&](llvm::Value* first, llvm::Value* count) {
      llvm::Value* place = f.b.CreateSelect(shared_, first, f.i64(0));
      llvm::Value* packed_keys = at(packed_keys_, f.b.CreateNSWMul(place, o_.depth));
      llvm::Value* packed_values = at(packed_values_, f.b.CreateNSWMul(place, wide_));
      llvm::Value* packed_before = f.b.CreateAnd(shared_, f.b.CreateICmpSGT(unit, unit_begin));
      f.when(f.b.CreateNot(packed_before), [&] { pack(first, count, packed_keys, packed_values); });
      llvm::Value* panels = panel_count(f, dtype_, count);
      f.loop(f.i64(0), rows, height, [&](llvm::Value* slot) {
        llvm::Value* in_unit = tile_start(slot);
        llvm::Value* row = f.b.CreateNSWAdd(row0, in_unit);
        llvm::Value* query = at(o_.query, f.b.CreateNSWMul(row, o_.query_stride));
        llvm::Value* sums = at(sums_, f.b.CreateNSWMul(slot, wide_));
        auto by_height = [&](llvm::Function* Height::* which, const Values& arguments) {
          if (!single.scores || !tall.scores) {
            f.b.CreateCall((tall.scores ? tall : single).*which, arguments);
            return;
          }
          f.branch(
              is_tall,
              [&] {
                f.b.CreateCall(tall.*which, arguments);
                return Values{};
              },
              [&] {
                f.b.CreateCall(single.*which, arguments);
                return Values{};
              });
        };
        by_height(&Height::scores,
                  {query, o_.query_stride, packed_keys, o_.depth, panels, scores_, score_stride_});
        // Step by step for all rows: the chain of one row's steps is longer than a processor looks
        // ahead.
        f.loop(f.i64(0), height, f.i64(1), [&](llvm::Value* i) {
          score_row(at(scores_, f.b.CreateNSWMul(i, score_stride_)), f.b.CreateNSWAdd(row, i),
                    f.b.CreateNSWAdd(slot, i), i, first, count, score);
        });
        if (!one_block_) make_factors();
        f.loop(f.i64(0), height, f.i64(1), [&](llvm::Value* i) {
          weigh_row(at(scores_, f.b.CreateNSWMul(i, score_stride_)), f.b.CreateNSWAdd(slot, i), i,
                    count);
        });
        by_height(&Height::values,
                  {scores_, score_stride_, packed_values, count, panels_, sums, wide_, rescale_});
      });
    };
    if (one_block_) {
      key_block(f.i64(0), o_.keys);
    } else {
      f.loop(f.i64(0), o_.keys, f.i64(block_), [&](llvm::Value* first) {
        llvm::Value* rest = f.b.CreateSub(o_.keys, first);
        key_block(first,
                  f.b.CreateSelect(f.b.CreateICmpSLT(rest, f.i64(block_)), rest, f.i64(block_)));
      });
    }
    f.loop(f.i64(0), rows, height, [&](llvm::Value* slot) {
      llvm::Value* start = tile_start(slot);
      // Rows of the last tile that the one before has stored are left out.
      f.loop(f.b.CreateSub(slot, start), height, f.i64(1), [&](llvm::Value* i) {
        finish_row(f.b.CreateNSWAdd(slot, i), f.b.CreateNSWAdd(row0, f.b.CreateNSWAdd(start, i)),
                   epilogue);
      });
    });
  });
}

}  // namespace

llvm::Value* attention_unit_count(FunctionBuilder& f, DType dtype,
                                  const AttentionOperands& operands) {
  return AttentionEmitter(f, dtype, operands).unit_count();
}

llvm::Value* attention_scratch_bytes(FunctionBuilder& f, DType dtype,
                                     const AttentionOperands& operands) {
  return AttentionEmitter(f, dtype, operands).scratch_bytes();
}

void emit_attention_block(FunctionBuilder& f, DType dtype, const AttentionOperands& operands,
                          llvm::Value* scratch, llvm::Value* unit_begin, llvm::Value* unit_end,
                          const Score& score, const Epilogue& epilogue) {
  AttentionEmitter(f, dtype, operands).emit(scratch, unit_begin, unit_end, score, epilogue);
}

}  // namespace kiln::compiler
