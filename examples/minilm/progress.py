"""Progress of long steps: what, how far and how long, on one line of a terminal."""

from __future__ import annotations

import sys
import threading
import time


class Step:
    """A long step. On a terminal its line is redrawn until it ends; elsewhere nothing is shown.

    with Step("Embedding") as step:
        step.update("3 of 12")
    print(step.seconds)
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self.far = ""
        self.seconds = 0.0
        self._live = sys.stderr.isatty()
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def update(self, far: str) -> None:
        """Says how far the step is, such as "3 of 12"."""
        self.far = far

    def _draw(self) -> None:
        while not self._done.wait(0.2):
            seconds = time.perf_counter() - self._start
            sys.stderr.write(f"\r\033[K{self.what} … {seconds:.1f} s  {self.far}")
            sys.stderr.flush()

    def __enter__(self) -> Step:
        self._start = time.perf_counter()
        if self._live:
            self._thread = threading.Thread(target=self._draw, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        self.seconds = time.perf_counter() - self._start
        self._done.set()
        if self._thread:
            self._thread.join()
            outcome = "failed after" if error else "done in"
            sys.stderr.write(f"\r\033[K{self.what}: {outcome} {self.seconds:.2f} s\n")
