"""Tensors that are spread over a simulated mesh."""

import threading

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kiln.driver import CPU, Buffer
from kiln.dtype import DType
from kiln.engine import InferenceSession
from kiln.experimental import functional as F
from kiln.experimental.compilation import CompiledCallable, as_subgraph, compile, stage
from kiln.experimental.nn import Module
from kiln.experimental.sharding import (
    ALL_TRANSITIONS,
    DEFAULT_TRANSITIONS,
    BufferLayout,
    DeviceMapping,
    DeviceMesh,
    NamedMapping,
    Partial,
    ReduceOp,
    Replicated,
    Sharded,
    ShardingError,
    TensorLayout,
    Unknown,
    auto_reshard,
)
from kiln.experimental.tensor import Tensor
from kiln.graph import Graph, TensorType

F32 = DType.float32


def mesh_of(**axes):
    return DeviceMesh([CPU()] * int(np.prod(list(axes.values()))), tuple(axes.values()), tuple(axes))


TP2 = mesh_of(tp=2)
GRID = mesh_of(dp=2, tp=3)


def mapped(mesh, *placements):
    return DeviceMapping(mesh, placements)


def array(*shape, dtype=np.float32, seed=0):
    """Small whole numbers, so that sums are exact in any order."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def slices(data, mapping):
    """What each device holds, by NumPy."""
    parts = []
    for device in range(mapping.mesh.num_devices):
        part = data
        for axis, placement in enumerate(mapping.placements):
            if isinstance(placement, Sharded):
                pieces = np.array_split(part, mapping.mesh.axis_size(axis), axis=placement.axis)
                part = pieces[mapping.mesh.device_coord(device, axis)]
        parts.append(part)
    return parts


def spread(data, mapping):
    """A tensor whose value is `data`; along axes that hold terms, terms that differ."""
    parts = slices(data, mapping)
    terms = [axis for axis, placement in enumerate(mapping.placements) if isinstance(placement, Partial)]
    sums = any(mapping.placements[axis].reduce_op == ReduceOp.SUM for axis in terms)
    shards = []
    for device, part in enumerate(parts):
        coords = [mapping.mesh.device_coord(device, axis) for axis in terms]
        sizes = [mapping.mesh.axis_size(axis) for axis in terms]
        if terms and sums:
            # The first has all but what the others have too much.
            part = part - 2 * (int(np.prod(sizes)) - 1) if not any(coords) else np.full_like(part, 2)
        shards.append(Tensor.from_dlpack(np.array(part, order="C")))
    return Tensor._from_shards(shards, mapping)


meshes = st.sampled_from([TP2, mesh_of(tp=3), GRID, mesh_of(a=2, b=1, c=2), mesh_of(only=1)])


def placements_for(rank, partial=True):
    options = [st.just(Replicated())]
    if rank:
        options.append(st.integers(0, rank - 1).map(Sharded))
    if partial:
        options.append(st.just(Partial()))
    return st.one_of(*options)


def mappings(mesh, rank, partial=True):
    return st.lists(placements_for(rank, partial), min_size=mesh.ndim, max_size=mesh.ndim).map(
        lambda placements: DeviceMapping(mesh, placements)
    )


# What they are


def test_members_of_a_distributed_tensor():
    data = array(5, 4)
    mapping = mapped(GRID, Sharded(0), Sharded(1))
    x = Tensor.from_dlpack(data).to(mapping)
    assert x.shape == [5, 4] and x.rank == 2 and x.dtype == F32 and x.num_elements() == 20
    assert (x.mapping, x.mesh, x.placements) == (mapping, GRID, (Sharded(0), Sharded(1)))
    assert x.num_shards == 6 and x.is_distributed and x.real
    assert x.layout == TensorLayout(F32, [5, 4], mapping)
    for shard, part, buffer in zip(x.local_shards, slices(data, mapping), x.buffers, strict=True):
        np.testing.assert_array_equal(shard.to_numpy(), part)
        assert not shard.is_distributed and shard.driver_tensor.to_numpy().ctypes.data == buffer.to_numpy().ctypes.data
    assert repr(x) == f"Tensor(shape=[5, 4], dtype=DType.float32, mapping={mapping!r})"
    np.testing.assert_array_equal(x.to_numpy(), data)
    assert x.to(mapping) is x


def test_members_of_a_tensor_on_one_device():
    x = Tensor([1, 2])
    assert x.mapping == DeviceMapping.replicated(DeviceMesh.single(CPU()))
    assert (x.num_shards, x.is_distributed, x.placements) == (1, False, (Replicated(),))
    assert len(x.buffers) == len(x.local_shards) == 1
    assert x.rebind_mapping(x.mapping) is x


def test_what_has_no_single_device():
    x = Tensor([1, 2]).to(TP2)
    with pytest.raises(ValueError) as error:
        _ = x.device
    assert str(error.value) == (
        "Cannot access single device on a distributed tensor spanning 2 devices. Use tensor.mesh.devices instead."
    )
    with pytest.raises(ValueError, match=r"Use tensor\.buffers instead"):
        _ = x.driver_tensor
    with pytest.raises(TypeError, match="its layout says"):
        _ = x.type
    with pytest.raises(ValueError, match="distributed tensor spanning 2 devices"):
        np.from_dlpack(x)
    with pytest.raises(ValueError) as error:
        F.cond(Tensor(True), [TensorType(F32, [2], CPU())], lambda: x, lambda: x)
    with pytest.raises(ValueError) as error:
        Tensor([1, 2]).to(mapped(TP2, Sharded(0))).sum().item()
    assert "Cannot call 'item' on a sharded tensor distributed over DeviceMapping(" in str(error.value)
    assert Tensor([1, 2]).to(TP2).sum().item() == 3  # copies answer from the first
    assert bool(Tensor([1]).to(TP2))


def test_stores_to_one_shard_leave_the_others_alone():
    x = Tensor([1.0, 2.0]).to(TP2)
    x.local_shards[0][0] = Tensor(9.0)
    assert [shard.to_numpy().tolist() for shard in x.local_shards] == [[9, 2], [1, 2]]


def test_unrealised_tensors():
    with F.lazy():
        x = Tensor([1, 2, 3]).to(mapped(TP2, Sharded(0))) + 1
        assert not x.real
        with pytest.raises(TypeError, match="Can't get buffers for unrealized tensor"):
            _ = x.buffers
    np.testing.assert_array_equal(x.to_numpy(), [2, 3, 4])


@pytest.mark.parametrize(("shards", "mapping", "text"), [
    ([[1]], mapped(TP2, Sharded(0)), "needs one shard for each of its 2 devices, got 1"),
    ([[1], [1, 2]], mapped(TP2, Sharded(0)), r"Shards of shapes \[1\], \[2\] are not those of a tensor of shape \[3\]"),
    ([[1], [1, 2]], mapped(TP2, Replicated()), r"Shards of shapes \[1\], \[2\] are not those"),
    ([[1], [1]], mapped(TP2, Sharded(1)), r"Sharded\(axis=1\) is out of range for a rank-1 shape"),
])
def test_shards_that_are_none_of_a_tensor(shards, mapping, text):
    with pytest.raises(ValueError, match=text):
        Tensor._from_shards([Tensor(shard) for shard in shards], mapping)


def test_values_of_a_graph_as_shards():
    with Graph("g", input_types=[TensorType(F32, ["n_tp_0", 2], CPU()), TensorType(F32, ["n_tp_1", 2], CPU())]) as g:
        x = Tensor.from_shard_values(g.inputs, mapped(TP2, Sharded(0)))
        assert x.shape == ["n", 2] and len(x.graph_values) == 2
        y = x * 2
        g.output(*y.graph_values)
        with pytest.raises(ValueError, match="got 2 values and no mapping"):
            Tensor.from_shard_values(g.inputs)
        with pytest.raises(TypeError, match="takes values of a graph"):
            Tensor.from_shard_values([1], mapped(TP2, Sharded(0)))
        assert Tensor.from_shard_values(g.inputs[:1]).shape == ["n_tp_0", 2]


# Moving


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_moves_keep_the_value(data):
    shape = data.draw(st.lists(st.integers(0, 5), max_size=3))
    mesh = data.draw(meshes)
    values = array(*shape)
    source = data.draw(mappings(mesh, len(shape)))
    target = data.draw(mappings(mesh, len(shape), partial=False))
    x = spread(values, source)
    y = x.to(target)
    assert y.mapping == target and y.shape == list(shape)
    for shard, part in zip(y.local_shards, slices(values, target), strict=True):
        np.testing.assert_array_equal(shard.to_numpy(), part)
    np.testing.assert_array_equal(x.to_numpy(), values)
    other = data.draw(meshes)
    onto = data.draw(mappings(other, len(shape), partial=False))
    np.testing.assert_array_equal(x.to(onto).to_numpy(), values)


def test_averages_are_resolved_and_extrema_are_not():
    one, two = Tensor([2.0, 4.0]), Tensor([4.0, 8.0])
    x = Tensor._from_shards([one, two], mapped(TP2, Partial(ReduceOp.AVG)))
    np.testing.assert_array_equal(x.to(TP2).local_shards[1].to_numpy(), [3, 6])
    for placement in (Partial(ReduceOp.MAX), Partial(ReduceOp.MIN), Unknown()):
        x = Tensor._from_shards([one, two], mapped(TP2, placement))
        with pytest.raises(ShardingError, match="along the mesh axis 'tp' there is no way from"):
            x.to(TP2)
        with pytest.raises(ShardingError, match="'add' accepts no placement along the mesh axis 'tp'"):
            _ = x + 1
        assert x.rebind_mapping(DeviceMapping.replicated(TP2)).local_shards[1].to_numpy().tolist() == [4, 8]
    with pytest.raises(ShardingError, match=r"no way from Replicated\(\) to Partial"):
        one.to(mapped(TP2, Partial()))


def test_averages_of_integers_keep_their_dtype():
    x = Tensor._from_shards([Tensor([1, -4], dtype=DType.int32), Tensor([4, -3], dtype=DType.int32)],
                            mapped(TP2, Partial(ReduceOp.AVG)))
    y = x.to(TP2)
    assert y.dtype == DType.int32 and y.local_shards[0].to_numpy().tolist() == [2, -4]


def test_a_named_mapping_is_resolved_again_on_another_mesh():
    x = Tensor.from_dlpack(array(4, 6)).to(NamedMapping(mesh_of(dp=2, tp=2), ("dp", "tp")))
    assert x.placements == (Sharded(0), Sharded(1))
    assert x.to(mesh_of(tp=3)).placements == (Sharded(1),)
    assert Tensor.from_dlpack(array(4, 6)).to(mapped(TP2, Sharded(0))).to(mesh_of(tp=3)).placements == (Replicated(),)


def test_collectives():
    data = array(4, 4)
    x = Tensor.from_dlpack(data).to(mapped(GRID, Replicated(), Sharded(1)))
    whole = F.allgather(x, tensor_axis=1, mesh_axis="tp")
    assert whole.mapping == DeviceMapping.replicated(GRID)
    np.testing.assert_array_equal(whole.local_shards[4].to_numpy(), data)
    terms = F.sum(x, axis=1)
    assert terms.placements == (Replicated(), Partial())
    np.testing.assert_array_equal(F.allreduce_sum(terms, mesh_axis=-1).local_shards[2].to_numpy(), data.sum(1)[:, None])
    scattered = F.reduce_scatter(terms, scatter_axis=0, mesh_axis=1)
    assert scattered.placements == (Replicated(), Sharded(0))
    np.testing.assert_array_equal(scattered.to_numpy(), data.sum(1)[:, None])
    with pytest.raises(ShardingError, match=r"allgather over the mesh axis 'dp' needs a tensor that is Sharded\("):
        F.allgather(x)
    with pytest.raises(ShardingError, match="allreduce_sum over the mesh axis 'tp' needs a tensor that is Partial"):
        F.allreduce_sum(x, "tp")
    with pytest.raises(ShardingError, match="reduce_scatter"):
        F.reduce_scatter(x, 0, "tp")
    with pytest.raises(IndexError, match="axis 2 is out of range for a tensor of rank 2"):
        F.allgather(x, 2, "tp")
    with pytest.raises(ValueError, match="Unknown axis name 'pp'"):
        F.allreduce_sum(x, "pp")


# Ops


def relu(x):
    return np.maximum(x, 0)


def softmax(x, axis):
    e = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def layer_norm(x, gamma, beta):
    x = x.astype(np.float64)
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * gamma + beta


def conv(x, w):
    padded = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)])
    rows, columns = x.shape[1:3]
    return sum(padded[:, r:r + rows, s:s + columns] @ w[r, s] for r in range(3) for s in range(3))


def transposed_conv(x, w):
    out = np.zeros((x.shape[0], x.shape[1] + w.shape[0] - 1, x.shape[2] + w.shape[1] - 1, w.shape[2]), x.dtype)
    for r in range(w.shape[0]):
        for s in range(w.shape[1]):
            out[:, r:r + x.shape[1], s:s + x.shape[2]] += x @ w[r, s].T
    return out


INDICES = np.array([[1, 0, 2], [2, 2, 1]])
OPS = [
    ("add", lambda a, b: a + b, None, [(6, 4), (6, 4)]),
    ("add broadcast", lambda a, b: a + b, None, [(6, 1, 4), (3, 1)]),
    ("mul", lambda a, b: a * b, None, [(4, 6), (6,)]),
    ("sub number", lambda a: 3 - a, None, [(5, 2)]),
    ("constant", lambda a: a * array(6, 4, seed=3), None, [(6, 4)]),
    ("less", lambda a, b: a < b, None, [(3, 4), (3, 4)]),
    ("matmul", lambda a, b: a @ b, None, [(5, 6), (6, 4)]),
    ("matmul batch", lambda a, b: a @ b, None, [(2, 3, 4, 6), (3, 6, 2)]),
    ("matmul vector", lambda a, b: a @ b, None, [(4, 6), (6,)]),
    ("relu", F.relu, relu, [(7,)]),
    ("where", lambda a, b: F.where(a > 0, a, b), lambda a, b: np.where(a > 0, a, b), [(4, 3), (3,)]),
    ("transpose", lambda a: F.transpose(a, 0, 2), lambda a: a.swapaxes(0, 2), [(2, 3, 4)]),
    ("permute", lambda a: F.permute(a, [2, 0, 1]), lambda a: a.transpose(2, 0, 1), [(2, 3, 4)]),
    ("reshape", lambda a: F.reshape(a, [12, 2, 3]), lambda a: a.reshape(12, 2, 3), [(6, 4, 3)]),
    ("reshape joined", lambda a: F.reshape(a, [6, -1]), lambda a: a.reshape(6, -1), [(6, 4, 3)]),
    ("reshape cut", lambda a: F.reshape(a, [4, 3, 2]), lambda a: a.reshape(4, 3, 2), [(12, 2)]),
    ("flatten", F.flatten, lambda a: a.reshape(-1), [(6, 2)]),
    ("squeeze", lambda a: F.squeeze(a, 1), lambda a: a.squeeze(1), [(3, 1, 2)]),
    ("unsqueeze", lambda a: F.unsqueeze(a, 1), lambda a: a[:, None], [(3, 2)]),
    ("broadcast_to", lambda a: F.broadcast_to(a, [2, 3, 4]), lambda a: np.broadcast_to(a, (2, 3, 4)), [(3, 1)]),
    ("slice", lambda a: a[1:4], lambda a: a[1:4], [(6, 4)]),
    ("slice whole", lambda a: a[0:6, ::2], lambda a: a[:, ::2], [(6, 4)]),
    ("pick", lambda a: a[2], lambda a: a[2], [(6, 4)]),
    ("concat", lambda a, b: F.concat([a, b], 1), lambda a, b: np.concatenate([a, b], 1), [(4, 3), (4, 2)]),
    ("stack", lambda a, b: F.stack([a, b], 1), lambda a, b: np.stack([a, b], 1), [(4, 3), (4, 3)]),
    ("split", lambda a: F.concat(F.split(a, 2, 1)[::-1], 1), lambda a: np.concatenate([a[:, 2:], a[:, :2]], 1),
     [(3, 4)]),
    ("pad", lambda a: F.pad(a, [0, 0, 1, 2]), lambda a: np.pad(a, [(0, 0), (1, 2)]), [(4, 3)]),
    ("tile", lambda a: F.tile(a, [1, 2]), lambda a: np.tile(a, (1, 2)), [(4, 3)]),
    ("gather", lambda a: F.gather(a, Tensor(INDICES, device=CPU()), 1), lambda a: np.take(a, INDICES, 1), [(4, 3)]),
    ("gather rows", lambda a: F.gather(a, Tensor(INDICES, device=CPU()), 0), lambda a: np.take(a, INDICES, 0),
     [(3, 4)]),
    ("sum", lambda a: F.sum(a, 0), lambda a: a.sum(0, keepdims=True), [(6, 4)]),
    ("mean", lambda a: F.mean(a, 1), lambda a: a.mean(1, keepdims=True), [(3, 12)]),
    ("sum of all", lambda a: a.sum(axis=None), lambda a: a.sum().reshape(1), [(6, 4)]),
    ("max", lambda a: F.max(a, axis=0), lambda a: a.max(0, keepdims=True), [(6, 4)]),
    ("argmax", lambda a: F.argmax(a, axis=1), lambda a: a.argmax(1)[:, None], [(6, 4)]),
    ("prod", lambda a: F.prod(a, 0), lambda a: a.prod(0, keepdims=True), [(3, 4)]),
    ("softmax", lambda a: F.softmax(a, 0), lambda a: softmax(a, 0), [(6, 4)]),
    ("layer_norm", lambda a, g, b: F.layer_norm(a, g, b, 1e-5), layer_norm, [(6, 4), (4,), (4,)]),
    ("top_k", lambda a: F.top_k(a, 2)[0], lambda a: -np.sort(-a, -1)[:, :2], [(6, 4)]),
    ("cast", lambda a: F.cast(a, DType.int32), lambda a: a.astype(np.int32), [(6, 4)]),
    ("cumsum", lambda a: F.cumsum(a, 1), lambda a: a.cumsum(1), [(6, 4)]),
    ("scatter_add", lambda a, u: F.scatter_add(a, u, Tensor([[1, 0], [2, 2], [0, 1]], dtype=DType.int64), 1),
     lambda a, u: a + np.array([[u[0, 1], u[0, 0], 0], [0, 0, u[1, 0] + u[1, 1]], [u[2, 0], u[2, 1], 0]]),
     [(3, 3), (3, 2)]),
    ("conv2d", lambda a, w: F.conv2d(a, w, padding=(1, 1, 1, 1)), conv, [(2, 4, 3, 4), (3, 3, 4, 6)]),
    ("conv2d_transpose", F.conv2d_transpose, transposed_conv, [(2, 4, 3, 4), (3, 2, 6, 4)]),
    ("irfft", lambda a: F.irfft(a, n=4, axis=1), lambda a: np.fft.irfft(a.astype(np.float64), 4, 1), [(4, 3, 6)]),
    ("avg_pool2d", lambda a: F.avg_pool2d(a, 2, 2), lambda a: a.reshape(4, 2, 2, 1, 2, 3).mean((2, 4)),
     [(4, 4, 2, 3)]),
    ("max_pool2d", lambda a: F.max_pool2d(a, 2, 2), lambda a: a.reshape(4, 2, 2, 1, 2, 3).max((2, 4)),
     [(4, 4, 2, 3)]),
    ("negated terms", lambda a, b: -(a - b) * 2, lambda a, b: (b - a) * 2, [(4, 3), (4, 3)]),
    ("group_norm", lambda a, g, b: F.group_norm(a, g, b, 2, 1e-5),
     lambda a, g, b: layer_norm(a.reshape(4, 2, -1), 1, 0).reshape(a.shape) * g[:, None] + b[:, None],
     [(4, 6, 3), (6,), (6,)]),
]


@pytest.mark.parametrize(("function", "oracle", "shapes"), [op[1:] for op in OPS], ids=[op[0] for op in OPS])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_ops_on_spread_tensors_give_what_they_give_on_whole_ones(function, oracle, shapes, data):
    mesh = data.draw(meshes)
    arrays = [array(*shape, seed=i) for i, shape in enumerate(shapes)]
    tensors = [spread(values, data.draw(mappings(mesh, values.ndim))) for values in arrays]
    result = function(*tensors)
    expected = (oracle or function)(*arrays)
    assert result.shape == list(expected.shape)
    np.testing.assert_allclose(result.to_numpy(), expected, rtol=1e-5, atol=1e-5)
    again = function(*tensors)
    assert again.mapping == result.mapping
    np.testing.assert_array_equal(again.to_numpy(), result.to_numpy())


def placements_after(function, *inputs):
    mesh = inputs[0][1].mesh
    with auto_reshard(mode="raise"):
        result = function(*[Tensor.from_dlpack(array(*shape)).to(mapping) for shape, mapping in inputs])
    assert result.mesh == mesh
    return result.placements


def test_placements_that_ops_keep():
    def on(placement):
        return mapped(TP2, placement)

    rows, columns, copies = on(Sharded(0)), on(Sharded(1)), on(Replicated())
    matmul = lambda a, b: a @ b  # noqa: E731
    assert placements_after(matmul, ((4, 6), rows), ((6, 8), copies)) == (Sharded(0),)
    assert placements_after(matmul, ((4, 6), copies), ((6, 8), columns)) == (Sharded(1),)
    assert placements_after(matmul, ((4, 6), columns), ((6, 8), rows)) == (Partial(),)
    # A slice of a copy is free.
    assert placements_after(matmul, ((4, 6), columns), ((6, 8), copies)) == (Partial(),)
    assert placements_after(lambda a, b: a + b, ((4, 6), copies), ((4, 6), columns)) == (Sharded(1),)
    assert placements_after(lambda a: F.reshape(a, [4, 2, 3]), ((4, 6), columns)) == (Sharded(1),)
    assert placements_after(lambda a: F.reshape(a, [24]), ((4, 6), rows)) == (Sharded(0),)
    assert placements_after(lambda a: F.sum(a, 0), ((4, 6), rows)) == (Partial(),)
    assert placements_after(lambda a: F.mean(a, 0), ((4, 6), rows)) == (Partial(ReduceOp.AVG),)
    assert placements_after(lambda a: F.softmax(a, 1), ((4, 6), rows)) == (Sharded(0),)
    assert placements_after(lambda a: a * 2, ((4, 6), rows)) == (Sharded(0),)
    assert placements_after(lambda a, b: a * b, ((4, 6), copies), ((4, 6), copies)) == (Replicated(),)


def test_the_cheaper_input_is_moved():
    big = Tensor.from_dlpack(array(64, 8)).to(mapped(TP2, Sharded(0)))
    small = Tensor.from_dlpack(array(8, 2)).to(mapped(TP2, Sharded(1)))
    assert (big @ small).placements == (Sharded(0),)  # the small one is gathered


def test_auto_reshard_reports():
    x = Tensor.from_dlpack(array(4, 6)).to(mapped(TP2, Sharded(0)))
    assert DEFAULT_TRANSITIONS == ALL_TRANSITIONS - {(Partial, Sharded)}
    with auto_reshard(mode="raise"), pytest.raises(ShardingError) as error:
        F.softmax(x, 0)
    assert str(error.value) == (
        "'softmax' has to move distributed inputs:\n"
        "input 0 TensorLayout(DType.float32, [4, 6], DeviceMapping(DeviceMesh(tp=2), [Sharded(axis=0)])): needs an "
        "all-to-all over 'tp' of 24 bytes for each device; F.transfer_to(…, DeviceMapping(DeviceMesh(tp=2), "
        "[Sharded(axis=1)])) makes it explicit."
    )

    @auto_reshard(mode="warn")
    def warned():
        return F.softmax(x, 0)

    for _ in range(2):
        with pytest.warns(UserWarning, match="'softmax' has to move distributed inputs"):
            assert warned().placements == (Sharded(1),)
    with auto_reshard({(Sharded, Replicated)}):
        assert F.softmax(x, 0).placements == (Replicated(),)
        with auto_reshard(set()), pytest.raises(ShardingError, match="Allowed without being asked for: nothing"):
            F.softmax(x, 0)
    assert F.softmax(x, 0).placements == (Sharded(1),)
    terms = F.sum(x, 0)
    assert F.relu(terms).placements == (Replicated(),)
    with auto_reshard(ALL_TRANSITIONS):
        assert F.relu(terms).placements == (Sharded(1),)  # a reduce-scatter is half of an all-reduce
    with pytest.raises(ValueError, match="mode is 'loud'"):
        auto_reshard(mode="loud")
    with pytest.raises(TypeError, match="is no transition"):
        auto_reshard({(Sharded(0), Replicated)})
    with pytest.raises(TypeError, match=r"\(Replicated, Partial\) is no change that can be done"):
        auto_reshard({(Replicated, Partial)})


def test_a_decorated_function_runs_on_several_threads():
    x = Tensor.from_dlpack(array(4, 6)).to(mapped(TP2, Sharded(0)))
    failures = []

    @auto_reshard(mode="raise")
    def refused():
        F.softmax(x, 0)

    def work():
        for _ in range(100):
            try:
                refused()
                failures.append("not refused")
            except ShardingError:
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert F.softmax(x, 0).placements == (Sharded(1),)


def test_sizes_that_data_tells():
    x = Tensor([0, 3, 0, 4]).to(mapped(TP2, Sharded(0)))
    found = F.nonzero(x, "found")
    assert found.shape == [2, 1] and found.placements == (Replicated(),)
    np.testing.assert_array_equal(found.to_numpy(), [[1], [3]])


def test_tensors_that_do_not_meet():
    x = Tensor.from_dlpack(array(4, 6)).to(mapped(TP2, Sharded(0)))
    np.testing.assert_array_equal((x + Tensor(1)).to_numpy(), array(4, 6) + 1)  # the mesh is this device
    with pytest.raises(ValueError, match=r"'add' got tensors on DeviceMesh\(tp=2\) and on DeviceMesh\(dp=2, tp=3\)"):
        _ = x + Tensor(1).to(GRID)
    with pytest.raises(ValueError, match=r"Cannot call 'while_loop' on a sharded tensor distributed over"):
        F.while_loop([x], lambda v: F.sum(F.sum(v, 0), 1).reshape([]) > 0, lambda v: v - 1)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_random_programs_over_random_meshes(data):
    mesh = data.draw(meshes)
    pool = []
    for i in range(3):
        shape = data.draw(st.lists(st.sampled_from([1, 4, 6]), min_size=2, max_size=2))
        values = array(*shape, seed=i)
        pool.append((spread(values, data.draw(mappings(mesh, 2))), values.astype(np.float64)))

    def run(tensors, np_values):
        for _ in range(data.draw(st.integers(2, 7))):
            kind = data.draw(st.sampled_from(["add", "mul", "matmul", "relu", "sum", "t", "softmax", "cat", "mix"]))
            i, j = (data.draw(st.integers(0, len(np_values) - 1)) for _ in range(2))
            a, b, x, y = np_values[i], np_values[j], tensors[i], tensors[j]
            fits = all(m == n or 1 in (m, n) for m, n in zip(a.shape, b.shape, strict=True))
            if kind in ("add", "mul", "mix") and not fits:
                continue
            if kind == "add":
                made = x + y, a + b
            elif kind == "mul":
                made = x * y * 0.25, a * b * 0.25
            elif kind == "mix":
                made = F.where(x > y, x, y), np.where(a > b, a, b)
            elif kind == "matmul" and a.shape[1] == b.shape[0]:
                made = x @ y, a @ b
            elif kind == "relu":
                made = F.relu(x), relu(a)
            elif kind == "sum":
                axis = data.draw(st.integers(0, 1))
                made = F.sum(x, axis), a.sum(axis, keepdims=True)
            elif kind == "t":
                made = x.T, a.T
            elif kind == "softmax":
                made = F.softmax(x, 1), softmax(a, 1)
            elif kind == "cat" and a.shape[1] == b.shape[1] and a.shape[0] + b.shape[0] < 30:
                made = F.concat([x, y], 0), np.concatenate([a, b], 0)
            else:
                continue
            assume(np.abs(made[1]).max() < 1e6)
            tensors.append(made[0])
            np_values.append(made[1])
        return tensors, np_values

    tensors, expected = run([t for t, _ in pool], [v for _, v in pool])
    for tensor, values in zip(tensors, expected, strict=True):
        scale = max(1.0, np.abs(values).max())
        # Comparisons decide on rounded values, so only what is far from a tie is compared closely.
        np.testing.assert_allclose(tensor.to_numpy() / scale, values / scale, atol=2e-3)


# Stores


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_stores_write_the_global_range(data):
    mesh = data.draw(meshes)
    shape = data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=2))
    values = array(*shape)
    x = spread(values, data.draw(mappings(mesh, len(shape), partial=False)))
    key = []
    for n in shape:
        start = data.draw(st.integers(0, n))
        stop = data.draw(st.integers(start, n))
        step = data.draw(st.integers(1, 3))
        key.append(data.draw(st.sampled_from([slice(start, stop, step), slice(None), min(start, n - 1), -1])))
    key = tuple(key)
    region = values[key]
    source = array(*region.shape, seed=5)
    memory = [buffer.to_numpy().ctypes.data for buffer in x.buffers if buffer.num_elements]
    tensor = Tensor.from_dlpack(source)
    if data.draw(st.booleans()):
        tensor = spread(source, data.draw(mappings(mesh, source.ndim)))
    x[key] = tensor
    values[key] = source
    np.testing.assert_array_equal(x.to_numpy(), values)
    for shard, part in zip(x.local_shards, slices(values, x.mapping), strict=True):
        np.testing.assert_array_equal(shard.to_numpy(), part)
    assert [buffer.to_numpy().ctypes.data for buffer in x.buffers if buffer.num_elements] == memory


def test_stores_that_cannot_be():
    x = Tensor.from_dlpack(array(4, 6)).to(mapped(TP2, Sharded(0)))
    with pytest.raises(ShardingError, match="its elements are not there yet"):
        F.sum(x, 0)[0, 0] = Tensor(1)
    with pytest.raises(ValueError, match="expected source to have shape"):
        x[0:2] = Tensor([[1, 2], [3, 4]])
    F.buffer_store(x, Tensor.from_dlpack(array(4, 6, seed=9)))
    np.testing.assert_array_equal(x.to_numpy(), array(4, 6, seed=9))
    at = Tensor(2, dtype=DType.int64)
    for key in (at, (slice(None), at), (slice(at, None), 0)):
        with pytest.raises(ValueError) as error:
            x[key] = Tensor(1.0)
        assert str(error.value) == (
            f"Cannot call 'buffer_store_slice' on a sharded tensor distributed over {x.mapping!r}. Use per-shard "
            "access or transfer_to first."
        )
    single = Tensor.zeros([4, 6])
    with pytest.raises(ValueError, match="Cannot call 'buffer_store_slice' on a sharded tensor distributed over"):
        single[at] = x[:2]
    single[...] = x
    np.testing.assert_array_equal(single.to_numpy(), x.to_numpy())


# Making them


def test_creation_on_a_mesh():
    rows = mapped(TP2, Sharded(0))
    for made, expected in [
        (Tensor.full([3, 2], 7, device=rows), np.full((3, 2), 7)),
        (Tensor.zeros([3, 2], device=TP2), np.zeros((3, 2))),
        (Tensor.arange(5, device=rows), np.arange(5)),
        (Tensor([[1, 2], [3, 4]], device=rows), np.array([[1, 2], [3, 4]])),
        (Tensor(array(3, 2), device=rows), array(3, 2)),
        (F.constant([1, 2, 3], device=rows), np.array([1, 2, 3])),
    ]:
        assert made.is_distributed and made.mesh == TP2
        np.testing.assert_array_equal(made.to_numpy(), expected)
    x = Tensor.full([3, 2], 7, device=rows)
    assert Tensor.ones_like(x).mapping == rows and F.zeros_like(x).to_numpy().sum() == 0
    assert Tensor.range_like(x).mapping == rows
    np.testing.assert_array_equal(Tensor.range_like(x).to_numpy(), [[0, 1]] * 3)
    assert [shard.shape for shard in x.local_shards] == [[2, 2], [1, 2]]


def test_helpers():
    x = Tensor([[1, 2], [3, 4]]).to(mapped(TP2, Sharded(0)))
    assert F.any_distributed({"a": [1, x]}) and not F.any_distributed(Tensor(1))
    assert F.tensor_to_layout([x, 3]) == [x.layout, 3]
    doubled = F.per_shard_dispatch(lambda part, by: {"y": part * by}, x, by=2)["y"]
    assert doubled.mapping == x.mapping
    np.testing.assert_array_equal(doubled.to_numpy(), [[2, 4], [6, 8]])
    with pytest.raises(ValueError, match="per_shard_dispatch: an argument lives on"):
        F.per_shard_dispatch(lambda a, b: a, x, x.to(GRID))
    with F.ensure_context():
        y = x + 1
        assert not y.real
    np.testing.assert_array_equal(y.to_numpy(), [[2, 3], [4, 5]])

    @F.functional
    def both(a):
        return a * 2, F.sum(a, 0)

    twice, total = both(x)
    assert twice.real and total.real and total.placements == (Partial(),)
    np.testing.assert_array_equal(total.to_numpy(), [[4, 6]])


# Staged and compiled


def mlp(x, up, down):
    return F.relu(x @ up) @ down


def test_a_sharded_mlp_is_compiled():
    mesh = mesh_of(dp=2, tp=2)
    layouts = [
        TensorLayout(F32, ["batch", 4], NamedMapping(mesh, ("dp",))),
        TensorLayout(F32, [4, 6], NamedMapping(mesh, (None, "tp"))),
        TensorLayout(F32, [6, 3], NamedMapping(mesh, ("tp",))),
    ]
    staged = stage(mlp)(*layouts)
    assert staged.in_layouts == layouts and len(staged.graph.inputs) == 12
    assert staged.out_layouts[0].placements == (Sharded(0), Partial())
    run = compile(mlp)(*layouts)
    up, down = array(4, 6, seed=1), array(6, 3, seed=2)
    for batch in (4, 5, 1):
        x = array(batch, 4, seed=batch)
        arguments = [Tensor(a).to(layout.mapping) for a, layout in zip((x, up, down), layouts, strict=True)]
        result = run(*arguments)
        assert result.placements == (Sharded(0), Partial())
        np.testing.assert_array_equal(result.to_numpy(), relu(x @ up) @ down)
        raw = run.execute_raw(*[buffer for argument in arguments for buffer in argument.buffers])
        assert len(raw) == 4
    assert run.signal_buffers == []
    restored = CompiledCallable.from_compiled(
        InferenceSession().compile(staged.graph), None, staged.in_layouts, staged.in_tree, staged.out_layouts,
        staged.out_tree,
    )
    assert restored.out_layouts == run.out_layouts


def test_symbolic_sizes_are_split_and_gathered():
    rows = mapped(TP2, Sharded(0))

    def normalised(x):
        whole = x.to(TP2)
        return F.softmax(whole, 0), (x * 2).to(mapped(TP2, Sharded(1))), whole.to(rows) + x

    run = compile(normalised)(TensorLayout(F32, ["n", 4], rows))
    for n in (3, 4):
        x = array(n, 4)
        a, b, c = run(Tensor(x).to(rows))
        np.testing.assert_allclose(a.to_numpy(), softmax(x, 0), rtol=1e-5)
        np.testing.assert_array_equal(b.to_numpy(), x * 2)
        np.testing.assert_array_equal(c.to_numpy(), x * 2)
        assert c.placements == (Sharded(0),)
    with pytest.raises(ShardingError, match=r"The dim n \+ 1 cannot be sharded"):
        compile(lambda x: x)(TensorLayout(F32, [Tensor([1]).shape[0] + "n", 4], rows))


def test_batches_stay_split():
    rows = mapped(TP2, Sharded(0))
    image, signal = Tensor(array(4, 3, 3, 2)).to(rows), Tensor(array(4, 3)).to(rows)
    for made in (
        F.conv2d_transpose(image, Tensor(array(2, 2, 5, 2))),
        F.conv2d(image, Tensor(array(2, 2, 2, 5)), bias=Tensor(array(5))),
        F.irfft(signal, n=4, axis=1),
        image.reshape([4, 9, 2]) @ Tensor(array(4, 2, 5)),
    ):
        assert made.placements == (Sharded(0),)


def test_split_symbols_are_sizes_of_the_graph():
    rows, both = mapped(TP2, Sharded(0)), mapped(mesh_of(dp=2, tp=2), Sharded(0), Sharded(0))
    plain = TensorLayout(F32, ["n"], CPU())

    def counted(x, y):
        n = x.shape[0]
        positions = F.arange(n, dtype=F32)
        grid = y.reshape([n, -1]) + F.broadcast_to(positions.reshape([n, 1]), [n, 3])
        tall = F.reshape(x, [n, -1, 2])
        inner = as_subgraph(lambda v: v * F.arange(v.shape[0], dtype=F32).reshape([-1, 1]))
        return positions, grid, tall, x * F.broadcast_to(positions.reshape([n, 1]), x.shape), inner(x)

    for mapping in (rows, both, mapped(TP2, Replicated())):
        run = compile(counted)(TensorLayout(F32, ["n", 4], mapping), TensorLayout(F32, ["n", 3], CPU()))
        for n in (3, 4, 7):
            x, y, i = array(n, 4), array(n, 3), np.arange(n, dtype=np.float32)[:, None]
            results = run(Tensor(x).to(mapping), Tensor(y))
            for made, wanted in zip(results, [i[:, 0], y + i, x.reshape(n, 2, 2), x * i, x * i], strict=True):
                np.testing.assert_array_equal(made.to_numpy(), wanted)
        with pytest.raises(ValueError, match="symbolic dimension 'n' for argument 1 does not match prior uses"):
            run(Tensor(array(4, 4)).to(mapping), Tensor(array(5, 3)))
    # Of a size that only another argument has, too.
    run = compile(lambda x, y: F.broadcast_to(F.unsqueeze(x, 0), [y.shape[0], *x.shape]))(
        TensorLayout(F32, ["n"], rows), TensorLayout(F32, ["m"], CPU()))
    made = run(Tensor(array(3)).to(rows), Tensor(array(2)))
    np.testing.assert_array_equal(made.to_numpy(), np.stack([array(3)] * 2))
    assert stage(lambda x: x + 1)(plain).graph  # nothing to define


def test_names_of_parts_mean_one_thing():
    narrow, wide = mapped(mesh_of(tp=2), Sharded(0)), mapped(mesh_of(tp=4), Sharded(0))
    one, other = TensorLayout(F32, ["n"], narrow), TensorLayout(F32, ["n"], wide)
    with pytest.raises(ValueError) as error:
        compile(lambda x, y: (x, y))(one, y=other)
    assert str(error.value) == (
        "argument y: 'n_tp_0' is the name of a size here (n, part 0 of 4 along 'tp') and of another one in argument 0 "
        "(n, part 0 of 2 along 'tp'). Give the mesh axis or the symbol another name."
    )
    with pytest.raises(ValueError, match=r"argument 1: 'n_tp_1' is the name of a size here \(n_tp_1\) and of another"):
        stage(lambda x, y: (x, y))(one, TensorLayout(F32, ["n_tp_1"], CPU()))
    run = compile(lambda x, y: (x + 1, y + 1))(one, TensorLayout(F32, ["n"], mapped(mesh_of(wide=4), Sharded(0))))
    x = Tensor(array(5))
    for made in run(x.to(narrow), x.to(mapped(mesh_of(wide=4), Sharded(0)))):
        np.testing.assert_array_equal(made.to_numpy(), array(5) + 1)


def test_moves_name_the_line_of_the_op():
    rows, wide = mapped(TP2, Sharded(0)), mapped(mesh_of(tp=4), Sharded(0))
    for move in (lambda x: x.to(wide), lambda x: F.transfer_to(x, wide), lambda x: x.to(wide.mesh).to(wide)):
        run = compile(move)(TensorLayout(F32, ["n"], rows))
        with pytest.raises(ValueError, match="The part of a tensor of shape .* that device 0 of DeviceMesh") as error:
            run(Tensor(array(5)).to(rows))
        assert "test_distributed.py" in str(error.value) and ".cpp" not in str(error.value)


def test_calls_take_the_short_way():
    rows, columns = mapped(TP2, Sharded(0)), mapped(TP2, Sharded(1))

    def mixed(x, cache, b, *, gain):
        cache[0] = b
        return {"sum": x * gain + b, "b": b + 1}, x.to(columns)

    run = compile(mixed)(
        TensorLayout(F32, ["n", 4], rows), BufferLayout(F32, [3, 4], rows), TensorLayout(F32, [4], CPU()), gain=2
    )

    def refuse(*_):
        raise AssertionError("the long way")

    run._run = refuse
    cache, b = Tensor.zeros([3, 4]).to(rows), array(4, seed=2)
    for n in (1, 2, 5):
        x = array(n, 4)
        result, moved = run(Tensor(x).to(rows), cache, Tensor(b), gain=2)
        np.testing.assert_array_equal(result["sum"].to_numpy(), x * 2 + b)
        np.testing.assert_array_equal(result["b"].to_numpy(), b + 1)
        assert (moved.mapping, result["sum"].mapping) == (columns, rows)
        np.testing.assert_array_equal(moved.to_numpy(), x)
    np.testing.assert_array_equal(cache.to_numpy(), [b, 0 * b, 0 * b])
    x = Tensor(array(2, 4))
    for given in (x, x.to(columns), x.to(TP2), x.to(rows)[:, :3], x.to(rows) > 0):  # each has an error
        with pytest.raises(AssertionError, match="the long way"):
            run(given, cache, Tensor(b), gain=2)
    # Sizes of the whole are compared before.
    two = compile(lambda x, y: (x, y))(TensorLayout(F32, ["n"], rows), TensorLayout(F32, [1, "n"], columns))
    two._run = refuse
    two(Tensor(array(2)).to(rows), Tensor(array(1, 2)).to(columns))
    with pytest.raises(AssertionError, match="the long way"):
        two(Tensor(array(2)).to(rows), Tensor(array(1, 3)).to(columns))


def test_call_errors():
    rows = mapped(TP2, Sharded(0))
    run = compile(lambda x, b: x + b)(TensorLayout(F32, [4, 6], rows), TensorLayout(F32, [6], CPU()))
    x, b = Tensor(array(4, 6)), Tensor(array(6))
    with pytest.raises(ValueError) as error:
        run(x, b)
    assert str(error.value) == (
        "argument 0: expected float32 shape [4, 6] on [cpu:0, cpu:0] as [Sharded(axis=0)], got float32 shape [4, 6] on "
        "[cpu:0]"
    )
    with pytest.raises(ValueError, match=r"argument 0: expected .* got float32 shape \[4, 6\] on \[cpu:0, cpu:0\] as "
                                         r"\[Replicated\(\)\]"):
        run(x.to(TP2), b)
    with pytest.raises(ValueError, match=r"argument 1: expected float32 shape \[6\] on \[cpu:0\], got float32 shape "
                                         r"\[6\] on \[cpu:0, cpu:0\]"):
        run(x.to(rows), b.to(TP2))
    store = compile(lambda t: t.__setitem__(0, Tensor([1.0, 2.0])))(BufferLayout(F32, [4, 2], rows))
    with pytest.raises(ValueError, match=r"argument 0: expected float32 across 2 device\(s\), got float32 across 1"):
        store(Tensor(array(4, 2)))
    with pytest.raises(ValueError, match=r"argument 0: expected .* as \[Sharded\(axis=0\)\], got .* as "
                                         r"\[Replicated\(\)\]"):
        store(Tensor(array(4, 2)).to(TP2))
    with pytest.raises(TypeError, match="argument 0 was staged as a tensor"):
        compile(lambda t: t.__setitem__(0, Tensor([1.0, 2.0])))(TensorLayout(F32, [4, 2], rows))


def test_buffers_are_updated_for_each_shard():
    rows = mapped(TP2, Sharded(0))

    def fill(cache, value):
        cache[1:4] = value
        return F.sum(cache, 0)

    run = compile(fill)(BufferLayout(F32, [5, 2], rows), TensorLayout(F32, [3, 2], CPU()))
    cache = Tensor.zeros([5, 2], device=rows)
    total = run(cache, Tensor(array(3, 2)))
    np.testing.assert_array_equal(cache.to_numpy(), np.pad(array(3, 2), [(1, 1), (0, 0)]))
    np.testing.assert_array_equal(total.to_numpy(), array(3, 2).sum(0, keepdims=True))


def test_distributed_weights():
    rows = mapped(TP2, Sharded(0))
    layout = TensorLayout(F32, [6, 3], rows)

    def project(x):
        weight = F.constant_external("w", layout)
        assert weight.external_name == "w" and weight.mapping == rows
        return x @ weight

    w, x = array(6, 3, seed=1), array(2, 6)
    shards = Tensor(w).to(rows).local_shards
    weights = {f"w._shard.{i}": shard.driver_tensor for i, shard in enumerate(shards)}
    columns = mapped(TP2, Sharded(1))
    run = compile(project, weights=weights)(TensorLayout(F32, [2, 6], columns))
    np.testing.assert_array_equal(run(Tensor(x).to(columns)).to_numpy(), x @ w)
    assert sorted(run.weights) == ["w._shard.0", "w._shard.1"]
    with pytest.raises(ValueError, match="leave out the device"), Graph("g"):
        F.constant_external("w", layout, device=CPU())


class Linear(Module):
    def __init__(self, weight, bias):
        self.weight, self.bias = weight, bias

    def forward(self, x):
        return x @ self.weight + self.bias


def test_modules_on_a_mesh():
    w, b, x = array(4, 6, seed=1), array(6, seed=2), array(3, 4)
    module = Linear(Tensor(w), Tensor(b)).to(TP2)
    module.weight = module.weight.to(mapped(TP2, Sharded(1)))
    eager = module(Tensor(x).to(TP2))
    np.testing.assert_array_equal(eager.to_numpy(), x @ w + b)
    run = module.compile(TensorLayout(F32, [3, 4], TP2))
    compiled = run(Tensor(x).to(TP2))
    assert compiled.placements == eager.placements == (Sharded(1),)
    np.testing.assert_array_equal(compiled.to_numpy(), eager.to_numpy())
    module.load_state_dict({"weight": Tensor(w * 2), "bias": Tensor(b)})
    assert module.weight.placements == (Sharded(1),)
    np.testing.assert_array_equal(module(Tensor(x).to(TP2)).to_numpy(), x @ w * 2 + b)


def test_subgraphs_take_distributed_tensors():
    rows = mapped(TP2, Sharded(0))

    @as_subgraph
    def layer(x):
        return F.relu(x) * 2, F.sum(x, 0)

    def model(x):
        y, _ = layer(x)
        return layer(y)

    staged = stage(model)(TensorLayout(F32, [4, 2], rows))
    assert str(staged).count("kiln.call") == 2
    y, total = compile(model)(TensorLayout(F32, [4, 2], rows))(Tensor(array(4, 2)).to(rows))
    expected = relu(relu(array(4, 2)) * 2)
    np.testing.assert_array_equal(y.to_numpy(), expected * 2)
    np.testing.assert_array_equal(total.to_numpy(), (relu(array(4, 2)) * 2).sum(0, keepdims=True))
    assert total.placements == (Partial(),)


def test_a_buffer_stands_for_an_argument_on_one_device():
    run = compile(lambda x: x + 1)(TensorLayout(F32, [2], CPU()))
    np.testing.assert_array_equal(run(Buffer.from_numpy(array(2))).to_numpy(), array(2) + 1)
