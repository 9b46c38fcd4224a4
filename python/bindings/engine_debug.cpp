#include <nanobind/stl/string.h>

#include "bindings.h"
#include "engine_casters.h"
#include "kiln/engine/debug_config.h"

namespace kiln::python {
namespace {

using engine::DebugConfig;
using engine::PrintStyle;

/// The process-wide settings; Python holds no object of its own.
struct DebugObject {
  DebugConfig& config() const { return engine::debug_config(); }
};

void def_flag(nb::class_<DebugObject>& cls, const char* name, bool (DebugConfig::*get)() const,
              void (DebugConfig::*set)(bool), const char* doc) {
  cls.def_prop_rw(
      name, [get](const DebugObject& d) { return (d.config().*get)(); },
      [set](DebugObject& d, bool on) { (d.config().*set)(on); }, doc);
}

void def_text(nb::class_<DebugObject>& cls, const char* name,
              std::string (DebugConfig::*get)() const, void (DebugConfig::*set)(std::string),
              const char* doc) {
  cls.def_prop_rw(
      name, [get](const DebugObject& d) { return (d.config().*get)(); },
      [set](DebugObject& d, std::string value) { (d.config().*set)(std::move(value)); }, doc);
}

}  // namespace

void bind_engine_debug(nb::module_& m) {
  nb::enum_<PrintStyle>(m, "PrintStyle", nb::is_arithmetic(), "How print ops show tensors.")
      .value("COMPACT", PrintStyle::COMPACT)
      .value("FULL", PrintStyle::FULL)
      .value("BINARY", PrintStyle::BINARY)
      .value("NONE", PrintStyle::NONE)
      .value("BINARY_MAX_CHECKPOINT", PrintStyle::BINARY_MAX_CHECKPOINT);
  nb::class_<DebugObject> cls(m, "DebugConfig", "Debug settings of the process.");
  using D = DebugConfig;
  def_flag(cls, "nan_check", &D::nan_check, &D::set_nan_check,
           "Check every op's floats for NaN and infinities; takes effect at compile.");
  def_flag(cls, "uninitialized_read_check", &D::uninitialized_read_check,
           &D::set_uninitialized_read_check,
           "Report reads of fresh device memory; not on the CPU.");
  def_flag(cls, "device_sync_mode", &D::device_sync_mode, &D::set_device_sync_mode,
           "Every call that enqueues work waits for it.");
  def_flag(cls, "queue_order", &D::queue_order, &D::set_queue_order,
           "Unordered uses of one buffer on two queues are errors of the call that makes the "
           "second one.");
  def_flag(cls, "stack_trace_on_error", &D::stack_trace_on_error, &D::set_stack_trace_on_error,
           "Native stack trace with every error.");
  def_flag(cls, "stack_trace_on_crash", &D::stack_trace_on_crash, &D::set_stack_trace_on_crash,
           "Native stack trace on a crash.");
  def_flag(cls, "source_tracebacks", &D::source_tracebacks, &D::set_source_tracebacks,
           "Record the whole call stack with every op that is built.");
  def_flag(cls, "sensible_mode", &D::sensible_mode, &D::set_sensible_mode,
           "The checks that most hunts for an error want.");
  def_text(cls, "op_log_level", &D::op_log_level, &D::set_op_log_level, "'' or a level's name.");
  def_text(cls, "assert_level", &D::assert_level, &D::set_assert_level,
           "'' or one of none, warn, safe, all.");
  def_text(cls, "ir_output_dir", &D::ir_output_dir, &D::set_ir_output_dir,
           "Receives the IR after each stage of a compile.");
  def_text(cls, "profiling_output_path", &D::profiling_output_path, &D::set_profiling_output_path,
           "The file of profiles; nothing writes any yet.");
  cls.def_prop_rw(
         "print_style", [](const DebugObject& d) { return d.config().print_style(); },
         [](DebugObject& d, Any style) {
           d.config().set_print_style(nb::isinstance<PrintStyle>(style)
                                          ? nb::cast<PrintStyle>(style)
                                          : engine::print_style_from_string(str_of(style)));
         },
         "What sessions print with that were not told.")
      .def("reset", [](const DebugObject& d) { d.config().reset(); }, "Back to the defaults.");
  m.attr("_debug") = nb::cast(DebugObject());
  m.attr("InferenceSession").attr("debug") = m.attr("_debug");
}

}  // namespace kiln::python
