"""Steps of random graphs that sum along an axis, combine at indices, or have sizes that the data decides."""

from __future__ import annotations

import numpy as np
from fuzz_program import Fact

from kiln.dtype import DType
from kiln.graph import DeviceRef, ops

CPU = DeviceRef.CPU()
COMBINERS = {"add": np.add, "max": np.maximum, "min": np.minimum}


class Scatters:
    """The part of the fuzzer that makes such steps; see Fuzzer for its members."""

    def summing(self):
        """Running sums, forward or backward."""
        i = self.pick(lambda f: f.dtype != "bool" and len(f.dims) > 0)
        if i is None:
            return None
        x = self.facts[i]
        axis = int(self.rng.integers(len(x.dims)))
        exclusive, reverse = (bool(b) for b in self.rng.integers(0, 2, 2))

        def sums(a):
            ordered = np.flip(a, axis) if reverse else a
            total = np.cumsum(ordered, axis, dtype=a.dtype)
            total = total - ordered if exclusive else total
            return np.flip(total, axis) if reverse else total

        spread = (x.exact.shape[axis] + 2) * self.computing_unit(x.dtype) * np.cumsum(np.abs(x.exact), axis).max(
            axis, initial=0, keepdims=True)
        return (f"cumsum{axis}[{exclusive}, {reverse}]", lambda x: ops.cumsum(x, axis, exclusive, reverse), (i,),
                self.result(x.dtype, x.dims, sums(x.exact), x.error.sum(axis, keepdims=True) + spread))

    def combining(self):
        """Some rows of a value combined with others of it, at indices that may be equal."""
        i = self.pick(lambda f: f.dtype != "bool" and len(f.dims) > 0 and isinstance(f.dims[0], int) and f.dims[0] > 0)
        if i is None:
            return None
        x, name = self.facts[i], str(self.rng.choice(list(COMBINERS)))
        n, count = x.dims[0], int(self.rng.integers(1, 5))
        rows, to = self.rng.integers(0, n, count), self.rng.integers(-n, n, count)
        exact, error = x.exact.copy(), np.array(x.error)
        for row, target in zip(rows, to):
            exact[target] = COMBINERS[name](exact[target], x.exact[row])
            combined = error[target] + x.error[row] if name == "add" else np.maximum(error[target], x.error[row])
            error[target] = combined + 4 * self.computing_unit(x.dtype) * np.abs(exact[target])

        def build(x):
            updates = ops.gather(x, ops.constant(rows.tolist(), DType.int64, CPU), 0)
            return getattr(ops, f"scatter_nd_{name}")(x, updates, ops.constant(to[:, None].tolist(), DType.int64, CPU))

        text = f"scatter_nd_{name}{rows.tolist()}->{to.tolist()}"
        return text, build, (i,), self.result(x.dtype, x.dims, exact, error)

    def new_size(self, count: int) -> str:
        name = f"s{len(self.symbols)}"
        self.symbols[name] = count
        return name

    def finding(self):
        """Where a value without rounding errors is not 0. A callee could not return the size."""
        i = self.pick(lambda f: not f.is_float and len(f.dims) > 0)
        if i is None or self.calls:
            return None
        where = np.argwhere(self.facts[i].exact)
        size = self.new_size(len(where))
        fact = Fact("int64", (size, where.shape[1]), where, np.zeros(where.shape))
        return f"nonzero[{size}]", lambda x: ops.nonzero(x, size), (i,), fact

    def repeating(self):
        """Each element of an axis as often as a tensor says."""
        i = self.pick(lambda f: len(f.dims) > 0)
        if i is None or self.calls:
            return None
        x = self.facts[i]
        axis = int(self.rng.integers(len(x.dims)))
        if not isinstance(x.dims[axis], int) or x.dims[axis] == 0:
            return None
        counts = self.rng.integers(0, 3, x.dims[axis])
        size = self.new_size(int(counts.sum()))
        dims = x.dims[:axis] + (size,) + x.dims[axis + 1 :]
        repeats = counts.tolist()
        return (f"repeat{axis}{repeats}",
                lambda x: ops.repeat_interleave(x, ops.constant(repeats, DType.int64, CPU), axis, size), (i,),
                Fact(x.dtype, dims, np.repeat(x.exact, counts, axis), np.repeat(x.error, counts, axis)))
