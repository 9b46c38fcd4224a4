// First kernels: a thread an element, tiles in shared memory, atomics on bins.

extern "C" __global__ void empty() {}

extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

extern "C" __global__ void saxpy(float alpha, const float* x, float* y, long long n) {
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    y[i] = alpha * x[i] + y[i];
  }
}

extern "C" __global__ void daxpy(double alpha, const double* x, double* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = alpha * x[i] + y[i];
}

// Blocks of 32x8 threads turn tiles of 32x32; the padded column avoids bank conflicts.
extern "C" __global__ void transpose(const float* in, float* out, int rows, int columns) {
  __shared__ float tile[32][33];
  int column = blockIdx.x * 32 + threadIdx.x;
  int row = blockIdx.y * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8) {
    if (row + i < rows && column < columns) {
      tile[threadIdx.y + i][threadIdx.x] = in[(row + i) * columns + column];
    }
  }
  __syncthreads();
  column = blockIdx.y * 32 + threadIdx.x;
  row = blockIdx.x * 32 + threadIdx.y;
  for (int i = 0; i < 32; i += 8) {
    if (row + i < columns && column < rows) {
      out[(row + i) * rows + column] = tile[threadIdx.x][threadIdx.y + i];
    }
  }
}

// 256 bins, first in shared memory.
extern "C" __global__ void histogram(const unsigned char* values, unsigned* bins, int n) {
  __shared__ unsigned local[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
  __syncthreads();
  const int stride = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += stride) {
    atomicAdd(&local[values[i]], 1u);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) {
    if (local[i] != 0) atomicAdd(&bins[i], local[i]);
  }
}

__constant__ float filter[9];

// A 3x3 filter with zeros around the image; the filter lies in constant memory.
extern "C" __global__ void convolve(const float* image, float* out, int height, int width) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x;
  const int y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float sum = 0;
  for (int dy = -1; dy <= 1; ++dy) {
    for (int dx = -1; dx <= 1; ++dx) {
      const int u = x + dx, v = y + dy;
      if (u >= 0 && u < width && v >= 0 && v < height) {
        sum += filter[(dy + 1) * 3 + dx + 1] * image[v * width + u];
      }
    }
  }
  out[y * width + x] = sum;
}

struct Affine {
  double scale;
  float offset;
  short step;
  char flag;
  int table[3];
};

// Parameters of every size and alignment, and a structure by value.
extern "C" __global__ void parameters(char a, short b, int c, long long d, float e, double f,
                                      Affine g, unsigned char h, double* out) {
  out[0] = a;
  out[1] = b;
  out[2] = c;
  out[3] = (double)d;
  out[4] = e;
  out[5] = f;
  out[6] = g.scale;
  out[7] = g.offset;
  out[8] = g.step;
  out[9] = g.flag;
  out[10] = g.table[threadIdx.x];
  out[11] = h;
}

// Where a thread stands in a grid of three dimensions.
extern "C" __global__ void coordinates(unsigned* out) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  unsigned lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  const unsigned index = block * blockDim.x * blockDim.y * blockDim.z + thread;
  out[index] = threadIdx.x | threadIdx.y << 4 | threadIdx.z << 8 | blockIdx.x << 12 |
               blockIdx.y << 16 | blockIdx.z << 20 | lane << 24;
}

// A block needs `rounds` barriers; what a thread reads was written by its neighbour before.
extern "C" __global__ void barriers(unsigned* out, int rounds) {
  __shared__ unsigned slots[1024];
  const unsigned next = (threadIdx.x + 1) % blockDim.x;
  unsigned value = threadIdx.x;
  for (int i = 0; i < rounds; ++i) {
    slots[threadIdx.x] = value;
    __syncthreads();
    value = slots[next] + 1;
    __syncthreads();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}
