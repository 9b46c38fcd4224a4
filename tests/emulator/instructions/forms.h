#pragma once

// Runs single instructions over arrays of inputs and compares with references. A form is the text
// of the instruction with places for its registers:
//
//   {.text = "add.sat.s32 {d}, {a}, {b};", .inputs = {Type::s32, Type::s32}, .output = Type::s32,
//    .reference = …}
//
// Each becomes a kernel of its own in one module. Values travel in slots of 64 bits, low bits
// first. Texts may use what the kernel declares besides: predicates %p0…%p3, registers %x0…%x3
// (32 bits) and %y0…%y3 (64 bits), and 16 bytes of memory for each thread: %global and %shared
// (addresses in their space, 64 and 32 bits), %local (64 bits) and %generic (of the global ones).

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kiln::emulator_test {

enum class Type {
  pred,
  b8,
  s16,
  u16,
  b16,
  s32,
  u32,
  b32,
  s64,
  u64,
  b64,
  f16,
  bf16,
  f16x2,
  bf16x2,
  f32,
  f64,
};

/// Bits of a register of this type.
int width(Type type);

using Inputs = std::span<const std::uint64_t>;
/// The bits of the result; none where PTX leaves it open. Bits above the width are ignored.
using Reference = std::function<std::optional<std::uint64_t>(Inputs)>;
/// Whether a result is near enough, for instructions that PTX defines by an error bound.
using Acceptance = std::function<bool(Inputs, std::uint64_t)>;
/// One warp: inputs of lane i at i, results into `results`.
using WarpReference = std::function<void(std::span<const std::vector<std::uint64_t>> lanes,
                                         std::span<std::optional<std::uint64_t>> results)>;

struct Form {
  std::string text;
  std::vector<Type> inputs;
  Type output = Type::b32;
  Reference reference = {};
  Acceptance acceptance = {};
  WarpReference warp = {};
  /// A NaN must have the bits of the reference; else any NaN will do.
  bool exact_nan = false;
  /// The operands that change nothing, as bits: 2 for {b}.
  unsigned ignored = 0;
  /// Values of an input that replace those of its type, such as widths of shifts.
  std::array<std::vector<std::uint64_t>, 4> choices = {};
};

/// Runs every form and reports each wrong result through GoogleTest.
void expect_forms(const std::vector<Form>& forms);

/// For each form and each operand: the same text with that operand taken from another element must
/// give a result that the reference refuses.
void expect_mutations_found(const std::vector<Form>& forms);

/// The text with {d}, {a}, … as they stand in `values`, and <name> replaced: a way to write tables.
std::string replaced(std::string text, const std::string& from, const std::string& to);

}  // namespace kiln::emulator_test
