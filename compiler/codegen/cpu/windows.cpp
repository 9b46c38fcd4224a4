// Pooling, and convolutions of small groups of channels, which often have one channel each.
//
// Vectors run along the columns of the result. For a group of several channels, each of these is
// spread over the columns of its group, which takes one shuffle for the groups of a register. A few
// neighbours of a line are computed together, so that a tap of the filter is loaded once for all of
// them, and an element of the input once for all windows that it lies in. At the ends of a line,
// where taps lie outside, positions go one by one.

#include "compiler/codegen/cpu/windows.h"

#include <algorithm>
#include <map>

#include "compiler/codegen/cpu/matmul.h"
#include "compiler/codegen/cpu/products.h"
#include "compiler/codegen/cpu/vector_plan.h"

namespace kiln::compiler {

namespace {

// Taps of a line, times the channels of a group, that are written out.
constexpr std::int64_t kMostUnrolledTaps = 16;

llvm::Value* maximum(FunctionBuilder& f, llvm::Value* x, llvm::Value* y) {
  return f.b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, y);
}

llvm::Value* minimum(FunctionBuilder& f, llvm::Value* x, llvm::Value* y) {
  return f.b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, y);
}

class WindowEmitter {
 public:
  WindowEmitter(FunctionBuilder& f, const Kernel& kernel, const Program& program)
      : f_(f),
        kernel_(kernel),
        program_(program),
        arguments_(f, kernel, program),
        e_(f, arguments_, program),
        epilogue_(epilogue_of(e_, kernel)),
        line_(kernel.windows.back()) {}

  void run() {
    const int row = kernel_.axes[kernel_.axes.size() - 2], column = kernel_.axes.back();
    const Dim& channels = kernel_.arena->extent(column);
    channels_ = arguments_.dim(channels);
    const DType dtype = kernel_.product_dtype;
    const DType in = input_type(0);
    const VectorPlan plan = plan_vectors(kernel_, program_, f_.isa, column);
    masked_tail_ = plan.masked_tail && f_.isa.has_masked_access(in.size_in_bytes()) &&
                   f_.isa.has_masked_access(dtype.size_in_bytes());
    lanes_ = f_.isa.lanes(dtype.is_float() ? std::max<int>(4, dtype.size_in_bytes())
                                           : dtype.size_in_bytes());
    if (channels.is_static())
      while (lanes_ > 1 && lanes_ > channels.value()) lanes_ /= 2;
    f_.loop(f_.argument(1), f_.argument(2), f_.i64(1), [&](llvm::Value* unit) {
      ExpressionEmitter::Scope scope(e_);
      split_unit(e_, kernel_, kernel_.axes.size() - 2, unit);
      e_.set_axis(row, f_.i64(0));
      e_.set_axis(column, f_.i64(0));
      emit_line(arguments_.dim(kernel_.arena->extent(row)));
    });
  }

 private:
  DType input_type(std::size_t operand) const {
    return program_.tensors[static_cast<std::size_t>(kernel_.operands[operand].tensor)].dtype;
  }
  bool has_filter() const { return kernel_.operands.size() > 1; }

  /// A line of the result: its ends, and what lies between them.
  void emit_line(llvm::Value* length) {
    input_ = address(e_, program_, kernel_.operands[0].tensor, kernel_.operands[0].index);
    if (has_filter())
      filter_ = address(e_, program_, kernel_.operands[1].tensor, kernel_.operands[1].index);
    outer_.clear();
    for (std::size_t i = 0; i + 1 < kernel_.windows.size(); ++i) {
      const Window& window = kernel_.windows[i];
      const int axis = kernel_.axes[kernel_.axes.size() - 1 - kernel_.windows.size() + i];
      const Taps taps =
          taps_at(f_, arguments_, window, e_.position(kernel_.arena->axis_index(axis)));
      outer_.push_back(taps);
      input_ = f_.element(memory(0), input_, taps.offset);
      if (has_filter())
        filter_ = f_.element(memory(1), filter_,
                             f_.b.CreateMul(taps.first, arguments_.dim(window.filter_step)));
    }
    // Positions [low, high) have all their taps inside.
    llvm::Value* stride = f_.i64(line_.stride);
    llvm::Value* before = arguments_.dim(line_.before);
    llvm::Value* reach = f_.b.CreateMul(f_.b.CreateSub(arguments_.dim(line_.taps), f_.i64(1)),
                                        f_.i64(line_.dilation));
    llvm::Value* low = minimum(f_, length, f_.divide_up(maximum(f_, before, f_.i64(0)), stride));
    llvm::Value* last = f_.b.CreateSub(
        f_.b.CreateAdd(f_.b.CreateSub(arguments_.dim(line_.extent), f_.i64(1)), before), reach);
    llvm::Value* high = f_.b.CreateSelect(
        f_.b.CreateICmpSLT(last, f_.i64(0)), f_.i64(0),
        f_.b.CreateAdd(f_.b.CreateUDiv(maximum(f_, last, f_.i64(0)), stride), f_.i64(1)));
    high = maximum(f_, low, minimum(f_, high, length));
    // As many together as there are, in parts of 8 where registers suffice, then of 4, then alone.
    llvm::Value* whole = low;
    for (const int together : {8, 4}) {
      if (together == 8 && !f_.isa.avx512) continue;
      llvm::Value* from = whole;
      whole = f_.b.CreateAdd(from, f_.b.CreateAnd(f_.b.CreateSub(high, from), f_.i64(-together)));
      f_.loop(from, whole, f_.i64(together),
              [&](llvm::Value* at) { emit_positions(at, together); });
    }
    f_.loop(f_.i64(0), f_.i64(2), f_.i64(1), [&](llvm::Value* end) {
      llvm::Value* front = f_.b.CreateICmpEQ(end, f_.i64(0));
      f_.loop(f_.b.CreateSelect(front, f_.i64(0), whole), f_.b.CreateSelect(front, low, length),
              f_.i64(1), [&](llvm::Value* at) { emit_positions(at, 1); });
    });
  }

  llvm::Type* memory(std::size_t operand, int lanes = 1) {
    return f_.lower.memory_type(input_type(operand), lanes);
  }

  /// `count` positions of the line, all inside unless it is one.
  void emit_positions(llvm::Value* at, int count) {
    llvm::Value* input = input_;
    llvm::Value* filter = filter_;
    Taps taps{};
    if (count == 1) {
      taps = taps_at(f_, arguments_, line_, at);
      input = f_.element(memory(0), input, taps.offset);
      if (has_filter())
        filter = f_.element(memory(1), filter,
                            f_.b.CreateMul(taps.first, arguments_.dim(line_.filter_step)));
    } else {
      taps = {
          f_.i64(0), arguments_.dim(line_.taps),
          f_.b.CreateMul(start_of_window(f_, arguments_, line_, at), arguments_.dim(line_.step))};
      input = f_.element(memory(0), input, taps.offset);
    }
    auto column = [&](llvm::Value* c, int lanes, llvm::Value* mask) {
      // Whole registers hold whole groups.
      llvm::Value* channel = f_.b.CreateUDiv(f_.b.CreateNUWMul(c, f_.i64(kernel_.group_channels)),
                                             f_.i64(kernel_.group_columns));
      Values sums = reduce(f_.element(memory(0), input, channel),
                           has_filter() ? f_.element(memory(1), filter, c) : nullptr, taps.count,
                           count, lanes, mask);
      for (int i = 0; i < count; ++i)
        epilogue_(f_, f_.b.CreateNSWAdd(at, f_.i64(i)), c, lanes, sums[static_cast<std::size_t>(i)],
                  mask);
    };
    llvm::Value* rest = f_.i64(0);
    if (lanes_ > 1) {
      rest = f_.b.CreateAnd(channels_, f_.i64(-lanes_));
      f_.loop(f_.i64(0), rest, f_.i64(lanes_), [&](llvm::Value* c) { column(c, lanes_, nullptr); });
      if (auto* known = llvm::dyn_cast<llvm::ConstantInt>(channels_);
          known && known->getSExtValue() % lanes_ == 0)
        return;
      if (masked_tail_) {
        f_.when(f_.b.CreateICmpSLT(rest, channels_), [&] {
          column(rest, lanes_, lane_mask(f_, lanes_, f_.b.CreateSub(channels_, rest)));
        });
        return;
      }
    }
    f_.loop(rest, channels_, f_.i64(1), [&](llvm::Value* c) { column(c, 1, nullptr); });
  }

  /// The windows of `count` neighbours, reduced.
  Values reduce(llvm::Value* input, llvm::Value* filter, llvm::Value* taps, int count, int lanes,
                llvm::Value* mask) {
    const Values none(static_cast<std::size_t>(count),
                      e_.neutral(kernel_.reduction, kernel_.product_dtype, lanes));
    return outer_taps(0, input, filter, none,
                      [&](llvm::Value* x, llvm::Value* w, const Values& sums) {
                        return line_taps(x, w, taps, sums, lanes, mask);
                      });
  }

  using Inner = std::function<Values(llvm::Value*, llvm::Value*, const Values&)>;

  Values outer_taps(std::size_t level, llvm::Value* input, llvm::Value* filter, const Values& sums,
                    const Inner& inner) {
    if (level == outer_.size()) return inner(input, filter, sums);
    const Window& window = kernel_.windows[level];
    llvm::Value* step = f_.b.CreateMul(f_.i64(window.dilation), arguments_.dim(window.step));
    return f_.loop(f_.i64(0), outer_[level].count, f_.i64(1), sums,
                   [&](llvm::Value* tap, const Values& carried) {
                     return outer_taps(level + 1,
                                       f_.element(memory(0), input, f_.b.CreateMul(tap, step)),
                                       at_tap(filter, tap, window), carried, inner);
                   });
  }

  llvm::Value* at_tap(llvm::Value* filter, llvm::Value* tap, const Window& window) {
    if (!filter) return nullptr;
    return f_.element(memory(1), filter, f_.b.CreateMul(tap, arguments_.dim(window.filter_step)));
  }

  Values line_taps(llvm::Value* input, llvm::Value* filter, llvm::Value* taps, Values sums,
                   int lanes, llvm::Value* mask) {
    const auto count = static_cast<std::int64_t>(sums.size());
    llvm::Value* step = arguments_.dim(line_.step);
    const auto input_at = [&](llvm::Value* position) {
      return inputs(f_.element(memory(0), input, f_.b.CreateMul(position, step)), lanes, mask);
    };
    const auto weights_at = [&](llvm::Value* tap) {
      Values weights;
      for (std::int64_t c = 0; filter && c < kernel_.group_channels; ++c) {
        llvm::Value* offset = f_.b.CreateMul(f_.i64(c), arguments_.dim(kernel_.filter_step));
        weights.push_back(
            load(1, f_.element(memory(1), at_tap(filter, tap, line_), offset), lanes, mask));
      }
      return weights;
    };
    const auto combine = [&](llvm::Value*& sum, const Values& x, const Values& w) {
      for (std::size_t c = 0; c < x.size(); ++c)
        sum = filter ? multiply_add(f_, x[c], w[c], sum)
                     : e_.combine(kernel_.reduction, sum, x[c], kernel_.product_dtype);
    };
    const bool written_out = count > 1 && line_.taps.is_static() &&
                             line_.taps.value() * kernel_.group_channels <= kMostUnrolledTaps;
    if (!written_out)
      return f_.loop(f_.i64(0), taps, f_.i64(1), sums, [&](llvm::Value* tap, Values carried) {
        const Values weights = weights_at(tap);
        llvm::Value* first = f_.b.CreateMul(tap, f_.i64(line_.dilation));
        for (std::int64_t i = 0; i < count; ++i)
          combine(carried[static_cast<std::size_t>(i)],
                  input_at(f_.b.CreateAdd(first, f_.i64(i * line_.stride))), weights);
        return carried;
      });
    std::vector<Values> weights;
    for (std::int64_t tap = 0; tap < line_.taps.value(); ++tap)
      weights.push_back(weights_at(f_.i64(tap)));
    // Who reads the element at a distance: pairs of position and tap.
    std::map<std::int64_t, std::vector<std::pair<std::int64_t, std::int64_t>>> readers;
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t tap = 0; tap < line_.taps.value(); ++tap)
        readers[i * line_.stride + tap * line_.dilation].emplace_back(i, tap);
    for (const auto& [distance, pairs] : readers) {
      const Values x = input_at(f_.i64(distance));
      for (const auto& [i, tap] : pairs)
        combine(sums[static_cast<std::size_t>(i)], x, weights[static_cast<std::size_t>(tap)]);
    }
    return sums;
  }

  llvm::Value* load(std::size_t operand, llvm::Value* from, int lanes, llvm::Value* mask) {
    llvm::Type* type = memory(operand, lanes);
    const llvm::Align align(static_cast<std::uint64_t>(input_type(operand).size_in_bytes()));
    llvm::Value* raw = mask ? static_cast<llvm::Value*>(f_.b.CreateMaskedLoad(
                                  type, from, align, mask, llvm::Constant::getNullValue(type)))
                            : f_.b.CreateAlignedLoad(type, from, align);
    return f_.lower.from_memory(raw, input_type(operand));
  }

  /// For each channel of a group, what the columns of the groups in a register are multiplied with.
  Values inputs(llvm::Value* from, int lanes, llvm::Value* mask) {
    const auto channels = static_cast<int>(kernel_.group_channels);
    const auto columns = static_cast<int>(kernel_.group_columns);
    if (channels == 1 && columns == 1) return {load(0, from, lanes, mask)};
    llvm::Value* groups = load(0, from, lanes / columns * channels, nullptr);
    if (lanes / columns * channels == 1) return {f_.lower.splat(groups, lanes)};
    Values result;
    for (int c = 0; c < channels; ++c) {
      llvm::SmallVector<int> source;
      for (int lane = 0; lane < lanes; ++lane) source.push_back(lane / columns * channels + c);
      result.push_back(f_.b.CreateShuffleVector(groups, source));
    }
    return result;
  }

  FunctionBuilder& f_;
  const Kernel& kernel_;
  const Program& program_;
  KernelArguments arguments_;
  ExpressionEmitter e_;
  Epilogue epilogue_;
  const Window& line_;
  llvm::Value* channels_ = nullptr;
  llvm::Value* input_ = nullptr;   // of a line: the first tap inside of the outer axes …
  llvm::Value* filter_ = nullptr;  // … and what it is multiplied with
  std::vector<Taps> outer_;
  int lanes_ = 1;
  bool masked_tail_ = false;
};

}  // namespace

llvm::Value* start_of_window(FunctionBuilder& f, const KernelArguments& arguments,
                             const Window& window, llvm::Value* position) {
  return f.b.CreateSub(f.b.CreateMul(position, f.i64(window.stride)), arguments.dim(window.before));
}

Taps taps_at(FunctionBuilder& f, const KernelArguments& arguments, const Window& window,
             llvm::Value* position) {
  llvm::Value* start = start_of_window(f, arguments, window, position);
  llvm::Value* dilation = f.i64(window.dilation);
  // Taps that lie in the first `distance` places.
  const auto within = [&](llvm::Value* distance) {
    return f.divide_up(maximum(f, distance, f.i64(0)), dilation);
  };
  llvm::Value* taps = arguments.dim(window.taps);
  llvm::Value* first = within(f.b.CreateNeg(start));
  llvm::Value* end = minimum(f, taps, within(f.b.CreateSub(arguments.dim(window.extent), start)));
  llvm::Value* from = f.b.CreateAdd(start, f.b.CreateMul(first, dilation));
  return {first, maximum(f, f.b.CreateSub(end, first), f.i64(0)),
          f.b.CreateMul(from, arguments.dim(window.step))};
}

void emit_windows(FunctionBuilder& f, const Kernel& kernel, const Program& program) {
  WindowEmitter(f, kernel, program).run();
}

KernelLaunch launch_of_windows(const Kernel& kernel, const Program&, const Isa& isa) {
  KernelLaunch launch;
  for (std::size_t k = 0; k + 2 < kernel.axes.size(); ++k) launch.units.push_back(kernel.extent(k));
  launch.unit_length =
      kernel.extent(kernel.axes.size() - 2) * kernel.extent(kernel.axes.size() - 1);
  double taps = 1;
  for (const Window& window : kernel.windows)
    taps *= window.taps.is_static() ? static_cast<double>(window.taps.value()) : 3;
  launch.unit_cost = (taps + 2) / std::max(isa.lanes(4) / 4, 1);
  return launch;
}

}  // namespace kiln::compiler
