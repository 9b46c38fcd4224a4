#ifndef KILN_RUNTIME_ABI_H
#define KILN_RUNTIME_ABI_H

/* The interface between a compiled program and the runtime, in plain C so that generated code,
 * artifacts and hand-written kernels share one definition. A program's entry points get a KilnCall;
 * everything they need from outside they reach through its table of functions. Functions of the
 * table may throw C++ exceptions through the program's frames, which own nothing.
 *
 * A change of this file that an old program would notice raises KILN_ABI_VERSION. */

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_ABI_VERSION 2

typedef struct KilnCall KilnCall;

/* Runs iterations [begin, end) of a parallel loop. `worker` is below KilnCall.num_threads and is
 * used by one thread at a time, so it may select scratch memory. */
typedef void (*KilnLoopBody)(void* arguments, int64_t begin, int64_t end, int64_t worker);

/* Why a program gives up: constant data of the program. */
typedef struct KilnFailure {
  const char* entry;    /* kernel or graph that found it */
  const char* sentence; /* what happened; {0}, {1}, … stand for the values passed along,
                         {0u}, {1u}, … for the same as unsigned numbers */
  int32_t location;     /* index into the artifact's `locations`, or -1 */
  int32_t error_class;  /* KILN_VALUE_ERROR or KILN_RUNTIME_ERROR */
} KilnFailure;

enum { KILN_VALUE_ERROR = 0, KILN_RUNTIME_ERROR = 1 };

typedef struct KilnRuntime {
  uint32_t abi_version; /* KILN_ABI_VERSION */
  uint32_t size;        /* sizeof(KilnRuntime); later versions only append */

  /* Working memory of this call, 64-byte aligned, contents undefined; the runtime takes it back
   * when the call ends. `bytes` may be 0. Out of memory: throws. */
  void* (*allocate)(KilnCall*, int64_t bytes);

  /* Makes result `index` of the graph with these extents and returns its memory (64-byte
   * aligned). Called once for each result of the graph. */
  void* (*allocate_output)(KilnCall*, int64_t index, const int64_t* extents);

  /* Only in init: memory that later runs find in KilnCall.prepared[slot]. 64-byte aligned. */
  void* (*allocate_prepared)(KilnCall*, int64_t slot, int64_t bytes);

  /* Runs body over [0, count), cut into pieces of at least `grain` iterations (a cut falls on a
   * multiple of `grain`), on up to KilnCall.num_threads threads; returns when all are done. The
   * first failure in iteration order is rethrown. */
  void (*parallel_for)(KilnCall*, KilnLoopBody body, void* arguments, int64_t count, int64_t grain);

  /* Ends the call with an exception. Does not return. */
  void (*fail)(KilnCall*, const KilnFailure*, const int64_t* values, int64_t count);

  /* Prints a dense tensor as the session's print options say. Rank -1: data is a text that ends
     with a zero byte. */
  void (*print_tensor)(KilnCall*, const char* label, int32_t dtype, int32_t rank,
                       const int64_t* extents, const void* data);

  /* Where working memory stands, for `next_iteration`. */
  int64_t (*mark)(KilnCall*);

  /* Between two iterations of a loop: takes back what `allocate` has handed out since `mark`. A
   * caller who wants the call to end gets the chance: may throw. */
  void (*next_iteration)(KilnCall*, int64_t mark);

  /* The k largest along n of a dense tensor of extents [outer, n, inner], descending, and their
   * positions, or, unless `largest`, the k smallest, ascending; NaN counts as the largest, and of
   * equal elements the first comes first. k <= n. */
  void (*top_k)(KilnCall*, int32_t dtype, const void* source, void* values, int64_t* indices,
                int64_t outer, int64_t n, int64_t inner, int64_t k, int32_t largest);

  /* The sums of the elements up to each one along n of a dense tensor of extents [outer, n, inner];
   * `exclusive`: without the element itself, `reverse`: from the end. */
  void (*cumsum)(KilnCall*, int32_t dtype, const void* source, void* sums, int64_t outer, int64_t n,
                 int64_t inner, int32_t exclusive, int32_t reverse);

  /* Stores how many of `count` bools are true. */
  void (*count_true)(KilnCall*, const void* mask, int64_t count, int64_t* result);

  /* The positions of the true elements of a dense tensor in row-major order: rows of `rank`
   * numbers, as many as count_true gave. */
  void (*true_positions)(KilnCall*, const void* mask, int32_t rank, const int64_t* extents,
                         int64_t* rows);

  /* counts[i] times the number i for each i below n, `total` numbers in all; a single count
   * (`same`) stands for all. Negative counts, or another sum of them: fails. */
  void (*repeat_positions)(KilnCall*, const int64_t* counts, int32_t same, int64_t n, int64_t total,
                           int64_t* positions, const KilnFailure* failure);

  /* Only when KilnCall.traced is not 0: a condition or the test of a loop was decided, and `launch`
   * is what runs next on the way that is taken. */
  void (*choose)(KilnCall*, const char* launch);

  /* scale times the inverse Fourier transform, of size n along the middle axis, of the spectra in a
   * dense float32 tensor of extents [outer, size, inner], each of which begins with n / 2 + 1
   * numbers that count; `is_complex`: pairs of a real and an imaginary part. */
  void (*irfft)(KilnCall*, const float* source, float* result, int64_t outer, int64_t size,
                int64_t inner, int64_t n, int32_t is_complex, double scale);

  /* Bilinear samples of a float32 tensor [batch, height, width, channels], whose extents are given,
   * in `count` regions. A number of a batch that is none: fails with it and the batch. */
  void (*roi_align)(KilnCall*, const float* input, const int64_t* extents, const float* rois,
                    int64_t count, float* result, int64_t result_height, int64_t result_width,
                    double spatial_scale, double sampling_ratio, int32_t aligned, int32_t maximum,
                    const KilnFailure* failure);

  /* The boxes that non-maximum suppression keeps, at most `most` of each batch and class: their
   * numbers in `kept` of extents [batch, classes, boxes], -1 behind the last, and how many there
   * are. kept_boxes makes rows (batch, class, box) of them. */
  void (*suppress_boxes)(KilnCall*, int32_t dtype, const void* boxes, const void* scores,
                         const void* iou_threshold, const void* score_threshold, int64_t batch,
                         int64_t classes, int64_t count, int64_t most, int64_t* kept,
                         int64_t* total);
  void (*kept_boxes)(KilnCall*, const int64_t* kept, int64_t batch, int64_t classes, int64_t count,
                     int64_t* rows);

  /* The float32 elements of `count` quantised blocks. `encoding` is a number of
   * kiln/graph/quantization.h, here and below. */
  void (*dequantize)(KilnCall*, int32_t encoding, const void* blocks, int64_t count,
                     float* elements);

  /* result[r, c] = sum of lhs[r, k] rhs[c, k] over k, where rows of rhs are quantised blocks. */
  void (*qmatmul)(KilnCall*, int32_t encoding, const float* lhs, const void* rhs, float* result,
                  int64_t rows, int64_t depth, int64_t columns);
} KilnRuntime;

/* One call of an entry point. The program reads these fields and writes none. */
struct KilnCall {
  const KilnRuntime* runtime;
  void* const* inputs;        /* memory of each graph input (tensors and buffers) */
  const int64_t* symbols;     /* values of the graph's symbols, in the order of the artifact */
  const void* const* weights; /* memory of each weight of the graph, in the order of the artifact */
  const char* constants;      /* the artifact's `constants` section */
  void* const* prepared;      /* what init allocated, by slot */
  int64_t num_threads;        /* >= 1, the caller included */
  int64_t traced;             /* whether `choose` wants to know */
};

/* Entry points of a program; their names stand in the artifact's header.
 * init: runs once for a set of weights (inputs and symbols are null); run: once a call. */
typedef void (*KilnEntry)(KilnCall*);

#ifdef __cplusplus
}
#endif

#endif /* KILN_RUNTIME_ABI_H */
