// Uses what a context offers, once. failing_calls.py runs it again and again with another call of
// the driver failing each time: then it says so in a sentence, and ends with status 3.

#include <cstdio>
#include <optional>
#include <vector>

#include "kiln/driver.h"
#include "kiln/gpu.h"
#include "kiln/support/error.h"

KILN_KERNEL(add_one, (float* data, int n), {
  const int i = global_idx.x;
  if (i < n) data[i] += 1;
});

namespace {

using namespace kiln::gpu;

bool use_everything() {
  constexpr int n = 1000;
  const DeviceContext ctx;
  if (ctx.api() != "cuda") throw kiln::RuntimeError("There is no accelerator.");
  const DeviceContext other = ctx.select_stream(1);
  const auto a = ctx.enqueue_create_buffer<float>(n);
  const auto b = ctx.enqueue_create_buffer<float>(n);
  const auto staged = ctx.enqueue_create_host_buffer<float>(n);
  std::vector<float> values(n, 1), back(n);
  ctx.enqueue_copy(a, values.data());
  ctx.enqueue_copy(staged, a);
  const auto f = ctx.compile_function(
      add_one, {.func_attribute = FuncAttribute::MAX_DYNAMIC_SHARED_SIZE_BYTES(60000)});
  ctx.enqueue_function(f, {.grid_dim = 4, .block_dim = 256, .shared_mem_bytes = 50000}, a, n);
  other.enqueue_wait_for(ctx);
  other.enqueue_copy(b, a);
  ctx.enqueue_wait_for(other);
  const DeviceGraph graph = DeviceGraph::create(ctx, [&](DeviceGraphBuilder& g) {
    const auto first = g.add_function(f, {.grid_dim = 4, .block_dim = 256}, {}, b, n);
    g.add_function(f, {.grid_dim = 4, .block_dim = 256}, {.dependencies = {first}}, b, n);
  });
  graph.replay();
  const DeviceEvent event = ctx.create_event({.disable_timing = false});
  ctx.stream().record_event(event);
  event.synchronize();
  ctx.enqueue_copy(back.data(), b);
  ctx.synchronize();
  other.synchronize();
  if (back != std::vector<float>(n, 4)) return false;
  std::vector<kiln::driver::Device> devices;
  for (int i = 0; i < kiln::driver::accelerator_count(); ++i)
    devices.push_back(kiln::driver::Accelerator(i));
  if (kiln::driver::SymmetricPool::is_supported(devices))
    (void)kiln::driver::SymmetricPool::allocate(devices, 4096);
  return true;
}

}  // namespace

int main() {
  try {
    if (use_everything()) return 0;
    std::fprintf(stderr, "The values are wrong.\n");
    return 1;
  } catch (const kiln::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}
