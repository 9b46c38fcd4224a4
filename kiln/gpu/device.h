#pragma once

// The words of kernels when they run on the host: what bodies of KILN_KERNEL and KILN_CLOSURE and
// host functions launched on a CPU context may use. The compiler of kernel sources has the same
// names for devices.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <type_traits>

#include "kiln/dtype/float_formats.h"
#include "kiln/gpu/cpu_grid.h"

namespace kiln::gpu {

/// Three unsigned components.
struct Index3 {
  unsigned x = 0, y = 0, z = 0;
};

namespace detail {

/// Where a thread stands.
struct ThreadIndices {
  Index3 thread_idx, block_idx, block_dim, grid_dim, global_idx;
  Index3 cluster_idx{0, 0, 0}, cluster_dim{1, 1, 1};
};

/// One component of an index variable, read from the block that runs.
template <typename Read>
struct Component {
  operator unsigned() const {  // NOLINT
    const runtime::KernelBlock* block = current_block;
    return block != nullptr ? Read()(*block) : 0;
  }
};

using runtime::KernelBlock;
template <int I>
struct ReadThread {
  unsigned operator()(const KernelBlock& b) const {
    const unsigned row = b.thread / b.block_dim[0];
    return I == 0   ? b.thread % b.block_dim[0]
           : I == 1 ? row % b.block_dim[1]
                    : row / b.block_dim[1];
  }
};
template <int I>
struct ReadBlock {
  unsigned operator()(const KernelBlock& b) const { return b.block_idx[I]; }
};
template <int I>
struct ReadBlockDim {
  unsigned operator()(const KernelBlock& b) const { return b.block_dim[I]; }
};
template <int I>
struct ReadGridDim {
  unsigned operator()(const KernelBlock& b) const { return b.grid_dim[I]; }
};
template <int I>
struct ReadGlobal {
  unsigned operator()(const KernelBlock& b) const {
    return b.block_idx[I] * b.block_dim[I] + ReadThread<I>()(b);
  }
};
template <int Value>
struct ReadConstant {
  unsigned operator()(const KernelBlock&) const { return Value; }
};
template <template <int> class Read>
struct IndexVariable {
  Component<Read<0>> x;
  Component<Read<1>> y;
  Component<Read<2>> z;
};
template <int Value>
struct ConstantVariable {
  Component<ReadConstant<Value>> x, y, z;
};

}  // namespace detail

// Index variables of host functions; kernel bodies have their own, which the compiler sees through.
inline constexpr detail::IndexVariable<detail::ReadThread> thread_idx;
inline constexpr detail::IndexVariable<detail::ReadBlock> block_idx;
inline constexpr detail::IndexVariable<detail::ReadBlockDim> block_dim;
inline constexpr detail::IndexVariable<detail::ReadGridDim> grid_dim;
inline constexpr detail::IndexVariable<detail::ReadGlobal> global_idx;
inline constexpr detail::ConstantVariable<0> cluster_idx;
inline constexpr detail::ConstantVariable<1> cluster_dim;

/// Waits until all threads of the block that have not ended are here.
inline void barrier() {
  runtime::KernelBlock* block = detail::current_block;
  if (block != nullptr) block->barrier(block);
}

/// An array that the threads of a block share, a different one for each place in the text; its
/// contents are unspecified at first.
template <typename T, std::size_t N, auto Site = [] {}>
T (&shared())
[N] {
  static const char site = 0;
  runtime::KernelBlock* block = detail::current_block;
  return *static_cast<T(*)[N]>(block->shared(block, &site, sizeof(T[N])));
}
/// The launch's `shared_mem_bytes`.
template <typename T>
T* dynamic_shared() {
  return static_cast<T*>(detail::current_block->dynamic_shared);
}

// Atomic operations, relaxed; each returns the value before it.
template <typename T>
T atomic_add(T* at, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*at).fetch_add(value, std::memory_order_relaxed);
}
template <typename T>
T atomic_sub(T* at, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*at).fetch_sub(value, std::memory_order_relaxed);
}
template <typename T>
T atomic_exchange(T* at, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*at).exchange(value, std::memory_order_relaxed);
}
/// Stores `desired` where `expected` is found.
template <typename T>
T atomic_compare_exchange(T* at, std::type_identity_t<T> expected,
                          std::type_identity_t<T> desired) {
  std::atomic_ref<T>(*at).compare_exchange_strong(expected, desired, std::memory_order_relaxed);
  return expected;
}
namespace detail {
template <typename T, typename F>
T atomic_update(T* at, F next) {
  std::atomic_ref<T> cell(*at);
  T old = cell.load(std::memory_order_relaxed);
  while (!cell.compare_exchange_weak(old, next(old), std::memory_order_relaxed)) {
  }
  return old;
}
}  // namespace detail
template <typename T>
T atomic_max(T* at, std::type_identity_t<T> value) {
  return detail::atomic_update(at, [&](T old) { return old < value ? value : old; });
}
template <typename T>
T atomic_min(T* at, std::type_identity_t<T> value) {
  return detail::atomic_update(at, [&](T old) { return value < old ? value : old; });
}
template <typename T>
T atomic_and(T* at, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*at).fetch_and(value, std::memory_order_relaxed);
}
template <typename T>
T atomic_or(T* at, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*at).fetch_or(value, std::memory_order_relaxed);
}
template <typename T>
T atomic_xor(T* at, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*at).fetch_xor(value, std::memory_order_relaxed);
}

// Warps of the host have one thread.
inline unsigned warp_size() { return 1; }
inline unsigned lane_id() { return 0; }
inline void warp_sync() {}
template <typename T>
T shuffle_idx(T value, unsigned) {
  return value;
}
template <typename T>
T shuffle_up(T value, unsigned) {
  return value;
}
template <typename T>
T shuffle_down(T value, unsigned) {
  return value;
}
template <typename T>
T shuffle_xor(T value, unsigned) {
  return value;
}
inline unsigned ballot(bool predicate) { return predicate ? 1 : 0; }
inline bool warp_any(bool predicate) { return predicate; }
inline bool warp_all(bool predicate) { return predicate; }

// Mathematics, in the type of the argument.
using std::abs;
using std::acos;
using std::acosh;
using std::asin;
using std::asinh;
using std::atan;
using std::atan2;
using std::atanh;
using std::cbrt;
using std::ceil;
using std::copysign;
using std::cos;
using std::cosh;
using std::erf;
using std::erfc;
using std::exp;
using std::exp2;
using std::expm1;
using std::floor;
using std::fma;
using std::fmod;
using std::hypot;
using std::isfinite;
using std::isinf;
using std::isnan;
using std::lgamma;
using std::log;
using std::log10;
using std::log1p;
using std::log2;
using std::pow;
using std::rint;
using std::round;
using std::sin;
using std::sinh;
using std::sqrt;
using std::tan;
using std::tanh;
using std::tgamma;
using std::trunc;
inline float rsqrt(float x) { return 1.0F / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
template <typename T>
constexpr T min(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
constexpr T max(T a, T b) {
  return a < b ? b : a;
}
// A number beats NaN, as on devices.
inline float min(float a, float b) { return std::fmin(a, b); }
inline double min(double a, double b) { return std::fmin(a, b); }
inline float max(float a, float b) { return std::fmax(a, b); }
inline double max(double a, double b) { return std::fmax(a, b); }

using kiln::bfloat16;
using kiln::float16;
using std::printf;

}  // namespace kiln::gpu
