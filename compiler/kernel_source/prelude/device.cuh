// The vocabulary of kiln::gpu on NVIDIA GPUs, and the words of the language.

namespace kiln::gpu {
__kiln_get(ThreadIdx, __nvvm_read_ptx_sreg_tid_x(), __nvvm_read_ptx_sreg_tid_y(),
           __nvvm_read_ptx_sreg_tid_z())
__kiln_get(BlockIdx, __nvvm_read_ptx_sreg_ctaid_x(), __nvvm_read_ptx_sreg_ctaid_y(),
           __nvvm_read_ptx_sreg_ctaid_z())
__kiln_get(BlockDim, __nvvm_read_ptx_sreg_ntid_x(), __nvvm_read_ptx_sreg_ntid_y(),
           __nvvm_read_ptx_sreg_ntid_z())
__kiln_get(GridDim, __nvvm_read_ptx_sreg_nctaid_x(), __nvvm_read_ptx_sreg_nctaid_y(),
           __nvvm_read_ptx_sreg_nctaid_z())
#if __CUDA_ARCH__ >= 900
__kiln_get(ClusterIdx, __nvvm_read_ptx_sreg_clusterid_x(), __nvvm_read_ptx_sreg_clusterid_y(),
           __nvvm_read_ptx_sreg_clusterid_z())
__kiln_get(ClusterDim, __nvvm_read_ptx_sreg_cluster_nctaid_x(),
           __nvvm_read_ptx_sreg_cluster_nctaid_y(), __nvvm_read_ptx_sreg_cluster_nctaid_z())
#else
__kiln_get(ClusterIdx, block_idx.x, block_idx.y, block_idx.z)
__kiln_get(ClusterDim, 1, 1, 1)
#endif

template <class = void>
__kiln_inline void barrier() { __syncthreads(); }

template <class T, int N, auto Site = [] {}>
__kiln_inline T (&shared())[N] {
  static __attribute__((shared)) __attribute__((aligned(16))) T memory[N];
  return memory;
}

extern __attribute__((shared)) unsigned char __kiln_dynamic[] __attribute__((aligned(16)));
template <class T>
__kiln_inline T* dynamic_shared() {
  return reinterpret_cast<T*>(__kiln_dynamic);
}

// Clang gives the scope of the device to these, and to __scoped_atomic_compare_exchange that of the
// system.
#define __kiln_scope , __MEMORY_SCOPE_DEVICE
#define __kiln_atomic(name) __scoped_atomic_##name
__kiln_inline unsigned short __compare_exchange(unsigned short* place, unsigned short expected,
                                                unsigned short desired) {
  return __nvvm_atom_cas_gen_us(place, expected, desired);
}
__kiln_inline unsigned __compare_exchange(unsigned* place, unsigned expected, unsigned desired) {
  return __nvvm_atom_cas_gen_i(reinterpret_cast<int*>(place), expected, desired);
}
__kiln_inline unsigned long long __compare_exchange(unsigned long long* place,
                                                    unsigned long long expected,
                                                    unsigned long long desired) {
  return __nvvm_atom_cas_gen_ll(reinterpret_cast<long long*>(place), expected, desired);
}

template <class = void>
__kiln_inline unsigned lane_id() { return __nvvm_read_ptx_sreg_laneid(); }
template <class = void>
__kiln_inline constexpr unsigned warp_size() { return 32; }
template <class = void>
__kiln_inline void warp_sync() { __nvvm_bar_warp_sync(0xffffffffu); }
template <class = void>
__kiln_inline unsigned ballot(bool value) { return __nvvm_vote_ballot_sync(0xffffffffu, value); }
template <class = void>
__kiln_inline bool warp_any(bool value) { return __nvvm_vote_any_sync(0xffffffffu, value); }
template <class = void>
__kiln_inline bool warp_all(bool value) { return __nvvm_vote_all_sync(0xffffffffu, value); }

// Values of any size go in pieces of 4 bytes.
#define __kiln_shuffle(kind, clamp)                                                             \
  template <class T>                                                                            \
  __kiln_inline T __shuffle_##kind(unsigned mask, T value, int by, int width) {                 \
    constexpr int kWords = (sizeof(T) + 3) / 4;                                                 \
    int words[kWords] = {};                                                                     \
    __builtin_memcpy(words, &value, sizeof(T));                                                 \
    _Pragma("unroll") for (int i = 0; i < kWords; ++i) words[i] =                               \
        __nvvm_shfl_sync_##kind##_i32(mask, words[i], by, ((32 - width) << 8) | clamp);         \
    __builtin_memcpy(&value, words, sizeof(T));                                                 \
    return value;                                                                               \
  }
__kiln_shuffle(idx, 31) __kiln_shuffle(up, 0) __kiln_shuffle(down, 31) __kiln_shuffle(bfly, 31)
#undef __kiln_shuffle
template <class T>
__kiln_inline T shuffle_idx(T value, unsigned lane) {
  return __shuffle_idx(0xffffffffu, value, lane, 32);
}
template <class T>
__kiln_inline T shuffle_up(T value, unsigned delta) {
  return __shuffle_up(0xffffffffu, value, delta, 32);
}
template <class T>
__kiln_inline T shuffle_down(T value, unsigned delta) {
  return __shuffle_down(0xffffffffu, value, delta, 32);
}
template <class T>
__kiln_inline T shuffle_xor(T value, unsigned mask) {
  return __shuffle_bfly(0xffffffffu, value, mask, 32);
}
}  // namespace kiln::gpu
