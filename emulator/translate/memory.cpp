#include "emulator/execute/grid.h"
#include "emulator/translate/forms.h"
#include "kiln/support/format.h"

// ld, st, and what only hints at memory.

namespace kiln::emulator::forms {
namespace {

using enum ptx::Space;

struct Access {
  ptx::Space space = none;
  enum class Order { weak, relaxed, acquire, release, is_volatile } order = Order::weak;
  unsigned vector = 1;
  ptx::Type type;
};

// Cache hints change nothing that a program can see.
bool take_cache_hint(Modifiers& modifiers) {
  static constexpr std::string_view kHints[] = {".ca",
                                                ".cg",
                                                ".cs",
                                                ".lu",
                                                ".cv",
                                                ".wb",
                                                ".wt",
                                                ".nc",
                                                ".L1::evict_normal",
                                                ".L1::evict_unchanged",
                                                ".L1::evict_first",
                                                ".L1::evict_last",
                                                ".L1::no_allocate",
                                                ".L2::64B",
                                                ".L2::128B",
                                                ".L2::256B",
                                                ".L2::evict_normal",
                                                ".L2::evict_first",
                                                ".L2::evict_last"};
  for (std::string_view hint : kHints)
    if (modifiers.take_if(hint)) return true;
  return false;
}

Access parse_access(FunctionTranslator& f, Modifiers& modifiers, bool load) {
  Access access;
  if (modifiers.take_if(".weak"))
    access.order = Access::Order::weak;
  else if (modifiers.take_if(".volatile"))
    access.order = Access::Order::is_volatile;
  else if (modifiers.take_if(".relaxed"))
    access.order = Access::Order::relaxed;
  else if (load && modifiers.take_if(".acquire"))
    access.order = Access::Order::acquire;
  else if (!load && modifiers.take_if(".release"))
    access.order = Access::Order::release;
  else if (modifiers.take_if(".mmio")) {
    if (!modifiers.take_if(".relaxed")) f.unsupported("'.relaxed' is expected behind '.mmio'");
    access.order = Access::Order::relaxed;
  }
  const bool scoped =
      access.order != Access::Order::weak && access.order != Access::Order::is_volatile;
  if (scoped && !take_scope(modifiers)) f.invalid("a scope such as '.gpu' is expected");
  access.space = take_space(f, modifiers);
  while (take_cache_hint(modifiers)) {
  }
  const bool policy = modifiers.take_if(".L2::cache_hint");
  if (modifiers.take_if(".v2"))
    access.vector = 2;
  else if (modifiers.take_if(".v4"))
    access.vector = 4;
  else if (modifiers.take_if(".v8"))
    access.vector = 8;
  access.type = f.take_type(modifiers);
  if (access.type.kind == ptx::Type::Kind::pred) f.invalid("predicates have no memory");
  if (access.vector * access.type.bytes() > 32) f.invalid("an access has at most 32 bytes");
  f.finish(modifiers, policy ? 3 : 2);
  return access;
}

std::vector<const ptx::Operand*> elements(FunctionTranslator& f, const ptx::Operand& operand,
                                          unsigned count) {
  std::vector<const ptx::Operand*> result;
  if (count == 1 && operand.kind != ptx::Operand::Kind::vector) return {&operand};
  if (operand.kind != ptx::Operand::Kind::vector || operand.elements.size() != count)
    f.invalid(format("a vector of {} registers is expected", count));
  for (const ptx::Operand& element : operand.elements) result.push_back(&element);
  return result;
}

llvm::AtomicOrdering ordering(Access::Order order) {
  switch (order) {
    case Access::Order::acquire:
      return llvm::AtomicOrdering::Acquire;
    case Access::Order::release:
      return llvm::AtomicOrdering::Release;
    default:
      return llvm::AtomicOrdering::Monotonic;
  }
}

// Where the access goes, and the alignment that LLVM may rely on: none for plain accesses, since an
// address that is not aligned shall have defined consequences.
llvm::Value* place(FunctionTranslator& f, const ptx::Operand& operand, const Access& access,
                   AccessKind kind) {
  if (access.space == param) {
    if (llvm::Value* bytes = f.param_pointer(operand)) {
      if (!f.param_holds(operand, std::uint64_t{access.vector} * access.type.bytes()))
        f.invalid("this lies outside of the parameter");
      return f.builder().CreateConstGEP1_64(f.builder().getInt8Ty(), bytes,
                                            static_cast<std::uint64_t>(operand.value));
    }
  }
  llvm::Value* address = f.address(operand, access.space);
  f.check_access(address, access.vector * access.type.bytes(), access.space, kind);
  return f.pointer(address);
}

void configure(FunctionTranslator& f, llvm::Instruction* instruction, const Access& access) {
  const unsigned bytes = access.type.bytes();
  const bool atomic = access.order != Access::Order::weak && bytes <= 8;
  if (auto* load = llvm::dyn_cast<llvm::LoadInst>(instruction)) {
    load->setAlignment(llvm::Align(atomic ? bytes : 1));
    if (atomic) load->setAtomic(ordering(access.order));
    load->setVolatile(access.order != Access::Order::weak);
  } else {
    auto* store = llvm::cast<llvm::StoreInst>(instruction);
    store->setAlignment(llvm::Align(atomic ? bytes : 1));
    if (atomic) store->setAtomic(ordering(access.order));
    store->setVolatile(access.order != Access::Order::weak);
  }
  if (access.order == Access::Order::weak) f.mark_independent(instruction);
}

void ld(FunctionTranslator& f, Modifiers modifiers) {
  const Access access = parse_access(f, modifiers, /*load=*/true);
  if (access.order != Access::Order::weak) spin(f);
  auto& b = f.builder();
  llvm::Value* from = place(f, f.operand(1), access, AccessKind::read);
  const bool parameter = access.space == param && f.param_pointer(f.operand(1)) != nullptr &&
                         f.param_is_constant(f.operand(1));
  std::vector<llvm::Value*> values;
  const auto targets = elements(f, f.operand(0), access.vector);
  for (unsigned i = 0; i < access.vector; ++i) {
    llvm::Value* slot =
        b.CreateConstGEP1_64(b.getInt8Ty(), from, std::uint64_t{i} * access.type.bytes());
    auto* load = b.CreateLoad(f.llvm_type(access.type), slot);
    configure(f, load, access);
    if (parameter)
      load->setMetadata(llvm::LLVMContext::MD_invariant_load,
                        llvm::MDNode::get(f.module().context(), {}));
    values.push_back(load);
  }
  for (unsigned i = 0; i < access.vector; ++i) f.write(*targets[i], values[i], access.type, true);
}

void st(FunctionTranslator& f, Modifiers modifiers) {
  const Access access = parse_access(f, modifiers, /*load=*/false);
  if (access.space == constant) f.invalid("constant memory cannot be written");
  if (access.space == param && f.param_pointer(f.operand(0)) != nullptr &&
      f.param_is_constant(f.operand(0)))
    f.invalid("parameters of kernels cannot be written");
  auto& b = f.builder();
  const auto sources = elements(f, f.operand(1), access.vector);
  llvm::Value* to = place(f, f.operand(0), access, AccessKind::write);
  for (unsigned i = 0; i < access.vector; ++i) {
    llvm::Value* slot =
        b.CreateConstGEP1_64(b.getInt8Ty(), to, std::uint64_t{i} * access.type.bytes());
    configure(f, b.CreateStore(f.read(*sources[i], access.type, true), slot), access);
  }
}

// A prefetch has no effect, whatever its address.
void prefetch(FunctionTranslator& f, Modifiers modifiers) {
  modifiers.take_one_of(".global", ".local", ".const", ".param");
  if (modifiers.take_one_of(".L1", ".L2", ".L2::evict_last", ".L2::evict_normal", ".tensormap") < 0)
    f.unsupported("a level such as '.L2' is expected");
  f.finish(modifiers, 1);
  f.address(f.operand(0), none);
}

void prefetchu(FunctionTranslator& f, Modifiers modifiers) {
  if (!modifiers.take_if(".L1")) f.unsupported("'.L1' is expected");
  f.finish(modifiers, 1);
  f.address(f.operand(0), none);
}

void discard(FunctionTranslator& f, Modifiers modifiers) {
  modifiers.take_if(".global");
  if (!modifiers.take_if(".L2")) f.unsupported("'.L2' is expected");
  f.finish(modifiers, 2);
  f.address(f.operand(0), none);
}

void applypriority(FunctionTranslator& f, Modifiers modifiers) {
  modifiers.take_if(".global");
  if (!modifiers.take_if(".L2::evict_normal")) f.unsupported("'.L2::evict_normal' is expected");
  f.finish(modifiers, 2);
  f.address(f.operand(0), none);
}

// A policy is a number that only cache hints take.
void createpolicy(FunctionTranslator& f, Modifiers modifiers) {
  while (!modifiers.done() && modifiers.peek() != ".b64") {
    if (modifiers.take_one_of(".fractional", ".range", ".cvt", ".global", ".L2", ".L2::evict_last",
                              ".L2::evict_normal", ".L2::evict_first", ".L2::evict_unchanged") < 0)
      f.unsupported(format("the modifier '{}' is not implemented here", modifiers.peek()));
  }
  const ptx::Type type = f.take_type(modifiers);
  f.finish(modifiers, f.num_operands());
  f.write(0, f.builder().getInt64(0), type);
}

// alloca.u64 p, bytes, alignment: memory of the frame, which lasts until the function returns.
void alloca_(FunctionTranslator& f, Modifiers modifiers) {
  const ptx::Type type = f.take_type(modifiers);
  if (f.num_operands() != 2 && f.num_operands() != 3) f.invalid("2 or 3 operands are expected");
  f.finish(modifiers, f.num_operands());
  std::int64_t alignment = 16;
  if (f.num_operands() == 3) {
    if (f.operand(2).kind != ptx::Operand::Kind::integer) f.invalid("the alignment is a constant");
    alignment = f.operand(2).value;
  }
  if (type.width() != 64 || type.kind == ptx::Type::Kind::real || alignment < 1 ||
      alignment > 128 || (alignment & (alignment - 1)) != 0)
    f.unsupported("this form is not implemented");
  auto& b = f.builder();
  llvm::Value* bytes = f.read(1, type);
  constexpr std::uint64_t kMostAtOnce = 64 << 10;
  f.fault_if(b.CreateICmpUGT(bytes, b.getInt64(kMostAtOnce)),
             static_cast<std::uint32_t>(FaultCode::hardware_stack), bytes);
  auto* memory = b.CreateAlloca(b.getInt8Ty(), bytes);
  memory->setAlignment(
      llvm::Align(static_cast<std::uint64_t>(std::max<std::int64_t>(alignment, 16))));
  f.write(0, f.address_of(memory), type);
}

void stacksave(FunctionTranslator& f, Modifiers modifiers) {
  const ptx::Type type = f.take_type(modifiers);
  f.finish(modifiers, 1);
  if (type.width() != 64) f.unsupported("addresses have 64 bits");
  f.write(0, f.builder().getInt64(0), type);
}

// What alloca gave stays until the function returns; a loop that needs more finds the page that
// ends the stack.
void stackrestore(FunctionTranslator& f, Modifiers modifiers) {
  const ptx::Type type = f.take_type(modifiers);
  f.finish(modifiers, 1);
  if (type.width() != 64) f.unsupported("addresses have 64 bits");
  f.read(0, type);
}

}  // namespace

ptx::Space take_space(FunctionTranslator& f, Modifiers& modifiers) {
  if (modifiers.take_if(".global")) return global;
  if (modifiers.take_if(".shared") || modifiers.take_if(".shared::cta") ||
      modifiers.take_if(".shared::cluster"))
    return shared;
  if (modifiers.take_if(".local")) return local;
  if (modifiers.take_if(".const")) return constant;
  if (modifiers.take_if(".param") || modifiers.take_if(".param::entry") ||
      modifiers.take_if(".param::func"))
    return param;
  return none;
}

bool take_scope(Modifiers& modifiers) {
  return modifiers.take_one_of(".cta", ".cluster", ".gpu", ".sys") >= 0;
}

void add_memory(Table& table) {
  table.insert({{"ld", ld},
                {"st", st},
                {"ldu", ld},
                {"prefetch", prefetch},
                {"prefetchu", prefetchu},
                {"discard", discard},
                {"applypriority", applypriority},
                {"alloca", alloca_},
                {"stacksave", stacksave},
                {"stackrestore", stackrestore},
                {"createpolicy", createpolicy}});
}

}  // namespace kiln::emulator::forms
