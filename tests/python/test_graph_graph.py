import copy
import inspect
import threading
import warnings

import pytest

from kiln.driver import CPU
from kiln.dtype import DType
from kiln.graph import (
    BufferType,
    DevicePlacementPolicy,
    DeviceRef,
    Dim,
    Graph,
    Module,
    TensorType,
    ops,
)

pytestmark = pytest.mark.graph
F32 = DType.float32


def tensor(*shape, device=None):
    return TensorType(F32, shape, device or CPU())


def double(name="double", **arguments):
    return Graph(name, lambda x: x * 2, [tensor("n")], **arguments)


def test_forward():
    seen = []

    def forward(x, y, factor, *, offset):
        seen.append(Graph.current)
        return x * factor + offset, y

    g = Graph("g", forward, [tensor("n"), tensor(3)], None, 2, offset=1)
    assert seen == [g] and g.name == "g"
    assert g.output_types == [tensor("n"), tensor(3)]
    assert [v.type for v in g.inputs] == [tensor("n"), tensor(3)] and isinstance(g.inputs, tuple)
    assert Graph("none", lambda: None).output_types == []
    assert Graph("dim", lambda x: x.shape[0], [tensor("n")]).output_types == [TensorType(DType.int64, [], CPU())]


def test_context():
    with pytest.raises(LookupError, match="No graph found"):
        Graph.current
    with Graph("a") as a:
        assert Graph.current == a
        with Graph("b") as b:
            assert Graph.current == b != a
        assert Graph.current == a
    with pytest.raises(LookupError):
        Graph.current


def test_an_exception_passes_and_leaves_the_graph_printable():
    with pytest.raises(KeyError, match="mine"):
        with Graph("g", input_types=[tensor(2)]) as g:
            g.inputs[0] + 1
            raise KeyError("mine")
    assert "kiln.add" in str(g)
    with pytest.raises(LookupError):
        Graph.current
    with pytest.raises(ZeroDivisionError):
        Graph("h", lambda x: 1 // 0, [tensor(2)])
    with pytest.raises(LookupError):
        Graph.current


def test_output():
    with Graph("g", input_types=[tensor("n")]) as g:
        with pytest.raises(TypeError, match="Graph not yet terminated by a call to output"):
            g.output_types
        g.output(g.inputs[0], g.inputs[0].shape[0])
        assert len(g.output_types) == 2
        with pytest.raises(ValueError, match="graph 'g' already has an output"):
            g.output()


def test_input_types():
    with pytest.raises(ValueError):
        Graph("g", input_types=[tensor(Dim("n") + 1)])
    with pytest.raises(TypeError):
        Graph("g", input_types=[F32])


def test_text_round_trip(tmp_path):
    g = double()
    text = str(g)
    assert text == repr(g) and text.startswith("kiln.module version 1 {") and "kiln.graph @double(" in text
    path = tmp_path / "g.ir"
    path.write_text(text)
    for where in (path, str(path)):
        assert str(Graph("ignored", path=where)) == text
    path.write_text(text.replace("kiln.mul", "kiln.nothing"))
    with pytest.raises(ValueError, match=":"):
        Graph("g", path=path)
    with pytest.raises(FileNotFoundError):
        Graph("g", path=tmp_path / "missing")
    with Graph("c") as c:
        c.output(ops.constant(list(range(100)), F32, CPU()))
    assert "elided" in c.to_text(elide_constants_above=10) and "elided" not in str(c)


def test_copies():
    g = double()
    for c in (g.copy(), copy.copy(g), copy.deepcopy(g)):
        assert c != g and str(c) == str(g) and c.module != g.module
    assert g == g and len({g, g.copy()}) == 2


def test_modules():
    module = Module()
    a, b = double("a", module=module), double("b", module=module)
    assert module.top_level_graph_names() == ["a", "b"] and a.module == b.module == module
    assert "@a" in str(module) and "@b" in str(module) and "@b" not in str(a)


def test_subgraphs():
    with Graph("g", input_types=[tensor("n")]) as g:
        block = g.add_subgraph("block", lambda x: x + 1, [tensor("n")])
        y = ops.call(block, g.inputs[0])[0]
        z = ops.call(block, y)[0]
        with pytest.raises(ValueError, match="Expected 1 args to call to block, got 0."):
            ops.call(block)
        with pytest.raises(ValueError, match="wrong type"):
            ops.call(block, ops.constant([1], DType.int32, CPU()))
        with pytest.raises(ValueError):
            g.add_subgraph("block", lambda x: x, [tensor("n")])
        g.output(z)
    assert str(g).count("kiln.call @") == 2


def test_control_flow():
    with Graph("g", input_types=[tensor(), TensorType(DType.bool, [], CPU())]) as g:
        x, p = g.inputs
        a, b = ops.cond(p, [x.type, x.type], lambda: (x + 1, x), lambda: [x, x + 2])
        assert a.type == b.type == x.type
        assert ops.cond(p, None, lambda: None, lambda: None) == []
        with pytest.raises(TypeError, match="Results don't match expected types: "):
            ops.cond(p, [x.type], lambda: None, lambda: x)
        with pytest.raises(ValueError):
            ops.cond(x, [x.type], lambda: x, lambda: x)
        i, y = ops.while_loop([x, x], lambda i, y: i < 3, lambda i, y: [i + 1, y * 2])
        assert i.type == y.type == x.type
        (single,) = ops.while_loop([x], lambda i: i < 3, lambda i: i + 1)
        assert single.type == x.type
        with pytest.raises(ValueError, match="While loops must have at least one iteration value."):
            ops.while_loop([], lambda: p, lambda: [])
        with pytest.raises(KeyError, match="inside"):
            ops.cond(p, [x.type], lambda: {}["inside"], lambda: x)


def test_chains():
    with Graph("g", input_types=[BufferType(F32, [2], CPU())]) as g:
        before = g.device_chains[DeviceRef.CPU()]
        ops.buffer_store(g.inputs[0], ops.buffer_load(g.inputs[0]) + 1)
        assert g.device_chains[CPU()] is not before
        assert g.always_ready_chain.type == g.device_chains[CPU()].type


def here():
    return inspect.currentframe().f_back.f_lineno


def test_source_lines():
    with Graph("g", input_types=[tensor(2)]) as g:
        line, _ = here(), g.inputs[0] + 1
    assert f'loc("{__file__}":{line})' in g.to_text(source_locations=True)
    assert "loc(" not in str(g)


def test_source_tracebacks():
    assert Graph.debug.source_tracebacks is False
    Graph.debug.source_tracebacks = True
    try:
        with Graph("g", input_types=[tensor(2)]) as g:
            g.output(helper(g.inputs[0]))
    finally:
        Graph.debug.source_tracebacks = False
    assert g.output_types == [tensor(2)]


def helper(x):
    return x + 1


def test_device_placement():
    gpu = DeviceRef.GPU()

    def tile(policy):
        with Graph("g", input_types=[tensor(2, device=gpu)], strict_device_placement=policy) as g:
            return ops.tile(g.inputs[0], [2])

    text = r"`ops.tile` does not support GPU execution and will implicitly transfer the tensor to CPU."
    with pytest.warns(UserWarning, match=text):
        assert tile(DevicePlacementPolicy.Warn).device == gpu
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tile(DevicePlacementPolicy.Ignore)
        with pytest.raises(UserWarning, match=text):
            tile(DevicePlacementPolicy.Warn)
    with pytest.raises(ValueError, match=text):
        tile(DevicePlacementPolicy.Error)


def test_threads_have_their_own_current_graph():
    seen = []

    def build():
        try:
            Graph.current
        except LookupError:
            seen.append("none")
        seen.append(str(double()))

    with Graph("outer"):
        thread = threading.Thread(target=build)
        thread.start()
        thread.join()
    assert seen[0] == "none" and seen[1] == str(double())


def test_one_graph_in_two_threads():
    errors = []
    with Graph("g", input_types=[tensor(2)]) as g:

        def build():
            try:
                with g:
                    pass
            except RuntimeError as error:
                errors.append(error)

        thread = threading.Thread(target=build)
        thread.start()
        thread.join()
    assert len(errors) == 1
