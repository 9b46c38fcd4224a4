#include "emulator/translate/forms.h"

namespace kiln::emulator {

Translate find_form(std::string_view opcode) {
  static const forms::Table table = [] {
    forms::Table forms;
    forms::add_integer(forms);
    forms::add_bits(forms);
    forms::add_float(forms);
    forms::add_approximate(forms);
    forms::add_convert(forms);
    forms::add_compare(forms);
    forms::add_move(forms);
    forms::add_memory(forms);
    forms::add_atomic(forms);
    forms::add_control(forms);
    forms::add_barrier(forms);
    forms::add_warp(forms);
    forms::add_async(forms);
    forms::add_matrix(forms);
    forms::add_multimem(forms);
    forms::add_video(forms);
    return forms;
  }();
  const auto found = table.find(opcode);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace kiln::emulator
