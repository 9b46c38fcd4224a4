"""Collectives over devices that the host runs, against NumPy."""

import functools

import numpy as np
import pytest
from running import FLOATS, INTS, assert_equal, compiled, execute, generator, numpy_type, sample, tensor_type

from kiln.driver import CPU, Buffer
from kiln.dtype import DType
from kiln.graph import BufferType, DeviceRef, Graph, TensorType, ops

pytestmark = pytest.mark.compiler
F32 = DType.float32


def cpu(i):
    return DeviceRef.CPU(i)


def types_of(dtype, shapes, count=None):
    tensors = [TensorType(getattr(DType, dtype), shape, cpu(i)) for i, shape in enumerate(shapes)]
    return tensors + [BufferType(DType.uint8, [8], cpu(i)) for i in range(count or len(shapes))]


def collect(op, dtype, arrays, shapes=None, **options):
    """The results of a collective over as many devices as there are arrays."""
    shapes = shapes or [a.shape for a in arrays]

    def build(*values):
        n = len(arrays)
        return op([v.tensor for v in values[:n]], [v.buffer for v in values[n:]], **options)

    model = compiled(build, types_of(dtype, shapes))
    return execute(model, arrays, [Buffer.zeros([8], DType.uint8, CPU()) for _ in arrays])


@pytest.mark.parametrize("op", [ops.allreduce.sum, ops.bundled_allreduce.sum], ids=["allreduce", "bundled"])
@pytest.mark.parametrize("dtype", FLOATS + INTS)
def test_allreduce(op, dtype):
    arrays = [sample(generator("allreduce", dtype, i), dtype, (3, 5), False) for i in range(3)]
    wide = np.float32 if dtype in ("float16", "bfloat16") else numpy_type(dtype)
    with np.errstate(all="ignore"):
        expected = functools.reduce(np.add, [a.astype(wide) for a in arrays]).astype(numpy_type(dtype))
    for shapes in (None, [["n", 5]] * 3):
        results = collect(op, dtype, arrays, shapes)
        assert len(results) == 3
        for got in results:
            assert_equal(got, expected)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", ["float32", "int32", "bfloat16"])
def test_reducescatter(axis, dtype):
    arrays = [sample(generator("reducescatter", dtype, i), dtype, (7, 5), False) for i in range(3)]
    wide = np.float32 if dtype == "bfloat16" else numpy_type(dtype)
    total = functools.reduce(np.add, [a.astype(wide) for a in arrays]).astype(numpy_type(dtype))
    for shapes in (None, [["n", "m"]] * 3):
        results = collect(ops.reducescatter.sum, dtype, arrays, shapes, axis=axis)
        for got, expected in zip(results, np.array_split(total, 3, axis), strict=True):
            assert_equal(got, expected)


@pytest.mark.parametrize("dtype", ["float32", "bool", "float8_e5m2"])
def test_allgather(dtype):
    shapes = [(2, 3), (0, 3), (4, 3)]
    arrays = [generator("allgather", i).integers(0, 2, s).astype(numpy_type(dtype)) for i, s in enumerate(shapes)]
    for got in collect(ops.allgather, dtype, arrays):
        assert_equal(got, np.concatenate(arrays))
    arrays = [a.T.copy() for a in arrays]
    for got in collect(ops.allgather, dtype, arrays, [[3, f"n{i}"] for i in range(3)], axis=-1):
        assert_equal(got, np.concatenate(arrays, 1))


def test_a_single_input_comes_back():
    with Graph("g", input_types=types_of("float32", [[3]])) as g:
        x, signal = g.inputs[0].tensor, g.inputs[1].buffer
        before = str(g)
        for op in (ops.allreduce.sum, ops.bundled_allreduce.sum, ops.reducescatter.sum, ops.allgather):
            assert op([x], [signal])[0].type == x.type
            assert op([], []) == []
        assert str(g) == before


def test_broadcast_and_scatter():
    x = np.arange(6, dtype=np.float32)

    def build(x, *signals):
        buffers = [s.buffer for s in signals]
        chunks = [x.tensor[:2], x.tensor[2:]]
        return ops.distributed_broadcast(x.tensor, buffers) + ops.distributed_scatter(chunks, buffers)

    types = [TensorType(F32, [6], cpu(1)), *[BufferType(DType.uint8, [4], cpu(i)) for i in range(5)]]
    results = execute(compiled(build, types), [x], [Buffer.zeros([4], DType.uint8, CPU()) for _ in range(5)])
    for got in results[:5]:
        assert_equal(got, x)
    # Five devices and two chunks: three get the first.
    for i, got in enumerate(results[5:]):
        assert_equal(got, x[:2] if i < 3 else x[2:])


def test_shard_and_stack():
    a, b = (sample(generator("shard", k), "float32", (6, 4), False) for k in "ab")
    for axis, shapes in ((0, [[6, 4]] * 2), (-1, [[6, 4]] * 2), (0, [["n", 4]] * 2)):
        model = compiled(lambda a, b: ops.shard_and_stack([a, b], [cpu(i) for i in range(2)], axis),
                         [tensor_type("float32", s) for s in shapes])
        results = execute(model, [a, b])
        for i, got in enumerate(results):
            assert_equal(got, np.stack([np.split(v, 2, axis)[i] for v in (a, b)]))
    with pytest.raises(ValueError, match="must be evenly divisible by number of devices"):
        execute(model, [a[:5].copy(), b[:5].copy()])


def test_collectives_join_the_chains():
    with Graph("g", input_types=types_of("float32", [[3], [3]])) as g:
        a, b, *signals = g.inputs
        ops.allreduce.sum([a.tensor, b.tensor], [s.buffer for s in signals])
        assert g.device_chains[cpu(0)] is not None
        assert str(g.device_chains[cpu(0)]) == str(g.device_chains[cpu(1)])
        ops.buffer_store(signals[0].buffer, ops.constant([0] * 8, DType.uint8, cpu(0)))


def test_parallel():
    def build(a, b, c, d):
        inputs = [[a.tensor, b.tensor], [c.tensor, d.tensor]]
        like = [[v.type for v in inputs[0]], [v.type for v in inputs[1]]]
        return sum(ops.parallel(inputs, lambda x, y: [x + 1, y * 2], result_types=like), [])

    shapes = [[3], [3], ["n"], ["n"]]
    arrays = [np.arange(3, dtype=np.float32) + i for i in range(4)]
    results = execute(compiled(build, [TensorType(F32, s, cpu(i % 2)) for i, s in enumerate(shapes)]), arrays)
    for got, expected in zip(results, [arrays[0] + 1, arrays[1] + 1, arrays[2] * 2, arrays[3] * 2], strict=True):
        assert_equal(got, expected)


def test_parallel_with_buffers():
    types = [kind(F32, [2], CPU()) for kind in (TensorType, TensorType, BufferType, BufferType)]
    with Graph("g", input_types=types) as g:
        a, b, p, q = g.inputs

        def body(x, buffer, chain):
            ops.buffer_store(buffer, x + 1)
            return [x * 2], g.device_chains[CPU()]

        results, chain = ops.parallel([[a.tensor, b.tensor]], body, buffers=[p.buffer, q.buffer],
                                      chain=g.device_chains[CPU()], result_types=[[a.tensor.type] * 2])
        assert chain is not None
        g.output(*results[0])


def test_parallel_checks():
    with Graph("g", input_types=types_of("float32", [[3], [3]])) as g:
        a, b, p, _ = g.inputs
        a, b, chain = a.tensor, b.tensor, g.device_chains[CPU()]
        body = lambda *xs: [xs[0]]  # noqa: E731
        two = [[a.type, b.type]]
        for call, text in [
            (lambda: ops.parallel([], body, result_types=[]), "parallel requires at least one input bundle"),
            (lambda: ops.parallel([[]], body, result_types=[]), "input bundle 0 is empty"),
            (lambda: ops.parallel([[a, b], [a]], body, result_types=[]),
             "input bundle 1 has 1 launches; bundle 0 has 2"),
            (lambda: ops.parallel([[a, b]], body, result_types=[[a.type]]),
             r"result_types\[0\] has 1 types; expected 2 \(one per launch\)"),
            (lambda: ops.parallel([[a, b]], body, buffers=[p.buffer], chain=chain, result_types=two), "buffers length"),
            (lambda: ops.parallel([[a]], body, buffers=[p.buffer], result_types=[[a.type]]),
             "chain is required when buffers are provided"),
            (lambda: ops.parallel([[a]], body, chain=chain, result_types=[[a.type]]),
             "buffers are required when chain is provided"),
            (lambda: ops.parallel([[a, b]], lambda x: [x, x], result_types=two), "must give 1 results"),
            (lambda: ops.parallel([[a, b]], lambda x: [x[0:1]], result_types=two), "result 0 of launch 0"),
        ]:
            with pytest.raises(ValueError, match=text):
                call()


def test_texts():
    shapes = [[2, 3], [2, 3], [4, 3], [2]]
    types = types_of("float32", shapes)
    types += [TensorType(DType.int32, [2, 3], cpu(1)), TensorType(F32, [2, 3], cpu(0)),
              TensorType(DType.bool, [2, 3], cpu(0)), TensorType(DType.bool, [2, 3], cpu(1)),
              BufferType(DType.float32, [8], cpu(1)), TensorType(F32, [10, 4], cpu(0)),
              TensorType(F32, [8, 4], cpu(0)), TensorType(F32, [2, 4], DeviceRef.GPU())]
    with Graph("g", input_types=types) as g:
        a, b, c, d, s0, s1, s2, s3, other, same, p, q, wrong, ten, eight, far = g.inputs
        a, b, c, d = (v.tensor for v in (a, b, c, d))
        other, same, p, q, ten, eight, far = (v.tensor for v in (other, same, p, q, ten, eight, far))
        s0, s1, s2, s3, wrong = (v.buffer for v in (s0, s1, s2, s3, wrong))
        all_sums = [(ops.allreduce.sum, "allreduce.sum"), (ops.reducescatter.sum, "reducescatter.sum"),
                    (ops.bundled_allreduce.sum, "bundled_allreduce.sum")]
        cases = []
        for op, name in [*all_sums, (ops.allgather, "allgather")]:
            cases += [(op, ([a, b], [s0]),
                       r"expected number of inputs \(2\) and number of signal buffers \(1\) to match"),
                      (op, ([a, other], [s0, s1]),
                       f"{name} operation must have the same dtype across all input tensors. Got: "),
                      (op, ([a, same], [s0, s1]),
                       f"{name} operation must have unique devices across its input tensors. Got: "),
                      (op, ([a, b], [s1, s0]), "signal buffer 0 must be a rank-1 uint8 buffer on cpu:0, got "),
                      (op, ([a, b], [s0, wrong]), "signal buffer 1 must be a rank-1 uint8 buffer on cpu:1, got ")]
        for op, name in all_sums:
            cases += [(op, ([a, c], [s0, s2]),
                       f"{name} operation must have the same shape across all input tensors. Got: "),
                      (op, ([p, q], [s0, s1]), f"op '{name}' does not support dtype DType.bool")]
        cases += [
            (ops.allgather, ([a, d], [s0, s3]),
             "allgather operation must have the same rank across all input tensors. Got: "),
            (ops.allgather, ([a, c], [s0, s2], 1),
             "allgather operation inputs must have the same shape in all dimensions except the "
             "concatenation dimension. "),
            (ops.reducescatter.sum, ([a, b], [s0, s1], 5), "axis 5 is out of bounds for tensor with rank 2"),
            (ops.distributed_broadcast, (a, []), "distributed_broadcast requires at least 1 signal buffer."),
            (ops.distributed_broadcast, (a, [s1]),
             r"input tensor device cpu:0 not found in signal buffer devices: \[cpu:1\]"),
            (ops.distributed_broadcast, (a, [s0, s0]),
             "distributed_broadcast requires unique devices across signal buffers. Got: "),
            (ops.distributed_scatter, ([], [s0]), "distributed_scatter requires at least 1 input chunk. Got: 0"),
            (ops.distributed_scatter, ([a, b], [s0]),
             "All input chunks must be on the same device. Chunk 0 is on cpu:0, but chunk 1 is on cpu:1"),
            (ops.distributed_scatter, ([a], [s0, s0]),
             "distributed_scatter requires unique devices across signal buffers. Got: "),
            (ops.distributed_scatter, ([a], [s1]),
             r"input chunk device cpu:0 not found in signal buffer devices: \[cpu:1\]"),
            (ops.distributed_scatter, ([a, same, ten], [s0, s1]),
             "distributed_scatter got 3 input chunks for 2 devices"),
            (ops.shard_and_stack, ([], [cpu(0)]), "Must provide at least one input tensor."),
            (ops.shard_and_stack, ([a], []), "Must provide at least one device."),
            (ops.shard_and_stack, ([a, b], [cpu(0)]), "Input values must be on the same device"),
            (ops.shard_and_stack, ([ten, eight], [cpu(0)]),
             r"All input tensors must have the same shape. Input 0 has shape \[Dim\(10\), Dim\(4\)\], but input 1 has "
             r"shape \[Dim\(8\), Dim\(4\)\]"),
            (ops.shard_and_stack, ([a, p], [cpu(0)]), "All input tensors must have the same dtype. Input 0 has dtype"),
            (ops.shard_and_stack, ([far], [cpu(0)]), "Input value must be on the host device"),
            (ops.shard_and_stack, ([ten], [cpu(i) for i in range(3)]),
             r"Dimension size along axis 0 \(10\) must be evenly divisible by number of devices \(3\)"),
        ]
        for op, arguments, text in cases:
            with pytest.raises(ValueError, match=text):
                op(*arguments)
        with pytest.raises(IndexError, match="Dimension out of range 2, axis=5"):
            ops.allgather([a, b], [s0, s1], 5)
        with pytest.raises(IndexError, match=r"Axis must be in range \[-2, 2\), got 2"):
            ops.shard_and_stack([a], [cpu(0)], 2)
