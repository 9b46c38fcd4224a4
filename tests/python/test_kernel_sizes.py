"""Long chains of ops become several kernels, most of them the same one, so that compiling stays near linear."""

import json
import re

import numpy as np
import pytest

from kiln.driver import CPU
from kiln.dtype import DType
from kiln.experimental import functional as F
from kiln.experimental.compilation import compile
from kiln.experimental.sharding import TensorLayout
from kiln.experimental.tensor import Tensor


def chain(function, length):
    def run(x):
        for _ in range(length):
            x = function(x)
        return x

    return compile(run)(TensorLayout(DType.float32, ["n"], CPU()))


def kernels_of(callable):
    page = re.search(r'<script type="application/json" id="data">(.*?)</script>', callable.explain(), re.DOTALL)
    return json.loads(page[1])["artifact"]["plan"]["kernels"]


@pytest.mark.parametrize("name, most", [("sin", 5), ("exp", 22), ("abs", 65)])
def test_code_of_a_chain(name, most):
    function = getattr(F, name)
    short, long = kernels_of(chain(function, 3 * most)), kernels_of(chain(function, 12 * most))
    assert len(short) >= 3 and len(long) >= 12
    # The first reads the argument, the last writes the result, and all between are one.
    assert len({kernel["symbol"] for kernel in long}) == len({kernel["symbol"] for kernel in short}) <= 4


def test_values_of_a_chain():
    x = np.linspace(-3, 3, 101, dtype=np.float32)
    expected = x.astype(np.float64)
    for _ in range(50):
        expected = np.sin(expected)
    np.testing.assert_allclose(chain(F.sin, 50)(Tensor(x)).to_numpy(), expected, atol=2e-6)
