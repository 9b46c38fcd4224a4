// Atomics of kiln::gpu: device scope, no order. Each returns what was there before.

namespace kiln::gpu {
template <class T>
struct __same {
  using type = T;
};
template <int Bytes>
struct __bits_of;
template <>
struct __bits_of<2> {
  using type = unsigned short;
};
template <>
struct __bits_of<4> {
  using type = unsigned;
};
template <>
struct __bits_of<8> {
  using type = unsigned long long;
};
template <class T>
using __as_is = typename __same<T>::type;
template <class T>
inline constexpr bool __is_number = __is_arithmetic(T) && sizeof(T) >= 4;

template <class T>
__kiln_inline T atomic_compare_exchange(T* place, __as_is<T> expected, __as_is<T> desired) {
  using B = typename __bits_of<sizeof(T)>::type;
  return __builtin_bit_cast(
      T, __compare_exchange(reinterpret_cast<B*>(place), __builtin_bit_cast(B, expected),
                            __builtin_bit_cast(B, desired)));
}
// For what no instruction does.
template <class T, class F>
__kiln_inline T __atomic_loop(T* place, F change) {
  using B = typename __bits_of<sizeof(T)>::type;
  T before = __builtin_bit_cast(T, *reinterpret_cast<volatile B*>(place));
  for (;;) {
    T found = atomic_compare_exchange(place, before, change(before));
    if (__builtin_bit_cast(B, found) == __builtin_bit_cast(B, before)) return before;
    before = found;
  }
}
template <class T>
__kiln_inline T atomic_exchange(T* place, __as_is<T> value) {
  using B = typename __bits_of<sizeof(T)>::type;
  return __builtin_bit_cast(
      T, __kiln_atomic(exchange_n)(reinterpret_cast<B*>(place), __builtin_bit_cast(B, value),
                                   __ATOMIC_RELAXED __kiln_scope));
}
template <class T>
__kiln_inline T atomic_add(T* place, __as_is<T> value) {
  if constexpr (__is_number<T>)
    return __kiln_atomic(fetch_add)(place, value, __ATOMIC_RELAXED __kiln_scope);
  else
    return __atomic_loop(place, [=](T old) { return T(old + value); });
}
template <class T>
__kiln_inline T atomic_sub(T* place, __as_is<T> value) {
  if constexpr (__is_integral(T) && sizeof(T) >= 4)
    return __kiln_atomic(fetch_sub)(place, value, __ATOMIC_RELAXED __kiln_scope);
  else
    return atomic_add(place, T(-value));
}
template <class T>
__kiln_inline T atomic_max(T* place, __as_is<T> value) {
  if constexpr (__is_integral(T) && sizeof(T) >= 4)
    return __kiln_atomic(fetch_max)(place, value, __ATOMIC_RELAXED __kiln_scope);
  else
    return __atomic_loop(place, [=](T old) { return old < value || old != old ? value : old; });
}
template <class T>
__kiln_inline T atomic_min(T* place, __as_is<T> value) {
  if constexpr (__is_integral(T) && sizeof(T) >= 4)
    return __kiln_atomic(fetch_min)(place, value, __ATOMIC_RELAXED __kiln_scope);
  else
    return __atomic_loop(place, [=](T old) { return value < old || old != old ? value : old; });
}
template <class T>
__kiln_inline T atomic_and(T* place, __as_is<T> value) {
  return __kiln_atomic(fetch_and)(place, value, __ATOMIC_RELAXED __kiln_scope);
}
template <class T>
__kiln_inline T atomic_or(T* place, __as_is<T> value) {
  return __kiln_atomic(fetch_or)(place, value, __ATOMIC_RELAXED __kiln_scope);
}
template <class T>
__kiln_inline T atomic_xor(T* place, __as_is<T> value) {
  return __kiln_atomic(fetch_xor)(place, value, __ATOMIC_RELAXED __kiln_scope);
}
}  // namespace kiln::gpu
