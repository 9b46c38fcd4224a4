#include "compiler/link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/Module.h>

#include <cmath>
#include <cstdint>
#include <thread>

#include "compiler/codegen/function_builder.h"
#include "compiler/codegen/object.h"
#include "compiler/target.h"
#include "kiln/support/error.h"
#include "kiln/support/sanitizer.h"
#include "loaded_image.h"

#ifdef KILN_ADDRESS_SANITIZER
#include <sanitizer/lsan_interface.h>
#endif

namespace kiln::compiler {
namespace {

using Linkage = FunctionBuilder::Linkage;

// entry NAME(n) = 0² + 1² + … + (n−1)², through a hidden kernel HELPER.
std::vector<std::byte> squares_object(const Isa& isa, const std::string& name,
                                      const std::string& helper) {
  llvm::LLVMContext context;
  auto module = make_module(context, name, isa);
  llvm::Type* i64 = llvm::Type::getInt64Ty(context);
  FunctionBuilder kernel(*module, isa, helper, i64, {i64}, Linkage::kernel);
  Values sum =
      kernel.loop(kernel.i64(0), kernel.argument(0), kernel.i64(1), {kernel.i64(0)},
                  [&](llvm::Value* i, const Values& carried) {
                    return Values{kernel.b.CreateAdd(carried[0], kernel.b.CreateMul(i, i))};
                  });
  kernel.b.CreateRet(sum[0]);
  kernel.finish();
  FunctionBuilder entry(*module, isa, name, i64, {i64}, Linkage::entry);
  entry.b.CreateRet(entry.b.CreateCall(kernel.function, {entry.argument(0)}));
  entry.finish();
  return emit_object(*module, isa);
}

// entry NAME(x) = CALLEE(x) on doubles.
std::vector<std::byte> calling_object(const Isa& isa, const std::string& name,
                                      const std::string& callee) {
  llvm::LLVMContext context;
  auto module = make_module(context, name, isa);
  llvm::Type* f64 = llvm::Type::getDoubleTy(context);
  FunctionBuilder entry(*module, isa, name, f64, {f64}, Linkage::entry);
  auto function = module->getOrInsertFunction(callee, llvm::FunctionType::get(f64, {f64}, false));
  entry.b.CreateRet(entry.b.CreateCall(function, {entry.argument(0)}));
  entry.finish();
  return emit_object(*module, isa);
}

std::string failure(const std::function<void()>& work) {
  try {
    work();
  } catch (const InternalError& error) {
    return error.message();
  }
  return "nothing was thrown";
}

TEST(Link, EmitsLinksAndRuns) {
  Isa isa = resolve_isa("");
  std::vector<std::vector<std::byte>> objects = {squares_object(isa, "first", "first_kernel"),
                                                 squares_object(isa, "second", "second_kernel")};
  std::vector<std::string> exported = {"first"};
  LoadedImage image(link_image(objects, exported));
  auto* first = image.function<std::int64_t(std::int64_t)>("first");
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first(0), 0);
  EXPECT_EQ(first(10), 285);
  EXPECT_EQ(image.find("second"), nullptr);
  EXPECT_EQ(image.find("first_kernel"), nullptr);
}

TEST(Link, EveryBaselineCompiles) {
  for (const char* target : {"generic", "x86-64-v2", "x86-64-v3", "x86-64-v4", "znver3", ""}) {
    std::vector<std::vector<std::byte>> objects = {
        squares_object(resolve_isa(target), "run", "kernel")};
    std::vector<std::string> exported = {"run"};
    EXPECT_GT(link_image(objects, exported).size(), 500u) << target;
  }
}

TEST(Link, CallsOfTheMathLibraryResolve) {
  std::vector<std::vector<std::byte>> objects = {calling_object(resolve_isa(""), "run", "sinh")};
  std::vector<std::string> exported = {"run"};
  LoadedImage image(link_image(objects, exported));
  EXPECT_DOUBLE_EQ(image.function<double(double)>("run")(1.5), std::sinh(1.5));
}

TEST(Link, UnknownSymbolsAreNamed) {
  std::vector<std::vector<std::byte>> objects = {
      calling_object(resolve_isa(""), "run", "kiln_no_such_function")};
  std::vector<std::string> exported = {"run"};
  EXPECT_THAT(failure([&] { link_image(objects, exported); }),
              testing::HasSubstr("'kiln_no_such_function'"));
}

TEST(Link, WritableDataIsRefused) {
  Isa isa = resolve_isa("");
  llvm::LLVMContext context;
  auto module = make_module(context, "state", isa);
  llvm::Type* i64 = llvm::Type::getInt64Ty(context);
  llvm::Constant* three = llvm::ConstantInt::get(i64, 3);
  auto* counters = llvm::ArrayType::get(i64, 2);
  auto* counter = new llvm::GlobalVariable(
      *module, counters, /*isConstant=*/false, llvm::GlobalValue::InternalLinkage,
      llvm::ConstantArray::get(counters, {three, three}), "counters");
  FunctionBuilder entry(*module, isa, "run", i64, {i64}, Linkage::entry);
  llvm::Value* next = entry.b.CreateAdd(entry.b.CreateLoad(i64, counter), entry.argument(0));
  entry.b.CreateStore(next, counter);
  entry.b.CreateRet(next);
  entry.finish();
  std::vector<std::vector<std::byte>> objects = {emit_object(*module, isa)};
  std::vector<std::string> exported = {"run"};
  EXPECT_THAT(failure([&] { link_image(objects, exported); }), testing::HasSubstr("writable data"));
}

TEST(Link, ThreadsEmitAndLinkAtOnce) {
  Isa isa = resolve_isa("");
  std::vector<std::thread> threads;
  std::vector<std::int64_t> results(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int repeat = 0; repeat < 5; ++repeat) {
        std::vector<std::vector<std::byte>> objects = {squares_object(isa, "run", "kernel")};
        std::vector<std::string> exported = {"run"};
        LoadedImage image(link_image(objects, exported));
        results[static_cast<std::size_t>(t)] =
            image.function<std::int64_t(std::int64_t)>("run")(t + 3);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(results, testing::ElementsAre(5, 14, 30, 55));
}

// What is no object file is reported by LLD as an ordinary error; linking goes on working.
// LLVM's recovery jumps over the destructors of what failed, so LeakSanitizer would report it.
struct LeaksWhereLlvmFails {
#ifdef KILN_ADDRESS_SANITIZER
  LeaksWhereLlvmFails() { __lsan_disable(); }
  ~LeaksWhereLlvmFails() { __lsan_enable(); }
#else
  LeaksWhereLlvmFails() {}
#endif
};

TEST(Link, SurvivesBrokenObjects) {
  const LeaksWhereLlvmFails leaks;
  Isa isa = resolve_isa("");
  std::vector<std::string> exported = {"run"};
  std::vector<std::vector<std::byte>> broken = {std::vector<std::byte>(1000, std::byte{0x7f})};
  EXPECT_THAT(failure([&] { link_image(broken, exported); }),
              testing::HasSubstr("Linking a compiled program failed"));
  std::vector<std::byte> cut = squares_object(isa, "run", "kernel");
  std::vector<std::vector<std::byte>> truncated = {
      std::vector<std::byte>(cut.begin(), cut.begin() + 200)};
  EXPECT_THAT(failure([&] { link_image(truncated, exported); }),
              testing::HasSubstr("Linking a compiled program failed"));
  std::vector<std::vector<std::byte>> objects = {squares_object(isa, "run", "kernel")};
  LoadedImage image(link_image(objects, exported));
  EXPECT_EQ(image.function<std::int64_t(std::int64_t)>("run")(4), 14);
}

// A module that the backend cannot compile ends in an exception, not in the end of the process.
TEST(Object, BackendFailuresAreErrors) {
  const LeaksWhereLlvmFails leaks;
  Isa isa = resolve_isa("generic");
  llvm::LLVMContext context;
  auto module = make_module(context, "broken", isa);
  llvm::Type* nothing = llvm::Type::getVoidTy(context);
  FunctionBuilder entry(*module, isa, "run", nothing, {}, Linkage::entry);
  auto* type = llvm::FunctionType::get(nothing, {}, false);
  entry.b.CreateCall(type, llvm::InlineAsm::get(type, "no_such_instruction %rax", "", true));
  entry.b.CreateRetVoid();
  entry.finish();
  EXPECT_THAT(failure([&] { emit_object(*module, isa); }), testing::HasSubstr("broken"));
}

}  // namespace
}  // namespace kiln::compiler
