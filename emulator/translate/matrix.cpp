#include "emulator/execute/matrix.h"

#include "emulator/execute/grid.h"
#include "emulator/execute/state.h"
#include "emulator/translate/forms.h"
#include "kiln/support/format.h"

// ldmatrix, stmatrix, movmatrix, mma, wmma: each lane hands its registers to the runtime, which
// works on the whole warp.

namespace kiln::emulator::forms {
namespace {

using llvm::Value;
using Kind = ptx::Type::Kind;

constexpr ptx::Type kB32{Kind::bits, 32};
constexpr ptx::Type kU32{Kind::unsigned_integer, 32};

using Elements = std::vector<const ptx::Operand*>;

Elements elements(const ptx::Operand& operand) {
  Elements result;
  if (operand.kind != ptx::Operand::Kind::vector) return {&operand};
  for (const ptx::Operand& element : operand.elements) result.push_back(&element);
  return result;
}

// The lane's buffer of the runtime.
Value* lane_buffer(FunctionTranslator& f) {
  return f.temporary(llvm::ArrayType::get(f.builder().getInt64Ty(), sizeof(MatrixLane) / 8));
}

Value* slot(FunctionTranslator& f, Value* buffer, std::size_t offset) {
  return f.builder().CreateConstGEP1_64(f.builder().getInt8Ty(), buffer, offset);
}

void put(FunctionTranslator& f, Value* buffer, std::size_t offset, const Elements& registers,
         ptx::Type type) {
  for (std::size_t i = 0; i < registers.size(); ++i)
    f.builder().CreateStore(f.read(*registers[i], type),
                            slot(f, buffer, offset + i * type.bytes()));
}

void get(FunctionTranslator& f, Value* buffer, std::size_t offset, const Elements& registers,
         ptx::Type type) {
  for (std::size_t i = 0; i < registers.size(); ++i)
    f.write(*registers[i],
            f.builder().CreateLoad(f.llvm_type(type), slot(f, buffer, offset + i * type.bytes())),
            type);
}

void perform(FunctionTranslator& f, const MatrixForm& form, Value* buffer) {
  auto& b = f.builder();
  f.call("kiln_matrix", b.getVoidTy(),
         {f.hidden(kThread), b.getInt32(form.pack()), buffer, f.line_value()});
}

// ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {a, b, c, d}, [p];
void move_matrices(FunctionTranslator& f, Modifiers modifiers, bool store) {
  MatrixForm form;
  form.kind = store ? MatrixKind::store : MatrixKind::load;
  const bool start =
      modifiers.take_if(".sync") && modifiers.take_if(".aligned") && modifiers.take_if(".m8n8");
  const int count = modifiers.take_one_of(".x1", ".x2", ".x4");
  if (!start || count < 0) f.unsupported("this form is not implemented");
  form.count = static_cast<std::uint8_t>(1 << count);
  form.transposed = modifiers.take_if(".trans");
  const ptx::Space space = take_space(f, modifiers);
  if (!modifiers.take_if(".b16")) f.unsupported("'.b16' is expected");
  f.finish(modifiers, 2);
  const Elements registers = elements(f.operand(store ? 1 : 0));
  if (registers.size() != form.count) f.invalid(format("{} registers are expected", form.count));
  Value* buffer = lane_buffer(f);
  Value* address = f.address(f.operand(store ? 0 : 1),
                             space == ptx::Space::none ? ptx::Space::none : ptx::Space::shared);
  // Lanes beyond the matrices give no row.
  auto& b = f.builder();
  Value* used = b.CreateICmpULT(f.lane(), b.getInt32(8U * form.count));
  Value* window = f.block_field(offsetof(BlockState, shared), b.getInt64Ty());
  f.check_access(b.CreateSelect(used, address, window), 16,
                 space == ptx::Space::none ? ptx::Space::none : ptx::Space::shared,
                 store ? AccessKind::write : AccessKind::read);
  b.CreateStore(f.pointer(address), slot(f, buffer, offsetof(MatrixLane, pointer)));
  if (store) put(f, buffer, offsetof(MatrixLane, a), registers, kB32);
  perform(f, form, buffer);
  if (!store) get(f, buffer, offsetof(MatrixLane, d), registers, kB32);
}

void ldmatrix(FunctionTranslator& f, Modifiers modifiers) { move_matrices(f, modifiers, false); }
void stmatrix(FunctionTranslator& f, Modifiers modifiers) { move_matrices(f, modifiers, true); }

void movmatrix(FunctionTranslator& f, Modifiers modifiers) {
  if (!modifiers.take_if(".sync") || !modifiers.take_if(".aligned") ||
      !modifiers.take_if(".m8n8") || !modifiers.take_if(".trans") || !modifiers.take_if(".b16"))
    f.unsupported("this form is not implemented");
  f.finish(modifiers, 2);
  MatrixForm form;
  form.kind = MatrixKind::transpose;
  Value* buffer = lane_buffer(f);
  put(f, buffer, offsetof(MatrixLane, a), {&f.operand(1)}, kB32);
  perform(f, form, buffer);
  get(f, buffer, offsetof(MatrixLane, d), {&f.operand(0)}, kB32);
}

int take_shape(Modifiers& modifiers) {
  return modifiers.take_one_of(".m16n8k4", ".m16n8k8", ".m16n8k16", ".m16n8k32", ".m8n8k4",
                               ".m16n16k16", ".m32n8k16", ".m8n32k16", ".m16n16k8");
}

int take_type(Modifiers& modifiers) {
  return modifiers.take_one_of(".f16", ".bf16", ".tf32", ".f64", ".s8", ".u8", ".e4m3", ".e5m2",
                               ".f32", ".s32");
}

bool is_float8(MatrixType type) { return type == MatrixType::e4m3 || type == MatrixType::e5m2; }
bool is_byte(MatrixType type) { return type == MatrixType::s8 || type == MatrixType::u8; }

// Which shapes and sums each type of factors has.
bool known(const MatrixForm& form) {
  const auto [m, n, k] = kMatrixShapes[form.shape];
  const bool square = form.a == form.b && form.c == form.d;
  const bool single = form.c == MatrixType::f32 && form.d == MatrixType::f32;
  const auto half_or_single = [](MatrixType type) {
    return type == MatrixType::f16 || type == MatrixType::f32;
  };
  if (form.wmma) {
    const bool deep = k == 16 && m * n == 256;
    if (form.a == MatrixType::f16)
      return deep && form.b == MatrixType::f16 && half_or_single(form.c) && half_or_single(form.d);
    if (form.a == MatrixType::bf16) return deep && square && single;
    if (form.a == MatrixType::tf32) return m == 16 && n == 16 && k == 8 && square && single;
    if (form.a == MatrixType::f64) return m == 8 && square && form.d == MatrixType::f64;
    return is_byte(form.a) && deep && square && form.d == MatrixType::s32;
  }
  if (form.a == MatrixType::f64)
    return square && form.d == MatrixType::f64 && n == 8 && k <= 8 && (m == 8 || m == 16);
  if (m != 16 || n != 8) return false;
  if (form.a == MatrixType::f16)
    return (k == 8 || k == 16) && form.b == MatrixType::f16 && half_or_single(form.c) &&
           form.c == form.d;
  if (form.a == MatrixType::bf16) return (k == 8 || k == 16) && form.b == form.a && single;
  if (form.a == MatrixType::tf32) return (k == 4 || k == 8) && form.b == form.a && single;
  if (is_byte(form.a))
    return (k == 16 || k == 32) && is_byte(form.b) && form.c == MatrixType::s32 &&
           form.d == MatrixType::s32;
  return is_float8(form.a) && is_float8(form.b) && k == 32 && single;
}

// How many registers hold a fragment, and of which type.
struct Fragment {
  std::size_t registers;
  ptx::Type type;
};

Fragment fragment(const MatrixForm& form, char which) {
  const auto [m, n, k] = kMatrixShapes[form.shape];
  const MatrixType type = which == 'a'   ? form.a
                          : which == 'b' ? form.b
                          : which == 'c' ? form.c
                                         : form.d;
  const unsigned size = which == 'a' ? m * k : which == 'b' ? k * n : m * n;
  const unsigned bits = bits_of(type);
  if (bits == 64) return {size / 32, {Kind::real, 64}};
  std::size_t registers = size * bits / 32 / 32;
  // Factors of f16 have twice the registers that they need, whatever the shape.
  if (form.wmma && type == MatrixType::f16 && (which == 'a' || which == 'b')) registers = 8;
  return {registers, type == MatrixType::f32 ? ptx::Type{Kind::real, 32} : kB32};
}

void put_fragment(FunctionTranslator& f, const MatrixForm& form, char which, Value* buffer,
                  std::size_t offset, const ptx::Operand& operand) {
  const Fragment expected = fragment(form, which);
  const Elements registers = elements(operand);
  if (registers.size() != expected.registers)
    f.invalid(format("{} registers are expected", expected.registers));
  put(f, buffer, offset, registers, expected.type);
}

void multiply(FunctionTranslator& f, const MatrixForm& form) {
  if (!known(form)) f.unsupported("this shape with these types is not implemented");
  Value* buffer = lane_buffer(f);
  put_fragment(f, form, 'a', buffer, offsetof(MatrixLane, a), f.operand(1));
  put_fragment(f, form, 'b', buffer, offsetof(MatrixLane, b), f.operand(2));
  put_fragment(f, form, 'c', buffer, offsetof(MatrixLane, c), f.operand(3));
  perform(f, form, buffer);
  const Fragment result = fragment(form, 'd');
  const Elements targets = elements(f.operand(0));
  if (targets.size() != result.registers)
    f.invalid(format("{} registers are expected", result.registers));
  get(f, buffer, offsetof(MatrixLane, d), targets, result.type);
}

// mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 d, a, b, c;
void mma(FunctionTranslator& f, Modifiers modifiers) {
  MatrixForm form;
  if (!modifiers.take_if(".sync") || !modifiers.take_if(".aligned"))
    f.unsupported("'.sync.aligned' is expected");
  const int shape = take_shape(modifiers);
  if (shape < 0 || !modifiers.take_if(".row") || !modifiers.take_if(".col"))
    f.unsupported("this shape is not implemented");
  form.shape = static_cast<std::uint8_t>(shape);
  form.saturate = modifiers.take_if(".satfinite");
  const int d = take_type(modifiers), a = take_type(modifiers), b = take_type(modifiers),
            c = take_type(modifiers);
  if (d < 0 || a < 0 || b < 0 || c < 0) f.unsupported("four types are expected");
  form.d = static_cast<MatrixType>(d);
  form.a = static_cast<MatrixType>(a);
  form.b = static_cast<MatrixType>(b);
  form.c = static_cast<MatrixType>(c);
  if (form.d != MatrixType::f64 && form.d != MatrixType::s32 && form.saturate)
    f.unsupported("'.satfinite' is for integers");
  f.finish(modifiers, 4);
  multiply(f, form);
}

// wmma.load.a.sync.aligned.row.m16n16k16.shared.bf16 {...}, [p], stride; the same for store
void wmma_access(FunctionTranslator& f, Modifiers& modifiers, bool store) {
  const int which = modifiers.take_one_of(".a", ".b", ".c", ".d");
  if (which < 0 || store != (which == 3) || !modifiers.take_if(".sync") ||
      !modifiers.take_if(".aligned"))
    f.unsupported("this form is not implemented");
  const int layout = modifiers.take_one_of(".row", ".col");
  const int shape = take_shape(modifiers);
  const ptx::Space space = take_space(f, modifiers);
  const int type = take_type(modifiers);
  if (layout < 0 || shape < 0 || type < 0) f.unsupported("this form is not implemented");
  f.finish(modifiers, f.num_operands());
  if (f.num_operands() != 2 && f.num_operands() != 3) f.invalid("2 or 3 operands are expected");
  const char name = "abcd"[which];
  MatrixForm form;
  form.wmma = true;
  form.shape = static_cast<std::uint8_t>(shape);
  form.a = form.b = form.c = form.d = static_cast<MatrixType>(type);
  if ((form.a == MatrixType::f64) != (kMatrixShapes[shape].m == 8 && kMatrixShapes[shape].n == 8) ||
      (kMatrixShapes[shape].n == 8 && kMatrixShapes[shape].m == 16))
    f.unsupported("this shape with this type is not implemented");
  const Fragment expected = fragment(form, name);
  const Elements registers = elements(f.operand(store ? 1 : 0));
  if (registers.size() != expected.registers)
    f.invalid(format("{} registers are expected", expected.registers));
  auto& b = f.builder();
  const auto [m, n, k] = kMatrixShapes[shape];
  const unsigned rows = name == 'b' ? k : m, columns = name == 'a' ? k : n;
  Value* stride = f.num_operands() == 3 ? b.CreateZExt(f.read(2, kU32), b.getInt64Ty())
                                        : b.getInt64(layout == 0 ? columns : rows);
  Value* address = f.address(f.operand(store ? 0 : 1), space);
  f.check_access(address, 16, space, store ? AccessKind::write : AccessKind::read);
  Value* buffer = f.temporary(llvm::ArrayType::get(b.getInt32Ty(), 16));
  if (store)
    put(f, buffer, 0, registers, expected.type);
  else
    b.CreateMemSet(buffer, b.getInt8(0), 64, llvm::MaybeAlign(4));
  f.call("kiln_wmma_access", b.getVoidTy(),
         {f.hidden(kThread), b.getInt32(name), b.getInt32(shape), b.getInt32(type),
          b.getInt32(layout), stride, f.pointer(address), buffer, b.getInt32(store)});
  if (!store) get(f, buffer, 0, registers, expected.type);
}

// wmma.mma.sync.aligned.row.col.m16n16k16.f32.f16.f16.f32; f16 says d and c alone.
void wmma_multiply(FunctionTranslator& f, Modifiers& modifiers) {
  MatrixForm form;
  form.wmma = true;
  if (!modifiers.take_if(".sync") || !modifiers.take_if(".aligned") ||
      modifiers.take_one_of(".row", ".col") < 0 || modifiers.take_one_of(".row", ".col") < 0)
    f.unsupported("this form is not implemented");
  const int shape = take_shape(modifiers);
  if (shape < 0) f.unsupported("this shape is not implemented");
  form.shape = static_cast<std::uint8_t>(shape);
  // The rounding of f64, which may stand before or behind the types.
  modifiers.take_if(".rn");
  std::vector<int> types;
  for (int type = take_type(modifiers); type >= 0; type = take_type(modifiers))
    types.push_back(type);
  modifiers.take_if(".rn");
  form.saturate = modifiers.take_if(".satfinite");
  f.finish(modifiers, 4);
  if (types.size() != 2 && types.size() != 4) f.unsupported("2 or 4 types are expected");
  form.d = static_cast<MatrixType>(types.front());
  form.c = static_cast<MatrixType>(types.back());
  form.a = types.size() == 4 ? static_cast<MatrixType>(types[1]) : MatrixType::f16;
  form.b = types.size() == 4 ? static_cast<MatrixType>(types[2]) : MatrixType::f16;
  if (form.saturate && form.d != MatrixType::s32) f.unsupported("'.satfinite' is for integers");
  multiply(f, form);
}

void wmma(FunctionTranslator& f, Modifiers modifiers) {
  if (modifiers.take_if(".load")) return wmma_access(f, modifiers, false);
  if (modifiers.take_if(".store")) return wmma_access(f, modifiers, true);
  if (!modifiers.take_if(".mma")) f.unsupported("this form is not implemented");
  wmma_multiply(f, modifiers);
}

}  // namespace

void add_matrix(Table& table) {
  table.insert({{"ldmatrix", ldmatrix},
                {"stmatrix", stmatrix},
                {"movmatrix", movmatrix},
                {"mma", mma},
                {"wmma", wmma}});
}

}  // namespace kiln::emulator::forms
