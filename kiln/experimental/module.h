#pragma once

// Models made of parts: a class that derives from Module and names its members with KILN_MODULE.

#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "kiln/experimental/compilation.h"
#include "kiln/experimental/tensor.h"
#include "kiln/experimental/tree.h"

namespace kiln::experimental {

class Module;

namespace detail {

/// Is shown the members of a module.
class Members {
 public:
  virtual void parameter(const std::string& name, Tensor& tensor) = 0;
  virtual void child(const std::string& name, Module& module) = 0;

  /// `names` are those of the fields, as a macro's arguments stand.
  template <typename... Fields>
  void all(std::string_view names, Fields&... fields) {
    std::size_t i = 0;
    (show(std::string(tree::detail::field_name(names, i++)), fields), ...);
  }

 protected:
  ~Members() = default;

 private:
  void show(const std::string& name, Tensor& tensor) { parameter(name, tensor); }
  void show(const std::string& name, Module& module) { child(name, module); }
  template <typename T>
  void show(const std::string& name, std::vector<T>& list) {
    for (std::size_t i = 0; i < list.size(); ++i) show(tree::extend_path(name, i), list[i]);
  }
  template <typename T>
  void show(const std::string& name, std::map<std::string, T>& map) {
    for (auto& [key, item] : map) show(tree::extend_path(name, key), item);
  }
  template <typename T>
  void show(const std::string& name, std::optional<T>& value) {
    if (value) show(name, *value);
  }
  template <typename T>
  void show(const std::string& name, std::unique_ptr<T>& value) {
    if (value) show(name, *value);
  }
  template <typename T>
  void show(const std::string& name, std::shared_ptr<T>& value) {
    if (value) show(name, *value);
  }
};

}  // namespace detail

/// Names the members of a class that derives from Module: tensors are its parameters, modules its
/// children, also inside std::vector, std::map, std::optional and smart pointers. It stands inside
/// the class.
#define KILN_MODULE(...)                                                             \
  void visit_members(::kiln::experimental::detail::Members& kiln_members) override { \
    kiln_members.all(#__VA_ARGS__, __VA_ARGS__);                                     \
  }                                                                                  \
  static_assert(true, "the macro is followed by a semicolon")

/// A part of a model. What it computes is an ordinary method, `Tensor forward(Tensor)` or of other
/// arguments. Names of parameters are paths of members, such as `layers.0.weight`; a module's own
/// come before those of its children, depth first. An empty tensor is no parameter.
class Module {
 public:
  virtual ~Module() = default;

  std::vector<std::pair<std::string, Tensor>> parameters() const;
  /// Those of the module itself.
  std::vector<std::pair<std::string, Tensor>> local_parameters() const;
  /// The modules of the next level, and of all levels, depth first.
  std::vector<std::pair<std::string, Module*>> children() const;
  std::vector<std::pair<std::string, Module*>> descendants() const;

  using Change = std::function<Tensor(const std::string& name, const Tensor& old)>;
  /// Puts `change(name, tensor)` in the place of each parameter.
  void apply_to_parameters(const Change& change);
  void apply_to_local_parameters(const Change& change);
  void load_state(const Change& lookup) { apply_to_parameters(lookup); }
  struct LoadOptions {
    /// Names that nobody took: ValueError.
    bool strict = true;
    /// Converts between float32 and bfloat16; a warning says how many were.
    bool auto_cast = false;
  };
  /// Takes each parameter from `state` by its name, moved to the placement of the old one. A
  /// missing name: KeyError; another shape or dtype: ValueError, and nothing is replaced.
  void load_state_dict(const engine::WeightsRegistry& state, const LoadOptions& options);
  void load_state_dict(const engine::WeightsRegistry& state) { load_state_dict(state, {}); }

  /// Where its parameters are; the CPU for a module without any. On several devices: ValueError.
  driver::Device device() const;
  /// Moves its parameters.
  void to(const LayoutDevice& target);
  /// The data of its parameters by their names, as `compile` binds them.
  engine::WeightsRegistry weights() const;
  /// A tree of class names and parameters.
  std::string to_string() const;

 protected:
  virtual void visit_members(detail::Members&) {}

 private:
  void visit(const std::string& prefix, bool is_deep,
             const std::function<void(const std::string&, Tensor&)>& parameter) const;
};

namespace detail {

/// While it lives, a module's parameters are weights of the graph that is being built.
class WeightsScope {
 public:
  explicit WeightsScope(Module& module);
  ~WeightsScope();
  WeightsScope(const WeightsScope&) = delete;
  WeightsScope& operator=(const WeightsScope&) = delete;

 private:
  Module& module_;
  std::map<std::string, Tensor> kept_;
};

/// A module's `forward` as the function that is staged.
template <typename M, typename Arguments = typename Signature<decltype(&M::forward)>::Arguments>
struct Forward;
template <typename M, typename... Args>
struct Forward<M, std::tuple<Args...>> {
  M* module;
  auto operator()(Args... arguments) const -> typename Signature<decltype(&M::forward)>::Result {
    const WeightsScope scope(*module);
    return module->forward(std::move(arguments)...);
  }
  /// With the parameters as they are.
  auto as_it_is(Args... arguments) const { return module->forward(std::move(arguments)...); }
};

/// The name of the class of an object.
std::string class_name(const Module& module);

}  // namespace detail

/// Stages a module's `forward`: its parameters are weights under their names. Several threads must
/// not stage one module at a time.
template <std::derived_from<Module> M>
auto stage(M& module, StageOptions options = {}) {
  if (options.name == StageOptions().name) options.name = detail::class_name(module);
  return stage(detail::Forward<M>{&module}, std::move(options));
}

/// As `stage`, and binds the parameters; `options.weights` has others for some of them.
template <std::derived_from<Module> M>
auto compile(M& module, CompileOptions options = {}) {
  if (options.name == CompileOptions().name) options.name = detail::class_name(module);
  for (const auto& [name, data] : module.weights()) options.weights.emplace(name, data);
  return compile(detail::Forward<M>{&module}, std::move(options));
}

/// The graph of a module's `forward` for layouts of its arguments, not compiled; its parameters are
/// weights under their names.
template <std::derived_from<Module> M, typename... Layouts>
graph::Graph trace(M& module, const Layouts&... layouts) {
  return stage(module)(layouts...).graph;
}

namespace detail {
/// A module of the copy that the original holds, too: TypeError.
void check_is_copy(const Module& copy, const Module& original);
}  // namespace detail

/// A copy of the module with `change(name, tensor)` in the place of each parameter; the module
/// itself stays as it is. One that holds others through shared pointers cannot be copied:
/// TypeError.
template <std::derived_from<Module> M>
M map_parameters(const M& module, const Module::Change& change) {
  M copy = module;
  detail::check_is_copy(copy, module);
  copy.apply_to_parameters(change);
  return copy;
}

}  // namespace kiln::experimental
