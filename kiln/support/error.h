#pragma once

#include <stdexcept>
#include <string>

namespace kiln {

/// Base of every exception kiln throws; never thrown itself. The message is made of full sentences:
/// what was asked, what was found, what to do. `add_note` appends a line on the way up.
class Error : public std::runtime_error {
 public:
  explicit Error(std::string message);
  /// The message, and behind it the native stack of the throw when the debug setting
  /// `stack-trace-on-error` is on.
  const char* what() const noexcept override {
    return text_.empty() ? message_.c_str() : text_.c_str();
  }
  const std::string& message() const noexcept { return message_; }
  /// Appends `note` as a line of its own, such as "While compiling graph 'encoder'.".
  void add_note(const std::string& note) { set_message(message_ + "\n" + note); }
  /// Replaces the message, for errors that are quoted inside a larger sentence.
  void set_message(std::string message);

 private:
  std::string message_;
  std::string stack_;  // empty: not recorded
  std::string text_;   // both together; empty without a stack
};

/// A value outside its domain, mismatching sizes, out of memory, a device that cannot be opened.
class ValueError : public Error {
 public:
  using Error::Error;
};
/// A wrong kind of argument.
class TypeError : public Error {
 public:
  using Error::Error;
};
/// An unknown name; base of IndexError and KeyError.
class LookupError : public Error {
 public:
  using Error::Error;
};
/// An integer index outside an axis.
class IndexError : public LookupError {
 public:
  using LookupError::LookupError;
};
/// An unknown key.
class KeyError : public LookupError {
 public:
  using LookupError::LookupError;
};
/// A DLPack exchange that cannot be honoured as asked.
class BufferError : public Error {
 public:
  using Error::Error;
};
/// A file that is not there.
class FileNotFoundError : public Error {
 public:
  using Error::Error;
};
/// Division of a dim by zero.
class ZeroDivisionError : public Error {
 public:
  using Error::Error;
};
/// A failing system or driver call, or the failure of work that was enqueued earlier.
class RuntimeError : public Error {
 public:
  using Error::Error;
};
/// The backend has no such operation.
class NotImplementedError : public RuntimeError {
 public:
  using RuntimeError::RuntimeError;
};
/// A broken invariant of kiln itself; the text asks for a report.
class InternalError : public RuntimeError {
 public:
  using RuntimeError::RuntimeError;
};

/// Throws InternalError that names the broken condition and its place.
[[noreturn]] void throw_internal_error(const char* condition, const char* file, int line,
                                       const std::string& detail);

}  // namespace kiln

/// Checks an internal invariant; a macro because it quotes the condition and its place.
#define KILN_CHECK(condition, detail)                                         \
  do {                                                                        \
    if (!(condition)) [[unlikely]]                                            \
      ::kiln::throw_internal_error(#condition, __FILE__, __LINE__, (detail)); \
  } while (false)
