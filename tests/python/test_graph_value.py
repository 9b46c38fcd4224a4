import numpy as np
import pytest

from kiln.driver import CPU, Buffer
from kiln.dtype import DType
from kiln.graph import (
    BufferType,
    BufferValue,
    DeviceRef,
    Dim,
    Graph,
    Shape,
    TensorType,
    TensorValue,
    Value,
    Weight,
    ops,
)

pytestmark = pytest.mark.graph
F32, I32, I64, BOOL = DType.float32, DType.int32, DType.int64, DType.bool


def tensor(dtype, *shape):
    return TensorType(dtype, shape, CPU())


@pytest.fixture
def graph():
    types = [tensor(F32, "n", 4), tensor(I32, 4), BufferType(F32, [4], CPU()), tensor(BOOL, 4)]
    with Graph("g", input_types=types) as graph:
        yield graph


def test_facts(graph):
    x = graph.inputs[0]
    assert isinstance(x, TensorValue) and isinstance(x, Value)
    assert (x.dtype, x.shape, x.rank, x.device) == (F32, ["n", 4], 2, DeviceRef.CPU())
    assert x.type == tensor(F32, "n", 4)
    assert repr(x) == "TensorValue(dtype=float32, shape=[Dim('n'), Dim(4)], device=cpu:0)"
    assert x.tensor.type == x.type
    with pytest.raises(TypeError, match="Value is not a BufferValue"):
        x.buffer
    with pytest.raises(NotImplementedError):
        Value()


def test_tensor_value_from_others(graph):
    x = graph.inputs[0]
    assert TensorValue(x).type == x.type
    assert TensorValue(Dim(3)).type == tensor(I64)
    assert TensorValue(Shape(["n", 4])).type == tensor(I64, 2)

    class Module:
        def __tensorvalue__(self):
            return x

    assert TensorValue(Module()).type == x.type
    assert (x + Module()).shape == ["n", 4]
    for bad, name in ((3, "int"), (1.5, "float"), (np.zeros(2), "ndarray")):
        with pytest.raises(TypeError, match=rf"TensorValue\(\) can not be created directly from a '{name}'. Use "
                                            "ops.constant to convert to a TensorValue with a specific dtype."):
            TensorValue(bad)
    for bad in ("x", None, [1], graph.inputs[2]):
        with pytest.raises(TypeError):
            TensorValue(bad)


def test_operators_have_the_result_type_of_their_op(graph):
    x, i, _, b = graph.inputs
    row = x[0, :]
    assert (x + 1).type == x.type and (1 - x).type == x.type and (x * row).type == x.type
    assert (i / 2).dtype is DType.float64 and (i // 2).dtype is DType.float64 and (i % 2).dtype is I32
    assert (x**2).type == (2**x).type == x.type and (-x).type == abs(x).type == round(x).type == x.type
    assert (x @ x.T).shape == ["n", "n"] and x.T.shape == [4, "n"]
    assert all(v.dtype is BOOL for v in (x > 1, x >= 1, x < 1, x <= 1, x == 1, x != 1, 1 < x, b & b, b | b, b ^ b, ~b))
    q, r = divmod(i, 2)
    assert q.dtype is DType.float64 and r.dtype is I32
    q, r = divmod(7, i)
    assert r.dtype is I32


@pytest.mark.parametrize("other", [np.ones(4, np.float32), np.float32(1), np.int64(1), 1, 1.5, True,
                                   Buffer.zeros((4,), F32)])
def test_weak_operands(graph, other):
    x = graph.inputs[0]
    assert (x + other).type == x.type
    assert (other + x).type == x.type if not isinstance(other, Buffer) else True
    assert (other * x).type == x.type if not isinstance(other, Buffer) else True


@pytest.mark.parametrize("operation, error, text", [
    (lambda x, i: i + 1.5, ValueError, r"Unsafe cast: Can't promote python float to dtype\(DType.int32\)."),
    (lambda x, i: i + 2**40, ValueError, r"Unsafe cast: Can't promote python int with value \(1099511627776\) to "
                                         r"dtype\(DType.int32\). It would lose precision."),
    (lambda x, i: i + np.ones(4), ValueError, "Refusing to implicitly promote float array"),
    (lambda x, i: x[0, :] + i, ValueError, "Unsafe cast from si32 to f32"),
    (lambda x, i: x + "a", TypeError, "."),
    (lambda x, i: x + [1.0], TypeError, "."),
    (lambda x, i: x + None, TypeError, "."),
    (lambda x, i: x == "a", TypeError, "'==' not supported between instance of 'TensorValue' and 'str'"),
    (lambda x, i: x < None, TypeError, "not supported between instance of 'TensorValue' and 'NoneType'"),
    (lambda x, i: bool(x), TypeError, "."),
    (lambda x, i: list(x), TypeError, "is not iterable"),
    (lambda x, i: 1 in x, TypeError, "is not a container"),
    (lambda x, i: ops.add(1, 2), TypeError, "Binary ops require at least one kiln object as input"),
    (lambda x, i: ops.exp(1.0), TypeError, "Unary ops do not support non-kiln objects as input"),
    (lambda x, i: ops.max(x, x, axis=0), ValueError, "Axis not allowed for elementwise max."),
    (lambda x, i: ops.min(x, x, axis=0), ValueError, "Axis not allowed for elementwise min."),
    (lambda x, i: x & x, ValueError, "."),
])
def test_refused_operands(graph, operation, error, text):
    with pytest.raises(error, match=text):
        operation(graph.inputs[0], graph.inputs[1])


def test_dims_as_operands(graph):
    x, i, _, _ = graph.inputs
    assert (Dim(5) + i).dtype is I32 and (i + Dim(5)).dtype is I32
    assert ops.add(x.shape[0], ops.shape_to_tensor(x.shape)).shape == [2]


@pytest.mark.parametrize("index, shape", [
    (0, [4]), (-1, [4]), (slice(None), ["n", 4]), ((slice(None), slice(1, 3)), ["n", 2]),
    ((..., 0), ["n"]), ((..., None), ["n", 4, 1]), ((None, 0), [1, 4]),
    ((slice(None), slice(None, None, -1)), ["n", 4]), ((slice(0, 2), slice(None)), [2, 4]),
    ((slice(0, 2), "k"), ["k", 4]), (((slice(0, 2), "k"), slice(0, 1)), ["k", 1]), (np.int64(1), [4]),
    ((slice(None), Dim(1)), ["n"]),
])
def test_indexing(graph, index, shape):
    assert graph.inputs[0][index].shape == shape


def test_indexing_by_tensors(graph):
    x = graph.inputs[0]
    i = ops.constant(1, I64, CPU())
    assert x[:, i].shape == ["n"]
    assert x[(slice(i, None), "k"), :].shape == ["k", 4]
    for bad in ("a", 1.5, True, [0], np.zeros(2, int)):
        with pytest.raises(TypeError):
            x[bad]
    with pytest.raises(IndexError, match="Index 4 out of range of dim 4"):
        x[:, 4]
    with pytest.raises(ValueError, match="Too many indices supplied to slice for shape"):
        x[0, 0, 0]


def test_methods(graph):
    x = graph.inputs[0]
    assert x.reshape([-1]).rank == 1 and x.flatten().rank == 1 and x.permute([1, 0]).shape == [4, "n"]
    assert x.transpose(0, 1).shape == [4, "n"] and x.broadcast_to([2, "n", 4]).shape == [2, "n", 4]
    assert x.rebind(["m", 4]).shape == ["m", 4] and x.cast(I32).dtype is I32 and x.to(CPU()).type == x.type
    for name in ("max", "mean", "min", "stdev", "var"):
        assert getattr(x, name)().shape == ["n", 1] and getattr(x, name)(axis=0).shape == [1, 4]
    assert x.argmax().dtype is I64
    with pytest.raises(TypeError, match="Variance undefined for boolean values."):
        graph.inputs[3].var()
    x.print()
    x.print("label")
    for label in ("", ".", "..", "a\0b", "a/b"):
        with pytest.raises(ValueError, match="The print label '"):
            x.print(label)


def test_what_changes_nothing_gives_the_same_object(graph):
    x = graph.inputs[0].tensor
    assert ops.cast(x, F32) is x and x.cast(F32) is x
    assert ops.transfer_to(x, CPU()) is x and x.to(CPU()) is x
    weight = Weight("w", F32, [2], CPU())
    assert ops.cast(weight, F32) is weight
    assert ops.cast(x, I32) is not x and ops.cast(x, I32).dtype is I32
    ref = DeviceRef.CPU()
    assert DeviceRef.from_device(ref) is ref and DeviceRef.from_device(CPU()) == ref


def test_buffers(graph):
    b = graph.inputs[2]
    assert isinstance(b, BufferValue) and b.type == BufferType(F32, [4], CPU()) and b.rank == 1
    assert repr(b) == "BufferValue(dtype=float32, shape=[Dim(4)], device=cpu:0)"
    assert b[...].type == tensor(F32, 4) and b[1].shape == [] and b[1:3].shape == [2]
    b[...] = b[...] + 1
    b[0:2] = graph.inputs[0][0, 0:2]
    b[...] = b
    b[1:3] = BufferValue(b)[0:2]
    b.print()
    assert BufferValue(b).type == BufferValue.from_value(b).type == BufferValue.from_mlir(b).type == b.type
    with pytest.raises(TypeError, match=r"BufferValue\(\) argument must be a value of buffer type or a "
                                        "graph.BufferValue, not 'TensorValue'"):
        BufferValue(graph.inputs[0])
    for use in (lambda: b + 1, lambda: ops.exp(b), lambda: ops.add(b, 1)):
        with pytest.raises(TypeError):
            use()
    with pytest.raises(TypeError):
        graph.output(b)


def test_weights():
    w = Weight("w", F32, [3, 2], CPU())
    assert repr(w) == "Weight(w, DType.float32, [Dim(3), Dim(2)], cpu:0)" and w.name == "w" and w.align == 4
    assert isinstance(w, TensorValue) and w.shape == [3, 2]
    with pytest.raises(ValueError, match="Cannot operate on a kiln.graph.Weight when there is no parent graph."):
        w + 1
    with Graph("g") as graph:
        assert (w + w).shape == [3, 2]
        assert str(graph).count("constant.external") == 1
        with pytest.raises(ValueError, match="Weight 'w' already exists in Graph"):
            Weight("w", F32, [3, 2], CPU()) + 1


def test_shards():
    from kiln.graph import ShardingStrategy

    w = Weight("w", F32, [5, 2], CPU(), sharding_strategy=ShardingStrategy.rowwise(2))
    a, b = w.shard([DeviceRef.CPU(0), DeviceRef.CPU(1)])
    assert (a.name, b.name) == ("w[0]", "w[1]") and a.shape == [3, 2] and b.shape == [2, 2]
    assert w.sharding_strategy.is_rowwise and w.sharding_strategy.sharded_axis == 0
    with pytest.raises(ValueError, match="was already sharded"):
        a.shard([CPU()])
    plain = Weight("v", F32, [2], CPU())
    with pytest.raises(ValueError, match="cannot be sharded because no sharding strategy was provided."):
        plain.shard([CPU()])
    own = ShardingStrategy(2, lambda weight, i: weight[i : i + 1, :])
    custom = Weight("u", F32, [2, 3], CPU(), sharding_strategy=own)
    assert custom.shard([DeviceRef.CPU(0), DeviceRef.CPU(1)])[1].shape == [1, 3]


def test_constants(graph):
    c = ops.constant([[1, 2], [3, 4]], F32, CPU())
    assert c.type == tensor(F32, 2, 2)
    assert ops.constant(np.zeros((2, 3), np.int16)).type == tensor(DType.int16, 2, 3)
    assert ops.constant(np.arange(6).reshape(2, 3).T).shape == [3, 2]
    assert ops.constant(Buffer.zeros((2,), DType.bfloat16)).type == tensor(DType.bfloat16, 2)
    assert ops.constant(True, BOOL, DeviceRef.CPU()).type == tensor(BOOL)
    with pytest.raises(TypeError, match="Literal constants must explicitly set a dtype and device."):
        ops.constant(1)
    with pytest.raises(ValueError, match="Array literals must be rectangular, got literal="):
        ops.constant([[1], [2, 3]], F32, CPU())
    with pytest.raises(ValueError, match="DType must match input dtype: dtype="):
        ops.constant(np.zeros(2), F32)
    with pytest.raises(ValueError, match="Refusing to implicitly promote external array with value 300 out of range"):
        ops.constant(300, DType.int8, CPU())
    with pytest.raises(TypeError, match="since it is a sub-byte type"):
        ops.constant(1, DType.float4_e2m1fn, CPU())
    with pytest.raises(TypeError):
        ops.constant("text", F32, CPU())


def test_lists_of_values(graph):
    x, i, _, _ = graph.inputs
    assert ops.concat([x, x]).shape == [Dim("n") * 2, 4] and ops.stack((i, i)).shape == [2, 4]
    assert [v.shape for v in ops.split(i, [1, 0, 3])] == [[1], [0], [3]]
    assert len(ops.chunk(x, 2, axis=1)) == 2
    assert ops.concat([x, np.ones((1, 4), np.float32)]).shape == [Dim("n") + 1, 4]
    with pytest.raises(ValueError, match="Must provide at least one value to concat."):
        ops.concat([])
    values, indices = ops.top_k(x, 2)
    assert values.shape == indices.shape == ["n", 2] and indices.dtype is I64


def test_range(graph):
    assert ops.range(0, 10, 2, dtype=I32, device=CPU()).shape == [5]
    assert ops.range(0, "n", dtype=I64, device=CPU()).shape == ["n"]
    with pytest.raises(ValueError, match="range: step must be non-zero"):
        ops.range(0, 10, 0, dtype=I32, device=CPU())


def test_errors_name_op_and_inputs(graph):
    x = graph.inputs[0]
    with pytest.raises(ValueError) as error:
        ops.matmul(x, ops.constant(np.ones((3, 2), np.float32)))
    text = str(error.value)
    assert text.startswith("Failed to create op 'matmul':\nInputs:\n    ") and "TensorValue(" in text


def test_values_of_other_graphs(graph):
    x = graph.inputs[0]
    with Graph("other") as other:
        with pytest.raises(ValueError, match="value belongs to graph 'g', not to 'other'"):
            x + 1
        with pytest.raises(ValueError, match="value belongs to graph 'g', not to 'other'"):
            other.output(x)
