"""Writes decodings.csv and encodings.csv from the types of NumPy and ml_dtypes."""

import csv
import pathlib

import ml_dtypes
import numpy as np

here = pathlib.Path(__file__).parent
small = ["float8_e8m0fnu", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"]

with open(here / "decodings.csv", "w") as file:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["code", *small, "float4_e2m1fn"])
    codes = np.arange(256, dtype=np.uint8)
    columns = [codes.view(getattr(ml_dtypes, name)).astype(np.float64) for name in small]
    four = codes[:16].view(ml_dtypes.float4_e2m1fn).astype(np.float64)
    for code in range(256):
        row = [float(column[code]).hex() for column in columns]
        writer.writerow([code, *row, float(four[code]).hex() if code < 16 else ""])

rng = np.random.default_rng(7)
values = np.concatenate([
    rng.integers(0, 2**32, 600, dtype=np.uint32).view(np.float32),
    (rng.standard_normal(600) * 8).astype(np.float32),
    np.exp2(rng.uniform(-30, 20, 600)).astype(np.float32) * rng.choice([-1, 1], 600).astype(np.float32),
    np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 448, 464, 465, 480, 240, 248, 249, 57344, 61440,
              61441, 65504, 65519.99, 65520, 6, 7, 7.5, -7.5, 0.25, 0.75, 2.5, 3.5], np.float32),
])
names = ["float16", "bfloat16", *small[1:], "float4_e2m1fn"]
with open(here / "encodings.csv", "w") as file:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["float32", *names])
    with np.errstate(all="ignore"):
        columns = []
        for name in names:
            dtype = np.float16 if name == "float16" else getattr(ml_dtypes, name)
            converted = values.astype(dtype)
            columns.append(converted.view(np.uint16 if converted.itemsize == 2 else np.uint8))
    for i, bits in enumerate(values.view(np.uint32)):
        writer.writerow([f"{bits:08x}", *(f"{int(column[i]):x}" for column in columns)])
