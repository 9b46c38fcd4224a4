// libkiln_compiler: a module of graphs becomes the contents of an artifact.

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "compiler/codegen/host.h"
#include "compiler/codegen/object.h"
#include "compiler/diagnostics.h"
#include "compiler/ir_output.h"
#include "compiler/kernel_library.h"
#include "compiler/kernels/builder.h"
#include "compiler/kernels/merge.h"
#include "compiler/link.h"
#include "compiler/passes/passes.h"
#include "compiler/plan.h"
#include "compiler/target.h"
#include "kiln/runtime/compiler_interface.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::compiler {

namespace ir = graph::ir;

namespace {

/// Elements of a constant up to which its values are written out for people.
constexpr std::int64_t kShownConstant = 16;

std::string kernel_name(const Kernel& kernel) {
  std::string name = kernel.kind == Kernel::Kind::pack ? "pack" : "";
  int parts = 0;
  std::string_view before;
  for (const ir::Op* op : kernel.ops) {
    std::string_view part = user_name(*op);
    if (part == before || op->kind == graph::OpKind::constant) continue;
    before = part;
    if (++parts > 6) break;
    if (!name.empty()) name += '_';
    for (char c : part) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  }
  return name.empty() ? "copy" : name;
}

/// One kernel to compile, shared by every kernel with the same key.
struct UniqueKernel {
  const Kernel* kernel = nullptr;
  const Program* program = nullptr;
  std::string symbol;
};

/// Everything between a module and its artifact.
class Compilation {
 public:
  Compilation(const ir::Module& module, const runtime::CompileOptions& options)
      : options_(options),
        isa_(resolve_isa(options.cpu_target)),
        module_(ir::clone(module)),
        output_(options.ir_output_dir) {}

  runtime::ArtifactContents run() {
    write_graphs("module");
    for (const auto& graph : module_->graphs)
      if (!graph->is_subgraph) graphs_.push_back(graph.get());
    for (ir::Graph* graph : graphs_) {
      if (!graph->terminator())
        throw RuntimeError(
            format("Failed to compile the model. Graph '{}' was never terminated by "
                   "a call to output.",
                   graph->name));
      report("graph " + graph->name);
      programs_.push_back(std::make_unique<Program>(make_program(*graph)));
    }
    collect_kernels();
    runtime::ArtifactContents contents;
    runtime::CodeImage& image = contents.images.emplace_back();
    image.target = cpu_target_of(isa_, options_.cpu_target);
    image.elf = make_image(contents);
    contents.constants = constants_.take();
    contents.locations = locations_.take();
    contents.plan_json = plan();
    if (output_.enabled())
      output_.write(output_.reserve(), "plan", "json",
                    nlohmann::json::parse(contents.plan_json).dump(2));
    return contents;
  }

 private:
  /// Writes the module as it is now.
  void write_graphs(const std::string& stage) const {
    if (output_.enabled())
      output_.write(output_.reserve(), stage, "txt",
                    ir::to_text(*module_, {.elide_constants_above = kShownConstant}));
  }

  /// Compiles one LLVM module; `number` is that of its first file.
  std::vector<std::byte> emit(llvm::Module& module, int number) const {
    if (!output_.enabled()) return emit_object(module, isa_);
    const std::string name(module.getName());
    output_.write(number, name, "ll", module_text(module));
    std::string optimized;
    std::vector<std::byte> object = emit_object(module, isa_, &optimized);
    output_.write(number + 1, name + ".optimized", "ll", optimized);
    return object;
  }

  void report(const std::string& what) {
    std::lock_guard lock(progress_mutex_);
    if (options_.progress && !options_.progress({done_, total_, what})) cancelled_ = true;
    if (cancelled_) throw RuntimeError("The compilation was cancelled.");
  }

  Program make_program(ir::Graph& graph) {
    std::vector<graph::Type> results;
    for (const ir::Value* result : graph.terminator()->operands) results.push_back(result->type);
    inline_calls(graph);
    check_device_graph(graph);
    size_ranges(graph);
    write_graphs(graph.name + ".inlined");
    if (!options_.nan_check) find_attention(graph);
    keep_channels_last(graph);
    expand(graph);
    remove_dead_ops(graph);
    write_graphs(graph.name + ".expanded");
    Program program = build_program(graph, isa_, constants_, options_.nan_check);
    program.results = std::move(results);
    if (!options_.nan_check) merge_kernels(program);
    for (std::vector<Step>* steps : {&program.init, &program.run})
      for_each_step(*steps, [&](Step& step) {
        if (!step.kernel) return;
        working_on(step.kernel->ops, [&] { collapse_axes(*step.kernel, program); });
        step.kernel->name = kernel_name(*step.kernel);
      });
    return program;
  }

  void collect_kernels() {
    std::map<std::string, std::string> symbol_of_key;
    for (const auto& program : programs_)
      for (const std::vector<Step>* steps : {&program->init, &program->run})
        for_each_step(*steps, [&](const Step& step) {
          if (!step.kernel) return;
          std::string key = working_on(step.kernel->ops,
                                       [&] { return signature_of(*step.kernel, *program).key; });
          auto [it, fresh] = symbol_of_key.try_emplace(
              std::move(key), format("kernel{}_{}", unique_.size(), step.kernel->name));
          if (fresh) unique_.push_back({step.kernel.get(), program.get(), it->second});
          symbols_[step.kernel.get()] = it->second;
        });
    total_ = static_cast<int>(unique_.size()) + 1;
  }

  std::vector<std::byte> make_image(runtime::ArtifactContents& contents) {
    std::vector<std::vector<std::byte>> objects(unique_.size() + 1);
    std::vector<std::string> exported;
    llvm::LLVMContext host_context;
    auto host = make_module(host_context, "host", isa_);
    make_hosts(*host, contents, exported);
    const int host_number = output_.reserve(2);
    const int number = output_.reserve(2 * static_cast<int>(unique_.size()));
    std::atomic<std::size_t> next{0};
    std::mutex mutex;
    std::exception_ptr failure;
    const auto compile_kernel = [&](std::size_t i) {
      report("kernel " + unique_[i].kernel->name);
      working_on(unique_[i].kernel->ops, [&] {
        llvm::LLVMContext context;
        auto module = make_module(context, unique_[i].symbol, isa_);
        emit_kernel(*module, isa_, *unique_[i].kernel, *unique_[i].program, unique_[i].symbol);
        objects[i] = emit(*module, number + 2 * static_cast<int>(i));
      });
      std::lock_guard lock(progress_mutex_);
      ++done_;
    };
    // The host function comes first, since it may be the longest.
    const auto work = [&] {
      for (std::size_t i; (i = next++) < objects.size();) {
        try {
          if (i == 0)
            objects.back() = emit(*host, host_number);
          else
            compile_kernel(i - 1);
        } catch (...) {
          std::lock_guard lock(mutex);
          if (!failure) failure = std::current_exception();
          next = objects.size();
        }
      }
    };
    std::vector<std::thread> threads;
    for (int t = 1; t < std::min<int>(options_.num_threads, static_cast<int>(objects.size())); ++t)
      threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
    if (failure) std::rethrow_exception(failure);
    report("link");
    return link_image(objects, exported);
  }

  /// Writes the entry points of all graphs.
  void make_hosts(llvm::Module& module, runtime::ArtifactContents& contents,
                  std::vector<std::string>& exported) {
    for (std::size_t g = 0; g < programs_.size(); ++g) {
      const Program& program = *programs_[g];
      runtime::GraphSignature signature = signature_of_graph(program);
      MemoryPlan plan = plan_memory(program);
      memory_.push_back(describe_memory(program, plan, isa_));
      signature.run_symbol = run_symbol(g);
      emit_entry(module, isa_, program, program.run, plan, symbols_, locations_,
                 signature.run_symbol);
      exported.push_back(signature.run_symbol);
      if (!program.init.empty()) {
        signature.init_symbol = format("kiln_init_{}", g);
        emit_entry(module, isa_, program, program.init, plan, symbols_, locations_,
                   signature.init_symbol);
        exported.push_back(signature.init_symbol);
      }
      add_weights(program, signature, contents);
      contents.graphs.push_back(std::move(signature));
    }
    add_interface_hash(module, contents);
    exported.emplace_back(runtime::kInterfaceHashSymbol);
  }

  /// The loader compares it with what the header says.
  void add_interface_hash(llvm::Module& module, const runtime::ArtifactContents& contents) const {
    auto* type = llvm::Type::getInt64Ty(module.getContext());
    const std::uint64_t hash = runtime::interface_hash(
        contents.graphs, contents.weights, constants_.size(), contents.images.back().target);
    new llvm::GlobalVariable(module, type, /*isConstant=*/true, llvm::GlobalValue::ExternalLinkage,
                             llvm::ConstantInt::get(type, hash), runtime::kInterfaceHashSymbol);
  }

  static runtime::TensorSignature tensor_signature(const std::string& name,
                                                   const graph::Type& type) {
    const graph::ShapedType& shaped = type.shaped();
    return {name, shaped.dtype, shaped.shape, shaped.device, type.is_buffer()};
  }

  static runtime::GraphSignature signature_of_graph(const Program& program) {
    const ir::Graph& graph = *program.graph;
    runtime::GraphSignature signature;
    signature.name = graph.name;
    signature.symbols = graph.parameters;
    signature.prepared_slots = static_cast<std::uint32_t>(program.prepared_slots);
    for (const Tensor& tensor : program.tensors)
      if (tensor.sized_by_data && tensor.origin && signature.sized_by_data.empty())
        signature.sized_by_data = graph::to_string(tensor.origin->kind);
    std::size_t n = 0;
    auto name = [](const std::vector<std::string>& names, std::size_t i, std::string_view stem) {
      return i < names.size() ? names[i] : format("{}{}", stem, i);
    };
    for (const auto& argument : graph.body->arguments) {
      if (argument->type.is_chain()) continue;
      signature.inputs.push_back(
          tensor_signature(name(graph.argument_names, n, "input"), argument->type));
      ++n;
    }
    n = 0;
    for (const graph::Type& type : program.results) {
      if (!type.is_tensor()) continue;
      signature.outputs.push_back(tensor_signature(name(graph.result_names, n, "output"), type));
      ++n;
    }
    for (const Step& step : program.run)
      for (int id : accesses_of(step).writes) {
        const Tensor& written = program.tensors[static_cast<std::size_t>(id)];
        if (written.storage == Tensor::Storage::input)
          signature.inputs[static_cast<std::size_t>(written.number)].is_written = true;
      }
    return signature;
  }

  void add_weights(const Program& program, runtime::GraphSignature& signature,
                   runtime::ArtifactContents& contents) {
    for (std::size_t n = 0; n < program.weights.size(); ++n) {
      const std::string& name = program.weights[n];
      const Tensor* tensor = nullptr;
      for (const Tensor& t : program.tensors)
        if (t.storage == Tensor::Storage::weight && t.number == static_cast<std::int64_t>(n))
          tensor = &t;
      auto it = std::find_if(contents.weights.begin(), contents.weights.end(),
                             [&](const runtime::WeightSignature& w) { return w.name == name; });
      graph::Shape shape(tensor->shape);
      if (it != contents.weights.end()) {
        check_same_weight(name, it->dtype, it->shape, tensor->dtype, shape);
      } else {
        runtime::WeightSignature weight{
            name,        tensor->dtype, shape, graph::DeviceRef::CPU(), tensor->dtype.align(),
            std::nullopt};
        contents.weights.push_back(std::move(weight));
        it = contents.weights.end() - 1;
      }
      signature.weights.push_back(static_cast<std::uint32_t>(it - contents.weights.begin()));
    }
  }

  std::string plan() const {
    nlohmann::json kernels = nlohmann::json::array();
    for (std::size_t g = 0; g < programs_.size(); ++g)
      for (auto& kernel : describe_kernels(*programs_[g], symbols_, run_symbol(g)))
        kernels.push_back(std::move(kernel));
    return nlohmann::json{{"kernels", std::move(kernels)}, {"memory", memory_}}.dump();
  }

  static std::string run_symbol(std::size_t graph) { return format("kiln_run_{}", graph); }

  const runtime::CompileOptions& options_;
  const Isa isa_;
  std::unique_ptr<ir::Module> module_;
  std::vector<ir::Graph*> graphs_;
  std::vector<std::unique_ptr<Program>> programs_;
  std::vector<UniqueKernel> unique_;
  KernelSymbols symbols_;
  IrOutput output_;
  nlohmann::json memory_ = nlohmann::json::array();
  ConstantPool constants_;
  LocationTable locations_;
  std::mutex progress_mutex_;
  int done_ = 0;
  int total_ = 0;
  bool cancelled_ = false;
};

class KilnCompiler final : public runtime::Compiler {
 public:
  runtime::ArtifactContents compile(const ir::Module& module,
                                    const runtime::CompileOptions& options) override {
    return Compilation(module, options).run();
  }

  runtime::CpuTarget resolve_target(std::string_view cpu_target) override {
    return cpu_target_of(resolve_isa(cpu_target), cpu_target);
  }

  runtime::CompiledKernel compile_kernel(const runtime::KernelSource& source) override {
    return kernel_library().compile_kernel(source);
  }
};

}  // namespace

runtime::Compiler& compiler() {
  static KilnCompiler instance;
  return instance;
}

}  // namespace kiln::compiler

extern "C" __attribute__((visibility("default"))) kiln::runtime::Compiler* kiln_compiler_entry(
    int version) {
  if (version != kiln::runtime::kCompilerInterfaceVersion) return nullptr;
  return &kiln::compiler::compiler();
}
