"""Files that hold the weights of models.

>>> from kiln.weights import load_safetensors
>>> load_safetensors("missing.safetensors")
Traceback (most recent call last):
    ...
FileNotFoundError: ...
"""

from collections.abc import Mapping

from kiln._core.weights import Safetensors, load_safetensors

Mapping.register(Safetensors)

__all__ = ["Safetensors", "load_safetensors"]
