"""The kiln command, as a user meets it: the real program, its output, its errors and its exit status."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from processes import CLEAN

from kiln import __version__
from kiln.driver import CPU
from kiln.dtype import DType
from kiln.engine import InferenceSession, query_mef
from kiln.graph import BufferType, Graph, TensorType, Weight, ops

COMMAND = os.environ.get("KILN_COMMAND") or Path(__file__).parents[2] / "build/release/bin/kiln"
SUBCOMMANDS = ("run", "bench", "inspect", "explain", "compile", "emulate")
F32 = DType.float32


def kiln(*arguments, cwd=None, **settings):
    """Exit status, standard output and standard error."""
    done = subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, cwd=cwd, timeout=120,
                          env={**CLEAN, "KILN_CACHE": "0"}, **settings)
    return done.returncode, done.stdout, done.stderr


def good(*arguments, **settings):
    status, output, errors = kiln(*arguments, **settings)
    assert (status, errors) == (0, ""), errors
    return output


def refused(status, *arguments, **settings):
    """The one sentence on standard error."""
    found, output, errors = kiln(*arguments, **settings)
    assert found == status, (found, errors)
    assert errors.startswith("kiln: ") and errors.endswith("\n") and errors.count("\n") == 1, errors
    assert output == ""
    return errors[len("kiln: "):-1]


def axpy():
    rows = TensorType(F32, ["n", 3], CPU())
    return Graph("axpy", lambda x, y: [2 * x + y, ops.sum(x)], [rows, rows])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """axpy.txt, axpy.mef, linear.mef with a weight, two.mef with two graphs, and arrays."""
    folder = tmp_path_factory.mktemp("command")
    session = InferenceSession()
    (folder / "axpy.txt").write_text(str(axpy()))
    session.compile(axpy()).export_mef(folder / "axpy.mef")
    w = Weight("w", F32, [3, 2], CPU())
    linear = Graph("linear", lambda x: x @ w, [TensorType(F32, ["n", 3], CPU())])
    (folder / "linear.txt").write_text(str(linear))
    session.compile(linear).export_mef(folder / "linear.mef")
    np.save(folder / "x.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    np.save(folder / "y.npy", np.ones((2, 3), np.float32))
    np.save(folder / "fortran.npy", np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)))
    np.save(folder / "double.npy", np.ones((2, 3)))
    np.save(folder / "wide.npy", np.ones((2, 4), np.float32))
    np.save(folder / "long.npy", np.ones((3, 3), np.float32))
    (folder / "text.npy").write_text("no array")
    content = (folder / "axpy.mef").read_bytes()
    (folder / "cut.mef").write_bytes(content[:-7])
    (folder / "damaged.mef").write_bytes(content[:-7] + b"X" + content[-6:])
    (folder / "empty").write_bytes(b"")
    (folder / "noise").write_bytes(bytes(range(256)) * 20)
    header = json.dumps({"w": {"dtype": "F32", "shape": [3, 2], "data_offsets": [0, 24]}}).encode()
    weights = np.arange(6, dtype=np.float32).tobytes()
    (folder / "w.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + weights)
    return folder


# Help and usage


def test_help():
    text = good("--help")
    for name in SUBCOMMANDS:
        assert name in text
    assert good("-h") == text
    assert good("--version").strip() == __version__


@pytest.mark.parametrize("command", SUBCOMMANDS)
def test_help_of_each_command(command):
    text = good(command, "--help")
    assert ("PROGRAM" if command == "emulate" else "FILE") in text and "--help" in text
    assert {"run": "NAME=FILE.npy", "bench": "--repeat", "inspect": "--json", "explain": "OUT.html",
            "compile": "OUT.mef", "emulate": "--devices"}[command] in text


@pytest.mark.parametrize("arguments, text", [
    ([], "A subcommand is required. 'kiln --help' lists what there is."),
    (["rum"], "There is no command 'rum'; there are run, bench, inspect, explain, compile, emulate."),
    (["--loud"], "'kiln --help' lists what there is."),
    (["run"], "FILE is required. 'kiln run --help' lists what there is."),
    (["compile", "axpy.txt"], "--output is required. 'kiln compile --help' lists what there is."),
    (["run", "axpy.mef", "--loud"], "--loud"),
    (["run", "axpy.mef", "more"], "more"),
    (["run", "axpy.mef", "--seed", "x"], "--seed: 'x' is not a whole number from 0 to 18446744073709551615"),
    (["run", "axpy.mef", "--seed", "-1"], "--seed: '-1' is not a whole number from 0 to 18446744073709551615"),
    (["compile", "axpy.txt", "-o", "./axpy.txt"], "-o: './axpy.txt' is the source itself"),
    (["explain", "axpy.mef", "-o", "./axpy.mef"], "-o: './axpy.mef' is the source itself"),
    (["inspect", "axpy.mef", "--extract", "./axpy.mef"], "--extract: './axpy.mef' is the source itself"),
    (["run", "axpy.mef", "--threads", "-1"], "--threads"),
    (["bench", "axpy.mef", "--repeat", "0"], "--repeat"),
    (["bench", "axpy.mef", "--repeat", "1e3"], "'1e3' is not a whole number from 1 to 1073741824"),
    (["bench", "axpy.mef", "--warmup", "-1"], "--warmup"),
    (["run", "axpy.mef", "--dim", "n"], "--dim takes NAME=VALUE, not 'n'."),
    (["run", "axpy.mef", "--dim", "n=two"], "--dim takes NAME=N with a number N >= 0, not 'n=two'."),
    (["run", "axpy.mef", "--dim", "n=-1"], "--dim takes NAME=N with a number N >= 0, not 'n=-1'."),
    (["run", "axpy.mef", "--dim", "m=1"], "There is no symbolic dim 'm'; the graph has n."),
    (["run", "axpy.mef", "--input", "x.npy"], "--input takes NAME=VALUE, not 'x.npy'."),
    (["run", "axpy.mef", "--input", "z=x.npy"], "There is no input 'z'; the graph has input0, input1."),
    (["run", "axpy.mef", "--input", "input0=x.npy", "--input", "input0=x.npy"], "--input names 'input0' twice."),
    (["run", "axpy.mef", "--graph", "other"], "'axpy.mef' has no graph 'other'; it has axpy."),
    (["inspect", "axpy.mef", "--level", "host"], "--level chooses what --extract writes; give --extract PATH too."),
    (["inspect", "axpy.mef", "--extract", "c.so", "--level", "x86-64-v9"],
     "'axpy.mef' has no code for level 'x86-64-v9'; it has host."),
    (["compile", "axpy.txt", "-o", "o.mef", "--target", "pentium"], "'pentium' is not the name of a processor"),
    (["compile", "axpy.mef", "-o", "o.mef", "--target", "generic"], "'axpy.mef' is compiled already"),
])
def test_wrong_usage(folder, arguments, text):
    assert text in refused(2, *arguments, cwd=folder)
    assert not (folder / "o.mef").exists() and not (folder / "c.so").exists()


@pytest.mark.parametrize("command", [name for name in SUBCOMMANDS if name != "emulate"])
@pytest.mark.parametrize("file, text", [
    ("missing", "cannot read 'missing': No such file or directory"),
    (".", "cannot read '.': Is a directory"),
    ("cut.mef", "'cut.mef' is truncated: it should have"),
    ("damaged.mef", "'damaged.mef' is corrupted: the checksum of section"),
    ("empty", "'empty' is neither a MEF nor the text of graphs, which starts with 'kiln.module version 1'."),
    ("noise", "'noise' is neither a MEF nor the text of graphs"),
])
def test_files_that_are_no_programs(folder, command, file, text):
    more = ["-o", "o.mef"] if command == "compile" else []
    assert text in refused(1, command, file, *more, cwd=folder)
    assert not (folder / "o.mef").exists()


@pytest.mark.parametrize("old, new, text", [
    ("kiln.add", "kiln.frobnicate", "unknown op 'kiln.frobnicate'"),
    ("version 1", "version 9", "version"),
    ("tensor<[n, 3], f32>", "tensor<[n, 3], f99>", "f99"),
    (" params [n]", "", "write \"params [n]\""),
    ("kiln.output(", "kiln.output(%nobody, ", "%nobody"),
])
def test_malformed_text_is_refused_with_its_place(folder, old, new, text):
    content = (folder / "axpy.txt").read_text()
    assert old in content
    (folder / "bad.txt").write_text(content.replace(old, new, 1))
    error = refused(1, "run", "bad.txt", cwd=folder)
    place, line, column, *_ = error.split(":")
    assert place == "bad.txt" and line.isdigit() and column.isdigit() and text in error


# run


def test_run_computes(folder):
    output = good("run", "axpy.mef", "--input", "input0=x.npy", "--input", "input1=y.npy", "--output", "made/by/run",
                  cwd=folder)
    x, y = np.load(folder / "x.npy"), np.load(folder / "y.npy")
    made = np.load(folder / "made/by/run/output0.npy")
    np.testing.assert_array_equal(made, 2 * x + y)
    assert made.dtype == np.float32
    assert output.startswith("output0 = Buffer([[") and "shape=(2, 3)" in output
    np.testing.assert_allclose(np.load(folder / "made/by/run/output1.npy").ravel(), x.sum(1))


def test_run_compiles_text(folder):
    good("run", "axpy.txt", "--input", "input0=fortran.npy", "--input", "input1=y.npy", "--output", "from_text",
         "--threads", "1", cwd=folder)
    x, y = np.load(folder / "x.npy"), np.load(folder / "y.npy")
    np.testing.assert_array_equal(np.load(folder / "from_text/output0.npy"), 2 * x + y)


def test_random_inputs_follow_the_seed(folder):
    same = [good("run", "axpy.mef", "--dim", "n=4", "--seed", "7", cwd=folder) for _ in range(2)]
    assert same[0] == same[1] and "shape=(4, 3)" in same[0]
    assert good("run", "axpy.mef", "--dim", "n=4", "--seed", "8", cwd=folder) != same[0]
    assert "shape=(1, 3)" in good("run", "axpy.mef", cwd=folder)
    assert "shape=(0, 3)" in good("run", "axpy.mef", "--dim", "n=0", cwd=folder)
    # A dim that one input gives holds for the others.
    assert "shape=(2, 3)" in good("run", "axpy.mef", "--input", "input1=y.npy", cwd=folder)


def test_run_with_weights(folder):
    good("run", "linear.mef", "--input", "input0=x.npy", "--weights", "w.safetensors", "--output", "linear",
         cwd=folder)
    expected = np.load(folder / "x.npy") @ np.arange(6, dtype=np.float32).reshape(3, 2)
    np.testing.assert_array_equal(np.load(folder / "linear/output0.npy"), expected)
    assert refused(1, "run", "linear.mef", cwd=folder) == "Weight 'w' is not in the weights registry."
    assert "none" in refused(1, "run", "linear.mef", "--weights", "none", cwd=folder)
    assert "x.npy" in refused(1, "run", "linear.mef", "--weights", "x.npy", cwd=folder)


@pytest.mark.parametrize("arguments, text", [
    (["--input", "input0=double.npy"],
     "--input input0=double.npy has float64 [2, 3], but the graph takes float32 [n, 3]."),
    (["--input", "input0=wide.npy"], "--input input0=wide.npy has float32 [2, 4], but the graph takes float32 [n, 3]."),
    (["--input", "input0=x.npy", "--input", "input1=long.npy"],
     "The dim 'n' is 2 by --input input0=x.npy, but 3 by --input input1=long.npy."),
    (["--input", "input0=x.npy", "--dim", "n=5"], "The dim 'n' is 2 by --input input0=x.npy, but 5 by --dim n=5."),
    (["--input", "input0=none.npy"], "'none.npy'"),
    (["--input", "input0=."], "Is a directory"),
    (["--input", "input0=text.npy"], "'text.npy' cannot be used: it is no .npy file"),
    (["--dim", "n=4000000000000"], "memory"),
    (["--dim", "n=9223372036854775807"], ""),
    (["--output", "x.npy/below"], "The folder 'x.npy/below' cannot be made: Not a directory."),
])
def test_what_does_not_fit(folder, arguments, text):
    assert text in refused(1, "run", "axpy.mef", *arguments, cwd=folder)


def test_errors_of_a_graph_quote_its_op(folder):
    types = [TensorType(F32, ["n"], CPU()), TensorType(DType.int64, ["m"], CPU())]
    graph = Graph("lookup", lambda x, i: ops.gather(x, i, 0), types)
    (folder / "lookup.txt").write_text(str(graph))
    np.save(folder / "i.npy", np.array([9]))
    status, _, errors = kiln("run", "lookup.txt", "--dim", "n=3", "--input", "input1=i.npy", cwd=folder)
    assert status == 1 and "gather: index 9 is out of bounds for axis 0 with size 3" in errors


def test_a_buffer_input_is_written(folder):
    with Graph("counter", input_types=[BufferType(F32, [2], CPU())]) as graph:
        current = ops.buffer_load(graph.inputs[0])
        ops.buffer_store(graph.inputs[0], current + 1)
        graph.output(current)
    (folder / "counter.txt").write_text(str(graph))
    assert "shape=(2,)" in good("run", "counter.txt", cwd=folder)


# bench


def test_bench(folder):
    lines = good("bench", "axpy.mef", "--repeat", "5", "--warmup", "1", "--threads", "1", cwd=folder).splitlines()
    assert [line.split()[0] for line in lines] == ["compile", "init", "calls", "minimum", "median", "p90", "p99",
                                                   "mean"]
    assert lines[2] == "calls    5 after 1 to warm up"
    facts = json.loads(good("bench", "axpy.txt", "--repeat", "5", "--json", cwd=folder))
    assert facts["calls"] == 5 and facts["warmup"] == 10
    assert 0 < facts["minimum"] <= facts["median"] <= facts["p90"] <= facts["p99"]
    assert facts["minimum"] <= facts["mean"] and facts["compile"] > 0 and facts["init"] > 0


# inspect


def test_inspect(folder):
    text = good("inspect", "axpy.mef", cwd=folder)
    for line in ("fits this machine", "graph axpy", "  input  input0: float32 [n, 3] on cpu:0",
                 "  output output0: float32 [n, 3] on cpu:0", "memory of graph axpy"):
        assert line in text.splitlines(), text
    assert "kernel " in text and "code.cpu" in text and "x86_64" in text
    assert "weight w" in good("inspect", "linear.txt", cwd=folder)


def test_inspect_as_json(folder):
    facts = json.loads(good("inspect", "linear.mef", "--json", cwd=folder))
    (graph,) = facts["graphs"]
    assert graph["name"] == "linear" and graph["weights"] == ["w"] and graph["symbols"] == ["n"]
    (tensor,) = graph["inputs"]
    assert tensor == {"name": "input0", "dtype": "float32", "shape": ["n", 3], "device": "cpu:0",
                      "buffer": False, "written": False}
    assert facts["weights"] == [{"name": "w", "dtype": "float32", "shape": [3, 2], "device": "cpu:0", "bytes": 24,
                                 "carried": False}]
    assert facts["compatible"] is True and facts["reasons"] == []
    size = (folder / "linear.mef").stat().st_size
    assert max(s["offset"] + s["length"] for s in facts["sections"]) == size
    assert {s["kind"] for s in facts["sections"]} >= {"code.cpu", "plan", "ir"}
    assert facts["plan"]["kernels"] and facts["plan"]["memory"][0]["graph"] == "linear"


def test_extract(folder):
    assert good("inspect", "axpy.mef", "--extract", "code.so", cwd=folder) == ""
    code = (folder / "code.so").read_bytes()
    assert code[:4] == b"\x7fELF" and code in (folder / "axpy.mef").read_bytes()
    for number in subprocess.run(["readelf", "-h", folder / "code.so"], capture_output=True, text=True,
                                 check=True).stdout.splitlines():
        if "Type:" in number:
            assert "DYN" in number
    symbols = subprocess.run(["nm", "-D", folder / "code.so"], capture_output=True, text=True, check=True).stdout
    assert "kiln_run_0" in symbols
    assert good("inspect", "axpy.mef", "--extract", "host.so", "--level", "host", cwd=folder) == ""
    assert (folder / "host.so").read_bytes() == code
    assert "none/code.so" in refused(1, "inspect", "axpy.mef", "--extract", "none/code.so", cwd=folder)


# compile


def test_compile(folder):
    assert good("compile", "axpy.txt", "-o", "compiled.mef", cwd=folder) == ""
    x = np.load(folder / "x.npy")
    result = InferenceSession().load(folder / "compiled.mef")(x, x)[0].to_numpy()
    np.testing.assert_array_equal(result, 3 * x)


def test_compile_stores_weights(folder):
    good("compile", "linear.txt", "-o", "whole.mef", "--weights", "w.safetensors", cwd=folder)
    assert [w.carried for w in query_mef(folder / "whole.mef").weights] == [True]
    good("run", "whole.mef", "--input", "input0=x.npy", "--output", "whole", cwd=folder)
    expected = np.load(folder / "x.npy") @ np.arange(6, dtype=np.float32).reshape(3, 2)
    np.testing.assert_array_equal(np.load(folder / "whole/output0.npy"), expected)
    # A MEF takes weights as text does.
    good("compile", "linear.mef", "-o", "again.mef", "--weights", "w.safetensors", cwd=folder)
    assert [w.carried for w in query_mef(folder / "again.mef").weights] == [True]


def test_compile_for_another_processor(folder):
    good("compile", "axpy.txt", "-o", "old.mef", "--target", "x86-64-v3", cwd=folder)
    (target,) = query_mef(folder / "old.mef").targets
    assert target.cpu == "x86-64-v3" and "avx2" in target.features and "avx512f" not in target.features


@pytest.mark.parametrize("output", ["none/o.mef", ".", "/dev/null"])
def test_places_that_cannot_be_written(folder, output):
    error = refused(1, "compile", "axpy.txt", "-o", output, cwd=folder)
    assert error.startswith(f"cannot write '{output}': ")
    assert not os.path.isfile("/dev/null") and not list(folder.glob("*.tmp"))


def test_a_graph_that_cannot_be_compiled(folder):
    with Graph("open", input_types=[TensorType(F32, [2], CPU())]) as graph:
        ops.exp(graph.inputs[0])
    (folder / "open.txt").write_text(str(graph))
    status, _, errors = kiln("compile", "open.txt", "-o", "o.mef", cwd=folder)
    assert status == 1 and "was never terminated by a call to output" in errors


# Several graphs


def test_several_graphs_need_a_choice(folder):
    text = (folder / "axpy.txt").read_text()
    body = text[text.index("  kiln.graph"):text.rindex("}")]
    (folder / "two.txt").write_text(text[:text.rindex("}")] + body.replace("@axpy", "@other") + "}\n")
    good("compile", "two.txt", "-o", "two.mef", cwd=folder)
    for command in ("run", "bench"):
        assert refused(2, command, "two.mef", cwd=folder) == \
            "'two.mef' holds 2 graphs; choose one with --graph: axpy, other."
    good("run", "two.mef", "--graph", "other", cwd=folder)
    assert "graph axpy" in good("inspect", "two.mef", cwd=folder)


# Streams and signals


def test_programs_may_come_through_a_pipe(folder):
    assert good("inspect", "/dev/stdin", input=(folder / "axpy.txt").read_text()).count("graph axpy\n") == 2
    done = subprocess.run([COMMAND, "inspect", "/dev/stdin"], input=(folder / "axpy.mef").read_bytes(),
                          capture_output=True, env=CLEAN, timeout=60)
    assert done.returncode == 0 and b"graph axpy" in done.stdout


def test_a_program_that_never_ends():
    done = subprocess.run([COMMAND, "inspect", "/dev/zero"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "'/dev/zero' could not be read: it is no regular file and has not ended after 256 MiB" in done.stderr


def test_results_that_cannot_be_written():
    if not os.path.exists("/dev/full"):
        return
    with open("/dev/full", "w") as full:
        done = subprocess.run([COMMAND, "--help"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "kiln: the results cannot be written to standard output\n"


def test_a_closed_pipe_ends_quietly(folder):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run([COMMAND, "inspect", folder / "axpy.mef", "--json"], stdout=writer, env=CLEAN,
                              stderr=subprocess.PIPE, text=True, timeout=60)
    finally:
        os.close(writer)
    assert done.returncode == -signal.SIGPIPE and done.stderr == ""


def test_control_c_ends_it(folder):
    process = subprocess.Popen([COMMAND, "bench", folder / "axpy.mef", "--repeat", str(1 << 30)], env=CLEAN,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=20)
    assert process.returncode == -signal.SIGINT and (output, errors) == ("", "")


def test_control_c_leaves_no_half_file(folder, tmp_path):
    def forward(x):
        for i in range(60):
            x = ops.softmax(x @ x.T + i) @ ops.exp(x * i)
        return x

    (tmp_path / "long.txt").write_text(str(Graph("long", forward, [TensorType(F32, ["n", 32], CPU())])))
    process = subprocess.Popen([COMMAND, "compile", "long.txt", "-o", "long.mef"], cwd=tmp_path,
                               env={**CLEAN, "KILN_CACHE": "0"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert sorted(p.name for p in tmp_path.iterdir()) == ["long.txt"]


DEVICES = """
import os, sys
from kiln.driver import Accelerator, Buffer, accelerator_count
from kiln.dtype import DType
import numpy as np
there = Buffer.from_numpy(np.arange(5, dtype=np.float32)).copy(Accelerator(accelerator_count() - 1))
print(accelerator_count(), there.device, there.to_numpy().sum(), sys.argv[1:])
sys.exit(7)
"""


def test_emulate_gives_a_program_devices():
    status, output, errors = kiln("emulate", "--devices", "3", "--", sys.executable, "-c", DEVICES, "--flag", "x")
    assert (status, errors) == (7, ""), errors
    assert output == "3 Device(type=gpu,id=2) 10.0 ['--flag', 'x']\n"


def test_emulate_gives_the_driver_to_any_program():
    find = "import ctypes; d = ctypes.CDLL('libcuda.so.1'); n = ctypes.c_int(); " \
           "assert d.cuInit(0) == 0 and d.cuDeviceGetCount(ctypes.byref(n)) == 0; print(n.value)"
    assert good("emulate", sys.executable, "-c", find) == "1\n"
    status, output, errors = kiln("emulate", "--fail", "1:100", "--", sys.executable, "-c", find)
    assert status == 1 and output == "" and "AssertionError" in errors


def test_emulate_tells_how_a_program_ended():
    kill = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert kiln("emulate", "--", sys.executable, "-c", kill)[0] == 128 + signal.SIGKILL
    assert "'./not-there' cannot be run: No such file or directory" in refused(1, "emulate", "--", "./not-there")
    assert "PROGRAM is required" in refused(2, "emulate", "--devices", "2")
