"""
The native part of kiln. Use the modules kiln.dtype, kiln.driver, kiln.graph, ….
"""

from kiln._core import (
    driver as driver,
    dtype as dtype,
    engine as engine,
    experimental as experimental,
    gpu as gpu,
    graph as graph,
    weights as weights
)


class InternalError(RuntimeError):
    """A broken invariant of kiln itself; please report it."""

def _end_of_interpreter() -> None: ...

__version__: str
