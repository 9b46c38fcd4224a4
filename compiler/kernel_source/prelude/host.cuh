// The vocabulary of kiln::gpu on the host: kiln/runtime/kernel_abi.h says who runs the threads.

namespace kiln::gpu {
// runtime::KernelBlock.
struct __kiln_block {
  unsigned grid_dim[3];
  unsigned block_dim[3];
  unsigned block_idx[3];
  unsigned thread;
  unsigned num_threads;
  unsigned dynamic_shared_bytes;
  void* dynamic_shared;
  void (*barrier)(__kiln_block*);
  void* (*shared)(__kiln_block*, const void*, size_t);
};
// What a thread knows of itself. It lies on the stack of the function that runs the threads.
struct __kiln_state {
  unsigned x, y, z;
  bool waited;
  unsigned grid_dim[3], block_dim[3], block_idx[3];
  __kiln_block* block;
};
// The compiler puts the state of the running thread, and whether a thread can wait, in their place.
extern "C" __attribute__((const, nothrow)) __kiln_state* __kiln_current();
extern "C" __attribute__((nothrow)) void __kiln_set_current(__kiln_state*);
extern "C" __attribute__((nothrow)) void __kiln_wait();
extern "C" __attribute__((nothrow)) bool __kiln_may_wait();

__kiln_get(ThreadIdx, __kiln_current()->x, __kiln_current()->y, __kiln_current()->z)
__kiln_get(BlockIdx, __kiln_current()->block_idx[0], __kiln_current()->block_idx[1],
           __kiln_current()->block_idx[2])
__kiln_get(BlockDim, __kiln_current()->block_dim[0], __kiln_current()->block_dim[1],
           __kiln_current()->block_dim[2])
__kiln_get(GridDim, __kiln_current()->grid_dim[0], __kiln_current()->grid_dim[1],
           __kiln_current()->grid_dim[2])
__kiln_get(ClusterIdx, block_idx.x, block_idx.y, block_idx.z)
__kiln_get(ClusterDim, 1, 1, 1)

template <class = void>
__kiln_inline void barrier() {
  __kiln_wait();
  __kiln_state* state = __kiln_current();
  state->waited = true;
  state->block->barrier(state->block);
}

template <class T, int N, auto Site = [] {}>
__kiln_inline T (&shared())[N] {
  static const char site = 0;
  __kiln_block* block = __kiln_current()->block;
  return *static_cast<T(*)[N]>(block->shared(block, &site, sizeof(T) * N));
}
template <class T>
__kiln_inline T* dynamic_shared() {
  return static_cast<T*>(__kiln_current()->block->dynamic_shared);
}

#define __kiln_scope
#define __kiln_atomic(name) __atomic_##name
template <class B>
inline B __compare_exchange(B* place, B expected, B desired) {
  __atomic_compare_exchange_n(place, &expected, desired, false, __ATOMIC_RELAXED,
                              __ATOMIC_RELAXED);
  return expected;
}

template <class = void>
__kiln_inline unsigned lane_id() { return 0; }
template <class = void>
__kiln_inline constexpr unsigned warp_size() { return 1; }
template <class = void>
__kiln_inline void warp_sync() {}
template <class = void>
__kiln_inline unsigned ballot(bool value) { return value; }
template <class = void>
__kiln_inline bool warp_any(bool value) { return value; }
template <class = void>
__kiln_inline bool warp_all(bool value) { return value; }
template <class T>
__kiln_inline T shuffle_idx(T value, unsigned) {
  return value;
}
template <class T>
__kiln_inline T shuffle_up(T value, unsigned) {
  return value;
}
template <class T>
__kiln_inline T shuffle_down(T value, unsigned) {
  return value;
}
template <class T>
__kiln_inline T shuffle_xor(T value, unsigned) {
  return value;
}

template <class T, T... I>
struct __kiln_numbers {};

template <auto Kernel, class Type>
struct __kiln_entry;
template <auto Kernel, class... P>
struct __kiln_entry<Kernel, void (*)(P...)> {
  // Runs the threads [begin, end) of a block. A thread that has waited is the last one: those
  // behind it were started while it waited.
  template <unsigned... I>
  __attribute__((always_inline)) static void run(__kiln_block* block, const void* const* arguments,
                                                 unsigned begin, unsigned end,
                                                 __kiln_numbers<unsigned, I...>) {
    __kiln_state state;
    for (int i = 0; i < 3; ++i) {
      state.grid_dim[i] = block->grid_dim[i];
      state.block_dim[i] = block->block_dim[i];
      state.block_idx[i] = block->block_idx[i];
    }
    state.block = block;
    state.waited = false;
    __kiln_set_current(&state);
    // Copies, so that no store of a thread can change them.
    run_threads(state, begin, end, *static_cast<const P*>(arguments[I])...);
  }
  __attribute__((always_inline)) static void run_threads(__kiln_state& state, unsigned begin,
                                                         unsigned end, P... values) {
    const unsigned width = state.block_dim[0], height = state.block_dim[1];
    state.x = begin % width;
    state.y = begin / width % height;
    state.z = begin / width / height;
    for (unsigned thread = begin; thread < end;) {
      const unsigned first = state.x;
      const unsigned last = end - thread < width - first ? first + (end - thread) : width;
      for (unsigned x = first; x < last; ++x) {
        state.x = x;
        if (__kiln_may_wait()) state.block->thread = thread + (x - first);
        Kernel(values...);
        if (__kiln_may_wait() && state.waited) return;
      }
      thread += last - first;
      state.x = 0;
      if (++state.y == height) {
        state.y = 0;
        ++state.z;
      }
    }
  }
  __attribute__((always_inline)) static void start(__kiln_block* block,
                                                   const void* const* arguments, unsigned begin,
                                                   unsigned end) {
    run(block, arguments, begin, end,
        __make_integer_seq<__kiln_numbers, unsigned, sizeof...(P)>());
  }
};
}  // namespace kiln::gpu

__kiln_inline void __syncthreads() { kiln::gpu::barrier(); }
