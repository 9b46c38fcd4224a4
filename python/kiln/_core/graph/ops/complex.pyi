"""Complex numbers as pairs in the last axis."""

import kiln._core.graph
import kiln.graph


def mul(lhs: kiln.graph.TensorValueLike, rhs: kiln.graph.TensorValueLike) -> kiln._core.graph.TensorValue:
    """
    The product of complex numbers whose parts lie in the last axis of size 2.
    """
