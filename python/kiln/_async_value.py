"""Results that may be pending."""

import asyncio
import threading
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class AsyncValue(Generic[T]):
    """A result that is there or will be: a value or an error. Safe from any thread.

    Callbacks run on the thread that sets the result, or at once when it is there; what they raise is dropped, save by
    `and_then`.

    >>> from kiln.engine import AsyncValue
    >>> value = AsyncValue()
    >>> doubled = value.and_then(lambda x: 2 * x)
    >>> value.set_result(21)
    >>> doubled.result()
    42
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[AsyncValue[T]], object]] = []
        self._settable = True

    @classmethod
    def from_future(cls, future: Any) -> "AsyncValue[T]":
        """The result of a future of asyncio or concurrent.futures."""
        value = cls()
        value._settable = False

        def take(done: Any) -> None:
            try:
                value._settle(done.result(), None)
            except BaseException as error:
                value._settle(None, error)

        future.add_done_callback(take)
        return value

    def done(self) -> bool:
        """Whether the result is there. Does not block."""
        return self._done

    def is_error(self) -> bool:
        """Whether it is there and an error."""
        return self._done and self._error is not None

    def wait(self) -> None:
        """Blocks until the result is there; raises nothing."""
        with self._changed:
            self._changed.wait_for(lambda: self._done)

    def result(self) -> T:
        """The value; raises the error when it is one. Pending: asyncio.InvalidStateError."""
        self._check_done()
        if self._error is not None:
            raise self._error
        return self._value

    def exception(self) -> BaseException | None:
        """The error, or None for a value. Pending: asyncio.InvalidStateError."""
        self._check_done()
        return self._error

    def add_done_callback(self, fn: "Callable[[AsyncValue[T]], object]") -> None:
        """Calls `fn(self)` once the result is there."""
        with self._changed:
            if not self._done:
                self._callbacks.append(fn)
                return
        self._run(fn)

    def and_then(self, fn: Callable[[T], U]) -> "AsyncValue[U]":
        """What `fn` makes of the value; an error of this result or of `fn` is the error of the new one."""
        value: AsyncValue[U] = AsyncValue()
        value._settable = False

        def follow(done: AsyncValue[T]) -> None:
            try:
                value._settle(fn(done.result()), None)
            except BaseException as error:
                value._settle(None, error)

        self.add_done_callback(follow)
        return value

    def set_result(self, value: T) -> None:
        """Sets the value. There already, or a result of kiln's own work: asyncio.InvalidStateError."""
        self._check_settable()
        self._settle(value, None)

    def set_exception(self, error: BaseException) -> None:
        """Sets the error, as `set_result`."""
        if not isinstance(error, BaseException):
            raise TypeError(f"set_exception() expects an exception, got {type(error)!r}.")
        self._check_settable()
        self._settle(None, error)

    def __await__(self) -> Generator[Any, None, T]:
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def wake(_: object) -> None:
            if not future.done():
                future.set_result(None)

        self.add_done_callback(lambda done: loop.call_soon_threadsafe(wake, done))
        yield from future.__await__()
        return self.result()

    def __repr__(self) -> str:
        state = "pending" if not self._done else "error" if self._error is not None else "done"
        return f"<kiln engine AsyncValue ({state})>"

    def _check_done(self) -> None:
        if not self._done:
            raise asyncio.InvalidStateError("The result is not there yet; wait() blocks until it is.")

    def _check_settable(self) -> None:
        if not self._settable:
            raise asyncio.InvalidStateError("The result of kiln's own work cannot be set from outside.")

    def _settle(self, value: Any, error: BaseException | None) -> None:
        with self._changed:
            if self._done:
                raise asyncio.InvalidStateError("The result is there already and cannot be set.")
            self._value, self._error, self._done = value, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for fn in callbacks:
            self._run(fn)

    def _run(self, fn: "Callable[[AsyncValue[T]], object]") -> None:
        try:
            fn(self)
        except Exception:  # the result is there whatever its readers do
            pass
