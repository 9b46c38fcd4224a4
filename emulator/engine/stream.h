#pragma once

#include <cstdint>
#include <memory>

#include "emulator/device/handles.h"
#include "emulator/engine/operation.h"

namespace kiln::emulator {

struct Capture;
struct GraphNode;

/// A line of operations: each comes after the one before. Changed under the engine's lock.
struct Stream : Object {
  static constexpr ObjectKind kKind = ObjectKind::stream;
  enum class Order : std::uint8_t {
    legacy,        // waits for all blocking streams of its context, and they for it
    blocking,      // an ordinary stream
    non_blocking,  // knows nothing of the legacy stream
  };
  Stream() : Object(kKind) {}

  std::weak_ptr<Context> context;
  Order order = Order::blocking;
  int priority = 0;
  unsigned flags = 0;
  std::uint64_t id = 0;
  OperationPointer tail;             // the last operation; may be done already
  std::shared_ptr<Capture> capture;  // set while work is recorded instead of done;
                                     // under the lock of captures
};

/// A point of a stream. Changed under the engine's lock.
struct Event : Object {
  static constexpr ObjectKind kKind = ObjectKind::event;
  Event() : Object(kKind) {}

  std::weak_ptr<Context> context;
  unsigned flags = 0;
  OperationPointer recorded;  // null: never
  // Set instead while the stream that it was recorded in is captured; under the captures' lock.
  std::shared_ptr<Capture> capture;
  std::vector<std::weak_ptr<GraphNode>> captured;
};

}  // namespace kiln::emulator
