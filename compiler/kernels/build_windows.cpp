// Kernels of convolutions and pooling.
//
// A convolution is a product: its rows are the positions of the result, what is reduced are the
// taps and channels, and its left operand is the input, read through windows. One channel a group
// leaves nothing to multiply matrices for; that and pooling reduce windows channel by channel.

#include <array>
#include <numeric>

#include "compiler/kernels/builder_state.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::compiler {

namespace {

using Ints = std::vector<std::int64_t>;

Dim product_of_taps(const std::vector<Window>& windows) {
  Dim product = 1;
  for (const Window& window : windows) product = product * window.taps;
  return product;
}

}  // namespace

std::int64_t phases_of_transposed(const ir::Op& op, std::size_t axis) {
  const std::int64_t stride = op.attribute<Ints>("stride")[axis];
  return stride / std::gcd(stride, op.attribute<Ints>("dilation")[axis]);
}

Dim product_depth(const Kernel& kernel) {
  return product_of_taps(kernel.windows) * kernel.arena->extent(kernel.reduced_axis);
}

void Builder::read_windows(Kernel& kernel, const ir::Value* value, const Index& batch,
                           const Index& channel, int unit) {
  Arena& arena = *kernel.arena;
  const Dim& channels = value->type.tensor().shape.back();
  for (bool copied = false;; copied = true) {
    Position position = {batch};
    std::vector<int> spatial;
    for (const Window& window : kernel.windows) {
      spatial.push_back(arena.new_axis(window.extent));
      position.push_back(arena.axis_index(spatial.back()));
    }
    position.push_back(channel);
    if (auto operand = as_matrix(arena, value, position, unit)) {
      Arena::AxisMap origin;
      for (std::size_t i = 0; i < spatial.size(); ++i) {
        kernel.windows[i].step = operand->index.coefficient(spatial[i]);
        origin[spatial[i]] = Index(0);
      }
      // Neighbours along the last spatial axis may not overlap where windows are copied.
      Window& last = kernel.windows.back();
      if (last.extent == Dim(1)) last.step = channels;
      const bool apart =
          last.step.is_static() && channels.is_static() && last.step.value() >= channels.value();
      if (apart || last.step == channels || kernel.kind == Kernel::Kind::windows) {
        kernel.operands.push_back({operand->tensor, arena.rewrite(operand->index, origin, {})});
        return;
      }
    }
    KILN_CHECK(!copied, "a copy lies as it should");
    Kernel* current = kernel_;
    const int copy = new_tensor(Tensor::Storage::temporary, value->type.tensor());
    store_value(value, copy);
    tensor_of_[value] = copy;
    kernel_ = current;
  }
}

namespace {

/// The windows of an op's attributes over an input of shape `in`.
std::vector<Window> windows_of(const ir::Op& op, const graph::Shape& in, const graph::Shape& taps) {
  const std::size_t dims = in.size() - 2;
  const auto &stride = op.attribute<Ints>("stride"), &dilation = op.attribute<Ints>("dilation"),
             &padding = op.attribute<Ints>("padding");
  std::vector<Window> windows;
  for (std::size_t i = 0; i < dims; ++i) {
    Window window;
    window.taps = taps[i];
    window.stride = stride[i];
    window.dilation = dilation[i];
    // Of pools one number stands for both sides.
    const bool both = padding.size() == 2 * dims;
    window.before = padding[both ? 2 * i : i];
    window.inside = both && padding[2 * i] == 0 && padding[2 * i + 1] == 0;
    window.extent = in[1 + i];
    windows.push_back(std::move(window));
  }
  return windows;
}

}  // namespace

void Builder::build_product_of_windows(const ir::Op& op, const WindowProduct& product) {
  const ir::Value* x = op.operand(0);
  const DType dtype = x->type.tensor().dtype;
  const Dim &columns = product.columns, &channels = product.channels;
  const graph::Shape matrix = {product.groups, product_of_taps(product.windows) * channels,
                               columns};
  const int packed = pack(matrix, dtype, [&](Arena& arena, const Position& position) {
    // The row of a filter's matrix counts channels within taps.
    std::vector<Index> taps(product.windows.size());
    Index rest = arena.quotient(position[1], channels);
    for (std::size_t i = taps.size(); i-- > 1;) {
      taps[i] = arena.remainder(rest, product.windows[i].taps);
      rest = arena.quotient(rest, product.windows[i].taps);
    }
    taps[0] = rest;
    return product.filter(arena, position[0], taps, arena.remainder(position[1], channels),
                          position[2]);
  });

  auto kernel = new_kernel(Kernel::Kind::matmul);
  note(op);
  kernel->windows = product.windows;
  kernel->product_dtype = dtype;
  Arena& arena = *kernel->arena;
  Index group(0);
  if (product.groups != Dim(1)) group = add_axes(*kernel, {product.groups}).front();
  graph::Shape points = {x->type.tensor().shape[0]};
  points.insert(points.end(), product.lines.begin(), product.lines.end());
  points.push_back(columns);
  Position position = add_axes(*kernel, points);
  kernel->reduced_axis = arena.new_axis(channels);
  const Index channel =
      arena.add(arena.scale(group, channels), arena.axis_index(kernel->reduced_axis));
  read_windows(*kernel, x, position[0], channel, kernel->reduced_axis);
  kernel->operands.push_back({packed, arena.scale(group, panel_elements(matrix, dtype))});
  position.back() = arena.add(arena.scale(group, columns), position.back());
  AxisSet all = 0;
  for (int axis : kernel->axes) all |= axis_bit(axis);
  kernel->stores.push_back({product.result,
                            linear(arena, product.result, product.place(arena, position)),
                            arena.accumulator(dtype, all)});
  emit(std::move(kernel));
}

void Builder::build_convolution(const ir::Op& op, const ir::Value* value, int id) {
  const ir::Value* filter = op.operand(1);
  const graph::Shape &in = op.operand(0)->type.tensor().shape, &taps = filter->type.tensor().shape,
                     &out = value->type.tensor().shape;
  const std::size_t dims = in.size() - 2;
  const Dim groups = op.attribute<std::int64_t>("groups");
  WindowProduct product;
  product.result = id;
  product.windows = windows_of(op, in, taps);
  product.lines = graph::Shape(out.begin() + 1, out.end() - 1);
  product.groups = groups;
  product.channels = taps[dims];
  product.columns = out.back().floor_div(groups);
  if (groups != Dim(1) && are_small(product, value->type.tensor())) {
    build_small_groups(op, value, id, product);
    return;
  }
  product.filter = [&](Arena& arena, const Index& group, const std::vector<Index>& tap,
                       const Index& channel, const Index& column) {
    Position position = tap;
    position.push_back(channel);
    position.push_back(arena.add(arena.scale(group, product.columns), column));
    return at(arena, filter, position);
  };
  product.place = [](Arena&, const Position& position) { return position; };
  build_product_of_windows(op, product);
}

bool Builder::are_small(const WindowProduct& product, const graph::TensorType& type) const {
  const Dim &channels = product.channels, &columns = product.columns;
  if (channels == Dim(1) && columns == Dim(1)) return true;
  // Whole groups fill a register, and their channels not many.
  constexpr std::int64_t kMostChannels = 16, kMostRegisters = 4;
  const std::int64_t lanes = isa_.lanes(type.dtype.size_in_bytes());
  return channels.is_static() && columns.is_static() && type.shape.back().is_static() &&
         type.dtype.size_in_bytes() >= 4 && channels.value() > 0 && columns.value() > 0 &&
         lanes % columns.value() == 0 && type.shape.back().value() % lanes == 0 &&
         channels.value() <= std::min(kMostChannels, kMostRegisters * columns.value());
}

void Builder::build_small_groups(const ir::Op& op, const ir::Value* value, int id,
                                 const WindowProduct& product) {
  const ir::Value* filter = op.operand(1);
  auto kernel = new_kernel(Kernel::Kind::windows);
  note(op);
  kernel->windows = product.windows;
  if (product.channels != Dim(1) || product.columns != Dim(1)) {
    kernel->group_channels = product.channels.value();
    kernel->group_columns = product.columns.value();
  }
  kernel->product_dtype = value->type.tensor().dtype;
  Arena& arena = *kernel->arena;
  const Position position = add_axes(*kernel, value->type.tensor().shape);
  const int channel = arena.new_axis(op.operand(0)->type.tensor().shape.back());
  read_windows(*kernel, op.operand(0), position[0], arena.axis_index(channel), channel);
  // The filter, by taps, channel and column.
  Position at_taps;
  std::vector<int> taps;
  for (const Window& window : kernel->windows) {
    taps.push_back(arena.new_axis(window.taps));
    at_taps.push_back(arena.axis_index(taps.back()));
  }
  const int in_group = arena.new_axis(product.channels);
  at_taps.push_back(arena.axis_index(in_group));
  at_taps.push_back(position.back());
  const MatrixOperand operand =
      matrix_operand(arena, filter, at_taps, kernel->axes.back(), kernel->windows.size() + 1);
  kernel->filter_step = operand.index.coefficient(in_group);
  Arena::AxisMap origin = {{channel, Index(0)}, {in_group, Index(0)}};
  kernel->operands[0].index = arena.rewrite(kernel->operands[0].index, origin, {});
  for (std::size_t i = 0; i < taps.size(); ++i) {
    kernel->windows[i].filter_step = operand.index.coefficient(taps[i]);
    origin[taps[i]] = Index(0);
  }
  kernel->operands.push_back({operand.tensor, arena.rewrite(operand.index, origin, {})});
  AxisSet all = 0;
  for (int axis : kernel->axes) all |= axis_bit(axis);
  kernel->stores.push_back(
      {id, linear(arena, id, position), arena.accumulator(kernel->product_dtype, all)});
  emit(std::move(kernel));
}

void Builder::build_pool(const ir::Op& op, const ir::Value* value, int id) {
  const graph::Shape& in = op.operand(0)->type.tensor().shape;
  const DType dtype = value->type.tensor().dtype;
  const auto& size = op.attribute<Ints>("kernel_size");
  const bool average = op.kind == OpKind::avg_pool2d;
  auto kernel = new_kernel(Kernel::Kind::windows);
  note(op);
  kernel->windows = windows_of(op, in, {size[0], size[1]});
  kernel->reduction = average ? Reduction::sum : Reduction::max;
  kernel->product_dtype = average && dtype.is_half() ? DType(DType::float32) : dtype;
  Arena& arena = *kernel->arena;
  const Position position = add_axes(*kernel, value->type.tensor().shape);
  read_windows(*kernel, op.operand(0), position[0], position.back(), kernel->axes.back());
  AxisSet all = 0;
  for (int axis : kernel->axes) all |= axis_bit(axis);
  const DType wide = kernel->product_dtype;
  const Expr* result = arena.accumulator(wide, all);
  if (average) {
    const Expr* share = nullptr;
    if (op.attribute<bool>("count_boundary")) {
      share =
          arena.constant(wide, 1.0 / static_cast<double>(size[0]) / static_cast<double>(size[1]));
    } else {
      const Expr* count = arena.integer(DType::int64, 1);
      for (std::size_t i = 0; i < kernel->windows.size(); ++i)
        count = arena.binary(OpKind::mul, count,
                             taps_inside(arena, kernel->windows[i], position[1 + i]), DType::int64);
      // A window outside of the input has the sum 0.
      count = arena.binary(OpKind::max, count, arena.integer(DType::int64, 1), DType::int64);
      share = arena.binary(OpKind::div, arena.constant(wide, 1), arena.cast(count, wide), wide);
    }
    result = arena.cast(arena.binary(OpKind::mul, result, share, wide), dtype);
  }
  kernel->stores.push_back({id, linear(arena, id, position), result});
  emit(std::move(kernel));
}

const Expr* Builder::taps_inside(Arena& arena, const Window& window, const Index& at) {
  const auto integer = [&](OpKind kind, const Expr* x, const Expr* y) {
    return arena.binary(kind, x, y, DType::int64);
  };
  const Expr* zero = arena.integer(DType::int64, 0);
  // The number of taps before the place that `distance` is away from the first tap.
  const auto before = [&](const Expr* distance) {
    const Expr* away = integer(OpKind::max, distance, zero);
    const Expr* count = arena.truncating_div(
        integer(OpKind::add, away, arena.integer(DType::int64, window.dilation - 1)),
        arena.integer(DType::int64, window.dilation));
    return integer(OpKind::min, count, arena.index(Index(window.taps)));
  };
  // Of the first tap.
  const Index place = arena.add(arena.scale(at, Dim(window.stride)), Index(-window.before));
  const Index to_end = arena.add(Index(window.extent), arena.scale(place, Dim(-1)));
  return integer(OpKind::sub, before(arena.index(to_end)),
                 before(arena.index(arena.scale(place, Dim(-1)))));
}

void Builder::build_transposed_convolution(const ir::Op& op, const ir::Value* value, int id) {
  // Of every `stride` positions of the result, each is reached by taps of its own: those at
  // distances that leave the same rest. Each such phase is a convolution with stride 1 of these
  // taps, in reverse order, that stores every `stride`-th position.
  const ir::Value* filter = op.operand(1);
  const graph::Shape &in = op.operand(0)->type.tensor().shape, &taps = filter->type.tensor().shape,
                     &out = value->type.tensor().shape;
  const auto &stride = op.attribute<Ints>("stride"), &dilation = op.attribute<Ints>("dilation"),
             &padding = op.attribute<Ints>("padding");
  struct Phase {
    std::int64_t first = 0;  // position of the result
    std::int64_t tap = 0;    // the first of its taps …
    std::int64_t every = 1;  // … and how far they lie apart
    Dim count;               // of positions
    Window window;
  };
  std::vector<std::vector<Phase>> phases(2);
  bool all = true;  // positions are reached
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t every = phases_of_transposed(op, i);
    const std::int64_t step = dilation[i] / std::gcd(stride[i], dilation[i]);
    all = all && every == stride[i] && taps[i].is_static() && taps[i].value() >= every;
    for (std::int64_t tap = 0; tap < every && taps[i] != Dim(tap); ++tap) {
      Phase phase;
      phase.tap = tap;
      phase.every = every;
      // Result `position` is reached from input (position + padding − tap · dilation) / stride.
      const Dim offset = Dim(tap) * Dim(dilation[i]) - Dim(padding[2 * i]);
      const Dim lead = (-offset + Dim(stride[i] - 1)).floor_div(Dim(stride[i]));
      phase.first = (offset + lead * Dim(stride[i])).value();
      phase.count = (out[1 + i] + Dim(stride[i] - 1 - phase.first)).floor_div(Dim(stride[i]));
      Window& window = phase.window;
      window.extent = in[1 + i];
      window.taps = (taps[i] + Dim(every - 1 - tap)).floor_div(Dim(every));
      window.dilation = step;
      window.before = Dim(step) * (window.taps - 1) - lead;
      phases[i].push_back(std::move(phase));
    }
  }
  tensor(id).many_writers = true;
  if (!all) {
    auto zeros = new_kernel(Kernel::Kind::loops);
    note(op);
    const DType dtype = value->type.tensor().dtype;
    const Position everywhere = add_axes(*zeros, out);
    zeros->stores.push_back(
        {id, linear(*zeros->arena, id, everywhere), zeros->arena->integer(dtype, 0)});
    emit(std::move(zeros));
  }
  for (const Phase& row : phases[0])
    for (const Phase& column : phases[1]) {
      const std::array<const Phase*, 2> both = {&row, &column};
      WindowProduct product;
      product.result = id;
      product.windows = {row.window, column.window};
      product.lines = {row.count, column.count};
      product.channels = in[3];
      product.columns = out[3];
      product.filter = [&](Arena& arena, const Index&, const std::vector<Index>& tap,
                           const Index& channel, const Index& f) {
        Position position;
        for (std::size_t i = 0; i < 2; ++i) {
          const Index last(Dim(both[i]->tap) + Dim(both[i]->every) * (both[i]->window.taps - 1));
          position.push_back(arena.add(last, arena.scale(tap[i], Dim(-both[i]->every))));
        }
        position.push_back(f);
        position.push_back(channel);
        return at(arena, filter, position);
      };
      product.place = [&](Arena& arena, Position position) {
        for (std::size_t i = 0; i < 2; ++i)
          position[1 + i] =
              arena.add(arena.scale(position[1 + i], Dim(stride[i])), Index(Dim(both[i]->first)));
        return position;
      };
      build_product_of_windows(op, product);
    }
}

}  // namespace kiln::compiler
