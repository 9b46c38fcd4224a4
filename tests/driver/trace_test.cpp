#include "kiln/driver/trace.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
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

TEST(Trace, RecordsWorkWithLinks) {
  const std::string path = trace_path();
  const DeviceQueue queue(CPU());
  start_trace(path);
  EXPECT_THROW(start_trace(path), RuntimeError);
  const Buffer inline_fill = Buffer::zeros({16}, DType::int8);
  queue.enqueue_cpu_function([] {});
  queue.synchronize();
  stop_trace();
  EXPECT_THROW(stop_trace(), RuntimeError);
  const nlohmann::json trace = nlohmann::json::parse(read_file(path));
  std::filesystem::remove(path);
  std::map<std::string, std::set<std::string>> names;
  std::map<std::string, int> links;
  for (const auto& event : trace["traceEvents"]) {
    names[event["ph"]].insert(event["name"]);
    if (event.contains("id")) links[event["ph"]] = event["id"];
    if (event["name"] == "fill") EXPECT_EQ(event["args"]["bytes"], 16);
  }
  EXPECT_TRUE(names["X"].contains("function"));
  EXPECT_TRUE(names["X"].contains("fill"));
  EXPECT_TRUE(names["i"].contains("allocate"));
  EXPECT_NE(links["s"], 0);
  EXPECT_EQ(links["s"], links["f"]);
  EXPECT_EQ(trace["otherData"]["droppedEvents"], 0);
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
