#pragma once

#include <cstdint>
#include <span>

namespace kiln::runtime {

/// How many of the bools are true.
std::int64_t count_true(std::span<const std::uint8_t> mask);

/// The positions of the true elements of a dense tensor in row-major order: one row of numbers for
/// each, as long as its rank, which is at least 1.
void true_positions(const std::uint8_t* mask, std::span<const std::int64_t> extents,
                    std::int64_t* rows);

/// Writes the number i counts[i] times for each i below `n`, `total` numbers in all; with `same`,
/// counts[0] stands for all counts. False, with no more than `total` numbers written, when a count
/// is negative or they add up to another number.
bool repeat_positions(const std::int64_t* counts, bool same, std::int64_t n, std::int64_t total,
                      std::int64_t* positions);

}  // namespace kiln::runtime
