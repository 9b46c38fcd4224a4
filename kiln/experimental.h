#pragma once

// Front header of the layer of tensors: layouts over devices and what is compiled from functions.

#include "kiln/experimental/device_mapping.h"
#include "kiln/experimental/device_mesh.h"
#include "kiln/experimental/placement.h"
#include "kiln/experimental/tensor_layout.h"
