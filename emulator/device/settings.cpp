#include "emulator/device/settings.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <thread>

#include "emulator/memory/device_view.h"
#include "kiln/support/environment.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::emulator {
namespace {

[[noreturn]] void refuse(const char* name, const std::string& value, const std::string& wanted) {
  throw ValueError(format("{}='{}' cannot be understood: it must be {}.", name, value, wanted));
}

// An integer from `least` to `most`, with a suffix K, M, G or T where `scaled`.
std::int64_t parse_integer(const char* name, std::string_view text, std::int64_t least,
                           std::int64_t most, bool scaled) {
  const std::string whole(text);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view rest = text.substr(end - text.data());
  int shift = 0;
  if (scaled && rest.size() == 1) {
    const std::size_t unit = std::string_view("KMGT").find(rest[0]);
    if (unit != std::string_view::npos) {
      shift = static_cast<int>(unit + 1) * 10;
      rest = {};
    }
  }
  if (error != std::errc() || !rest.empty() || value < 0 || value > most >> shift ||
      value << shift < least)
    refuse(name, whole,
           format("an integer from {} to {}{}", least, most,
                  scaled ? ", with K, M, G or T behind it if you like" : ""));
  return value << shift;
}

std::int64_t integer(const char* name, std::int64_t fallback, std::int64_t least, std::int64_t most,
                     bool scaled = false) {
  const auto text = environment(name);
  return text ? parse_integer(name, *text, least, most, scaled) : fallback;
}

bool flag(const char* name, bool fallback) {
  const auto text = environment(name);
  if (!text) return fallback;
  const auto value = parse_bool(*text);
  if (!value) refuse(name, *text, "0 or 1");
  return *value;
}

std::uint64_t default_memory(std::uint32_t devices) {
  struct sysinfo system{};
  sysinfo(&system);
  const std::uint64_t half = std::uint64_t{system.totalram} * system.mem_unit / 2 / devices;
  return std::clamp<std::uint64_t>(half >> 21 << 21, 64ull << 20, 80ull << 30);
}

void read_checks(Settings& settings) {
  const auto text = environment("KILN_EMULATOR_CHECK");
  if (!text) return;
  struct Check {
    std::string_view name;
    bool Settings::* member;
  };
  static constexpr Check kChecks[] = {{"memory", &Settings::check_memory},
                                      {"init", &Settings::check_init},
                                      {"leak", &Settings::check_leak}};
  for (std::string_view rest = *text; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    const auto* check = std::find_if(std::begin(kChecks), std::end(kChecks),
                                     [&](const Check& each) { return each.name == word; });
    if (check == std::end(kChecks))
      refuse("KILN_EMULATOR_CHECK", *text,
             "one or more of memory, init and leak, with commas between them");
    settings.*check->member = true;
  }
}

void read_failure(Settings& settings) {
  const auto text = environment("KILN_EMULATOR_FAIL");
  if (!text) return;
  const std::size_t colon = text->find(':');
  if (colon == std::string::npos)
    refuse("KILN_EMULATOR_FAIL", *text, "n:code, the number of a call and the code it returns");
  const std::string_view whole = *text;
  settings.fail_call = static_cast<std::uint64_t>(
      parse_integer("KILN_EMULATOR_FAIL", whole.substr(0, colon), 1, INT64_MAX, false));
  settings.fail_code = static_cast<std::int32_t>(
      parse_integer("KILN_EMULATOR_FAIL", whole.substr(colon + 1), 1, 999, false));
}

}  // namespace

Settings read_settings() {
  Settings settings;
  settings.devices =
      static_cast<std::uint32_t>(integer("KILN_EMULATOR_DEVICES", 1, 1, kMaxDevices));
  settings.memory = static_cast<std::uint64_t>(
      integer("KILN_EMULATOR_MEMORY", static_cast<std::int64_t>(default_memory(settings.devices)),
              2 << 20, 1ll << 40, true));
  settings.architecture = static_cast<std::uint32_t>(integer("KILN_EMULATOR_ARCH", 90, 50, 121));
  settings.multicast = flag("KILN_EMULATOR_MULTICAST", true);
  settings.peers = flag("KILN_EMULATOR_PEERS", true);
  settings.timeout = static_cast<double>(integer("KILN_EMULATOR_TIMEOUT", 10, 1, 86400));
  if (const auto text = environment("KILN_EMULATOR_SEED"))
    settings.seed =
        static_cast<std::uint64_t>(parse_integer("KILN_EMULATOR_SEED", *text, 0, INT64_MAX, false));
  const auto cores = static_cast<std::int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  settings.workers = static_cast<std::uint32_t>(
      integer("KILN_EMULATOR_WORKERS", settings.seed ? 1 : cores, 1, 256));
  read_checks(settings);
  read_failure(settings);
  return settings;
}

}  // namespace kiln::emulator
