"""Random graphs with what each of their values must be.

Every value is kept as float64 (exact integers and bools included) together with a bound on the error that an
implementation may have made so far, so that a comparison at the end is fair without knowing how it fused."""

from __future__ import annotations

import math

import numpy as np
from fuzz_program import FLOATS, Fact, Program, Step, rounding
from fuzz_regions import Regions
from fuzz_scatter import Scatters
from fuzz_windows import Windows
from running import numpy_type, unit

from kiln.dtype import DType
from kiln.graph import BufferType, DeviceRef, Weight, ops

CPU = DeviceRef.CPU()
DIMS = {"a": (0, 1, 2, 5), "b": (1, 3, 4)}


class Fuzzer(Regions, Windows, Scatters):
    """Grows one random program and evaluates it op by op."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        size = 2 + int(self.rng.integers(0, 39, 2).min())  # small ones more often: they say more in a second
        self.symbols = {name: int(self.rng.choice(sizes)) for name, sizes in DIMS.items()}
        self.program = Program()
        self.facts: list[Fact] = []
        self.arrays: list[np.ndarray] = []
        self.memory: list[np.ndarray] = []  # what the buffers hold before the program runs
        self.state: list[Fact] = []  # and after the steps so far, those that steps create too
        self.depth = 0  # of regions around the next step
        for _ in range(int(self.rng.integers(1, 4))):
            self.add_input()
        for _ in range(int(self.rng.choice([0, 0, 1, 2]))):
            self.add_buffer()
        for _ in range(size):
            self.add_step()
        self.choose_outputs()

    # Shapes

    def size(self, dims) -> tuple[int, ...]:
        return tuple(self.symbols.get(d, d) for d in dims)

    def random_dims(self) -> tuple:
        rank = int(self.rng.choice([0, 1, 2, 2, 3, 4]))
        choices = ["a", "b", 1, 2, 3, 4, 8, 17, 0]
        weights = np.array([4, 4, 2, 3, 3, 3, 2, 2, 0.3])
        picked = self.rng.choice(len(choices), rank, p=weights / weights.sum())
        return tuple(choices[i] for i in picked)

    # Growing

    def add_input(self) -> None:
        dims, dtype, array, fact = self.random_array()
        self.program.inputs.append((dtype, dims))
        self.arrays.append(array)
        self.facts.append(fact)

    def add_buffer(self) -> None:
        dims, dtype, array, fact = self.random_array()
        self.program.buffers.append((dtype, dims))
        self.memory.append(array)
        self.state.append(fact)

    def random_array(self, dims=None):
        dims = self.random_dims() if dims is None else dims
        dtype = str(self.rng.choice(["float32"] * 6 + ["float64", "float16", "bfloat16", "int32", "int64", "bool"]))
        shape, kind = self.size(dims), numpy_type(dtype)
        if dtype == "bool":
            array = self.rng.integers(0, 2, shape).astype(bool)
        elif dtype in FLOATS:
            array = self.rng.standard_normal(shape).astype(kind)
        else:
            array = self.rng.integers(-9, 10, shape).astype(kind)
        array = np.asarray(array, kind)
        wide = array.astype(np.float64) if dtype in FLOATS else array
        return dims, dtype, array, Fact(dtype, dims, np.asarray(wide), np.zeros(shape))

    def add_step(self) -> None:
        for _ in range(50):
            maker = self.rng.choice([
                *[self.unary, self.movement] * 2, *[self.binary] * 3, self.reduction, self.product, self.choice,
                self.pooling, self.convolving, self.conversion, self.joining, self.normalising, self.attention,
                self.loading, self.storing, self.storing_part, self.naming, self.weighing, self.creating,
                self.indexing, self.multiplying, self.branching, self.looping, self.calling,
                self.summing, self.combining, self.finding, self.repeating])
            with np.errstate(all="ignore"):
                made = maker()
            if made is None:
                continue
            text, op, operands, facts, *after = made
            facts = facts if isinstance(facts, list) else [facts]
            if not all(self.acceptable(fact) for fact in facts):
                continue
            for fact in facts:
                assert fact.exact.shape == self.size(fact.dims), (text, fact.exact.shape, fact.dims)
            self.program.steps.append(Step(text, op, operands, len(facts)))
            self.facts += facts
            for change in after:
                change()
            return

    def acceptable(self, fact: Fact) -> bool:
        """Whether the value is of a size that every implementation can hold without overflow."""
        if fact.exact.size > 200_000 or not np.all(np.isfinite(fact.exact)) or not np.all(np.isfinite(fact.error)):
            return False
        limit = {"float16": 1e4, "int32": 2**30}.get(fact.dtype, 1e15)
        return fact.exact.size == 0 or np.abs(fact.exact.astype(np.float64)).max() <= limit

    def choose_outputs(self) -> None:
        used = {i for step in self.program.steps for i in step.operands}
        count = len(self.facts)
        ends = [i for i in range(count) if i not in used]
        extra = [int(i) for i in self.rng.integers(0, count, int(self.rng.integers(0, 3)))]
        self.program.outputs = list(dict.fromkeys([*ends, *extra]))

    def pick(self, condition=lambda fact: True) -> int | None:
        # Later values more often, so that graphs are deep, but shared ones too.
        found = [i for i, fact in enumerate(self.facts) if condition(fact)]
        if not found:
            return None
        return found[-1] if self.rng.random() < 0.4 else int(self.rng.choice(found))

    @staticmethod
    def computing_unit(dtype: str) -> float:
        """The unit of the type in which floats of the dtype are added up."""
        return unit("float64" if dtype == "float64" else "float32")

    def result(self, dtype, dims, exact, error) -> Fact:
        exact = np.asarray(exact)
        if dtype in FLOATS:
            computed = "float32" if dtype != "float64" else dtype
            error = np.broadcast_to(error, exact.shape) + 4 * rounding(computed, exact)
            if dtype in ("float16", "bfloat16"):
                error = error + rounding(dtype, np.abs(exact) + error)
            return Fact(dtype, dims, exact.astype(np.float64), error)
        return Fact(dtype, dims, exact, np.zeros(exact.shape))

    # Makers: each gives (text, op, operands, fact), and what to do when it is taken, or None when nothing fits.

    def unary(self):
        i = self.pick(lambda f: f.is_float)
        if i is None:
            return None
        x = self.facts[i]
        v, e = x.exact, x.error
        # name: value, error of the result for an error of the argument
        table = {
            "negate": (-v, e), "abs": (np.abs(v), e), "relu": (np.maximum(v, 0), e), "tanh": (np.tanh(v), e),
            "sigmoid": (1 / (1 + np.exp(-v)), e), "sin": (np.sin(v), e), "cos": (np.cos(v), e),
            "erf": (np.vectorize(math.erf, otypes=[float])(v), 1.2 * e), "exp": (np.exp(v), np.exp(v + e) * e),
            "silu": (v / (1 + np.exp(-v)), 1.2 * e),
            # (1 + tanh u) / 2 = 1 / (1 + exp(-2 u)), which keeps its digits where tanh u is close to -1.
            "gelu_tanh": (v / (1 + np.exp(-1.5957691216057308 * (v + 0.044715 * v**3))), 1.3 * e + 1e-6 * np.abs(v)),
        }
        name = str(self.rng.choice(list(table)))
        exact, error = table[name]
        if name == "exp" and v.size and v.max() > 8:
            return None
        if name in ("sin", "cos") and v.size and np.abs(v).max() > 1e4:
            return None
        op = (lambda x: ops.gelu(x, "tanh")) if name == "gelu_tanh" else getattr(ops, name)
        return name, op, (i,), self.result(x.dtype, x.dims, exact, error)

    def broadcast_dims(self, a, b):
        rank = max(len(a), len(b))
        a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
        dims = []
        for m, n in zip(a, b):
            if m != n and 1 not in (m, n):
                return None
            dims.append(n if m == 1 else m)
        return tuple(dims)

    def binary(self):
        i = self.pick(lambda f: f.dtype != "bool")
        if i is None:
            return None
        x = self.facts[i]
        j = self.pick(lambda f: f.dtype == x.dtype and self.broadcast_dims(x.dims, f.dims) is not None)
        y = self.facts[j]
        dims = self.broadcast_dims(x.dims, y.dims)
        a, b = x.exact, y.exact
        ea, eb = x.error, y.error
        name = str(self.rng.choice(["add", "sub", "mul", "max", "min", "greater", "equal", "div"]))
        if name in ("greater", "equal"):
            # Only where rounding cannot turn the answer.
            if x.is_float and np.any(np.abs(a - b) <= 2 * (ea + eb)):
                return None
            exact = a > b if name == "greater" else a == b
            return name, getattr(ops, name), (i, j), self.result("bool", dims, exact, 0)
        if name == "div":
            if not x.is_float or np.any(np.abs(b) < 0.1) or np.any(eb > 0.01):
                return None
            exact = a / b
            error = (ea + np.abs(exact) * eb) / (np.abs(b) - eb)
            return name, ops.div, (i, j), self.result(x.dtype, dims, exact, error)
        function = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[name]
        error = np.abs(a) * eb + np.abs(b) * ea + ea * eb if name == "mul" else ea + eb
        # A sum may cancel: its operands are rounded once each by an implementation that keeps them.
        return name, getattr(ops, name), (i, j), self.result(x.dtype, dims, function(a, b), error)

    def naming(self):
        """A value with a dim of a new name, whose size the graph defines. A callee could not return it."""
        i = self.pick(lambda f: len(f.dims) > 0)
        if i is None or self.calls:
            return None
        x, name = self.facts[i], f"s{len(self.symbols)}"
        axis = int(self.rng.integers(len(x.dims)))
        self.symbols[name] = x.exact.shape[axis]
        dims = (*x.dims[:axis], name, *x.dims[axis + 1 :])
        return f"name axis {axis}", lambda x: ops.rebind(x, list(dims)), (i,), Fact(x.dtype, dims, x.exact, x.error)

    def reduction(self):
        i = self.pick(lambda f: f.dtype != "bool" and len(f.dims) > 0)
        if i is None:
            return None
        x = self.facts[i]
        axis = int(self.rng.integers(len(x.dims)))
        n = x.exact.shape[axis]
        name = str(self.rng.choice(["sum", "mean", "max", "min", "softmax"]))
        if name != "sum" and (n == 0 or not x.is_float):
            return None
        v, e = x.exact, x.error
        dims = x.dims[:axis] + (1,) + x.dims[axis + 1 :]
        eps = self.computing_unit(x.dtype)
        if name == "sum":
            made = v.sum(axis, keepdims=True), e.sum(axis, keepdims=True) + n * eps * np.abs(v).sum(axis, keepdims=True)
        elif name == "mean":
            spread = n * eps * np.abs(v).mean(axis, keepdims=True)
            made = v.mean(axis, keepdims=True), e.mean(axis, keepdims=True) + spread
        elif name == "softmax":
            p = np.exp(v - v.max(axis, keepdims=True))
            p = p / p.sum(axis, keepdims=True)
            spread = 2 * e.max(axis, keepdims=True)
            if spread.size and spread.max() > 0.1:
                return None
            return (f"softmax[{axis}]", lambda x: ops.softmax(x, axis), (i,),
                    self.result(x.dtype, x.dims, p, p * (np.expm1(2 * spread) + (n + 16) * eps * (
                        4 + np.abs(v).max(axis, keepdims=True)))))
        else:
            made = getattr(v, name)(axis, keepdims=True), e.max(axis, keepdims=True)
        op = getattr(ops, name)
        return f"{name}[{axis}]", lambda x: op(x, axis=axis), (i,), self.result(x.dtype, dims, *made)

    def movement(self):
        i = self.pick()
        x = self.facts[i]
        v, e, rank = x.exact, x.error, len(x.dims)
        kind = self.rng.choice(["permute", "unsqueeze", "slice", "flatten", "reverse", "pad", "broadcast"])

        def same(name, op, function, dims, exact=None, error=None):
            exact = function(v) if exact is None else exact
            error = function(e) if error is None else error
            return name, op, (i,), Fact(x.dtype, dims, np.asarray(exact), np.asarray(error))

        if kind == "permute" and rank > 1:
            order = [int(k) for k in self.rng.permutation(rank)]
            return same(f"permute{order}", lambda x: ops.permute(x, order), lambda a: np.transpose(a, order),
                        tuple(x.dims[k] for k in order))
        if kind == "unsqueeze" and rank < 4:
            axis = int(self.rng.integers(rank + 1))
            return same(f"unsqueeze[{axis}]", lambda x: ops.unsqueeze(x, axis), lambda a: np.expand_dims(a, axis),
                        x.dims[:axis] + (1,) + x.dims[axis:])
        if kind == "broadcast" and rank < 4:
            return same("broadcast[2]", lambda x: ops.broadcast_to(x, [2, *x.shape]),
                        lambda a: np.broadcast_to(a, (2, *a.shape)), (2, *x.dims))
        static = [k for k in range(rank) if isinstance(x.dims[k], int) and x.dims[k] > 0]
        if kind == "flatten" and rank > 1 and len(static) == rank:
            return same("flatten", ops.flatten, np.ravel, (math.prod(x.dims),))
        if not static:
            return None
        axis = int(self.rng.choice(static))
        n = x.dims[axis]
        if kind in ("slice", "reverse"):
            part = slice(None, None, -1)
            size = n
            if kind == "slice":
                start = int(self.rng.integers(n + 1))
                stop = int(self.rng.integers(start, n + 1))
                step = int(self.rng.integers(1, 3))
                part, size = slice(start, stop, step), -(-(stop - start) // step)
            key = (slice(None),) * axis + (part,)
            return same(f"slice{axis}[{part.start}:{part.stop}:{part.step}]", lambda x: x[key], lambda a: a[key],
                        x.dims[:axis] + (size,) + x.dims[axis + 1 :])
        if kind == "pad":
            before, after = (int(k) for k in self.rng.integers(0, 3, 2))
            pairs = [(before, after) if k == axis else (0, 0) for k in range(rank)]
            return same(f"pad{axis}[{before},{after}]", lambda x: ops.pad(x, [p for pair in pairs for p in pair]),
                        lambda a: np.pad(a, pairs), x.dims[:axis] + (n + before + after,) + x.dims[axis + 1 :])
        return None

    def product(self):
        i = self.pick(lambda f: f.dtype != "bool" and len(f.dims) >= 2)
        if i is None:
            return None
        x = self.facts[i]
        j = self.pick(lambda f: f.dtype == x.dtype and len(f.dims) == 2 and f.dims[0] == x.dims[-1])
        if j is None:
            j = self.pick(lambda f: f.dtype == x.dtype and len(f.dims) == len(x.dims) and f.dims[-2] == x.dims[-1]
                          and f.dims[:-2] == x.dims[:-2])
        if j is None:
            return None
        y = self.facts[j]
        a, b = np.abs(x.exact.astype(np.float64)), np.abs(y.exact.astype(np.float64))
        n = a.shape[-1]
        eps = self.computing_unit(x.dtype)
        error = x.error @ b + a @ y.error + x.error @ y.error + n * eps * (a @ b)
        return "matmul", ops.matmul, (i, j), self.result(x.dtype, (*x.dims[:-1], y.dims[-1]), x.exact @ y.exact, error)

    def choice(self):
        c = self.pick(lambda f: f.dtype == "bool")
        if c is None:
            return None
        i = self.pick(lambda f: self.broadcast_dims(f.dims, self.facts[c].dims) is not None)
        if i is None:
            return None
        x = self.facts[i]
        dims = self.broadcast_dims(self.facts[c].dims, x.dims)
        j = self.pick(lambda f: f.dtype == x.dtype and self.broadcast_dims(f.dims, dims) == dims)
        if j is None:
            return None
        y = self.facts[j]
        mask = self.facts[c].exact
        return "where", ops.where, (c, i, j), Fact(x.dtype, dims, np.where(mask, x.exact, y.exact),
                                                   np.where(mask, x.error, y.error) + 0.0)

    def conversion(self):
        i = self.pick()
        x = self.facts[i]
        target = str(self.rng.choice(["float32", "float32", "float64", "int32", "float16", "bfloat16"]))
        if target == x.dtype:
            return None
        if target == "int32":
            if x.is_float and np.any(np.abs(x.exact - np.round(x.exact)) <= x.error + 1e-9):
                return None  # rounding could turn the truncation
            fact = Fact("int32", x.dims, np.trunc(x.exact).astype(np.int64), np.zeros(x.exact.shape))
        else:
            fact = self.result(target, x.dims, x.exact.astype(np.float64), x.error)
        dtype = getattr(DType, target)
        return f"cast[{target}]", lambda x: ops.cast(x, dtype), (i,), fact

    def joining(self):
        i = self.pick(lambda f: len(f.dims) > 0)
        if i is None:
            return None
        x = self.facts[i]
        static = [k for k, d in enumerate(x.dims) if isinstance(d, int)]
        if not static:
            return None
        axis = int(self.rng.choice(static))

        def fits(f):
            return f.dtype == x.dtype and len(f.dims) == len(x.dims) and isinstance(f.dims[axis], int) and all(
                a == b for k, (a, b) in enumerate(zip(f.dims, x.dims)) if k != axis)

        j = self.pick(fits)
        y = self.facts[j]
        dims = x.dims[:axis] + (x.dims[axis] + y.dims[axis],) + x.dims[axis + 1 :]
        return (f"concat[{axis}]", lambda a, b: ops.concat([a, b], axis), (i, j),
                Fact(x.dtype, dims, np.concatenate([x.exact, y.exact], axis), np.concatenate([x.error, y.error], axis)))

    def normalising(self):
        i = self.pick(lambda f: f.dtype in ("float32", "float64") and len(f.dims) > 0 and f.dims[-1] not in (0, 1))
        if i is None:
            return None
        x = self.facts[i]
        if x.exact.shape[-1] == 0:
            return None
        j = self.pick(lambda f: f.dtype == x.dtype and f.dims == x.dims[-1:])
        if j is None:
            return None
        w = self.facts[j]
        r = 1 / np.sqrt((x.exact**2).mean(-1, keepdims=True) + 1e-3)
        worst = x.error.max(-1, keepdims=True)
        if worst.size and worst.max() > 1e-3:
            return None
        exact = x.exact * r * w.exact
        error = np.abs(r * w.exact) * x.error + np.abs(exact) * worst * r * 2 + np.abs(x.exact * r) * w.error
        error = error + 1e-5 * (np.abs(exact)) if x.dtype == "float32" else error + 1e-13 * np.abs(exact)
        return "rms_norm", lambda x, w: ops.rms_norm(x, w, 1e-3), (i, j), self.result(x.dtype, x.dims, exact, error)

    def attention(self):
        i = self.pick(lambda f: f.is_float and len(f.dims) in (2, 3))
        if i is None:
            return None
        q = self.facts[i]

        def same_batch(f):
            return f.dtype == q.dtype and len(f.dims) == len(q.dims) and f.dims[:-2] == q.dims[:-2]

        j = self.pick(lambda f: same_batch(f) and f.dims[-1] == q.dims[-1])
        k = self.facts[j]
        l = self.pick(lambda f: same_batch(f) and f.dims[-2] == k.dims[-2])
        v = self.facts[l]
        b = self.pick(lambda f: f.dtype == q.dtype and self.broadcast_dims(f.dims, (*q.dims[:-1], k.dims[-2])) == (
            *q.dims[:-1], k.dims[-2]))
        biased = b is not None and self.rng.random() < 0.5
        turned = k.exact.swapaxes(-1, -2), k.error.swapaxes(-1, -2)
        scores = q.exact @ turned[0] / 4
        size = np.abs(q.exact) @ np.abs(turned[0]) / 4
        error = (q.error @ np.abs(turned[0]) + np.abs(q.exact) @ turned[1] + q.error @ turned[1]) / 4
        if biased:
            scores, error = scores + self.facts[b].exact, error + self.facts[b].error
            size = size + np.abs(self.facts[b].exact)
        # Half types round the scores on their way where the softmax is an op of its own.
        error = error + (q.exact.shape[-1] + 8) * (size * unit(q.dtype if q.dtype != "float64" else "float64"))
        if scores.size and error.max() > 0.1:
            return None
        weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-1e300))
        weights = weights / np.maximum(weights.sum(-1, keepdims=True), 1e-300)
        eps = unit(q.dtype)
        spread = 2 * error.max(-1, keepdims=True, initial=0)
        off = weights * (np.expm1(spread) + (scores.shape[-1] + 32) * eps)
        exact = weights @ v.exact
        wrong = off @ np.abs(v.exact) + (weights + off) @ v.error + (scores.shape[-1] + 8) * eps * (
            weights @ np.abs(v.exact))

        def build(q, k, v, *bias):
            scores = ops.matmul(q, ops.transpose(k, -2, -1)) * 0.25
            return ops.matmul(ops.softmax(scores + bias[0] if bias else scores), v)

        operands = (i, j, l, b) if biased else (i, j, l)
        return "attention", build, operands, self.result(q.dtype, (*q.dims[:-1], v.dims[-1]), exact, wrong)

    # Buffers. A store gives back what it stored, so that it is a step like the others.

    def loading(self):
        if not self.state:
            return None
        b = int(self.rng.integers(len(self.state)))
        return f"load[b{b}]", lambda: ops.buffer_load(self.program.handles[b]), (), self.state[b]

    def storing(self):
        if not self.state:
            return None
        b = int(self.rng.integers(len(self.state)))
        old = self.state[b]
        i = self.pick(lambda f: f.dtype == old.dtype and f.dims == old.dims)
        if i is None:
            return None
        x = self.facts[i]

        def build(x):
            ops.buffer_store(self.program.handles[b], x)
            return x

        return f"store[b{b}]", build, (i,), x, lambda: self.state.__setitem__(b, x)

    def storing_part(self):
        if not self.state:
            return None
        b = int(self.rng.integers(len(self.state)))
        old = self.state[b]
        axes = [k for k, d in enumerate(old.dims) if isinstance(d, int) and d > 0]
        if not axes:
            return None
        axis = int(self.rng.choice(axes))
        at = int(self.rng.integers(-old.dims[axis], old.dims[axis]))
        i = self.pick(lambda f: f.dtype == old.dtype and f.dims == old.dims[:axis] + old.dims[axis + 1 :])
        if i is None:
            return None
        x = self.facts[i]
        key = (slice(None),) * axis + (at,)
        exact, error = old.exact.copy(), np.array(np.broadcast_to(old.error, old.exact.shape))
        exact[key], error[key] = x.exact, x.error

        def build(x):
            self.program.handles[b][key] = x
            return x

        return f"store[b{b}][{axis}: {at}]", build, (i,), x, lambda: self.state.__setitem__(
            b, Fact(old.dtype, old.dims, exact, error))

    def creating(self):
        """A buffer of the graph's own, filled as soon as it is made."""
        i = self.pick()
        b, x = len(self.state), self.facts[i]
        kind = BufferType(getattr(DType, x.dtype), x.dims, CPU)

        def build(x):
            assert len(self.program.handles) == b
            self.program.handles.append(ops.buffer_create(kind))
            ops.buffer_store(self.program.handles[b], x)
            return []

        return f"b{b} = create", build, (i,), [], lambda: self.state.append(x)

    # Values that are known before the graph runs

    def weighing(self):
        """A weight or a constant."""
        sizes = [d for d in self.random_dims() if isinstance(d, int)]
        if self.facts and self.rng.random() < 0.6:
            sizes = [d for d in self.facts[self.pick()].dims if isinstance(d, int)]
        dims, dtype, array, fact = self.random_array(tuple(sizes))
        kind = getattr(DType, dtype)
        if self.rng.random() < 0.5 and self.calls == 0:
            name = f"w{len(self.program.weights)}"
            self.program.weights[name] = array
            return f"weight[{dtype}, {sizes}]", lambda: Weight(name, kind, sizes, CPU), (), fact
        if dtype == "bfloat16" and array.size == 0:
            return None  # a list does not say the shape of nothing
        values = array.astype(np.float64).tolist() if dtype == "bfloat16" else array
        return f"constant[{dtype}, {sizes}]", lambda: ops.constant(values, kind, CPU), (), fact

    def indexing(self):
        """Gather or scatter along an axis by constant indices, or the place of the largest element."""
        i = self.pick(lambda f: len(f.dims) > 0)
        if i is None:
            return None
        x = self.facts[i]
        axis = int(self.rng.integers(len(x.dims)))
        n = x.dims[axis]
        kind = self.rng.choice(["gather", "gather", "scatter", "argmax"])
        if kind == "argmax":
            if x.dtype == "bool" or x.exact.shape[axis] == 0:
                return None
            ordered = np.sort(x.exact, axis)
            if ordered.shape[axis] > 1 and ordered.size:
                gap = np.diff(ordered, axis=axis).take([-1], axis)
                if np.any(gap <= 2 * x.error.max(axis, keepdims=True)):
                    return None  # which one is the largest could change
            fact = Fact("int64", x.dims[:axis] + (1,) + x.dims[axis + 1 :], np.argmax(x.exact, axis, keepdims=True),
                        np.zeros(1))
            fact.error = np.zeros(fact.exact.shape)
            return f"argmax[{axis}]", lambda x: ops.argmax(x, axis), (i,), fact
        if not isinstance(n, int) or n == 0:
            return None
        count = int(self.rng.integers(1, 4))
        dtype = str(self.rng.choice(["int32", "int64"]))

        def constant(where):
            return ops.constant(where, getattr(DType, dtype), CPU)

        if kind == "gather":
            where = self.rng.integers(-n, n, count).tolist()
            return (f"gather{axis}{where}", lambda x: ops.gather(x, constant(where), axis), (i,),
                    Fact(x.dtype, x.dims[:axis] + (count,) + x.dims[axis + 1 :], x.exact.take(where, axis),
                         x.error.take(where, axis)))
        where = self.rng.permutation(n)[:count].tolist()
        dims = x.dims[:axis] + (len(where),) + x.dims[axis + 1 :]
        j = self.pick(lambda f: f.dtype == x.dtype and f.dims == dims)
        if j is None:
            return None
        index = np.array(where).reshape([-1 if k == axis else 1 for k in range(len(dims))])
        exact, error = x.exact.copy(), np.array(x.error)
        np.put_along_axis(exact, np.broadcast_to(index, self.size(dims)), self.facts[j].exact, axis)
        np.put_along_axis(error, np.broadcast_to(index, self.size(dims)), self.facts[j].error, axis)

        def build(x, updates):
            shaped = ops.reshape(constant(where), index.shape)
            return ops.scatter(x, updates, ops.broadcast_to(shaped, updates.shape), axis)

        return f"scatter{axis}{where}", build, (i, j), Fact(x.dtype, x.dims, exact, error)

    def multiplying(self):
        """More of the same values, or several values of one."""
        i = self.pick(lambda f: len(f.dims) > 0)
        if i is None:
            return None
        x = self.facts[i]
        rank = len(x.dims)
        axis = int(self.rng.integers(rank))
        n = x.dims[axis]
        kind = self.rng.choice(["tile", "repeat", "stack", "split"])
        if kind == "stack" and rank < 4:
            j = self.pick(lambda f: f.like(x))
            y = self.facts[j]
            return (f"stack[{axis}]", lambda x, y: ops.stack([x, y], axis), (i, j),
                    Fact(x.dtype, x.dims[:axis] + (2,) + x.dims[axis:], np.stack([x.exact, y.exact], axis),
                         np.stack([x.error, y.error], axis)))
        if not isinstance(n, int):
            return None

        def part(function, size):
            return Fact(x.dtype, x.dims[:axis] + (size,) + x.dims[axis + 1 :], function(x.exact), function(x.error))

        if kind == "tile":
            times = [2 if k == axis else 1 for k in range(rank)]
            return f"tile[{axis}]", lambda x: ops.tile(x, times), (i,), part(lambda a: np.tile(a, times), 2 * n)
        if kind == "repeat":
            return (f"repeat[{axis}]", lambda x: ops.repeat_interleave(x, 2, axis), (i,),
                    part(lambda a: np.repeat(a, 2, axis), 2 * n))
        if kind == "split" and n > 1:
            at = int(self.rng.integers(0, n + 1))
            return (f"split{axis}[{at}, {n - at}]", lambda x: list(ops.split(x, [at, n - at], axis)), (i,),
                    [part(lambda a: a.take(range(at), axis), at), part(lambda a: a.take(range(at, n), axis), n - at)])
        return None
