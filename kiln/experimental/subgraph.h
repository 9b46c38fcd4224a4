#pragma once

// Functions that are recorded once in a trace and called from then on.

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kiln/experimental/compilation.h"
#include "kiln/experimental/module.h"

namespace kiln::experimental {

struct SubgraphOptions {
  /// Of the subgraph. With a prefix it says which calls share a body, so that layers that differ in
  /// their weights alone do.
  std::string name = {};
  /// Stands before the names of the weights that the body declares.
  std::string prefix = {};
};

namespace detail {

/// What the body of a subgraph takes and gives, its tensors taken apart.
struct SubgraphBody {
  graph::Graph graph;
  std::vector<graph::Type> types;       // of the inputs
  std::vector<DeviceMapping> mappings;  // of the tensors of the arguments
  struct Output {
    int argument = -1;  // the argument that it is, or
    DeviceMapping mapping = DeviceMapping::replicated(DeviceMesh::default_mesh());
  };
  std::vector<Output> outputs;  // of each tensor of the result
};

/// Takes the tensors of a call apart.
struct SubgraphCall {
  explicit SubgraphCall(const std::vector<Tensor>& tensors);
  std::vector<graph::Value> values;
  std::vector<graph::Type> types;
  std::vector<DeviceMapping> mappings;
  bool fits(const SubgraphBody& body) const {
    return types == body.types && mappings == body.mappings;
  }
};

/// A body that is being recorded.
class SubgraphScope {
 public:
  SubgraphScope(SubgraphTrace& trace, const std::string& name, const SubgraphCall& call);
  const std::vector<Tensor>& inputs() const { return inputs_; }
  /// Ends it. A buffer among the results that is no argument: ValueError.
  SubgraphBody finish(const std::vector<Tensor>& results);

 private:
  SubgraphBody body_;
  graph::Graph::Scope scope_;
  std::vector<Tensor> inputs_;
};

/// The results of a call of the body.
std::vector<Tensor> call_subgraph(const SubgraphBody& body, const SubgraphCall& call,
                                  const std::vector<Tensor>& arguments, const std::string& prefix);

/// A key for a callable that copies share.
std::string next_subgraph_key();

/// A function that `as_subgraph` has wrapped.
template <typename F>
class Subgraph : public CallOperator<Subgraph<F>, typename Signature<F>::Result,
                                     typename Signature<F>::Arguments> {
 public:
  using Arguments = typename Signature<F>::Arguments;
  using Result = typename Signature<F>::Result;

  Subgraph(F fn, SubgraphOptions options)
      : fn_(std::move(fn)), options_(std::move(options)), key_(next_subgraph_key()) {}

  Result run(const Arguments& arguments) const {
    SubgraphTrace* trace = SubgraphTrace::current();
    if (!trace) return inlined(arguments);
    const bool is_named = !options_.name.empty() && !options_.prefix.empty();
    const std::string name = options_.name.empty() ? "subgraph" : options_.name;
    const std::vector<Tensor> tensors = tensors_of(arguments);
    const SubgraphCall call(tensors);
    auto& known = trace->bodies[is_named ? options_.name : key_];
    std::shared_ptr<const Body> body;
    for (const auto& candidate : known) {
      auto own = std::static_pointer_cast<const Body>(candidate);
      if (has_statics_of(*own, arguments) && call.fits(own->body)) body = own;
    }
    if (!body && is_named && !known.empty())
      throw ValueError(name +
                       ": a call of this name has other types or static arguments than the first "
                       "one. Give it another name.");
    if (!body) {
      SubgraphScope scope(*trace, name, call);
      Arguments inside = arguments;
      put_tensors(inside, scope.inputs());
      Result result = std::apply(fn_, inside);
      body = std::make_shared<const Body>(
          Body{scope.finish(tensors_of(result)), arguments, std::move(result)});
      trace->bodies[is_named ? options_.name : key_].push_back(body);
    }
    Result result = body->result;
    put_tensors(result, call_subgraph(body->body, call, tensors, options_.prefix));
    return result;
  }

 private:
  Result inlined(const Arguments& arguments) const {
    return std::apply(
        [this](const auto&... values) -> Result {
          if constexpr (requires { fn_.as_it_is(values...); })
            return fn_.as_it_is(values...);
          else
            return fn_(values...);
        },
        arguments);
  }

  struct Body {
    SubgraphBody body;
    Arguments arguments;
    Result result;
  };

  static bool has_statics_of(const Body& body, const Arguments& arguments) {
    bool equal = true;
    try {
      tree::zip<Tensor>(
          body.arguments, arguments, "", [](const auto&, const auto&, const std::string&) {},
          [&](const auto& a, const auto& b, const std::string&) { equal = equal && a == b; },
          [](const auto& a, const auto& b, const std::string& path) { check_size(a, b, path); });
    } catch (const ValueError&) {
      return false;
    }
    return equal;
  }

  F fn_;
  SubgraphOptions options_;
  std::string key_;
};

/// The place of a module in its model, as the names of the weights that it holds tell it. One whose
/// name does not end with its path in the module: TypeError.
std::string prefix_of(const Module& module);

}  // namespace detail

/// Has `fn` be recorded as a subgraph by its first call in a trace, and called by later ones with
/// the same structure, static values and types. Outside of a trace, and inside another subgraph,
/// `fn` is simply called. Copies of what this returns share the body.
template <detail::Function F>
detail::Subgraph<F> as_subgraph(F fn, SubgraphOptions options = {}) {
  return {std::move(fn), std::move(options)};
}

/// A module as a subgraph under the name of its class: layers of one class share one body, and
/// differ in the prefix of their weights, which their names tell unless it is given.
template <std::derived_from<Module> M>
auto as_subgraph(M& module, SubgraphOptions options = {}) {
  if (options.name.empty()) options.name = detail::class_name(module);
  if (options.prefix.empty()) options.prefix = detail::prefix_of(module);
  return as_subgraph(detail::Forward<M>{&module}, std::move(options));
}

}  // namespace kiln::experimental
