#include "compiler/kernel_source/texts.h"

#include <array>

// The files become part of the library by the assembler; the build defines where they are.
#define KILN_EMBED(name, path)                                                          \
  asm(".pushsection .rodata\n.hidden kiln_text_" #name "\n.hidden kiln_text_end_" #name \
      "\n.global kiln_text_" #name "\n.global kiln_text_end_" #name                     \
      "\n.balign 16\nkiln_text_" #name ":\n.incbin \"" path "\"\nkiln_text_end_" #name  \
      ":\n.byte 0\n.popsection\n");                                                     \
  extern "C" const char kiln_text_##name[], kiln_text_end_##name[];
#define KILN_HEADER(name) KILN_EMBED(name, KILN_PRELUDE_FOLDER "/" #name ".cuh")

KILN_HEADER(prelude)
KILN_HEADER(common)
KILN_HEADER(device)
KILN_HEADER(host)
KILN_HEADER(half)
KILN_HEADER(math)
KILN_HEADER(atomic)
KILN_HEADER(cuda)
KILN_EMBED(math_bitcode, KILN_MATH_BITCODE)

namespace kiln::compiler::kernel_source {
namespace {

std::string_view between(const char* begin, const char* end) {
  return {begin, static_cast<std::size_t>(end - begin)};
}

#define KILN_TEXT(name) \
  Text { "kiln/" #name ".cuh", between(kiln_text_##name, kiln_text_end_##name) }
// Headers that sources include by habit: what they would declare is there already.
#define KILN_EMPTY(path) Text{path, ""}

}  // namespace

std::span<const Text> texts() {
  static const std::array all = {
      KILN_TEXT(prelude),
      KILN_TEXT(common),
      KILN_TEXT(device),
      KILN_TEXT(host),
      KILN_TEXT(half),
      KILN_TEXT(math),
      KILN_TEXT(atomic),
      KILN_TEXT(cuda),
      // So that Clang takes all of them for headers of the system.
      Text{"kiln/main.cuh", "#include <kiln/prelude.cuh>\n"},
      KILN_EMPTY("cstdint"),
      KILN_EMPTY("stdint.h"),
      KILN_EMPTY("cstddef"),
      KILN_EMPTY("stddef.h"),
      KILN_EMPTY("cmath"),
      KILN_EMPTY("math.h"),
      KILN_EMPTY("cstdio"),
      KILN_EMPTY("stdio.h"),
      KILN_EMPTY("cstring"),
      KILN_EMPTY("string.h"),
      KILN_EMPTY("climits"),
      KILN_EMPTY("limits.h"),
      KILN_EMPTY("cfloat"),
      KILN_EMPTY("float.h"),
      KILN_EMPTY("limits"),
      KILN_EMPTY("type_traits"),
      KILN_EMPTY("utility"),
      KILN_EMPTY("cassert"),
      KILN_EMPTY("assert.h"),
      KILN_EMPTY("algorithm"),
      KILN_EMPTY("cuda.h"),
      KILN_EMPTY("cuda_runtime.h"),
      KILN_EMPTY("cuda_runtime_api.h"),
      KILN_EMPTY("device_launch_parameters.h"),
      KILN_EMPTY("device_functions.h"),
      KILN_EMPTY("vector_types.h"),
      KILN_EMPTY("math_constants.h"),
      KILN_EMPTY("cuda_fp16.h"),
      KILN_EMPTY("cuda_bf16.h"),
      KILN_EMPTY("kiln/gpu/device.h"),
      KILN_EMPTY("kiln/gpu.h"),
  };
  return all;
}

std::string_view math_bitcode() {
  return between(kiln_text_math_bitcode, kiln_text_end_math_bitcode);
}

}  // namespace kiln::compiler::kernel_source
