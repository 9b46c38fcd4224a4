#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/runtime/print.h"

namespace kiln::engine {

using runtime::PrintStyle;

/// Debug settings of the process, see `InferenceSession::debug`. They start from KILN_DEBUG, which
/// is read once. A setting made in code beats `sensible_mode`. Safe from any thread.
class DebugConfig {
 public:
  /// Check the results of every op that makes floats for NaN and infinities. Takes effect at
  /// compile.
  bool nan_check() const { return flag("nan-check"); }
  void set_nan_check(bool on) { set("nan-check", on); }
  /// Poison fresh device memory and report reads of it. Takes effect at compile.
  bool uninitialized_read_check() const { return flag("uninitialized-read-check"); }
  void set_uninitialized_read_check(bool on) { set("uninitialized-read-check", on); }
  /// Every device operation waits, so that errors appear at their call.
  bool device_sync_mode() const { return flag("device-sync-mode"); }
  void set_device_sync_mode(bool on) { set("device-sync-mode", on); }
  /// Unordered uses of one buffer on two queues are errors.
  bool queue_order() const { return flag("queue-order"); }
  void set_queue_order(bool on) { set("queue-order", on); }
  bool stack_trace_on_error() const { return flag("stack-trace-on-error"); }
  void set_stack_trace_on_error(bool on) { set("stack-trace-on-error", on); }
  bool stack_trace_on_crash() const { return flag("stack-trace-on-crash"); }
  void set_stack_trace_on_crash(bool on) { set("stack-trace-on-crash", on); }
  /// Record the user's whole call stack with every op that is built.
  bool source_tracebacks() const { return flag("source-tracebacks"); }
  void set_source_tracebacks(bool on) { set("source-tracebacks", on); }
  /// nan_check, assert_level all, device_sync_mode, both stack traces and source_tracebacks.
  bool sensible_mode() const { return flag("sensible"); }
  void set_sensible_mode(bool on) { set("sensible", on); }

  /// "" or one of notset, trace, debug, info, warning, error, critical.
  std::string op_log_level() const { return text("op-log-level"); }
  void set_op_log_level(std::string level) { set("op-log-level", std::move(level)); }
  /// "" or one of none, warn, safe, all. Not checked here; see `check_assert_level`.
  std::string assert_level() const { return text("assert-level"); }
  void set_assert_level(std::string level) { set("assert-level", std::move(level)); }
  /// An invalid level: TypeError.
  void check_assert_level() const;
  /// What sessions print with that were not told; NONE: their own default.
  PrintStyle print_style() const;
  void set_print_style(PrintStyle style);
  /// Receives the IR after each stage of a compile; "": none.
  std::string ir_output_dir() const { return text("ir-output-dir"); }
  void set_ir_output_dir(std::string folder) { set("ir-output-dir", std::move(folder)); }
  std::string profiling_output_path() const { return text("profiling-output-path"); }
  void set_profiling_output_path(std::string path) {
    set("profiling-output-path", std::move(path));
  }

  /// The value of a property by its name in kebab case, as text. Unknown name: KeyError.
  std::string get(std::string_view name) const;
  /// Sets a property from text, as KILN_DEBUG does. Unknown name: KeyError; bad value: ValueError.
  void set_from_text(std::string_view name, std::string_view value);
  /// Names of all properties in kebab case.
  static std::vector<std::string> names();

  /// Back to the defaults, without KILN_DEBUG.
  void reset();
  /// Applies "name[,name=value…]". Unknown names and bad values are skipped; the result has one
  /// sentence about each.
  std::vector<std::string> apply(std::string_view settings);

  DebugConfig() = default;
  DebugConfig(const DebugConfig&) = delete;

 private:
  bool flag(std::string_view name) const;
  std::string text(std::string_view name) const;
  void set(std::string_view name, bool on) { set(name, std::string(on ? "true" : "false")); }
  void set(std::string_view name, std::string value);

  mutable std::mutex mutex_;
  std::map<std::string, std::string, std::less<>> values_;  // what was set
};

/// The settings of this process.
DebugConfig& debug_config();

/// COMPACT and so on. Unknown name: TypeError with the choices.
PrintStyle print_style_from_string(std::string_view name);
std::string_view to_string(PrintStyle style);

}  // namespace kiln::engine
