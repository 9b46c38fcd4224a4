// Kernels written in the program and PTX, on every context.

#include <atomic>
#include <numeric>

#include "tests/gpu/contexts.h"

namespace {

KILN_KERNEL(scale, (float* out, const float* in, float k, int n), {
  int i = global_idx.x;
  if (i < n) out[i] = in[i] * k;
});

KILN_KERNEL(where_am_i, (unsigned* out), {
  const unsigned block = block_idx.x + grid_dim.x * (block_idx.y + grid_dim.y * block_idx.z);
  const unsigned thread = thread_idx.x + block_dim.x * (thread_idx.y + block_dim.y * thread_idx.z);
  const unsigned threads = block_dim.x * block_dim.y * block_dim.z;
  unsigned* mine = out + 3 * (block * threads + thread);
  mine[0] = global_idx.x;
  mine[1] = global_idx.y;
  mine[2] = global_idx.z;
});

KILN_KERNEL(reverse_blocks, (int* data), {
  auto& tile = shared<int, 256>();
  tile[thread_idx.x] = data[global_idx.x];
  barrier();
  data[global_idx.x] = tile[block_dim.x - 1 - thread_idx.x];
});

KILN_KERNEL(two_arrays, (int* data), {
  auto& a = shared<int, 64>();
  auto& b = shared<int, 64>();
  a[thread_idx.x] = 1;
  b[thread_idx.x] = 2;
  barrier();
  data[global_idx.x] = a[63 - thread_idx.x] + 10 * b[63 - thread_idx.x];
});

// The sum of a block, halving; threads that have nothing left wait all the same.
KILN_KERNEL(block_sums, (float* sums, const float* in), {
  float* part = dynamic_shared<float>();
  part[thread_idx.x] = in[global_idx.x];
  barrier();
  for (unsigned half = block_dim.x / 2; half > 0; half /= 2) {
    if (thread_idx.x < half) part[thread_idx.x] += part[thread_idx.x + half];
    barrier();
  }
  if (thread_idx.x == 0) sums[block_idx.x] = part[0];
});

KILN_KERNEL(count_up, (int* counter, int* largest), {
  atomic_add(counter, 1);
  atomic_max(largest, static_cast<int>(global_idx.x));
});

KILN_KERNEL(nothing, (), {});

KILN_DEVICE_STRUCT(Spot, {
  float x;
  float y;
});
KILN_KERNEL(lengths, (float* out, const Spot* in, Spot shift, int n), {
  const int i = global_idx.x;
  if (i < n) out[i] = sqrt((in[i].x + shift.x) * (in[i].x + shift.x) + in[i].y * in[i].y);
});

void host_scale(float* out, float k) { out[kiln::gpu::global_idx.x] *= k; }
void host_reverse(int* data) {
  int* tile = kiln::gpu::dynamic_shared<int>();
  tile[kiln::gpu::thread_idx.x] = data[kiln::gpu::thread_idx.x];
  kiln::gpu::barrier();
  data[kiln::gpu::thread_idx.x] = tile[kiln::gpu::block_dim.x - 1 - kiln::gpu::thread_idx.x];
}

}  // namespace

namespace kiln::gpu {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class Kernels : public EveryContext {};
INSTANTIATE_TEST_SUITE_P(Gpu, Kernels, testing::ValuesIn(all_contexts()), context_name);

TEST_P(Kernels, RunFromOneSource) {
  constexpr int n = 1000;
  const auto in = ctx.enqueue_create_buffer<float>(n);
  const auto out = ctx.enqueue_create_buffer<float>(n);
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 0.0F);
  ctx.enqueue_copy(in, values.data());
  out.enqueue_fill(-1);
  ctx.enqueue_function(scale, {.grid_dim = 4, .block_dim = 256}, out, in, 3.0F, n);
  std::vector<float> expected(n);
  for (int i = 0; i < n; ++i) expected[static_cast<std::size_t>(i)] = 3.0F * static_cast<float>(i);
  EXPECT_EQ(values_of(out), expected);

  const auto f = ctx.compile_function(scale);
  EXPECT_EQ(f.name(), "scale");
  out.enqueue_fill(-1);
  ctx.enqueue_function(f, {.grid_dim = 4, .block_dim = 256}, out.device_ptr(), in.unsafe_ptr(),
                       3.0F, n);
  EXPECT_EQ(values_of(out), expected);

  out.enqueue_fill(-1);
  const DeviceStream stream = ctx.create_stream();
  ctx.synchronize();
  stream.enqueue_function(f, {.grid_dim = 4, .block_dim = 256}, out, in, 3.0F, n);
  stream.synchronize();
  EXPECT_EQ(values_of(out), expected);

  // A window leaves the rest alone.
  out.enqueue_fill(-1);
  ctx.enqueue_function(scale, {.grid_dim = 1, .block_dim = 2}, out.create_sub_buffer<float>(10, 2),
                       in.device_ptr() + 20, 1.0F, 2);
  const std::vector<float> window = values_of(out);
  EXPECT_EQ(window[9], -1);
  EXPECT_EQ(window[10], 20);
  EXPECT_EQ(window[11], 21);
  EXPECT_EQ(window[12], -1);
}

TEST_P(Kernels, KnowWhereTheyAre) {
  const Dim grid = {3, 2, 2}, block = {4, 3, 2};
  constexpr std::size_t threads = 12 * 24;
  const auto out = ctx.enqueue_create_buffer<unsigned>(3 * threads);
  ctx.enqueue_function(where_am_i, {.grid_dim = grid, .block_dim = block}, out);
  const std::vector<unsigned> found = values_of(out);
  std::size_t at = 0;
  for (unsigned bz = 0; bz < 2; ++bz)
    for (unsigned by = 0; by < 2; ++by)
      for (unsigned bx = 0; bx < 3; ++bx)
        for (unsigned z = 0; z < 2; ++z)
          for (unsigned y = 0; y < 3; ++y)
            for (unsigned x = 0; x < 4; ++x, at += 3) {
              ASSERT_EQ(found[at], bx * 4 + x);
              ASSERT_EQ(found[at + 1], by * 3 + y);
              ASSERT_EQ(found[at + 2], bz * 2 + z);
            }
}

TEST_P(Kernels, ThreadsOfABlockMeet) {
  constexpr int blocks = 7, width = 256;
  const auto data = ctx.enqueue_create_buffer<int>(blocks * width);
  std::vector<int> values(blocks * width);
  std::iota(values.begin(), values.end(), 0);
  ctx.enqueue_copy(data, values.data());
  ctx.synchronize();
  ctx.enqueue_function(reverse_blocks, {.grid_dim = blocks, .block_dim = width}, data);
  for (int b = 0; b < blocks; ++b)
    std::reverse(values.begin() + b * width, values.begin() + (b + 1) * width);
  EXPECT_EQ(values_of(data), values);

  const auto small = ctx.enqueue_create_buffer<int>(128);
  ctx.enqueue_function(two_arrays, {.grid_dim = 2, .block_dim = 64}, small);
  EXPECT_EQ(values_of(small), std::vector<int>(128, 21));
}

TEST_P(Kernels, UseDynamicSharedMemory) {
  for (int width : {1, 2, 32, 128, 1024}) {
    const auto in = ctx.enqueue_create_buffer<float>(5 * width);
    const auto sums = ctx.enqueue_create_buffer<float>(5);
    std::vector<float> values(static_cast<std::size_t>(5 * width));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 97);
    ctx.enqueue_copy(in, values.data());
    ctx.enqueue_function(block_sums,
                         {.grid_dim = 5,
                          .block_dim = width,
                          .shared_mem_bytes = static_cast<std::int64_t>(width * sizeof(float))},
                         sums, in);
    const std::vector<float> found = values_of(sums);
    for (int b = 0; b < 5; ++b) {
      const auto from = values.begin() + b * width;
      EXPECT_EQ(found[static_cast<std::size_t>(b)], std::accumulate(from, from + width, 0.0F));
    }
  }
}

TEST_P(Kernels, CountAtomically) {
  const auto cells = ctx.enqueue_create_buffer<int>(2);
  cells.enqueue_fill(0);
  const auto largest = cells.create_sub_buffer<int>(1, 1);
  ctx.enqueue_function(count_up, {.grid_dim = 100, .block_dim = 100}, cells, largest);
  EXPECT_EQ(values_of(cells), (std::vector<int>{10000, 9999}));
}

TEST_P(Kernels, TakeStructs) {
  const std::vector<float> points{3, 4, 6, 8, 0, 2};
  const auto in = ctx.enqueue_create_buffer<float>(6);
  const auto out = ctx.enqueue_create_buffer<float>(3);
  ctx.enqueue_copy(in, points.data());
  ctx.enqueue_function(lengths, {.grid_dim = 1, .block_dim = 32}, out,
                       reinterpret_cast<const Spot*>(in.unsafe_ptr()), Spot{0, 0}, 3);
  EXPECT_EQ(values_of(out), (std::vector<float>{5, 10, 2}));
}

TEST_P(Kernels, CaptureValues) {
  const auto out = ctx.enqueue_create_buffer<float>(64);
  const auto in = ctx.enqueue_create_buffer<float>(64);
  out.enqueue_fill(1);
  in.enqueue_fill(2);
  for (float k : {10.0F, 20.0F})
    ctx.enqueue_function(KILN_CLOSURE((out, in, k), { out[global_idx.x] += k * in[global_idx.x]; }),
                         {.grid_dim = 2, .block_dim = 32});
  EXPECT_EQ(values_of(out), std::vector<float>(64, 61));
  const auto closure = KILN_CLOSURE((out), { out[global_idx.x] = 5; });
  const auto f = ctx.compile_function(closure);
  ctx.enqueue_function(f, {.grid_dim = 2, .block_dim = 32});
  EXPECT_EQ(values_of(out), std::vector<float>(64, 5));
}

TEST_P(Kernels, WithoutParameters) {
  ctx.enqueue_function(nothing, {.grid_dim = 1000, .block_dim = 32});
  ctx.synchronize();
}

TEST_P(Kernels, HostFunctionsRunOnTheCpu) {
  const auto data = ctx.enqueue_create_buffer<float>(128);
  data.enqueue_fill(2);
  if (!on_cpu()) {
    EXPECT_THAT(error_of<TypeError>([&] {
                  ctx.enqueue_function<host_scale>({.grid_dim = 1, .block_dim = 128}, data, 2.0F);
                }),
                EndsWith("kernel 'host_scale' has no device form; declare it with KILN_KERNEL or "
                         "compile it from source"));
    return;
  }
  ctx.enqueue_function<host_scale>({.grid_dim = 4, .block_dim = 32}, data, 2.0F);
  ctx.enqueue_function(ctx.compile_function<host_scale>(), {.grid_dim = 4, .block_dim = 32}, data,
                       5.0F);
  EXPECT_EQ(values_of(data), std::vector<float>(128, 20));
  const auto numbers = ctx.enqueue_create_buffer<int>(100);
  std::vector<int> values(100);
  std::iota(values.begin(), values.end(), 0);
  ctx.enqueue_copy(numbers, values.data());
  ctx.synchronize();
  ctx.enqueue_function<host_reverse>({.grid_dim = 1, .block_dim = 100, .shared_mem_bytes = 400},
                                     numbers);
  std::reverse(values.begin(), values.end());
  EXPECT_EQ(values_of(numbers), values);
  std::atomic<int> hits{0};
  ctx.enqueue_function([&hits] { ++hits; }, {.grid_dim = 3, .block_dim = {4, 5}});
  ctx.synchronize();
  EXPECT_EQ(hits, 60);
}

TEST_P(Kernels, CheckTheirShape) {
  const auto launch = [&](Dim grid, Dim block) {
    return error_of<ValueError>(
        [&] { ctx.enqueue_function(nothing, {.grid_dim = grid, .block_dim = block}); });
  };
  const std::string call = "DeviceContext.enqueue_function: ";
  EXPECT_THAT(launch(0, 1), EndsWith(call + "Dim value grid_dim.x must be a positive number."));
  EXPECT_THAT(launch(1, {1, -1}),
              EndsWith(call + "Dim value block_dim.y must be a positive number."));
  EXPECT_THAT(launch({1, 70000}, 1),
              EndsWith(call + "grid_dim.y is 70000, the limit on " + device_name() + " is 65535"));
  EXPECT_THAT(launch(1, {1024, 2}),
              EndsWith(call + "block_dim has 2048 threads, the limit is 1024"));
  EXPECT_THAT(launch(1, {1, 1, 65}), EndsWith(" is 64"));
  EXPECT_THAT(launch(0, 1), StartsWith(__FILE__));
  if (on_cpu()) {
    EXPECT_THAT(error_of<NotImplementedError>([&] {
                  ctx.enqueue_function(nothing, {.grid_dim = 4, .block_dim = 1, .cluster_dim = 2});
                }),
                HasSubstr("cluster_dim"));
    EXPECT_THAT(error_of<NotImplementedError>([&] {
                  ctx.enqueue_function(nothing,
                                       {.grid_dim = 4,
                                        .block_dim = 1,
                                        .attributes = {{LaunchAttribute::COOPERATIVE, true}}});
                }),
                HasSubstr("COOPERATIVE"));
  } else {
    EXPECT_THAT(error_of<ValueError>([&] {
                  ctx.enqueue_function(nothing, {.grid_dim = 3, .block_dim = 1, .cluster_dim = 2});
                }),
                EndsWith(call + "grid_dim (x=3) is not a multiple of cluster_dim (x=2)"));
  }
  EXPECT_THAT(error_of<ValueError>([&] {
                ctx.enqueue_function(nothing,
                                     {.grid_dim = 1, .block_dim = 1, .shared_mem_bytes = 3000000});
              }),
              HasSubstr("shared_mem_bytes is 3000000, the limit for 'nothing' on " + device_name() +
                        " is "));
  error_of<ValueError>([&] {
    ctx.enqueue_function(nothing, {.grid_dim = 1, .block_dim = 1, .shared_mem_bytes = -1});
  });
}

TEST_P(Kernels, FailingThreadsFailTheStream) {
  if (!on_cpu()) return;
  struct Mine : std::runtime_error {
    using runtime_error::runtime_error;
  };
  std::atomic<int> alive{0};
  struct Count {
    explicit Count(std::atomic<int>& c) : cell(c) { ++cell; }
    ~Count() { --cell; }
    std::atomic<int>& cell;
  };
  // Thread 5 throws before the barrier; those that wait there are unwound.
  ctx.enqueue_function(
      [&alive] {
        const Count counted(alive);
        if (thread_idx.x == 5) throw Mine("five");
        barrier();
      },
      {.grid_dim = 1, .block_dim = 8});
  EXPECT_THROW(ctx.synchronize(), Mine);
  EXPECT_EQ(alive, 0);
  // After a barrier, too.
  ctx.enqueue_function(
      [&alive] {
        const Count counted(alive);
        barrier();
        if (thread_idx.x == 0) throw Mine("zero");
        barrier();
      },
      {.grid_dim = 3, .block_dim = 64});
  EXPECT_THROW(ctx.synchronize(), Mine);
  EXPECT_EQ(alive, 0);
  ctx.enqueue_function(nothing, {.grid_dim = 1, .block_dim = 1});
  ctx.synchronize();
  // Memory that blocks share has a limit.
  ctx.enqueue_function(
      [] {
        (void)shared<char, 600000>();
        (void)shared<char, 600000>();
      },
      {.grid_dim = 1, .block_dim = 1});
  error_of<ValueError>([&] { ctx.synchronize(); });
}

TEST_P(Kernels, OfSourcesAreChecked) {
  constexpr const char* kSource = R"(
extern "C" __global__ void widen(float* out, const float16* in, long n) {
  long i = global_idx.x;
  if (i < n) out[i] = float(in[i]) * 2;
})";
  const auto in = ctx.enqueue_create_buffer<float16>(8);
  const auto out = ctx.enqueue_create_buffer<float>(8);
  in.enqueue_fill(float16(1.5F));
  const auto typed =
      ctx.compile_function<void(float*, const float16*, std::int64_t)>("widen", kSource);
  ctx.enqueue_function(typed, {.grid_dim = 1, .block_dim = 8}, out, in, 8);
  EXPECT_EQ(values_of(out), std::vector<float>(8, 3));
  const auto any = ctx.compile_function("widen", kSource);
  out.enqueue_fill(0);
  ctx.enqueue_function(any, {.grid_dim = 1, .block_dim = 8}, out, in.kernel_memory(), 8);
  EXPECT_EQ(values_of(out), std::vector<float>(8, 3));
  EXPECT_EQ(error_of<TypeError>([&] {
              ctx.compile_function<void(float*, const float*, std::int64_t)>("widen", kSource);
            }),
            "kernel 'widen' is declared as void(float*, const float16*, long) but "
            "void(float*, const float*, long) was requested");
  const LaunchConfig config{.grid_dim = 1, .block_dim = 8};
  EXPECT_THAT(error_of<TypeError>([&] { ctx.enqueue_function(any, config, out, in, 8.0); }),
              EndsWith("widen: argument #2 of type 'double' does not match the declared function "
                       "argument type 'long'"));
  EXPECT_THAT(error_of<TypeError>([&] { ctx.enqueue_function(any, config, out, out, 8); }),
              HasSubstr("argument #1 of type 'float*'"));
  EXPECT_THAT(error_of<TypeError>([&] { ctx.enqueue_function(any, config, out, in); }),
              EndsWith("widen: wrong number of arguments to enqueue: expected 3, got 2"));
  EXPECT_EQ(error_of<RuntimeError>([&] { (void)ctx.compile_function("wide", kSource); }),
            "kernel 'wide' not found; the source defines: widen");
  if (on_cpu())
    EXPECT_EQ(error_of<NotImplementedError>([&] {
                (void)ctx.compile_function(
                    "scale",
                    "extern \"C\" __global__ void scale(float* p) { __shared__ float x[4]; "
                    "x[0] = p[0]; __syncthreads(); p[1] = x[0]; }");
              }),
              "kernel 'scale' uses __shared__, which has no form on cpu; use shared<T, N>()");
}

TEST_P(Kernels, FailingThreadsOfSourcesFailTheStream) {
  if (!on_cpu()) return;
  // One thread finds no memory while the others wait.
  const auto f = ctx.compile_function<void(float*)>("greedy", R"(
extern "C" __global__ void greedy(float* out) {
  auto& small = shared<float, 64>();
  small[thread_idx.x] = thread_idx.x;
  if (thread_idx.x < 32) barrier();
  auto& large = shared<char, 1048500>();
  large[thread_idx.x] = 1;
  barrier();
  out[thread_idx.x] = large[0];
})");
  const auto out = ctx.enqueue_create_buffer<float>(64);
  ctx.enqueue_function(f, {.grid_dim = 3, .block_dim = 64}, out);
  EXPECT_THAT(error_of<ValueError>([&] { ctx.synchronize(); }), HasSubstr("shared memory"));
  ctx.enqueue_function(nothing, {.grid_dim = 1, .block_dim = 1});
  ctx.synchronize();
}

TEST_P(Kernels, LaunchThroughHandles) {
  const auto f = ctx.compile_function(scale);
  static_assert(FunctionEnqueuer<DeviceContext> && FunctionEnqueuer<DeviceStream>);
  const auto out = ctx.enqueue_create_buffer<float>(4);
  out.enqueue_fill(2);
  float* pointer = out.unsafe_ptr();
  float k = 4;
  int n = 4;
  void* args[] = {&pointer, &pointer, &k, &n};
  const std::uint64_t sizes[] = {8, 8, 4, 4};
  EXPECT_EQ(ctx.enqueue(f.handle(), 1, 4, 0, nullptr, 0, args, 4, sizes), std::nullopt);
  EXPECT_EQ(values_of(out), std::vector<float>(4, 8));
  EXPECT_EQ(ctx.enqueue(f.handle(), 1, 4, 0, nullptr, 0, args, 2, nullptr),
            "scale: wrong number of arguments to enqueue: expected 4, got 2");
  const std::uint64_t wide[] = {8, 8, 4, 8};
  EXPECT_EQ(ctx.enqueue(f.handle(), 1, 4, 0, nullptr, 0, args, 4, wide),
            "scale: argument #3 has 8 bytes but the parameter takes 4");
  EXPECT_EQ(f.context(), ctx);
  EXPECT_EQ(ctx.get_attribute(1), 1024);
  ctx.stream().enqueue_function(scale, {.grid_dim = 1, .block_dim = 4}, out, out, 1.0F, 4);
  EXPECT_EQ(ctx.enqueue(nullptr, 1, 4, 0, nullptr, 0, args, 4, nullptr), "enqueue: null function");
  EXPECT_THAT(ctx.enqueue(f.handle(), 0, 4, 0, nullptr, 0, args, 4, sizes).value_or(""),
              HasSubstr("must be a positive number"));
  EXPECT_EQ(f.get_attribute(Attribute::MAX_THREADS_PER_BLOCK), 1024);
  EXPECT_GE(f.occupancy_max_active_blocks_per_multiprocessor(128, 0), 1);
  error_of<ValueError>([&] { (void)f.occupancy_max_active_blocks_per_multiprocessor(0, 0); });
}

// out[i] = in[i] + k
constexpr const char* kAddPtx = R"(
.version 7.0
.target sm_70
.address_size 64
.const .align 4 .b8 table[64];
.visible .entry add_k(.param .u64 p0, .param .u64 p1, .param .f32 p2) {
  .reg .b64 %rd<6>; .reg .b32 %r<6>; .reg .f32 %f<4>;
  ld.param.u64 %rd1, [p0];
  ld.param.u64 %rd2, [p1];
  ld.param.f32 %f1, [p2];
  cvta.to.global.u64 %rd1, %rd1;
  cvta.to.global.u64 %rd2, %rd2;
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
  mad.lo.s32 %r1, %r1, %r2, %r3;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd1, %rd1, %rd3;
  add.s64 %rd2, %rd2, %rd3;
  ld.global.f32 %f2, [%rd2];
  add.f32 %f3, %f2, %f1;
  ld.const.f32 %f2, [table];
  add.f32 %f3, %f3, %f2;
  st.global.f32 [%rd1], %f3;
  ret;
}
)";

TEST_P(Kernels, AreLoadedFromPtx) {
  if (on_cpu()) {
    error_of<NotImplementedError>(
        [&] { ctx.load_function({.function_name = "add_k", .asm_code = kAddPtx}); });
    return;
  }
  const auto f = ctx.load_function<void(float*, const float*, float)>(
      {.function_name = "add_k", .asm_code = kAddPtx});
  const auto in = ctx.enqueue_create_buffer<float>(64);
  const auto out = ctx.enqueue_create_buffer<float>(64);
  in.enqueue_fill(3);
  ctx.enqueue_function(f, {.grid_dim = 2, .block_dim = 32}, out, in, 1.5F);
  EXPECT_EQ(values_of(out), std::vector<float>(64, 4.5F));
  // Constants are copied before the launch.
  std::vector<float> table(16, 100);
  ctx.enqueue_function(
      f, {.grid_dim = 2, .block_dim = 32, .constant_memory = {{"table", table.data(), 64}}}, out,
      in, 1.5F);
  table.assign(16, 0);
  EXPECT_EQ(values_of(out), std::vector<float>(64, 104.5F));
  EXPECT_THAT(
      error_of<ValueError>([&] {
        ctx.enqueue_function(
            f, {.grid_dim = 2, .block_dim = 32, .constant_memory = {{"tabel", table.data(), 64}}},
            out, in, 1.5F);
      }),
      EndsWith("constant memory 'tabel' not found in 'add_k'"));
  EXPECT_THAT(
      error_of<ValueError>([&] {
        ctx.enqueue_function(
            f, {.grid_dim = 2, .block_dim = 32, .constant_memory = {{"table", table.data(), 128}}},
            out, in, 1.5F);
      }),
      EndsWith("constant memory 'table' holds 64 bytes, got 128"));

  const auto any = ctx.load_function({.function_name = "add_k", .asm_code = kAddPtx});
  ctx.enqueue_function(any, {.grid_dim = 2, .block_dim = 32}, out, in, 2.5F);
  EXPECT_EQ(values_of(out), std::vector<float>(64, 5.5F));
  EXPECT_THAT(error_of<TypeError>([&] {
                ctx.enqueue_function(any, {.grid_dim = 2, .block_dim = 32}, out, in, 2.5);
              }),
              EndsWith("add_k: argument #2 has 8 bytes but the parameter takes 4"));
  EXPECT_THAT(error_of<TypeError>(
                  [&] { ctx.enqueue_function(any, {.grid_dim = 2, .block_dim = 32}, out, in); }),
              EndsWith("add_k: wrong number of arguments to enqueue: expected 3, got 2"));
  error_of<TypeError>([&] {
    ctx.load_function<void(float*, float)>({.function_name = "add_k", .asm_code = kAddPtx});
  });
  EXPECT_THAT(error_of<RuntimeError>(
                  [&] { ctx.load_function({.function_name = "sub_k", .asm_code = kAddPtx}); }),
              HasSubstr("add_k"));
  error_of<RuntimeError>([&] {
    ctx.load_function({.function_name = "add_k", .asm_code = std::string(kAddPtx) + "garbage"});
  });
  error_of<ValueError>([&] {
    ctx.load_function(
        {.function_name = "f", .asm_code = "        /*0000*/      MOV R1, c[0x0][0x28] ;"});
  });
}

TEST_P(Kernels, RefuseBuffersFromElsewhere) {
  const DeviceContext cpu(0, {.api = "cpu"});
  const auto f = ctx.compile_function(scale);
  const driver::Buffer strided =
      driver::Buffer(DType::float32, {8}, ctx.queue())[driver::Slice{.step = 2}];
  EXPECT_THAT(error_of<ValueError>([&] {
                ctx.enqueue_function(f, {.grid_dim = 1, .block_dim = 4}, strided, nullptr, 1.0F, 4);
              }),
              EndsWith("scale: argument #0 is not contiguous"));
  const driver::Buffer wrong(DType::int32, {8}, ctx.queue());
  EXPECT_THAT(error_of<TypeError>([&] {
                ctx.enqueue_function(f, {.grid_dim = 1, .block_dim = 4}, wrong, nullptr, 1.0F, 4);
              }),
              EndsWith("scale: argument #0 of type 'int32*' does not match the declared function "
                       "argument type 'float*'"));
  if (on_cpu()) return;
  const auto there = cpu.enqueue_create_buffer<float>(4);
  EXPECT_THAT(
      error_of<ValueError>(
          [&] { ctx.enqueue_function(f, {.grid_dim = 1, .block_dim = 4}, there, there, 1.0F, 4); }),
      EndsWith("scale: argument #0 lives on cpu:0, which " + device_name() + " cannot access"));
}

}  // namespace
}  // namespace kiln::gpu
