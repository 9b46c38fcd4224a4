#include "emulator/translate/initial.h"

#include <bit>
#include <cstring>

#include "kiln/support/format.h"

namespace kiln::emulator {
namespace {

std::uint64_t bits_of(const ptx::Initial& initial, ptx::Type type) {
  const auto raw = static_cast<std::uint64_t>(initial.value);
  if (initial.kind == ptx::Initial::Kind::integer) {
    if (type.kind != ptx::Type::Kind::real) return raw;
    if (type.bits == 64) return std::bit_cast<std::uint64_t>(static_cast<double>(initial.value));
    return std::bit_cast<std::uint32_t>(static_cast<float>(initial.value));
  }
  if (initial.single && type.width() == 64)
    return std::bit_cast<std::uint64_t>(
        static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(raw))));
  if (!initial.single && type.width() == 32)
    return std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(raw)));
  return raw;
}

}  // namespace

void fill_initial(const ModuleTranslator& module, const ptx::Declaration& declaration,
                  Variable& variable) {
  const std::uint64_t step = declaration.type.bytes();
  const auto fail = [&](std::string_view what) {
    fail_at(module.syntax(), declaration.line, LoadError::Kind::invalid,
            format("'{}': {}", declaration.name, what));
  };
  for (const ptx::Initial& initial : declaration.initial) {
    const std::uint64_t offset = initial.index * step;
    if (initial.index >= declaration.elements) fail("there are more values than elements");
    if (offset + step > variable.initial.size()) variable.initial.resize(offset + step);
    std::uint64_t value = 0;
    if (initial.kind == ptx::Initial::Kind::symbol) {
      if (step != 8) fail("an address needs an element of 64 bits");
      if (const std::uint32_t* function = module.find_function(initial.symbol)) {
        value = ModuleTranslator::function_address(*function) +
                static_cast<std::uint64_t>(initial.value);
      } else if (const std::uint32_t* other = module.find_variable(initial.symbol)) {
        variable.relocations.push_back({offset, *other, initial.value});
      } else {
        fail(format("'{}' is not a variable or a function", initial.symbol));
      }
    } else {
      if (initial.kind == ptx::Initial::Kind::real &&
          (declaration.type.width() < 32 || declaration.type.lanes != 1))
        fail("a real number needs an element of 32 or 64 bits");
      value = bits_of(initial, declaration.type);
    }
    std::memcpy(variable.initial.data() + offset, &value, step < 8 ? step : 8);
  }
}

}  // namespace kiln::emulator
