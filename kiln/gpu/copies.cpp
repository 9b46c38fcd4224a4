// Memory of contexts: allocation, copies and fills.

#include <algorithm>
#include <cstring>
#include <vector>

#include "kiln/driver/cuda/library.h"
#include "kiln/driver/order_checker.h"
#include "kiln/driver/storage.h"
#include "kiln/gpu/device_context.h"
#include "kiln/gpu/device_info.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "kiln/support/process.h"

namespace kiln::gpu {

namespace cuda = driver::cuda;
using driver::Work;

namespace detail {

void throw_short(const char* text) { throw ValueError(text); }

driver::Buffer create_buffer(const DeviceContext& context, DType dtype, std::int64_t size,
                             bool host) {
  if (size < 0)
    throw ValueError(format("{}: the size is {}, it must not be negative.",
                            host ? "enqueue_create_host_buffer" : "enqueue_create_buffer", size));
  const driver::Usage usage =
      host ? driver::Usage::STAGING | driver::Usage::UNTRACKED : driver::Usage::DEFAULT;
  return driver::Buffer(dtype, {size}, context.queue(), usage);
}

void enqueue_copy(const DeviceContext& context, const CopySide& to, const CopySide& from,
                  std::size_t bytes, bool ordered) {
  if (bytes == 0) return;
  check_call("DeviceContext.enqueue_copy");
  driver::QueueBackend& queue = *context.queue().backend();
  const auto address_of = [](const CopySide& side) {
    return side.buffer != nullptr ? side.buffer->data() : side.address;
  };
  const auto device_of = [&](const CopySide& side) {
    if (side.buffer != nullptr) return side.buffer->device().backend();
    return side.on_device ? context.device().backend() : &driver::cpu_backend();
  };
  Work work;
  work.kind = Work::Kind::copy;
  work.destination = address_of(to);
  work.source = address_of(from);
  if (work.destination == nullptr || work.source == nullptr)
    throw ValueError(format("enqueue_copy: the address of the {} of {} bytes is null.",
                            work.source == nullptr ? "source" : "destination", bytes));
  work.bytes = bytes;
  work.source_device = device_of(from);
  work.destination_device = device_of(to);
  std::vector<driver::QueueBackend*> others;
  const bool checked = driver::order_checker::enabled();
  for (const CopySide* side : {&to, &from}) {
    if (side->buffer == nullptr) continue;
    driver::QueueBackend& other = side->buffer->queue();
    if (!ordered || &other == &queue ||
        std::find(others.begin(), others.end(), &other) != others.end())
      continue;
    others.push_back(&other);
    work.waits.push_back(other.end());
    if (checked) [[unlikely]]
      driver::order_checker::wait(queue, work.waits.back());
  }
  if (checked) [[unlikely]] {
    const std::uint64_t next = queue.submitted() + 1;
    if (from.buffer != nullptr)
      driver::order_checker::use(*from.buffer, queue, next, false, "DeviceContext.enqueue_copy");
    if (to.buffer != nullptr)
      driver::order_checker::use(*to.buffer, queue, next, true, "DeviceContext.enqueue_copy");
  }
  if (from.buffer != nullptr) work.reads = from.buffer->pending_writes();
  const std::uint64_t value = queue.enqueue(std::move(work));
  if (to.buffer != nullptr) to.buffer->record_use_at(queue, value, true);
  if (from.buffer != nullptr) from.buffer->record_use_at(queue, value, false);
  for (driver::QueueBackend* other : others) {
    Work wait;
    wait.waits.push_back({Ref<Timeline>::share(&queue.timeline()), value});
    if (checked) [[unlikely]]
      driver::order_checker::wait(*other, wait.waits.back());
    other->enqueue(std::move(wait));
  }
}

namespace {

/// What a CUDA stream is given to fill elements.
struct CudaFill {
  cuda::DevicePointer memory;
  std::uint64_t value;
  std::size_t width, count;
};

void submit_fill(void* argument, std::uintptr_t handle) {
  const auto& fill = *static_cast<const CudaFill*>(argument);
  const auto stream = reinterpret_cast<cuda::Stream>(handle);
  const cuda::Library& driver = cuda::library();
  const auto low = static_cast<std::uint32_t>(fill.value);
  const auto high = static_cast<std::uint32_t>(fill.value >> 32);
  switch (fill.width) {
    case 1:
      cuda::check(driver.fill_async(fill.memory, static_cast<unsigned char>(fill.value), fill.count,
                                    stream),
                  "cuMemsetD8Async");
      return;
    case 2:
      cuda::check(driver.fill16_async(fill.memory, static_cast<unsigned short>(fill.value),
                                      fill.count, stream),
                  "cuMemsetD16Async");
      return;
    case 4:
      cuda::check(driver.fill32_async(fill.memory, low, fill.count, stream), "cuMemsetD32Async");
      return;
    default:
      break;
  }
  if (low == high) {
    cuda::check(driver.fill32_async(fill.memory, low, 2 * fill.count, stream), "cuMemsetD32Async");
    return;
  }
  // Each half is a column of width one: two operations, whatever the length.
  cuda::check(driver.fill32_rows_async(fill.memory, 8, low, 1, fill.count, stream),
              "cuMemsetD2D32Async");
  cuda::check(driver.fill32_rows_async(fill.memory + 4, 8, high, 1, fill.count, stream),
              "cuMemsetD2D32Async");
}

}  // namespace

void fill_elements(void* memory, std::uint64_t value, std::size_t width, std::size_t count) {
  switch (width) {
    case 1:
      std::memset(memory, static_cast<int>(value), count);
      return;
    case 2:
      std::fill_n(static_cast<std::uint16_t*>(memory), count, static_cast<std::uint16_t>(value));
      return;
    case 4:
      std::fill_n(static_cast<std::uint32_t*>(memory), count, static_cast<std::uint32_t>(value));
      return;
    default:
      std::fill_n(static_cast<std::uint64_t*>(memory), count, value);
  }
}

void enqueue_fill(const DeviceContext& context, const driver::Buffer& buffer, const void* value,
                  std::size_t width) {
  const auto count = static_cast<std::size_t>(buffer.num_elements());
  if (count == 0) return;
  check_call("DeviceContext.enqueue_memset");
  driver::QueueBackend& queue = *context.queue().backend();
  std::uint64_t bits = 0;
  std::memcpy(&bits, value, width);
  CudaFill fill{reinterpret_cast<std::uintptr_t>(buffer.data()), bits, width, count};
  Work work;
  driver::QueueBackend& other = buffer.queue();
  const bool checked = driver::order_checker::enabled();
  if (&other != &queue) {
    work.waits.push_back(other.end());
    if (checked) [[unlikely]]
      driver::order_checker::wait(queue, work.waits.back());
  }
  if (checked) [[unlikely]]
    driver::order_checker::use(buffer, queue, queue.submitted() + 1, true,
                               "DeviceContext.enqueue_memset");
  if (!context.device().is_host()) {
    if (buffer.is_host())
      throw ValueError("enqueue_memset: the buffer lives on the host, the context is for " +
                       device_name(context.device()) + ".");
    work.kind = Work::Kind::native;
    work.name = "fill";
    work.submit = &submit_fill;
    work.submit_argument = &fill;
  } else if (!buffer.is_host() && !buffer.pinned()) {
    throw ValueError("enqueue_memset: the buffer does not live on the host, but the context does.");
  } else if (width == 1) {
    work.kind = Work::Kind::fill;
    work.destination = buffer.data();
    work.value = static_cast<std::uint8_t>(bits);
    work.bytes = count;
  } else {
    work.kind = Work::Kind::function;
    work.name = "fill";
    work.function = [memory = buffer.data(), bits, width, count] {
      fill_elements(memory, bits, width, count);
    };
  }
  const std::uint64_t number = queue.enqueue(std::move(work));
  buffer.record_use_at(queue, number, true);
  if (&other != &queue) {
    Work wait;
    wait.waits.push_back({Ref<Timeline>::share(&queue.timeline()), number});
    other.enqueue(std::move(wait));
  }
}

}  // namespace detail
}  // namespace kiln::gpu
