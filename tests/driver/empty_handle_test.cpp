// What members of an empty handle do: throw a sentence, for every class of the layer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>

#include "kiln/driver/buffer.h"
#include "kiln/driver/event.h"
#include "kiln/driver/host_hazard.h"
#include "kiln/driver/queue.h"
#include "kiln/support/error.h"

namespace kiln::driver {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using Calls = std::map<std::string, std::function<void()>>;

void expect_refused(const Calls& calls) {
  for (const auto& [name, call] : calls)
    EXPECT_THAT(call, ThrowsMessage<ValueError>(HasSubstr("This handle is empty"))) << name;
}

template <typename T>
T moved_from(T handle) {
  const T taken = std::move(handle);
  return handle;  // NOLINT: what is left is what is tested
}

void expect_members_refused(const Buffer& b) {
  const Buffer full = Buffer::zeros({2}, DType::float32);
  expect_refused({
      {"dtype", [&] { b.dtype(); }},
      {"shape", [&] { b.shape(); }},
      {"strides", [&] { b.strides(); }},
      {"rank", [&] { b.rank(); }},
      {"num_elements", [&] { b.num_elements(); }},
      {"element_size", [&] { b.element_size(); }},
      {"device", [&] { b.device(); }},
      {"stream", [&] { b.stream(); }},
      {"is_contiguous", [&] { b.is_contiguous(); }},
      {"is_host", [&] { b.is_host(); }},
      {"pinned", [&] { b.pinned(); }},
      {"usage", [&] { b.usage(); }},
      {"data", [&] { b.data(); }},
      {"byte_size", [&] { b.byte_size(); }},
      {"starts_in_half_byte", [&] { b.starts_in_half_byte(); }},
      {"aligned", [&] { b.aligned(); }},
      {"[]", [&] { b[0]; }},
      {"set", [&] { b.set({0}, 1); }},
      {"item", [&] { b.item(); }},
      {"view", [&] { b.view(DType::int32); }},
      {"contiguous", [&] { b.contiguous(); }},
      {"copy", [&] { b.copy(); }},
      {"copy to", [&] { b.copy(CPU()); }},
      {"to", [&] { b.to(CPU()); }},
      {"inplace_copy_from", [&] { b.inplace_copy_from(full); }},
      {"inplace_copy_from empty", [&] { full.inplace_copy_from(b); }},
      {"memset", [&] { b.memset(0); }},
      {"wait_for_host_read", [&] { b.wait_for_host_read(); }},
      {"wait_for_host_write", [&] { b.wait_for_host_write(); }},
      {"record_use", [&] { b.record_use(CPU().default_queue()); }},
      {"to_string", [&] { b.to_string(); }},
      {"repr", [&] { b.repr(); }},
      {"dlpack_device", [&] { b.dlpack_device(); }},
      {"to_dlpack", [&] { b.to_dlpack(); }},
      {"to_dlpack_unversioned", [&] { b.to_dlpack_unversioned(); }},
      {"storage", [&] { b.storage(); }},
      {"batch_inplace_copy", [&] { batch_inplace_copy(std::span(&full, 1), std::span(&b, 1)); }},
  });
  EXPECT_FALSE(b);
  EXPECT_EQ(b, Buffer());
  EXPECT_EQ(std::hash<Buffer>()(b), std::hash<Buffer>()(Buffer()));
}

TEST(EmptyHandle, Buffer) {
  expect_members_refused(Buffer());
  expect_members_refused(moved_from(Buffer::zeros({2}, DType::float32)));
}

TEST(EmptyHandle, DeviceQueue) {
  const DeviceQueue q = moved_from(DeviceQueue(CPU()));
  const DeviceQueue full = CPU().default_queue();
  const DeviceEvent event(CPU());
  expect_refused({
      {"device", [&] { q.device(); }},
      {"synchronize", [&] { q.synchronize(); }},
      {"record_event", [&] { q.record_event(); }},
      {"record_event into", [&] { q.record_event(event); }},
      {"wait_for", [&] { q.wait_for(full); }},
      {"wait_for empty", [&] { full.wait_for(q); }},
      {"wait_for event", [&] { q.wait_for(event); }},
      {"enqueue_cpu_function", [&] { q.enqueue_cpu_function([] {}); }},
      {"native_stream_handle", [&] { q.native_stream_handle(); }},
      {"to_string", [&] { q.to_string(); }},
      {"backend", [&] { q.backend(); }},
      {"Buffer", [&] { Buffer(DType::float32, {2}, q); }},
      {"record_use", [&] { Buffer::zeros({2}, DType::float32).record_use(q); }},
      {"HostHazardCompletion", [&] { HostHazardCompletion::record_on(q); }},
  });
  EXPECT_EQ(std::hash<DeviceQueue>()(q), std::hash<const void*>()(nullptr));
}

TEST(EmptyHandle, DeviceEvent) {
  const DeviceEvent e = moved_from(DeviceEvent(CPU(), true));
  const DeviceEvent full(CPU(), true);
  expect_refused({
      {"device", [&] { e.device(); }},
      {"synchronize", [&] { e.synchronize(); }},
      {"is_ready", [&] { e.is_ready(); }},
      {"elapsed_time", [&] { e.elapsed_time(full); }},
      {"elapsed_time empty", [&] { full.elapsed_time(e); }},
      {"to_string", [&] { e.to_string(); }},
      {"backend", [&] { e.backend(); }},
      {"record_event", [&] { CPU().default_queue().record_event(e); }},
      {"wait_for", [&] { CPU().default_queue().wait_for(e); }},
  });
  EXPECT_EQ(std::hash<DeviceEvent>()(e), std::hash<const void*>()(nullptr));
}

TEST(EmptyHandle, HostHazardCompletion) {
  const auto h = moved_from(HostHazardCompletion::record_on(CPU().default_queue()));
  expect_refused({
      {"poison", [&] { h.poison("text"); }},
      {"wait", [&] { h.wait(); }},
      {"is_ready", [&] { h.is_ready(); }},
  });
}

}  // namespace
}  // namespace kiln::driver
