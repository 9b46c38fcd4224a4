#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "kiln/support/error.h"

namespace kiln {

/// Text that is not the JSON that was expected. The message is a clause that names the byte.
class JsonError : public ValueError {
 public:
  using ValueError::ValueError;
};

/// Reads JSON from left to right without building a tree, for the headers of files that may be
/// damaged or hostile: memory is spent only on what the caller keeps, nesting is limited, and text
/// must be UTF-8. The text must outlive the reader. Every member throws JsonError.
///
///     JsonReader reader(text);
///     std::string key;
///     for (reader.begin_object(); reader.next_key(key);) {
///       if (key == "name") name = reader.string();
///       else reader.skip();
///     }
///     reader.finish();
class JsonReader {
 public:
  enum class Kind { object, array, string, number, boolean, null };

  /// A key or string that is read and has more than `longest` bytes fails; skipped ones may.
  explicit JsonReader(std::string_view text,
                      std::size_t longest = std::numeric_limits<std::size_t>::max())
      : text_(text), longest_(longest) {}

  /// The kind of the next value.
  Kind peek();

  void begin_object();
  /// Reads the next key of the innermost object; false when it ends, which leaves it. The value of
  /// each key must be read or skipped.
  bool next_key(std::string& key);
  void begin_array();
  /// Whether the innermost array has another element; false leaves it.
  bool next_element();

  std::string string();
  std::int64_t integer();
  std::uint64_t unsigned_integer();
  bool boolean();
  void null();
  /// Steps over the next value, whatever it is.
  void skip();
  /// The number of elements of the array that comes next, which is not left.
  std::size_t count_elements();
  /// Checks that nothing but white space follows.
  void finish();

  /// Throws JsonError about the present place.
  [[noreturn]] void fail(std::string_view what) const;
  std::size_t position() const { return position_; }

 private:
  static constexpr int kMaxDepth = 128;

  void skip_space();
  void expect(char c);
  bool separator(char closing);
  void enter();
  std::string_view number();
  std::uint32_t hex4();
  template <typename Sink>
  void scan_string(Sink&& sink);

  std::string_view text_;
  std::size_t longest_;
  std::size_t position_ = 0;
  int depth_ = 0;
  bool first_ = false;  // nothing was read yet in the innermost object or array
};

}  // namespace kiln
