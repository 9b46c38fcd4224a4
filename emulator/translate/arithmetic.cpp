#include "emulator/translate/arithmetic.h"

#include <bit>

#include "kiln/support/format.h"

namespace kiln::emulator::forms {
namespace {

struct Word {
  std::string_view word;
  std::uint32_t flag;
};
constexpr Word kWords[] = {
    {".rn", kRn},
    {".rz", kRz},
    {".rm", kRm},
    {".rp", kRp},
    {".ftz", kFtz},
    {".sat", kSat},
    {".lo", kLo},
    {".hi", kHi},
    {".wide", kWide},
    {".cc", kCarry},
    {".NaN", kNan},
    {".xorsign", kXorSign},
    {".abs", kAbs},
    {".approx", kApprox},
    {".full", kFull},
    {".relu", kRelu},
    {".shiftamt", kShiftAmount},
    {".wrap", kWrap},
    {".clamp", kClamp},
    {".l", kLeft},
    {".r", kRight},
};

std::uint32_t flag_of(std::string_view word) {
  for (const Word& entry : kWords)
    if (entry.word == word) return entry.flag;
  return 0;
}

Arithmetic read(FunctionTranslator& f, Modifiers& modifiers, std::uint32_t allowed,
                unsigned types) {
  Arithmetic form;
  unsigned found = 0;
  while (!modifiers.done()) {
    const std::string_view word = modifiers.peek();
    if (const std::uint32_t flag = flag_of(word)) {
      if ((flag & allowed) == 0 || form.has(flag))
        f.unsupported(format("the modifier '{}' is not implemented here", word));
      form.flags |= flag;
    } else if (const ptx::Type type = ptx::type_of(word);
               type.kind != ptx::Type::Kind::none && found < types) {
      if (found++ == 0) form.first = type;
      form.type = type;
    } else {
      f.unsupported(format("the modifier '{}' is not implemented here", word));
    }
    modifiers.take();
  }
  if (found != types) f.invalid("a type is missing");
  if (std::popcount(form.flags & kRounding) > 1) f.invalid("there are two rounding modes");
  return form;
}

}  // namespace

Arithmetic parse_arithmetic(FunctionTranslator& f, Modifiers modifiers, std::uint32_t allowed,
                            std::size_t operands, unsigned types) {
  const Arithmetic form = read(f, modifiers, allowed, types);
  f.finish(modifiers, operands);
  return form;
}

Arithmetic peek_arithmetic(FunctionTranslator& f, Modifiers modifiers) {
  Arithmetic form;
  for (; !modifiers.done(); modifiers.take()) {
    if (const std::uint32_t flag = flag_of(modifiers.peek())) form.flags |= flag;
    if (const ptx::Type type = ptx::type_of(modifiers.peek()); type.kind != ptx::Type::Kind::none)
      form.type = type;
  }
  if (form.type.kind == ptx::Type::Kind::none) f.unsupported("a type is missing");
  return form;
}

unsigned rounding_number(std::uint32_t flags) {
  if ((flags & kRm) != 0) return 1;
  if ((flags & kRp) != 0) return 2;
  return (flags & kRz) != 0 ? 3 : 0;
}

}  // namespace kiln::emulator::forms
