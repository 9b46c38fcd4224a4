#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

namespace detail {
// Settings of the process that hot paths ask for, kept up to date by `debug_settings`.
extern std::atomic<bool> source_tracebacks;
extern std::atomic<bool> device_sync_mode;
extern std::atomic<bool> queue_order;
extern std::atomic<bool> stack_trace_on_error;
// How often a setting was changed; what was compiled before may lack what it asks for.
extern std::atomic<std::uint32_t> settings_changed;
}  // namespace detail

/// Debug settings as text, by their names in kebab case; `engine::DebugConfig` says what each
/// means. What is set by hand beats `sensible`. Safe from any thread.
class DebugSettings {
 public:
  /// `changed` is called after every change.
  explicit DebugSettings(std::function<void(const DebugSettings&)> changed = nullptr)
      : changed_(std::move(changed)) {}
  DebugSettings(const DebugSettings&) = delete;

  /// The value that counts. Unknown name: KeyError.
  std::string get(std::string_view name) const;
  /// Whether a switch is on. Unknown name: KeyError.
  bool flag(std::string_view name) const { return get(name) == "true"; }
  /// Keeps `value` as it is. Unknown name: KeyError; a switch that this kiln does not have turned
  /// on: NotImplementedError.
  void set(std::string_view name, std::string value);
  /// Sets a property from text in the spelling of KILN_DEBUG. Errors as for `set`, and a bad value:
  /// ValueError.
  void set_from_text(std::string_view name, std::string_view value);
  /// Applies "name[,name=value…]". What cannot be applied is skipped; the result has one sentence
  /// about each.
  std::vector<std::string> apply(std::string_view settings);
  /// Back to the defaults.
  void reset();
  /// All names.
  static std::vector<std::string> names();

 private:
  std::function<void(const DebugSettings&)> changed_;
  mutable std::mutex mutex_;
  std::map<std::string, std::string, std::less<>> values_;  // what was set
};

/// The settings of this process. They start from KILN_DEBUG, which is read once, when kiln is
/// loaded; what it names wrongly gives a line on standard error.
DebugSettings& debug_settings();

}  // namespace kiln
