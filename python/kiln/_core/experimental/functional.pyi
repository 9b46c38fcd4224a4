"""Functions over tensors."""

from collections.abc import Callable, Iterable, Sequence
import enum
import kiln._core.driver
import kiln._core.dtype
import kiln._core.graph
import kiln.graph
from typing import Any

import kiln._core.experimental
from kiln._core.graph.ops import (
    InterpolationMode as InterpolationMode
)


class Function:
    """A function over tensors that is made of one over graph values."""

    def __call__(self, /, *args, **kwargs):
        """Call self as a function."""

    def __init__(self, op: object, name: str, is_store: bool = False) -> None: ...

    def __getattr__(self, arg: str, /) -> str: ...

    @property
    def __wrapped__(self) -> object: ...

    @property
    def __signature__(self) -> object: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def __repr__(self) -> str: ...

class _OwnText:
    """The text of a class, and of each of its objects its own."""

    def __get__(self, object: object | None, owner: object | None = None) -> object: ...

def add(lhs: kiln.graph.TensorValueLike, rhs: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """The sum; operands promote and broadcast."""

def sub(lhs: kiln.graph.TensorValueLike, rhs: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """The difference; operands promote and broadcast."""

def mul(lhs: kiln.graph.TensorValueLike, rhs: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """The product; operands promote and broadcast."""

def div(lhs: kiln.graph.TensorValueLike, rhs: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """True division; two integers become float64 first."""

def floor_div(lhs: kiln.graph.TensorValueLike, rhs: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """`floor(div(lhs, rhs))`."""

def mod(lhs: kiln.graph.TensorValueLike, rhs: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """The remainder with the sign of the divisor."""

def pow(lhs: kiln.graph.TensorValueLike, rhs: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """`lhs` to the power of `rhs`."""

def equal(lhs: kiln.graph.TensorValueLike, rhs: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """Elementwise `==`, bool."""

def not_equal(lhs: kiln.graph.TensorValueLike, rhs: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """Elementwise `!=`, bool."""

def greater(lhs: kiln.graph.TensorValueLike, rhs: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """Elementwise `>`, bool."""

def greater_equal(lhs: kiln.graph.TensorValueLike, rhs: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """Elementwise `>=`, bool."""

def logical_and(lhs: kiln.graph.TensorValueLike, rhs: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """Elementwise and of bools."""

def logical_or(lhs: kiln.graph.TensorValueLike, rhs: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """Elementwise or of bools."""

def logical_xor(lhs: kiln.graph.TensorValueLike, rhs: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """Elementwise exclusive or of bools."""



def abs(x: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """Absolute value."""

def negate(x: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """The negative."""

def relu(x: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """`max(x, 0)`."""

def ceil(x: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """Rounded up."""

def floor(x: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """Rounded down."""

def trunc(x: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """Rounded toward zero."""

def round(x: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """Rounded to nearest, halves to even."""

def exp(x: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """The exponential."""

def log(x: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """The natural logarithm."""

def log1p(x: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """`log(1 + x)`, accurate near 0."""

def sqrt(x: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """The square root."""

def rsqrt(x: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """`1 / sqrt(x)`."""

def sin(x: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """The sine of radians."""

def cos(x: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """The cosine of radians."""

def erf(x: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """The error function."""

def tanh(x: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """The hyperbolic tangent."""

def atanh(x: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """The inverse hyperbolic tangent."""

def acos(x: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """The inverse cosine of the argument clamped to [-1, 1]."""

def sigmoid(x: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """`1 / (1 + exp(-x))`."""

def silu(x: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """`x * sigmoid(x)`."""

def is_nan(x: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """Whether elements are NaN."""

def is_inf(x: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """Whether elements are infinite."""

def logical_not(x: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """Elementwise not of bools."""

def gelu(x: kiln.graph.TensorValueLike, approximate: str='none') -> kiln._core.experimental.Tensor:
    """
    The Gaussian error linear unit; `approximate` is 'none', 'tanh' or 'quick'.
    """

def cast(x: kiln.graph.TensorValueLike, dtype: kiln._core.dtype.DType) -> kiln._core.experimental.Tensor:
    """Conversion; the same dtype gives the same value."""

def where(condition: kiln.graph.TensorValueLike, x: kiln.graph.TensorValueLike, y: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """Elementwise choice; `x` and `y` promote, all three broadcast."""

def reshape(x: kiln.graph.TensorValueLike, shape: Iterable[kiln._core.graph.Dim | int | str]) -> kiln._core.experimental.Tensor:
    """Row-major order kept; one dim may be -1."""

def flatten(x: kiln.graph.TensorValueLike, start_dim: int=0, end_dim: int=-1) -> kiln._core.experimental.Tensor:
    """Merges the axes `start_dim` to `end_dim`."""

def rebind(x: kiln.graph.TensorValueLike, shape: Iterable[kiln._core.graph.Dim | int | str], message: str='', layout: kiln._core.graph.FilterLayout | None=None) -> kiln._core.experimental.Tensor:
    """Asserts at run that `x` has `shape` and goes on with the new dims."""

def broadcast_to(x: kiln.graph.TensorValueLike, shape: object | None, out_dims: object | None=None) -> kiln._core.experimental.Tensor:
    """NumPy broadcasting to a shape, or to a vector that holds one."""

def squeeze(x: kiln.graph.TensorValueLike, axis: int) -> kiln._core.experimental.Tensor:
    """Removes an axis of size 1."""

def unsqueeze(x: kiln.graph.TensorValueLike, axis: int) -> kiln._core.experimental.Tensor:
    """Inserts an axis of size 1."""

def transpose(x: kiln.graph.TensorValueLike, axis_1: int, axis_2: int) -> kiln._core.experimental.Tensor:
    """Swaps two axes."""

def permute(x: kiln.graph.TensorValueLike, dims: Sequence[int]) -> kiln._core.experimental.Tensor:
    """Result axis i is input axis `dims[i]`."""

def concat(original_vals: Iterable, axis: int=0) -> kiln._core.experimental.Tensor:
    """Joins along an axis."""

def stack(values: Iterable, axis: int=0) -> kiln._core.experimental.Tensor:
    """Joins along a new axis."""


def chunk(x: kiln.graph.TensorValueLike, chunks: int, axis: int=0) -> list:
    """Equal parts."""

def slice_tensor(x: kiln.graph.TensorValueLike, indices: object | None) -> kiln._core.experimental.Tensor:
    """
    NumPy indexing with range checks instead of clamping; also `x[...]`.

    An entry is an int, a slice, `...`, None, an integer scalar tensor on the CPU, or
    `(slice, out_dim)`, where the parts of the slice may be such tensors too; a step that is a
    tensor must be positive when the graph runs.
    """

def pad(input: kiln.graph.TensorValueLike, paddings: Sequence[int], mode: str='constant', value: kiln.graph.TensorValueLike=0) -> kiln._core.experimental.Tensor:
    """
    Adds elements before and after each axis; modes 'constant', 'reflect' and 'edge'.
    """

def tile(x: kiln.graph.TensorValueLike, repeats: Iterable[kiln._core.graph.Dim | int | str]) -> kiln._core.experimental.Tensor:
    """As numpy.tile."""

def gather(input: kiln.graph.TensorValueLike, indices: kiln.graph.TensorValueLike, axis: int) -> kiln._core.experimental.Tensor:
    """As numpy.take."""

def gather_nd(input: kiln.graph.TensorValueLike, indices: kiln.graph.TensorValueLike, batch_dims: int=0) -> kiln._core.experimental.Tensor:
    """Slices of `input` at the positions that rows of `indices` name."""

def scatter(input: kiln.graph.TensorValueLike, updates: kiln.graph.TensorValueLike, indices: kiln.graph.TensorValueLike, axis: int=-1) -> kiln._core.experimental.Tensor:
    """A copy of `input` with updates along an axis."""

def scatter_add(input: kiln.graph.TensorValueLike, updates: kiln.graph.TensorValueLike, indices: kiln.graph.TensorValueLike, axis: int=-1) -> kiln._core.experimental.Tensor:
    """A copy of `input` to which updates are added along an axis."""

def scatter_max(input: kiln.graph.TensorValueLike, updates: kiln.graph.TensorValueLike, indices: kiln.graph.TensorValueLike, axis: int=-1) -> kiln._core.experimental.Tensor:
    """The larger of `input` and the updates along an axis."""

def scatter_min(input: kiln.graph.TensorValueLike, updates: kiln.graph.TensorValueLike, indices: kiln.graph.TensorValueLike, axis: int=-1) -> kiln._core.experimental.Tensor:
    """The smaller of `input` and the updates along an axis."""

def scatter_mul(input: kiln.graph.TensorValueLike, updates: kiln.graph.TensorValueLike, indices: kiln.graph.TensorValueLike, axis: int=-1) -> kiln._core.experimental.Tensor:
    """A copy of `input` that is multiplied by updates along an axis."""

def scatter_nd(input: kiln.graph.TensorValueLike, updates: kiln.graph.TensorValueLike, indices: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """
    A copy of `input` with updates at the positions that rows of `indices` name.
    """

def scatter_nd_add(input: kiln.graph.TensorValueLike, updates: kiln.graph.TensorValueLike, indices: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """As scatter_nd, but updates are added; duplicates add up."""

def scatter_nd_max(input: kiln.graph.TensorValueLike, updates: kiln.graph.TensorValueLike, indices: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """As scatter_nd, but the larger of what is there and the updates stays."""

def scatter_nd_min(input: kiln.graph.TensorValueLike, updates: kiln.graph.TensorValueLike, indices: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """As scatter_nd, but the smaller of what is there and the updates stays."""

def scatter_nd_mul(input: kiln.graph.TensorValueLike, updates: kiln.graph.TensorValueLike, indices: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """As scatter_nd, but what is there is multiplied by the updates."""

def masked_scatter(input: kiln.graph.TensorValueLike, mask: kiln.graph.TensorValueLike, updates: kiln.graph.TensorValueLike, out_dim: kiln._core.graph.Dim | int | str) -> kiln._core.experimental.Tensor:
    """
    A copy of `input` whose elements where `mask` is true are those of `updates`, in order.
    """

def nonzero(x: kiln.graph.TensorValueLike, out_dim: kiln._core.graph.Dim | int | str) -> kiln._core.experimental.Tensor:
    """
    The int64 positions of the elements that are not 0, one a row; `out_dim` is their number.
    """

def repeat_interleave(x: kiln.graph.TensorValueLike, repeats: kiln.graph.TensorValueLike, axis: int | None=None, out_dim: kiln._core.graph.Dim | int | str | None=None) -> kiln._core.experimental.Tensor:
    """
    As numpy.repeat; without an axis the input is flattened first.

    `repeats` is an int, or an integer tensor on the CPU with one count or one for each element of
    the axis; `out_dim` is then the size of the result, checked when the graph runs.
    """

def band_part(x: kiln.graph.TensorValueLike, num_lower: int | None=None, num_upper: int | None=None, exclude: bool=False) -> kiln._core.experimental.Tensor:
    """Keeps a band of diagonals of the last two axes; 0 elsewhere."""




def shape_to_tensor(shape: Iterable[kiln._core.graph.Dim | int | str]) -> kiln._core.experimental.Tensor:
    """The extents at run time, an int64 vector on the CPU."""


def resize_nearest(input: kiln.graph.TensorValueLike, size: Iterable[kiln._core.graph.Dim | int | str], coordinate_transform_mode: int=0, round_mode: int=0) -> kiln._core.experimental.Tensor:
    """
    The nearest element of the input, along every axis.

    Coordinate modes: 0 half_pixel, 1 align_corners, 2 asymmetric, 3 half_pixel_1D. Round modes: 0 half
    down, 1 half up, 2 floor, 3 ceil.
    """

def resize_linear(input: kiln.graph.TensorValueLike, size: Iterable[kiln._core.graph.Dim | int | str], coordinate_transform_mode: int=0, antialias: bool=False) -> kiln._core.experimental.Tensor:
    """
    Linear interpolation, axis by axis; `antialias` widens the filter where the result is smaller.
    """

def resize_bicubic(input: kiln.graph.TensorValueLike, size: Iterable[kiln._core.graph.Dim | int | str]) -> kiln._core.experimental.Tensor:
    """Cubic interpolation of the last two axes of NCHW."""

def resize(input: kiln.graph.TensorValueLike, shape: Iterable[kiln._core.graph.Dim | int | str], interpolation: InterpolationMode=InterpolationMode.BILINEAR) -> kiln._core.experimental.Tensor:
    """Resizes the last two axes of NCHW."""

def fold(input: kiln.graph.TensorValueLike, output_size: int | str | kiln._core.graph.Dim | Sequence, kernel_size: int | str | kiln._core.graph.Dim | Sequence, stride: int | str | kiln._core.graph.Dim | Sequence=1, dilation: int | str | kiln._core.graph.Dim | Sequence=1, padding: int | str | kiln._core.graph.Dim | Sequence=0) -> kiln._core.experimental.Tensor:
    """
    Adds up blocks `[N, C * kernel size, L]` where they lie in an image `[N, C, H, W]`.
    """

def irfft(input_tensor: kiln.graph.TensorValueLike, n: int | None=None, axis: int=-1, normalization: str='backward', input_is_complex: bool=False, buffer_size_mb: int=512) -> kiln._core.experimental.Tensor:
    """
    The inverse Fourier transform of half a Hermitian spectrum, as numpy.fft.irfft.
    """

def roi_align(input: kiln.graph.TensorValueLike, rois: kiln.graph.TensorValueLike, output_height: int, output_width: int, spatial_scale: float=1.0, sampling_ratio: float=0.0, aligned: bool=False, mode: str='AVG') -> kiln._core.experimental.Tensor:
    """
    Bilinear samples of `[N, H, W, C]` in the bins of regions `(batch, x1, y1, x2, y2)`.
    """

def non_maximum_suppression(boxes: kiln.graph.TensorValueLike, scores: kiln.graph.TensorValueLike, max_output_boxes_per_class: kiln.graph.TensorValueLike, iou_threshold: kiln.graph.TensorValueLike, score_threshold: kiln.graph.TensorValueLike, out_dim: kiln._core.graph.Dim | int | str='num_selected') -> kiln._core.experimental.Tensor:
    """
    Rows `(batch, class, box)` of the boxes that no better one overlaps too much.

    Boxes `[B, N, 4]` are corners `(y1, x1, y2, x2)`, scores `[B, K, N]`; `out_dim` is the number of
    rows, checked when the graph runs.
    """

def dequantize(encoding: kiln._core.graph.QuantizationEncoding, quantized: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """The float32 elements of quantised blocks."""

def qmatmul(encoding: kiln._core.graph.QuantizationEncoding, config: kiln._core.graph.QuantizationConfig | None, lhs: kiln.graph.TensorValueLike, *rhs) -> kiln._core.experimental.Tensor:
    """
    `lhs @ dequantize(rhs[0]).T`, float32; the weights stay quantised in memory.

    `lhs` is `[..., K]`, `rhs[0]` a matrix whose rows are blocks of K elements.
    """

def distributed_broadcast(input: kiln.graph.StrongTensorValueLike, signal_buffers: Iterable) -> list:
    """A copy of the input on the device of each signal buffer."""

def distributed_scatter(input_chunks: Iterable, signal_buffers: Iterable) -> list:
    """Chunks of one device, dealt out to the devices of the signal buffers."""

def shard_and_stack(inputs: Iterable, devices: Iterable, axis: int=0) -> list:
    """
    On each device its part of every input along an axis, stacked on a new first axis.
    """

def parallel(inputs: Iterable, body_fn: object | None, *, buffers: object | None=None, chain: object | None=None, result_types: Iterable) -> object:
    """
    Runs one body per launch: for `inputs`, a list of bundles with one tensor per launch each.

    The body gets the tensors of its launch and, where they are given, its buffer and the chain, and
    returns one tensor per output bundle (with a chain: a pair of them and the chain). Gives a list of
    tensors per output bundle, and with a chain a pair of that and the chain.
    """






def cumsum(x: kiln.graph.TensorValueLike, axis: int=-1, exclusive: bool=False, reverse: bool=False) -> kiln._core.experimental.Tensor:
    """
    The sums of the elements up to each one, without itself if `exclusive`, from the end if `reverse`.
    """

def top_k(input: kiln.graph.TensorValueLike, k: kiln._core.graph.Dim | int | str, axis: int=-1) -> tuple:
    """
    The `k` largest values in descending order, and their int64 indices. NaN comes first, and equal values in the order of their indices.
    """

def bottom_k(input: kiln.graph.TensorValueLike, k: kiln._core.graph.Dim | int | str, axis: int=-1) -> tuple:
    """
    The `k` smallest values in ascending order, and their int64 indices. NaN comes last, and equal values in the order of their indices.
    """

def argsort(x: kiln.graph.TensorValueLike, ascending: bool=True) -> kiln._core.experimental.Tensor:
    """
    The int64 indices that sort a tensor of rank 1, stable in both directions; NaN is the largest value.
    """

def matmul(lhs: kiln.graph.TensorValueLike, rhs: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """
    Products of the matrices in the last two axes; also `lhs @ rhs`.

    >>> from kiln.driver import CPU
    >>> from kiln.dtype import DType
    >>> from kiln.graph import Graph, TensorType, ops
    >>> types = [TensorType(DType.float32, shape, CPU()) for shape in (["n", 3], [3, 2])]
    >>> with Graph("g", input_types=types) as graph:
    ...     ops.matmul(*graph.inputs).shape
    [Dim('n'), Dim(2)]
    """

def outer(lhs: kiln.graph.TensorValueLike, rhs: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """All products of two vectors."""

def softmax(value: kiln.graph.TensorValueLike, axis: int=-1) -> kiln._core.experimental.Tensor:
    """`exp(x - m) / sum(exp(x - m))` along an axis."""

def logsoftmax(value: kiln.graph.TensorValueLike, axis: int=-1) -> kiln._core.experimental.Tensor:
    """`x - m - log(sum(exp(x - m)))` along an axis."""

def layer_norm(input: kiln.graph.TensorValueLike, gamma: kiln.graph.TensorValueLike, beta: kiln.graph.TensorValueLike, epsilon: float) -> kiln._core.experimental.Tensor:
    """`gamma * (x - mean) / sqrt(var + epsilon) + beta` over the last axis."""

def rms_norm(input: kiln.graph.TensorValueLike, weight: kiln.graph.TensorValueLike, epsilon: float, weight_offset: float=0.0, multiply_before_cast: bool=False) -> kiln._core.experimental.Tensor:
    """
    `x / sqrt(mean(x ** 2) + epsilon) * (weight + weight_offset)` over the last axis.
    """

def group_norm(input: kiln.graph.TensorValueLike, gamma: kiln.graph.TensorValueLike, beta: kiln.graph.TensorValueLike, num_groups: int, epsilon: float) -> kiln._core.experimental.Tensor:
    """Normalises groups of channels of `[N, C, ...]`."""

def conv2d(x: kiln.graph.TensorValueLike, filter: kiln.graph.TensorValueLike, stride: Sequence[int]=(1, 1), dilation: Sequence[int]=(1, 1), padding: Sequence[int]=(0, 0, 0, 0), groups: int=1, bias: kiln.graph.TensorValueLike | None=None, input_layout: kiln._core.graph.ConvInputLayout=kiln._core.graph.ConvInputLayout.NHWC, filter_layout: kiln._core.graph.FilterLayout=kiln._core.graph.FilterLayout.RSCF) -> kiln._core.experimental.Tensor:
    """
    Cross-correlation of `[N, H, W, C]` with a filter `[R, S, C / groups, F]`.

    >>> from kiln.driver import CPU
    >>> from kiln.dtype import DType
    >>> from kiln.graph import Graph, TensorType, ops
    >>> types = [TensorType(DType.float32, shape, CPU()) for shape in (["n", 8, 8, 3], [3, 3, 3, 16])]
    >>> with Graph("g", input_types=types) as graph:
    ...     ops.conv2d(*graph.inputs, padding=(1, 1, 1, 1)).shape
    [Dim('n'), Dim(8), Dim(8), Dim(16)]
    """

def conv3d(x: kiln.graph.TensorValueLike, filter: kiln.graph.TensorValueLike, stride: Sequence[int]=(1, 1, 1), dilation: Sequence[int]=(1, 1, 1), padding: Sequence[int]=(0, 0, 0, 0, 0, 0), groups: int=1, bias: kiln.graph.TensorValueLike | None=None, input_layout: kiln._core.graph.ConvInputLayout=kiln._core.graph.ConvInputLayout.NHWC, filter_layout: kiln._core.graph.FilterLayout=kiln._core.graph.FilterLayout.QRSCF) -> kiln._core.experimental.Tensor:
    """
    As `conv2d` of `[N, D, H, W, C]` with a filter `[Q, R, S, C / groups, F]`.
    """

def conv2d_transpose(x: kiln.graph.TensorValueLike, filter: kiln.graph.TensorValueLike, stride: Sequence[int]=(1, 1), dilation: Sequence[int]=(1, 1), padding: Sequence[int]=(0, 0, 0, 0), output_paddings: Sequence[int]=(0, 0), bias: kiln.graph.TensorValueLike | None=None, input_layout: kiln._core.graph.ConvInputLayout=kiln._core.graph.ConvInputLayout.NHWC, filter_layout: kiln._core.graph.FilterLayout=kiln._core.graph.FilterLayout.RSCF) -> kiln._core.experimental.Tensor:
    """
    The gradient of `conv2d` with respect to its input; the filter is `[R, S, out, in]`.
    """

def avg_pool2d(input: kiln.graph.TensorValueLike, kernel_size: int | Sequence[int], stride: int | Sequence[int]=1, dilation: int | Sequence[int]=1, padding: int | Sequence[int]=0, ceil_mode: bool=False, count_boundary: bool=True) -> kiln._core.experimental.Tensor:
    """The mean of each window of `[N, H, W, C]`."""

def max_pool2d(input: kiln.graph.TensorValueLike, kernel_size: int | Sequence[int], stride: int | Sequence[int]=1, dilation: int | Sequence[int]=1, padding: int | Sequence[int]=0, ceil_mode: bool=False) -> kiln._core.experimental.Tensor:
    """The largest element of each window of `[N, H, W, C]`."""

def as_interleaved_complex(x: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """`[..., 2n]` as `[..., n, 2]`, pairs of real and imaginary part."""

def complex_mul(lhs: kiln.graph.TensorValueLike, rhs: kiln.graph.TensorValueLike) -> kiln._core.experimental.Tensor:
    """
    The product of complex numbers whose parts lie in the last axis of size 2.
    """

def print(value: object | None, label: str='debug_tensor') -> None:
    """Prints a tensor or a text when the graph runs."""


def buffer_load(x: object | None) -> kiln._core.experimental.Tensor:
    """A copy of the whole buffer at this point of its device's order."""

def buffer_store(destination: object | None, source: object | None) -> None:
    """
    Overwrites a buffer.

    >>> from kiln.driver import CPU
    >>> from kiln.dtype import DType
    >>> from kiln.graph import BufferType, Graph, ops
    >>> with Graph("counter", input_types=[BufferType(DType.float32, [4], CPU())]) as graph:
    ...     state = graph.inputs[0].buffer
    ...     current = ops.buffer_load(state)
    ...     ops.buffer_store(state, current + 1)
    ...     graph.output(current)
    >>> print(state.shape, state.dtype)
    [Dim(4)] DType.float32
    """

def buffer_store_slice(destination: object | None, source: object | None, indices: object | None) -> None:
    """
    Writes a region of a buffer; entries as in slice_tensor, positive steps only.
    """

def buffer_create(type: kiln._core.graph.BufferType) -> kiln._core.experimental.Tensor:
    """Fresh memory for each execution, contents undefined until stored."""



def call(graph: kiln._core.graph.Graph, *args, prefix: str='') -> list:
    """
    The outputs of a subgraph; `prefix` stands before the names of its placeholder weights.
    """

def allgather(t: kiln._core.experimental.Tensor, tensor_axis: int = 0, mesh_axis: str | int = 0) -> kiln._core.experimental.Tensor:
    """
    From Sharded along `tensor_axis` to copies, over one axis of the tensor's mesh. Another placement there: ShardingError.
    """

def allreduce_sum(t: kiln._core.experimental.Tensor, mesh_axis: str | int = 0) -> kiln._core.experimental.Tensor:
    """
    From Partial to copies, over one axis of the tensor's mesh. Another placement there: ShardingError.
    """

def reduce_scatter(t: kiln._core.experimental.Tensor, scatter_axis: int = 0, mesh_axis: str | int = 0) -> kiln._core.experimental.Tensor:
    """
    From Partial to slices along `scatter_axis`, over one axis of the tensor's mesh. Another placement there: ShardingError.
    """

getitem: Function = ...

setitem: Function = ...

clip: Function = ...
