"""Modules: parameters, state and compiling. Expected values are NumPy's."""

import logging

import numpy as np
import pytest

from kiln.driver import CPU
from kiln.dtype import DType
from kiln.engine import InferenceSession
from kiln.experimental import functional as F
from kiln.experimental.compilation import stage
from kiln.experimental.nn import Module, module_dataclass, subgraphable
from kiln.experimental.sharding import TensorLayout
from kiln.experimental.tensor import Tensor
from kiln.graph import Graph

pytestmark = pytest.mark.experimental
F32 = DType.float32


class Linear(Module):
    def __init__(self, random, size_in, size_out):
        self.weight = Tensor(random.standard_normal((size_in, size_out)).astype(np.float32))
        self.bias = Tensor(random.standard_normal(size_out).astype(np.float32))

    def forward(self, x):
        return x @ self.weight + self.bias


class Block(Module):
    def __init__(self, random, size):
        self.layers = [Linear(random, size, 2 * size), Linear(random, 2 * size, size)]
        self.scale = Tensor(np.full(size, 2, np.float32))
        self.named = {"last": Linear(random, size, size), "shift": Tensor(0.5)}

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x))
        return self.named["last"](x * self.scale) + self.named["shift"]


NAMES = ["scale", "named.shift", "layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias",
         "named.last.weight", "named.last.bias"]


@pytest.fixture
def block():
    return Block(np.random.default_rng(0), 3)


@pytest.fixture
def x():
    return np.random.default_rng(1).standard_normal((5, 3)).astype(np.float32)


def expected(block, x):
    p = {name: tensor.to_numpy().astype(np.float64) for name, tensor in block.parameters}
    for layer in ("layers.0", "layers.1"):
        x = np.maximum(x @ p[f"{layer}.weight"] + p[f"{layer}.bias"], 0)
    return (x * p["scale"]) @ p["named.last.weight"] + p["named.last.bias"] + p["named.shift"]


def test_names(block):
    assert [name for name, _ in block.parameters] == NAMES
    assert [name for name, _ in block.local_parameters] == ["scale", "named.shift"]
    assert [name for name, _ in block.children] == ["layers.0", "layers.1", "named.last"]
    outer = Module()
    outer.block = block
    assert [name for name, _ in outer.descendants] == ["block", "block.layers.0", "block.layers.1", "block.named.last"]
    assert block.device is CPU() and Module().device is CPU()


def test_runs_at_once_and_compiled(block, x):
    np.testing.assert_allclose(block(Tensor(x)).to_numpy(), expected(block, x), rtol=1e-5, atol=1e-5)
    run = block.compile(TensorLayout(F32, ["n", 3], CPU()))
    for n in (5, 1):
        np.testing.assert_allclose(run(Tensor(x[:n])).to_numpy(), expected(block, x[:n]), rtol=1e-5, atol=1e-5)
    assert sorted(run.weights) == sorted(NAMES)
    assert all(tensor.real for _, tensor in block.parameters)


def test_weights_in_the_place_of_parameters(block, x):
    bias = np.arange(3, dtype=np.float32)
    run = block.compile(TensorLayout(F32, ["n", 3], CPU()), weights={"named.last.bias": bias})
    want = expected(block, x) - dict(block.parameters)["named.last.bias"].to_numpy() + bias
    np.testing.assert_allclose(run(Tensor(x)).to_numpy(), want, rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="did not use some weights: {'nobody'}"):
        block.compile(TensorLayout(F32, ["n", 3], CPU()), weights={"nobody": bias})


def test_trace(block, x):
    graph = block.trace(TensorLayout(F32, ["n", 3], CPU()))
    assert isinstance(graph, Graph) and graph.name == "Block"
    model = InferenceSession().load(graph, weights_registry={n: t.to_numpy() for n, t in block.parameters})
    np.testing.assert_allclose(model.execute(x)[0].to_numpy(), expected(block, x), rtol=1e-5, atol=1e-5)


def test_parameters_are_replaced_in_place_or_on_a_copy(block):
    doubled = block.map_parameters(lambda name, tensor: tensor * 2)
    for (name, old), (same, new) in zip(block.parameters, doubled.parameters, strict=True):
        assert name == same and np.array_equal(new.to_numpy(), 2 * old.to_numpy())
    seen = []
    block.apply_to_parameters(lambda name, tensor: seen.append(name) or tensor.cast(DType.float64))
    assert seen == NAMES and {t.dtype for _, t in block.parameters} == {DType.float64}
    assert block.to(CPU()) is block
    block.load_state(lambda name, old: Tensor.zeros_like(old))
    assert all(not tensor.to_numpy().any() for _, tensor in block.parameters)


def test_load_state_dict(block, caplog):
    state = {name: tensor.to_numpy() + 1 for name, tensor in block.parameters}
    block.load_state_dict(state)
    assert all(np.array_equal(tensor.to_numpy(), state[name]) for name, tensor in block.parameters)
    with pytest.raises(KeyError, match="no weight 'scale'"):
        block.load_state_dict({})
    with pytest.raises(TypeError, match="^load_state_dict: the weight .scale. must be an array .* of type int.$"):
        block.load_state_dict({**state, "scale": 3})
    with pytest.raises(TypeError, match="^load_state_dict takes weights as a mapping .* object of type set.$"):
        block.load_state_dict({"scale"})
    with pytest.raises(ValueError, match=r"^load_state_dict did not use some weights: {'a', 'b'}$"):
        block.load_state_dict({**state, "a": state["scale"], "b": state["scale"]})
    block.load_state_dict({**state, "a": state["scale"]}, strict=False)
    with pytest.raises(ValueError, match=r"the weight 'scale' has shape \[2\], but the parameter has shape \[3\]"):
        block.load_state_dict({**state, "scale": np.zeros(2, np.float32)})
    narrow = {name: Tensor(array).cast(DType.bfloat16) for name, array in state.items()}
    with pytest.raises(ValueError, match="is bfloat16, but the parameter is float32"):
        block.load_state_dict(narrow)
    with caplog.at_level(logging.WARNING):
        block.load_state_dict(narrow, auto_cast=True)
        half = block.map_parameters(lambda name, tensor: tensor.cast(DType.bfloat16))
        half.load_state_dict(state, auto_cast=True)
    assert [r.getMessage() for r in caplog.records] == [
        "load_state_dict cast 8 weights from bfloat16 to float32.",
        "load_state_dict cast 8 weights from float32 to bfloat16 (precision loss).",
    ]


def test_a_state_that_fails_changes_nothing(block):
    before = {name: tensor.to_numpy().copy() for name, tensor in block.parameters}
    state = {name: array + 1 for name, array in before.items()}
    with pytest.raises(ValueError):
        block.load_state_dict({**state, "named.last.bias": np.zeros(7, np.float32)})
    assert all(np.array_equal(tensor.to_numpy(), before[name]) for name, tensor in block.parameters)


def test_forward_is_each_classs_own():
    with pytest.raises(NotImplementedError, match=r"^Module must implement forward\(\)"):
        Module()(1)


def test_repr(block):
    assert repr(Linear(np.random.default_rng(0), 2, 3)) == "Linear(\n  weight: float32 [2, 3]\n  bias: float32 [3]\n)"
    assert "\n  layers.0: Linear(\n    weight: float32 [3, 6]" in repr(block)


def test_module_dataclass():
    @module_dataclass
    class Affine(Module):
        weight: Tensor
        bias: Tensor
        name: str = "affine"

        def forward(self, x):
            return x * self.weight + self.bias

    module = Affine(Tensor([2, 3]), bias=Tensor([1, 1]))
    assert [name for name, _ in module.parameters] == ["weight", "bias"]
    assert module(Tensor([1, 2])).to_numpy().tolist() == [3, 7]
    assert module.compile(TensorLayout(F32, [2], CPU()))(Tensor([1, 2])).to_numpy().tolist() == [3, 7]
    with pytest.raises(TypeError, match="must be a subclass of Module"):
        module_dataclass(type("Plain", (), {}))


@subgraphable
class Layer(Module):
    def __init__(self, random, size):
        self.linear = Linear(random, size, size)
        self.gain = Tensor(random.standard_normal(size).astype(np.float32))

    def forward(self, x):
        return x + F.relu(self.linear(x)) * self.gain


class Stack(Module):
    def __init__(self, random, size, count):
        self.layers = [Layer(random, size) for _ in range(count)]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def test_repeated_layers_are_one_subgraph(x):
    stack = Stack(np.random.default_rng(0), 3, 4)
    graph = stack.trace(TensorLayout(F32, ["n", 3], CPU()))
    assert str(graph.module).count(" subgraph") == 1
    run = stack.compile(TensorLayout(F32, ["n", 3], CPU()))
    assert sorted(run.weights) == sorted(name for name, _ in stack.parameters)
    want = x.astype(np.float64)
    for layer in stack.layers:
        p = {name: tensor.to_numpy().astype(np.float64) for name, tensor in layer.parameters}
        want = want + np.maximum(want @ p["linear.weight"] + p["linear.bias"], 0) * p["gain"]
    np.testing.assert_allclose(run(Tensor(x)).to_numpy(), want, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(stack(Tensor(x)).to_numpy(), want, rtol=1e-5, atol=1e-5)
    inlined = stack.compile(TensorLayout(F32, ["n", 3], CPU()), allow_subgraphs=False)
    np.testing.assert_allclose(inlined(Tensor(x)).to_numpy(), want, rtol=1e-5, atol=1e-5)


def test_a_weight_whose_name_is_not_its_place():
    layer = Layer(np.random.default_rng(0), 3)

    def function(x):
        layer.apply_to_parameters(lambda name, t: F.constant_external(f"a.{name}s", t.layout))
        return layer(x)

    text = "^weight 'a.gains' is stored at 'gain' in this callable, but its name does not end with that path.$"
    with pytest.raises(TypeError, match=text):
        stage(function)(TensorLayout(F32, [1, 3], CPU()))
