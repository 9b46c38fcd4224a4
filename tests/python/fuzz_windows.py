"""Steps of random graphs that read windows: convolutions and pooling."""

from __future__ import annotations

import numpy as np
from convolving import convolved, pooled, pooled_size
from running import numpy_type

from kiln.dtype import DType
from kiln.graph import DeviceRef, ops


class Windows:
    """The part of the fuzzer that makes such steps; see Fuzzer for its members."""

    def image(self):
        """A fact of rank 4 whose height and width are numbers, a window and how it moves."""
        i = self.pick(lambda f: f.dtype in ("float32", "float64", "float16", "int32", "int64") and len(f.dims) == 4
                      and all(isinstance(d, int) for d in f.dims[1:3]))
        if i is None:
            return None
        size, stride, dilation = (tuple(int(k) for k in self.rng.choice([1, 1, 2, 3], 2)) for _ in range(3))
        padding = tuple(int(k) for k in self.rng.choice([0, 0, 1, 2], 4))
        return i, size, stride, dilation, padding

    def pooling(self):
        made = self.image()
        if made is None:
            return None
        i, size, stride, dilation, (top, _, left, _) = made
        x, ceil_mode = self.facts[i], bool(self.rng.integers(2))
        places = size, stride, dilation, (top, left), ceil_mode
        counts = [pooled_size(x.dims[1 + k], *(p[k] for p in places[:4]), ceil_mode) for k in range(2)]
        if min(counts) < 0:
            return None
        dims = (x.dims[0], *counts, x.dims[3])
        if x.is_float and self.rng.integers(2):
            exact, error = pooled(x.exact, *places), pooled(x.error, *places)
            error = error + size[0] * size[1] * self.computing_unit(x.dtype) * pooled(np.abs(x.exact), *places)
            return (f"avg_pool2d{places}", lambda x: ops.avg_pool2d(x, *places), (i,),
                    self.result(x.dtype, dims, exact, error))
        lowest = -np.inf if x.is_float else np.iinfo(x.dtype).min
        exact, error = pooled(x.exact, *places, lowest=lowest), pooled(x.error, *places, lowest=0)
        return (f"max_pool2d{places}", lambda x: ops.max_pool2d(x, *places), (i,),
                self.result(x.dtype, dims, exact, error))

    def convolving(self):
        made = self.image()
        if made is None or not isinstance(self.facts[made[0]].dims[3], int):
            return None
        i, size, stride, dilation, padding = made
        x = self.facts[i]
        channels = x.dims[3]
        groups = int(self.rng.choice([g for g in (1, 1, 2, 4, channels) if g and channels % g == 0]))
        columns = groups * int(self.rng.choice([1, 1, 2, 5, 17]))
        spans = [x.dims[1 + k] + sum(padding[2 * k : 2 * k + 2]) - dilation[k] * (size[k] - 1) for k in range(2)]
        counts = [(span - 1) // step + 1 for span, step in zip(spans, stride)]
        if min(counts) < 1:
            return None
        w = self.rng.integers(-3, 4, (*size, channels // groups, columns)).astype(numpy_type(x.dtype))
        places = stride, dilation, padding, groups
        wide = w.astype(np.float64) if x.is_float else w
        exact = convolved(x.exact, wide, *places)
        error = convolved(x.error, np.abs(w).astype(np.float64), *places)
        terms = size[0] * size[1] * max(channels, 1)
        error = error + terms * self.computing_unit(x.dtype) * convolved(
            np.abs(x.exact).astype(np.float64), np.abs(w).astype(np.float64), *places)
        dtype = getattr(DType, x.dtype)

        def op(x):
            return ops.conv2d(x, ops.constant(w, dtype, DeviceRef.CPU()), *places)

        return (f"conv2d{w.shape}{places}", op, (i,),
                self.result(x.dtype, (x.dims[0], *counts, columns), exact, error))
