"""The sentence of a call whose arguments fit no signature of a native function."""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple


def _is_integer(value: Any) -> bool:
    try:  # arrays have __index__ and may not be integers
        operator.index(value)
    except Exception:  # noqa: BLE001: a class of the user's may raise anything
        return False
    return True


# Written as Python's own rules for conversions have it: an int is a float, a bool is an int.
_BUILTINS: dict[str, Callable[[Any], bool]] = {
    "None": lambda v: v is None,
    "bool": lambda v: isinstance(v, bool),
    "int": _is_integer,
    "float": lambda v: hasattr(v, "__float__") or hasattr(v, "__index__"),
    "str": lambda v: isinstance(v, str),
    "dict": lambda v: isinstance(v, dict),
    "collections.abc.Callable": callable,
}
_TOO_LARGE = " within its range, not "
# Conversions that explain themselves take any object and raise their own errors.
_ANYTHING = ("object", "Any", "kiln.graph.", "collections.abc.Iterable[kiln._core.graph.Dim")


class _Parameter(NamedTuple):
    name: str
    annotation: str
    required: bool


class _Signature(NamedTuple):
    text: str
    parameters: list[_Parameter]
    positional: int
    more_positional: bool  # *args
    more_keywords: bool  # **kwargs


def _split(text: str, separator: str) -> Iterator[str]:
    """Parts of `text` between separators that stand outside of brackets."""
    depth = start = 0
    for i, char in enumerate(text):
        depth += (char in "([") - (char in ")]")
        if char == separator and depth == 0:
            yield text[start:i].strip()
            start = i + 1
    if text[start:].strip():
        yield text[start:].strip()


def _parse(text: str, defaults: tuple[Any, ...], name: str, skip_self: bool) -> _Signature:
    inside = text[text.index("(") + 1 : text.rindex(")", 0, (text + " ->").index(" ->"))]
    shown, parameters, positional, more = [], [], None, set()
    for index, part in enumerate(_split(inside, ",")):
        if index == 0 and skip_self:
            continue
        label = re.sub(r"= \\(\d+)", lambda m: f"= {defaults[int(m[1])]!r}", part)
        shown.append(re.sub(r"\bkiln\.(?:_core\.)?(?:\w+\.)*", "", label).replace("collections.abc.", ""))
        if part in ("*", "/") or part.startswith("*"):
            more.add("**" if part.startswith("**") else "*args" if part not in ("*", "/") else part)
            positional = len(parameters) if part != "/" and positional is None else positional
            continue
        declared, _, default = part.partition(" = ")
        argument, _, annotation = declared.partition(": ")
        parameters.append(_Parameter(argument, annotation, not default))
    count = len(parameters) if positional is None else positional
    return _Signature(f"{name}({', '.join(shown)})", parameters, count, "*args" in more, "**" in more)


def _fits(value: Any, annotation: str) -> bool | None:
    """Whether `value` has the type; None where only the conversion itself can tell."""
    if value is None and annotation.startswith("collections.abc."):
        return False
    if not annotation or annotation.startswith(_ANYTHING):
        return True
    alternatives = list(_split(annotation, "|"))
    if len(alternatives) > 1:
        answers = [_fits(value, alternative) for alternative in alternatives]
        return True if True in answers else None if None in answers else False
    if annotation in _BUILTINS:
        return _BUILTINS[annotation](value)
    if (element := re.fullmatch(r"(?:collections\.abc\.(?:Sequence|Iterable)|list|tuple)\[(.*)\]", annotation)) or (
        annotation.startswith(("collections.abc.", "list", "tuple"))
    ):
        if not isinstance(value, Iterable) or isinstance(value, str | bytes):
            return False
        answers = [_fits(v, element[1]) for v in value] if element and hasattr(value, "__len__") else []
        return False if False in answers else None
    last = annotation.rpartition(".")[2]
    return any(base.__name__ == last for base in type(value).__mro__)


def _type_name(annotation: str) -> str:
    short = re.sub(r"\bkiln\.(?:_core\.)?(?:\w+\.)*", "", annotation).replace("collections.abc.", "")
    return " or ".join(_split(short, "|"))


def _given(value: Any) -> str:
    kind = type(value).__name__
    if value is None:
        return "None"
    text = repr(value)
    return f"{text} of type {kind}" if len(text) <= 60 else f"a value of type {kind}"


def _reason(signature: _Signature, args: list[Any], kwargs: Mapping[str, Any]) -> tuple[int, str]:
    """What is wrong with the call by one signature, and how close the call came."""
    names = [p.name for p in signature.parameters]
    by_position = names[: min(len(args), signature.positional)]
    if len(args) > signature.positional and not signature.more_positional:
        plural = "" if signature.positional == 1 else "s"
        most = f"at most {signature.positional}" if signature.positional else "no"
        given = f"{len(args)} {'was' if len(args) == 1 else 'were'} given"
        return 0, f"takes {most} positional argument{plural}, but {given}"
    for name in kwargs:
        if name not in names and not signature.more_keywords:
            return 0, f"has no argument {name!r}"
        if name in by_position:
            return 0, f"got argument {name!r} twice"
    bound = {**dict(zip(by_position, args, strict=False)), **kwargs}
    for parameter in signature.parameters:
        if parameter.required and parameter.name not in bound:
            return 0, f"needs argument {parameter.name!r}"
    undecided = []
    close = 1
    for parameter in signature.parameters:
        if parameter.name not in bound:
            continue
        value = bound[parameter.name]
        wanted = f"argument {parameter.name!r} must be {_type_name(parameter.annotation)}, not {_given(value)}"
        answer = _fits(value, parameter.annotation)
        if answer is False:
            return close, wanted
        # What takes any object says nothing about the signature that was meant.
        close += not parameter.annotation.startswith(_ANYTHING)
        if answer is None or _is_number(parameter.annotation):
            undecided.append(wanted.replace(", not ", _TOO_LARGE) if answer else wanted)
    if len(undecided) == 1:
        return 1, undecided[0]
    given = ", ".join([_given(v) for v in args] + [f"{k}={_given(v)}" for k, v in kwargs.items()])
    return 1, f"does not take these arguments: {given}"


def _is_number(annotation: str) -> bool:
    return any(part in ("int", "float") for part in _split(annotation, "|"))


def _joined(signatures: list[_Signature]) -> str:
    return " or ".join(dict.fromkeys(s.text for s in signatures))


def explain(path: str, function: Any, args: list[Any], kwargs: Mapping[str, Any]) -> Exception:
    """The error of a call of the function that lies at `path` below kiln._core: a ValueError for a number that is too
    large, else a TypeError."""
    text = _sentence(path, function, args, kwargs)
    return ValueError(text) if _TOO_LARGE in text else TypeError(text)


def _sentence(path: str, function: Any, args: list[Any], kwargs: Mapping[str, Any]) -> str:
    owner, _, member = path.rpartition(".")
    is_method = type(function).__name__ == "nb_method"
    name = re.sub(r"^(?:\w+\.)*?(?=ops\.|[A-Z]|\w+$)", "", path)
    if member in ("__init__", "__new__"):
        name = owner.rpartition(".")[2]
    signatures = [
        _parse(text, defaults[0] if defaults else (), name, is_method or member == "__new__")
        for text, _, *defaults in function.__nb_signature__
    ]
    if is_method or member == "__new__":
        args = args[1:]
    if not signatures or not function.__name__:  # the setter of a property
        annotation = signatures[0].parameters[-1].annotation if signatures else ""
        return f"{name} must be {_type_name(annotation)}, not {_given(args[-1])}."
    # A class whose objects are made by `__new__` has one without arguments, for unpickling.
    signatures = [s for s in signatures if s.parameters] or signatures
    if len(signatures) > 1 and all(len(s.parameters) == 1 for s in signatures) and len(args) + len(kwargs) < 2:
        types = " or ".join(_type_name(s.parameters[0].annotation) for s in signatures)
        if not args and not kwargs:
            return f"{name}: needs an argument, {types}. It is called as {_joined(signatures)}."
        if args:
            wrong = f"the argument must be {types}, not {_given(args[0])}"
            return f"{name}: {wrong}. It is called as {_joined(signatures)}."
    _, reason = max((_reason(s, args, kwargs) for s in signatures), key=lambda found: found[0])
    known = {p.name for s in signatures for p in s.parameters}
    if reason.startswith("has no argument") and known.issuperset(kwargs):
        names = ", ".join(repr(name) for name in kwargs)
        reason = f"no form of it takes the arguments {names} together"
    return f"{name}: {reason}. It is called as {_joined(signatures)}."
