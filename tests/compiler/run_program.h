#pragma once

// Builds a graph in IR, compiles it for this host and calls it straight through the ABI.

#include <gtest/gtest.h>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "kiln/graph/ir.h"
#include "kiln/runtime/abi.h"
#include "kiln/runtime/compiler_interface.h"
#include "kiln/runtime/selection.h"
#include "tests/compiler/loaded_image.h"

extern "C" kiln::runtime::Compiler* kiln_compiler_entry(int version);

namespace kiln::compiler {

/// A KilnCall with memory that lives as long as the test.
struct PlainCall : KilnCall {
  std::vector<void*> blocks;
  std::vector<void*> prepared_slots;
  std::vector<std::pair<void*, std::vector<std::int64_t>>> results;
  std::vector<std::size_t> result_ranks;

  void* block(std::int64_t bytes) {
    // Exact, so that AddressSanitizer sees what lies behind it.
    void* p = ::operator new(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)),
                             std::align_val_t{64});
    blocks.push_back(p);
    return p;
  }
  ~PlainCall() {
    for (void* p : blocks) ::operator delete(p, std::align_val_t{64});
  }
};

inline PlainCall& plain(KilnCall* call) { return *static_cast<PlainCall*>(call); }

inline const KilnRuntime& plain_runtime() {
  static const KilnRuntime runtime = {
      KILN_ABI_VERSION,
      sizeof(KilnRuntime),
      [](KilnCall* c, std::int64_t bytes) { return plain(c).block(bytes); },
      [](KilnCall* c, std::int64_t index, const std::int64_t* extents) -> void* {
        auto i = static_cast<std::size_t>(index);
        std::vector<std::int64_t> shape(extents, extents + plain(c).result_ranks[i]);
        std::int64_t n = 16;
        for (std::int64_t e : shape) n *= e;
        plain(c).results.resize(std::max(plain(c).results.size(), i + 1));
        plain(c).results[i] = {plain(c).block(n), shape};
        return plain(c).results[i].first;
      },
      [](KilnCall* c, std::int64_t slot, std::int64_t bytes) -> void* {
        auto i = static_cast<std::size_t>(slot);
        plain(c).prepared_slots[i] = plain(c).block(bytes);
        return plain(c).prepared_slots[i];
      },
      [](KilnCall*, KilnLoopBody body, void* arguments, std::int64_t count, std::int64_t grain) {
        for (std::int64_t i = 0; i < count; i += grain)
          body(arguments, i, std::min(count, i + grain), 0);
      },
      [](KilnCall*, const KilnFailure* failure, const std::int64_t* values, std::int64_t count) {
        std::string text = failure->sentence;
        for (std::int64_t i = 0; i < count; ++i) {
          std::string mark = "{" + std::to_string(i) + "}";
          for (std::size_t at; (at = text.find(mark)) != std::string::npos;)
            text.replace(at, mark.size(), std::to_string(values[i]));
        }
        throw std::runtime_error(text);
      },
      nullptr,
      [](KilnCall*) { return std::int64_t{0}; },
      [](KilnCall*, std::int64_t) {},
      [](KilnCall*, std::int32_t dtype, const void* source, void* values, std::int64_t* indices,
         std::int64_t outer, std::int64_t n, std::int64_t inner, std::int64_t k,
         std::int32_t largest) {
        runtime::top_k(DType::from_code(static_cast<std::uint8_t>(dtype)), source, values, indices,
                       outer, n, inner, k, largest != 0, 1);
      }};
  return runtime;
}

/// Compiles the first graph for `target`, calls it with these symbols and inputs, and returns
/// result 0; `ranks` are those of the results.
template <typename T>
std::vector<T> run_module(const graph::ir::Module& module, const std::vector<std::size_t>& ranks,
                          std::vector<std::int64_t> symbols, std::vector<const void*> inputs,
                          const std::string& target = "") {
  runtime::CompileOptions options;
  options.cpu_target = target;
  runtime::ArtifactContents contents =
      kiln_compiler_entry(runtime::kCompilerInterfaceVersion)->compile(module, options);
  const LoadedImage image(contents.images.front().elf);
  PlainCall call;
  call.runtime = &plain_runtime();
  call.inputs = const_cast<void* const*>(reinterpret_cast<const void* const*>(inputs.data()));
  call.symbols = symbols.data();
  call.weights = nullptr;
  call.constants = reinterpret_cast<const char*>(contents.constants.data());
  call.num_threads = 2;
  call.traced = 0;
  call.result_ranks = ranks;
  const runtime::GraphSignature& signature = contents.graphs.front();
  call.prepared_slots.resize(signature.prepared_slots);
  call.prepared = call.prepared_slots.data();
  auto entry = [&](const std::string& name) {
    return image.function<std::remove_pointer_t<KilnEntry>>(name);
  };
  if (!signature.init_symbol.empty()) entry(signature.init_symbol)(&call);
  entry(signature.run_symbol)(&call);
  std::int64_t n = 1;
  for (std::int64_t e : call.results[0].second) n *= e;
  const T* data = static_cast<const T*>(call.results[0].first);
  return std::vector<T>(data, data + n);
}

class GraphUnderTest {
 public:
  GraphUnderTest() {
    module_ = std::make_unique<graph::ir::Module>();
    module_->graphs.push_back(std::make_unique<graph::ir::Graph>());
    graph_ = module_->graphs.back().get();
    graph_->name = "test";
    graph_->module = module_.get();
    graph_->body = std::make_unique<graph::ir::Block>();
    graph_->body->graph = graph_;
  }

  graph::ir::Value* input(DType dtype, graph::Shape shape) {
    for (const std::string& symbol : shape.parameters())
      if (std::find(graph_->parameters.begin(), graph_->parameters.end(), symbol) ==
          graph_->parameters.end())
        graph_->parameters.push_back(symbol);
    auto value = std::make_unique<graph::ir::Value>(graph::ir::Value{
        graph::TensorType(dtype, std::move(shape), graph::DeviceRef::CPU()), nullptr,
        graph_->body.get(), static_cast<std::uint32_t>(graph_->body->arguments.size())});
    graph_->body->arguments.push_back(std::move(value));
    return graph_->body->arguments.back().get();
  }

  graph::ir::Value* op(graph::OpKind kind, std::vector<graph::ir::Value*> operands,
                       graph::ir::Attributes attributes = {},
                       std::vector<graph::Type> declared = {}) {
    return graph::ir::append_op(*graph_->body, kind, std::move(operands), std::move(attributes),
                                std::move(declared))
        ->result();
  }

  void output(std::vector<graph::ir::Value*> values) {
    for (const auto* value : values) ranks_.push_back(value->type.tensor().shape.size());
    graph::ir::append_op(*graph_->body, graph::OpKind::output, std::move(values));
  }

  template <typename T>
  std::vector<T> run(std::vector<std::int64_t> symbols, std::vector<const void*> inputs,
                     const std::string& target = "") {
    return run_module<T>(*module_, ranks_, std::move(symbols), std::move(inputs), target);
  }

 private:
  std::unique_ptr<graph::ir::Module> module_;
  graph::ir::Graph* graph_;
  std::vector<std::size_t> ranks_;
};

}  // namespace kiln::compiler
