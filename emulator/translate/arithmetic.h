#pragma once

#include <array>

#include "emulator/translate/forms.h"

namespace kiln::emulator::forms {

/// The modifiers of arithmetic, as flags.
enum Flag : std::uint32_t {
  kRn = 1 << 0,
  kRz = 1 << 1,
  kRm = 1 << 2,
  kRp = 1 << 3,
  kFtz = 1 << 4,
  kSat = 1 << 5,
  kLo = 1 << 6,
  kHi = 1 << 7,
  kWide = 1 << 8,
  kCarry = 1 << 9,  // .cc
  kNan = 1 << 10,
  kXorSign = 1 << 11,
  kAbs = 1 << 12,
  kApprox = 1 << 13,
  kFull = 1 << 14,
  kRelu = 1 << 15,
  kShiftAmount = 1 << 16,
  kWrap = 1 << 17,
  kClamp = 1 << 18,
  kLeft = 1 << 19,
  kRight = 1 << 20,
  kDirected = kRz | kRm | kRp,
  kRounding = kRn | kDirected,
};

struct Arithmetic {
  std::uint32_t flags = 0;
  ptx::Type type;   // the last one
  ptx::Type first;  // when there are two: dp4a.u32.s32
  bool has(std::uint32_t flag) const { return (flags & flag) != 0; }
};

/// Reads flags and types; refuses a flag that is not in `allowed`, a second rounding mode, and a
/// count of operands that differs.
Arithmetic parse_arithmetic(FunctionTranslator& f, Modifiers modifiers, std::uint32_t allowed,
                            std::size_t operands, unsigned types = 1);
/// As above, without looking at `allowed`, for instructions whose type decides what is allowed.
Arithmetic peek_arithmetic(FunctionTranslator& f, Modifiers modifiers);

// Arithmetic of real numbers, one file each for f32 and f64, and for halves.

enum class RealOp : std::uint8_t { add, sub, mul, fma, div, sqrt, rcp };

void real_arithmetic(FunctionTranslator& f, Modifiers modifiers, RealOp op);
void half_arithmetic(FunctionTranslator& f, Modifiers modifiers, RealOp op);
void real_min_max(FunctionTranslator& f, Modifiers modifiers, bool maximum);
void half_min_max(FunctionTranslator& f, Modifiers modifiers, bool maximum);
void real_neg_abs(FunctionTranslator& f, Modifiers modifiers, bool absolute);
void half_neg_abs(FunctionTranslator& f, Modifiers modifiers, bool absolute);

void half_ex2(FunctionTranslator& f, const Arithmetic& form);
void half_tanh(FunctionTranslator& f, const Arithmetic& form);

/// 1 or -1 by the sign of a number, or 0.
llvm::Value* sign_only(FunctionTranslator& f, llvm::Value* value);
/// A subnormal f32 becomes a zero of its sign.
llvm::Value* flush(FunctionTranslator& f, llvm::Value* value);
/// Into [0, 1]; NaN becomes +0.
llvm::Value* saturate(FunctionTranslator& f, llvm::Value* value);
/// NaN becomes the one that the hardware makes: 0x7fffffff, or 0x7fff of halves.
llvm::Value* canonical(FunctionTranslator& f, llvm::Value* value);
/// The number of a rounding mode for the runtime: 0 nearest, 1 down, 2 up, 3 to zero.
unsigned rounding_number(std::uint32_t flags);

// Halves as single-precision numbers and back.

/// The exact value of a half (.f16 or .bf16, one lane) as a float.
llvm::Value* widen(FunctionTranslator& f, llvm::Value* bits, ptx::Type type);
/// To nearest even.
llvm::Value* narrow(FunctionTranslator& f, llvm::Value* value, ptx::Type type);
/// The two lanes of a packed value.
std::array<llvm::Value*, 2> unpack(FunctionTranslator& f, llvm::Value* value);
llvm::Value* pack(FunctionTranslator& f, llvm::Value* low, llvm::Value* high);

}  // namespace kiln::emulator::forms
