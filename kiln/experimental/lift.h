#pragma once

// Makes functions over tensors of functions over graph values. Internal to kiln/experimental; the
// functions are in functional.h.

#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "kiln/experimental/call.h"
#include "kiln/graph/ops.h"
#include "kiln/graph/slice_index.h"

namespace kiln::experimental::detail {

/// A number for each op that calls are told apart by.
std::uint64_t next_op_id() noexcept;

// What a call is told of each kind of argument. Others make it take the long way.

inline void add_argument(CallArguments& call, const Tensor& x) { call.tensor(*x.state()); }
inline void add_argument(CallArguments& call, const TensorLike& x) {
  if (x.tensor())
    call.tensor(*x.tensor()->state());
  else
    call.number(x.number());
}
template <typename T>
  requires(std::is_integral_v<T> || std::is_enum_v<T>)
void add_argument(CallArguments& call, T value) {
  call.key.add(static_cast<std::uint64_t>(value));
}
inline void add_argument(CallArguments& call, double value) {
  call.key.add(std::bit_cast<std::uint64_t>(value));
}
inline void add_argument(CallArguments& call, DType dtype) {
  call.key.add(static_cast<std::uint64_t>(dtype.code()));
}
inline void add_argument(CallArguments& call, const graph::DeviceRef& device) {
  call.key.add(static_cast<std::uint64_t>(device.kind) << 32 | static_cast<unsigned>(device.id));
}
inline void add_argument(CallArguments& call, const std::string& text) {
  call.key.add(std::string_view(text));
}
inline void add_argument(CallArguments& call, const graph::Dim& dim) { call.key.add(dim); }
inline void add_argument(CallArguments& call, const graph::Shape& shape) {
  call.key.add(static_cast<std::uint64_t>(shape.rank()));
  for (const graph::Dim& dim : shape) call.key.add(dim);
}
void add_argument(CallArguments& call, const graph::SliceIndex& index);
inline void add_argument(CallArguments& call, const Scalar& number) {
  call.key.add(number.index());
  call.key.add(std::bit_cast<std::uint64_t>(number.to<double>()));
  if (number.is_integer()) call.key.add(number.to<std::uint64_t>());
}
/// A number; a value of a graph cannot be a part of a key.
inline void add_argument(CallArguments& call, const graph::TensorValueLike& value) {
  if (const auto* number = std::get_if<Scalar>(&value.variant()))
    add_argument(call, *number);
  else
    call.key.spoil();
}

/// How many fields an argument that is a struct of options has; 0 for other types. A number that is
/// not that of the struct does not compile.
template <typename T>
inline constexpr std::size_t kFields = 0;
template <>
inline constexpr std::size_t kFields<graph::ops::RmsNormOptions> = 2;
template <>
inline constexpr std::size_t kFields<graph::ops::PadOptions> = 2;
template <>
inline constexpr std::size_t kFields<graph::ops::RebindOptions> = 2;
template <>
inline constexpr std::size_t kFields<graph::ops::BandPartOptions> = 3;
template <>
inline constexpr std::size_t kFields<graph::ops::CumsumOptions> = 3;
template <>
inline constexpr std::size_t kFields<graph::ops::Conv2dOptions> = 7;
template <>
inline constexpr std::size_t kFields<graph::ops::Conv3dOptions> = 7;
template <>
inline constexpr std::size_t kFields<graph::ops::Conv2dTransposeOptions> = 7;
template <>
inline constexpr std::size_t kFields<graph::ops::Extent2d> = 2;
template <>
inline constexpr std::size_t kFields<graph::ops::MaxPool2dOptions> = 4;
template <>
inline constexpr std::size_t kFields<graph::ops::AvgPool2dOptions> = 5;
template <>
inline constexpr std::size_t kFields<graph::ops::ResizeNearestOptions> = 2;
template <>
inline constexpr std::size_t kFields<graph::ops::ResizeLinearOptions> = 2;
template <>
inline constexpr std::size_t kFields<graph::ops::RoiAlignOptions> = 4;
template <>
inline constexpr std::size_t kFields<graph::ops::FoldOptions> = 3;
template <>
inline constexpr std::size_t kFields<graph::ops::IrfftOptions> = 5;
template <>
inline constexpr std::size_t kFields<graph::QuantizationConfig> = 5;

template <typename T>
concept HasFields = kFields<T> != 0;
template <typename T>
concept Opaque = !std::is_integral_v<T> && !std::is_enum_v<T> && !HasFields<T>;

template <HasFields T>
void add_argument(CallArguments& call, const T& options);
template <Opaque T>
void add_argument(CallArguments& call, const T&);
template <typename T, std::size_t N>
void add_argument(CallArguments& call, const std::array<T, N>& list) {
  for (const T& item : list) add_argument(call, item);
}
template <typename T>
void add_argument(CallArguments& call, const std::vector<T>& list) {
  call.key.add(list.size());
  for (const T& item : list) add_argument(call, item);
}
template <typename T>
void add_argument(CallArguments& call, const std::optional<T>& value) {
  call.key.add(value.has_value());
  if (value) add_argument(call, *value);
}
template <Opaque T>
void add_argument(CallArguments& call, const T&) {
  call.key.spoil();
}
template <HasFields T>
void add_argument(CallArguments& call, const T& options) {
  const auto add = [&](const auto&... fields) { (add_argument(call, fields), ...); };
  if constexpr (kFields<T> == 2) {
    const auto& [a, b] = options;
    add(a, b);
  } else if constexpr (kFields<T> == 3) {
    const auto& [a, b, c] = options;
    add(a, b, c);
  } else if constexpr (kFields<T> == 4) {
    const auto& [a, b, c, d] = options;
    add(a, b, c, d);
  } else if constexpr (kFields<T> == 5) {
    const auto& [a, b, c, d, e] = options;
    add(a, b, c, d, e);
  } else {
    const auto& [a, b, c, d, e, f, g] = options;
    add(a, b, c, d, e, f, g);
  }
}

/// Gives the op its operands; counts the numbers among them.
class Operands {
 public:
  explicit Operands(Call& call) : call_(call) {}

  graph::TensorValueLike operator()(const Tensor& x) {
    return graph::TensorValueLike(x.tensorvalue());
  }
  graph::TensorValueLike operator()(const TensorLike& x) {
    if (x.tensor()) return graph::TensorValueLike(x.tensor()->tensorvalue(), x.location());
    return call_.number(numbers_++, x.location());
  }
  std::vector<graph::TensorValueLike> operator()(const std::vector<Tensor>& list) {
    std::vector<graph::TensorValueLike> values;
    for (const Tensor& x : list) values.push_back((*this)(x));
    return values;
  }
  template <typename T>
  const T& operator()(const T& plain) {
    return plain;
  }

 private:
  Call& call_;
  std::size_t numbers_ = 0;
};

// Results of ops as graph values, and of calls as what functions over tensors return.

inline std::vector<graph::Value> values_of(const graph::TensorValue& value) { return {value}; }
inline std::vector<graph::Value> values_of(std::vector<graph::Value> values) { return values; }
inline std::vector<graph::Value> values_of(const std::vector<graph::TensorValue>& values) {
  return {values.begin(), values.end()};
}
inline std::vector<graph::Value> values_of(
    const std::pair<graph::TensorValue, graph::TensorValue>& values) {
  return {values.first, values.second};
}

template <typename R>
auto take_results(std::vector<Tensor>& results) {
  if constexpr (std::is_same_v<R, graph::TensorValue>)
    return std::move(results[0]);
  else if constexpr (std::is_same_v<R, std::vector<graph::TensorValue>> ||
                     std::is_same_v<R, std::vector<graph::Value>>)
    return std::move(results);
  else
    return std::pair(std::move(results[0]), std::move(results[1]));
}

/// Calls `op`, a function over graph values, on tensors.
template <typename Op, typename... Args>
auto lift(const char* name, const Op& op, const Args&... args) {
  static const std::uint64_t id = next_op_id();
  Call call(name, id);
  (add_argument(call.arguments(), args), ...);
  Operands operand(call);
  using Result = std::remove_cvref_t<decltype(op(operand(args)...))>;
  const std::shared_ptr<const CallPlan> plan = call.plan();
  if (plan && call.run(*plan)) return take_results<Result>(call.results());
  call.record();
  // Braces, so that numbers are counted from left to right.
  call.finish(values_of(std::apply(op, std::tuple<decltype(operand(args))...>{operand(args)...})));
  return take_results<Result>(call.results());
}

}  // namespace kiln::experimental::detail
