#include <numeric>

#include "tests/gpu/contexts.h"

namespace {

KILN_KERNEL(add_to, (float* out, const float* in, int n), {
  const int i = global_idx.x;
  if (i < n) out[i] += in[i];
});

}  // namespace

namespace kiln::gpu {
namespace {

class Graphs : public EveryContext {};
INSTANTIATE_TEST_SUITE_P(Gpu, Graphs, testing::ValuesIn(all_contexts()), context_name);

TEST_P(Graphs, ReplayWhatWasBuilt) {
  constexpr int n = 300;
  const auto a = ctx.enqueue_create_buffer<float>(n);
  const auto b = ctx.enqueue_create_buffer<float>(n);
  const auto staged = ctx.enqueue_create_host_buffer<float>(n);
  const auto result = ctx.enqueue_create_host_buffer<float>(n);
  a.enqueue_fill(0);
  for (std::int64_t i = 0; i < n; ++i) staged[i] = static_cast<float>(i);
  int calls = 0;
  const DeviceGraph graph = DeviceGraph::create(ctx, [&](DeviceGraphBuilder& g) {
    ++calls;
    EXPECT_EQ(g.context(), ctx);
    const DeviceGraphNode load = g.add_copy(b, staged);
    EXPECT_EQ(load.to_string(), "DeviceGraphNode(id=0)");
    const DeviceGraphNode once = g.add_function(add_to, {.grid_dim = 2, .block_dim = 256},
                                                {.dependencies = {load}}, a, b, n);
    const DeviceGraphNode twice =
        g.add_function(ctx.compile_function(add_to), {.grid_dim = 2, .block_dim = 256},
                       {.dependencies = {once}}, a, b, n);
    g.add_copy(result, a, {.dependencies = {twice}});
  });
  EXPECT_EQ(calls, 1);
  graph.replay();
  graph.replay();
  const DeviceGraph copy = graph;
  copy.replay();
  ctx.synchronize();
  for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(result[i], 6.0F * static_cast<float>(i));
}

TEST_P(Graphs, KeepTheirMemory) {
  std::optional<DeviceGraph> graph;
  const auto out = ctx.enqueue_create_buffer<std::int64_t>(50);
  {
    const auto scratch = ctx.enqueue_create_buffer<std::int64_t>(50);
    graph = DeviceGraph::create(ctx, [&](DeviceGraphBuilder& g) {
      const auto fill = g.add_memset(scratch, 0x0000000700000009LL);
      g.add_copy(out, scratch, {.dependencies = {fill}});
    });
  }
  std::vector<DeviceBuffer<std::int64_t>> others;
  for (int i = 0; i < 8; ++i) {
    others.push_back(ctx.enqueue_create_buffer<std::int64_t>(50));
    others.back().enqueue_fill(1);
  }
  graph->replay();
  graph.reset();
  EXPECT_EQ(values_of(out), std::vector<std::int64_t>(50, 0x0000000700000009LL));
  for (const auto& other : others) EXPECT_EQ(values_of(other), std::vector<std::int64_t>(50, 1));
}

TEST_P(Graphs, RegionsJoin) {
  const auto a = ctx.enqueue_create_buffer<int>(8);
  const DeviceGraph graph = DeviceGraph::create(ctx, [&](DeviceGraphBuilder& g) {
    const auto first = g.add_memset(a, 1);
    const auto one =
        g.region([&](DeviceGraphBuilder& r) { r.add_memset(a, 2); }, {.dependencies = {first}});
    EXPECT_EQ(one.to_string(), "DeviceGraphNode(id=1)");
    const auto none = g.region([](DeviceGraphBuilder&) {}, {.dependencies = {one}});
    EXPECT_EQ(none.to_string(), "DeviceGraphNode(id=2)");
    const auto many = g.region(
        [&](DeviceGraphBuilder& r) {
          r.add_memset(a.create_sub_buffer<int>(0, 4), 3);
          r.region([&](DeviceGraphBuilder& inner) {
            inner.add_memset(a.create_sub_buffer<int>(4, 2), 4);
            inner.add_memset(a.create_sub_buffer<int>(6, 2), 5);
          });
        },
        {.dependencies = {none}});
    g.add_memset(a.create_sub_buffer<int>(0, 1), 9, {.dependencies = {many}});
  });
  graph.replay();
  EXPECT_EQ(values_of(a), (std::vector<int>{9, 3, 3, 3, 4, 4, 5, 5}));
}

TEST_P(Graphs, RefuseWhatDoesNotFit) {
  const auto a = ctx.enqueue_create_buffer<int>(8);
  const auto b = ctx.enqueue_create_buffer<int>(7);
  std::optional<DeviceGraphNode> foreign;
  const DeviceGraph empty = DeviceGraph::create(ctx, [&](DeviceGraphBuilder&) {});
  empty.replay();
  ctx.synchronize();
  DeviceGraph::create(ctx, [&](DeviceGraphBuilder& g) { foreign = g.add_empty(); });
  DeviceGraph::create(ctx, [&](DeviceGraphBuilder& g) {
    EXPECT_EQ(error_of<ValueError>([&] { g.add_empty({.dependencies = {*foreign}}); }),
              "node belongs to another graph");
    error_of<ValueError>([&] { g.add_copy(a, b); });
    EXPECT_THAT(error_of<ValueError>([&] {
                  g.add_function(KILN_CLOSURE((a), { a[0] = 1; }), {.grid_dim = 0, .block_dim = 1});
                }),
                testing::HasSubstr(
                    "DeviceGraphBuilder.add_function: Dim value grid_dim.x must be a positive"));
  });
  struct Mine {};
  EXPECT_THROW(DeviceGraph::create(ctx,
                                   [&](DeviceGraphBuilder& g) {
                                     g.add_empty();
                                     throw Mine();
                                   }),
               Mine);
}

}  // namespace
}  // namespace kiln::gpu
