"""Where tensors live: meshes of devices, placements, mappings and layouts.

>>> from kiln.driver import CPU
>>> from kiln.dtype import DType
>>> mesh = DeviceMesh([CPU()] * 4, (2, 2), ("dp", "tp"))
>>> layout = TensorLayout(DType.float32, ["batch", 10], NamedMapping(mesh, ("dp", "tp")))
>>> layout
TensorLayout(DType.float32, [batch, 10], DeviceMapping(DeviceMesh(dp=2, tp=2), [Sharded(axis=0), Sharded(axis=1)]))
>>> [type.shape for type in layout.local_types]
[[Dim('batch_dp_0'), Dim(5)], [Dim('batch_dp_0'), Dim(5)], [Dim('batch_dp_1'), Dim(5)], [Dim('batch_dp_1'), Dim(5)]]
"""

import threading
from collections.abc import Iterable
from contextlib import ContextDecorator
from typing import Literal

from kiln._core.experimental import (
    BufferLayout,
    ConversionError,
    DeviceMapping,
    DeviceMesh,
    NamedMapping,
    Partial,
    PlacementMapping,
    ReduceOp,
    Replicated,
    Sharded,
    ShardingError,
    TensorLayout,
    Unknown,
    _all_transitions,
    _AutoReshard,
    _default_transitions,
    as_layout,
    get_active_mesh,
    mesh_context,
)

__all__ = [
    "ALL_TRANSITIONS",
    "DEFAULT_TRANSITIONS",
    "BufferLayout",
    "ConversionError",
    "DeviceMapping",
    "DeviceMesh",
    "NamedMapping",
    "Partial",
    "Placement",
    "PlacementMapping",
    "ReduceOp",
    "Replicated",
    "Sharded",
    "ShardingError",
    "TensorLayout",
    "Unknown",
    "as_layout",
    "auto_reshard",
    "get_active_mesh",
    "mesh_context",
]

# One for each axis of a mesh.
Placement = Replicated | Sharded | Partial | Unknown

_KINDS: list[type] = [Replicated, Sharded, Partial, Unknown]
Transition = tuple[type, type]
# Every change of a placement that can be done, and those that ops do by themselves.
ALL_TRANSITIONS: frozenset[Transition] = frozenset((_KINDS[a], _KINDS[b]) for a, b in _all_transitions)
DEFAULT_TRANSITIONS: frozenset[Transition] = frozenset((_KINDS[a], _KINDS[b]) for a, b in _default_transitions)


class auto_reshard(ContextDecorator):  # noqa: N801: a block, as mesh_context
    """Sets what ops may do by themselves to inputs whose placements they do not accept; a block or a decorator.

    `allowed_transitions` is a set of pairs of placement types, from and to. When data has to move, `mode` "silent"
    moves it, "warn" moves it with a UserWarning, and "raise" is a ShardingError that says what would have to move.

    >>> with auto_reshard({(Sharded, Replicated)}, mode="warn"):
    ...     pass
    """

    _MODES = ("silent", "warn", "raise")

    def __init__(
        self,
        allowed_transitions: Iterable[Transition] | None = None,
        *,
        mode: Literal["silent", "warn", "raise"] | None = None,
    ) -> None:
        if mode is not None and mode not in self._MODES:
            raise ValueError(f"auto_reshard: mode is {mode!r}, but must be 'silent', 'warn' or 'raise'.")
        allowed = DEFAULT_TRANSITIONS if allowed_transitions is None else list(allowed_transitions)
        for pair in allowed:
            if not isinstance(pair, tuple) or len(pair) != 2 or not all(kind in _KINDS for kind in pair):
                raise TypeError(
                    f"auto_reshard: {pair!r} is no transition; one is a pair of placement types, such as "
                    "(Sharded, Replicated)."
                )
            if pair not in ALL_TRANSITIONS:
                names = ", ".join(sorted(f"({a.__name__}, {b.__name__})" for a, b in ALL_TRANSITIONS))
                raise TypeError(
                    f"auto_reshard: ({pair[0].__name__}, {pair[1].__name__}) is no change that can be done; those are "
                    f"{names}."
                )
        self._settings = [(_KINDS.index(a), _KINDS.index(b)) for a, b in allowed], self._MODES.index(mode or "silent")
        self._open = threading.local()  # a decorated function may run on several threads at a time

    def __enter__(self) -> "auto_reshard":
        block = _AutoReshard(*self._settings)
        block.__enter__()
        self._open.blocks = [*getattr(self._open, "blocks", ()), block]
        return self

    def __exit__(self, *exception: object) -> None:
        self._open.blocks.pop().__exit__()
