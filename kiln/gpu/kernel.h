#pragma once

// Kernels whose body is written in the program: KILN_KERNEL and KILN_CLOSURE.

#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "kiln/gpu/arguments.h"
#include "kiln/gpu/device.h"
#include "kiln/gpu/function.h"

namespace kiln::gpu {
namespace detail {

/// A kernel as the program's text has it. `parameters` and `body` are texts of C++.
struct KernelDefinition {
  const char* name;
  const char* parameters;
  const char* body;
  const char* file;
  int line;
  /// Threads of the host run it.
  runtime::KernelRun run;
  /// Whether threads may wait on the host.
  bool may_wait;
  /// "void(float*, int)".
  std::string (*signature)();
  /// Of the parameters, in bytes.
  const std::uint32_t* sizes;
  std::size_t count;
  /// Whether it has parameters of its own text; else the types of `signature` are given names.
  const char* const* parameter_names = nullptr;
};

/// Results of compiling one definition with one set of options, by device. Safe from any thread.
class KernelMemo {
 public:
  KernelMemo() = default;
  KernelMemo(const KernelMemo&) = delete;
  KernelMemo& operator=(const KernelMemo&) = delete;

  /// The function for `device`, compiled on the first call.
  const Function& find(const KernelDefinition& definition, const driver::Device& device,
                       const CompileOptions& options) {
    const Last* last = last_.load(std::memory_order_acquire);
    if (last != nullptr && last->device == device.backend()) [[likely]]
      return *last->function;
    return find_or_compile(definition, device, options);
  }

 private:
  struct Last {
    const driver::DeviceBackend* device;
    std::shared_ptr<const Function> function;
  };
  const Function& find_or_compile(const KernelDefinition& definition, const driver::Device& device,
                                  const CompileOptions& options);

  std::atomic<const Last*> last_{nullptr};
  std::mutex mutex_;
  std::vector<std::unique_ptr<const Last>> entries_;
};

/// Whether nothing is asked for.
bool is_default(const CompileOptions& options);
/// The memo of a definition with options of its own, the same for equal options.
KernelMemo& memo_with(const KernelDefinition& definition, const CompileOptions& options);

/// Compiles a definition for `device`; on the host it is there already.
std::shared_ptr<const Function> make_function(const KernelDefinition& definition,
                                              const driver::Device& device,
                                              const CompileOptions& options);

/// Calls `body(indices)` for the threads [begin, end).
template <typename Body>
void run_threads(const runtime::KernelBlock& block, std::uint32_t begin, std::uint32_t end,
                 const Body& body) {
  ThreadIndices indices;
  indices.grid_dim = {block.grid_dim[0], block.grid_dim[1], block.grid_dim[2]};
  indices.block_dim = {block.block_dim[0], block.block_dim[1], block.block_dim[2]};
  indices.block_idx = {block.block_idx[0], block.block_idx[1], block.block_idx[2]};
  const unsigned width = indices.block_dim.x;
  const unsigned first_x = indices.block_idx.x * width;
  unsigned x = begin % width;
  unsigned row = begin / width;
  for (std::uint32_t thread = begin; thread < end; ++row, x = 0) {
    const unsigned count = std::min(end - thread, width - x);
    const unsigned y = row % indices.block_dim.y, z = row / indices.block_dim.y;
    const unsigned last = x + count;
    for (unsigned i = x; i < last; ++i) {
      ThreadIndices mine = indices;
      mine.thread_idx = {i, y, z};
      mine.global_idx = {first_x + i, indices.block_idx.y * indices.block_dim.y + y,
                         indices.block_idx.z * indices.block_dim.z + z};
      body(mine);
    }
    thread += count;
  }
}

/// What runs a kernel on the host: `Code::call(indices, arguments…)`.
template <typename Code, typename Signature>
struct HostRun;
template <typename Code, typename... P>
struct HostRun<Code, void(P...)> {
  static void run(runtime::KernelBlock* block, const void* const* arguments, std::uint32_t begin,
                  std::uint32_t end) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      // Copies, so that stores through pointers cannot change them.
      [&block, begin, end](P... values) {
        run_threads(*block, begin, end,
                    [&](const ThreadIndices& indices) { Code::call(indices, values...); });
      }(*static_cast<const P*>(arguments[I])...);
    }(std::make_index_sequence<sizeof...(P)>());
    (void)arguments;
  }
  static std::string signature() { return signature_text<P...>(); }
  static constexpr std::uint32_t kSizes[sizeof...(P) + 1] = {sizeof(P)...};
  static constexpr std::size_t kCount = sizeof...(P);
};

/// Whether a body may wait for other threads; warps of the host have one thread and never wait.
constexpr bool mentions_barrier(std::string_view body) {
  return body.find("barrier") != std::string_view::npos;
}

}  // namespace detail

template <typename Signature>
class Kernel;

/// A kernel that KILN_KERNEL declares; a small value. Compiled for a GPU on first use, on the CPU
/// it was compiled with the program.
template <typename... P>
class Kernel<void(P...)> {
 public:
  constexpr Kernel(const detail::KernelDefinition& definition, detail::KernelMemo& memo)
      : definition_(&definition), memo_(&memo) {}

  std::string name() const { return definition_->name; }
  /// The same kernel, compiled with other options; memoised separately.
  Kernel with(const CompileOptions& options) const {
    Kernel result(*definition_, detail::memo_with(*definition_, options));
    result.options_ = std::make_shared<const CompileOptions>(options);
    return result;
  }

  const detail::KernelDefinition& definition() const { return *definition_; }
  /// The compiled kernel for `device`.
  const detail::Function& function(const driver::Device& device) const {
    static const CompileOptions none;
    return memo_->find(*definition_, device, options_ ? *options_ : none);
  }
  const CompileOptions* options() const { return options_.get(); }

 private:
  const detail::KernelDefinition* definition_;
  detail::KernelMemo* memo_;
  std::shared_ptr<const CompileOptions> options_;
};

namespace detail {

/// A captured value as the kernel gets it: handles of memory become pointers.
template <typename C>
struct Captured {
  using Type = C;
  static const Type& value(const C& capture) { return capture; }
};
template <MemoryHandle C>
struct Captured<C> {
  using Type = typename C::Element*;
  static Type value(const C& capture) { return capture.unsafe_ptr(); }
};

template <typename Body>
struct ClosureCode {
  template <typename... P>
  static void call(const ThreadIndices& indices, P... values) {
    Body()(indices, values...);
  }
};

}  // namespace detail

/// A kernel with captured values; KILN_CLOSURE makes it. Keeps captured memory alive.
template <typename Body, typename... C>
class Closure {
 public:
  using Run =
      detail::HostRun<detail::ClosureCode<Body>, void(typename detail::Captured<C>::Type...)>;

  Closure(const char* names, const char* text, const char* file, int line, const C&... captures)
      : captures_(captures...) {
    // One definition for each place in the program; texts and places are the same at every call.
    static const detail::KernelDefinition definition{.name = "closure",
                                                     .parameters = names,
                                                     .body = text,
                                                     .file = file,
                                                     .line = line,
                                                     .run = &Run::run,
                                                     .may_wait = detail::mentions_barrier(text),
                                                     .signature = &Run::signature,
                                                     .sizes = Run::kSizes,
                                                     .count = Run::kCount,
                                                     .parameter_names = &kNames};
    static auto* memo = new detail::KernelMemo;  // leaked: launches may come until the very end
    definition_ = &definition;
    memo_ = memo;
  }

  const detail::KernelDefinition& definition() const { return *definition_; }
  detail::KernelMemo& memo() const { return *memo_; }
  const std::tuple<C...>& captures() const { return captures_; }

 private:
  static constexpr const char* kNames = "";
  const detail::KernelDefinition* definition_;
  detail::KernelMemo* memo_;
  std::tuple<C...> captures_;
};

namespace detail {
template <typename Body, typename... C>
Closure<Body, C...> make_closure(const char* names, const char* text, const char* file, int line,
                                 Body, const C&... captures) {
  return {names, text, file, line, captures...};
}
template <typename T>
struct IsClosure : std::false_type {};
template <typename Body, typename... C>
struct IsClosure<Closure<Body, C...>> : std::true_type {};
}  // namespace detail

}  // namespace kiln::gpu

// Names of index variables in a body, as plain values.
#define KILN_GPU_WORDS                                                               \
  using namespace ::kiln::gpu; /* NOLINT */                                          \
  [[maybe_unused]] const ::kiln::gpu::Index3 thread_idx = kiln_indices.thread_idx,   \
                                             block_idx = kiln_indices.block_idx,     \
                                             block_dim = kiln_indices.block_dim,     \
                                             grid_dim = kiln_indices.grid_dim,       \
                                             global_idx = kiln_indices.global_idx,   \
                                             cluster_idx = kiln_indices.cluster_idx, \
                                             cluster_dim = kiln_indices.cluster_dim;

#define KILN_GPU_AFTER_COMMA(...) __VA_OPT__(, ) __VA_ARGS__

/// Declares, at namespace scope, the kernel `name` with a parenthesised list of parameters and a
/// body in braces, for the CPU and, compiled on first use, for GPUs:
///
///     KILN_KERNEL(scale, (float* out, const float* in, float k, int n), {
///       int i = global_idx.x;
///       if (i < n) out[i] = in[i] * k;
///     });
#define KILN_KERNEL(kernel_name, kernel_parameters, ...)                                         \
  namespace {                                                                                    \
  struct kiln_kernel_##kernel_name {                                                             \
    static inline void call(const ::kiln::gpu::detail::ThreadIndices& kiln_indices               \
                                KILN_GPU_AFTER_COMMA kernel_parameters) {                        \
      KILN_GPU_WORDS __VA_ARGS__                                                                 \
    }                                                                                            \
    using Run = ::kiln::gpu::detail::HostRun<kiln_kernel_##kernel_name, void kernel_parameters>; \
    static inline constexpr ::kiln::gpu::detail::KernelDefinition definition{                    \
        .name = #kernel_name,                                                                    \
        .parameters = #kernel_parameters,                                                        \
        .body = #__VA_ARGS__,                                                                    \
        .file = __FILE__,                                                                        \
        .line = __LINE__,                                                                        \
        .run = &Run::run,                                                                        \
        .may_wait = ::kiln::gpu::detail::mentions_barrier(#__VA_ARGS__),                         \
        .signature = &Run::signature,                                                            \
        .sizes = Run::kSizes,                                                                    \
        .count = Run::kCount};                                                                   \
    static ::kiln::gpu::detail::KernelMemo& memo() {                                             \
      static auto* const instance = new ::kiln::gpu::detail::KernelMemo;                         \
      return *instance;                                                                          \
    }                                                                                            \
  };                                                                                             \
  }                                                                                              \
  [[maybe_unused]] static const ::kiln::gpu::Kernel<void kernel_parameters> kernel_name(         \
      kiln_kernel_##kernel_name::definition, kiln_kernel_##kernel_name::memo())

/// An expression: a kernel that uses the captured names, handles of memory as pointers.
#define KILN_CLOSURE(captures, ...)                                                       \
  ::kiln::gpu::detail::make_closure(                                                      \
      #captures, #__VA_ARGS__, __FILE__, __LINE__,                                        \
      [](const ::kiln::gpu::detail::ThreadIndices& kiln_indices KILN_GPU_AUTO captures) { \
        KILN_GPU_WORDS __VA_ARGS__                                                        \
      } KILN_GPU_AFTER_COMMA captures)

// `auto` before each of up to 16 names.
#define KILN_GPU_AUTO(...) __VA_OPT__(KILN_GPU_AUTO_1(__VA_ARGS__))
#define KILN_GPU_AUTO_1(a, ...) , [[maybe_unused]] auto a __VA_OPT__(KILN_GPU_AUTO_2(__VA_ARGS__))
#define KILN_GPU_AUTO_2(a, ...) , [[maybe_unused]] auto a __VA_OPT__(KILN_GPU_AUTO_3(__VA_ARGS__))
#define KILN_GPU_AUTO_3(a, ...) , [[maybe_unused]] auto a __VA_OPT__(KILN_GPU_AUTO_4(__VA_ARGS__))
#define KILN_GPU_AUTO_4(a, ...) , [[maybe_unused]] auto a __VA_OPT__(KILN_GPU_AUTO_5(__VA_ARGS__))
#define KILN_GPU_AUTO_5(a, ...) , [[maybe_unused]] auto a __VA_OPT__(KILN_GPU_AUTO_6(__VA_ARGS__))
#define KILN_GPU_AUTO_6(a, ...) , [[maybe_unused]] auto a __VA_OPT__(KILN_GPU_AUTO_7(__VA_ARGS__))
#define KILN_GPU_AUTO_7(a, ...) , [[maybe_unused]] auto a __VA_OPT__(KILN_GPU_AUTO_8(__VA_ARGS__))
#define KILN_GPU_AUTO_8(a, ...) , [[maybe_unused]] auto a __VA_OPT__(KILN_GPU_AUTO_9(__VA_ARGS__))
#define KILN_GPU_AUTO_9(a, ...) , [[maybe_unused]] auto a __VA_OPT__(KILN_GPU_AUTO_10(__VA_ARGS__))
#define KILN_GPU_AUTO_10(a, ...) , [[maybe_unused]] auto a __VA_OPT__(KILN_GPU_AUTO_11(__VA_ARGS__))
#define KILN_GPU_AUTO_11(a, ...) , [[maybe_unused]] auto a __VA_OPT__(KILN_GPU_AUTO_12(__VA_ARGS__))
#define KILN_GPU_AUTO_12(a, ...) , [[maybe_unused]] auto a __VA_OPT__(KILN_GPU_AUTO_13(__VA_ARGS__))
#define KILN_GPU_AUTO_13(a, ...) , [[maybe_unused]] auto a __VA_OPT__(KILN_GPU_AUTO_14(__VA_ARGS__))
#define KILN_GPU_AUTO_14(a, ...) , [[maybe_unused]] auto a __VA_OPT__(KILN_GPU_AUTO_15(__VA_ARGS__))
#define KILN_GPU_AUTO_15(a, ...) , [[maybe_unused]] auto a __VA_OPT__(KILN_GPU_AUTO_16(__VA_ARGS__))
#define KILN_GPU_AUTO_16(a) , [[maybe_unused]] auto a

/// Declares a struct at namespace scope that kernels may take and capture, with its members in
/// braces.
#define KILN_DEVICE_STRUCT(name, ...)                                                  \
  struct name __VA_ARGS__;                                                             \
  [[maybe_unused]] inline const char* kiln_device_struct_name(name*) { return #name; } \
  [[maybe_unused]] inline const bool kiln_device_struct_##name =                       \
      ::kiln::gpu::detail::add_device_struct(#name, "struct " #name " " #__VA_ARGS__ ";")

namespace kiln::gpu::detail {
/// Makes the struct known to bodies that are compiled for devices.
bool add_device_struct(const char* name, const char* text);
}  // namespace kiln::gpu::detail
