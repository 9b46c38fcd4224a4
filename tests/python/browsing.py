"""Looks at pages in a real browser: their elements after scripts ran, what they log, and how they look."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import zlib
from html.parser import HTMLParser
from pathlib import Path

import numpy as np

# The browser is no program of kiln: libraries that a sanitizer preloads do not belong into it.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD" and not k.startswith("KILN_")}
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Element:
    def __init__(self, tag: str, attributes: dict[str, str]) -> None:
        self.tag, self.attributes, self.children = tag, attributes, []

    def __getitem__(self, name: str) -> str:
        return self.attributes[name]

    def walk(self):
        """This element and all below, in the order of the document."""
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child.walk()

    def all(self, tag: str | None = None, **attributes: str | None) -> list[Element]:
        """Elements of a tag that have these attributes; `data_x="1"` asks for data-x, None for any value."""
        wanted = {k.rstrip("_").replace("_", "-"): v for k, v in attributes.items()}
        return [e for e in self.walk() if tag in (None, e.tag) and all(
            k in e.attributes and v in (None, e[k]) for k, v in wanted.items())]

    def one(self, tag: str | None = None, **attributes: str | None) -> Element:
        (found,) = self.all(tag, **attributes)
        return found

    def classes(self) -> list[str]:
        return self.attributes.get("class", "").split()

    @property
    def text(self) -> str:
        return "".join(c.text if isinstance(c, Element) else c for c in self.children)


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Element("", {})
        self.open = [self.root]

    def handle_starttag(self, tag, attributes):
        element = Element(tag, {k: v or "" for k, v in attributes})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        if any(e.tag == tag for e in self.open[1:]):
            while self.open.pop().tag != tag:
                pass

    def handle_data(self, data):
        self.open[-1].children.append(data)


def start(page: Path, *flags: str, fragment: str = "") -> tuple[str, list[str]]:
    """What the browser prints, and the lines that the page logged."""
    command = ["chromium-headless-shell", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
               "--hide-scrollbars", "--enable-logging=stderr", "--virtual-time-budget=5000",
               f"--user-data-dir={page.parent / 'profile'}", *flags, page.as_uri() + fragment]
    done = subprocess.run(command, capture_output=True, timeout=120, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
    errors = done.stderr.decode(errors="replace").splitlines()
    return done.stdout.decode(), [line for line in errors if "CONSOLE" in line]


def visit(page: Path, fragment: str = "", width: int = 1500) -> Element:
    """The document after its scripts ran, which must have logged nothing."""
    printed, logged = start(page, "--dump-dom", f"--window-size={width},1200", fragment=fragment)
    assert logged == []
    reader = Reader()
    reader.feed(printed)
    return reader.root


def answer(document: Element):
    """What a script of the test left behind as JSON in `document.body.dataset.answer`."""
    return json.loads(document.one("body")["data-answer"])


def look(page: Path, size: tuple[int, int], *flags: str, fragment: str = "") -> np.ndarray:
    """The page as pixels of red, green and blue."""
    picture = page.with_suffix(".png")
    _, logged = start(page, f"--window-size={size[0]},{size[1]}", f"--screenshot={picture}", *flags, fragment=fragment)
    assert logged == []
    return pixels(picture.read_bytes())


def pixels(png: bytes) -> np.ndarray:
    """The pixels of a PNG with eight bits a channel, as its specification says."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, header = 8, b"", None
    while at < len(png):
        (length,), kind = struct.unpack(">I", png[at:at + 4]), png[at + 4:at + 8]
        body = png[at + 8:at + 8 + length]
        if kind == b"IHDR":
            header = struct.unpack(">IIBBBBB", body)
        elif kind == b"IDAT":
            packed += body
        at += length + 12
    width, height, depth, color, _, _, interlaced = header
    assert depth == 8 and color in (2, 6) and not interlaced
    channels = 3 if color == 2 else 4
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + width * channels)
    image = np.zeros((height, width, channels), np.uint8)
    above = np.zeros((width, channels), np.uint8)
    for y, row in enumerate(rows):
        line = row[1:].reshape(width, channels).copy()
        if row[0] == 1:
            line = np.cumsum(line, axis=0, dtype=np.uint8)
        elif row[0] == 2:
            line += above
        elif row[0] in (3, 4):
            line = filtered(row[0], line.tolist(), above.tolist())
        image[y] = above = line
    return image[:, :, :3]


def filtered(kind: int, line: list, above: list) -> np.ndarray:
    """The row behind the filters Average (3) and Paeth (4), where each pixel needs the one before."""
    left, corner = [0] * len(line[0]), [0] * len(line[0])
    for pixel, up in zip(line, above):
        for i, value in enumerate(pixel):
            a, b, c = left[i], up[i], corner[i]
            if kind == 3:
                guess = (a + b) // 2
            else:
                guess = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
            pixel[i] = (value + guess) % 256
        left, corner = pixel, up
    return np.array(line, np.uint8)
