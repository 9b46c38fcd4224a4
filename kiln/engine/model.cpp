#include "kiln/engine/model.h"

#include <algorithm>
#include <set>

#include "kiln/engine/compiled_model.h"
#include "kiln/engine/model_state.h"
#include "kiln/support/format.h"

namespace kiln::engine {
namespace {

std::vector<driver::Device> devices_of(const std::vector<TensorSpec>& specs) {
  std::vector<driver::Device> devices;
  for (const TensorSpec& spec : specs)
    devices.push_back(spec.device.is_cpu() ? driver::CPU() : driver::Accelerator(spec.device.id));
  return devices;
}

}  // namespace

Model::Outputs Model::execute(std::span<const driver::Buffer> inputs) const {
  Outputs outputs;
  state_->execute(inputs, true, outputs);
  return outputs;
}

bool Model::try_execute(std::span<const driver::Buffer> inputs, Outputs& outputs) const {
  return state_->execute(inputs, false, outputs);
}

Model::Outputs Model::execute_named(std::span<const NamedInput> inputs) const {
  const auto& specs = input_metadata();
  std::vector<driver::Buffer> ordered(specs.size());
  for (const auto& [name, buffer] : inputs) {
    std::size_t index = 0;
    while (index < specs.size() && specs[index].name != name) ++index;
    if (index == specs.size())
      throw TypeError(format("got an unexpected keyword argument '{}'", name));
    if (ordered[index]) throw TypeError(format("multiple values for argument '{}'", name));
    ordered[index] = buffer;
  }
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (!ordered[i]) throw TypeError(format("missing a required argument: '{}'", specs[i].name));
  return execute(std::span<const driver::Buffer>(ordered));
}

std::vector<driver::Buffer> Model::capture(const GraphKeys& keys,
                                           std::span<const driver::Buffer> inputs) const {
  return state_->capture(keys.span(), inputs).to_vector();
}

void Model::replay(const GraphKeys& keys, std::span<const driver::Buffer> inputs) const {
  state_->replay(keys.span(), inputs, true);
}

bool Model::try_replay(const GraphKeys& keys, std::span<const driver::Buffer> inputs) const {
  return state_->replay(keys.span(), inputs, false);
}

void Model::debug_verify_replay(const GraphKeys& keys,
                                std::span<const driver::Buffer> inputs) const {
  state_->verify_replay(keys.span(), inputs);
}

void Model::release_captured_graph(const GraphKeys& keys) const { state_->release(keys.span()); }

bool Model::is_made_from(const CompiledModel& compiled) const {
  const std::span<const std::byte> own = state_->artifact->bytes();
  const std::span<const std::byte> other = compiled.artifact()->bytes();
  return own.data() == other.data() || std::ranges::equal(own, other);
}

const std::string& Model::name() const { return state_->metadata.name; }

const std::vector<TensorSpec>& Model::input_metadata() const {
  return state_->metadata.input_metadata;
}

const std::vector<TensorSpec>& Model::output_metadata() const {
  return state_->metadata.output_metadata;
}

std::vector<driver::Device> Model::input_devices() const { return devices_of(input_metadata()); }

std::vector<driver::Device> Model::output_devices() const { return devices_of(output_metadata()); }

std::vector<driver::Device> Model::devices() const {
  std::set<graph::DeviceRef> accelerators;
  for (const auto* specs : {&input_metadata(), &output_metadata()})
    for (const TensorSpec& spec : *specs)
      if (spec.device.is_gpu()) accelerators.insert(spec.device);
  for (std::uint32_t weight : state_->graph->weights) {
    const graph::DeviceRef device = state_->artifact->header().weights[weight].device;
    if (device.is_gpu()) accelerators.insert(device);
  }
  std::vector<driver::Device> devices = {driver::CPU()};
  for (const graph::DeviceRef& device : accelerators)
    devices.push_back(driver::Accelerator(device.id));
  return devices;
}

bool Model::is_buffer_input(std::size_t index) const {
  return state_->graph->inputs.at(index).is_buffer;
}

std::vector<std::string> Model::kernel_summaries() const {
  return state_->artifact->kernel_summaries(name());
}

std::string Model::repr() const {
  std::vector<std::string> inputs;
  for (const TensorSpec& spec : input_metadata()) inputs.push_back(spec.repr());
  return format("Model(inputs=[{}])", join(inputs, ", "));
}

void Model::reload(const WeightsRegistry& registry) const { state_->load(registry); }

}  // namespace kiln::engine
