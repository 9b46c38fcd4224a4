// In builds with a sanitizer: what generated code does wrong is seen.

#include "kiln/support/sanitizer.h"

#if defined(KILN_ADDRESS_SANITIZER) || defined(KILN_THREAD_SANITIZER)

#include <gtest/gtest.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <thread>

#include "compiler/codegen/function_builder.h"
#include "compiler/codegen/object.h"
#include "compiler/link.h"
#include "kiln/graph.h"
#include "kiln/graph/ops.h"
#include "loaded_image.h"
#include "run_program.h"

namespace kiln::compiler {
namespace {

using graph::BufferType;
using graph::DeviceRef;
using graph::Graph;
using graph::TensorType;
using graph::TensorValue;
namespace ops = graph::ops;

/// `run(pointer, n)`, written by `body`.
LoadedImage image_of(const std::function<void(FunctionBuilder&)>& body) {
  const Isa isa = resolve_isa("");
  llvm::LLVMContext context;
  auto module = make_module(context, "sanitized", isa);
  FunctionBuilder f(*module, isa, "run", llvm::Type::getInt32Ty(context),
                    {llvm::PointerType::get(context, 0), llvm::Type::getInt64Ty(context)},
                    FunctionBuilder::Linkage::entry);
  body(f);
  f.finish();
  std::vector<std::vector<std::byte>> objects = {emit_object(*module, isa)};
  std::vector<std::string> exported = {"run"};
  return LoadedImage(link_image(objects, exported));
}

using Entry = std::int32_t(void*, std::int64_t);

#ifdef KILN_ADDRESS_SANITIZER

class AddressSanitizer : public testing::Test {
 protected:
  // Other tests may have left threads behind.
  AddressSanitizer() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

const DeviceRef kCpu = DeviceRef::CPU();

/// Says that its vectors have `n` elements, whatever they have.
void store_sum(std::vector<float>& x, std::vector<float>& state, std::int64_t n) {
  Graph g("store", {.input_types = {TensorType(DType::float32, {"n"}, kCpu),
                                    BufferType(DType::float32, {"n"}, kCpu)}});
  {
    auto scope = g.enter();
    TensorValue sum = g.inputs()[0].tensor() + 1.0;
    ops::buffer_store(g.inputs()[1].buffer(), sum);
    g.output(sum);
  }
  run_module<float>(g.module().ir(), {1}, {n}, {x.data(), state.data()});
}

TEST_F(AddressSanitizer, SeesCompiledKernels) {
  for (std::int64_t n : {7, 8, 100}) {
    const auto size = static_cast<std::size_t>(n);
    std::vector<float> whole(size, 1.0f);
    std::vector<float> cut(size - 1, 1.0f);
    std::vector<float> state(size);
    store_sum(whole, state, n);
    EXPECT_EQ(state, std::vector<float>(size, 2.0f));
    EXPECT_DEATH(store_sum(cut, state, n), "AddressSanitizer: .*-overflow(.|\n)*READ of size") << n;
    EXPECT_DEATH(store_sum(whole, cut, n), "AddressSanitizer: .*-overflow(.|\n)*WRITE of size")
        << n;
  }
}

TEST_F(AddressSanitizer, SeesConstants) {
  const LoadedImage image = image_of([](FunctionBuilder& f) {
    llvm::Constant* values =
        llvm::ConstantDataArray::get(f.b.getContext(), llvm::ArrayRef<std::uint32_t>({3, 5, 7}));
    auto* table = new llvm::GlobalVariable(f.module, values->getType(), /*isConstant=*/true,
                                           llvm::GlobalValue::PrivateLinkage, values, "table");
    f.b.CreateRet(
        f.b.CreateLoad(f.b.getInt32Ty(), f.element(f.b.getInt32Ty(), table, f.argument(1))));
  });
  auto* run = image.function<Entry>("run");
  EXPECT_EQ(run(nullptr, 2), 7);
  EXPECT_DEATH(run(nullptr, 3), "AddressSanitizer: global-buffer-overflow");
}

TEST_F(AddressSanitizer, SeesTheStack) {
  const LoadedImage image = image_of([](FunctionBuilder& f) {
    llvm::Value* slots = f.stack_slot(f.b.getInt32Ty(), 4, 16);
    for (std::int64_t i = 0; i < 4; ++i)
      f.b.CreateStore(f.b.getInt32(11), f.element(f.b.getInt32Ty(), slots, f.i64(i)));
    f.b.CreateRet(
        f.b.CreateLoad(f.b.getInt32Ty(), f.element(f.b.getInt32Ty(), slots, f.argument(1))));
  });
  auto* run = image.function<Entry>("run");
  EXPECT_EQ(run(nullptr, 3), 11);
  EXPECT_DEATH(run(nullptr, 4), "AddressSanitizer: .*stack-buffer-overflow");
}

#else

/// Ends the process with the code of ThreadSanitizer when two threads run `body` on one memory and
/// that is a race.
void race(const std::function<void(FunctionBuilder&)>& body) {
  const LoadedImage image = image_of([&](FunctionBuilder& f) {
    body(f);
    f.b.CreateRet(f.b.getInt32(0));
  });
  alignas(64) char memory[64] = {};
  auto* run = image.function<Entry>("run");
  std::thread other([&] { run(memory, 2); });
  run(memory, 2);
  other.join();
  std::exit(0);
}

TEST(ThreadSanitizer, SeesScalarsVectorsAndMasks) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto vector = [](FunctionBuilder& f, unsigned lanes) {
    return llvm::FixedVectorType::get(f.b.getFloatTy(), lanes);
  };
  auto scalar = [](FunctionBuilder& f) { f.b.CreateStore(f.argument(1), f.argument(0)); };
  auto whole = [&](FunctionBuilder& f) {
    f.b.CreateAlignedStore(llvm::Constant::getNullValue(vector(f, 8)), f.argument(0),
                           llvm::Align(4));
  };
  auto masked = [&](FunctionBuilder& f) {
    llvm::Constant* steps = llvm::ConstantDataVector::get(
        f.b.getContext(), llvm::ArrayRef<std::uint64_t>({0, 1, 2, 3, 4, 5, 6, 7}));
    llvm::Value* mask = f.b.CreateICmpSLT(steps, f.b.CreateVectorSplat(8, f.argument(1)));
    f.b.CreateMaskedStore(llvm::Constant::getNullValue(vector(f, 8)), f.argument(0), llvm::Align(4),
                          mask);
  };
  auto racy = testing::ExitedWithCode(66);
  EXPECT_EXIT(race(scalar), racy, "ThreadSanitizer: data race");
  EXPECT_EXIT(race(whole), racy, "ThreadSanitizer: data race");
  EXPECT_EXIT(race(masked), racy, "ThreadSanitizer: data race");
}

#endif

}  // namespace
}  // namespace kiln::compiler

#endif
