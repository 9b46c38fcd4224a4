/* Programs as the compiler would make them, written by hand against abi.h, so that the runtime and
 * the engine can be tested without a compiler. */
#include "kiln/runtime/abi.h"

#define EXPORT __attribute__((visibility("default")))

/* y = x + 1 for float32 [n] */
EXPORT void add_one_run(KilnCall* call) {
  const int64_t n = call->symbols[0];
  const float* x = call->inputs[0];
  float* y = call->runtime->allocate_output(call, 0, call->symbols);
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] + 1.0f;
}

/* y = x + c for float32 [8], c in the constants */
EXPORT void add_constant_run(KilnCall* call) {
  static const int64_t shape[] = {8};
  const float* x = call->inputs[0];
  const float* c = (const float*)call->constants;
  float* y = call->runtime->allocate_output(call, 0, shape);
  for (int64_t i = 0; i < 8; ++i) y[i] = x[i] + c[i];
}

/* prepared[0] = 2 * w, float32 [4] */
EXPORT void scaled_init(KilnCall* call) {
  const float* w = call->weights[0];
  float* doubled = call->runtime->allocate_prepared(call, 0, 4 * sizeof(float));
  for (int i = 0; i < 4; ++i) doubled[i] = 2.0f * w[i];
}

/* y = x * prepared[0], z = x * w, both float32 [n, 4]; uses working memory */
EXPORT void scaled_run(KilnCall* call) {
  const int64_t n = call->symbols[0];
  const int64_t shape[] = {n, 4};
  const float* x = call->inputs[0];
  const float* doubled = call->prepared[0];
  const float* w = call->weights[0];
  float* y = call->runtime->allocate_output(call, 0, shape);
  float* z = call->runtime->allocate_output(call, 1, shape);
  float* scratch = call->runtime->allocate(call, n * 4 * (int64_t)sizeof(float));
  for (int64_t i = 0; i < n * 4; ++i) scratch[i] = x[i];
  for (int64_t i = 0; i < n * 4; ++i) {
    y[i] = scratch[i] * doubled[i % 4];
    z[i] = scratch[i] * w[i % 4];
  }
}

/* The input buffer [n] of int64 is doubled in place; the result is its sum. */
EXPORT void double_in_place_run(KilnCall* call) {
  const int64_t n = call->symbols[0];
  int64_t* x = call->inputs[0];
  int64_t* sum = call->runtime->allocate_output(call, 0, (const int64_t*)0);
  int64_t total = 0;
  for (int64_t i = 0; i < n; ++i) {
    x[i] *= 2;
    total += x[i];
  }
  *sum = total;
}

typedef struct Squares {
  KilnCall* call;
  const double* x;
  double* y;
} Squares;

static const KilnFailure kNegative = {"squares_kernel", "element {0} of {1} is negative", 0,
                                      KILN_VALUE_ERROR};

static void squares_body(void* arguments, int64_t begin, int64_t end, int64_t worker) {
  Squares* squares = arguments;
  if (worker < 0 || worker >= squares->call->num_threads) __builtin_trap();
  for (int64_t i = begin; i < end; ++i) {
    if (squares->x[i] < 0) {
      const int64_t values[] = {i, squares->call->symbols[0]};
      squares->call->runtime->fail(squares->call, &kNegative, values, 2);
    }
    squares->y[i] = squares->x[i] * squares->x[i];
  }
}

/* y = x^2 for float64 [n], on all threads; a negative element fails. */
EXPORT void squares_run(KilnCall* call) {
  Squares squares = {call, call->inputs[0], 0};
  squares.y = call->runtime->allocate_output(call, 0, call->symbols);
  call->runtime->parallel_for(call, squares_body, &squares, call->symbols[0], 16);
}

/* (a + b) for float32 [m, n], and prints the first argument */
EXPORT void add_run(KilnCall* call) {
  const float* a = call->inputs[0];
  const float* b = call->inputs[1];
  float* y = call->runtime->allocate_output(call, 0, call->symbols);
  const int64_t n = call->symbols[0] * call->symbols[1];
  for (int64_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
  call->runtime->print_tensor(call, "a", 81, 2, call->symbols, a);
}

static const KilnFailure kHuge = {"huge", "needs {0} bytes", -1, KILN_RUNTIME_ERROR};

/* Asks for more working memory than there is. */
EXPORT void huge_run(KilnCall* call) {
  if (call->symbols[0] == 0) {
    const int64_t bytes = 7;
    call->runtime->fail(call, &kHuge, &bytes, 1);
  }
  call->runtime->allocate(call, INT64_MAX / 2);
}
