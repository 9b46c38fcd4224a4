#pragma once

// Everything that can be done with the values of a graph.

#include "kiln/graph/ops/boxes.h"
#include "kiln/graph/ops/buffer.h"
#include "kiln/graph/ops/collectives.h"
#include "kiln/graph/ops/complex.h"
#include "kiln/graph/ops/constant.h"
#include "kiln/graph/ops/control_flow.h"
#include "kiln/graph/ops/convolution.h"
#include "kiln/graph/ops/elementwise.h"
#include "kiln/graph/ops/fft.h"
#include "kiln/graph/ops/fold.h"
#include "kiln/graph/ops/linalg.h"
#include "kiln/graph/ops/movement.h"
#include "kiln/graph/ops/norm.h"
#include "kiln/graph/ops/print.h"
#include "kiln/graph/ops/quantized.h"
#include "kiln/graph/ops/random.h"
#include "kiln/graph/ops/reduction.h"
#include "kiln/graph/ops/resize.h"
#include "kiln/graph/ops/shape.h"
#include "kiln/graph/ops/transfer.h"
