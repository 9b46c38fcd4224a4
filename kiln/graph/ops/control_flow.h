#pragma once

#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "kiln/graph/graph.h"
#include "kiln/graph/value.h"

namespace kiln::graph::ops {

/// Records a region: gets the region's values, returns its results.
using RegionFunction = std::function<std::vector<Value>(const std::vector<Value>&)>;

/// Only one of the two functions' regions runs; each must return values of exactly `out_types`
/// (TypeError). `pred` is a bool scalar on the CPU.
std::vector<Value> cond(const TensorValueLike& pred, const std::vector<Type>& out_types,
                        const RegionFunction& then_fn, const RegionFunction& else_fn);

/// Runs `body` while `predicate` gives true, which is tested before the first iteration; the body
/// returns values of the types it gets.
std::vector<Value> while_loop(const std::vector<TensorValueLike>& initial_values,
                              const RegionFunction& predicate, const RegionFunction& body,
                              Location location = Location::current());

/// Options of `call`.
struct CallOptions {
  /// Stands before the name of every placeholder weight of the callee.
  std::string prefix = "";
};
/// The callee's outputs. Wrong count or type of arguments: ValueError.
std::vector<Value> call(const Graph& graph, const std::vector<Value>& args,
                        const CallOptions& options = {}, Location location = Location::current());

namespace detail {

template <typename T>
std::vector<Value> to_values(T&& results) {
  using R = std::remove_cvref_t<T>;
  if constexpr (std::is_convertible_v<R, Value>)
    return {results};
  else if constexpr (requires { std::tuple_size<R>::value; })
    return std::apply([](const auto&... v) { return std::vector<Value>{v...}; }, results);
  else
    return std::vector<Value>(results.begin(), results.end());
}

template <typename F>
RegionFunction nullary(F&& function) {
  return [&function](const std::vector<Value>&) -> std::vector<Value> {
    if constexpr (std::is_void_v<std::invoke_result_t<F&>>) {
      function();
      return {};
    } else {
      return to_values(function());
    }
  };
}

template <typename F>
RegionFunction unary(F&& function) {
  return [&function](const std::vector<Value>& values) -> std::vector<Value> {
    if constexpr (std::is_invocable_v<F&, const std::vector<Value>&>) {
      return to_values(function(values));
    } else {
      std::vector<TensorValue> tensors(values.begin(), values.end());
      return to_values(function(tensors));
    }
  };
}

}  // namespace detail

/// With callables that take nothing and return nothing, a value, a tuple or a vector.
template <typename Then, typename Else>
  requires(std::is_invocable_v<Then&> && std::is_invocable_v<Else&>)
std::vector<Value> cond(const TensorValueLike& pred, const std::vector<Type>& out_types,
                        Then&& then_fn, Else&& else_fn) {
  return cond(pred, out_types, detail::nullary(then_fn), detail::nullary(else_fn));
}

/// With callables that take a vector of tensors or values and return a value, a tuple or a vector.
template <typename Predicate, typename Body>
  requires((std::is_invocable_v<Predicate&, const std::vector<TensorValue>&> ||
            std::is_invocable_v<Predicate&, const std::vector<Value>&>) &&
           !std::is_same_v<std::remove_cvref_t<Predicate>, RegionFunction>)
std::vector<Value> while_loop(const std::vector<TensorValueLike>& initial_values,
                              Predicate&& predicate, Body&& body,
                              Location location = Location::current()) {
  return while_loop(initial_values, detail::unary(predicate), detail::unary(body), location);
}

}  // namespace kiln::graph::ops
