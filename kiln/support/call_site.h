#pragma once

#include <string>

namespace kiln {

/// Says where the user's program is on the calling thread, such as "train.py:12"; empty when it
/// does not know. Must not throw.
using CallSiteProvider = std::string (*)();
/// A language binding says where its own frames are.
void set_call_site_provider(CallSiteProvider provider);

/// Where the user's program calls kiln from: what the provider says, else the innermost native
/// frame outside of kiln's libraries. Slow; for checks.
std::string call_site();

}  // namespace kiln
