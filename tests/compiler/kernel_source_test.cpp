#include "compiler/kernel_source/kernel_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "kernel_harness.h"
#include "kiln/support/error.h"
#include "kiln/support/sanitizer.h"

namespace kiln::compiler::kernel_test {
namespace {

using emulator_test::Array;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kScale = R"(
extern "C" __global__ void scale(float* out, const float* in, float k, int n) {
  int i = global_idx.x;
  if (i < n) out[i] = in[i] * k;
})";

// The text of the error that compiling ends with.
template <class Error = RuntimeError>
std::string failure(const std::string& name, const std::string& text,
                    const std::string& architecture, const std::string& options = "") {
  try {
    compile(name, text, architecture, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::vector<float> numbers(int count) {
  std::vector<float> values;
  for (int i = 0; i < count; ++i) values.push_back(static_cast<float>(i) - 7.5f);
  return values;
}

TEST(KernelSource, RunsOnADevice) {
  DeviceKernel kernel("scale", kScale);
  const std::vector<float> in = numbers(100);
  const Array<float> out(100);
  kernel.launch({2}, {64}, 0, out, Array<float>(in), 3.0f, 90);
  const std::vector<float> result = out.get();
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(result[i], i < 90 ? in[i] * 3.0f : 0.0f) << "element " << i;
  EXPECT_THAT(kernel.compiled().ptx,
              AllOf(HasSubstr(".version 7.8"), HasSubstr("sm_90"), Not(HasSubstr(".loc"))));
}

TEST(KernelSource, RunsOnTheHost) {
  HostKernel kernel("scale", kScale);
  EXPECT_FALSE(kernel.compiled().may_wait);
  const std::vector<float> in = numbers(100);
  std::vector<float> out(100);
  const float* from = in.data();
  float* to = out.data();
  kernel.launch({2}, {64}, 0, to, from, 3.0f, 90);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(out[i], i < 90 ? in[i] * 3.0f : 0.0f) << "element " << i;
}

TEST(KernelSource, TellsTheParameters) {
  const std::string text = R"(
#include <cstdint>
struct Pair { double a; char b; };
typedef unsigned long long Count;
__global__ void f(const float* in, std::int64_t* out, Count n, Pair pair, bool flag,
                  const volatile char* text, unsigned char* const bytes) {})";
  for (const char* architecture : {"", "sm_80"}) {
    const auto parameters = compile("f", text, architecture).parameters;
    ASSERT_EQ(parameters.size(), 7u);
    std::vector<std::string> types;
    for (const auto& parameter : parameters) types.push_back(parameter.type);
    EXPECT_THAT(types, ElementsAre("const float*", "long*", "unsigned long long", "Pair", "bool",
                                   "const volatile char*", "unsigned char*"));
    EXPECT_TRUE(parameters[0].is_pointer && parameters[0].points_to_const);
    EXPECT_EQ(parameters[0].pointee, "float");
    EXPECT_TRUE(parameters[1].is_pointer && !parameters[1].points_to_const);
    EXPECT_EQ(parameters[3].size, 16u);
    EXPECT_EQ(parameters[3].alignment, 8u);
    EXPECT_EQ(parameters[4].size, 1u);
  }
}

TEST(KernelSource, FindsKernelsByTheirNames) {
  const std::string text = R"(
namespace a { __global__ void f(int* out) { *out = 1; } }
__global__ void g(int* out) { *out = 2; }
namespace b { __global__ void h(int* out) { *out = 3; } }
__global__ void h(int* out) { *out = 4; }
)";
  const std::pair<const char*, int> cases[] = {{"f", 1},    {"a::f", 1}, {"g", 2},
                                               {"b::h", 3}, {"h", 4},    {"_Z1gPi", 2}};
  for (const auto& [name, expected] : cases) {
    int result = 0;
    int* out = &result;
    HostKernel(name, text).launch({1}, {1}, 0, out);
    EXPECT_EQ(result, expected) << name;
    DeviceKernel kernel(name, text);  // first: it opens the device
    const Array<int> array(1);
    kernel.launch({1}, {1}, 0, array);
    EXPECT_EQ(array.get()[0], expected) << name;
  }
}

TEST(KernelSource, TakesInstancesOfTemplates) {
  const std::string text = R"(
template <class T, int N> __global__ void fill(T* out, T value) { out[thread_idx.x] = value * N; }
template __global__ void fill<int, 3>(int*, int);
template __global__ void fill<float, 2>(float*, float);
)";
  std::vector<float> out(2);
  float* to = out.data();
  HostKernel("fill<float, 2>", text).launch({1}, {2}, 0, to, 1.5f);
  EXPECT_THAT(out, Each(3.0f));
  DeviceKernel kernel("fill<int, 3>", text);
  EXPECT_EQ(kernel.compiled().parameters[0].type, "int*");
  const Array<int> array(2);
  kernel.launch({1}, {2}, 0, array, 5);
  EXPECT_THAT(array.get(), Each(15));
}

TEST(KernelSource, LetsTheSourceUseItsNames) {
  const std::string text = R"(
#define N 3
#define T float
namespace mine { struct shared { int barrier; }; }
__device__ int lane_id() { return 40; }
__device__ bool ballot(bool b) { return !b; }
__device__ void barrier() {}
__device__ int max(int a, int b) { return a * b; }
template <class U> __device__ U clamp(U x, U low, U high) { return x < low ? low : x > high ? high : x; }
extern "C" __global__ void min(T* out) {
  mine::shared s{2};
  float exp = 2, half = 1, gamma = 4, log = N, x = 5;
  barrier();
  out[0] = lane_id() + ballot(false) + max(3, 4) + s.barrier + exp + half + gamma + log + x + clamp(7, 1, 5);
}
)";
  std::vector<float> out(1);
  float* to = out.data();
  HostKernel("min", text).launch({1}, {1}, 0, to);
  EXPECT_EQ(out[0], 40 + 1 + 12 + 2 + 2 + 1 + 4 + 3 + 5 + 5);
  DeviceKernel kernel("min", text);  // first: it opens the device
  const Array<float> array(1);
  kernel.launch({1}, {1}, 0, array);
  EXPECT_EQ(array.get(), out);
}

TEST(KernelSource, WantsOneKernel) {
  const std::string text =
      "namespace a { __global__ void f(int*) {} }\nnamespace b { __global__ void f(int*) {} }\n";
  for (const char* architecture : {"sm_90", ""}) {
    EXPECT_EQ(failure("f", text, architecture),
              "kernel 'f' is not unique; the source defines: a::f(int*), b::f(int*)");
    EXPECT_EQ(failure("b::f", text, architecture), "no error");
    EXPECT_EQ(failure("f", "", architecture),
              "kernel 'f' not found; the source defines: no kernel");
  }
  EXPECT_THAT(failure("f", "__global__ int f() { return 1; }", ""), HasSubstr("void return type"));
}

TEST(KernelSource, SaysWhatIsWrong) {
  const std::string bad = "extern \"C\" __global__ void scale(float* out) {\n  out[0] = x;\n}\n";
  for (const auto& [architecture, target] :
       {std::pair("sm_90", "sm_90"), std::pair("sm_80", "sm_80"), std::pair("", "cpu")}) {
    EXPECT_THAT(failure("scale", bad, architecture),
                StartsWith(std::string("compile_function: 'scale' failed to compile for ") +
                           target + "\nkernel.cu:2:12: error: use of undeclared identifier 'x'"));
    EXPECT_EQ(failure("scal", kScale, architecture),
              "kernel 'scal' not found; the source defines: scale");
    EXPECT_THAT(failure("scale", kScale, architecture, "-O2 --shiny"),
                "compile_function: unknown option '--shiny' in compile_options");
  }
}

TEST(KernelSource, NamesWhatTheHostLacks) {
  EXPECT_EQ(failure<NotImplementedError>(
                "scale", "extern \"C\" __global__ void scale() { __shared__ int x[2]; }", ""),
            "kernel 'scale' uses __shared__, which has no form on cpu; use shared<T, N>()");
  EXPECT_EQ(failure<NotImplementedError>("f", "__global__ void f(int* p) { atomicAdd(p, 1); }", ""),
            "kernel 'f' uses atomicAdd, which has no form on cpu");
}

constexpr const char* kReverse = R"(
extern "C" __global__ void reverse(int* data) {
  auto& tile = shared<int, 64>();
  auto& other = shared<int, 64>();
  int* all = dynamic_shared<int>();
  tile[thread_idx.x] = data[global_idx.x];
  other[thread_idx.x] = -1;
  all[thread_idx.x] = 100 * thread_idx.x;
  barrier();
  int value = tile[block_dim.x - 1 - thread_idx.x] + all[(thread_idx.x + 1) % block_dim.x];
  barrier();
  tile[thread_idx.x] = value;
  __syncthreads();
  data[global_idx.x] = tile[thread_idx.x];
})";

std::vector<int> reversed() {
  std::vector<int> expected;
  for (int block = 0; block < 2; ++block)
    for (int i = 0; i < 50; ++i) expected.push_back(block * 50 + 49 - i + 100 * ((i + 1) % 50));
  return expected;
}

TEST(KernelSource, ThreadsMeetAtABarrier) {
  std::vector<int> data(100);
  for (int i = 0; i < 100; ++i) data[i] = i;
  DeviceKernel device("reverse", kReverse);
  const Array<int> array(data);
  device.launch({2}, {50}, 50 * sizeof(int), array);
  EXPECT_EQ(array.get(), reversed());

  HostKernel host("reverse", kReverse);
  EXPECT_TRUE(host.compiled().may_wait);
  int* pointer = data.data();
  host.launch({2}, {50}, 50 * sizeof(int), pointer);
  EXPECT_EQ(data, reversed());
}

TEST(KernelSource, NamesWhatCannotBeLinked) {
  EXPECT_EQ(
      failure("f", "extern \"C\" int foo(int);\n__global__ void f(int* p) { *p = foo(1); }", ""),
      "compile_function: 'f' failed to compile for cpu\n"
      "error: the kernel calls 'foo', which the source does not define");
  EXPECT_EQ(
      failure<NotImplementedError>(
          "f", "__device__ int count;\n__global__ void f(int* p) { *p = count++; }", ""),
      "kernel 'f' uses a variable that outlives its threads, which has no form on cpu; pass a "
      "buffer");
  EXPECT_THAT(
      failure<NotImplementedError>(
          "f",
          "__device__ int g(int n) { return n < 2 ? n : g(n - 1) + g(n - 2) + thread_idx.x; }"
          "__global__ void f(int* p) { *p = g(*p); }",
          ""),
      HasSubstr("has no form on cpu"));
}

TEST(KernelSource, RunsUnderEveryOption) {
  for (const char* options : {"-O0", "-O1", "-Os", "-g", "-G -O0", "-lineinfo", "--use_fast_math",
                              "-ftz=true", "-fmad=false", "-std=c++23", "-DNDEBUG"}) {
    std::vector<int> data(100);
    for (int i = 0; i < 100; ++i) data[i] = i;
    DeviceKernel device("reverse", kReverse, "sm_90", options);
    const Array<int> array(data);
    device.launch({2}, {50}, 50 * sizeof(int), array);
    EXPECT_EQ(array.get(), reversed()) << options;
    int* pointer = data.data();
    HostKernel("reverse", kReverse, options).launch({2}, {50}, 50 * sizeof(int), pointer);
    EXPECT_EQ(data, reversed()) << options;
  }
}

TEST(KernelSource, TakesInstructionsForFastMathematics) {
  const std::string text =
      "__global__ void f(float* p) {\n"
      "  p[0] = sin(p[0]); p[1] = expf(p[1]); p[2] = log10(p[2]);\n"
      "  p[3] = cosf(p[3]); p[4] = exp2(p[4]); p[5] = log(p[5]); }";
  DeviceKernel kernel("f", text, "sm_90", "--use_fast_math");
  const Array<float> array(std::vector<float>{1, 1, 100, 1, 3, 10});
  kernel.launch({1}, {1}, 0, array);
  const float expected[] = {0.841470985f, 2.718281828f, 2, 0.540302306f, 8, 2.302585093f};
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(array.get()[i], expected[i], 1e-5) << i;
  EXPECT_THAT(kernel.compiled().ptx, AllOf(HasSubstr("sin.approx"), HasSubstr("lg2.approx")));
}

// Each of these would end the process if nobody held LLVM back, or cannot be compiled.
TEST(KernelSource, ComesBackFromEverySource) {
  const auto repeat = [](const std::string& text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
  };
  const auto body = [](const std::string& text) {
    return "__global__ void f(int* p, double* d) {\n" + text + "\n}\n";
  };
  const std::string null_byte = std::string("__global__ void f(int* p) {} ") + '\0' + " int x;\n";
  for (const std::string& text : {
           std::string("#error no\n"),
           std::string("#include \"/dev/zero\"\n"),
           std::string("#include \"/etc/passwd\"\n"),
           std::string("#include <vector>\n"),
           std::string("#include \"kernel.cu\"\n"),
           std::string("#embed \"/etc/passwd\"\n"),
           null_byte,
           std::string(),
           std::string("__global__ int f() { return 1; }"),
           std::string("template <int N> struct A { static const int v = A<N + 1>::v; };\n") +
               body("p[0] = A<0>::v;"),
           std::string("constexpr int g(int n) { return n ? g(n - 1) : 0; }\n") +
               body("static_assert(g(100000) == 0);"),
           body("p[0] = " + repeat("(", 100000) + "1" + repeat(")", 100000) + ";"),
           body(repeat("{", 100000) + repeat("}", 100000)),
           body("int a[1ll << 62]; a[p[0]] = 1;"),
           body("goto nowhere;"),
           std::string("asm(\"rubbish\");\n__global__ void g() {}\n"),
       })
    for (const char* architecture : {"sm_90", ""})
      EXPECT_NE(failure("f", text, architecture), "no error")
          << architecture << ": " << text.substr(0, 60);
  // What only the backend refuses has a line too.
  EXPECT_THAT(
      failure("f", body("void* t[] = {&&a, &&b};\n goto *t[p[0]];\n a: p[1] = 1;\n b: p[2] = 2;"),
              "sm_90"),
      HasSubstr("kernel.cu:3:"));
  // And the compiler goes on as if nothing had been.
  for (const char* architecture : {"sm_90", ""})
    EXPECT_EQ(failure("scale", kScale, architecture), "no error");
}

#ifndef KILN_ADDRESS_SANITIZER
// That sanitizer keeps signals of overflows to itself.
TEST(KernelSource, ComesBackFromSourcesThatNestTooDeep) {
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "- ";
  for (const char* architecture : {"sm_90", ""})
    EXPECT_THAT(
        failure("f", "__global__ void f(int* p) { p[0] = " + deep + "p[1]; }", architecture),
        HasSubstr("nest too deep"));
}
#endif

TEST(KernelSource, TakesOptions) {
  const std::string text =
      "#include <part.h>\n#ifndef __OPTIMIZE__\n#error slow\n#endif\n"
      "__global__ void f(int* p) { *p = N + PART; }";
  const std::string folder = testing::TempDir() + "/kiln_kernel_headers";
  std::filesystem::create_directories(folder + "/below");
  std::ofstream(folder + "/part.h") << "#include \"below/more.h\"\n";
  std::ofstream(folder + "/below/more.h") << "#define PART 30\n";
  for (const char* architecture : {"sm_80", ""}) {
    EXPECT_THAT(failure("f", text, architecture, "-DN=4"), HasSubstr("'part.h' file not found"));
    EXPECT_EQ(failure("f", text, architecture,
                      "-D N=4 -I" + folder +
                          " -O2 -std=c++17 -lineinfo --use_fast_math -Wall -w -fmad=false"),
              "no error");
    // Only what lies in the folder is there.
    EXPECT_THAT(failure("f", "#include \"" + folder + "/../secret.h\"\n" + text, architecture,
                        "-DN=4 -I" + folder),
                HasSubstr("file not found"));
    EXPECT_EQ(failure("f", text, architecture, "-mllvm -debug"),
              "compile_function: unknown option '-mllvm' in compile_options");
  }
  int value = 0;
  int* out = &value;
  HostKernel("f", text, "-DN=4 -I '" + folder + "'").launch({1}, {1}, 0, out);
  EXPECT_EQ(value, 34);
  std::filesystem::remove_all(folder);
}

TEST(KernelSource, WritesTheLowestPtxThatServes) {
  runtime::KernelSource source;
  source.name = "scale";
  source.text = kScale;
  for (const auto& [architecture, version] :
       {std::pair("sm_70", "6.0"), std::pair("sm_80", "7.0"), std::pair("sm_86", "7.1"),
        std::pair("sm_90", "7.8"), std::pair("sm_90a", "8.0"), std::pair("sm_100", "8.6")}) {
    source.architecture = architecture;
    EXPECT_THAT(compile_kernel(source).ptx,
                AllOf(HasSubstr(std::string(".version ") + version + "\n"),
                      HasSubstr(std::string(".target ") + architecture)));
  }
  // Instructions in the text may need more.
  source.text =
      "extern \"C\" __global__ void scale(int* p) { asm(\"add.s32 %0, %0, 1;\" : \"+r\"(*p)); }";
  source.architecture = "sm_80";
  source.max_ptx_version = 83;
  EXPECT_THAT(compile_kernel(source).ptx, HasSubstr(".version 8.3"));
  source.max_ptx_version = 65;
  EXPECT_THROW(compile_kernel(source), RuntimeError);
  source.architecture = "sm_1";
  EXPECT_THROW(compile_kernel(source), RuntimeError);
}

TEST(KernelSource, GivesItsListings) {
  runtime::KernelSource source;
  source.name = "scale";
  source.text = std::string(kScale) + "__global__ void other(int* p) { *p = 1; }\n";
  source.keep_llvm_ir = source.keep_assembly = true;
  const auto host = compile_kernel(source);
  EXPECT_THAT(host.llvm_ir, HasSubstr("kiln_kernel_run"));
  EXPECT_THAT(host.assembly, HasSubstr("kiln_kernel_run:"));
  source.architecture = "sm_90";
  const auto device = compile_kernel(source);
  EXPECT_THAT(device.llvm_ir, HasSubstr("@scale("));
  EXPECT_THAT(device.ptx, Not(HasSubstr("other")));
}

TEST(KernelSource, CompilesOnSeveralThreads) {
  std::vector<std::thread> threads;
  std::vector<std::string> found(8);
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 3; ++i) {
        const std::string n = std::to_string(t * 10 + i);
        const std::string text = "__global__ void f(int* p) { p[" + n + "] = " + n + "; bad" +
                                 (i == 1 ? n : "") + "(); }\n";
        const std::string defined = "__device__ void bad() {}\n" + text;
        const std::string error = failure("f", defined, t % 2 ? "" : t % 4 ? "sm_90" : "sm_80");
        const bool is_right =
            i == 1 ? error.find("bad" + n) != std::string::npos : error == "no error";
        if (!is_right) found[t] += error;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(found, Each(""));
}

}  // namespace
}  // namespace kiln::compiler::kernel_test
