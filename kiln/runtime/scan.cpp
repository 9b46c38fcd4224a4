#include "kiln/runtime/scan.h"

#include <algorithm>
#include <array>
#include <concepts>
#include <type_traits>

#include "kiln/runtime/element_types.h"
#include "kiln/support/thread_pool.h"

namespace kiln::runtime {
namespace {

// Elements that are worth another thread.
constexpr std::int64_t kGrain = 32768;
// Neighbouring lines that are summed side by side.
constexpr std::int64_t kLines = 64;

template <typename T>
auto accumulator_of(T value) {
  if constexpr (std::integral<T>)
    return static_cast<std::make_unsigned_t<T>>(value);
  else
    return static_cast<double>(value);
}

template <typename T>
class Scan {
 public:
  using Sum = decltype(accumulator_of(T{}));

  Scan(const void* source, void* sums, std::int64_t n, std::int64_t inner, bool exclusive,
       bool reverse)
      : source_(static_cast<const T*>(source)),
        sums_(static_cast<T*>(sums)),
        n_(n),
        inner_(inner),
        blocks_((inner + kLines - 1) / kLines),
        exclusive_(exclusive),
        reverse_(reverse) {}

  std::int64_t blocks() const { return blocks_; }

  void run(std::int64_t begin, std::int64_t end) const {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t first = unit % blocks_ * kLines;
      const std::int64_t at = unit / blocks_ * n_ * inner_ + first;
      const std::int64_t lines = std::min(kLines, inner_ - first);
      if (lines == 1)
        line(source_ + at, sums_ + at);
      else
        block(source_ + at, sums_ + at, lines);
    }
  }

 private:
  void line(const T* from, T* to) const {
    Sum sum{};
    for (std::int64_t i = 0; i < n_; ++i) {
      const std::int64_t at = (reverse_ ? n_ - 1 - i : i) * inner_;
      const Sum before = sum;
      sum = static_cast<Sum>(sum + accumulator_of(from[at]));
      to[at] = static_cast<T>(exclusive_ ? before : sum);
    }
  }

  void block(const T* from, T* to, std::int64_t lines) const {
    std::array<Sum, kLines> sums{};
    for (std::int64_t i = 0; i < n_; ++i) {
      const std::int64_t at = (reverse_ ? n_ - 1 - i : i) * inner_;
      for (std::int64_t k = 0; k < lines; ++k) {
        Sum& sum = sums[static_cast<std::size_t>(k)];
        const Sum before = sum;
        sum = static_cast<Sum>(sum + accumulator_of(from[at + k]));
        to[at + k] = static_cast<T>(exclusive_ ? before : sum);
      }
    }
  }

  const T* source_;
  T* sums_;
  std::int64_t n_, inner_, blocks_;
  bool exclusive_, reverse_;
};

}  // namespace

void cumsum(DType dtype, const void* source, void* sums, std::int64_t outer, std::int64_t n,
            std::int64_t inner, bool exclusive, bool reverse, int threads) {
  if (outer <= 0 || n <= 0 || inner <= 0) return;
  with_type(dtype, [&]<typename T>(T) {
    const Scan<T> scan(source, sums, n, inner, exclusive, reverse);
    const std::int64_t length = n * std::min(inner, kLines);
    parallel_for(outer * scan.blocks(), std::max<std::int64_t>(1, kGrain / length), threads,
                 [&](std::int64_t begin, std::int64_t end, std::int64_t) { scan.run(begin, end); });
  });
}

}  // namespace kiln::runtime
