#pragma once

// Result types of ops, by family. Internal to kiln/graph. Every function throws ValueError with the
// reason alone; `ir::append_op` and the op functions add what was being made.

#include <optional>
#include <vector>

#include "kiln/graph/ir.h"

namespace kiln::graph {

/// What an inference rule sees.
struct Inference {
  OpKind kind;
  const std::vector<ir::Value*>& operands;
  const ir::Attributes& attributes;
  const std::vector<Type>& declared;

  std::string_view name() const;
  /// The type of operand `i`, which must be a tensor.
  const TensorType& tensor(std::size_t i) const;
  template <typename T>
  const T& get(std::string_view attribute) const {
    return std::get<T>(attributes.find(attribute)->second);
  }
  std::int64_t integer(std::string_view attribute) const { return get<std::int64_t>(attribute); }
  bool has(std::string_view attribute) const {
    return attributes.find(attribute) != attributes.end();
  }
  /// What operand `i` is called in messages.
  std::string operand_name(std::size_t i) const;
};

/// Which dtypes an op takes.
enum class DTypeFamily { all, comparison, arithmetic, min_max, floating, boolean, not_bool };
/// ValueError `op '{name}' does not support dtype {d}` when `dtype` is outside the family.
void check_dtype(std::string_view op, DTypeFamily family, DType dtype);

/// A name that artifacts cannot hold: ValueError. `what` is what bears it, such as "weight".
void check_name(std::string_view what, std::string_view name);

/// The number of elements of range(start, stop, step), whose bounds are dims or floats. One that
/// the symbols alone cannot tell: none. A bound that `dtype` does not hold, a step of 0, or more
/// elements than can be counted: ValueError.
std::optional<Dim> range_length(const ir::Attribute& start, const ir::Attribute& stop,
                                const ir::Attribute& step, DType dtype);

/// How deep regions of control flow may lie in each other.
inline constexpr int kDeepestRegions = 200;

/// A type that takes more bits than int64 can count, whatever its symbols are and an axis of size 0
/// aside: ValueError, since steps between elements would wrap. `what` is what has the type, such as
/// "The result of 'pad'".
void check_size(std::string_view what, const Type& type);

/// The broadcast of two shapes; ValueError naming both when there is none.
Shape broadcast_shapes(const Shape& a, const Shape& b);

/// Operands [first, last) must be on one device.
void check_same_device(const Inference& op, std::size_t first, std::size_t last);
void check_same_dtype(const Inference& op, std::size_t first, std::size_t last);
/// A size that the data decides; a negative one: ValueError.
void check_count(const Inference& op, const Dim& out_dim);
/// The `axis` attribute, checked to lie in [0, rank).
std::size_t checked_axis(const Inference& op, int rank);

std::vector<Type> infer_elementwise(const Inference& op);
std::vector<Type> infer_view(const Inference& op);
std::vector<Type> infer_movement(const Inference& op);
std::vector<Type> infer_slice(const Inference& op);
std::vector<Type> infer_reduction(const Inference& op);
std::vector<Type> infer_product(const Inference& op);
std::vector<Type> infer_convolution(const Inference& op);
std::vector<Type> infer_norm(const Inference& op);
std::vector<Type> infer_quantized(const Inference& op);
std::vector<Type> infer_image(const Inference& op);
std::vector<Type> infer_source(const Inference& op);
std::vector<Type> infer_effect(const Inference& op);

/// The shape that slice attributes cut from a tensor of shape `shape`, and their checks.
Shape sliced_shape(const Inference& op, const Shape& shape, std::size_t first_dynamic);

}  // namespace kiln::graph
