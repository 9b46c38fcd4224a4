#pragma once

#include <cstdint>

namespace kiln::runtime {

/// The shape of a tensor of spectra and what is made of them.
struct InverseRealFft {
  std::int64_t outer;  // lines lie along the middle one of three axes
  std::int64_t size;   // of a line of the input
  std::int64_t inner;
  std::int64_t n;   // of a line of the result, at least 1
  bool is_complex;  // each number of the input is a real and an imaginary part
  double scale;
};

/// scale · Σ_k X_k · e^{2πikt/n} for t below n, where X is the Hermitian spectrum of length n whose
/// first half is a line of the input, cut or padded with zeros to n / 2 + 1 numbers. Worked out in
/// float64 by a mixed-radix transform, for large primes by Bluestein's. Lines are shared by up to
/// `threads` threads.
void inverse_real_fft(const float* source, float* result, const InverseRealFft& fft, int threads);

}  // namespace kiln::runtime
