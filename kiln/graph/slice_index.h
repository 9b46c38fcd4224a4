#pragma once

#include <concepts>
#include <optional>
#include <variant>

#include "kiln/graph/value.h"

namespace kiln::graph {

struct None {};
struct Ellipsis {};
struct NewAxis {};

/// An open bound of a slice.
inline constexpr None none;
/// Stands for as many whole axes as are left.
inline constexpr Ellipsis ellipsis;
/// A new axis of size 1.
inline constexpr NewAxis newaxis;

/// A start or stop of a slice: open, a dim, or an integer scalar tensor on the CPU.
class SliceBound : public std::variant<None, Dim, TensorValue> {
 public:
  SliceBound(None = {}) {}  // NOLINT
  template <std::integral T>
  SliceBound(T value) : variant(Dim(value)) {}                     // NOLINT
  SliceBound(Dim dim) : variant(std::move(dim)) {}                 // NOLINT
  SliceBound(TensorValue value) : variant(std::move(value)) {}     // NOLINT
  SliceBound(const Value& value) : variant(TensorValue(value)) {}  // NOLINT
  bool is_open() const { return index() == 0; }
};

/// The step of a slice: 1 when it is left out, a number other than 0, or an integer scalar tensor
/// on the CPU whose value must be positive when the graph runs.
class SliceStep : public std::variant<None, std::int64_t, TensorValue> {
 public:
  SliceStep(None = {}) {}  // NOLINT
  template <std::integral T>
  SliceStep(T value) : variant(static_cast<std::int64_t>(value)) {}  // NOLINT
  SliceStep(TensorValue value) : variant(std::move(value)) {}        // NOLINT
  SliceStep(const Value& value) : variant(TensorValue(value)) {}     // NOLINT
  /// The number; 1 when it was left out, and for a tensor.
  std::int64_t number() const {
    const auto* value = std::get_if<std::int64_t>(this);
    return value ? *value : 1;
  }
  bool is_tensor() const { return index() == 2; }
};

/// A range of an axis, and optionally the dim of the result.
struct Slice {
  SliceBound start;
  SliceBound stop;
  SliceStep step;
  std::optional<Dim> out_dim;

  /// The same range with the result's dim named.
  Slice out(Dim dim) const {
    Slice result = *this;
    result.out_dim = std::move(dim);
    return result;
  }
};

inline Slice slice(SliceBound start, SliceBound stop, SliceStep step = {}) {
  return {std::move(start), std::move(stop), std::move(step), {}};
}
inline Slice slice(SliceBound stop) { return {{}, std::move(stop), {}, {}}; }
/// The whole axis.
inline const Slice all;

/// One entry of an index; remembers the caller's line.
class SliceIndex : public std::variant<Dim, Slice, Ellipsis, NewAxis, TensorValue> {
 public:
  template <std::integral T>
  SliceIndex(T value, Location location = Location::current())  // NOLINT
      : variant(Dim(value)), location_(location) {}
  SliceIndex(Dim dim, Location location = Location::current())  // NOLINT
      : variant(std::move(dim)), location_(location) {}
  SliceIndex(Slice slice, Location location = Location::current())  // NOLINT
      : variant(std::move(slice)), location_(location) {}
  SliceIndex(Ellipsis e, Location location = Location::current())  // NOLINT
      : variant(e), location_(location) {}
  SliceIndex(NewAxis n, Location location = Location::current())  // NOLINT
      : variant(n), location_(location) {}
  SliceIndex(TensorValue value, Location location = Location::current())  // NOLINT
      : variant(std::move(value)), location_(location) {}
  SliceIndex(const Value& value, Location location = Location::current())  // NOLINT
      : variant(TensorValue(value)), location_(location) {}

  const Location& location() const { return location_; }

 private:
  Location location_;
};

/// A part of a buffer, named by an index.
class BufferValue::Region : public TensorOperators {
 public:
  Region(BufferValue buffer, std::vector<SliceIndex> indices, bool whole)
      : buffer_(std::move(buffer)), indices_(std::move(indices)), whole_(whole) {}
  Region(const Region&) = default;

  /// Loads the part.
  TensorValue load(Location location = Location::current()) const;
  operator TensorValue() const { return load(); }  // NOLINT
  TensorValue tensorvalue() const { return load(); }
  /// Stores a tensor, or what a buffer holds, into the part.
  void store(const TensorValue& source, Location location = Location::current()) const;
  void store(const BufferValue& source, Location location = Location::current()) const;
  const Region& operator=(const TensorValue& source) const {
    store(source);
    return *this;
  }
  const Region& operator=(const BufferValue& source) const {
    store(source);
    return *this;
  }
  const Region& operator=(const Region& source) const {
    store(source.load());
    return *this;
  }

 private:
  BufferValue buffer_;
  std::vector<SliceIndex> indices_;
  bool whole_;
};

}  // namespace kiln::graph
