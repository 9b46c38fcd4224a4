#include "compiler/codegen/cpu/pack.h"

#include "kiln/support/error.h"

namespace kiln::compiler {
namespace {

llvm::Type* element_type(FunctionBuilder& f, DType dtype) {
  if (dtype == DType::float32) return f.b.getFloatTy();
  if (dtype == DType::float64) return f.b.getDoubleTy();
  return f.b.getIntNTy(static_cast<unsigned>(dtype.size_in_bits()));
}

bool is_multiple(llvm::Value* value, std::int64_t of) {
  auto* constant = llvm::dyn_cast<llvm::ConstantInt>(value);
  return constant && constant->getSExtValue() % of == 0;
}

// Which of `lanes` lanes lie below `limit`.
llvm::Value* lanes_below(FunctionBuilder& f, int lanes, llvm::Value* limit) {
  llvm::SmallVector<llvm::Constant*> numbers;
  for (int lane = 0; lane < lanes; ++lane)
    numbers.push_back(f.b.getInt32(static_cast<std::uint32_t>(lane)));
  return f.b.CreateICmpSLT(llvm::ConstantVector::get(numbers),
                           f.b.CreateVectorSplat(static_cast<unsigned>(lanes),
                                                 f.b.CreateTrunc(limit, f.b.getInt32Ty())));
}

// whole(), or partial() in the last panel of a matrix whose width is no multiple of a panel's.
void by_width(FunctionBuilder& f, llvm::Value* n, llvm::Value* left, int columns,
              const std::function<void()>& whole, const std::function<void()>& partial) {
  if (is_multiple(n, columns)) return whole();
  f.branch(
      f.b.CreateICmpSGE(left, f.i64(columns)),
      [&] {
        whole();
        return Values{};
      },
      [&] {
        partial();
        return Values{};
      });
}

llvm::Align alignment(DType dtype) {
  return llvm::Align(static_cast<std::uint64_t>(dtype.align()));
}

}  // namespace

llvm::Value* panel_count(FunctionBuilder& f, DType dtype, llvm::Value* n) {
  int columns = panel_columns(f.isa, dtype);
  return f.divide_up(n, f.i64(columns));
}

llvm::Value* packed_bytes(FunctionBuilder& f, DType dtype, llvm::Value* n, llvm::Value* k) {
  std::int64_t row = std::int64_t{panel_columns(f.isa, dtype)} * dtype.size_in_bytes();
  return f.b.CreateMul(f.b.CreateMul(panel_count(f, dtype, n), k), f.i64(row));
}

void emit_pack(FunctionBuilder& f, DType dtype, llvm::Value* packed, llvm::Value* n, llvm::Value* k,
               llvm::Value* panel_begin, llvm::Value* panel_end, const PackLoad& load) {
  llvm::Type* element = element_type(f, dtype);
  int columns = panel_columns(f.isa, dtype);
  f.loop(panel_begin, panel_end, f.i64(1), [&](llvm::Value* panel) {
    llvm::Value* column = f.b.CreateNSWMul(panel, f.i64(columns));
    llvm::Value* left = f.b.CreateSub(n, column);
    llvm::Value* start = f.element(element, packed, f.b.CreateNSWMul(column, k));
    auto rows = [&](llvm::Value* mask) {
      f.loop(f.i64(0), k, f.i64(1), [&](llvm::Value* row) {
        llvm::Value* value = load(f, row, column, columns, mask);
        if (mask)
          value = f.b.CreateSelect(mask, value, llvm::Constant::getNullValue(value->getType()));
        f.b.CreateAlignedStore(value,
                               f.element(element, start, f.b.CreateNSWMul(row, f.i64(columns))),
                               alignment(dtype));
      });
    };
    by_width(
        f, n, left, columns, [&] { rows(nullptr); }, [&] { rows(lanes_below(f, columns, left)); });
  });
}

void emit_pack_transposed(FunctionBuilder& f, DType dtype, llvm::Value* packed, llvm::Value* n,
                          llvm::Value* k, llvm::Value* panel_begin, llvm::Value* panel_end,
                          const PackLoad& load) {
  llvm::Type* element = element_type(f, dtype);
  int columns = panel_columns(f.isa, dtype);
  int lanes = f.isa.lanes(dtype.size_in_bytes());
  llvm::Value* whole_k = f.b.CreateAnd(k, f.i64(-lanes));
  f.loop(panel_begin, panel_end, f.i64(1), [&](llvm::Value* panel) {
    llvm::Value* column = f.b.CreateNSWMul(panel, f.i64(columns));
    llvm::Value* left = f.b.CreateSub(n, column);
    llvm::Value* start = f.element(element, packed, f.b.CreateNSWMul(column, k));
    // One square: columns from `at`, k from `row`; `tail` tells how much of k is left, null:
    // enough.
    auto square = [&](llvm::Value* at, llvm::Value* row, llvm::Value* tail, bool partial) {
      llvm::Value* mask = tail ? lanes_below(f, lanes, tail) : nullptr;
      Values vectors;
      for (int lane = 0; lane < lanes; ++lane) {
        llvm::Value* offset = f.b.CreateNSWAdd(at, f.i64(lane));
        llvm::Value* inside = partial ? f.b.CreateICmpSLT(offset, left) : nullptr;
        // Beyond the last column the last one is read again and made zero.
        if (partial) offset = f.b.CreateSelect(inside, offset, f.b.CreateSub(left, f.i64(1)));
        llvm::Value* value = load(f, row, f.b.CreateNSWAdd(column, offset), lanes, mask);
        if (partial)
          value = f.b.CreateSelect(inside, value, llvm::Constant::getNullValue(value->getType()));
        vectors.push_back(value);
      }
      vectors = transpose_square(f, vectors);
      for (int lane = 0; lane < lanes; ++lane) {
        llvm::Value* index = f.b.CreateNSWAdd(
            f.b.CreateNSWMul(f.b.CreateNSWAdd(row, f.i64(lane)), f.i64(columns)), at);
        auto store = [&] {
          f.b.CreateAlignedStore(vectors[static_cast<std::size_t>(lane)],
                                 f.element(element, start, index), alignment(dtype));
        };
        if (tail)
          f.when(f.b.CreateICmpSLT(f.i64(lane), tail), store);
        else
          store();
      }
    };
    auto all = [&](bool partial) {
      f.loop(f.i64(0), f.i64(columns), f.i64(lanes), [&](llvm::Value* at) {
        f.loop(f.i64(0), whole_k, f.i64(lanes),
               [&](llvm::Value* row) { square(at, row, nullptr, partial); });
        if (!is_multiple(k, lanes))
          f.when(f.b.CreateICmpSLT(whole_k, k),
                 [&] { square(at, whole_k, f.b.CreateSub(k, whole_k), partial); });
      });
    };
    by_width(f, n, left, columns, [&] { all(false); }, [&] { all(true); });
  });
}

Values transpose_square(FunctionBuilder& f, Values rows) {
  int lanes = static_cast<int>(rows.size());
  if (lanes == 1) return rows;
  int bytes = static_cast<int>(rows[0]->getType()->getScalarSizeInBits()) / 8;
  int group = 16 / bytes;  // lanes of 128 bits
  auto shuffle = [&](llvm::Value* x, llvm::Value* y, const std::function<int(int)>& from) {
    llvm::SmallVector<int> mask;
    for (int lane = 0; lane < lanes; ++lane) mask.push_back(from(lane));
    return f.b.CreateShuffleVector(x, y, mask);
  };
  // Inside groups of 128 bits: interleave neighbours, then pairs of them; the unpack instructions.
  // Each step s turns vectors i and i + s into their low and high halves, s elements at a time.
  for (int s = 1; s < group; s *= 2)
    for (int i = 0; i < lanes; ++i) {
      if (i & s) continue;
      llvm::Value* x = rows[static_cast<std::size_t>(i)];
      llvm::Value* y = rows[static_cast<std::size_t>(i + s)];
      auto half = [&](int high) {
        return shuffle(x, y, [&](int lane) {
          int base = lane / group * group, inside = lane % group;
          int chunk = inside / s, within = inside % s;
          int source = base + high * group / 2 + chunk / 2 * s + within;
          return chunk % 2 == 0 ? source : source + lanes;
        });
      };
      rows[static_cast<std::size_t>(i)] = half(0);
      rows[static_cast<std::size_t>(i + s)] = half(1);
    }
  // Element e of a group now lies in vector bit-reversed(e) of the group's vectors.
  Values ordered(rows.size());
  for (int i = 0; i < lanes; ++i) {
    int inside = i % group, reversed = 0;
    for (int bit = 1, out = group / 2; bit < group; bit *= 2, out /= 2)
      if (inside & bit) reversed |= out;
    ordered[static_cast<std::size_t>(i / group * group + reversed)] =
        rows[static_cast<std::size_t>(i)];
  }
  // Then whole groups change places across the diagonal.
  for (int d = group; d < lanes; d *= 2)
    for (int i = 0; i < lanes; ++i) {
      if (i & d) continue;
      llvm::Value* x = ordered[static_cast<std::size_t>(i)];
      llvm::Value* y = ordered[static_cast<std::size_t>(i + d)];
      ordered[static_cast<std::size_t>(i)] =
          shuffle(x, y, [&](int lane) { return lane & d ? lane - d + lanes : lane; });
      ordered[static_cast<std::size_t>(i + d)] =
          shuffle(x, y, [&](int lane) { return lane & d ? lane + lanes : lane + d; });
    }
  return ordered;
}

}  // namespace kiln::compiler
