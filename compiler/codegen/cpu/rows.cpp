// Row kernels: each row is walked once for every stage of its reductions, then once for what is
// stored. Example, softmax: max | sum of exp(x - max) | exp(x - max) / sum. What two walks need and
// what is dear to compute is kept in a row of memory by the first of them.

#include <algorithm>
#include <set>

#include "compiler/codegen/cpu/loops.h"
#include "compiler/codegen/cpu/vector_plan.h"
#include "compiler/codegen/expression.h"

namespace kiln::compiler {

namespace {

constexpr std::int64_t kStackBytes = 32 << 10;

double own_cost(const Expr* e) {
  switch (e->kind) {
    case Expr::Kind::constant:
    case Expr::Kind::index:
    case Expr::Kind::accumulator:
      return 0;
    case Expr::Kind::load:
      return e->dtype == DType::float32 || e->dtype == DType::float64 ? 1.5 : 3;
    case Expr::Kind::unary:
      switch (e->op) {
        case OpKind::abs:
        case OpKind::negate:
        case OpKind::relu:
        case OpKind::is_nan:
        case OpKind::is_inf:
        case OpKind::logical_not:
        case OpKind::floor:
        case OpKind::ceil:
        case OpKind::trunc:
        case OpKind::round:
          return 1;
        case OpKind::sqrt:
          return 6;
        default:
          return 15;
      }
    case Expr::Kind::binary:
      return e->op == OpKind::pow || e->op == OpKind::mod ? 30 : e->op == OpKind::div ? 5 : 1;
    default:
      return 1;
  }
}

/// The passes over a row and what each keeps for later ones.
struct RowPlan {
  std::vector<std::vector<const Expr*>> reductions;  // by stage
  std::vector<const Expr*> kept;                     // in order of their slots
  std::unordered_map<const Expr*, std::size_t> kept_in_pass;
};

class RowPlanner {
 public:
  explicit RowPlanner(const Kernel& kernel) : kernel_(kernel), axis_(kernel.axes.back()) {}

  RowPlan plan() {
    std::unordered_map<const Expr*, bool> seen;
    for (const Store& store : kernel_.stores)
      walk(store.value, seen, [&](const Expr* e) {
        if (e->kind != Expr::Kind::reduce) return;
        std::size_t stage = stage_of(e) - 1;
        if (plan_.reductions.size() <= stage) plan_.reductions.resize(stage + 1);
        plan_.reductions[stage].push_back(e);
      });
    const std::size_t last = plan_.reductions.size();
    for (std::size_t pass = 0; pass <= last; ++pass)
      for_each_root(pass, [&](const Expr* root) { count(root, pass); });
    for (std::size_t pass = 0; pass <= last; ++pass) {
      visited_.clear();
      for_each_root(pass, [&](const Expr* root) { keep(root, pass, false); });
    }
    return std::move(plan_);
  }

 private:
  std::size_t stage_of(const Expr* e) {
    if (auto it = stages_.find(e); it != stages_.end()) return it->second;
    std::size_t stage = 0;
    for (const Expr* arg : e->args) stage = std::max(stage, stage_of(arg));
    for (const Index::Term& term : e->index.terms)
      if (term.atom->value) stage = std::max(stage, stage_of(term.atom->value));
    if (e->kind == Expr::Kind::reduce) ++stage;
    stages_[e] = stage;
    return stage;
  }

  template <typename Visit>
  void for_each_root(std::size_t pass, const Visit& visit) {
    if (pass < plan_.reductions.size()) {
      for (const Expr* reduce : plan_.reductions[pass]) visit(reduce->args[0]);
      return;
    }
    for (const Store& store : kernel_.stores) visit(store.value);
  }

  bool in_row(const Expr* e) const { return (e->axes & axis_bit(axis_)) != 0; }

  void count(const Expr* e, std::size_t pass) {
    if (!in_row(e)) return;
    auto& passes = passes_[e];
    if (!passes.empty() && passes.back() == pass) return;
    passes.push_back(pass);
    for (const Expr* arg : e->args) count(arg, pass);
  }

  double cost(const Expr* e) {
    if (!in_row(e)) return 0;
    if (auto it = costs_.find(e); it != costs_.end()) return it->second;
    double total = own_cost(e);
    for (const Expr* arg : e->args) total += cost(arg);
    costs_[e] = total;
    return total;
  }

  void keep(const Expr* e, std::size_t pass, bool covered) {
    if (!in_row(e) || plan_.kept_in_pass.count(e) || !visited_.insert(e).second) return;
    if (!covered && passes_[e].back() > pass && cost(e) >= 3.9 && e->kind != Expr::Kind::load) {
      plan_.kept.push_back(e);
      plan_.kept_in_pass[e] = pass;
      covered = true;
    }
    for (const Expr* arg : e->args) keep(arg, pass, covered);
  }

  const Kernel& kernel_;
  const int axis_;
  RowPlan plan_;
  std::unordered_map<const Expr*, std::size_t> stages_;
  std::unordered_map<const Expr*, std::vector<std::size_t>> passes_;
  std::unordered_map<const Expr*, double> costs_;
  std::set<const Expr*> visited_;
};

/// The dtype in which a kept value lies in memory: halves are held as float anyway.
DType kept_dtype(DType dtype) {
  return dtype.is_float() && dtype != DType::float64 ? DType(DType::float32) : dtype;
}

std::int64_t kept_bytes(const RowPlan& plan) {
  std::int64_t bytes = 0;
  for (const Expr* e : plan.kept) bytes += kept_dtype(e->dtype).size_in_bytes();
  return bytes;
}

class RowEmitter {
 public:
  RowEmitter(FunctionBuilder& f, const Kernel& kernel, const Program& program)
      : f_(f),
        kernel_(kernel),
        axis_(kernel.axes.back()),
        arguments_(f, kernel, program),
        e_(f, arguments_, program),
        vectors_(plan_vectors(kernel, program, f.isa, axis_)),
        plan_(RowPlanner(kernel).plan()),
        length_(arguments_.dim(kernel.arena->extent(axis_))) {}

  void emit() {
    make_scratch();
    f_.loop(f_.argument(1), f_.argument(2), f_.i64(1), [&](llvm::Value* unit) {
      ExpressionEmitter::Scope scope(e_);
      split_unit(e_, kernel_, kernel_.axes.size() - 1, unit);
      for (std::size_t pass = 0; pass < plan_.reductions.size(); ++pass) reduce(pass);
      finish();
    });
  }

 private:
  void make_scratch() {
    if (plan_.kept.empty()) return;
    const Dim& length = kernel_.arena->extent(axis_);
    std::int64_t bytes = kept_bytes(plan_);
    llvm::Value* base = nullptr;
    llvm::Value* row = nullptr;  // elements of one kept row, a multiple of 64
    if (length.is_static() && (length.value() + 64) * bytes <= kStackBytes) {
      row = f_.i64((length.value() + 63) / 64 * 64);
      base = f_.stack_slot(f_.b.getInt8Ty(), (length.value() + 63) / 64 * 64 * bytes, 64);
    } else {
      row = f_.b.CreateAnd(f_.b.CreateAdd(length_, f_.i64(63)), f_.i64(-64));
      llvm::Value* stride = f_.b.CreateMul(row, f_.i64(bytes));
      base = f_.element(f_.b.getInt8Ty(), arguments_.scratch(),
                        f_.b.CreateMul(f_.argument(3), stride));
    }
    std::int64_t before = 0;
    for (const Expr* e : plan_.kept) {
      rows_[e] = f_.element(f_.b.getInt8Ty(), base, f_.b.CreateMul(row, f_.i64(before)));
      before += kept_dtype(e->dtype).size_in_bytes();
    }
  }

  void set_place(llvm::Value* i, int lanes, llvm::Value* mask) {
    e_.set_axis(axis_, i);
    e_.set_vector(axis_, lanes, mask);
  }

  /// Values that earlier passes kept, read back; those of this pass, computed and written.
  void use_kept(std::size_t pass, llvm::Value* i, int lanes) {
    for (const Expr* e : plan_.kept) {
      std::size_t made = plan_.kept_in_pass.at(e);
      if (made > pass) continue;
      DType dtype = kept_dtype(e->dtype);
      llvm::Type* one = f_.lower.memory_type(dtype, 1);
      llvm::Type* type = f_.lower.memory_type(dtype, lanes);
      llvm::Value* pointer = f_.element(one, rows_.at(e), i);
      llvm::Align align(static_cast<std::uint64_t>(dtype.size_in_bytes()));
      // Rows have room for a whole last vector, so no mask is needed here.
      if (made == pass) {
        llvm::Value* value = e_.vector(e);
        f_.b.CreateAlignedStore(f_.lower.to_memory(value, dtype), pointer, align);
      } else {
        llvm::Value* value =
            f_.lower.from_memory(f_.b.CreateAlignedLoad(type, pointer, align), dtype);
        lanes == 1 ? e_.bind(e, value) : e_.bind_vector(e, value);
      }
    }
  }

  static bool is_arg(const Expr* e) {
    return e->reduction == Reduction::argmax || e->reduction == Reduction::argmin;
  }

  Values initial(const std::vector<const Expr*>& reductions, int lanes) {
    Values values;
    for (const Expr* r : reductions) {
      values.push_back(e_.neutral(r->reduction, r->args[0]->dtype, lanes));
      if (is_arg(r)) values.push_back(f_.lower.integer_constant(DType::int64, -1, lanes));
    }
    return values;
  }

  Values step(const std::vector<const Expr*>& reductions, const Values& carried, llvm::Value* i,
              int lanes, llvm::Value* mask) {
    Values next;
    std::size_t k = 0;
    for (const Expr* r : reductions) {
      llvm::Value* x = e_.vector(r->args[0]);
      if (is_arg(r)) {
        llvm::Value* index = f_.lower.splat(i, lanes);
        if (lanes > 1) {
          std::vector<llvm::Constant*> numbers;
          for (int n = 0; n < lanes; ++n) numbers.push_back(f_.i64(n));
          index = f_.b.CreateAdd(index, llvm::ConstantVector::get(numbers));
        }
        ArgPair pair = combine_arg(f_, r->reduction, {carried[k], carried[k + 1]}, {x, index},
                                   r->args[0]->dtype);
        for (llvm::Value* value : {pair.value, pair.index}) {
          next.push_back(mask ? f_.b.CreateSelect(mask, value, carried[k]) : value);
          ++k;
        }
        continue;
      }
      llvm::Value* value = e_.combine(r->reduction, carried[k], x, r->args[0]->dtype);
      next.push_back(mask ? f_.b.CreateSelect(mask, value, carried[k]) : value);
      ++k;
    }
    return next;
  }

  /// One value a reduction, from vectors.
  Values fold(const std::vector<const Expr*>& reductions, const Values& carried) {
    Values folded;
    std::size_t k = 0;
    for (const Expr* r : reductions) {
      DType dtype = r->args[0]->dtype;
      if (!is_arg(r)) {
        folded.push_back(e_.across(r->reduction, carried[k++], dtype));
        continue;
      }
      ArgPair all{carried[k], carried[k + 1]};
      k += 2;
      for (int width = vectors_.lanes; width > 1; width /= 2) {
        std::vector<int> low, high;
        for (int n = 0; n < width / 2; ++n) {
          low.push_back(n);
          high.push_back(n + width / 2);
        }
        all = combine_arg(
            f_, r->reduction,
            {f_.b.CreateShuffleVector(all.value, low), f_.b.CreateShuffleVector(all.index, low)},
            {f_.b.CreateShuffleVector(all.value, high), f_.b.CreateShuffleVector(all.index, high)},
            dtype);
      }
      folded.push_back(f_.b.CreateExtractElement(all.value, std::uint64_t{0}));
      folded.push_back(f_.b.CreateExtractElement(all.index, std::uint64_t{0}));
    }
    return folded;
  }

  void reduce(std::size_t pass) {
    const std::vector<const Expr*>& reductions = plan_.reductions[pass];
    for (const Expr* r : reductions) e_.hoist(r->args[0], axis_);
    const int lanes = vectors_.lanes;
    auto at = [&](const Values& carried, llvm::Value* i, int width, llvm::Value* mask) {
      ExpressionEmitter::Scope scope(e_);
      set_place(i, width, mask);
      use_kept(pass, i, width);
      return step(reductions, carried, i, width, mask);
    };
    llvm::Value* rest = f_.i64(0);
    Values carried = initial(reductions, lanes);
    if (lanes > 1) {
      rest = f_.b.CreateAnd(length_, f_.i64(-lanes));
      carried = f_.loop(f_.i64(0), rest, f_.i64(lanes), carried,
                        [&](llvm::Value* i, const Values& c) { return at(c, i, lanes, nullptr); });
      if (vectors_.masked_tail)
        carried = f_.branch(
            f_.b.CreateICmpSLT(rest, length_),
            [&] {
              return at(carried, rest, lanes, lane_mask(f_, lanes, f_.b.CreateSub(length_, rest)));
            },
            [&] { return carried; });
      carried = fold(reductions, carried);
    }
    if (lanes == 1 || !vectors_.masked_tail)
      carried = f_.loop(rest, length_, f_.i64(1), carried,
                        [&](llvm::Value* i, const Values& c) { return at(c, i, 1, nullptr); });
    std::size_t k = 0;
    for (const Expr* r : reductions) {
      if (is_arg(r)) ++k;
      e_.bind(r, carried[k++]);
    }
  }

  void finish() {
    std::vector<const Store*> along, once;
    for (const Store& store : kernel_.stores)
      ((store.index.axes() & axis_bit(axis_)) != 0 ? along : once).push_back(&store);
    // All values before the stores: a kernel may write what it reads.
    std::vector<llvm::Value*> values;
    for (const Store* store : once) values.push_back(e_.scalar(store->value));
    if (!along.empty()) store_row(along);
    for (std::size_t n = 0; n < values.size(); ++n) e_.store_scalar(*once[n], values[n]);
  }

  void store_row(const std::vector<const Store*>& stores) {
    const std::size_t pass = plan_.reductions.size();
    for (const Store* store : stores) e_.hoist(store->value, axis_);
    auto at = [&](llvm::Value* i, int width, llvm::Value* mask) {
      ExpressionEmitter::Scope scope(e_);
      set_place(i, width, mask);
      use_kept(pass, i, width);
      std::vector<llvm::Value*> values;
      for (const Store* store : stores) values.push_back(e_.vector(store->value));
      for (std::size_t n = 0; n < values.size(); ++n) e_.store(*stores[n], values[n]);
    };
    const int lanes = vectors_.lanes;
    llvm::Value* rest = f_.i64(0);
    if (lanes > 1) {
      rest = f_.b.CreateAnd(length_, f_.i64(-lanes));
      f_.loop(f_.i64(0), rest, f_.i64(lanes), [&](llvm::Value* i) { at(i, lanes, nullptr); });
      if (vectors_.masked_tail) {
        f_.when(f_.b.CreateICmpSLT(rest, length_),
                [&] { at(rest, lanes, lane_mask(f_, lanes, f_.b.CreateSub(length_, rest))); });
        return;
      }
    }
    f_.loop(rest, length_, f_.i64(1), [&](llvm::Value* i) { at(i, 1, nullptr); });
  }

  FunctionBuilder& f_;
  const Kernel& kernel_;
  const int axis_;
  KernelArguments arguments_;
  ExpressionEmitter e_;
  VectorPlan vectors_;
  RowPlan plan_;
  llvm::Value* length_;
  std::unordered_map<const Expr*, llvm::Value*> rows_;
};

}  // namespace

void emit_rows(FunctionBuilder& f, const Kernel& kernel, const Program& program) {
  RowEmitter(f, kernel, program).emit();
}

std::int64_t row_scratch_bytes_per_element(const Kernel& kernel) {
  RowPlan plan = RowPlanner(kernel).plan();
  std::int64_t bytes = kept_bytes(plan);
  const Dim& length = kernel.arena->extent(kernel.axes.back());
  bool on_stack = length.is_static() && (length.value() + 64) * bytes <= kStackBytes;
  return on_stack ? 0 : bytes;
}

double cost_per_element(const Kernel& kernel) {
  double cost = 1;
  std::unordered_map<const Expr*, bool> seen;
  for (const Store& store : kernel.stores) {
    cost += 1.5;
    walk(store.value, seen, [&](const Expr* e) {
      double own = own_cost(e);
      // A loop inside is worth its length; what is not known counts as a moderate one.
      if (e->kind == Expr::Kind::reduce && e->axis != kernel.axes.back())
        own *= e->extent.is_static() ? static_cast<double>(e->extent.value()) : 64;
      cost += own;
    });
  }
  return cost;
}

}  // namespace kiln::compiler
