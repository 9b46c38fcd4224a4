"""What the functions over tensors say about themselves: the text and the signature of the ops that they are made of.

It imports nothing of kiln, so that the script that writes the stubs can read it without a build.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from typing import Any

# What an op takes and gives, and what its function over tensors does.
_TYPES = [
    (r"\bkiln\._core\.graph\.(TensorValue|BufferValue|Value)\b(?!Like)", "kiln._core.experimental.Tensor"),
    (r"(?<![\w.])(TensorValue|BufferValue|Value)\b(?!Like)", "kiln._core.experimental.Tensor"),
]


def typed(annotation: str) -> str:
    """A type in the signature of an op as that of its function over tensors."""
    for pattern, replacement in _TYPES:
        annotation = re.sub(pattern, replacement, annotation)
    return annotation


def text_of(op: Any) -> str:
    """The doc text of an op."""
    return op.__nb_signature__[0][1]  # type: ignore[no-any-return]


def signature_of(op: Any) -> inspect.Signature:
    """The signature of the function over tensors that is made of an op."""
    text, _, defaults = op.__nb_signature__[0]
    # Defaults stand in the text as a backslash and their number; not every function has a name.
    text = re.sub(r"\\(\d+)", r"_(\1)", re.sub(r"^def \w*", "def op", text))
    parsed: Any = ast.parse(f"{text}: ...").body[0]
    arguments = parsed.args

    def parameter(argument: ast.arg, kind: Any, default: Any) -> inspect.Parameter:
        value = inspect.Parameter.empty
        if isinstance(default, ast.Call):
            value = defaults[ast.literal_eval(default.args[0])]
        elif default is not None:
            value = ast.literal_eval(default)
        return inspect.Parameter(argument.arg, kind, default=value, annotation=annotation(argument.annotation))

    def annotation(node: Any) -> Any:
        return inspect.Parameter.empty if node is None else typed(ast.unparse(node))

    def parameters() -> Iterator[inspect.Parameter]:
        positional = [*arguments.posonlyargs, *arguments.args]
        missing = [None] * (len(positional) - len(arguments.defaults))
        for i, (argument, default) in enumerate(zip(positional, [*missing, *arguments.defaults], strict=True)):
            is_first = i < len(arguments.posonlyargs)
            kind = inspect.Parameter.POSITIONAL_ONLY if is_first else inspect.Parameter.POSITIONAL_OR_KEYWORD
            yield parameter(argument, kind, default)
        if arguments.vararg:
            yield parameter(arguments.vararg, inspect.Parameter.VAR_POSITIONAL, None)
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            yield parameter(argument, inspect.Parameter.KEYWORD_ONLY, default)
        if arguments.kwarg:
            yield parameter(arguments.kwarg, inspect.Parameter.VAR_KEYWORD, None)

    return inspect.Signature(list(parameters()), return_annotation=annotation(parsed.returns))
