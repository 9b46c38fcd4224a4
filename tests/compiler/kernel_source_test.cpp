#include "compiler/kernel_source/kernel_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "kernel_harness.h"
#include "kiln/support/error.h"

namespace kiln::compiler::kernel_test {
namespace {

using emulator_test::Array;
using testing::AllOf;
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
    const Array<int> array(1);
    DeviceKernel(name, text).launch({1}, {1}, 0, array);
    EXPECT_EQ(array.get()[0], expected) << name;
  }
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

}  // namespace
}  // namespace kiln::compiler::kernel_test
