#include <atomic>
#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>

#include "tests/gpu/contexts.h"

namespace kiln::gpu {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class Contexts : public EveryContext {};
INSTANTIATE_TEST_SUITE_P(Gpu, Contexts, testing::ValuesIn(all_contexts()), context_name);

TEST_P(Contexts, NameThemselves) {
  EXPECT_EQ(ctx.api(), on_cpu() ? "cpu" : "cuda");
  EXPECT_EQ(ctx.id(), on_cpu() ? 0 : GetParam());
  EXPECT_FALSE(ctx.name().empty());
  if (on_cpu()) EXPECT_THAT(ctx.name(), HasSubstr("cpu"));
  EXPECT_EQ(ctx.get_api_version() >= 12000, !on_cpu());
  EXPECT_TRUE(ctx.is_compatible());
  const auto [free, total] = ctx.get_memory_info();
  EXPECT_GT(free, 0u);
  EXPECT_LE(free, total);
  EXPECT_EQ(ctx.max_single_alloc_size(), total);
  ctx.run_healthcheck();
  const DeviceContext copy = ctx;
  EXPECT_EQ(copy, ctx);
  EXPECT_NE(context_of(GetParam()), ctx);
  EXPECT_EQ(DeviceContext::number_of_devices({.api = "cpu"}), 1);
  EXPECT_EQ(DeviceContext::number_of_devices({.api = "abacus"}), 0);
}

TEST(Context, RefusesWhatIsNotThere) {
  EXPECT_THAT(error_of<ValueError>([] { DeviceContext(0, {.api = "abacus"}); }),
              HasSubstr("abacus"));
  EXPECT_THAT(error_of<ValueError>([] { DeviceContext(0, {.api = "metal"}); }),
              StartsWith("failed to create device:"));
  EXPECT_THAT(error_of<ValueError>([] { DeviceContext(1000, {.api = "cuda"}); }),
              StartsWith("failed to create device:"));
  EXPECT_NO_THROW(DeviceContext(77, {.api = "cpu"}));
}

TEST_P(Contexts, AttributesAreThoseOfTheTable) {
  EXPECT_EQ(ctx.get_attribute(DeviceAttribute::MAX_THREADS_PER_BLOCK), 1024);
  EXPECT_EQ(ctx.get_attribute(DeviceAttribute::WARP_SIZE), on_cpu() ? 1 : 32);
  EXPECT_EQ(ctx.get_attribute(DeviceAttribute::MAX_GRID_DIM_X), 2147483647);
  EXPECT_EQ(ctx.get_attribute(DeviceAttribute::MAX_GRID_DIM_Y), 65535);
  EXPECT_GT(ctx.get_attribute(DeviceAttribute::PARALLELISM_LEVEL), 0);
  EXPECT_GT(ctx.get_attribute(DeviceAttribute::MULTIPROCESSOR_COUNT), 0);
  if (on_cpu()) EXPECT_EQ(ctx.get_attribute(DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK), 1048576);
  error_of<ValueError>([&] { ctx.get_attribute(static_cast<DeviceAttribute>(999)); });
}

TEST_P(Contexts, CopyInAllThirteenWays) {
  constexpr std::int64_t n = 1000;
  std::vector<float> source(n);
  std::iota(source.begin(), source.end(), 1.0F);
  const auto a = ctx.enqueue_create_buffer<float>(n);
  const auto b = ctx.enqueue_create_buffer<float>(n);
  const auto h = ctx.enqueue_create_host_buffer<float>(n);
  const auto g = ctx.enqueue_create_host_buffer<float>(n);
  std::vector<float> back(n);

  ctx.enqueue_copy(a, source.data());  // 1
  ctx.enqueue_copy(b, a);              // 10
  ctx.enqueue_copy(h, b);              // 12
  ctx.enqueue_copy(g, h);              // 13
  ctx.enqueue_copy(back.data(), g);    // 4
  ctx.synchronize();
  EXPECT_EQ(back, source);

  source[0] = 17;
  ctx.enqueue_copy(h, source.data());                   // 2
  ctx.enqueue_copy(a, h);                               // 11
  ctx.enqueue_copy(b.unsafe_ptr(), a.unsafe_ptr(), n);  // 5
  std::fill(back.begin(), back.end(), 0.0F);
  ctx.enqueue_copy(back.data(), b);  // 3
  ctx.synchronize();
  EXPECT_EQ(back, source);

  source[1] = 18;
  ctx.enqueue_copy(a, std::span<const float>(source));  // 6
  ctx.enqueue_copy(h, std::span<const float>(source));  // 7
  std::vector<float> other(n);
  ctx.enqueue_copy(std::span<float>(back), a);   // 8
  ctx.enqueue_copy(std::span<float>(other), h);  // 9
  ctx.synchronize();
  EXPECT_EQ(back, source);
  EXPECT_EQ(other, source);

  // The same from the buffers' side.
  b.enqueue_copy_from(a);
  b.enqueue_copy_to(back.data());
  b.enqueue_copy_to(h);
  ctx.synchronize();
  EXPECT_EQ(back, source);
  EXPECT_EQ(h[1], 18);
}

TEST_P(Contexts, CopiesThroughPlainMemoryKeepTheirOrder) {
  std::vector<int> there(500, 3), back(500);
  const auto a = ctx.enqueue_create_buffer<int>(500);
  const auto b = ctx.enqueue_create_buffer<int>(500);
  a.enqueue_fill(41);
  for (int round = 0; round < 20; ++round) {
    a.enqueue_fill(round);
    ctx.enqueue_copy(there.data(), a);
    ctx.enqueue_copy(b, there.data());
    ctx.enqueue_copy(back.data(), b);
  }
  ctx.synchronize();
  EXPECT_EQ(back, std::vector<int>(500, 19));
}

TEST_P(Contexts, CopiesCheckLengths) {
  const auto a = ctx.enqueue_create_buffer<int>(8);
  const auto b = ctx.enqueue_create_buffer<int>(7);
  std::vector<int> seven(7);
  EXPECT_EQ(error_of<ValueError>([&] { ctx.enqueue_copy(a, std::span<const int>(seven)); }),
            "source span length must be >= destination buffer length");
  EXPECT_EQ(error_of<ValueError>([&] { ctx.enqueue_copy(std::span<int>(seven), a); }),
            "destination span length must be >= source buffer length");
  EXPECT_EQ(error_of<ValueError>([&] { ctx.enqueue_copy(a, b); }),
            "source buffer length must be >= destination buffer length");
  ctx.enqueue_copy(b, a);
  error_of<ValueError>([&] { ctx.enqueue_copy(a, static_cast<const int*>(nullptr)); });
  const auto none = ctx.enqueue_create_buffer<int>(0);
  EXPECT_EQ(none.size(), 0);
  ctx.enqueue_copy(none, static_cast<const int*>(nullptr));
  none.enqueue_fill(3);
  ctx.synchronize();
  error_of<ValueError>([&] { ctx.enqueue_create_buffer<int>(-1); });
  error_of<ValueError>([&] { ctx.enqueue_create_host_buffer<int>(-1); });
  error_of<ValueError>([&] { ctx.enqueue_copy(a.unsafe_ptr(), a.unsafe_ptr(), -1); });
}

template <typename T>
void check_fill(const DeviceContext& ctx, T value, std::int64_t n) {
  const auto a = ctx.enqueue_create_buffer<T>(n);
  a.enqueue_fill(value);
  const std::vector<T> values = values_of(a);
  for (const T& v : values) EXPECT_EQ(std::memcmp(&v, &value, sizeof v), 0);
}

TEST_P(Contexts, FillElementsOfEveryWidth) {
  for (std::int64_t n : {1, 2, 3, 1000}) {
    check_fill<std::int8_t>(ctx, -3, n);
    check_fill<std::uint16_t>(ctx, 0xabcd, n);
    check_fill<float16>(ctx, float16(1.5F), n);
    check_fill<float>(ctx, std::nanf("5"), n);
    check_fill<std::int64_t>(ctx, 0x0123456789abcdefLL, n);
    check_fill<std::int64_t>(ctx, 0x0123456701234567LL, n);
    check_fill<double>(ctx, -0.1, n);
  }
}

TEST_P(Contexts, SubBuffersShareMemory) {
  auto a = std::optional(ctx.enqueue_create_buffer<std::int32_t>(16));
  a->enqueue_fill(0);
  const auto part = a->create_sub_buffer<std::int32_t>(4, 8);
  const auto halves = a->create_sub_buffer<std::int16_t>(8, 2);
  part.enqueue_fill(5);
  halves.enqueue_fill(1);
  std::vector<std::int32_t> expected(16, 0);
  std::fill_n(expected.begin() + 4, 8, 5);
  expected[4] = 0x00010001;
  EXPECT_EQ(values_of(*a), expected);
  for (const auto& [offset, size] : {std::pair(-1, 2), {0, 17}, {16, 1}, {9, 8}, {0, -1}})
    EXPECT_THAT(error_of<ValueError>([&] { a->create_sub_buffer<std::int32_t>(offset, size); }),
                HasSubstr("64 bytes"));
  a.reset();
  EXPECT_EQ(values_of(part)[1], 5);
}

TEST_P(Contexts, MappedBuffersCopyBack) {
  const auto a = ctx.enqueue_create_buffer<float>(4);
  a.enqueue_fill(2);
  {
    const auto mapped = a.map_to_host();
    EXPECT_EQ(mapped.size(), 4);
    EXPECT_EQ(mapped[3], 2);
    for (float& value : mapped) value *= 3;
  }
  EXPECT_EQ(values_of(a), std::vector<float>(4, 6));
  auto mapped = a.map_to_host();
  mapped[0] = 1;
  mapped.unmap();
  mapped.unmap();
  EXPECT_EQ(values_of(a), (std::vector<float>{1, 6, 6, 6}));
}

TEST_P(Contexts, OwnershipMoves) {
  auto a = ctx.enqueue_create_buffer<int>(4);
  a.enqueue_fill(9);
  const auto copy = a;
  int* address = std::move(a).take_ptr();
  EXPECT_EQ(copy.unsafe_ptr(), address);
  const auto again = DeviceBuffer<int>::wrap(ctx, address, 4, {.owning = true});
  EXPECT_EQ(values_of(again), std::vector<int>(4, 9));
  const auto borrowed = DeviceBuffer<int>::wrap(ctx, address, 4);
  EXPECT_EQ(values_of(borrowed), std::vector<int>(4, 9));
  error_of<ValueError>([&] { DeviceBuffer<int>::wrap(ctx, nullptr, 4); });
  EXPECT_EQ(DeviceBuffer<int>::wrap(ctx, nullptr, 0).size(), 0);

  const DeviceContext other = context_of(GetParam());
  const auto b = ctx.enqueue_create_buffer<int>(4);
  b.enqueue_fill(5);
  b.reassign_ownership_to(other);
  EXPECT_EQ(b.context(), other);
  EXPECT_EQ(values_of(b), std::vector<int>(4, 5));
}

TEST_P(Contexts, BuffersPrintThemselves) {
  const auto a = ctx.enqueue_create_buffer<int>(3);
  const std::vector<int> numbers{1, 2, 3};
  ctx.enqueue_copy(a, numbers.data());
  EXPECT_EQ(a.to_string(), "DeviceBuffer([1, 2, 3])");
  const auto h = ctx.enqueue_create_host_buffer<float>(2);
  h[0] = 1.5F;
  h[1] = -2;
  EXPECT_EQ(h.to_string(), "HostBuffer([1.5, -2.0])");
  EXPECT_EQ(h.at(1), -2);
  error_of<IndexError>([&] { h.at(2); });
  const auto many = ctx.enqueue_create_host_buffer<std::uint8_t>(1000);
  for (std::int64_t i = 0; i < 1000; ++i) many[i] = static_cast<std::uint8_t>(i);
  EXPECT_EQ(many.to_string(), "HostBuffer([0, 1, 2, ..., 229, 230, 231])");
  const auto fewer = ctx.enqueue_create_host_buffer<std::uint8_t>(999);
  EXPECT_THAT(fewer.to_string(), testing::Not(HasSubstr("...")));
}

TEST_P(Contexts, StreamsAreOrderedByWaits) {
  const DeviceContext other = ctx.select_stream(1);
  EXPECT_EQ(ctx.num_streams(), 2);
  EXPECT_EQ(ctx.select_stream(1).stream(), other.stream());
  EXPECT_EQ(ctx.select_stream(0).stream(), ctx.stream());
  EXPECT_NE(other.stream(), ctx.stream());
  EXPECT_EQ(other.select_stream(3).num_streams(), 4);
  error_of<ValueError>([&] { ctx.select_stream(-1); });
  error_of<ValueError>([&] { ctx.select_stream(64); });
  const auto a = ctx.enqueue_create_buffer<int>(1 << 16);
  const auto b = ctx.enqueue_create_buffer<int>(1 << 16);
  for (int round = 0; round < 50; ++round) {
    a.enqueue_fill(round);
    other.enqueue_wait_for(ctx);
    other.enqueue_copy_no_cross_stream_sync(b, a);
    ctx.enqueue_wait_for(other);
  }
  other.synchronize();
  EXPECT_EQ(values_of(b), std::vector<int>(1 << 16, 49));
}

TEST_P(Contexts, EventsMarkAndWait) {
  const DeviceEvent event = ctx.create_event({.disable_timing = false});
  EXPECT_TRUE(event.is_ready());
  const DeviceStream stream = ctx.create_stream({.priority = -100});
  stream.enqueue_wait_for(event);
  const auto a = ctx.enqueue_create_buffer<int>(100);
  a.enqueue_fill(1);
  ctx.stream().record_event(event);
  stream.enqueue_wait_for(event);
  stream.synchronize();
  EXPECT_TRUE(event.is_ready());
  error_of<NotImplementedError>([&] { ctx.create_event({.interprocess = true}); });
  const StreamPriorityRange range = ctx.stream_priority_range();
  EXPECT_GE(range.least, range.greatest);
  EXPECT_EQ((StreamPriorityRange{0, -5}).to_string(), "StreamPriorityRange(least=0, greatest=-5)");
  EXPECT_EQ(DeviceStream(stream.queue()), stream);
}

TEST_P(Contexts, HostFunctionsBelongToCpuContexts) {
  if (!on_cpu()) {
    EXPECT_EQ(error_of<RuntimeError>([&] { ctx.enqueue_cpu_function([] {}); }),
              "enqueue_cpu_function is only supported on CPU DeviceContexts");
    EXPECT_EQ(error_of<RuntimeError>([&] { ctx.enqueue_cpu_range([](std::int64_t) {}, 4); }),
              "enqueue_cpu_range is only supported on CPU DeviceContexts");
    static std::atomic<int> calls{0};
    ctx.stream().enqueue_host_func(
        [](void* data) { static_cast<std::atomic<int>*>(data)->store(7); }, &calls);
    ctx.synchronize();
    EXPECT_EQ(calls, 7);
    return;
  }
  EXPECT_EQ(error_of<RuntimeError>([&] { ctx.stream().enqueue_host_func([](void*) {}, nullptr); }),
            "enqueue_host_func is only supported on CUDA streams");
  std::vector<std::atomic<int>> hits(1000);
  std::atomic<int> seen{0};
  ctx.enqueue_cpu_range([&](std::int64_t i) { ++hits[static_cast<std::size_t>(i)]; }, 1000);
  ctx.enqueue_cpu_function([&] {
    for (const auto& hit : hits) seen += hit;
  });
  ctx.enqueue_cpu_range([](std::int64_t) { std::abort(); }, 0);
  ctx.synchronize();
  EXPECT_EQ(seen, 1000);
  error_of<ValueError>([&] { ctx.enqueue_cpu_range([](std::int64_t) {}, -1); });

  struct Mine : std::runtime_error {
    using runtime_error::runtime_error;
  };
  bool ran = false;
  ctx.enqueue_cpu_range(
      [](std::int64_t i) {
        if (i == 3) throw Mine("three");
      },
      8);
  ctx.enqueue_cpu_function([&] { ran = true; });
  EXPECT_THROW(ctx.synchronize(), Mine);
  EXPECT_FALSE(ran);
  ctx.enqueue_cpu_function([&] { ran = true; });
  ctx.synchronize();
  EXPECT_TRUE(ran);
}

TEST_P(Contexts, TimeTheirWork) {
  int calls = 0;
  EXPECT_EQ(ctx.execution_time([&] { ++calls; }, 0), 0);
  EXPECT_EQ(calls, 0);
  const auto a = ctx.enqueue_create_buffer<int>(1 << 20);
  EXPECT_GT(ctx.execution_time(
                [&](const DeviceContext& c) {
                  c.enqueue_memset(a, 1);
                  ++calls;
                },
                3),
            0);
  EXPECT_EQ(calls, 3);
  std::vector<int> seen;
  ctx.execution_time_iter([&](const DeviceContext&, int i) { seen.push_back(i); }, 3);
  EXPECT_EQ(seen, (std::vector<int>{0, 1, 2}));
  error_of<ValueError>([&] { ctx.execution_time([] {}, -1); });
}

TEST_P(Contexts, PeersAreAskedFor) {
  EXPECT_FALSE(ctx.can_access(ctx));
  EXPECT_EQ(error_of<RuntimeError>([&] { ctx.enable_peer_access(ctx); }),
            "peer access from " + device_name() + " to " + device_name() + " is not supported");
  {
    const auto scope = ctx.push_context();
  }
  ctx.set_as_current();
  if (on_cpu()) {
    EXPECT_FALSE(ctx.supports_multicast());
    error_of<NotImplementedError>([&] { ctx.create_external_stream(nullptr); });
    return;
  }
  EXPECT_EQ(DeviceContext::all_peer_access_enabled(), driver::accelerator_count() > 1);
  const DeviceContext other = context_of((GetParam() + 1) % driver::accelerator_count());
  if (other.device() == ctx.device()) return;
  EXPECT_TRUE(ctx.can_access(other));
  ctx.enable_peer_access(other);
  ctx.enable_peer_access(other);
  DeviceContext::enable_all_peer_access();
  const auto a = ctx.enqueue_create_buffer<int>(100);
  const auto b = other.enqueue_create_buffer<int>(100);
  a.enqueue_fill(3);
  ctx.enqueue_copy(b, a);
  EXPECT_EQ(values_of(b), std::vector<int>(100, 3));
  b.enqueue_fill(4);
  ctx.enqueue_copy(a, b);
  EXPECT_EQ(values_of(a), std::vector<int>(100, 4));
}

TEST_P(Contexts, MixWithTheCpu) {
  const DeviceContext cpu(0, {.api = "cpu"});
  const auto a = ctx.enqueue_create_buffer<int>(100);
  const auto b = cpu.enqueue_create_buffer<int>(100);
  a.enqueue_fill(3);
  cpu.enqueue_copy(b, a);
  EXPECT_EQ(values_of(b), std::vector<int>(100, 3));
  b.enqueue_fill(4);
  ctx.enqueue_copy(a, b);
  EXPECT_EQ(values_of(a), std::vector<int>(100, 4));
  b.enqueue_fill(5);
  cpu.enqueue_copy(a, b);
  EXPECT_EQ(values_of(a), std::vector<int>(100, 5));
  std::atomic<bool> released{false};
  cpu.enqueue_cpu_function([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    released = true;
  });
  ctx.enqueue_wait_for(cpu);
  a.enqueue_fill(6);
  ctx.synchronize();
  EXPECT_TRUE(released);
}

TEST(Dims, HoldThreeNumbers) {
  EXPECT_EQ(Dim(4).to_string(), "(x=4)");
  EXPECT_EQ(Dim(4, 2).to_string(), "(x=4, y=2)");
  EXPECT_EQ(Dim(4, 1, 3).to_string(), "(x=4, y=1, z=3)");
  const Dim dim = {2, 3, 4};
  EXPECT_EQ(dim[0] * 100 + dim[1] * 10 + dim[2], 234);
  EXPECT_EQ(dim.y(), 3);
  error_of<IndexError>([&] { (void)dim[3]; });
  error_of<IndexError>([&] { (void)dim[-1]; });
  EXPECT_EQ(Dim(4), Dim(4, 1, 1));
  EXPECT_NE(Dim(4), Dim(4, 2));
}

TEST_P(Contexts, PointersStayInTheirBuffer) {
  const auto a = ctx.enqueue_create_buffer<float>(8);
  DevicePointer p = a.device_ptr();
  EXPECT_EQ(p.offset(), 0);
  p += 3;
  EXPECT_EQ(p.offset(), 3);
  EXPECT_EQ(p.unsafe_ptr(), a.unsafe_ptr() + 3);
  EXPECT_EQ(p.to_string(), "DevicePointer[float32](buffer=DeviceBuffer(size=8), offset=3)");
  EXPECT_EQ((p + 4).offset(), 7);
  EXPECT_EQ((p - 3).offset(), 0);
  EXPECT_EQ(p, DevicePointer(a, 3));
  EXPECT_LT(p, p + 1);
  EXPECT_GE(p, p);
  EXPECT_EQ(error_of<IndexError>([&] { p += 6; }),
            "DevicePointer: addition of '6' results in invalid offset of '9' for DeviceBuffer of "
            "size 8");
  EXPECT_EQ(p.offset(), 3);
  EXPECT_EQ(error_of<IndexError>([&] { p -= 4; }),
            "DevicePointer: subtraction of '4' results in invalid offset of '-1' for DeviceBuffer "
            "of size 8");
  error_of<IndexError>([&] { p += INT64_MAX; });
  error_of<IndexError>([&] { p -= INT64_MIN; });
  EXPECT_EQ(error_of<IndexError>([&] { DevicePointer(a, 8); }),
            "DevicePointer: invalid offset '8' for DeviceBuffer of size '8'");
  const auto none = ctx.enqueue_create_buffer<float>(0);
  EXPECT_EQ(error_of<ValueError>([&] { none.device_ptr(); }),
            "DevicePointer: size of DeviceBuffer must not be 0");
  EXPECT_EQ(error_of<ValueError>([&] { DevicePointer(none, 0); }),
            "DevicePointer: invalid DeviceBuffer of size '0'");
  const auto b = ctx.enqueue_create_buffer<float>(8);
  EXPECT_NE(b.device_ptr(), a.device_ptr());
  EXPECT_EQ(error_of<ValueError>([&] { (void)(b.device_ptr() <= a.device_ptr()); }),
            "DevicePointer: less than or equal comparison not supported when the underlying "
            "DeviceBuffer does not match");
}

}  // namespace
}  // namespace kiln::gpu
