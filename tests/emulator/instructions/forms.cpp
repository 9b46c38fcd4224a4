#include "forms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <iomanip>
#include <random>
#include <sstream>

#include "driver.h"

namespace kiln::emulator_test {
namespace {

constexpr unsigned kBlock = 128;
constexpr std::size_t kFormsOfModule = 48;
constexpr std::size_t kRandom = 2000;    // elements of random bits
constexpr std::size_t kProducts = 4096;  // at most so many combinations of edge values

std::uint64_t mask_of(Type type) {
  return width(type) == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width(type)) - 1;
}

const char* register_class(Type type) {
  switch (type) {
    case Type::f32:
      return ".f32";
    case Type::f64:
      return ".f64";
    default:
      return width(type) == 64 ? ".b64" : width(type) == 32 ? ".b32" : ".b16";
  }
}

std::vector<std::uint64_t> float_edges(int exponent_bits, int mantissa_bits) {
  const std::uint64_t one = ((std::uint64_t{1} << (exponent_bits - 1)) - 1) << mantissa_bits;
  const std::uint64_t unit = std::uint64_t{1} << mantissa_bits;
  const std::uint64_t infinity = ((std::uint64_t{1} << exponent_bits) - 1) << mantissa_bits;
  std::vector<std::uint64_t> edges = {0,
                                      1,
                                      unit - 1,
                                      unit,
                                      unit + 1,
                                      one - unit,
                                      one,
                                      one + 1,
                                      one + unit,
                                      one - 1,
                                      one + unit * 3 / 2,
                                      one + 3 * unit + unit / 4,
                                      one + mantissa_bits * unit,
                                      infinity - 1,
                                      infinity - unit,
                                      infinity,
                                      infinity | unit / 2,
                                      infinity | (unit - 1),
                                      one - mantissa_bits * unit};
  const std::size_t count = edges.size();
  for (std::size_t i = 0; i < count; ++i) {
    edges.push_back(edges[i] | std::uint64_t{1} << (exponent_bits + mantissa_bits));
  }
  return edges;
}

std::vector<std::uint64_t> integer_edges(int bits) {
  const std::uint64_t top = std::uint64_t{1} << (bits - 1);
  return {0,
          1,
          2,
          3,
          5,
          7,
          8,
          31,
          32,
          33,
          63,
          64,
          127,
          128,
          255,
          0x5555555555555555u,
          0xaaaaaaaaaaaaaaaau,
          top >> 1,
          top - 1,
          top,
          top + 1,
          ~std::uint64_t{0},
          ~std::uint64_t{1},
          ~std::uint64_t{30},
          ~std::uint64_t{0} << (bits / 2)};
}

std::vector<std::uint64_t> edges_of(Type type) {
  switch (type) {
    case Type::pred:
      return {0, 1};
    case Type::f16:
      return float_edges(5, 10);
    case Type::bf16:
      return float_edges(8, 7);
    case Type::f32:
      return float_edges(8, 23);
    case Type::f64:
      return float_edges(11, 52);
    case Type::f16x2:
    case Type::bf16x2: {
      const auto halves = type == Type::f16x2 ? float_edges(5, 10) : float_edges(8, 7);
      std::vector<std::uint64_t> pairs;
      for (std::size_t i = 0; i < halves.size(); ++i) {
        pairs.push_back(halves[i] | halves[(i * 7 + 3) % halves.size()] << 16);
      }
      return pairs;
    }
    default: {
      auto edges = integer_edges(std::max(width(type), 8));
      for (auto& edge : edges) edge &= mask_of(type);
      std::sort(edges.begin(), edges.end());
      edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
      return edges;
    }
  }
}

/// Random bits; half of the floats have moderate exponents, so that operands meet.
std::uint64_t random_value(Type type, std::mt19937_64& random) {
  const std::uint64_t bits = random();
  const auto moderate = [&](int exponent_bits, int mantissa_bits) {
    const std::uint64_t bias = (std::uint64_t{1} << (exponent_bits - 1)) - 1;
    const std::uint64_t exponent = bias - 8 + random() % 16;
    const std::uint64_t field = (std::uint64_t{1} << exponent_bits) - 1;
    return (bits & ~(field << mantissa_bits)) | exponent << mantissa_bits;
  };
  const bool small = random() & 1;
  if (type == Type::f32 && small) return moderate(8, 23) & 0xffffffff;
  if (type == Type::f64 && small) return moderate(11, 52);
  if (type == Type::bf16 && small) return moderate(8, 7) & 0xffff;
  if (width(type) >= 32 && type < Type::f16 && small)
    return (bits & mask_of(type)) >> random() % 32;
  return bits & mask_of(type);
}

/// The inputs of all elements, one array an operand.
std::vector<std::vector<std::uint64_t>> make_inputs(const Form& form) {
  const std::size_t operands = form.inputs.size();
  std::vector<std::vector<std::uint64_t>> values(operands), choices(operands);
  std::size_t products = 1;
  for (std::size_t k = 0; k < operands; ++k) {
    choices[k] = form.choices[k].empty() ? edges_of(form.inputs[k]) : form.choices[k];
    products *= choices[k].size();
  }
  std::mt19937_64 random(std::hash<std::string>{}(form.text));
  if (operands == 1 && form.inputs[0] != Type::pred && width(form.inputs[0]) <= 16 &&
      form.choices[0].empty()) {
    for (std::uint64_t value = 0; value < 65536; ++value) values[0].push_back(value);
    return values;
  }
  const std::size_t count = std::min(products, kProducts);
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t rest = products > kProducts ? random() % products : i;
    for (std::size_t k = 0; k < operands; ++k) {
      values[k].push_back(choices[k][rest % choices[k].size()]);
      rest /= choices[k].size();
    }
  }
  while (values[0].size() < count + kRandom || values[0].size() % 32 != 0) {
    for (std::size_t k = 0; k < operands; ++k) {
      values[k].push_back(form.choices[k].empty() ? random_value(form.inputs[k], random)
                                                  : form.choices[k][random() % choices[k].size()]);
    }
  }
  return values;
}

constexpr int kNoMutation = -1;

std::string load_operand(Type type, int operand, bool neighbour) {
  const std::string name = std::string(1, "abce"[operand]) + (neighbour ? "w" : "");
  const std::string offset = neighbour ? "%ow" : "%o";
  std::string text = "  ld.param.u64 %y0, [p" + std::to_string(operand) + "];\n";
  text += "  add.u64 %y0, %y0, " + offset + ";\n";
  if (type == Type::pred) {
    text += "  ld.global.b32 %x0, [%y0];\n  setp.ne.b32 %" + name + ", %x0, 0;\n";
  } else {
    const int bits = std::max(width(type), 16);
    const char* suffix = type == Type::f32   ? "f32"
                         : type == Type::f64 ? "f64"
                         : bits == 64        ? "b64"
                         : bits == 32        ? "b32"
                                             : "b16";
    text += std::string("  ld.global.") + suffix + " %" + name + ", [%y0];\n";
  }
  return text;
}

std::string kernel_of(const Form& form, const std::string& name, int mutated) {
  std::ostringstream text;
  text << ".visible .entry " << name << "(.param .u64 pd, .param .u64 pm, .param .u32 count";
  for (std::size_t k = 0; k < form.inputs.size(); ++k) text << ", .param .u64 p" << k;
  text << ")\n{\n  .reg .pred %p<4>, %out;\n  .reg .b32 %x<4>, %i, %n, %shared;\n"
       << "  .reg .b64 %y<4>, %o, %ow, %global, %local, %generic;\n";
  for (std::size_t k = 0; k < form.inputs.size(); ++k) {
    const Type type = form.inputs[k];
    const char* kind = type == Type::pred ? ".pred" : register_class(type);
    text << "  .reg " << kind << " %" << "abce"[k] << ";\n";
    if (static_cast<int>(k) == mutated) text << "  .reg " << kind << " %" << "abce"[k] << "w;\n";
  }
  text << "  .reg " << (form.output == Type::pred ? ".pred" : register_class(form.output))
       << " %d;\n";
  const auto uses = [&](const char* word) { return form.text.find(word) != std::string::npos; };
  if (uses("%shared")) text << "  .shared .align 16 .b8 buffer[" << kBlock * 16 << "];\n";
  if (uses("%local")) text << "  .local .align 16 .b8 own[16];\n";
  text << "  mov.u32 %x0, %ctaid.x;\n  mov.u32 %x1, %ntid.x;\n  mov.u32 %x2, %tid.x;\n"
       << "  mad.lo.s32 %i, %x0, %x1, %x2;\n  ld.param.u32 %n, [count];\n"
       << "  setp.ge.u32 %out, %i, %n;\n  @%out bra DONE;\n  mul.wide.u32 %o, %i, 8;\n";
  if (uses("%shared")) {
    text << "  mov.u32 %shared, buffer;\n  mad.lo.u32 %shared, %x2, 16, %shared;\n";
  }
  if (uses("%local")) text << "  mov.u64 %local, own;\n";
  if (uses("%global") || uses("%generic")) {
    text << "  ld.param.u64 %global, [pm];\n  mul.wide.u32 %y0, %i, 16;\n"
         << "  add.u64 %global, %global, %y0;\n  mov.u64 %generic, %global;\n";
  }
  if (mutated != kNoMutation) {
    // An element of another warp: most of what warps compute is the same for all of its lanes.
    text << "  add.u32 %x0, %i, 33;\n  rem.u32 %x0, %x0, %n;\n  mul.wide.u32 %ow, %x0, 8;\n";
  }
  for (std::size_t k = 0; k < form.inputs.size(); ++k) {
    text << load_operand(form.inputs[k], static_cast<int>(k), false);
    if (static_cast<int>(k) == mutated) {
      text << load_operand(form.inputs[k], static_cast<int>(k), true);
    }
  }
  std::string instruction = replaced(form.text, "{d}", "%d");
  for (int k = 0; k < 4; ++k) {
    const std::string letter(1, "abce"[k]);
    instruction =
        replaced(instruction, "{" + letter + "}", "%" + letter + (k == mutated ? "w" : ""));
  }
  text << "  " << instruction << "\n  ld.param.u64 %y0, [pd];\n  add.u64 %y0, %y0, %o;\n";
  if (form.output == Type::pred) {
    text << "  selp.u32 %x0, 1, 0, %d;\n  st.global.b32 [%y0], %x0;\n";
  } else {
    const char* suffix = form.output == Type::f32   ? "f32"
                         : form.output == Type::f64 ? "f64"
                         : width(form.output) == 64 ? "b64"
                         : width(form.output) == 32 ? "b32"
                                                    : "b16";
    text << "  st.global." << suffix << " [%y0], %d;\n";
  }
  text << "DONE:\n  ret;\n}\n";
  return text.str();
}

bool is_nan(Type type, std::uint64_t bits) {
  switch (type) {
    case Type::f16:
      return (bits & 0x7fff) > 0x7c00;
    case Type::bf16:
      return (bits & 0x7fff) > 0x7f80;
    case Type::f32:
      return (bits & 0x7fffffff) > 0x7f800000;
    case Type::f64:
      return (bits & ~(std::uint64_t{1} << 63)) > 0x7ff0000000000000;
    default:
      return false;
  }
}

bool same(const Form& form, std::uint64_t expected, std::uint64_t found) {
  if (form.output == Type::f16x2 || form.output == Type::bf16x2) {
    Form half = form;
    half.output = form.output == Type::f16x2 ? Type::f16 : Type::bf16;
    return same(half, expected & 0xffff, found & 0xffff) &&
           same(half, expected >> 16 & 0xffff, found >> 16 & 0xffff);
  }
  const std::uint64_t mask = mask_of(form.output);
  if ((expected & mask) == (found & mask)) return true;
  return !form.exact_nan && is_nan(form.output, expected & mask) &&
         is_nan(form.output, found & mask);
}

/// What stands wrong in the results: a line for each of the first elements, and how many.
struct Findings {
  std::size_t wrong = 0;
  std::string lines;
};

Findings compare(const Form& form, const std::vector<std::vector<std::uint64_t>>& inputs,
                 const std::vector<std::uint64_t>& results) {
  Findings findings;
  std::vector<std::uint64_t> values(inputs.size());
  std::vector<std::vector<std::uint64_t>> lanes(32);
  std::vector<std::optional<std::uint64_t>> of_warp(32);
  for (std::size_t i = 0; i < results.size(); ++i) {
    for (std::size_t k = 0; k < inputs.size(); ++k) values[k] = inputs[k][i];
    std::optional<std::uint64_t> expected;
    bool right = true;
    if (form.warp) {
      if (i % 32 == 0) {
        for (std::size_t lane = 0; lane < 32; ++lane) {
          lanes[lane].clear();
          for (const auto& operand : inputs) lanes[lane].push_back(operand[i + lane]);
        }
        form.warp(lanes, of_warp);
      }
      expected = of_warp[i % 32];
    } else if (form.reference) {
      expected = form.reference(values);
    } else {
      right = form.acceptance(values, results[i]);
    }
    if (expected) right = same(form, *expected, results[i]);
    if (right) continue;
    if (++findings.wrong <= 4) {
      std::ostringstream line;
      line << std::hex << "\n  inputs";
      for (std::uint64_t value : values) line << " 0x" << value;
      if (expected) line << ": expected 0x" << (*expected & mask_of(form.output));
      line << ", found 0x" << results[i];
      findings.lines += line.str();
    }
  }
  return findings;
}

Findings run(const Form& form, Function function) {
  const auto inputs = make_inputs(form);
  const std::size_t count = inputs[0].size();
  Array<std::uint64_t> results(count), memory(2 * count);
  std::vector<Array<std::uint64_t>> arrays;
  for (const auto& operand : inputs) arrays.emplace_back(operand);
  const auto address = [&](std::size_t k) { return k < arrays.size() ? arrays[k].address() : 0; };
  const LaunchShape shape{{static_cast<unsigned>((count + kBlock - 1) / kBlock)}, {kBlock}};
  launch(function, shape, results, memory, static_cast<std::uint32_t>(count), address(0),
         address(1), address(2), address(3));
  synchronize();
  return compare(form, inputs, results.get());
}

const std::string kHeader = ".version 8.6\n.target sm_90\n.address_size 64\n";

}  // namespace

int width(Type type) {
  switch (type) {
    case Type::pred:
      return 1;
    case Type::b8:
      return 8;
    case Type::s16:
    case Type::u16:
    case Type::b16:
    case Type::f16:
    case Type::bf16:
      return 16;
    case Type::s64:
    case Type::u64:
    case Type::b64:
    case Type::f64:
      return 64;
    default:
      return 32;
  }
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

void expect_forms(const std::vector<Form>& forms) {
  use_device(0);
  for (std::size_t first = 0; first < forms.size(); first += kFormsOfModule) {
    const std::size_t last = std::min(first + kFormsOfModule, forms.size());
    std::string text = kHeader;
    std::vector<std::string> bodies;
    for (std::size_t i = first; i < last; ++i) {
      bodies.push_back(kernel_of(forms[i], "k" + std::to_string(i), kNoMutation));
      text += bodies.back();
    }
    std::optional<Module> module;
    if (try_load(text).result == 0) module.emplace(text);
    for (std::size_t i = first; i < last; ++i) {
      // A module with a refused form says little: then each one is loaded alone.
      const std::string alone = kHeader + bodies[i - first];
      if (!module) {
        const LoadOutcome outcome = try_load(alone);
        if (outcome.result != 0) {
          ADD_FAILURE() << forms[i].text << ": refused with " << outcome.result << ": "
                        << outcome.log;
          continue;
        }
      }
      std::optional<Module> own;
      if (!module) own.emplace(alone);
      const Module& holder = module ? *module : *own;
      const Findings findings = run(forms[i], holder.function("k" + std::to_string(i)));
      EXPECT_EQ(findings.wrong, 0u) << forms[i].text << findings.lines;
    }
  }
}

void expect_mutations_found(const std::vector<Form>& forms) {
  use_device(0);
  for (std::size_t i = 0; i < forms.size(); ++i) {
    std::string text = kHeader;
    for (std::size_t k = 0; k < forms[i].inputs.size(); ++k) {
      text += kernel_of(forms[i], "m" + std::to_string(k), static_cast<int>(k));
    }
    const Module module(text);
    for (std::size_t k = 0; k < forms[i].inputs.size(); ++k) {
      if (forms[i].ignored >> k & 1) continue;
      const Findings findings = run(forms[i], module.function("m" + std::to_string(k)));
      EXPECT_GT(findings.wrong, 0u)
          << forms[i].text << " with operand " << k << " of another element went unnoticed.";
    }
  }
}

}  // namespace kiln::emulator_test
