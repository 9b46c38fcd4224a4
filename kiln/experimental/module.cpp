#include "kiln/experimental/module.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <typeinfo>

#include "kiln/experimental/functional.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"
#include "kiln/support/warning.h"

namespace kiln::experimental {
namespace {

/// Calls functions for the members that it is shown.
class Visitor final : public detail::Members {
 public:
  using OnParameter = std::function<void(const std::string&, Tensor&)>;
  using OnChild = std::function<void(const std::string&, Module&)>;
  Visitor(OnParameter on_parameter, OnChild on_child)
      : on_parameter_(std::move(on_parameter)), on_child_(std::move(on_child)) {}

  void parameter(const std::string& name, Tensor& tensor) override {
    if (on_parameter_ && !tensor.is_empty()) on_parameter_(name, tensor);
  }
  void child(const std::string& name, Module& module) override {
    if (on_child_) on_child_(name, module);
  }

 private:
  OnParameter on_parameter_;
  OnChild on_child_;
};

std::string indented(const std::string& text) {
  std::string result = "  ";
  for (const char c : text) {
    result += c;
    if (c == '\n') result += "  ";
  }
  return result;
}

}  // namespace

void Module::visit(const std::string& prefix, bool is_deep,
                   const std::function<void(const std::string&, Tensor&)>& parameter) const {
  // Who may read a module may see its members; what changes them asks for more.
  auto& self = const_cast<Module&>(*this);
  Visitor own([&](const std::string& name,
                  Tensor& tensor) { parameter(tree::extend_path(prefix, name), tensor); },
              nullptr);
  self.visit_members(own);
  if (!is_deep) return;
  for (const auto& [name, child] : children())
    child->visit(tree::extend_path(prefix, name), true, parameter);
}

std::vector<std::pair<std::string, Tensor>> Module::parameters() const {
  std::vector<std::pair<std::string, Tensor>> found;
  visit("", true, [&](const std::string& name, Tensor& t) { found.emplace_back(name, t); });
  return found;
}

std::vector<std::pair<std::string, Tensor>> Module::local_parameters() const {
  std::vector<std::pair<std::string, Tensor>> found;
  visit("", false, [&](const std::string& name, Tensor& t) { found.emplace_back(name, t); });
  return found;
}

std::vector<std::pair<std::string, Module*>> Module::children() const {
  std::vector<std::pair<std::string, Module*>> found;
  Visitor visitor(
      nullptr, [&](const std::string& name, Module& child) { found.emplace_back(name, &child); });
  const_cast<Module&>(*this).visit_members(visitor);
  return found;
}

std::vector<std::pair<std::string, Module*>> Module::descendants() const {
  std::vector<std::pair<std::string, Module*>> found;
  for (const auto& [name, child] : children()) {
    found.emplace_back(name, child);
    for (const auto& [inner, module] : child->descendants())
      found.emplace_back(tree::extend_path(name, inner), module);
  }
  return found;
}

void Module::apply_to_parameters(const Change& change) {
  visit("", true, [&](const std::string& name, Tensor& tensor) { tensor = change(name, tensor); });
}

void Module::apply_to_local_parameters(const Change& change) {
  visit("", false, [&](const std::string& name, Tensor& tensor) { tensor = change(name, tensor); });
}

void Module::load_state_dict(const engine::WeightsRegistry& state, const LoadOptions& options) {
  std::map<std::string, Tensor> found;
  int narrowed = 0, widened = 0;
  for (const auto& [name, old] : parameters()) {
    const auto given = state.find(name);
    if (given == state.end())
      throw KeyError(
          format("load_state_dict: there is no weight '{}' for the parameter of that name.", name));
    Tensor fresh(given->second);
    if (fresh.shape() != old.shape())
      throw ValueError(
          format("load_state_dict: the weight '{}' has shape {}, but the parameter has shape {}.",
                 name, fresh.shape().to_string(), old.shape().to_string()));
    if (fresh.dtype() != old.dtype()) {
      const auto is_one = [](DType a, DType b) {
        return a == DType::float32 && b == DType::bfloat16;
      };
      if (!options.auto_cast ||
          !(is_one(fresh.dtype(), old.dtype()) || is_one(old.dtype(), fresh.dtype())))
        throw ValueError(
            format("load_state_dict: the weight '{}' is {}, but the parameter is {}. Convert it, "
                   "or give auto_cast for float32 and bfloat16.",
                   name, fresh.dtype().name(), old.dtype().name()));
      ++(old.dtype() == DType::bfloat16 ? narrowed : widened);
      fresh = fresh.cast(old.dtype());
    }
    found.emplace(name, fresh.to(old.mapping()));
  }
  std::vector<std::string> unused;
  for (const auto& [name, data] : state)
    if (found.count(name) == 0) unused.push_back(format("'{}'", name));
  if (options.strict && !unused.empty())
    throw ValueError(
        format("load_state_dict did not use some weights: {{{}}}", join(unused, ", ")));
  apply_to_parameters([&](const std::string& name, const Tensor&) { return found.at(name); });
  if (narrowed > 0)
    warn(format("load_state_dict cast {} weights from float32 to bfloat16 (precision loss).",
                narrowed));
  if (widened > 0)
    warn(format("load_state_dict cast {} weights from bfloat16 to float32.", widened));
}

driver::Device Module::device() const {
  const auto all = parameters();
  return all.empty() ? driver::CPU() : all[0].second.device();
}

void Module::to(const LayoutDevice& target) {
  apply_to_parameters([&](const std::string&, const Tensor& old) { return old.to(target); });
}

engine::WeightsRegistry Module::weights() const {
  engine::WeightsRegistry registry;
  for (const auto& [name, tensor] : parameters()) {
    tensor.realize();
    const std::vector<driver::Buffer> buffers = tensor.buffers();
    for (std::size_t i = 0; i < buffers.size(); ++i)
      registry[buffers.size() == 1 ? name : format("{}._shard.{}", name, i)] = buffers[i];
  }
  return registry;
}

std::string Module::to_string() const {
  std::vector<std::string> lines;
  for (const auto& [name, tensor] : local_parameters())
    lines.push_back(format("{}: {} {}", name, tensor.dtype().name(), tensor.shape().to_string()));
  for (const auto& [name, child] : children())
    lines.push_back(format("{}: {}", name, child->to_string()));
  std::string inside;
  for (const std::string& line : lines) inside += "\n" + indented(line);
  return format("{}({}{})", detail::class_name(*this), inside, inside.empty() ? "" : "\n");
}

detail::WeightsScope::WeightsScope(Module& module) : module_(module) {
  for (auto& [name, tensor] : module.parameters()) kept_.emplace(name, tensor);
  module.apply_to_parameters([](const std::string& name, const Tensor& old) {
    return functional::constant_external(name, old.layout());
  });
}

detail::WeightsScope::~WeightsScope() {
  module_.apply_to_parameters(
      [&](const std::string& name, const Tensor&) { return kept_.at(name); });
}

std::string detail::class_name(const Module& module) {
  int status = 0;
  char* text = abi::__cxa_demangle(typeid(module).name(), nullptr, nullptr, &status);
  std::string name = status == 0 ? text : typeid(module).name();
  std::free(text);
  // Without the namespaces around it, and what else is no part of a word.
  if (const std::size_t end = name.find('<'); end != std::string::npos) name.resize(end);
  if (const std::size_t at = name.rfind("::"); at != std::string::npos) name.erase(0, at + 2);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

void detail::check_is_copy(const Module& copy, const Module& original) {
  const auto all = original.descendants();
  for (const auto& [name, module] : copy.descendants())
    if (std::any_of(all.begin(), all.end(),
                    [own = module](const auto& other) { return other.second == own; }))
      throw TypeError(format(
          "The module '{}' is held by a shared pointer, so a copy of the {} around it is not "
          "one of all parameters. Hold it as a value, or make a module of its own.",
          name, class_name(original)));
}

}  // namespace kiln::experimental
