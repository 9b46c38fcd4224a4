#pragma once

#include <cstddef>
#include <cstdint>

namespace kiln::emulator {

/// Copies bytes that may lie anywhere: false when some cannot be read or written, with a part
/// copied. Needs the handler that install_fault_handler sets.
bool guarded_copy(void* to, const void* from, std::size_t bytes);

/// Copies 4 or 8 aligned bytes in one piece: other threads see all of them or none.
bool guarded_copy_word(void* to, const void* from, std::uint32_t bytes);

/// Sets `count` elements of 1, 2 or 4 bytes.
bool guarded_fill(void* to, std::uint32_t value, std::uint32_t element_bytes, std::size_t count);

/// The text at `text` up to its zero byte, looked for in at most `limit` bytes; the length, or -1
/// when memory ends before or the limit is reached.
std::ptrdiff_t guarded_length(const char* text, std::size_t limit);

/// Catches faults of guarded copies, and tells about addresses of device memory that the host
/// touches, before the handler that was there. May be called again.
void install_fault_handler();

/// While a range of pages is replaced by the same bytes elsewhere, faults of other threads in it
/// wait; one range at a time.
void begin_replacing(std::uint64_t first, std::uint64_t bytes);
void end_replacing();

}  // namespace kiln::emulator
