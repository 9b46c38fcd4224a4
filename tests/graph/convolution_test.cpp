#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kiln/graph.h"
#include "kiln/support/error.h"

namespace kiln::graph {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr auto f32 = DType::float32;
constexpr auto f64 = DType::float64;
constexpr auto i64 = DType::int64;

/// The text of the ValueError that `f` throws.
template <typename F>
std::string failure(F&& f) {
  try {
    f();
    return "nothing";
  } catch (const ValueError& e) {
    return e.message();
  }
}

class Convolution : public testing::Test {
 protected:
  Graph g{"g", {.input_types = {TensorType(f32, {"n", "h", "w"}, DeviceRef::CPU())}}};
  Graph::Scope scope{g};
  TensorValue x = g.inputs()[0].tensor();

  TensorValue of(Shape shape, DType dtype = f32) {
    return ops::buffer_load(
        ops::buffer_create(BufferType(dtype, std::move(shape), DeviceRef::CPU())));
  }
};

TEST_F(Convolution, ShapesAndErrors) {
  TensorValue image = of({"n", 8, "w", 6}), filter = of({3, 3, 6, 4});
  EXPECT_EQ(ops::conv2d(image, filter).shape(), (Shape{"n", 6, Dim("w") - 2, 4}));
  EXPECT_EQ(ops::conv2d(image, filter, {.stride = {2, 2}, .padding = {1, 1, 1, 1}}).shape(),
            (Shape{"n", 4, (Dim("w") - 1).floor_div(2) + 1, 4}));
  EXPECT_EQ(ops::conv2d(image, of({3, 3, 2, 9}), {.dilation = {2, 1}, .groups = 3}).shape(),
            (Shape{"n", 4, Dim("w") - 2, 9}));
  EXPECT_EQ(ops::conv2d(of({1, 6, 8, 5}), of({4, 6, 3, 3}),
                        {.bias = of({4}),
                         .input_layout = ConvInputLayout::NCHW,
                         .filter_layout = FilterLayout::FCRS})
                .shape(),
            (Shape{1, 4, 6, 3}));
  EXPECT_EQ(ops::conv2d(of({1, 5, 5, 2}, i64), of({1, 1, 2, 2}, i64)).dtype(), i64);
  EXPECT_EQ(ops::conv2d(of({1, 5, 5, 2}, DType::float16), of({1, 1, 2, 2}), {.bias = of({2}, f64)})
                .dtype(),
            f64);
  EXPECT_EQ(ops::conv3d(of({1, 5, 6, 7, 2}), of({2, 3, 4, 2, 3})).shape(), (Shape{1, 4, 4, 4, 3}));
  EXPECT_EQ(ops::conv2d_transpose(of({"n", "h", 5, 6}), of({3, 3, 4, 6}),
                                  {.stride = {2, 3}, .output_paddings = {1, 2}})
                .shape(),
            (Shape{"n", Dim(2) * (Dim("h") - 1) + 4, 17, 4}));

  const auto conv_failure = [&](const TensorValue& x, const TensorValue& w,
                                const ops::Conv2dOptions& options = {}) {
    return failure([&] { ops::conv2d(x, w, options); });
  };
  EXPECT_THAT(conv_failure(x, filter),
              StartsWith("input to a 2-D convolution must be rank 4, got shape "));
  EXPECT_THAT(conv_failure(image, x),
              StartsWith("filter for a 2-D convolution must be rank 4, got shape "));
  EXPECT_EQ(conv_failure(image, filter, {.bias = of({3})}),
            "bias for a 2-D convolution must be rank 1 with shape (out_channels,)");
  EXPECT_THAT(conv_failure(of({1, 2, 8, 6}), filter),
              EndsWith("[convolution] output spatial dim must be positive"));
  EXPECT_THAT(conv_failure(image, of({3, 3, 5, 4})), HasSubstr("do not match"));
  EXPECT_THAT(conv_failure(image, of({3, 3, 3, 5}), {.groups = 2}), HasSubstr("do not match"));
  EXPECT_THAT(conv_failure(image, filter, {.groups = 0}), HasSubstr("do not match"));
  EXPECT_THAT(conv_failure(image, filter, {.stride = {1, 0}}),
              HasSubstr("stride must be at least"));
  EXPECT_THAT(conv_failure(image, filter, {.dilation = {0, 1}}), HasSubstr("dilation must be"));
  EXPECT_THAT(conv_failure(image, filter, {.padding = {0, 0, -1, 0}}),
              HasSubstr("padding must be"));
  EXPECT_THAT(conv_failure(image, filter, {.filter_layout = FilterLayout::QRSCF}),
              HasSubstr("has layout RSCF or FCRS, not QRSCF"));
  EXPECT_THAT(failure([&] { ops::conv3d(image, filter); }),
              StartsWith("input to a 3-D convolution must be rank 5, got shape "));
  EXPECT_THAT(failure([&] {
                ops::conv3d(of({1, 4, 4, 4, 2}), of({2, 2, 2, 2, 3}),
                            {.filter_layout = FilterLayout::FCRS});
              }),
              HasSubstr("has layout QRSCF or FCQRS, not FCRS"));

  const auto transposed_failure = [&](const TensorValue& x, const TensorValue& w,
                                      const ops::Conv2dTransposeOptions& options = {}) {
    return failure([&] { ops::conv2d_transpose(x, w, options); });
  };
  TensorValue turned = of({3, 3, 4, 6});
  EXPECT_THAT(transposed_failure(x, turned),
              StartsWith("input to a 2-D deconvolution must be rank 4, got shape "));
  EXPECT_THAT(transposed_failure(image, x),
              StartsWith("filter for a 2-D deconvolution must be rank 4, got shape "));
  EXPECT_THAT(transposed_failure(image, turned, {.stride = {2, 2}, .output_paddings = {1, 2}}),
              HasSubstr("output padding must be smaller than either stride or dilation, but got "
                        "output_padding = 2"));
  EXPECT_THAT(transposed_failure(image, filter), HasSubstr("channels of a 2-D deconvolution"));
  EXPECT_THAT(transposed_failure(image, turned, {.padding = {5, 5, 0, 0}}),
              EndsWith("[conv_transpose] output spatial dim must be positive"));
  EXPECT_THAT(transposed_failure(image, turned, {.filter_layout = FilterLayout::FCRS}),
              HasSubstr("has layout RSCF or CFRS, not FCRS"));
}

TEST_F(Convolution, Pooling) {
  TensorValue image = of({"n", 9, "w", 6});
  EXPECT_EQ(ops::max_pool2d(image, 2).shape(), (Shape{"n", 8, Dim("w") - 1, 6}));
  EXPECT_EQ(ops::max_pool2d(image, {2, 3}, {.stride = 2, .padding = {0, 1}}).shape(),
            (Shape{"n", 4, (Dim("w") - 1).floor_div(2) + 1, 6}));
  EXPECT_EQ(ops::avg_pool2d(image, 2, {.stride = 2, .ceil_mode = true}).shape(),
            (Shape{"n", 5, (Dim("w") + 1).floor_div(2), 6}));
  // The last window would start behind the input.
  EXPECT_EQ(
      ops::avg_pool2d(of({1, 4, 4, 1}), 1, {.stride = 3, .padding = 1, .ceil_mode = true}).shape(),
      (Shape{1, 2, 2, 1}));
  EXPECT_EQ(ops::avg_pool2d(image, 2, {.count_boundary = false}).dtype(), f32);
  EXPECT_THAT(failure([&] { ops::avg_pool2d(x, 2); }), HasSubstr("rank 4 (NHWC)"));
  EXPECT_THAT(failure([&] { ops::max_pool2d(image, 11); }), HasSubstr("does not fit axis 1"));
  EXPECT_THAT(failure([&] { ops::max_pool2d(image, 0); }), HasSubstr("kernel_size must be"));
}

TEST_F(Convolution, Text) {
  TensorValue image = of({"n", 9, 9, 6});
  TensorValue y = ops::conv2d(image, of({3, 3, 2, 6}), {.stride = {2, 1}, .groups = 3});
  y = ops::conv2d_transpose(y, of({2, 2, 4, 6}), {.stride = {2, 2}, .output_paddings = {1, 0}});
  y = ops::avg_pool2d(ops::max_pool2d(y, 2, {.ceil_mode = true}), {3, 1}, {.stride = 2});
  ops::conv3d(of({1, 5, 6, 7, 2}), of({2, 3, 4, 2, 3}));
  g.output(y);
  const std::string text = g.to_string();
  EXPECT_THAT(text, AllOf(HasSubstr("kiln.conv2d"), HasSubstr("kiln.conv3d"),
                          HasSubstr("kiln.conv2d_transpose"), HasSubstr("kiln.max_pool2d"),
                          HasSubstr("kiln.avg_pool2d")));
  EXPECT_EQ(Graph::parse(text).to_string(), text);
}

}  // namespace
}  // namespace kiln::graph
