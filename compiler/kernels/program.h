#pragma once

// A graph on its way to code: tensors in memory, kernels that read and write them, and the steps of
// the host function that runs the kernels.

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/kernels/expr.h"
#include "kiln/graph/ir.h"

namespace kiln::compiler {

/// A dense block of memory with elements of one type.
struct Tensor {
  enum class Storage { input, weight, constant, temporary, output, prepared };
  Storage storage = Storage::temporary;
  DType dtype = DType::float32;
  /// Extents in the order of the graph's value, and the order in which they lie in memory.
  std::vector<Dim> shape;
  std::vector<int> layout;
  /// Number of the input, weight, output or prepared slot; offset of a constant in its section.
  std::int64_t number = 0;
  /// Elements, when that is not the product of the shape (padded panels).
  std::optional<Dim> elements;
  /// A temporary whose size depends on data: it is allocated when it is first written.
  bool sized_by_data = false;
  /// Several kernels store to it one after the other, so it is made anew in each call.
  bool many_writers = false;
  /// The op that makes it, for failures; null for inputs.
  const graph::ir::Op* origin = nullptr;

  /// Steps between neighbours along each axis, in elements.
  std::vector<Dim> strides() const;
  Dim num_elements() const;
};

/// What a kernel stores: `value` at element `index` of `tensor`, for every point of its axes.
struct Store {
  int tensor = -1;
  Index index;
  const Expr* value = nullptr;
};

/// Where an operand of a matrix product lies: element (batch…, row, column) = offset of `tensor`.
struct MatrixOperand {
  int tensor = -1;
  Index index;  // over the kernel's axes and, for the reduced one, `reduced_axis`
};

/// How a convolution or pooling walks one spatial axis of its input: position i of the result reads
/// input i · stride − before + t · dilation for each tap t; what lies outside of the input does not
/// count.
struct Window {
  Dim taps;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  Dim before = 0;
  Dim extent;           // of the input
  bool inside = false;  // nothing is read outside of the input
  Dim step = 0;         // between neighbours in the input, in elements
  Dim filter_step = 0;  // between taps of a filter that is not packed
};

/// One loop nest.
struct Kernel {
  enum class Kind {
    loops,      // every store at every point of `axes`
    rows,       // the same, and reductions along the last axis run row by row
    matmul,     // accumulator = Σ lhs · packed rhs; axes are batch…, row, column
    windows,    // accumulator = a window of the input, reduced; axes are batch, spatial…, column
    pack,       // lays out a right operand in panels: axes are batch…, reduced, column
    attention,  // softmax(query · keyᵀ · scale + bias) · value; axes are batch…, row, column
  };
  Kind kind = Kind::loops;
  std::shared_ptr<Arena> arena = std::make_shared<Arena>();
  std::vector<int> axes;
  /// Points are visited one after another, in order, since several may store to one element.
  bool sequential = false;
  std::vector<Store> stores;
  std::string name;                              // says what was fused, "matmul_add_gelu"
  std::vector<const graph::ir::Op*> ops;         // in program order
  std::vector<const graph::ir::Op*> nan_origin;  // filled for nan_check

  // matmul, pack and attention
  int reduced_axis = -1;
  DType product_dtype = DType::float32;
  // matmul: left operand, packed right operand (its index is the batch part only).
  // attention: query over (batch…, row, reduced), key over (batch…, key, reduced), value over
  // (batch…, key, column).
  std::vector<MatrixOperand> operands;
  // A matmul with windows is a convolution: axes are group…, batch, spatial…, column, the left
  // operand is the input's first position, and what is reduced are taps and `reduced_axis`. Of
  // windows, the operands are the input and, to be multiplied with it, a filter.
  std::vector<Window> windows;
  Reduction reduction = Reduction::sum;
  // Of windows with a filter: so many channels make so many columns, side by side in a group.
  std::int64_t group_channels = 1;
  std::int64_t group_columns = 1;
  Dim filter_step = 0;  // between channels of the filter, in elements
  int key_axis = -1;
  const Expr* score = nullptr;  // attention: what goes into the softmax, from the accumulator

  const Dim& extent(std::size_t i) const { return arena->extent(axes[i]); }
};

/// The rows of a product's right operand.
Dim product_depth(const Kernel& kernel);

struct Step;

/// A condition on extents that the host function checks: left relation right. `fits` looks at left
/// alone: working it out does not leave 64 bits.
struct Check {
  enum class Relation { equal, different, at_least, at_most, divides, fits };
  Dim left;
  Relation relation = Relation::equal;
  Dim right;
  std::string sentence;  // {0}, {1}, … are `values`, {0u} the same as an unsigned number
  std::vector<Dim> values;
  const graph::ir::Op* origin = nullptr;
  bool is_runtime_error = false;  // else a ValueError
};

/// Gives a symbol its value, from extents that are known by then.
struct Define {
  std::string symbol;
  Dim value;
  bool is_size = false;  // a negative value counts as 0
};

/// Gives a symbol the value of an integer tensor of one element.
struct ReadScalar {
  std::string symbol;
  int tensor = -1;
};
/// Gives `symbol` the value of `given`, plus `size` when that is negative: it then counts from the
/// end of an axis of that size.
struct WrapIndex {
  std::string symbol;
  Dim given;
  Dim size;
};

/// Runs one of two lists of steps, each of which writes `results` and gives `symbols` their values.
struct Condition {
  int predicate = -1;  // a bool tensor of one element
  std::vector<Step> then_steps;
  std::vector<Step> else_steps;
  std::vector<int> results;
  std::vector<std::string> symbols;  // of the sizes of results; known behind it
  const graph::ir::Op* origin = nullptr;
};

/// Runs `test`, and while its tensor is true `body` and `test` again.
struct Loop {
  std::vector<Step> test;
  int predicate = -1;
  std::vector<Step> body;
  const graph::ir::Op* origin = nullptr;
};

/// Prints a tensor, or a text when `tensor` is -1.
struct Print {
  std::string label;
  std::string text;
  int tensor = -1;
  const graph::ir::Op* origin = nullptr;
};

/// Calls a function of the runtime that works on dense tensors.
struct LibraryCall {
  struct Argument {
    enum class Kind {
      tensor,   // a pointer to its elements
      extents,  // a pointer to the extents of a tensor
      size,     // an int64
      number,   // an int32
      real,     // a double
      failure,  // a KilnFailure with `sentence`, a ValueError of the op
    };
    Kind kind;
    int tensor = -1;
    Dim size = 0;
    std::int32_t number = 0;
    double real = 0;
    std::string sentence = {};

    static Argument of(int tensor) { return {.kind = Kind::tensor, .tensor = tensor}; }
    static Argument extents_of(int tensor) { return {.kind = Kind::extents, .tensor = tensor}; }
    static Argument of(Dim size) { return {.kind = Kind::size, .size = std::move(size)}; }
    static Argument of_number(std::int32_t n) { return {.kind = Kind::number, .number = n}; }
    static Argument of_real(double x) { return {.kind = Kind::real, .real = x}; }
    static Argument failure(std::string sentence) {
      return {.kind = Kind::failure, .sentence = std::move(sentence)};
    }
  };
  std::size_t function = 0;         // where its pointer lies in KilnRuntime
  std::vector<Argument> arguments;  // behind the KilnCall
  std::set<int> writes;             // of the tensors among the arguments; the others are read
  const graph::ir::Op* origin = nullptr;
};

/// One step of the host function: exactly one member is set.
struct Step {
  std::unique_ptr<Kernel> kernel;
  std::unique_ptr<Check> check;
  std::unique_ptr<Define> define;
  std::unique_ptr<ReadScalar> read;
  std::unique_ptr<WrapIndex> wrap;
  std::unique_ptr<Condition> condition;
  std::unique_ptr<Loop> loop;
  std::unique_ptr<Print> print;
  std::unique_ptr<LibraryCall> call;

  bool empty() const {
    return !kernel && !check && !define && !read && !wrap && !condition && !loop && !print && !call;
  }
};

/// Calls `visit` for every step, those inside others after them.
template <typename Steps, typename Visit>
void for_each_step(Steps& steps, const Visit& visit) {
  for (auto& step : steps) {
    visit(step);
    if (step.condition) {
      for_each_step(step.condition->then_steps, visit);
      for_each_step(step.condition->else_steps, visit);
    }
    if (step.loop) {
      for_each_step(step.loop->test, visit);
      for_each_step(step.loop->body, visit);
    }
  }
}

/// The tensors that a step reads and writes, with those of the steps inside it.
struct Accesses {
  std::set<int> reads;
  std::set<int> writes;
};
Accesses accesses_of(const Step& step);

/// The loads of a kernel, those in positions included.
std::vector<const Expr*> loads_of(const Kernel& kernel);

/// Whether working out what or where a kernel stores may end the call.
bool may_fail(const Store& store);

/// A weight that is declared with two types: RuntimeError naming both.
void check_same_weight(const std::string& name, DType dtype, const graph::Shape& shape,
                       DType other_dtype, const graph::Shape& other_shape);

struct Program {
  const graph::ir::Graph* graph = nullptr;
  std::vector<Tensor> tensors;
  std::vector<Step> init;  // depends on weights and constants alone
  std::vector<Step> run;
  std::vector<std::string> weights;  // names, by number
  std::vector<graph::Type> results;  // as the user's graph declares them
  std::int64_t prepared_slots = 0;
};

}  // namespace kiln::compiler
