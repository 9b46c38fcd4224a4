#include "kiln/gpu/device_buffer.h"

#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>

#include "kiln/driver/cuda/device.h"
#include "kiln/dtype/element.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "kiln/support/log.h"

namespace kiln::gpu::detail {
namespace {

/// Memory whose ownership was given away, by address.
struct Given {
  std::mutex mutex;
  std::map<const void*, driver::Buffer> buffers;
};
Given& given() {
  static auto* instance = new Given;  // leaked: addresses are held until the process ends
  return *instance;
}

constexpr std::int64_t kShownWhole = 1000;
constexpr std::int64_t kShownEnds = 3;

std::string element_text(const Scalar& value, DType dtype) {
  if (dtype == DType::bool_) return value.to<bool>() ? "True" : "False";
  if (!dtype.is_float())
    return dtype.is_unsigned_integral() ? format("{}", value.to<std::uint64_t>())
                                        : format("{}", value.to<std::int64_t>());
  std::string text =
      dtype == DType::float64 ? format("{}", value.to<double>()) : format("{}", value.to<float>());
  if (text.find_first_of(".enai") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

std::string buffer_text(const char* name, const driver::Buffer& memory) {
  const driver::Buffer host = memory.on_host();
  const std::int64_t count = host.num_elements();
  std::string text = format("{}([", name);
  const auto append = [&](std::int64_t i) {
    text += element_text(load_element(host.dtype(), host.data(), i), host.dtype());
  };
  for (std::int64_t i = 0; i < count; ++i) {
    if (i > 0) text += ", ";
    if (count >= kShownWhole && i == kShownEnds) {
      text += "..., ";
      i = count - kShownEnds;
    }
    append(i);
  }
  return text + "])";
}

driver::Buffer wrap_memory(const DeviceContext& context, void* address, DType dtype,
                           std::int64_t size, bool host, bool owning) {
  const char* name = host ? "HostBuffer.wrap" : "DeviceBuffer.wrap";
  if (size < 0)
    throw ValueError(format("{}: the size is {}, it must not be negative.", name, size));
  if (address == nullptr && size > 0)
    throw ValueError(format("{}: the address of {} elements is null.", name, size));
  std::function<void()> deleter;
  if (owning && address != nullptr) {
    driver::Buffer kept;
    {
      const std::lock_guard lock(given().mutex);
      if (const auto found = given().buffers.find(address); found != given().buffers.end()) {
        kept = found->second;
        given().buffers.erase(found);
      }
    }
    if (kept) {
      deleter = [kept] {};
    } else if (context.device().is_host()) {
      deleter = [address] { std::free(address); };
    } else {
      auto* device = dynamic_cast<driver::cuda::CudaDevice*>(context.device().backend());
      deleter = [device, address, host] {
        const driver::cuda::ContextScope scope(device->context());
        if (host)
          driver::cuda::library().host_free(address);
        else
          driver::cuda::library().memory_free(reinterpret_cast<std::uintptr_t>(address));
      };
    }
  }
  return driver::Buffer::adopt_on(address, dtype, size, context.queue(),
                                  host && !context.device().is_host(), std::move(deleter));
}

void* take_memory(const driver::Buffer& memory) {
  if (memory.num_elements() == 0) return nullptr;
  const std::lock_guard lock(given().mutex);
  given().buffers.insert_or_assign(memory.data(), memory);
  return memory.data();
}

driver::Buffer sub_buffer(const driver::Buffer& memory, DType dtype, std::size_t width,
                          std::int64_t offset, std::int64_t size) {
  const auto limit = static_cast<std::int64_t>(memory.byte_size());
  const auto bytes = static_cast<std::int64_t>(width);
  if (offset < 0 || size < 0 || offset > limit / bytes || size > limit / bytes ||
      (offset + size) * bytes > limit)
    throw ValueError(
        format("create_sub_buffer: offset {} and size {} in elements of {} bytes do not lie in the "
               "buffer of {} bytes.",
               offset, size, bytes, limit));
  return memory.window(dtype, offset * bytes, size);
}

void reassign(BufferState& state, const DeviceContext& context) {
  if (context.device() != state.context.device())
    throw ValueError(format("reassign_ownership_to: the buffer lives on {}, the context is for {}.",
                            state.context.device().to_string(), context.device().to_string()));
  context.queue().wait_for(state.memory.stream());
  // The old binding's release waits for uses; the new owner's stream is one from here on.
  state.memory.record_use(context.queue(), {.write = true});
  state.memory = state.memory.bound_to(context.queue());
  state.context = context;
}

void log_failed_unmap() noexcept {
  try {
    throw;
  } catch (const std::exception& error) {
    log(LogLevel::WARNING,
        format("The contents of a mapped buffer could not be copied back: {}", error.what()));
  } catch (...) {
    log(LogLevel::WARNING, "The contents of a mapped buffer could not be copied back.");
  }
}

void throw_index(std::int64_t i, std::int64_t size) {
  throw IndexError(format("HostBuffer.at: the index {} is outside [0, {}).", i, size));
}
void throw_empty_buffer(bool with_offset) {
  throw ValueError(with_offset ? "DevicePointer: invalid DeviceBuffer of size '0'"
                               : "DevicePointer: size of DeviceBuffer must not be 0");
}
void throw_offset(std::int64_t offset, std::int64_t size) {
  throw IndexError(
      format("DevicePointer: invalid offset '{}' for DeviceBuffer of size '{}'", offset, size));
}
void throw_step(const char* what, std::int64_t step, std::int64_t result, std::int64_t size) {
  throw IndexError(
      format("DevicePointer: {} of '{}' results in invalid offset of '{}' for "
             "DeviceBuffer of size {}",
             what, step, result, size));
}
void throw_other_buffer(const char* what) {
  throw ValueError(
      format("DevicePointer: {} comparison not supported when the underlying "
             "DeviceBuffer does not match",
             what));
}
std::string pointer_text(DType dtype, std::int64_t size, std::int64_t offset) {
  return format("DevicePointer[{}](buffer=DeviceBuffer(size={}), offset={})", dtype.name(), size,
                offset);
}
std::int64_t saturated_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return b > 0 ? std::numeric_limits<std::int64_t>::max()
               : std::numeric_limits<std::int64_t>::min();
}

}  // namespace kiln::gpu::detail
