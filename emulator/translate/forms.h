#pragma once

#include <string_view>
#include <unordered_map>

#include "emulator/translate/function.h"

// The families of instructions. Each file adds the opcodes that it translates to the table.

namespace kiln::emulator::forms {

using Table = std::unordered_map<std::string_view, Translate>;

void add_integer(Table& table);
void add_bits(Table& table);
void add_float(Table& table);
void add_approximate(Table& table);
void add_convert(Table& table);
void add_compare(Table& table);
void add_move(Table& table);
void add_memory(Table& table);
void add_atomic(Table& table);
void add_control(Table& table);
void add_barrier(Table& table);
void add_warp(Table& table);
void add_async(Table& table);
void add_matrix(Table& table);
void add_multimem(Table& table);
void add_video(Table& table);

// Modifiers that several families have.

/// A state space; Space::none when there is none, which means generic addresses.
ptx::Space take_space(FunctionTranslator& f, Modifiers& modifiers);
/// .cta, .cluster, .gpu or .sys
bool take_scope(Modifiers& modifiers);
/// A place where a thread that polls memory lets others run, when it may be in a loop.
void spin(FunctionTranslator& f);

}  // namespace kiln::emulator::forms
