#include "kiln/support/elf.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln {
namespace {

[[noreturn]] void invalid(const std::string& reason) { throw ValueError(reason); }

/// Reads structures out of the image, which may be cut or damaged.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> image) : image_(image) {}

  template <typename T>
  T at(std::uint64_t offset) const {
    if (offset > image_.size() || image_.size() - offset < sizeof(T))
      invalid(format("it ends before byte {}", offset));
    T value;
    std::memcpy(&value, image_.data() + offset, sizeof(T));
    return value;
  }

  std::uint64_t size() const { return image_.size(); }

  std::string text(std::uint64_t begin, std::uint64_t end) const {
    if (begin >= end || end > image_.size()) invalid("a name lies outside it");
    const char* first = reinterpret_cast<const char*>(image_.data()) + begin;
    const std::size_t length = strnlen(first, end - begin);
    if (length == end - begin) invalid("a name does not end");
    return {first, length};
  }

 private:
  std::span<const std::byte> image_;
};

/// The loadable parts, which translate addresses into offsets of the file.
class Segments {
 public:
  void add(const Elf64_Phdr& segment) { loads_.push_back(segment); }
  std::uint64_t offset_of(std::uint64_t address) const {
    for (const Elf64_Phdr& load : loads_)
      if (address >= load.p_vaddr && address - load.p_vaddr < load.p_filesz)
        return load.p_offset + (address - load.p_vaddr);
    invalid(format("address {:#x} lies in no part of it", address));
  }
  const std::vector<Elf64_Phdr>& loads() const { return loads_; }

 private:
  std::vector<Elf64_Phdr> loads_;
};

struct Dynamic {
  std::optional<std::uint64_t> symbols, strings, hash, gnu_hash;
  std::uint64_t string_bytes = 0;
  std::vector<std::uint64_t> needed;
  bool constructors = false;
};

Dynamic read_dynamic(const Reader& reader, const Elf64_Phdr& segment) {
  Dynamic dynamic;
  for (std::uint64_t at = 0; at + sizeof(Elf64_Dyn) <= segment.p_filesz; at += sizeof(Elf64_Dyn)) {
    const auto entry = reader.at<Elf64_Dyn>(segment.p_offset + at);
    switch (entry.d_tag) {
      case DT_NULL:
        return dynamic;
      case DT_SYMTAB:
        dynamic.symbols = entry.d_un.d_ptr;
        break;
      case DT_STRTAB:
        dynamic.strings = entry.d_un.d_ptr;
        break;
      case DT_STRSZ:
        dynamic.string_bytes = entry.d_un.d_val;
        break;
      case DT_HASH:
        dynamic.hash = entry.d_un.d_ptr;
        break;
      case DT_GNU_HASH:
        dynamic.gnu_hash = entry.d_un.d_ptr;
        break;
      case DT_NEEDED:
        dynamic.needed.push_back(entry.d_un.d_val);
        break;
      case DT_INIT:
      case DT_FINI:
      case DT_INIT_ARRAY:
      case DT_FINI_ARRAY:
        dynamic.constructors = true;
        break;
      default:
        break;
    }
  }
  return dynamic;
}

/// The number of dynamic symbols, which only the hash tables tell.
std::uint64_t count_symbols(const Reader& reader, const Segments& segments,
                            const Dynamic& dynamic) {
  if (dynamic.hash) return reader.at<std::uint32_t>(segments.offset_of(*dynamic.hash) + 4);
  if (!dynamic.gnu_hash) invalid("it has no hash table");
  const std::uint64_t table = segments.offset_of(*dynamic.gnu_hash);
  const auto buckets = reader.at<std::uint32_t>(table);
  const auto first = reader.at<std::uint32_t>(table + 4);
  const auto bloom_words = reader.at<std::uint32_t>(table + 8);
  const std::uint64_t bucket_at = table + 16 + std::uint64_t{bloom_words} * 8;
  std::uint32_t last = 0;
  for (std::uint64_t i = 0; i < buckets; ++i)
    last = std::max(last, reader.at<std::uint32_t>(bucket_at + i * 4));
  if (last < first) return first;  // only undefined symbols
  const std::uint64_t chains = bucket_at + std::uint64_t{buckets} * 4;
  while ((reader.at<std::uint32_t>(chains + std::uint64_t{last - first} * 4) & 1) == 0) ++last;
  return std::uint64_t{last} + 1;
}

}  // namespace

bool ElfFacts::exports(std::string_view name) const {
  return std::find(exported.begin(), exported.end(), name) != exported.end();
}

std::uint16_t host_elf_machine() {
#if defined(__x86_64__)
  return EM_X86_64;
#elif defined(__aarch64__)
  return EM_AARCH64;
#else
  return EM_NONE;
#endif
}

ElfFacts read_elf(std::span<const std::byte> image, std::uint16_t elf_machine) {
  const Reader reader(image);
  if (image.size() < sizeof(Elf64_Ehdr) || std::memcmp(image.data(), ELFMAG, SELFMAG) != 0)
    invalid("it is not an ELF file");
  const auto header = reader.at<Elf64_Ehdr>(0);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
    invalid("it is not a 64-bit little-endian ELF file");
  if (header.e_type != ET_DYN) invalid("it is not a shared object");
  if (header.e_machine != elf_machine)
    invalid(format("it is made for ELF machine {}, not {}", header.e_machine, elf_machine));
  if (header.e_phentsize != sizeof(Elf64_Phdr)) invalid("its program headers have another size");

  Segments segments;
  std::optional<Elf64_Phdr> dynamic_segment;
  std::vector<Elf64_Phdr> read_only_later;
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    const auto segment = reader.at<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr));
    if (segment.p_offset > reader.size() || segment.p_filesz > reader.size() - segment.p_offset)
      invalid("a part of it lies outside the file");
    if (segment.p_type == PT_LOAD) {
      if (segment.p_memsz < segment.p_filesz || segment.p_vaddr > UINT64_MAX / 2 ||
          segment.p_memsz > (std::uint64_t{1} << 40))
        invalid("a part of it has an impossible size");
      if ((segment.p_flags & PF_W) != 0 && (segment.p_flags & PF_X) != 0)
        invalid("a part of it is both writable and executable");
      segments.add(segment);
    } else if (segment.p_type == PT_DYNAMIC) {
      dynamic_segment = segment;
    } else if (segment.p_type == PT_GNU_RELRO) {
      read_only_later.push_back(segment);
    } else if (segment.p_type == PT_TLS) {
      invalid("it has thread-local data");
    } else if (segment.p_type == PT_INTERP) {
      invalid("it is a program");
    }
  }
  if (!dynamic_segment) invalid("it has no dynamic section");

  ElfFacts facts;
  for (const Elf64_Phdr& load : segments.loads()) {
    if ((load.p_flags & PF_W) == 0) continue;
    std::uint64_t writable = load.p_memsz;
    for (const Elf64_Phdr& relro : read_only_later)
      if (relro.p_vaddr >= load.p_vaddr && relro.p_vaddr - load.p_vaddr <= load.p_memsz)
        writable -= std::min(relro.p_memsz, writable);
    facts.mutable_bytes += writable;
  }

  const Dynamic dynamic = read_dynamic(reader, *dynamic_segment);
  facts.has_constructors = dynamic.constructors;
  if (!dynamic.symbols || !dynamic.strings) invalid("it has no dynamic symbols");
  const std::uint64_t strings = segments.offset_of(*dynamic.strings);
  if (strings > reader.size() || dynamic.string_bytes > reader.size() - strings)
    invalid("its names lie outside it");
  const std::uint64_t strings_end = strings + dynamic.string_bytes;
  auto name_at = [&](std::uint64_t index) {
    if (index >= dynamic.string_bytes) invalid("a name lies outside it");
    return reader.text(strings + index, strings_end);
  };
  for (std::uint64_t index : dynamic.needed) facts.needed.push_back(name_at(index));
  const std::uint64_t symbols = segments.offset_of(*dynamic.symbols);
  const std::uint64_t count = count_symbols(reader, segments, dynamic);
  for (std::uint64_t i = 1; i < count; ++i) {
    const auto symbol = reader.at<Elf64_Sym>(symbols + i * sizeof(Elf64_Sym));
    const int type = ELF64_ST_TYPE(symbol.st_info);
    if (type == STT_TLS) invalid("it uses thread-local data");
    if (type == STT_SECTION || type == STT_FILE) continue;
    (symbol.st_shndx == SHN_UNDEF ? facts.undefined : facts.exported)
        .push_back(name_at(symbol.st_name));
  }
  return facts;
}

}  // namespace kiln
