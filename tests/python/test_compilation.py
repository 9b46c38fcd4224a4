"""stage, compile and CompiledCallable. Expected values are NumPy's or worked out by hand."""

import dataclasses
import gc
import os
import pickle
import re
import threading
import weakref
from collections import namedtuple

import numpy as np
import pytest
from processes import run as run_program

from kiln import tree
from kiln.driver import CPU, Buffer
from kiln.dtype import DType
from kiln.engine import InferenceSession, read
from kiln.experimental import functional as F
from kiln.experimental.compilation import CompiledCallable, StagedGraph, as_subgraph, compile, stage
from kiln.experimental.sharding import BufferLayout, TensorLayout
from kiln.experimental.tensor import Tensor
from kiln.graph import BufferType, DeviceRef, Graph, TensorType, ops

pytestmark = pytest.mark.experimental
F32 = DType.float32


def layout(*shape, dtype=F32):
    return TensorLayout(dtype, shape, CPU())


def buffer_layout(*shape, dtype=F32):
    return BufferLayout(dtype, shape, CPU())


def array(tensor):
    return tensor.to_numpy().tolist()


def test_the_example_of_the_page(tmp_path):
    def scale(x: Tensor) -> Tensor:
        return x * 2

    run = compile(scale)(TensorLayout(F32, [3], CPU()))
    run.export_mef(tmp_path / "scale.mef")
    assert array(run(Tensor.ones([3], device=CPU()))) == [2, 2, 2]
    model = InferenceSession().load(str(tmp_path / "scale.mef"))
    assert model.execute(np.array([1, 2, 3], np.float32))[0].to_numpy().tolist() == [2, 4, 6]


@tree.dataclass
@dataclasses.dataclass
class Cache:
    blocks: object
    scale: object = None


Pair = namedtuple("Pair", "left right")


def test_arguments_and_results_nest():
    def step(x, state, *, gain, parts):
        new = Cache(state.blocks + x, state.scale)
        return {"y": [part * gain for part in parts], "state": new}, Pair(x, "done"), None

    run = compile(step)(
        layout("n"), Cache(layout("n"), layout()), gain=3, parts=(layout("n"), {"a": layout("n")}["a"])
    )
    assert [str(x) for x in run.in_tree.leaf_paths] == ["0.0", "0.1.blocks", "0.1.scale", "1.parts.0", "1.parts.1"]
    x, y = Tensor([1, 2]), Tensor([10, 20])
    result, pair, nothing = run(x, Cache(y, Tensor(5)), gain=3, parts=(x, y))
    assert [array(v) for v in result["y"]] == [[3, 6], [30, 60]]
    assert isinstance(result["state"], Cache) and array(result["state"].blocks) == [11, 22]
    assert array(result["state"].scale) == 5 and array(pair.left) == [1, 2]
    assert (type(pair), pair.right, nothing) == (Pair, "done", None)


def test_one_tensor_twice_is_two_results():
    first, second = compile(lambda x: (x, x))(layout(2))(Tensor([1, 2]))
    first[0] = Tensor(9)
    assert array(second) == [1, 2]


def test_stage_shows_what_it_recorded():
    staged = stage(lambda x, n: [x * n], name="times")(layout("n", 4), 2)
    assert isinstance(staged, StagedGraph) and isinstance(staged.graph, Graph)
    assert staged.graph.name == "times"
    assert staged.in_layouts == [layout("n", 4)] and staged.out_layouts == [layout("n", 4)]
    assert staged.in_tree == tree.flatten(((layout(), 2), {}), leaf=TensorLayout)[1]
    assert staged.out_tree == tree.flatten([layout()], leaf=TensorLayout)[1]
    assert str(staged) == repr(staged) and "kiln.graph @times" in str(staged)


@pytest.mark.parametrize("name, expected", [("my fn!", "my_fn_"), ("<lambda>", "_lambda_"), ("", "fn")])
def test_names(name, expected):
    def function(x):
        return x

    function.__name__ = name
    assert stage(function)(layout(2)).graph.name == expected
    assert stage(function, name="given")(layout(2)).graph.name == "given"


def test_graph_types_are_layouts():
    run = compile(lambda x, b: x + b)(TensorType(F32, [2], DeviceRef.CPU()), BufferType(F32, [2], DeviceRef.CPU()))
    assert run.in_layouts == [layout(2), buffer_layout(2)]
    assert array(run(Tensor([1, 2]), Tensor([10, 20]))) == [11, 22]
    assert array(run(Buffer.from_numpy(np.ones(2, np.float32)), Tensor([10, 20]))) == [11, 21]


def test_any_size_and_equal_names_agree():
    run = compile(lambda x, y: x + y)(layout("n", 2), layout("n", 2))
    for n in (0, 1, 5):
        assert run(Tensor.ones([n, 2]), Tensor.ones([n, 2])).shape == [n, 2]
    with pytest.raises(ValueError, match="argument 1"):
        run(Tensor.ones([3, 2]), Tensor.ones([4, 2]))


def test_buffers_are_updated_in_place():
    def step(state, x):
        state["count"][...] = state["count"] + 1
        F.buffer_store(state["sum"], state["sum"] + x)
        return state["sum"] * 1

    run = compile(step)({"count": buffer_layout(dtype=DType.int32), "sum": buffer_layout(2)}, layout(2))
    state = {"count": Tensor(0, dtype=DType.int32), "sum": Tensor([0, 0])}
    for i in range(3):
        assert array(run(state, Tensor([1, 2]))) == [i + 1, 2 * i + 2]
    assert (array(state["count"]), array(state["sum"])) == (3, [3, 6])


def test_weights():
    def linear(x):
        return x @ F.constant_external("w", TensorType(F32, [2, 3], CPU()))

    staged = stage(linear)(layout("n", 2))
    w = np.arange(6, dtype=np.float32).reshape(2, 3)
    run = CompiledCallable(staged, {"w": w})
    assert array(run(Tensor([[1, 1]]))) == [[3, 5, 7]]
    assert array(CompiledCallable(staged, {"w": 2 * w})(Tensor([[1, 1]]))) == [[6, 10, 14]]
    assert run.weights["w"] is w
    with pytest.raises(TypeError):
        run.weights["v"] = w
    with pytest.raises(ValueError, match="w"):
        CompiledCallable(staged)


def test_weights_are_exported_on_request(tmp_path):
    def linear(x):
        return x + F.constant_external("w", TensorType(F32, [2], CPU()))

    run = compile(linear, weights={"w": np.array([1, 2], np.float32)})(layout(2))
    run.export_mef(tmp_path / "with.mef", include_weights=True)
    run.export_mef(str(tmp_path / "without.mef"))
    session = InferenceSession()
    assert session.load(str(tmp_path / "with.mef")).execute(np.zeros(2, np.float32))[0].to_numpy().tolist() == [1, 2]
    with pytest.raises(ValueError, match="w"):
        session.load(str(tmp_path / "without.mef"))


def test_held_tensors_become_constants():
    held = Tensor([1, 2])
    run = compile(lambda x: x + held)(layout(2))
    held[0] = Tensor(100)
    assert array(run(Tensor([0, 0]))) == [1, 2]


def test_a_held_tensor_is_one_constant():
    held = Tensor([1, 2])
    staged = stage(lambda x: (x + held) * held + held)(layout(2))
    assert str(staged).count("kiln.constant") == 1
    assert array(CompiledCallable(staged)(Tensor([1, 1]))) == [3, 8]


def test_lazy_arguments_are_realised():
    run = compile(lambda x: x + 1)(layout(2))
    with F.lazy():
        x = Tensor([1, 2]) * 2
        assert array(run(x)) == [3, 5]
    assert x.real


SCALE = compile(lambda x, options, gain=1.0: x * options["by"])(layout("n", 2), {"by": 2.0, "parts": [layout(2)]})


def scaled(x=None, by=2.0, parts=None, **keywords):
    x = Tensor.ones([3, 2]) if x is None else x
    return SCALE(x, {"by": by, "parts": [Tensor.ones([2])] if parts is None else parts}, **keywords)


CALLS = {
    "static": (lambda: scaled(by=3.0), ValueError, "tree structure mismatch at 1.by: expected 2.0, got 3.0"),
    "static array": (
        lambda: scaled(by=np.ones(2)),
        ValueError,
        "tree structure mismatch at 1.by: expected 2.0, got array([1., 1.])",
    ),
    "container": (
        lambda: scaled(parts=(Tensor.ones([2]),)),
        ValueError,
        "tree structure mismatch at 1.parts: expected a list, got tuple",
    ),
    "count": (
        lambda: scaled(parts=[]),
        ValueError,
        "tree structure mismatch at 1.parts: expected keys [0], got []",
    ),
    "missing": (lambda: SCALE(Tensor.ones([3, 2])), ValueError, "tree structure mismatch at "),
    "unknown keyword": (lambda: scaled(gain=1.0), ValueError, "tree structure mismatch at "),
    "no tensor": (lambda: scaled(x=1), TypeError, "argument 0: expected a Tensor or Buffer, got int"),
    "array": (lambda: scaled(x=np.ones((3, 2))), TypeError, "argument 0: expected a Tensor or Buffer, got ndarray"),
    "dtype": (
        lambda: scaled(x=Tensor.ones([3, 2], dtype=DType.int32)),
        ValueError,
        "argument 0: expected float32 shape [n, 2] on [cpu:0], got int32 shape [3, 2] on [cpu:0]",
    ),
    "rank": (
        lambda: scaled(parts=[Tensor.ones([2, 1])]),
        ValueError,
        "argument 1.parts.0: expected float32 shape [2] on [cpu:0], got float32 shape [2, 1] on [cpu:0]",
    ),
    "dim": (
        lambda: scaled(x=Tensor.ones([3, 4])),
        ValueError,
        "argument 0: expected float32 shape [n, 2] on [cpu:0], got float32 shape [3, 4] on [cpu:0]",
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_call_errors(case):
    call, kind, text = CALLS[case]
    with pytest.raises(kind, match="^" + re.escape(text)):
        call()
    assert scaled().shape == [3, 2]


def test_buffer_errors():
    run = compile(lambda b: b + 0)(buffer_layout(4))
    text = re.escape("argument 0: expected float32 across 1 device(s), got int8 across 1")
    with pytest.raises(ValueError, match=text):
        run(Tensor.ones([4], dtype=DType.int8))
    with pytest.raises(ValueError, match="argument 0"):
        run(Tensor.ones([5]))


@pytest.mark.parametrize("write", [lambda x: x.__setitem__(0, x[1]), lambda x: F.buffer_store(x, x + 1)])
def test_an_argument_staged_as_a_tensor_is_not_written(write):
    def function(a, *, state):
        write(state[0])
        return a

    with pytest.raises(TypeError, match="argument state.0 was staged as a tensor.*BufferLayout"):
        stage(function)(layout(2), state=[layout(2)])

    def computed(x):
        y = x + 1
        write(y)
        return y

    assert compile(computed)(layout(2))(Tensor([1, 2])).shape == [2]


def test_staging_errors():
    with pytest.raises(TypeError, match="^a staged callable must return Tensors$"):
        stage(lambda x: x.__tensorvalue__())(layout(2))
    with pytest.raises(TypeError, match="^a Tensor is a value, not a layout"):
        stage(lambda x: x)(Tensor([1]))
    for index in (-1, 2):
        with pytest.raises(ValueError, match=f"signal_buffer_index is {index}"):
            stage(lambda x: x, signal_buffer_index=index)(layout(2))
    with pytest.raises(TypeError, match="asks for the value of a tensor of graph"):
        stage(lambda x: x.item())(layout(1))
    assert not F.in_graph_context()


def test_raw_calls_and_the_model():
    run = compile(lambda x, y: (x + y, x - y))(layout(2), layout(2))
    x, y = (Buffer.from_numpy(np.array(v, np.float32)) for v in ([3, 4], [1, 2]))
    assert [b.to_numpy().tolist() for b in run.execute_raw(x, y)] == [[4, 6], [2, 2]]
    assert [b.to_numpy().tolist() for b in run.engine_model.execute(x, y)] == [[4, 6], [2, 2]]
    assert run.signal_buffers == []


def test_from_engine_model():
    staged = stage(lambda x: x * 2, name="double")(layout("n"))
    session = InferenceSession()
    artifact = session.compile(staged.graph)
    run = CompiledCallable.from_engine_model(staged, artifact, session.init(artifact))
    assert array(run(Tensor([1, 2]))) == [2, 4]
    other = session.compile(Graph("other", lambda x: x + 1, [TensorType(F32, ["n"], CPU())]))
    with pytest.raises(ValueError, match="The model 'other' was not made from this artifact, which holds double"):
        CompiledCallable.from_engine_model(staged, artifact, session.init(other))
    triple = session.compile(stage(lambda x: x * 3, name="double")(layout("n")).graph)
    with pytest.raises(ValueError, match="The model 'double' was not made from this artifact"):
        CompiledCallable.from_engine_model(staged, artifact, session.init(triple))
    with pytest.raises(ValueError, match="The model 'other' is not the graph 'double'"):
        CompiledCallable.from_engine_model(staged, other, session.init(other))
    with pytest.raises(TypeError, match="engine_model must be a Model, not an object of type NoneType"):
        CompiledCallable.from_engine_model(staged, artifact, None)
    wide = session.compile(Graph("double", lambda x: x + 1, [TensorType(F32, ["n", 2], CPU())]))
    with pytest.raises(ValueError, match="inputs of the model"):
        CompiledCallable.from_engine_model(staged, wide, session.init(wide))


def test_from_compiled():
    session = InferenceSession()
    artifact = session.compile(Graph("g", lambda x: ops.exp(x), [TensorType(F32, [1], CPU())]))
    one = tree.flatten(layout(1), leaf=TensorLayout)[1]
    arguments = tree.flatten(((layout(1),), {}), leaf=TensorLayout)[1]
    run = CompiledCallable.from_compiled(artifact, session.init(artifact), [layout(1)], arguments, [layout(1)], one)
    assert array(run(Tensor([0]))) == [1]
    described = CompiledCallable.from_compiled(artifact, None, [layout(1)], arguments, [layout(1)], one)
    for call in (lambda: described(Tensor([0])), lambda: described.execute_raw(), lambda: described.engine_model):
        with pytest.raises(RuntimeError, match="^this callable has no initialized model; initialize its artifact and"):
            call()
    with pytest.raises(ValueError, match="in_tree has 1 leaves, but in_layouts has 2"):
        CompiledCallable.from_compiled(artifact, None, [layout(1)] * 2, arguments, [layout(1)], one)


def test_serialised_callables():
    run = compile(lambda x, by: {"y": x * by})(layout("n"), 3.0)
    kept = pickle.loads(pickle.dumps(run))
    assert (kept.in_layouts, kept.in_tree, kept.out_layouts, kept.out_tree) == (
        run.in_layouts, run.in_tree, run.out_layouts, run.out_tree)
    with pytest.raises(RuntimeError, match="no initialized model"):
        kept(Tensor([1]), 3.0)
    held = compile(lambda x, f: f(x))(layout(2), [lambda x: x][0])
    with pytest.raises(TypeError, match="that of argument 1, of type function, cannot be"):
        pickle.dumps(held)


def test_precompiled_mefs(tmp_path):
    run = compile(lambda x: x + 1, name="plus", session=InferenceSession(export_mefs=tmp_path))(layout(2))
    assert array(run(Tensor([1, 2]))) == [2, 3]
    assert sorted(os.path.splitext(f)[1] for f in os.listdir(tmp_path)) == [".json", ".mef"]
    session = InferenceSession(precompiled_mefs=tmp_path)
    assert array(compile(lambda x: x + 1, name="plus", session=session)(layout(2))(Tensor([1, 2]))) == [2, 3]
    with pytest.raises(RuntimeError, match="no precompiled artifact for graph 'minus'"):
        compile(lambda x: x - 1, name="minus", session=session)(layout(2))


def test_an_artifact_of_one_process_runs_in_another(tmp_path):
    compile(lambda x, y: x * y + 1)(layout("n"), layout("n")).export_mef(tmp_path / "m.mef")
    program = """
        import sys
        import numpy as np
        from kiln.engine import InferenceSession
        model = InferenceSession().load(sys.argv[1])
        print(model.execute(np.float32([1, 2]), np.float32([3, 4]))[0].to_numpy().tolist())
    """
    assert run_program(program, tmp_path / "m.mef") == ["[4.0, 9.0]"]


def test_a_mef_is_read_without_compiling(tmp_path):
    compile(lambda x: x * 2)(layout(2)).export_mef(tmp_path / "m.mef")
    assert read(tmp_path / "m.mef").names == ["_lambda_"]


def test_threads_share_a_callable():
    run = compile(lambda x, y: x @ y)(layout("n", 8), layout(8, 8))
    y = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    failures = []

    def work(n):
        x = np.full((n, 8), n, np.float32)
        for _ in range(100):
            if not np.allclose(run(Tensor(x), Tensor(y)).to_numpy(), x @ y, atol=1e-4):
                failures.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def bodies(staged):
    return re.findall(r"kiln.graph @(\w+)\(.*subgraph", str(staged))


def test_a_subgraph_is_recorded_once():
    @as_subgraph
    def layer(x, gain):
        return {"y": F.relu(x) * gain}

    def twice(x, y):
        first = layer(x, 2.0)["y"]
        return layer(first, 2.0)["y"], layer(x, 3.0)["y"], layer(y, 2.0)["y"]

    staged = stage(twice)(layout("n"), layout("m", 2))
    assert bodies(staged) == ["layer", "layer_1", "layer_2"]
    results = CompiledCallable(staged)(Tensor([-1, 2]), Tensor([[1, -2]]))
    assert [array(r) for r in results] == [[0, 8], [0, 6], [[2, 0]]]
    assert bodies(stage(twice, allow_subgraphs=False)(layout("n"), layout("n", 2))) == []
    # At once it is an ordinary function, and closures have bodies of their own.
    assert array(layer(Tensor([-1, 2]), 2.0)["y"]) == [0, 4]
    plus = [as_subgraph(lambda x, i=i: x + i, name="plus") for i in (1, 2)]
    staged = stage(lambda x: plus[1](plus[0](x)))(layout(1))
    assert bodies(staged) == ["plus", "plus_1"]
    assert array(CompiledCallable(staged)(Tensor([0]))) == [3]


def test_subgraphs_inside_of_subgraphs_are_inlined():
    inner = as_subgraph(lambda x: x * 2, name="inner")
    outer = as_subgraph(lambda x: inner(x) + 1, name="outer")
    staged = stage(lambda x: outer(outer(x)))(layout(2))
    assert bodies(staged) == ["outer"]
    assert array(CompiledCallable(staged)(Tensor([1, 2]))) == [7, 11]


def test_a_subgraph_writes_through_the_buffers_it_gets():
    @as_subgraph
    def count(state, x):
        state[...] = state + x
        return state, x * 2

    def step(state, x):
        same, doubled = count(state, x)
        same, doubled = count(same, doubled)
        return same + 0, doubled

    staged = stage(step)(buffer_layout(2), layout(2))
    assert bodies(staged) == ["count"]
    state = Tensor([0, 0])
    total, doubled = CompiledCallable(staged)(state, Tensor([1, 2]))
    assert (array(state), array(total), array(doubled)) == ([3, 6], [3, 6], [4, 8])


def test_what_a_subgraph_may_not_do():
    def creates(x):
        y = x + 1
        y[0] = x[1]
        return y

    for function in (as_subgraph(creates), lambda x: as_subgraph(creates)(x)):
        with pytest.raises(ValueError, match="create new buffer"):
            stage(function)(layout(2))
    with pytest.raises(TypeError, match="argument 0 was staged as a tensor"):
        stage(lambda b: as_subgraph(lambda x: x.__setitem__(0, x[1]) or x)(b + 0))(buffer_layout(2))
    assert not F.in_graph_context()


def test_named_layers_share_a_body():
    def layer(i):
        def forward(x):
            return x @ F.constant_external("w", TensorType(F32, [2, 2], CPU()))

        return as_subgraph(forward, name="layer", prefix=f"layers.{i}.")

    def model(x):
        for i in range(3):
            x = layer(i)(x)
        return x

    staged = stage(model)(layout("n", 2))
    assert bodies(staged) == ["layer"]
    weights = {f"layers.{i}.w": np.float32([[1, i], [0, 1]]) for i in range(3)}
    want = np.float32([[1, 1]])
    for w in weights.values():
        want = want @ w
    assert array(CompiledCallable(staged, weights)(Tensor([[1, 1]]))) == want.tolist()

    def misused(x):
        layer(0)(x)
        return layer(1)((x, x))

    with pytest.raises(TypeError, match="^layer argument 0: expected a Tensor, got tuple"):
        stage(misused)(layout("n", 2))
    with pytest.raises(ValueError, match="^layer tree structure mismatch at <root>: expected keys"):
        stage(lambda x: layer(1)(layer(0)(x), x))(layout("n", 2))
    with pytest.raises(ValueError, match="^layer argument 0: expected"):
        stage(lambda x: layer(1)(layer(0)(x)[:1]))(layout(3, 2))


def test_closures_leave_nothing_behind():
    kept = []

    def closure(i):
        held = Tensor(np.full([1 << 16], i, np.float32))

        def function(x):
            return x + held

        kept.append(weakref.ref(function))
        return function

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    layout, x = TensorLayout(F32, [1 << 16], CPU()), Tensor.zeros([1 << 16])
    before = 0
    for i in range(200):
        if i == 20:
            gc.collect()
            before = resident()
        run = compile(closure(i), name="closure")(layout)
        assert run(x)[5].item() == i
        del run
    gc.collect()
    assert not any(reference() for reference in kept)
    # Each of them holds 256 KiB.
    assert resident() - before < 25e6


def test_closures_that_hold_weights_are_subgraphs():
    weights = {f"layers.{i}.{name}": np.full(shape, i + 1, np.float32)
               for i in range(3) for name, shape in (("weight", (2, 2)), ("more.bias", (2,)))}

    def holding(weight, more):
        return lambda x: x @ weight + more["bias"]

    def model(x, share):
        for i in range(3):
            weight = F.constant_external(f"layers.{i}.weight", layout(2, 2))
            more = {"bias": F.constant_external(f"layers.{i}.more.bias", layout(2))}

            x = as_subgraph(holding(weight, more), name="layer" if share else None)(x)
        return x

    for share, count in ((True, 1), (False, 3)):
        staged = stage(model)(layout(1, 2), share)
        assert len(bodies(staged)) == count
        run = CompiledCallable(staged, weights)
        x = np.array([[1, 1]], np.float64)
        for i in range(3):
            x = x @ np.full((2, 2), i + 1) + i + 1
        np.testing.assert_array_equal(run(Tensor([[1, 1]]), share).to_numpy(), x)

    def misplaced(x):
        other = F.constant_external("layers.0.weight", layout(2, 2))
        return as_subgraph(lambda x: x @ other)(x)

    with pytest.raises(TypeError) as error:
        stage(misplaced)(layout(1, 2))
    assert str(error.value) == (
        "weight 'layers.0.weight' is stored at 'other' in this callable, but its name does not end with that path."
    )
