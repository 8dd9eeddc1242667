"""The guarded LibCST parse, and the large stack that deep trees need."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from devlint.syntax.lazy import cst

STACK_BYTES = 64 * 1024 * 1024
"""LibCST's native parser recurses on the C stack; on one of 1 MiB it dies at 190 nested calls. Reserved, not used."""

_STACK_PER_BYTE = 100 if sys.version_info < (3, 11) else 0
"""Python 3.10's own parser follows a chain of any length, at about 150 bytes of stack for each `.a`, and dies at the
end of the stack; later ones count, and raise."""

RECURSION = 20_000
"""Python frames, for trees as deep as the screen lets through; about eight frames a level."""

T = TypeVar("T")

_lock = threading.Lock()
_at_work = 0
_usual = 0


class Refused(Exception):
    """LibCST refused valid Python; `args[0]` holds its words in one line, `row` (from 1) the place."""

    def __init__(self, message: str, row: int = 1) -> None:
        super().__init__(message)
        self.row = row


def on_large_stack(work: Callable[[], T], size: int = 0) -> T:
    """Run work in a thread whose stack stands the screen's limits, and hand its result or exception over.

    `size` is that of the text which is parsed in it, in bytes.
    """
    outcome: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # raised again in the caller's thread
            failure.append(error)

    # A daemon: Ctrl-C in the caller's thread ends the process, whatever this one is at.
    thread = threading.Thread(target=run, name="devlint", daemon=True)
    with _lock:
        old = threading.stack_size(STACK_BYTES + size * _STACK_PER_BYTE)
        try:
            thread.start()
        finally:
            threading.stack_size(old)
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]


@contextlib.contextmanager
def deep_recursion() -> Iterator[None]:
    """Let Python recurse as deep as the inference of a tree within the limits needs; to be used on a large stack.

    The limit is the whole process's: the last one to leave sets it back.
    """
    global _at_work, _usual
    with _lock:
        if _at_work == 0:
            _usual = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_usual, RECURSION))
        _at_work += 1
    try:
        yield
    finally:
        with _lock:
            _at_work -= 1
            if _at_work == 0:
                sys.setrecursionlimit(_usual)


def parse(text: str) -> cst.Module:
    """Parse text that `ast` accepted and the screen measured; to be called on a large stack. Raises Refused."""
    try:
        return cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        raise Refused(" ".join(error.message.split()), error.raw_line) from None
    except MemoryError:
        raise
    except Exception as error:  # LibCST lets errors of its own through, as AttributeError on valid but rare syntax
        raise Refused(_words(error)) from None
    except BaseException as error:
        # A panic of the native parser is no Exception.
        if type(error).__name__ == "PanicException":
            raise Refused(_words(error)) from None
        raise


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]
