"""Steps of random graphs that hold steps: branches, loops and calls of subgraphs."""

from __future__ import annotations

import itertools

import numpy as np
from fuzz_program import Fact, Program, Step, describe, names, rounding, run

from kiln.dtype import DType
from kiln.graph import DeviceRef, Graph, TensorType, ops

CPU = DeviceRef.CPU()


class Region:
    """Steps that see the values around them, and what they make of the values and the buffers."""

    def __init__(self, outer: int, steps: list[Step], facts: list[Fact], state: list[Fact]):
        self.outer = outer  # number of values around the region
        self.steps, self.facts, self.state = steps, facts, state

    def used(self, results) -> set[int]:
        """The values around the region that it needs."""
        return {i for i in itertools.chain(results, *(s.operands for s in self.steps)) if i < self.outer}

    def build(self, program: Program, values: dict, results) -> list:
        """Builds the steps; buffers that they create end with them."""
        count, values = len(program.handles), dict(values)
        run(self.steps, values, self.outer)
        del program.handles[count:]
        return [values[i] for i in results]

    def text(self, results) -> str:
        return "; ".join([*describe(self.steps, self.outer), f"yield {names(results)}"])


class Regions:
    """The part of the fuzzer that makes such steps; see Fuzzer for its members."""

    calls = 0  # of subgraphs around the next step

    def region(self, size: int) -> Region:
        saved = self.facts, self.state, self.program.steps
        self.facts, self.state, self.program.steps = list(self.facts), list(self.state), []
        self.depth += 1
        outer = len(self.facts)
        for _ in range(size):
            self.add_step()
        self.depth -= 1
        made = Region(outer, self.program.steps, self.facts, self.state)
        self.facts, self.state, self.program.steps = saved
        return made

    def element(self, condition):
        """An operand, the op that takes one element of it, and the element's value."""
        i = self.pick(lambda f: condition(f) and f.exact.size > 0)
        if i is None:
            return None
        x = self.facts[i]
        at = tuple(int(self.rng.integers(n)) for n in x.exact.shape)
        return i, (lambda x: x[at] if at else x), x.exact[at]

    def branching(self):
        picked = self.element(lambda f: f.dtype == "bool")
        if picked is None or self.depth >= 2:
            return None
        chosen, element, truth = picked
        branches = [self.region(int(self.rng.integers(0, 4))) for _ in range(2)]
        results = []
        for _ in range(int(self.rng.integers(0, 4))):
            first = int(self.rng.integers(len(branches[0].facts)))
            fits = [k for k, f in enumerate(branches[1].facts) if f.like(branches[0].facts[first])]
            if fits:
                results.append((first, int(self.rng.choice(fits))))
        results = [[pair[k] for pair in results] for k in range(2)]
        operands = sorted(branches[0].used(results[0]) | branches[1].used(results[1]))
        types = [TensorType(getattr(DType, f.dtype), f.dims, CPU) for f in (branches[0].facts[i] for i in results[0])]

        def build(pred, *outer):
            values = dict(zip(operands, outer))
            return list(ops.cond(element(pred), types, *[
                lambda k=k: branches[k].build(self.program, values, results[k]) or None for k in range(2)]))

        k = 0 if truth else 1
        taken, count = branches[k], len(self.state)
        text = f"cond {{{branches[0].text(results[0])}}} else {{{branches[1].text(results[1])}}}"
        return (text, build, (chosen, *operands), [taken.facts[i] for i in results[k]],
                lambda: self.state.__setitem__(slice(None), taken.state[:count]))

    def calling(self):
        if self.depth >= 2:
            return None
        # A callee sees its arguments alone.
        saved = self.facts, self.state
        count = int(self.rng.integers(1, min(4, len(self.facts) + 1)))
        arguments = [int(i) for i in self.rng.integers(0, len(self.facts), count)]
        self.facts, self.state = [self.facts[i] for i in arguments], []
        self.calls += 1
        inner = self.region(int(self.rng.integers(1, 5)))
        self.calls -= 1
        self.facts, self.state = saved
        results = [int(i) for i in self.rng.integers(0, len(inner.facts), int(self.rng.integers(1, 3)))]
        types = [TensorType(getattr(DType, f.dtype), f.dims, CPU) for f in inner.facts[:count]]
        twice = self.rng.random() < 0.5

        def build(*outer):
            name = f"callee{len(self.program.callees)}"
            self.program.callees.append(name)
            handles, self.program.handles = self.program.handles, []
            callee = Graph.current.add_subgraph(
                name, lambda *values: inner.build(self.program, dict(enumerate(values)), results), types)
            self.program.handles = handles
            made = list(ops.call(callee, *outer))
            return made + list(ops.call(callee, *outer)) if twice else made

        facts = [inner.facts[i] for i in results] * (2 if twice else 1)
        return f"call {{{inner.text(results)}}}", build, tuple(arguments), facts

    def looping(self):
        """A while loop of 0 to 3 rounds over one to three values."""
        picked = self.element(lambda f: f.dtype in ("int32", "int64")) if self.rng.random() < 0.5 else None
        if self.depth >= 2:
            return None
        carried = [self.pick() for _ in range(int(self.rng.integers(1, 4)))]
        facts = [self.facts[i] for i in carried]
        changes = [c for c in (self.change(facts) for _ in range(int(self.rng.integers(1, 4)))) if c is not None]
        operands = sorted({i for _, outer, _, _ in changes for i in outer})
        number = int(picked[2]) % 4 if picked else int(self.rng.integers(0, 4))
        for _ in range(number):
            for _, _, _, update in changes:
                update(facts)
            if not all(self.acceptable(f) for f in facts):
                return None
        kind = DType.int64 if not picked or self.facts[picked[0]].dtype == "int64" else DType.int32

        def build(*arguments):
            starts, arguments = list(arguments[: len(carried)]), arguments[len(carried) :]
            limit = ops.mod(picked[1](arguments[-1]), 4) if picked else ops.constant(number, kind, CPU)
            outer = dict(zip(operands, arguments))

            def body(i, *values):
                values = list(values)
                for _, _, apply, _ in changes:
                    apply(values, outer)
                return [i + 1, *values]

            return list(ops.while_loop([ops.constant(0, kind, CPU), *starts], lambda i, *_: i < limit, body))[1:]

        text = f"while {number} times {{{'; '.join(c[0] for c in changes)}}}"
        arguments = (*carried, *operands, *([picked[0]] if picked else []))
        return text, build, arguments, facts

    def change(self, carried: list[Fact]):
        """A text, the values around the loop that it needs, how to build it, and what it makes of facts."""
        k = int(self.rng.integers(len(carried)))
        x = carried[k]
        kind = self.rng.choice(["scale", "max", "swap", "tanh", "product", "centre", "take", "reverse"])

        def given(text, outer, function, value):
            def apply(values, around):
                values[k] = function(values[k], *[around[i] for i in outer])

            def update(facts):
                facts[k] = value(facts[k], *[self.facts[i] for i in outer])

            return text, outer, apply, update

        if kind in ("scale", "max") and x.dtype != "bool":
            j = self.pick(lambda f: f.dtype == x.dtype and self.broadcast_dims(f.dims, x.dims) == x.dims)
            if j is None:
                return None
            if kind == "max":
                return given(f"{k} = max(v{j})", (j,), ops.max, lambda x, y: self.result(
                    x.dtype, x.dims, np.maximum(x.exact, y.exact), x.error + y.error))
            factor = 0.5 if x.is_float else 2
            return given(f"{k} = {factor} * {k} + v{j}", (j,), lambda x, y: x * factor + y, lambda x, y: self.result(
                x.dtype, x.dims, x.exact * factor + y.exact,
                x.error * factor + y.error + rounding(x.dtype, x.exact) + rounding(x.dtype, x.exact * factor)))
        if kind == "swap":
            other = [m for m, f in enumerate(carried) if m != k and f.like(x)]
            if not other:
                return None
            m = other[0]

            def apply(values, _):
                values[k], values[m] = values[m], values[k]

            def update(facts):
                facts[k], facts[m] = facts[m], facts[k]

            return f"swap {k}, {m}", (), apply, update
        if kind == "tanh" and x.is_float:
            return given(f"{k} = tanh", (), ops.tanh,
                         lambda x: self.result(x.dtype, x.dims, np.tanh(x.exact), x.error))
        if kind == "product" and x.is_float and len(x.dims) >= 2:
            j = self.pick(lambda f: f.dtype == x.dtype and f.dims == (x.dims[-1], x.dims[-1]))
            if j is None:
                return None

            def product(x, y):
                size = np.abs(x.exact) @ np.abs(y.exact)
                error = x.error @ np.abs(y.exact) + np.abs(x.exact) @ y.error + x.error @ y.error
                return self.result(x.dtype, x.dims, x.exact @ y.exact,
                                   error + x.exact.shape[-1] * self.computing_unit(x.dtype) * size)

            return given(f"{k} = {k} @ v{j}", (j,), ops.matmul, product)
        if kind == "centre" and x.is_float and x.dims and x.exact.shape[-1] > 0:
            def centred(x):
                mean, error = x.exact.mean(-1, keepdims=True), x.error.mean(-1, keepdims=True)
                error = error + rounding(x.dtype, mean) + x.exact.shape[-1] * self.computing_unit(x.dtype) * np.abs(
                    x.exact).mean(-1, keepdims=True)
                return self.result(x.dtype, x.dims, x.exact - mean, x.error + error)

            return given(f"{k} = centred", (), lambda x: x - ops.mean(x), centred)
        if kind == "take":
            j = self.pick(lambda f: f.like(x))
            return None if j is None else given(f"{k} = v{j}", (j,), lambda _, y: y, lambda _, y: y)
        axes = [a for a, d in enumerate(x.dims) if isinstance(d, int)]
        if kind == "reverse" and axes:
            key = (slice(None),) * int(self.rng.choice(axes)) + (slice(None, None, -1),)
            return given(f"{k} = reversed", (), lambda x: x[key],
                         lambda x: Fact(x.dtype, x.dims, x.exact[key], x.error[key]))
        return None
