#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kiln/dtype/dtype.h"
#include "kiln/graph/dim.h"

namespace kiln::driver {
class Device;
}

namespace kiln::graph {

enum class DeviceKind : std::uint8_t { cpu, gpu };
/// Unknown name: ValueError.
DeviceKind device_kind_from_string(std::string_view text);
std::string_view to_string(DeviceKind kind);

/// Names a device without touching it.
struct DeviceRef {
  DeviceKind kind = DeviceKind::cpu;
  int id = 0;

  DeviceRef() = default;
  /// A negative id becomes 0.
  DeviceRef(DeviceKind kind, int id = 0) : kind(kind), id(id < 0 ? 0 : id) {}
  DeviceRef(const driver::Device& device);  // NOLINT: a Device is accepted where a DeviceRef is

  static DeviceRef CPU(int id = 0) { return {DeviceKind::cpu, id}; }
  static DeviceRef GPU(int id = 0) { return {DeviceKind::gpu, id}; }
  bool is_cpu() const { return kind == DeviceKind::cpu; }
  bool is_gpu() const { return kind == DeviceKind::gpu; }
  /// Opens the device; errors of the driver pass through.
  driver::Device to_device() const;
  /// "cpu:0", "gpu:1".
  std::string to_string() const;
  friend bool operator==(const DeviceRef&, const DeviceRef&) = default;
  friend auto operator<=>(const DeviceRef&, const DeviceRef&) = default;
};

enum class FilterLayout : std::uint8_t { RSCF, QRSCF, FCRS, FCQRS, CFRS };
enum class ConvInputLayout : std::uint8_t { NHWC, NCHW };

/// The most axes a tensor may have.
inline constexpr int kMaxRank = 8;

/// dtype, shape and device, shared by tensors and buffers.
struct ShapedType {
  DType dtype;
  Shape shape;
  DeviceRef device;
  int rank() const { return shape.rank(); }
  /// Product of the dims; RuntimeError when a dim is symbolic.
  std::int64_t num_elements() const;
  std::vector<std::string> parameters() const { return shape.parameters(); }
};

struct BufferType;

/// The type of a value-semantic tensor. A negative static dim: TypeError; rank over 8: ValueError.
struct TensorType : ShapedType {
  TensorType(DType dtype, Shape shape, DeviceRef device);
  std::optional<FilterLayout> layout;  // takes no part in ==

  TensorType cast(DType new_dtype) const;
  BufferType as_buffer() const;
  std::string repr() const;
  friend bool operator==(const TensorType& a, const TensorType& b) {
    return a.dtype == b.dtype && a.shape == b.shape && a.device == b.device;
  }
};

/// The type of a mutable memory region. Errors as for TensorType.
struct BufferType : ShapedType {
  BufferType(DType dtype, Shape shape, DeviceRef device);

  BufferType cast(DType new_dtype) const;
  TensorType as_tensor() const;
  std::string repr() const;
  friend bool operator==(const BufferType& a, const BufferType& b) {
    return a.dtype == b.dtype && a.shape == b.shape && a.device == b.device;
  }
};

/// A value that only custom kernels understand.
struct OpaqueType {
  using Parameter = std::variant<bool, std::int64_t, std::string, DType>;
  std::string name;
  std::map<std::string, Parameter> parameters;
  friend bool operator==(const OpaqueType&, const OpaqueType&) = default;
};

/// Orders side effects; made by kiln itself.
struct ChainType {
  friend bool operator==(const ChainType&, const ChainType&) = default;
};

/// The type of any graph value.
class Type : public std::variant<TensorType, BufferType, OpaqueType, ChainType> {
 public:
  using variant::variant;

  bool is_tensor() const { return std::holds_alternative<TensorType>(*this); }
  bool is_buffer() const { return std::holds_alternative<BufferType>(*this); }
  bool is_opaque() const { return std::holds_alternative<OpaqueType>(*this); }
  bool is_chain() const { return std::holds_alternative<ChainType>(*this); }
  /// Another kind of type: InternalError.
  const TensorType& tensor() const;
  const BufferType& buffer() const;
  /// The common part of a tensor or buffer type.
  const ShapedType& shaped() const;
  /// "TensorType(dtype=float32, shape=[Dim('batch'), Dim(4)], device=cpu:0)".
  std::string repr() const;
  /// The IR spelling, "tensor<[batch, 4], f32>".
  std::string to_text() const;
};

}  // namespace kiln::graph
