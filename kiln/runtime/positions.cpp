#include "kiln/runtime/positions.h"

#include <algorithm>
#include <vector>

namespace kiln::runtime {

std::int64_t count_true(std::span<const std::uint8_t> mask) {
  std::int64_t count = 0;
  for (const std::uint8_t element : mask) count += element != 0;
  return count;
}

void true_positions(const std::uint8_t* mask, std::span<const std::int64_t> extents,
                    std::int64_t* rows) {
  for (const std::int64_t extent : extents)
    if (extent == 0) return;
  const std::size_t rank = extents.size();
  const std::int64_t length = extents.back();
  std::vector<std::int64_t> at(rank, 0);
  for (;;) {
    for (std::int64_t i = 0; i < length; ++i) {
      if (!mask[i]) continue;
      rows = std::copy(at.begin(), at.end() - 1, rows);
      *rows++ = i;
    }
    mask += length;
    std::size_t axis = rank - 1;
    while (axis > 0 && ++at[axis - 1] == extents[axis - 1]) at[--axis] = 0;
    if (axis == 0) return;
  }
}

bool repeat_positions(const std::int64_t* counts, bool same, std::int64_t n, std::int64_t total,
                      std::int64_t* positions) {
  std::int64_t written = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t count = counts[same ? 0 : i];
    if (count < 0 || count > total - written) return false;
    std::fill_n(positions + written, count, i);
    written += count;
  }
  return written == total;
}

}  // namespace kiln::runtime
