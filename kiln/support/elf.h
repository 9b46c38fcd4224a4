#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// Facts about an ELF shared object that can be told from its bytes alone.
struct ElfFacts {
  std::vector<std::string> exported;   // defined functions and objects of the dynamic symbol table
  std::vector<std::string> undefined;  // symbols that the loader must find elsewhere
  std::vector<std::string> needed;     // libraries that it asks for
  std::uint64_t mutable_bytes = 0;     // writable memory that stays writable once it is relocated
  bool has_constructors = false;       // code that runs when it is loaded or unloaded
  bool exports(std::string_view name) const;
};

/// Reads a 64-bit little-endian shared object for the machine `elf_machine` (62: x86-64). Every
/// offset is checked against the bytes. Anything else: ValueError with a clause such as "it is not
/// an ELF file".
ElfFacts read_elf(std::span<const std::byte> image, std::uint16_t elf_machine);

/// The ELF machine number of this host.
std::uint16_t host_elf_machine();

}  // namespace kiln
