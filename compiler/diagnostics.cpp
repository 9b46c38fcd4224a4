#include "compiler/diagnostics.h"

#include <new>
#include <set>
#include <string>

#include "compiler/passes/passes.h"
#include "kiln/support/error.h"
#include "kiln/support/format.h"

namespace kiln::compiler {

namespace {

constexpr std::string_view kNote = "While compiling graph '";
constexpr std::size_t kMostNotes = 8;

std::string note_of(const graph::ir::Op& op) {
  const graph::ir::Graph* graph = op.block ? op.block->graph : nullptr;
  std::string note = format("{}{}', op '{}'", kNote, graph ? graph->name : "", user_name(op));
  if (op.location && !op.location->empty())
    note += format(" ({}:{})", op.location->front().file, op.location->front().line);
  return note + ".";
}

void add_notes(Error& error, std::span<const graph::ir::Op* const> ops) {
  if (error.message().find(kNote) != std::string::npos) return;
  std::set<std::string> notes;
  for (const graph::ir::Op* op : ops) {
    if (!op || notes.size() == kMostNotes) continue;
    std::string note = note_of(*op);
    if (notes.insert(note).second) error.add_note(note);
  }
}

}  // namespace

void rethrow_with_ops(std::span<const graph::ir::Op* const> ops) {
  try {
    throw;
  } catch (Error& error) {
    add_notes(error, ops);
    throw;
  } catch (const std::bad_alloc&) {
    ValueError error("There is no memory left to compile the model.");
    add_notes(error, ops);
    throw error;
  } catch (const std::exception& exception) {
    InternalError error(
        format("The compiler failed: {}. This is a fault of kiln; please report it with the graph.",
               exception.what()));
    add_notes(error, ops);
    throw error;
  }
}

}  // namespace kiln::compiler
