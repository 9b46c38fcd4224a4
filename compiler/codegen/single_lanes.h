#pragma once

namespace llvm {
class Function;
}

namespace kiln::compiler {

/// A masked store of one known lane becomes a store of that lane; returns whether there was one.
/// LLVM 22 does this itself, but takes the width from before a truncation in front of the store and
/// writes over what lies behind (llvm/llvm-project issue 179489).
bool store_single_lanes(llvm::Function& function);

}  // namespace kiln::compiler
