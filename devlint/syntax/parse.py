"""The guarded LibCST parse, and the large stack that deep trees need."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

from devlint.syntax.lazy import cst

STACK_BYTES = 64 * 1024 * 1024
"""LibCST's native parser recurses on the C stack; on one of 1 MiB it dies at 190 nested calls. Reserved, not used."""


RECURSION = 20_000
"""Python frames, for trees as deep as the screen lets through; about eight frames a level."""

T = TypeVar("T")


class Refused(Exception):
    """LibCST refused valid Python; `args[0]` holds its words in one line."""


def on_large_stack(work: Callable[[], T]) -> T:
    """Run work in a thread whose stack stands the screen's limits, and hand its result or exception over."""
    outcome: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:  # raised again in the caller's thread
            failure.append(error)

    limit = sys.getrecursionlimit()
    old = threading.stack_size(STACK_BYTES)
    try:
        thread = threading.Thread(target=run, name="devlint")
        sys.setrecursionlimit(max(limit, RECURSION))
        thread.start()
    finally:
        threading.stack_size(old)
    thread.join()
    sys.setrecursionlimit(limit)
    if failure:
        raise failure[0]
    return outcome[0]


def parse(text: str) -> cst.Module:
    """Parse text that `ast` accepted and the screen measured; to be called on a large stack. Raises Refused."""
    try:
        return cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        raise Refused(" ".join(error.message.split())) from None
    except Exception as error:  # LibCST lets errors of its own through, as AttributeError on valid but rare syntax
        raise Refused(f"{type(error).__name__}: {error}".splitlines()[0]) from None
