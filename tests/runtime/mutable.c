/* An image that must be refused: it holds a variable. */
#include "kiln/runtime/abi.h"

static int64_t calls;

__attribute__((visibility("default"))) void counting_run(KilnCall* call) {
  int64_t* result = call->runtime->allocate_output(call, 0, (const int64_t*)0);
  *result = ++calls;
}
