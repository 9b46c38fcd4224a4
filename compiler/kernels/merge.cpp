#include "compiler/kernels/merge.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/diagnostics.h"
#include "compiler/kernels/op_traits.h"
#include "kiln/support/error.h"

namespace kiln::compiler {

namespace {

// Code of one kernel. More gains nothing, and takes more than its share of time to make.
constexpr std::size_t kMostCode = 128;

std::size_t code_of(const Kernel& kernel) {
  std::size_t size = 0;
  for (const graph::ir::Op* op : kernel.ops) size += code_size(op->kind);
  return size;
}

bool has_reduction(const Kernel& kernel) {
  bool found = false;
  std::unordered_map<const Expr*, bool> seen;
  for (const Store& store : kernel.stores)
    walk(store.value, seen, [&](const Expr* e) { found = found || e->kind == Expr::Kind::reduce; });
  return found;
}

bool overlap(const std::set<int>& a, const std::set<int>& b) {
  return std::any_of(a.begin(), a.end(), [&](int x) { return b.count(x) != 0; });
}

/// Whether a kernel hands what it accumulates to expressions.
bool has_epilogue(const Kernel& kernel) {
  return kernel.kind == Kernel::Kind::matmul || kernel.kind == Kernel::Kind::windows;
}

/// Whether nobody outside the program sees a tensor.
bool is_private(const Program& program, int tensor) {
  Tensor::Storage storage = program.tensors[static_cast<std::size_t>(tensor)].storage;
  return storage == Tensor::Storage::temporary || storage == Tensor::Storage::prepared;
}

/// Adds what a step itself reads; steps inside it are visited on their own.
void add_reads(const Step& step, std::set<int>& read) {
  if (step.condition) {
    read.insert(step.condition->predicate);
  } else if (step.loop) {
    read.insert(step.loop->predicate);
  } else {
    Accesses accesses = accesses_of(step);
    read.insert(accesses.reads.begin(), accesses.reads.end());
  }
}

/// How many steps of a program read each tensor.
class Readers {
 public:
  explicit Readers(const Program& program) {
    for (const std::vector<Step>* steps : {&program.init, &program.run})
      for_each_step(*steps, [&](const Step& step) {
        std::set<int> read;
        add_reads(step, read);
        add(read, 1);
      });
  }

  void add(const std::set<int>& tensors, int by) {
    for (int tensor : tensors) counts_[tensor] += by;
  }
  int count(int tensor) const {
    const auto it = counts_.find(tensor);
    return it == counts_.end() ? 0 : it->second;
  }

 private:
  std::map<int, int> counts_;
};

/// Merging of one list of steps.
class Merger {
 public:
  Merger(Program& program, Readers& readers, std::vector<Step>& steps)
      : program_(program), readers_(readers), steps_(steps) {}

  void run() {
    for (Step& step : steps_) {
      if (step.condition) {
        Merger(program_, readers_, step.condition->then_steps).run();
        Merger(program_, readers_, step.condition->else_steps).run();
      }
      if (step.loop) {
        Merger(program_, readers_, step.loop->test).run();
        Merger(program_, readers_, step.loop->body).run();
      }
    }
    for (const Step& step : steps_) accesses_.push_back(accesses_of(step));
    // Products take their epilogue first: a sum that could also open a row kernel belongs to them.
    pass([](const Kernel& a, const Kernel& b) {
      return has_epilogue(a) && b.kind == Kernel::Kind::loops && !b.sequential;
    });
    pass([](const Kernel& a, const Kernel& b) {
      auto plain = [](const Kernel& k) {
        return !k.sequential && (k.kind == Kernel::Kind::loops || k.kind == Kernel::Kind::rows);
      };
      return plain(a) && plain(b);
    });
  }

 private:
  template <typename Allowed>
  void pass(const Allowed& allowed) {
    for (std::size_t j = 0; j < steps_.size(); ++j) {
      // A kernel keeps taking in its producers as long as one fits.
      for (std::size_t i = j; i-- > 0;) {
        if (!steps_[i].kernel || !steps_[j].kernel) continue;
        if (!overlap(accesses_[i].writes, accesses_[j].reads)) continue;
        if (!allowed(*steps_[i].kernel, *steps_[j].kernel)) continue;
        const auto ops = steps_[j].kernel->ops;
        if (working_on(ops, [&] { return try_merge(i, j); })) {
          j -= move_dependents(j);
          i = j;
        }
      }
    }
    std::erase_if(steps_, [](const Step& step) { return step.empty(); });
    accesses_.clear();
    for (const Step& step : steps_) accesses_.push_back(accesses_of(step));
  }

  bool must_follow(std::size_t later, std::size_t earlier) const {
    const Accesses& a = accesses_[earlier];
    const Accesses& b = accesses_[later];
    return overlap(a.writes, b.reads) || overlap(a.writes, b.writes) || overlap(a.reads, b.writes);
  }

  /// The steps between i and j that must run after i.
  std::vector<std::size_t> dependents(std::size_t i, std::size_t j) const {
    std::vector<std::size_t> after;
    for (std::size_t k = i + 1; k < j; ++k) {
      if (must_follow(k, i) ||
          std::any_of(after.begin(), after.end(), [&](std::size_t a) { return must_follow(k, a); }))
        after.push_back(k);
    }
    return after;
  }

  /// Whether a step between i and j must run after i and before j.
  bool path_between(std::size_t i, std::size_t j) const {
    std::vector<std::size_t> after = dependents(i, j);
    return std::any_of(after.begin(), after.end(),
                       [&](std::size_t a) { return must_follow(j, a); });
  }

  /// After a merge into j: steps before it that read what was merged move behind j. Returns by
  /// how much j moved forward.
  std::size_t move_dependents(std::size_t j) {
    std::vector<std::size_t> after = moving_;
    for (std::size_t n = after.size(); n-- > 0;) {
      auto k = static_cast<std::ptrdiff_t>(after[n]);
      auto end = static_cast<std::ptrdiff_t>(j) + 1;
      std::rotate(steps_.begin() + k, steps_.begin() + k + 1, steps_.begin() + end);
      std::rotate(accesses_.begin() + k, accesses_.begin() + k + 1, accesses_.begin() + end);
      --j;
    }
    return after.size();
  }

  /// Merges the kernel of step i into that of step j, at j's place.
  bool try_merge(std::size_t i, std::size_t j) {
    const Kernel& a = *steps_[i].kernel;
    const Kernel& c = *steps_[j].kernel;
    if (code_of(a) + code_of(c) > kMostCode || path_between(i, j)) return false;
    moving_ = dependents(i, j);
    // Only kernels change places: what reads or defines extents stays before those who need them.
    for (std::size_t k : moving_)
      if (!steps_[k].kernel) return false;
    const bool rows = a.kind == Kernel::Kind::rows || c.kind == Kernel::Kind::rows;
    // The columns of a product stay an axis, also when there is only one.
    if (has_epilogue(a) && (rows || has_reduction(c) || a.axes.size() != c.axes.size()))
      return false;
    // A loop inside a loop stays by itself in row kernels.
    if (rows && ((a.kind != Kernel::Kind::rows && has_reduction(a)) ||
                 (c.kind != Kernel::Kind::rows && has_reduction(c))))
      return false;

    auto merged = std::make_unique<Kernel>();
    merged->kind = has_epilogue(a) ? a.kind : rows ? Kernel::Kind::rows : Kernel::Kind::loops;
    Arena& arena = *merged->arena;
    // The wider set of axes: that of the row kernel, if there is one.
    const Kernel& wide = c.kind == Kernel::Kind::rows || !rows ? c : a;
    for (int axis : wide.axes) merged->axes.push_back(arena.new_axis(wide.arena->extent(axis)));
    Arena::AxisMap a_axes, c_axes;
    if (!map_axes(a, *merged, a_axes) || !map_axes(c, *merged, c_axes)) return false;

    if (has_epilogue(a)) {
      if (a.reduced_axis >= 0) {
        merged->reduced_axis = arena.new_axis(a.arena->extent(a.reduced_axis));
        a_axes[a.reduced_axis] = arena.axis_index(merged->reduced_axis);
      }
      merged->windows = a.windows;
      merged->reduction = a.reduction;
      merged->group_channels = a.group_channels;
      merged->group_columns = a.group_columns;
      merged->filter_step = a.filter_step;
      merged->product_dtype = a.product_dtype;
      for (const MatrixOperand& operand : a.operands)
        merged->operands.push_back({operand.tensor, arena.rewrite(operand.index, a_axes, {})});
    }

    std::map<int, std::pair<Index, const Expr*>> produced;
    for (const Store& store : a.stores) {
      Index index = arena.rewrite(store.index, a_axes, {});
      const Expr* value = arena.rewrite(store.value, a_axes, {});
      produced[store.tensor] = {index, value};
      merged->stores.push_back({store.tensor, index, value});
    }
    // Every load of what `a` makes must be of the very element that `a` makes at this point.
    Arena::LoadMap loads;
    for (const Expr* load : loads_of(c)) {
      auto it = produced.find(load->tensor);
      if (it == produced.end()) continue;
      if (arena.rewrite(load->index, c_axes, {}) != it->second.first) return false;
      loads[load] = it->second.second;
    }
    // The replacements belong to the merged arena already; they pass through a rewrite unchanged
    // only if their axes map to themselves, so loads are replaced in a second step.
    Arena::LoadMap renamed;
    for (auto& [load, value] : loads) renamed[arena.rewrite(load, c_axes, {})] = value;
    Arena::AxisMap none;
    for (const Store& store : c.stores) {
      const Expr* value = arena.rewrite(store.value, c_axes, {});
      value = arena.rewrite(value, none, renamed);
      merged->stores.push_back({store.tensor, arena.rewrite(store.index, c_axes, {}), value});
    }
    if (!safe_in_place(*merged)) return false;
    if (merged->kind == Kernel::Kind::rows && !reductions_follow_rows(*merged)) return false;

    merged->ops = a.ops;
    for (const auto* op : c.ops)
      if (std::find(merged->ops.begin(), merged->ops.end(), op) == merged->ops.end())
        merged->ops.push_back(op);
    readers_.add(accesses_[i].reads, -1);
    readers_.add(accesses_[j].reads, -1);
    drop_unread(*merged, c);
    steps_[j].kernel = std::move(merged);
    accesses_[j] = accesses_of(steps_[j]);
    readers_.add(accesses_[j].reads, 1);
    steps_[i].kernel = nullptr;
    accesses_[i] = {};
    return true;
  }

  /// Maps the axes of `from` to those of `to`: one to one, where a row kernel may have a longer
  /// last axis than a kernel that makes one value a row.
  static bool map_axes(const Kernel& from, Kernel& to, Arena::AxisMap& map) {
    Arena& arena = *to.arena;
    std::vector<int> axes = from.axes;
    // Axes of one element at the end stand for themselves.
    while (axes.size() > to.axes.size() && from.arena->extent(axes.back()) == Dim(1)) {
      map[axes.back()] = Index(0);
      axes.pop_back();
    }
    std::size_t shared = to.axes.size();
    if (axes.size() + 1 == shared && to.kind == Kernel::Kind::rows &&
        from.kind != Kernel::Kind::rows)
      shared = axes.size();
    if (axes.size() != shared) return false;
    for (std::size_t k = 0; k < axes.size(); ++k) {
      const Dim& extent = from.arena->extent(axes[k]);
      if (extent == arena.extent(to.axes[k])) {
        map[axes[k]] = arena.axis_index(to.axes[k]);
        continue;
      }
      bool row_value = k + 1 == to.axes.size() && to.kind == Kernel::Kind::rows &&
                       from.kind != Kernel::Kind::rows && extent == Dim(1);
      if (!row_value) return false;
      map[axes[k]] = Index(0);
    }
    // Axes of reductions inside.
    for (int axis = 0; axis < 64; ++axis) {
      if (map.count(axis) || !uses_axis(from, axis)) continue;
      map[axis] = arena.axis_index(arena.new_axis(from.arena->extent(axis)));
    }
    return true;
  }

  static bool uses_axis(const Kernel& kernel, int axis) {
    bool used = false;
    std::unordered_map<const Expr*, bool> seen;
    auto visit = [&](const Expr* e) {
      used = used || (e->kind == Expr::Kind::reduce && e->axis == axis) ||
             (e->axes & axis_bit(axis)) != 0;
    };
    for (const Store& store : kernel.stores) {
      walk(store.value, seen, visit);
      walk_index(store.index, seen, visit);
    }
    return used;
  }

  /// In a row kernel, everything that is reduced is reduced along the last axis.
  static bool reductions_follow_rows(const Kernel& kernel) {
    bool follow = true;
    std::unordered_map<const Expr*, bool> seen;
    for (const Store& store : kernel.stores)
      walk(store.value, seen, [&](const Expr* e) {
        if (e->kind == Expr::Kind::reduce) follow = follow && e->axis == kernel.axes.back();
      });
    return follow;
  }

  /// A tensor that a kernel both reads and writes must be read at the very element that is written.
  static bool safe_in_place(const Kernel& kernel) {
    std::map<int, Index> written;
    for (const Store& store : kernel.stores) {
      auto [it, fresh] = written.emplace(store.tensor, store.index);
      if (!fresh) return false;
    }
    for (const Expr* load : loads_of(kernel)) {
      auto it = written.find(load->tensor);
      if (it != written.end() && load->index != it->second) return false;
    }
    // A product reads its operands again for every part of its result.
    for (const MatrixOperand& operand : kernel.operands)
      if (written.count(operand.tensor)) return false;
    return true;
  }

  /// Removes stores to temporaries that neither the merged kernel reads nor another step; `c` is
  /// the consumer, and the readers are those without the two kernels that were merged.
  void drop_unread(Kernel& kernel, const Kernel& c) const {
    std::set<int> read;
    for (const Expr* load : loads_of(kernel)) read.insert(load->tensor);
    // A store that refuses data goes where the consumer works out the same values.
    std::set<int> consumed;
    for (const Expr* load : loads_of(c)) consumed.insert(load->tensor);
    std::erase_if(kernel.stores, [&](const Store& store) {
      return is_private(program_, store.tensor) && !read.count(store.tensor) &&
             readers_.count(store.tensor) == 0 &&
             (consumed.count(store.tensor) || !may_fail(store));
    });
  }

  Program& program_;
  Readers& readers_;
  std::vector<Step>& steps_;
  std::vector<Accesses> accesses_;
  std::vector<std::size_t> moving_;  // what the merge in progress moves behind its consumer
};

/// Removes kernels whose stores nobody reads, unless they may refuse their data.
void drop_dead(Program& program) {
  for (bool changed = true; changed;) {
    changed = false;
    std::set<int> read;
    for (std::vector<Step>* steps : {&program.init, &program.run})
      for_each_step(*steps, [&](const Step& step) { add_reads(step, read); });
    auto dead = [&](const Step& step) {
      return step.kernel && std::all_of(step.kernel->stores.begin(), step.kernel->stores.end(),
                                        [&](const Store& store) {
                                          return is_private(program, store.tensor) &&
                                                 !read.count(store.tensor) && !may_fail(store);
                                        });
    };
    auto clean = [&](const auto& self, std::vector<Step>& steps) -> void {
      changed = std::erase_if(steps, dead) > 0 || changed;
      for (Step& step : steps) {
        if (step.condition) {
          self(self, step.condition->then_steps);
          self(self, step.condition->else_steps);
        }
        if (step.loop) {
          self(self, step.loop->test);
          self(self, step.loop->body);
        }
      }
    };
    clean(clean, program.init);
    clean(clean, program.run);
  }
}

}  // namespace

void merge_kernels(Program& program) {
  Readers readers(program);
  Merger(program, readers, program.init).run();
  Merger(program, readers, program.run).run();
  drop_dead(program);
}

void collapse_axes(Kernel& kernel, const Program& program) {
  if (!kernel.windows.empty()) return;  // each axis has a meaning
  Arena& arena = *kernel.arena;
  // Axes at the end that keep their meaning: the row of row kernels, the columns of products, both
  // axes of what is packed.
  const bool two = kernel.kind == Kernel::Kind::pack || kernel.kind == Kernel::Kind::attention;
  const std::size_t fixed = kernel.kind == Kernel::Kind::loops ? 0 : two ? 2 : 1;
  // Axes of one element are no axes.
  for (std::size_t k = 0; k + fixed < kernel.axes.size();) {
    bool row_of_product = kernel.kind == Kernel::Kind::matmul && k + 2 == kernel.axes.size();
    if (kernel.extent(k) == Dim(1) && !row_of_product && kernel.axes.size() > 1)
      kernel.axes.erase(kernel.axes.begin() + static_cast<std::ptrdiff_t>(k));
    else
      ++k;
  }
  if (kernel.axes.size() < fixed + 2) return;
  for (std::size_t k = kernel.axes.size() - 1 - fixed; k >= 1; --k) {
    std::size_t outer = k - 1;
    int a = kernel.axes[outer], b = kernel.axes[k];
    const Dim inner_extent = arena.extent(b);
    int joined = arena.new_axis(arena.extent(a) * inner_extent);
    Index whole = arena.axis_index(joined);
    Arena::AxisMap map;
    map[a] = arena.quotient(whole, inner_extent);
    map[b] = arena.remainder(whole, inner_extent);
    auto plain = [&](const Index& index) {
      for (const Index::Term& term : index.terms)
        if (term.atom->kind != Atom::Kind::axis && term.atom->kind != Atom::Kind::value &&
            (term.atom->axes & axis_bit(joined)))
          return false;
      return true;
    };
    std::vector<Store> stores;
    bool fits = true;
    for (const Store& store : kernel.stores) {
      Store moved = store;
      moved.index = arena.rewrite(store.index, map, {});
      moved.value = arena.rewrite(store.value, map, {});
      fits = fits && plain(moved.index);
      stores.push_back(std::move(moved));
    }
    std::unordered_map<const Expr*, bool> seen;
    auto check = [&](const Expr* e) {
      if (e->kind == Expr::Kind::load || e->kind == Expr::Kind::index)
        fits = fits && plain(e->index);
    };
    for (const Store& store : stores) walk(store.value, seen, check);
    const Expr* score = kernel.score ? arena.rewrite(kernel.score, map, {}) : nullptr;
    if (score) walk(score, seen, check);
    std::vector<MatrixOperand> operands;
    for (const MatrixOperand& operand : kernel.operands) {
      operands.push_back({operand.tensor, arena.rewrite(operand.index, map, {})});
      fits = fits && plain(operands.back().index);
    }
    // Joining a batch axis with the rows needs one right operand for all of them.
    if (kernel.kind == Kernel::Kind::matmul && k + 2 == kernel.axes.size())
      fits = fits && operands[1].index.coefficient(joined) == Dim(0);
    if (!fits) continue;
    kernel.stores = std::move(stores);
    kernel.operands = std::move(operands);
    kernel.score = score;
    kernel.axes[outer] = joined;
    kernel.axes.erase(kernel.axes.begin() + static_cast<std::ptrdiff_t>(k));
  }
}

}  // namespace kiln::compiler
