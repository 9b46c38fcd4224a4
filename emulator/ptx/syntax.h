#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace kiln::emulator::ptx {

/// A fundamental type of PTX, such as .u32 or .f16x2.
struct Type {
  enum class Kind : std::uint8_t {
    none,
    bits,
    unsigned_integer,
    signed_integer,
    real,
    bfloat,
    pred
  };
  Kind kind = Kind::none;
  std::uint8_t bits = 0;   // of one lane; 1 for predicates
  std::uint8_t lanes = 1;  // 2: packed
  constexpr unsigned width() const { return unsigned{bits} * lanes; }
  constexpr unsigned bytes() const { return (width() + 7) / 8; }
  constexpr bool is_signed() const { return kind == Kind::signed_integer; }
  constexpr bool is_integer() const {
    return kind == Kind::bits || kind == Kind::unsigned_integer || kind == Kind::signed_integer;
  }
  constexpr bool is_real() const { return kind == Kind::real || kind == Kind::bfloat; }
  friend constexpr bool operator==(const Type&, const Type&) = default;
};

/// The type of a word such as ".u32"; Kind::none when it names none of the types of registers.
Type type_of(std::string_view word);

enum class Space : std::uint8_t { none, reg, global, constant, shared, local, param };

/// An operand as it is written. Names are resolved by the translation.
struct Operand {
  enum class Kind : std::uint8_t {
    name,     // a register, variable, label, function or special register; `value` is added to it
    integer,  // `value`
    real,     // `value` holds the bits, of a float when `single`, else of a double
    address,  // [name + value], or [value] when there is no name
    vector,   // {a, b, ...}
    pair,     // a|b
    list,     // (a, b, ...) of a call
    nowhere,  // _
  };
  Kind kind = Kind::integer;
  bool negated = false;  // !p, -r
  bool single = false;
  bool is_unsigned = false;
  std::string_view name;
  std::int64_t value = 0;
  std::vector<Operand> elements;
};

struct Instruction {
  std::uint32_t line = 0;
  bool negated = false;        // @!p
  std::string_view predicate;  // empty: always
  std::string_view opcode;
  std::vector<std::string_view> modifiers;  // each with its point
  std::vector<Operand> operands;
  std::string_view text;  // of the whole statement
};

/// What stands behind "=" of a variable, flattened.
struct Initial {
  enum class Kind : std::uint8_t { integer, real, symbol };
  Kind kind = Kind::integer;
  bool single = false;
  std::int64_t value = 0;  // or what is added to the symbol
  std::string_view symbol;
  std::uint64_t index = 0;  // of the element
};

/// A variable, a parameter or registers.
struct Declaration {
  std::uint32_t line = 0;
  Space space = Space::none;
  Type type;
  std::string_view name;
  std::uint32_t alignment = 0;  // 0: that of the type
  std::uint64_t elements = 1;   // of arrays; 0 when the size is open: x[]
  std::uint32_t numbered = 0;   // registers name0 ... name<numbered - 1>; 0: one of that name
  bool is_array = false;
  bool is_extern = false;
  bool is_visible = false;
  bool is_weak = false;
  std::vector<Initial> initial;
  std::uint64_t bytes() const { return elements * type.bytes(); }
};

struct Label {
  std::string_view name;
  std::uint32_t line = 0;
};
struct Scope {
  bool opens = false;
};
/// .loc file line column
struct Location {
  std::uint32_t file = 0, line = 0;
};
struct BranchTargets {
  std::string_view name;
  std::vector<std::string_view> labels;
};
/// The shape of functions that an indirect call may reach.
struct Prototype {
  std::string_view name;
  std::vector<Declaration> results, parameters;
};

using Statement =
    std::variant<Instruction, Label, Declaration, Scope, Location, BranchTargets, Prototype>;

struct Function {
  std::uint32_t line = 0;
  bool is_entry = false;
  bool is_extern = false;
  bool is_weak = false;
  bool is_visible = false;
  bool has_body = false;
  bool no_return = false;
  std::string_view name;
  std::vector<Declaration> results, parameters;
  std::uint32_t max_threads[3] = {0, 0, 0};       // .maxntid
  std::uint32_t required_threads[3] = {0, 0, 0};  // .reqntid
  std::uint32_t min_blocks = 0;                   // .minnctapersm
  std::uint32_t required_cluster = 0;             // blocks that .reqnctapercluster asks for
  std::vector<Statement> body;
};

/// A text and what it says. Names point into the text.
struct Module {
  std::string text;
  std::uint32_t version = 0;  // 10 * major + minor
  std::uint32_t target = 0;   // 90 of sm_90
  std::vector<Declaration> variables;
  std::vector<Function> functions;
  std::vector<std::string> files;  // by number of .file
};

}  // namespace kiln::emulator::ptx
