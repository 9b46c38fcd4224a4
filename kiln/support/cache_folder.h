#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace kiln {

/// The folder for what may be made anew at any time: KILN_CACHE_DIR, else `kiln` in
/// $XDG_CACHE_HOME or ~/.cache; made if need be. Empty when KILN_CACHE=0, when there is none, or
/// when others could write to it and so make this process run their code.
std::string cache_folder();

/// Removes the files with this extension that were not used for longest until the rest fits the
/// budget in bytes, and what a process that died has left half written.
void sweep_cache(const std::string& folder, std::string_view extension, std::uint64_t budget);

}  // namespace kiln
