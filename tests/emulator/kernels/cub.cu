// Algorithms of CUB for a block and for a warp.
#include <cub/cub.cuh>

constexpr int kThreads = 128;
constexpr int kItems = 4;

extern "C" __global__ void cub_reduce(const int* in, int* out, int n) {
  using Reduce = cub::BlockReduce<int, kThreads>;
  __shared__ Reduce::TempStorage storage;
  int value = 0;
  for (int i = threadIdx.x; i < n; i += kThreads) value += in[i];
  const int sum = Reduce(storage).Sum(value);
  __syncthreads();
  const int most = Reduce(storage).Reduce(value, [](int a, int b) { return a > b ? a : b; });
  if (threadIdx.x == 0) {
    out[0] = sum;
    out[1] = most;
  }
}

extern "C" __global__ void cub_reduce_raking(const float* in, float* out, int n) {
  using Reduce = cub::BlockReduce<float, kThreads, cub::BLOCK_REDUCE_RAKING>;
  __shared__ Reduce::TempStorage storage;
  const float sum = Reduce(storage).Sum(threadIdx.x < n ? in[threadIdx.x] : 0, n);
  if (threadIdx.x == 0) *out = sum;
}

extern "C" __global__ void cub_scan(const int* in, int* inclusive, int* exclusive, int* total) {
  using Load = cub::BlockLoad<int, kThreads, kItems, cub::BLOCK_LOAD_TRANSPOSE>;
  using Scan = cub::BlockScan<int, kThreads>;
  using Store = cub::BlockStore<int, kThreads, kItems, cub::BLOCK_STORE_WARP_TRANSPOSE>;
  __shared__ union {
    Load::TempStorage load;
    Scan::TempStorage scan;
    Store::TempStorage store;
  } storage;
  int items[kItems], sums[kItems], sum;
  Load(storage.load).Load(in, items);
  __syncthreads();
  Scan(storage.scan).InclusiveSum(items, sums);
  __syncthreads();
  Store(storage.store).Store(inclusive, sums);
  __syncthreads();
  Scan(storage.scan).ExclusiveSum(items, sums, sum);
  __syncthreads();
  Store(storage.store).Store(exclusive, sums);
  if (threadIdx.x == 0) *total = sum;
}

template <class Key>
__device__ void sort_pairs(Key* keys, int* values, bool down) {
  using Sort = cub::BlockRadixSort<Key, kThreads, kItems, int>;
  __shared__ typename Sort::TempStorage storage;
  Key own[kItems];
  int with[kItems];
  for (int i = 0; i < kItems; ++i) {
    own[i] = keys[threadIdx.x * kItems + i];
    with[i] = values[threadIdx.x * kItems + i];
  }
  if (down) {
    Sort(storage).SortDescending(own, with);
  } else {
    Sort(storage).Sort(own, with);
  }
  for (int i = 0; i < kItems; ++i) {
    keys[threadIdx.x * kItems + i] = own[i];
    values[threadIdx.x * kItems + i] = with[i];
  }
}

extern "C" __global__ void cub_sort(int* keys, int* values) { sort_pairs(keys, values, false); }
extern "C" __global__ void cub_sort_floats(float* keys, int* values) {
  sort_pairs(keys, values, true);
}

extern "C" __global__ void cub_histogram(const unsigned char* in, unsigned* bins) {
  using Histogram = cub::BlockHistogram<unsigned char, kThreads, kItems, 256,
                                        cub::BLOCK_HISTO_SORT>;
  __shared__ Histogram::TempStorage storage;
  __shared__ unsigned counts[256];
  unsigned char items[kItems];
  for (int i = 0; i < kItems; ++i) items[i] = in[threadIdx.x * kItems + i];
  Histogram(storage).Histogram(items, counts);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += kThreads) bins[i] = counts[i];
}

extern "C" __global__ void cub_merge_sort(double* keys) {
  using Sort = cub::BlockMergeSort<double, kThreads, kItems>;
  __shared__ Sort::TempStorage storage;
  double own[kItems];
  for (int i = 0; i < kItems; ++i) own[i] = keys[threadIdx.x * kItems + i];
  Sort(storage).Sort(own, [](double a, double b) { return a < b; });
  for (int i = 0; i < kItems; ++i) keys[threadIdx.x * kItems + i] = own[i];
}

// Which element starts a run of equal ones, and how long the runs are.
extern "C" __global__ void cub_runs(const int* in, int* heads, int* last) {
  using Flags = cub::BlockDiscontinuity<int, kThreads>;
  using Scan = cub::BlockScan<int, kThreads>;
  __shared__ Flags::TempStorage storage;
  __shared__ Scan::TempStorage scan;
  int items[kItems], flags[kItems], places[kItems], count;
  for (int i = 0; i < kItems; ++i) items[i] = in[threadIdx.x * kItems + i];
  Flags(storage).FlagHeads(flags, items, [](int a, int b) { return a != b; });
  Scan(scan).ExclusiveSum(flags, places, count);
  for (int i = 0; i < kItems; ++i) {
    if (flags[i]) heads[places[i]] = threadIdx.x * kItems + i;
  }
  if (threadIdx.x == 0) *last = count;
}

extern "C" __global__ void cub_warp(const int* in, int* out) {
  using Scan = cub::WarpScan<int>;
  using Reduce = cub::WarpReduce<int, 16>;
  using Sort = cub::WarpMergeSort<int, 1, 32>;
  __shared__ Scan::TempStorage scan[kThreads / 32];
  __shared__ Reduce::TempStorage reduce[kThreads / 16];
  __shared__ Sort::TempStorage sort[kThreads / 32];
  const int value = in[threadIdx.x];
  int sum;
  Scan(scan[threadIdx.x / 32]).InclusiveSum(value, sum);
  const int half = Reduce(reduce[threadIdx.x / 16]).Sum(value);
  int own[1] = {value};
  Sort(sort[threadIdx.x / 32]).Sort(own, [](int a, int b) { return a < b; });
  out[threadIdx.x] = sum;
  out[kThreads + threadIdx.x] = own[0];
  if (threadIdx.x % 16 == 0) out[2 * kThreads + threadIdx.x / 16] = half;
}
