// From values to kernels. Two questions are answered here:
//  - which values lie in memory ("roots"): results of the graph, what matrix products read, results
//    of reductions and products, and values that several kernels would otherwise compute again;
//  - how a value that does not is computed at a given position: `Builder::at` walks from the op
//  down
//    to roots and turns moves into arithmetic on positions.
// Kernels come out one per root; merge.cpp then puts together those that share their loops.

#include <algorithm>
#include <bit>
#include <functional>
#include <set>
#include <utility>

#include "compiler/diagnostics.h"
#include "compiler/kernels/builder_state.h"
#include "compiler/kernels/constants.h"
#include "compiler/passes/passes.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::compiler {

std::int64_t ConstantPool::add(const ir::ConstantData& data) {
  std::string key(reinterpret_cast<const char*>(data.bytes.data()), data.bytes.size());
  auto [it, fresh] = offsets_.try_emplace(std::move(key), 0);
  if (fresh) {
    bytes_.resize((bytes_.size() + 63) / 64 * 64);
    it->second = static_cast<std::int64_t>(bytes_.size());
    bytes_.insert(bytes_.end(), data.bytes.begin(), data.bytes.end());
  }
  return it->second;
}

Program Builder::build() {
  const ir::Block& body = *program_.graph->body;
  std::int64_t inputs = 0;
  for (const auto& argument : body.arguments) {
    if (argument->type.is_chain()) continue;
    if (argument->type.is_opaque())
      throw RuntimeError(format(
          "Failed to compile the model. Input {} of graph '{}' is opaque: only custom kernels "
          "understand it, and this graph has none. Give the graph tensors or buffers.",
          argument->index, program_.graph->name));
    tensor_of_[argument.get()] =
        new_tensor(Tensor::Storage::input, argument->type.shaped(), inputs++);
    for (const Dim& dim : argument->type.shaped().shape) sizes_.insert(dim.to_string());
  }
  for (const std::string& symbol : program_.graph->parameters) known_symbols_.insert(symbol);
  find_users(body);
  find_roots(body);
  steps_ = &program_.run;
  for (const auto& op : body.ops) working_on(*op, [&] { build_op(*op); });
  return std::move(program_);
}

void Builder::note(const ir::Op& op) {
  if (kernel_ && std::find(kernel_->ops.begin(), kernel_->ops.end(), &op) == kernel_->ops.end())
    kernel_->ops.push_back(&op);
}

std::unique_ptr<Kernel> Builder::new_kernel(Kernel::Kind kind) {
  auto kernel = std::make_unique<Kernel>();
  kernel->kind = kind;
  kernel_ = kernel.get();
  return kernel;
}

Position Builder::add_axes(Kernel& kernel, const graph::Shape& shape) {
  Position position;
  for (const Dim& dim : shape) {
    kernel.axes.push_back(kernel.arena->new_axis(dim));
    position.push_back(kernel.arena->axis_index(kernel.axes.back()));
  }
  return position;
}

namespace {

/// Whether a position depends on nothing that only a call tells.
bool is_fixed(const Index& index) {
  return index.constant.is_static() &&
         std::all_of(index.terms.begin(), index.terms.end(), [](const Index::Term& term) {
           return term.coefficient.is_static() && term.atom->divisor.is_static() &&
                  is_fixed(term.atom->inner);
         });
}

}  // namespace

bool Builder::may_run_once(const std::vector<std::unique_ptr<Kernel>>& kernels) {
  // A region decides at run time whether it runs at all.
  bool alone = steps_ == &program_.run, any = false;
  for (const auto& kernel : kernels) {
    std::unordered_map<const Expr*, bool> seen;
    auto visit = [&](const Expr* e) {
      alone = alone && is_fixed(e->index) && e->extent.is_static();
      if (e->kind == Expr::Kind::reduce)
        alone = alone && kernel->arena->extent(e->axis).is_static();
      if (e->kind != Expr::Kind::load) return;
      any = true;
      alone = alone && is_constant(e->tensor);
    };
    if (kernel->score) walk(kernel->score, seen, visit);
    for (const MatrixOperand& operand : kernel->operands) {
      any = true;
      alone = alone && is_constant(operand.tensor) && is_fixed(operand.index);
    }
    for (int axis : {kernel->reduced_axis, kernel->key_axis})
      alone = alone && (axis < 0 || kernel->arena->extent(axis).is_static());
    for (int axis : kernel->axes) alone = alone && kernel->arena->extent(axis).is_static();
    for (const Window& window : kernel->windows)
      for (const Dim& dim : {window.taps, window.before, window.extent, window.step})
        alone = alone && dim.is_static();
    for (const Store& store : kernel->stores) {
      walk(store.value, seen, visit);
      walk_index(store.index, seen, visit);
      const Tensor& to = tensor(store.tensor);
      alone = alone && is_fixed(store.index) && to.storage == Tensor::Storage::temporary &&
              !to.many_writers;
    }
  }
  return alone && any;
}

void Builder::emit(std::unique_ptr<Kernel> kernel) {
  std::vector<std::unique_ptr<Kernel>> kernels;
  kernels.push_back(std::move(kernel));
  emit_together(std::move(kernels));
}

void Builder::emit_together(std::vector<std::unique_ptr<Kernel>> kernels) {
  kernel_ = nullptr;
  const bool once = may_run_once(kernels);
  for (auto& kernel : kernels) {
    if (once)
      for (const Store& store : kernel->stores) {
        Tensor& to = tensor(store.tensor);
        if (to.storage == Tensor::Storage::prepared) continue;
        to.storage = Tensor::Storage::prepared;
        to.number = program_.prepared_slots++;
      }
    Step step;
    step.kernel = std::move(kernel);
    (once ? program_.init : *steps_).push_back(std::move(step));
  }
}

void Builder::store_value(const ir::Value* value, int id, const ir::Op* by) {
  auto kernel = new_kernel(Kernel::Kind::loops);
  Position position = add_axes(*kernel, value->type.shaped().shape);
  const Expr* element = at(*kernel->arena, value, position);
  kernel->stores.push_back({id, linear(*kernel->arena, id, position), element});
  if (by) note(*by);
  emit(std::move(kernel));
}

int Builder::new_root(const ir::Value* value) {
  int id = new_tensor(Tensor::Storage::temporary, value->type.tensor());
  tensor(id).layout = layout_of(value);
  tensor(id).origin = value->producer;
  return id;
}

std::vector<int> Builder::layout_of(const ir::Value* value) {
  std::vector<int> layout(value->type.tensor().shape.size());
  for (std::size_t i = 0; i < layout.size(); ++i) layout[i] = static_cast<int>(i);
  const std::vector<std::int64_t>* common = nullptr;
  for (const ir::Op* user : users_[value]) {
    if (user->kind != OpKind::permute) return layout;
    const auto& dims = user->attribute<std::vector<std::int64_t>>("dims");
    if (common && *common != dims) return layout;
    common = &dims;
  }
  if (!common) return layout;
  if (is_turned_convolution(value)) return layout;
  for (std::size_t i = 0; i < layout.size(); ++i) layout[i] = static_cast<int>((*common)[i]);
  return layout;
}

void Builder::build_op(const ir::Op& op) {
  current_ = &op;
  check_extents(op);
  check_sizes(op);
  switch (op.kind) {
    case OpKind::output:
      for (std::size_t i = 0, n = 0; i < op.operands.size(); ++i) {
        if (!is_tensor(op.operand(i))) continue;
        int id = new_tensor(Tensor::Storage::output, op.operand(i)->type.tensor(),
                            static_cast<std::int64_t>(n++));
        tensor(id).origin = op.operand(i)->producer;
        store_value(op.operand(i), id);
      }
      return;
    case OpKind::buffer_store:
      store_value(op.operand(1), tensor_of_.at(op.operand(0)), &op);
      return;
    case OpKind::chain_create:
      return;
    case OpKind::buffer_create:
      tensor_of_[op.result()] = new_tensor(Tensor::Storage::temporary, op.result()->type.shaped());
      tensor(tensor_of_[op.result()]).many_writers = true;
      return;
    case OpKind::buffer_store_slice:
      build_store_slice(op);
      return;
    case OpKind::print:
      build_print(op);
      return;
    case OpKind::cond:
      build_cond(op);
      return;
    case OpKind::while_loop:
      build_while(op);
      return;
    default:
      break;
  }
  switch (op.kind) {
    case OpKind::top_k:
    case OpKind::bottom_k:
      return build_top_k(op);
    case OpKind::cumsum:
      return build_cumsum(op);
    case OpKind::nonzero:
      return build_nonzero(op);
    case OpKind::dequantize:
      return build_dequantize(op);
    case OpKind::qmatmul:
      return build_qmatmul(op);
    case OpKind::irfft:
      return build_irfft(op);
    case OpKind::roi_align:
      return build_roi_align(op);
    case OpKind::non_maximum_suppression:
      return build_suppression(op);
    case OpKind::repeat_interleave:
      build_repeats(op);
      break;
    default:
      break;
  }
  if ((op.kind == OpKind::gather || op.kind == OpKind::gather_nd) && !is_read_whole(op.result()))
    check_indices(op);
  for (const auto& result : op.results) {
    if (!is_tensor(result.get()) || !roots_.count(result.get())) continue;
    build_root(op, result.get());
    if (checks_numbers(op)) check_numbers(op, result.get());
  }
}

void Builder::build_root(const ir::Op& op, const ir::Value* value) {
  int id = new_root(value);
  if (is_reduction(op.kind)) {
    build_reduction(op, value, id);
  } else if (op.has_attribute(kAttention)) {
    build_attention(op, value, id);
  } else if (op.kind == OpKind::matmul) {
    build_matmul(op, value, id);
  } else if (op.kind == OpKind::conv2d || op.kind == OpKind::conv3d) {
    build_convolution(op, value, id);
  } else if (op.kind == OpKind::conv2d_transpose) {
    build_transposed_convolution(op, value, id);
  } else if (op.kind == OpKind::max_pool2d || op.kind == OpKind::avg_pool2d) {
    build_pool(op, value, id);
  } else if (op.kind == OpKind::concat) {
    build_concat(op, value, id);
  } else if (op.kind == OpKind::pad) {
    build_pad(op, value, id);
  } else if (is_scatter(op.kind)) {
    build_scatter(op, id);
  } else if (op.kind == OpKind::buffer_load) {
    auto kernel = new_kernel(Kernel::Kind::loops);
    note(op);
    Position position = add_axes(*kernel, value->type.tensor().shape);
    kernel->stores.push_back(
        {id, linear(*kernel->arena, id, position), at(*kernel->arena, op.operand(0), position)});
    emit(std::move(kernel));
  } else {
    store_value(value, id);
  }
  tensor_of_[value] = id;
}

void Builder::build_reduction(const ir::Op& op, const ir::Value* value, int id) {
  const graph::Shape& shape = op.operand(0)->type.tensor().shape;
  auto axis = static_cast<std::size_t>(op.attribute<std::int64_t>("axis"));
  bool last = std::all_of(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape.end(),
                          [](const Dim& dim) { return dim == Dim(1); });
  auto kernel =
      new_kernel(last && shape[axis] != Dim(1) ? Kernel::Kind::rows : Kernel::Kind::loops);
  note(op);
  Arena& arena = *kernel->arena;
  Position inner, outer;
  int reduced = -1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    int a = arena.new_axis(shape[i]);
    if (i == axis) reduced = a;
    // The axes after a reduced last one have one element and are left out.
    if ((i != axis && !(last && i > axis)) || (i == axis && last)) kernel->axes.push_back(a);
    // A reduced axis of one element is a position like any other.
    inner.push_back(arena.axis_index(a));
    outer.push_back(i == axis ? Index(0) : arena.axis_index(a));
  }
  kernel->reduced_axis = reduced;
  const Expr* x = at(arena, op.operand(0), inner);
  DType dtype = x->dtype;
  bool sums = op.kind == OpKind::reduce_sum || op.kind == OpKind::reduce_mean ||
              op.kind == OpKind::reduce_prod;
  if (sums && dtype.is_float() && dtype != DType::float64) x = arena.cast(x, DType::float32);
  Reduction reduction = Reduction::sum;
  switch (op.kind) {
    case OpKind::reduce_prod:
      reduction = Reduction::product;
      break;
    case OpKind::reduce_max:
      reduction = Reduction::max;
      break;
    case OpKind::reduce_min:
      reduction = Reduction::min;
      break;
    case OpKind::argmax:
      reduction = Reduction::argmax;
      break;
    case OpKind::argmin:
      reduction = Reduction::argmin;
      break;
    default:
      break;
  }
  DType result =
      op.kind == OpKind::argmax || op.kind == OpKind::argmin ? DType(DType::int64) : x->dtype;
  const Expr* reduced_value = arena.reduce(reduction, x, reduced, result);
  if (op.kind == OpKind::reduce_mean) {
    // The count of elements need not fit a narrow integer; the quotient does.
    DType wide = result.is_float()             ? result
                 : result.is_signed_integral() ? DType(DType::int64)
                                               : DType(DType::uint64);
    const Expr* count = arena.cast(arena.index(Index(shape[axis])), wide);
    reduced_value = arena.cast(reduced_value, wide);
    reduced_value = wide.is_float() ? arena.binary(OpKind::div, reduced_value, count, wide)
                                    : arena.truncating_div(reduced_value, count);
  }
  reduced_value = arena.cast(reduced_value, value->type.tensor().dtype);
  kernel->stores.push_back({id, linear(arena, id, outer), reduced_value});
  emit(std::move(kernel));
}

void Builder::build_concat(const ir::Op& op, const ir::Value* value, int id) {
  auto axis = static_cast<std::size_t>(op.attribute<std::int64_t>("axis"));
  Dim offset = 0;
  std::vector<std::unique_ptr<Kernel>> parts;
  for (const ir::Value* operand : op.operands) {
    auto kernel = new_kernel(Kernel::Kind::loops);
    note(op);
    Arena& arena = *kernel->arena;
    Position position = add_axes(*kernel, operand->type.tensor().shape);
    const Expr* element = at(arena, operand, position);
    position[axis] = arena.add(position[axis], Index(offset));
    kernel->stores.push_back({id, linear(arena, id, position), element});
    parts.push_back(std::move(kernel));
    offset = offset + operand->type.tensor().shape[axis];
  }
  emit_together(std::move(parts));
}

void Builder::build_pad(const ir::Op& op, const ir::Value* value, int id) {
  const auto& paddings = op.attribute<std::vector<std::int64_t>>("paddings");
  const auto& mode = op.attribute<std::string>("mode");
  const graph::Shape& from = op.operand(0)->type.tensor().shape;
  DType dtype = value->type.tensor().dtype;
  if (mode == "constant") {
    auto fill = new_kernel(Kernel::Kind::loops);
    note(op);
    Position everywhere = add_axes(*fill, value->type.tensor().shape);
    const Expr* filler = op.operands.size() > 1 ? at(*fill->arena, op.operand(1), {})
                         : dtype.is_float()     ? fill->arena->constant(dtype, 0)
                                                : fill->arena->integer(dtype, 0);
    fill->stores.push_back({id, linear(*fill->arena, id, everywhere), filler});
    std::vector<std::unique_ptr<Kernel>> parts;
    parts.push_back(std::move(fill));
    auto kernel = new_kernel(Kernel::Kind::loops);
    note(op);
    Arena& arena = *kernel->arena;
    Position position = add_axes(*kernel, from);
    const Expr* element = at(arena, op.operand(0), position);
    for (std::size_t i = 0; i < position.size(); ++i)
      position[i] = arena.add(position[i], Index(Dim(paddings[2 * i])));
    kernel->stores.push_back({id, linear(arena, id, position), element});
    parts.push_back(std::move(kernel));
    emit_together(std::move(parts));
    return;
  }
  auto kernel = new_kernel(Kernel::Kind::loops);
  note(op);
  Arena& arena = *kernel->arena;
  Position position = add_axes(*kernel, value->type.tensor().shape);
  Position inner;
  for (std::size_t i = 0; i < position.size(); ++i) {
    if (paddings[2 * i] == 0 && paddings[2 * i + 1] == 0) {
      inner.push_back(position[i]);
      continue;
    }
    auto number = [&](std::int64_t n) { return arena.integer(DType::int64, n); };
    auto integer = [&](OpKind kind, const Expr* x, const Expr* y) {
      return arena.binary(kind, x, y, DType::int64);
    };
    const Expr* last = arena.index(Index(from[i] - 1));
    const Expr* p = arena.index(arena.add(position[i], Index(Dim(-paddings[2 * i]))));
    if (mode == "edge") {
      p = integer(OpKind::min, integer(OpKind::max, p, number(0)), last);
    } else {
      // A triangle wave of period 2·(n − 1); n = 1 repeats its one element.
      const Expr* period = integer(OpKind::max, integer(OpKind::mul, last, number(2)), number(1));
      p = integer(OpKind::mod, p, period);
      p = integer(OpKind::min, p, integer(OpKind::sub, period, p));
      p = integer(OpKind::min, p, last);
    }
    inner.push_back(arena.value_index(p));
  }
  kernel->stores.push_back({id, linear(arena, id, position), at(arena, op.operand(0), inner)});
  emit(std::move(kernel));
}

Program build_program(const ir::Graph& graph, const Isa& isa, ConstantPool& constants,
                      bool nan_check) {
  return Builder(graph, isa, constants, nan_check).build();
}

}  // namespace kiln::compiler
