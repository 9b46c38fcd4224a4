#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kiln/driver/device.h"

namespace kiln::driver {

// Virtual devices stand for hardware that is absent, so that graphs can be compiled and exported
// for it. Whatever needs their memory or a queue throws RuntimeError. All settings are
// process-wide.

/// `count` > 0 switches the mode on: accelerators opened from then on are virtual; 0 switches it
/// off. Negative: ValueError.
void set_virtual_device_count(int count);
int get_virtual_device_count();
/// Whether the count is above 0.
bool is_virtual_device_mode();
/// "cuda", "hip" or "metal", set before the count; "" when unset. Others: ValueError.
void set_virtual_device_api(std::string_view api);
std::string get_virtual_device_api();
/// Such as "sm_90", set before the count; "" when unset.
void set_virtual_device_target_arch(std::string_view arch);
std::string get_virtual_device_target_arch();

/// The processor that later compiles are made for: a name such as "x86-64-v3", "generic" for the
/// lowest baseline of the host's family, "" for the host itself. Other names, also "native":
/// ValueError.
void set_virtual_cpu_target(std::string_view cpu);
std::string get_virtual_cpu_target();

/// Highest accelerator id in any list + 1, at least 1.
int calculate_virtual_device_count(std::span<const std::vector<DeviceSpec>> spec_lists);

/// Unparsed device choices: ids, or text such as "gpu", "gpu:0,3", "gpu:all" and "cpu".
using DeviceInput = std::variant<std::vector<int>, std::string>;
/// As `calculate_virtual_device_count`; "gpu:all" means all visible ones. A non-number: ValueError.
int calculate_virtual_device_count_from_cli(std::span<const DeviceInput> inputs);

/// Virtual accelerator `id` under the present settings, for `Accelerator`.
DeviceBackend& virtual_backend(int id);

}  // namespace kiln::driver
