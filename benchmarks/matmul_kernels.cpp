// The CPU kernels of products and attention against the multiply-add peak of this processor, on one
// thread: matmul_kernels [ISA]. Each line is the best of many runs; the peak is measured between
// them, since clocks drift.

#include <llvm/IR/Module.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "compiler/codegen/cpu/matmul.h"
#include "compiler/codegen/cpu/pack.h"
#include "compiler/codegen/object.h"
#include "compiler/link.h"
#include "tests/compiler/loaded_image.h"

namespace kiln::compiler {
namespace {

using Linkage = FunctionBuilder::Linkage;
using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Time that this thread has run, in nanoseconds: other programs on the machine do not count.
double thread_time() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// Nanoseconds of the fastest of many calls, for about a fifth of a second. Short calls are timed
// several at once, since reading the clock takes a while.
template <typename F>
double fastest(F&& work) {
  double start = thread_time();
  work();
  int batch = std::max(1, static_cast<int>(100e3 / (thread_time() - start)));
  double best = 1e30;
  auto begin = Clock::now();
  for (int i = 0; i < 5 || milliseconds_since(begin) < 200; ++i) {
    start = thread_time();
    for (int call = 0; call < batch; ++call) work();
    best = std::min(best, (thread_time() - start) / batch);
  }
  return best;
}

LoadedImage load(llvm::Module& module, const Isa& isa, const std::vector<std::string>& exported) {
  std::vector<std::vector<std::byte>> objects = {emit_object(module, isa)};
  return LoadedImage(link_image(objects, exported));
}

// Flops per nanosecond of multiply-adds on registers alone.
double measure_peak(const Isa& isa) {
  llvm::LLVMContext context;
  auto module = make_module(context, "peak", isa);
  llvm::Type* pointer = llvm::PointerType::get(context, 0);
  FunctionBuilder f(*module, isa, "peak", llvm::Type::getVoidTy(context),
                    {pointer, llvm::Type::getInt64Ty(context)}, Linkage::entry);
  int lanes = isa.lanes(4);
  auto* vector = llvm::FixedVectorType::get(f.b.getFloatTy(), static_cast<unsigned>(lanes));
  llvm::Value* x = f.b.CreateAlignedLoad(vector, f.argument(0), llvm::Align(4));
  Values sums = f.loop(
      f.i64(0), f.argument(1), f.i64(1), Values(12, x), [&](llvm::Value*, const Values& carried) {
        Values next = carried;
        for (int repeat = 0; repeat < 4; ++repeat)
          for (llvm::Value*& sum : next)
            sum = isa.fma ? f.b.CreateIntrinsic(llvm::Intrinsic::fma, {vector}, {x, x, sum})
                          : f.b.CreateFAdd(sum, f.b.CreateFMul(x, sum));
        return next;
      });
  llvm::Value* total = sums[0];
  for (std::size_t i = 1; i < sums.size(); ++i) total = f.b.CreateFAdd(total, sums[i]);
  f.b.CreateAlignedStore(total, f.argument(0), llvm::Align(4));
  f.b.CreateRetVoid();
  f.finish();
  LoadedImage image = load(*module, isa, {"peak"});
  auto* run = image.function<void(float*, std::int64_t)>("peak");
  std::vector<float> data(64, 1e-3f);
  double ns = fastest([&] { run(data.data(), 20000); });
  return 20000.0 * 48 * 2 * lanes / ns;
}

void measure_matmul(const Isa& isa, std::int64_t m, std::int64_t n, std::int64_t k, bool known) {
  llvm::LLVMContext context;
  auto module = make_module(context, "matmul", isa);
  llvm::Type* pointer = llvm::PointerType::get(context, 0);
  llvm::Type* i64 = llvm::Type::getInt64Ty(context);
  llvm::Type* nothing = llvm::Type::getVoidTy(context);
  FunctionBuilder f(*module, isa, "run", nothing,
                    {pointer, pointer, pointer, pointer, i64, i64, i64, i64, i64}, Linkage::entry);
  auto size = [&](std::int64_t value, unsigned argument) -> llvm::Value* {
    return known ? static_cast<llvm::Value*>(f.i64(value)) : f.argument(argument);
  };
  llvm::Value* columns = size(n, 5);
  MatmulOperands operands = {f.argument(0), size(k, 6), f.argument(1),
                             size(m, 4),    columns,    size(k, 6)};
  // A bias, as a linear layer has.
  emit_matmul_block(f, DType::float32, operands, f.argument(7), f.argument(8),
                    [&](FunctionBuilder& g, llvm::Value* row, llvm::Value* column, int lanes,
                        llvm::Value* accumulator, llvm::Value* mask) {
                      llvm::Type* element = g.b.getFloatTy();
                      llvm::Align align(4);
                      llvm::Value* bias = g.element(element, g.argument(2), column);
                      llvm::Value* index = g.b.CreateAdd(g.b.CreateMul(row, columns), column);
                      llvm::Value* to = g.element(element, g.argument(3), index);
                      llvm::Type* type = accumulator->getType();
                      llvm::Value* added = g.b.CreateMaskedLoad(
                          type, bias, align,
                          mask ? mask : g.b.CreateVectorSplat(lanes, g.b.getTrue()));
                      llvm::Value* sum = g.b.CreateFAdd(accumulator, added);
                      if (mask)
                        g.b.CreateMaskedStore(sum, to, align, mask);
                      else
                        g.b.CreateAlignedStore(sum, to, align);
                    });
  f.b.CreateRetVoid();
  f.finish();
  FunctionBuilder count(*module, isa, "units", i64, {i64, i64}, Linkage::entry);
  count.b.CreateRet(matmul_unit_count(count, DType::float32, count.argument(0), count.argument(1)));
  count.finish();
  auto start = Clock::now();
  LoadedImage image = load(*module, isa, {"run", "units"});
  double compile = milliseconds_since(start);
  auto* run = image.function<void(const float*, const float*, const float*, float*, std::int64_t,
                                  std::int64_t, std::int64_t, std::int64_t, std::int64_t)>("run");
  std::int64_t units = image.function<std::int64_t(std::int64_t, std::int64_t)>("units")(m, n);
  std::size_t panel = static_cast<std::size_t>(panel_columns(isa, DType::float32));
  std::size_t rows = static_cast<std::size_t>(m), inner = static_cast<std::size_t>(k);
  std::size_t width = (static_cast<std::size_t>(n) + panel - 1) / panel * panel;
  std::vector<float> a(rows * inner, 0.5f), packed(inner * width, 0.25f), bias(width, 1.0f),
      c(rows * width);
  double ns =
      fastest([&] { run(a.data(), packed.data(), bias.data(), c.data(), m, n, k, 0, units); });
  double peak = measure_peak(isa);
  double rate = 2.0 * static_cast<double>(m * n * k) / ns;
  std::printf("%5ld %5ld %5ld  %-8s %9.1f us  %6.1f GF/s  %5.1f %%  compile %.1f ms\n", m, n, k,
              known ? "known" : "run time", ns / 1e3, rate, 100 * rate / peak, compile);
}

}  // namespace
}  // namespace kiln::compiler

int main(int count, char** arguments) {
  using namespace kiln::compiler;
  Isa isa = resolve_isa(count > 1 ? arguments[1] : "");
  std::printf("%s: multiply-add peak %.1f GF/s\n", isa.cpu.c_str(), measure_peak(isa));
  std::printf("    m     n     k  sizes            time        rate   peak\n");
  for (bool known : {true, false})
    for (auto [m, n, k] : {std::array<std::int64_t, 3>{1, 384, 384},
                           {2, 384, 384},
                           {3, 384, 384},
                           {4, 384, 384},
                           {6, 384, 384},
                           {13, 384, 384},
                           {16, 384, 384},
                           {16, 1152, 384},
                           {16, 1536, 384},
                           {16, 384, 1536},
                           {128, 384, 384},
                           {128, 1152, 384},
                           {128, 1536, 384},
                           {128, 384, 1536},
                           {1024, 384, 384},
                           {1024, 1152, 384},
                           {1024, 1536, 384},
                           {1024, 384, 1536},
                           {2048, 384, 384},
                           {2048, 1152, 384},
                           {2048, 1536, 384},
                           {2048, 384, 1536},
                           {1024, 1024, 1024},
                           {2048, 2048, 2048}})
      measure_matmul(isa, m, n, k, known);
}
