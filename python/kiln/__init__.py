"""kiln: tensor graphs become native code and run.

The submodules mirror the layers of the C++ library and load when they are first used:
`kiln.dtype`, `kiln.driver`, `kiln.graph`, `kiln.engine`, `kiln.weights`.

>>> import kiln
>>> kiln.dtype.DType.float32
float32
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

_found = find_spec("kiln._core")
if _found is None or _found.origin is None:  # nothing, or no more than the folder of the stubs
    # In a source tree the extension lies in the build folder, which then joins the package.
    import os

    _built = os.path.join(os.path.dirname(__file__), "../../build/release/python/kiln")
    if not os.path.isdir(_built):
        raise ModuleNotFoundError("The extension kiln._core is not built.", name="kiln._core")
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
