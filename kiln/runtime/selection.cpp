#include "kiln/runtime/selection.h"

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kiln/runtime/element_types.h"
#include "kiln/support/thread_pool.h"

namespace kiln::runtime {
namespace {

// Elements that are worth another thread.
constexpr std::int64_t kGrain = 32768;

template <std::size_t kBytes>
using Unsigned = std::conditional_t<kBytes <= 4, std::uint32_t, std::uint64_t>;

/// A number that orders elements as they come after one another: larger ones have larger keys.
template <typename T>
auto key_of(T value) {
  using Key = Unsigned<sizeof(T)>;
  constexpr Key kSign = Key{1} << (8 * sizeof(Key) - 1);
  if constexpr (std::unsigned_integral<T>) {
    return static_cast<Key>(value);
  } else if constexpr (std::signed_integral<T>) {
    return static_cast<Key>(static_cast<Key>(std::make_signed_t<Key>{value}) ^ kSign);
  } else if constexpr (std::floating_point<T>) {
    if (value != value) return ~Key{0};
    const auto bits = std::bit_cast<Key>(value + T{0});  // -0 counts as 0
    return static_cast<Key>(bits & kSign ? ~bits : bits | kSign);
  } else {
    return key_of(static_cast<float>(value));
  }
}

template <typename T>
class TopK {
 public:
  using Key = decltype(key_of(T{}));
  struct Entry {
    Key key;
    std::int64_t index;
    /// Whether it comes before `other`.
    bool operator<(const Entry& other) const {
      return key != other.key ? key > other.key : index < other.index;
    }
  };

  TopK(const void* source, void* values, std::int64_t* indices, std::int64_t n, std::int64_t inner,
       std::int64_t k, bool largest)
      : source_(static_cast<const T*>(source)),
        values_(static_cast<T*>(values)),
        indices_(indices),
        n_(n),
        inner_(inner),
        k_(k),
        flip_(largest ? Key{0} : ~Key{0}) {}

  void rows(std::int64_t begin, std::int64_t end) const {
    std::vector<Entry> best;
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t outer = row / inner_, column = row % inner_;
      const T* from = source_ + outer * n_ * inner_ + column;
      select(from, best);
      const std::int64_t to = outer * k_ * inner_ + column;
      for (std::int64_t i = 0; i < k_; ++i) {
        const std::int64_t index = best[static_cast<std::size_t>(i)].index;
        values_[to + i * inner_] = from[index * inner_];
        indices_[to + i * inner_] = index;
      }
    }
  }

 private:
  void select(const T* from, std::vector<Entry>& best) const {
    best.clear();
    if (k_ <= 16 || k_ <= n_ / 16) {
      // A heap of the best so far with the worst of them on top; few elements get past it.
      for (std::int64_t i = 0; i < n_; ++i) {
        const Entry entry{key_of(from[i * inner_]) ^ flip_, i};
        if (static_cast<std::int64_t>(best.size()) < k_) {
          best.push_back(entry);
          std::push_heap(best.begin(), best.end());
        } else if (entry.key > best.front().key) {
          std::pop_heap(best.begin(), best.end());
          best.back() = entry;
          std::push_heap(best.begin(), best.end());
        }
      }
      std::sort_heap(best.begin(), best.end());
      return;
    }
    for (std::int64_t i = 0; i < n_; ++i) best.push_back({key_of(from[i * inner_]) ^ flip_, i});
    const auto end = best.begin() + k_;
    if (k_ < n_) std::nth_element(best.begin(), end, best.end());
    std::sort(best.begin(), end);
  }

  const T* source_;
  T* values_;
  std::int64_t* indices_;
  std::int64_t n_, inner_, k_;
  Key flip_;
};

}  // namespace

void top_k(DType dtype, const void* source, void* values, std::int64_t* indices, std::int64_t outer,
           std::int64_t n, std::int64_t inner, std::int64_t k, bool largest, int threads) {
  if (outer <= 0 || inner <= 0 || k <= 0) return;
  with_type(dtype, [&]<typename T>(T) {
    const TopK<T> rows(source, values, indices, n, inner, k, largest);
    parallel_for(
        outer * inner, std::max<std::int64_t>(1, kGrain / n), threads,
        [&](std::int64_t begin, std::int64_t end, std::int64_t) { rows.rows(begin, end); });
  });
}

}  // namespace kiln::runtime
