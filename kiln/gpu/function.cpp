#include "kiln/gpu/function.h"

#include "kiln/driver/cuda/device.h"
#include "kiln/driver/cuda/module.h"
#include "kiln/gpu/device_info.h"
#include "kiln/gpu/kernel_compiler.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::gpu::detail {

namespace cuda = driver::cuda;

namespace {

const cuda::Module& module_of(const Function& function) {
  return *static_cast<const cuda::Module*>(function.code.get());
}

}  // namespace

int attribute_of(const Function& function, Attribute attribute) {
  const int code = static_cast<int>(attribute);
  if (code < 0 || code > static_cast<int>(Attribute::CLUSTER_SCHEDULING_POLICY_PREFERENCE))
    throw ValueError(format("The function attribute {} is unknown.", code));
  if (function.native == nullptr) return attribute == Attribute::MAX_THREADS_PER_BLOCK ? 1024 : 0;
  int value = 0;
  const cuda::ContextScope scope(module_of(function).device().context());
  const cuda::Result result = cuda::library().function_attribute(
      &value, code, static_cast<cuda::NativeFunction>(function.native));
  if (result == cuda::kInvalidValue)
    throw ValueError(
        format("The driver does not know the function attribute {}.", to_string(attribute)));
  cuda::check(result, "cuFuncGetAttribute", function.device.id());
  return value;
}

void set_attribute(Function& function, const FuncAttribute& attribute) {
  if (attribute == FuncAttribute::NULL_ATTRIBUTE) return;
  const auto which = static_cast<Attribute>(attribute.attribute);
  if (which != Attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES &&
      which != Attribute::PREFERRED_SHARED_MEMORY_CARVEOUT)
    throw ValueError(
        format("the function attribute '{}' is not currently supported", to_string(which)));
  if (which == Attribute::MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    if (attribute.value < 0 || attribute.value > function.largest_shared_limit)
      throw ValueError(
          format("MAX_DYNAMIC_SHARED_SIZE_BYTES of '{}' is {}, the limit on {}:{} is "
                 "{}",
                 function.name, static_cast<std::uint32_t>(attribute.value), function.device.api(),
                 function.device.id(), function.largest_shared_limit));
    function.user_shared_limit = true;
    function.shared_limit.store(attribute.value);
  }
  if (function.native == nullptr) return;
  const cuda::ContextScope scope(module_of(function).device().context());
  cuda::check(
      cuda::library().function_set_attribute(static_cast<cuda::NativeFunction>(function.native),
                                             attribute.attribute, attribute.value),
      "cuFuncSetAttribute", function.device.id());
}

int occupancy_of(const Function& function, int block_size, std::int64_t dynamic_shared_bytes) {
  if (block_size < 1)
    throw ValueError(
        format("occupancy_max_active_blocks_per_multiprocessor: block_size is {}, it "
               "must be at least 1",
               block_size));
  if (dynamic_shared_bytes < 0)
    throw ValueError(
        format("occupancy_max_active_blocks_per_multiprocessor: "
               "dynamic_shared_mem_size is {}, it must not be negative",
               dynamic_shared_bytes));
  if (function.native == nullptr) return 1;
  int blocks = 0;
  const cuda::ContextScope scope(module_of(function).device().context());
  cuda::check(cuda::library().occupancy(&blocks, static_cast<cuda::NativeFunction>(function.native),
                                        block_size, static_cast<std::size_t>(dynamic_shared_bytes)),
              "cuOccupancyMaxActiveBlocksPerMultiprocessor", function.device.id());
  return blocks;
}

}  // namespace kiln::gpu::detail
