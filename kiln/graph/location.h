#pragma once

// Where the user wrote an op. C++ calls record their std::source_location; a language binding
// supplies the frames of its own stack through a provider.

#include <source_location>

#include "kiln/graph/ir.h"

namespace kiln::graph {

using Location = std::source_location;

/// Asked for the frames of the user's code, innermost first, whenever an op is added: one frame,
/// or the whole stack with source lines when `full`. Null: this thread runs no such code, and the
/// C++ location counts. Must not throw.
using LocationProvider = ir::SourceLocation (*)(bool full);
/// For the whole process; null removes it.
void set_location_provider(LocationProvider provider);

/// Whether every op records the full call stack: the debug setting `source-tracebacks`.
bool source_tracebacks();
void set_source_tracebacks(bool on);

/// While it lives, ops added by this thread belong to the line `location`; the outermost scope
/// counts, so that ops made of other ops name the user's line.
class LocationScope {
 public:
  explicit LocationScope(const Location& location);
  /// That of an op which was made before; null: as if there were no scope.
  explicit LocationScope(const ir::SourceLocation& made);
  ~LocationScope();
  LocationScope(const LocationScope&) = delete;
  LocationScope& operator=(const LocationScope&) = delete;

 private:
  bool outermost_;
};

/// While it lives, scopes around it do not count: code of the user's runs that an op calls, and
/// its ops have lines of their own.
class UserCodeScope {
 public:
  UserCodeScope();
  ~UserCodeScope();
  UserCodeScope(const UserCodeScope&) = delete;
  UserCodeScope& operator=(const UserCodeScope&) = delete;

 private:
  bool set_;
  Location location_;
  ir::SourceLocation made_;
};

/// The location for an op that is added now; null outside of any scope and provider.
ir::SourceLocation current_location();

}  // namespace kiln::graph
