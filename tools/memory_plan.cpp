#include "tools/memory_plan.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "kiln/support/format.h"

namespace kiln::tools {
namespace {

using nlohmann::json;

constexpr std::size_t kWidestColumn = 40;
constexpr std::int64_t kWidestChart = 48;

const json& member(const json& object, const char* key) {
  static const json kNothing;
  if (!object.is_object()) return kNothing;
  const auto it = object.find(key);
  return it == object.end() ? kNothing : *it;
}

/// The elements of a list, none of anything else.
const json& list(const json& object, const char* key) {
  static const json kEmpty = json::array();
  const json& found = member(object, key);
  return found.is_array() ? found : kEmpty;
}

/// A number or a text; a terminal gets nothing but printable characters.
std::string text(const json& value) {
  if (value.is_number_integer()) return value.dump();
  if (!value.is_string()) return "?";
  std::string result = value.get<std::string>();
  for (char& c : result)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return result;
}

std::string text(const json& object, const char* key) { return text(member(object, key)); }

/// A number of a kernel, between -1 and `count` - 1.
std::int64_t kernel_number(const json& value, std::int64_t count) {
  if (!value.is_number_integer()) return -1;
  const auto number = value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX
                          ? INT64_MAX
                          : value.get<std::int64_t>();
  return std::clamp<std::int64_t>(number, -1, count - 1);
}

std::string type_of(const json& value) {
  std::vector<std::string> dims;
  for (const json& dim : list(value, "shape")) dims.push_back(text(dim));
  return format("{}[{}]", text(value, "dtype"), join(dims, ", "));
}

/// One character for one or more kernels: '#' where the value is kept.
std::string chart(const json& value, std::int64_t kernels) {
  const json& kept = list(value, "kept");
  if (kept.size() != 2) return "";
  const std::int64_t from = kernel_number(kept[0], kernels), to = kernel_number(kept[1], kernels);
  const std::int64_t each = (kernels + kWidestChart - 1) / kWidestChart;
  std::string line;
  for (std::int64_t k = 0; k < kernels; k += each) line += from < k + each && k <= to ? '#' : '.';
  return line;
}

using Row = std::vector<std::string>;

/// Columns side by side; an overlong entry pushes the rest of its line.
std::string table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i)
      if (row[i].size() <= kWidestColumn) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  for (const Row& row : rows) {
    std::string line = " ";
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += " " + row[i];
      if (i + 1 < row.size() && row[i].size() < widths[i] + 1)
        line.append(widths[i] + 1 - row[i].size(), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string values_text(const json& graph, std::int64_t kernels) {
  const json& values = list(graph, "values");
  if (values.empty()) return "  no values between kernels\n";
  std::vector<Row> rows = {
      {"value", "made by", "type", "bytes", "place", "kernels", "kept during kernels"}};
  for (const json& value : values) {
    std::string place = member(value, "slot").is_null() ? "allocated when its size is known"
                                                        : "slot " + text(value, "slot");
    if (!member(value, "in_place_of").is_null())
      place += format(", in place of v{}", text(value, "in_place_of"));
    const bool used = !member(value, "first_kernel").is_null();
    rows.push_back({"v" + text(value, "value"), text(value, "op"), type_of(value),
                    text(value, "bytes"), place,
                    used ? format("{}-{}", text(value, "first_kernel"), text(value, "last_kernel"))
                         : std::string("none"),
                    chart(value, kernels)});
  }
  return table(rows);
}

std::string graph_text(const json& graph, const json& plan) {
  const std::string name = text(graph, "graph");
  std::string out = format("\nmemory of graph {}\n  {} bytes a call in one block of {} slots\n",
                           name, text(graph, "arena_bytes"), list(graph, "slots").size());
  for (const json& each : list(graph, "scratch"))
    out += format("  kernel {} works in {} bytes more for each thread\n", text(each, "kernel"),
                  member(each, "bytes_per_thread").is_null() ? "its panels'"
                                                             : text(each, "bytes_per_thread"));
  std::vector<Row> slots;
  for (const json& slot : list(graph, "slots"))
    slots.push_back({format("slot {}", slots.size()), text(slot, "bytes") + " bytes"});
  out += table(slots);
  std::vector<Row> kernels;
  for (const json& kernel : list(plan, "kernels"))
    if (text(kernel, "graph") == name && !member(kernel, "number").is_null())
      kernels.push_back({"kernel " + text(kernel, "number"), text(kernel, "summary")});
  out += table(kernels);
  out += values_text(graph, static_cast<std::int64_t>(kernels.size()));
  std::vector<Row> prepared;
  for (const json& each : list(graph, "prepared")) {
    std::vector<std::string> makers;
    for (const json& maker : list(each, "made_by")) makers.push_back(text(maker));
    prepared.push_back({"prepared " + text(each, "slot"), format("{}", join(makers, ", ")),
                        type_of(each), text(each, "bytes") + " bytes"});
  }
  return out + table(prepared);
}

}  // namespace

std::string memory_plan_text(const json& plan) {
  std::string out;
  for (const json& graph : list(plan, "memory"))
    if (graph.is_object()) out += graph_text(graph, plan);
  return out;
}

}  // namespace kiln::tools
