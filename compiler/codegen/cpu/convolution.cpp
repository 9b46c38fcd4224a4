// Convolutions as products. A tile of rows is a few neighbours of a line of the result. Under one
// tap of the outer axes their windows lie in the input at equal distances, and the taps of a line
// and their channels follow one another there, as the rows of the packed filter do: the input is
// read where it lies. Outer taps outside of the input are left out. A tile at an end of a line,
// where taps of the line lie outside, reads a small copy of its windows with zeros around. Where
// the windows of neighbours lie far apart, every tile reads a copy, of what the taps read alone.

#include "compiler/codegen/cpu/products.h"
#include "compiler/codegen/cpu/windows.h"
#include "kiln/support/error.h"

namespace kiln::compiler {

namespace {

/// Whether the inputs between what a tile reads are too many to be copied too.
bool is_sparse(const Window& line) {
  constexpr std::int64_t kMostApart = 16;
  return !line.inside && (line.stride > kMostApart || line.dilation > kMostApart);
}

/// Whether the taps of a line and their channels lie side by side and are one stretch.
bool has_joined_taps(const Kernel& kernel) {
  const Window& line = kernel.windows.back();
  return !is_sparse(line) &&
         (line.taps == Dim(1) ||
          (line.dilation == 1 && line.step == kernel.arena->extent(kernel.reduced_axis)));
}

/// The rows of a tile at most.
std::int64_t most_rows(const Kernel& kernel, const Isa& isa) {
  const Dim& length = kernel.extent(kernel.axes.size() - 2);
  const std::int64_t rows = tile_rows(isa, kernel.product_dtype);
  return length.is_static() ? std::max<std::int64_t>(1, std::min(rows, length.value())) : rows;
}

class ConvolutionEmitter {
 public:
  ConvolutionEmitter(FunctionBuilder& f, const Kernel& kernel, const Program& program)
      : f_(f),
        kernel_(kernel),
        program_(program),
        arguments_(f, kernel, program),
        e_(f, arguments_, program),
        line_(kernel.windows.back()),
        element_(f.lower.memory_type(kernel.product_dtype, 1)),
        align_(static_cast<std::uint64_t>(kernel.product_dtype.size_in_bytes())),
        channels_(arguments_.dim(kernel.arena->extent(kernel.reduced_axis))),
        pitch_(arguments_.dim(line_.step)) {}

  void run() {
    const std::size_t rank = kernel_.axes.size(), dims = kernel_.windows.size();
    const int row = kernel_.axes[rank - 2], column = kernel_.axes[rank - 1];
    const std::size_t groups = rank - dims - 2;
    const bool joined = has_joined_taps(kernel_);
    MatmulOperands operands{};
    operands.m = arguments_.dim(kernel_.arena->extent(row));
    operands.n = arguments_.dim(kernel_.arena->extent(column));
    llvm::Value* line_taps = arguments_.dim(line_.taps);
    operands.k = joined ? f_.b.CreateMul(line_taps, channels_) : channels_;
    operands.lda = is_sparse(line_) ? channels_ : f_.b.CreateMul(f_.i64(line_.stride), pitch_);
    operands.next = next_product(f_, arguments_);
    MatmulOperands::Lines lines;
    lines.count = f_.i64(1);
    for (std::size_t k = groups; k + 2 < rank; ++k)
      lines.count = f_.b.CreateMul(lines.count, arguments_.dim(kernel_.extent(k)));
    // From the innermost loop outwards.
    llvm::Value* depth = f_.b.CreateMul(line_taps, channels_);
    if (!joined) lines.panel_steps.push_back(channels_);
    for (std::size_t i = dims - 1; i-- > 0;) {
      lines.panel_steps.insert(lines.panel_steps.begin(), depth);
      depth = f_.b.CreateMul(depth, arguments_.dim(kernel_.windows[i].taps));
    }
    lines.depth = depth;
    lines.locate = [&](llvm::Value* at, llvm::Value* row0, llvm::Value* rows) {
      // Out of the line's number.
      for (std::size_t k = rank - 2; k-- > groups;) {
        llvm::Value* extent = arguments_.dim(kernel_.extent(k));
        e_.set_axis(kernel_.axes[k], k == groups ? at : f_.b.CreateURem(at, extent));
        at = f_.b.CreateUDiv(at, extent);
      }
      e_.set_axis(row, f_.i64(0));
      e_.set_axis(kernel_.reduced_axis, f_.i64(0));
      return locate(row0, rows, lines.panel_steps, joined);
    };
    operands.lines = lines;
    llvm::Value* units = f_.b.CreateMul(
        lines.count, matmul_unit_count(f_, kernel_.product_dtype, operands.m, operands.n));
    for_each_matrix(e_, kernel_, groups, units, [&](llvm::Value* begin, llvm::Value* end) {
      ExpressionEmitter::Scope scope(e_);
      operands.packed =
          address(e_, program_, kernel_.operands[1].tensor, kernel_.operands[1].index);
      emit_matmul_block(f_, kernel_.product_dtype, operands, begin, end, epilogue_of(e_, kernel_));
    });
  }

 private:
  MatmulOperands::Stretches locate(llvm::Value* row0, llvm::Value* rows, const Values& panel_steps,
                                   bool joined) {
    MatmulOperands::Stretches result;
    llvm::Value* input =
        address(e_, program_, kernel_.operands[0].tensor, kernel_.operands[0].index);
    result.skip = f_.i64(0);
    const std::size_t dims = kernel_.windows.size();
    for (std::size_t i = 0; i + 1 < dims; ++i) {
      const Window& window = kernel_.windows[i];
      const int axis = kernel_.axes[kernel_.axes.size() - 1 - dims + i];
      llvm::Value* position = e_.position(kernel_.arena->axis_index(axis));
      Taps taps = window.inside
                      ? Taps{f_.i64(0), arguments_.dim(window.taps),
                             f_.b.CreateMul(start_of_window(f_, arguments_, window, position),
                                            arguments_.dim(window.step))}
                      : taps_at(f_, arguments_, window, position);
      input = f_.element(element_, input, taps.offset);
      result.skip = f_.b.CreateAdd(result.skip, f_.b.CreateMul(taps.first, panel_steps[i]));
      result.counts.push_back(taps.count);
      result.steps.push_back(f_.b.CreateMul(f_.i64(window.dilation), arguments_.dim(window.step)));
    }
    llvm::Value* start = start_of_window(f_, arguments_, line_, row0);
    // In place.
    auto there = [&] {
      Values values = {f_.element(element_, input, f_.b.CreateMul(start, pitch_))};
      values.insert(values.end(), result.steps.begin(), result.steps.end());
      return values;
    };
    Values place;
    if (line_.inside) {
      place = there();
    } else if (is_sparse(line_)) {
      place = gathered(input, start, rows, result);
    } else {
      llvm::Value* width = span(rows);
      llvm::Value* inside = f_.b.CreateAnd(
          f_.b.CreateICmpSGE(start, f_.i64(0)),
          f_.b.CreateICmpSLE(f_.b.CreateAdd(start, width), arguments_.dim(line_.extent)));
      place = f_.branch(inside, there, [&] { return surrounded(input, start, width, result); });
    }
    result.a = place[0];
    result.steps.assign(place.begin() + 1, place.end());
    if (!joined) {
      result.counts.push_back(arguments_.dim(line_.taps));
      result.steps.push_back(is_sparse(line_) ? f_.b.CreateMul(rows, channels_)
                                              : f_.b.CreateMul(f_.i64(line_.dilation), pitch_));
    }
    return result;
  }

  /// Working memory of this worker; a worker's part is as long as the launch says.
  llvm::Value* copy() {
    llvm::Value* rows = f_.i64(most_rows(kernel_, f_.isa));
    llvm::Value* taps = arguments_.dim(line_.taps);
    llvm::Value* elements = nullptr;
    if (is_sparse(line_)) {
      elements = f_.b.CreateMul(f_.b.CreateMul(rows, taps), channels_);
    } else {
      elements = f_.b.CreateMul(span(rows), pitch_);
    }
    for (std::size_t i = 0; i + 1 < kernel_.windows.size(); ++i)
      elements = f_.b.CreateMul(elements, arguments_.dim(kernel_.windows[i].taps));
    llvm::Value* bytes = in_bytes(elements);
    bytes = f_.b.CreateAnd(f_.b.CreateAdd(bytes, f_.i64(63)), f_.i64(-64));
    return f_.element(f_.b.getInt8Ty(), arguments_.scratch(),
                      f_.b.CreateMul(f_.argument(3), bytes));
  }

  /// The inputs of a line from the first to the last that the windows of `rows` neighbours read.
  llvm::Value* span(llvm::Value* rows) {
    llvm::Value* taps = arguments_.dim(line_.taps);
    return f_.b.CreateAdd(
        f_.b.CreateAdd(f_.b.CreateMul(f_.b.CreateSub(rows, f_.i64(1)), f_.i64(line_.stride)),
                       f_.b.CreateMul(f_.b.CreateSub(taps, f_.i64(1)), f_.i64(line_.dilation))),
        f_.i64(1));
  }

  llvm::Value* in_bytes(llvm::Value* elements) {
    return f_.b.CreateMul(elements, f_.i64(kernel_.product_dtype.size_in_bytes()));
  }

  void clear(llvm::Value* target, llvm::Value* elements) {
    f_.b.CreateMemSet(target, f_.b.getInt8(0), in_bytes(elements), align_);
  }

  void move(llvm::Value* target, llvm::Value* source, llvm::Value* elements) {
    f_.b.CreateMemCpy(target, align_, source, align_, in_bytes(elements));
  }

  /// Calls `line` for each outer tap with the input under it and its part of the copy, of `size`
  /// elements. Returns the copy and the distances that the outer taps have in it.
  Values copied(llvm::Value* input, llvm::Value* size, const MatmulOperands::Stretches& outer,
                const std::function<void(llvm::Value* source, llvm::Value* target)>& line) {
    Values result = {copy()};
    const std::function<void(std::size_t, llvm::Value*, llvm::Value*)> lines =
        [&](std::size_t level, llvm::Value* source, llvm::Value* number) {
          if (level == outer.counts.size())
            return line(source, f_.element(element_, result[0], f_.b.CreateMul(number, size)));
          f_.loop(f_.i64(0), outer.counts[level], f_.i64(1), [&](llvm::Value* tap) {
            lines(level + 1, f_.element(element_, source, f_.b.CreateMul(tap, outer.steps[level])),
                  f_.b.CreateAdd(f_.b.CreateMul(number, outer.counts[level]), tap));
          });
        };
    lines(0, input, f_.i64(0));
    for (std::size_t level = 0; level < outer.counts.size(); ++level) {
      llvm::Value* step = size;
      for (std::size_t inner = level + 1; inner < outer.counts.size(); ++inner)
        step = f_.b.CreateMul(step, outer.counts[inner]);
      result.push_back(step);
    }
    return result;
  }

  /// The `width` inputs from `start` on; those outside are zeros.
  Values surrounded(llvm::Value* input, llvm::Value* start, llvm::Value* width,
                    const MatmulOperands::Stretches& outer) {
    const auto clamp = [&](llvm::Value* x, llvm::Value* low, llvm::Value* high) {
      x = f_.b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, x, low);
      return f_.b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, x, high);
    };
    // Inputs [from, to) exist.
    llvm::Value* from = clamp(f_.b.CreateNeg(start), f_.i64(0), width);
    llvm::Value* to = clamp(f_.b.CreateSub(arguments_.dim(line_.extent), start), from, width);
    const auto inputs = [&](llvm::Value* count) { return f_.b.CreateMul(count, pitch_); };
    return copied(input, inputs(width), outer, [&](llvm::Value* source, llvm::Value* target) {
      clear(target, inputs(from));
      clear(f_.element(element_, target, inputs(to)), inputs(f_.b.CreateSub(width, to)));
      // The last input ends with the channels that are read, not where the next one would begin.
      f_.when(f_.b.CreateICmpSLT(from, to), [&] {
        llvm::Value* others = f_.b.CreateSub(f_.b.CreateSub(to, from), f_.i64(1));
        move(f_.element(element_, target, inputs(from)),
             f_.element(element_, source, inputs(f_.b.CreateAdd(start, from))),
             f_.b.CreateAdd(inputs(others), channels_));
      });
    });
  }

  /// What each tap of a line reads for each of `rows` neighbours, one after the other.
  Values gathered(llvm::Value* input, llvm::Value* start, llvm::Value* rows,
                  const MatmulOperands::Stretches& outer) {
    llvm::Value* taps = arguments_.dim(line_.taps);
    llvm::Value* size = f_.b.CreateMul(f_.b.CreateMul(taps, rows), channels_);
    return copied(input, size, outer, [&](llvm::Value* source, llvm::Value* target) {
      f_.loop(f_.i64(0), taps, f_.i64(1), [&](llvm::Value* tap) {
        f_.loop(f_.i64(0), rows, f_.i64(1), [&](llvm::Value* row) {
          llvm::Value* at =
              f_.b.CreateAdd(f_.b.CreateAdd(start, f_.b.CreateMul(row, f_.i64(line_.stride))),
                             f_.b.CreateMul(tap, f_.i64(line_.dilation)));
          llvm::Value* to =
              f_.element(element_, target,
                         f_.b.CreateMul(f_.b.CreateAdd(f_.b.CreateMul(tap, rows), row), channels_));
          f_.branch(
              f_.b.CreateICmpULT(at, arguments_.dim(line_.extent)),
              [&] {
                move(to, f_.element(element_, source, f_.b.CreateMul(at, pitch_)), channels_);
                return Values{};
              },
              [&] {
                clear(to, channels_);
                return Values{};
              });
        });
      });
    });
  }

  FunctionBuilder& f_;
  const Kernel& kernel_;
  const Program& program_;
  KernelArguments arguments_;
  ExpressionEmitter e_;
  const Window& line_;
  llvm::Type* element_;
  const llvm::Align align_;
  llvm::Value* channels_;
  llvm::Value* pitch_;
};

}  // namespace

void emit_convolution(FunctionBuilder& f, const Kernel& kernel, const Program& program) {
  ConvolutionEmitter(f, kernel, program).run();
}

KernelLaunch launch_of_convolution(const Kernel& kernel, const Isa& isa) {
  KernelLaunch launch;
  for (std::size_t k = 0; k + 2 < kernel.axes.size(); ++k) launch.units.push_back(kernel.extent(k));
  launch.product = {kernel.extent(kernel.axes.size() - 2), kernel.extent(kernel.axes.size() - 1)};
  launch.unit_length = product_depth(kernel);
  launch.unit_cost = tile_rows(isa, kernel.product_dtype) * isa.matmul_vectors * 4;
  launch.has_scratch = !kernel.windows.back().inside;
  if (launch.has_scratch) {
    const Window& line = kernel.windows.back();
    const Dim rows = most_rows(kernel, isa);
    Dim elements =
        is_sparse(line)
            ? rows * line.taps * kernel.arena->extent(kernel.reduced_axis)
            : ((rows - 1) * Dim(line.stride) + (line.taps - 1) * Dim(line.dilation) + 1) *
                  line.step;
    for (std::size_t i = 0; i + 1 < kernel.windows.size(); ++i)
      elements = elements * kernel.windows[i].taps;
    launch.scratch_bytes =
        (elements * kernel.product_dtype.size_in_bytes() + 63).floor_div(64) * 64;
  }
  return launch;
}

}  // namespace kiln::compiler
