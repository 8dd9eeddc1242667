"""A progress line on stderr, for runs that take long enough to wonder, on a terminal only."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

_Item = TypeVar("_Item")

DELAY = 1.0
"""Seconds before the line first appears."""

INTERVAL = 0.1
"""Seconds between two changes of the line."""


def progress(items: Iterable[_Item], total: int, *, wanted: bool) -> Iterator[_Item]:
    """Hand on `items`, of which there are `total`, and show how many have come by."""
    stream = sys.stderr
    if not wanted or stream is None or not stream.isatty():
        yield from items
        return
    due = time.monotonic() + DELAY
    shown = ""
    try:
        for done, item in enumerate(items, start=1):
            now = time.monotonic()
            if now >= due:
                shown = bar(done, total)
                stream.write(f"\r{shown}")
                stream.flush()
                due = now + INTERVAL
            yield item
    finally:
        if shown:
            stream.write(f"\r{' ' * len(shown)}\r")
            stream.flush()


def bar(done: int, total: int, width: int = 30) -> str:
    """The line itself: a bar of `width` characters, and the numbers."""
    filled = width * done // max(total, 1)
    return f"[{'#' * filled}{'.' * (width - filled)}] {done}/{total} files"
