#include "compiler/plan.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "compiler/passes/passes.h"
#include "kiln/support/format.h"

namespace kiln::compiler {

namespace {

using nlohmann::json;

/// "matmul", "Epilogue(matmul, add, gelu)", "Fused(add, layer_norm)", "Pack(transpose)",
/// "Pack(operand)".
std::string summary(const Kernel& kernel, const json& ops) {
  std::string parts;
  for (const json& op : ops) parts += (parts.empty() ? "" : ", ") + op.get<std::string>();
  if (kernel.kind == Kernel::Kind::pack) return "Pack(" + (parts.empty() ? "operand" : parts) + ")";
  if (kernel.kind == Kernel::Kind::attention) return "Attention(" + parts + ")";
  if (ops.size() == 1) return parts;
  if (parts.empty()) return "copy";
  return (kernel.kind == Kernel::Kind::matmul || kernel.kind == Kernel::Kind::windows ? "Epilogue("
                                                                                      : "Fused(") +
         parts + ")";
}

json ops_of(const Kernel& kernel) {
  json ops = json::array();
  for (const graph::ir::Op* op : kernel.ops) {
    if (op->kind == graph::OpKind::constant) continue;
    std::string part(user_name(*op));
    if (ops.empty() || ops.back() != part) ops.push_back(std::move(part));
  }
  return ops;
}

/// The control flow, prints and checks of a graph, which are code of its host function.
void collect_host_ops(const std::vector<Step>& steps, std::vector<const graph::ir::Op*>& ops) {
  for_each_step(steps, [&](const Step& step) {
    if (step.check) ops.push_back(step.check->origin);
    if (step.print) ops.push_back(step.print->origin);
    if (step.call) ops.push_back(step.call->origin);
    if (step.condition) ops.push_back(step.condition->origin);
    if (step.loop) ops.push_back(step.loop->origin);
  });
}

/// A sum of sizes, of which some are the largest of several.
struct Size {
  Dim sum = 0;
  std::vector<std::string> rest;

  void add(const Size& other) {
    sum = sum + other.sum;
    rest.insert(rest.end(), other.rest.begin(), other.rest.end());
  }
  std::string to_string() const {
    std::string text = sum == Dim(0) && !rest.empty() ? "" : sum.to_string();
    for (const std::string& part : rest) text += (text.empty() ? "" : " + ") + part;
    return text;
  }
};

Size largest(const std::vector<Dim>& sizes) {
  std::vector<Dim> distinct;
  std::int64_t least = 0;
  for (const Dim& size : sizes) {
    if (size.is_static())
      least = std::max(least, size.value());
    else if (std::find(distinct.begin(), distinct.end(), size) == distinct.end())
      distinct.push_back(size);
  }
  if (distinct.empty()) return {Dim(least), {}};
  if (distinct.size() == 1 && least == 0) return {distinct.front(), {}};
  std::vector<std::string> texts;
  for (const Dim& size : distinct) texts.push_back(size.to_string());
  if (least > 0) texts.push_back(format("{}", least));
  return {0, {format("max({})", kiln::join(texts, ", "))}};
}

/// Bytes of a tensor as they are laid out: in pieces of 64.
Dim bytes_of(const Tensor& tensor) {
  const Dim bytes = tensor.num_elements() * tensor.dtype.size_in_bytes();
  return (bytes + 63).floor_div(64) * 64;
}

json describe_tensor(const Tensor& tensor) {
  json shape = json::array();
  for (const Dim& dim : tensor.shape)
    dim.is_static() ? shape.push_back(dim.value()) : shape.push_back(dim.to_string());
  return {{"op", tensor.origin ? std::string(user_name(*tensor.origin)) : ""},
          {"dtype", tensor.dtype.name()},
          {"shape", std::move(shape)},
          {"bytes", bytes_of(tensor).to_string()}};
}

/// Which kernels of a run use a tensor, and during which its memory is kept.
struct Use {
  int first = -1, last = -1;
  int kept_from = -1, kept_to = -1;
};

std::vector<Use> uses_of(const Program& program, int& kernels) {
  std::vector<Use> uses(program.tensors.size());
  kernels = 0;
  for (const Step& step : program.run) {
    const int before = kernels;
    auto visit = [&](const Step& inner) {
      if (!inner.kernel) return;
      const Accesses accesses = accesses_of(inner);
      for (const std::set<int>* ids : {&accesses.reads, &accesses.writes})
        for (int id : *ids) {
          Use& use = uses[static_cast<std::size_t>(id)];
          if (use.first < 0) use.first = kernels;
          use.last = kernels;
        }
      ++kernels;
    };
    const std::span one(&step, 1);
    for_each_step(one, visit);
    // What a region uses is kept while the region runs, and what the host function reads until it
    // does.
    const Accesses accesses = accesses_of(step);
    for (const std::set<int>* ids : {&accesses.reads, &accesses.writes})
      for (int id : *ids) {
        Use& use = uses[static_cast<std::size_t>(id)];
        if (use.kept_from < 0) use.kept_from = before;
        use.kept_to = kernels - 1;
      }
  }
  return uses;
}

json describe_prepared(const Program& program) {
  json prepared = json::array();
  for (std::int64_t slot = 0; slot < program.prepared_slots; ++slot)
    for (std::size_t id = 0; id < program.tensors.size(); ++id) {
      const Tensor& tensor = program.tensors[id];
      if (tensor.storage != Tensor::Storage::prepared || tensor.number != slot) continue;
      json made_by = json::array();
      for (const Step& step : program.init)
        if (step.kernel && accesses_of(step).writes.count(static_cast<int>(id)))
          made_by.push_back(summary(*step.kernel, ops_of(*step.kernel)));
      // A fused kernel may have kept the value to itself.
      if (made_by.empty()) continue;
      json entry = describe_tensor(tensor);
      entry["slot"] = slot;
      entry["made_by"] = std::move(made_by);
      prepared.push_back(std::move(entry));
    }
  return prepared;
}

}  // namespace

json describe_kernels(const Program& program, const KernelSymbols& symbols,
                      const std::string& run_symbol) {
  json kernels = json::array();
  std::set<std::string> named;
  int number = 0;
  for (const std::vector<Step>* steps : {&program.init, &program.run})
    for_each_step(*steps, [&](const Step& step) {
      if (!step.kernel) return;
      json ops = ops_of(*step.kernel);
      for (const json& op : ops) named.insert(op.get<std::string>());
      json extents = json::array();
      for (std::size_t k = 0; k < step.kernel->axes.size(); ++k)
        extents.push_back(step.kernel->extent(k).to_string());
      const bool init = steps == &program.init;
      json kernel = {{"graph", program.graph->name},
                     {"name", step.kernel->name},
                     {"symbol", symbols.at(step.kernel.get())},
                     {"stage", init ? "init" : "run"},
                     {"summary", summary(*step.kernel, ops)},
                     {"extents", std::move(extents)}};
      if (!init) kernel["number"] = number++;
      kernel["ops"] = std::move(ops);
      kernels.push_back(std::move(kernel));
    });
  std::vector<const graph::ir::Op*> host_ops;
  collect_host_ops(program.run, host_ops);
  json ops = json::array();
  std::string parts;
  for (const graph::ir::Op* op : host_ops) {
    std::string name(user_name(*op));
    if (!named.insert(name).second) continue;
    parts += (parts.empty() ? "" : ", ") + name;
    ops.push_back(std::move(name));
  }
  if (!ops.empty())
    kernels.push_back({{"graph", program.graph->name},
                       {"name", "host"},
                       {"symbol", run_symbol},
                       {"stage", "run"},
                       {"ops", std::move(ops)},
                       {"summary", "Host(" + parts + ")"},
                       {"extents", json::array()}});
  return kernels;
}

json describe_memory(const Program& program, const MemoryPlan& plan, const Isa& isa) {
  Size arena;
  json slots = json::array();
  std::vector<std::string> offsets;
  for (const MemoryPlan::Slot& slot : plan.slots) {
    std::vector<Dim> sizes;
    for (int id : slot.tensors)
      sizes.push_back(bytes_of(program.tensors[static_cast<std::size_t>(id)]));
    const Size size = largest(sizes);
    offsets.push_back(arena.to_string());
    slots.push_back({{"bytes", size.to_string()}, {"offset", offsets.back()}});
    arena.add(size);
  }

  int kernels = 0;
  const std::vector<Use> uses = uses_of(program, kernels);
  std::vector<int> ids;
  for (std::size_t id = 0; id < program.tensors.size(); ++id)
    if (program.tensors[id].storage == Tensor::Storage::temporary && uses[id].kept_from >= 0)
      ids.push_back(static_cast<int>(id));
  std::sort(ids.begin(), ids.end(), [&](int a, int b) {
    return std::pair(uses[static_cast<std::size_t>(a)].kept_from, a) <
           std::pair(uses[static_cast<std::size_t>(b)].kept_from, b);
  });
  auto number_of = [&](int id) { return std::find(ids.begin(), ids.end(), id) - ids.begin(); };
  json values = json::array();
  for (int id : ids) {
    const auto i = static_cast<std::size_t>(id);
    json value = describe_tensor(program.tensors[i]);
    value["value"] = number_of(id);
    if (plan.slot_of[i] >= 0) {
      value["slot"] = plan.slot_of[i];
      value["offset"] = offsets[static_cast<std::size_t>(plan.slot_of[i])];
    }
    if (plan.in_place_of[i] >= 0) value["in_place_of"] = number_of(plan.in_place_of[i]);
    if (uses[i].first >= 0) {
      value["first_kernel"] = uses[i].first;
      value["last_kernel"] = uses[i].last;
    }
    value["kept"] = {uses[i].kept_from, uses[i].kept_to};
    values.push_back(std::move(value));
  }

  json scratch = json::array();
  int number = 0;
  for_each_step(program.run, [&](const Step& step) {
    if (!step.kernel) return;
    const KernelLaunch launch = launch_of(*step.kernel, program, isa);
    if (launch.has_scratch) {
      json entry = {{"kernel", number}};
      // Panels of an attention are sized by the code that fills them.
      if (!launch.attention) entry["bytes_per_thread"] = launch.scratch_bytes.to_string();
      scratch.push_back(std::move(entry));
    }
    ++number;
  });
  return {{"graph", program.graph->name},
          {"arena_bytes", arena.to_string()},
          {"slots", std::move(slots)},
          {"values", std::move(values)},
          {"scratch", std::move(scratch)},
          {"prepared", describe_prepared(program)},
          {"kernels", kernels}};
}

}  // namespace kiln::compiler
