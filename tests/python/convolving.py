"""Convolutions and pooling in NumPy, as loops of their formulas."""

from __future__ import annotations

import numpy as np


def _wide(array):
    return array if array.dtype.kind in "iu" else array.astype(np.float64)


def convolved(x, w, stride, dilation, padding, groups=1):
    """Channels last; x and w as they are for integers, which wrap, else in float64."""
    dims = x.ndim - 2
    pairs = [(0, 0), *[(padding[2 * i], padding[2 * i + 1]) for i in range(dims)], (0, 0)]
    x, w = np.pad(_wide(x), pairs), _wide(w)
    size = [(x.shape[1 + i] - dilation[i] * (w.shape[i] - 1) - 1) // stride[i] + 1 for i in range(dims)]
    c, f = w.shape[-2], w.shape[-1] // groups
    y = np.zeros((x.shape[0], *size, w.shape[-1]), x.dtype)
    for at in np.ndindex(*size):
        for tap in np.ndindex(*w.shape[:dims]):
            part = x[(slice(None), *[at[i] * stride[i] + tap[i] * dilation[i] for i in range(dims)])]
            for g in range(groups):
                columns = slice(g * f, g * f + f)
                y[(slice(None), *at, columns)] += part[:, g * c : g * c + c] @ w[tap][:, columns]
    return y


def transposed(x, w, stride, dilation, padding, more=(0, 0)):
    x, w = _wide(x), _wide(w)
    size = [stride[i] * (x.shape[1 + i] - 1) + dilation[i] * (w.shape[i] - 1) + 1 + more[i] - padding[2 * i]
            - padding[2 * i + 1] for i in range(2)]
    y = np.zeros((x.shape[0], *size, w.shape[2]), x.dtype)
    for i, j in np.ndindex(*x.shape[1:3]):
        for r, s in np.ndindex(*w.shape[:2]):
            a, b = i * stride[0] - padding[0] + r * dilation[0], j * stride[1] - padding[2] + s * dilation[1]
            if 0 <= a < size[0] and 0 <= b < size[1]:
                y[:, a, b] += x[:, i, j] @ w[r, s].T
    return y


def pooled_size(n, k, s, d, p, ceil_mode=False):
    span = n + 2 * p - d * (k - 1) - 1
    if not ceil_mode:
        return span // s + 1
    count = -(-span // s) + 1
    return count - 1 if (count - 1) * s >= n + p else count


def pooled(x, size, stride, dilation, padding, ceil_mode=False, lowest=None, count_boundary=True):
    """The mean of each window, or the maximum where `lowest` is what a window without elements gives."""
    counts = [pooled_size(x.shape[1 + i], size[i], stride[i], dilation[i], padding[i], ceil_mode) for i in range(2)]
    x = _wide(x)
    y = np.zeros((x.shape[0], *counts, x.shape[3]), x.dtype)
    for i, j in np.ndindex(*counts):
        inside = []
        for r, s in np.ndindex(*size):
            a, b = i * stride[0] - padding[0] + r * dilation[0], j * stride[1] - padding[1] + s * dilation[1]
            if 0 <= a < x.shape[1] and 0 <= b < x.shape[2]:
                inside.append(x[:, a, b])
        if lowest is not None:
            y[:, i, j] = np.max(inside, 0) if inside else lowest
        elif inside:
            y[:, i, j] = np.sum(inside, 0) / (size[0] * size[1] if count_boundary else len(inside))
    return y
