#include "kiln/runtime/boxes.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include "kiln/support/thread_pool.h"

namespace kiln::runtime {
namespace {

// Elements that are worth another thread.
constexpr std::int64_t kGrain = 16384;

/// The samples of one bin along one axis: those that lie on the input.
struct Samples {
  float start, step;         // sample i lies at start + (i + 0.5) step
  std::int64_t first, last;  // those that may lie on the input
  double count;              // all of them

  Samples(float start, float bin, float ratio, std::int64_t size) : start(start) {
    const float grid = ratio > 0 ? std::max(1.0f, std::trunc(ratio)) : std::ceil(bin);
    count = grid > 0 ? static_cast<double>(grid) : 0;
    step = bin / grid;
    first = last = 0;
    if (count == 0 || !std::isfinite(start) || !std::isfinite(step)) return;
    const auto limit = [&](double at) {
      return static_cast<std::int64_t>(std::clamp(at, 0.0, std::min(count, 0x1p40)));
    };
    if (step == 0) {
      last = limit(count);
      return;
    }
    // Somewhat wider than needed; each sample is looked at again.
    const double a = (-1.0 - start) / step, b = (static_cast<double>(size) - start) / step;
    first = limit(std::floor(std::min(a, b)) - 2);
    last = limit(std::ceil(std::max(a, b)) + 2);
  }
};

/// A sample along one axis: two neighbours and their weights.
struct Tap {
  std::int64_t low, high;
  float weight_low, weight_high;
};

bool place(float at, std::int64_t size, Tap& tap) {
  if (size == 0 || !(at >= -1 && at <= static_cast<float>(size))) return false;
  at = std::max(at, 0.0f);
  tap.low = std::min(static_cast<std::int64_t>(at), size - 1);
  tap.high = std::min(tap.low + 1, size - 1);
  tap.weight_high = at - static_cast<float>(tap.low);
  tap.weight_low = 1 - tap.weight_high;
  return true;
}

class Aligner {
 public:
  Aligner(const float* input, const float* rois, float* result, const RoiAlign& sizes)
      : input_(input), rois_(rois), result_(result), s_(sizes) {}

  void run(std::int64_t roi, const std::function<void(std::int64_t)>& refuse) const {
    const float* r = rois_ + 5 * roi;
    const float batch = std::trunc(r[0]);
    if (!(batch >= 0 && batch < static_cast<float>(s_.batch)))
      refuse(std::isnan(batch) ? std::numeric_limits<std::int64_t>::min()
                               : static_cast<std::int64_t>(std::clamp(batch, -0x1p62f, 0x1p62f)));
    const float* image =
        input_ + static_cast<std::int64_t>(batch) * s_.height * s_.width * s_.channels;
    const float offset = s_.aligned ? 0.5f : 0.0f;
    const auto extent = [&](float low, float high) {
      const float size = high - low;
      return s_.aligned ? size : std::max(size, 1.0f);
    };
    const float x = r[1] * s_.spatial_scale - offset, y = r[2] * s_.spatial_scale - offset;
    const float bin_w =
        extent(x, r[3] * s_.spatial_scale - offset) / static_cast<float>(s_.result_width);
    const float bin_h =
        extent(y, r[4] * s_.spatial_scale - offset) / static_cast<float>(s_.result_height);
    float* to = result_ + roi * s_.result_height * s_.result_width * s_.channels;
    for (std::int64_t ph = 0; ph < s_.result_height; ++ph) {
      const Samples rows(y + static_cast<float>(ph) * bin_h, bin_h, s_.sampling_ratio, s_.height);
      for (std::int64_t pw = 0; pw < s_.result_width; ++pw, to += s_.channels) {
        const Samples columns(x + static_cast<float>(pw) * bin_w, bin_w, s_.sampling_ratio,
                              s_.width);
        bin(image, rows, columns, to);
      }
    }
  }

 private:
  static float at(const Samples& samples, std::int64_t i) {
    return samples.start + (static_cast<float>(i) + 0.5f) * samples.step;
  }

  void bin(const float* image, const Samples& rows, const Samples& columns, float* to) const {
    const float lowest = -std::numeric_limits<float>::infinity();
    std::fill(to, to + s_.channels, s_.maximum ? lowest : 0.0f);
    double inside = 0;
    for (std::int64_t iy = rows.first; iy < rows.last; ++iy) {
      Tap row;
      if (!place(at(rows, iy), s_.height, row)) continue;
      for (std::int64_t ix = columns.first; ix < columns.last; ++ix) {
        Tap column;
        if (!place(at(columns, ix), s_.width, column)) continue;
        ++inside;
        add(image, row, column, to);
      }
    }
    const double count = rows.count * columns.count;
    if (s_.maximum) {
      // Samples beside the input count as 0.
      if (inside < count || inside == 0)
        for (std::int64_t c = 0; c < s_.channels; ++c) to[c] = to[c] > 0 ? to[c] : 0;
      return;
    }
    const auto divisor = static_cast<float>(std::max(count, 1.0));
    for (std::int64_t c = 0; c < s_.channels; ++c) to[c] /= divisor;
  }

  void add(const float* image, const Tap& row, const Tap& column, float* to) const {
    const auto pixel = [&](std::int64_t y, std::int64_t x) {
      return image + (y * s_.width + x) * s_.channels;
    };
    const float *a = pixel(row.low, column.low), *b = pixel(row.low, column.high),
                *c = pixel(row.high, column.low), *d = pixel(row.high, column.high);
    const float wa = row.weight_low * column.weight_low, wb = row.weight_low * column.weight_high,
                wc = row.weight_high * column.weight_low, wd = row.weight_high * column.weight_high;
    if (s_.maximum) {
      const auto larger = [](float x, float y) { return x > y || x != x ? x : y; };
      for (std::int64_t k = 0; k < s_.channels; ++k)
        to[k] = larger(larger(larger(wa * a[k], wb * b[k]), larger(wc * c[k], wd * d[k])), to[k]);
    } else {
      for (std::int64_t k = 0; k < s_.channels; ++k)
        to[k] += wa * a[k] + wb * b[k] + wc * c[k] + wd * d[k];
    }
  }

  const float* input_;
  const float* rois_;
  float* result_;
  RoiAlign s_;
};

template <typename T>
struct Box {
  T top, left, bottom, right, area;

  explicit Box(const T* corners)
      : top(std::min(corners[0], corners[2])),
        left(std::min(corners[1], corners[3])),
        bottom(std::max(corners[0], corners[2])),
        right(std::max(corners[1], corners[3])),
        area((bottom - top) * (right - left)) {}

  /// Intersection over union; 0 when the union is.
  T overlap(const Box& other) const {
    const T height = std::min(bottom, other.bottom) - std::max(top, other.top);
    const T width = std::min(right, other.right) - std::max(left, other.left);
    const T common = std::max(height, T{0}) * std::max(width, T{0});
    const T whole = area + other.area - common;
    return whole == 0 ? T{0} : common / whole;
  }
};

/// The boxes of one class that stay. Returns how many.
template <typename T>
std::int64_t keep(const T* boxes, const T* scores, T iou_threshold, T score_threshold,
                  std::int64_t count, std::int64_t most, std::int64_t* kept) {
  std::fill_n(kept, count, -1);
  if (most <= 0) return 0;
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < count; ++i)
    if (scores[i] > score_threshold) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return scores[a] > scores[b]; });
  std::vector<Box<T>> chosen;
  for (const std::int64_t i : order) {
    const Box<T> box(boxes + 4 * i);
    if (std::any_of(chosen.begin(), chosen.end(),
                    [&](const Box<T>& better) { return better.overlap(box) > iou_threshold; }))
      continue;
    kept[chosen.size()] = i;
    chosen.push_back(box);
    if (static_cast<std::int64_t>(chosen.size()) >= most) break;
  }
  return static_cast<std::int64_t>(chosen.size());
}

template <typename T>
std::int64_t suppress_all(const T* boxes, const T* scores, T iou_threshold, T score_threshold,
                          const Suppression& s, std::int64_t* kept, int threads) {
  std::atomic<std::int64_t> total = 0;
  parallel_for(s.batch * s.classes, std::max<std::int64_t>(1, kGrain / s.boxes), threads,
               [&](std::int64_t begin, std::int64_t end, std::int64_t) {
                 for (std::int64_t line = begin; line < end; ++line)
                   total +=
                       keep(boxes + line / s.classes * s.boxes * 4, scores + line * s.boxes,
                            iou_threshold, score_threshold, s.boxes, s.most, kept + line * s.boxes);
               });
  return total;
}

}  // namespace

void roi_align(const float* input, const float* rois, float* result, const RoiAlign& sizes,
               int threads, const std::function<void(std::int64_t)>& refuse) {
  if (sizes.rois <= 0) return;
  const Aligner aligner(input, rois, result, sizes);
  const std::int64_t work = sizes.result_height * sizes.result_width * sizes.channels * 16;
  parallel_for(sizes.rois, std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(work, 1)),
               threads, [&](std::int64_t begin, std::int64_t end, std::int64_t) {
                 for (std::int64_t roi = begin; roi < end; ++roi) aligner.run(roi, refuse);
               });
}

std::int64_t suppress(DType dtype, const void* boxes, const void* scores, const void* iou_threshold,
                      const void* score_threshold, const Suppression& sizes, std::int64_t* kept,
                      int threads) {
  if (sizes.batch <= 0 || sizes.classes <= 0 || sizes.boxes <= 0) return 0;
  const auto run = [&]<typename T>(T) {
    return suppress_all(static_cast<const T*>(boxes), static_cast<const T*>(scores),
                        *static_cast<const T*>(iou_threshold),
                        *static_cast<const T*>(score_threshold), sizes, kept, threads);
  };
  return dtype == DType::float64 ? run(double{}) : run(float{});
}

void kept_rows(const std::int64_t* kept, const Suppression& s, std::int64_t* rows) {
  for (std::int64_t line = 0; line < s.batch * s.classes; ++line)
    for (std::int64_t k = 0; k < s.boxes; ++k) {
      const std::int64_t box = kept[line * s.boxes + k];
      if (box < 0) break;
      *rows++ = line / s.classes;
      *rows++ = line % s.classes;
      *rows++ = box;
    }
}

}  // namespace kiln::runtime
