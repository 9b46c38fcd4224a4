#include "kiln/driver/dlpack.h"

#include <memory>

#include "kiln/driver/backend.h"
#include "kiln/driver/buffer.h"
#include "kiln/driver/storage.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "kiln/support/process.h"

namespace kiln::driver {
namespace {

struct TypeRow {
  DType dtype;
  std::uint8_t code;
  std::uint8_t bits;
};

constexpr TypeRow kTypes[] = {
    {DType::bool_, 6, 8},          {DType::int8, 0, 8},
    {DType::int16, 0, 16},         {DType::int32, 0, 32},
    {DType::int64, 0, 64},         {DType::uint8, 1, 8},
    {DType::uint16, 1, 16},        {DType::uint32, 1, 32},
    {DType::uint64, 1, 64},        {DType::float16, 2, 16},
    {DType::bfloat16, 4, 16},      {DType::float32, 2, 32},
    {DType::float64, 2, 64},       {DType::float8_e8m0fnu, 14, 8},
    {DType::float8_e4m3fn, 10, 8}, {DType::float8_e4m3fnuz, 11, 8},
    {DType::float8_e5m2, 12, 8},   {DType::float8_e5m2fnuz, 13, 8},
    {DType::float4_e2m1fn, 17, 4},
};

/// Gives the producer its memory back when the import fails or the last buffer goes.
template <typename Managed>
struct Producer {
  explicit Producer(Managed* tensor) : tensor(tensor) {}
  Producer(const Producer&) = delete;
  Producer& operator=(const Producer&) = delete;
  ~Producer() {
    if (tensor && tensor->deleter) tensor->deleter(tensor);
  }
  Managed* tensor;
};

/// The device of that type and id, unless kiln has none such here.
std::optional<Device> known_device(const DLDevice& device) {
  const char* api = nullptr;
  switch (device.device_type) {
    case kDLCPU:
      return device.device_id == 0 ? std::optional(CPU()) : std::nullopt;
    case kDLCUDA:
    case kDLCUDAHost:
    case kDLCUDAManaged:
      api = "cuda";
      break;
    case kDLROCM:
    case kDLROCMHost:
      api = "hip";
      break;
    default:
      break;
  }
  const int id =
      device.device_type == kDLCUDAHost || device.device_type == kDLROCMHost ? 0 : device.device_id;
  if (api && id >= 0 && id < accelerator_count()) {
    const Device accelerator = Accelerator(id);
    if (accelerator.api() == api) return accelerator;
  }
  return std::nullopt;
}

template <typename Managed>
Buffer import(Managed* raw, bool read_only, const FromDLPackOptions& options) {
  auto producer = std::make_shared<Producer<Managed>>(raw);
  check_call("Buffer.from_dlpack");
  const DLTensor& tensor = raw->dl_tensor;
  const DType dtype = dtype_of_dlpack(tensor.dtype);
  const std::optional<Device> found = known_device(tensor.device);
  if (!found)
    throw BufferError(
        format("Buffer.from_dlpack: the tensor is on device (type {}, id {}), which kiln "
               "does not have here.",
               tensor.device.device_type, tensor.device.device_id));
  const Device device = *found;
  if (tensor.ndim < 0)
    throw BufferError(format("Buffer.from_dlpack: the tensor has {} axes.", tensor.ndim));
  if (tensor.ndim > 0 && tensor.shape == nullptr)
    throw BufferError(
        format("Buffer.from_dlpack: the tensor has {} axes, but no shape.", tensor.ndim));
  const Shape shape(
      std::span<const std::int64_t>(tensor.shape, static_cast<std::size_t>(tensor.ndim)));
  const std::int64_t count = kiln::num_elements(shape);
  if (count > 0 && tensor.strides &&
      !is_row_major(shape, std::span<const std::int64_t>(tensor.strides, shape.size())))
    throw ValueError(
        "driver buffer's from_dlpack only accepts contiguous tensors. First call .contiguous() on "
        "the tensor");
  if (read_only && options.copy == false)
    throw BufferError(
        "Buffer.from_dlpack: the tensor is read-only, and every kiln buffer is writable. Consider "
        "passing `copy = True` to `Buffer.from_dlpack`.");
  if (count > 0 && tensor.data == nullptr)
    throw BufferError(
        format("Buffer.from_dlpack: the tensor has {} elements, but no memory.", count));
  void* data = count > 0 ? static_cast<char*>(tensor.data) + tensor.byte_offset : nullptr;
  Buffer buffer = Buffer::adopt(data, dtype, shape, nullptr, device, [producer] {});
  producer.reset();
  if (!read_only && options.copy != true) return buffer;
  Buffer copied = buffer.copy();
  // The producer's memory is handed back on return, so the copy must be over by then.
  copied.wait_for_host_read();
  return copied;
}

/// What a capsule of ours keeps alive: the buffer and the arrays the tensor points to.
template <typename Managed>
struct Export {
  Managed managed;
  Buffer buffer;
  Shape shape;
  Shape strides;
};

template <typename Managed>
Managed* export_buffer(const Buffer& buffer) {
  auto held = std::make_unique<Export<Managed>>();
  held->managed = {};
  held->buffer = buffer;
  held->shape = buffer.shape();
  held->strides = buffer.num_elements() == 0 ? row_major_strides(buffer.shape()) : buffer.strides();
  // Consumers that check strides literally see a contiguous tensor where axes of size 1 allow it.
  std::int64_t step = 1;
  for (std::size_t axis = held->shape.size(); axis-- > 0;) {
    if (held->shape[axis] == 1) held->strides[axis] = step;
    step = held->strides[axis] * std::max<std::int64_t>(held->shape[axis], 1);
  }
  DLTensor& tensor = held->managed.dl_tensor;
  tensor.data = buffer.num_elements() == 0 ? nullptr : buffer.data();
  const auto [type, id] = buffer.dlpack_device();
  tensor.device = {type, id};
  tensor.ndim = buffer.rank();
  tensor.dtype = dlpack_type(buffer.dtype());
  tensor.shape = held->shape.data();
  tensor.strides = held->strides.data();
  tensor.byte_offset = 0;
  held->managed.manager_ctx = held.get();
  held->managed.deleter = [](Managed* self) {
    delete static_cast<Export<Managed>*>(self->manager_ctx);
  };
  return &held.release()->managed;
}

/// What is exported after the moves and copies that the options ask for, and whether it is a copy.
struct Prepared {
  Buffer buffer;
  bool copied;
};

Prepared prepare(const Buffer& buffer, const DLPackOptions& options) {
  check_call("Buffer.__dlpack__");
  const bool versioned = options.max_version && options.max_version->first >= 1;
  const bool knows_small_floats =
      versioned && (options.max_version->first > kDLPackMajor || options.max_version->second >= 1);
  const DType dtype = buffer.dtype();
  if ((dtype.is_float8() || dtype == DType::float4_e2m1fn) && !knows_small_floats)
    throw BufferError(
        format("Buffer.__dlpack__: {} needs a consumer of DLPack 1.1; use "
               "view(DType.uint8) for an older one.",
               dtype.name()));
  const bool host_memory = buffer.is_host() || buffer.pinned();
  if (host_memory && options.stream && *options.stream != -1)
    throw ValueError(
        format("Buffer.__dlpack__: the stream is {}, but host memory knows None, to wait "
               "for the last write, and -1, not to wait, only.",
               *options.stream));
  const std::pair<int, int> own = buffer.dlpack_device();
  const std::pair<int, int> wanted = options.dl_device.value_or(own);
  if (wanted != own && wanted != std::pair<int, int>(kDLCPU, 0)) {
    // Another device than the buffer's and the host: named in full, or refused.
    const std::optional<Device> found =
        known_device({static_cast<DLDeviceType>(wanted.first), wanted.second});
    if (!found)
      throw BufferError(format(
          "Buffer.__dlpack__: dl_device is (type {}, id {}), a device that kiln does not have "
          "here; (1, 0) is the host.",
          wanted.first, wanted.second));
    const Device target = *found;
    if (options.copy == false)
      throw BufferError(
          "Buffer.__dlpack__: moving to another device needs a copy, but `copy` is "
          "False.");
    return {buffer.copy(target), true};
  }
  if (wanted != own && !host_memory) {
    if (options.copy == false)
      throw BufferError("Buffer.__dlpack__: moving to the host needs a copy, but `copy` is False.");
    return {buffer.on_host(), true};
  }
  if (options.copy == true) {
    if (host_memory && !options.stream) buffer.wait_for_host_read();
    Buffer copied = buffer.copy();
    if (host_memory) copied.wait_for_host_read();
    return {std::move(copied), true};
  }
  if (dtype.size_in_bits() < 8 && (buffer.starts_in_half_byte() || !buffer.is_contiguous()))
    throw BufferError(format(
        "Buffer.__dlpack__: {} elements are exported packed from a whole byte on, but the "
        "buffer {}; take a copy().",
        dtype.name(),
        buffer.starts_in_half_byte() ? "starts in the middle of a byte" : "is not contiguous"));
  const bool untracked = has(buffer.usage(), Usage::STAGING | Usage::UNTRACKED);
  if (host_memory && !options.stream && !(buffer.pinned() && untracked))
    buffer.wait_for_host_read();
  return {buffer, false};
}

}  // namespace

DLDataType dlpack_type(DType dtype) {
  for (const TypeRow& row : kTypes)
    if (row.dtype == dtype) return {row.code, row.bits, 1};
  KILN_CHECK(false, format("no DLPack type for {}", dtype.name()));
  return {};
}

DType dtype_of_dlpack(DLDataType type) {
  if (type.lanes == 1)
    for (const TypeRow& row : kTypes)
      if (row.code == type.code && row.bits == type.bits) return row.dtype;
  throw BufferError(
      format("Buffer.from_dlpack: kiln has no element type for DLPack code {} with {} "
             "bits and {} lanes.",
             type.code, type.bits, type.lanes));
}

namespace {

void refuse_null(const void* tensor) {
  if (tensor == nullptr)
    throw BufferError(
        "Buffer.from_dlpack: the tensor is a null pointer; give one that a producer made.");
}

}  // namespace

Buffer Buffer::from_dlpack(DLManagedTensorVersioned* tensor, const FromDLPackOptions& options) {
  refuse_null(tensor);
  if (tensor->version.major > static_cast<std::uint32_t>(kDLPackMajor)) {
    // Behind the version and the deleter nothing of a newer layout may be read.
    const DLPackVersion version = tensor->version;
    if (tensor->deleter) tensor->deleter(tensor);
    throw BufferError(
        format("Buffer.from_dlpack: the tensor is of DLPack {}.{}, but kiln knows "
               "versions up to {}.{}.",
               version.major, version.minor, kDLPackMajor, kDLPackMinor));
  }
  if ((tensor->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) != 0) {
    if (tensor->deleter) tensor->deleter(tensor);
    throw BufferError(
        "Buffer.from_dlpack: the tensor pads its elements to whole bytes, but kiln packs "
        "elements of less than a byte.");
  }
  return import(tensor, (tensor->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0, options);
}

Buffer Buffer::from_dlpack(DLManagedTensor* tensor, const FromDLPackOptions& options) {
  refuse_null(tensor);
  return import(tensor, false, options);
}

std::pair<int, int> Buffer::dlpack_device() const {
  const Device owner = device();
  if (owner.is_host()) return {kDLCPU, 0};
  const bool rocm = owner.api() == "hip";
  if (pinned()) return {rocm ? kDLROCMHost : kDLCUDAHost, 0};
  return {rocm ? kDLROCM : kDLCUDA, owner.id()};
}

DLManagedTensorVersioned* Buffer::to_dlpack(const DLPackOptions& options) const {
  DLPackOptions asked = options;
  if (!asked.max_version) asked.max_version = {kDLPackMajor, kDLPackMinor};
  if (asked.max_version->first < 1)
    throw BufferError(
        "Buffer.to_dlpack: a consumer of a version below 1.0 takes the unversioned "
        "tensor of to_dlpack_unversioned.");
  const Prepared prepared = prepare(*this, asked);
  auto* managed = export_buffer<DLManagedTensorVersioned>(prepared.buffer);
  const bool older = asked.max_version->first == 1 && asked.max_version->second < kDLPackMinor;
  managed->version = {kDLPackMajor,
                      static_cast<std::uint32_t>(older ? asked.max_version->second : kDLPackMinor)};
  managed->flags = prepared.copied ? DLPACK_FLAG_BITMASK_IS_COPIED : 0;
  return managed;
}

DLManagedTensor* Buffer::to_dlpack_unversioned(const DLPackOptions& options) const {
  DLPackOptions asked = options;
  asked.max_version = std::nullopt;
  return export_buffer<DLManagedTensor>(prepare(*this, asked).buffer);
}

}  // namespace kiln::driver
