#pragma once

#include <any>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kiln/gpu/arguments.h"
#include "kiln/gpu/function.h"

namespace kiln::gpu {

class DeviceContext;

namespace detail {

struct ContextState;

/// What all compiled functions offer.
class FunctionHandleBase {
 public:
  const std::string& name() const { return function_->name; }
  driver::Device device() const { return function_->device; }
  /// The context it was made for.
  DeviceContext context() const;
  /// What `DeviceContext::enqueue` takes; valid while a copy of this object lives.
  FunctionHandle handle() const { return function_.get(); }
  /// Unknown to the backend: ValueError.
  int get_attribute(Attribute attribute) const { return attribute_of(*function_, attribute); }
  const detail::Function& function() const { return *function_; }
  const std::shared_ptr<const detail::Function>& shared_function() const { return function_; }

 protected:
  FunctionHandleBase(std::shared_ptr<const detail::Function> function,
                     std::shared_ptr<const ContextState> context)
      : function_(std::move(function)), context_(std::move(context)) {}

  std::shared_ptr<const detail::Function> function_;
  std::shared_ptr<const ContextState> context_;
};

/// Arguments that a compiled closure carries with it.
struct BoundArguments {
  std::vector<void*> pointers;
  std::vector<std::uint32_t> sizes;
  std::vector<BufferUse> uses;
  std::any holder;
};

}  // namespace detail

/// A compiled kernel of one device, with the types of its parameters or, as `DeviceFunction<>`,
/// without. A shared handle.
template <typename Signature = void>
class DeviceFunction : public detail::FunctionHandleBase {
 public:
  DeviceFunction(std::shared_ptr<const detail::Function> function,
                 std::shared_ptr<const detail::ContextState> context,
                 std::shared_ptr<const detail::BoundArguments> bound = nullptr)
      : FunctionHandleBase(std::move(function), std::move(context)), bound_(std::move(bound)) {}

  /// Resident blocks of a multiprocessor. `block_size` below 1: ValueError.
  int occupancy_max_active_blocks_per_multiprocessor(int block_size,
                                                     std::int64_t dynamic_shared_mem_size) const {
    return detail::occupancy_of(*function_, block_size, dynamic_shared_mem_size);
  }
  /// Writes the text of the kernel, as the options of the same names do when it is compiled.
  void dump_rep(const DumpOptions& options) const { detail::dump(*function_, options); }
  /// Of a compiled closure.
  const std::shared_ptr<const detail::BoundArguments>& bound() const { return bound_; }

 private:
  std::shared_ptr<const detail::BoundArguments> bound_;
};

/// A kernel taken out of PTX text or a binary image, of which sizes are known, not types. A shared
/// handle.
template <typename Signature = void>
class DeviceExternalFunction : public detail::FunctionHandleBase {
 public:
  DeviceExternalFunction(std::shared_ptr<const detail::Function> function,
                         std::shared_ptr<const detail::ContextState> context)
      : FunctionHandleBase(std::move(function), std::move(context)) {}
};

namespace detail {

/// Launches a function with the values that a closure or callable carries; they live until the
/// launch has run.
void launch_bound(const LaunchTarget& target, const char* call, const Function& function,
                  const LaunchConfig& config, std::shared_ptr<const BoundArguments> bound);

/// Launches a handle with its own kind of checks.
template <typename... P, typename... A>
void launch_handle(const LaunchTarget& target, const char* call,
                   const DeviceFunction<void(P...)>& function, const LaunchConfig& config,
                   const A&... arguments) {
  if (const auto& bound = function.bound()) {
    static_assert(sizeof...(A) == sizeof...(P), "Wrong number of arguments to enqueue");
    launch_bound(target, call, function.function(), config, bound);
    return;
  }
  launch_typed<P...>(target, function.function(), call, config, arguments...);
}
template <typename... A>
void launch_handle(const LaunchTarget& target, const char* call,
                   const DeviceFunction<void>& function, const LaunchConfig& config,
                   const A&... arguments) {
  launch_untyped(target, function.function(), call, config, arguments...);
}
template <typename... P, typename... A>
void launch_handle(const LaunchTarget& target, const char* call,
                   const DeviceExternalFunction<void(P...)>& function, const LaunchConfig& config,
                   const A&... arguments) {
  launch_typed<P...>(target, function.function(), call, config, arguments...);
}
template <typename... A>
void launch_handle(const LaunchTarget& target, const char* call,
                   const DeviceExternalFunction<void>& function, const LaunchConfig& config,
                   const A&... arguments) {
  launch_untyped(target, function.function(), call, config, arguments...);
}

template <typename Signature>
struct SignatureText;
template <typename... P>
struct SignatureText<void(P...)> {
  static std::string get() { return signature_text<P...>(); }
  static constexpr std::uint32_t sizes[sizeof...(P) + 1] = {sizeof(P)...};
  static constexpr std::size_t count = sizeof...(P);
};

/// Compares the sizes of an image's parameters with those of a signature: TypeError.
void check_sizes(const Function& function, const std::uint32_t* sizes, std::size_t count,
                 const std::string& signature);

}  // namespace detail
}  // namespace kiln::gpu
