"""Work counted in calls of Python functions: what a test can bound, since seconds depend on the machine."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType


def calls_of(work: Callable[[], object]) -> int:
    """How many Python functions are called while work runs, in this thread and those that it starts."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return count
