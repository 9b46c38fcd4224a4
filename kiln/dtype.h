#pragma once

// Element types: what they are called, how wide they are, and how their values convert.

#include "kiln/dtype/dtype.h"
#include "kiln/dtype/element.h"
#include "kiln/dtype/finfo.h"
#include "kiln/dtype/float_formats.h"
#include "kiln/dtype/scalar.h"
#include "kiln/dtype/shape.h"
