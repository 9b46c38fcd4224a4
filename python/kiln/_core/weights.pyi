"""Weight files."""

from collections.abc import Iterator

import kiln._core.driver


class Safetensors:
    """The tensors of safetensors files by name, mapped, not copied."""

    def __init__(self, *args, **kwargs) -> None: ...

    def __len__(self) -> int: ...

    def __contains__(self, arg: object | None, /) -> bool: ...

    def __getitem__(self, arg: str, /) -> kiln._core.driver.Buffer: ...

    def __iter__(self) -> Iterator: ...

    def keys(self) -> list:
        """The names, in file order."""

    def values(self) -> list:
        """The buffers, in file order."""

    def items(self) -> list:
        """Pairs of name and buffer, in file order."""

    def get(self, name: str, default: object | None = None) -> object:
        """The buffer, or the default."""

    @property
    def metadata(self) -> dict[str, str]:
        """The strings of `__metadata__`."""

    def __repr__(self) -> str: ...

def load_safetensors(paths: object | None) -> Safetensors:
    """
    Maps files; a folder stands for its *.safetensors files, sorted by name.
    """
