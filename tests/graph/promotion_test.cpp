#include "kiln/graph/promotion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "kiln/dtype/element.h"
#include "kiln/graph.h"
#include "kiln/support/error.h"

namespace kiln::graph {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

const DeviceRef cpu = DeviceRef::CPU();

DType promoted(DType a, DType b) {
  const DType pair[] = {a, b};
  return promoted_dtype(pair);
}

std::string failure(DType a, DType b) {
  try {
    return promoted(a, b).to_string();
  } catch (const ValueError& e) {
    return e.message();
  }
}

TEST(Promotion, TheTableOfTheSpec) {
  using D = DType;
  EXPECT_EQ(promoted(D::float32, D::float64), D::float64);
  EXPECT_EQ(promoted(D::bfloat16, D::float32), D::float32);
  EXPECT_EQ(promoted(D::int8, D::float16), D::float16);
  EXPECT_EQ(promoted(D::uint8, D::bfloat16), D::bfloat16);
  EXPECT_EQ(promoted(D::uint8, D::int16), D::int16);
  EXPECT_EQ(promoted(D::int32, D::float64), D::float64);
  EXPECT_EQ(promoted(D::bool_, D::int8), D::int8);
  EXPECT_EQ(promoted(D::bool_, D::float8_e4m3fn), D::float8_e4m3fn);
  EXPECT_EQ(promoted(D::float16, D::float32), D::float32);
  const std::string hint = ". Insert an explicit cast op if this conversion is wanted.";
  const std::string prefix = "Failed to resolve valid dtype: Unsafe cast from ";
  EXPECT_EQ(failure(D::int32, D::float32), prefix + "si32 to f32" + hint);
  EXPECT_EQ(failure(D::uint8, D::int8), prefix + "ui8 to si8" + hint);
  EXPECT_EQ(failure(D::uint32, D::int16), prefix + "ui32 to si32" + hint);
  EXPECT_EQ(failure(D::int32, D::float16), prefix + "si32 to f32" + hint);
  EXPECT_EQ(failure(D::int64, D::float64), prefix + "si64 to f64" + hint);
  EXPECT_THAT(failure(D::float16, D::bfloat16), StartsWith(prefix));
  EXPECT_THAT(failure(D::bool_, D::float8_e8m0fnu), StartsWith(prefix));
}

const DType kSmall[] = {
    DType::bool_,           DType::int8,        DType::uint8,           DType::int16,
    DType::uint16,          DType::float16,     DType::bfloat16,        DType::float8_e4m3fn,
    DType::float8_e4m3fnuz, DType::float8_e5m2, DType::float8_e5m2fnuz, DType::float8_e8m0fnu};

/// Every value of a type of at most 16 bits, ascending.
struct Values {
  std::vector<double> numbers;
  bool nan = false;
  bool include(const Values& other) const {
    return (nan || !other.nan) && std::includes(numbers.begin(), numbers.end(),
                                                other.numbers.begin(), other.numbers.end());
  }
};

const Values& values_of(DType dtype) {
  static std::map<int, Values> known;
  auto [it, fresh] = known.try_emplace(dtype.code());
  if (!fresh) return it->second;
  const int bits = dtype == DType::bool_ ? 1 : dtype.size_in_bits();
  for (std::uint32_t code = 0; code < (1u << bits); ++code) {
    std::uint16_t storage = static_cast<std::uint16_t>(code);
    const double v = load_element(dtype, &storage, 0).to<double>();
    if (std::isnan(v))
      it->second.nan = true;
    else
      it->second.numbers.push_back(v);
  }
  std::sort(it->second.numbers.begin(), it->second.numbers.end());
  auto& numbers = it->second.numbers;
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return it->second;
}

// The rule says: the result is an input's type that holds every value of the other. All pairs of
// small types are tried against the values themselves.
TEST(Promotion, HoldsEveryValueOfTheInputs) {
  for (DType a : kSmall) {
    for (DType b : kSmall) {
      DType to = a;
      try {
        to = promoted(a, b);
      } catch (const ValueError&) {
        continue;
      }
      EXPECT_TRUE(to == a || to == b);
      for (DType from : {a, b})
        EXPECT_TRUE(values_of(to).include(values_of(from)))
            << from.to_string() << " in " << to.to_string();
    }
  }
}

// And it is not refused where the larger of the two types does hold the other.
TEST(Promotion, IsNotRefusedWithoutReason) {
  auto rank = [](DType d) {
    if (d == DType::bool_) return 0;
    return d.is_float() ? 3 : d.is_signed_integral() ? 2 : 1;
  };
  for (DType a : kSmall) {
    for (DType b : kSmall) {
      const int width_a = a == DType::bool_ ? 1 : a.size_in_bits();
      const int width_b = b == DType::bool_ ? 1 : b.size_in_bits();
      if (rank(a) < rank(b) || width_a < width_b || a == b) continue;
      // Two types of one rank and width have no larger one.
      if (rank(a) == rank(b) && width_a == width_b) continue;
      if (values_of(a).include(values_of(b)))
        EXPECT_NO_THROW(promoted(a, b)) << a.to_string() << ' ' << b.to_string();
    }
  }
}

class WeakOperands : public testing::Test {
 protected:
  Graph g{"g"};
  Graph::Scope scope{g};
  TensorValue of(DType dtype) {
    return TensorValue(ops::buffer_load(ops::buffer_create(BufferType(dtype, {2}, cpu))));
  }
  std::string failure(const std::function<void()>& f) {
    try {
      f();
      return "";
    } catch (const Error& e) {
      return e.message();
    }
  }
};

TEST_F(WeakOperands, IntegersMustLieInTheExactRange) {
  struct Case {
    DType dtype;
    std::int64_t low, high;
  };
  for (Case c : {Case{DType::int8, -128, 127},
                 {DType::uint8, 0, 255},
                 {DType::int16, -32768, 32767},
                 {DType::float16, -2048, 2048},
                 {DType::bfloat16, -256, 256},
                 {DType::float32, -(1 << 24), 1 << 24},
                 {DType::float64, -(std::int64_t{1} << 53), std::int64_t{1} << 53},
                 {DType::int32, INT32_MIN, INT32_MAX},
                 {DType::uint32, 0, UINT32_MAX}}) {
    TensorValue x = of(c.dtype);
    EXPECT_EQ((x + c.low).dtype(), c.dtype);
    EXPECT_EQ((c.high + x).dtype(), c.dtype);
    EXPECT_EQ(failure([&] { x + (c.high + 1); }),
              "Unsafe cast: Can't promote python int with value (" + std::to_string(c.high + 1) +
                  ") to dtype(" + c.dtype.to_string() + "). It would lose precision.");
    EXPECT_NE(failure([&] { x + (c.low - 1); }), "");
  }
  EXPECT_EQ((of(DType::uint64) + UINT64_MAX).dtype(), DType::uint64);
  EXPECT_NE(failure([&] { of(DType::int64) + UINT64_MAX; }), "");
  EXPECT_EQ((of(DType::bool_) == 1).dtype(), DType::bool_);
  EXPECT_NE(failure([&] { (void)(of(DType::bool_) == 2); }), "");
  EXPECT_EQ((of(DType::float32) + Dim(3)).dtype(), DType::float32);
}

TEST_F(WeakOperands, Floats) {
  EXPECT_EQ((of(DType::float16) * 0.1).dtype(), DType::float16);
  EXPECT_EQ(failure([&] { of(DType::int32) + 0.5; }),
            "Unsafe cast: Can't promote python float to dtype(DType.int32).");
  // Rounded to nearest-even: 2049 lies between 2048 and 2050.
  of(DType::float16) + 2049.0;
  for (const auto& op : g.ir().body->ops) {
    if (op->kind != OpKind::constant) continue;
    const auto& bytes = op->attribute<std::shared_ptr<const ir::ConstantData>>("value")->bytes;
    if (bytes.size() != 2 || op->result()->type.tensor().dtype != DType::float16) continue;
    std::uint16_t bits;
    std::memcpy(&bits, bytes.data(), 2);
    EXPECT_TRUE(bits == 0x2e66 || bits == 0x6800) << std::hex << bits;
  }
}

TEST_F(WeakOperands, ArraysKeepTheirShape) {
  const float floats[] = {1, 2};
  Array f(DType::float32, {2, 1}, floats, sizeof floats);
  EXPECT_EQ((of(DType::float64) + f).shape(), (Shape{2, 2}));
  EXPECT_EQ((of(DType::float64) + f).dtype(), DType::float64);
  EXPECT_EQ(failure([&] { of(DType::int8) + f; }),
            "Unsafe cast: Refusing to implicitly promote float array to dtype(DType.int8).");
  const std::int64_t ints[] = {1, 300};
  Array i(DType::int64, {2}, ints, sizeof ints);
  EXPECT_THAT(
      failure([&] { of(DType::int8) + i; }),
      StartsWith("Unsafe cast: Refusing to implicitly promote external array with precision "
                 "loss for DType DType.int8. "));
  EXPECT_EQ((of(DType::int16) + i).dtype(), DType::int16);
  EXPECT_THROW(Array(DType::int64, {3}, ints, sizeof ints), ValueError);
}

TEST_F(WeakOperands, SomeOperandMustBeStrong) {
  EXPECT_THAT([] { ops::add(1, 2); },
              ThrowsMessage<TypeError>(
                  StartsWith("Binary ops require at least one kiln object as input. ")));
  EXPECT_THAT(
      [] { ops::exp(1.0); },
      ThrowsMessage<TypeError>(StartsWith("Unary ops do not support non-kiln objects as input. ")));
  EXPECT_THROW(ops::where(of(DType::bool_), 1, 2), TypeError);
}

TEST_F(WeakOperands, StrongOperandsAreCast) {
  TensorValue y = of(DType::int8) + of(DType::float32);
  EXPECT_EQ(y.dtype(), DType::float32);
  const auto& ops = g.ir().body->ops;
  EXPECT_EQ(ops[ops.size() - 2]->kind, OpKind::cast);
}

TEST_F(WeakOperands, DivisionOfIntegersIsFloat64) {
  EXPECT_EQ((of(DType::int64) / of(DType::uint64)).dtype(), DType::float64);
  EXPECT_EQ((7 / of(DType::int8)).dtype(), DType::float64);
  EXPECT_EQ((of(DType::int8) / of(DType::float32)).dtype(), DType::float32);
  EXPECT_EQ(failure([&] { of(DType::int8) / 0.5; }),
            "Unsafe cast: Can't promote python float to dtype(DType.int8).");
}

}  // namespace
}  // namespace kiln::graph
