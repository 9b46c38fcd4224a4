#pragma once

// Calls of ops on tensors from Python: the one way in for every op and every operator.

#include <nanobind/nanobind.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "gil.h"
#include "graph_casters.h"
#include "kiln/experimental/tensor.h"

namespace nb = nanobind;

namespace kiln::python {

/// The Python object of a tensor.
nb::object make_tensor(experimental::Tensor tensor);
bool is_tensor(nb::handle object);
inline const experimental::Tensor& tensor_of(nb::handle object) {
  return *nb::inst_ptr<experimental::Tensor>(object);
}

/// `object` itself where its tensor is the result, else an object for the result.
nb::object same_or_new(nb::handle object, experimental::Tensor result);

/// What a new tensor is given; None leaves a part out.
experimental::TensorOptions to_options(nb::handle dtype, nb::handle device);

/// What a call gives that does not hold up other threads.
template <typename F>
experimental::Tensor without_gil(const F& call) {
  ReleaseGil release;
  return call();
}

/// A Device, a DeviceRef, a DeviceMesh or a DeviceMapping.
struct LayoutDeviceLike {
  nb::handle object;
  experimental::LayoutDevice get() const;
};
bool is_layout_device(nb::handle object);

/// A function over tensors that is made of one over graph values.
struct LiftedFunction {
  std::string name;
  std::uint64_t id = 0;
  nb::object op;
  bool is_store = false;

  nb::object operator()(std::span<PyObject* const> arguments, PyObject* keywords = nullptr) const;
  template <typename... Args>
  nb::object call(const Args&... arguments) const {
    PyObject* const list[] = {nb::handle(arguments).ptr()...};
    return (*this)(list);
  }
};

/// The function over tensors of a name in kiln._core.experimental.functional, found on first use.
class LiftedName {
 public:
  LiftedName(const char* name) : name_(name) {}  // NOLINT
  template <typename... Args>
  nb::object operator()(const Args&... arguments) const {
    if (!function_) function_ = find();
    return function_->call(arguments...);
  }
  const LiftedFunction& function() const {
    if (!function_) function_ = find();
    return *function_;
  }

 private:
  const LiftedFunction* find() const;

  const char* name_;
  mutable const LiftedFunction* function_ = nullptr;  // lives as long as the process
};

}  // namespace kiln::python

namespace nanobind::detail {
KILN_ANY_OBJECT_CASTER(kiln::python::LayoutDeviceLike,
                       "kiln._core.driver.Device | kiln._core.graph.DeviceRef | "
                       "kiln._core.experimental.DeviceMesh | "
                       "kiln._core.experimental.DeviceMapping")
}  // namespace nanobind::detail
