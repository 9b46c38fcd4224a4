#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "kiln/driver/buffer.h"
#include "kiln/experimental/defaults.h"
#include "kiln/experimental/tensor_layout.h"
#include "kiln/graph/ops/constant.h"
#include "kiln/graph/slice_index.h"
#include "kiln/graph/value.h"
#include "kiln/support/ref.h"

namespace kiln::experimental {

namespace detail {
struct TensorState;
struct Placed;
}  // namespace detail

class TensorLike;

/// The operators of tensors. They promote and broadcast as those of `graph::TensorValue`; either
/// side may be a plain number.
class TensorArithmetic {
  friend Tensor operator-(const Tensor& x);
  friend Tensor operator~(const Tensor& x);
  friend Tensor operator+(const TensorLike& lhs, const TensorLike& rhs);
  friend Tensor operator-(const TensorLike& lhs, const TensorLike& rhs);
  friend Tensor operator*(const TensorLike& lhs, const TensorLike& rhs);
  friend Tensor operator/(const TensorLike& lhs, const TensorLike& rhs);
  friend Tensor operator%(const TensorLike& lhs, const TensorLike& rhs);
  friend Tensor operator==(const TensorLike& lhs, const TensorLike& rhs);
  friend Tensor operator!=(const TensorLike& lhs, const TensorLike& rhs);
  friend Tensor operator>(const TensorLike& lhs, const TensorLike& rhs);
  friend Tensor operator>=(const TensorLike& lhs, const TensorLike& rhs);
  friend Tensor operator<(const TensorLike& lhs, const TensorLike& rhs);
  friend Tensor operator<=(const TensorLike& lhs, const TensorLike& rhs);
  friend Tensor operator&(const TensorLike& lhs, const TensorLike& rhs);
  friend Tensor operator|(const TensorLike& lhs, const TensorLike& rhs);
  friend Tensor operator^(const TensorLike& lhs, const TensorLike& rhs);
};

/// An array that computes at once. It is *real*, with its elements in memory, or *unrealised*: a
/// value of a graph under construction. A handle; copies name the same tensor. Stores aside it
/// never changes; a tensor that is real may be used from any thread.
class Tensor : public TensorArithmetic {
 public:
  /// An empty handle; it may be assigned and asked whether it `is_empty`.
  Tensor() = default;
  /// Numbers, nested lists of them; errors of `graph::ops::constant`.
  explicit Tensor(const graph::ops::Literal& data, const TensorOptions& options = {});
  Tensor(std::initializer_list<graph::ops::Literal> data, const TensorOptions& options = {})
      : Tensor(graph::ops::Literal(data), options) {}
  /// Backed by the buffer, which is shared.
  explicit Tensor(driver::Buffer buffer);
  /// A value of the current graph; one that is no tensor and no buffer: TypeError.
  static Tensor from_graph_value(const graph::Value& value);
  /// One value of the current graph for each device of a mapping. No mapping is needed for one
  /// value; parts that the mapping does not give any tensor: ValueError.
  static Tensor from_shard_values(const std::vector<graph::Value>& values,
                                  const std::optional<DeviceMapping>& mapping = std::nullopt);
  /// Tensors on one device each, in mesh order, as one; they share memory with it. Errors of
  /// `from_shard_values`.
  static Tensor from_shards(const std::vector<Tensor>& shards, const DeviceMapping& mapping);

  static Tensor full(const graph::Shape& shape, const Scalar& value,
                     const TensorOptions& options = {});
  static Tensor zeros(const graph::Shape& shape, const TensorOptions& options = {}) {
    return full(shape, 0, options);
  }
  static Tensor ones(const graph::Shape& shape, const TensorOptions& options = {}) {
    return full(shape, 1, options);
  }
  /// Shape, dtype and device of a tensor type.
  static Tensor full_like(const graph::TensorType& type, const Scalar& value);
  static Tensor full_like(const TensorLayout& layout, const Scalar& value);
  /// `start + i * step` for `start` up to `stop`, excluded; rules of `graph::ops::range`.
  static Tensor arange(const Scalar& start, const Scalar& stop, const Scalar& step = 1,
                       const TensorOptions& options = {});
  /// 0 … n-1 along the last axis, broadcast to the type.
  static Tensor range_like(const graph::TensorType& type);
  /// An int64 scalar on the CPU. A symbolic dim outside of a graph: ValueError.
  static Tensor from_dim(const graph::Dim& dim);

  /// Of the whole tensor, over all devices.
  graph::Shape shape() const;
  int rank() const;
  DType dtype() const;
  /// The one device. Several: ValueError.
  driver::Device device() const;
  /// Of a buffer too, whose tensor type it is. Distributed: TypeError.
  graph::TensorType type() const;
  TensorLayout layout() const;
  /// Where it lives; one device is a mesh of its own.
  DeviceMapping mapping() const;
  DeviceMesh mesh() const { return mapping().mesh(); }
  std::vector<Placement> placements() const { return mapping().placements(); }
  int num_shards() const;
  bool is_distributed() const { return num_shards() > 1; }
  /// What each device holds, in mesh order; memory is shared.
  std::vector<Tensor> local_shards() const;
  /// RuntimeError when a dim is symbolic.
  std::int64_t num_elements() const;
  bool is_empty() const { return state_ == nullptr; }

  /// Whether its elements are in memory.
  bool real() const;
  /// Computes it, if it is unrealised. Of a graph that is not recorded by this library: TypeError,
  /// which names `what` was asked for.
  void realize(const char* what = "realize") const;
  /// Its memory. Unrealised: TypeError; distributed: ValueError.
  const driver::Buffer& driver_tensor() const;
  /// The memory of each shard. Unrealised: TypeError.
  std::vector<driver::Buffer> buffers() const;
  /// The name of the weight that it stands for.
  std::optional<std::string> external_name() const;
  /// Says which weight it stands for.
  void set_external_name(std::string name) const;
  /// Its value in the graph that it is a part of, one for each shard. Real: TypeError.
  std::vector<graph::Value> graph_values() const;

  /// The one element; realises. Several or none: TypeError. A replicated tensor answers from its
  /// first shard; another distributed one: ValueError.
  Scalar item() const;
  template <typename T>
  T item() const {
    return item().to<T>();
  }
  explicit operator bool() const;
  /// On a device, a mesh, each of whose devices gets a copy, or as a mapping says; where it is
  /// already: itself. A change that cannot be done: ShardingError.
  Tensor to(const LayoutDevice& target,
            graph::Location location = graph::Location::current()) const;
  /// The same shards under another relation, for which no data moves. Shards that are none of such
  /// a tensor: ValueError.
  Tensor rebind_mapping(const DeviceMapping& mapping) const;
  /// Real, whole and on the CPU.
  Tensor materialize() const;

  Tensor T() const;
  /// Reductions keep the axis with size 1; without an axis they take all elements: `[1]`.
  Tensor sum(std::optional<int> axis = -1) const;
  Tensor mean(std::optional<int> axis = -1) const;
  Tensor prod(std::optional<int> axis = -1) const;
  Tensor max(std::optional<int> axis = -1) const;
  Tensor min(std::optional<int> axis = -1) const;
  Tensor argmax(std::optional<int> axis = -1) const;
  Tensor cast(DType dtype) const;
  Tensor reshape(const graph::Shape& shape) const;
  Tensor broadcast_to(const graph::Shape& shape) const;
  Tensor permute(const std::vector<std::int64_t>& dims) const;
  Tensor transpose(int dim_1, int dim_2) const;
  Tensor squeeze(int axis) const;
  Tensor unsqueeze(int axis) const;

  class Region;
  /// `x[{1, slice(0, 3), ellipsis, newaxis}]` reads, and stores when it is assigned to: `x` is
  /// backed by a buffer from then on, and its memory is updated in place when it was real.
  Region operator[](std::initializer_list<graph::SliceIndex> indices) const;
  Region operator[](std::vector<graph::SliceIndex> indices) const;

  /// "Tensor([1 2 3], dtype=DType.float32, device=Device(type=cpu,id=0))"; realises nothing.
  std::string to_string() const;

  /// Says that it is the argument at `route` of a function that is being staged and may not write
  /// it; a write is a TypeError from then on.
  void name_argument(std::string route) const;
  /// What graph ops take: its value in the current graph, where a real tensor becomes an input of
  /// a graph that this library records and a constant of any other.
  graph::TensorValue tensorvalue() const;
  /// The same as a buffer, which the tensor is from then on. A real tensor in a graph that this
  /// library does not record: TypeError.
  graph::BufferValue buffervalue() const;

  /// Whether both are the same tensor.
  bool is(const Tensor& other) const { return state_ == other.state_; }

  explicit Tensor(std::shared_ptr<detail::TensorState> state) : state_(std::move(state)) {}
  const std::shared_ptr<detail::TensorState>& state() const { return state_.checked(); }

 private:
  /// Null: it lives on one device, and in no mesh but that.
  const detail::Placed* placed() const;
  /// The tensor on the one device that is meant by a value. Several: ValueError.
  Tensor whole_value() const;
  /// The memory that holds every element. Shards of which none does: ValueError.
  const driver::Buffer& first_copy(const char* what) const;

  Shared<detail::TensorState> state_;
};

/// What functions over tensors take: a tensor, or a number, which adopts the tensor's dtype.
class TensorLike {
 public:
  TensorLike(Tensor tensor, graph::Location location = graph::Location::current())  // NOLINT
      : value_(std::move(tensor)), location_(location) {}
  TensorLike(Scalar number, graph::Location location = graph::Location::current())  // NOLINT
      : value_(number), location_(location) {}
  template <typename N>
    requires(std::is_arithmetic_v<N> || kIsFloatFormat<N>)
  TensorLike(N number, graph::Location location = graph::Location::current())  // NOLINT
      : value_(Scalar(number)), location_(location) {}

  /// Null for a number.
  const Tensor* tensor() const { return std::get_if<Tensor>(&value_); }
  const Scalar& number() const { return std::get<Scalar>(value_); }
  /// Where the caller wrote it.
  const graph::Location& location() const { return location_; }

 private:
  std::variant<Tensor, Scalar> value_;
  graph::Location location_;
};

/// A part of a tensor, named by an index.
class Tensor::Region : public TensorArithmetic {
 public:
  Region(Tensor tensor, std::vector<graph::SliceIndex> indices)
      : tensor_(std::move(tensor)), indices_(std::move(indices)) {}
  Region(const Region&) = default;

  Tensor load() const;
  operator Tensor() const { return load(); }      // NOLINT
  operator TensorLike() const { return load(); }  // NOLINT
  void store(const Tensor& source) const;
  const Region& operator=(const Tensor& source) const {
    store(source);
    return *this;
  }
  const Region& operator=(const Region& source) const {
    store(source.load());
    return *this;
  }

 private:
  Tensor tensor_;
  std::vector<graph::SliceIndex> indices_;
};

}  // namespace kiln::experimental
