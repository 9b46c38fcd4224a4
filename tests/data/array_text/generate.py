"""Writes the texts of arrays that tests/driver/text_test.cpp builds, as NumPy prints them."""

import pathlib

import numpy as np

here = pathlib.Path(__file__).parent


def write(name, array):
    text = np.array2string(array, prefix="Buffer(") if array.ndim else str(array)
    (here / f"{name}.txt").write_text(text)


i = np.arange
write("rank0_float", np.array(0.1, np.float32))
write("rank0_small", np.array(1e-05, np.float64))
write("rank0_large", np.array(1e16, np.float64))
write("rank0_int", np.array(-3, np.int8))
write("rank0_bool", np.array(True))
write("vector", i(6, dtype=np.float32) / 4)
write("matrix", (i(12, dtype=np.float32) - 5).reshape(3, 4) / 3)
write("cube", i(24, dtype=np.int32).reshape(2, 3, 4) - 11)
write("wrapped", i(60, dtype=np.float64) * 1.25)
write("wrapped_ints", (i(40, dtype=np.int64) * 12345) % 9999)
write("long", i(5000, dtype=np.int32))
write("long_matrix", (i(4000, dtype=np.float32) / 8).reshape(40, 100))
write("long_cube", i(8 * 9 * 20, dtype=np.int16).reshape(8, 9, 20))
write("scientific", np.array([1e-5, 1.0, -123456.789], np.float64))
write("large", np.array([1e8, 2.5e9, 3.0], np.float32))
write("tiny_ratio", np.array([0.001, 1.5], np.float32))
write("nonfinite", np.array([1.5, np.nan, np.inf, -np.inf, -2.25], np.float32))
write("only_nan", np.array([np.nan, np.nan], np.float32))
write("half", np.array([0.1, 1 / 3, 65504, -2], np.float16))
write("thirds", np.array([1 / 3, 2 / 3, 0.1 + 0.2], np.float64))
write("exponents", np.array([1e-300, 1e300, 1.0], np.float64))
write("bools", np.array([[True, False], [False, False]]))
write("unsigned", np.array([0, 2**64 - 1], np.uint64))
write("empty", np.zeros((2, 0, 3), np.float32))
write("zeros", np.array([0.0, -0.0], np.float32))
