#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "emulator/engine/operation.h"
#include "emulator/execute/grid.h"

namespace kiln::emulator {

/// A piece of a kernel that one thread works on.
struct Unit {
  bool ranges = false;  // try to run the blocks as a range; perform says whether it could
  std::uint64_t begin = 0, end = 0;             // blocks to begin
  std::vector<std::unique_ptr<Block>> resumed;  // blocks to go on with, then those that wait
  std::uint64_t ended = 0;                      // blocks that ended
};

/// A kernel that runs. `take` and `settle` are called under the engine's lock, `perform` by one
/// thread for each unit.
class Run {
 public:
  /// Starts the operation's kernel; `failure` says why it could not.
  static std::shared_ptr<Run> start(const OperationPointer& operation, std::uint32_t workers,
                                    std::uint32_t multiprocessors, std::string& failure);

  const OperationPointer& operation() const { return operation_; }
  const Grid& grid() const { return *grid_; }

  /// Whether a thread could work on it now.
  bool available() const;
  /// Whether every block that could run was looked at and waits.
  bool fruitless() const;
  /// Whether nothing of it is left to do, and nobody works on it.
  bool over() const { return units_ == 0 && (failed_ || ended_ == total_); }
  bool failed() const { return failed_; }

  Unit take(std::mt19937_64* random);
  void perform(Unit& unit);
  /// Returns whether a block began or ended.
  bool settle(Unit& unit);
  /// No block begins or goes on any more.
  void fail();

  /// The blocks that wait, unless some thread works on one.
  const std::list<std::unique_ptr<Block>>* waiting() const {
    return units_ == 0 ? &waiting_ : nullptr;
  }

 private:
  Run() = default;
  std::uint64_t begin_count() const;

  OperationPointer operation_;
  std::unique_ptr<Grid> grid_;
  std::uint32_t workers_ = 1;
  std::uint64_t total_ = 0, next_ = 0, ended_ = 0;  // blocks: all, the first not begun, ended
  std::uint64_t resident_ = 0;                      // begun and not ended
  std::uint64_t residency_ = 1, most_resident_ = 1;
  std::uint32_t units_ = 0;
  std::list<std::unique_ptr<Block>> waiting_;  // costs nothing while it is empty
  std::uint64_t fruitless_ = 0;                // blocks looked at since one began or ended
  BlockMode mode_ = BlockMode::unknown;
  bool failed_ = false;
};

}  // namespace kiln::emulator
