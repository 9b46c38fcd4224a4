"""Every elementwise op and every reduction, on every dtype it takes, against NumPy in float64.

A table row names the op, its oracle and its dtypes. One graph a row and dtype holds static,
symbolic, empty and rank-0 cases; the oracles are those of part C of the ops specification."""

import math

import numpy as np
import pytest
from running import (
    BOOL,
    FLOATS,
    INTS,
    NUMBERS,
    assert_equal,
    assert_ulp,
    compiled,
    execute,
    generator,
    numpy_type,
    run,
    sample,
    specials,
    tensor_type,
    ulp_of,
    unit,
)

from kiln.dtype import DType
from kiln.graph import ops

pytestmark = pytest.mark.compiler
ALL = BOOL + NUMBERS

# Unary ops


erf = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x):
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


def silu(x):
    return np.where(np.isneginf(x), 0, x * sigmoid(x))


erfc = np.vectorize(math.erfc, otypes=[np.float64])


# 1 + erf(u) and 1 + tanh(u) without the cancellation of negative u.
def gelu(x):
    return 0.5 * x * erfc(-x / math.sqrt(2))


def gelu_tanh(x):
    return x * sigmoid(2 * 0.7978845608028654 * (x + 0.044715 * x**3))


def gelu_quick(x):
    return x * sigmoid(1.702 * x)


def wrapped(function):
    """An integer function whose result wraps; floats pass through."""
    return lambda x: function(x)


# name: op, oracle, dtypes, exact
UNARY = {
    "abs": (ops.abs, np.abs, NUMBERS, True),
    "negate": (ops.negate, np.negative, NUMBERS, True),
    "relu": (ops.relu, lambda x: np.where(np.isnan(x), x, np.maximum(x, 0)) if x.dtype.kind == "f"
             else np.maximum(x, 0), NUMBERS, True),
    "ceil": (ops.ceil, np.ceil, FLOATS, True),
    "floor": (ops.floor, np.floor, FLOATS, True),
    "trunc": (ops.trunc, np.trunc, FLOATS, True),
    "round": (ops.round, np.round, FLOATS, True),
    "sqrt": (ops.sqrt, np.sqrt, FLOATS, True),
    "exp": (ops.exp, np.exp, FLOATS, False),
    "log": (ops.log, np.log, FLOATS, False),
    "log1p": (ops.log1p, np.log1p, FLOATS, False),
    "rsqrt": (ops.rsqrt, lambda x: 1 / np.sqrt(x), FLOATS, False),
    "erf": (ops.erf, erf, FLOATS, False),
    "tanh": (ops.tanh, np.tanh, FLOATS, False),
    "atanh": (ops.atanh, np.arctanh, FLOATS, False),
    "acos": (ops.acos, lambda x: np.arccos(np.clip(x, -1, 1)), FLOATS, False),
    "sigmoid": (ops.sigmoid, sigmoid, FLOATS, False),
    "silu": (ops.silu, silu, FLOATS, False),
    "gelu": (ops.gelu, gelu, FLOATS, False),
    "gelu_tanh": (lambda x: ops.gelu(x, "tanh"), gelu_tanh, FLOATS, False),
    "gelu_quick": (lambda x: ops.gelu(x, approximate="quick"), gelu_quick, FLOATS, False),
    "is_nan": (ops.is_nan, lambda x: np.isnan(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool), ALL, True),
    "is_inf": (ops.is_inf, lambda x: np.isinf(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool), ALL, True),
    "logical_not": (ops.logical_not, np.logical_not, BOOL, True),
}
# Cancellation at the ends of these formulas: absolute error of the float32 computation.
SLACK = {"gelu": 4e-7, "gelu_tanh": 4e-7, "gelu_quick": 4e-7, "acos": 4e-7}


def rows(table):
    return [pytest.param(name, dtype, id=f"{name}-{dtype}") for name, row in table.items() for dtype in row[2]]


def widened(array):
    """Float64 for floats, the type itself for others."""
    return array.astype(np.float64) if array.dtype.kind not in "biu" else array


def check(got, exact, dtype, exact_result, slack=None, ulp=None):
    if exact_result or got.dtype.kind in "biu":
        with np.errstate(all="ignore"):
            assert_equal(got, exact.astype(got.dtype))
    else:
        assert_ulp(got, exact, ulp or ulp_of(dtype), slack)


UNARY_SHAPES = [((), ()), (("n",), (0,)), (("n",), (67,)), ((3, 5), (3, 5)), (("a", "b", 7), (2, 3, 7)),
                ((0, 4), (0, 4)), (("n", "n"), (5, 5))]


@pytest.mark.parametrize("name, dtype", rows(UNARY))
@np.errstate(all="ignore")
def test_unary(name, dtype):
    op, oracle, _, exact_result = UNARY[name]
    rng = generator(name, dtype)
    arrays = [sample(rng, dtype, shape) for _, shape in UNARY_SHAPES] + [specials(dtype)]
    types = [tensor_type(dtype, [f"{d}{i}" if isinstance(d, str) else d for d in symbolic])
             for i, (symbolic, _) in enumerate(UNARY_SHAPES)]
    types.append(tensor_type(dtype, arrays[-1].shape))
    model = compiled(lambda *xs: [op(x) for x in xs], types, name)
    slack = SLACK.get(name)
    for array, got in zip(arrays, execute(model, arrays)):
        exact = np.asarray(oracle(widened(array)))
        if slack and dtype in ("float32", "float64"):
            extra = slack * unit(dtype) / unit("float32") * np.maximum(1, np.abs(widened(array)))
        else:
            extra = None
        check(got, exact, dtype, exact_result, extra)


# Trigonometry holds its bound for arguments up to 2**20.
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["sin", "cos"])
@np.errstate(all="ignore")
def test_trigonometry(name, dtype):
    rng = generator(name, dtype)
    x = np.concatenate([rng.uniform(-(2**20), 2**20, 500), rng.uniform(-7, 7, 500),
                        np.arange(-20, 21) * (math.pi / 2), [0.0, -0.0, math.inf, -math.inf, math.nan]])
    x = x.astype(numpy_type(dtype))
    x = np.where(np.abs(x.astype(np.float64)) <= 2**20, x, x.astype(np.float64) * math.inf).astype(x.dtype)
    model = compiled(getattr(ops, name), [tensor_type(dtype, ["n"])], name)
    # Near a root the spacing of the results is finer than the argument's: the absolute error counts.
    assert_ulp(execute(model, [x])[0], getattr(np, name)(x.astype(np.float64)), ulp_of(dtype),
               slack=2e-15 if dtype == "float64" else 2e-7)


# Binary ops


def mod(a, b):
    if a.dtype.kind in "iu":
        return np.where(b == 0, 0, np.mod(a, np.where(b == 0, 1, b)))
    return np.mod(a, b)


def power(a, b):
    if a.dtype.kind == "u":
        return np.power(a, b)
    if a.dtype.kind == "i":
        odd = a.dtype.type(1) - a.dtype.type(2) * (b & 1)
        return np.where(b >= 0, np.power(a, np.maximum(b, 0)), np.where(a == 1, 1, np.where(a == -1, odd, 0)))
    return np.power(a, b)


def division(a, b):
    return a.astype(np.float64) / b.astype(np.float64)


BINARY = {
    "add": (ops.add, np.add, NUMBERS, True),
    "sub": (ops.sub, np.subtract, NUMBERS, True),
    "mul": (ops.mul, np.multiply, NUMBERS, True),
    "div": (ops.div, division, NUMBERS, True),
    "mod": (ops.mod, mod, NUMBERS, True),
    "pow": (ops.pow, power, NUMBERS, False),
    "max": (ops.max, np.maximum, ALL, True),
    "min": (ops.min, np.minimum, ALL, True),
    "equal": (ops.equal, np.equal, ALL, True),
    "not_equal": (ops.not_equal, np.not_equal, ALL, True),
    "greater": (ops.greater, np.greater, ALL, True),
    "greater_equal": (ops.greater_equal, np.greater_equal, ALL, True),
    "logical_and": (ops.logical_and, np.logical_and, BOOL, True),
    "logical_or": (ops.logical_or, np.logical_or, BOOL, True),
    "logical_xor": (ops.logical_xor, np.logical_xor, BOOL, True),
}
# symbolic shapes of both sides, shapes of the data
BINARY_SHAPES = [
    ((), (), (), ()), (("n",), ("n",), (33,), (33,)), (("n",), (), (6,), ()), ((2, 3), (3,), (2, 3), (3,)),
    ((2, 1), (1, 3), (2, 1), (1, 3)), (("n", 3), (1,), (4, 3), (1,)), ((0, 3), (3,), (0, 3), (3,)),
    (("n", 1, 4), (5, 1), (0, 1, 4), (5, 1)), (("n", 1, 4), (5, 1), (3, 1, 4), (5, 1)),
]


@pytest.mark.parametrize("name, dtype", rows(BINARY))
@np.errstate(all="ignore")
def test_binary(name, dtype):
    op, oracle, _, exact_result = BINARY[name]
    rng = generator(name, dtype)
    grid = specials(dtype, extremes=name not in ("pow", "mod"))
    pairs = [(sample(rng, dtype, a), sample(rng, dtype, b)) for _, _, a, b in BINARY_SHAPES]
    pairs.append((grid[:, None], grid[None, :]))
    types = []
    for i, (a, b, _, _) in enumerate(BINARY_SHAPES):
        types += [tensor_type(dtype, [f"{d}{i}" if isinstance(d, str) else d for d in s]) for s in (a, b)]
    types += [tensor_type(dtype, pairs[-1][0].shape), tensor_type(dtype, pairs[-1][1].shape)]

    def build(*xs):
        return [op(xs[i], xs[i + 1]) for i in range(0, len(xs), 2)]

    results = execute(compiled(build, types, name), [a for pair in pairs for a in pair])
    for (a, b), got in zip(pairs, results):
        exact = np.asarray(oracle(widened(a), widened(b)))
        if name == "div" and dtype in INTS:
            assert got.dtype == np.float64
        if name in ("add", "sub", "mul", "div", "mod") and dtype == "float32":
            # The float64 oracle rounds twice; one operation in float32 rounds once.
            exact = exact if name == "mod" else np.asarray(oracle(a, b))
        check(got, exact, dtype, exact_result and name != "mod" or got.dtype.kind in "biu", ulp=4)


# Promotion of numbers and dtypes is the graph's; here the values of mixed operands are checked.
@pytest.mark.parametrize("left, right, result", [("int8", "float16", "float16"), ("uint8", "int16", "int16"),
                                                 ("bool", "int32", "int32"), ("bfloat16", "float32", "float32"),
                                                 ("int32", "float64", "float64")])
def test_mixed_dtypes(left, right, result):
    a, b = np.array([0, 1, 1]).astype(left), np.array([2, 3, 4]).astype(numpy_type(right))
    model = compiled(ops.add, [tensor_type(left, [3]), tensor_type(right, [3])])
    got = execute(model, [a, b])[0]
    assert_equal(got, np.array([2, 4, 5]).astype(numpy_type(result)))


def test_weak_operands():
    x = np.array([1.5, -2.0, math.nan], np.float32)
    model = compiled(lambda v: [v + 1, 2 - v, v * 0.1, 1 / v, v**2, v % 1.25, -v, abs(v), v > 1, v >= 1.5, v < 1,
                                v <= 1.5, v == 1.5, v != 1.5], [tensor_type("float32", [3])])
    f = np.float32
    expected = [x + f(1), f(2) - x, x * f(0.1), f(1) / x, x * x, np.mod(x, f(1.25)), -x, np.abs(x), x > 1, x >= 1.5,
                x < 1, x <= 1.5, x == 1.5, x != 1.5]
    for got, want in zip(execute(model, [x]), expected):
        assert_equal(got, want)


# Ternary


@pytest.mark.parametrize("dtype", ALL)
def test_where(dtype):
    rng = generator("where", dtype)
    c, x, y = sample(rng, "bool", (4, 1)), sample(rng, dtype, (5,)), sample(rng, dtype, (4, 5))
    types = [tensor_type("bool", ["n", 1]), tensor_type(dtype, [5]), tensor_type(dtype, ["n", 5])]
    model = compiled(ops.where, types)
    assert_equal(execute(model, [c, x, y])[0], np.where(c, x, y), signed_zero=True)
    assert execute(model, [c[:0], x, y[:0]])[0].shape == (0, 5)


# Reductions: the axis stays with size 1.


def accumulated(function):
    return lambda x, axis: function(x, axis)


def total(x, axis):
    return np.add.reduce(x, axis, dtype=x.dtype, keepdims=True)


def product(x, axis):
    return np.multiply.reduce(x, axis, dtype=x.dtype, keepdims=True)


def mean(x, axis):
    if x.dtype.kind == "f":
        return np.mean(x, axis, keepdims=True)
    count = x.shape[axis]
    sums = total(x, axis).astype(object)
    return np.vectorize(lambda s: abs(s) // count * (1 if s >= 0 else -1), otypes=[object])(sums)


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def logsoftmax(x, axis):
    m = x.max(axis, keepdims=True)
    return x - m - np.log(np.exp(x - m).sum(axis, keepdims=True))


def argmin(x, axis):
    return np.argmin(x, axis, keepdims=True)


def argmax(x, axis):
    return np.argmax(x, axis, keepdims=True)


REDUCTIONS = {
    "sum": (ops.sum, total, NUMBERS),
    "mean": (ops.mean, mean, NUMBERS),
    "prod": (ops.prod, product, NUMBERS),
    "max": (ops.max, lambda x, axis: np.max(x, axis, keepdims=True), ALL),
    "min": (ops.min, lambda x, axis: np.min(x, axis, keepdims=True), ALL),
    "argmax": (ops.argmax, argmax, NUMBERS),
    "argmin": (ops.argmin, argmin, NUMBERS),
    "softmax": (ops.softmax, softmax, FLOATS),
    "logsoftmax": (ops.logsoftmax, logsoftmax, FLOATS),
}
REDUCTION_SHAPES = [((7,), 0), ((1,), 0), ((3, 130), -1), ((130, 3), 0), ((2, 5, 3), 1), ((2, 5, 3), 0),
                    ((2, 2, 2, 9), -1), ((0, 4), 1), ((600,), 0)]


def tolerance(name, x, axis, dtype):
    """What the order of summation may change."""
    eps = 2.0**-23 if dtype != "float64" else 2.0**-52
    n = max(1, x.shape[axis])
    finite = np.where(np.isfinite(x), np.abs(x), 0)
    if name in ("sum", "mean"):
        bound = n * eps * finite.sum(axis, keepdims=True)
        return bound / (n if name == "mean" else 1)
    if name == "prod":
        return n * eps * np.abs(np.prod(np.where(np.isfinite(x), x, 0), axis, keepdims=True))
    return (n + 8) * eps * (1 if name == "softmax" else 4 + finite.max(axis, keepdims=True, initial=0))


@pytest.mark.parametrize("special", [False, True], ids=["plain", "special"])
@pytest.mark.parametrize("name, dtype", rows(REDUCTIONS))
@np.errstate(all="ignore")
def test_reduction(name, dtype, special):
    op, oracle, _ = REDUCTIONS[name]
    rng = generator(name, dtype, special)
    arrays = [sample(rng, dtype, shape, special) for shape, _ in REDUCTION_SHAPES]
    if name == "prod" and not special and dtype not in INTS:
        arrays = [np.where(np.abs(a) > 2, 1, a).astype(a.dtype) for a in arrays]
    types = [tensor_type(dtype, [f"d{i}_{k}" for k in range(a.ndim)] if i % 2 else a.shape)
             for i, a in enumerate(arrays)]

    def build(*xs):
        return [op(x, axis=axis) for x, (_, axis) in zip(xs, REDUCTION_SHAPES)]

    for array, (_, axis), got in zip(arrays, REDUCTION_SHAPES, execute(compiled(build, types, name), arrays)):
        wide = widened(array)
        exact = np.asarray(oracle(wide, axis))
        if got.dtype.kind in "biu" or name in ("max", "min"):
            if name in ("argmax", "argmin"):
                assert got.dtype == np.int64
            assert_equal(got, exact.astype(got.dtype))
        else:
            assert_ulp(got, exact, 4 if dtype in ("float32", "float64") else 1,
                       tolerance(name, wide, axis, dtype) + (0 if dtype in ("float32", "float64") else
                                                             np.abs(exact) * unit(dtype)))


@pytest.mark.parametrize("name, empty", [("sum", 0.0), ("prod", 1.0), ("mean", math.nan)])
def test_reduction_of_an_empty_axis(name, empty):
    model = compiled(lambda x: getattr(ops, name)(x, axis=0), [tensor_type("float32", ["n", 3])])
    assert_equal(execute(model, [np.zeros((0, 3), np.float32)])[0], np.full((1, 3), empty, np.float32))


@pytest.mark.parametrize("name", ["softmax", "logsoftmax"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_softmax_of_nothing(name, dtype):
    empty = np.zeros((3, 0), numpy_type(dtype))
    for shapes in (None, [["m", "n"]]):
        assert run(lambda x: getattr(ops, name)(x), empty, shapes=shapes)[0].shape == (3, 0)


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_no_extreme_of_an_empty_axis(name):
    model = compiled(lambda x: getattr(ops, name)(x, axis=0), [tensor_type("float32", ["n", 3])])
    with pytest.raises(ValueError):
        execute(model, [np.zeros((0, 3), np.float32)])
    with pytest.raises(ValueError):
        compiled(lambda x: getattr(ops, name)(x, axis=0), [tensor_type("float32", [0, 3])])


# Casts


def cast(x, target):
    """The rules of the specification for the dtypes NumPy and ml_dtypes know."""
    kind = numpy_type(target)
    if target == "bool":
        return x.astype(np.float64) != 0 if x.dtype.kind not in "biu" else x != 0
    if target in INTS and x.dtype.kind not in "biu":
        info = np.iinfo(kind)
        out = []
        for v in np.ravel(x).astype(np.float64):
            whole = 0 if math.isnan(v) else info.max if v == math.inf else info.min if v == -math.inf else int(v)
            out.append(min(max(whole, info.min), info.max))
        return np.array(out, dtype=object).astype(kind).reshape(x.shape)
    return x.astype(kind)


@pytest.mark.parametrize("target", ALL)
@pytest.mark.parametrize("source", ALL)
@np.errstate(all="ignore")
def test_cast(source, target):
    rng = generator(source, target)
    arrays = [specials(source), sample(rng, source, (50,)), sample(rng, source, ()), sample(rng, source, (0, 3))]
    if source in FLOATS and target in INTS:
        info = np.iinfo(target)
        edges = np.array([info.min, info.max, info.min - 1.0, info.max + 1.0, info.max / 2, 0.99, -0.99])
        arrays.append(edges.astype(numpy_type(source)))
    types = [tensor_type(source, ["n"]), *[tensor_type(source, a.shape) for a in arrays[1:]]]
    model = compiled(lambda *xs: [ops.cast(x, getattr(DType, target)) for x in xs], types)
    for array, got in zip(arrays, execute(model, arrays)):
        assert_equal(got, cast(array, target), signed_zero=True)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["tanh", "log1p", "erf", "sin", "atanh", "silu", "gelu"])
def test_negative_zero_stays_negative(name, dtype):
    x = np.array([-0.0, 0.0], numpy_type(dtype))
    assert_equal(run(getattr(ops, name), x)[0], x, signed_zero=True)
