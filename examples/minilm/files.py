"""Reads the files of the examples; what is wrong with one becomes a sentence that names it."""

from __future__ import annotations

import argparse
import json
import os
import pathlib


def read_text(path: str | os.PathLike, advice: str) -> str:
    """The text of a UTF-8 file without a byte order mark."""
    try:
        text = pathlib.Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise OSError(describe(error)) from None
    except UnicodeDecodeError as error:
        raise ValueError(f"'{path}' is no UTF-8 text: see byte {error.start}. {advice}") from None
    if "\0" in text:  # UTF-16 without a mark, or no text at all
        raise ValueError(f"'{path}' is no UTF-8 text: see byte {text.index(chr(0))}. {advice}")
    return text


def read_json(path: str | os.PathLike) -> dict:
    """The object that a JSON file holds."""
    text = read_text(path, "It must be a JSON file.")
    try:
        values = json.loads(text)
    except ValueError as error:
        raise ValueError(f"'{path}' is no JSON: {error}.") from None
    if not isinstance(values, dict):
        raise ValueError(f"'{path}' holds a {type(values).__name__}, not a JSON object.")
    return values


def read_sentences(path: str | os.PathLike) -> list[str]:
    """The lines of a text file that hold more than blanks."""
    lines = read_text(path, "Save the sentences as UTF-8, one a line.").splitlines()
    return [line.strip() for line in lines if line.strip()]


def describe(error: Exception) -> str:
    """The sentence to print for an error."""
    if isinstance(error, OSError) and error.strerror:
        return f"Cannot use '{error.filename}': {error.strerror}."
    return str(error)


def count(text: str) -> int:
    """A number of things given on the command line."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is not 0 or a positive number")
    return int(text)
