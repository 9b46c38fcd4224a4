"""Calls that fit no signature, and values that no conversion takes: each gets a sentence."""

import numpy as np
import pytest
from running import nearest

from kiln.driver import (
    CPU,
    Accelerator,
    Buffer,
    Device,
    DeviceQueue,
    DeviceSpec,
    calculate_virtual_device_count,
    calculate_virtual_device_count_from_cli,
    set_virtual_device_count,
)
from kiln.dtype import DType
from kiln.engine import InferenceSession
from kiln.graph import BufferType, DeviceRef, Graph, TensorType, Weight, ops

pytestmark = pytest.mark.graph


@pytest.fixture
def x():
    with Graph("g", input_types=[TensorType(DType.float32, [4, 2], CPU())]) as graph:
        yield graph.inputs[0].tensor


def set_nan_check(x):
    InferenceSession.debug.nan_check = "x"


BAD_CALLS = {
    "a text as int": (lambda x: ops.sum(x, "a"), "ops.sum: argument 'axis' must be int, not 'a' of type str"),
    "None as int": (lambda x: ops.sum(x, axis=None), "ops.sum: argument 'axis' must be int, not None"),
    "int as dtype": (lambda x: ops.cast(x, 5), "ops.cast: argument 'dtype' must be DType, not 5 of type int"),
    "text as dtype": (lambda x: TensorType("f32", [1], CPU()), "TensorType: argument 'dtype' must be DType, not 'f32'"),
    "None as number": (
        lambda x: Buffer.scalar(None, DType.float32),
        "argument 'value' must be bool or int or float, not None",
    ),
    "fraction as int": (
        lambda x: Buffer(DType.uint8, (1,)).memset(1.5),
        "Buffer.memset: argument 'value' must be int, not 1.5 of type float",
    ),
    "unknown name": (lambda x: InferenceSession(foo=1), "InferenceSession: has no argument 'foo'"),
    "property": (set_nan_check, "DebugConfig.nan_check must be bool, not 'x' of type str"),
    "too many": (lambda x: ops.sum(x, 0, 1), "takes at most 2 positional arguments, but 3 were given"),
    "missing": (lambda x: ops.sum(), "ops.sum: needs argument 'x'"),
    "twice": (lambda x: ops.sum(x, x=x), "ops.sum: got argument 'x' twice"),
    "method": (lambda x: x.cast("f32"), "TensorValue.cast: argument 'dtype' must be DType, not 'f32'"),
    "element": (lambda x: x.permute([0, "a"]), "TensorValue.permute: argument 'dims' must be Sequence"),
    "keyword beside any number of arguments": (
        lambda x: ops.call(Graph("s"), x, foo=1),
        "ops.call: has no argument 'foo'",
    ),
    "wrong keyword": (
        lambda x: ops.call(Graph("s"), x, prefix=5),
        "ops.call: argument 'prefix' must be str, not 5 of type int",
    ),
    "overloads mixed": (
        lambda x: Buffer(dtype=DType.int8, shape=(1,), device=CPU(), stream=DeviceQueue(CPU())),
        "Buffer: no form of it takes the arguments 'dtype', 'shape', 'device', 'stream' together",
    ),
    "an overload by its types": (
        lambda x: Buffer("f32", [2]),
        "Buffer: argument 'dtype' must be DType, not 'f32' of type str",
    ),
    "no dtype": (lambda x: DType(), "DType: needs an argument, DType or int or str."),
    "a float as dtype": (
        lambda x: DType(1.0),
        "DType: the argument must be DType or int or str, not 1.0 of type float.",
    ),
    "inside the function": (
        lambda x: calculate_virtual_device_count([DeviceSpec(0, "cpu")], [5]),
        "calculate_virtual_device_count: ",
    ),
}


def test_integers_beyond_the_type_of_a_parameter_are_values_out_of_range(x):
    for call in (lambda: ops.sum(x, 2**70), lambda: ops.softmax(x, axis=-(2**40)), lambda: ops.split(x, [1], 2**31)):
        with pytest.raises(ValueError, match=r"argument 'axis' must be int within its range, not -?\d+ of type int"):
            call()


@pytest.mark.parametrize("name", BAD_CALLS)
def test_arguments_that_do_not_fit(name, x):
    call, sentence = BAD_CALLS[name]
    with pytest.raises(TypeError) as caught:
        call(x)
    text = str(caught.value)
    assert sentence in text
    assert text.endswith(".")
    for raw in ("incompatible function arguments", "Invoked with", "_core", "bad_cast", "<object"):
        assert raw not in text
    if name != "property":
        assert "It is called as" in text


BIG_INTEGERS = {
    "Accelerator": (lambda: Accelerator(2**40), f"failed to create device: the accelerator id is {2**40}, but "),
    "DeviceSpec": (lambda: DeviceSpec(2**40, "gpu"), f"DeviceSpec: the id is {2**40}, but must be between "),
    "DeviceSpec.accelerator": (lambda: DeviceSpec.accelerator(-(2**70)), f"DeviceSpec: the id is -{2**70}, but "),
    "DType": (lambda: DType(2**70), f"DType: the code of an element type is {2**70}, but must be between 0 and 255."),
    "a negative code": (lambda: DType(-1), "DType: the code of an element type is -1, but must be between 0 and 255."),
    "memset": (lambda: Buffer(DType.uint8, (1,)).memset(2**40), f"value is {2**40}, but must be between 0 and 255."),
    "count": (lambda: set_virtual_device_count(2**40), f"set_virtual_device_count: the count is {2**40}, but must be "),
    "shape": (lambda: Buffer(DType.uint8, (2**70,)), f"The extent {2**70} does not fit 64 bits."),
    "alignment": (lambda: Buffer(DType.uint8, (1,))._aligned(2**70), f"the number of bytes is {2**70}, but must be "),
    "stream": (lambda: Buffer(DType.uint8, (1,)).__dlpack__(stream=2**70), f"the stream is {2**70}, but must be "),
    "choice": (lambda: calculate_virtual_device_count_from_cli([2**40]), f"the accelerator id is {2**40}, but "),
}


@pytest.mark.parametrize("name", BIG_INTEGERS)
def test_integers_beyond_their_range(name):
    call, sentence = BIG_INTEGERS[name]
    with pytest.raises(ValueError) as caught:
        call()
    assert sentence in str(caught.value) and str(caught.value).endswith(".")


def test_integers_of_any_size_where_all_will_do():
    assert CPU(2**70) is CPU() is Device.cpu(-(2**70)) is CPU(id=np.int8(3))
    with pytest.raises(BufferError, match="dl_device is"):  # a device that is not there
        Buffer(DType.uint8, (1,)).__dlpack__(dl_device=(2**40, 0))
    Buffer(DType.uint8, (1,)).__dlpack__(max_version=(2**40, 0))
    for bad in (1.5, "1", None, np.ones(1)):
        with pytest.raises(TypeError, match="'id' must be int"):
            CPU(bad)


def test_every_function_gives_a_sentence():
    """Each native function refuses an argument it cannot have, in words."""
    import kiln._core as core

    found = {}

    def visit(scope, path):
        for name, member in list(vars(scope).items()):
            kind = type(member).__name__
            if kind == "module" or isinstance(member, type) and member.__module__.startswith("kiln._core"):
                visit(member, f"{path}.{name}")
            elif kind in ("nb_func", "nb_method") and hasattr(member, "__nb_signature__"):
                found[f"{path}.{name}"] = member

    visit(core, "core")
    assert len(found) > 300
    refused = 0
    for name, function in found.items():
        if all("**" in signature[0] for signature in function.__nb_signature__):
            continue  # takes every keyword
        try:
            function(no_such_argument=1)
        except TypeError as error:
            assert "incompatible function arguments" not in str(error), name
            refused += "It is called as" in str(error)
    assert refused > 250


def test_other_errors_stay(x):
    with pytest.raises(TypeError, match="a shape is a sequence of dims"):
        ops.reshape(x, 1.5)
    assert x.__add__("text") is NotImplemented


@pytest.mark.parametrize("key", [1, b"w", None])
def test_weights_are_named_by_texts(key):
    with Graph("g") as graph:
        graph.output(Weight("w", DType.float32, [1], CPU()) * 2)
    compiled = InferenceSession().compile(graph)
    with pytest.raises(TypeError, match="maps names to arrays, but .* is no str"):
        InferenceSession().init(compiled, weights_registry={key: np.zeros(1, np.float32)})


@pytest.mark.parametrize("value", [2**64, 2**70, -(2**64), -(2**80)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16", "uint64", "int64", "int8"])
def test_integers_beyond_64_bits_are_checked(value, dtype):
    with Graph("g", input_types=[TensorType(getattr(DType, dtype), [2], CPU())]) as graph:
        y = graph.inputs[0].tensor
        for call in (lambda: y + value, lambda: value * y, lambda: ops.pad(y, [1, 1], value=value)):
            with pytest.raises(ValueError, match=rf"Can't promote python int with value \({value}\) to dtype"):
                call()


def test_an_integer_just_below_64_bits_is_refused():
    """Its nearest double is one that int64 holds."""
    with Graph("g", input_types=[TensorType(DType.int64, [2], CPU())]) as graph:
        with pytest.raises(ValueError, match="Can't promote python int"):
            graph.inputs[0].tensor + (-(2**63) - 1)


def test_a_constant_may_be_an_integer_beyond_64_bits():
    with Graph("g") as graph:
        graph.output(
            ops.constant(2**70, DType.float32, CPU()), ops.constant([-(2**65)], DType.float64, CPU())
        )
        with pytest.raises(ValueError, match=rf"with value {2**64} out of range for DType"):
            ops.constant(2**64, DType.uint64, CPU())
        with pytest.raises(ValueError, match="Dim value must be"):
            ops.range(0, 2**70, 2**69, dtype=DType.float64, device=CPU())
    one, two = InferenceSession().load(graph).execute()
    assert one.item() == 2.0**70 and two.to_numpy() == [-(2.0**65)]


@pytest.mark.parametrize("value", [2**60 + 2**36 + 1, 2**60 + 2**52 + 1, -(2**62 + 2**38 + 1), 2**80 + 2**56 + 1,
                                   2**80 + 2**72 + 1, 2**63 + 2**55 - 1, 2**24 + 1])
def test_an_integer_is_rounded_once_when_it_becomes_a_constant(value):
    digits = {DType.bfloat16: 8, DType.float32: 24, DType.float64: 53}
    with Graph("g") as graph:
        graph.output(*[ops.cast(ops.constant(value, dtype, CPU()), DType.float64) for dtype in digits])
    results = InferenceSession().load(graph).execute()
    assert [result.item() for result in results] == [float(nearest(value, n)) for n in digits.values()]


def test_a_buffer_is_no_loop_value():
    with Graph("g", input_types=[BufferType(DType.int32, [], CPU())]) as graph:
        buffer = graph.inputs[0].buffer
        zero = ops.constant(0, DType.int32, CPU())
        for values in ([buffer], [zero, buffer]):
            with pytest.raises(NotImplementedError, match="currently not supported in while loops"):
                ops.while_loop(values, lambda *v: v[0] < 3, lambda *v: v)
        with pytest.raises(TypeError, match="initial values of ops.while_loop are a sequence of tensors"):
            ops.while_loop(3, lambda i: i < 3, lambda i: i)


@pytest.mark.parametrize("result", [True, 1.0, "a", [1], object()])
def test_a_region_returns_tensors(result):
    scalar = TensorType(DType.int32, [], DeviceRef.CPU())
    with Graph("g", input_types=[TensorType(DType.bool, [], CPU()), scalar]) as graph:
        p, i = (v.tensor for v in graph.inputs)
        calls = [
            lambda: ops.while_loop([i], lambda i: result, lambda i: i),
            lambda: ops.while_loop([i], lambda i: i < 3, lambda i: result),
            lambda: ops.cond(p, [scalar], lambda: result, lambda: i),
            lambda: ops.cond(p, [scalar], lambda: i, lambda: result),
        ]
        for call in calls:
            with pytest.raises(TypeError, match="Results don't match expected types: .*'(bool|float|str|int|object)'"):
                call()
        with pytest.raises(TypeError, match="'(bool|float|str|int|object)'"):
            Graph("h", forward=lambda: result)


class Forgetful(Buffer):
    def __init__(self):
        pass


@pytest.mark.filterwarnings("ignore:nanobind:RuntimeWarning")
@pytest.mark.parametrize(
    "call",
    [
        lambda: Forgetful().shape,
        lambda: Forgetful().copy(),
        lambda: Buffer(DType.int8, (1,)).inplace_copy_from(Buffer.__new__(Buffer)),
        lambda: repr(DType.__new__(DType)),
    ],
)
def test_an_object_made_without_its_init(call):
    with pytest.raises(TypeError, match="was made without __init__ and so holds nothing"):
        call()


def test_members_of_dtype_outlive_their_names():
    first = DType.int8
    try:
        DType.int8 = DType.int16
        del first
        assert DType("si8").size_in_bytes == 1
        assert Buffer(DType("si8"), (3,)).dtype.name == "int8"
    finally:
        DType.int8 = DType("si8")
    assert DType.int8.size_in_bytes == 1
