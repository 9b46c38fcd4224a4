#include "values.h"

namespace kiln::emulator_test {
namespace {

class Basics : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    use_device(0);
    module_ = new Module(kernel_text("basics.ptx"));
  }
  static void TearDownTestSuite() { delete module_; }
  void SetUp() override { use_device(0); }
  static Function kernel(const std::string& name) { return module_->function(name); }
  static Module* module_;
};
Module* Basics::module_ = nullptr;

TEST_F(Basics, EmptyKernelRuns) {
  launch(kernel("empty"), {{1}, {1}});
  launch(kernel("empty"), {{100}, {1024}});
  synchronize();
}

TEST_F(Basics, VectorAddOfManySizes) {
  for (const int n : {0, 1, 31, 32, 33, 255, 1000, 4097, 100000}) {
    const auto a = random_values<float>(n, -100, 100, 1), b = random_values<float>(n, -1, 1, 2);
    const Array<float> da(a), db(b), dc(n);
    launch(kernel("vector_add"), {{std::max(1u, blocks_for(n, 256))}, {256}}, da, db, dc, n);
    synchronize();
    const auto c = dc.get();
    for (int i = 0; i < n; ++i) ASSERT_EQ(c[i], a[i] + b[i]) << i << " of " << n;
  }
}

TEST_F(Basics, SaxpyWithAStride) {
  for (const long long n : {1ll, 777ll, 10000ll}) {
    const auto x = random_values<float>(n, -2, 2, 3), y = random_values<float>(n, -2, 2, 4);
    const Array<float> dx(x), dy(y);
    launch(kernel("saxpy"), {{3}, {128}}, 1.5f, dx, dy, n);
    synchronize();
    std::vector<float> expected;
    for (long long i = 0; i < n; ++i) expected.push_back(std::fma(1.5f, x[i], y[i]));
    EXPECT_EQ(dy.get(), expected);
  }
}

TEST_F(Basics, DaxpyInDouble) {
  const int n = 5000;
  const auto x = random_values<double>(n, -2, 2, 5), y = random_values<double>(n, -2, 2, 6);
  const Array<double> dx(x), dy(y);
  launch(kernel("daxpy"), {{blocks_for(n, 96)}, {96}}, -0.3, dx, dy, n);
  synchronize();
  std::vector<double> expected;
  for (int i = 0; i < n; ++i) expected.push_back(std::fma(-0.3, x[i], y[i]));
  EXPECT_EQ(dy.get(), expected);
}

TEST_F(Basics, TransposeOfOddShapes) {
  for (const auto& [rows, columns] : {std::pair{1, 1}, {32, 32}, {33, 70}, {100, 7}, {1, 300}}) {
    const auto in = random_values<float>(rows * columns, 0, 1);
    const Array<float> din(in), dout(in.size());
    launch(kernel("transpose"), {{blocks_for(columns, 32), blocks_for(rows, 32)}, {32, 8}}, din,
           dout, rows, columns);
    synchronize();
    const auto out = dout.get();
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < columns; ++c) ASSERT_EQ(out[c * rows + r], in[r * columns + c]);
    }
  }
}

TEST_F(Basics, HistogramOfBytes) {
  for (const int n : {0, 1, 100, 50000}) {
    const auto in = random_bits<std::uint8_t>(n);
    const Array<std::uint8_t> din(in);
    const Array<unsigned> bins(256);
    launch(kernel("histogram"), {{4}, {192}}, din, bins, n);
    synchronize();
    std::vector<unsigned> expected(256);
    for (std::uint8_t value : in) ++expected[value];
    EXPECT_EQ(bins.get(), expected);
  }
}

TEST_F(Basics, ConvolutionWithAFilterInConstantMemory) {
  const std::vector<float> filter = {1, 2, 3, -4, 5, -6, 7, 8, -9};
  const auto [address, bytes] = module_->global("filter");
  ASSERT_EQ(bytes, 36u);
  check(driver().copy_to_device(address, filter.data(), bytes), "Setting the filter");
  const int height = 37, width = 45;
  std::vector<float> image(height * width), expected(height * width);
  for (std::size_t i = 0; i < image.size(); ++i) image[i] = static_cast<float>(i % 11) - 5;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int k = 0; k < 9; ++k) {
        const int u = x + k % 3 - 1, v = y + k / 3 - 1;
        if (u < 0 || v < 0 || u >= width || v >= height) continue;
        expected[y * width + x] += filter[k] * image[v * width + u];
      }
    }
  }
  const Array<float> din(image), dout(image.size());
  launch(kernel("convolve"), {{blocks_for(width, 16), blocks_for(height, 8)}, {16, 8}}, din, dout,
         height, width);
  synchronize();
  EXPECT_EQ(dout.get(), expected);
}

struct Affine {
  double scale;
  float offset;
  short step;
  char flag;
  int table[3];
};

TEST_F(Basics, ParametersOfEverySize) {
  const Array<double> out(12);
  launch(kernel("parameters"), {{1}, {1}}, static_cast<signed char>(-3), static_cast<short>(-300),
         70000, 1ll << 40, 0.25f, 1e100, Affine{2.5, -0.5f, -7, 9, {11, 12, 13}},
         static_cast<unsigned char>(200), out);
  synchronize();
  const std::vector<double> expected = {
      -3, -300, 70000, 1099511627776.0, 0.25, 1e100, 2.5, -0.5, -7, 9, 11, 200};
  EXPECT_EQ(out.get(), expected);
}

TEST_F(Basics, CoordinatesInThreeDimensions) {
  const Extent grid{3, 2, 4}, block{5, 3, 2};
  const unsigned threads = block.x * block.y * block.z;
  const Array<unsigned> out(grid.x * grid.y * grid.z * threads);
  launch(kernel("coordinates"), {grid, block}, out);
  synchronize();
  const auto found = out.get();
  for (unsigned i = 0; i < found.size(); ++i) {
    const unsigned b = i / threads, t = i % threads;
    const unsigned expected = t % 5 | t / 5 % 3 << 4 | t / 15 << 8 | b % 3 << 12 | b / 3 % 2 << 16 |
                              b / 6 << 20 | t % 32 << 24;
    ASSERT_EQ(found[i], expected) << i;
  }
}

TEST_F(Basics, BarriersCarryValuesAround) {
  for (const unsigned threads : {1u, 2u, 31u, 33u, 256u, 1024u}) {
    const int rounds = 10;
    const Array<unsigned> out(2 * threads);
    launch(kernel("barriers"), {{2}, {threads}}, out, rounds);
    synchronize();
    const auto found = out.get();
    for (unsigned i = 0; i < found.size(); ++i) {
      ASSERT_EQ(found[i], (i % threads + rounds) % threads + rounds) << threads;
    }
  }
}

TEST_F(Basics, KernelsOfOneStreamRunInOrder) {
  const int n = 1000;
  const Array<float> x(std::vector<float>(n, 1)), y(std::vector<float>(n, 0));
  const Stream stream;
  for (int i = 0; i < 50; ++i) {
    launch(kernel("saxpy"), {{4}, {64}, 0, stream.handle()}, 1.0f, i % 2 ? x : y, i % 2 ? y : x,
           static_cast<long long>(n));
  }
  stream.synchronize();
  float a = 1, b = 0;
  for (int i = 0; i < 50; ++i) (i % 2 ? b : a) += i % 2 ? a : b;
  EXPECT_EQ(x.get(), std::vector<float>(n, a));
  EXPECT_EQ(y.get(), std::vector<float>(n, b));
}

TEST_F(Basics, AGraphOfCapturedWorkRunsAgain) {
  const int n = 300;
  const auto ones = std::vector<float>(n, 1);
  const Array<float> x(ones), y(ones), z(n);
  const Stream stream;
  check(driver().begin_capture(stream.handle(), 0), "Beginning a capture");
  launch(kernel("vector_add"), {{3}, {128}, 0, stream.handle()}, x, y, z, n);
  check(driver().copy_on_device_async(x.address(), z.address(), n * 4, stream.handle()),
        "Capturing a copy");
  GraphHandle graph = nullptr;
  check(driver().end_capture(stream.handle(), &graph), "Ending a capture");
  GraphExecHandle exec = nullptr;
  check(driver().instantiate(&exec, graph, 0), "Instantiating a graph");
  for (int i = 0; i < 5; ++i) check(driver().launch_graph(exec, stream.handle()), "Launching");
  stream.synchronize();
  EXPECT_EQ(x.get(), std::vector<float>(n, 6));
  check(driver().destroy_graph_exec(exec), "Destroying a graph");
  check(driver().destroy_graph(graph), "Destroying a graph");
}

}  // namespace
}  // namespace kiln::emulator_test
