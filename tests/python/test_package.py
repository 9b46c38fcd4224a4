import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

import kiln


def test_version():
    assert kiln.__version__.count(".") == 2


def test_import_loads_no_numpy_and_no_layers():
    code = "import sys, kiln; print([m for m in ('numpy', 'kiln.graph', 'kiln.engine') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_unknown_attribute():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        kiln.nothing  # noqa: B018
    assert "dtype" in dir(kiln)


def test_internal_error():
    assert issubclass(kiln.InternalError, RuntimeError)


def modules():
    names = [m.name for m in pkgutil.walk_packages(kiln.__path__, "kiln.") if "._core" not in m.name]
    native = [n for n in sys.modules if n.startswith("kiln._core.")]
    return ["kiln", *sorted(names), *sorted(native)]


@pytest.mark.parametrize("name", modules())
def test_examples_in_docstrings(name):
    module = importlib.import_module(name)
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    for test in examples_of(module, finder):
        runner.run(test)
    assert runner.failures == 0


def examples_of(module, finder):
    """The module's examples; native members are not found by doctest, so each is looked up."""
    if "._core" not in module.__name__:
        return finder.find(module, module.__name__)
    found, parser = [], doctest.DocTestParser()
    pending = [(f"{module.__name__}.{k}", v) for k, v in vars(module).items() if k[0] != "_"]
    while pending:
        name, item = pending.pop()
        text = getattr(item, "__doc__", None)
        if isinstance(text, str) and ">>>" in text:
            found.append(parser.get_doctest(text, {}, name, None, None))
        if isinstance(item, type):
            pending += [(f"{name}.{k}", v) for k, v in vars(item).items() if k[0] != "_"]
    return found
