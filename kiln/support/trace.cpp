#include "kiln/support/trace.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>

#include "kiln/support/environment.h"
#include "kiln/support/error.h"
#include "kiln/support/file.h"
#include "kiln/support/format.h"
#include "kiln/support/warning.h"

namespace kiln {
namespace {

constexpr std::size_t kMaxEvents = 1'000'000;

struct Event {
  std::int64_t begin;
  std::int64_t duration;  // -1: a moment
  std::string name;
  const char* category;
  TraceDetails details;
  int track;
};

struct Recorder {
  std::mutex mutex;
  std::string path;
  std::deque<Event> events;
  std::map<int, Event> running;  // by track
  std::uint64_t dropped = 0;
  std::map<std::pair<const void*, std::string>, int> tracks;  // an address may come again
  std::map<int, std::string> track_names;
};

Recorder& recorder() {
  static auto* instance = new Recorder;  // leaked: queues may run while the process ends
  return *instance;
}

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      result += {'\\', c};
    else if (static_cast<unsigned char>(c) < 0x20)
      result += format("\\u{:04x}", static_cast<unsigned char>(c));
    else
      result += c;
  }
  return result + "\"";
}

double microseconds(std::int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1000.0; }

std::string to_json(const Recorder& all) {
  const int process = getpid();
  std::string text = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
  text +=
      format("{{\"ph\":\"M\",\"pid\":{},\"name\":\"process_name\",\"args\":{{\"name\":\"kiln\"}}}}",
             process);
  for (const auto& [track, name] : all.track_names)
    text += format(
        ",\n{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":{}}}}"
        "}",
        process, track, quoted(name));
  for (const Event& event : all.events) {
    const std::string place = format("\"pid\":{},\"tid\":{},\"ts\":{:.3f}", process, event.track,
                                     microseconds(event.begin));
    const std::string arguments =
        event.details.bytes >= 0 ? format(",\"args\":{{\"bytes\":{}}}", event.details.bytes) : "";
    if (event.duration < 0)
      text += format(",\n{{\"ph\":\"i\",\"s\":\"t\",{},\"cat\":\"{}\",\"name\":{}{}}}", place,
                     event.category, quoted(event.name), arguments);
    else
      text += format(",\n{{\"ph\":\"X\",{},\"dur\":{:.3f},\"cat\":\"{}\",\"name\":{}{}}}", place,
                     microseconds(event.duration), event.category, quoted(event.name), arguments);
    if (event.details.starts_link != 0)
      text += format(",\n{{\"ph\":\"s\",{},\"cat\":\"enqueue\",\"name\":\"enqueue\",\"id\":{}}}",
                     place, event.details.starts_link);
    if (event.details.ends_link != 0)
      text += format(
          ",\n{{\"ph\":\"f\",\"bp\":\"e\",{},\"cat\":\"enqueue\",\"name\":\"enqueue\",\"id\":{}}}",
          place, event.details.ends_link);
  }
  return text + format("\n],\"otherData\":{{\"droppedEvents\":{}}}}}\n", all.dropped);
}

void add(Event event) {
  Recorder& all = recorder();
  std::lock_guard lock(all.mutex);
  if (!detail::tracing.load(std::memory_order_relaxed)) return;
  if (all.events.size() == kMaxEvents) {
    all.events.pop_front();
    ++all.dropped;
  }
  if (event.duration >= 0) all.running.erase(event.track);
  all.events.push_back(std::move(event));
}

/// KILN_TRACE records from here to the end of the process.
const bool from_environment = [] {
  const std::optional<std::string> path = environment("KILN_TRACE");
  if (!path) return false;
  start_trace(*path);
  std::atexit([] {
    if (!tracing()) return;
    try {
      stop_trace();
    } catch (const Error& error) {
      warn(error.what());
    }
  });
  return true;
}();

}  // namespace

constinit std::atomic<bool> detail::tracing = false;

void start_trace(std::string path) {
  Recorder& all = recorder();
  std::lock_guard lock(all.mutex);
  if (detail::tracing.load(std::memory_order_relaxed))
    throw RuntimeError(
        format("start_trace: a recording for '{}' runs already; call stop_trace first.", all.path));
  all.path = std::move(path);
  all.events.clear();
  all.running.clear();
  all.dropped = 0;
  detail::tracing.store(true, std::memory_order_relaxed);
}

void stop_trace() {
  Recorder& all = recorder();
  std::string path;
  std::string text;
  {
    std::lock_guard lock(all.mutex);
    if (!detail::tracing.exchange(false))
      throw RuntimeError("stop_trace: no recording runs; call start_trace first.");
    path = all.path;
    for (auto& [track, event] : all.running) {
      event.duration = trace_now() - event.begin;
      all.events.push_back(std::move(event));
    }
    all.running.clear();
    text = to_json(all);
    all.events.clear();
  }
  try {
    write_file(path, text);
  } catch (const FileNotFoundError& error) {
    throw RuntimeError(error.message());
  }
}

std::int64_t trace_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::uint64_t new_trace_link() {
  static std::atomic<std::uint64_t> next = 1;
  return next.fetch_add(1, std::memory_order_relaxed);
}

int trace_track(const void* object, std::string_view name) {
  Recorder& all = recorder();
  std::lock_guard lock(all.mutex);
  const auto [place, fresh] = all.tracks.try_emplace(std::pair(object, std::string(name)),
                                                     static_cast<int>(all.tracks.size()) + 1);
  if (fresh) all.track_names[place->second] = name;
  return place->second;
}

int thread_trace_track() {
  static thread_local const char here = 0;
  static thread_local const int track =
      trace_track(&here, format("thread {}", static_cast<long>(gettid())));
  return track;
}

void record_span(int track, std::string_view name, const char* category, std::int64_t begin,
                 std::int64_t end, const TraceDetails& details) {
  add({begin, end - begin, std::string(name), category, details, track});
}

void record_running(int track, std::string_view name, const char* category, std::int64_t begin,
                    const TraceDetails& details) {
  Recorder& all = recorder();
  std::lock_guard lock(all.mutex);
  if (detail::tracing.load(std::memory_order_relaxed))
    all.running.insert_or_assign(track,
                                 Event{begin, 0, std::string(name), category, details, track});
}

void record_moment(std::string_view name, const char* category, const TraceDetails& details) {
  add({trace_now(), -1, std::string(name), category, details, thread_trace_track()});
}

Trace::~Trace() {
  if (!running_) return;
  try {
    stop();
  } catch (const Error& error) {
    warn(error.what());
  }
}

void Trace::stop() {
  running_ = false;
  stop_trace();
}

}  // namespace kiln
