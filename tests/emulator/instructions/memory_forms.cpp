#include <algorithm>
#include <string>

#include "float_forms.h"
#include "warp_forms.h"

namespace kiln::emulator_test {
namespace {

using u64 = std::uint64_t;

/// What an atomic leaves in memory, of the old value and one or two operands.
using Update = std::function<std::optional<u64>(u64 old, u64 b, u64 c)>;

struct Place {
  const char* space;    // in the instruction
  const char* address;  // register
  bool flushes;         // additions of f32 flush subnormal numbers there
};
const Place kPlaces[] = {
    {".global", "%global", true}, {".shared", "%shared", false}, {"", "%generic", true}};

struct Atomic {
  std::string operation;  // such as "add.u32"
  Type type;
  int operands;  // besides the address
  std::function<Update(const Place&)> update;
};

std::string bits_of(Type type) { return "b" + std::to_string(width(type)); }

void add_atomic(std::vector<Form>& forms, const Atomic& atomic, const Place& place,
                const std::string& order) {
  const std::string operands = atomic.operands == 1 ? "{b}" : "{b}, {c}";
  const std::string bits = bits_of(atomic.type);
  const std::string address = std::string("[") + place.address + "]";
  const std::string store =
      "st" + std::string(place.space) + "." + bits + " " + address + ", {a}; ";
  const std::string load = " ld" + std::string(place.space) + "." + bits + " {d}, " + address + ";";
  const std::vector<Type> inputs(atomic.operands + 1, atomic.type);
  const Update update = atomic.update(place);
  const auto after = [=](Inputs in) { return update(in[0], in[1], in.size() > 2 ? in[2] : 0); };
  const std::string name = order + place.space + "." + atomic.operation;
  forms.push_back({.text = store + "atom" + name + " {d}, " + address + ", " + operands + ";",
                   .inputs = inputs,
                   .output = atomic.type,
                   .reference = [](Inputs in) -> std::optional<u64> { return in[0]; },
                   .exact_nan = true,
                   .ignored = ~1u});
  // A second register for what atom returns: {d} holds what the memory holds after it.
  const std::string sink = width(atomic.type) == 64   ? "%y3"
                           : width(atomic.type) == 32 ? "%x3"
                                                      : "{d}";
  forms.push_back(
      {.text = store + "atom" + name + " " + sink + ", " + address + ", " + operands + ";" + load,
       .inputs = inputs,
       .output = atomic.type,
       .reference = after,
       .ignored = atomic.operation.starts_with("exch") ? 1u : 0u});
  if (atomic.operation.starts_with("exch") || atomic.operation.starts_with("cas")) return;
  forms.push_back({.text = store + "red" + name + " " + address + ", " + operands + ";" + load,
                   .inputs = inputs,
                   .output = atomic.type,
                   .reference = after});
}

Atomic plain(const std::string& operation, Type type, int operands,
             std::optional<u64> (*update)(u64, u64, u64)) {
  return {operation, type, operands, [update](const Place&) -> Update { return update; }};
}

std::vector<Atomic> integer_atomics() {
  using Option = std::optional<u64>;
  using s64 = std::int64_t;
  using s32 = std::int32_t;
  return {
      plain("add.u32", Type::u32, 1, [](u64 a, u64 b, u64) -> Option { return a + b; }),
      plain("add.s32", Type::s32, 1, [](u64 a, u64 b, u64) -> Option { return a + b; }),
      plain("add.u64", Type::u64, 1, [](u64 a, u64 b, u64) -> Option { return a + b; }),
      plain("and.b32", Type::b32, 1, [](u64 a, u64 b, u64) -> Option { return a & b; }),
      plain("or.b32", Type::b32, 1, [](u64 a, u64 b, u64) -> Option { return a | b; }),
      plain("xor.b32", Type::b32, 1, [](u64 a, u64 b, u64) -> Option { return a ^ b; }),
      plain("and.b64", Type::b64, 1, [](u64 a, u64 b, u64) -> Option { return a & b; }),
      plain("or.b64", Type::b64, 1, [](u64 a, u64 b, u64) -> Option { return a | b; }),
      plain("xor.b64", Type::b64, 1, [](u64 a, u64 b, u64) -> Option { return a ^ b; }),
      plain("exch.b32", Type::b32, 1, [](u64, u64 b, u64) -> Option { return b; }),
      plain("exch.b64", Type::b64, 1, [](u64, u64 b, u64) -> Option { return b; }),
      plain("cas.b16", Type::b16, 2,
            [](u64 a, u64 b, u64 c) -> Option { return (a & 0xffff) == (b & 0xffff) ? c : a; }),
      plain("cas.b32", Type::b32, 2, [](u64 a, u64 b, u64 c) -> Option { return a == b ? c : a; }),
      plain("cas.b64", Type::b64, 2, [](u64 a, u64 b, u64 c) -> Option { return a == b ? c : a; }),
      plain("inc.u32", Type::u32, 1,
            [](u64 a, u64 b, u64) -> Option { return a >= b ? 0 : a + 1; }),
      plain("dec.u32", Type::u32, 1,
            [](u64 a, u64 b, u64) -> Option { return a == 0 || a > b ? b : a - 1; }),
      plain("min.u32", Type::u32, 1, [](u64 a, u64 b, u64) -> Option { return std::min(a, b); }),
      plain("max.u32", Type::u32, 1, [](u64 a, u64 b, u64) -> Option { return std::max(a, b); }),
      plain("min.u64", Type::u64, 1, [](u64 a, u64 b, u64) -> Option { return std::min(a, b); }),
      plain("max.u64", Type::u64, 1, [](u64 a, u64 b, u64) -> Option { return std::max(a, b); }),
      plain("min.s32", Type::s32, 1,
            [](u64 a, u64 b, u64) -> Option {
              return static_cast<s32>(a) < static_cast<s32>(b) ? a : b;
            }),
      plain("max.s32", Type::s32, 1,
            [](u64 a, u64 b, u64) -> Option {
              return static_cast<s32>(a) > static_cast<s32>(b) ? a : b;
            }),
      plain("min.s64", Type::s64, 1,
            [](u64 a, u64 b, u64) -> Option {
              return static_cast<s64>(a) < static_cast<s64>(b) ? a : b;
            }),
      plain("max.s64", Type::s64, 1,
            [](u64 a, u64 b, u64) -> Option {
              return static_cast<s64>(a) > static_cast<s64>(b) ? a : b;
            }),
  };
}

/// The sum as memory does it: f32 flushes in global memory, all else keeps subnormal numbers.
std::optional<u64> float_sum(const Float& t, u64 a, u64 b, bool flushes) {
  const u64 left = flushes ? flushed(t.format, a) : a, right = flushes ? flushed(t.format, b) : b;
  const u64 sum =
      encode(t.format, add(decode(t.format, left), decode(t.format, right), Rounding::nearest_even),
             Rounding::nearest_even);
  return flushes ? flushed(t.format, sum) : sum;
}

std::vector<Atomic> float_atomics() {
  std::vector<Atomic> atomics;
  for (const Float& t : kFloats) {
    const bool narrow = t.packed != t.type;
    const std::string name = narrow ? "add.noftz." : "add.";
    atomics.push_back({name + t.name, t.type, 1, [&t](const Place& place) -> Update {
                         const bool flushes = t.type == Type::f32 && place.flushes;
                         return [&t, flushes](u64 a, u64 b, u64) {
                           return float_sum(t, a, b, flushes);
                         };
                       }});
    if (!narrow) continue;
    atomics.push_back({name + t.pair, t.packed, 1, [&t](const Place&) -> Update {
                         return [&t](u64 a, u64 b, u64) -> std::optional<u64> {
                           return *float_sum(t, a & 0xffff, b & 0xffff, false) |
                                  *float_sum(t, a >> 16, b >> 16, false) << 16;
                         };
                       }});
  }
  return atomics;
}

void add_form(std::vector<Form>& forms, const std::string& text, Type type, Reference reference) {
  forms.push_back(
      {.text = text, .inputs = {type}, .output = type, .reference = std::move(reference)});
}

std::optional<u64> as_it_was(Inputs in) { return in[0]; }

/// A word stored whole and read in parts, with what the part is filled to.
void add_parts(std::vector<Form>& forms, const Place& place) {
  const std::string space = place.space, address = place.address;
  const std::string store = "st" + space + ".b32 [" + address + "], {a}; ";
  const auto part = [&](const std::string& type, int offset, Reference reference) {
    add_form(forms,
             store + "ld" + space + "." + type + " {d}, [" + address + "+" +
                 std::to_string(offset) + "];",
             Type::b32, std::move(reference));
  };
  using Option = std::optional<u64>;
  part("u8", 3, [](Inputs in) -> Option { return in[0] >> 24 & 0xff; });
  part("s8", 1,
       [](Inputs in) -> Option { return static_cast<u64>(static_cast<std::int8_t>(in[0] >> 8)); });
  part("b8", 0, [](Inputs in) -> Option { return in[0] & 0xff; });
  part("u16", 2, [](Inputs in) -> Option { return in[0] >> 16 & 0xffff; });
  part("s16", 0,
       [](Inputs in) -> Option { return static_cast<u64>(static_cast<std::int16_t>(in[0])); });
  add_form(forms,
           "mov.b32 %x0, 0; st" + space + ".b32 [" + address + "+4], %x0; st" + space + ".b8 [" +
               address + "+5], {a}; st" + space + ".u16 [" + address + "+6], {a}; ld" + space +
               ".b32 {d}, [" + address + "+4];",
           Type::b32,
           [](Inputs in) -> Option { return (in[0] & 0xff) << 8 | (in[0] & 0xffff) << 16; });
}

void add_vectors(std::vector<Form>& forms, const Place& place) {
  const std::string space = place.space, at = std::string("[") + place.address + "]";
  add_form(forms,
           "mov.b64 {%x0, %x1}, {a}; st" + space + ".v2.b32 " + at + ", {%x1, %x0}; ld" + space +
               ".b64 {d}, " + at + ";",
           Type::b64, [](Inputs in) -> std::optional<u64> { return in[0] << 32 | in[0] >> 32; });
  add_form(forms,
           "not.b64 %y0, {a}; st" + space + ".v2.u64 " + at + ", {%y0, {a}}; ld" + space +
               ".v4.u32 {%x0, %x1, %x2, %x3}, " + at + "; mov.b64 {d}, {%x0, %x3};",
           Type::b64, [](Inputs in) -> std::optional<u64> {
             return (~in[0] & 0xffffffff) | (in[0] >> 32) << 32;
           });
  add_form(forms,
           "st" + space + ".b32 " + at + ", {a}; ld" + space + ".v4.u8 {%x0, %x1, %x2, %x3}, " +
               at + "; st" + space + ".v4.b8 " + at + ", {%x3, %x2, %x1, %x0}; ld" + space +
               ".b32 {d}, " + at + ";",
           Type::b32, [](Inputs in) -> std::optional<u64> {
             return __builtin_bswap32(static_cast<std::uint32_t>(in[0]));
           });
  add_form(forms,
           "st" + space + ".b64 " + at + ", {a}; ld" + space + ".v2.f32 {%x0, %x1}, " + at +
               "; st" + space + ".v2.f32 " + at + ", {%x1, %x0}; ld" + space + ".b64 {d}, " + at +
               ";",
           Type::b64, [](Inputs in) -> std::optional<u64> { return in[0] << 32 | in[0] >> 32; });
}

void add_modifiers(std::vector<Form>& forms) {
  const std::string store = "st.global.b64 [%global], {a}; ";
  for (const char* modifier : {".volatile.global",
                               ".relaxed.cta.global",
                               ".relaxed.gpu.global",
                               ".relaxed.sys.global",
                               ".acquire.cta.global",
                               ".acquire.gpu.global",
                               ".acquire.sys.global",
                               ".weak.global",
                               ".global.ca",
                               ".global.cg",
                               ".global.cs",
                               ".global.lu",
                               ".global.cv",
                               ".global.nc",
                               ".global.L1::no_allocate",
                               ".global.L1::evict_last",
                               ".global.L2::128B",
                               ".volatile",
                               ".global.nc.L1::no_allocate.L2::256B",
                               ".acquire.gpu",
                               ".mmio.relaxed.sys.global"}) {
    add_form(forms, store + "ld" + modifier + ".b64 {d}, [%generic];", Type::b64, as_it_was);
  }
  for (const char* modifier :
       {".volatile.global", ".relaxed.cta.global", ".relaxed.gpu.global", ".relaxed.sys.global",
        ".release.cta.global", ".release.gpu.global", ".release.sys.global", ".weak.global",
        ".global.wb", ".global.cg", ".global.cs", ".global.wt", ".global.L1::no_allocate",
        ".volatile", ".release.sys", ".mmio.relaxed.sys.global"}) {
    add_form(forms,
             std::string("st") + modifier + ".b64 [%generic], {a}; ld.global.b64 {d}, [%global];",
             Type::b64, as_it_was);
  }
  for (const char* fence :
       {"membar.cta", "membar.gl", "membar.sys", "fence.acq_rel.cta", "fence.acq_rel.gpu",
        "fence.acq_rel.sys", "fence.sc.gpu", "fence.sc.cta", "fence.sc.sys", "fence.proxy.async",
        "fence.acq_rel.cluster", "prefetch.global.L1 [%global]", "prefetch.global.L2 [%global]",
        "prefetchu.L1 [%generic]"}) {
    add_form(forms, store + fence + "; ld.global.b64 {d}, [%global];", Type::b64, as_it_was);
  }
}

/// The same place through addresses of its space and generic ones, and what space those are of.
void add_spaces(std::vector<Form>& forms) {
  add_form(forms,
           "cvt.u64.u32 %y1, %shared; cvta.shared.u64 %y0, %y1; st.b64 [%y0], {a}; "
           "cvta.to.shared.u64 %y2, %y0; cvt.u32.u64 %x0, %y2; ld.shared.b64 {d}, [%x0];",
           Type::b64, as_it_was);
  add_form(forms,
           "cvta.local.u64 %y0, %local; st.b64 [%y0+8], {a}; cvta.to.local.u64 %y1, %y0; "
           "ld.local.b64 {d}, [%y1+8];",
           Type::b64, as_it_was);
  add_form(forms,
           "cvta.to.global.u64 %y0, %generic; st.global.b64 [%y0], {a}; cvta.global.u64 %y1, %y0; "
           "ld.b64 {d}, [%y1];",
           Type::b64, as_it_was);
  add_form(forms, "st.local.v2.b32 [%local], {%x0, {a}}; ld.local.b32 {d}, [%local+4];", Type::b32,
           as_it_was);
  for (const std::string space : {"global", "shared", "local", "const"}) {
    const std::string one = "cvt.u64.u32 %y1, %shared; cvta.shared.u64 %y0, %y1; ";
    const auto expect = [&](const std::string& text, const std::string& own) {
      const u64 bonus = space == own;
      add_form(forms,
               text + "isspacep." + space +
                   " %p0, %y0; selp.b32 %x0, 1, 0, %p0; "
                   "add.u32 {d}, {a}, %x0;",
               Type::b32, [bonus](Inputs in) -> std::optional<u64> { return in[0] + bonus; });
    };
    expect(one, "shared");
    expect("cvta.local.u64 %y0, %local; ", "local");
    expect("mov.u64 %y0, %generic; ", "global");
  }
}

}  // namespace

std::vector<Form> atomic_forms() {
  std::vector<Form> forms;
  for (const Place& place : kPlaces) {
    for (const Atomic& atomic : integer_atomics()) add_atomic(forms, atomic, place, "");
    for (const Atomic& atomic : float_atomics()) add_atomic(forms, atomic, place, "");
  }
  const Atomic add32 = integer_atomics()[0];
  for (const char* order : {".relaxed.cta", ".acquire.gpu", ".release.sys", ".acq_rel.gpu",
                            ".relaxed.sys", ".acq_rel.cluster"}) {
    std::vector<Form> ordered;
    add_atomic(ordered, add32, kPlaces[0], order);
    // red knows no order of reads.
    const bool reads = std::string(order).starts_with(".acq");
    if (reads) ordered.pop_back();
    for (Form& form : ordered) forms.push_back(std::move(form));
  }
  return forms;
}

std::vector<Form> memory_forms() {
  std::vector<Form> forms;
  for (const Place& place : kPlaces) {
    add_parts(forms, place);
    add_vectors(forms, place);
  }
  add_modifiers(forms);
  add_spaces(forms);
  return forms;
}

}  // namespace kiln::emulator_test
