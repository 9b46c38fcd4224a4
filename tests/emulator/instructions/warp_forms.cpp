#include "warp_forms.h"

#include <algorithm>
#include <string>

namespace kiln::emulator_test {
namespace {

using u64 = std::uint64_t;
using u32 = std::uint32_t;
using Lanes = std::span<const std::vector<u64>>;
using Results = std::span<std::optional<u64>>;

/// Where a lane's value comes from, and whether that lane is in range.
struct Source {
  u32 lane;
  bool in_range;
};

Source shuffle_source(const std::string& mode, u32 lane, u32 b, u32 c) {
  const u32 segments = c >> 8 & 31, amount = b & 31, limit = c & 31;
  const u32 last = (lane & segments) | (limit & ~segments);
  const u32 first = lane & segments;
  int from = 0;
  bool in_range = false;
  if (mode == "up") {
    from = static_cast<int>(lane) - static_cast<int>(amount);
    in_range = from >= static_cast<int>(last);
  } else {
    from = static_cast<int>(mode == "down"   ? lane + amount
                            : mode == "bfly" ? lane ^ amount
                                             : first | (amount & ~segments));
    in_range = from <= static_cast<int>(last);
  }
  return {in_range ? static_cast<u32>(from) : lane, in_range};
}

void add_shuffles(std::vector<Form>& forms) {
  for (const std::string mode : {"up", "down", "bfly", "idx"}) {
    const std::vector<u64> amounts = {0, 1, 2, 3, 5, 8, 16, 31, 33};
    const std::vector<u64> limits = mode == "up" ? std::vector<u64>{0, 0x1800, 0x1c00, 0x1e00, 2}
                                                 : std::vector<u64>{0x1f, 0x181f, 0x1c1f, 7};
    for (const bool predicate : {false, true}) {
      const std::string text =
          "shfl.sync." + mode + ".b32 " +
          (predicate ? "%x0|%p0, {a}, {b}, {c}, -1; selp.b32 {d}, %x0, 77, %p0;"
                     : "{d}, {a}, {b}, {c}, 0xffffffff;");
      forms.push_back({.text = text,
                       .inputs = {Type::b32, Type::b32, Type::b32},
                       .output = Type::b32,
                       .warp =
                           [=](Lanes lanes, Results results) {
                             for (u32 lane = 0; lane < 32; ++lane) {
                               const Source source =
                                   shuffle_source(mode, lane, static_cast<u32>(lanes[lane][1]),
                                                  static_cast<u32>(lanes[lane][2]));
                               results[lane] =
                                   predicate && !source.in_range ? 77 : lanes[source.lane][0];
                             }
                           },
                       .choices = {{{}, amounts, limits, {}}}});
    }
  }
}

/// Values that are alike in about half of the warps.
std::vector<u64> mostly(u64 common, u64 rare) {
  std::vector<u64> values(41, common);
  values.back() = rare;
  return values;
}

/// Sets one result for all lanes.
template <class Function>
WarpReference same_for_all(Function function) {
  return [function](Lanes lanes, Results results) {
    const u64 value = function(lanes);
    for (auto& result : results) result = value;
  };
}

u64 ballot(Lanes lanes) {
  u64 mask = 0;
  for (std::size_t lane = 0; lane < 32; ++lane) mask |= (lanes[lane][0] & 1) << lane;
  return mask;
}

void add_votes(std::vector<Form>& forms) {
  const auto vote = [&](const std::string& text, Type output, WarpReference reference) {
    forms.push_back(
        {.text = text, .inputs = {Type::pred}, .output = output, .warp = std::move(reference)});
  };
  vote("vote.sync.ballot.b32 {d}, {a}, 0xffffffff;", Type::b32, same_for_all(ballot));
  vote("vote.sync.ballot.b32 {d}, !{a}, -1;", Type::b32,
       same_for_all([](Lanes lanes) { return ~ballot(lanes); }));
  const auto decide = [&](const std::string& mode, std::uint64_t common, std::uint64_t rare,
                          bool (*decision)(u64)) {
    forms.push_back(
        {.text = "setp.ne.b32 %p0, {a}, 0; vote.sync." + mode + ".pred {d}, %p0, -1;",
         .inputs = {Type::b32},
         .output = Type::pred,
         .warp = same_for_all([decision](Lanes lanes) { return u64{decision(ballot(lanes))}; }),
         .choices = {{mostly(common, rare), {}, {}, {}}}});
  };
  decide("any", 0, 1, [](u64 votes) { return votes != 0; });
  decide("all", 1, 0, [](u64 votes) { return votes == 0xffffffff; });
  decide("uni", 1, 0, [](u64 votes) { return votes == 0xffffffff || votes == 0; });
  decide("uni", 0, 1, [](u64 votes) { return votes == 0xffffffff || votes == 0; });
  forms.push_back({.text = "add.u32 {d}, {a}, 0; activemask.b32 %x0; xor.b32 {d}, {d}, %x0;",
                   .inputs = {Type::b32},
                   .output = Type::b32,
                   .reference = [](Inputs in) -> std::optional<u64> { return ~in[0]; }});
}

void add_matches(std::vector<Form>& forms) {
  for (const Type type : {Type::b32, Type::b64}) {
    const std::string bits = type == Type::b32 ? "b32" : "b64";
    const std::vector<u64> few = {0, 1, 2, 0x80000000u, type == Type::b32 ? 5 : u64{1} << 32};
    forms.push_back({.text = "match.any.sync." + bits + " {d}, {a}, -1;",
                     .inputs = {type},
                     .output = Type::b32,
                     .warp =
                         [](Lanes lanes, Results results) {
                           for (std::size_t lane = 0; lane < 32; ++lane) {
                             u64 mask = 0;
                             for (std::size_t other = 0; other < 32; ++other) {
                               mask |= u64{lanes[other][0] == lanes[lane][0]} << other;
                             }
                             results[lane] = mask;
                           }
                         },
                     .choices = {{few, {}, {}, {}}}});
    forms.push_back(
        {.text = "match.all.sync." + bits + " %x0|%p0, {a}, 0xffffffff; selp.b32 {d}, %x0, 9, %p0;",
         .inputs = {type},
         .output = Type::b32,
         .warp = same_for_all([](Lanes lanes) {
           const bool equal = std::all_of(lanes.begin(), lanes.end(),
                                          [&](const auto& lane) { return lane[0] == lanes[0][0]; });
           return equal ? u64{0xffffffff} : 9;
         }),
         .choices = {{mostly(7, 8), {}, {}, {}}}});
  }
}

void add_reductions(std::vector<Form>& forms) {
  struct Entry {
    const char* name;
    u64 (*fold)(u64, u64);
  };
  const Entry entries[] = {
      {"add.u32", [](u64 a, u64 b) { return (a + b) & 0xffffffff; }},
      {"add.s32", [](u64 a, u64 b) { return (a + b) & 0xffffffff; }},
      {"min.u32", [](u64 a, u64 b) { return std::min(a, b); }},
      {"max.u32", [](u64 a, u64 b) { return std::max(a, b); }},
      {"min.s32",
       [](u64 a, u64 b) {
         return u64{static_cast<u32>(
             std::min(static_cast<std::int32_t>(a), static_cast<std::int32_t>(b)))};
       }},
      {"max.s32",
       [](u64 a, u64 b) {
         return u64{static_cast<u32>(
             std::max(static_cast<std::int32_t>(a), static_cast<std::int32_t>(b)))};
       }},
      {"and.b32", [](u64 a, u64 b) { return a & b; }},
      {"or.b32", [](u64 a, u64 b) { return a | b; }},
      {"xor.b32", [](u64 a, u64 b) { return a ^ b; }},
  };
  for (const Entry& entry : entries) {
    const auto fold = entry.fold;
    // Of random bits, some lane nearly always has each.
    std::vector<u64> choices;
    const bool is_and = std::string(entry.name) == "and.b32";
    if (is_and || std::string(entry.name) == "or.b32") {
      for (int i = 0; i < 64; ++i) choices.push_back((is_and ? 0xffffffff : 0) ^ (1u << i % 32));
      choices.resize(128, is_and ? 0xffffffff : 0);
    }
    forms.push_back({.text = std::string("redux.sync.") + entry.name + " {d}, {a}, -1;",
                     .inputs = {Type::b32},
                     .output = Type::b32,
                     .warp = same_for_all([fold](Lanes lanes) {
                       u64 value = lanes[0][0];
                       for (std::size_t lane = 1; lane < 32; ++lane) {
                         value = fold(value, lanes[lane][0]);
                       }
                       return value;
                     }),
                     .choices = {{choices, {}, {}, {}}}});
    // Odd lanes alone.
    forms.push_back(
        {.text = std::string("mov.u32 %x0, %laneid; and.b32 %x0, %x0, 1; setp.eq.u32 %p0, %x0, 0; "
                             "mov.b32 {d}, 7; @%p0 bra SKIP; redux.sync.") +
                 entry.name + " {d}, {a}, 0xaaaaaaaa; SKIP:",
         .inputs = {Type::b32},
         .output = Type::b32,
         .warp =
             [fold](Lanes lanes, Results results) {
               u64 value = lanes[1][0];
               for (std::size_t lane = 3; lane < 32; lane += 2) value = fold(value, lanes[lane][0]);
               for (std::size_t lane = 0; lane < 32; ++lane) results[lane] = lane % 2 ? value : 7;
             },
         .choices = {{choices, {}, {}, {}}}});
  }
}

void add_partial(std::vector<Form>& forms) {
  const std::string low_half = "mov.u32 %x0, %laneid; setp.ge.u32 %p0, %x0, 16; ";
  forms.push_back({.text = low_half +
                           "@%p0 bra HIGH; shfl.sync.bfly.b32 {d}, {a}, 1, 0x1f, 0x0000ffff; "
                           "bra.uni END; HIGH: shfl.sync.idx.b32 {d}, {a}, 16, 0x1f, 0xffff0000; "
                           "END: bar.warp.sync -1;",
                   .inputs = {Type::b32},
                   .output = Type::b32,
                   .warp = [](Lanes lanes, Results results) {
                     for (std::size_t lane = 0; lane < 32; ++lane) {
                       results[lane] = lanes[lane < 16 ? lane ^ 1 : 16][0];
                     }
                   }});
  forms.push_back({.text = "elect.sync %x0|%p0, 0xffffffff; selp.b32 %x1, 1, 2, %p0; "
                           "mad.lo.u32 {d}, {a}, %x1, %x0;",
                   .inputs = {Type::b32},
                   .output = Type::b32,
                   .warp = [](Lanes lanes, Results results) {
                     // One lane is elected, the same for all; which one is open, but the first is
                     // what hardware takes.
                     for (std::size_t lane = 0; lane < 32; ++lane) {
                       results[lane] = lanes[lane][0] * (lane == 0 ? 1 : 2);
                     }
                   }});
}

}  // namespace

std::vector<Form> warp_forms() {
  std::vector<Form> forms;
  add_shuffles(forms);
  add_votes(forms);
  add_matches(forms);
  add_reductions(forms);
  add_partial(forms);
  return forms;
}

}  // namespace kiln::emulator_test
