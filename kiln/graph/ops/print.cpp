#include "kiln/graph/ops/print.h"

#include "kiln/graph/graph_state.h"
#include "kiln/graph/ops/transfer.h"
#include "kiln/graph/promotion.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::graph::ops {
namespace {

namespace d = graph::detail;

void add_print(std::vector<Value> operands, ir::Attributes attributes) {
  const auto& label = std::get<std::string>(attributes.find("label")->second);
  if (label.find_first_of("/\\") != std::string::npos)
    throw ValueError(
        format("The print label '{}' contains a path separator; labels may name files, "
               "so choose one without.",
               label));
  if (label.empty() || label == "." || label == ".." || label.find('\0') != std::string::npos)
    throw ValueError(
        format("The print label '{}' cannot name a file, as labels may have to; choose another.",
               label.substr(0, label.find('\0'))));
  operands.push_back(d::chain_of(DeviceRef::CPU()));
  ir::Op* op = d::add_op(OpKind::print, operands, std::move(attributes));
  d::advance_chain(DeviceRef::CPU(), d::current_graph()->handle(op->result()));
}

}  // namespace

void print(const TensorValueLike& value, const std::string& label) {
  LocationScope at(value.location());
  TensorValue x = strong(value);
  if (x.device().is_gpu())
    x = d::add_tensor_op(OpKind::transfer_to, {x}, {{"device", DeviceRef::CPU()}});
  add_print({x}, {{"label", label}});
}

void print(const std::string& text, const std::string& label, Location location) {
  LocationScope at(location);
  add_print({}, {{"label", label}, {"text", text}});
}

void print(const char* text, const std::string& label, Location location) {
  print(std::string(text), label, location);
}

}  // namespace kiln::graph::ops
