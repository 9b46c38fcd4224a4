#pragma once

// Device contexts: streams, buffers, kernels and graphs on one device.

#include "kiln/gpu/attributes.h"
#include "kiln/gpu/device.h"
#include "kiln/gpu/device_buffer.h"
#include "kiln/gpu/device_context.h"
#include "kiln/gpu/device_function.h"
#include "kiln/gpu/device_graph.h"
#include "kiln/gpu/device_info.h"
#include "kiln/gpu/device_stream.h"
#include "kiln/gpu/dim.h"
#include "kiln/gpu/kernel.h"
#include "kiln/gpu/options.h"
