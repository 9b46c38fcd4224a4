#pragma once

#include <cassert>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "kiln/driver/buffer.h"
#include "kiln/gpu/device_context.h"

namespace kiln::gpu {

template <typename T>
class DevicePointer;
template <typename T>
class HostMappedBuffer;

/// Options of `DeviceBuffer::wrap`.
struct WrapOptions {
  /// Whether kiln frees the memory: with the device's or the host's way to free.
  bool owning = false;
};

namespace detail {

/// What the handles of one typed buffer share.
struct BufferState {
  driver::Buffer memory;
  DeviceContext context;
};

std::string buffer_text(const char* name, const driver::Buffer& memory);
driver::Buffer wrap_memory(const DeviceContext& context, void* address, DType dtype,
                           std::int64_t size, bool host, bool owning);
/// Takes the memory out of kiln's hands; the allocation lives until it is wrapped as owning again.
void* take_memory(const driver::Buffer& memory);
driver::Buffer sub_buffer(const driver::Buffer& memory, DType dtype, std::size_t width,
                          std::int64_t offset, std::int64_t size);
void reassign(BufferState& state, const DeviceContext& context);

/// What DeviceBuffer and HostBuffer have in common; `B` is the class template.
template <template <typename> class B, typename T>
class TypedBuffer {
 public:
  using Element = T;

  /// In elements.
  std::int64_t size() const { return state_->memory.num_elements(); }
  /// A window that shares the memory and keeps it alive; both numbers count elements of `V`.
  /// Outside of this buffer: ValueError.
  template <typename V>
  B<V> create_sub_buffer(std::int64_t offset, std::int64_t size) const {
    return B<V>(state_->context,
                sub_buffer(state_->memory, DType::of<V>(), sizeof(V), offset, size));
  }
  /// Copies of DeviceContext::enqueue_copy on this buffer's context.
  template <typename To>
  void enqueue_copy_to(const To& dst) const {
    if constexpr (std::is_convertible_v<const To&, T*>)
      state_->context.enqueue_copy(static_cast<T*>(dst), self());
    else if constexpr (std::is_convertible_v<const To&, std::span<T>>)
      state_->context.enqueue_copy(std::span<T>(dst), self());
    else
      state_->context.enqueue_copy(dst, self());
  }
  template <typename From>
  void enqueue_copy_from(const From& src) const {
    state_->context.enqueue_copy(self(), src);
  }
  /// Every element becomes `value`.
  void enqueue_fill(T value) const { state_->context.enqueue_memset(self(), value); }
  DeviceContext context() const { return state_->context; }
  /// Says that work enqueued on `stream` so far uses the memory through its raw address.
  void record_use(const DeviceStream& stream) const {
    state_->memory.record_use(stream.queue(), {.write = true});
  }
  /// The buffer belongs to `context` from now on: its stream waits for the old one's present work
  /// and frees the memory. Another device: ValueError.
  void reassign_ownership_to(const DeviceContext& context) const { reassign(*state_, context); }
  T* unsafe_ptr() const { return static_cast<T*>(state_->memory.data()); }
  /// Gives the address and its ownership away; other handles no longer own the memory.
  T* take_ptr() && {
    T* address = static_cast<T*>(take_memory(state_->memory));
    state_.reset();
    return address;
  }
  /// The driver's buffer over the same memory.
  const driver::Buffer& kernel_memory() const { return state_->memory; }
  friend bool operator==(const TypedBuffer&, const TypedBuffer&) = default;

 protected:
  TypedBuffer(const DeviceContext& context, driver::Buffer memory)
      : state_(std::make_shared<BufferState>(BufferState{std::move(memory), context})) {}

  const B<T>& self() const { return static_cast<const B<T>&>(*this); }

  std::shared_ptr<BufferState> state_;
};

}  // namespace detail

/// Typed memory of a context's device. A shared handle; copies name the same memory, which is used
/// again only after all recorded uses and all work enqueued on its own stream.
template <typename T>
class DeviceBuffer : public detail::TypedBuffer<DeviceBuffer, T> {
 public:
  DeviceBuffer(const DeviceContext& context, driver::Buffer memory)
      : detail::TypedBuffer<DeviceBuffer, T>(context, std::move(memory)) {}
  /// Over foreign memory of `size` elements. Null with elements: ValueError.
  static DeviceBuffer wrap(const DeviceContext& context, T* ptr, std::int64_t size,
                           const WrapOptions& options = {}) {
    return DeviceBuffer(
        context, detail::wrap_memory(context, ptr, DType::of<T>(), size, false, options.owning));
  }
  /// To element 0. An empty buffer: ValueError.
  DevicePointer<T> device_ptr() const;
  /// The contents on the host, copied back when the result goes.
  HostMappedBuffer<T> map_to_host() const { return HostMappedBuffer<T>(*this); }
  /// "DeviceBuffer([1, 2, 3])".
  std::string to_string() const {
    return detail::buffer_text("DeviceBuffer", this->state_->memory);
  }
};

/// Typed page-locked host memory of a context. The host's accesses are not ordered with enqueued
/// work: synchronize first. A shared handle.
template <typename T>
class HostBuffer : public detail::TypedBuffer<HostBuffer, T> {
 public:
  HostBuffer(const DeviceContext& context, driver::Buffer memory)
      : detail::TypedBuffer<HostBuffer, T>(context, std::move(memory)) {}
  static HostBuffer wrap(const DeviceContext& context, T* ptr, std::int64_t size,
                         const WrapOptions& options = {}) {
    return HostBuffer(
        context, detail::wrap_memory(context, ptr, DType::of<T>(), size, true, options.owning));
  }
  T& operator[](std::int64_t i) const {
    assert(i >= 0 && i < this->size());
    return this->unsafe_ptr()[i];
  }
  /// Outside: IndexError.
  T& at(std::int64_t i) const;
  std::span<T> as_span() const {
    return {this->unsafe_ptr(), static_cast<std::size_t>(this->size())};
  }
  T* begin() const { return this->unsafe_ptr(); }
  T* end() const { return this->unsafe_ptr() + this->size(); }
  /// "HostBuffer([1, 2, 3])".
  std::string to_string() const { return detail::buffer_text("HostBuffer", this->state_->memory); }
};

namespace detail {
/// For destructors.
void log_failed_unmap() noexcept;
[[noreturn]] void throw_index(std::int64_t i, std::int64_t size);
[[noreturn]] void throw_empty_buffer(bool with_offset);
[[noreturn]] void throw_offset(std::int64_t offset, std::int64_t size);
[[noreturn]] void throw_step(const char* what, std::int64_t step, std::int64_t result,
                             std::int64_t size);
[[noreturn]] void throw_other_buffer(const char* what);
std::string pointer_text(DType dtype, std::int64_t size, std::int64_t offset);
/// `a + b` without overflow: what does not fit is moved to the end of the range.
std::int64_t saturated_sum(std::int64_t a, std::int64_t b);
}  // namespace detail

template <typename T>
T& HostBuffer<T>::at(std::int64_t i) const {
  if (i < 0 || i >= this->size()) detail::throw_index(i, this->size());
  return this->unsafe_ptr()[i];
}

/// Points into a device buffer and keeps it alive; kernels get it as `T*`. Cannot be dereferenced.
template <typename T>
class DevicePointer {
 public:
  using Element = T;

  /// To element 0. An empty buffer: ValueError.
  explicit DevicePointer(const DeviceBuffer<T>& buffer) : buffer_(buffer) {
    if (buffer.size() == 0) detail::throw_empty_buffer(false);
  }
  /// An empty buffer: ValueError; outside of it: IndexError.
  DevicePointer(const DeviceBuffer<T>& buffer, std::int64_t offset)
      : buffer_(buffer), offset_(offset) {
    if (buffer.size() == 0) detail::throw_empty_buffer(true);
    if (offset < 0 || offset >= buffer.size()) detail::throw_offset(offset, buffer.size());
  }

  const DeviceBuffer<T>& buffer() const { return buffer_; }
  /// In elements.
  std::int64_t offset() const { return offset_; }
  T* unsafe_ptr() const { return buffer_.unsafe_ptr() + offset_; }
  const driver::Buffer& kernel_memory() const { return buffer_.kernel_memory(); }

  // The result must lie in the buffer: IndexError.
  DevicePointer& operator+=(std::int64_t n) {
    offset_ = moved("addition", n, detail::saturated_sum(offset_, n));
    return *this;
  }
  DevicePointer& operator-=(std::int64_t n) {
    offset_ =
        moved("subtraction", n, n == INT64_MIN ? INT64_MAX : detail::saturated_sum(offset_, -n));
    return *this;
  }
  friend DevicePointer operator+(DevicePointer p, std::int64_t n) { return p += n; }
  friend DevicePointer operator-(DevicePointer p, std::int64_t n) { return p -= n; }

  friend bool operator==(const DevicePointer& a, const DevicePointer& b) {
    return a.buffer_ == b.buffer_ && a.offset_ == b.offset_;
  }
  // By offset; of another buffer: ValueError.
  friend bool operator<(const DevicePointer& a, const DevicePointer& b) {
    return a.comparable("less than", b), a.offset_ < b.offset_;
  }
  friend bool operator<=(const DevicePointer& a, const DevicePointer& b) {
    return a.comparable("less than or equal", b), a.offset_ <= b.offset_;
  }
  friend bool operator>(const DevicePointer& a, const DevicePointer& b) {
    return a.comparable("greater than", b), a.offset_ > b.offset_;
  }
  friend bool operator>=(const DevicePointer& a, const DevicePointer& b) {
    return a.comparable("greater than or equal", b), a.offset_ >= b.offset_;
  }
  /// "DevicePointer[float32](buffer=DeviceBuffer(size=8), offset=3)".
  std::string to_string() const {
    return detail::pointer_text(DType::of<T>(), buffer_.size(), offset_);
  }

 private:
  std::int64_t moved(const char* what, std::int64_t n, std::int64_t result) const {
    if (result < 0 || result >= buffer_.size()) detail::throw_step(what, n, result, buffer_.size());
    return result;
  }
  void comparable(const char* what, const DevicePointer& other) const {
    if (!(buffer_ == other.buffer_)) detail::throw_other_buffer(what);
  }

  DeviceBuffer<T> buffer_;
  std::int64_t offset_ = 0;
};

template <typename T>
DevicePointer<T> DeviceBuffer<T>::device_ptr() const {
  return DevicePointer<T>(*this);
}

/// The contents of a device buffer on the host, as a HostBuffer. Making it copies and waits; when
/// it goes, the copy back is enqueued on the buffer's context, whose next `synchronize` throws what
/// it failed with. CPU contexts copy nothing.
template <typename T>
class HostMappedBuffer : public HostBuffer<T> {
 public:
  explicit HostMappedBuffer(const DeviceBuffer<T>& device)
      : HostBuffer<T>(make(device)), device_(device) {
    if (!aliases()) {
      device.enqueue_copy_to(host());
      device.context().synchronize();
    }
  }
  HostMappedBuffer(const HostMappedBuffer&) = delete;
  HostMappedBuffer& operator=(const HostMappedBuffer&) = delete;
  ~HostMappedBuffer() {
    if (!mapped_) return;
    try {
      copy_back();
    } catch (...) {
      detail::log_failed_unmap();
    }
  }
  /// Copies back now, waits, and throws what went wrong. Later calls do nothing.
  void unmap() {
    if (!mapped_) return;
    mapped_ = false;
    copy_back();
    device_.context().synchronize();
  }

 private:
  static HostBuffer<T> make(const DeviceBuffer<T>& device) {
    const DeviceContext context = device.context();
    if (context.device().is_host()) {
      context.synchronize();
      return HostBuffer<T>(context, device.kernel_memory());
    }
    return context.enqueue_create_host_buffer<T>(device.size());
  }
  const HostBuffer<T>& host() const { return *this; }
  bool aliases() const { return device_.context().device().is_host(); }
  void copy_back() {
    if (!aliases()) device_.enqueue_copy_from(host());
  }

  DeviceBuffer<T> device_;
  bool mapped_ = true;
};

}  // namespace kiln::gpu
