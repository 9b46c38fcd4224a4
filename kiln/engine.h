#pragma once

// Everything of the engine layer.

#include "kiln/engine/compiled_model.h"
#include "kiln/engine/debug_config.h"
#include "kiln/engine/inference_session.h"
#include "kiln/engine/mef_info.h"
#include "kiln/engine/model.h"
#include "kiln/engine/tensor_spec.h"
#include "kiln/engine/weights_registry.h"
