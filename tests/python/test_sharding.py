import pickle
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kiln.driver import CPU
from kiln.dtype import DType
from kiln.experimental.sharding import (
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
    as_layout,
    get_active_mesh,
    mesh_context,
)
from kiln.graph import BufferType, DeviceRef, Dim, TensorType


def simulated(**axes):
    return DeviceMesh([CPU()] * int(np.prod(list(axes.values()))), tuple(axes.values()), tuple(axes))


# Meshes


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_coordinates_are_those_of_row_major_order(shape):
    names = [f"a{i}" for i in range(len(shape))]
    mesh = DeviceMesh([CPU()] * int(np.prod(shape)), shape, names)
    assert (mesh.ndim, mesh.num_devices) == (len(shape), int(np.prod(shape)))
    assert mesh.mesh_shape == tuple(shape) and mesh.axis_names == tuple(names)
    for i in range(mesh.num_devices):
        expected = np.unravel_index(i, shape)
        assert [mesh.device_coord(i, axis) for axis in range(mesh.ndim)] == list(expected)
        assert [mesh.device_coord(i, name) for name in names] == list(expected)
    assert [mesh.axis_size(name) for name in names] == list(shape)
    assert mesh.axis_size(-1) == shape[-1]


def test_meshes():
    mesh = simulated(dp=2, tp=4)
    assert repr(mesh) == "DeviceMesh(dp=2, tp=4)"
    assert mesh.devices == (CPU(),) * 8 and mesh.is_simulated and not mesh.is_single
    assert mesh == simulated(dp=2, tp=4) != simulated(tp=4, dp=2) and hash(mesh) == hash(simulated(dp=2, tp=4))
    single = DeviceMesh.single(CPU())
    assert single == DeviceMesh.default() and single.axis_names == ("_",)
    assert single.is_single and not single.is_simulated
    assert DeviceMesh([CPU(0), CPU(1)], (2,), ("x",)) == simulated(x=2)  # every CPU is the host
    assert pickle.loads(pickle.dumps(mesh)) == mesh


@pytest.mark.parametrize(("arguments", "text"), [
    (([], (0,), ("x",)), "DeviceMesh requires at least one device."),
    (([CPU()] * 3, (2, 2), ("x", "y")), "mesh_shape (2, 2) expects 4 devices, got 3"),
    (([CPU()] * 2, (2,), ("x", "y")), "axis_names length (2) must match mesh_shape rank (1)"),
    (([CPU()] * 4, (2, 2), ("x", "x")), 'axis_names must be unique, got ["x", "x"]'),
    (([CPU()], (-1, -1), ("x", "y")), "mesh_shape (-1, -1) holds -1, but every axis has at least one device."),
    (([CPU()], (2**31 - 1,) * 3, ("x", "y", "z")), f"mesh_shape ({', '.join(['2147483647'] * 3)}) is too large."),
])
def test_meshes_that_are_none(arguments, text):
    with pytest.raises(ValueError) as error:
        DeviceMesh(*arguments)
    assert str(error.value) == text


def test_axes_that_are_not_there():
    mesh = simulated(dp=2, tp=4)
    with pytest.raises(ValueError, match=r"^Unknown axis name 'pp'\. Available: \[\"dp\", \"tp\"\]$"):
        mesh.axis_size("pp")
    for call in (lambda: mesh.axis_size(2), lambda: mesh.device_coord(0, -3), lambda: mesh.device_coord(8, "tp"),
                 lambda: mesh.device_coord(-1, 0)):
        with pytest.raises(IndexError, match="is out of range for DeviceMesh"):
            call()


def test_active_meshes():
    mesh, other = simulated(x=2), simulated(y=3)
    assert get_active_mesh() is None
    with mesh_context(mesh) as entered:
        assert entered == get_active_mesh() == mesh
        with mesh_context(other):
            assert get_active_mesh() == other
            seen = []
            thread = threading.Thread(target=lambda: seen.append(get_active_mesh()))
            thread.start()
            thread.join()
            assert seen == [None]
        with pytest.raises(KeyError), mesh_context(other):
            raise KeyError
        assert get_active_mesh() == mesh
    assert get_active_mesh() is None
    block = mesh_context(mesh)
    with block, pytest.raises(RuntimeError, match="inside a with block already"):
        block.__enter__()


# Placements and mappings


def test_placements():
    every = [Replicated(), Sharded(0), Sharded(1), Partial(), Partial(ReduceOp.AVG), Unknown()]
    assert [repr(p) for p in every] == [
        "Replicated()", "Sharded(axis=0)", "Sharded(axis=1)", "Partial(reduce_op='sum')", "Partial(reduce_op='avg')",
        "Unknown()",
    ]
    for i, a in enumerate(every):
        for j, b in enumerate(every):
            assert (a == b) == (i == j)
        assert pickle.loads(pickle.dumps(a)) == a and hash(pickle.loads(pickle.dumps(a))) == hash(a)
    assert Sharded(2).axis == 2 and Partial().reduce_op is ReduceOp.SUM


def test_mappings():
    mesh = simulated(x=2)
    mapping = DeviceMapping(mesh, [Sharded(0)])
    assert repr(mapping) == "DeviceMapping(DeviceMesh(x=2), [Sharded(axis=0)])"
    assert mapping.mesh == mesh and mapping.placements == (Sharded(0),) and not mapping.is_fully_replicated
    assert DeviceMapping.replicated(mesh) == DeviceMapping(mesh, [Replicated()])
    assert DeviceMapping.replicated(mesh).is_fully_replicated
    assert PlacementMapping is DeviceMapping
    assert len({mapping, DeviceMapping(mesh, [Sharded(0)]), DeviceMapping(mesh, [Sharded(1)])}) == 2
    assert pickle.loads(pickle.dumps(mapping)) == mapping
    mapping.check_shape([4])
    for axis, shape in ((1, [4]), (0, []), (-1, [4])):
        with pytest.raises(ValueError) as error:
            DeviceMapping(mesh, [Sharded(axis)]).check_shape(shape)
        assert str(error.value) == f"Sharded(axis={axis}) is out of range for a rank-{len(shape)} shape."
    with pytest.raises(ValueError, match=r"^Need one placement per mesh axis \(1\), got 2\.$"):
        DeviceMapping(mesh, [Replicated(), Replicated()])


def test_named_mappings():
    mesh = simulated(dp=2, tp=4)
    named = NamedMapping(mesh, (None, "tp", ("dp",)))
    assert named == DeviceMapping(mesh, [Sharded(2), Sharded(1)])
    assert named.spec == (None, "tp", "dp") and named.unreduced == ()
    assert NamedMapping(mesh, [("dp", "tp")]).placements == (Sharded(0), Sharded(0))
    assert NamedMapping(mesh, ["absent", "tp"]).placements == (Replicated(), Sharded(1))
    assert NamedMapping(mesh, unreduced=["dp"]).placements == (Partial(), Replicated())
    assert NamedMapping(mesh).is_fully_replicated
    with mesh_context(mesh):
        assert NamedMapping(spec=("tp",)) == NamedMapping(mesh, ("tp",))
    with pytest.raises(ValueError, match="no mesh was given and none is active"):
        NamedMapping(spec=("tp",))
    again = pickle.loads(pickle.dumps(NamedMapping(mesh, (None, ("dp", "tp")))))
    assert type(again) is NamedMapping and again.spec == (None, ("dp", "tp"))
    for spec, unreduced in ((["tp", "tp"], []), ([("tp", "tp")], []), (["tp"], ["tp"])):
        with pytest.raises(ConversionError, match="^Mesh axis 'tp' is already assigned to another tensor dimension; "):
            NamedMapping(mesh, spec, unreduced=unreduced)
    with pytest.raises(ConversionError, match="Name them in the order of the mesh"):
        NamedMapping(mesh, [("tp", "dp")])
    for spec in ([3], [("dp", None)]):
        with pytest.raises(TypeError, match="^NamedMapping: an entry of spec"):
            NamedMapping(mesh, spec)
    assert issubclass(ConversionError, ValueError) and issubclass(ShardingError, RuntimeError)


# Layouts


@given(st.integers(0, 40), st.integers(1, 4), st.integers(1, 4))
def test_static_dims_split_like_array_split(n, a, b):
    mesh = simulated(a=a, b=b)
    split = TensorLayout(DType.float32, [n, 3], DeviceMapping(mesh, [Sharded(0), Replicated()]))
    rows = [len(part) for part in np.array_split(np.arange(n), a)]
    assert [int(t.shape[0]) for t in split.local_types] == [rows[i] for i in range(a) for _ in range(b)]
    twice = TensorLayout(DType.float32, [n], DeviceMapping(mesh, [Sharded(0), Sharded(0)]))
    parts = [len(p) for part in np.array_split(np.arange(n), a) for p in np.array_split(part, b)]
    assert [int(t.shape[0]) for t in twice.local_types] == parts


def test_layouts():
    mapping = DeviceMapping(simulated(x=2), [Sharded(0)])
    layout = TensorLayout(DType.float32, ["batch", 2], mapping)
    assert repr(layout) == "TensorLayout(DType.float32, [batch, 2], DeviceMapping(DeviceMesh(x=2), [Sharded(axis=0)]))"
    assert layout.dtype is DType.float32 and layout.shape == ["batch", 2] and layout.rank == 2
    assert layout.mapping == mapping and layout.mesh == mapping.mesh and layout.placements == (Sharded(0),)
    assert layout.local_types == [TensorType(DType.float32, [f"batch_x_{i}", 2], DeviceRef.CPU()) for i in range(2)]
    with pytest.raises(ValueError) as error:
        layout.device  # noqa: B018
    assert str(error.value) == "TensorLayout spans 2 devices and so has no single device. Use .mesh.devices."
    assert hash(layout) == hash(TensorLayout(DType.float32, ["batch", 2], mapping))
    assert pickle.loads(pickle.dumps(layout)) == layout

    buffer = layout.as_buffer()
    assert type(buffer) is BufferLayout and buffer.as_tensor() == layout != buffer
    assert repr(buffer).startswith("BufferLayout(DType.float32, ")
    assert buffer.local_types[0] == BufferType(DType.float32, ["batch_x_0", 2], DeviceRef.CPU())
    assert pickle.loads(pickle.dumps(buffer)) == buffer

    for device in (CPU(), DeviceRef.CPU(), DeviceMesh.default()):
        single = TensorLayout(DType.int8, [3], device)
        assert single.device is CPU() and single.mapping == DeviceMapping.replicated(DeviceMesh.default())
    assert TensorLayout(DType.int8, [3], simulated(x=3)).mapping.is_fully_replicated


def test_layouts_that_are_none():
    with pytest.raises(TypeError, match="expected a Device, DeviceRef, DeviceMesh or DeviceMapping, got <class 'str'>"):
        TensorLayout(DType.float32, [3], "cpu")
    with pytest.raises(ValueError, match=r"Sharded\(axis=1\) is out of range for a rank-1 shape\."):
        TensorLayout(DType.float32, [3], DeviceMapping(simulated(x=2), [Sharded(1)]))
    with pytest.raises(TypeError, match="non-negative"):
        TensorLayout(DType.float32, [-3], CPU())
    algebraic = TensorLayout(DType.float32, [Dim("n") * 2], DeviceMapping(simulated(x=2), [Sharded(0)]))
    with pytest.raises(ShardingError, match="cannot be sharded over the mesh axis 'x'"):
        algebraic.local_types  # noqa: B018


def test_as_layout():
    layout = TensorLayout(DType.float32, ["n"], CPU())
    assert as_layout(layout) is layout
    assert as_layout(TensorType(DType.float32, ["n"], DeviceRef.CPU())) == layout
    assert as_layout(BufferType(DType.float32, ["n"], DeviceRef.CPU())) == layout.as_buffer()
    with pytest.raises(TypeError, match="expected a TensorLayout, BufferLayout, TensorType or BufferType layout, got "
                                        "<class 'int'>: "):
        as_layout(3)
