// CUB's algorithms for whole devices: the code and the tuning of its own kernels, under names and
// with parameters that a driver program can use. `cub_shapes` tells how to launch them: threads of
// a block and elements of a block, for each kernel in the order below.
#include <cub/cub.cuh>

namespace {

using Sum = cuda::std::plus<>;
using Hub = cub::detail::reduce::policy_hub<int, unsigned, Sum>::MaxPolicy::ActivePolicy;
using ReducePolicy = Hub::ReducePolicy;
using Reduce = cub::detail::reduce::AgentReduce<ReducePolicy, const int*, int*, unsigned, Sum, int,
                                                cuda::std::identity>;

using ScanPolicy =
    cub::detail::scan::policy_hub<int, int, int, unsigned, Sum>::MaxPolicy::ActivePolicy::ScanPolicyT;
using Scan = cub::detail::scan::AgentScan<ScanPolicy, const int*, int*, Sum, int, unsigned, int>;
using ScanState = cub::ScanTileState<int>;

struct IsOdd {
  __device__ bool operator()(int value) const { return value & 1; }
};
using SelectPolicy =
    cub::detail::select::policy_hub<int, cub::NullType, int, false,
                                    cub::SelectImpl::Select>::MaxPolicy::ActivePolicy::SelectIfPolicyT;
using SelectContext = cub::detail::select::streaming_context_t<long long, false>;
using Select = cub::detail::select::AgentSelectIf<SelectPolicy, const int*, cub::NullType*, int*,
                                                  IsOdd, cub::NullType, int, SelectContext,
                                                  cub::SelectImpl::Select>;

using SortHub = cub::detail::radix::policy_hub<unsigned, unsigned, unsigned>::MaxPolicy::ActivePolicy;
using SortHistogram =
    cub::detail::radix_sort::AgentRadixSortHistogram<SortHub::HistogramPolicy, false, unsigned,
                                                     unsigned>;
using SortOnesweep =
    cub::detail::radix_sort::AgentRadixSortOnesweep<SortHub::OnesweepPolicy, false, unsigned,
                                                    unsigned, unsigned, int>;

template <class Policy>
constexpr int elements = Policy::BLOCK_THREADS * Policy::ITEMS_PER_THREAD;

}  // namespace

extern "C" __device__ int cub_shapes[10] = {
    ReducePolicy::BLOCK_THREADS,           elements<ReducePolicy>,
    ScanPolicy::BLOCK_THREADS,             elements<ScanPolicy>,
    SelectPolicy::BLOCK_THREADS,           elements<SelectPolicy>,
    SortHub::HistogramPolicy::BLOCK_THREADS, SortHub::ONESWEEP_RADIX_BITS,
    SortHub::OnesweepPolicy::BLOCK_THREADS,  elements<SortHub::OnesweepPolicy>,
};

// Each block leaves the sum of its share.
extern "C" __global__ void __launch_bounds__(ReducePolicy::BLOCK_THREADS)
    device_reduce(const int* in, int* out, unsigned count) {
  __shared__ typename Reduce::TempStorage storage;
  cub::GridEvenShare<unsigned> share;
  share.DispatchInit(count, gridDim.x, elements<ReducePolicy>);
  if (blockIdx.x >= share.grid_size) return;
  const int sum = Reduce(storage, in, Sum{}).ConsumeTiles(share);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

__device__ ScanState state_in(void* memory, int tiles) {
  ScanState state;
  size_t bytes = 0;
  ScanState::AllocationSize(tiles, bytes);
  state.Init(tiles, memory, bytes);
  return state;
}

extern "C" __global__ void device_scan_begin(void* memory, int tiles) {
  state_in(memory, tiles).InitializeStatus(tiles);
}

extern "C" __global__ void __launch_bounds__(ScanPolicy::BLOCK_THREADS)
    device_scan(const int* in, int* out, void* memory, unsigned count) {
  __shared__ typename Scan::TempStorage storage;
  ScanState state = state_in(memory, gridDim.x);
  Scan(storage, in, out, Sum{}, 0).ConsumeRange(count, state, 0);
}

extern "C" __global__ void __launch_bounds__(SelectPolicy::BLOCK_THREADS)
    device_select(const int* in, int* out, int* selected, void* memory, int count) {
  __shared__ typename Select::TempStorage storage;
  ScanState state = state_in(memory, gridDim.x);
  const SelectContext context(nullptr, nullptr, count, true);
  Select(storage, in, nullptr, out, IsOdd{}, cub::NullType{}, count, context)
      .ConsumeRange(gridDim.x, state, selected);
}

extern "C" __global__ void __launch_bounds__(SortHub::HistogramPolicy::BLOCK_THREADS)
    device_sort_histogram(unsigned* bins, const unsigned* keys, unsigned count) {
  __shared__ typename SortHistogram::TempStorage storage;
  SortHistogram(storage, bins, keys, count, 0, 32).Process();
}

// One block a pass: the sums before each bin.
extern "C" __global__ void __launch_bounds__(256) device_sort_sums(unsigned* bins) {
  using BlockSum = cub::BlockScan<unsigned, 256>;
  constexpr int each = ((1 << SortHub::ONESWEEP_RADIX_BITS) + 255) / 256;
  __shared__ typename BlockSum::TempStorage storage;
  unsigned* own = bins + (blockIdx.x << SortHub::ONESWEEP_RADIX_BITS) + threadIdx.x * each;
  unsigned values[each];
  for (int i = 0; i < each; ++i) values[i] = own[i];
  BlockSum(storage).ExclusiveSum(values, values);
  for (int i = 0; i < each; ++i) own[i] = values[i];
}

extern "C" __global__ void __launch_bounds__(SortHub::OnesweepPolicy::BLOCK_THREADS)
    device_sort_pass(int* lookback, int* counter, const unsigned* bins, unsigned* keys_out,
                     const unsigned* keys_in, unsigned* values_out, const unsigned* values_in,
                     int count, int bit, int bits) {
  __shared__ typename SortOnesweep::TempStorage storage;
  SortOnesweep(storage, lookback, counter, nullptr, bins, keys_out, keys_in, values_out, values_in,
               count, bit, bits)
      .Process();
}
