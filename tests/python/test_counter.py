"""The stateful example: a buffer that a graph reads and writes."""

from __future__ import annotations

import numpy as np
import pytest

from examples.counter.counter import load_counter
from kiln.driver import Buffer

pytestmark = pytest.mark.engine


def test_counter_returns_the_old_contents_and_leaves_the_new():
    model = load_counter(4)
    state = Buffer.from_numpy(np.array([0, 1, 2, 3], np.float32))
    for step in range(3):
        before = model.execute(state)[0].to_numpy()
        np.testing.assert_array_equal(before, np.arange(4) + step)
        np.testing.assert_array_equal(state.to_numpy(), np.arange(4) + step + 1)


def test_counter_writes_the_memory_of_a_numpy_array():
    model = load_counter(4)
    state = np.zeros(4, np.float32)
    model.execute(state)
    np.testing.assert_array_equal(state, np.ones(4, np.float32))


def test_counter_refuses_memory_it_may_not_write():
    model = load_counter(4)
    frozen = np.zeros(4, np.float32)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="is a buffer that the graph may write"):
        model.execute(frozen)
    np.testing.assert_array_equal(frozen, 0)
