#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "kiln/driver/device.h"
#include "kiln/driver/event.h"
#include "kiln/driver/queue.h"
#include "kiln/driver/usage.h"
#include "kiln/dtype/dtype.h"
#include "kiln/dtype/scalar.h"
#include "kiln/dtype/shape.h"
#include "kiln/support/error.h"

namespace kiln {
struct Point;
}
struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace kiln::driver {

/// A range of an axis, as in Python: clamped, negative values count from the end.
struct Slice {
  std::optional<std::int64_t> start;
  std::optional<std::int64_t> stop;
  std::optional<std::int64_t> step;
};

/// One index: an integer drops its axis, a slice keeps it.
class Index : public std::variant<std::int64_t, Slice> {
 public:
  template <typename T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
  Index(T value) : variant(static_cast<std::int64_t>(value)) {}  // NOLINT
  Index(Slice slice) : variant(slice) {}                         // NOLINT
};

/// Options of `Buffer::to`.
struct ToOptions {
  /// Recorded on the buffer's present queue; needed when the result is a view on another queue.
  std::optional<DeviceEvent> after = std::nullopt;
};
/// Options of `Buffer::record_use`.
struct UseOptions {
  bool write = true;
};
/// Options of `Buffer::mmap`.
struct MmapOptions {
  std::string mode = "copyonwrite";
  std::int64_t offset = 0;
};
/// Options of `Buffer::from_dlpack`.
struct FromDLPackOptions {
  std::optional<bool> copy = std::nullopt;
};
/// Options of `Buffer::to_dlpack`.
struct DLPackOptions {
  /// nullopt: wait for the last write; -1: do not wait; else a stream of the vendor.
  std::optional<std::int64_t> stream = std::nullopt;
  /// A DLPack (device type, device id) to move to.
  std::optional<std::pair<int, int>> dl_device = std::nullopt;
  std::optional<bool> copy = std::nullopt;
  /// Highest version that the consumer knows; `to_dlpack` takes nullopt for 1.1.
  std::optional<std::pair<int, int>> max_version = std::nullopt;
};

class Storage;
struct ByteRange;
class HostHazardCompletion;

namespace detail {
/// What a Buffer handle points to; made in one block together with its storage.
struct BufferState : RefCounted {
  DType dtype = DType::uint8;
  Usage usage = Usage::DEFAULT;
  bool contiguous = true;
  bool pinned = false;
  /// Part of the block of its storage.
  bool in_root = false;
  /// For float4: the first element is the high half of the byte at `data`.
  bool odd_start = false;
  std::int64_t num_elements = 0;
  void* data = nullptr;
  DeviceBackend* device = nullptr;
  QueueBackend* queue = nullptr;  // one reference unless it is the storage's own queue
  Storage* storage = nullptr;     // one reference
  Shape shape;
  Shape strides;
};
void destroy(BufferState* state) noexcept;
inline void ref_retain(BufferState* state) noexcept { state->retain(); }
inline void ref_release(BufferState* state) noexcept {
  if (state->drop()) destroy(state);
}
}  // namespace detail

/// A strided, typed window onto memory of one device, bound to one queue. A small value; copies
/// name the same object. Slices and views share memory and keep it alive. Safe from any thread,
/// except that concurrent access to the elements is the caller's to order.
class Buffer {
 public:
  /// An empty handle; it may be assigned, compared, hashed and used as `bool`. Everything else of
  /// an empty handle, here and in other classes: ValueError.
  Buffer() = default;
  /// Uninitialised memory on the device's default queue, aligned to 64 bytes (256 on accelerators).
  /// Negative or too many dimensions, out of memory: ValueError.
  Buffer(DType dtype, const Shape& shape, const Device& device = CPU(),
         Usage usage = Usage::DEFAULT);
  /// Bound to `stream` and its device.
  Buffer(DType dtype, const Shape& shape, const DeviceQueue& stream, Usage usage = Usage::DEFAULT);

  /// Every byte cleared.
  static Buffer zeros(const Shape& shape, DType dtype, const Device& device = CPU(),
                      Usage usage = Usage::DEFAULT);
  /// Rank 0, holding the converted value.
  static Buffer scalar(const Scalar& value, DType dtype, const Device& device = CPU());
  /// New memory that holds a copy of `values`, which have been read on return. The length must be
  /// the shape's product: ValueError.
  template <typename T>
  static Buffer copy_of(std::span<const T> values, const Shape& shape,
                        const Device& device = CPU()) {
    return copy_of(values.data(), values.size(), DType::of<T>(), shape, device);
  }
  template <typename T>
  static Buffer copy_of(const std::vector<T>& values, const Shape& shape,
                        const Device& device = CPU()) {
    return copy_of(values.data(), values.size(), DType::of<T>(), shape, device);
  }
  /// Row-major elements at `values`, `count` of them (packed for float4).
  static Buffer copy_of(const void* values, std::size_t count, DType dtype, const Shape& shape,
                        const Device& device);
  /// Adopts row-major foreign memory; `deleter()` or `deleter(data)` runs exactly once, on any
  /// thread, when the last buffer that shares it is gone and its recorded uses are over.
  template <typename Deleter>
  static Buffer wrap(void* data, DType dtype, const Shape& shape, const Device& device,
                     Deleter deleter) {
    if constexpr (std::is_invocable_v<Deleter, void*>)
      return adopt(data, dtype, shape, nullptr, device,
                   [data, deleter = std::move(deleter)]() mutable { deleter(data); });
    else
      return adopt(data, dtype, shape, nullptr, device, std::move(deleter));
  }
  /// As `wrap`, with strides in elements when `strides` is not null.
  static Buffer adopt(void* data, DType dtype, const Shape& shape, const Shape* strides,
                      const Device& device, std::function<void()> deleter);
  /// A CPU buffer over a binary file; modes as `numpy.memmap` (spec: driver, section 8).
  static Buffer mmap(const std::string& path, DType dtype, const Shape& shape,
                     const MmapOptions& options = {});
  /// Takes ownership of the tensor, also when it throws BufferError or ValueError.
  static Buffer from_dlpack(DLManagedTensorVersioned* tensor,
                            const FromDLPackOptions& options = {});
  static Buffer from_dlpack(DLManagedTensor* tensor, const FromDLPackOptions& options = {});

  DType dtype() const { return state_->dtype; }
  const Shape& shape() const { return state_->shape; }
  /// In elements.
  const Shape& strides() const { return state_->strides; }
  int rank() const { return state_->shape.rank(); }
  /// 1 for rank 0.
  std::int64_t num_elements() const { return state_->num_elements; }
  int element_size() const { return state_->dtype.size_in_bytes(); }
  Device device() const { return Device(state_->device); }
  /// The queue it is bound to.
  DeviceQueue stream() const;
  /// Whether the elements lie in row-major order without gaps, and no step is negative.
  bool is_contiguous() const { return state_->contiguous; }
  bool is_host() const { return device().is_host(); }
  /// Whether the memory is host memory of an accelerator.
  bool pinned() const { return state_->pinned; }
  Usage usage() const { return state_->usage; }
  /// Address of the first element; no waiting.
  void* data() const { return state_->data; }
  /// Bytes from the first to the end of the last element of a contiguous buffer; of any other
  /// buffer the bytes its elements take when packed.
  std::size_t byte_size() const;
  /// For float4: whether the first element is the high half of the byte at `data`.
  bool starts_in_half_byte() const { return state_->odd_start; }
  /// Whether the start is a multiple of `alignment` bytes, by default the element type's.
  bool aligned(std::size_t alignment = 0) const;

  /// One index per axis; shares memory, queue and usage. ValueError, IndexError as in the spec.
  Buffer operator[](std::initializer_list<Index> indices) const {
    return at(std::span<const Index>(indices.begin(), indices.size()));
  }
  Buffer operator[](const Index& index) const { return at(std::span<const Index>(&index, 1)); }
  Buffer at(std::span<const Index> indices) const;
  /// Stores one element, converted; blocks until it is in place.
  void set(std::initializer_list<Index> indices, const Scalar& value) const {
    set(std::span<const Index>(indices.begin(), indices.size()), value);
  }
  void set(std::span<const Index> indices, const Scalar& value) const;
  /// The one element; waits for pending work. ValueError unless there is exactly one.
  Scalar item() const;
  template <typename T>
  T item() const {
    return item().to<T>();
  }

  /// Same memory as another type; without `shape` the last axis is resized. ValueError if
  /// impossible.
  Buffer view(DType dtype, const std::optional<Shape>& shape = std::nullopt) const;
  /// `copy()`.
  Buffer contiguous() const { return copy(); }
  /// New row-major memory on the same device, queue and usage.
  Buffer copy() const;
  /// New row-major memory on the default queue of `device`.
  Buffer copy(const Device& device) const;
  /// A buffer with the same elements that the host may read at once: this one, or a row-major copy
  /// of an accelerator's memory. Waits for the last write, and for the present work of its queue on
  /// an accelerator; a write that failed: its error.
  Buffer on_host() const;
  /// This buffer when it is on `device` and its default queue; a view when only the queue differs
  /// (ValueError without `after`); else a copy.
  Buffer to(const Device& device, const ToOptions& options = {}) const;
  std::vector<Buffer> to(std::span<const Device> devices, const ToOptions& options = {}) const;
  /// Enqueued on this buffer's queue. Checks and texts: spec, driver, section 6.
  void inplace_copy_from(const Buffer& source) const;
  /// Writes `value` (0..255) into every byte; enqueued on the buffer's queue.
  void memset(int value) const;

  /// Blocks until the host may read: after the last write. Throws what failed to write it.
  void wait_for_host_read() const;
  /// Blocks until the host may write: after the last write and all reads.
  void wait_for_host_write() const;
  /// Says that work enqueued on `queue` so far uses this memory through its raw address.
  void record_use(const DeviceQueue& queue, const UseOptions& options = {}) const;

  /// The values as NumPy prints them: "Buffer([1. 2.], dtype=DType.float32, …)".
  std::string to_string() const;
  /// "kiln.driver.Buffer(DType.float32, (2, 3), cpu[0]:queue@0x…)"; touches no data.
  std::string repr() const;

  /// (device type, device id) of DLPack.
  std::pair<int, int> dlpack_device() const;
  /// A tensor of which the caller owns the one reference; BufferError, ValueError as in the spec.
  /// Its version is the lower of `options.max_version` and 1.1; consumers of a version below 1.0
  /// take the unversioned one.
  DLManagedTensorVersioned* to_dlpack(const DLPackOptions& options = {}) const;
  DLManagedTensor* to_dlpack_unversioned(const DLPackOptions& options = {}) const;

  explicit operator bool() const { return static_cast<bool>(state_); }
  /// Identity of the object.
  friend bool operator==(const Buffer&, const Buffer&) = default;
  /// Identity as a number, for hashing.
  const void* identity() const { return state_.get(); }
  /// The queue it is bound to, for layers that enqueue work themselves.
  QueueBackend& queue() const { return *state_->queue; }
  /// The memory behind it, shared by slices and views.
  Storage* storage() const { return state_->storage; }
  /// Whether host access waits for stamped tokens: staging memory of an accelerator, unless it is
  /// UNTRACKED.
  bool host_hazard_tracked() const {
    return pinned() && has(usage(), Usage::STAGING) && !has(usage(), Usage::UNTRACKED);
  }
  /// For layers that enqueue work themselves: the token's work writes or reads the buffer. No
  /// effect on buffers that are not tracked.
  void stamp_write(const HostHazardCompletion& token) const;
  void stamp_read(const HostHazardCompletion& token) const;
  /// The addresses that its elements lie between.
  ByteRange byte_range() const;
  /// Says that the caller has written the buffer, and that this is over.
  void record_finished_write() const;
  /// For layers that enqueue work themselves: work `value` of `queue` uses the buffer.
  void record_use_at(QueueBackend& queue, std::uint64_t value, bool write) const;
  /// For layers that enqueue work themselves: the writers of its bytes that are not over or failed.
  std::vector<Point> pending_writes() const;
  /// For layers that bind buffers themselves: the same memory and elements, bound to `queue` of the
  /// same device.
  Buffer bound_to(const DeviceQueue& queue) const;
  /// `bytes` of it from byte `offset` on, as elements of `dtype`; the caller has checked them.
  Buffer window(DType dtype, std::int64_t offset, std::int64_t count) const;
  /// As `adopt`, bound to `queue`; `pinned` memory is page-locked memory of its device.
  static Buffer adopt_on(void* data, DType dtype, std::int64_t count, const DeviceQueue& queue,
                         bool pinned, std::function<void()> deleter);

  explicit Buffer(Ref<detail::BufferState> state) : state_(std::move(state)) {}

 private:
  friend void batch_inplace_copy(std::span<const Buffer>, std::span<const Buffer>);

  /// Throws ValueError unless `source` may be copied here in place.
  void check_copy(const Buffer& source) const;
  /// Enqueues the copy of all elements, in row-major order; sizes have been checked.
  void copy_elements_from(const Buffer& source) const;
  /// The same by way of the host, for windows with gaps on accelerators.
  void rearrange_on_host(const Buffer& source) const;
  /// All bytes from the first element to the last one.
  Buffer bytes_around() const;
  /// This window onto a copy of `bytes_around`.
  Buffer window_onto(const Buffer& bytes) const;

  Ref<detail::BufferState> state_;
};

std::ostream& operator<<(std::ostream& out, const Buffer& buffer);

/// Reads one tensor that the binary-checkpoint debug print wrote. Other files: ValueError.
Buffer load_max_buffer(const std::string& path);
/// Copies pair by pair in as few submissions as possible; all pairs are checked first.
void batch_inplace_copy(std::span<const Buffer> destinations, std::span<const Buffer> sources);
/// Copies `source` into each destination; a pinned block is protected from being reused early.
void copy_pinned_to_destinations(const Buffer& source, std::span<const Buffer> destinations);

}  // namespace kiln::driver

template <>
struct std::hash<kiln::driver::Buffer> {
  std::size_t operator()(const kiln::driver::Buffer& buffer) const noexcept {
    return std::hash<const void*>()(buffer.identity());
  }
};
