#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "graph_values.h"
#include "kiln/graph/quantization.h"
#include "kiln/graph/sharding.h"
#include "kiln/graph/weight.h"
#include "python_function.h"

namespace kiln::python {
namespace {

using graph::BlockParameters;
using graph::QuantizationConfig;
using graph::QuantizationEncoding;
using graph::Segment;
using graph::ShardingStrategy;
using graph::TensorValue;
using graph::Weight;

void bind_quantization(nb::module_& m) {
  nb::class_<BlockParameters>(m, "BlockParameters", "The size of one block of an encoding.")
      .def_ro("elements_per_block", &BlockParameters::elements_per_block, "Elements.")
      .def_ro("block_size", &BlockParameters::block_size, "Bytes.")
      .def("__eq__", [](const BlockParameters& a, const BlockParameters& b) { return a == b; })
      .def("__repr__", [](const BlockParameters& p) {
        return "BlockParameters(elements_per_block=" + std::to_string(p.elements_per_block) +
               ", block_size=" + std::to_string(p.block_size) + ")";
      });
  nb::enum_<QuantizationEncoding> encoding(m, "QuantizationEncoding", nb::is_str(),
                                           "How the bytes of a quantised weight are organised.");
  for (QuantizationEncoding e :
       {QuantizationEncoding::Q4_0, QuantizationEncoding::Q4_K, QuantizationEncoding::Q5_K,
        QuantizationEncoding::Q6_K, QuantizationEncoding::Q8_0, QuantizationEncoding::GPTQ})
    encoding.str_value(std::string(graph::to_string(e)).c_str(), e,
                       std::string(graph::to_string(e)).c_str());
  encoding
      .def_prop_ro(
          "name", [](QuantizationEncoding e) { return std::string(graph::name(e)); },
          "Its name in lower case, such as 'q4_k'.")
      .def_prop_ro(
          "block_parameters", [](QuantizationEncoding e) { return graph::block_parameters(e); },
          "Elements and bytes of a block; KeyError for GPTQ.")
      .def_prop_ro(
          "elements_per_block", [](QuantizationEncoding e) { return graph::elements_per_block(e); },
          "Elements of a block.")
      .def_prop_ro(
          "block_size", [](QuantizationEncoding e) { return graph::block_size(e); },
          "Bytes of a block.")
      .def_prop_ro(
          "is_gguf", [](QuantizationEncoding e) { return graph::is_gguf(e); },
          "Whether GGUF files use it.");
  nb::class_<QuantizationConfig>(m, "QuantizationConfig",
                                 "What a checkpoint says about its quantisation.")
      .def(
          "__init__",
          [](QuantizationConfig* self, std::string quant_method, int bits, int group_size,
             bool desc_act, bool sym) {
            new (self) QuantizationConfig{std::move(quant_method), bits, group_size, desc_act, sym};
          },
          nb::arg("quant_method"), nb::arg("bits"), nb::arg("group_size"),
          nb::arg("desc_act") = false, nb::arg("sym") = false)
      .def_ro("quant_method", &QuantizationConfig::quant_method, "Such as 'gptq'.")
      .def_ro("bits", &QuantizationConfig::bits, "Bits of an element.")
      .def_ro("group_size", &QuantizationConfig::group_size, "Elements that share a scale.")
      .def_ro("desc_act", &QuantizationConfig::desc_act, "Whether columns are reordered.")
      .def_ro("sym", &QuantizationConfig::sym, "Whether it is symmetric.")
      .def("__eq__",
           [](const QuantizationConfig& a, const QuantizationConfig& b) { return a == b; });
}

void bind_sharding(nb::module_& m) {
  nb::class_<Segment>(m, "Segment", "A part of the axis of a segmented strategy.")
      .def_static("even", &Segment::even, nb::arg("size"), "Split like any range.")
      .def_static("head_aware", &Segment::head_aware, nb::arg("num_heads"), nb::arg("head_dim"),
                  "Split by whole heads.")
      .def_ro("size", &Segment::size, "Elements of the axis.");

  nb::class_<ShardingStrategy> cls(m, "ShardingStrategy",
                                   "How the parts of a weight are cut for several devices.");
  cls.def(
         "__init__",
         [](ShardingStrategy* self, int num_devices, nb::callable shard) {
           auto function = [callable = share(shard)](const Weight& weight, int i) {
             nb::gil_scoped_acquire gil;
             return to_tensor(nb::object(nb::handle(callable.get())(weight, i)));
           };
           new (self) ShardingStrategy(num_devices, std::move(function));
         },
         nb::arg("num_devices"), nb::arg("shard"))
      .def(
          "__call__",
          [](const ShardingStrategy& s, const Weight& weight, int i) {
            return make_value(s(weight, i));
          },
          nb::arg("weight"), nb::arg("i"), "The tensor of part `i`, in the current graph.")
      .def_prop_ro("num_devices", &ShardingStrategy::num_devices, "Number of parts.")
      .def_static("rowwise", &ShardingStrategy::rowwise, nb::arg("num_devices"),
                  "Ranges of axis 0.")
      .def_static("columnwise", &ShardingStrategy::columnwise, nb::arg("num_devices"),
                  "Ranges of axis 1.")
      .def_static("axiswise", &ShardingStrategy::axiswise, nb::arg("axis"), nb::arg("num_devices"),
                  "Ranges of an axis.")
      .def_static("replicate", &ShardingStrategy::replicate, nb::arg("num_devices"),
                  "The whole weight on each device.")
      .def_static("head_aware_columnwise", &ShardingStrategy::head_aware_columnwise,
                  nb::arg("num_devices"), nb::arg("num_heads"), nb::arg("head_dim"),
                  "Columns of whole heads.")
      .def_static("stacked_qkv", &ShardingStrategy::stacked_qkv, nb::arg("num_devices"),
                  nb::arg("num_heads"), nb::arg("head_dim"), "Heads of stacked Q, K and V rows.")
      .def_static("gate_up", &ShardingStrategy::gate_up, nb::arg("num_devices"),
                  nb::arg("axis") = 2, "Both halves of an axis split evenly.")
      .def_static("segmented", &ShardingStrategy::segmented, nb::arg("num_devices"),
                  nb::arg("axis"), nb::arg("segments"), "Every segment split on its own.")
      .def_static("tensor_parallel", &ShardingStrategy::tensor_parallel, nb::arg("num_devices"),
                  "A placeholder for modules that shard themselves.")
      .def_static("expert_parallel", &ShardingStrategy::expert_parallel, nb::arg("num_devices"),
                  "A placeholder for modules that shard themselves.");
  const auto query = [&](const char* name, bool (ShardingStrategy::*member)() const) {
    cls.def_prop_ro(name, member, "Whether it is of this kind.");
  };
  query("is_rowwise", &ShardingStrategy::is_rowwise);
  query("is_colwise", &ShardingStrategy::is_colwise);
  query("is_axiswise", &ShardingStrategy::is_axiswise);
  query("is_replicate", &ShardingStrategy::is_replicate);
  query("is_head_aware_colwise", &ShardingStrategy::is_head_aware_colwise);
  query("is_stacked_qkv", &ShardingStrategy::is_stacked_qkv);
  query("is_gate_up", &ShardingStrategy::is_gate_up);
  query("is_segmented", &ShardingStrategy::is_segmented);
  query("is_tensor_parallel", &ShardingStrategy::is_tensor_parallel);
  query("is_expert_parallel", &ShardingStrategy::is_expert_parallel);
  cls.def_prop_ro("sharded_axis", &ShardingStrategy::sharded_axis,
                  "The axis that is cut, or None.");
}

}  // namespace

void bind_graph_weight(nb::module_& m) {
  bind_quantization(m);
  bind_sharding(m);
  nb::class_<Weight, TensorValue>(m, "Weight", R"(
A named tensor whose data is supplied when a model is made.

>>> from kiln.driver import CPU
>>> from kiln.dtype import DType
>>> from kiln.graph import Weight
>>> Weight("w", DType.float32, [3, 2], CPU())
Weight(w, DType.float32, [Dim(3), Dim(2)], cpu:0))")
      .def(
          "__init__",
          [](Weight* self, std::string name, DType dtype, ShapeLike shape, DeviceLike device,
             std::optional<QuantizationEncoding> encoding, std::optional<std::int64_t> align,
             std::optional<ShardingStrategy> strategy) {
            new (self) Weight(std::move(name), dtype, shape.get(), device.get(),
                              {.quantization_encoding = encoding,
                               .align = align,
                               .sharding_strategy = std::move(strategy)});
          },
          nb::arg("name"), nb::arg("dtype"), nb::arg("shape"), nb::arg("device"),
          nb::arg("quantization_encoding") = nb::none(), nb::arg("align") = nb::none(),
          nb::arg("sharding_strategy") = nb::none())
      .def_prop_ro("name", &Weight::name, "Its name in the registry.")
      .def_prop_ro("align", &Weight::align, "Bytes.")
      .def_prop_ro("quantization_encoding", &Weight::quantization_encoding,
                   "How its bytes are organised, or None.")
      .def_prop_ro(
          "original_dtype_and_shape",
          [](const Weight& w) {
            const auto [dtype, shape] = w.original_dtype_and_shape();
            return nb::make_tuple(dtype, shape);
          },
          "As declared, also when an encoding stores the weight as uint8.")
      .def_prop_rw(
          "sharding_strategy", &Weight::sharding_strategy,
          [](Weight& w, ShardingStrategy strategy) {
            w.set_sharding_strategy(std::move(strategy));
          },
          "How parts are cut; setting it moves the host weight to cpu:0.")
      .def_prop_ro("shard_index", &Weight::shard_index, "Which shard it is, or None.")
      .def(
          "shard",
          [](const Weight& w, nb::iterable devices) {
            std::vector<graph::DeviceRef> refs;
            for (nb::handle device : devices) refs.push_back(to_device_ref(device));
            return w.shard(refs);
          },
          nb::arg("devices"), "One weight per device.")
      .def("__repr__", &Weight::repr);
}

}  // namespace kiln::python
