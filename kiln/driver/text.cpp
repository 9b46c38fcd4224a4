#include <charconv>
#include <cmath>
#include <ostream>

#include "kiln/driver/backend.h"
#include "kiln/driver/buffer.h"
#include "kiln/dtype/element.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

// Text of buffers: NumPy's array printing (`str(array)` with its default options) written again.
// Its rules: more than 1000 elements are shortened to three at each end of an axis; all shown
// numbers get one format, with up to 8 digits behind the point and no more than tell the number
// from its neighbours; numbers past the digits that their type holds get an exponent; lines break
// at 75 columns. Types that NumPy lacks are printed as float32.

namespace kiln::driver {
namespace {

constexpr std::int64_t kThreshold = 1000;
constexpr std::int64_t kEdge = 3;
constexpr int kPrecision = 8;
constexpr std::size_t kLineWidth = 75;
constexpr std::string_view kPrefix = "Buffer(";

/// A decimal number taken apart: sign, digits d.ddd and power of ten.
struct Decimal {
  bool negative = false;
  std::string digits;  // at least one, no trailing zeros
  int exponent = 0;
};

Decimal parse_scientific(std::string_view text) {
  Decimal result;
  if (text.starts_with('-')) {
    result.negative = true;
    text.remove_prefix(1);
  }
  const std::size_t e = text.find('e');
  for (char c : text.substr(0, e))
    if (c != '.') result.digits += c;
  std::string_view exponent = text.substr(e + 1);
  if (exponent.starts_with('+')) exponent.remove_prefix(1);
  std::from_chars(exponent.data(), exponent.data() + exponent.size(), result.exponent);
  while (result.digits.size() > 1 && result.digits.back() == '0') result.digits.pop_back();
  return result;
}

/// The value of `dtype`, or of float32 where NumPy has no such type, that is nearest to `value`.
double rounded(DType dtype, double value) {
  if (dtype == DType::float64) return value;
  if (dtype == DType::float16) return float16(value);
  return static_cast<float>(value);
}

/// The shortest digits that name `value` among the values of `dtype`.
Decimal shortest(DType dtype, double value) {
  char text[64];
  if (dtype == DType::float64) {
    const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::scientific);
    return parse_scientific({text, end.ptr});
  }
  if (dtype == DType::float16) {
    const std::uint32_t code = encode_float(kFloat16, value);
    for (int digits = 0;; ++digits) {
      const std::string candidate = format("{:.{}e}", value, digits);
      double back = 0;
      std::from_chars(candidate.data(), candidate.data() + candidate.size(), back);
      if (digits >= 8 || encode_float(kFloat16, back) == code) return parse_scientific(candidate);
    }
  }
  const auto end = std::to_chars(text, text + sizeof text, static_cast<float>(value),
                                 std::chars_format::scientific);
  return parse_scientific({text, end.ptr});
}

struct Parts {
  std::string whole;     // with the sign
  std::string fraction;  // behind the point, without trailing zeros
  int exponent = 0;      // scientific only
};

void trim_zeros(std::string& digits) {
  while (!digits.empty() && digits.back() == '0') digits.pop_back();
}

Parts positional(DType dtype, double value, int precision) {
  const Decimal d = shortest(dtype, value);
  const int count = static_cast<int>(d.digits.size());
  Parts parts;
  if (count - 1 - d.exponent > precision) {
    // Cut: the exact value is rounded, as digit generation would at that place.
    const std::string text = format("{:.{}f}", value, precision);
    const std::size_t point = text.find('.');
    parts.whole = text.substr(0, point);
    parts.fraction = point == std::string::npos ? "" : text.substr(point + 1);
  } else {
    std::string digits = d.digits;
    if (d.exponent < 0) {
      digits.insert(0, static_cast<std::size_t>(-d.exponent), '0');
      parts.whole = digits.substr(0, 1);
      parts.fraction = digits.substr(1);
    } else {
      if (count < d.exponent + 1)
        digits.append(static_cast<std::size_t>(d.exponent + 1 - count), '0');
      parts.whole = digits.substr(0, static_cast<std::size_t>(d.exponent) + 1);
      parts.fraction = digits.substr(static_cast<std::size_t>(d.exponent) + 1);
    }
    if (d.negative) parts.whole.insert(0, "-");
  }
  trim_zeros(parts.fraction);
  return parts;
}

Parts scientific(DType dtype, double value, int precision) {
  Decimal d = shortest(dtype, value);
  if (static_cast<int>(d.digits.size()) - 1 > precision)
    d = parse_scientific(format("{:.{}e}", value, precision));
  Parts parts;
  parts.whole = (d.negative ? "-" : "") + d.digits.substr(0, 1);
  parts.fraction = d.digits.substr(1);
  parts.exponent = d.exponent;
  return parts;
}

/// With exactly `precision` digits behind the point.
Parts exact_scientific(double value, int precision) {
  const std::string text = format("{:.{}e}", value, precision);
  const std::size_t e = text.find('e');
  const std::size_t point = text.find('.');
  Parts parts;
  parts.whole = text.substr(0, std::min(point, e));
  if (point != std::string::npos) parts.fraction = text.substr(point + 1, e - point - 1);
  parts.exponent = std::atoi(text.c_str() + e + 1);
  return parts;
}

std::string exponent_text(int exponent, std::size_t digits) {
  std::string text = std::to_string(std::abs(exponent));
  if (text.size() < digits) text.insert(0, digits - text.size(), '0');
  return (exponent < 0 ? "e-" : "e+") + text;
}

/// `str` of one number on its own, as Python writes floats.
std::string scalar_text(DType dtype, double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  const double size = std::abs(value);
  const double cutoff = dtype == DType::float64 ? 1e16 : dtype == DType::float16 ? 1e3 : 1e6;
  if (value != 0 && (size < 1e-4 || size >= cutoff)) {
    const Parts parts = scientific(dtype, value, 17);
    return parts.whole + (parts.fraction.empty() ? "" : "." + parts.fraction) +
           exponent_text(parts.exponent, 2);
  }
  const Parts parts = positional(dtype, value, 400);
  return parts.whole + "." + (parts.fraction.empty() ? "0" : parts.fraction);
}

/// One format for all shown numbers.
class FloatFormatter {
 public:
  FloatFormatter(DType dtype, const std::vector<double>& shown) : dtype_(dtype) {
    double largest = 0;
    double smallest = 0;
    bool any_finite = false;
    bool any_other = false;
    bool negative_infinity = false;
    for (double value : shown) {
      if (!std::isfinite(value)) {
        any_other = true;
        negative_infinity |= value == -std::numeric_limits<double>::infinity();
        continue;
      }
      any_finite = true;
      const double size = std::abs(value);
      if (size == 0) continue;
      largest = std::max(largest, size);
      smallest = smallest == 0 ? size : std::min(smallest, size);
    }
    // NumPy compares in the type itself.
    const double cutoff = dtype == DType::float64 ? 1e8 : dtype == DType::float16 ? 1e3 : 1e6;
    scientific_ = largest > 0 && (largest >= cutoff || smallest < rounded(dtype, 0.0001) ||
                                  rounded(dtype, largest / smallest) > 1000.0);
    if (any_finite) {
      for (double value : shown) {
        if (!std::isfinite(value)) continue;
        const Parts parts = scientific_ ? scientific(dtype, value, kPrecision)
                                        : positional(dtype, value, kPrecision);
        left_ = std::max(left_, parts.whole.size());
        fraction_ = std::max(fraction_, parts.fraction.size());
        exponent_ = std::max(exponent_, std::to_string(std::abs(parts.exponent)).size());
      }
      exponent_ = std::max<std::size_t>(exponent_, 2);
      right_ = scientific_ ? exponent_ + 2 + fraction_ : fraction_;
    }
    if (any_other) {
      const std::size_t width = 3 + (negative_infinity ? 1 : 0);
      const std::size_t offset = right_ + 1;
      if (width > offset) left_ = std::max(left_, width - offset);
    }
  }

  std::string operator()(double value) const {
    std::string text;
    if (!std::isfinite(value)) {
      text = std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
      const std::size_t width = left_ + right_ + 1;
      return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
    }
    Parts parts =
        scientific_ ? scientific(dtype_, value, kPrecision) : positional(dtype_, value, kPrecision);
    // NumPy fills up with digits of the exact value, not with zeros.
    if (scientific_ && parts.fraction.size() < fraction_)
      parts = exact_scientific(value, static_cast<int>(fraction_));
    text.assign(left_ - parts.whole.size(), ' ');
    text += parts.whole + "." + parts.fraction;
    if (scientific_) return text + exponent_text(parts.exponent, exponent_);
    return text + std::string(fraction_ - parts.fraction.size(), ' ');
  }

 private:
  DType dtype_;
  bool scientific_ = false;
  std::size_t left_ = 0;
  std::size_t right_ = 0;
  std::size_t fraction_ = 0;
  std::size_t exponent_ = 0;
};

/// Walks a dense host buffer in the order of printing.
class Printer {
 public:
  explicit Printer(const Buffer& dense)
      : buffer_(dense), summary_(dense.num_elements() > kThreshold) {
    std::vector<Scalar> shown;
    collect(0, 0, shown);
    if (dense.dtype() == DType::bool_) {
      word_ = [](const Scalar& value) -> std::string {
        return value.to<bool>() ? " True" : "False";
      };
    } else if (dense.dtype().is_integral()) {
      std::size_t width = 0;
      for (const Scalar& value : shown) width = std::max(width, integer_text(value).size());
      word_ = [width](const Scalar& value) {
        std::string text = integer_text(value);
        return std::string(width - text.size(), ' ') + text;
      };
    } else {
      std::vector<double> numbers;
      for (const Scalar& value : shown) numbers.push_back(value.to<double>());
      word_ = [formatter = FloatFormatter(dense.dtype(), numbers)](const Scalar& value) {
        return formatter(value.to<double>());
      };
    }
  }

  std::string print() const {
    return block(0, 0, std::string(kPrefix.size() + 1, ' '), kLineWidth);
  }

  static std::string integer_text(const Scalar& value) {
    return value.index() == 2 ? std::to_string(std::get<std::uint64_t>(value))
                              : std::to_string(std::get<std::int64_t>(value));
  }

 private:
  bool shortened(std::size_t axis) const { return summary_ && 2 * kEdge < buffer_.shape()[axis]; }

  void collect(std::size_t axis, std::int64_t offset, std::vector<Scalar>& shown) const {
    if (axis == buffer_.shape().size()) {
      shown.push_back(load_element(buffer_.dtype(), buffer_.data(), offset));
      return;
    }
    const std::int64_t extent = buffer_.shape()[axis];
    for (std::int64_t i = 0; i < extent; ++i) {
      if (shortened(axis) && i == kEdge) i = extent - kEdge;
      collect(axis + 1, offset + i * buffer_.strides()[axis], shown);
    }
  }

  std::string block(std::size_t axis, std::int64_t offset, const std::string& indent,
                    std::size_t width) const {
    if (axis == buffer_.shape().size())
      return word_(load_element(buffer_.dtype(), buffer_.data(), offset));
    const std::int64_t extent = buffer_.shape()[axis];
    const std::size_t axes_left = buffer_.shape().size() - axis;
    std::string text;
    std::string line = indent;
    const auto extend = [&](const std::string& word) {
      if (line.size() + word.size() > width - 1 && line.size() > indent.size()) {
        while (line.ends_with(' ')) line.pop_back();
        text += line + "\n";
        line = indent;
      }
      line += word;
    };
    for (std::int64_t i = 0; i < extent; ++i) {
      const bool gap = shortened(axis) && i == kEdge;
      if (gap) i = extent - kEdge;
      const std::string inner =
          block(axis + 1, offset + i * buffer_.strides()[axis], indent + " ", width - 1);
      if (axes_left == 1) {
        if (gap) {
          extend("...");
          line += " ";
        }
        extend(inner);
        if (i + 1 < extent) line += " ";
      } else {
        if (gap) text += indent + "..." + std::string(axes_left - 1, '\n');
        text += indent + inner;
        if (i + 1 < extent) text += std::string(axes_left - 1, '\n');
      }
    }
    if (axes_left == 1) text += line;
    return "[" + text.substr(indent.size()) + "]";
  }

  const Buffer& buffer_;
  bool summary_;
  std::function<std::string(const Scalar&)> word_;
};

std::string values_text(const Buffer& buffer) {
  if (buffer.num_elements() == 0) return "[]";
  const Buffer dense = buffer.on_host().copy(CPU());
  dense.wait_for_host_read();
  if (buffer.rank() > 0) return Printer(dense).print();
  const Scalar value = dense.item();
  if (value.is_bool()) return value.to<bool>() ? "True" : "False";
  if (value.is_integer()) return Printer::integer_text(value);
  return scalar_text(buffer.dtype(), value.to<double>());
}

}  // namespace

std::string Buffer::to_string() const {
  return format("{}{}, dtype={}, shape={}, device={})", kPrefix, values_text(*this),
                dtype().to_string(), shape().to_string(), device().to_string());
}

std::string Buffer::repr() const {
  return format("kiln.driver.Buffer({}, {}, {})", dtype().to_string(), shape().to_string(),
                state_->queue->to_string());
}

std::ostream& operator<<(std::ostream& out, const Buffer& buffer) {
  return out << buffer.to_string();
}

}  // namespace kiln::driver
