"""
Random numbers, the same on every device, from the seed of the current graph.
"""

from collections.abc import Sequence

import kiln._core.driver
import kiln._core.graph
import kiln.graph


def SeedType(device: kiln._core.graph.DeviceRef | kiln._core.driver.Device) -> kiln._core.graph.TensorType:
    """The type of a seed that is passed at each execution."""

def set_seed(seed: kiln.graph.TensorValueLike = 0) -> None:
    """
    Sets the seed of the current graph: an int, or an integer tensor of one element.

    Each random op uses the current seed s and leaves s + 1.
    """

def uniform(like: kiln._core.graph.TensorType, range: Sequence = (0, 1)) -> kiln._core.graph.TensorValue:
    """
    Numbers in the half-open range with the shape, dtype and device of `like`.
    """

def normal(like: kiln._core.graph.TensorType, mean: kiln.graph.TensorValueLike = 0, std: kiln.graph.TensorValueLike = 1) -> kiln._core.graph.TensorValue:
    """
    Normally distributed numbers with the shape, dtype and device of `like`.
    """

def gaussian(like: kiln._core.graph.TensorType, mean: kiln.graph.TensorValueLike = 0, std: kiln.graph.TensorValueLike = 1) -> kiln._core.graph.TensorValue:
    """
    Normally distributed numbers with the shape, dtype and device of `like`.
    """
