"""A process that ends while kiln works, or has something to say, keeps its exit status."""

import pytest
from processes import start

pytestmark = pytest.mark.engine


def ends(program, **variables):
    process = start(program, **variables)
    output, errors = process.communicate(timeout=120)
    return process.returncode, output, errors


@pytest.mark.compiler
@pytest.mark.parametrize("wait", [0, 0.05])
@pytest.mark.parametrize("keep", [True, False])
def test_while_a_graph_is_compiled_in_the_background(wait, keep):
    status, _, errors = ends(f"""
        import sys, time
        from kiln.dtype import DType
        from kiln.engine import InferenceSession
        from kiln.graph import DeviceRef, Graph, TensorType, ops

        def build(x):
            for k in range(40):
                x = ops.softmax(ops.exp(x * k), k % 2)
            return x

        session = InferenceSession()
        graph = Graph("slow", build, [TensorType(DType.float32, ["n", 16], DeviceRef.CPU())])
        compiled = session.compile_async(graph)
        if not {keep}:
            del compiled
        time.sleep({wait})
        sys.exit(5)
    """, KILN_CACHE="0")
    assert (status, errors) == (5, "")


@pytest.mark.parametrize("path", ["/nonexistent/trace.json", "/proc/trace.json", "."])
def test_a_trace_that_cannot_be_written(path):
    status, _, errors = ends("import kiln.driver, sys; sys.exit(4)", KILN_TRACE=path)
    assert status == 4
    assert errors.startswith("kiln: warning: ") and path in errors and len(errors.splitlines()) == 1
