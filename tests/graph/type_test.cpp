#include "kiln/graph/type.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kiln/graph/layout.h"
#include "kiln/support/error.h"

namespace kiln::graph {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(DeviceRef, NamesADevice) {
  EXPECT_EQ(DeviceRef::CPU().to_string(), "cpu:0");
  EXPECT_EQ(DeviceRef::GPU(1).to_string(), "gpu:1");
  EXPECT_EQ(DeviceRef::GPU(-3).id, 0);
  EXPECT_NE(DeviceRef::CPU(0), DeviceRef::CPU(1));
  EXPECT_EQ(device_kind_from_string("gpu"), DeviceKind::gpu);
  EXPECT_THAT([] { device_kind_from_string("tpu"); },
              ThrowsMessage<ValueError>("Unknown device kind tpu"));
}

TEST(TensorType, MembersAndText) {
  TensorType t(DType::float32, {"batch", 4}, DeviceRef::CPU());
  EXPECT_EQ(t.repr(), "TensorType(dtype=float32, shape=[Dim('batch'), Dim(4)], device=cpu:0)");
  EXPECT_EQ(Type(t).to_text(), "tensor<[batch, 4], f32>");
  EXPECT_EQ(Type(TensorType(DType::float32, {5}, DeviceRef::GPU())).to_text(),
            "tensor<[5], f32, gpu:0>");
  EXPECT_EQ(Type(t.as_buffer()).to_text(), "buffer<[batch, 4], f32>");
  EXPECT_EQ(t.as_buffer().as_tensor(), t);
  EXPECT_EQ(t.cast(DType::int8).dtype, DType::int8);
  EXPECT_NE(Type(t), Type(t.as_buffer()));
  EXPECT_EQ(Type(ChainType{}).to_text(), "chain");
  EXPECT_EQ(TensorType(DType::float32, {2, 3}, {}).num_elements(), 6);
  EXPECT_THAT(
      [&] { t.num_elements(); },
      ThrowsMessage<RuntimeError>("can't find num elements since tensor has symbolic dims"));
}

TEST(TensorType, LayoutIsTextButNotIdentity) {
  TensorType a(DType::float32, {3, 3, 4, 8}, DeviceRef::CPU());
  TensorType b = a;
  b.layout = FilterLayout::RSCF;
  EXPECT_EQ(a, b);
  EXPECT_EQ(Type(b).to_text(), "tensor<[3, 3, 4, 8], f32, layout = RSCF>");
  EXPECT_EQ(filter_layout_from_string("FCRS"), FilterLayout::FCRS);
  EXPECT_THROW(filter_layout_from_string("ABC"), ValueError);
}

TEST(TensorType, Errors) {
  EXPECT_THAT([] { TensorType(DType::float32, {-1}, {}); },
              ThrowsMessage<TypeError>(
                  "Static tensor dimensions must be non-negative; got shape=[Dim(-1)]"));
  EXPECT_THAT([] { BufferType(DType::float32, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {}); },
              ThrowsMessage<ValueError>(HasSubstr("at most 8 axes")));
}

TEST(OpaqueType, Text) {
  OpaqueType t{"queue", {{"depth", std::int64_t{3}}, {"on", true}, {"t", DType(DType::float32)}}};
  EXPECT_EQ(Type(t).to_text(), "opaque<\"queue\", {depth = 3, on = true, t = f32}>");
  EXPECT_EQ(Type(t).repr(), "_OpaqueType('queue', {'depth': 3, 'on': True, 't': DType.float32})");
  EXPECT_EQ(Type(OpaqueType{"q", {}}).to_text(), "opaque<\"q\">");
}

}  // namespace
}  // namespace kiln::graph
