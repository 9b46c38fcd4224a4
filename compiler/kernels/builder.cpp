// From values to kernels. Two questions are answered here:
//  - which values lie in memory ("roots"): results of the graph, what matrix products read, results
//    of reductions and products, and values that several kernels would otherwise compute again;
//  - how a value that does not is computed at a given position: `Builder::at` walks from the op
//  down
//    to roots and turns moves into arithmetic on positions.
// Kernels come out one per root; merge.cpp then puts together those that share their loops.

#include "compiler/kernels/builder.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <set>
#include <utility>

#include "compiler/kernels/constants.h"
#include "compiler/passes/passes.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::compiler {

namespace ir = graph::ir;

namespace {

using Position = std::vector<Index>;

bool is_view(OpKind kind) {
  switch (kind) {
    case OpKind::reshape:
    case OpKind::rebind:
    case OpKind::broadcast_to:
    case OpKind::permute:
    case OpKind::squeeze:
    case OpKind::unsqueeze:
    case OpKind::slice:
    case OpKind::transfer_to:
      return true;
    default:
      return false;
  }
}

bool is_reduction(OpKind kind) {
  switch (kind) {
    case OpKind::reduce_sum:
    case OpKind::reduce_mean:
    case OpKind::reduce_max:
    case OpKind::reduce_min:
    case OpKind::reduce_prod:
    case OpKind::argmax:
    case OpKind::argmin:
      return true;
    default:
      return false;
  }
}

/// Ops whose result is always stored.
bool is_anchor(OpKind kind) {
  return is_reduction(kind) || kind == OpKind::matmul || kind == OpKind::concat ||
         kind == OpKind::pad || kind == OpKind::buffer_load;
}

bool is_leaf(OpKind kind) {
  return kind == OpKind::constant || kind == OpKind::constant_external ||
         kind == OpKind::shape_to_tensor || kind == OpKind::range;
}

bool is_tensor(const ir::Value* value) { return value->type.is_tensor(); }

}  // namespace

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

namespace {

class Builder {
 public:
  Builder(const ir::Graph& graph, const Isa& isa, ConstantPool& constants)
      : isa_(isa), constants_(constants) {
    program_.graph = &graph;
  }

  Program build() {
    const ir::Block& body = *program_.graph->body;
    for (std::size_t i = 0; i < body.arguments.size(); ++i) {
      const ir::Value* argument = body.arguments[i].get();
      if (argument->type.is_chain() || argument->type.is_opaque()) continue;
      tensor_of_[argument] =
          new_tensor(Tensor::Storage::input, argument->type.shaped(), static_cast<std::int64_t>(i));
    }
    for (const std::string& symbol : program_.graph->parameters) known_symbols_.insert(symbol);
    find_users(body);
    find_roots(body);
    steps_ = &program_.run;
    for (const auto& op : body.ops) build_op(*op);
    return std::move(program_);
  }

 private:
  // --- Which values are stored. ---

  void find_users(const ir::Block& block) {
    for (const auto& op : block.ops) {
      for (const ir::Value* operand : op->operands) {
        users_[operand].push_back(op.get());
        // What a region reads from outside lies in memory.
        if (operand->block != &block) require(operand);
      }
      for (const auto& region : op->regions) find_users(*region);
    }
  }

  void find_roots(const ir::Block& body) {
    // Users come before their operands, so whether a user is stored is known.
    for (auto it = body.ops.rbegin(); it != body.ops.rend(); ++it) {
      const ir::Op& op = **it;
      for (const auto& region : op.regions) find_roots(*region);
      for (const auto& result : op.results) decide(result.get());
      require_operands(op);
    }
  }

  void decide(const ir::Value* value) {
    if (!is_tensor(value)) return;
    OpKind kind = value->producer->kind;
    int reads = 0;
    for (const ir::Op* user : users_[value]) reads += reads_through(*user);
    reads_[value] = reads;
    if (reads == 0 && users_[value].empty()) return;
    if (is_leaf(kind) || is_view(kind)) return;
    if (value->producer->has_attribute(kInsideAttention)) return;
    bool one_element = value->type.tensor().shape.num_elements() == Dim(1);
    if (is_anchor(kind) || (reads > 1 && !one_element)) roots_.insert(value);
  }

  /// How many kernels read an operand of `user`.
  int reads_through(const ir::Op& user) {
    if (!user.regions.empty() || user.results.empty() || !is_tensor(user.result())) return 1;
    return roots_.count(user.result()) ? 1 : reads_[user.result()];
  }

  /// The value whose memory a chain of views shows.
  static const ir::Value* base_of(const ir::Value* value) {
    while (value->producer && is_view(value->producer->kind)) value = value->producer->operand(0);
    return value;
  }

  /// The operand of a slice that is data, not a bound.
  static const ir::Value* sliced_operand(const ir::Op& op) {
    if (op.kind == OpKind::slice) return op.operand(0);
    if (op.kind == OpKind::buffer_store_slice) return op.operand(1);
    return nullptr;
  }

  /// Stores the very value, for steps that read it where it lies.
  void require_itself(const ir::Value* value) {
    if (value->producer) roots_.insert(value);
  }

  void require(const ir::Value* value) {
    const ir::Value* base = base_of(value);
    if (base->producer && !is_leaf(base->producer->kind)) roots_.insert(base);
  }

  void require_operands(const ir::Op& op) {
    switch (op.kind) {
      case OpKind::matmul:
        if (op.has_attribute(kInsideAttention)) {
          require(op.operand(0));
          require(op.operand(1));
        } else if (op.has_attribute(kAttention)) {
          require(op.operand(1));
        } else {
          require(op.operand(0));
        }
        break;
      case OpKind::gather:
      case OpKind::gather_nd:
        require(op.operand(0));
        break;
      case OpKind::cond:
      case OpKind::while_loop:
      case OpKind::condition:
      case OpKind::print:
      case OpKind::scatter:
        for (const ir::Value* operand : op.operands)
          if (is_tensor(operand)) require_itself(operand);
        break;
      case OpKind::slice:
      case OpKind::buffer_store_slice:
      case OpKind::range:
        for (const ir::Value* operand : op.operands)
          if (is_tensor(operand) && operand != sliced_operand(op)) require_itself(operand);
        break;
      default:
        break;
    }
    if (op.results.empty() || !is_tensor(op.result()) || is_view(op.kind) ||
        op.kind == OpKind::matmul)
      return;
    // Work that a broadcast would repeat is done once.
    const graph::Shape& shape = op.result()->type.tensor().shape;
    for (const ir::Value* operand : op.operands) {
      if (!is_tensor(operand)) continue;
      const ir::Value* base = base_of(operand);
      if (!base->producer || is_leaf(base->producer->kind)) continue;
      const graph::Shape& from = operand->type.tensor().shape;
      if (from.num_elements() == Dim(1)) continue;
      bool elementwise = !is_anchor(op.kind) && op.kind != OpKind::gather;
      if (elementwise && from != shape) roots_.insert(base);
    }
  }

  // --- Tensors. ---

  int new_tensor(Tensor::Storage storage, const graph::ShapedType& type, std::int64_t number = 0) {
    Tensor tensor;
    tensor.storage = storage;
    tensor.dtype = type.dtype;
    tensor.shape = type.shape;
    tensor.layout.resize(type.shape.size());
    for (std::size_t i = 0; i < tensor.layout.size(); ++i) tensor.layout[i] = static_cast<int>(i);
    tensor.number = number;
    for (const std::string& symbol : type.shape.parameters()) {
      const auto& parameters = program_.graph->parameters;
      tensor.sized_by_data = tensor.sized_by_data || std::find(parameters.begin(), parameters.end(),
                                                               symbol) == parameters.end();
    }
    program_.tensors.push_back(std::move(tensor));
    return static_cast<int>(program_.tensors.size()) - 1;
  }

  Tensor& tensor(int id) { return program_.tensors[static_cast<std::size_t>(id)]; }

  Index linear(Arena& arena, int id, const Position& at) {
    std::vector<Dim> strides = tensor(id).strides();
    Index index(0);
    for (std::size_t i = 0; i < at.size(); ++i)
      index = arena.add(index, arena.scale(at[i], strides[i]));
    return index;
  }

  bool is_constant(int id) {
    Tensor::Storage storage = tensor(id).storage;
    return storage == Tensor::Storage::weight || storage == Tensor::Storage::constant ||
           storage == Tensor::Storage::prepared;
  }

  // --- The value of an element. ---

  /// The element of `value` at `at`, read from memory when it lies there.
  const Expr* at(Arena& arena, const ir::Value* value, const Position& position) {
    if (auto it = tensor_of_.find(value); it != tensor_of_.end())
      return arena.load(value->type.shaped().dtype, it->second,
                        linear(arena, it->second, position));
    return computed(arena, value, position);
  }

  /// The positions at which an elementwise op reads an operand.
  static Position broadcast(const ir::Value* operand, const Position& position) {
    const graph::Shape& shape = operand->type.tensor().shape;
    Position result;
    for (std::size_t i = 0; i < shape.size(); ++i)
      result.push_back(shape[i] == Dim(1) ? Index(0)
                                          : position[position.size() - shape.size() + i]);
    return result;
  }

  const Expr* operand_at(Arena& arena, const ir::Op& op, std::size_t i, const Position& position) {
    return at(arena, op.operand(i), broadcast(op.operand(i), position));
  }

  /// The element of a value that is not in memory, from its op.
  const Expr* computed(Arena& arena, const ir::Value* value, const Position& position) {
    const ir::Op& op = *value->producer;
    note(op);
    DType dtype = value->type.tensor().dtype;
    switch (op.kind) {
      case OpKind::constant:
        return constant(arena, value, position);
      case OpKind::matmul: {
        // The scores of an attention, in terms of its first product.
        KILN_CHECK(op.has_attribute(kInsideAttention), "a product is always stored");
        AxisSet axes = 0;
        for (const Index& index : position) axes |= index.axes();
        return arena.accumulator(dtype, axes);
      }
      case OpKind::constant_external:
        return at_tensor(arena, value, weight(op), position);
      case OpKind::shape_to_tensor: {
        const auto& shape = op.attribute<graph::Shape>("shape");
        if (shape.empty()) return arena.integer(DType::int64, 0);
        const Expr* result = arena.index(Index(shape[0]));
        const Expr* here = arena.index(position[0]);
        for (std::size_t i = 1; i < shape.size(); ++i)
          result = arena.select(
              arena.binary(OpKind::equal, here, arena.integer(DType::int64, static_cast<int>(i)),
                           DType::bool_),
              arena.index(Index(shape[i])), result);
        return result;
      }
      case OpKind::range:
        return range(arena, op, dtype, position);
      case OpKind::where:
        return arena.select(operand_at(arena, op, 0, position), operand_at(arena, op, 1, position),
                            operand_at(arena, op, 2, position));
      case OpKind::cast:
        return arena.cast(operand_at(arena, op, 0, position), dtype);
      case OpKind::transfer_to:
      case OpKind::rebind:
        return at(arena, op.operand(0), position);
      case OpKind::broadcast_to:
        return at(arena, op.operand(0), broadcast(op.operand(0), position));
      case OpKind::permute: {
        const auto& dims = op.attribute<std::vector<std::int64_t>>("dims");
        Position inner(position.size());
        for (std::size_t i = 0; i < dims.size(); ++i)
          inner[static_cast<std::size_t>(dims[i])] = position[i];
        return at(arena, op.operand(0), inner);
      }
      case OpKind::squeeze: {
        Position inner = position;
        inner.insert(inner.begin() + op.attribute<std::int64_t>("axis"), Index(0));
        return at(arena, op.operand(0), inner);
      }
      case OpKind::unsqueeze: {
        Position inner = position;
        inner.erase(inner.begin() + op.attribute<std::int64_t>("axis"));
        return at(arena, op.operand(0), inner);
      }
      case OpKind::reshape:
        return at(arena, op.operand(0),
                  reshape(arena, op.operand(0)->type.tensor().shape, value->type.tensor().shape,
                          position));
      case OpKind::slice:
        return at(arena, op.operand(0), sliced(arena, op, position));
      case OpKind::gather_nd: {
        auto batch = static_cast<std::size_t>(op.attribute<std::int64_t>("batch_dims"));
        const graph::Shape& from = op.operand(0)->type.tensor().shape;
        const graph::Shape& indices = op.operand(1)->type.tensor().shape;
        auto depth = static_cast<std::size_t>(indices.back().value());
        Position where(position.begin(),
                       position.begin() + static_cast<std::ptrdiff_t>(indices.size()) - 1);
        Position inner(position.begin(), position.begin() + static_cast<std::ptrdiff_t>(batch));
        for (std::size_t k = 0; k < depth; ++k) {
          Position component = where;
          component.push_back(Index(Dim(static_cast<std::int64_t>(k))));
          inner.push_back(arena.value_index(arena.checked_index(at(arena, op.operand(1), component),
                                                                from[batch + k], &op,
                                                                static_cast<int>(batch + k))));
        }
        inner.insert(inner.end(),
                     position.begin() + static_cast<std::ptrdiff_t>(indices.size()) - 1,
                     position.end());
        return at(arena, op.operand(0), inner);
      }
      case OpKind::tile: {
        Position inner;
        const graph::Shape& shape = op.operand(0)->type.tensor().shape;
        for (std::size_t i = 0; i < position.size(); ++i)
          inner.push_back(shape[i] == Dim(1) ? Index(0) : arena.remainder(position[i], shape[i]));
        return at(arena, op.operand(0), inner);
      }
      case OpKind::gather: {
        auto axis = static_cast<std::size_t>(op.attribute<std::int64_t>("axis"));
        std::size_t rank = op.operand(1)->type.tensor().shape.size();
        auto first = position.begin() + static_cast<std::ptrdiff_t>(axis);
        Position where(first, first + static_cast<std::ptrdiff_t>(rank));
        const Expr* index = arena.checked_index(at(arena, op.operand(1), where),
                                                op.operand(0)->type.tensor().shape[axis], &op,
                                                static_cast<int>(axis));
        Position inner(position.begin(), first);
        inner.push_back(arena.value_index(index));
        inner.insert(inner.end(), first + static_cast<std::ptrdiff_t>(rank), position.end());
        return at(arena, op.operand(0), inner);
      }
      default:
        break;
    }
    if (op.operands.size() == 2)
      return arena.binary(op.kind, operand_at(arena, op, 0, position),
                          operand_at(arena, op, 1, position), dtype);
    KILN_CHECK(op.operands.size() == 1,
               format("op '{}' has no place in a kernel", graph::to_string(op.kind)));
    std::string text;
    if (op.has_attribute("approximate")) text = op.attribute<std::string>("approximate");
    return arena.unary(op.kind, operand_at(arena, op, 0, position), dtype, text);
  }

  const Expr* at_tensor(Arena& arena, const ir::Value* value, int id, const Position& position) {
    tensor_of_[value] = id;
    return arena.load(tensor(id).dtype, id, linear(arena, id, position));
  }

  const Expr* constant(Arena& arena, const ir::Value* value, const Position& position) {
    const auto& data =
        *value->producer->attribute<std::shared_ptr<const ir::ConstantData>>("value");
    DType dtype = value->type.tensor().dtype;
    if (auto bits = uniform_value(data, dtype)) {
      if (dtype.is_float()) return arena.constant(dtype, std::bit_cast<double>(*bits));
      return arena.integer(dtype, *bits);
    }
    int id = new_tensor(Tensor::Storage::constant, value->type.tensor(), constants_.add(data));
    return at_tensor(arena, value, id, position);
  }

  int weight(const ir::Op& op) {
    const auto& name = op.attribute<std::string>("name");
    auto it = std::find(program_.weights.begin(), program_.weights.end(), name);
    auto number = it - program_.weights.begin();
    if (it == program_.weights.end()) program_.weights.push_back(name);
    return new_tensor(Tensor::Storage::weight, op.result()->type.tensor(), number);
  }

  const Expr* range(Arena& arena, const ir::Op& op, DType dtype, const Position& position) {
    auto bound = [&](std::size_t operand, std::string_view name) -> const Expr* {
      if (!op.operands.empty())
        return arena.cast(at(arena, op.operand(operand),
                             Position(op.operand(operand)->type.tensor().shape.size(), Index(0))),
                          dtype);
      const ir::Attribute& value = op.attributes.find(name)->second;
      if (const auto* number = std::get_if<double>(&value)) return arena.constant(dtype, *number);
      if (const auto* number = std::get_if<std::int64_t>(&value))
        return arena.integer(dtype, *number);
      return arena.cast(arena.index(Index(std::get<Dim>(value))), dtype);
    };
    const Expr* step = arena.binary(OpKind::mul, arena.cast(arena.index(position[0]), dtype),
                                    bound(2, "step"), dtype);
    return arena.binary(OpKind::add, bound(0, "start"), step, dtype);
  }

  /// Where a slice reads, or a sliced store writes.
  Position sliced(Arena& arena, const ir::Op& op, const Position& position) {
    const auto& starts =
        bounds_.count(&op) ? bounds_.at(&op).starts : op.attribute<graph::Shape>("starts");
    const auto& steps = op.attribute<std::vector<std::int64_t>>("steps");
    Position inner;
    for (std::size_t i = 0; i < position.size(); ++i)
      inner.push_back(arena.add(arena.scale(position[i], Dim(steps[i])), Index(starts[i])));
    return inner;
  }

  /// Positions in `from` of the elements of its reshape `to`: axes are matched in groups of equal
  /// products, so that only what was really regrouped becomes division.
  static Position reshape(Arena& arena, const graph::Shape& from, const graph::Shape& to,
                          const Position& position) {
    Position result(from.size());
    std::size_t i = 0, j = 0;
    while (i < from.size() || j < to.size()) {
      std::size_t i_end = i, j_end = j;
      Dim a = 1, c = 1;
      bool found = false;
      // The smallest group that starts here and has equal products on both sides.
      for (std::size_t total = 1; !found && total <= (from.size() - i) + (to.size() - j); ++total)
        for (std::size_t n = 0; n <= total && !found; ++n) {
          std::size_t m = total - n;
          if (n > from.size() - i || m > to.size() - j) continue;
          a = product(from, i, i + n);
          c = product(to, j, j + m);
          if (a == c) {
            i_end = i + n;
            j_end = j + m;
            found = true;
          }
        }
      if (!found) {
        i_end = from.size();
        j_end = to.size();
      }
      Index flat(0);
      for (std::size_t k = j; k < j_end; ++k)
        flat = arena.add(arena.scale(flat, to[k]), position[k]);
      for (std::size_t k = i_end; k > i; --k) {
        bool outermost = k - 1 == i;
        result[k - 1] = from[k - 1] == Dim(1) ? Index(0)
                        : outermost           ? flat
                                              : arena.remainder(flat, from[k - 1]);
        if (!outermost) flat = arena.quotient(flat, from[k - 1]);
      }
      i = i_end;
      j = j_end;
    }
    return result;
  }

  static Dim product(const graph::Shape& shape, std::size_t begin, std::size_t end) {
    Dim result = 1;
    for (std::size_t k = begin; k < end; ++k) result = result * shape[k];
    return result;
  }

  // --- Kernels. ---

  void note(const ir::Op& op) {
    if (kernel_ && std::find(kernel_->ops.begin(), kernel_->ops.end(), &op) == kernel_->ops.end())
      kernel_->ops.push_back(&op);
  }

  std::unique_ptr<Kernel> new_kernel(Kernel::Kind kind) {
    auto kernel = std::make_unique<Kernel>();
    kernel->kind = kind;
    kernel_ = kernel.get();
    return kernel;
  }

  /// Axes for every dim of `shape`, appended to the kernel, and the position they stand for.
  static Position add_axes(Kernel& kernel, const graph::Shape& shape) {
    Position position;
    for (const Dim& dim : shape) {
      kernel.axes.push_back(kernel.arena->new_axis(dim));
      position.push_back(kernel.arena->axis_index(kernel.axes.back()));
    }
    return position;
  }

  /// Whether a kernel reads nothing but weights and constants, so that it can run once.
  bool depends_on_weights_alone(const Kernel& kernel) {
    bool alone = true, any = false;
    std::unordered_map<const Expr*, bool> seen;
    auto visit = [&](const Expr* e) {
      if (e->kind != Expr::Kind::load) return;
      any = true;
      alone = alone && is_constant(e->tensor);
    };
    for (const Store& store : kernel.stores) walk(store.value, seen, visit);
    if (kernel.score) walk(kernel.score, seen, visit);
    if (!kernel.operands.empty()) {
      any = true;
      for (const MatrixOperand& operand : kernel.operands)
        alone = alone && is_constant(operand.tensor);
    }
    for (int axis : kernel.axes) alone = alone && kernel.arena->extent(axis).is_static();
    // A region decides at run time whether it runs at all.
    return alone && any && steps_ == &program_.run;
  }

  void emit(std::unique_ptr<Kernel> kernel) {
    kernel_ = nullptr;
    bool once = depends_on_weights_alone(*kernel);
    for (const Store& store : kernel->stores)
      once = once && (tensor(store.tensor).storage == Tensor::Storage::temporary ||
                      tensor(store.tensor).storage == Tensor::Storage::prepared);
    if (once)
      for (const Store& store : kernel->stores) {
        if (tensor(store.tensor).storage == Tensor::Storage::prepared) continue;
        tensor(store.tensor).storage = Tensor::Storage::prepared;
        tensor(store.tensor).number = program_.prepared_slots++;
      }
    Step step;
    step.kernel = std::move(kernel);
    (once ? program_.init : *steps_).push_back(std::move(step));
  }

  /// A kernel that stores `value` (computed by its op, or read where it lies) in tensor `id`.
  void store_value(const ir::Value* value, int id) {
    auto kernel = new_kernel(Kernel::Kind::loops);
    Position position = add_axes(*kernel, value->type.shaped().shape);
    const Expr* element = at(*kernel->arena, value, position);
    kernel->stores.push_back({id, linear(*kernel->arena, id, position), element});
    emit(std::move(kernel));
  }

  int new_root(const ir::Value* value) {
    int id = new_tensor(Tensor::Storage::temporary, value->type.tensor());
    tensor(id).layout = layout_of(value);
    return id;
  }

  /// A value that is only ever read permuted is stored permuted.
  std::vector<int> layout_of(const ir::Value* value) {
    std::vector<int> layout(value->type.tensor().shape.size());
    for (std::size_t i = 0; i < layout.size(); ++i) layout[i] = static_cast<int>(i);
    const std::vector<std::int64_t>* common = nullptr;
    for (const ir::Op* user : users_[value]) {
      if (user->kind != OpKind::permute) return layout;
      const auto& dims = user->attribute<std::vector<std::int64_t>>("dims");
      if (common && *common != dims) return layout;
      common = &dims;
    }
    if (common)
      for (std::size_t i = 0; i < layout.size(); ++i) layout[i] = static_cast<int>((*common)[i]);
    return layout;
  }

  void build_op(const ir::Op& op) {
    check_extents(op);
    switch (op.kind) {
      case OpKind::output:
        for (std::size_t i = 0, n = 0; i < op.operands.size(); ++i) {
          if (!is_tensor(op.operand(i))) continue;
          int id = new_tensor(Tensor::Storage::output, op.operand(i)->type.tensor(),
                              static_cast<std::int64_t>(n++));
          store_value(op.operand(i), id);
        }
        return;
      case OpKind::buffer_store: {
        store_value(op.operand(1), tensor_of_.at(op.operand(0)));
        return;
      }
      case OpKind::chain_create:
        return;
      case OpKind::buffer_create:
        tensor_of_[op.result()] =
            new_tensor(Tensor::Storage::temporary, op.result()->type.shaped());
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
    for (const auto& result : op.results) {
      if (!is_tensor(result.get()) || !roots_.count(result.get())) continue;
      build_root(op, result.get());
    }
  }

  void build_root(const ir::Op& op, const ir::Value* value) {
    int id = new_root(value);
    if (is_reduction(op.kind)) {
      build_reduction(op, value, id);
    } else if (op.has_attribute(kAttention)) {
      build_attention(op, value, id);
    } else if (op.kind == OpKind::matmul) {
      build_matmul(op, value, id);
    } else if (op.kind == OpKind::concat) {
      build_concat(op, value, id);
    } else if (op.kind == OpKind::pad) {
      build_pad(op, value, id);
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

  void build_reduction(const ir::Op& op, const ir::Value* value, int id) {
    const graph::Shape& shape = op.operand(0)->type.tensor().shape;
    auto axis = static_cast<std::size_t>(op.attribute<std::int64_t>("axis"));
    bool last = std::all_of(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape.end(),
                            [](const Dim& dim) { return dim == Dim(1); });
    auto kernel =
        new_kernel(last && shape[axis] != Dim(1) ? Kernel::Kind::rows : Kernel::Kind::loops);
    note(op);
    if (op.kind != OpKind::reduce_sum && op.kind != OpKind::reduce_prod &&
        op.kind != OpKind::reduce_mean && !shape[axis].is_static() &&
        !op.has_attribute(kExpandedFrom)) {
      check(op, shape[axis], Check::Relation::at_least, 1,
            format("{}: the reduced axis {} is empty", graph::to_string(op.kind), axis), {});
    }
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
      const Expr* count = arena.cast(arena.index(Index(shape[axis])), result);
      reduced_value = result.is_float() ? arena.binary(OpKind::div, reduced_value, count, result)
                                        : arena.truncating_div(reduced_value, count);
    }
    reduced_value = arena.cast(reduced_value, value->type.tensor().dtype);
    kernel->stores.push_back({id, linear(arena, id, outer), reduced_value});
    emit(std::move(kernel));
  }

  void build_concat(const ir::Op& op, const ir::Value* value, int id) {
    auto axis = static_cast<std::size_t>(op.attribute<std::int64_t>("axis"));
    Dim offset = 0;
    for (const ir::Value* operand : op.operands) {
      auto kernel = new_kernel(Kernel::Kind::loops);
      note(op);
      Arena& arena = *kernel->arena;
      Position position = add_axes(*kernel, operand->type.tensor().shape);
      const Expr* element = at(arena, operand, position);
      position[axis] = arena.add(position[axis], Index(offset));
      kernel->stores.push_back({id, linear(arena, id, position), element});
      emit(std::move(kernel));
      offset = offset + operand->type.tensor().shape[axis];
    }
  }

  void build_pad(const ir::Op& op, const ir::Value* value, int id) {
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
      emit(std::move(fill));
      auto kernel = new_kernel(Kernel::Kind::loops);
      note(op);
      Arena& arena = *kernel->arena;
      Position position = add_axes(*kernel, from);
      const Expr* element = at(arena, op.operand(0), position);
      for (std::size_t i = 0; i < position.size(); ++i)
        position[i] = arena.add(position[i], Index(Dim(paddings[2 * i])));
      kernel->stores.push_back({id, linear(arena, id, position), element});
      emit(std::move(kernel));
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

  // --- Matrix products. ---

  /// Where a value lies, seen as a matrix with unit steps along its last axis; nullopt otherwise.
  std::optional<MatrixOperand> as_matrix(Arena& arena, const ir::Value* value,
                                         const Position& position, int unit_axis) {
    const Expr* element = at(arena, value, position);
    if (element->kind != Expr::Kind::load || !element->index.is_affine()) return std::nullopt;
    if (element->index.coefficient(unit_axis) != Dim(1) && arena.extent(unit_axis) != Dim(1))
      return std::nullopt;
    return MatrixOperand{element->tensor, element->index};
  }

  void build_matmul(const ir::Op& op, const ir::Value* value, int id) {
    const ir::Value* lhs = op.operand(0);
    const ir::Value* rhs = op.operand(1);
    const graph::Shape& a = lhs->type.tensor().shape;
    const graph::Shape& shape = value->type.tensor().shape;
    DType dtype = value->type.tensor().dtype;
    const int packed = pack(rhs);

    auto make = [&]() {
      auto kernel = new_kernel(Kernel::Kind::matmul);
      note(op);
      Arena& arena = *kernel->arena;
      Position position = add_axes(*kernel, shape);
      kernel->reduced_axis = arena.new_axis(a.back());
      kernel->product_dtype = dtype;
      return std::pair(std::move(kernel), position);
    };
    auto lhs_position = [&](Kernel& kernel, const Position& position) {
      Position at = position;
      at.back() = kernel.arena->axis_index(kernel.reduced_axis);
      return broadcast(lhs, at, a);
    };
    auto [kernel, position] = make();
    auto operand =
        as_matrix(*kernel->arena, lhs, lhs_position(*kernel, position), kernel->reduced_axis);
    if (!operand) {
      int copy = new_tensor(Tensor::Storage::temporary, lhs->type.tensor());
      store_value(lhs, copy);
      tensor_of_[lhs] = copy;
      std::tie(kernel, position) = make();
      operand =
          as_matrix(*kernel->arena, lhs, lhs_position(*kernel, position), kernel->reduced_axis);
    }
    Arena& arena = *kernel->arena;
    kernel->operands.push_back(*operand);
    // The panels of one matrix of the packed operand follow one another.
    const graph::Shape& c = rhs->type.tensor().shape;
    Index batch(0);
    for (std::size_t i = 0; i + 2 < c.size(); ++i) {
      Index here = c[i] == Dim(1) ? Index(0) : position[shape.size() - c.size() + i];
      batch = arena.add(arena.scale(batch, c[i]), here);
    }
    kernel->operands.push_back({packed, arena.scale(batch, panel_elements(c, dtype))});
    AxisSet all = 0;
    for (int axis : kernel->axes) all |= axis_bit(axis);
    kernel->stores.push_back({id, linear(arena, id, position), arena.accumulator(dtype, all)});
    emit(std::move(kernel));
  }

  static Position broadcast(const ir::Value*, const Position& position, const graph::Shape& shape) {
    Position result;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      std::size_t from = position.size() - shape.size() + i;
      result.push_back(shape[i] == Dim(1) && i + 1 < shape.size() ? Index(0) : position[from]);
    }
    return result;
  }

  /// `value` as an operand with unit steps along `unit`; copied first when it does not lie so.
  MatrixOperand matrix_operand(Arena& arena, const ir::Value* value, const Position& position,
                               int unit, std::size_t unit_position) {
    if (auto operand = as_matrix(arena, value, position, unit)) return *operand;
    Kernel* current = kernel_;
    int copy = new_tensor(Tensor::Storage::temporary, value->type.tensor());
    // The unit axis lies last in memory.
    std::vector<int>& layout = tensor(copy).layout;
    layout.erase(layout.begin() + static_cast<std::ptrdiff_t>(unit_position));
    layout.push_back(static_cast<int>(unit_position));
    store_value(value, copy);
    kernel_ = current;
    return {copy, linear(arena, copy, position)};
  }

  void build_attention(const ir::Op& op, const ir::Value* value, int id) {
    const ir::Op& softmax = *op.operand(0)->producer;
    const ir::Op* inner = nullptr;
    auto find = [&](const auto& self, const ir::Value* v) -> void {
      if (!v->producer || inner) return;
      if (v->producer->has_attribute(kInsideAttention) && v->producer->kind == OpKind::matmul) {
        inner = v->producer;
        return;
      }
      for (const ir::Value* operand : v->producer->operands)
        if (is_tensor(operand) && operand->type.tensor().shape == v->type.tensor().shape)
          self(self, operand);
    };
    find(find, softmax.operand(0));
    KILN_CHECK(inner, "an attention has no first product");
    auto kernel = new_kernel(Kernel::Kind::attention);
    note(*inner);
    note(softmax);
    note(op);
    Arena& arena = *kernel->arena;
    Position position = add_axes(*kernel, value->type.tensor().shape);
    const ir::Value *query = inner->operand(0), *key = inner->operand(1), *v = op.operand(1);
    kernel->reduced_axis = arena.new_axis(query->type.tensor().shape.back());
    kernel->key_axis = arena.new_axis(softmax.operand(0)->type.tensor().shape.back());
    kernel->product_dtype = DType::float32;
    Index depth = arena.axis_index(kernel->reduced_axis), keys = arena.axis_index(kernel->key_axis);
    auto with = [&](Index second_last, Index last) {
      Position p = position;
      p[p.size() - 2] = std::move(second_last);
      p.back() = std::move(last);
      return p;
    };
    auto operand = [&](const ir::Value* operand, const Position& p, int unit, bool transposed) {
      const graph::Shape& shape = operand->type.tensor().shape;
      kernel->operands.push_back(matrix_operand(arena, operand, broadcast(operand, p, shape), unit,
                                                shape.size() - (transposed ? 2 : 1)));
    };
    operand(query, with(position[position.size() - 2], depth), kernel->reduced_axis, false);
    operand(key, with(depth, keys), kernel->reduced_axis, true);
    operand(v, with(keys, position.back()), kernel->axes.back(), false);
    kernel->score = at(arena, softmax.operand(0), with(position[position.size() - 2], keys));
    AxisSet all = 0;
    for (int axis : kernel->axes) all |= axis_bit(axis);
    kernel->stores.push_back(
        {id, linear(arena, id, position), arena.accumulator(DType::float32, all)});
    emit(std::move(kernel));
  }

  int panel_width(DType dtype) const {
    return isa_.matmul_vectors * isa_.lanes(dtype.size_in_bytes());
  }

  Dim panel_elements(const graph::Shape& rhs, DType dtype) const {
    int width = panel_width(dtype);
    Dim panels = (rhs.back() + (width - 1)).floor_div(width);
    return panels * rhs[rhs.size() - 2] * width;
  }

  int pack(const ir::Value* rhs) {
    if (auto it = packed_.find(rhs); it != packed_.end()) return it->second;
    const graph::Shape& shape = rhs->type.tensor().shape;
    DType dtype = rhs->type.tensor().dtype;
    int id = new_tensor(Tensor::Storage::temporary, rhs->type.tensor());
    Dim batch = 1;
    for (std::size_t i = 0; i + 2 < shape.size(); ++i) batch = batch * shape[i];
    tensor(id).elements = batch * panel_elements(shape, dtype);
    auto kernel = new_kernel(Kernel::Kind::pack);
    Position position = add_axes(*kernel, shape);
    Arena& arena = *kernel->arena;
    kernel->product_dtype = dtype;
    Index offset(0);
    for (std::size_t i = 0; i + 2 < shape.size(); ++i)
      offset = arena.add(arena.scale(offset, shape[i]), position[i]);
    kernel->stores.push_back(
        {id, arena.scale(offset, panel_elements(shape, dtype)), at(arena, rhs, position)});
    emit(std::move(kernel));
    packed_[rhs] = id;
    return id;
  }

  // --- Extents that are known only at run time. ---

  void check(const ir::Op& op, const Dim& left, Check::Relation relation, const Dim& right,
             std::string sentence, std::vector<Dim> values) {
    if (left.is_static() && right.is_static()) {
      bool holds = relation == Check::Relation::equal      ? left == right
                   : relation == Check::Relation::at_least ? left.value() >= right.value()
                   : relation == Check::Relation::at_most  ? left.value() <= right.value()
                                                           : right.value() % left.value() == 0;
      if (holds) return;
    }
    if (left == right && relation != Check::Relation::divides) return;
    Step step;
    step.check = std::make_unique<Check>(
        Check{left, relation, right, std::move(sentence), std::move(values), &op});
    steps_->push_back(std::move(step));
  }

  void define(const std::string& symbol, const Dim& value) {
    if (!known_symbols_.insert(symbol).second) return;
    Step step;
    step.define = std::make_unique<Define>(Define{symbol, value});
    steps_->push_back(std::move(step));
  }

  bool is_known(const Dim& dim) {
    for (const std::string& symbol : dim.parameters())
      if (!known_symbols_.count(symbol)) return false;
    return true;
  }

  /// The value of a scalar tensor as a new symbol.
  Dim read_scalar(const ir::Value* value, std::optional<Dim> wrap) {
    std::string symbol = format("kiln_scalar_{}", scalars_++);
    known_symbols_.insert(symbol);
    Step step;
    step.read = std::make_unique<ReadScalar>(ReadScalar{symbol, stored(value), std::move(wrap)});
    steps_->push_back(std::move(step));
    return Dim(symbol);
  }

  /// The tensor in which a value lies; leaves get one now.
  int stored(const ir::Value* value) {
    if (auto it = tensor_of_.find(value); it != tensor_of_.end()) return it->second;
    int id = new_tensor(Tensor::Storage::temporary, value->type.shaped());
    store_value(value, id);
    tensor_of_[value] = id;
    return id;
  }

  /// Defines or checks the dims of a result that the operands do not settle.
  void settle(const ir::Op& op, const Dim& declared, const Dim& actual, const std::string& sentence,
              std::vector<Dim> values) {
    if (declared == actual) return;
    if (is_known(declared)) {
      check(op, actual, Check::Relation::equal, declared, sentence, std::move(values));
      return;
    }
    // A new symbol, alone or as c·s + d.
    Dim coefficient = 0, rest = 0;
    std::string symbol;
    for (const graph::DimTerm& term : declared.terms()) {
      if (term.atoms.size() == 1 && term.atoms[0].is_symbol() &&
          !known_symbols_.count(term.atoms[0].symbol)) {
        symbol = term.atoms[0].symbol;
        coefficient = term.coefficient;
      } else if (term.atoms.empty()) {
        rest = term.coefficient;
      }
    }
    Dim numerator = actual - rest;
    if (coefficient != Dim(1))
      check(op, coefficient, Check::Relation::divides, numerator, sentence, values);
    define(symbol, numerator.floor_div(coefficient));
  }

  struct Bounds {
    graph::Shape starts;
    graph::Shape stops;
  };

  void check_extents(const ir::Op& op) {
    switch (op.kind) {
      case OpKind::rebind: {
        const graph::Shape& from = op.operand(0)->type.tensor().shape;
        const graph::Shape& to = op.result()->type.tensor().shape;
        std::string expected, actual;
        std::vector<Dim> values;
        for (std::size_t i = 0; i < from.size(); ++i) {
          expected += format("{}{}", i ? ", " : "", to[i].to_string());
          actual += format("{}{} = {{{}}}", i ? ", " : "", from[i].to_string(), i);
          values.push_back(from[i]);
        }
        std::string message =
            op.has_attribute("message") ? op.attribute<std::string>("message") : "";
        std::string sentence =
            format("rebind shape check failed: {}\nexpected shape: [{}]\nactual shape: [{}]",
                   message, expected, actual);
        for (std::size_t i = 0; i < from.size(); ++i) settle(op, to[i], from[i], sentence, values);
        break;
      }
      case OpKind::slice:
      case OpKind::buffer_store_slice:
        check_slice(op);
        break;
      case OpKind::broadcast_to:
        if (op.operands.size() == 2) check_broadcast(op);
        break;
      case OpKind::range:
        if (!op.operands.empty()) check_range(op);
        break;
      default:
        break;
    }
  }

  void check_slice(const ir::Op& op) {
    const graph::Shape& shape = op.operand(0)->type.shaped().shape;
    Bounds bounds{op.attribute<graph::Shape>("starts"), op.attribute<graph::Shape>("stops")};
    const auto& steps = op.attribute<std::vector<std::int64_t>>("steps");
    auto axes = [&](std::string_view name) {
      return op.has_attribute(name) ? op.attribute<std::vector<std::int64_t>>(name)
                                    : std::vector<std::int64_t>();
    };
    std::size_t operand = op.kind == OpKind::slice ? 1 : 2;
    for (std::int64_t axis : axes("dynamic_starts")) {
      auto i = static_cast<std::size_t>(axis);
      bounds.starts[i] = read_scalar(op.operand(operand++), shape[i]);
    }
    for (std::int64_t axis : axes("dynamic_stops")) {
      auto i = static_cast<std::size_t>(axis);
      bounds.stops[i] = read_scalar(op.operand(operand++), shape[i]);
    }
    for (std::int64_t axis : axes("dynamic_indices")) {
      auto i = static_cast<std::size_t>(axis);
      Dim index = read_scalar(op.operand(operand++), shape[i]);
      std::string sentence = format("Index {{0}} out of range of dim {{1}}");
      check(op, index, Check::Relation::at_least, 0, sentence, {index, shape[i]});
      check(op, index, Check::Relation::at_most, shape[i] - 1, sentence, {index, shape[i]});
      bounds.starts[i] = index;
      bounds.stops[i] = index + 1;
    }
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const Dim &start = bounds.starts[i], &stop = bounds.stops[i], &n = shape[i];
      if (start.is_static() && stop.is_static() && n.is_static()) continue;
      bool forward = steps[i] > 0;
      auto in_range = [&](const Dim& bound, std::string_view which) {
        std::string sentence =
            format("slice {} index {{0}} out of range for dimension size {{1}}", which);
        if (!bound.is_static() || bound.value() > 0)
          if (bound != n) check(op, bound, Check::Relation::at_most, n, sentence, {bound, n});
        Dim lowest = forward ? 0 : -1;
        if (!bound.is_static() && bound != n)
          check(op, bound, Check::Relation::at_least, lowest, sentence, {bound, n});
      };
      in_range(start, "start");
      in_range(stop, "stop");
      if (start == Dim(0) && forward) continue;
      check(op, start, forward ? Check::Relation::at_most : Check::Relation::at_least, stop,
            format("start and stop should be increasing for positive step and decreasing for "
                   "negative step, but got start {{0}}, stop {{1}} for step {}",
                   steps[i]),
            {start, stop});
    }
    // Result dims that the user named.
    if (op.has_attribute("out_dims")) {
      const auto& out = op.attribute<graph::Shape>("out_dims");
      for (std::size_t i = 0; i < out.size(); ++i) {
        Dim step(steps[i]);
        Dim size =
            (bounds.stops[i] - bounds.starts[i] + step - (steps[i] > 0 ? 1 : -1)).floor_div(step);
        settle(
            op, out[i], size,
            format("slice_tensor: out_dim is {{0}} but the slice has {{1}} elements on axis {}", i),
            {is_known(out[i]) ? out[i] : size, size});
      }
    }
    bounds_[&op] = std::move(bounds);
  }

  void check_broadcast(const ir::Op& op) {
    const graph::Shape& from = op.operand(0)->type.tensor().shape;
    const graph::Shape& to = op.result()->type.tensor().shape;
    // The target shape is a vector in memory; its elements are read one by one.
    const ir::Value* target = op.operand(1);
    for (std::size_t j = 0; j < to.size(); ++j) {
      Dim wanted = read_element(target, j);
      settle(op, to[j], wanted,
             format("broadcast_to: out_dim {{0}} differs from the target's extent {{1}} on axis {}",
                    j),
             {is_known(to[j]) ? to[j] : wanted, wanted});
    }
    for (std::size_t i = 0; i < from.size(); ++i) {
      std::size_t j = to.size() - from.size() + i;
      if (from[i] == Dim(1)) continue;
      check(
          op, from[i], Check::Relation::equal, to[j],
          format("[broadcast_to] input dimension at index {} ({{0}}) must be either 1 or equal to "
                 "corresponding output dimension at index {} ({{1}})",
                 i, j),
          {from[i], to[j]});
    }
  }

  /// Element `i` of a vector, as a symbol.
  Dim read_element(const ir::Value* vector, std::size_t i) {
    Tensor cell;
    cell.dtype = vector->type.tensor().dtype;
    program_.tensors.push_back(cell);
    int id = static_cast<int>(program_.tensors.size()) - 1;
    auto kernel = new_kernel(Kernel::Kind::loops);
    Position position = {Index(Dim(static_cast<std::int64_t>(i)))};
    kernel->stores.push_back({id, Index(0), at(*kernel->arena, vector, position)});
    emit(std::move(kernel));
    std::string symbol = format("kiln_scalar_{}", scalars_++);
    known_symbols_.insert(symbol);
    Step step;
    step.read = std::make_unique<ReadScalar>(ReadScalar{symbol, id, std::nullopt});
    steps_->push_back(std::move(step));
    return Dim(symbol);
  }

  void check_range(const ir::Op& op) {
    const Dim& declared = op.result()->type.tensor().shape[0];
    DType dtype = op.operand(0)->type.tensor().dtype;
    // The number of elements is worked out by a kernel of one point, for floats too.
    Tensor cell;
    cell.dtype = DType::int64;
    program_.tensors.push_back(cell);
    int id = static_cast<int>(program_.tensors.size()) - 1;
    auto kernel = new_kernel(Kernel::Kind::loops);
    Arena& arena = *kernel->arena;
    DType wide = dtype.is_float() ? DType(DType::float64) : DType(DType::int64);
    auto bound = [&](std::size_t k) {
      const ir::Value* value = op.operand(k);
      return arena.cast(at(arena, value, Position(value->type.tensor().shape.size(), Index(0))),
                        wide);
    };
    const Expr *start = bound(0), *stop = bound(1), *step = bound(2);
    const Expr* span = arena.binary(OpKind::sub, stop, start, wide);
    const Expr* count = nullptr;
    if (wide.is_float()) {
      count =
          arena.cast(arena.unary(OpKind::ceil, arena.binary(OpKind::div, span, step, wide), wide),
                     DType::int64);
    } else {
      // ceil(span / step) = -floor(-span / step) for the rounding of mod.
      const Expr* negated = arena.unary(OpKind::negate, span, wide);
      const Expr* rest = arena.binary(OpKind::mod, negated, step, wide);
      const Expr* exact = arena.binary(OpKind::sub, negated, rest, wide);
      const Expr* safe =
          arena.select(arena.binary(OpKind::equal, step, arena.integer(wide, 0), DType::bool_),
                       arena.integer(wide, 1), step);
      count = arena.unary(OpKind::negate, arena.truncating_div(exact, safe), wide);
    }
    count = arena.binary(OpKind::max, count, arena.integer(DType::int64, 0), DType::int64);
    // A count of -1 stands for a step of 0, -2 and -3 for a wrong direction.
    auto zero = [&] { return dtype.is_float() ? arena.constant(wide, 0) : arena.integer(wide, 0); };
    const Expr* flat = arena.binary(OpKind::equal, step, zero(), DType::bool_);
    if (!dtype.is_float()) {
      auto wrong = [&](const Expr* a, const Expr* b) {
        return arena.binary(OpKind::logical_and,
                            arena.binary(OpKind::greater, step, zero(), DType::bool_),
                            arena.binary(OpKind::greater, a, b, DType::bool_), DType::bool_);
      };
      count = arena.select(wrong(start, stop), arena.integer(DType::int64, -2), count);
      const Expr* down = arena.binary(
          OpKind::logical_and, arena.binary(OpKind::greater, zero(), step, DType::bool_),
          arena.binary(OpKind::greater, stop, start, DType::bool_), DType::bool_);
      count = arena.select(down, arena.integer(DType::int64, -3), count);
    }
    count = arena.select(flat, arena.integer(DType::int64, -1), count);
    kernel->stores.push_back({id, Index(0), count});
    emit(std::move(kernel));
    std::string symbol = format("kiln_scalar_{}", scalars_++);
    known_symbols_.insert(symbol);
    Step read;
    read.read = std::make_unique<ReadScalar>(ReadScalar{symbol, id, std::nullopt});
    steps_->push_back(std::move(read));
    Dim n(symbol);
    check(op, n + 1, Check::Relation::at_least, -1,
          "range: requires (start <= stop) for positive step and (start >= stop) for negative step",
          {});
    check(op, n, Check::Relation::at_least, -1, "range: requires (start <= stop) for positive step",
          {});
    check(op, n, Check::Relation::at_least, 0, "range: step must be non-zero", {});
    settle(op, declared, n, "range: out_dim is {0} but the range has {1} elements",
           {is_known(declared) ? declared : n, n});
  }

  // --- Side effects and control flow. ---

  void build_store_slice(const ir::Op& op) {
    int id = tensor_of_.at(op.operand(0));
    auto kernel = new_kernel(Kernel::Kind::loops);
    note(op);
    Arena& arena = *kernel->arena;
    Position position = add_axes(*kernel, op.operand(1)->type.tensor().shape);
    const Expr* element = at(arena, op.operand(1), position);
    kernel->stores.push_back({id, linear(arena, id, sliced(arena, op, position)), element});
    emit(std::move(kernel));
  }

  void build_print(const ir::Op& op) {
    Step step;
    step.print = std::make_unique<Print>();
    step.print->label = op.attribute<std::string>("label");
    if (op.has_attribute("text"))
      step.print->text = op.attribute<std::string>("text");
    else
      step.print->tensor = stored(op.operand(0));
    steps_->push_back(std::move(step));
  }

  std::vector<const ir::Value*> yielded(const ir::Block& region) {
    std::vector<const ir::Value*> values;
    for (const ir::Value* value : region.ops.back()->operands)
      if (is_tensor(value)) values.push_back(value);
    return values;
  }

  /// Builds the ops of a region into `steps`.
  void build_region(const ir::Block& region, std::vector<Step>& steps,
                    const std::function<void()>& finish) {
    std::vector<Step>* outer = std::exchange(steps_, &steps);
    auto known = known_symbols_;
    auto tensors = tensor_of_;
    auto packed = packed_;
    for (const auto& op : region.ops)
      if (op->kind != OpKind::yield && op->kind != OpKind::condition) build_op(*op);
    finish();
    // What was made inside exists only inside.
    tensor_of_ = std::move(tensors);
    packed_ = std::move(packed);
    known_symbols_ = std::move(known);
    steps_ = outer;
  }

  void build_cond(const ir::Op& op) {
    auto condition = std::make_unique<Condition>();
    condition->predicate = stored(op.operand(0));
    std::vector<int> results;
    for (const auto& result : op.results)
      if (is_tensor(result.get())) {
        results.push_back(new_tensor(Tensor::Storage::temporary, result->type.tensor()));
        tensor_of_[result.get()] = results.back();
      }
    for (std::size_t side = 0; side < 2; ++side) {
      const ir::Block& region = *op.regions[side];
      build_region(region, side == 0 ? condition->then_steps : condition->else_steps, [&] {
        std::vector<const ir::Value*> values = yielded(region);
        for (std::size_t i = 0; i < values.size(); ++i) store_value(values[i], results[i]);
      });
    }
    Step step;
    step.condition = std::move(condition);
    steps_->push_back(std::move(step));
  }

  void build_while(const ir::Op& op) {
    auto loop = std::make_unique<Loop>();
    std::vector<int> carried;
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
      if (!is_tensor(op.operand(i))) continue;
      int id = new_tensor(Tensor::Storage::temporary, op.operand(i)->type.tensor());
      store_value(op.operand(i), id);
      carried.push_back(id);
    }
    auto bind = [&](const ir::Block& region) {
      std::size_t n = 0;
      for (const auto& argument : region.arguments)
        if (is_tensor(argument.get())) tensor_of_[argument.get()] = carried[n++];
    };
    const ir::Block& test = *op.regions[0];
    const ir::Block& body = *op.regions[1];
    bind(test);
    bind(body);
    build_region(test, loop->test, [&] { loop->predicate = stored(test.ops.back()->operand(0)); });
    build_region(body, loop->body, [&] {
      // All new values are made before any old one is overwritten.
      std::vector<const ir::Value*> values = yielded(body);
      std::vector<int> next;
      for (std::size_t i = 0; i < values.size(); ++i) {
        next.push_back(new_tensor(Tensor::Storage::temporary, values[i]->type.tensor()));
        store_value(values[i], next.back());
      }
      for (std::size_t i = 0; i < values.size(); ++i) copy(next[i], carried[i]);
    });
    std::size_t n = 0;
    for (const auto& result : op.results)
      if (is_tensor(result.get())) tensor_of_[result.get()] = carried[n++];
    Step step;
    step.loop = std::move(loop);
    steps_->push_back(std::move(step));
  }

  void copy(int from, int to) {
    auto kernel = new_kernel(Kernel::Kind::loops);
    Position position = add_axes(*kernel, graph::Shape(tensor(from).shape));
    Arena& arena = *kernel->arena;
    kernel->stores.push_back({to, linear(arena, to, position),
                              arena.load(tensor(from).dtype, from, linear(arena, from, position))});
    emit(std::move(kernel));
  }

  const Isa& isa_;
  ConstantPool& constants_;
  Program program_;
  std::vector<Step>* steps_ = nullptr;
  std::set<std::string> known_symbols_;
  std::unordered_map<const ir::Op*, Bounds> bounds_;
  int scalars_ = 0;
  Kernel* kernel_ = nullptr;
  std::unordered_map<const ir::Value*, std::vector<const ir::Op*>> users_;
  std::unordered_map<const ir::Value*, int> reads_;
  std::set<const ir::Value*> roots_;
  std::unordered_map<const ir::Value*, int> tensor_of_;
  std::unordered_map<const ir::Value*, int> packed_;
};

}  // namespace

Program build_program(const ir::Graph& graph, const Isa& isa, ConstantPool& constants) {
  return Builder(graph, isa, constants).build();
}

}  // namespace kiln::compiler
