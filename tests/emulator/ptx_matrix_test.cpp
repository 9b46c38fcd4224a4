#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "kiln/support/format.h"
#include "ptx_machine.h"

namespace kiln::emulator::test {
namespace {

using Matrix = std::vector<std::vector<int>>;  // small integers, which every type holds

Matrix random_matrix(int rows, int columns, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Matrix matrix(rows, std::vector<int>(columns));
  for (auto& row : matrix)
    for (int& value : row) value = static_cast<int>(random() % 4);
  return matrix;
}

std::uint32_t encode(const std::string& type, int value) {
  const float number = static_cast<float>(value);
  const std::uint32_t single = std::bit_cast<std::uint32_t>(number);
  if (type == "f32" || type == "tf32") return single;
  if (type == "bf16") return single >> 16;
  if (type == "f16") return value == 0 ? 0 : (single >> 13) - (112 << 10);
  if (type == "e4m3") return value == 0 ? 0 : (single >> 20) - (120 << 3);
  if (type == "e5m2") return value == 0 ? 0 : (single >> 21) - (112 << 2);
  return static_cast<std::uint32_t>(value) & (type == "s32" ? ~0U : 0xffU);
}

int bits_of(const std::string& type) {
  if (type == "f16" || type == "bf16") return 16;
  return type == "f32" || type == "tf32" || type == "s32" ? 32 : 8;
}

// Where element `i` of a lane lies, as the PTX manual gives it for each fragment.
struct Place {
  int row, column;
};
Place place_of_a(int lane, int i, int per_register) {
  const int group = lane / 4, in_group = lane % 4, reg = i / per_register, part = i % per_register;
  return {group + (reg % 2 == 1 ? 8 : 0),
          in_group * per_register + part + (reg >= 2 ? 4 * per_register : 0)};
}
Place place_of_b(int lane, int i, int per_register) {
  const int reg = i / per_register, part = i % per_register;
  return {lane % 4 * per_register + part + (reg == 1 ? 4 * per_register : 0), lane / 4};
}
Place place_of_c(int lane, int i) { return {lane / 4 + (i >= 2 ? 8 : 0), lane % 4 * 2 + i % 2}; }

std::vector<std::uint32_t> fragments(const Matrix& matrix, const std::string& type, int elements,
                                     const std::function<Place(int, int)>& place) {
  const int per_register = 32 / bits_of(type), registers = elements / per_register;
  std::vector<std::uint32_t> words(32 * registers);
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < elements; ++i) {
      const Place at = place(lane, i);
      words[lane * registers + i / per_register] |= encode(type, matrix[at.row][at.column])
                                                    << i % per_register * bits_of(type);
    }
  return words;
}

// Loads `count` registers %`name`0... of the lane from the parameter of that name.
std::string load(const std::string& name, int count) {
  std::string text =
      format("ld.param.u64 %x1, [{}];\nmul.wide.u32 %x2, %t, {};\nadd.s64 %x1, %x1, %x2;\n", name,
             4 * count);
  for (int i = 0; i < count; ++i)
    text += format("ld.global.b32 %{}{}, [%x1+{}];\n", name, i, 4 * i);
  return text;
}
std::string list(const std::string& name, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += (i == 0 ? "%" : ", %") + name + std::to_string(i);
  return text + "}";
}

void check_mma(int k, const std::string& type, const std::string& sums) {
  SCOPED_TRACE(format("m16n8k{} {} {}", k, type, sums));
  Machine& machine = Machine::instance();
  const Matrix a = random_matrix(16, k, 1), b = random_matrix(k, 8, 2), c = random_matrix(16, 8, 3);
  const int per_register = 32 / bits_of(type);
  const int na = 16 * k / 32 / per_register, nb = 8 * k / 32 / per_register,
            nc = 4 / (32 / bits_of(sums));
  const std::string text =
      ptx(".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)\n{\n.reg "
          ".b32 %a<9>, %b<9>, "
          "%c<9>, %d<9>, %t;\n.reg .b64 %x<4>;\nmov.u32 %t, %tid.x;\n" +
          load("a", na) + load("b", nb) + load("c", nc) +
          format("mma.sync.aligned.m16n8k{}.row.col.{}.{}.{}.{} {}, {}, {}, {};\n", k, sums, type,
                 type, sums, list("d", nc), list("a", na), list("b", nb), list("c", nc)) +
          format("ld.param.u64 %x1, [d];\nmul.wide.u32 %x2, %t, {};\nadd.s64 %x1, %x1, %x2;\n",
                 4 * nc) +
          [&] {
            std::string stores;
            for (int i = 0; i < nc; ++i)
              stores += format("st.global.b32 [%x1+{}], %d{};\n", 4 * i, i);
            return stores;
          }() +
          "ret;\n}");
  const auto c_words = fragments(c, sums, 4, place_of_c);
  const std::uint64_t d = machine.allocate(4096);
  const Result result =
      launch(Program::load(text, {}), "k", {1, 1, 1}, {32, 1, 1},
             {machine.upload(
                  fragments(a, type, na * per_register,
                            [&](int lane, int i) { return place_of_a(lane, i, per_register); })),
              machine.upload(
                  fragments(b, type, nb * per_register,
                            [&](int lane, int i) { return place_of_b(lane, i, per_register); })),
              machine.upload(c_words), d});
  ASSERT_FALSE(result.fault) << result.fault->sentence;
  Matrix expected = c;
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 8; ++j)
      for (int p = 0; p < k; ++p) expected[i][j] += a[i][p] * b[p][j];
  EXPECT_EQ(machine.download<std::uint32_t>(d, 32 * nc), fragments(expected, sums, 4, place_of_c));
}

TEST(PtxMatrix, MmaOfAllTypes) {
  check_mma(8, "f16", "f32");
  check_mma(16, "f16", "f32");
  check_mma(16, "f16", "f16");
  check_mma(8, "bf16", "f32");
  check_mma(16, "bf16", "f32");
  check_mma(4, "tf32", "f32");
  check_mma(8, "tf32", "f32");
  check_mma(16, "s8", "s32");
  check_mma(32, "u8", "s32");
  check_mma(32, "e4m3", "f32");
  check_mma(32, "e5m2", "f32");
}

TEST(PtxMatrix, LdmatrixGivesEachLaneItsPair) {
  Machine& machine = Machine::instance();
  for (const bool transposed : {false, true}) {
    const auto program = Program::load(
        ptx(".visible .entry k(.param .u64 o)\n{\n.reg .b32 %r<12>, %t;\n.reg .b16 %h;\n.reg .b64 "
            "%x<4>;\n"
            ".shared .align 16 .b8 room[512];\nmov.u32 %t, %tid.x;\nmov.u32 %r1, room;\n"
            // 256 halves, each its own number.
            "shl.b32 %r2, %t, 4;\nadd.u32 %r1, %r1, %r2;\nshl.b32 %r3, %t, 3;\nmov.u32 %r4, "
            "0;\nL:\n"
            "cvt.u16.u32 %h, %r3;\nst.shared.u16 [%r1], %h;\nadd.u32 %r1, %r1, 2;\nadd.u32 %r3, "
            "%r3, 1;\n"
            "add.u32 %r4, %r4, 1;\n.reg .pred %p;\nsetp.lt.u32 %p, %r4, 8;\n@%p bra "
            "L;\nbar.warp.sync -1;\n"
            "mov.u32 %r1, room;\nadd.u32 %r1, %r1, %r2;\nldmatrix.sync.aligned.m8n8.x4" +
            std::string(transposed ? ".trans" : "") +
            ".shared.b16 {%r5, %r6, %r7, %r8}, [%r1];\nld.param.u64 %x1, [o];\nmul.wide.u32 %x2, "
            "%t, 16;\n"
            "add.s64 %x1, %x1, %x2;\nst.global.v4.b32 [%x1], {%r5, %r6, %r7, %r8};\nret;\n}"),
        {});
    const std::uint64_t out = machine.allocate(512);
    ASSERT_FALSE(launch(program, "k", {1, 1, 1}, {32, 1, 1}, {out}).fault);
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < 4; ++i)
        for (int part = 0; part < 2; ++part) {
          int row = lane / 4, column = lane % 4 * 2 + part;
          if (transposed) std::swap(row, column);
          EXPECT_EQ(machine.array<std::uint16_t>(out)[lane * 8 + i * 2 + part],
                    64 * i + 8 * row + column);
        }
  }
}

TEST(PtxMatrix, WmmaMultipliesWhatItLoads) {
  Machine& machine = Machine::instance();
  struct Shape {
    int m, n, k, a, b;
  };
  for (const Shape& s : {Shape{16, 16, 16, 4, 4}, Shape{32, 8, 16, 8, 2}, Shape{8, 32, 16, 2, 8}}) {
    const Matrix a = random_matrix(s.m, s.k, 4), b = random_matrix(s.k, s.n, 5);
    std::vector<std::uint16_t> a_rows, b_columns;
    for (int i = 0; i < s.m; ++i)
      for (int p = 0; p < s.k; ++p)
        a_rows.push_back(static_cast<std::uint16_t>(encode("bf16", a[i][p])));
    for (int j = 0; j < s.n; ++j)
      for (int p = 0; p < s.k; ++p)
        b_columns.push_back(static_cast<std::uint16_t>(encode("bf16", b[p][j])));
    const std::string shape = format("m{}n{}k{}", s.m, s.n, s.k);
    const auto program = Program::load(
        ptx(".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 d)\n{\n.reg .b32 %a<9>, "
            "%b<9>;\n"
            ".reg .f32 %c<9>, %d<9>;\n.reg .b64 %x<4>;\nld.param.u64 %x1, [a];\nld.param.u64 %x2, "
            "[b];\n"
            "ld.param.u64 %x3, [d];\n" +
            format("wmma.load.a.sync.aligned.row.{}.global.bf16 {}, [%x1], 16;\n", shape,
                   list("a", s.a)) +
            format("wmma.load.b.sync.aligned.col.{}.global.bf16 {}, [%x2], 16;\n", shape,
                   list("b", s.b)) +
            "mov.f32 %c0, 0f3F800000;\nmov.f32 %c1, %c0;\nmov.f32 %c2, %c0;\nmov.f32 %c3, "
            "%c0;\nmov.f32 %c4, %c0;\n"
            "mov.f32 %c5, %c0;\nmov.f32 %c6, %c0;\nmov.f32 %c7, %c0;\n" +
            format("wmma.mma.sync.aligned.row.col.{}.f32.bf16.bf16.f32 {}, {}, {}, {};\n", shape,
                   list("d", 8), list("a", s.a), list("b", s.b), list("c", 8)) +
            format("wmma.store.d.sync.aligned.row.{}.global.f32 [%x3], {}, {};\nret;\n}}", shape,
                   list("d", 8), s.n)),
        {});
    const std::uint64_t d = machine.allocate(4 * s.m * s.n);
    const Result result = launch(program, "k", {1, 1, 1}, {32, 1, 1},
                                 {machine.upload(a_rows), machine.upload(b_columns), d});
    ASSERT_FALSE(result.fault) << result.fault->sentence;
    for (int i = 0; i < s.m; ++i)
      for (int j = 0; j < s.n; ++j) {
        int sum = 1;
        for (int p = 0; p < s.k; ++p) sum += a[i][p] * b[p][j];
        ASSERT_EQ(machine.array<float>(d)[i * s.n + j], static_cast<float>(sum));
      }
  }
}

}  // namespace
}  // namespace kiln::emulator::test
