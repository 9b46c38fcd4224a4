#include "kiln/graph/attribute_parser.h"

#include "kiln/graph/element_text.h"
#include "kiln/graph/layout.h"
#include "kiln/support/format.h"

namespace kiln::graph::ir {

Dim AttributeParser::parse_dim() {
  Dim sum = parse_product();
  while (true) {
    const std::size_t at = lex_.position();
    if (lex_.accept("+"))
      sum = fold(at, [&](const Dim& right) { return sum + right; }, parse_product());
    else if (lex_.accept("-"))
      sum = fold(at, [&](const Dim& right) { return sum - right; }, parse_product());
    else
      return sum;
  }
}

Dim AttributeParser::parse_product() {
  Dim product = parse_factor();
  while (true) {
    const std::size_t at = lex_.position();
    if (lex_.accept("*"))
      product = fold(at, [&](const Dim& right) { return product * right; }, parse_factor());
    else if (lex_.accept("//"))
      product =
          fold(at, [&](const Dim& right) { return product.floor_div(right); }, parse_factor());
    else
      return product;
  }
}

Dim AttributeParser::parse_factor() {
  if (lex_.peek("(")) {
    // Each level of parentheses is a level of recursion; a real dim has few.
    if (++depth_ > 200) lex_.fail("the dim is nested too deeply");
    lex_.expect("(");
    Dim dim = parse_dim();
    lex_.expect(")");
    --depth_;
    return dim;
  }
  for (char c : {'-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'})
    if (peek_char(c)) return lex_.integer();
  return Dim(lex_.identifier());
}

bool AttributeParser::peek_char(char c) {
  const std::size_t at = lex_.position();
  return at < size() && text_at(at) == c;
}

Shape AttributeParser::parse_shape() {
  Shape shape;
  parse_list([&] { shape.push_back(parse_dim()); });
  return shape;
}

std::vector<std::string> AttributeParser::parse_strings() {
  std::vector<std::string> out;
  parse_list([&] { out.push_back(lex_.string()); });
  return out;
}

DType AttributeParser::parse_dtype() {
  const std::size_t at = lex_.position();
  std::string name = lex_.identifier();
  try {
    return DType::from_name(name);
  } catch (const KeyError& e) {
    lex_.fail_at(at, e.message());
  }
}

DeviceRef AttributeParser::parse_device() {
  DeviceKind kind = lex_.accept("cpu") ? DeviceKind::cpu : DeviceKind::gpu;
  if (kind == DeviceKind::gpu && !lex_.accept("gpu")) lex_.fail("expected a device");
  lex_.expect(":");
  const std::size_t at = lex_.position();
  std::int64_t id = lex_.integer();
  if (id < 0 || id > INT32_MAX) lex_.fail_at(at, "a device id is a small number");
  return {kind, static_cast<int>(id)};
}

FilterLayout AttributeParser::parse_layout() {
  const std::size_t at = lex_.position();
  std::string name = lex_.identifier();
  try {
    return filter_layout_from_string(name);
  } catch (const ValueError& e) {
    lex_.fail_at(at, e.message());
  }
}

Type AttributeParser::parse_type() {
  if (lex_.accept("chain")) return ChainType{};
  if (lex_.accept("opaque")) return parse_opaque();
  const std::size_t at = lex_.position();
  const bool buffer = lex_.accept("buffer");
  if (!buffer && !lex_.accept("tensor")) lex_.fail("expected a type");
  lex_.expect("<");
  Shape shape = parse_shape();
  lex_.expect(",");
  DType dtype = parse_dtype();
  DeviceRef device;
  std::optional<FilterLayout> layout;
  while (lex_.accept(",")) {
    if (!buffer && lex_.accept("layout")) {
      lex_.expect("=");
      layout = parse_layout();
    } else {
      device = parse_device();
    }
  }
  lex_.expect(">");
  try {
    if (buffer) return BufferType(dtype, std::move(shape), device);
    TensorType type(dtype, std::move(shape), device);
    type.layout = layout;
    return type;
  } catch (const Error& e) {
    lex_.fail_at(at, e.message());
  }
}

Type AttributeParser::parse_opaque() {
  OpaqueType type;
  lex_.expect("<");
  type.name = lex_.string();
  if (lex_.accept(",")) {
    lex_.expect("{");
    do {
      std::string name = lex_.identifier();
      lex_.expect("=");
      OpaqueType::Parameter value;
      if (lex_.accept("true"))
        value = true;
      else if (lex_.accept("false"))
        value = false;
      else if (lex_.peek("\""))
        value = lex_.string();
      else if (peek_char('-') || is_digit())
        value = lex_.integer();
      else
        value = parse_dtype();
      type.parameters[name] = value;
    } while (lex_.accept(","));
    lex_.expect("}");
  }
  lex_.expect(">");
  return type;
}

bool AttributeParser::is_digit() {
  const std::size_t at = lex_.position();
  return at < size() && text_at(at) >= '0' && text_at(at) <= '9';
}

bool AttributeParser::parse_bool() {
  if (lex_.accept("true")) return true;
  lex_.expect("false");
  return false;
}

double AttributeParser::parse_double() {
  const std::size_t at = lex_.position();
  std::optional<double> value = parse_real(lex_.number());
  if (!value) lex_.fail_at(at, "expected a float");
  return *value;
}

// A float has a point, an exponent or a special name; anything else is a dim.
Attribute AttributeParser::parse_dim_or_real() {
  const std::size_t at = lex_.position();
  if (peek_char('-') || is_digit()) {
    std::size_t end = at;
    while (end < size() && std::string_view(",}) \n").find(text_at(end)) == std::string_view::npos)
      ++end;
    std::string_view token = lex_.text().substr(at, end - at);
    if (token.find_first_of(".eE") != std::string_view::npos) return parse_double();
  }
  return parse_dim();
}

PendingConstant AttributeParser::parse_constant() {
  PendingConstant constant;
  constant.position = lex_.position();
  if (lex_.accept("elided"))
    lex_.fail_at(constant.position,
                 "the constant was elided when this text was printed; print it again without "
                 "elide_constants_above");
  if (lex_.accept("hex")) {
    constant.hex = lex_.raw_string();
    return constant;
  }
  lex_.expect("dense");
  lex_.expect("<");
  constant.dense = true;
  parse_list([&] { constant.elements.push_back(lex_.number()); });
  lex_.expect(">");
  return constant;
}

std::shared_ptr<const ConstantData> AttributeParser::resolve(const PendingConstant& constant,
                                                             const Type& type) {
  auto data = std::make_shared<ConstantData>();
  if (!constant.dense) {
    auto digit = [&](char c) {
      if (c >= '0' && c <= '9') return c - '0';
      if (c >= 'a' && c <= 'f') return c - 'a' + 10;
      lex_.fail_at(constant.position, "a hex constant has the digits 0-9 and a-f");
    };
    if (constant.hex.size() % 2 != 0)
      lex_.fail_at(constant.position, "a hex constant has two digits for each byte");
    for (std::size_t i = 0; i < constant.hex.size(); i += 2)
      data->bytes.push_back(
          static_cast<std::byte>(digit(constant.hex[i]) * 16 + digit(constant.hex[i + 1])));
    return data;
  }
  if (!type.is_tensor() || type.tensor().dtype.size_in_bits() < 8)
    lex_.fail_at(constant.position, "a dense constant has a tensor type of whole bytes");
  const DType dtype = type.tensor().dtype;
  const auto size = static_cast<std::size_t>(dtype.size_in_bytes());
  data->bytes.resize(constant.elements.size() * size);
  for (std::size_t i = 0; i < constant.elements.size(); ++i)
    if (!parse_element(dtype, constant.elements[i], data->bytes.data() + i * size))
      lex_.fail_at(constant.position, format("'{}' is no element of type {}", constant.elements[i],
                                             dtype.text_name()));
  return data;
}

Attribute AttributeParser::parse_attribute(AttributeKind kind,
                                           std::optional<PendingConstant>& constant) {
  switch (kind) {
    case AttributeKind::boolean:
      return parse_bool();
    case AttributeKind::integer:
      return lex_.integer();
    case AttributeKind::real:
      return parse_double();
    case AttributeKind::string:
      return lex_.string();
    case AttributeKind::dtype:
      return parse_dtype();
    case AttributeKind::device:
      return parse_device();
    case AttributeKind::dim:
      return parse_dim();
    case AttributeKind::shape:
      return parse_shape();
    case AttributeKind::layout:
      return parse_layout();
    case AttributeKind::dim_or_real:
      return parse_dim_or_real();
    case AttributeKind::strings:
      return parse_strings();
    case AttributeKind::ints: {
      std::vector<std::int64_t> out;
      parse_list([&] { out.push_back(lex_.integer()); });
      return out;
    }
    case AttributeKind::data:
      constant = parse_constant();
      return std::shared_ptr<const ConstantData>();
  }
  return false;
}

Attributes AttributeParser::parse_attributes(const OpInfo& info,
                                             std::optional<PendingConstant>& constant) {
  Attributes attributes;
  if (!lex_.accept("{")) return attributes;
  if (lex_.accept("}")) return attributes;
  do {
    const std::size_t at = lex_.position();
    std::string name = lex_.identifier();
    auto it = std::find_if(info.attributes.begin(), info.attributes.end(),
                           [&](const AttributeInfo& a) { return a.name == name; });
    // The reductions "max" and "min" share their names with elementwise ops.
    AttributeKind kind = AttributeKind::integer;
    if (it != info.attributes.end())
      kind = it->kind;
    else if (name != "axis" || (info.kind != OpKind::max && info.kind != OpKind::min))
      lex_.fail_at(at, format("'kiln.{}' has no attribute '{}'", info.name, name));
    lex_.expect("=");
    if (!attributes.emplace(name, parse_attribute(kind, constant)).second)
      lex_.fail_at(at, format("attribute '{}' stands here twice", name));
  } while (lex_.accept(","));
  lex_.expect("}");
  return attributes;
}

}  // namespace kiln::graph::ir
