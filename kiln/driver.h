#pragma once

// The driver: devices, the queues that order their work, and the buffers that hold their memory.

#include "kiln/driver/buffer.h"
#include "kiln/driver/completion_flag.h"
#include "kiln/driver/device.h"
#include "kiln/driver/dlpack.h"
#include "kiln/driver/event.h"
#include "kiln/driver/host_hazard.h"
#include "kiln/driver/launch_trace.h"
#include "kiln/driver/queue.h"
#include "kiln/driver/symmetric_pool.h"
#include "kiln/driver/trace.h"
#include "kiln/driver/usage.h"
#include "kiln/driver/virtual_device.h"
#include "kiln/dtype.h"
#include "kiln/support/error.h"
