#pragma once

// Arguments of kernels: which types a parameter takes, and how they become the values that a launch
// is given.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "kiln/dtype/dtype.h"
#include "kiln/gpu/function.h"

namespace kiln::gpu::detail {

/// Handles of typed memory: DeviceBuffer, HostBuffer, DevicePointer.
template <typename A>
concept MemoryHandle = requires(const A& a) {
  typename A::Element;
  { a.kernel_memory() } -> std::same_as<const driver::Buffer&>;
  { a.unsafe_ptr() } -> std::same_as<typename A::Element*>;
};

template <typename P, typename A>
consteval bool accepts() {
  using Value = std::remove_cvref_t<A>;
  if constexpr (std::is_same_v<P, std::decay_t<A>>) {
    return true;
  } else if constexpr (std::is_pointer_v<P>) {
    using Pointee = std::remove_pointer_t<P>;
    using Element = std::remove_cv_t<Pointee>;
    if constexpr (std::is_null_pointer_v<Value>)
      return true;
    else if constexpr (MemoryHandle<Value>)
      return std::is_same_v<typename Value::Element, Element>;
    else if constexpr (std::is_same_v<Value, driver::Buffer>)
      return true;
    else
      return std::is_same_v<std::decay_t<A>, Element*>;
  } else if constexpr (std::is_convertible_v<A, P>) {
    return requires(const Value& value) { P{value}; };
  } else {
    return false;
  }
}

[[noreturn]] void throw_wrong_element(const Function& function, std::size_t index, DType found,
                                      const std::string& wanted);

/// The spelling of a type that the compiler of kernel sources uses, too.
template <typename T>
std::string type_text() {
  if constexpr (std::is_pointer_v<T>) {
    using Pointee = std::remove_pointer_t<T>;
    return (std::is_const_v<Pointee> ? "const " : "") + type_text<std::remove_cv_t<Pointee>>() +
           "*";
  } else if constexpr (std::is_same_v<T, void>) {
    return "void";
  } else if constexpr (std::is_same_v<T, bool>) {
    return "bool";
  } else if constexpr (std::is_same_v<T, char>) {
    return "char";
  } else if constexpr (std::is_same_v<T, signed char>) {
    return "signed char";
  } else if constexpr (std::is_same_v<T, unsigned char>) {
    return "unsigned char";
  } else if constexpr (std::is_same_v<T, short>) {
    return "short";
  } else if constexpr (std::is_same_v<T, unsigned short>) {
    return "unsigned short";
  } else if constexpr (std::is_same_v<T, int>) {
    return "int";
  } else if constexpr (std::is_same_v<T, unsigned>) {
    return "unsigned int";
  } else if constexpr (std::is_same_v<T, long>) {
    return "long";
  } else if constexpr (std::is_same_v<T, unsigned long>) {
    return "unsigned long";
  } else if constexpr (std::is_same_v<T, long long>) {
    return "long long";
  } else if constexpr (std::is_same_v<T, unsigned long long>) {
    return "unsigned long long";
  } else if constexpr (std::is_same_v<T, float>) {
    return "float";
  } else if constexpr (std::is_same_v<T, double>) {
    return "double";
  } else if constexpr (requires { kiln_device_struct_name(static_cast<T*>(nullptr)); }) {
    return kiln_device_struct_name(static_cast<T*>(nullptr));
  } else {
    return std::string(DType::of<T>().name());
  }
}
template <typename... P>
std::string signature_text() {
  std::string text = "void(";
  [[maybe_unused]] bool first = true;
  ((text += first ? "" : ", ", text += type_text<P>(), first = false), ...);
  return text + ")";
}

/// The value that parameter `P` gets; the buffers among the arguments are added to `uses`.
template <typename P, typename A>
P to_parameter(const Function& function, std::size_t index, const A& argument, BufferUse*& uses) {
  if constexpr (std::is_pointer_v<P> && MemoryHandle<A>) {
    check_buffer(function, index, argument.kernel_memory());
    *uses++ = {&argument.kernel_memory(), !std::is_const_v<std::remove_pointer_t<P>>};
    return argument.unsafe_ptr();
  } else if constexpr (std::is_pointer_v<P> && std::is_same_v<A, driver::Buffer>) {
    using Element = std::remove_cv_t<std::remove_pointer_t<P>>;
    if constexpr (!std::is_void_v<Element>) {
      if (argument.dtype() != DType::of<Element>())
        throw_wrong_element(function, index, argument.dtype(), type_text<P>());
    }
    check_buffer(function, index, argument);
    *uses++ = {&argument, !std::is_const_v<std::remove_pointer_t<P>>};
    return static_cast<P>(argument.data());
  } else {
    return P(argument);
  }
}

/// Launches a function whose parameters are known to be `P...`.
template <typename... P, typename... A>
void launch_typed(const LaunchTarget& target, const Function& function, const char* call,
                  const LaunchConfig& config, const A&... arguments) {
  static_assert(sizeof...(P) == sizeof...(A), "Wrong number of arguments to enqueue");
  if constexpr (sizeof...(P) == sizeof...(A)) {
    static_assert((accepts<P, const A&>() && ...),
                  "kernel argument does not match the declared parameter type");
    if constexpr ((accepts<P, const A&>() && ...)) {
      constexpr std::size_t kCount = sizeof...(P);
      std::array<BufferUse, kCount + 1> uses;
      BufferUse* end = uses.data();
      const auto build_and_launch = [&]<std::size_t... I>(std::index_sequence<I...>) {
        // Braces: arguments are looked at from left to right.
        std::tuple<P...> values{to_parameter<P>(function, I, arguments, end)...};
        void* pointers[kCount + 1] = {
            const_cast<void*>(static_cast<const void*>(&std::get<I>(values)))...};
        static constexpr std::uint32_t kSizes[kCount + 1] = {sizeof(P)...};
        launch(target, {.function = function,
                        .config = config,
                        .call = call,
                        .arguments = pointers,
                        .sizes = kSizes,
                        .count = kCount,
                        .uses = {uses.data(), end}});
      };
      try {
        build_and_launch(std::make_index_sequence<kCount>());
      } catch (Error& error) {
        add_place(error, config.location);
        throw;
      }
    }
  }
}

/// An argument whose parameter is looked up when it is launched.
struct AnyArgument {
  enum class Kind : std::uint8_t {
    boolean,
    integer,
    unsigned_integer,
    floating,
    pointer,
    null,
    other
  };
  Kind kind = Kind::other;
  std::uint32_t size = 0;
  const void* value = nullptr;
  const driver::Buffer* buffer = nullptr;
  /// The spelling of its type, made when an error needs it; else `type_name` has it.
  std::string (*type)(const AnyArgument&) = nullptr;
  std::string type_name = {};
};

template <typename A>
AnyArgument any_argument(const A& argument, void*& pointer) {
  using T = std::decay_t<A>;
  AnyArgument any;
  any.value = &argument;
  any.size = sizeof(void*);
  if constexpr (std::is_same_v<T, driver::Buffer>) {
    any.kind = AnyArgument::Kind::pointer;
    any.buffer = &argument;
    pointer = argument.data();
    any.value = &pointer;
    any.type = [](const AnyArgument& a) { return std::string(a.buffer->dtype().name()) + "*"; };
  } else if constexpr (MemoryHandle<T>) {
    any.kind = AnyArgument::Kind::pointer;
    any.buffer = &argument.kernel_memory();
    pointer = argument.unsafe_ptr();
    any.value = &pointer;
    any.type = [](const AnyArgument&) { return type_text<typename T::Element*>(); };
  } else if constexpr (std::is_null_pointer_v<T>) {
    any.kind = AnyArgument::Kind::null;
    pointer = nullptr;
    any.value = &pointer;
    any.type = [](const AnyArgument&) { return std::string("nullptr"); };
  } else if constexpr (std::is_pointer_v<T>) {
    any.kind = AnyArgument::Kind::pointer;
    pointer = const_cast<void*>(static_cast<const void*>(argument));
    any.value = &pointer;
    any.type = [](const AnyArgument&) { return type_text<T>(); };
  } else {
    any.size = sizeof(T);
    any.kind = std::is_same_v<T, bool>       ? AnyArgument::Kind::boolean
               : std::is_floating_point_v<T> ? AnyArgument::Kind::floating
               : !std::is_integral_v<T>      ? AnyArgument::Kind::other
               : std::is_signed_v<T>         ? AnyArgument::Kind::integer
                                             : AnyArgument::Kind::unsigned_integer;
    any.type = [](const AnyArgument&) { return type_text<T>(); };
  }
  return any;
}

/// Launches a function whose parameters its source or image tells. Errors: section 6 of the
/// specification.
void launch_any(const LaunchTarget& target, const Function& function, const char* call,
                const LaunchConfig& config, const AnyArgument* arguments, std::size_t count);

template <typename... A>
void launch_untyped(const LaunchTarget& target, const Function& function, const char* call,
                    const LaunchConfig& config, const A&... arguments) {
  [[maybe_unused]] void* pointers[sizeof...(A) + 1] = {};
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    const AnyArgument list[sizeof...(A) + 1] = {any_argument(arguments, pointers[I])...};
    launch_any(target, function, call, config, list, sizeof...(A));
  }(std::make_index_sequence<sizeof...(A)>());
}

}  // namespace kiln::gpu::detail
