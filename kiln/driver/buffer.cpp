#include "kiln/driver/buffer.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <tuple>

#include "kiln/driver/backend.h"
#include "kiln/driver/inline_work.h"
#include "kiln/driver/order_checker.h"
#include "kiln/driver/storage.h"
#include "kiln/dtype/element.h"
#include "kiln/dtype/strided_copy.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "kiln/support/process.h"

namespace kiln::driver {
namespace {

using detail::BufferState;

Buffer adopt_state(BufferState* state) { return Buffer(Ref<BufferState>::adopt(state)); }

}  // namespace

Buffer::Buffer(DType dtype, const Shape& shape, const Device& device, Usage usage) {
  check_call("Buffer");
  state_ = Ref<BufferState>::adopt(
      StorageAccess::make_root(dtype, shape, *device.backend()->default_queue(), usage));
}

Buffer::Buffer(DType dtype, const Shape& shape, const DeviceQueue& stream, Usage usage) {
  check_call("Buffer");
  state_ =
      Ref<BufferState>::adopt(StorageAccess::make_root(dtype, shape, *stream.backend(), usage));
}

Buffer Buffer::zeros(const Shape& shape, DType dtype, const Device& device, Usage usage) {
  check_call("Buffer.zeros");
  Buffer buffer(dtype, shape, device, usage);
  buffer.memset(0);
  return buffer;
}

Buffer Buffer::scalar(const Scalar& value, DType dtype, const Device& device) {
  check_call("Buffer.scalar");
  Buffer buffer(dtype, Shape{}, CPU());
  std::memset(buffer.data(), 0, buffer.byte_size());
  store_element(dtype, buffer.data(), 0, value);
  return device.is_host() ? buffer : buffer.copy(device);
}

Buffer Buffer::copy_of(const void* values, std::size_t count, DType dtype, const Shape& shape,
                       const Device& device) {
  if (static_cast<std::int64_t>(count) != kiln::num_elements(shape))
    throw ValueError(
        format("Buffer.copy_of: {} values were given for the shape {}, which has {} "
               "elements.",
               count, shape.to_string(), kiln::num_elements(shape)));
  check_call("Buffer.copy_of");
  Buffer buffer(dtype, shape, CPU());
  if (count > 0) std::memcpy(buffer.data(), values, buffer.byte_size());
  return device.is_host() ? buffer : buffer.copy(device);
}

Buffer Buffer::adopt(void* data, DType dtype, const Shape& shape, const Shape* strides,
                     const Device& device, std::function<void()> deleter) {
  check_call("Buffer.wrap");
  if (!data && kiln::num_elements(shape) > 0)
    throw ValueError(format("Buffer.wrap: the address of {} elements of {} is null.",
                            kiln::num_elements(shape), dtype.name()));
  return adopt_state(StorageAccess::make_foreign(
      data, dtype, shape, strides, *device.backend()->default_queue(), std::move(deleter)));
}

DeviceQueue Buffer::stream() const { return DeviceQueue(Ref<QueueBackend>::share(state_->queue)); }

std::size_t Buffer::byte_size() const {
  const std::size_t bits = static_cast<std::size_t>(state_->dtype.size_in_bits());
  if (bits >= 8) return static_cast<std::size_t>(state_->num_elements) * (bits / 8);
  return static_cast<std::size_t>(state_->num_elements + (state_->odd_start ? 1 : 0) + 1) / 2;
}

bool Buffer::aligned(std::size_t alignment) const {
  if (alignment == 0) alignment = static_cast<std::size_t>(dtype().align());
  return reinterpret_cast<std::uintptr_t>(data()) % alignment == 0;
}

void Buffer::wait_for_host_read() const { state_->storage->wait_for_host(*state_, false); }
void Buffer::wait_for_host_write() const { state_->storage->wait_for_host(*state_, true); }
ByteRange Buffer::byte_range() const { return ByteRange::of(*state_); }
void Buffer::record_finished_write() const { storage()->record_finished_write(*state_); }

void Buffer::stamp_write(const HostHazardCompletion& token) const {
  if (host_hazard_tracked()) storage()->stamp(token, true);
}
void Buffer::stamp_read(const HostHazardCompletion& token) const {
  if (host_hazard_tracked()) storage()->stamp(token, false);
}

void Buffer::record_use(const DeviceQueue& queue, const UseOptions& options) const {
  check_call("Buffer.record_use");
  if (order_checker::enabled()) [[unlikely]]
    order_checker::use(*this, *queue.backend(), queue.backend()->submitted(), options.write,
                       "Buffer.record_use");
  state_->storage->record(*state_, *queue.backend(), queue.backend()->submitted(), options.write);
}

namespace {

/// Moves a window to another queue of its device.
void bind(BufferState& window, QueueBackend& queue) {
  if (window.queue != &window.storage->queue()) ref_release(window.queue);
  window.queue = &queue;
  if (&queue != &window.storage->queue()) queue.retain();
}

}  // namespace

void Buffer::record_use_at(QueueBackend& queue, std::uint64_t value, bool write) const {
  state_->storage->record(*state_, queue, value, write);
}

std::vector<Point> Buffer::pending_writes() const { return state_->storage->writes(*state_); }

Buffer Buffer::bound_to(const DeviceQueue& queue) const {
  BufferState* window = StorageAccess::make_window(*state_);
  window->shape = shape();
  window->strides = strides();
  bind(*window, *queue.backend());
  return adopt_state(window);
}

Buffer Buffer::window(DType dtype, std::int64_t offset, std::int64_t count) const {
  BufferState* window = StorageAccess::make_window(*state_);
  window->dtype = dtype;
  window->data = static_cast<char*>(window->data) + offset;
  window->num_elements = count;
  window->shape = {count};
  window->strides = {1};
  window->contiguous = true;
  return adopt_state(window);
}

Buffer Buffer::adopt_on(void* data, DType dtype, std::int64_t count, const DeviceQueue& queue,
                        bool pinned, std::function<void()> deleter) {
  BufferState* state = StorageAccess::make_foreign(data, dtype, {count}, nullptr, *queue.backend(),
                                                   std::move(deleter));
  if (pinned) {
    state->pinned = true;
    state->usage = Usage::STAGING | Usage::UNTRACKED;
  }
  return adopt_state(state);
}

Scalar Buffer::item() const {
  if (num_elements() != 1)
    throw ValueError(
        format("calling `item` on a tensor with {} items but expected only 1", num_elements()));
  if (!is_host() && !pinned()) return on_host().item();
  wait_for_host_read();
  return load_element(dtype(), data(), state_->odd_start ? 1 : 0);
}

Buffer Buffer::copy() const {
  check_call("Buffer.copy");
  Buffer result =
      adopt_state(StorageAccess::make_root(dtype(), shape(), *state_->queue, state_->usage));
  result.copy_elements_from(*this);
  return result;
}

Buffer Buffer::copy(const Device& device) const {
  check_call("Buffer.copy");
  Buffer result(dtype(), shape(), device);
  result.copy_elements_from(*this);
  return result;
}

Buffer Buffer::to(const Device& target, const ToOptions& options) const {
  check_process();
  if (target != device()) return copy(target);
  if (pinned()) return copy(target);
  QueueBackend* queue = target.backend()->default_queue();
  if (state_->queue == queue) return *this;
  check_call("Buffer.to");
  if (!options.after)
    throw ValueError(
        format("Buffer.to: the buffer is bound to {}, and the result would be a view "
               "on the default queue {}. Give `after`, an event recorded on the "
               "buffer's queue, to order the view's work behind it.",
               stream().to_string(), queue->to_string()));
  if (options.after->device() != target)
    throw ValueError(format("Buffer.to: `after` belongs to {}, but the buffer to {}.",
                            options.after->device().to_string(), target.to_string()));
  target.default_queue().wait_for(*options.after);
  BufferState* window = StorageAccess::make_window(*state_);
  window->shape = shape();
  window->strides = strides();
  bind(*window, *queue);
  return adopt_state(window);
}

std::vector<Buffer> Buffer::to(std::span<const Device> devices, const ToOptions& options) const {
  std::vector<Buffer> results;
  results.reserve(devices.size());
  for (const Device& target : devices) results.push_back(to(target, options));
  return results;
}

void Buffer::check_copy(const Buffer& source) const {
  if (!is_contiguous()) throw ValueError("Cannot copy to non-contiguous buffer");
  if (!source.is_contiguous()) throw ValueError("Cannot copy from non-contiguous buffer");
  if (num_elements() * dtype().size_in_bits() !=
      source.num_elements() * source.dtype().size_in_bits())
    throw ValueError("Cannot copy buffers of different sizes");
  if (dtype() != source.dtype()) throw ValueError("Cannot copy buffers of different dtypes");
}

void Buffer::inplace_copy_from(const Buffer& source) const {
  check_call("Buffer.inplace_copy_from");
  if (*this == source) return;
  check_copy(source);
  copy_elements_from(source);
}

Buffer Buffer::bytes_around() const {
  const ByteRange range = ByteRange::of(*state_);
  BufferState* window = StorageAccess::make_window(*state_);
  Buffer result(Ref<BufferState>::adopt(window));
  window->dtype = DType::uint8;
  window->odd_start = false;
  window->data = reinterpret_cast<void*>(range.begin);
  window->num_elements = static_cast<std::int64_t>(range.end - range.begin);
  window->shape = {window->num_elements};
  window->strides = {1};
  window->contiguous = true;
  return result;
}

Buffer Buffer::window_onto(const Buffer& bytes) const {
  BufferState* window = StorageAccess::make_window(*bytes.state_);
  Buffer result(Ref<BufferState>::adopt(window));
  window->dtype = dtype();
  window->odd_start = state_->odd_start;
  window->data = static_cast<char*>(bytes.data()) +
                 (reinterpret_cast<std::uintptr_t>(data()) - ByteRange::of(*state_).begin);
  window->num_elements = num_elements();
  window->shape = state_->shape;
  window->strides = state_->strides;
  window->contiguous = is_contiguous();
  return result;
}

void Buffer::rearrange_on_host(const Buffer& source) const {
  const Buffer from =
      source.is_host() ? source : source.window_onto(source.bytes_around().copy(CPU()));
  if (is_host()) return copy_elements_from(from);
  const Buffer bytes = bytes_around().copy(CPU());
  window_onto(bytes).copy_elements_from(from);
  bytes_around().copy_elements_from(bytes);
}

Buffer Buffer::on_host() const {
  check_call("a host read of a buffer");
  wait_for_host_read();
  if (is_host() || pinned()) return *this;
  // Kernels may have written it of which nothing is recorded.
  QueueBackend& queue = *state_->queue;
  queue.timeline().wait(queue.submitted());
  const bool dense = is_contiguous() && dtype().size_in_bits() >= 8;
  const Buffer result = dense ? Buffer(dtype(), shape(), CPU()) : Buffer();
  const Buffer bytes = dense ? result : Buffer(DType::uint8, bytes_around().shape(), CPU());
  if (bytes.num_elements() > 0)
    state_->device->copy_to_host(bytes.data(), bytes_around().data(), bytes.byte_size());
  if (dense) return result;
  const Buffer packed = window_onto(bytes).copy();
  packed.wait_for_host_read();
  return packed;
}

void Buffer::copy_elements_from(const Buffer& source) const {
  if (num_elements() == 0) return;
  // Captured by value: the work may run when both handles are gone; the memory stays because its
  // uses are recorded.
  const bool half_bytes = dtype().size_in_bits() < 8;
  const bool whole =
      !half_bytes || (num_elements() % 2 == 0 && !state_->odd_start && !source.state_->odd_start);
  QueueBackend& queue = *state_->queue;
  QueueBackend& source_queue = *source.state_->queue;
  const bool checked = order_checker::enabled();
  const bool on_host = is_host() && source.is_host();
  if (!on_host && !(source.is_contiguous() && whole)) return rearrange_on_host(source);
  InlineClaim claim;
  if (on_host && !checked && source.storage()->settled()) claim.take(queue, source_queue);
  Work work;
  if (source.is_contiguous() && whole) {
    if (claim) {
      const InlineWorkSpan span(queue, "copy", byte_size());
      std::memmove(data(), source.data(), byte_size());
      record_finished_write();
      return;
    }
    work.kind = Work::Kind::copy;
    work.destination = data();
    work.source = source.data();
    work.bytes = byte_size();
    work.source_device = source.state_->device;
  } else {
    // Strided, or sub-byte elements that share a byte with others. Windows may overlap, so such a
    // source is gathered first unless the destination is fresh memory.
    const bool overlap = storage() == source.storage();
    auto gather = [dtype = dtype(), shape = shape(), from_shape = source.shape(),
                   strides = strides(), from_strides = source.strides(), to = data(),
                   from = source.data(), odd = state_->odd_start,
                   from_odd = source.state_->odd_start, overlap] {
      if (!overlap) {
        const Shape dense = row_major_strides(from_shape);
        copy_elements(dtype, from_shape, {to, odd, dense}, {from, from_odd, from_strides});
        return;
      }
      const Shape dense = row_major_strides(from_shape);
      std::vector<char> packed(bytes_for(dtype, kiln::num_elements(from_shape)));
      copy_elements(dtype, from_shape, {packed.data(), 0, dense}, {from, from_odd, from_strides});
      copy_elements(dtype, from_shape, {to, odd, dense}, {packed.data(), 0, dense});
    };
    if (claim) {
      const InlineWorkSpan span(queue, "strided copy", byte_size());
      gather();
      record_finished_write();
      return;
    }
    work.kind = Work::Kind::function;
    work.name = "strided copy";
    work.bytes = byte_size();
    work.function = std::move(gather);
  }
  if (&queue != &source_queue) work.waits.push_back(source_queue.end());
  if (checked) [[unlikely]]
    order_checker::copy(*this, source, queue, source_queue.end());
  work.reads = source.storage()->writes(*source.state_);
  const std::uint64_t value = queue.enqueue(std::move(work));
  state_->storage->record(*state_, queue, value, true);
  source.state_->storage->record(*source.state_, queue, value, false);
  if (&queue != &source_queue) {
    Work wait;
    wait.waits.push_back({Ref<Timeline>::share(&queue.timeline()), value});
    if (checked) [[unlikely]]
      order_checker::wait(source_queue, wait.waits.back());
    source_queue.enqueue(std::move(wait));
  }
}

void Buffer::memset(int value) const {
  check_call("Buffer.memset");
  if (!is_contiguous())
    throw ValueError("Buffer.memset: the buffer is not contiguous; fill a contiguous one.");
  if (value < 0 || value > 255)
    throw ValueError(
        format("Buffer.memset: the value {} is no byte; give one of 0 to 255.", value));
  if (num_elements() == 0) return;
  const std::size_t bytes = byte_size();
  if (dtype().size_in_bits() < 8) {
    // The unspecified half behind an odd tail may be written when it belongs to nobody.
    const auto* end = static_cast<const char*>(data()) + bytes;
    const auto* storage_end = static_cast<const char*>(storage()->base()) + storage()->bytes();
    const bool odd_end = ((num_elements() + (state_->odd_start ? 1 : 0)) & 1) != 0;
    if (state_->odd_start || (odd_end && !(end == storage_end && storage()->ends_in_half_byte())))
      throw ValueError(
          "Buffer.memset: the first or last element shares its byte with an element "
          "outside the window; fill a window of whole bytes.");
  }
  QueueBackend& queue = *state_->queue;
  const bool checked = order_checker::enabled();
  InlineClaim claim;
  if (is_host() && !checked) claim.take(queue);
  if (claim) {
    const InlineWorkSpan span(queue, "fill", bytes);
    std::memset(data(), value, bytes);
    record_finished_write();
    return;
  }
  Work work;
  if (checked) [[unlikely]]
    order_checker::use(*this, queue, queue.submitted() + 1, true, "Buffer.memset");
  work.kind = Work::Kind::fill;
  work.destination = data();
  work.value = static_cast<std::uint8_t>(value);
  work.bytes = bytes;
  state_->storage->record(*state_, queue, queue.enqueue(std::move(work)), true);
}

void copy_pinned_to_destinations(const Buffer& source, std::span<const Buffer> destinations) {
  check_call("copy_pinned_to_destinations");
  for (const Buffer& destination : destinations) destination.inplace_copy_from(source);
  if (!source.pinned()) return;
  const DeviceQueue queue = source.device().default_queue();
  for (const Buffer& destination : destinations)
    if (destination.device() != source.device()) queue.wait_for(destination.device());
}

void batch_inplace_copy(std::span<const Buffer> destinations, std::span<const Buffer> sources) {
  check_call("batch_inplace_copy");
  if (destinations.size() != sources.size())
    throw ValueError(
        format("batch_inplace_copy: dsts and srcs must have the same length (got {} "
               "dsts, {} srcs)",
               destinations.size(), sources.size()));
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (destinations[i] != sources[i]) destinations[i].check_copy(sources[i]);
  std::set<std::tuple<void*, bool, void*, bool, std::size_t>> seen;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::tuple pair(destinations[i].data(), destinations[i].starts_in_half_byte(),
                          sources[i].data(), sources[i].starts_in_half_byte(),
                          sources[i].byte_size());
    if (destinations[i] == sources[i] || sources[i].num_elements() == 0) continue;
    if (!seen.insert(pair).second) continue;
    destinations[i].inplace_copy_from(sources[i]);
  }
}

}  // namespace kiln::driver
