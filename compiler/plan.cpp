#include "compiler/plan.h"

#include <algorithm>
#include <set>
#include <span>
#include <unordered_map>
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

json shape_of(const Tensor& tensor) {
  json shape = json::array();
  for (const Dim& dim : tensor.shape)
    dim.is_static() ? shape.push_back(dim.value()) : shape.push_back(dim.to_string());
  return shape;
}

json describe_tensor(const Tensor& tensor) {
  return {{"op", tensor.origin ? std::string(user_name(*tensor.origin)) : ""},
          {"dtype", tensor.dtype.name()},
          {"shape", shape_of(tensor)},
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

/// Temporaries that are kept in a run, in the order in which they are first kept.
std::vector<int> kept_values(const Program& program, const std::vector<Use>& uses) {
  std::vector<int> ids;
  for (std::size_t id = 0; id < program.tensors.size(); ++id)
    if (program.tensors[id].storage == Tensor::Storage::temporary && uses[id].kept_from >= 0)
      ids.push_back(static_cast<int>(id));
  std::sort(ids.begin(), ids.end(), [&](int a, int b) {
    return std::pair(uses[static_cast<std::size_t>(a)].kept_from, a) <
           std::pair(uses[static_cast<std::size_t>(b)].kept_from, b);
  });
  return ids;
}

/// What a kernel moves and works out.
class Work {
 public:
  explicit Work(const Program& program) : program_(program) {
    int kernels = 0;
    kept_ = kept_values(program, uses_of(program, kernels));
  }

  json tensors(const std::set<int>& ids) const {
    json list = json::array();
    for (const int id : ids) {
      const Tensor& tensor = program_.tensors[static_cast<std::size_t>(id)];
      json entry = {{"dtype", tensor.dtype.name()}, {"shape", shape_of(tensor)}};
      try {
        entry["bytes"] = bytes_of(tensor).to_string();
      } catch (const ValueError&) {
        // A size of too many divisions is no formula.
      }
      entry["tensor"] = name_of(id);
      list.push_back(std::move(entry));
    }
    return list;
  }

  /// Arithmetic on elements, as a formula; empty when it cannot be counted.
  static std::string flops(const Kernel& kernel) {
    try {
      Dim sum = 0;
      std::unordered_map<const Expr*, bool> seen;
      const auto count = [&](const Expr* expr) {
        if (expr->kind == Expr::Kind::unary || expr->kind == Expr::Kind::binary)
          sum = sum + points(kernel, expr->axes);
        if (expr->kind == Expr::Kind::reduce) sum = sum + points(kernel, expr->args[0]->axes);
      };
      for (const Store& store : kernel.stores) walk(store.value, seen, count);
      if (kernel.score) walk(kernel.score, seen, count);
      const Dim each = kernel_points(kernel);
      if (kernel.kind == Kernel::Kind::matmul) sum = sum + each * product_depth(kernel) * 2;
      if (kernel.kind == Kernel::Kind::windows) {
        Dim taps = kernel.operands.size() > 1 ? 2 : 1;
        for (const Window& window : kernel.windows) taps = taps * window.taps;
        sum = sum + each * taps;
      }
      if (kernel.kind == Kernel::Kind::attention && kernel.key_axis >= 0) {
        // Two products, of which the first is over rows and keys.
        Dim rows = 1;
        for (std::size_t i = 0; i + 1 < kernel.axes.size(); ++i) rows = rows * kernel.extent(i);
        const Dim& keys = kernel.arena->extent(kernel.key_axis);
        sum = sum + rows * keys * kernel.arena->extent(kernel.reduced_axis) * 2 + each * keys * 2;
      }
      return sum.to_string();
    } catch (const ValueError&) {
      return "";  // beyond 64 bits
    }
  }

 private:
  static Dim points(const Kernel& kernel, AxisSet axes) {
    Dim count = 1;
    for (int axis = 0; axis < 64; ++axis)
      if (axes & axis_bit(axis)) count = count * kernel.arena->extent(axis);
    return count;
  }
  static Dim kernel_points(const Kernel& kernel) {
    Dim count = 1;
    for (std::size_t i = 0; i < kernel.axes.size(); ++i) count = count * kernel.extent(i);
    return count;
  }

  std::string name_of(int id) const {
    const Tensor& tensor = program_.tensors[static_cast<std::size_t>(id)];
    const auto number = static_cast<std::size_t>(tensor.number);
    const auto named = [&](const std::vector<std::string>& names, std::string_view kind) {
      return number < names.size() ? format("{} {}", kind, names[number])
                                   : format("{} {}", kind, number);
    };
    switch (tensor.storage) {
      case Tensor::Storage::input:
        return named(program_.graph->argument_names, "input");
      case Tensor::Storage::weight:
        return named(program_.weights, "weight");
      case Tensor::Storage::constant:
        return "constant";
      case Tensor::Storage::output:
        return format("output {}", number);
      case Tensor::Storage::prepared:
        return format("prepared {}", number);
      case Tensor::Storage::temporary:
        break;
    }
    return format("value {}", std::find(kept_.begin(), kept_.end(), id) - kept_.begin());
  }

  const Program& program_;
  std::vector<int> kept_;
};

}  // namespace

json describe_kernels(const Program& program, const KernelSymbols& symbols,
                      const std::string& run_symbol) {
  json kernels = json::array();
  std::set<std::string> named;
  int number = 0;
  const Work work(program);
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
      const Accesses accesses = accesses_of(step);
      kernel["reads"] = work.tensors(accesses.reads);
      kernel["writes"] = work.tensors(accesses.writes);
      if (std::string flops = Work::flops(*step.kernel); !flops.empty())
        kernel["flops"] = std::move(flops);
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
  const std::vector<int> ids = kept_values(program, uses);
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
