"""kiln: tensor graphs become native code and run.

The submodules mirror the layers of the C++ library and load when they are first used:
`kiln.dtype`, `kiln.driver`, `kiln.gpu`, `kiln.graph`, `kiln.engine`, `kiln.weights`, `kiln.tree`,
`kiln.experimental`.

>>> import kiln
>>> kiln.dtype.DType.float32
float32
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING


def _is_built() -> bool:
    found = find_spec("kiln._core")
    return found is not None and found.origin is not None  # more than the folder of the stubs


if not _is_built():
    # In a source tree the extension lies in the build folder, which then joins the package.
    import os

    __path__.append(os.path.abspath(os.path.join(os.path.dirname(__file__), "../../build/release/python/kiln")))
    if not _is_built():
        raise ModuleNotFoundError(
            "kiln is not built: there is no extension kiln._core beside its Python files or in "
            f"{__path__[-1]}. Run `make build` in the source tree and let it finish, or `pip install .`.",
            name="kiln._core",
        )

from kiln._core import InternalError, __version__

if TYPE_CHECKING:
    from kiln import driver, dtype, engine, experimental, gpu, graph, tree, weights

_SUBMODULES = frozenset({"driver", "dtype", "engine", "experimental", "gpu", "graph", "tree", "weights"})

__all__ = [
    "InternalError",
    "__version__",
    "driver",
    "dtype",
    "engine",
    "experimental",
    "gpu",
    "graph",
    "tree",
    "weights",
]


def __getattr__(name: str):
    if name in _SUBMODULES:
        return import_module(f"kiln.{name}")
    raise AttributeError(f"module 'kiln' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | _SUBMODULES)
