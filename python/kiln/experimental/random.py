"""Random tensors. What runs at once draws from one seed of the process, which every op advances; in a graph that is
being built, the graph's seed counts, as for `kiln.graph.ops.random`.

>>> set_seed(7)
>>> first = uniform([2, 3])
>>> set_seed(7)
>>> (uniform([2, 3]) == first).to_numpy().all()
np.True_
"""

from collections.abc import Iterable
from typing import Any

from kiln._core.experimental import _gaussian, _set_seed, _uniform
from kiln.driver import Device, DLPackArray
from kiln.dtype import DType
from kiln.experimental.sharding import DeviceMapping, DeviceMesh, TensorLayout
from kiln.experimental.tensor import Tensor
from kiln.graph import DeviceRef, Dim, TensorType, TensorValue

__all__ = ["gaussian", "gaussian_like", "normal", "normal_like", "set_seed", "uniform", "uniform_like"]

Parameter = Tensor | TensorValue | DLPackArray | bool | int | float
Place = Device | DeviceRef | DeviceMesh | DeviceMapping
Like = Tensor | TensorType | TensorLayout


def set_seed(value: int) -> None:
    """Sets the seed of the process, an int in the range of uint64, or that of the graph that is being built."""
    _set_seed(value)


def _parameter(value: Any) -> Any:
    if isinstance(value, Tensor | bool | int | float):
        return value
    if isinstance(value, TensorValue):
        return Tensor.from_graph_value(value)
    return Tensor.from_dlpack(value) if hasattr(value, "__dlpack__") else value


def _bounds(range: Any) -> tuple[Any, Any]:
    if not isinstance(range, tuple | list) or len(range) != 2:
        raise ValueError(f"uniform: range is a pair, the lower and the upper bound, not {range!r}.")
    return _parameter(range[0]), _parameter(range[1])


def uniform(
    shape: Iterable[Dim | int | str],
    range: tuple[Parameter, Parameter] = (0, 1),
    *,
    dtype: DType | None = None,
    device: Place | None = None,
) -> Tensor:
    """Numbers in the half-open range, whose bounds may be tensors of rank 0. On a mapping each device holds its part of
    one tensor: copies are equal."""
    return _uniform(shape, *_bounds(range), dtype, device)


def gaussian(
    shape: Iterable[Dim | int | str],
    mean: Parameter = 0,
    std: Parameter = 1,
    *,
    dtype: DType | None = None,
    device: Place | None = None,
) -> Tensor:
    """Normally distributed numbers, whose parameters may be tensors of rank 0, placed as those of `uniform`."""
    return _gaussian(shape, _parameter(mean), _parameter(std), dtype, device)


def _of(like: Like) -> dict[str, Any]:
    place = like.device if isinstance(like, TensorType) else like.mapping
    return {"shape": like.shape, "dtype": like.dtype, "device": place}


def uniform_like(like: Like, range: tuple[Parameter, Parameter] = (0, 1)) -> Tensor:
    """As `uniform`, with the shape, dtype and placement of a tensor or a type."""
    return uniform(range=range, **_of(like))


def gaussian_like(like: Like, mean: Parameter = 0, std: Parameter = 1) -> Tensor:
    """As `gaussian`, with the shape, dtype and placement of a tensor or a type."""
    return gaussian(mean=mean, std=std, **_of(like))


normal, normal_like = gaussian, gaussian_like
