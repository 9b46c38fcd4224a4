#pragma once

// Host functions as kernels: `void f(P...)` as a template argument, and callables without
// parameters.

#include <string>
#include <string_view>
#include <type_traits>

#include "kiln/gpu/kernel.h"

namespace kiln::gpu::detail {

template <typename F>
struct FunctionType;
template <typename... P>
struct FunctionType<void (*)(P...)> {
  using Signature = void(P...);
};
template <typename... P>
struct FunctionType<void (*)(P...) noexcept> {
  using Signature = void(P...);
};

/// The name of a function given as a template argument, as the compiler spells it.
template <auto fn>
std::string function_name() {
  std::string_view text = __PRETTY_FUNCTION__;
  const std::size_t from = text.find("fn = ");
  text = text.substr(from + 5);
  text = text.substr(0, text.find_first_of(";]"));
  if (text.starts_with('&')) text.remove_prefix(1);
  if (const std::size_t scope = text.rfind("::"); scope != std::string_view::npos)
    text.remove_prefix(scope + 2);
  return std::string(text.substr(0, text.find('(')));
}

/// A kernel without a text, which only the host can run and of which anything may wait.
template <typename Run>
KernelDefinition host_definition(const char* name) {
  return {.name = name,
          .parameters = "",
          .body = nullptr,
          .file = "",
          .line = 0,
          .run = &Run::run,
          .may_wait = true,
          .signature = &Run::signature,
          .sizes = Run::kSizes,
          .count = Run::kCount};
}
template <typename Code>
KernelMemo& host_memo() {
  static auto* const instance = new KernelMemo;  // leaked: launches may come until the very end
  return *instance;
}

template <auto fn>
struct HostFunction {
  using Signature = typename FunctionType<std::decay_t<decltype(fn)>>::Signature;

  template <typename... P>
  static void call(const ThreadIndices&, P... values) {
    fn(values...);
  }
  using Run = HostRun<HostFunction, Signature>;
  static const KernelDefinition& definition() {
    static const std::string name = function_name<fn>();
    static const KernelDefinition instance = host_definition<Run>(name.c_str());
    return instance;
  }
  static KernelMemo& memo() { return host_memo<HostFunction>(); }
};

/// A callable without parameters that is no kernel of ours: a lambda, an object with `operator()`.
template <typename F>
concept PlainCallable = std::is_invocable_v<const F&> && !IsClosure<F>::value;

/// Its state is a kernel parameter by reference to a copy that the launch keeps.
template <typename F>
struct CallableCode {
  static void call(const ThreadIndices&, const void* callable) {
    (*static_cast<const F*>(callable))();
  }
  using Run = HostRun<CallableCode, void(const void*)>;
  static const KernelDefinition& definition() {
    static const KernelDefinition instance = host_definition<Run>("lambda");
    return instance;
  }
  static KernelMemo& memo() { return host_memo<CallableCode>(); }
};

}  // namespace kiln::gpu::detail
