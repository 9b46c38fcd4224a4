#pragma once

// Which sanitizer this code is built with, and marks for AddressSanitizer about memory that kiln
// manages itself. Without a sanitizer all of it is nothing.

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define KILN_ADDRESS_SANITIZER 1
#elif defined(__SANITIZE_THREAD__)
#define KILN_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KILN_ADDRESS_SANITIZER 1
#elif __has_feature(thread_sanitizer)
#define KILN_THREAD_SANITIZER 1
#endif
#endif

#ifdef KILN_ADDRESS_SANITIZER
extern "C" void __asan_poison_memory_region(const volatile void* memory, std::size_t bytes);
extern "C" void __asan_unpoison_memory_region(const volatile void* memory, std::size_t bytes);
#endif

namespace kiln {

#ifdef KILN_ADDRESS_SANITIZER
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif

#ifdef KILN_THREAD_SANITIZER
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif

/// What the symbols begin with that code with the checks of this build's sanitizer refers to; empty
/// without a sanitizer.
inline constexpr const char* kSanitizerPrefix = kAddressSanitizer  ? "__asan_"
                                                : kThreadSanitizer ? "__tsan_"
                                                                   : "";

/// Nobody may touch these bytes until they are unpoisoned: an access is reported.
inline void poison([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t bytes) {
#ifdef KILN_ADDRESS_SANITIZER
  __asan_poison_memory_region(memory, bytes);
#endif
}

/// Takes `poison` back.
inline void unpoison([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t bytes) {
#ifdef KILN_ADDRESS_SANITIZER
  __asan_unpoison_memory_region(memory, bytes);
#endif
}

}  // namespace kiln
