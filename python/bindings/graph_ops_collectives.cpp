#include <string>

#include "bindings.h"
#include "graph_values.h"
#include "kiln/graph/ops/collectives.h"
#include "kiln/support/error.h"

namespace kiln::python {
namespace {

namespace ops = graph::ops;
using graph::BufferValue;
using graph::TensorValue;

std::vector<TensorValue> to_tensors(nb::handle iterable) {
  std::vector<TensorValue> tensors;
  for (nb::handle item : nb::borrow<nb::iterable>(iterable)) tensors.push_back(to_tensor(item));
  return tensors;
}

std::vector<BufferValue> to_buffers(nb::handle iterable) {
  std::vector<BufferValue> buffers;
  for (nb::handle item : nb::borrow<nb::iterable>(iterable))
    buffers.push_back(to_buffer_value(item));
  return buffers;
}

using Sum = std::vector<TensorValue> (*)(ops::TensorSpan, ops::BufferSpan, graph::Location);

void def_sum(nb::module_& ops, const char* module, Sum sum, const char* doc) {
  nb::module_ m = ops.def_submodule(module, doc);
  m.def(
      "sum",
      [sum](nb::iterable inputs, nb::iterable signal_buffers) {
        return make_values(
            sum(to_tensors(inputs), to_buffers(signal_buffers), graph::Location::current()));
      },
      nb::arg("inputs"), nb::arg("signal_buffers"),
      "The sum of all inputs, in list order, on the device of each.");
}

/// What the body of `parallel` returned: tensors, and with a chain a pair of them and it.
ops::LaunchResults to_launch_results(nb::handle result, bool has_chain) {
  const auto tensors = [](nb::handle values) {
    if (nb::isinstance<nb::list>(values) || nb::isinstance<nb::tuple>(values))
      return to_tensors(values);
    return std::vector<TensorValue>{to_tensor(values)};
  };
  if (!has_chain) return {tensors(result)};
  if (!nb::isinstance<nb::tuple>(result) || nb::len(result) != 2)
    throw ValueError(
        "The body of ops.parallel must return (tensors, out_chain) when it has a chain.");
  return {tensors(result[0]), to_value(result[1])};
}

nb::object parallel(nb::iterable inputs, nb::handle body, nb::handle buffers, nb::handle chain,
                    nb::iterable result_types) {
  std::vector<std::vector<TensorValue>> bundles;
  for (nb::handle bundle : inputs) bundles.push_back(to_tensors(bundle));
  std::vector<std::vector<graph::TensorType>> types;
  for (nb::handle bundle : result_types) {
    types.emplace_back();
    for (const graph::Type& type : to_types(bundle)) types.back().push_back(type.tensor());
  }
  ops::ParallelOptions options;
  if (!buffers.is_none()) options.buffers = to_buffers(buffers);
  if (!chain.is_none()) options.chain = to_value(chain);
  const auto launch = [&](const std::vector<TensorValue>& values,
                          const std::optional<BufferValue>& buffer,
                          const std::optional<graph::Value>& current) {
    nb::list arguments = make_values(values);
    if (buffer) arguments.append(make_value(*buffer));
    if (current) arguments.append(make_value(*current));
    nb::object result = nb::steal(PyObject_Call(body.ptr(), nb::tuple(arguments).ptr(), nullptr));
    if (!result.is_valid()) throw nb::python_error();
    return to_launch_results(result, current.has_value());
  };
  const ops::ParallelResults made =
      ops::parallel(bundles, launch, types, options, graph::Location::current());
  nb::list results;
  for (const std::vector<TensorValue>& bundle : made.values) results.append(make_values(bundle));
  if (!made.chain) return results;
  return nb::make_tuple(results, make_value(*made.chain));
}

}  // namespace

void bind_ops_collectives(nb::module_& m) {
  def_sum(m, "allreduce", &ops::allreduce::sum, "Reductions over devices.");
  def_sum(m, "bundled_allreduce", &ops::bundled_allreduce::sum,
          "Reductions over devices that may start independently.");
  nb::module_ scatter =
      m.def_submodule("reducescatter", "Reductions over devices whose results stay apart.");
  scatter.def(
      "sum",
      [](nb::iterable inputs, nb::iterable signal_buffers, int axis) {
        return make_values(ops::reducescatter::sum(to_tensors(inputs), to_buffers(signal_buffers),
                                                   axis, graph::Location::current()));
      },
      nb::arg("inputs"), nb::arg("signal_buffers"), nb::arg("axis") = 0,
      "Part i of the sum of all inputs along an axis, on device i.");
  m.def(
      "allgather",
      [](nb::iterable inputs, nb::iterable signal_buffers, int axis) {
        return make_values(ops::allgather(to_tensors(inputs), to_buffers(signal_buffers), axis,
                                          graph::Location::current()));
      },
      nb::arg("inputs"), nb::arg("signal_buffers"), nb::arg("axis") = 0,
      "The concatenation of all inputs along an axis, on the device of each.");
  m.def(
      "distributed_broadcast",
      [](StrongValue input, nb::iterable signal_buffers) {
        return make_values(ops::distributed_broadcast(input.get(), to_buffers(signal_buffers),
                                                      graph::Location::current()));
      },
      nb::arg("input"), nb::arg("signal_buffers"),
      "A copy of the input on the device of each signal buffer.");
  m.def(
      "distributed_scatter",
      [](nb::iterable input_chunks, nb::iterable signal_buffers) {
        return make_values(ops::distributed_scatter(
            to_tensors(input_chunks), to_buffers(signal_buffers), graph::Location::current()));
      },
      nb::arg("input_chunks"), nb::arg("signal_buffers"),
      "Chunks of one device, dealt out to the devices of the signal buffers.");
  m.def(
      "shard_and_stack",
      [](nb::iterable inputs, nb::iterable devices, int axis) {
        std::vector<graph::DeviceRef> targets;
        for (nb::handle device : devices) targets.push_back(to_device_ref(device));
        return make_values(
            ops::shard_and_stack(to_tensors(inputs), targets, axis, graph::Location::current()));
      },
      nb::arg("inputs"), nb::arg("devices"), nb::arg("axis") = 0,
      "On each device its part of every input along an axis, stacked on a new first axis.");
  m.def(
      "parallel",
      [](nb::iterable inputs, Any body_fn, Any buffers, Any chain, nb::iterable result_types) {
        return parallel(inputs, body_fn, buffers, chain, result_types);
      },
      nb::arg("inputs"), nb::arg("body_fn"), nb::kw_only(), nb::arg("buffers") = nb::none(),
      nb::arg("chain") = nb::none(), nb::arg("result_types"),
      R"(Runs one body per launch: for `inputs`, a list of bundles with one tensor per launch each.

The body gets the tensors of its launch and, where they are given, its buffer and the chain, and
returns one tensor per output bundle (with a chain: a pair of them and the chain). Gives a list of
tensors per output bundle, and with a chain a pair of that and the chain.)");
}

}  // namespace kiln::python
