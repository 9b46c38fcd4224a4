#include "compiler/codegen/memory_plan.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/diagnostics.h"

namespace kiln::compiler {

namespace {

struct Life {
  int first_write = -1;
  int last_use = -1;
};

/// The one position at which `kernel` reads `tensor`, or null when it reads it anywhere else too.
const Index* only_read(const Kernel& kernel, int tensor) {
  if (kernel.kind != Kernel::Kind::loops) return nullptr;
  const Index* found = nullptr;
  bool one = true;
  std::unordered_map<const Expr*, bool> seen;
  auto visit = [&](const Expr* e) {
    if (e->kind == Expr::Kind::reduce) one = false;
    if (e->kind != Expr::Kind::load || e->tensor != tensor) return;
    if (found && *found != e->index) one = false;
    found = &e->index;
  };
  for (const Store& store : kernel.stores) {
    walk(store.value, seen, visit);
    walk_index(store.index, seen, visit);
  }
  return one ? found : nullptr;
}

/// The one position at which `kernel` writes `tensor`.
const Index* only_write(const Kernel& kernel, int tensor) {
  const Index* found = nullptr;
  for (const Store& store : kernel.stores) {
    if (store.tensor != tensor) continue;
    if (found) return nullptr;
    found = &store.index;
  }
  return found;
}

}  // namespace

MemoryPlan plan_memory(const Program& program) {
  MemoryPlan plan;
  plan.slot_of.assign(program.tensors.size(), -1);
  plan.in_place_of.assign(program.tensors.size(), -1);
  std::vector<Life> lives(program.tensors.size());
  auto is_temporary = [&](int id) {
    return program.tensors[static_cast<std::size_t>(id)].storage == Tensor::Storage::temporary;
  };
  // What is written inside a region lives as long as the whole step: regions run again, or not.
  for (std::size_t s = 0; s < program.run.size(); ++s) {
    const Step& step = program.run[s];
    Accesses accesses = accesses_of(step);
    for (int id : accesses.reads)
      lives[static_cast<std::size_t>(id)].last_use = static_cast<int>(s);
    for (int id : accesses.writes) {
      Life& life = lives[static_cast<std::size_t>(id)];
      life.last_use = static_cast<int>(s);
      if (life.first_write < 0) life.first_write = static_cast<int>(s);
    }
  }

  std::vector<int> free_slots;
  auto take = [&](int id) {
    const Tensor& tensor = program.tensors[static_cast<std::size_t>(id)];
    const Dim bytes = working_on(std::span(&tensor.origin, 1), [&] {
      return tensor.num_elements() * tensor.dtype.size_in_bytes();
    });
    auto same_size = [&](int slot) {
      for (int other : plan.slots[static_cast<std::size_t>(slot)].tensors) {
        const Tensor& t = program.tensors[static_cast<std::size_t>(other)];
        if (t.num_elements() * t.dtype.size_in_bytes() == bytes) return true;
      }
      return false;
    };
    auto it = std::find_if(free_slots.begin(), free_slots.end(), same_size);
    if (it == free_slots.end() && !free_slots.empty()) it = free_slots.end() - 1;
    int slot = 0;
    if (it != free_slots.end()) {
      slot = *it;
      free_slots.erase(it);
    } else {
      slot = static_cast<int>(plan.slots.size());
      plan.slots.emplace_back();
    }
    plan.slots[static_cast<std::size_t>(slot)].tensors.push_back(id);
    plan.slot_of[static_cast<std::size_t>(id)] = slot;
  };

  for (std::size_t s = 0; s < program.run.size(); ++s) {
    const Kernel* kernel = program.run[s].kernel.get();
    int step = static_cast<int>(s);
    std::vector<bool> handed_over(program.tensors.size(), false);
    const std::set<int> written = accesses_of(program.run[s]).writes;
    for (int id : written) {
      const Tensor& tensor = program.tensors[static_cast<std::size_t>(id)];
      if (!is_temporary(id) || tensor.sized_by_data ||
          plan.slot_of[static_cast<std::size_t>(id)] >= 0)
        continue;
      // In place: an operand that dies here, is read just where this is written, and is not itself
      // written once more.
      bool placed = false;
      for (std::size_t other = 0; kernel && other < lives.size() && !placed; ++other) {
        const Tensor& candidate = program.tensors[other];
        int slot = plan.slot_of[other];
        if (slot < 0 || lives[other].last_use != step || handed_over[other] ||
            written.count(static_cast<int>(other)) ||
            candidate.dtype.size_in_bytes() != tensor.dtype.size_in_bytes() ||
            candidate.num_elements() != tensor.num_elements())
          continue;
        const Index* read = only_read(*kernel, static_cast<int>(other));
        const Index* write = only_write(*kernel, id);
        if (!read || !write || *read != *write) continue;
        handed_over[other] = true;
        plan.slots[static_cast<std::size_t>(slot)].tensors.push_back(id);
        plan.slot_of[static_cast<std::size_t>(id)] = slot;
        plan.in_place_of[static_cast<std::size_t>(id)] = static_cast<int>(other);
        placed = true;
      }
      if (!placed) take(id);
    }
    for (std::size_t id = 0; id < lives.size(); ++id)
      if (lives[id].last_use == step && plan.slot_of[id] >= 0 && !handed_over[id])
        free_slots.push_back(plan.slot_of[id]);
  }
  return plan;
}

}  // namespace kiln::compiler
