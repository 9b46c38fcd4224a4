#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/runtime/print.h"
#include "kiln/support/debug_settings.h"

namespace kiln::engine {

using runtime::PrintStyle;

/// Debug settings of the process, see `InferenceSession::debug`. They start from KILN_DEBUG, which
/// is read once, when kiln is loaded. A setting made in code beats `sensible_mode`. Safe from any
/// thread.
class DebugConfig {
 public:
  /// Check the results of every op that makes floats for NaN and infinities. Takes effect at
  /// compile.
  bool nan_check() const { return flag("nan-check"); }
  void set_nan_check(bool on) { set("nan-check", on); }
  /// Poison fresh device memory and report reads of it. This kiln runs on the CPU only: turning it
  /// on is NotImplementedError.
  bool uninitialized_read_check() const { return flag("uninitialized-read-check"); }
  void set_uninitialized_read_check(bool on) { set("uninitialized-read-check", on); }
  /// Every call that enqueues work waits for it, so that errors appear at their call.
  bool device_sync_mode() const { return flag("device-sync-mode"); }
  void set_device_sync_mode(bool on) { set("device-sync-mode", on); }
  /// Unordered uses of one buffer on two queues, one of them a write, are RuntimeErrors of the call
  /// that makes the second one. What was enqueued before it was turned on is not known.
  bool queue_order() const { return flag("queue-order"); }
  void set_queue_order(bool on) { set("queue-order", on); }
  /// Errors end with the native stack of their throw.
  bool stack_trace_on_error() const { return flag("stack-trace-on-error"); }
  void set_stack_trace_on_error(bool on) { set("stack-trace-on-error", on); }
  /// A crash of the process writes its native stack to standard error.
  bool stack_trace_on_crash() const { return flag("stack-trace-on-crash"); }
  void set_stack_trace_on_crash(bool on) { set("stack-trace-on-crash", on); }
  /// Record the user's whole call stack with every op that is built.
  bool source_tracebacks() const { return flag("source-tracebacks"); }
  void set_source_tracebacks(bool on) { set("source-tracebacks", on); }
  /// nan_check, assert_level all, device_sync_mode, both stack traces and source_tracebacks.
  bool sensible_mode() const { return flag("sensible"); }
  void set_sensible_mode(bool on) { set("sensible", on); }

  /// "" or one of notset, trace, debug, info, warning, error, critical: which lines kernels of
  /// user libraries log. kiln's own ops log none.
  std::string op_log_level() const { return text("op-log-level"); }
  void set_op_log_level(std::string level) { set("op-log-level", std::move(level)); }
  /// "" or one of none, warn, safe, all: which checks are compiled into kernels of user libraries.
  /// The checks of kiln's own ops are in at every level. Not checked here; see
  /// `check_assert_level`.
  std::string assert_level() const { return text("assert-level"); }
  void set_assert_level(std::string level) { set("assert-level", std::move(level)); }
  /// An invalid level: TypeError.
  void check_assert_level() const;
  /// What sessions print with that were not told; NONE: their own default.
  PrintStyle print_style() const;
  void set_print_style(PrintStyle style);
  /// Folder that receives the IR after each stage of a compile, as numbered text files; "": none.
  std::string ir_output_dir() const { return text("ir-output-dir"); }
  void set_ir_output_dir(std::string folder) { set("ir-output-dir", std::move(folder)); }
  /// Where profiles go. Nothing writes any yet; KILN_TRACE names a file for a timeline.
  std::string profiling_output_path() const { return text("profiling-output-path"); }
  void set_profiling_output_path(std::string path) {
    set("profiling-output-path", std::move(path));
  }

  /// The value of a property by its name in kebab case, as text. Unknown name: KeyError.
  std::string get(std::string_view name) const { return settings_.get(name); }
  /// Sets a property from text, as KILN_DEBUG does. Unknown name: KeyError; bad value: ValueError;
  /// a check that this kiln does not have turned on: NotImplementedError.
  void set_from_text(std::string_view name, std::string_view value) {
    settings_.set_from_text(name, value);
  }
  /// Names of all properties in kebab case.
  static std::vector<std::string> names() { return DebugSettings::names(); }

  /// Back to the defaults, without KILN_DEBUG.
  void reset() { settings_.reset(); }
  /// Applies "name[,name=value…]". What cannot be applied is skipped; the result has one sentence
  /// about each.
  std::vector<std::string> apply(std::string_view settings) { return settings_.apply(settings); }

  /// Settings of its own, which nothing follows.
  DebugConfig() : own_(std::make_unique<DebugSettings>()), settings_(*own_) {}
  explicit DebugConfig(DebugSettings& settings) : settings_(settings) {}
  DebugConfig(const DebugConfig&) = delete;

 private:
  bool flag(std::string_view name) const { return settings_.flag(name); }
  std::string text(std::string_view name) const { return settings_.get(name); }
  void set(std::string_view name, bool on) { settings_.set(name, on ? "true" : "false"); }
  void set(std::string_view name, std::string value) { settings_.set(name, std::move(value)); }

  std::unique_ptr<DebugSettings> own_;
  DebugSettings& settings_;
};

/// The settings of this process.
DebugConfig& debug_config();

/// COMPACT and so on. Unknown name: TypeError with the choices.
PrintStyle print_style_from_string(std::string_view name);
std::string_view to_string(PrintStyle style);

}  // namespace kiln::engine
