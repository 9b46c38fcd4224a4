#pragma once

// Everything of the weights layer.

#include "kiln/weights/safetensors.h"
