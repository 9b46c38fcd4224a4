#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

// The process's one recorder of what runs when. It keeps the latest 1,000,000 events in memory and
// writes them as trace-event JSON, which Perfetto and Chrome open. While it is off, an event costs
// one load.

namespace kiln {

namespace detail {
extern std::atomic<bool> tracing;
}

/// Whether events are recorded at present.
inline bool tracing() { return detail::tracing.load(std::memory_order_relaxed); }

/// Starts recording for `path`; while a recording runs: RuntimeError.
void start_trace(std::string path);
/// Stops and writes the file; without a recording: RuntimeError, as for a file that cannot be
/// written.
void stop_trace();

/// Nanoseconds of the recorder's clock.
std::int64_t trace_now();
/// A number that links a call to the work it enqueued.
std::uint64_t new_trace_link();
/// The track of `object`, such as a queue, made with `name` when it is new.
int trace_track(const void* object, std::string_view name);
/// The calling thread's track.
int thread_trace_track();

/// What is known about one span; the fields may stay empty.
struct TraceDetails {
  /// Bytes moved, filled or allocated; -1: none.
  std::int64_t bytes = -1;
  /// Links: this span enqueued the work with this number, or is that work.
  std::uint64_t starts_link = 0;
  std::uint64_t ends_link = 0;
};

/// Records that `name` ran from `begin` to `end` on a track. `category` is a literal.
void record_span(int track, std::string_view name, const char* category, std::int64_t begin,
                 std::int64_t end, const TraceDetails& details = {});
/// Says what a track runs until its next span is recorded. A recording that stops before that
/// writes it as far as it came.
void record_running(int track, std::string_view name, const char* category, std::int64_t begin,
                    const TraceDetails& details = {});
/// Records a moment on the calling thread's track.
void record_moment(std::string_view name, const char* category, const TraceDetails& details = {});

/// Records its own life as a span of the calling thread, when tracing was on at its start.
class TraceSpan {
 public:
  TraceSpan(const char* name, const char* category, TraceDetails details = {})
      : begin_(tracing() ? trace_now() : -1), name_(name), category_(category), details_(details) {}
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;
  ~TraceSpan() {
    if (begin_ >= 0) [[unlikely]]
      record_span(thread_trace_track(), name_, category_, begin_, trace_now(), details_);
  }

 private:
  std::int64_t begin_;
  const char* name_;
  const char* category_;
  TraceDetails details_;
};

/// Records while it lives. A file that cannot be written when it ends is a warning; call `stop` for
/// the exception.
class Trace {
 public:
  explicit Trace(std::string path) { start_trace(std::move(path)); }
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;
  ~Trace();
  void stop();

 private:
  bool running_ = true;
};

}  // namespace kiln
