#pragma once

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include "emulator/program/program.h"
#include "emulator/ptx/syntax.h"
#include "kiln/support/format.h"
