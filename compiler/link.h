#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::compiler {

/// Links relocatable objects into one ELF shared object, in process. Only `exported_symbols` are
/// visible in it. The image is independent of libkiln: an undefined symbol that is not one of the
/// few functions of libc and libm that generated code may call throws InternalError with its name,
/// and so does writable data, since one image serves every model that is loaded from it. Safe on
/// several threads; they take turns.
std::vector<std::byte> link_image(std::span<const std::vector<std::byte>> objects,
                                  std::span<const std::string> exported_symbols);

/// Whether `symbol` is a function of libc or libm that generated code may call.
bool may_call(std::string_view symbol);

}  // namespace kiln::compiler
