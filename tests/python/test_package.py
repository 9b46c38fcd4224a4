import doctest
import importlib
import os
import pkgutil
import shutil
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


@pytest.mark.parametrize("build_folder", [False, True])
def test_a_tree_that_is_not_built_says_so(build_folder, tmp_path):
    package = tmp_path / "python" / "kiln"
    (package / "_core").mkdir(parents=True)  # the stubs
    shutil.copy(kiln.__file__, package / "__init__.py")
    if build_folder:
        (tmp_path / "build/release/python/kiln/_core").mkdir(parents=True)
    command = [sys.executable, "-c", "import kiln"]
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    out = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert out.returncode == 1
    assert "ModuleNotFoundError: kiln is not built" in out.stderr and "make build" in out.stderr


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
