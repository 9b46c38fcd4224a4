"""Preparing quantised weights."""

import kiln._core.graph
import kiln.graph


def repack_gguf_quantized_weights(weight: kiln.graph.TensorValueLike, encoding: kiln._core.graph.QuantizationEncoding) -> kiln._core.graph.TensorValue:
    """
    The blocks of a GGUF weight in the order that qmatmul reads best; the shape stays.
    """
