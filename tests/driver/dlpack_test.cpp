#include "kiln/driver/dlpack.h"

#include <gtest/gtest.h>

#include "kiln/driver/buffer.h"

namespace kiln::driver {
namespace {

/// A producer's tensor over plain memory that counts how often it is deleted.
template <typename Managed>
struct Foreign {
  Managed managed{};
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  std::vector<float> memory;
  int deleted = 0;

  Foreign(std::vector<std::int64_t> shape_, std::vector<std::int64_t> strides_)
      : shape(std::move(shape_)), strides(std::move(strides_)), memory(64) {
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i);
    DLTensor& tensor = managed.dl_tensor;
    tensor.data = memory.data();
    tensor.device = {kDLCPU, 0};
    tensor.ndim = static_cast<std::int32_t>(shape.size());
    tensor.dtype = {2, 32, 1};
    tensor.shape = shape.data();
    tensor.strides = strides.empty() ? nullptr : strides.data();
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { ++static_cast<Foreign*>(self->manager_ctx)->deleted; };
    if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>) managed.version = {1, 0};
  }
};

using Versioned = Foreign<DLManagedTensorVersioned>;
using Unversioned = Foreign<DLManagedTensor>;

TEST(DLPackImport, AliasesAndDeletesOnce) {
  Versioned foreign({2, 3}, {3, 1});
  {
    Buffer slice;
    {
      const Buffer buffer = Buffer::from_dlpack(&foreign.managed);
      EXPECT_EQ(buffer.data(), foreign.memory.data());
      EXPECT_EQ(buffer.shape(), (Shape{2, 3}));
      EXPECT_EQ(buffer.dtype(), DType::float32);
      slice = buffer[{1, Slice{}}];
    }
    EXPECT_EQ(foreign.deleted, 0);
    slice.set({0}, 9);
  }
  EXPECT_EQ(foreign.deleted, 1);
  EXPECT_EQ(foreign.memory[3], 9.0f);
}

TEST(DLPackImport, TensorsWithoutMemoryOrShapeAreRefused) {
  EXPECT_THROW(Buffer::from_dlpack(static_cast<DLManagedTensor*>(nullptr)), BufferError);
  EXPECT_THROW(Buffer::from_dlpack(static_cast<DLManagedTensorVersioned*>(nullptr)), BufferError);
  Versioned no_memory({2, 3}, {3, 1});
  no_memory.managed.dl_tensor.data = nullptr;
  no_memory.managed.dl_tensor.byte_offset = 4;
  EXPECT_THROW(Buffer::from_dlpack(&no_memory.managed), BufferError);
  EXPECT_EQ(no_memory.deleted, 1);
  Unversioned no_shape({2}, {});
  no_shape.managed.dl_tensor.shape = nullptr;
  EXPECT_THROW(Buffer::from_dlpack(&no_shape.managed), BufferError);
  EXPECT_EQ(no_shape.deleted, 1);
  Versioned empty({0, 3}, {});
  empty.managed.dl_tensor.data = nullptr;
  EXPECT_EQ(Buffer::from_dlpack(&empty.managed).shape(), (Shape{0, 3}));
}

TEST(DLPackImport, ByteOffsetAndNullStrides) {
  Unversioned foreign({4}, {});
  foreign.managed.dl_tensor.byte_offset = 8;
  const Buffer buffer = Buffer::from_dlpack(&foreign.managed);
  EXPECT_EQ(buffer[{0}].item<float>(), 2.0f);
}

TEST(DLPackImport, Copies) {
  Versioned foreign({3}, {1});
  const Buffer copy = Buffer::from_dlpack(&foreign.managed, {.copy = true});
  EXPECT_EQ(foreign.deleted, 1);
  EXPECT_NE(copy.data(), foreign.memory.data());
  EXPECT_EQ(copy[{2}].item<float>(), 2.0f);

  Versioned read_only({3}, {1});
  read_only.managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  const Buffer writable = Buffer::from_dlpack(&read_only.managed);
  EXPECT_NE(writable.data(), read_only.memory.data());
  EXPECT_EQ(read_only.deleted, 1);
  EXPECT_THROW(Buffer::from_dlpack(&read_only.managed, {.copy = false}), BufferError);
  EXPECT_EQ(read_only.deleted, 2);
}

TEST(DLPackImport, StridesThatDoNotMatter) {
  Versioned ones({1, 4, 1}, {77, 1, -5});
  EXPECT_TRUE(Buffer::from_dlpack(&ones.managed).is_contiguous());
  Versioned empty({0, 4}, {1, 99});
  empty.managed.dl_tensor.data = nullptr;
  const Buffer buffer = Buffer::from_dlpack(&empty.managed);
  EXPECT_EQ(buffer.shape(), (Shape{0, 4}));
  EXPECT_EQ(buffer.data(), nullptr);
}

TEST(DLPackImport, Refusals) {
  Versioned strided({2, 3}, {6, 2});
  EXPECT_THROW(Buffer::from_dlpack(&strided.managed), ValueError);
  EXPECT_EQ(strided.deleted, 1);
  Versioned newer({2}, {1});
  newer.managed.version = {2, 0};
  EXPECT_THROW(Buffer::from_dlpack(&newer.managed), BufferError);
  EXPECT_EQ(newer.deleted, 1);
  Versioned lanes({2}, {1});
  lanes.managed.dl_tensor.dtype = {2, 32, 4};
  EXPECT_THROW(Buffer::from_dlpack(&lanes.managed), BufferError);
  EXPECT_EQ(lanes.deleted, 1);
  Versioned device({2}, {1});
  device.managed.dl_tensor.device = {kDLCUDA, 0};
  EXPECT_THROW(Buffer::from_dlpack(&device.managed), BufferError);
  EXPECT_EQ(device.deleted, 1);
}

TEST(DLPackExport, KeepsTheMemoryAlive) {
  DLManagedTensorVersioned* tensor = nullptr;
  void* data = nullptr;
  {
    const Buffer buffer = Buffer::copy_of(std::vector<std::int16_t>{1, 2, 3, 4, 5, 6}, {2, 1, 3});
    data = buffer.data();
    tensor = buffer[{Slice{}, Slice{}, Slice{1}}].to_dlpack();
  }
  EXPECT_EQ(tensor->version.major, 1u);
  EXPECT_EQ(tensor->version.minor, 1u);
  EXPECT_EQ(tensor->flags, 0u);
  EXPECT_EQ(tensor->dl_tensor.data, static_cast<char*>(data) + 2);
  EXPECT_EQ(tensor->dl_tensor.ndim, 3);
  EXPECT_EQ(tensor->dl_tensor.strides[0], 3);
  EXPECT_EQ(tensor->dl_tensor.strides[2], 1);
  EXPECT_EQ(static_cast<std::int16_t*>(tensor->dl_tensor.data)[3], 5);
  // Handing it back aliases.
  const Buffer back = Buffer::from_dlpack(Buffer::scalar(1, DType::int8).to_dlpack());
  EXPECT_EQ(back.item<int>(), 1);
  tensor->deleter(tensor);
}

TEST(DLPackExport, Options) {
  const Buffer buffer = Buffer::zeros({1, 2}, DType::float32);
  DLManagedTensorVersioned* copy = buffer.to_dlpack({.copy = true});
  EXPECT_EQ(copy->flags, DLPACK_FLAG_BITMASK_IS_COPIED);
  EXPECT_NE(copy->dl_tensor.data, buffer.data());
  copy->deleter(copy);
  DLManagedTensorVersioned* older = buffer.to_dlpack({.max_version = std::pair(1, 0)});
  EXPECT_EQ(older->version.minor, 0u);
  older->deleter(older);
  DLManagedTensor* unversioned = buffer.to_dlpack_unversioned({.stream = -1});
  EXPECT_EQ(unversioned->dl_tensor.data, buffer.data());
  unversioned->deleter(unversioned);
  EXPECT_THROW(buffer.to_dlpack({.stream = 1}), ValueError);
  EXPECT_THROW(buffer.to_dlpack({.dl_device = std::pair(kDLCUDA + 0, 0)}), BufferError);
  const Buffer small = Buffer::zeros({2}, DType::float8_e5m2);
  EXPECT_THROW(small.to_dlpack_unversioned(), BufferError);
  EXPECT_THROW(small.to_dlpack({.max_version = std::pair(1, 0)}), BufferError);
  DLManagedTensorVersioned* newest = small.to_dlpack({.max_version = std::pair(1, 9)});
  EXPECT_EQ(newest->dl_tensor.dtype.code, 12);
  newest->deleter(newest);
  const Buffer empty = Buffer(DType::int8, {0, 3});
  DLManagedTensorVersioned* nothing = empty.to_dlpack();
  EXPECT_EQ(nothing->dl_tensor.data, nullptr);
  EXPECT_EQ(nothing->dl_tensor.strides[0], 3);
  nothing->deleter(nothing);
}

TEST(DLPack, TypesRoundTrip) {
  for (int code = 0; code < 256; ++code) {
    std::optional<DType> dtype;
    try {
      dtype = DType::from_code(code);
    } catch (const ValueError&) {
      continue;
    }
    EXPECT_EQ(dtype_of_dlpack(dlpack_type(*dtype)), *dtype);
    EXPECT_EQ(dlpack_type(*dtype).bits, dtype->size_in_bits());
  }
}

}  // namespace
}  // namespace kiln::driver
