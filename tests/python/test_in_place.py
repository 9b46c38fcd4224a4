"""New values that go where the old ones lie: in loops and in buffers, for every kind of kernel."""

import numpy as np
import pytest
from running import compiled, execute, generator, tensor_type, to_buffer

from kiln.dtype import DType
from kiln.graph import BufferType, DeviceRef, ops

pytestmark = pytest.mark.compiler
CPU = DeviceRef.CPU()
SIZE = 99  # no multiple of a vector; products have several tiles of rows and of columns
ROUNDS = 3


def number(value, dtype=DType.int64):
    return ops.constant(value, dtype, device=CPU)


def column(r):
    return ops.unsqueeze(r, 1)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x, gamma, beta):
    return gamma * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-3) + beta


def shuffled(x):
    return (np.arange(SIZE) * 8) % SIZE  # 8 and 99 have no common divisor


# Each takes a matrix x, a vector r and a matrix m, and gives the next x and r.
BODIES = {
    "product_left": (lambda x, r, m: (x @ m, r), lambda x, r, m: (x @ m, r)),
    "product_right": (lambda x, r, m: (m @ x, r), lambda x, r, m: (m @ x, r)),
    "square": (lambda x, r, m: (x @ x, r), lambda x, r, m: (x @ x, r)),
    "gram": (
        lambda x, r, m: (x @ ops.transpose(x, 0, 1), r),
        lambda x, r, m: (x @ x.T, r)),
    "product_with_epilogue": (
        lambda x, r, m: (ops.tanh(x @ m + r) * 0.5 + x, r + 1.0),
        lambda x, r, m: (np.tanh(x @ m + r) * 0.5 + x, r + 1.0)),
    "product_of_vector": (
        lambda x, r, m: (x + r, ops.reshape(ops.reshape(r, [1, -1]) @ m, [-1])),
        lambda x, r, m: (x + r, r @ m)),
    "product_into_vector": (
        lambda x, r, m: (x * 0.5, ops.reshape(x @ column(r), [-1])),
        lambda x, r, m: (x * 0.5, x @ r)),
    "two_products": (
        lambda x, r, m: (x @ m + m @ x, ops.sum(x @ m, 0)[0]),
        lambda x, r, m: (x @ m + m @ x, (x @ m).sum(0))),
    "transpose": (
        lambda x, r, m: (ops.transpose(x, 0, 1) + r, r),
        lambda x, r, m: (x.T + r, r)),
    "reverse_rows": (lambda x, r, m: (x[::-1] + r, r[::-1]), lambda x, r, m: (x[::-1] + r, r[::-1])),
    "rotate": (
        lambda x, r, m: (ops.concat([x[1:], x[:1]], 0), ops.concat([r[-2:], r[:-2]], 0)),
        lambda x, r, m: (np.roll(x, -1, 0), np.roll(r, 2))),
    "shift": (
        lambda x, r, m: (ops.pad(x[:-1], [1, 0, 0, 0]) + r, r),
        lambda x, r, m: (np.pad(x[:-1], ((1, 0), (0, 0))) + r, r)),
    "gather": (
        lambda x, r, m: (ops.gather(x, ops.constant(shuffled(x), device=CPU), 0) + r, r),
        lambda x, r, m: (x[shuffled(x)] + r, r)),
    "gather_columns": (
        lambda x, r, m: (ops.gather(x, ops.constant(shuffled(x), device=CPU), 1), r + 1.0),
        lambda x, r, m: (x[:, shuffled(x)], r + 1.0)),
    "scatter": (
        lambda x, r, m: (ops.scatter(m, x, ops.constant(np.tile(shuffled(x)[:, None], SIZE), device=CPU), 0) + x, r),
        lambda x, r, m: (x[np.argsort(shuffled(x))] + x, r)),
    "softmax": (
        lambda x, r, m: (ops.softmax(x) + x, r),
        lambda x, r, m: (softmax(x) + x, r)),
    "softmax_of_columns": (
        lambda x, r, m: (ops.softmax(x, 0) - x, r),
        lambda x, r, m: (softmax(x.T).T - x, r)),
    "layer_norm": (
        lambda x, r, m: (ops.layer_norm(x, r, r, 1e-3) + x, r * 0.5),
        lambda x, r, m: (layer_norm(x, r, r) + x, r * 0.5)),
    "attention": (
        lambda x, r, m: (ops.softmax(x @ ops.transpose(x, 0, 1) * 0.25) @ x, r),
        lambda x, r, m: (softmax(x @ x.T * 0.25) @ x, r)),
    "attention_with_bias": (
        lambda x, r, m: (ops.softmax(m @ ops.transpose(x, 0, 1) * 0.25 + x) @ m + x, r),
        lambda x, r, m: (softmax(m @ x.T * 0.25 + x) @ m + x, r)),
    "sum_of_rows": (
        lambda x, r, m: (x * 0.5 + ops.sum(x, -1), r),
        lambda x, r, m: (x * 0.5 + x.sum(-1, keepdims=True), r)),
    "sum_of_columns": (
        lambda x, r, m: (x * 0.5 + ops.sum(x, 0), r),
        lambda x, r, m: (x * 0.5 + x.sum(0), r)),
    # The sum takes the place of r, which the same kernel still reads.
    "sum_into_vector": (
        lambda x, r, m: (x * column(r) + ops.sum(x, -1), ops.squeeze(ops.sum(x, -1), 1)),
        lambda x, r, m: (x * r[:, None] + x.sum(-1, keepdims=True), x.sum(-1))),
    "norm_into_vector": (
        lambda x, r, m: (x / column(ops.abs(r) + 1.0), ops.squeeze(ops.max(x, axis=-1), 1) + r),
        lambda x, r, m: (x / (np.abs(r[:, None]) + 1.0), x.max(-1) + r)),
    "two_reductions": (
        lambda x, r, m: (x - ops.mean(x, -1) * column(r), ops.squeeze(ops.mean((x - ops.mean(x, -1)) * x, -1), 1)),
        lambda x, r, m: (x - x.mean(-1, keepdims=True) * r[:, None],
                         ((x - x.mean(-1, keepdims=True)) * x).mean(-1))),
    "maximum_place": (
        lambda x, r, m: (ops.cast(ops.argmax(x, -1), DType.float32) * 0.01 + x[::-1], r),
        lambda x, r, m: (x.argmax(-1)[:, None] * 0.01 + x[::-1], r)),
    "top_k": (
        lambda x, r, m: (ops.top_k(x, SIZE, -1)[0] + r, r),
        lambda x, r, m: (-np.sort(-x, -1) + r, r)),
    "repeat": (
        lambda x, r, m: (ops.repeat_interleave(x[:, :SIZE // 3], 3, 1) + r, r),
        lambda x, r, m: (np.repeat(x[:, :SIZE // 3], 3, 1) + r, r)),
    "tile": (
        lambda x, r, m: (ops.tile(x[SIZE // 3 * 2:], [3, 1]), r),
        lambda x, r, m: (np.tile(x[SIZE // 3 * 2:], (3, 1)), r)),
    "broadcast": (
        lambda x, r, m: (ops.broadcast_to(x[0], [SIZE, SIZE]) + x, x[:, 0]),
        lambda x, r, m: (x[0] + x, x[:, 0])),
    "reshape": (
        lambda x, r, m: (ops.reshape(ops.reshape(ops.transpose(x, 0, 1), [3, -1]), [SIZE, SIZE]), r),
        lambda x, r, m: (x.T.reshape(3, -1).reshape(SIZE, SIZE), r)),
    "rows_exchange": (
        lambda x, r, m: (x + r, ops.sum(x * r, 0)[0]),
        lambda x, r, m: (x + r, (x * r).sum(0))),
    "diagonal": (
        lambda x, r, m: (ops.band_part(ops.transpose(x, 0, 1), 0, None) + x, r),
        lambda x, r, m: (np.triu(x.T) + x, r)),
    "branch": (
        lambda x, r, m: (ops.cond(r[0] > 0.0, [x.type], lambda: x @ m, lambda: ops.transpose(x, 0, 1))[0], -r),
        lambda x, r, m: (x @ m if r[0] > 0 else x.T, -r)),
}


def values(name):
    rng = generator("in_place", name)
    x, r, m = rng.uniform(-1, 1, (SIZE, SIZE)), rng.uniform(-1, 1, SIZE), rng.uniform(-0.5, 0.5, (SIZE, SIZE))
    return [a.astype(np.float32) for a in (x, r, m)]


def expected(name, arrays):
    x, r, m = (a.astype(np.float64) for a in arrays)
    for _ in range(ROUNDS):
        x, r = BODIES[name][1](x, r, m)
    return x, r


def check(results, name, arrays):
    for result, wanted in zip(results, expected(name, arrays), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=2e-4, atol=2e-4 * np.abs(wanted).max())


TYPES = {"x": [SIZE, SIZE], "r": [SIZE], "m": [SIZE, SIZE]}


@pytest.mark.parametrize("name", BODIES)
def test_in_a_loop(name):
    def build(x, r, m):
        return ops.while_loop([x, r, number(0)], lambda x, r, i: i < ROUNDS,
                              lambda x, r, i: [*BODIES[name][0](x, r, m), i + 1])[:2]

    arrays = values(name)
    model = compiled(build, [tensor_type("float32", shape) for shape in TYPES.values()])
    check(execute(model, arrays), name, arrays)


@pytest.mark.parametrize("name", BODIES)
def test_in_buffers(name):
    def build(m, x, r):
        following = BODIES[name][0](x[...], r[...], m)
        x[...], r[...] = following

    x, r, m = arrays = values(name)
    types = [tensor_type("float32", TYPES["m"]),
             *(BufferType(DType.float32, TYPES[key], CPU) for key in ("x", "r"))]
    model = compiled(build, types)
    held = [to_buffer(x), to_buffer(r)]
    for _ in range(ROUNDS):
        execute(model, [m], held)
    check([buffer.to_numpy() for buffer in held], name, arrays)


@pytest.mark.parametrize("name", BODIES)
def test_in_created_buffers(name):
    def build(x, r, m):
        held = [ops.buffer_create(BufferType(DType.float32, TYPES[key], CPU)) for key in ("x", "r")]
        ops.buffer_store(held[0], x)
        ops.buffer_store(held[1], r)
        for _ in range(ROUNDS):
            following = BODIES[name][0](*map(ops.buffer_load, held), m)
            for buffer, value in zip(held, following):
                ops.buffer_store(buffer, value)
        return [ops.buffer_load(buffer) for buffer in held]

    arrays = values(name)
    model = compiled(build, [tensor_type("float32", shape) for shape in TYPES.values()])
    check(execute(model, arrays), name, arrays)


@pytest.mark.parametrize("width", [1, 5, SIZE])
def test_an_old_value_beside_the_new_one(width):
    """What a buffer held before a store is read after it, by a kernel of its own."""

    def build(x, part):
        buffer = ops.buffer_create(BufferType(DType.float32, [2, "w"], CPU))
        ops.buffer_store(buffer, x)
        buffer[0:1] = part
        old = ops.buffer_load(buffer)
        query = ops.sigmoid(old)
        ops.buffer_store(buffer, ops.cos(query))
        return ops.softmax(query @ ops.transpose(ops.buffer_load(buffer), 0, 1)) @ old

    rng = generator("old value", width)
    x, part = (rng.uniform(-1, 1, (n, width)).astype(np.float32) for n in (2, 1))
    model = compiled(build, [tensor_type("float32", [2, "w"]), tensor_type("float32", [1, "w"])])
    old = np.concatenate([part, x[1:]]).astype(np.float64)
    query = 1 / (1 + np.exp(-old))
    wanted = softmax(query @ np.cos(query).T) @ old
    np.testing.assert_allclose(execute(model, [x, part])[0], wanted, rtol=1e-4, atol=1e-5)
