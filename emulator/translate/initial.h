#pragma once

#include "emulator/translate/module.h"

namespace kiln::emulator {

/// Writes the values of a declaration into the bytes of a variable. Addresses of variables become
/// relocations, addresses of functions the numbers that stand for them. Throws LoadError.
void fill_initial(const ModuleTranslator& module, const ptx::Declaration& declaration,
                  Variable& variable);

}  // namespace kiln::emulator
