#include "emulator/program/stack_sizes.h"

#include <llvm/Object/ELFObjectFile.h>
#include <llvm/Support/DataExtractor.h>

#include <map>

#include "emulator/translate/module.h"
#include "kiln/support/format.h"

namespace kiln::emulator {
namespace {

constexpr std::uint64_t kMaxStack = std::uint64_t{1} << 20;
constexpr std::uint64_t kReturnAddress = 8;

using Object = llvm::object::ELF64LEObjectFile;
using Sizes = std::map<std::string, std::uint64_t, std::less<>>;

[[noreturn]] void fail(llvm::Error error) {
  throw LoadError(LoadError::Kind::invalid, format("The object of the PTX cannot be read: {}",
                                                   llvm::toString(std::move(error))));
}

template <typename T>
T get(llvm::Expected<T> value) {
  if (!value) fail(value.takeError());
  return std::move(*value);
}

// Each entry is the address of a function, by a relocation, and a size of variable length.
void read_section(const Object& object, const llvm::object::SectionRef& section,
                  const std::map<std::pair<std::uint64_t, std::uint64_t>, std::string>& functions,
                  Sizes& sizes) {
  const auto target = get(section.getRelocatedSection());
  if (target == object.section_end() || get(target->getName()) != ".stack_sizes") return;
  const llvm::StringRef bytes = get(target->getContents());
  const llvm::DataExtractor data(bytes, /*IsLittleEndian=*/true, /*AddressSize=*/8);
  for (const llvm::object::RelocationRef& relocation : section.relocations()) {
    std::uint64_t offset = relocation.getOffset() + 8;
    const std::uint64_t size = data.getULEB128(&offset);
    const auto symbol = relocation.getSymbol();
    if (symbol == object.symbol_end()) continue;
    const auto addend = get(llvm::object::ELFRelocationRef(relocation).getAddend());
    const auto home = get(symbol->getSection());
    if (home == object.section_end()) continue;
    const auto found = functions.find(
        {home->getIndex(), get(symbol->getValue()) + static_cast<std::uint64_t>(addend)});
    if (found != functions.end()) sizes[found->second] = size;
  }
}

Sizes read_sizes(std::string_view bytes) {
  const llvm::MemoryBufferRef buffer(llvm::StringRef(bytes.data(), bytes.size()), "object");
  const auto file = get(llvm::object::ObjectFile::createELFObjectFile(buffer));
  const auto& object = llvm::cast<Object>(*file);
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::string> functions;
  for (const llvm::object::ELFSymbolRef symbol : object.symbols()) {
    if (get(symbol.getType()) != llvm::object::SymbolRef::ST_Function) continue;
    const auto section = get(symbol.getSection());
    if (section == object.section_end()) continue;
    functions[{section->getIndex(), get(symbol.getValue())}] = get(symbol.getName()).str();
  }
  Sizes sizes;
  for (const llvm::object::SectionRef& section : object.sections())
    read_section(object, section, functions, sizes);
  return sizes;
}

}  // namespace

void measure_stacks(std::string_view object, Translation& translation) {
  const Sizes sizes = read_sizes(object);
  for (std::uint32_t i = 0; i < translation.kernels.size(); ++i) {
    KernelTraits& traits = translation.traits[i];
    const auto entry = sizes.find(traits.waits ? thread_symbol(i) : range_symbol(i));
    // Frames whose size the run decides are not listed; those kernels have deep stacks.
    if (entry == sizes.end() && traits.recursive) continue;
    if (entry == sizes.end())
      throw LoadError(LoadError::Kind::invalid,
                      format("The stack of kernel '{}' is not known, which is a fault of the "
                             "emulator.",
                             translation.kernels[i].name));
    std::uint64_t sum = entry->second + kReturnAddress;
    // No function is twice on a stack unless it recurses.
    for (const std::string& callee : translation.callees[i])
      if (const auto found = sizes.find(callee); found != sizes.end())
        sum += found->second + 2 * kReturnAddress;
    if (sum > kMaxStack)
      throw LoadError(
          LoadError::Kind::invalid,
          format("The variables of kernel '{}' and its functions take {} bytes of stack "
                 "a thread; the limit is {}.",
                 translation.kernels[i].name, sum, kMaxStack));
    traits.stack_bytes = sum;
  }
}

}  // namespace kiln::emulator
