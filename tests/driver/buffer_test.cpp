#include "kiln/driver/buffer.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "kiln/support/sanitizer.h"

namespace kiln::driver {
namespace {

Buffer iota(const Shape& shape) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(num_elements(shape)));
  std::iota(values.begin(), values.end(), 0);
  return Buffer::copy_of(values, shape);
}

std::vector<std::int32_t> values_of(const Buffer& buffer) {
  const Buffer dense = buffer.contiguous();
  const auto* data = static_cast<const std::int32_t*>(dense.data());
  return {data, data + dense.num_elements()};
}

template <typename E, typename F>
std::string message_of(F&& function) {
  try {
    function();
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Buffer, Properties) {
  const Buffer buffer(DType::float32, {2, 3});
  EXPECT_EQ(buffer.dtype(), DType::float32);
  EXPECT_EQ(buffer.shape(), (Shape{2, 3}));
  EXPECT_EQ(buffer.strides(), (Shape{3, 1}));
  EXPECT_EQ(buffer.rank(), 2);
  EXPECT_EQ(buffer.num_elements(), 6);
  EXPECT_EQ(buffer.byte_size(), 24u);
  EXPECT_EQ(buffer.element_size(), 4);
  EXPECT_EQ(buffer.device(), CPU());
  EXPECT_EQ(buffer.stream(), CPU().default_queue());
  EXPECT_TRUE(buffer.is_contiguous());
  EXPECT_TRUE(buffer.is_host());
  EXPECT_FALSE(buffer.pinned());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0u);
  const Buffer staging(DType::int8, {1}, CPU(), Usage::STAGING | Usage::UNTRACKED);
  EXPECT_TRUE(has(staging.usage(), Usage::STAGING));
  EXPECT_FALSE(staging.pinned());
}

TEST(Buffer, EmptyAndInvalidShapes) {
  const Buffer empty(DType::float32, {std::int64_t{1} << 40, 0, std::int64_t{1} << 40});
  EXPECT_EQ(empty.num_elements(), 0);
  EXPECT_EQ(empty.data(), nullptr);
  EXPECT_THROW(Buffer(DType::int8, {2, -1}), ValueError);
  EXPECT_THROW(Buffer(DType::int8, {std::int64_t{1} << 62, 4}), ValueError);
  const std::string text =
      message_of<ValueError>([] { Buffer(DType::float64, {std::int64_t{1} << 43}); });
  EXPECT_EQ(text.substr(0, 44), "Memory manager cannot satisfy allocation (ho");
}

TEST(Buffer, ShapesBeyondEightAxes) {
  const Shape shape = Shape::filled(12, 2);
  const Buffer buffer = iota(shape);
  EXPECT_EQ(buffer.rank(), 12);
  EXPECT_EQ(buffer.strides()[0], 2048);
  std::vector<Index> indices(12, Index(1));
  EXPECT_EQ(buffer.at(indices).item<int>(), 4095);
}

TEST(Buffer, HandlesShareTheObject) {
  const Buffer a(DType::int32, {4});
  const Buffer b = a;
  EXPECT_EQ(a, b);
  EXPECT_NE(a, a.view(DType::int32));
  EXPECT_EQ(a.to(CPU()), a);
}

TEST(Buffer, Slicing) {
  const Buffer parent = iota({8, 10});
  const Buffer rows = parent[{Slice{}, Slice{{}, 6}}];
  EXPECT_EQ(rows.shape(), (Shape{8, 6}));
  EXPECT_EQ(rows.strides(), (Shape{10, 1}));
  EXPECT_FALSE(rows.is_contiguous());
  EXPECT_EQ((rows[{7, 5}].item<int>()), 75);
  const Buffer reversed = rows[{Slice{{}, {}, -3}, Slice{4, {}, -2}}];
  EXPECT_EQ(values_of(reversed), (std::vector<std::int32_t>{74, 72, 70, 44, 42, 40, 14, 12, 10}));
  const Buffer again = reversed[{Slice{{}, {}, -1}, -1}];
  EXPECT_EQ(values_of(again), (std::vector<std::int32_t>{10, 40, 70}));
  const Buffer cube = iota({3, 3, 3});
  EXPECT_EQ((cube[{Slice{4}, Slice{{}, 2}, Slice{8, 10, -1}}].shape()), (Shape{0, 2, 0}));
}

TEST(Buffer, IndexErrors) {
  const Buffer buffer = iota({3, 2});
  EXPECT_EQ(message_of<ValueError>([&] { buffer[{1, 1, 1}]; }), "expected 2 indices but got 3");
  EXPECT_EQ(message_of<IndexError>([&] { buffer[{5, 0}]; }),
            "index 5 is out of bounds for axis 0 with size 3");
  EXPECT_EQ(message_of<IndexError>([&] { buffer[{0, -3}]; }),
            "index -3 is out of bounds for axis 1 with size 2");
  EXPECT_THROW((buffer[{Slice{{}, {}, 0}, 1}]), ValueError);
  const Buffer scalar = Buffer::scalar(7, DType::int16);
  EXPECT_EQ(scalar[0].item<int>(), 7);
  EXPECT_EQ(scalar[-1].item<int>(), 7);
  EXPECT_EQ(scalar[{}].item<int>(), 7);
  EXPECT_THROW(scalar[1], IndexError);
}

TEST(Buffer, StoresElements) {
  const Buffer buffer = Buffer::zeros({2, 2}, DType::int8);
  buffer.set({1, 0}, -3.9);
  EXPECT_EQ((buffer[{1, 0}].item<int>()), -3);
  EXPECT_THROW(buffer.set({0, 0}, 128), ValueError);
  EXPECT_THROW(buffer.set({0, 0}, std::numeric_limits<double>::quiet_NaN()), ValueError);
  EXPECT_EQ(message_of<NotImplementedError>([&] { buffer.set({Slice{}, 0}, 1); }),
            "cannot assign across multiple indices");
  EXPECT_EQ(message_of<ValueError>([&] { buffer.item(); }),
            "calling `item` on a tensor with 4 items but expected only 1");
  // 1.01 is 0x3f8147ae as a float32: element stores cut the low half off.
  EXPECT_EQ(Buffer::scalar(1.01, DType::bfloat16).item<double>(), 1.0078125);
  EXPECT_EQ(Buffer::scalar(true, DType::bool_).item(), Scalar(true));
  EXPECT_EQ(Buffer::scalar(~std::uint64_t{0}, DType::uint64).item(), Scalar(~std::uint64_t{0}));
}

TEST(Buffer, HalfByteElements) {
  const Buffer buffer = Buffer::zeros({5}, DType::float4_e2m1fn);
  EXPECT_EQ(buffer.byte_size(), 3u);
  for (int i = 0; i < 5; ++i) buffer.set({i}, i);
  const auto* bytes = static_cast<const unsigned char*>(buffer.data());
  // Codes of 0, 1, 2, 3, 4 in e2m1: 0, 2, 4, 5, 6.
  EXPECT_EQ(bytes[0], 0x20);
  EXPECT_EQ(bytes[1], 0x54);
  EXPECT_EQ(bytes[2] & 15, 6);
  const Buffer odd = buffer[{Slice{1, 4}}];
  EXPECT_EQ(odd[{0}].item<double>(), 1.0);
  EXPECT_EQ(odd[{2}].item<double>(), 3.0);
  const Buffer copy = odd.copy();
  EXPECT_EQ(copy.byte_size(), 2u);
  EXPECT_EQ(static_cast<const unsigned char*>(copy.data())[0], 0x42);
  EXPECT_THROW(odd.memset(0), ValueError);
  EXPECT_THROW(odd.view(DType::uint8), ValueError);
  EXPECT_EQ(Buffer(DType::uint8, {3}).view(DType::float4_e2m1fn).shape(), Shape{6});
}

TEST(Buffer, Views) {
  const Buffer bytes = Buffer::copy_of(std::vector<std::int8_t>{1, 1, 2, 0}, {4});
  EXPECT_EQ(bytes.view(DType::int16)[{0}].item<int>(), 257);
  EXPECT_EQ(bytes.view(DType::int32, Shape{}).item<int>(), 257 + 2 * 65536);
  EXPECT_EQ(bytes.view(DType::int8, Shape{2, 2}).strides(), (Shape{2, 1}));
  EXPECT_THROW(bytes.view(DType::int32, Shape{2}), ValueError);
  EXPECT_THROW(Buffer(DType::int8, {3}).view(DType::int16), ValueError);
  EXPECT_THROW(Buffer::scalar(1, DType::int8).view(DType::int16), ValueError);
  const Buffer wide = iota({4, 6});
  const Buffer strided = wide[{Slice{{}, {}, 2}, Slice{0, 4}}];
  EXPECT_EQ(strided.view(DType::float32).strides(), (Shape{12, 1}));
  EXPECT_EQ(strided.view(DType::int64).shape(), (Shape{2, 2}));
  EXPECT_EQ(strided.view(DType::int64).strides(), (Shape{6, 1}));
  const Buffer shifted = bytes[{Slice{1}}].view(DType::int8);
  EXPECT_TRUE(shifted.aligned());
  EXPECT_FALSE(shifted.aligned(2));
}

TEST(Buffer, CopiesInPlace) {
  const Buffer a = iota({2, 3});
  const Buffer b = Buffer::zeros({6}, DType::int32);
  b.inplace_copy_from(a);
  EXPECT_EQ(values_of(b), values_of(a));
  const Buffer strided = a[{Slice{}, Slice{0, 2}}];
  strided.inplace_copy_from(strided);
  EXPECT_EQ(message_of<ValueError>([&] { strided.inplace_copy_from(b); }),
            "Cannot copy to non-contiguous buffer");
  EXPECT_EQ(message_of<ValueError>([&] { b.inplace_copy_from(strided); }),
            "Cannot copy from non-contiguous buffer");
  EXPECT_EQ(message_of<ValueError>([&] { b.inplace_copy_from(iota({5})); }),
            "Cannot copy buffers of different sizes");
  EXPECT_EQ(message_of<ValueError>([&] { b.inplace_copy_from(b.view(DType::float32)); }),
            "Cannot copy buffers of different dtypes");
  // Overlap: as if the source were read first.
  b[{Slice{1}}].inplace_copy_from(b[{Slice{0, 5}}]);
  EXPECT_EQ(values_of(b), (std::vector<std::int32_t>{0, 0, 1, 2, 3, 4}));
}

TEST(Buffer, FillsBytes) {
  const Buffer buffer = iota({4});
  buffer[{Slice{1, 3}}].memset(255);
  EXPECT_EQ(values_of(buffer), (std::vector<std::int32_t>{0, -1, -1, 3}));
  EXPECT_THROW(buffer.memset(256), ValueError);
  EXPECT_THROW(buffer.memset(-1), ValueError);
  EXPECT_THROW((buffer[{Slice{{}, {}, 2}}].memset(0)), ValueError);
}

TEST(Buffer, BatchCopy) {
  const Buffer a = iota({3});
  const Buffer b = Buffer::zeros({3}, DType::int32);
  const Buffer c = Buffer::zeros({3}, DType::int32);
  batch_inplace_copy(std::vector{b, c, b, a}, std::vector{a, a, a, a});
  EXPECT_EQ(values_of(b), values_of(a));
  EXPECT_EQ(values_of(c), values_of(a));
  EXPECT_EQ(message_of<ValueError>([&] { batch_inplace_copy(std::vector{b, c}, std::vector{a}); }),
            "batch_inplace_copy: dsts and srcs must have the same length (got 2 dsts, 1 srcs)");
}

TEST(Buffer, WrapRunsTheDeleterOnce) {
  int deleted = 0;
  std::vector<float> memory{1, 2, 3};
  {
    Buffer slice;
    {
      const Buffer buffer =
          Buffer::wrap(memory.data(), DType::float32, {3}, CPU(), [&] { ++deleted; });
      slice = buffer[{Slice{1}}];
      EXPECT_EQ(buffer.data(), memory.data());
    }
    EXPECT_EQ(deleted, 0);
    slice.set({0}, 5);
  }
  EXPECT_EQ(deleted, 1);
  EXPECT_EQ(memory[1], 5.0f);
  void* seen = nullptr;
  Buffer::wrap(memory.data(), DType::float32, {3}, CPU(), [&](void* data) { seen = data; });
  EXPECT_EQ(seen, memory.data());
}

TEST(Buffer, ToAnotherQueueNeedsAnEvent) {
  const DeviceQueue queue(CPU());
  const Buffer buffer(DType::int32, {2}, queue);
  EXPECT_THROW(buffer.to(CPU()), ValueError);
  const Buffer view = buffer.to(CPU(), {.after = queue.record_event()});
  EXPECT_EQ(view.data(), buffer.data());
  EXPECT_EQ(view.stream(), CPU().default_queue());
  EXPECT_EQ(buffer.stream(), queue);
}

TEST(Buffer, LivesOnManyThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      std::vector<Buffer> kept;
      for (int i = 0; i < 2000; ++i) {
        Buffer buffer = Buffer::zeros({(i * 37 + t) % 500 + 1}, DType::int64);
        buffer.set({0}, i);
        kept.push_back(buffer);
        if (kept.size() > 50) kept.erase(kept.begin());
        EXPECT_EQ(buffer[{0}].item<int>(), i);
      }
    });
  for (std::thread& thread : threads) thread.join();
  // AddressSanitizer wants every block back at once.
  EXPECT_EQ(CPU().trim() > 0, !kAddressSanitizer);
}

TEST(Buffer, ViewsOfNothingStayWithinTheRangeOfSizes) {
  const std::int64_t much = std::int64_t{1} << 60;
  for (DType dtype : {DType::float4_e2m1fn, DType::int8})
    EXPECT_EQ(Buffer(DType::int64, {0, much / 4}).view(dtype).shape()[1],
              much / 4 * (64 / dtype.size_in_bits()));
  EXPECT_THROW((void)Buffer(DType::int64, {0, much}).view(DType::float4_e2m1fn), ValueError);
  EXPECT_THROW((void)Buffer(DType::int64, {0, much}).view(DType::int8), ValueError);
}

TEST(Buffer, HasAtMost64Dimensions) {
  EXPECT_EQ(Buffer(DType::int8, Shape::filled(64, 1)).rank(), 64);
  EXPECT_THROW(Buffer(DType::int8, Shape::filled(65, 1)), ValueError);
  EXPECT_THROW((void)Buffer(DType::int8, {1}).view(DType::int8, Shape::filled(65, 1)), ValueError);
}

}  // namespace
}  // namespace kiln::driver
