#pragma once

// Front header of the graph layer: describe a computation before any data exists.

#include "kiln/graph/dim.h"
#include "kiln/graph/graph.h"
#include "kiln/graph/layout.h"
#include "kiln/graph/location.h"
#include "kiln/graph/module.h"
#include "kiln/graph/ops.h"
#include "kiln/graph/quantization.h"
#include "kiln/graph/sharding.h"
#include "kiln/graph/slice_index.h"
#include "kiln/graph/type.h"
#include "kiln/graph/value.h"
#include "kiln/graph/weight.h"
#include "kiln/support/warning.h"
