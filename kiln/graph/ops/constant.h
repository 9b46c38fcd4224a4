#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kiln/graph/value.h"

namespace kiln::driver {
class Buffer;
}

namespace kiln::graph::ops {

/// A number or a nested list of numbers, as written in `constant({{1, 2}, {3, 4}}, …)`.
class Literal {
 public:
  template <typename T>
    requires(std::is_arithmetic_v<T> || kIsFloatFormat<T>)
  Literal(T number) : number_(number) {}                            // NOLINT
  Literal(Scalar number) : number_(number) {}                       // NOLINT
  Literal(std::initializer_list<Literal> items) : items_(items) {}  // NOLINT
  explicit Literal(std::vector<Literal> items) : items_(std::move(items)) {}

  bool is_list() const { return !number_.has_value(); }
  const Scalar& number() const { return *number_; }
  const std::vector<Literal>& items() const { return items_; }
  /// "[1, [2, 3]]".
  std::string to_string() const;

 private:
  std::optional<Scalar> number_;
  std::vector<Literal> items_;
};

/// The elements of the literal. Errors as for `constant`.
Array literal_array(const Literal& value, DType dtype);
/// A tensor that holds the value. Lists that are not rectangular and integers outside of the dtype:
/// ValueError; a dtype narrower than a byte: TypeError. The data is copied.
TensorValue constant(const Literal& value, DType dtype, DeviceRef device,
                     Location location = Location::current());
inline TensorValue constant(std::initializer_list<Literal> values, DType dtype, DeviceRef device,
                            Location location = Location::current()) {
  return constant(Literal(values), dtype, device, location);
}

/// Where and as what an array becomes a constant; by default its own dtype and device. Another
/// dtype than the array's: ValueError.
struct ConstantOptions {
  std::optional<DType> dtype = std::nullopt;
  std::optional<DeviceRef> device = std::nullopt;
};
TensorValue constant(const Array& value, const ConstantOptions& options = {},
                     Location location = Location::current());
/// A buffer on an accelerator is read through the host, as the graph's `strict_device_placement`
/// says.
TensorValue constant(const driver::Buffer& value, const ConstantOptions& options = {},
                     Location location = Location::current());
/// A vector of the values.
template <typename T>
TensorValue constant(std::span<const T> values, DeviceRef device,
                     Location location = Location::current()) {
  Array array(DType::of<T>(), {static_cast<std::int64_t>(values.size())}, values.data(),
              values.size_bytes());
  return constant(array, {.device = device}, location);
}

/// Options of `hann_window`.
struct HannWindowOptions {
  /// One period of the window; false: symmetric.
  bool periodic = true;
  DType dtype = DType::float32;
};
/// `0.5 - 0.5 cos(2 pi i / M)`, a vector. Negative length: ValueError.
TensorValue hann_window(std::int64_t window_length, DeviceRef device,
                        const HannWindowOptions& options = {},
                        Location location = Location::current());

/// Options of `constant_external`.
struct ConstantExternalOptions {
  /// Bytes; by default the dtype's.
  std::optional<std::int64_t> align = std::nullopt;
  /// Makes the name relative to the `prefix` of `call`; by default inside subgraphs.
  std::optional<bool> is_placeholder = std::nullopt;
};
/// A named weight on `type.device`, resolved when the model is initialised. The same name and type
/// again refer to the same weight.
TensorValue constant_external(const std::string& name, const TensorType& type,
                              const ConstantExternalOptions& options = {},
                              Location location = Location::current());

/// The extents at run time, an int64 vector on the CPU.
TensorValue shape_to_tensor(const Shape& shape, Location location = Location::current());

/// Options of `range`.
struct RangeOptions {
  /// The size of the result; needed when a bound is a tensor, and checked at run.
  std::optional<Dim> out_dim = std::nullopt;
};
/// `start + i * step` for i in [0, n), `stop` excluded, computed in `dtype`.
TensorValue range(const TensorValueLike& start, const TensorValueLike& stop,
                  const TensorValueLike& step, DType dtype, DeviceRef device,
                  const RangeOptions& options = {});

namespace detail {
/// A constant op of these bytes on the host, moved to `device`.
TensorValue constant_of(const std::vector<std::int64_t>& shape, DType dtype,
                        std::vector<std::byte> bytes, DeviceRef device);
}  // namespace detail

}  // namespace kiln::graph::ops
