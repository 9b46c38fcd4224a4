// Blocks of quantised numbers. The loops are plain; they are compiled once for each instruction set
// of the list at the end, and the best that the processor has is taken.

#include "kiln/runtime/quantized.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "kiln/runtime/host_cpu.h"
#include "kiln/support/error.h"
#include "kiln/support/thread_pool.h"

#define KILN_INLINE [[gnu::always_inline]] inline

namespace kiln::runtime {
namespace {

using Encoding = graph::QuantizationEncoding;
using Byte = std::uint8_t;

// Columns of a product that are worked out together, and how much of their depth.
constexpr std::int64_t kPanel = 16;
constexpr std::int64_t kDepth = 2048;
// Elements that are worth another thread.
constexpr std::int64_t kGrain = 32768;

KILN_INLINE float half(const Byte* from) {
  const std::uint32_t code = from[0] | static_cast<std::uint32_t>(from[1]) << 8;
  std::uint32_t bits = (code & 0x7fff) << 13;
  // The exponents differ by 112; the product is exact for denormals too.
  bits = (code & 0x7c00) == 0x7c00
             ? bits | 0x7f800000
             : std::bit_cast<std::uint32_t>(std::bit_cast<float>(bits) * 0x1p112f);
  return std::bit_cast<float>(bits | (code & 0x8000) << 16);
}

struct Q4_0 {
  static constexpr std::int64_t kElements = 32, kBytes = 18;
  KILN_INLINE static void block(const Byte* from, float* to) {
    const float d = half(from);
    for (int j = 0; j < 16; ++j) {
      const int q = from[2 + j];
      to[j] = d * static_cast<float>((q & 15) - 8);
      to[j + 16] = d * static_cast<float>((q >> 4) - 8);
    }
  }
};

struct Q8_0 {
  static constexpr std::int64_t kElements = 32, kBytes = 34;
  KILN_INLINE static void block(const Byte* from, float* to) {
    const float d = half(from);
    for (int j = 0; j < 32; ++j)
      to[j] = d * static_cast<float>(static_cast<std::int8_t>(from[2 + j]));
  }
};

struct Q4_K {
  static constexpr std::int64_t kElements = 256, kBytes = 144;
  KILN_INLINE static void block(const Byte* from, float* to) {
    const float d = half(from), lowest = half(from + 2);
    const Byte *s = from + 4, *q = from + 16;
    for (int c = 0; c < 4; ++c, q += 32, to += 64) {
      float scale[2], minimum[2];
      for (int i = 0; i < 2; ++i) {
        // Scales and minima of six bits: the later four are spread over three bytes.
        const int j = 2 * c + i;
        const int sc = j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        const int m = j < 4 ? s[j + 4] & 63 : s[j + 4] >> 4 | (s[j] >> 6) << 4;
        scale[i] = d * static_cast<float>(sc);
        minimum[i] = lowest * static_cast<float>(m);
      }
      for (int l = 0; l < 32; ++l) {
        to[l] = scale[0] * static_cast<float>(q[l] & 15) - minimum[0];
        to[l + 32] = scale[1] * static_cast<float>(q[l] >> 4) - minimum[1];
      }
    }
  }
};

struct Q6_K {
  static constexpr std::int64_t kElements = 256, kBytes = 210;
  KILN_INLINE static void block(const Byte* from, float* to) {
    const float d = half(from + 208);
    for (int h = 0; h < 2; ++h, to += 128) {
      const Byte *low = from + 64 * h, *high = from + 128 + 32 * h;
      const Byte* scales = from + 192 + 8 * h;
      for (int i = 0; i < 2; ++i) {
        float scale[4];
        for (int t = 0; t < 4; ++t)
          scale[t] = d * static_cast<float>(static_cast<std::int8_t>(scales[i + 2 * t]));
        for (int l = 16 * i; l < 16 * i + 16; ++l) {
          const int a = low[l], b = low[l + 32], top = high[l];
          to[l] = scale[0] * static_cast<float>(((a & 15) | (top & 3) << 4) - 32);
          to[l + 32] = scale[1] * static_cast<float>(((b & 15) | (top >> 2 & 3) << 4) - 32);
          to[l + 64] = scale[2] * static_cast<float>((a >> 4 | (top >> 4 & 3) << 4) - 32);
          to[l + 96] = scale[3] * static_cast<float>((b >> 4 | (top >> 6 & 3) << 4) - 32);
        }
      }
    }
  }
};

/// What one call works on.
struct Product {
  const float* lhs;
  const Byte* rhs;
  float* result;
  std::int64_t rows, depth, columns;
};

template <typename Q>
KILN_INLINE void dequantize_blocks(const Byte* from, std::int64_t begin, std::int64_t end,
                                   float* to) {
  for (std::int64_t i = begin; i < end; ++i) Q::block(from + i * Q::kBytes, to + i * Q::kElements);
}

template <int kLanes>
struct Lanes {
  using Type [[gnu::vector_size(kLanes * 4)]] = float;
};

/// Lanes from any address.
template <typename V>
KILN_INLINE V load(const float* from) {
  V lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

/// Adds the products of kRows rows and kColumns columns over `depth` elements to the result.
template <int kLanes, int kRows, int kColumns>
KILN_INLINE void tile(const float* lhs, std::int64_t stride, const float* panel, std::int64_t depth,
                      float* to, std::int64_t to_stride, bool first) {
  using V = typename Lanes<kLanes>::Type;
  V sums[kRows][kColumns] = {};
  for (std::int64_t k = 0; k < depth; k += kLanes) {
    V b[kColumns];
    for (int c = 0; c < kColumns; ++c) b[c] = load<V>(panel + c * kDepth + k);
    for (int r = 0; r < kRows; ++r) {
      const V a = load<V>(lhs + r * stride + k);
      for (int c = 0; c < kColumns; ++c) sums[r][c] += a * b[c];
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int c = 0; c < kColumns; ++c) {
      float lanes[kLanes];
      std::memcpy(lanes, &sums[r][c], sizeof lanes);
      for (int width = kLanes / 2; width > 0; width /= 2)
        for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
      float& element = to[r * to_stride + c];
      element = first ? lanes[0] : element + lanes[0];
    }
}

/// Columns [begin, end) of a product, by panels that stay in the cache while all rows pass.
template <typename Q, int kLanes, int kRows, int kColumns>
KILN_INLINE void product_columns(const Product& p, std::int64_t begin, std::int64_t end,
                                 float* panel) {
  const std::int64_t row_bytes = p.depth / Q::kElements * Q::kBytes;
  for (std::int64_t column = begin; column < end; column += kPanel) {
    const std::int64_t count = std::min(kPanel, end - column);
    for (std::int64_t k = 0; k < p.depth; k += kDepth) {
      const std::int64_t depth = std::min(kDepth, p.depth - k);
      for (std::int64_t c = 0; c < count; ++c)
        dequantize_blocks<Q>(p.rhs + (column + c) * row_bytes + k / Q::kElements * Q::kBytes, 0,
                             depth / Q::kElements, panel + c * kDepth);
      const float* lhs = p.lhs + k;
      float* to = p.result + column;
      std::int64_t r = 0;
      for (; r + kRows <= p.rows; r += kRows) {
        const float* a = lhs + r * p.depth;
        std::int64_t c = 0;
        for (; c + kColumns <= count; c += kColumns)
          tile<kLanes, kRows, kColumns>(a, p.depth, panel + c * kDepth, depth,
                                        to + r * p.columns + c, p.columns, k == 0);
        for (; c < count; ++c)
          tile<kLanes, kRows, 1>(a, p.depth, panel + c * kDepth, depth, to + r * p.columns + c,
                                 p.columns, k == 0);
      }
      for (; r < p.rows; ++r) {
        const float* a = lhs + r * p.depth;
        std::int64_t c = 0;
        for (; c + kColumns <= count; c += kColumns)
          tile<kLanes, 1, kColumns>(a, p.depth, panel + c * kDepth, depth, to + r * p.columns + c,
                                    p.columns, k == 0);
        for (; c < count; ++c)
          tile<kLanes, 1, 1>(a, p.depth, panel + c * kDepth, depth, to + r * p.columns + c,
                             p.columns, k == 0);
      }
    }
  }
}

using Dequantize = void (*)(const Byte*, std::int64_t begin, std::int64_t end, float*);
using Multiply = void (*)(const Product&, std::int64_t begin, std::int64_t end, float* panel);

struct Functions {
  Dequantize dequantize;
  Multiply multiply;
};

// A row of the table: the functions of an instruction set, one after the other by encoding.
#define KILN_QUANTIZED_FOR(name, target, lanes, rows, columns)                          \
  template <typename Q>                                                                 \
  target void dequantize_##name(const Byte* from, std::int64_t begin, std::int64_t end, \
                                float* to) {                                            \
    dequantize_blocks<Q>(from, begin, end, to);                                         \
  }                                                                                     \
  template <typename Q>                                                                 \
  target void multiply_##name(const Product& p, std::int64_t begin, std::int64_t end,   \
                              float* panel) {                                           \
    product_columns<Q, lanes, rows, columns>(p, begin, end, panel);                     \
  }                                                                                     \
  Functions functions_##name(Encoding encoding) {                                       \
    switch (encoding) {                                                                 \
      case Encoding::Q4_0:                                                              \
        return {dequantize_##name<Q4_0>, multiply_##name<Q4_0>};                        \
      case Encoding::Q8_0:                                                              \
        return {dequantize_##name<Q8_0>, multiply_##name<Q8_0>};                        \
      case Encoding::Q4_K:                                                              \
        return {dequantize_##name<Q4_K>, multiply_##name<Q4_K>};                        \
      case Encoding::Q6_K:                                                              \
        return {dequantize_##name<Q6_K>, multiply_##name<Q6_K>};                        \
      default:                                                                          \
        return {};                                                                      \
    }                                                                                   \
  }

KILN_QUANTIZED_FOR(generic, , 4, 2, 2)
#if defined(__x86_64__)
KILN_QUANTIZED_FOR(avx2, [[gnu::target("avx2,fma")]], 8, 3, 4)
KILN_QUANTIZED_FOR(avx512, [[gnu::target("avx512f,avx512bw,avx512vl,fma")]], 16, 4, 4)
#endif
#undef KILN_QUANTIZED_FOR

Functions functions_of(Encoding encoding) {
#if defined(__x86_64__)
  static const bool avx512 =
      host_has_feature("avx512f") && host_has_feature("avx512bw") && host_has_feature("avx512vl");
  static const bool avx2 = host_has_feature("avx2") && host_has_feature("fma");
  if (avx512) return functions_avx512(encoding);
  if (avx2) return functions_avx2(encoding);
#endif
  return functions_generic(encoding);
}

}  // namespace

bool can_dequantize(Encoding encoding) { return functions_generic(encoding).dequantize != nullptr; }

void dequantize(Encoding encoding, const void* blocks, std::int64_t count, float* elements,
                int threads) {
  const Dequantize run = functions_of(encoding).dequantize;
  KILN_CHECK(run != nullptr, "an encoding that nobody can dequantise");
  parallel_for(count, kGrain / graph::elements_per_block(encoding), threads,
               [&](std::int64_t begin, std::int64_t end, std::int64_t) {
                 run(static_cast<const Byte*>(blocks), begin, end, elements);
               });
}

void quantized_matmul(Encoding encoding, const float* lhs, const void* rhs, float* result,
                      std::int64_t rows, std::int64_t depth, std::int64_t columns, int threads) {
  const Multiply run = functions_of(encoding).multiply;
  KILN_CHECK(run != nullptr, "an encoding that nobody can dequantise");
  if (rows <= 0 || columns <= 0) return;
  if (depth == 0) {
    std::fill_n(result, rows * columns, 0.0f);
    return;
  }
  const Product product{lhs, static_cast<const Byte*>(rhs), result, rows, depth, columns};
  const std::int64_t panels = (columns + kPanel - 1) / kPanel;
  const std::int64_t work = kPanel * depth * (1 + rows / 4);
  parallel_for(panels, std::max<std::int64_t>(1, kGrain / work), threads,
               [&](std::int64_t begin, std::int64_t end, std::int64_t) {
                 std::vector<float> panel(static_cast<std::size_t>(kPanel * kDepth));
                 run(product, begin * kPanel, std::min(columns, end * kPanel), panel.data());
               });
}

}  // namespace kiln::runtime
