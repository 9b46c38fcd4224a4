#include "compiler/codegen/cpu/matmul.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>

#include "compiler/codegen/cpu/pack.h"
#include "compiler/codegen/object.h"
#include "compiler/link.h"
#include "loaded_image.h"

namespace kiln::compiler {
namespace {

using std::int64_t;

// How the kernels under test are made.
struct Options {
  Isa isa;
  DType dtype = DType::float32;
  int64_t m = -1, n = -1, k = -1;  // -1: known at run time only
  bool transposed = false;         // B lies as [n, k]
};

// C = A·B through a packed copy of B, compiled by the code under test.
class Product {
 public:
  explicit Product(const Options& options) : options_(options), image_(compile(options)) {}

  template <typename T>
  std::vector<T> run(const std::vector<T>& a, int64_t lda, const std::vector<T>& b, int64_t ldb,
                     int64_t m, int64_t n, int64_t k, int64_t parts = 1) {
    auto* bytes = image_.function<int64_t(int64_t, int64_t)>("bytes");
    auto* panels = image_.function<int64_t(int64_t)>("panels");
    auto* pack =
        image_.function<void(const T*, int64_t, T*, int64_t, int64_t, int64_t, int64_t)>("pack");
    auto* units = image_.function<int64_t(int64_t, int64_t)>("units");
    auto* multiply = image_.function<void(const T*, int64_t, const T*, T*, int64_t, int64_t,
                                          int64_t, int64_t, int64_t)>("multiply");
    const T guard = static_cast<T>(77);
    std::size_t elements = static_cast<std::size_t>(bytes(n, k)) / sizeof(T);
    std::vector<T> packed(elements + 16, guard);
    // Backwards: a panel must not write into its neighbours.
    for (int64_t p = panels(n); p-- > 0;) pack(b.data(), ldb, packed.data(), n, k, p, p + 1);
    for (std::size_t i = elements; i < packed.size(); ++i) EXPECT_EQ(packed[i], guard);
    std::vector<T> c(static_cast<std::size_t>(m * n) + 16, guard);
    int64_t count = units(m, n);
    for (int64_t part = 0; part < parts; ++part)
      multiply(a.data(), lda, packed.data(), c.data(), m, n, k, count * part / parts,
               count * (part + 1) / parts);
    for (std::size_t i = static_cast<std::size_t>(m * n); i < c.size(); ++i) EXPECT_EQ(c[i], guard);
    c.resize(static_cast<std::size_t>(m * n));
    return c;
  }

 private:
  static LoadedImage compile(const Options& o) {
    using Linkage = FunctionBuilder::Linkage;
    llvm::LLVMContext context;
    auto module = make_module(context, "product", o.isa);
    llvm::Type* pointer = llvm::PointerType::get(context, 0);
    llvm::Type* i64 = llvm::Type::getInt64Ty(context);
    llvm::Type* nothing = llvm::Type::getVoidTy(context);
    auto size = [](FunctionBuilder& f, int64_t known, unsigned argument) -> llvm::Value* {
      return known < 0 ? f.argument(argument) : f.i64(known);
    };
    FunctionBuilder bytes(*module, o.isa, "bytes", i64, {i64, i64}, Linkage::entry);
    bytes.b.CreateRet(packed_bytes(bytes, o.dtype, bytes.argument(0), bytes.argument(1)));
    bytes.finish();
    FunctionBuilder panels(*module, o.isa, "panels", i64, {i64}, Linkage::entry);
    panels.b.CreateRet(panel_count(panels, o.dtype, panels.argument(0)));
    panels.finish();
    FunctionBuilder units(*module, o.isa, "units", i64, {i64, i64}, Linkage::entry);
    units.b.CreateRet(matmul_unit_count(units, o.dtype, size(units, o.m, 0), size(units, o.n, 1)));
    units.finish();

    llvm::Align align(static_cast<std::uint64_t>(o.dtype.align()));
    {
      FunctionBuilder f(*module, o.isa, "pack", nothing,
                        {pointer, i64, pointer, i64, i64, i64, i64}, Linkage::entry);
      PackLoad load = [&](FunctionBuilder& g, llvm::Value* k, llvm::Value* n, int lanes,
                          llvm::Value* mask) -> llvm::Value* {
        auto [slow, fast] = o.transposed ? std::pair(n, k) : std::pair(k, n);
        llvm::Value* index = g.b.CreateAdd(g.b.CreateMul(slow, f.argument(1)), fast);
        llvm::Type* scalar = element(g, o.dtype);
        llvm::Value* from = g.element(scalar, f.argument(0), index);
        auto* vector = llvm::FixedVectorType::get(scalar, static_cast<unsigned>(lanes));
        if (mask) return g.b.CreateMaskedLoad(vector, from, align, mask);
        return g.b.CreateAlignedLoad(vector, from, align);
      };
      auto emit = o.transposed ? emit_pack_transposed : emit_pack;
      emit(f, o.dtype, f.argument(2), size(f, o.n, 3), size(f, o.k, 4), f.argument(5),
           f.argument(6), load);
      f.b.CreateRetVoid();
      f.finish();
    }
    {
      FunctionBuilder f(*module, o.isa, "multiply", nothing,
                        {pointer, i64, pointer, pointer, i64, i64, i64, i64, i64}, Linkage::entry);
      llvm::Value* n = size(f, o.n, 5);
      MatmulOperands operands = {f.argument(0),  f.argument(1), f.argument(2), size(f, o.m, 4), n,
                                 size(f, o.k, 6)};
      emit_matmul_block(f, o.dtype, operands, f.argument(7), f.argument(8),
                        [&](FunctionBuilder& g, llvm::Value* row, llvm::Value* column, int lanes,
                            llvm::Value* accumulator, llvm::Value* mask) {
                          llvm::Value* index = g.b.CreateAdd(g.b.CreateMul(row, n), column);
                          llvm::Value* to = g.element(element(g, o.dtype), f.argument(3), index);
                          if (mask)
                            g.b.CreateMaskedStore(accumulator, to, align, mask);
                          else
                            g.b.CreateAlignedStore(accumulator, to, align);
                        });
      f.b.CreateRetVoid();
      f.finish();
    }
    std::vector<std::vector<std::byte>> objects = {emit_object(*module, o.isa)};
    std::vector<std::string> exported = {"bytes", "panels", "units", "pack", "multiply"};
    return LoadedImage(link_image(objects, exported));
  }

  static llvm::Type* element(FunctionBuilder& f, DType dtype) {
    if (dtype == DType::float32) return f.b.getFloatTy();
    if (dtype == DType::float64) return f.b.getDoubleTy();
    return f.b.getIntNTy(static_cast<unsigned>(dtype.size_in_bits()));
  }

  Options options_;
  LoadedImage image_;
};

template <typename T>
std::vector<T> random_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> values(count);
  for (T& value : values) {
    if constexpr (std::is_floating_point_v<T>)
      value = std::uniform_real_distribution<T>(-1, 1)(random);
    else
      value = static_cast<T>(random());
  }
  return values;
}

// Against a plain sum: in double for floats, modulo 2^bits for integers.
template <typename T>
void check(Product& product, const Options& o, int64_t m, int64_t n, int64_t k) {
  SCOPED_TRACE(testing::Message() << "m " << m << " n " << n << " k " << k << " on " << o.isa.cpu);
  int64_t lda = k + 3, ldb = (o.transposed ? k : n) + 1;
  auto a = random_values<T>(static_cast<std::size_t>(m * lda), 1);
  auto b = random_values<T>(static_cast<std::size_t>((o.transposed ? n : k) * ldb), 2);
  std::vector<T> c = product.run(a, lda, b, ldb, m, n, k);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      using Sum = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;
      Sum sum = 0;
      double magnitude = 0;
      for (int64_t p = 0; p < k; ++p) {
        Sum x = static_cast<Sum>(a[static_cast<std::size_t>(i * lda + p)]);
        Sum y =
            static_cast<Sum>(b[static_cast<std::size_t>(o.transposed ? j * ldb + p : p * ldb + j)]);
        sum += x * y;
        if constexpr (std::is_floating_point_v<T>) magnitude += std::abs(x * y);
      }
      T actual = c[static_cast<std::size_t>(i * n + j)];
      if constexpr (std::is_floating_point_v<T>)
        ASSERT_NEAR(actual, sum,
                    magnitude * std::numeric_limits<T>::epsilon() * (2 + double(k) / 8))
            << i << ", " << j;
      else
        ASSERT_EQ(actual, static_cast<T>(sum)) << i << ", " << j;
    }
  EXPECT_EQ(product.run(a, lda, b, ldb, m, n, k, 7), c) << "in another number of parts";
}

// The targets whose code this processor can run.
std::vector<std::string> targets() {
  Isa host = resolve_isa("");
  std::vector<std::string> result = {"generic", "x86-64-v2", ""};
  if (host.avx2 && host.fma) result.push_back("x86-64-v3");
  if (host.avx512) result.push_back("x86-64-v4");
  return result;
}

class MatmulOn : public testing::TestWithParam<std::string> {
 protected:
  Isa isa_ = resolve_isa(GetParam());
};

TEST_P(MatmulOn, EveryNumberOfRows) {
  Options o{.isa = isa_};
  Product product(o);
  for (int64_t m = 0; m <= 40; ++m) check<float>(product, o, m, 48 + m % 3, 1 + m % 7);
}

TEST_P(MatmulOn, OddSizes) {
  for (bool transposed : {false, true}) {
    Options o{.isa = isa_, .transposed = transposed};
    Product product(o);
    for (int64_t n : {0, 1, 2, 7, 8, 15, 16, 17, 31, 33, 64, 65, 100})
      for (int64_t k : {0, 1, 2, 3, 4, 5, 7, 8, 9, 31, 64, 130})
        for (int64_t m : {1, 2, 3, 4, 6, 13}) check<float>(product, o, m, n, k);
  }
}

// Several blocks of panels, and more than one tile in each.
TEST_P(MatmulOn, Large) {
  Options o{.isa = isa_};
  Product product(o);
  check<float>(product, o, 37, 301, 1000);
  check<float>(product, o, 2, 301, 1000);
}

TEST_P(MatmulOn, KnownSizes) {
  struct Sizes {
    int64_t m, n, k;
  };
  for (Sizes s : {Sizes{1, 64, 32}, Sizes{13, 48, 20}, Sizes{6, 16, 1}, Sizes{7, 5, 9},
                  Sizes{3, 100, 0}, Sizes{0, 8, 8}, Sizes{8, 0, 8}, Sizes{19, 96, 33}})
    for (int known : {1, 2, 4, 7}) {
      Options o{.isa = isa_,
                .m = known & 1 ? s.m : -1,
                .n = known & 2 ? s.n : -1,
                .k = known & 4 ? s.k : -1,
                .transposed = known == 7};
      Product product(o);
      check<float>(product, o, s.m, s.n, s.k);
    }
}

template <typename T>
void check_type(const Isa& isa) {
  for (bool transposed : {false, true}) {
    Options o{.isa = isa, .dtype = DType::of<T>(), .transposed = transposed};
    Product product(o);
    for (int64_t m : {1, 2, 3, 5, 11})
      for (int64_t n : {1, 9, 70}) check<T>(product, o, m, n, 37);
  }
}

TEST_P(MatmulOn, EveryType) {
  check_type<double>(isa_);
  check_type<std::int8_t>(isa_);
  check_type<std::uint8_t>(isa_);
  check_type<std::int16_t>(isa_);
  check_type<std::uint16_t>(isa_);
  check_type<std::int32_t>(isa_);
  check_type<std::uint32_t>(isa_);
  check_type<std::int64_t>(isa_);
  check_type<std::uint64_t>(isa_);
}

INSTANTIATE_TEST_SUITE_P(Targets, MatmulOn, testing::ValuesIn(targets()));

}  // namespace
}  // namespace kiln::compiler
