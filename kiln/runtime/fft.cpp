#include "kiln/runtime/fft.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <numbers>
#include <vector>

#include "kiln/support/thread_pool.h"

namespace kiln::runtime {
namespace {

// Numbers that are worth another thread.
constexpr std::int64_t kGrain = 4096;
// Larger prime factors go through a transform whose size is a power of two.
constexpr std::int64_t kLargestRadix = 31;

/// std::complex looks for NaN in every product.
struct Complex {
  double re = 0, im = 0;

  Complex operator+(Complex b) const { return {re + b.re, im + b.im}; }
  Complex operator-(Complex b) const { return {re - b.re, im - b.im}; }
  Complex operator*(Complex b) const { return {re * b.re - im * b.im, re * b.im + im * b.re}; }
  Complex operator*(double b) const { return {re * b, im * b}; }
  Complex conjugate() const { return {re, -im}; }
  Complex times_i() const { return {-im, re}; }
};

/// e^{2πi · number / of}, exact at the quarters.
Complex root_of_unity(std::int64_t number, std::int64_t of) {
  const double angle =
      2 * std::numbers::pi * static_cast<double>(number % of) / static_cast<double>(of);
  return {std::cos(angle), std::sin(angle)};
}

/// The transform Σ_k x_k · e^{2πikt/n} of a size; one serves many threads.
class Transform {
 public:
  explicit Transform(std::int64_t n) : n_(n) {
    std::int64_t rest = n;
    for (const std::int64_t radix : {4, 2, 3, 5})
      for (; rest % radix == 0; rest /= radix) factors_.push_back(radix);
    for (std::int64_t radix = 7; radix <= kLargestRadix; radix += 2)
      for (; rest % radix == 0; rest /= radix) factors_.push_back(radix);
    if (rest > 1) {
      prepare_chirp();
      return;
    }
    roots_.resize(static_cast<std::size_t>(n));
    for (std::int64_t k = 0; k < n; ++k) roots_[static_cast<std::size_t>(k)] = root_of_unity(k, n);
  }

  /// Complex numbers of working memory that `run` needs.
  std::size_t scratch() const { return power_ ? 2 * static_cast<std::size_t>(power_->n_) : 0; }

  void run(const Complex* from, Complex* to, Complex* scratch) const {
    if (power_)
      through_chirp(from, to, scratch);
    else
      step(from, to, n_, 1, 0);
  }

 private:
  Complex root(std::int64_t k) const { return roots_[static_cast<std::size_t>(k)]; }

  /// Decimation in time: transforms of every p-th number, then butterflies of p of their results.
  void step(const Complex* from, Complex* to, std::int64_t n, std::int64_t stride,
            std::size_t factor) const {
    if (n == 1) {
      to[0] = from[0];
      return;
    }
    const std::int64_t p = factors_[factor], m = n / p;
    if (m == 1)
      for (std::int64_t r = 0; r < p; ++r) to[r] = from[r * stride];
    else
      for (std::int64_t r = 0; r < p; ++r)
        step(from + r * stride, to + r * m, m, stride * p, factor + 1);
    switch (p) {
      case 2:
        return butterflies_of_2(to, m, stride);
      case 3:
        return butterflies_of_3(to, m, stride);
      case 4:
        return butterflies_of_4(to, m, stride);
      case 5:
        return butterflies_of_5(to, m, stride);
      default:
        return butterflies(to, m, stride, p);
    }
  }

  void butterflies_of_2(Complex* x, std::int64_t m, std::int64_t stride) const {
    for (std::int64_t k = 0; k < m; ++k) {
      const Complex a = x[k], b = x[k + m] * root(k * stride);
      x[k] = a + b;
      x[k + m] = a - b;
    }
  }

  void butterflies_of_4(Complex* x, std::int64_t m, std::int64_t stride) const {
    for (std::int64_t k = 0; k < m; ++k) {
      const Complex a = x[k], b = x[k + m] * root(k * stride),
                    c = x[k + 2 * m] * root(2 * k * stride),
                    d = x[k + 3 * m] * root(3 * k * stride);
      const Complex even = a + c, odd = a - c, sum = b + d, turned = (b - d).times_i();
      x[k] = even + sum;
      x[k + m] = odd + turned;
      x[k + 2 * m] = even - sum;
      x[k + 3 * m] = odd - turned;
    }
  }

  void butterflies_of_3(Complex* x, std::int64_t m, std::int64_t stride) const {
    const double half_turn = root(m * stride).im;  // sin 2π/3; the cosine is -1/2
    for (std::int64_t k = 0; k < m; ++k) {
      const Complex a = x[k], b = x[k + m] * root(k * stride),
                    c = x[k + 2 * m] * root(2 * k * stride);
      const Complex sum = b + c, turned = ((b - c) * half_turn).times_i();
      const Complex middle = a + sum * -0.5;
      x[k] = a + sum;
      x[k + m] = middle + turned;
      x[k + 2 * m] = middle - turned;
    }
  }

  void butterflies_of_5(Complex* x, std::int64_t m, std::int64_t stride) const {
    const Complex first = root(m * stride), second = root(2 * m * stride);
    for (std::int64_t k = 0; k < m; ++k) {
      const Complex a = x[k], b = x[k + m] * root(k * stride),
                    c = x[k + 2 * m] * root(2 * k * stride),
                    d = x[k + 3 * m] * root(3 * k * stride),
                    e = x[k + 4 * m] * root(4 * k * stride);
      const Complex outer = b + e, inner = c + d, outer_gap = b - e, inner_gap = c - d;
      const Complex even1 = a + outer * first.re + inner * second.re,
                    even2 = a + outer * second.re + inner * first.re,
                    odd1 = (outer_gap * first.im + inner_gap * second.im).times_i(),
                    odd2 = (outer_gap * second.im - inner_gap * first.im).times_i();
      x[k] = a + outer + inner;
      x[k + m] = even1 + odd1;
      x[k + 2 * m] = even2 + odd2;
      x[k + 3 * m] = even2 - odd2;
      x[k + 4 * m] = even1 - odd1;
    }
  }

  void butterflies(Complex* x, std::int64_t m, std::int64_t stride, std::int64_t p) const {
    Complex part[kLargestRadix], turns[kLargestRadix];
    for (std::int64_t q = 0; q < p; ++q) turns[q] = root(q * m * stride);
    for (std::int64_t k = 0; k < m; ++k) {
      for (std::int64_t r = 0; r < p; ++r) part[r] = x[k + r * m] * root(r * k * stride);
      for (std::int64_t q = 0; q < p; ++q) {
        Complex sum = part[0];
        for (std::int64_t r = 1, turn = q; r < p; ++r, turn += q) {
          if (turn >= p) turn -= p;
          sum = sum + part[r] * turns[turn];
        }
        x[k + q * m] = sum;
      }
    }
  }

  // Bluestein: kt = (k² + t² − (t − k)²) / 2 makes the transform a convolution with a chirp.

  void prepare_chirp() {
    std::int64_t size = 1;
    while (size < 2 * n_ - 1) size *= 2;
    power_ = std::make_unique<Transform>(size);
    roots_.resize(static_cast<std::size_t>(n_));
    std::vector<Complex> filter(static_cast<std::size_t>(size));
    std::int64_t square = 0;  // k² modulo 2n
    for (std::int64_t k = 0; k < n_; ++k) {
      roots_[static_cast<std::size_t>(k)] = root_of_unity(square, 2 * n_);
      square = (square + 2 * k + 1) % (2 * n_);
      const Complex chirp = root(k).conjugate();
      filter[static_cast<std::size_t>(k)] = chirp;
      if (k > 0) filter[static_cast<std::size_t>(size - k)] = chirp;
    }
    filter_.resize(filter.size());
    power_->run(filter.data(), filter_.data(), nullptr);
    for (Complex& number : filter_) number = number * (1 / static_cast<double>(size));
  }

  void through_chirp(const Complex* from, Complex* to, Complex* scratch) const {
    const std::int64_t size = power_->n_;
    Complex *padded = scratch, *spectrum = scratch + size;
    for (std::int64_t k = 0; k < n_; ++k) padded[k] = from[k] * root(k);
    std::fill(padded + n_, padded + size, Complex{});
    power_->run(padded, spectrum, nullptr);
    // The way back is the transform of the conjugate, conjugated.
    for (std::int64_t k = 0; k < size; ++k)
      padded[k] = (spectrum[k] * filter_[static_cast<std::size_t>(k)]).conjugate();
    power_->run(padded, spectrum, nullptr);
    for (std::int64_t t = 0; t < n_; ++t) to[t] = spectrum[t].conjugate() * root(t);
  }

  std::int64_t n_;
  std::vector<std::int64_t> factors_;
  std::vector<Complex> roots_;  // of unity, or the chirp
  std::unique_ptr<Transform> power_;
  std::vector<Complex> filter_;
};

/// Transforms line by line. An even n takes a complex transform of half the size, whose real and
/// imaginary parts are the even and the odd numbers of the result.
class Lines {
 public:
  Lines(const float* source, float* result, const InverseRealFft& fft)
      : source_(source),
        result_(result),
        fft_(fft),
        half_(fft.n % 2 == 0),
        size_(half_ ? fft.n / 2 : fft.n),
        transform_(size_) {
    if (!half_) return;
    for (std::int64_t k = 0; k < size_; ++k) turns_.push_back(root_of_unity(k, fft.n).times_i());
  }

  void run(std::int64_t begin, std::int64_t end) const {
    const auto size = static_cast<std::size_t>(size_);
    std::vector<Complex> spectrum(static_cast<std::size_t>(fft_.n / 2 + 1)), packed(size),
        numbers(size), scratch(transform_.scratch());
    for (std::int64_t line = begin; line < end; ++line) {
      const std::int64_t outer = line / fft_.inner, inner = line % fft_.inner;
      read(outer * fft_.size * fft_.inner + inner, spectrum);
      pack(spectrum, packed);
      transform_.run(packed.data(), numbers.data(), scratch.data());
      float* to = result_ + outer * fft_.n * fft_.inner + inner;
      const auto put = [&](std::int64_t t, double value) {
        to[t * fft_.inner] = static_cast<float>(value * fft_.scale);
      };
      for (std::int64_t t = 0; t < size_; ++t) {
        const Complex number = numbers[static_cast<std::size_t>(t)];
        put(half_ ? 2 * t : t, number.re);
        if (half_) put(2 * t + 1, number.im);
      }
    }
  }

 private:
  void read(std::int64_t first, std::vector<Complex>& spectrum) const {
    const auto count = std::min<std::int64_t>(fft_.size, fft_.n / 2 + 1);
    std::fill(spectrum.begin(), spectrum.end(), Complex{});
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t at = first + k * fft_.inner;
      spectrum[static_cast<std::size_t>(k)] =
          fft_.is_complex ? Complex{source_[2 * at], source_[2 * at + 1]} : Complex{source_[at], 0};
    }
    spectrum.front().im = 0;
    if (half_) spectrum.back().im = 0;
  }

  void pack(const std::vector<Complex>& x, std::vector<Complex>& packed) const {
    const auto size = static_cast<std::size_t>(size_);
    if (!half_) {
      packed[0] = x[0];
      for (std::size_t k = 1; k < x.size(); ++k) {
        packed[k] = x[k];
        packed[size - k] = x[k].conjugate();
      }
      return;
    }
    for (std::size_t k = 0; k < size; ++k) {
      const Complex mirror = x[size - k].conjugate();
      packed[k] = x[k] + mirror + (x[k] - mirror) * turns_[k];
    }
  }

  const float* source_;
  float* result_;
  InverseRealFft fft_;
  bool half_;
  std::int64_t size_;
  Transform transform_;
  std::vector<Complex> turns_;
};

}  // namespace

void inverse_real_fft(const float* source, float* result, const InverseRealFft& fft, int threads) {
  if (fft.outer <= 0 || fft.inner <= 0 || fft.n <= 0) return;
  const Lines lines(source, result, fft);
  parallel_for(fft.outer * fft.inner, std::max<std::int64_t>(1, kGrain / fft.n), threads,
               [&](std::int64_t begin, std::int64_t end, std::int64_t) { lines.run(begin, end); });
}

}  // namespace kiln::runtime
