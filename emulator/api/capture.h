#pragma once

// What entry points ask about streams whose work is recorded into a graph.

#include <memory>

#include "emulator/api/call.h"

namespace kiln::emulator {

/// Whether the stream's work is recorded (an invalid capture counts).
bool is_capturing(Driver& driver, Stream& stream);

/// Records work as a node behind what the stream recorded last.
CUresult capture_work(Driver& driver, Stream& stream, const std::shared_ptr<Context>& context,
                      Work work);

/// What a wait for the stream answers while it is captured: it would never end. The capture is
/// invalid then.
CUresult refuse_wait(Driver& driver, Stream& stream);

/// What work in the legacy stream answers while a blocking stream of its context is captured: it
/// would have to wait for it. That capture is invalid then.
CUresult refuse_implicit(Driver& driver, Stream& stream);

/// What refuse_implicit would answer, without a change.
CUresult check_implicit(Driver& driver, Stream& stream);

/// Makes the event one that no capture recorded.
void forget_capture(Event& event);
/// Whether the event was recorded in a stream that is captured.
bool is_captured(Driver& driver, Event& event);
/// Records an event in a captured stream; `external` makes a node of it.
CUresult capture_record(Driver& driver, Stream& stream, const std::shared_ptr<Context>& context,
                        const std::shared_ptr<Event>& event, bool external);
/// Makes a stream wait for an event where one or both belong to a capture: the stream joins the
/// capture of the event.
CUresult capture_wait(Driver& driver, Stream& stream, const std::shared_ptr<Context>& context,
                      const std::shared_ptr<Event>& event, bool external);

/// Whether all edges are of the plain kind: after the whole node. Others are not emulated.
bool plain_edges(const CUgraphEdgeData* edges, std::size_t count);

/// Ends the capture that the stream, or the event, belongs to as failed.
void invalidate_capture(Driver& driver, Stream& stream);
void invalidate_capture(Driver& driver, Event& event);

}  // namespace kiln::emulator
