#pragma once

#include "kiln/engine/inference_session.h"

namespace kiln::experimental {

/// The session of eager tensors and of callables that are given none: one for the process, on the
/// CPU and all accelerators.
const engine::InferenceSession& default_session();

}  // namespace kiln::experimental
