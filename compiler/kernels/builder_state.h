#pragma once

// The state that build_program works with. Its methods are in the files named build_*.cpp,
// roots.cpp and values.cpp of this folder.

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/kernels/builder.h"
#include "compiler/kernels/op_traits.h"
#include "compiler/passes/passes.h"

namespace kiln::compiler {

namespace ir = graph::ir;

/// Where an element lies in a value: one index an axis.
using Position = std::vector<Index>;

class Builder {
 public:
  Builder(const ir::Graph& graph, const Isa& isa, ConstantPool& constants, bool nan_check)
      : isa_(isa), constants_(constants), nan_check_(nan_check) {
    program_.graph = &graph;
  }
  Program build();

 private:
  struct Bounds {
    graph::Shape starts;
    graph::Shape stops;
    graph::Shape steps;
  };

  // --- Which values are stored. ---

  void find_users(const ir::Block& block);
  void find_roots(const ir::Block& body);
  void decide(const ir::Value* value);
  static bool moves_channels(const ir::Op& permute);
  /// Notes that a value comes out of a convolution or pooling, or of elementwise work behind one.
  void find_convolved(const ir::Op& op);
  /// Whether such a value is read with its channels elsewhere. It is stored as it is made and
  /// turned afterwards: that is cheaper than to store each element apart.
  bool is_turned_convolution(const ir::Value* value);
  /// Stores a value behind which a long chain is computed without storing any.
  void limit_chain(const ir::Value* value);
  /// How many kernels read an operand of `user`.
  int reads_through(const ir::Op& user);
  /// Whether a call surely computes every element of the value. Known once the roots are.
  bool is_read_whole(const ir::Value* value);
  /// The value whose memory a chain of views shows.
  static const ir::Value* base_of(const ir::Value* value);
  /// The operand of a slice that is data, not a bound.
  static const ir::Value* sliced_operand(const ir::Op& op);
  /// Stores the very value, for steps that read it where it lies.
  void require_itself(const ir::Value* value);
  void require(const ir::Value* value);
  /// Whether more than a few ops lie between a value and what is stored.
  static bool is_dear(const ir::Value* value);
  void require_operands(const ir::Op& op);
  // --- Tensors. ---

  int new_tensor(Tensor::Storage storage, const graph::ShapedType& type, std::int64_t number = 0);
  Tensor& tensor(int id) { return program_.tensors[static_cast<std::size_t>(id)]; }
  /// Where the element at a position lies in a tensor.
  Index linear(Arena& arena, int id, const Position& at);
  bool is_constant(int id);
  // --- The value of an element. ---

  /// The element of `value` at `at`, read from memory when it lies there.
  const Expr* at(Arena& arena, const ir::Value* value, const Position& position);
  /// The positions at which an elementwise op reads an operand.
  static Position broadcast(const ir::Value* operand, const Position& position);
  const Expr* operand_at(Arena& arena, const ir::Op& op, std::size_t i, const Position& position);
  /// The element of a value that is not in memory, from its op.
  const Expr* computed(Arena& arena, const ir::Value* value, const Position& position);
  const Expr* at_tensor(Arena& arena, const ir::Value* value, int id, const Position& position);
  const Expr* constant(Arena& arena, const ir::Value* value, const Position& position);
  int weight(const ir::Op& op);
  /// The elements of random ops; random.cpp.
  const Expr* seed(Arena& arena, const ir::Op& op);
  const Expr* random(Arena& arena, const ir::Op& op, const Position& position);
  const Expr* random_uniform(Arena& arena, const ir::Op& op, const Expr* element);
  const Expr* random_normal(Arena& arena, const ir::Op& op, const Expr* element);
  const Expr* range(Arena& arena, const ir::Op& op, DType dtype, const Position& position);
  /// Where a slice reads, or a sliced store writes.
  Position sliced(Arena& arena, const ir::Op& op, const Position& position);
  /// Positions in `from` of the elements of its reshape `to`: axes are matched in groups of equal
  /// products, so that only what was really regrouped becomes division.
  static Position reshape(Arena& arena, const graph::Shape& from, const graph::Shape& to,
                          const Position& position);
  static Dim product(const graph::Shape& shape, std::size_t begin, std::size_t end);
  // --- Kernels. ---

  void note(const ir::Op& op);
  std::unique_ptr<Kernel> new_kernel(Kernel::Kind kind);
  /// Axes for every dim of `shape`, appended to the kernel, and the position they stand for.
  static Position add_axes(Kernel& kernel, const graph::Shape& shape);
  /// Whether kernels read nothing but weights and constants and make values of their own, so that
  /// they can run once.
  bool may_run_once(const std::vector<std::unique_ptr<Kernel>>& kernels);
  void emit(std::unique_ptr<Kernel> kernel);
  /// Kernels that fill one tensor together: all of them run once, or none.
  void emit_together(std::vector<std::unique_ptr<Kernel>> kernels);
  /// A kernel that stores `value` (computed by its op, or read where it lies) in tensor `id`; `by`
  /// is the op that wants it there when that is not the one that makes the value.
  void store_value(const ir::Value* value, int id, const ir::Op* by = nullptr);
  int new_root(const ir::Value* value);
  /// A value that is only ever read permuted is stored permuted.
  std::vector<int> layout_of(const ir::Value* value);
  void build_op(const ir::Op& op);
  void build_root(const ir::Op& op, const ir::Value* value);
  void build_reduction(const ir::Op& op, const ir::Value* value, int id);
  void build_concat(const ir::Op& op, const ir::Value* value, int id);
  void build_pad(const ir::Op& op, const ir::Value* value, int id);
  // --- Matrix products. ---

  /// Where a value lies, seen as a matrix with unit steps along its last axis; nullopt otherwise.
  std::optional<MatrixOperand> as_matrix(Arena& arena, const ir::Value* value,
                                         const Position& position, int unit_axis);
  void build_matmul(const ir::Op& op, const ir::Value* value, int id);
  static Position broadcast(const ir::Value*, const Position& position, const graph::Shape& shape);
  /// `value` as an operand with unit steps along `unit`; copied first when it does not lie so.
  MatrixOperand matrix_operand(Arena& arena, const ir::Value* value, const Position& position,
                               int unit, std::size_t unit_position);
  void build_attention(const ir::Op& op, const ir::Value* value, int id);
  int panel_width(DType dtype) const;
  Dim panel_elements(const graph::Shape& rhs, DType dtype) const;
  int pack(const ir::Value* rhs);
  /// A tensor with the panels of matrices: `shape` is batch…, reduced, column.
  int pack(const graph::Shape& shape, DType dtype,
           const std::function<const Expr*(Arena&, const Position&)>& element);
  // --- Convolutions and pooling. ---

  /// A product over windows, for a convolution or a part of one.
  struct WindowProduct {
    int result = -1;
    std::vector<Window> windows;
    graph::Shape lines;  // spatial extents of what is computed
    Dim groups = 1;
    Dim channels;  // of a group, in the input …
    Dim columns;   // … and in the result
    std::function<const Expr*(Arena&, const Index& group, const std::vector<Index>& taps,
                              const Index& channel, const Index& column)>
        filter;
    /// Where the result of a position (batch, spatial…, column) belongs.
    std::function<Position(Arena&, const Position&)> place;
  };
  void build_product_of_windows(const ir::Op& op, const WindowProduct& product);
  /// Makes `value` the first operand of a kernel that has windows, and fills in their steps.
  void read_windows(Kernel& kernel, const ir::Value* value, const Index& batch,
                    const Index& channel, int unit);
  void build_convolution(const ir::Op& op, const ir::Value* value, int id);
  /// Whether the groups of a convolution are too small for products of matrices.
  bool are_small(const WindowProduct& product, const graph::TensorType& type) const;
  void build_small_groups(const ir::Op& op, const ir::Value* value, int id,
                          const WindowProduct& product);
  void build_transposed_convolution(const ir::Op& op, const ir::Value* value, int id);
  void build_pool(const ir::Op& op, const ir::Value* value, int id);
  /// How many taps of the window at a position lie inside the input.
  static const Expr* taps_inside(Arena& arena, const Window& window, const Index& at);
  // --- Extents that are known only at run time. ---

  /// Checks that no division in `dim` is by 0, each divisor once a block of steps.
  void check_divisors(const ir::Op& op, const Dim& dim);
  void check(const ir::Op& op, const Dim& left, Check::Relation relation, const Dim& right,
             std::string sentence, std::vector<Dim> values);
  /// With `size`, a negative value counts as 0.
  void define(const std::string& symbol, const Dim& value, bool size = false);
  /// Defines the size of a range that may be empty.
  void define_length(const ir::Op& op);
  bool is_known(const Dim& dim);
  /// The value of a scalar tensor as a new symbol.
  Dim read_scalar(const ir::Value* value);
  Dim read_scalar(int tensor);
  /// The value of a scalar tensor that counts from either end of an axis: as given, and from the
  /// start.
  struct ReadIndex {
    Dim given;
    Dim from_start;
    std::string shown;  // how a sentence shows value 0
  };
  ReadIndex read_index(const ir::Value* value, const Dim& size);
  /// Whether axis `axis` of a slice is dropped afterwards: the user gave an index, not a slice.
  bool picks(const ir::Op& slice, std::size_t axis);
  /// The tensor in which a value lies; leaves get one now.
  int stored(const ir::Value* value);
  /// Defines or checks the dims of a result that the operands do not settle.
  void settle(const ir::Op& op, const Dim& declared, const Dim& actual, const std::string& sentence,
              std::vector<Dim> values);
  void check_extents(const ir::Op& op);
  /// Checks that the sizes of the results that operands do not have are sizes.
  void check_sizes(const ir::Op& op);
  void check_rebind(const ir::Op& op);
  void check_slice(const ir::Op& op);
  void check_broadcast(const ir::Op& op);
  /// Element `i` of a vector, as a symbol.
  Dim read_element(const ir::Op& op, const ir::Value* vector, std::size_t i);
  void check_range(const ir::Op& op);
  void check_random(const ir::Op& op);
  // --- Side effects and control flow. ---

  void build_scatter(const ir::Op& op, int id);
  void build_top_k(const ir::Op& op);
  void build_cumsum(const ir::Op& op);
  void build_nonzero(const ir::Op& op);
  /// The places in the input that a repeat_interleave reads, one an element of its axis.
  void build_repeats(const ir::Op& op);
  void build_dequantize(const ir::Op& op);
  void build_qmatmul(const ir::Op& op);
  void build_irfft(const ir::Op& op);
  void build_roi_align(const ir::Op& op);
  void build_suppression(const ir::Op& op);
  // --- Functions of the runtime. ---

  /// A dense tensor for a result of an op.
  int new_result(const ir::Value* value);
  /// A number that a kernel or a function of the runtime works out.
  int new_cell(const ir::Op& op, DType dtype);
  /// `value` as a dense tensor of another dtype.
  int stored_as(const ir::Value* value, DType dtype);
  /// With `may_run_once`, what depends on weights and constants alone is worked out once. That is
  /// not for functions that fail, or that count on a check of this call.
  void call(const ir::Op& op, std::size_t function, std::vector<LibraryCall::Argument> arguments,
            std::set<int> writes, bool may_run_once = false);
  /// Checks all indices of a gather, for those that no kernel comes across.
  void check_indices(const ir::Op& op);
  void build_store_slice(const ir::Op& op);
  void build_print(const ir::Op& op);
  /// Ends the call when a stored value has NaN or infinite elements.
  /// Whether results of the op are checked for NaN and infinity. What an op of the user's was made
  /// of is not, but for the last of it.
  bool checks_numbers(const ir::Op& op) const {
    return nan_check_ && (!op.has_attribute(kExpandedFrom) || op.has_attribute(kExpansionResult));
  }
  void check_numbers(const ir::Op& op, const ir::Value* value);
  std::vector<const ir::Value*> yielded(const ir::Block& region);
  /// Builds the ops of a region into `steps`.
  void build_region(const ir::Block& region, std::vector<Step>& steps,
                    const std::function<void()>& finish);
  void build_cond(const ir::Op& op);
  void build_while(const ir::Op& op);
  void copy(const ir::Op& op, int from, int to);

  const Isa& isa_;
  ConstantPool& constants_;
  const bool nan_check_;
  Program program_;
  std::vector<Step>* steps_ = nullptr;
  std::set<std::string> known_symbols_;
  std::set<std::string> checked_divisors_;
  std::unordered_map<const ir::Op*, Bounds> bounds_;
  std::unordered_map<const ir::Op*, int> repeats_;
  std::set<std::string> sizes_;  // dims that are known to be sizes
  int scalars_ = 0;
  const ir::Op* current_ = nullptr;
  Kernel* kernel_ = nullptr;
  std::unordered_map<const ir::Value*, std::vector<const ir::Op*>> users_;
  std::unordered_map<const ir::Value*, int> reads_;
  std::set<const ir::Value*> roots_;
  // Code of the values behind one up to the next root.
  std::unordered_map<const ir::Value*, std::size_t> chains_;
  std::unordered_map<const ir::Value*, bool> read_whole_;
  std::set<const ir::Value*> convolved_;
  std::unordered_map<const ir::Value*, int> tensor_of_;
  std::unordered_map<const ir::Value*, int> packed_;
};

}  // namespace kiln::compiler
