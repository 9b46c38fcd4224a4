"""The functions over tensors have the same names in Python and C++, and each says what it is."""

import ast
import inspect
import re
from pathlib import Path

from kiln._core.experimental.functional import Function
from kiln.experimental import functional as F

ROOT = Path(__file__).parents[2]

# Names of Python alone, and why.
OF_PYTHON = {
    "InterpolationMode": "an enumeration of kiln::graph::ops",
    "UnsupportedGraphError": "a class of kiln/experimental/executor.h",
    "set_default_executor": "in kiln/experimental/executor.h",
    "functional": "a decorator; C++ has stage and compile",
    "ensure_context": "lazy() may be called in any mode",
    "any_distributed": "a walk over nested Python values",
    "map_tensors": "a walk over nested Python values",
    "to_tensors": "a walk over nested Python values",
    "tensor_to_layout": "a walk over nested Python values",
    "per_shard_dispatch": "a walk over nested Python values",
    "distributed_broadcast": "of graphs: one value for each device; tensors on a mesh have transfer_to",
    "distributed_scatter": "of graphs: one value for each device; tensors on a mesh have transfer_to",
    "shard_and_stack": "of graphs: one value for each device; tensors on a mesh have transfer_to",
    "parallel": "of graphs: one value for each device; tensors on a mesh are one call",
}


def names_in_cpp():
    text = (ROOT / "kiln/experimental/functional.h").read_text()
    text = text[text.index("namespace functional {"):]
    return {
        *re.findall(r"^(?:inline |\[\[nodiscard\]\] )?[\w:<>, ]+[ >](\w+)\(", text, re.MULTILINE),
        *re.findall(r"^KILN_\w+\((\w+)[,)]", text, re.MULTILINE),
        *re.findall(r"^using \w+::(\w+);", text, re.MULTILINE),
    }


def test_names_are_those_of_cpp():
    missing = set(F.__all__) - names_in_cpp()
    assert missing - set(OF_PYTHON) == set(), "kiln/experimental/functional.h lacks these"
    assert set(OF_PYTHON) - missing == set(), "these need no reason: C++ has them, or Python has not"


def test_each_says_what_it_is():
    for name in F.__all__:
        function = getattr(F, name)
        assert function.__doc__ and function.__doc__ != type(function).__doc__, name
        if isinstance(function, type):
            continue
        signature = inspect.signature(function)
        assert signature.parameters or name in ("lazy", "in_graph_context", "ensure_context"), name
        assert "TensorValue'" not in str(signature), name
    assert F.sin.__doc__ == "The sine of radians."
    assert str(inspect.signature(F.sin)) == (
        "(x: 'kiln.graph.TensorValueLike') -> 'kiln._core.experimental.Tensor'"
    )
    assert inspect.signature(F.pad).parameters["mode"].default == "constant"
    assert list(inspect.signature(F.repeat_interleave).parameters) == ["x", "repeats", "axis", "out_dim"]


def test_signatures_are_those_of_the_stubs():
    stub = ast.parse((ROOT / "python/kiln/_core/experimental/functional.pyi").read_text())
    seen = set()
    for node in stub.body:
        function = getattr(F, node.name, None) if isinstance(node, ast.FunctionDef) else None
        if not isinstance(function, Function) or node.decorator_list:
            continue
        arguments = node.args
        written = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        plain = [p.name for p in inspect.signature(function).parameters.values()
                 if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        assert plain == written, node.name
        assert ast.get_docstring(node) == inspect.cleandoc(function.__doc__), node.name
        seen.add(node.name)
    assert len(seen) > 90
