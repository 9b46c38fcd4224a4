#pragma once

// Front header of the layer of tensors: arrays that compute at once, functions over them, and their
// layouts over devices.

#include "kiln/experimental/compilation.h"
#include "kiln/experimental/defaults.h"
#include "kiln/experimental/device_mapping.h"
#include "kiln/experimental/device_mesh.h"
#include "kiln/experimental/erased_callable.h"
#include "kiln/experimental/executor.h"
#include "kiln/experimental/functional.h"
#include "kiln/experimental/module.h"
#include "kiln/experimental/placement.h"
#include "kiln/experimental/random.h"
#include "kiln/experimental/redistribution.h"
#include "kiln/experimental/subgraph.h"
#include "kiln/experimental/tensor.h"
#include "kiln/experimental/tensor_layout.h"
#include "kiln/experimental/tree.h"
#include "kiln/experimental/tree_value.h"
