#include "kiln/driver/trace.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "kiln/driver/buffer.h"
#include "kiln/support/file.h"

namespace kiln::driver {
namespace {

std::string trace_path() {
  return (std::filesystem::temp_directory_path() /
          ("kiln_trace_test_" + std::to_string(getpid()) + ".json"))
      .string();
}

/// The events of a trace, told apart.
struct Events {
  explicit Events(const std::string& path) : json(nlohmann::json::parse(read_file(path))) {
    std::filesystem::remove(path);
    for (const auto& event : json["traceEvents"])
      if (event["name"] == "thread_name") tracks[event["tid"]] = event["args"]["name"];
  }
  /// The event of phase `ph` with this name; the test fails when there is not exactly one.
  nlohmann::json one(const std::string& ph, const std::string& name) const {
    nlohmann::json found;
    int count = 0;
    for (const auto& event : json["traceEvents"])
      if (event["ph"] == ph && event["name"] == name) found = event, ++count;
    EXPECT_EQ(count, 1) << ph << " " << name;
    return found;
  }
  std::string track(const nlohmann::json& event) const { return tracks.at(event["tid"]); }
  /// How many links begin on a thread and end on the queue.
  int links_to(const DeviceQueue& queue) const {
    std::set<int> begun;
    int ended = 0;
    for (const auto& event : json["traceEvents"])
      if (event["ph"] == "s" && track(event).starts_with("thread "))
        begun.insert(event["id"].get<int>());
    for (const auto& event : json["traceEvents"])
      if (event["ph"] == "f" && track(event) == queue.to_string())
        ended += begun.contains(event["id"].get<int>()) ? 1 : 0;
    return ended;
  }

  nlohmann::json json;
  std::map<int, std::string> tracks;
};

struct NamedFunction {
  void operator()() const {}
};

TEST(Trace, RecordsWorkWithLinks) {
  const std::string path = trace_path();
  const DeviceQueue queue(CPU());
  start_trace(path);
  EXPECT_THROW(start_trace(path), RuntimeError);
  const Buffer buffer(DType::int8, {16}, queue);
  buffer.memset(0);  // runs on this thread
  queue.enqueue_cpu_function(NamedFunction());
  queue.enqueue_foreign_function([] {}, "train.step");
  queue.synchronize();
  stop_trace();
  EXPECT_THROW(stop_trace(), RuntimeError);
  const Events events(path);
  const nlohmann::json fill = events.one("X", "fill");
  EXPECT_EQ(fill["args"]["bytes"], 16);
  EXPECT_EQ(events.track(fill), queue.to_string());
  EXPECT_EQ(events.one("i", "allocate")["args"]["bytes"], 16);
  EXPECT_EQ(events.track(events.one("X", "train.step")), queue.to_string());
  EXPECT_TRUE(events.track(events.one("i", "train.step")).starts_with("thread "));
  EXPECT_TRUE(events.track(events.one("X", "DeviceQueue.synchronize")).starts_with("thread "));
  EXPECT_EQ(events.links_to(queue), 3);
  bool named = false;
  for (const auto& event : events.json["traceEvents"])
    named |= event["name"].get<std::string>().ends_with("::NamedFunction");
  EXPECT_TRUE(named);
  EXPECT_EQ(events.json["otherData"]["droppedEvents"], 0);
}

TEST(Trace, WaitsHaveAnEnd) {
  const std::string path = trace_path();
  const DeviceQueue first(CPU()), second(CPU());
  std::promise<void> gate;
  first.enqueue_cpu_function([opened = gate.get_future().share()] { opened.wait(); });
  start_trace(path);
  second.wait_for(first);
  gate.set_value();
  second.synchronize();
  stop_trace();
  const Events events(path);
  EXPECT_EQ(events.track(events.one("X", "wait")), second.to_string());
  EXPECT_EQ(events.links_to(second), 1);
}

TEST(Trace, SkippedWorkIsNotShownAsRun) {
  const std::string path = trace_path();
  const DeviceQueue queue(CPU());
  start_trace(path);
  queue.enqueue_foreign_function([] { throw ValueError("no"); }, "fails");
  queue.enqueue_foreign_function([] {}, "never.runs");
  EXPECT_THROW(queue.synchronize(), ValueError);
  stop_trace();
  const Events events(path);
  EXPECT_EQ(events.one("X", "fails")["cat"], "work");
  const nlohmann::json skipped = events.one("X", "never.runs (skipped)");
  EXPECT_EQ(skipped["cat"], "skipped");
  EXPECT_EQ(skipped["dur"], 0.0);
  EXPECT_EQ(events.links_to(queue), 2);
}

TEST(Trace, FilesThatCannotBeWritten) {
  start_trace("/no/such/folder/trace.json");
  EXPECT_THROW(stop_trace(), RuntimeError);
  start_trace(trace_path());
  stop_trace();
  std::filesystem::remove(trace_path());
}

}  // namespace
}  // namespace kiln::driver
