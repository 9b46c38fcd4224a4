"""What an artifact says about its kernels and its memory."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from processes import CLEAN

from examples.counter.counter import load_counter
from kiln.dtype import DType
from kiln.engine import InferenceSession
from kiln.graph import BufferType, DeviceRef, Graph, Weight, ops
from running import session, tensor_type

pytestmark = pytest.mark.engine

COMMAND = os.environ.get("KILN_COMMAND") or Path(__file__).parents[2] / "build/release/bin/kiln"
CPU = DeviceRef.CPU()


def test_the_counter_names_its_store():
    (summary,) = load_counter().kernel_summaries
    assert summary == "Fused(buffer.load, add, buffer.store)"


def some_ops(x, i, p, state):
    """Every way in which an op can come to run."""
    w = ops.constant(np.arange(12, dtype=np.float32).reshape(4, 3), device=CPU)
    old = ops.buffer_load(state)
    ops.buffer_store(state, old * 2)
    ops.buffer_store_slice(state, x[:1, 0] - 1, [slice(0, 1)])
    y = ops.softmax(x @ w)
    ops.print(ops.sum(y, axis=0))
    branch = ops.cond(p, [y.type], lambda: ops.exp(y), lambda: ops.sqrt(y))[0]
    top, where = ops.top_k(y, 2)
    cut = x[(slice(i, None), "rest")]
    lengths = ops.range(ops.cast(i, DType.int64), 3, 1, out_dim="many", dtype=DType.int64, device=CPU)
    same = ops.rebind(x, ["n", 4])
    return [
        branch,
        top,
        where,
        ops.tanh(cut),
        lengths,
        ops.gather(same, where[0], axis=1),
        ops.pad(x, [1, 1, 0, 0]),
        ops.concat([x, x]),
        ops.tile(ops.abs(x), [2, 1]),
        ops.layer_norm(x, w[:, 0], w[:, 1], 1e-5),
        ops.argmax(x, axis=1),
        ops.while_loop([ops.sum(x[:1], axis=1)], lambda v: v[0, 0] < 100, lambda v: [v * 2 + 1])[0],
    ]


def test_every_op_that_runs_is_named():
    types = [tensor_type("float32", ["n", 4]), tensor_type("int32", []), tensor_type("bool", []),
             BufferType(DType.float32, [3], CPU)]
    graph = Graph("case", some_ops, types)
    summaries = " ".join(session().load(graph).kernel_summaries)
    named = set(summaries.replace("(", " ").replace(")", " ").replace(",", " ").split())
    expected = {"buffer.load", "mul", "buffer.store", "sub", "buffer.store_slice", "softmax", "matmul", "print",
                "sum", "cond", "exp", "sqrt", "top_k", "slice_tensor", "tanh", "range", "gather", "pad", "concat",
                "tile", "abs", "layer_norm", "argmax", "while", "greater", "add"}
    assert expected - named == set()


def network(layers: int = 2) -> Graph:
    def build(x):
        for i in range(layers):
            w = Weight(f"w{i}", DType.float32, [24, 40 + i], CPU)
            v = Weight(f"v{i}", DType.float32, [40 + i, 24], CPU)
            x = ops.layer_norm(ops.gelu(x @ w) @ v + x, Weight(f"g{i}", DType.float32, [24], CPU),
                               Weight(f"b{i}", DType.float32, [24], CPU), 1e-5)
        return x @ ops.transpose(x, 0, 1)

    return Graph("network", build, [tensor_type("float32", ["n", 24])])


def plan_of(graph: Graph, folder: Path) -> dict:
    InferenceSession().compile(graph).export_mef(folder / "case.mef")
    done = subprocess.run([COMMAND, "inspect", folder / "case.mef", "--json"], capture_output=True, text=True,
                          check=True, env=CLEAN)
    return json.loads(done.stdout)["plan"]


def value(formula: str, **sizes: int) -> int:
    return eval(formula, {"max": max}, sizes)  # formulas read as Python


def test_the_plan_is_one_that_can_be_run(tmp_path):
    plan = plan_of(network(), tmp_path)
    (memory,) = plan["memory"]
    runs = [k for k in plan["kernels"] if k["stage"] == "run"]
    assert [k["number"] for k in runs] == list(range(len(runs))) and memory["kernels"] == len(runs)
    values = memory["values"]
    assert len(values) > 3 and [v["value"] for v in values] == list(range(len(values)))
    for n in (0, 1, 7, 1000):
        for v in values:
            # The bytes of the type, in pieces of 64; what is packed for a product may be larger.
            elements = int(np.prod([d if isinstance(d, int) else value(d, n=n) for d in v["shape"]]))
            size = value(v["bytes"], n=n)
            assert size % 64 == 0 and size >= elements * np.dtype(v["dtype"]).itemsize
            assert value(v["offset"], n=n) + size <= value(memory["arena_bytes"], n=n)
            assert 0 <= v["kept"][0] <= v["first_kernel"] <= v["last_kernel"] <= v["kept"][1] < len(runs)
        for a, b in itertools.combinations(values, 2):
            both = a["kept"][0] <= b["kept"][1] and b["kept"][0] <= a["kept"][1]
            if not both or b.get("in_place_of") == a["value"]:
                continue
            a_begin, b_begin = value(a["offset"], n=n), value(b["offset"], n=n)
            assert a_begin + value(a["bytes"], n=n) <= b_begin or b_begin + value(b["bytes"], n=n) <= a_begin


def normalized(x, w):
    """Columns that are scaled one after the other: each step needs all of the one before."""
    y = x @ w
    z = ops.exp(y - ops.max(y, axis=0))
    return z * z - ops.mean(z, axis=0)


def twice(x, w):
    y = normalized(x, w)
    low = ops.min(y, axis=0)
    return [(y - low) @ w, (y * low) @ w]  # two values from one that ends there


def mixed(x, w):
    y = normalized(x, w)
    return [(y - ops.max(y, axis=0) + ops.permute(y, [1, 0])) @ w]  # reads what it has overwritten already


def mixed_in_the_other_order(x, w):
    y = normalized(x, w)
    return [(ops.permute(y, [1, 0]) + (y - ops.max(y, axis=0))) @ w]


def turned(x, w):
    y = normalized(x, w)
    return [(ops.permute(y, [1, 0]) - ops.max(y, axis=0)) @ w]


def narrowed(x, w):
    y = normalized(x, w)
    z = ops.cast((y - ops.min(y, axis=0)) * 8 + 0.5, DType.int32)  # other values of the same size
    return [ops.cast(z - ops.max(z, axis=0), DType.float32) @ w]


@pytest.mark.parametrize("tail, reused", [(twice, True), (mixed, False), (mixed_in_the_other_order, False),
                                          (turned, False), (narrowed, True)])
def test_a_result_takes_the_place_of_its_operand_only_where_that_is_safe(tail, reused, tmp_path):
    rng = np.random.default_rng(5)
    w = rng.uniform(-1, 1, (33, 33)).astype(np.float32)
    graph = Graph("case", lambda x: tail(x, ops.constant(w, device=CPU)), [tensor_type("float32", [33, 33])])
    (memory,) = plan_of(graph, tmp_path)["memory"]
    squares = [v for v in memory["values"] if v["shape"] == [33, 33]]
    assert any("in_place_of" in v for v in squares[:3])
    assert any("in_place_of" in v for v in squares[3:]) == reused
    x = rng.uniform(-1, 1, (33, 33)).astype(np.float32)
    got = [r.to_numpy() for r in session().load(graph)(x)]
    y = x.astype(np.float64) @ w
    z = np.exp(y - y.max(0))
    y = z * z - z.mean(0)
    if tail is twice:
        expected = [(y - y.min(0)) @ w, (y * y.min(0)) @ w]
    elif tail in (mixed, mixed_in_the_other_order):
        expected = [(y - y.max(0) + y.T) @ w]
    elif tail is turned:
        expected = [(y.T - y.max(0)) @ w]
    else:
        exact = (y - y.min(0)) * 8 + 0.5
        assert np.abs(exact - np.round(exact)).min() > 1e-5  # the cut is the same with rounding errors
        z = np.trunc(exact)
        expected = [(z - z.max(0)) @ w]
    for result, wanted in zip(got, expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-4)


def test_prepared_weights_have_their_sizes(tmp_path):
    (memory,) = plan_of(network(1), tmp_path)["memory"]
    assert [p["slot"] for p in memory["prepared"]] == list(range(len(memory["prepared"])))
    sizes = {tuple(p["shape"]): value(p["bytes"]) for p in memory["prepared"]}
    assert sizes[24, 40] >= 24 * 40 * 4 and sizes[40, 24] >= 24 * 40 * 4
    assert all(maker.startswith("Pack(") for p in memory["prepared"] for maker in p["made_by"])


def test_values_whose_size_only_running_tells(tmp_path):
    def build(x, i):
        y = ops.exp(ops.concat([x[(slice(i, None), "rest")], x[(slice(i, None), "rest")]]))
        return [ops.sum(y, axis=0), ops.sum(y, axis=1)]

    types = [tensor_type("float32", ["n", 8]), tensor_type("int64", [])]
    (memory,) = plan_of(Graph("case", build, types), tmp_path)["memory"]
    own = [v for v in memory["values"] if "slot" not in v]
    assert own and all("rest" in v["bytes"] and "offset" not in v for v in own)


def test_the_plan_as_a_picture(tmp_path):
    InferenceSession().compile(network()).export_mef(tmp_path / "case.mef")
    text = subprocess.run([COMMAND, "inspect", tmp_path / "case.mef"], capture_output=True, text=True, check=True,
                          env=CLEAN).stdout
    memory = plan_of(network(), tmp_path)["memory"][0]
    lines = text[text.index("memory of graph network\n"):].splitlines()
    assert lines[1] == f"  {memory['arena_bytes']} bytes a call in one block of {len(memory['slots'])} slots"
    for v in memory["values"]:
        (line,) = (each for each in lines if each.split()[:2] == [f"v{v['value']}", v["op"]])
        first, last = v["kept"]
        bar = "".join("#" if first <= k <= last else "." for k in range(memory["kernels"]))
        assert line.split()[-2:] == [f"{v['first_kernel']}-{v['last_kernel']}", bar] and v["bytes"] in line
    for p in memory["prepared"]:
        assert any(line.split()[:2] == ["prepared", str(p["slot"])] and f"{p['bytes']} bytes" in line
                   for line in lines)
