#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kiln/dtype/scalar.h"
#include "kiln/graph/ir.h"
#include "kiln/graph/location.h"
#include "kiln/graph/type.h"
#include "kiln/support/ref.h"

namespace kiln::graph {

namespace detail {
struct GraphState;
struct WeightState;
}  // namespace detail

class BufferValue;
class OpaqueValue;
class SliceIndex;
class TensorValue;
class TensorValueLike;
struct Array;

/// A value of a graph, of any type: a cheap handle that keeps its graph alive. A value belongs to
/// one graph for life.
class Value {
 public:
  /// An empty handle; it may be assigned, compared and used as `bool`.
  Value() = default;
  Value(const Value&) = default;
  Value& operator=(const Value&) = default;
  Value(Value&& other) noexcept
      : graph_(std::move(other.graph_)),
        value_(std::exchange(other.value_, nullptr)),
        weight_(std::move(other.weight_)) {}
  Value& operator=(Value&& other) noexcept {
    graph_ = std::move(other.graph_);
    value_ = std::exchange(other.value_, nullptr);
    weight_ = std::move(other.weight_);
    return *this;
  }

  Type type() const;
  /// Checked casts. Another type: TypeError.
  TensorValue tensor() const;
  BufferValue buffer() const;
  OpaqueValue opaque() const;
  /// "TensorValue(dtype=float32, shape=[Dim(4)], device=cpu:0)".
  std::string repr() const;

  explicit operator bool() const { return value_ != nullptr || weight_ != nullptr; }
  /// Whether both are the same value of the same graph (C++ `==` of tensors builds an op).
  bool is(const Value& other) const { return value_ == other.value_ && weight_ == other.weight_; }

  Value(std::shared_ptr<detail::GraphState> graph, ir::Value* value)
      : graph_(std::move(graph)), value_(value) {}
  /// The graph it belongs to; null for a weight that was not taken from a graph.
  const std::shared_ptr<detail::GraphState>& graph_state() const { return graph_; }
  /// Its place in the IR; a weight is added to the current graph first.
  ir::Value* ir_value() const;
  /// What a `Weight` handle refers to; null for others.
  const std::shared_ptr<detail::WeightState>& weight_state() const { return weight_; }

 protected:
  std::shared_ptr<detail::GraphState> graph_;
  ir::Value* value_ = nullptr;
  Shared<detail::WeightState> weight_;
};

/// The operators of everything that acts as a tensor in an expression. They promote and broadcast;
/// see the functions of `ops` with the same meaning for rules and errors.
class TensorOperators {
  friend TensorValue operator-(const TensorValueLike& x);
  friend TensorValue operator~(const TensorValueLike& x);
  friend TensorValue operator+(const TensorValueLike& lhs, const TensorValueLike& rhs);
  friend TensorValue operator-(const TensorValueLike& lhs, const TensorValueLike& rhs);
  friend TensorValue operator*(const TensorValueLike& lhs, const TensorValueLike& rhs);
  friend TensorValue operator/(const TensorValueLike& lhs, const TensorValueLike& rhs);
  friend TensorValue operator%(const TensorValueLike& lhs, const TensorValueLike& rhs);
  friend TensorValue operator==(const TensorValueLike& lhs, const TensorValueLike& rhs);
  friend TensorValue operator!=(const TensorValueLike& lhs, const TensorValueLike& rhs);
  friend TensorValue operator>(const TensorValueLike& lhs, const TensorValueLike& rhs);
  friend TensorValue operator>=(const TensorValueLike& lhs, const TensorValueLike& rhs);
  friend TensorValue operator<(const TensorValueLike& lhs, const TensorValueLike& rhs);
  friend TensorValue operator<=(const TensorValueLike& lhs, const TensorValueLike& rhs);
  friend TensorValue operator&(const TensorValueLike& lhs, const TensorValueLike& rhs);
  friend TensorValue operator|(const TensorValueLike& lhs, const TensorValueLike& rhs);
  friend TensorValue operator^(const TensorValueLike& lhs, const TensorValueLike& rhs);
};

/// A value-semantic tensor: every operation makes a new one.
class TensorValue : public Value, public TensorOperators {
 public:
  TensorValue() = default;
  /// A value of tensor type; others: TypeError.
  explicit TensorValue(const Value& value);
  /// An int64 scalar, an int64 vector; both on the CPU.
  explicit TensorValue(const Dim& dim, Location location = Location::current());
  explicit TensorValue(const graph::Shape& shape, Location location = Location::current());

  TensorType type() const;
  graph::Shape shape() const;
  DType dtype() const;
  DeviceRef device() const;
  int rank() const;

  TensorValue reshape(const graph::Shape& shape, Location location = Location::current()) const;
  TensorValue flatten(int start_dim = 0, int end_dim = -1,
                      Location location = Location::current()) const;
  TensorValue broadcast_to(const graph::Shape& shape,
                           Location location = Location::current()) const;
  TensorValue permute(const std::vector<std::int64_t>& dims,
                      Location location = Location::current()) const;
  TensorValue transpose(int dim_1, int dim_2, Location location = Location::current()) const;
  /// Swaps the last two axes.
  TensorValue T(Location location = Location::current()) const;
  TensorValue rebind(const graph::Shape& shape, const std::string& message = "",
                     Location location = Location::current()) const;

  TensorValue cast(DType dtype, Location location = Location::current()) const;
  TensorValue to(DeviceRef device, Location location = Location::current()) const;
  /// Prints it when the graph runs.
  void print(const std::string& label = "debug_tensor",
             Location location = Location::current()) const;

  /// Reductions; the axis stays with size 1.
  TensorValue argmax(int axis = -1, Location location = Location::current()) const;
  TensorValue max(int axis = -1, Location location = Location::current()) const;
  TensorValue mean(int axis = -1, Location location = Location::current()) const;
  TensorValue min(int axis = -1, Location location = Location::current()) const;
  /// The root of `var`. bool: TypeError.
  TensorValue stdev(int axis = -1, Location location = Location::current()) const;
  /// The mean of squared deviations. bool: TypeError.
  TensorValue var(int axis = -1, Location location = Location::current()) const;

  /// `x[{1, slice(0, 3), ellipsis, newaxis}]`.
  TensorValue operator[](std::initializer_list<SliceIndex> indices) const;
  TensorValue operator[](const std::vector<SliceIndex>& indices) const;
  TensorValue operator[](const SliceIndex& index) const;
};

/// A dense, row-major copy of host data that takes part in ops with the other operand's type.
struct Array {
  DType dtype;
  std::vector<std::int64_t> shape;
  std::shared_ptr<const ir::ConstantData> data;
  /// Where it came from.
  DeviceRef device;

  /// `bytes` are copied; their count must fit the shape: ValueError.
  Array(DType dtype, std::vector<std::int64_t> shape, const void* bytes, std::size_t size,
        DeviceRef device = {});
  std::int64_t num_elements() const;
};

/// What makes the tensor that a number stands for, once the type it adopts is known and holds it.
/// Without one it is a constant.
class NumberSource {
 public:
  virtual TensorValue tensor(DType dtype, DeviceRef device) = 0;

 protected:
  ~NumberSource() = default;
};

/// What ops take: a tensor, a dim or a shape (strong kinds), or a number or an array (weak kinds,
/// which adopt the type of the strong operand). Remembers the caller's line.
class TensorValueLike {
 public:
  using Variant = std::variant<TensorValue, Dim, graph::Shape, Scalar, Array>;

  TensorValueLike(TensorValue value, Location location = Location::current())  // NOLINT
      : value_(std::move(value)), location_(location) {}
  TensorValueLike(const Value& value, Location location = Location::current())  // NOLINT
      : value_(TensorValue(value)), location_(location) {}
  TensorValueLike(Dim dim, Location location = Location::current())  // NOLINT
      : value_(std::move(dim)), location_(location) {}
  TensorValueLike(graph::Shape shape, Location location = Location::current())  // NOLINT
      : value_(std::move(shape)), location_(location) {}
  TensorValueLike(Array array, Location location = Location::current())  // NOLINT
      : value_(std::move(array)), location_(location) {}
  TensorValueLike(Scalar scalar, Location location = Location::current())  // NOLINT
      : value_(scalar), location_(location) {}
  /// A number that `source`, which outlives this object, makes a tensor of.
  TensorValueLike(Scalar scalar, NumberSource* source, Location location = Location::current())
      : value_(scalar), location_(location), number_source_(source) {}
  template <typename T>
    requires(std::is_arithmetic_v<T> || kIsFloatFormat<T>)
  TensorValueLike(T number, Location location = Location::current())  // NOLINT
      : value_(Scalar(number)), location_(location) {}
  /// Anything with a `tensorvalue()`.
  template <typename T>
    requires requires(const T& object) { TensorValue(object.tensorvalue()); }
  TensorValueLike(const T& object, Location location = Location::current())  // NOLINT
      : value_(TensorValue(object.tensorvalue())), location_(location) {}

  const Variant& variant() const { return value_; }
  const Location& location() const { return location_; }
  const TensorValue* tensor() const { return std::get_if<TensorValue>(&value_); }
  /// May be null.
  NumberSource* number_source() const { return number_source_; }
  /// Whether it is a number, an array or a static dim.
  bool is_weak() const;
  /// For messages.
  std::string repr() const;

 private:
  Variant value_;
  Location location_;
  NumberSource* number_source_ = nullptr;
};

/// A value only custom kernels understand.
class OpaqueValue : public Value {
 public:
  OpaqueValue() = default;
  /// A value of another type: TypeError.
  explicit OpaqueValue(const Value& value);
  OpaqueType type() const;
};

/// Memory that a graph reads and updates in place; it is how a graph keeps state between
/// executions. Reads and writes of one device happen in the order they are added.
class BufferValue : public Value {
 public:
  BufferValue() = default;
  /// A value of buffer type; others: TypeError.
  explicit BufferValue(const Value& value);
  template <typename T>
    requires requires(const T& object) { BufferValue(object.buffervalue()); }
  explicit BufferValue(const T& object) : BufferValue(object.buffervalue()) {}
  /// The checked way in for a raw graph value, under two names.
  static BufferValue from_mlir(const Value& value) { return BufferValue(value); }
  static BufferValue from_value(const Value& value) { return BufferValue(value); }

  BufferType type() const;
  graph::Shape shape() const;
  DType dtype() const;
  DeviceRef device() const;
  int rank() const;
  /// Loads the buffer and prints it when the graph runs.
  void print(const std::string& label = "debug_buffer",
             Location location = Location::current()) const;

  class Region;
  /// `b[{slice(0, 2)}]` reads when used as a tensor and writes when assigned to.
  Region operator[](std::initializer_list<SliceIndex> indices) const;
  Region operator[](const std::vector<SliceIndex>& indices) const;
  Region operator[](const SliceIndex& index) const;
};

}  // namespace kiln::graph
