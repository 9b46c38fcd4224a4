#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/execute/grid.h"
#include "emulator/program/program.h"

namespace kiln::emulator::test {

/// A device without a driver: a view made with mmap, whose memory is handed out from the front and
/// never comes back.
class Machine {
 public:
  static Machine& instance();

  std::uint64_t allocate(std::uint64_t bytes);
  std::byte* at(std::uint64_t address) const { return view_.base + address; }
  template <typename T>
  T* array(std::uint64_t address) const {
    return reinterpret_cast<T*>(at(address));
  }
  template <typename T>
  std::uint64_t upload(const std::vector<T>& values) {
    const std::uint64_t address = allocate(values.size() * sizeof(T) + 1);
    std::memcpy(at(address), values.data(), values.size() * sizeof(T));
    return address;
  }
  template <typename T>
  std::vector<T> download(std::uint64_t address, std::size_t count) const {
    const T* first = array<T>(address);
    return std::vector<T>(first, first + count);
  }
  const DeviceView& view() const { return view_; }
  /// From now on there is a byte for every 8 of the window, as the driver makes it for the check of
  /// memory: all of it may be touched but for what `limit` marks.
  void keep_bounds();
  /// Of the 8 bytes at an address, only the first `bytes` may be touched.
  void limit(std::uint64_t address, std::uint8_t bytes);
  /// The same for the check of what was written; nothing is, before `upload`ed bytes are marked.
  void keep_written();
  void mark_written(std::uint64_t address, std::uint64_t bytes);
  /// An address within the window where nothing is mapped.
  std::uint64_t unmapped() const { return view_.last - (1 << 20); }

 private:
  Machine();
  DeviceView view_;
  std::uint64_t next_ = 0;
};

struct Result {
  std::optional<Fault> fault;
  std::string printed;
  std::string waiting;  // of the first block that could not go on
};

/// Runs a kernel of a program to its end, its blocks in turn; gives up when no block gets further.
Result launch(const std::shared_ptr<const Program>& program, std::string_view kernel, Dim3 grid,
              Dim3 block, const std::vector<std::uint64_t>& arguments,
              std::uint32_t dynamic_shared = 0, bool cooperative = false);

/// The head of a text of PTX.
std::string ptx(std::string_view body);

/// Runs instructions on lists of operands, element by element. `registers` says the type of
/// operands and result, such as "f32" or "b16"; inputs are %a, %b, %c, the result is %d, and %p is
/// a predicate. Each list holds bits.
struct Operation {
  std::string instructions;
  std::string result;                 // type of %d
  std::vector<std::string> operands;  // types of %a, %b, %c
};
std::vector<std::uint64_t> apply(const Operation& operation,
                                 const std::vector<std::vector<std::uint64_t>>& inputs);

inline std::uint64_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }
inline std::uint64_t bits(double value) { return std::bit_cast<std::uint64_t>(value); }

/// Numbers that find mistakes: bounds, zeros, and pseudo-random ones of a fixed seed.
std::vector<std::uint64_t> interesting_integers(unsigned width, std::size_t count,
                                                std::uint64_t seed);
/// Bits of floats and doubles of all kinds, NaN and infinities with `special`.
std::vector<std::uint64_t> interesting_reals(unsigned width, std::size_t count, std::uint64_t seed,
                                             bool special);

}  // namespace kiln::emulator::test
