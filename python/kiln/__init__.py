"""kiln: tensor graphs become native code and run.

The submodules mirror the layers of the C++ library and load when they are first used:
`kiln.dtype`, `kiln.driver`, `kiln.graph`, `kiln.engine`, `kiln.weights`.

>>> import kiln
>>> kiln.dtype.DType.float32
float32
"""

from importlib import import_module
from typing import TYPE_CHECKING

try:
    import_module("kiln._core")
except ModuleNotFoundError:
    # In a source tree the extension lies in the build folder, which then joins the package.
    import os

    _built = os.path.join(os.path.dirname(__file__), "../../build/release/python/kiln")
    if not os.path.isdir(_built):
        raise
    __path__.append(os.path.abspath(_built))

from kiln._core import InternalError, __version__

if TYPE_CHECKING:
    from kiln import driver, dtype, engine, graph, weights

_SUBMODULES = frozenset({"driver", "dtype", "engine", "graph", "weights"})

__all__ = ["InternalError", "__version__", "driver", "dtype", "engine", "graph", "weights"]


def __getattr__(name: str):
    if name in _SUBMODULES:
        return import_module(f"kiln.{name}")
    raise AttributeError(f"module 'kiln' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | _SUBMODULES)
