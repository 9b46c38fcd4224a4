"""The page that explains an artifact, looked at in a real browser."""

from __future__ import annotations

import copy
import itertools
import json
import os
import random
import subprocess
from pathlib import Path

import numpy as np
import pytest
from browsing import answer, look, start, visit
from processes import CLEAN
from running import tensor_type
from test_memory_plan import network, some_ops, value

from kiln.dtype import DType
from kiln.engine import InferenceSession
from kiln.graph import BufferType, DeviceRef, Graph, ops

pytestmark = pytest.mark.engine

COMMAND = os.environ.get("KILN_COMMAND") or Path(__file__).parents[2] / "build/release/bin/kiln"
TEMPLATE = (Path(__file__).parents[2] / "kiln/engine/explain.html").read_text()
PLACE = '<script type="application/json" id="data">{}</script>'
CPU = DeviceRef.CPU()


def every_form_of_op() -> Graph:
    types = [tensor_type("float32", ["n", 4]), tensor_type("int32", []), tensor_type("bool", []),
             BufferType(DType.float32, [3], CPU)]
    return Graph("case", some_ops, types)


def places() -> Graph:
    """Values that take over the place of others, in sizes of two dims."""

    def build(x):
        y = ops.matmul(x, ops.transpose(x, 0, 1))
        z = ops.exp(y - ops.max(y, axis=0))
        return ops.matmul(z * z - ops.mean(z, axis=0), x)

    return Graph("places", build, [tensor_type("float32", ["rows", "columns"])])


GRAPHS = {"network": network, "case": every_form_of_op, "places": places}


def explained(graph: Graph, folder: Path) -> dict:
    """What the page shows of a graph."""
    InferenceSession().compile(graph).export_mef(folder / "case.mef")
    done = subprocess.run([COMMAND, "inspect", folder / "case.mef", "--json"], capture_output=True, text=True,
                          check=True, env=CLEAN)
    data = {"file": "case.mef", "artifact": json.loads(done.stdout), "ir": str(graph)}
    add_operands(data["artifact"]["plan"])
    return data


def add_operands(plan: dict) -> None:
    """Gives the kernels of a run operands and work where the plan has none."""
    for kernel in plan["kernels"]:
        if "reads" in kernel:
            continue
        number = kernel.get("number", -1)
        (values,) = (m["values"] for m in plan["memory"] if m["graph"] == kernel["graph"])
        for word, key in (("reads", "last_kernel"), ("writes", "first_kernel")):
            kernel[word] = [{"tensor": f"value {v['value']}", **{k: v[k] for k in ("dtype", "shape", "bytes")}}
                            for v in values if v.get(key) == number]
        kernel["reads"].append({"tensor": "constant", "dtype": "float32", "shape": [7], "bytes": "28"})
        kernel["flops"] = " * ".join(f"({e})" for e in kernel["extents"]) + " * 2" if kernel["extents"] else "1"


def write_page(data, path: Path, script: str = "") -> Path:
    """The page about `data`, and behind its own a script of the test."""
    # The command that makes the page does the same.
    filled = json.dumps(data).replace("<", "\\u003c")
    assert TEMPLATE.count(PLACE + "\n") == 1
    page = TEMPLATE.replace(PLACE, PLACE.replace("{}", filled))
    path.write_text(page.replace("</body>", f"<script>{script}</script></body>") if script else page)
    return path


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory) -> dict[str, dict]:
    return {name: explained(make(), tmp_path_factory.mktemp(name)) for name, make in GRAPHS.items()}


def fragment(sizes: dict[str, int]) -> str:
    return "#" + "&".join(f"{k}={v}" for k, v in sizes.items())


SIZES = {"network": [{"n": 1}, {"n": 1000}, {"n": 0}], "case": [{"n": 5, "rest": 3, "many": 17}],
         "places": [{"rows": 33, "columns": 7}, {"rows": 2**40, "columns": 3}]}
CASES = [(name, sizes) for name, each in SIZES.items() for sizes in each]


def test_a_page_needs_nothing_but_itself():
    for word in ("src=", "@import", "url(", "fetch(", "XMLHttpRequest", "eval(", "innerHTML", "outerHTML", "Function("):
        assert word not in TEMPLATE
    assert "default-src 'none'" in TEMPLATE
    assert TEMPLATE.count("://") == TEMPLATE.count("http://www.w3.org/2000/svg") == 1


def data_of(page: str) -> dict:
    begin, end = PLACE.split("{}")
    return json.loads(page.partition(begin)[2].partition(end)[0])


def test_the_command_and_the_library_write_the_page(tmp_path):
    graph = places()
    compiled = InferenceSession().compile(graph)
    compiled.export_mef(tmp_path / "case.mef")
    done = subprocess.run([COMMAND, "explain", "case.mef"], capture_output=True, text=True, check=True, env=CLEAN,
                          cwd=tmp_path)
    assert done.stdout == "wrote case.html\n"
    page = (tmp_path / "case.html").read_text()
    data = data_of(page)
    assert data["file"] == "case.mef" and data["ir"] == str(graph)
    inspected = subprocess.run([COMMAND, "inspect", "case.mef", "--json"], capture_output=True, text=True, check=True,
                               env=CLEAN, cwd=tmp_path)
    assert data["artifact"] == json.loads(inspected.stdout)
    kernels = data["artifact"]["plan"]["kernels"]
    product = next(k for k in kernels if "matmul" in k["ops"] and k["stage"] == "run")
    assert {read["tensor"] for read in product["reads"]} & {"input input0"} and product["writes"] and product["flops"]
    own = compiled.explain(tmp_path / "own.html")
    assert (tmp_path / "own.html").read_text() == own
    assert data_of(own)["artifact"]["plan"] == data["artifact"]["plan"] and data_of(own)["file"] == "places"
    subprocess.run([COMMAND, "explain", "case.mef", "-o", "other.html"], check=True, env=CLEAN, cwd=tmp_path,
                   capture_output=True)
    assert (tmp_path / "other.html").read_text() == page
    refused = subprocess.run([COMMAND, "explain", "none.mef"], capture_output=True, text=True, env=CLEAN, cwd=tmp_path)
    assert refused.returncode == 1 and "none.mef" in refused.stderr


def test_what_a_page_logs_is_seen(artifacts, tmp_path):
    for script in ("undefined.x", "console.error('so')", "fetch('data:,x')"):
        _, logged = start(write_page(artifacts["places"], tmp_path / "p.html", script), "--dump-dom")
        assert logged


@pytest.mark.parametrize("name, sizes", CASES)
def test_kernels_and_their_numbers(name, sizes, artifacts, tmp_path):
    plan = artifacts[name]["artifact"]["plan"]
    document = visit(write_page(artifacts[name], tmp_path / "p.html"), fragment(sizes))
    rows = document.all("li", data_kernel=None)
    assert {i["data-symbol"]: i["value"] for i in document.all("input", data_symbol=None)} == {
        k: str(v) for k, v in sizes.items()}
    order = sorted(range(len(plan["kernels"])), key=lambda i: plan["kernels"][i]["stage"] == "init")
    assert [int(row["data-kernel"]) for row in rows] == order
    sums = {"reads": 0, "writes": 0, "flops": 0}
    for row in rows:
        kernel = plan["kernels"][int(row["data-kernel"])]
        assert row["data-stage"] == kernel["stage"] and kernel["name"] in row.text
        assert all(op in row.text for op in kernel["ops"])
        assert row["data-extents"] == ",".join(str(value(e, **sizes)) for e in kernel["extents"])
        for attribute, word in (("data-read", "reads"), ("data-written", "writes")):
            expected = sum(value(entry["bytes"], **sizes) for entry in kernel[word])
            assert int(row[attribute]) == expected
            sums[word] += expected * (kernel["stage"] == "run")
        assert int(row["data-flops"]) == value(kernel["flops"], **sizes)
        sums["flops"] += int(row["data-flops"]) * (kernel["stage"] == "run")
    totals = {tile["data-total"]: int(tile["data-value"]) for tile in document.all(data_total=None)}
    assert totals["flops"] == sums["flops"] and totals["traffic"] == sums["reads"] + sums["writes"]
    assert totals["kernels"] == sum(k["stage"] == "run" for k in plan["kernels"])
    assert totals["arena"] == value(plan["memory"][0]["arena_bytes"], **sizes)
    assert totals["weights"] == sum(w["bytes"] for w in artifacts[name]["artifact"]["weights"])


def box(rect) -> tuple[float, float, float, float]:
    x, y, width, height = (float(rect[k]) for k in ("x", "y", "width", "height"))
    return x, y, x + width, y + height


@pytest.mark.parametrize("name, sizes", CASES)
def test_memory_chart(name, sizes, artifacts, tmp_path):
    (memory,) = artifacts[name]["artifact"]["plan"]["memory"]
    document = visit(write_page(artifacts[name], tmp_path / "p.html"), fragment(sizes))
    (chart,) = (e for e in document.all("svg") if "memory" in e.classes())
    rects = chart.all("rect", data_value=None)
    drawn = {v["value"]: v for v in memory["values"] if "offset" not in v or value(v["bytes"], **sizes) > 0}
    assert sorted(int(r["data-value"]) for r in rects) == sorted(drawn)
    width, height = float(chart["width"]), float(chart["height"])
    step = width / memory["kernels"]
    for rect in rects:
        entry = drawn[int(rect["data-value"])]
        left, top, right, bottom = box(rect)
        assert 0 <= left < right <= width + .01 and 0 <= top <= bottom <= height
        assert entry["kept"][0] * step - .01 <= left and right <= (entry["kept"][1] + 1) * step + .01
        assert int(rect["data-bytes"]) == value(entry["bytes"], **sizes)
        if "offset" in entry:
            share = value(entry["bytes"], **sizes) / value(memory["arena_bytes"], **sizes)
            assert bottom - top == pytest.approx(300 * share, abs=.01)
            assert int(rect["data-offset"]) == value(entry["offset"], **sizes)
    for a, b in itertools.combinations(map(box, rects), 2):
        apart = max(a[0], b[0]) >= min(a[2], b[2]) - .01 or max(a[1], b[1]) >= min(a[3], b[3]) - .01
        assert apart, (a, b)
    said = document.one("p", data_memory=None)
    live = [union([(value(v["offset"], **sizes), value(v["bytes"], **sizes)) for v in memory["values"]
                   if "offset" in v and v["kept"][0] <= k <= v["kept"][1]]) for k in range(memory["kernels"])]
    assert int(said["data-block"]) == value(memory["arena_bytes"], **sizes)
    assert int(said["data-peak"]) == max(live)
    prepared = [int(tile["data-value"]) for tile in document.all(data_total="prepared")]
    assert prepared == ([sum(value(p["bytes"]) for p in memory["prepared"])] if memory["prepared"] else [])


def union(pieces: list[tuple[int, int]]) -> int:
    """The bytes that any of the pieces, offsets and sizes, holds."""
    covered, end = 0, 0
    for offset, size in sorted(pieces):
        covered += max(0, offset + size - max(end, offset))
        end = max(end, offset + size)
    return covered


def formula(rng: random.Random, depth: int) -> str:
    if depth == 0:
        return rng.choice(["n", "batch", "_x1", "0", "1", "64", str(rng.randrange(2**63))])
    if rng.random() < .2:
        return "max(" + ", ".join(formula(rng, depth - 1) for _ in range(rng.randint(2, 3))) + ")"
    left, right = formula(rng, depth - 1), formula(rng, depth - 1)
    sign = rng.choice([" + ", " - ", " * ", " // ", "+", "-", "*", "//", " + -", " * -"])
    joined = f"{left}{sign}{right}"
    return rng.choice([joined, f"({joined})", f"-({joined})", f" ( {joined} ) "])


def test_formulas_against_python(tmp_path):
    rng = random.Random(1)
    sizes = {"n": 17, "batch": 2**63 - 1, "_x1": 0}
    known = [formula(rng, rng.randint(0, 3)) for _ in range(600)]
    known += ["-7 // 2", "7 // -2", "-(7) // 2", "- - 3", "max(n, 5)", "2 - 3 - 4", "100 // 7 // 2", "7 // 2 * 2"]
    long = ["(" * 20000 + "n" + ")" * 20000, " + ".join(["n"] * 20000), "-" * 20001 + "n"]  # too deep for Python
    unknown = ["", " ", "n +", "* n", "n n", "2 n", "f(n)", "min(n, 1)", "max()", "max(n", "(n", "n)", "n ** 2",
               "n / 2", "n % 2", "1.5", "1e3", "n.x", "x", "n;1", "1, 2", "(1, 2)", "max(1,)", "max", "alert(1)",
               "n[0]", "`1`", "constructor", "__proto__", "7 // 0", "n // _x1", "9" * 5000,
               "*".join(["9" * 100] * 50), "'n'", "🙂"]
    script = """sizes = new Map([['n', 17n], ['batch', 9223372036854775807n], ['_x1', 0n]]); results = new Map();
        const list_of = JSON.parse(document.getElementById('data').textContent).formulas;
        document.body.dataset.answer = JSON.stringify(list_of.map(f => String(evaluate(f))))"""
    found = answer(visit(write_page({"formulas": known + unknown + long}, tmp_path / "p.html", script)))
    for text, result in zip(known, found):
        try:
            expected = str(value(text.strip(), **sizes))
        except ZeroDivisionError:
            expected = "null"
        assert result == expected, text[:200]
    assert dict(zip(unknown, found[len(known):])) == dict.fromkeys(unknown, "null")
    assert found[-3:] == ["17", str(17 * 20000), "-17"]


EVIL = ["<script>document.body.dataset.owned = 1</script>", "<img src=x onerror=\"document.body.dataset.owned=1\">",
        "</script><script>document.body.dataset.owned = 1//", "\"'><svg/onload=document.body.dataset.owned=1>",
        "🙂 \u202eabc\u0007 <!--<script>", "__proto__", "x" * 5000, "${document.body.dataset.owned=1}"]


def test_hostile_names_are_text(artifacts, tmp_path):
    data = copy.deepcopy(artifacts["network"])
    artifact, plan = data["artifact"], data["artifact"]["plan"]
    names = itertools.cycle(EVIL)

    def spoil(entry: dict, *keys: str) -> None:
        for key in keys:
            entry[key] = next(names)

    for tensor in artifact["graphs"][0]["inputs"] + artifact["graphs"][0]["outputs"] + artifact["weights"]:
        spoil(tensor, "name", "dtype", "device")
    for kernel in plan["kernels"]:
        spoil(kernel, "name", "summary", "symbol")
        kernel["ops"] = EVIL
        kernel["extents"] = [next(names)]
        for entry in kernel["reads"] + kernel["writes"]:
            spoil(entry, "dtype", "bytes")
            entry["shape"] = EVIL
    for entry in plan["memory"][0]["values"] + plan["memory"][0]["prepared"]:
        spoil(entry, "op", "dtype")
        entry["shape"], entry["made_by"] = EVIL, EVIL
    for entry in artifact["targets"] + artifact["sections"]:
        spoil(entry, *(key for key in entry if isinstance(entry[key], str)))
    artifact["graphs"][0]["symbols"] += EVIL
    artifact.update(kiln_version=EVIL[0], format_version=EVIL[1], compatible=False, reasons=EVIL)
    data["file"], data["ir"] = EVIL[0], data["ir"] + "\n" + "\n".join(EVIL) + "\n" + EVIL[0] * 2000
    script = "for (const row of document.querySelectorAll('.row')) row.click()"
    document = visit(write_page(data, tmp_path / "p.html", script))
    assert "data-owned" not in document.one("body").attributes
    assert document.one("h1").text == EVIL[0]
    assert document.all("img") == [] and document.all(onload=None) == [] and document.all(onerror=None) == []
    assert len(document.all("script")) == 3  # the data, the page's own, that of this test
    assert len(document.all("li", data_kernel=None)) == len(plan["kernels"])
    shown = document.one("main").text
    for name in EVIL:
        assert name in shown
    inputs = {i["data-symbol"] for i in document.all("input", data_symbol=None)}
    assert {"n", *EVIL} <= inputs


def spoiled(data, rng: random.Random, rate: float):
    """The data with some of its parts replaced by others or left out."""
    if rng.random() < rate:
        return rng.choice([None, True, -1, 0, 1e300, 2**70, "", "x", "n // 0", [], {}, [[]], [None], {"a": {}},
                           "value 0"])
    if isinstance(data, dict):
        return {k: spoiled(v, rng, rate) for k, v in data.items() if rng.random() >= rate / 2}
    if isinstance(data, list):
        return [spoiled(v, rng, rate) for v in data]
    return data


def test_data_of_any_form(artifacts, tmp_path):
    rng = random.Random(7)
    wrong = [None, [], 7, {"artifact": []}, {"artifact": {"plan": {"kernels": {}}}}]
    wrong += [spoiled(artifacts[name], rng, rate) for name in GRAPHS for rate in (.01, .05)]
    script = """for (const row of [...document.querySelectorAll('.row')].slice(0, 40)) { row.focus(); row.click() }
        for (const input of document.querySelectorAll('#symbols input')) {
          input.value = 3; input.dispatchEvent(new Event('input')) }"""
    for data in wrong:
        document = visit(write_page(data, tmp_path / "p.html", script))
        assert document.one("h1").text and len(document.all("section")) >= 2
    (tmp_path / "p.html").write_text(TEMPLATE.replace(PLACE, PLACE.replace("{}", "{broken")))
    assert "cannot be read" in visit(tmp_path / "p.html").one(role="alert").text


def test_two_thousand_kernels(tmp_path):
    kernels, values = [], []
    for i in range(2000):
        entry = {"tensor": f"value {i}", "dtype": "float32", "shape": ["n", 64], "bytes": "n * 256"}
        reads = [dict(entry, tensor=f"value {j}") for j in {i - 1, i - 7} if j >= 0]
        kernels.append({"graph": "big", "name": f"k{i}", "number": i, "ops": ["matmul", "add"], "stage": "run",
                        "summary": "Epilogue(matmul, add)", "symbol": f"k{i}", "extents": ["n", "64"], "reads": reads,
                        "writes": [entry], "flops": "n * 8192"})
        values.append({"value": i, "op": "add", "dtype": "float32", "shape": ["n", 64], "bytes": "n * 256",
                       "slot": i % 8, "offset": f"n * {256 * (i % 8)}", "kept": [i, min(i + 7, 1999)],
                       "first_kernel": i, "last_kernel": min(i + 7, 1999)})
    memory = {"graph": "big", "arena_bytes": "n * 2048", "kernels": 2000, "values": values, "slots": [], "prepared": [],
              "scratch": []}
    text = "\n".join(f"    %{i} = kiln.matmul(%{i - 1}, %0) : tensor<[n, 64], f32>" for i in range(20000))
    data = {"file": "big.mef", "ir": text, "artifact": {"graphs": [{"name": "big", "symbols": ["n"]}],
                                                        "plan": {"kernels": kernels, "memory": [memory]}}}
    script = """const input = document.querySelector('#symbols input');
        input.value = '5'; input.dispatchEvent(new Event('input'));
        const find = document.querySelector('.search input');
        find.value = '%19999 ='; find.dispatchEvent(new Event('input'))"""
    document = visit(write_page(data, tmp_path / "p.html", script))
    rows = document.all("li", data_kernel=None)
    assert len(rows) == 2000 and {row["data-written"] for row in rows} == {"1280"}
    assert len(document.all("rect", data_value=None)) == 2000
    assert document.one("p", data_memory=None)["data-peak"] == str(8 * 1280)
    (line,) = (e for e in document.walk() if "now" in e.classes() and e.tag == "div")
    assert line["data-n"] == "20000"


INTERACT = """
const $ = s => [...document.querySelectorAll(s)], row = $('[data-stage=run] .row'), out = {};
const near = () => $('.kernel.near').map(e => Number(e.dataset.kernel));
row[1].dispatchEvent(new PointerEvent('pointerenter'));
Object.assign(out, {on: $('.kernel.on').map(e => Number(e.dataset.kernel)), near: near(),
  rects: $('rect.near').map(e => Number(e.dataset.value)), hit: $('.l.hit').map(e => Number(e.dataset.n))});
row[1].dispatchEvent(new PointerEvent('pointerleave'));
out.left = $('.on, .near, .hit').length;
row[0].focus();
row[0].dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowDown', bubbles: true}));
out.focus = Number(document.activeElement.closest('.kernel').dataset.kernel);
out.stops = $('[data-stage=run] .row').filter(e => e.tabIndex === 0).length;
document.activeElement.blur();
const rect = $('rect[data-value="1"]')[0];
rect.dispatchEvent(new PointerEvent('pointermove', {bubbles: true, clientX: 5, clientY: 5}));
Object.assign(out, {users: near(), tip: $('#tip')[0].textContent, readout: $('#readout')[0].textContent});
row[1].click();
out.open = row[1].getAttribute('aria-expanded');
const input = $('#symbols input')[0];
const set = v => { input.value = v; input.dispatchEvent(new Event('input')); };
set('3');
Object.assign(out, {hash: location.hash, operands: row[1].parentNode.querySelectorAll('.more td[data-bytes]').length,
  bytes: row[1].parentNode.querySelector('.more td[data-bytes]').dataset.bytes});
set('-4');
Object.assign(out, {invalid: input.getAttribute('aria-invalid'), kept: location.hash});
const find = $('.search input')[0];
find.value = 'GELU';
find.dispatchEvent(new Event('input'));
find.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter'}));
Object.assign(out, {found: $('.l.found').map(e => Number(e.dataset.n)), now: Number($('.l.now')[0].dataset.n)});
document.body.dataset.answer = JSON.stringify(out);
"""


def test_pointing_typing_and_keys(artifacts, tmp_path):
    data = artifacts["network"]
    plan, lines = data["artifact"]["plan"], data["ir"].splitlines()
    runs = [(i, k) for i, k in enumerate(plan["kernels"]) if k["stage"] == "run"]
    out = answer(visit(write_page(data, tmp_path / "p.html", INTERACT)))

    def touched(kernel: dict, *words: str) -> set[str]:
        names = {entry["tensor"] for word in words for entry in kernel[word]}
        return {n for n in names if n.startswith("value ")}

    index, kernel = runs[1]
    joined = [i for i, k in runs if i != index and (touched(k, "writes") & touched(kernel, "reads")
                                                    or touched(k, "reads") & touched(kernel, "writes"))]
    assert out["on"] == [index] and out["near"] == joined != []
    assert {f"value {v}" for v in out["rects"]} == touched(kernel, "reads", "writes")
    assert out["hit"] == [i for i, line in enumerate(lines, 1) if "kiln.matmul" in line or "kiln.add" in line]
    assert out["left"] == 0 and out["focus"] == runs[1][0] and out["stops"] == 1
    assert out["users"] == [i for i, k in runs if "value 1" in touched(k, "reads", "writes")]
    op = plan["memory"][0]["values"][1]["op"]
    assert f"value 1: {op}" in out["tip"] and f"value 1: {op}" in out["readout"]
    assert out["open"] == "true" and out["hash"] == out["kept"] == "#n=3" and out["invalid"] == "true"
    assert out["operands"] == len(kernel["reads"]) + len(kernel["writes"])
    assert out["bytes"] == str(value(kernel["reads"][0]["bytes"], n=3))
    found = [i for i, line in enumerate(lines, 1) if "gelu" in line]
    assert out["found"] == found and out["now"] == found[1]


def test_a_plan_without_operands_and_a_file_of_two_graphs(artifacts, tmp_path):
    first, second = copy.deepcopy(artifacts["network"]), copy.deepcopy(artifacts["places"])
    plan = first["artifact"]["plan"]
    for kernel in plan["kernels"]:
        del kernel["reads"], kernel["writes"], kernel["flops"]
    for key in ("kernels", "memory"):
        plan[key] += second["artifact"]["plan"][key]
    first["artifact"]["graphs"] += second["artifact"]["graphs"]
    first["ir"] = ""
    script = "const tabs = document.querySelectorAll('[role=tab]'); if (location.hash) tabs[1].click()"
    page = write_page(first, tmp_path / "p.html", script)
    document = visit(page)
    assert {row["data-read"] for row in document.all("li", data_kernel=None)} == {""}
    assert document.all(data_total="flops") == [] and document.all("canvas") == []
    assert [tab.text for tab in document.all(role="tab")] == ["network", "places"]
    other = visit(page, "#rows=4&columns=6")
    assert [int(row["data-kernel"]) for row in other.all("li", data_stage="run")] == [
        i for i, k in enumerate(plan["kernels"]) if k["graph"] == "places" and k["stage"] == "run"]
    assert {i["data-symbol"]: i["value"] for i in other.all("input", data_symbol=None)} == {"rows": "4", "columns": "6"}


@pytest.mark.parametrize("width", [500, 1000, 1500])
def test_how_it_looks(width, artifacts, tmp_path):
    script = "document.body.dataset.answer = JSON.stringify(document.documentElement.scrollWidth)"
    page = write_page(artifacts["network"], tmp_path / "p.html", script)
    assert answer(visit(page, width=width)) <= width  # nothing sticks out
    means = []
    for scheme in (1, 0):  # light, dark
        flags = [f"--blink-settings=preferredColorScheme={scheme}", "--force-device-scale-factor=0.5"]
        image = look(page, (width, 1600), *flags)
        assert image.shape == (800, width // 2, 3)
        assert len(set(map(bytes, image.reshape(-1, 3)))) > 100
        for part in np.array_split(image, 4):
            assert part.std() > 2
        means.append(image.mean())
    assert means[0] > 200 and means[1] < 60
